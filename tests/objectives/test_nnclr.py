"""NNCLR: neighbours and loss in loops, by property and by hand, lightly; its queue."""

import math

import pytest
import torch
from torch import nn

from furlkit.objectives.nnclr import learner, nearest, nnclr_loss
from furlkit.objectives.simclr import normalise
from tests.objectives.tiny import rows

# --- neighbours and loss --------------------------------------------------------------


def test_neighbours_match_loops():
    z, Q = normalise(rows(5, 3)), normalise(rows(9, 3, seed=1))
    for n, found in enumerate(nearest(z, Q)):
        distances = [
            sum((float(z[n, j]) - float(q[j])) ** 2 for j in range(3)) for q in Q
        ]
        assert torch.equal(found, Q[distances.index(min(distances))])


def test_neighbours_by_hand_and_by_property():
    Q = torch.eye(3)
    z = normalise(torch.tensor([[0.9, 0.3, 0.1], [-0.9, 0.0, 0.2]]))
    assert nearest(z, Q).tolist() == [[1, 0, 0], [0, 0, 1]]
    # A row of the queue is its nearest neighbour; an empty queue leaves the rows.
    rows_ = normalise(rows(6, 4))
    assert torch.equal(nearest(rows_, rows_.flip(0)), rows_)
    assert torch.equal(nearest(z, Q[:0]), z)


def test_loss_matches_loops():
    near, p = normalise(rows(4, 3)), normalise(rows(4, 3, seed=1))
    s = [[math.exp(float(a @ b) / 0.1) for b in p] for a in near]
    oneway = [-math.log(s[n][n] / sum(s[n])) for n in range(4)]
    reverse = [-math.log(s[n][n] / sum(s[k][n] for k in range(4))) for n in range(4)]
    found = float(nnclr_loss(near, p, 0.1, "oneway"))
    assert found == pytest.approx(sum(oneway) / 4, abs=1e-12)
    found = float(nnclr_loss(near, p, 0.1, "symmetric"))
    assert found == pytest.approx((sum(oneway) + sum(reverse)) / 8, abs=1e-12)


def test_loss_by_hand():
    # Neighbours that are all equal cannot find the prediction: log N.
    same = torch.ones(4, 3, dtype=torch.float64)
    assert float(nnclr_loss(same, same, 0.1, "oneway")) == pytest.approx(math.log(4))
    eye = torch.eye(3, dtype=torch.float64)
    expected = math.log(1 + 2 * math.exp(-10))
    assert float(nnclr_loss(eye, eye, 0.1, "symmetric")) == pytest.approx(expected)


def test_agrees_with_lightly_once_its_bank_has_lost_the_random_rows():
    loss = pytest.importorskip("lightly.loss").NTXentLoss(0.1)
    modules = pytest.importorskip("lightly.models.modules")
    bank, nnclr = modules.NNMemoryBankModule((12, 5)), empty_queue()
    for step in range(5):
        z_1, z_2, p_1, p_2 = (rows(6, 5, seed=4 * step + k).float() for k in range(4))
        Q = nnclr.queue.filled
        nn_1, nn_2 = (nearest(normalise(z), Q) for z in (z_1, z_2))
        ours = nnclr_loss(nn_1, p_2, 0.1, "full") + nnclr_loss(nn_2, p_1, 0.1, "full")
        theirs = [bank(normalise(z_2), update=False), bank(normalise(z_1), update=True)]
        expected = loss(theirs[0], p_1) + loss(theirs[1], p_2)
        assert torch.allclose(ours, expected) == (step >= 2)
        nnclr.queue.add(normalise(z_1))


# --- the learner ----------------------------------------------------------------------


class Tiny(nn.Module):
    """Linear maps under the names that a net has."""

    def __init__(self):
        super().__init__()
        self.encoder, self.projector = nn.Linear(2, 3), nn.Linear(3, 5)
        self.predictor = nn.Linear(5, 5)


class Batch:
    """Two views of two images, other ones at every step."""

    def __init__(self, step):
        self.x = rows(4, 2, seed=step).float()

    def two_views(self):
        return self.x


def empty_queue():
    return learner(Tiny(), temperature=0.1, form="symmetric", queue=12)


def test_views_predict_neighbours_of_the_other_view_among_first_views_before():
    nnclr = learner(net := Tiny(), temperature=0.1, form="symmetric", queue=4)
    Q = torch.zeros(0, 5)
    for step in range(4):
        forward = nnclr.step(Batch(step))
        unit = normalise(forward.z.detach())
        nn_1, nn_2 = nearest(unit, Q).chunk(2)
        p_1, p_2 = net.predictor(forward.z).chunk(2)
        expected = nnclr_loss(nn_1, p_2, 0.1, "symmetric")
        expected = (expected + nnclr_loss(nn_2, p_1, 0.1, "symmetric")) / 2
        torch.testing.assert_close(forward.losses["nnclr"], expected)
        nnclr.after_step()
        Q = torch.cat([Q, unit[:2]])[-4:]
    assert sorted(nnclr.queue.rows.tolist()) == sorted(Q.tolist())
