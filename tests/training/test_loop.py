import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from furlkit.data import batches
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.errors import FurlkitError
from furlkit.objectives.learner import Forward, Stateless
from furlkit.training import loop
from furlkit.training.loop import DivergedError, Job
from furlkit.training.plan import Phase, Plan
from tests.helpers import Killed

VIEW = View(Augmentation(), 8, 1, (0.5,), (0.5,))


class Memory:
    """Keeps progress in memory; `every` says after how many steps it is due."""

    def __init__(self, every=0, found=None):
        self.every, self.found, self.saved, self.asked = every, found, [], 0

    def restore(self):
        return self.found

    def due(self, finished):
        self.asked += 1
        return bool(self.every) and self.asked % self.every == 0

    def save(self, step, tensors, values):
        copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        self.saved.append((step, copies, dict(values)))


def tiny(n=10, size=8, labels=False, seed=0, device="cpu"):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (n, size, size, 1), dtype=np.uint8)
    known = rng.integers(0, 3, n) if labels else None
    return Images(pixels, known, np.arange(n), VIEW, torch.device(device))


def module(seed=0):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.BatchNorm1d(5))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        net[1].weight.normal_(0, 0.1, generator=generator)
        net[1].bias.zero_()
    return net


def loss_of(net):
    def step(batch):
        x = batch.one_view()
        z = net(x)
        return Forward({"square": (z - 0.5).square().mean()}, x, z)

    return step


class Learner(nn.Module):
    """A net and any step."""

    def __init__(self, net, step=None):
        super().__init__()
        self.net, self.step = net, step or loss_of(net)


def train(net, loss, images, plan, purpose, keeper, terms=None):
    job = Job("test", Learner(net, loss), images, plan, purpose, terms or {})
    return loop.train(job, keeper)


def run(plan, net=None, keeper=None, images=None, loss=None, purpose=(0, "test")):
    net = net or module()
    steps = train(net, loss, images or tiny(), plan, purpose, keeper or Memory())
    return net, list(steps)


def epochs_of(steps):
    return [step.epoch for step in steps if step.epoch]


def test_a_step_that_returns_no_forward_is_named():
    def step(net, batch, *, scale):
        return scale * net(batch.one_view()).sum()

    learner = Stateless(module(), partial(step, scale=2))
    job = Job("test", learner, tiny(), Plan(epochs=1, batch_size=4), (0, "test"), {})
    with pytest.raises(FurlkitError) as refusal:
        list(loop.train(job, Memory()))
    message = str(refusal.value)
    assert f"{__name__}:" in message and ".step returned a Tensor" in message


def test_a_constant_rate_is_constant():
    plan = Plan(epochs=3, batch_size=4, lr=0.2)
    assert [plan.lr_at(step, 2) for step in range(6)] == [0.2] * 6


def test_a_cosine_over_one_round_by_hand():
    plan = Plan(epochs=2, batch_size=4, lr=0.8, schedule="cosine")
    half = 0.4 * (1 + math.cos(math.pi / 4))
    expected = [0.8, half, 0.4, 0.8 - half]
    assert [plan.lr_at(step, 2) for step in range(4)] == pytest.approx(expected)


def test_a_cosine_over_three_rounds_goes_on_where_the_last_round_ended():
    whole = Plan(epochs=6, batch_size=4, lr=0.3, schedule="cosine")
    parts = [
        Plan(2, 4, lr=0.3, schedule="cosine", schedule_rounds=3, first_round=r)
        for r in range(3)
    ]
    together = [part.lr_at(step, 5) for part in parts for step in range(10)]
    assert together == pytest.approx([whole.lr_at(step, 5) for step in range(30)])
    assert together == sorted(together, reverse=True) and together[-1] > 0


def test_warm_up_climbs_in_equal_steps_then_the_schedule_begins():
    plan = Plan(epochs=3, batch_size=4, lr=0.6, schedule="cosine", warmup=1)
    rates = [plan.lr_at(step, 2) for step in range(6)]
    # Two steps of warm-up, then a cosine over the four that are left.
    down = [0.3 * (1 + math.cos(math.pi * i / 4)) for i in range(4)]
    assert rates == pytest.approx([0.2, 0.4, *down])
    constant = Plan(epochs=3, batch_size=4, lr=0.6, warmup=1.5)
    assert [constant.lr_at(s, 2) for s in range(4)] == pytest.approx(
        [0.15, 0.3, 0.45, 0.6]
    )


