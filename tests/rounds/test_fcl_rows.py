"""FCL's rows: BatchNorm normalises encrypted images by their batch, as it does keys."""

import math

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sklearn.linear_model import LogisticRegression
from torch import nn

from furlkit.data.augment import Augmentation, instahide
from furlkit.data.batches import View
from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.partition import read_partition
from furlkit.models.embedding import batch_statistics, embed, embed_mixed
from furlkit.models.loading import load_net, load_tensors
from furlkit.randomness import numpy_generator, torch_generator
from furlkit.weights import below
from tests.helpers import epoch_losses, furlkit, tensor_bytes

DIGITS = ("--data", "digits")
VIEWS = ("--crop-scale", "0.4,1", "--flip", 0, "--jitter", "0.4,0.4,0,0", "--grey", 0)
CLIENTS = 3


@pytest.fixture(scope="module")
def fcl_start(tmp_path_factory):
    """Three clients and a global model of round 0 for the preset fcl."""
    folder = tmp_path_factory.mktemp("rows")
    net = ("--preset", "fcl", "--encoder", "cnn5", "--width", 0.05)
    assert furlkit("partition", *DIGITS, "--clients", CLIENTS, "-o", folder / "p") == 0
    out = ("--projector", "16,8", "-o", folder / "g0")
    assert furlkit("init", *DIGITS, *net, *out) == 0
    return folder


def train(fcl_start, folder, *more, model="g0", client=0, epochs=1):
    """Train a client by the preset fcl: its model c, rows f and private file k."""
    words = (
        "local-train",
        fcl_start / "p",
        fcl_start / model,
        *DIGITS,
        "--preset",
        "fcl",
    )
    words += ("--client", client, "--epochs", epochs, "--batch-size", 64, *VIEWS)
    words += ("--queue", 256, "--schedule", "constant", "-q", *more)
    words += ("--features-out", folder / "f", "--private-out", folder / "k")
    assert furlkit(*words, "-o", folder / "c") == 0
    return folder


# --- three kinds of tests -------------------------------------------------------------


def normalised_by_loops(norm, x):
    """BatchNorm by the mean and the variance of the batch, one channel at a time."""
    found = torch.empty_like(x, dtype=torch.float64)
    for channel in range(x.shape[1]):
        values = x[:, channel].double()
        mean = values.sum() / values.numel()
        variance = ((values - mean) ** 2).sum() / values.numel()
        scaled = (values - mean) / math.sqrt(variance + norm.eps)
        found[:, channel] = scaled * norm.weight[channel] + norm.bias[channel]
    return found.float()


def test_rows_of_a_round_match_loops(fcl_start, tmp_path):
    """From the upload's slow network, image by image and channel by channel."""
    train(fcl_start, tmp_path, "--dictionary-size", 300)
    upload, digits = read_checkpoint(tmp_path / "c"), Source("digits").images()
    net = load_net(upload, torch.device("cpu"))
    load_tensors(net, below("target.", upload.tensors))
    for norm in (
        m for m in net.modules() if isinstance(m, nn.BatchNorm2d | nn.BatchNorm1d)
    ):
        norm.forward = lambda x, norm=norm: normalised_by_loops(norm, x)
    index = read_partition(fcl_start / "p").of(0)
    (mean,), (std,) = upload.facts.mean, upload.facts.std
    purpose = (0, "share", 1, 0)
    places = numpy_generator(*purpose).choice(len(index), 100, replace=False)
    rng, rows = torch_generator(*purpose, "mix"), []
    for batch in (places[:50], places[50:]):  # Two batches of at most 64.
        mixtures = instahide.draw_mixtures(torch.from_numpy(batch), len(index), rng)
        shares = instahide.draw_coefficients(len(batch), rng)
        signs = instahide.draw_mask((len(batch), 1, 8, 8), rng)
        x = torch.zeros(len(batch), 1, 8, 8)
        for row in range(len(batch)):
            for place, share in zip(mixtures[row], shares[row], strict=True):
                image = torch.tensor(digits.images[index[place]] / 255.0)[..., 0]
                x[row, 0] += share * (image - mean) / std
            x[row] *= signs[row]
        with torch.no_grad():
            rows.append(net.projector(net.encoder(x)))
    z = torch.cat(rows).numpy()
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    shared = read_features(tmp_path / "f").rows
    apart = np.linalg.norm(shared[:, None] - z, axis=2)
    assert shared.shape == (100, 8)
    assert apart.min(axis=0).max() < 1e-4 and apart.min(axis=1).max() < 1e-4


