"""Terms that are added to an objective, and the batches of the alignment set."""

import numpy as np
import pytest
import torch

from furlkit.data.augment import Augmentation, normalise, plain
from furlkit.data.batches import Images, View
from furlkit.models.architecture import Architecture, build
from furlkit.models.embedding import embed
from furlkit.models.loading import tensors_of
from furlkit.terms.alignment import alignment
from furlkit.terms.proximal import proximal
from furlkit.training.loop import positions

VIEW = View(Augmentation(), 8, 1, (0.5,), (0.5,))
CPU = torch.device("cpu")
PURPOSE = (3, "local-train", 1, 0, "align")


def pixels(n=10, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, 8, 8, 1), dtype=np.uint8)


def images(n=10, index=None):
    index = np.arange(n) if index is None else index
    return Images(pixels(n), None, index, VIEW, CPU)


def net_of(seed=0):
    architecture = Architecture("cnn5", 8, 1, 0.02, heads={"projector": (8, 4)})
    return build(architecture, torch.Generator().manual_seed(seed)).train()


def batch_at(step, n=4):
    chosen = torch.arange(n)
    return images().batch(chosen, torch.Generator().manual_seed(step), step)


def cycle(number, n=10, size=5):
    """The batches of one pass through the set."""
    steps = range(number * (n // size), (number + 1) * (n // size))
    return [positions(images(n), size, PURPOSE, step).cpu.tolist() for step in steps]


def test_batches_go_through_the_whole_set_once_in_each_cycle():
    for number in range(4):
        first, second = cycle(number)
        assert sorted(first + second) == list(range(10))


def test_every_cycle_has_an_order_of_its_own():
    orders = {str(cycle(number)) for number in range(6)}
    assert len(orders) == 6


def test_positions_depend_on_step_and_purpose_alone():
    steps = (5, 0, 3, 4, 1, 2)
    shared = images()
    by_step = {step: positions(shared, 3, PURPOSE, step).cpu.tolist() for step in steps}
    fresh = {
        step: positions(images(), 3, PURPOSE, step).cpu.tolist() for step in range(6)
    }
    assert by_step == fresh
    others = [(4, *PURPOSE[1:]), (*PURPOSE[:3], 1, "align"), PURPOSE[:-1]]
    for purpose in others:
        there = [
            positions(images(), 3, purpose, step).cpu.tolist() for step in range(6)
        ]
        assert there != [fresh[step] for step in range(6)]


def test_a_set_smaller_than_a_batch_is_a_batch():
    for step in range(3):
        found = positions(images(4), 128, PURPOSE, step).cpu.tolist()
        assert sorted(found) == [0, 1, 2, 3]


def test_the_proximal_term_starts_at_0_and_is_half_mu_by_hand():
    net = net_of()
    received = {k: v.copy() for k, v in tensors_of(net).items()}
    term = proximal(net, {"received": received}, proximal=3.0)
    assert term(batch_at(0), None).item() == 0
    with torch.no_grad():
        net.encoder.conv1.weight.add_(2.0)
    expected = 3 / 2 * 4 * net.encoder.conv1.weight.numel()
    assert term(batch_at(0), None).item() == pytest.approx(expected, rel=1e-5)


def test_the_proximal_term_is_about_the_received_model_and_not_the_start():
    """Two nets whose weights all differ by 2, and their distance to a third."""
    net, received = net_of(), {k: v - 2.0 for k, v in tensors_of(net_of()).items()}
    term = proximal(net, {"received": received}, proximal=3.0)
    count = sum(parameter.numel() for parameter in net.parameters())
    assert term(batch_at(0), None).item() == pytest.approx(3 / 2 * 4 * count, rel=1e-5)


def test_a_term_of_weight_0_is_none_at_all(public):
    assert proximal(net_of(), {}, proximal=0.0) is None
    assert aligned(net_of(), public, 0.0, "sum", 4) is None


@pytest.fixture
def public():
    """Six of ten images, in another order, and a net's outputs for them."""
    index, net = np.array([7, 2, 9, 0, 4, 5]), net_of(seed=1)
    h, z = (embed(net, pixels(), index, VIEW, layer) for layer in "hz")
    shown = images(index=index)

    def batch_of(step, size):
        chosen = positions(shown, size, PURPOSE, step).cpu
        return shown.batch(chosen, torch.Generator(), step)

    return {"public": batch_of, "h_align": h, "z_align": z}


def aligned(net, public, beta, reduction, size):
    options = {"align_reduction": reduction, "align_batch_size": size}
    return alignment(net, public, beta=beta, **options)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_alignment_term_matches_loops_over_its_images(public, reduction):
    """Eq. 11 to 14: the second summand, image by image."""
    net, beta, index = net_of(seed=2), 0.25, np.array([7, 2, 9, 0, 4, 5])
    term = aligned(net, public, beta, reduction, 3)
    for step in (0, 1, 2, 5):
        found, total = term(batch_at(step), None).item(), 0.0
        net.eval()
        for place in positions(images(index=index), 3, PURPOSE, step).cpu.tolist():
            x = torch.from_numpy(pixels()[index[place : place + 1]])
            x = normalise(plain(x, 8), (0.5,), (0.5,))
            h = net.encoder(x)
            total += (net.projector(h) - public["z_align"][place]).square().sum().item()
            total += (h - public["h_align"][place]).square().sum().item()
        net.train()
        expected = beta * (total / 3 if reduction == "mean" else total)
        assert found == pytest.approx(expected, rel=1e-4)


def test_the_alignment_term_is_0_at_the_alignment_models_own_weights(public):
    at_home = aligned(net_of(seed=1), public, 1.0, "sum", 4)
    elsewhere = aligned(net_of(seed=2), public, 1.0, "sum", 4)
    for step in range(3):
        scale = elsewhere(batch_at(step), None).item()
        assert scale > 0 and at_home(batch_at(step), None).item() < 1e-9 * scale


def test_the_alignment_term_weighs_beta(public):
    net = net_of(seed=2)
    one, ten = (
        aligned(net, public, beta, "sum", 4)(batch_at(0), None) for beta in (1, 10)
    )
    torch.testing.assert_close(ten, 10 * one)


def test_the_alignment_pass_leaves_statistics_mode_and_generator_alone(public):
    net, batch = net_of(seed=2), batch_at(0)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    state = batch.generator.get_state()
    loss = aligned(net, public, 1.0, "sum", 4)(batch, None)
    assert all(torch.equal(net.state_dict()[k], v) for k, v in before.items())
    assert all(module.training for module in net.modules())
    assert torch.equal(batch.generator.get_state(), state)
    loss.backward()
    assert all(p.grad is not None for p in net.parameters())


def test_its_gradient_is_right_beside_that_of_a_step_in_training_mode(public):
    """BatchNorm's statistics move in the step, and the term's gradient reads them."""
    together, apart = net_of(seed=2), net_of(seed=2)
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))

    def own(net):
        return net.projector(net.encoder(x)).square().sum()

    def term(net):
        return aligned(net, public, 1.0, "sum", 4)(batch_at(0), None)

    (own(together) + term(together)).backward()
    own(apart).backward()
    term(apart).backward()
    for one, other in zip(together.parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_the_alignment_term_is_float32_in_mixed_precision(public):
    net = net_of(seed=2)
    term = aligned(net, public, 1.0, "sum", 4)
    exact = term(batch_at(0), None)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = term(batch_at(0), None)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, exact, rtol=0.05, atol=0)
