"""Hetero-SSFL's linear CKA: loops, properties, known values; the term."""

import numpy as np
import pytest
import torch

from furlkit.evaluation.drift import cka_matrix
from furlkit.models.architecture import Architecture, build
from furlkit.terms.cka import centred, cka, linear_cka

HOW = {"cka": 2.0, "cka_batch_size": 6}


def rows(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


def kernel(n, d, seed=0):
    u = torch.nn.functional.normalize(rows(n, d, seed), dim=1)
    return u @ u.T


def test_cka_matches_loops():
    B, K, L = 4, kernel(4, 3), kernel(4, 5, 1)

    def centre(M):
        row = [sum(M[i, j] for j in range(B)) / B for i in range(B)]
        column = [sum(M[i, j] for i in range(B)) / B for j in range(B)]
        mean = sum(row) / B
        return [
            [M[i, j] - row[i] - column[j] + mean for j in range(B)] for i in range(B)
        ]

    def product(one, other):
        cells = [(i, j) for i in range(B) for j in range(B)]
        return sum(float(one[i][j]) * float(other[i][j]) for i, j in cells)

    k, m = centre(K), centre(L)
    expected = product(k, m) / (product(k, k) * product(m, m)) ** 0.5
    assert float(linear_cka(K, L)) == pytest.approx(expected)


def test_agrees_with_the_cka_of_evaluate_drift():
    x, y = rows(9, 3), rows(9, 5, 1)
    found = float(linear_cka(x @ x.T, y @ y.T))
    assert found == pytest.approx(cka_matrix([x, y])[0][1], abs=1e-6)


def test_cka_is_one_for_turned_scaled_and_shifted_rows_and_at_most_one():
    x = rows(8, 3)
    turn = torch.linalg.qr(rows(3, 3, 1)).Q
    y = 5 * x @ turn + rows(1, 3, 2)
    assert float(linear_cka(x @ x.T, y @ y.T)) == pytest.approx(1)
    others = (
        float(linear_cka(kernel(8, 3), kernel(8, 3, seed))) for seed in range(1, 6)
    )
    assert all(0 <= other < 1 for other in others)


def test_known_values():
    # Two pairs of equal images, and the pairs across: orthogonal after centring.
    same = torch.tensor([[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]])
    across = same[[0, 2, 1, 3]][:, [0, 2, 1, 3]]
    assert float(linear_cka(same, across)) == pytest.approx(0, abs=1e-6)
    # Against four different images: 4 / (sqrt(3) * 2) after centring, over 2.
    found = float(linear_cka(same, torch.eye(4)))
    assert found == pytest.approx(1 / 3**0.5)
    assert centred(torch.ones(3, 3)).abs().max() == 0


def test_a_collapsed_net_gives_zero_and_finite_gradients():
    x = torch.ones(4, 3, requires_grad=True)
    u = torch.nn.functional.normalize(x, dim=1)
    found = linear_cka(u @ u.T, kernel(4, 3).float())
    found.backward()
    assert found.item() == pytest.approx(0, abs=1e-3) and x.grad.isfinite().all()


# --- the term -------------------------------------------------------------------------


class Public:
    """Six public images; a step takes them from another place on."""

    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.x = 50 * torch.randn(6, 1, 8, 8, generator=generator)

    def __call__(self, step, size):
        self.index = torch.arange(6).roll(step)[:size]
        return self

    def plain(self):
        return self.x[self.index]


class Batch:
    step = 1


@pytest.fixture
def net():
    architecture = Architecture("cnn5", 8, 1, 0.02, heads={"projector": (8, 4)})
    return build(architecture, torch.Generator().manual_seed(0)).train()


def given_of(net, layer="h"):
    """The kernel of the net itself."""
    public = Public()
    with torch.no_grad():
        h = net.eval().encoder(public.x)
        u = torch.nn.functional.normalize(
            h if layer == "h" else net.projector(h), dim=1
        )
    net.train()
    return {"kernel": u @ u.T, "kernel_layer": layer, "kernel_images": public}


@pytest.mark.parametrize("layer", ["h", "z"])
def test_the_term_is_zero_for_the_net_s_kernel_whatever_the_order(net, layer):
    term = cka(net, given_of(net, layer), **HOW)
    assert term(Batch(), None).item() == pytest.approx(0, abs=1e-5)
    given = given_of(net, layer)
    given["kernel"] = given["kernel"].roll(1, 0).roll(1, 1)  # Of other images.
    assert cka(net, given, **HOW)(Batch(), None).item() > 0.01


def test_the_weight_multiplies_and_every_weight_of_the_encoder_is_trained(net):
    given = given_of(net)
    given["kernel"] = torch.eye(6)
    losses = [
        cka(net, given, cka=mu, cka_batch_size=6)(Batch(), None) for mu in (1.0, 3.0)
    ]
    assert losses[1].item() == pytest.approx(3 * losses[0].item())
    losses[0].backward()
    assert all(p.grad is not None for p in net.encoder.parameters())


def test_statistics_of_batchnorm_and_modes_stay(net):
    before = {k: v.clone() for k, v in net.state_dict().items()}
    cka(net, given_of(net), **HOW)(Batch(), None)
    assert all(module.training for module in net.modules())
    after = net.state_dict()
    assert all(torch.equal(v, after[k]) for k, v in before.items())


def test_no_term_without_a_weight_or_without_a_kernel(net):
    assert cka(net, given_of(net), cka=0.0, cka_batch_size=6) is None
    assert cka(net, {}, **HOW) is None


def test_steps_towards_a_kernel_raise_the_cka(net):
    given = given_of(net)
    target = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    u = torch.nn.functional.normalize(torch.from_numpy(target), dim=1)
    given["kernel"] = u @ u.T
    term = cka(net, given, **HOW)
    optimiser, losses = torch.optim.Adam(net.parameters(), 1e-2), []
    for _ in range(30):
        loss = term(Batch(), None)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
