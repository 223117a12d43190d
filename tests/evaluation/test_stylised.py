"""FedStyle Eq. 4 as features of a classifier: in loops, by property, by value."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn

from furlkit.errors import FurlkitError, InputError
from furlkit.evaluation.linear import LinearSettings, draw_start, fit_linear
from furlkit.evaluation.stylised import Pair, fit_stylised, stylised

N, D, CLASSES = 12, 3, 2
SGD = LinearSettings("sgd", lr=0.1, weight_decay=0.01, momentum=0.5, epochs=3)


@pytest.fixture
def pair():
    rng = torch.Generator().manual_seed(1)
    return Pair(*torch.randn(2, N, D, generator=rng).unbind())


@pytest.fixture
def labels():
    return torch.arange(N) % CLASSES


@pytest.fixture
def G():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(2 * D, 4), nn.ReLU(), nn.Linear(4, D))


def drawn(seed=3):
    return torch.Generator().manual_seed(seed)


def test_h_is_content_and_what_the_generator_makes_of_both_in_loops(pair, G):
    for n in range(N):
        both = [*pair.content[n].tolist(), *pair.style[n].tolist()]
        made = G(torch.tensor(both))
        expected = [pair.content[n, d].item() + made[d].item() for d in range(D)]
        assert stylised(G, pair)[n].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_generator_of_zeros_leaves_the_content(pair):
    G = nn.Linear(2 * D, D, bias=False)
    nn.init.zeros_(G.weight)
    assert torch.equal(stylised(G, pair), pair.content)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_a_frozen_generator_gives_the_head_of_a_linear_probe(
    pair, labels, G, optimiser
):
    """Milestones, batches, a partial one, momentum and decay included."""
    how = replace(SGD, optimiser=optimiser, epochs=6, batch_size=5, milestones=(2, 4))
    (fit,) = fit_stylised(
        pair, labels, CLASSES, how, [drawn()], deepcopy(G).requires_grad_(False)
    )
    with torch.no_grad():
        h = stylised(G, pair)
    (head,) = fit_linear(h, labels, CLASSES, how, [drawn()])
    torch.testing.assert_close(fit.head.weight, head.weight, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fit.head.bias, head.bias, rtol=1e-4, atol=1e-5)
    assert all(map(torch.equal, fit.G.parameters(), G.parameters()))


def test_one_step_of_both_by_hand(pair, labels):
    """G = W [h_c; h_s], logits = V h + b: with e = (softmax - onehot) / N,

    dV = e^T h,   db = e^T 1,   dW = (e V)^T [h_c; h_s]
    """
    G = nn.Linear(2 * D, D, bias=False)
    how = replace(SGD, epochs=1, weight_decay=0.0, momentum=0.0, batch_size=N)
    start = draw_start(D, CLASSES, drawn())
    V, b = start[: CLASSES * D].view(CLASSES, D), start[CLASSES * D :]
    W, both = G.weight.detach(), torch.cat(pair, dim=1)
    h = pair.content + both @ W.T
    e = (h @ V.T + b).softmax(dim=1)
    e[torch.arange(N), labels] -= 1
    e = e / N
    (fit,) = fit_stylised(pair, labels, CLASSES, how, [drawn()], G)
    torch.testing.assert_close(fit.head.weight, V - how.lr * e.T @ h)
    torch.testing.assert_close(fit.head.bias, b - how.lr * e.sum(dim=0))
    torch.testing.assert_close(fit.G.weight, W - how.lr * (e @ V).T @ both)
    assert torch.equal(G.weight.detach(), W)  # Each fit has a copy of its own.


def test_classes_that_only_the_style_tells_apart_are_learned(labels):
    """A linear head on h_c cannot: all its rows are the same."""
    pair = Pair(torch.ones(N, D), labels.float()[:, None].expand(N, D).contiguous())
    G = nn.Sequential(nn.Linear(2 * D, 8), nn.ReLU(), nn.Linear(8, D))
    how = LinearSettings(lr=0.05, epochs=60)
    fits = fit_stylised(pair, labels, CLASSES, how, [drawn(1), drawn(2)], G)
    assert all(torch.equal(fit.predict(pair), labels) for fit in fits)
    assert not torch.equal(fits[0].head.weight, fits[1].head.weight)


def test_what_does_not_fit_or_diverges_is_refused(pair, labels, G):
    more = (labels, CLASSES, SGD, [drawn()], G)
    with pytest.raises(InputError, match="same images"):
        fit_stylised(Pair(pair.content, pair.style[:5]), *more)
    wild = replace(SGD, lr=1e30, epochs=5)
    with pytest.raises(FurlkitError, match="diverged"):
        fit_stylised(pair, labels, CLASSES, wild, [drawn()], G)