class Tiny(nn.Module):
    """BatchNorm of three colours, which are z; its running statistics are not the images'."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(3))
        self.encoder[1].running_mean += 7

    def head(self, name):
        return None


VIEW = View(Augmentation(), 1, 3, (0.0,) * 3, (1.0,) * 3)


def test_of_two_images_each_is_above_or_below_their_mean_by_one():
    images = np.array([[[[0, 51, 0]]], [[[255, 0, 102]]]], np.uint8)
    net, index = Tiny(), np.arange(2)
    with batch_statistics(net):
        z = embed(net, images, index, VIEW, "z")
    np.testing.assert_allclose(z, [[-1, 1, -1], [1, -1, 1]], rtol=1e-3)
    outside = embed(net, images, index, VIEW, "z")
    np.testing.assert_allclose(outside, [[-7, -6.8, -7], [-6, -7, -6.6]], rtol=1e-3)


def test_a_batch_has_mean_0_and_variance_1_and_the_net_stays_as_it_was():
    images = np.random.default_rng(0).integers(0, 256, (40, 1, 1, 3), np.uint8)
    net, rng = Tiny(), torch.Generator().manual_seed(0)
    all_ = np.arange(len(images))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    for masks in (True, False):
        with batch_statistics(net):
            z = embed_mixed(net, images, all_, all_[:30], VIEW, rng, masks)
        np.testing.assert_allclose(z.mean(dim=0), 0, atol=1e-6)
        np.testing.assert_allclose(z.var(dim=0, correction=0), 1, rtol=1e-2)
    after = net.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_an_error_gives_the_statistics_back():
    net = Tiny()
    with pytest.raises(SystemError), batch_statistics(net):
        raise SystemError
    assert net.encoder[1].running_mean.tolist() == [7, 7, 7]


# --- the option -----------------------------------------------------------------------


def test_statistics_change_the_rows_alone_and_are_recorded(fcl_start, tmp_path):
    folders = {}
    for name in ("batch", "running"):
        folders[name] = tmp_path / name
        more = () if name == "batch" else ("--rows-statistics", name)
        train(fcl_start, folders[name], "--dictionary-size", 60, *more)
    batch, running = folders.values()
    assert tensor_bytes(batch / "c") == tensor_bytes(running / "c")
    assert tensor_bytes(batch / "k") == tensor_bytes(running / "k")
    assert tensor_bytes(batch / "f") != tensor_bytes(running / "f")
    for name, folder in folders.items():
        recorded = Container(folder / "f").header.options.get("rows-statistics")
        assert recorded == (None if name == "running" else "batch")


@pytest.mark.parametrize(
    "more, words",
    [
        (("--share-rows", "averaged"), ("--rows-statistics", "averaged")),
        (("--dictionary-size", 1), ("--rows-statistics batch", "--dictionary-size")),
    ],
)
def test_statistics_of_a_batch_need_fresh_rows_and_more_than_one(
    fcl_start, refused, tmp_path, more, words
):
    given = ("local-train", fcl_start / "p", fcl_start / "g0", *DIGITS, "--client", 0)
    given += ("--features-out", tmp_path / "f", "--share-rows", "instahide", *more)
    given += ("--rows-statistics", "batch", "-o", tmp_path / "c")
    refused(tmp_path, 2, words, *given)


# --- rows and keys --------------------------------------------------------------------


def separable(rows, keys):
    """Held-out accuracy of a linear classifier that tells rows from as many keys."""
    assert len(rows) == len(keys)
    x, y = np.concatenate([rows, keys]), np.repeat([0, 1], len(rows))
    order = np.random.default_rng(0).permutation(len(x))
    fitted, tested = order[::2], order[1::2]
    model = LogisticRegression(C=100, max_iter=2000).fit(x[fitted], y[fitted])
    return model.score(x[tested], y[tested])


def test_rows_of_the_preset_are_not_told_from_keys_and_rows_in_eval_mode_are(
    fcl_start, tmp_path
):
    """The classifier of 256 rows and 256 keys; chance is 50 %."""
    found = {}
    for name in ("batch", "running"):
        more = ("--dictionary-size", 256 * CLIENTS, "--rows-statistics", name)
        folder = train(fcl_start, tmp_path / name, *more, "--lr", 0.03, epochs=4)
        keys = load_file(folder / "k")["queue.rows"]
        found[name] = separable(load_file(folder / "f")["rows"], keys)
    assert found["batch"] <= 0.6 and found["running"] >= 0.8, found


# --- a bank without the client's own rows ---------------------------------------------


def test_a_bank_without_own_rows_gives_the_loss_of_the_whole_bank(
    fcl_start, tmp_path, forge
):
    """The server, or the client, leaves the client's rows out."""
    size = ("--dictionary-size", 60)
    for client in range(CLIENTS):
        train(fcl_start, tmp_path / f"{client}", *size, client=client)
    uploads, rows = (
        [tmp_path / f"{client}" / name for client in range(CLIENTS)] for name in "cf"
    )
    model, bank = tmp_path / "g1", tmp_path / "whole"
    assert furlkit("aggregate", *uploads, "-o", model) == 0
    words = ("aggregate", "--rule", "dictionary", *size)
    assert furlkit(*words, *rows, "-o", bank) == 0
    assert furlkit(*words, *rows[1:], "-o", tmp_path / "others") == 0
    assert furlkit(*words, *rows, "--for", 0, "-o", tmp_path / "for") == 0
    outcomes = []
    for name in ("whole", "others", "for"):
        given = ("--dictionary", tmp_path / name, *size, "--private", tmp_path / "0/k")
        folder = train(fcl_start, tmp_path / f"{name}_2", *given, model=model)
        outcomes.append((epoch_losses(folder / "c"), tensor_bytes(folder / "c")))
    assert outcomes[0] == outcomes[1] == outcomes[2] and set(outcomes[0][0][0]) == {
        "moco",
        "neighbours",
    }
