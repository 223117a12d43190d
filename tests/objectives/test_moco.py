"""MoCo: its loss in loops, by property and by hand, lightly; its queue; two rounds."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.private import read_private
from furlkit.objectives.moco import learner, moco_loss
from furlkit.objectives.queue import Queue
from furlkit.objectives.simclr import normalise
from furlkit.weights import part_of, weighted_sum
from tests.helpers import NET, digest, furlkit, round_0
from tests.objectives.tiny import TwoImages

CPU = torch.device("cpu")


def units(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return normalise(torch.randn(*shape, generator=generator, dtype=torch.float64))


# --- the loss -------------------------------------------------------------------------


def test_loss_matches_loops():
    q, k, negatives, tau = units(5, 3), units(5, 3, seed=1), units(7, 3, seed=2), 0.1
    total = 0.0
    for i in range(5):
        positive = math.exp(float(q[i] @ k[i]) / tau)
        others = sum(math.exp(float(q[i] @ n) / tau) for n in negatives)
        total -= math.log(positive / (positive + others))
    found = float(moco_loss(q, k, negatives, tau))
    assert found == pytest.approx(total / 5, abs=1e-12)


def test_value_by_hand():
    q = k = torch.tensor([[1.0, 0.0]])
    # One orthogonal negative: log(1 + exp(-1 / tau)); three more that equal the key.
    across, same = torch.tensor([[0.0, 1.0]]), q.repeat(3, 1)
    assert float(moco_loss(q, k, across, 0.5)) == pytest.approx(math.log1p(math.e**-2))
    assert float(moco_loss(q, k, same, 0.5)) == pytest.approx(math.log(4))


def test_no_negative_no_loss_and_each_adds_to_it():
    q, k, negatives = units(5, 3), units(5, 3, seed=1), units(7, 3, seed=2)
    losses = [float(moco_loss(q, k, negatives[:count], 0.1)) for count in range(8)]
    assert losses[0] == 0
    assert losses == sorted(losses) and len(set(losses)) == 8
    shuffled = moco_loss(q, k, negatives.flip(0), 0.1)
    torch.testing.assert_close(shuffled, moco_loss(q, k, negatives, 0.1))


def test_a_step_down_the_gradient_brings_the_key_nearer():
    q, k, negatives = units(5, 3), units(5, 3, seed=1), units(7, 3, seed=2)
    q.requires_grad_()
    moco_loss(q, k, negatives, 0.5).backward()
    assert ((q - 0.1 * q.grad).detach() * k).sum() > (q.detach() * k).sum()


def test_agrees_with_lightly_once_its_bank_has_lost_the_random_rows():
    theirs = pytest.importorskip("lightly.loss").NTXentLoss(0.1, (12, 5))
    queue = Queue(12, 5, CPU)
    for step in range(5):
        z_1, z_2 = units(2, 6, 5, seed=step).float()
        z_1.requires_grad_()  # Otherwise lightly leaves its bank as it is.
        loss, k = theirs(z_1, z_2), normalise(z_2)
        if step >= 2:
            ours = moco_loss(normalise(z_1), k, queue.filled, 0.1)
            torch.testing.assert_close(ours, loss)
        queue.add(k)


# --- the queue ------------------------------------------------------------------------


@pytest.mark.parametrize("size, batch", [(7, 3), (8, 4), (3, 5), (4, 4), (1, 2)])
def test_a_queue_holds_the_last_rows_even_if_batches_do_not_divide_it(size, batch):
    queue, rows = Queue(size, 1, CPU), torch.arange(10.0 * batch)[:, None]
    for count in range(11):
        written = count * batch
        kept = rows[max(written - size, 0) : written].flatten().tolist()
        assert sorted(queue.filled.flatten().tolist()) == kept
        queue.add(rows[written : written + batch])


def test_the_oldest_row_makes_place_for_the_newest():
    queue = Queue(3, 1, CPU)
    for value in (1.0, 2.0, 3.0, 4.0):
        queue.add(torch.tensor([[value]]))
    assert queue.filled.flatten().tolist() == [4, 2, 3] and int(queue.written) == 4


# --- the learner ----------------------------------------------------------------------


class Tiny(nn.Module):
    """Linear maps under the names that a net has."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(2, 3)
        self.projector = nn.Linear(3, 2)


def stepped(moco):
    loss = moco.step(TwoImages()).losses["moco"]
    moco.after_step()
    return loss


def test_keys_are_negatives_from_the_next_step_on():
    moco = learner(Tiny(), temperature=0.1, ema=0.5, queue=3)
    assert stepped(moco) == 0
    keys = normalise(moco.target(TwoImages().two_views()[2:]))
    torch.testing.assert_close(moco.queue.filled, keys)
    q = normalise(moco.step(TwoImages()).z)
    assert torch.equal(stepped(moco), moco_loss(q, keys, keys, 0.1))
    assert len(moco.queue.filled) == 3


def test_the_target_makes_the_keys_follows_the_net_and_takes_no_gradient():
    moco = learner(net := Tiny(), temperature=0.1, ema=0.75, queue=3)
    old = moco.target["encoder"].weight.clone()
    stepped(moco)
    with torch.no_grad():
        net.encoder.weight += 1
    moco.step(TwoImages()).losses["moco"].backward()
    moco.after_step()
    expected = 0.75 * old + 0.25 * net.encoder.weight
    torch.testing.assert_close(moco.target["encoder"].weight, expected)
    assert all(p.grad is None for p in moco.target.parameters())
    assert net.encoder.weight.grad.abs().sum() > 0