def test_warm_up_is_at_the_start_of_the_schedule_not_of_every_round():
    plan = Plan(2, 4, lr=0.6, warmup=1, schedule_rounds=3, first_round=1)
    assert plan.lr_at(0, 2) == 0.6
    assert Plan(2, 4, lr=0.6, warmup=1).lr_at(0, 2) == pytest.approx(0.2)


def test_the_rate_is_multiplied_at_milestones():
    plan = Plan(4, 4, lr=0.5, milestones=(1, 3), milestone_factor=0.2)
    rates = [plan.lr_at(step, 2) for step in range(8)]
    assert rates == pytest.approx([0.5] * 2 + [0.1] * 4 + [0.02] * 2)
    usual = Plan(2, 4, lr=0.5, milestones=(1,))
    assert usual.lr_at(2, 2) == pytest.approx(0.05)


def test_milestones_count_the_epochs_of_all_rounds():
    plans = [
        Plan(2, 4, lr=1, milestones=(3,), first_round=number) for number in range(3)
    ]
    rates = [plan.lr_at(step, 1) for plan in plans for step in range(2)]
    assert rates == pytest.approx([1, 1, 1, 0.1, 0.1, 0.1])


def test_the_classifier_has_a_rate_of_its_own():
    """Plain SGD: a step is the rate times the gradient, which is the same for all."""
    net = nn.ModuleDict({"encoder": nn.Linear(1, 1), "classifier": nn.Linear(1, 1)})
    before = [p.detach().clone() for p in net.parameters()]

    def loss(batch):
        total = torch.stack([p.sum() for p in net.parameters()]).sum()
        return Forward({"sum": total}, batch.one_view(), torch.eye(4, 2))

    rates = {"lr": 0.1, "head_lr": 2.0, "milestones": (1,), "milestone_factor": 0.5}
    plan = Plan(2, 10, "sgd", weight_decay=0, momentum=0, **rates)
    run(plan, net, loss=loss)
    moved = [(b - p).item() for b, p in zip(before, net.parameters(), strict=True)]
    assert moved == pytest.approx([0.15] * 2 + [3.0] * 2)


@pytest.mark.parametrize(
    "examples, batch_size, steps", [(10, 4, 2), (8, 4, 2), (3, 4, 1), (4, 4, 1)]
)
def test_steps_are_full_batches_unless_there_is_none(examples, batch_size, steps):
    assert loop.steps_per_epoch(examples, batch_size) == steps


