"""A pass that is made again from other representations of the same two views."""

from functools import partial

import pytest
import torch
from torch import nn

from furlkit import catalogue
from furlkit.models.heads import Prototypes
from furlkit.objectives import (
    barlow,
    byol,
    dino,
    moco,
    simclr,
    simsiam,
    spectral,
    vicreg,
)
from furlkit.objectives.barlow import barlow_loss
from furlkit.objectives.byol import byol_loss
from furlkit.objectives.dino import dino_loss, teacher_probabilities
from furlkit.objectives.learner import Stateless
from furlkit.objectives.moco import moco_loss
from furlkit.objectives.simclr import normalise, nt_xent
from furlkit.objectives.simsiam import simsiam_loss
from furlkit.objectives.spectral import bounded, spectral_loss
from furlkit.objectives.vicreg import Weights, vicreg_loss

WEIGHTS = ("invariance_weight", "variance_weight", "covariance_weight")
DINO = {
    **{"temperature": 0.1, "teacher_temperature": 0.04, "centre_momentum": 0.9},
    **{"ema": 0.5, "freeze_steps": 0},
}
SHIFT = torch.tensor([[0.5, -1.0, 2.0, 0.0], [-0.5, 1.5, 0.0, 1.0]])


class Tiny(nn.Module):
    """Linear maps under the names that a net has."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.encoder, self.projector = nn.Linear(3, 4), nn.Linear(4, 5)
        self.predictor, self.prototypes = nn.Linear(5, 5), Prototypes(5, 4)
        with torch.no_grad():
            for tensor in self.parameters():
                tensor.normal_(generator=generator)


class Batch:
    """Two views of six images, other ones at every step."""

    def __init__(self, step=0):
        generator = torch.Generator().manual_seed(step)
        self.x, self.index = torch.randn(12, 3, generator=generator), torch.arange(6)

    def two_views(self):
        return self.x


def learner_of(name, net):
    if name == "byol":
        return byol.learner(net, ema=0.5)
    if name == "dino":
        return dino.learner(net, **DINO)
    if name == "moco":
        found = moco.learner(net, temperature=0.2, ema=0.5, queue=8)
        found.keep_infused()
        return found
    step = {
        "simclr": partial(simclr.step, temperature=0.2, form="full"),
        "simsiam": simsiam.step,
        "barlow": partial(barlow.step, redundancy=0.1),
        "spectral": partial(spectral.step, norm_bound=2.0, intra_weight=1.0),
        "vicreg": partial(vicreg.step, **dict(zip(WEIGHTS, (3, 2, 1), strict=True))),
    }[name]
    return Stateless(net, step)


each = pytest.mark.parametrize(
    "name", [name for name, entry in catalogue.OBJECTIVES.items() if entry.again]
)


def moved(h, view):
    """Another place for each view."""
    return 2 * h + SHIFT[view]


@each
def test_without_a_change_it_is_the_same_pass(name):
    learner = learner_of(name, Tiny())
    for step in range(3):
        forward = learner.step(Batch(step))
        again = forward.again(lambda h, view: h)
        for one, other in zip(forward[1:4], again[1:4], strict=True):
            torch.testing.assert_close(one, other)
        torch.testing.assert_close(*(f.losses[name] for f in (forward, again)))
        if hasattr(learner, "after_step"):
            learner.after_step()


@each
def test_each_view_is_changed_as_its_own_and_the_loss_is_the_objective_s(name):
    net = Tiny()
    learner = learner_of(name, net)
    if name == "moco":  # Keys of another kind than those that are not changed.
        learner.infused_queue.add(normalise(torch.eye(5)[:3]))
    x_1, x_2 = Batch().two_views().chunk(2)
    z_1, z_2 = (
        net.projector(moved(net.encoder(x), v)) for v, x in ((0, x_1), (1, x_2))
    )
    p_1, p_2 = net.predictor(z_1), net.predictor(z_2)
    s = normalise(torch.cat([z_1, z_2])) @ normalise(net.prototypes.weight).T
    expected = {
        "simclr": lambda: nt_xent(z_1, z_2, 0.2, "full"),
        "simsiam": lambda: simsiam_loss(p_1, p_2, z_1, z_2),
        "byol": lambda: byol_loss(p_1, z_2) + byol_loss(p_2, z_1),
        "moco": lambda: moco_loss(
            normalise(z_1), normalise(z_2), torch.eye(5)[:3], 0.2
        ),
        "dino": lambda: dino_loss(
            s, teacher_probabilities(s, s.new_zeros(4), 0.04), 0.1
        ),
        "barlow": lambda: barlow_loss(z_1, z_2, 0.1),
        "spectral": lambda: spectral_loss(bounded(z_1, 2.0), bounded(z_2, 2.0)),
        "vicreg": lambda: vicreg_loss(z_1, z_2, Weights(3, 2, 1)),
    }[name]()
    found = learner.step(Batch()).again(moved)
    torch.testing.assert_close(found.losses[name], expected)
    views = [z_1] if name == "moco" else [z_1, z_2]
    torch.testing.assert_close(found.z, torch.cat(views))


@each
def test_what_changes_h_learns_through_the_net_and_not_through_a_target(name):
    """The second view of MoCo is the target's alone."""
    learner, scale = learner_of(name, Tiny()), torch.ones(2, requires_grad=True)
    if name == "moco":
        learner.infused_queue.add(normalise(torch.eye(5)[:3]))
    forward = learner.step(Batch()).again(lambda h, view: scale[view] * h)
    forward.losses[name].backward()
    assert scale.grad[0] != 0 and (scale.grad[1] != 0) == (name != "moco")
    assert learner.net.encoder.weight.grad.abs().sum() > 0
    target = getattr(learner, "target", None)
    assert target is None or all(p.grad is None for p in target.parameters())


