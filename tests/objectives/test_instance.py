"""Instance discrimination: its loss in loops and by hand; the bank; two rounds."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.files.private import read_private
from furlkit.objectives.instance import first_bank, instance_loss, learner
from furlkit.objectives.simclr import normalise
from tests.helpers import NET, digest, furlkit, round_0, tensor_bytes


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def units(*shape, seed=0):
    return normalise(torch.randn(*shape, generator=seeded(seed), dtype=torch.float64))


# --- the loss -------------------------------------------------------------------------


def test_loss_matches_loops():
    v, bank, index = units(4, 3), units(9, 3, seed=1), torch.tensor([7, 0, 3, 3])
    total = 0.0
    for n in range(4):
        scores = [math.exp(float(v[n] @ row) / 0.07) for row in bank]
        total -= math.log(scores[index[n]] / sum(scores))
    found = float(instance_loss(v, bank, index, 0.07))
    assert found == pytest.approx(total / 4, abs=1e-12)


def test_loss_by_hand():
    bank, index = torch.eye(3), torch.tensor([1])
    # Its own row has cosine 1, two others 0; where all rows are one, all are as likely.
    found = float(instance_loss(bank[1:2], bank, index, 0.5))
    assert found == pytest.approx(math.log(1 + 2 * math.e**-2))
    same = instance_loss(bank[1:2], bank[:1].repeat(8, 1), index, 0.5)
    assert float(same) == pytest.approx(math.log(8))
    assert float(instance_loss(bank[:1], bank[:1], torch.tensor([0]), 0.07)) == 0


def test_a_step_down_the_gradient_brings_an_image_nearer_to_its_row():
    v, bank, index = units(5, 3), units(9, 3, seed=1), torch.arange(5)
    v.requires_grad_()
    instance_loss(v, bank, index, 0.5).backward()
    moved = (v - 0.1 * v.grad).detach()
    assert (moved * bank[:5]).sum() > (v.detach() * bank[:5]).sum()


# --- the bank -------------------------------------------------------------------------


def test_a_bank_begins_with_random_unit_rows_where_the_client_has_none():
    kept = torch.zeros(6, 3)
    kept[2] = torch.tensor([0.6, 0.0, 0.8])
    bank = first_bank(kept, seeded())
    assert torch.equal(bank[2], kept[2])
    torch.testing.assert_close(bank.norm(dim=1), torch.ones(6))
    assert len(bank.unique(dim=0)) == 6
    assert torch.equal(bank, first_bank(kept, seeded()))
    assert not torch.equal(bank, first_bank(kept, seeded(1)))


class Tiny(nn.Module):
    """A net of flat images."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
        self.projector = nn.Linear(6, 4)


def test_a_step_moves_the_rows_of_its_images_half_way_and_keeps_them_unit_rows():
    pixels = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 1), np.uint8)
    view = View(Augmentation(), 8, 1, (0.5,), (0.5,))
    images = Images(pixels, None, np.arange(9), view, torch.device("cpu"))
    method = learner(net := Tiny(), temperature=0.07, bank_momentum=0.5)
    method.begin_epoch(images, 0, seeded())
    before, index = method.bank.clone(), torch.tensor([4, 0])
    forward = method.step(images.batch(index, seeded()))
    v, loss = normalise(forward.z), forward.losses["instance"]
    torch.testing.assert_close(loss, instance_loss(v, before, index, 0.07))
    loss.backward()
    assert net.encoder[1].weight.grad.abs().sum() > 0
    assert torch.equal(method.bank, before)
    method.after_step()
    moved = normalise((before[index] + v.detach()) / 2)
    torch.testing.assert_close(method.bank[index], moved)
    others = [i for i in range(9) if i not in (4, 0)]
    assert torch.equal(method.bank[others], before[others])
    # The next epoch of a round goes on with the bank.
    kept = method.bank.clone()
    method.begin_epoch(images, 1, seeded(1))
    assert torch.equal(method.bank, kept)


# --- rounds ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def instance_start(tmp_path_factory):
    return round_0(tmp_path_factory.mktemp("instance"), ("--clients", 8), NET)


def train(instance_start, folder, *more):
    words = (
        "local-train",
        instance_start / "p.st",
        instance_start / "g.st",
        "--data",
        "digits",
    )
    words += ("--objective", "instance", "--epochs", 1, "--batch-size", 32)
    files = ("--private-out", folder / "k{client}", "-o", folder / "c{client}")
    return furlkit(*words, "--client", "0-1", *more, *files)


def test_the_bank_stays_in_the_private_file_and_the_next_round_has_it(
    instance_start, tmp_path
):
    assert train(instance_start, tmp_path) == 0
    names = {name.split(".")[0] for name in tensor_bytes(tmp_path / "c0")}
    assert names == {"encoder", "projector"}
    one = read_private(tmp_path / "k0", 0)
    rows, index = one.memory["bank.rows"], one.memory["bank.index"]
    assert one.facts.memory == ["bank"] and rows.shape == (len(index), 8)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    # A rate of nearly 0 and a bank that stays: the rows come back as they were.
    assert furlkit("aggregate", tmp_path / "c0", tmp_path / "c1",
                   "-o", tmp_path / "g1") == 0  # fmt: skip
    words = (
        "local-train",
        instance_start / "p.st",
        tmp_path / "g1",
        "--data",
        "digits",
    )
    words += ("--objective", "instance", "--epochs", 1, "--bank-momentum", 1)
    words += ("--private", tmp_path / "k0", "--private-out", tmp_path / "k2")
    assert furlkit(*words, "--client", 0, "-o", tmp_path / "c2") == 0
    two = read_private(tmp_path / "k2", 0).memory["bank.rows"]
    np.testing.assert_allclose(two, rows, atol=1e-6)


def test_a_bank_that_is_broken_or_would_be_sent_is_refused(
    instance_start, tmp_path, refused, forge
):
    assert train(instance_start, tmp_path) == 0
    words = (
        "local-train",
        instance_start / "p.st",
        instance_start / "g.st",
        "--data",
        "digits",
    )
    words += ("--objective", "instance", "--client", 0, "-o", tmp_path / "d")
    forge(tmp_path / "k0", {"memory.bank.rows": np.zeros((3, 8), np.float32)},
          {"round": 0})  # fmt: skip
    given = ("--private", tmp_path / "k0")
    refused(tmp_path, 65, (tmp_path / "k0", "bank"), *words, *given)
    refused(tmp_path, 2, ("--send bank",), *words, "--send", "encoder,projector,bank")


def test_no_label_is_read(instance_start, tmp_path):
    packed = tmp_path / "packed.safetensors"
    assert furlkit("pack", "digits", "--no-labels", "-o", packed) == 0
    for folder, data in (("a", "digits"), ("b", packed)):
        assert train(instance_start, tmp_path / folder, "--data", data) == 0
    for name in ("c0", "k0"):
        both = [tensor_bytes(tmp_path / folder / name) for folder in "ab"]
        assert both[0] == both[1]
    assert digest(tmp_path / "a" / "c0") != digest(tmp_path / "a" / "c1")
