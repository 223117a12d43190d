"""Training on a device other than the CPU: no mix-ups, no waiting, few copies.

The device is written in Python (tests/device.py). A real GPU is tested in tests/gpu.
"""

import json

import numpy as np
import pytest
import torch

from furlkit import catalogue
from furlkit.data.transfer import constant, send
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.neighbours import read_neighbours
from tests.device import NAME, Device, device, on_device
from tests.helpers import epochs, furlkit

DIGITS = ("--data", "digits")
WIDTHS = ("--width", 0.05, "--projector", "16,8", "--predictor", "8,8")
STEPS = 4  # Full batches of an epoch.
FAST = (
    *DIGITS, "--epochs", 1, "--batch-size", 64, "--client", 0,
    "--optimiser", "sgd", "--lr", 0.001,
)  # fmt: skip
MORE = {"cluster": ("--mine-layer", "h")}
MOST_COPIES = 2  # The draws of the augmentation, and one besides.


@pytest.fixture
def here():
    with on_device() as counter:
        yield counter


@pytest.fixture(scope="module")
def partition(tmp_path_factory):
    path = tmp_path_factory.mktemp("device") / "p.st"
    assert furlkit("partition", *DIGITS, "--clients", 5, "-o", path) == 0
    return path


@pytest.fixture
def trained(partition, tmp_path, here):
    """Train a client on the CPU and on the device; gives what the device counted."""

    def run(objective: str, *more) -> Device:
        choice, model = ("--objective", objective), tmp_path / "g0"
        assert furlkit("init", *DIGITS, *WIDTHS, *choice, "-o", model) == 0
        command = ("local-train", partition, model, *choice, *FAST, *more)
        assert furlkit(*command, "-o", tmp_path / "cpu") == 0
        there = ("--device", f"{NAME}:0", "-o", tmp_path / "device")
        assert furlkit(*command, *there) == 0
        check_alike(tmp_path / "cpu", tmp_path / "device")
        return here

    return run


def check_alike(one, other) -> None:
    """Losses and weights agree: the two crop images by different formulas."""
    for a, b in zip(epochs(one), epochs(other), strict=True):
        assert a["losses"] == pytest.approx(b["losses"], rel=1e-3, abs=1e-4)
    found, expected = read_checkpoint(other).tensors, read_checkpoint(one).tensors
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, atol=2e-3, err_msg=name)


@pytest.mark.parametrize("name", catalogue.OBJECTIVES)
def test_an_objective_never_waits_for_the_device(trained, name):
    counter = trained(name, *MORE.get(name, ()))
    assert not counter.reads
    assert 0 < sum(counter.copies.values()) <= MOST_COPIES * STEPS, counter.copies


@pytest.mark.parametrize("more", [
    ("--proximal", 0.1), ("--randaugment", "2,9", "--cutout", 2),
    ("--blur", 0.5, "--solarise", 0.2), ("--personal", "apfl"),
])  # fmt: skip
def test_options_of_a_step_never_wait_for_the_device(trained, tmp_path, more):
    kept = ("--private-out", tmp_path / "kept") if "--personal" in more else ()
    counter = trained("simclr", *more, *kept)
    assert not counter.reads
    assert sum(counter.copies.values()) <= MOST_COPIES * STEPS, counter.copies


