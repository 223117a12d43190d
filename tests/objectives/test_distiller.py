"""The student, its slow copy and its queue, step by step."""

from collections import deque
from copy import deepcopy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from furlkit.aggregators.dictionary import unit_rows
from furlkit.aggregators.similarity_rows import Similarities
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.models.architecture import Architecture, build
from furlkit.objectives import similarity
from furlkit.objectives.similarity import Distiller
from furlkit.randomness import torch_generator
from furlkit.training import loop
from furlkit.training.loop import positions
from furlkit.training.plan import Plan

CPU, WIDTH, PURPOSE = torch.device("cpu"), 5, (0, "distill", 1)
STILL = Augmentation((1, 1), (1, 1), flip=0, jitter_probability=0, grey=0)
MOVING = Augmentation()


class Linear(nn.Module):
    """A net without BatchNorm, so that a row depends on its image alone."""

    def __init__(self, seed=0):
        super().__init__()
        layer = nn.Linear(64, WIDTH, bias=False)
        generator = torch.Generator().manual_seed(seed)
        layer.weight.data.normal_(0, 0.2, generator=generator)
        self.encoder, self.projector = nn.Sequential(nn.Flatten(), layer), None

    @property
    def weight(self):
        return self.encoder[1].weight


def pictures(n, how=STILL, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (n, 8, 8, 1), dtype=np.uint8)
    return Images(pixels, None, np.arange(n), View(how, 8, 1, (0.5,), (0.5,)), CPU)


def similarities(*parts, tau=0.1):
    rows = [torch.from_numpy(unit_rows(np.asarray(R, np.float32))) for R in parts]
    return Similarities(rows, tau_T=tau)


def student(net, sims, m, layer="h", width=WIDTH, tau=0.1, zeta=0.9):
    options = {"layer": layer, "width": width, "anchors": m}
    return Distiller(net, sims, **options, temperature=tau, ema=zeta)


