"""Finetuning by rounds: what is averaged, what is saved, what is predicted."""

import math
import signal

import numpy as np
import pytest
import torch

from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.data.sets.source import Source
from furlkit.errors import FurlkitError, Stopped
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.models.architecture import Architecture, build
from furlkit.models.embedding import predict
from furlkit.models.heads import give_classifier
from furlkit.models.loading import load_tensors, tensors_of
from furlkit.objectives import supervised
from furlkit.objectives.learner import Stateless
from furlkit.randomness import torch_generator
from furlkit.training import loop, rounds, signals
from furlkit.training.plan import Plan
from furlkit.training.rounds import Finetuning
from furlkit.training.run import run_jobs
from furlkit.weights import weighted_sum
from tests.helpers import epochs

HEADS = {"projector": (8, 4), "rotation": (4,)}
ARCHITECTURE = Architecture("cnn5", 8, 1, 0.02, heads=HEADS)
DIGITS = Source("digits").images()
PARTS = {0: np.arange(40), 3: np.arange(40, 60), 4: np.arange(60, 63)}
PLAN = Plan(epochs=2, batch_size=16)


class Nobody:
    """A keeper that keeps nothing."""

    def restore(self):
        return None

    def due(self, finished):
        return False

    def save(self, step, tensors, values):
        raise NotImplementedError


def net_of(hidden=6, seed=0):
    net = build(ARCHITECTURE, torch_generator(seed, "encoder"))
    generator = torch_generator(seed, "head")
    return give_classifier(net, ARCHITECTURE.feature_dim, hidden, 10, generator)


def job_of(net=None, parts=PARTS, rounds=2, plan=PLAN):
    view = View(Augmentation(), 8, 1, DIGITS.mean, DIGITS.std)
    images, labels = DIGITS.images, DIGITS.labels
    net = net or net_of()
    return Finetuning(net, images, labels, view, parts, plan, rounds, (7, "x"))


def finetuned(folder, job, every=1000.0):
    """The state after a finetuning, and its loss."""
    folder.mkdir(exist_ok=True)
    run_jobs(job, folder / "o.json", Provenance("evaluate", {}, 7, {}), every)
    load_tensors(job.net, job.weights)
    return {k: v.copy() for k, v in tensors_of(job.net).items()}, job.loss


def same(one, other):
    return one.keys() == other.keys() and all(
        one[k].dtype == other[k].dtype and np.array_equal(one[k], other[k]) for k in one
    )


@pytest.mark.parametrize("hidden, widths", [(6, [(6, 41), (10, 6)]), (0, [(10, 41)])])
def test_the_classifier_is_an_mlp_or_one_layer(hidden, widths):
    net = net_of(hidden)
    layers = [m for m in net.classifier if isinstance(m, torch.nn.Linear)]
    assert [tuple(layer.weight.shape) for layer in layers] == widths
    assert [type(m).__name__ for m in net.classifier if m not in layers] == (
        ["ReLU"] if hidden else []
    )
    for layer in layers:
        bound = 1 / math.sqrt(layer.in_features)
        assert 0.5 * bound < layer.weight.abs().max() <= bound
        assert layer.bias.abs().max() <= bound
    # Heads that are not trained are not averaged either.
    assert {name.split(".")[0] for name in net.state_dict()} == {
        "encoder",
        "classifier",
    }


def test_the_classifier_is_drawn_from_the_generator_alone():
    before = torch.get_rng_state()
    one, again, other = (net_of(seed=seed).classifier for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one[0].weight, again[0].weight)
    assert not torch.equal(one[0].weight, other[0].weight)


