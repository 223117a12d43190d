"""BYOL: the equations in loops, its target, a value worked out by hand, lightly."""

import math

import pytest
import torch
from torch import nn

from furlkit.objectives.byol import byol_loss, learner
from tests.objectives.tiny import rows


def test_loss_matches_loops():
    p, z = rows(5, 3), rows(5, 3, seed=1)
    total = 0.0
    for n in range(5):
        lengths = [math.sqrt(sum(float(a) ** 2 for a in v)) for v in (p[n], z[n])]
        units = [
            [float(a) / s for a in v]
            for v, s in zip((p[n], z[n]), lengths, strict=True)
        ]
        total += sum((a - b) ** 2 for a, b in zip(*units, strict=True))
    assert float(byol_loss(p, z)) == pytest.approx(total / 5, abs=1e-12)


def test_value_by_hand_and_bounds():
    p, z = torch.tensor([[3.0, 4.0]]), torch.tensor([[4.0, 3.0]])
    assert float(byol_loss(p, z)) == pytest.approx(2 - 2 * 24 / 25)
    assert float(byol_loss(p, 2 * p)) == pytest.approx(0, abs=1e-6)
    assert float(byol_loss(p, -p)) == pytest.approx(4)


def test_agrees_with_lightly():
    theirs = pytest.importorskip("lightly.loss").NegativeCosineSimilarity()
    p, z = rows(7, 5).float(), rows(7, 5, seed=1).float()
    torch.testing.assert_close(byol_loss(p, z), 2 + 2 * theirs(p, z))


class Tiny(nn.Module):
    """Linear maps under the names that a net has."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(2, 3)
        self.projector = nn.Linear(3, 2)
        self.predictor = nn.Linear(2, 2)


class Batch:
    """Two views of one image, the same at every step."""

    def two_views(self):
        return torch.tensor([[1.0, 2.0], [2.0, 1.0]])


def test_target_starts_as_a_copy_and_takes_no_gradient():
    net = Tiny()
    byol = learner(net, ema=0.9)
    assert set(byol.target) == {"encoder", "projector"}
    assert torch.equal(byol.target["encoder"].weight, net.encoder.weight)
    sum(byol.step(Batch()).losses.values()).backward()
    assert net.encoder.weight.grad.abs().sum() > 0
    assert all(p.grad is None for p in byol.target.parameters())


@pytest.mark.parametrize("ema", [0.0, 0.75, 1.0])
def test_target_moves_towards_the_net_and_not_the_other_way(ema):
    net = Tiny()
    byol = learner(net, ema=ema)
    old = byol.target["encoder"].weight.clone()
    with torch.no_grad():
        net.encoder.weight += 1
    online = net.encoder.weight.clone()
    byol.after_step()
    assert torch.equal(net.encoder.weight, online)
    expected = ema * old + (1 - ema) * online
    torch.testing.assert_close(byol.target["encoder"].weight, expected)


def test_the_target_of_the_other_view_is_predicted():
    byol = learner(Tiny(), ema=0.9)
    forward = byol.step(Batch())
    z = byol.target["projector"](byol.target["encoder"](Batch().two_views()))
    p = byol.net.predictor(forward.z)
    expected = byol_loss(p[:1], z[1:]) + byol_loss(p[1:], z[:1])
    torch.testing.assert_close(forward.losses["byol"], expected)