PROTOCOLS = {
    "knn": (), "linear": ("--epochs", 3), "logistic": ("--solver", "lbfgs"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_frozen_model_is_scored_on_the_device(here, tmp_path, monkeypatch, name):
    """All predictions agree: the features differ by rounding only."""
    from furlkit.evaluation import knn, linear, logistic

    used = []
    for module in (knn, linear, logistic):
        check = module.check_features
        monkeypatch.setattr(
            module, "check_features", lambda x, c=check: (used.append(x.device), c(x))
        )
    model, scores = tmp_path / "g", {}
    assert furlkit("init", *DIGITS, *WIDTHS, "-o", model) == 0
    protocol = "linear" if name == "logistic" else name
    for place in ("cpu", f"{NAME}:0"):
        output = tmp_path / f"{place}.json"
        words = ("evaluate", protocol, model, *DIGITS, *PROTOCOLS[name])
        assert furlkit(*words, "--device", place, "-o", output) == 0
        scores[place] = json.loads(output.read_text())["confusion"]
        assert {device.type for device in used} == {place.partition(":")[0]}
        used.clear()
    assert scores["cpu"] == scores[f"{NAME}:0"]


def test_neighbours_are_found_on_the_device(here, tmp_path):
    model, found = tmp_path / "g", []
    assert furlkit("init", *DIGITS, *WIDTHS, "-o", model) == 0
    for place in ("cpu", f"{NAME}:0"):
        output = tmp_path / f"{place}.st"
        words = ("neighbours", model, *DIGITS, "--nearest", 3, "--device", place)
        assert furlkit(*words, "-o", output) == 0
        found.append(read_neighbours(output).nearest)
    assert np.array_equal(*found)


def test_tensors_of_any_type_are_sent_in_one_copy(here):
    sent = [
        torch.arange(3), torch.tensor([True, False, True]), torch.zeros(0),
        torch.linspace(0, 1, 5).view(5, 1), torch.arange(6).view(2, 3).T,
    ]  # fmt: skip
    arrived = send(sent, device())
    for a, b in zip(sent, arrived, strict=True):
        assert b.device == device() and b.dtype == a.dtype
        assert torch.equal(a, b.cpu())
    assert send(sent, torch.device("cpu"))[0] is sent[0]


def test_a_constant_is_sent_once(here):
    like = torch.zeros(1).to(device())
    assert constant((1.0, 2.0), like) is constant((1.0, 2.0), like)
    assert constant((1.0, 2.0), like).cpu().tolist() == [1, 2]


# The device must find mistakes that a GPU would: each of these is planted.


def test_a_tensor_of_the_cpu_among_those_of_the_device_is_found(here):
    x = torch.ones(3).to(device())
    for mistake in (
        lambda: x + torch.ones(3),
        lambda: x[torch.tensor([0, 2])],
        lambda: torch.nn.functional.linear(x, torch.ones(2, 3)),
        lambda: x.index_select(0, torch.tensor([0])),
    ):
        with pytest.raises(RuntimeError, match="cpu"):
            mistake()
    assert (x + 1).cpu().tolist() == [2, 2, 2]


def test_a_generator_of_the_cpu_is_found(here):
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, generator=torch.Generator(), device=device())


@pytest.mark.parametrize("look", [
    lambda x: x.sum().item(), lambda x: float(x[0, 0]), lambda x: bool((x > 0).any()),
    lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: x.cpu(), lambda x: x.tolist(),
])  # fmt: skip
def test_a_step_that_waits_is_counted(trained, monkeypatch, look):
    from furlkit.objectives import simclr

    plain = simclr.normalise

    def normalise(z):
        look(z.detach())
        return plain(z)

    monkeypatch.setattr(simclr, "normalise", normalise)
    assert sum(trained("simclr").reads.values()) >= STEPS


def test_a_constant_that_every_step_sends_is_counted(trained, monkeypatch):
    from furlkit.objectives import simclr

    plain = simclr.normalise

    def normalise(z):
        return plain(z) * torch.ones(1).to(z.device)

    monkeypatch.setattr(simclr, "normalise", normalise)
    assert sum(trained("simclr").copies.values()) >= 2 * STEPS


def test_the_clock_waits_for_the_device(trained, monkeypatch):
    """A device that computes behind the program's back is waited for, once an epoch."""
    waits = []
    module = torch.get_device_module(NAME)
    monkeypatch.setattr(module, "synchronize", lambda: waits.append(1))
    trained("simclr")
    assert len(waits) == 1


def test_mapped_images_are_sent_in_one_copy(trained, monkeypatch):
    from furlkit.data import batches

    monkeypatch.setattr(batches, "RESIDENT_LIMIT", 0)
    counter = trained("supervised")
    assert not counter.reads
    assert sum(counter.copies.values()) <= MOST_COPIES * STEPS, counter.copies