def test_rows_of_others_are_negatives_and_an_empty_bank_is_plain_moco_to_the_bit():
    net, remote = Tiny(), 3 * torch.tensor([[0.0, 1.0], [1.0, 1.0]])

    def second(z_dict, **how):
        moco = learner(net, temperature=0.1, ema=0.9, queue=8, z_dict=z_dict, **how)
        stepped(moco)
        q, keys = normalise(moco.step(TwoImages()).z), moco.queue.filled
        return stepped(moco), q, keys

    plain, q, keys = second(None)
    assert torch.equal(second(remote[:0])[0], plain)
    k = keys  # The target has not moved: it equals the net.
    everything = torch.cat([keys, normalise(remote)])
    torch.testing.assert_close(second(remote)[0], moco_loss(q, k, everything, 0.1))
    rest = moco_loss(q, k, normalise(remote), 0.1)
    torch.testing.assert_close(second(remote, remote_only=True)[0], rest)
    assert torch.equal(second(None, remote_only=True)[0], plain)


# --- rounds ---------------------------------------------------------------------------

MOCO = ("--objective", "moco", "--queue", 100)
UNEVEN = ("--scheme", "volume", "--clients", 2, "--decay", 0.5)
BOTH = ("--send", "encoder,projector,target")


@pytest.fixture(scope="module")
def moco_start(tmp_path_factory):
    return round_0(tmp_path_factory.mktemp("moco"), UNEVEN, NET)


def train(moco_start, folder, *more, model=None, client="0-1"):
    words = (
        "local-train",
        moco_start / "p.st",
        model or moco_start / "g.st",
        *MOCO,
        *BOTH,
    )
    words = (*words, "--data", "digits", "--epochs", 1, "--batch-size", 64)
    files = ("--private-out", folder / "k{client}", "-o", folder / "c{client}")
    return furlkit(*words, "--client", client, *more, *files)


@pytest.fixture
def second(moco_start, tmp_path):
    """A first round of two clients; gives its folder, with the global model g."""
    assert train(moco_start, tmp_path) == 0
    clients = (tmp_path / "c0", tmp_path / "c1")
    assert furlkit("aggregate", *clients, "-o", tmp_path / "g") == 0
    return tmp_path


def test_both_networks_are_averaged_and_the_queue_stays(second):
    uploads = [read_checkpoint(second / f"c{k}") for k in (0, 1)]
    parts = ["encoder", "projector", "target.encoder", "target.projector"]
    assert all(sorted(upload.facts.parts) == parts for upload in uploads)
    examples = np.array([upload.facts.examples for upload in uploads])
    found = read_checkpoint(second / "g").tensors
    assert {part_of(name) for name in found} == set(parts)
    for name in (k for k in found if k.startswith("target.")):
        both = [upload.tensors[name] for upload in uploads]
        expected = weighted_sum(both, examples / examples.sum())
        np.testing.assert_allclose(found[name], expected, rtol=1e-6)
    private = read_private(second / "k0", 0)
    assert private.tensors["queue.rows"].shape == (100, 8)
    assert private.tensors["queue.written"] == examples[0] // 64 * 64
    assert examples[0] > examples[1]
    words = ("evaluate", "knn", second / "g", "--data", "digits")
    assert furlkit(*words, "-o", second / "knn.json") == 0


def test_the_next_round_starts_from_the_averaged_target_and_the_kept_queue(
    moco_start, second
):
    """With a rate too small to move a weight, and a target that stays."""
    still = ("--optimiser", "sgd", "--lr", 1e-30, "--weight-decay", 0, "--ema", 1)
    own = ("--private", second / "k{client}")
    assert train(moco_start, second / "2", *still, *own, model=second / "g") == 0
    shared = read_checkpoint(second / "g").tensors
    upload = read_checkpoint(second / "2" / "c0").tensors
    name = "target.encoder.conv1.weight"
    assert np.array_equal(upload[name], shared[name])
    assert not np.array_equal(upload[name], shared["encoder.conv1.weight"])
    kept = [read_private(second / d / "k0", 0).tensors for d in ("", "2")]
    assert kept[1]["queue.written"] == 2 * kept[0]["queue.written"]
    # Without its private file the client's queue is empty at first.
    assert train(moco_start, second / "3", *still, model=second / "g") == 0
    alone = read_private(second / "3" / "k0", 0).tensors
    assert alone["queue.written"] == kept[0]["queue.written"]
    assert digest(second / "2" / "c0") != digest(second / "3" / "c0")


def test_a_queue_of_another_size_and_one_that_would_be_sent_are_refused(
    moco_start, second, refused
):
    words = ("local-train", moco_start / "p.st", second / "g", "--data", "digits")
    words = (*words, "--client", 0, "-o", second / "d", "--objective", "moco")
    own = ("--private", second / "k0", "--queue", 50)
    refused(second, 65, (second / "k0", "queue.rows"), *words, *own)
    refused(second, 2, ("--send queue",), *words, "--send", "encoder,projector,queue")