def test_predictions_are_the_largest_logit_of_plain_images():
    net, job = net_of().eval(), job_of()
    x = torch.from_numpy(DIGITS.images[:300]).permute(0, 3, 1, 2) / 255
    x = (x - DIGITS.mean[0]) / DIGITS.std[0]
    first, _, second = net.classifier
    with torch.no_grad():
        first.weight *= 100  # A net that has learnt nothing gives all one class.
        h = net.encoder(x)
        logits = (h @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T
    expected = (logits + second.bias).argmax(dim=1)
    found = predict(net.train(), DIGITS.images[:300], job.view)
    assert torch.equal(found, expected) and len(set(found.tolist())) > 1


def test_milestones_count_the_epochs_of_all_rounds():
    job = job_of(rounds=3, plan=Plan(2, 16, lr=1.0, milestones=(1, 4)))
    rates = [job.job(turn).plan.lr_at(0, 2) for turn in range(job.turns)]
    assert rates == pytest.approx([1] * 3 + [0.1] * 3 + [0.01] * 3)


def test_turns_go_through_the_clients_round_by_round():
    job = job_of(rounds=2)
    assert job.turns == 6
    jobs = [job.job(turn) for turn in range(6)]
    where = [(one.where["round"], one.where["client"]) for one in jobs]
    assert where == [(1, 0), (1, 3), (1, 4), (2, 0), (2, 3), (2, 4)]
    # Two, one and one full batches in an epoch, two epochs.
    assert [one.steps_before for one in jobs] == [0, 4, 6, 8, 12, 14]
    assert job.shares == [40 / 63, 20 / 63, 3 / 63]


def test_a_round_is_the_mean_that_aggregate_makes(monkeypatch):
    rng, job = np.random.default_rng(0), job_of(rounds=2)
    models = [
        {
            "w": rng.normal(size=(3, 2)).astype(np.float32),
            "z": np.float32([-0.0]),
            "n": np.array(n),
        }
        for n in (4, 9, 2)
    ]

    def finish(turn, model, loss):
        monkeypatch.setattr(rounds, "tensors_of", lambda net: model)
        job.finish(turn, loop.Epoch(1, 1, {"supervised": loss}, 0.1, 1, 1, 1))

    for k, model in enumerate(models):
        finish(k, model, float(k))
        assert (job.total == {}) == (k == 2)
        if k < 2:
            assert job.total["w"].dtype == np.float64
    for name in ("w", "z"):
        expected = weighted_sum([model[name] for model in models], job.shares)
        assert job.weights[name].dtype == np.float32
        assert job.weights[name].tobytes() == expected.tobytes()
    assert job.weights["n"].dtype == np.int64 and job.weights["n"].shape == ()
    assert job.weights["n"] == 9 and job.losses == (0, 1, 2)
    # The next round forgets the losses of this one, and starts a new sum.
    finish(3, models[0], 5.0)
    assert job.losses == (5.0,)
    assert np.allclose(job.total["w"], models[0]["w"] * 40 / 63)


def test_two_rounds_written_out(tmp_path):
    """Each client from the round's model, an optimiser of its own, then the mean."""
    job = job_of()
    weights = {k: v.copy() for k, v in tensors_of(job.net).items()}
    for round_ in range(2):
        trained, losses = [], []
        for client, index in PARTS.items():
            net = net_of()
            net.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()})
            device = torch.device("cpu")
            images = Images(job.images, job.labels, index, job.view, device)
            learner, purpose = Stateless(net, supervised.step), (7, "x", round_)
            one = loop.Job("", learner, images, PLAN, (*purpose, client))
            steps = loop.train(one, Nobody())
            epochs = [step.epoch for step in steps if step.epoch]
            losses.append(epochs[-1].losses["supervised"])
            trained.append(tensors_of(net))
        weights = {
            k: np.asarray(weighted_sum([t[k] for t in trained], job.shares))
            for k in weights
        }
    found, loss = finetuned(tmp_path, job)
    assert same(found, weights)
    assert loss == pytest.approx(np.dot(job.shares, losses), rel=1e-12)


def test_one_client_and_one_round_is_its_training(tmp_path):
    """This is central mode: the average of one model is that model."""
    job, net = job_of(parts={0: PARTS[0]}, rounds=1), net_of()
    device = torch.device("cpu")
    images = Images(job.images, job.labels, PARTS[0], job.view, device)
    learner = Stateless(net, supervised.step)
    list(loop.train(loop.Job("", learner, images, PLAN, (7, "x", 0, 0)), Nobody()))
    assert same(finetuned(tmp_path, job)[0], tensors_of(net))


def test_encoder_and_classifier_both_learn(tmp_path):
    before = tensors_of(net_of())
    after, _ = finetuned(tmp_path, job_of())
    for name in (
        "encoder.conv1.weight",
        "encoder.bn5.running_mean",
        "classifier.0.bias",
    ):
        assert not np.array_equal(before[name], after[name])


def test_killed_before_any_step_it_ends_with_the_same_weights(tmp_path, dies_at):
    expected = finetuned(tmp_path / "a", job_of())
    for done in range(1, 16):  # Each start does one of the 16 steps.
        with dies_at(loop.Trainer, "step", 2):
            finetuned(tmp_path / "b", job_of(), every=0)
        saved = Container(tmp_path / "b" / "o.json.progress")
        assert saved.header.facts["step"] == done
    found = finetuned(tmp_path / "b", job_of(), every=0)
    assert same(found[0], expected[0]) and found[1] == expected[1]
    entries = epochs(tmp_path / "b" / "o.json")
    assert [(e["round"], e["client"], e["epoch"]) for e in entries] == [
        (r, c, e) for r in (1, 2) for c in (0, 3, 4) for e in (1, 2)
    ]
    assert [e["step"] for e in entries] == [2, 4, 5, 6, 7, 8, 10, 12, 13, 14, 15, 16]


@pytest.mark.parametrize("turn", [0, 2, 5])
def test_a_signal_between_two_clients_saves_before_it_stops(
    tmp_path, monkeypatch, turn
):
    expected = finetuned(tmp_path / "a", job_of())

    finish = Finetuning.finish

    def signalled(job, now, last):
        if now == turn:
            signals._handle(signal.SIGTERM, None)
        finish(job, now, last)

    monkeypatch.setattr(Finetuning, "finish", signalled)
    with pytest.raises(Stopped):
        finetuned(tmp_path / "b", job_of())
    monkeypatch.undo()
    trained = []
    original = loop.train
    monkeypatch.setattr(
        loop, "train", lambda *given: trained.append(given[0]) or original(*given)
    )
    found = finetuned(tmp_path / "b", job_of())
    assert len(trained) == 5 - turn
    assert same(found[0], expected[0]) and found[1] == expected[1]


def test_a_training_that_diverges_is_named(tmp_path):
    plan = Plan(epochs=3, batch_size=16, optimiser="sgd", lr=1e20)
    with pytest.raises(FurlkitError, match="^round 1/2 client 0: .*--lr"):
        finetuned(tmp_path, job_of(plan=plan))