def test_an_epoch_shows_full_batches_of_different_images_in_a_new_order():
    seen = []
    net = module()

    def loss(batch):
        seen.append(batch.index.tolist())
        return loss_of(net)(batch)

    run(Plan(epochs=3, batch_size=4), net, loss=loss)
    assert [len(index) for index in seen] == [4] * 6
    epochs = [seen[i] + seen[i + 1] for i in (0, 2, 4)]
    assert all(len(set(epoch)) == 8 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_events_are_steps_and_epochs_with_mean_losses():
    losses = []
    net = module()

    def loss(batch):
        forward = loss_of(net)(batch)
        square = forward.losses["square"]
        losses.append(square.item())
        more = 2 * square.detach() + forward.h.sum() * 0
        return forward._replace(losses={"square": square, "more": more})

    _, steps = run(Plan(epochs=2, batch_size=4, schedule="cosine"), net, loss=loss)
    assert [step.number for step in steps] == [1, 2, 3, 4]
    assert [bool(step.epoch) for step in steps] == [False, True, False, True]
    first, second = epochs_of(steps)
    assert (first.epoch, first.step) == (1, 2) and (second.epoch, second.step) == (2, 4)
    assert first.losses["square"] == pytest.approx((losses[0] + losses[1]) / 2)
    assert second.losses["more"] == pytest.approx(losses[2] + losses[3])
    assert second.lr == pytest.approx(5e-4 * (1 + math.cos(math.pi * 0.75)))
    assert second.samples_per_second > 0 and 1 <= second.effective_rank <= 4
    assert second.quality.keys() == {"rankme", "uniformity"}
    assert second.quality.items() <= second.facts().items()


def test_a_term_may_give_a_pass_of_its_own_which_the_meter_sees():
    net, images = module(), tiny()
    flat = torch.ones(4, 5)

    def term(batch, forward):
        loss = forward.h.square().mean()
        return Forward({"own": loss}, forward.views, forward.h, flat)

    plan = Plan(epochs=1, batch_size=4)
    steps = list(train(net, None, images, plan, (0, "t"), Memory(), {"flat": term}))
    (epoch,) = epochs_of(steps)
    assert epoch.losses.keys() == {"square", "own"} and epoch.losses["own"] > 0
    assert epoch.terms == {"flat": {"spread": 0.0, "effective_rank": 1.0}}
    assert epoch.spread > 0 and epoch.facts()["terms"] == epoch.terms
    plain = list(train(module(), None, images, plan, (0, "t"), Memory()))
    assert "terms" not in epochs_of(plain)[0].facts()


def test_the_loop_is_this_loop():
    plan = Plan(epochs=2, batch_size=4, optimiser="sgd", lr=0.1, momentum=0.9)
    net, _ = run(plan)
    other, images = module(), tiny()
    reference = torch.optim.SGD(
        other.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-6
    )
    step = 0
    for epoch in range(2):
        order = images.order(loop.derive(0, "test", "order", epoch))
        for index in (order.part(0, 4), order.part(4, 8)):
            generator = loop.torch_generator(0, "test", "augment", step)
            forward = loss_of(other)(images.batch(index, generator))
            reference.zero_grad()
            forward.losses["square"].backward()
            reference.step()
            step += 1
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_killed_at_ten_random_steps_it_ends_with_the_same_bits(optimiser):
    plan = Plan(
        epochs=10, batch_size=3, optimiser=optimiser, lr=0.01, schedule="cosine"
    )
    undisturbed, events = run(plan, images=tiny(30))
    expected = [epoch.losses for epoch in epochs_of(events)]
    kills = sorted(np.random.default_rng(0).choice(99, 10, replace=False).tolist())
    found, last, losses = None, {}, {}
    for kill in [*kills, None]:
        keeper, net = Memory(every=2, found=found), module(seed=5 if found else 0)
        count = found[0] if found else 0
        inner = loss_of(net)

        def loss(batch, net=net, inner=inner, kill=kill):
            nonlocal count
            if count == kill:
                raise Killed
            count += 1
            return inner(batch)

        try:
            for step in train(net, loss, tiny(30), plan, (0, "test"), keeper):
                if step.epoch:
                    losses[step.epoch.epoch] = step.epoch.losses
        except Killed:
            found = keeper.saved[-1] if keeper.saved else found
        last = net
    for a, b in zip(
        undisturbed.state_dict().values(), last.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b)
    assert [losses[i + 1] for i in range(10)] == expected


def test_a_finished_training_that_is_resumed_does_nothing():
    keeper = Memory(every=1)
    plan = Plan(epochs=2, batch_size=4)
    net, _ = run(plan, keeper=keeper)
    again, events = run(plan, module(seed=3), Memory(found=keeper.saved[-1]))
    assert events == []
    assert all(map(torch.equal, net.state_dict().values(), again.state_dict().values()))


def test_a_loss_that_is_no_number_ends_the_training():
    net = module()

    def loss(batch):
        forward = loss_of(net)(batch)
        square = forward.losses["square"]
        return forward._replace(losses={"good": square, "bad": square * float("nan")})

    with pytest.raises(DivergedError, match="bad .*nan .*epoch 1"):
        run(Plan(epochs=5, batch_size=10), net, loss=loss)


def test_weights_that_overflow_in_the_last_step_end_the_training_too():
    plan = Plan(epochs=1, batch_size=10, optimiser="sgd", lr=1e38, momentum=0)
    net = module()

    def loss(batch):
        forward = loss_of(net)(batch)
        return forward._replace(losses={"square": 1e6 * forward.losses["square"]})

    with pytest.raises(DivergedError, match="NaN"):
        run(plan, net, loss=loss)


def test_float16_leaves_out_a_step_that_overflows():
    net = module()
    before = net[1].weight.detach().clone()
    calls = []

    def loss(batch):
        calls.append(1)
        big = 1e38 if len(calls) == 1 else 1.0
        x = batch.one_view()
        z = net(x.flatten(1).float())
        return Forward({"square": big * (z.float() - 0.5).square().mean()}, x, z)

    keeper = Memory(every=1)
    plan = Plan(epochs=2, batch_size=10, precision="float16", lr=0.1)
    run(plan, net, keeper, loss=loss)
    _, tensors, values = keeper.saved[0]
    assert values["scale"] == 2.0**15 and values["optimiser_steps"] == 0
    assert torch.equal(tensors["learner.net.1.weight"], before)
    assert keeper.saved[1][2]["optimiser_steps"] == 1
    assert not torch.equal(net[1].weight, before)


def test_float16_stops_if_every_step_overflows():
    net = module()

    def loss(batch):
        forward = loss_of(net)(batch)
        steep = forward.losses["square"].mul(0).sqrt()  # 0, and its gradient is NaN.
        return forward._replace(losses={"steep": steep})

    plan = Plan(epochs=12, batch_size=2, precision="float16")
    with pytest.raises(DivergedError, match="overflow"):
        run(plan, net, loss=loss)


def test_resident_and_mapped_images_give_the_same_batches(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 8, 8, 1), dtype=np.uint8)
    np.save(tmp_path / "pixels.npy", pixels)
    mapped = np.load(tmp_path / "pixels.npy", mmap_mode="r")
    index, labels = np.array([3, 19, 0, 7, 11, 12]), np.arange(20)
    cpu = torch.device("cpu")
    resident = Images(pixels, labels, index, VIEW, cpu)
    monkeypatch.setattr(batches, "RESIDENT_LIMIT", 0)
    streamed = Images(mapped, labels, index, VIEW, cpu)
    assert resident._resident is not None and streamed._resident is None
    chosen = torch.tensor([5, 0, 2])
    one, other = (
        images.batch(chosen, torch.Generator().manual_seed(4))
        for images in (resident, streamed)
    )
    assert torch.equal(one.images, other.images)
    assert one.labels.tolist() == other.labels.tolist() == [12, 3, 0]
    assert torch.equal(one.images, torch.from_numpy(pixels[[12, 3, 0]]))
    assert torch.equal(one.two_views(), other.two_views())


