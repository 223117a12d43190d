"""Infusion: the second loss by hand, its weight, and what it leaves alone."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from furlkit.data.batches import Positions
from furlkit.exchanges.style import add_generator
from furlkit.models.architecture import Architecture, build, drawn
from furlkit.models.style import empty_generator
from furlkit.objectives import rotation, simclr
from furlkit.objectives.learner import Stateless
from furlkit.objectives.simclr import nt_xent
from furlkit.terms.infusion import infused, infusion
from tests.terms.test_terms import batch_at

LAMBDA = 0.25


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def learner_of(seed=0):
    """SimCLR with a generator, for h of 41 numbers."""
    heads = {"projector": (8, 4)}
    architecture = Architecture("cnn5", 8, 1, 0.02, heads=heads)
    net = build(architecture, torch.Generator().manual_seed(seed)).train()
    learner = Stateless(net, partial(simclr.step, temperature=0.2, form="full"))
    rng = torch.Generator().manual_seed(seed + 1)
    add_generator(learner, drawn(empty_generator(41), rng))
    return learner


def term_of(learner, weight=LAMBDA, freeze=False, styles=None):
    styles = styles or (rows(10, 41, seed=5), rows(10, 41, seed=6))
    given = {"styles": styles, "learner": learner}
    options = {"infusion": weight, "freeze_generator": freeze}
    return infusion(learner.net, given, **options)


@torch.no_grad()
def test_the_generator_has_two_layers_and_reads_content_and_style():
    G = drawn(empty_generator(3), torch.Generator().manual_seed(0))
    h_c, h_s = rows(4, 3), rows(4, 3, seed=1)
    assert [p.shape for p in G.parameters()] == [(256, 6), (256,), (3, 256), (3,)]
    for n in range(4):
        both = torch.tensor([*h_c[n].tolist(), *h_s[n].tolist()])
        hidden = [
            max(float(w @ both + b), 0)
            for w, b in zip(*G.fc1.parameters(), strict=True)
        ]
        expected = G.fc2.weight @ torch.tensor(hidden) + G.fc2.bias
        torch.testing.assert_close(infused(G, h_c, h_s)[n], expected)


def test_view_1_takes_the_style_of_its_image_and_view_2_that_of_its_edges():
    learner, styles = learner_of(), (rows(10, 41, seed=5), rows(10, 41, seed=6))
    chosen = Positions(torch.tensor([7, 2, 9, 0]), torch.device("cpu"))
    batch = replace(batch_at(0, n=4), positions=chosen)
    forward = learner.step(batch)
    h_1, h_2 = forward.h.chunk(2)
    each = []
    for h, style in ((h_1, styles[0]), (h_2, styles[1])):
        changed = [
            learner.generator(torch.cat([h[n], style[image]])[None])
            for n, image in enumerate((7, 2, 9, 0))
        ]
        each.append(learner.net.projector(torch.cat(changed)))
    found = term_of(learner, styles=styles)(batch, forward)
    expected = LAMBDA * nt_xent(*each, 0.2, "full")
    assert found.losses.keys() == {"infusion"}
    torch.testing.assert_close(found.losses["infusion"], expected)
    torch.testing.assert_close(found.z, each[0])  # What the meter looks at.


def test_the_term_weighs_lambda_and_0_is_none_at_all():
    learner, batch = learner_of(), batch_at(0)
    forward = learner.step(batch)
    one, ten = (
        term_of(learner, weight)(batch, forward).losses["infusion"]
        for weight in (1, 10)
    )
    torch.testing.assert_close(ten, 10 * one)
    assert term_of(learner, 0.0) is None


def test_running_statistics_stay_those_of_views_that_are_not_infused():
    with_term, without = learner_of(), learner_of()
    for step in range(3):
        term_of(with_term)(batch_at(step), with_term.step(batch_at(step)))
        without.step(batch_at(step))
    for name, tensor in without.state_dict().items():
        assert torch.equal(with_term.state_dict()[name], tensor), name
    norms = [m for m in with_term.modules() if isinstance(m, nn.BatchNorm1d)]
    assert norms and all(m.track_running_stats and m.training for m in norms)


def test_batches_are_still_normalised_by_themselves():
    learner = learner_of()
    before = term_of(learner)(batch_at(0), learner.step(batch_at(0)))
    learner.net.projector.bn1.running_mean.fill_(50)
    after = term_of(learner)(batch_at(0), learner.step(batch_at(0)))
    assert torch.equal(before.losses["infusion"], after.losses["infusion"])


@pytest.mark.parametrize("freeze", [False, True])
def test_content_model_and_generator_learn_unless_that_is_frozen(freeze):
    learner, batch = learner_of(), batch_at(0)
    term = term_of(learner, freeze=freeze)
    term(batch, learner.step(batch)).losses["infusion"].backward()
    assert learner.net.encoder.conv1.weight.grad.abs().sum() > 0
    assert learner.net.projector.fc1.weight.grad.abs().sum() > 0
    moved = [p.grad is not None for p in learner.generator.parameters()]
    assert moved == [not freeze] * 4


def test_no_random_number_is_drawn():
    learner, batch = learner_of(), batch_at(0)
    forward = learner.step(batch)
    state = batch.generator.get_state()
    term_of(learner)(batch, forward)
    assert torch.equal(batch.generator.get_state(), state)


def test_an_objective_without_two_views_is_an_error():
    architecture = Architecture("cnn5", 8, 1, 0.02, heads={"rotation": (4,)})
    net = build(architecture, torch.Generator().manual_seed(0))
    learner = Stateless(net, rotation.step)
    add_generator(learner, drawn(empty_generator(41), torch.Generator()))
    with pytest.raises(ValueError, match="repeated"):
        term_of(learner)(batch_at(0), learner.step(batch_at(0)))