def keys_of(images, size, m, purpose=PURPOSE):
    """The batches that fill a queue of m keys; their steps count up to -1."""
    steps = -(-m // min(size, len(images)))
    for step in range(steps):
        index = positions(images, size, (*purpose, "fill"), step)
        generator = torch_generator(*purpose, "fill", step)
        yield images.batch(index, generator, step - steps)


def random_rows(n, d=3, seed=1):
    return np.random.default_rng(seed).standard_normal((n, d))


def batch(images, size, step):
    index = positions(images, size, PURPOSE, step)
    return images.batch(index, torch_generator(*PURPOSE, "augment", step), step)


@torch.no_grad()
def seen_by(net, images):
    """Unit rows of all images as they are."""
    everything = images.batch(torch.arange(len(images)), torch.Generator())
    return F.normalize(net.encoder(everything.plain()), dim=1)


def test_one_client_no_augmentation_and_that_client_as_student_have_no_divergence():
    images, net = pictures(20), Linear()
    of_client = similarities(seen_by(net, images).numpy())
    distiller = student(net, of_client, 12, zeta=0.999)
    distiller.fill(keys_of(images, 4, 12))
    loss = distiller.step(batch(images, 4, 0)).losses["distillation"]
    loss.backward()
    assert abs(loss.item()) < 1e-6
    assert net.weight.grad.abs().max() < 1e-5
    other = student(Linear(seed=1), of_client, 12, zeta=0.999)
    other.fill(keys_of(images, 4, 12))
    assert other.step(batch(images, 4, 0)).losses["distillation"].item() > 0.1


def test_a_step_follows_the_equations_in_order():
    """q of view 1; the slow copy follows; key of view 2; enqueued; then the logits."""
    n, B, m, tau, zeta = 20, 4, 8, 0.2, 0.5
    images, R = pictures(n, MOVING), random_rows(n)
    net = Linear()
    distiller = student(net, similarities(R), m, tau=tau, zeta=zeta)
    distiller.fill(keys_of(images, B, m))
    mu = Linear(seed=9).weight.detach().clone()
    distiller.slow.weight.data.copy_(mu)
    queue, anchors = distiller.queue.clone(), distiller.anchors.tolist()
    theta = net.weight.detach().clone()

    twin = batch(images, B, 1)
    views = [twin.one_view().flatten(1) for _ in range(2)]
    q = F.normalize(views[0] @ theta.T, dim=1)
    mu = zeta * mu + (1 - zeta) * theta
    queue[B:] = F.normalize(views[1] @ mu.T, dim=1)  # Step 1 has places 4 to 7.
    anchors[B:] = twin.index.tolist()
    unit = unit_rows(R)
    expected = 0.0
    for i, image in enumerate(twin.index.tolist()):
        M = [np.exp(unit[image] @ unit[anchor] / 0.1) for anchor in anchors]
        logits = [float(q[i] @ key) / tau for key in queue]
        below = sum(np.exp(logits))
        for M_ij, logit in zip(M, logits, strict=True):
            p = M_ij / sum(M)
            expected += p * np.log(p / (np.exp(logit) / below)) / B

    forward = distiller.step(batch(images, B, 1))
    assert forward.losses.keys() == {"distillation"}
    assert forward.losses["distillation"].item() == pytest.approx(expected, rel=1e-4)
    assert torch.allclose(forward.z, q, atol=1e-6)
    assert torch.equal(forward.views.flatten(1), views[0])
    assert torch.allclose(distiller.slow.weight, mu, atol=1e-7)
    assert torch.allclose(distiller.queue, queue, atol=1e-6)
    assert distiller.anchors.tolist() == anchors


# images, batch, anchors: dividing and not, fewer and more anchors than images, and
# fewer images than a batch.
SIZES = [(10, 4, 8), (10, 4, 6), (10, 4, 7), (10, 4, 4), (10, 4, 23), (10, 16, 25), (3, 2, 50)]  # fmt: skip


@pytest.mark.parametrize("n, B, m", SIZES)
def test_the_queue_is_first_in_first_out_and_full_from_the_start(n, B, m):
    images = pictures(n, MOVING)
    distiller = student(Linear(), similarities(random_rows(n)), m)
    keys = deque(maxlen=m)
    enqueue = distiller._enqueue

    def remembered(rows, taken):
        keys.extend(zip(taken.index.tolist(), rows.tolist(), strict=True))
        enqueue(rows, taken)

    distiller._enqueue = remembered
    distiller.fill(keys_of(images, B, m))
    assert len(keys) == m
    assert torch.allclose(distiller.queue.norm(dim=1), torch.ones(m))
    for step in range(8):
        now = batch(images, B, step)
        distiller.step(now)
        oldest = (step + 1) * len(now.index) % m
        in_order = torch.arange(m).roll(-oldest)
        assert distiller.anchors[in_order].tolist() == [index for index, _ in keys]
        assert distiller.queue[in_order].tolist() == [row for _, row in keys]


@pytest.mark.parametrize("n, B, m", SIZES)
def test_an_image_finds_itself_among_the_anchors(n, B, m):
    images = pictures(n)
    distiller = student(Linear(), similarities(random_rows(n)), m)
    distiller.fill(keys_of(images, B, m))
    for step in range(5):
        now = batch(images, B, step)
        q = distiller.step(now).z
        for row, image in zip(q.detach(), now.index, strict=True):
            own = distiller.queue[distiller.anchors == image]
            assert len(own) and (own @ row).max() == pytest.approx(1, abs=1e-5)


def test_all_images_get_into_the_queue_before_any_comes_twice():
    distiller = student(Linear(), similarities(random_rows(12)), 12)
    distiller.fill(keys_of(pictures(12), 4, 12))
    assert sorted(distiller.anchors.tolist()) == list(range(12))


def test_only_the_student_has_gradients_and_the_slow_copy_starts_as_it():
    net = build(
        Architecture("cnn5", 8, 1, 0.02, heads={"projector": (8, 4)}),
        torch_generator(0),
    )
    distiller = student(net, similarities(random_rows(10)), 8, "z", 4, tau=1)
    for slow, fast in zip(distiller.slow.parameters(), net.parameters(), strict=True):
        assert torch.equal(slow, fast) and slow.data_ptr() != fast.data_ptr()
        assert fast.requires_grad and not slow.requires_grad
    images = pictures(10, MOVING)
    distiller.fill(keys_of(images, 4, 8))
    distiller.step(batch(images, 4, 0)).losses["distillation"].backward()
    assert all(p.grad is not None for p in net.parameters())
    assert all(p.grad is None for p in distiller.slow.parameters())
    assert not distiller.queue.requires_grad and distiller.queue.grad is None


class NoKeeper:
    """Keeps nothing."""

    def restore(self):
        return None

    def due(self, finished):
        return False


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_through_a_training_the_slow_copy_is_equation_10_of_the_student_s_past(
    optimiser,
):
    """The optimiser, weight decay included, moves the student and nothing else."""
    images, zeta = pictures(16, MOVING), 0.7
    net = Linear()
    distiller = student(net, similarities(random_rows(16)), 8, zeta=zeta)
    distiller.fill(keys_of(images, 4, 8))
    past, step = [], distiller.step

    def watched(now):
        past.append(net.weight.detach().clone())
        return step(now)

    distiller.step = watched
    plan = Plan(3, 4, optimiser, lr=0.05, weight_decay=0.1)
    list(loop.train(loop.Job("", distiller, images, plan, PURPOSE), NoKeeper()))
    mu = past[0]
    for theta in past:
        mu = zeta * mu + (1 - zeta) * theta
    assert len(past) == 12 and not torch.allclose(past[0], past[-1], atol=0.05)
    assert torch.allclose(distiller.slow.weight, mu, atol=1e-6)
    assert not torch.allclose(net.weight, mu, atol=1e-3)


def test_what_is_distilled_is_learnt():
    images, R = pictures(16), random_rows(16)
    distiller = student(Linear(), similarities(R), 16, zeta=0.5)
    distiller.fill(keys_of(images, 8, 16))
    plan = Plan(20, 8, lr=0.02, weight_decay=0)
    steps = loop.train(loop.Job("", distiller, images, plan, PURPOSE), NoKeeper())
    losses = [step.epoch.losses["distillation"] for step in steps if step.epoch]
    assert losses[-1] < losses[0] / 4


@pytest.mark.parametrize("layer, width", [("z", 4), ("h", 41)])
def test_h_or_z_is_compared(layer, width):
    net = build(
        Architecture("cnn5", 8, 1, 0.02, heads={"projector": (8, 4)}),
        torch_generator(0),
    )
    distiller = student(net, None, 8, layer, width).eval()
    x = torch.rand(3, 1, 8, 8, generator=torch_generator(1))
    with torch.no_grad():
        h = net.encoder(x)
        rows = net.projector(h) if layer == "z" else h
        assert torch.equal(distiller.represent(net, x)[1], F.normalize(rows, dim=1))


def test_mixed_precision_leaves_the_ensemble_s_similarities_as_they_are(monkeypatch):
    images, R = pictures(10), random_rows(10)
    distiller = student(Linear(), similarities(R), 8)
    distiller.fill(keys_of(images, 4, 8))
    seen, loss = [], similarity.distillation_loss

    def watched(q, anchors, M, tau):
        seen.append((q.dtype, anchors.dtype, M))
        return loss(q, anchors, M, tau)

    monkeypatch.setattr(similarity, "distillation_loss", watched)
    now = batch(images, 4, 0)
    with torch.autocast("cpu", torch.bfloat16):
        distiller.step(now)
    (of_q, of_anchors, M), *_ = seen
    assert of_q == of_anchors == M.dtype == torch.float32
    assert torch.equal(M, similarities(R)(now.index, distiller.anchors))


def test_its_state_is_all_that_a_resumed_training_needs():
    """A copy that loads the state continues alike, whatever it held before."""
    images, sims = pictures(10, MOVING), similarities(random_rows(10))
    one = student(Linear(), sims, 8)
    one.fill(keys_of(images, 4, 8))
    one.step(batch(images, 4, 0))
    other = student(Linear(seed=5), sims, 8)
    other.fill(keys_of(images, 4, 8, (9, "other")))
    other.load_state_dict(deepcopy(one.state_dict()))
    for distiller in (one, other):
        distiller.step(batch(images, 4, 1))
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