@pytest.fixture
def mapped(monkeypatch, tmp_path) -> Images:
    """Images that stay on disk."""
    monkeypatch.setattr(batches, "RESIDENT_LIMIT", 0)
    np.save(
        tmp_path / "pixels.npy", np.arange(20 * 64, dtype=np.uint8).reshape(20, 8, 8, 1)
    )
    pixels = np.load(tmp_path / "pixels.npy", mmap_mode="r")
    return Images(pixels, None, np.arange(20)[::-1], VIEW, torch.device("cpu"))


def test_a_batch_that_was_prefetched_is_gathered_once(mapped, monkeypatch):
    taken, gather = [], np.take
    monkeypatch.setattr(np, "take", lambda *a, **k: taken.append(1) or gather(*a, **k))
    order = mapped.order(1)
    first, second = order.part(0, 4), order.part(4, 8)

    def prefetch(index):
        batches.prefetch([mapped.batch(index, torch.Generator())])

    prefetch(first)
    found = mapped.batch(first, torch.Generator()).images
    assert len(taken) == 1
    prefetch(first)
    prefetch(second)  # Before the first is used.
    assert torch.equal(mapped.batch(first, torch.Generator()).images, found)
    mapped.batch(second, torch.Generator()).images  # noqa: B018 - is gathered
    assert len(taken) == 3
    prefetch(first)  # Another one is wanted after all.
    other = mapped.batch(second, torch.Generator()).images
    for index, images in ((first, found), (second, other)):
        expected = [mapped._mapped[19 - i] for i in index.cpu.tolist()]
        assert torch.equal(images, torch.from_numpy(np.stack(expected)))


def test_a_training_of_mapped_images_has_the_bytes_of_resident_ones(
    mapped, monkeypatch
):
    """The next batch is gathered while a step computes, across the ends of epochs."""
    plan = Plan(epochs=3, batch_size=4, optimiser="sgd", lr=0.1)
    monkeypatch.undo()
    resident = Images(
        mapped._mapped, None, np.arange(20)[::-1], VIEW, torch.device("cpu")
    )
    nets = [run(plan, images=images)[0].state_dict() for images in (mapped, resident)]
    for name, tensor in nets[0].items():
        assert torch.equal(tensor, nets[1][name])