@each
def test_what_all_rows_of_a_view_share_is_taken_out_by_batchnorm(name):
    """Each view goes through the heads by itself, as g(h_1) and g(h_2) in Eq. 3."""
    net = Tiny()
    net.projector = nn.Sequential(net.projector, nn.BatchNorm1d(5))
    learner = learner_of(name, net)
    forward = learner.step(Batch())
    far = forward.again(lambda h, view: h + 100 * (view + 1))
    near = forward.again(lambda h, view: h)
    torch.testing.assert_close(far.z, near.z, rtol=1e-3, atol=1e-3)
    z_1, z_2 = (near.z, near.z) if name == "moco" else near.z.chunk(2)
    for z in (z_1, z_2):
        torch.testing.assert_close(z.mean(dim=0), torch.zeros(5), atol=1e-5, rtol=0)


def test_moco_keeps_the_keys_of_both_passes_apart():
    learner = learner_of("moco", Tiny())
    learner.step(Batch()).again(moved)
    h = learner.target.encode(Batch().two_views()[6:])
    plain, infused = (learner.target.project(rows) for rows in (h, moved(h, 1)))
    learner.after_step()
    torch.testing.assert_close(learner.queue.filled, normalise(plain))
    torch.testing.assert_close(learner.infused_queue.filled, normalise(infused))
    learner.step(Batch(1))  # Nobody makes this pass again.
    learner.after_step()
    assert int(learner.queue.written) == 12
    assert int(learner.infused_queue.written) == 6


def test_moco_makes_no_second_pass_and_carries_no_second_queue_unless_asked():
    learner = moco.learner(Tiny(), temperature=0.2, ema=0.5, queue=8)
    assert learner.step(Batch()).again is None
    assert not any("infused" in name for name in learner.state_dict())
    learner.keep_infused()
    assert learner.step(Batch()).again is not None
    assert learner.state_dict()["infused_queue.rows"].shape == (8, 5)
