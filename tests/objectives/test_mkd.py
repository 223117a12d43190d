"""FedMKD: attention, mixture and contrast in loops, by property and by hand."""

import math

import pytest
import torch
from torch import nn

from furlkit.objectives.byol import byol_loss
from furlkit.objectives.mkd import (
    Attention,
    Student,
    anchored_step,
    attention_weights,
    info_nce,
    mixture,
)
from furlkit.objectives.simclr import normalise
from tests.objectives.tiny import rows

N, C, D, K = 4, 3, 5, 2


def test_weights_and_mixture_match_loops():
    a_p, a_t, t = rows(N, K), rows(N, C, K, seed=1), rows(N, C, D, seed=2)
    W_q, W_k = rows(K, K, seed=3), rows(K, K, seed=4)
    w = attention_weights(a_p, a_t, W_q, W_k)
    mixed = mixture(w, t)
    for n in range(N):
        query = [sum(a_p[n, i] * W_q[i, j] for i in range(K)) for j in range(K)]
        scores = []
        for c in range(C):
            key = [sum(a_t[n, c, i] * W_k[i, j] for i in range(K)) for j in range(K)]
            scores.append(
                float(sum(a * b for a, b in zip(query, key, strict=True))) / K
            )
        total = sum(math.exp(score) for score in scores)
        for c, score in enumerate(scores):
            assert float(w[n, c]) == pytest.approx(math.exp(score) / total)
        expected = sum(math.exp(s) / total * t[n, c] for c, s in enumerate(scores))
        torch.testing.assert_close(mixed[n], expected)


def test_contrast_matches_loops():
    query, key, queue = rows(N, D), rows(N, D, seed=1), normalise(rows(6, D, seed=2))
    total = 0.0
    for n in range(N):
        q, k = query[n] / query[n].norm(), key[n] / key[n].norm()
        scores = [float(q @ k) / 0.1, *(float(q @ row) / 0.1 for row in queue)]
        total -= scores[0] - math.log(sum(math.exp(s) for s in scores))
    assert float(info_nce(query, key, queue, 0.1)) == pytest.approx(total / N)


def test_values_by_hand():
    """Equal scores give equal weights; a positive like K negatives gives ln(1 + K)."""
    w = attention_weights(
        torch.zeros(1, K), rows(1, C, K).float(), *torch.ones(2, K, K)
    )
    torch.testing.assert_close(w, torch.full((1, C), 1 / 3))
    t = torch.tensor([[[3.0, 0.0], [0.0, 6.0], [0.0, 0.0]]])
    assert mixture(w, t).tolist() == [[pytest.approx(1.0), pytest.approx(2.0)]]
    one = torch.tensor([[1.0, 0.0]])
    assert float(info_nce(one, one, one.expand(3, 2), 0.1)) == pytest.approx(
        math.log(4)
    )
    assert float(info_nce(one, one, one[:0], 0.1)) == 0


def test_a_teacher_with_a_larger_score_weighs_more_and_order_does_not_matter():
    a_p, a_t = torch.tensor([[1.0, 0.0]]), torch.tensor([[[2.0, 0], [0.0, 1], [-1, 0]]])
    w = attention_weights(a_p, a_t, torch.eye(2), torch.eye(2))
    assert w[0, 0] > w[0, 1] > w[0, 2] and float(w.sum()) == pytest.approx(1)
    swapped = attention_weights(a_p, a_t.flip(1), torch.eye(2), torch.eye(2))
    torch.testing.assert_close(swapped, w.flip(1))


class Tiny(nn.Module):
    """Linear maps under the names that a net has."""

    def __init__(self, seed=0):
        super().__init__()
        self.encoder, self.projector = nn.Linear(2, 3), nn.Linear(3, D)
        self.predictor = nn.Linear(D, D)
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters():
            parameter.data.normal_(generator=generator)


class Views:
    """A batch of two views of two images."""

    def two_views(self):
        return rows(4, 2, seed=5).float()


def student(query="student", teachers=2, seed=0, adaptive=True):
    nets = [Tiny(seed=9 + c).requires_grad_(False) for c in range(teachers)]
    projections = [nn.Sequential(net.encoder, net.projector) for net in nets]
    generator = torch.Generator().manual_seed(1)
    attention = Attention(nn.Linear(D, K), K) if adaptive else None
    for parameter in attention.parameters() if attention else ():
        parameter.data.normal_(generator=generator)
    how = {"temperature": 0.1, "distillation": 0.9, "ema": 0.5, "queue": 8}
    return Student(Tiny(seed), projections, attention, width=D, query=query, **how)


def steps(learner, count=2):
    """Losses of some steps of gradient descent."""
    found = []
    for _ in range(count):
        forward = learner.step(Views())
        loss = torch.stack([*forward.losses.values()]).sum()
        loss.backward()
        learner.after_step()
        found.append(float(loss.detach()))
    return found


@pytest.mark.parametrize(("query", "taught"), [("student", True), ("teacher", False)])
def test_the_query_takes_the_gradient(query, taught):
    """With one teacher the weights are 1: the mixture does not depend on the student."""
    learner = student(query, teachers=1)
    learner.queue.add(normalise(rows(3, D).float()))
    learner.step(Views()).losses["distillation"].backward()
    gradient = learner.net.predictor.weight.grad
    assert (gradient is not None and float(gradient.abs().max()) > 0) == taught


def test_attention_learns_and_teachers_do_not():
    learner = student()
    learner.queue.add(normalise(rows(3, D).float()))
    steps(learner)
    assert float(learner.attention.query.weight.grad.abs().max()) > 0
    assert all(p.grad is None for t in learner._teachers for p in t.parameters())
    assert not any(name.startswith("_teachers") for name in learner.state_dict())


def test_losses_are_shares_of_the_contrast_and_of_byol():
    learner = student(adaptive=False)
    learner.queue.add(queue := normalise(rows(3, D).float()))
    losses = learner.step(Views()).losses
    x, net = Views().two_views(), learner.net
    z = net.projector(net.encoder(x))
    p_1, p_2 = net.predictor(z).chunk(2)
    z_1, z_2 = z.chunk(2)  # The slow copy has the weights of the net.
    byol = byol_loss(p_1, z_2) + byol_loss(p_2, z_1)
    torch.testing.assert_close(losses["byol"], 0.1 * byol)
    t = torch.stack([teacher(x) for teacher in learner._teachers]).mean(dim=0)
    expected = 0.9 * info_nce(net.predictor(z), t, queue, 0.1)
    torch.testing.assert_close(losses["distillation"], expected)


def test_the_mean_weights_of_an_epoch_are_told_once():
    learner = student(adaptive=False)
    steps(learner, 3)
    assert learner.end_epoch({}) == {"teacher_weights": [0.5, 0.5]}
    assert float(learner.steps) == 0 and float(learner.weight.sum()) == 0
    assert len(learner.queue.filled) == 8


def test_an_anchor_is_byol_with_a_fixed_target():
    net, anchor = Tiny(), Tiny(seed=3)
    project = nn.Sequential(anchor.encoder, anchor.projector)
    forward = anchored_step(net, Views(), anchor=project)
    x = Views().two_views()
    p_1, p_2 = net.predictor(net.projector(net.encoder(x))).chunk(2)
    g_1, g_2 = project(x).chunk(2)
    expected = byol_loss(p_1, g_2) + byol_loss(p_2, g_1)
    torch.testing.assert_close(forward.losses["anchor"], expected)
    forward.losses["anchor"].backward()
    assert all(parameter.grad is None for parameter in anchor.parameters())