def test_grey_images_feed_a_net_for_colour_with_three_equal_channels():
    view = View(
        Augmentation(grey=0, jitter_probability=0), 8, 3, (0.5,) * 3, (0.5,) * 3
    )
    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 1), dtype=np.uint8)
    images = Images(pixels, None, np.arange(4), view, torch.device("cpu"))
    batch = images.batch(torch.arange(4), torch.Generator().manual_seed(0))
    x = batch.plain()
    assert x.shape == (4, 3, 8, 8)
    assert torch.equal(x[:, 0], x[:, 1]) and torch.equal(x[:, 0], x[:, 2])
    assert batch.two_views().shape == (8, 3, 8, 8)


class Parts(nn.Module):
    """Two named parts, each with BatchNorm."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.BatchNorm1d(4))
        self.projector = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.normal_(0.5, 0.1, generator=generator)

    def forward(self, x):
        return self.projector(self.encoder(x))


def part(net, name):
    state = getattr(net, name).state_dict()
    return {k: v.clone() for k, v in state.items()}


def same(one, other):
    return all(torch.equal(one[k], other[k]) for k in one)


PHASES = (Phase(("projector",), 2), Phase(("encoder",), 1))


def test_a_phase_trains_its_parts_and_leaves_all_others_as_they_are():
    """Bit for bit: BatchNorm statistics of a frozen part stay too."""
    net = Parts()
    encoder, projector = part(net, "encoder"), part(net, "projector")
    images, plan = tiny(), Plan(3, 4, phases=PHASES)
    for step in train(net, None, images, plan, (0, "test"), Memory()):
        if step.number == 4:  # Two epochs of two steps: the first phase is over.
            assert same(part(net, "encoder"), encoder)
            assert not same(part(net, "projector"), projector)
            projector = part(net, "projector")
    assert same(part(net, "projector"), projector)
    assert not same(part(net, "encoder"), encoder)


def test_each_phase_has_an_optimiser_of_its_own():
    """Adam's first step in a phase moves each weight by the learning rate."""
    net = Parts()
    plan = Plan(2, 10, lr=0.01, weight_decay=0, phases=(
        Phase(("projector",), 1), Phase(("encoder",), 1)))  # fmt: skip
    before = net.encoder[1].weight.detach().clone()
    list(train(net, None, tiny(), plan, (0, "test"), Memory()))
    moved = (net.encoder[1].weight - before).abs()
    # As a second step of one optimiser it would be 0.0074.
    assert moved.median().item() == pytest.approx(0.01, rel=0.01)


def test_an_optimiser_that_restarts_has_no_momentum_of_the_epoch_before():
    """With one step in an epoch there is then no momentum at all, to the bit."""

    def trained(batch_size, momentum, restarts):
        net = Parts()
        plan = Plan(3, batch_size, "sgd", momentum=momentum, restart_optimiser=restarts)
        list(train(net, None, tiny(), plan, (0, "test"), Memory()))
        return net.state_dict()

    assert same(trained(10, 0.9, True), trained(10, 0, False))
    assert not same(trained(10, 0.9, False), trained(10, 0, False))
    assert not same(trained(4, 0.9, True), trained(4, 0, False))


@pytest.mark.parametrize("kill", range(6))
def test_killed_with_an_optimiser_that_restarts_it_ends_with_the_same_bits(kill):
    killed_and_restarted(Plan(3, 4, restart_optimiser=True), kill)


@pytest.mark.parametrize("kill", range(6))
def test_killed_in_any_phase_it_ends_with_the_same_bits(kill):
    killed_and_restarted(Plan(3, 4, phases=PHASES), kill)


def killed_and_restarted(plan, kill):
    images, whole = tiny(), Parts()
    list(train(whole, None, images, plan, (0, "test"), Memory()))
    keeper, net = Memory(every=1), Parts()
    for step in train(net, None, images, plan, (0, "test"), keeper):
        if step.number == kill + 1:
            break
    found = keeper.saved[-1] if keeper.saved else None
    again = Parts()
    list(train(again, None, images, plan, (0, "test"), Memory(found=found)))
    assert same(whole.state_dict(), again.state_dict())


def test_phases_must_add_up_to_the_epochs():
    with pytest.raises(ValueError, match="4"):
        Plan(4, 4, phases=PHASES)


def test_terms_see_the_views_h_and_z_of_the_step():
    seen = []

    def loss(batch):
        x = batch.one_view()
        h = net(x)
        return Forward({"own": h.square().mean()}, x, h, 2 * h)

    def term(batch, forward):
        seen.append((batch.step, forward))
        return 3 * forward.z.mean()

    net, plan = module(), Plan(1, 4)
    steps = train(net, loss, tiny(), plan, (0, "test"), Memory(), {"extra": term})
    (epoch,) = epochs_of(list(steps))
    assert [number for number, _ in seen] == [0, 1]
    assert all(torch.equal(f.z, 2 * f.h) and len(f.views) == 4 for _, f in seen)
    mean = sum(3 * f.z.mean().item() for _, f in seen) / 2
    assert epoch.losses["extra"] == pytest.approx(mean)
    assert epoch.losses.keys() == {"own", "extra"}


def test_hooks_come_before_each_epoch_and_after_each_step():
    calls = []

    class Hooked(Learner):
        def begin_epoch(self, images, epoch, rng):
            calls.append((epoch, len(images), torch.rand(1, generator=rng).item()))

        def after_step(self):
            calls.append("step")

    learner = Hooked(module())
    job = Job("test", learner, tiny(), Plan(2, 4), (0, "test"))
    list(loop.train(job, Memory()))
    draws = [call for call in calls if call != "step"]
    assert [call if call == "step" else call[:2] for call in calls] == [
        (0, 10), "step", "step", (1, 10), "step", "step",
    ]  # fmt: skip
    assert draws[0][2] != draws[1][2]
    assert (
        draws[0][2]
        == torch.rand(1, generator=loop.torch_generator(0, "test", "epoch", 0)).item()
    )


class Halves(Learner):
    """Odd steps are skipped; it counts them, and those of the epoch."""

    def __init__(self, net):
        super().__init__(net, self.halved)
        self.register_buffer("odd", torch.zeros((), dtype=torch.long))

    def begin_epoch(self, images, epoch, rng):
        self.register_buffer("now", torch.zeros((), dtype=torch.long))

    def halved(self, batch):
        forward, odd = loss_of(self.net)(batch), batch.step % 2
        self.odd += odd
        self.now += odd
        return forward._replace(counts=torch.tensor(not odd))

    def end_epoch(self, losses):
        assert losses["square"] > 0
        return {"odd": int(self.odd), "now": int(self.now)}


def halves(learner, keeper, epochs=3):
    job = Job("", learner, tiny(), Plan(epochs, 3, weight_decay=0.1), (0, "test"))
    return loop.train(job, keeper)


def test_a_step_that_is_skipped_moves_nothing():
    """Of 9 steps those numbered 1, 3, 5 and 7 are skipped; 5 are the optimiser's."""
    net, weights, kept = module(), [], Memory(every=1)
    for _ in halves(Halves(net), kept):
        weights.append(net[1].weight.detach().clone())
    assert [torch.equal(*pair) for pair in pairwise(weights)] == [True, False] * 4
    assert [values["optimiser_steps"] for _, _, values in kept.saved][-1] == 5


def test_a_learner_tells_the_journal_of_its_epoch():
    told = epochs_of(halves(Halves(module()), Memory()))
    assert [epoch.measures for epoch in told] == [
        {"odd": 1, "now": 1}, {"odd": 3, "now": 2}, {"odd": 4, "now": 1}
    ]  # fmt: skip
    facts, (plain, *_) = told[-1].facts(), epochs_of(run(Plan(1, 5))[1])
    assert facts["now"] == 1 and "measures" not in facts
    assert plain.facts().keys() == facts.keys() - {"odd", "now"}


@pytest.mark.parametrize("kill", range(1, 9))
def test_killed_anywhere_a_learner_tells_the_same(kill):
    whole, memory = Halves(module()), Memory(every=1)
    expected = epochs_of(halves(whole, Memory()))
    for step in halves(Halves(module()), memory):
        if step.number == kill + 1:
            break
    assert memory.saved[-1][0] == kill
    again = Halves(module(seed=9))
    told = epochs_of(halves(again, Memory(found=memory.saved[-1])))
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])
    for one, other in zip(expected[-len(told) :], told, strict=True):
        assert (one.losses, one.measures) == (other.losses, other.measures)
