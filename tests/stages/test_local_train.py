import shutil
from functools import partialmethod
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from furlkit.catalogue import OBJECTIVES
from furlkit.data import batches
from furlkit.files.checkpoint import read_checkpoint, write_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.partition import read_partition
from furlkit.objectives import simclr
from tests.helpers import NET, digest, epochs, furlkit, round_0

HEADS = ("projector", "decoder", "classifier", "rotation")
FAST = ("--data", "digits", "--batch-size", 32, "--epochs", 1)


@pytest.fixture(scope="module")
def five_clients(tmp_path_factory):
    """Five clients and a model that has every head."""
    heads = [word for head in HEADS for word in ("--head", head)]
    return round_0(tmp_path_factory.mktemp("five_clients"), net=(*NET, *heads))


@pytest.fixture
def train(five_clients, tmp_path):
    """Train client 0 into a file of the test's own folder."""

    def run(name, *more, partition=five_clients / "p.st", model=five_clients / "g.st"):
        output = tmp_path / f"{name}.safetensors"
        command = ("local-train", partition, model, "--client", 0, *FAST, *more)
        return furlkit(*command, "-o", output), output

    return run


def moved(before, after):
    return {
        name.partition(".")[0]
        for name, array in after.tensors.items()
        if not np.array_equal(array, before.tensors[name])
    }


@pytest.mark.parametrize(
    "objective, more",
    [
        ("simclr", ("--form", "oneway")),
        ("simclr", ("--form", "symmetric")),
        ("simclr", ("--form", "full", "--temperature", 0.3)),
        ("rotation", ()),
        ("autoencoder", ()),
        ("supervised", ("--crop-scale", "1,1", "--flip", 0)),
    ],
)
def test_every_objective_learns_and_moves_only_its_own_head(
    five_clients, train, objective, more
):
    options = ("--objective", objective, "--epochs", 5, "--lr", 0.005, *more)
    code, output = train("c", *options)
    assert code == 0
    losses = [line["losses"][objective] for line in epochs(output)]
    assert len(losses) == 5 and losses[-1] < losses[0]
    before, after = read_checkpoint(five_clients / "g.st"), read_checkpoint(output)
    assert moved(before, after) == {"encoder", *OBJECTIVES[objective].head_names}


def test_a_checkpoint_says_where_it_comes_from(five_clients, train, capsys):
    code, output = train("c", "--seed", 3, "--temperature", 0.2)
    assert code == 0
    made, model = read_checkpoint(output), read_checkpoint(five_clients / "g.st")
    partition = read_partition(five_clients / "p.st")
    facts = made.facts
    assert (facts.role, facts.round, facts.client) == ("client", 1, 0)
    assert facts.examples == len(partition.of(0)) == 288
    assert facts.parent == model.content and facts.partition == partition.content
    assert facts.architecture == model.facts.architecture
    assert facts.loss == epochs(output)[-1]["losses"]["simclr"]
    assert made.header.seed == 3
    assert made.header.inputs == {
        "global": model.content,
        "partition": partition.content,
    }
    options = made.header.options
    assert (options["temperature"], options["form"]) == (0.2, "full")
    out, err = capsys.readouterr()
    assert out == (f"{output}: client 0, round 1, 288 images, loss {facts.loss:.4f}\n")
    assert err.startswith("client 0 epoch 1/1 loss ") and "\033" not in err


def test_the_journal_has_a_line_for_every_epoch(train):
    _, output = train("c", "--epochs", 2, "--schedule", "cosine", "--lr", 0.004)
    first, second = epochs(output)
    assert (first["event"], first["epoch"], first["step"]) == ("epoch", 1, 9)
    assert second["step"] == 18 and second["samples_per_second"] > 0
    assert first["lr"] == pytest.approx(0.002 * (1 + np.cos(np.pi * 8 / 18)))
    assert 0 < first["spread"] < 1.5 and 1 < first["effective_rank"] <= 8
    assert 1 < first["rankme"] <= 8 and 0 < first["alignment"] < 4
    assert -8 <= first["uniformity"] < 0


def test_labels_never_reach_an_unsupervised_training(train, tmp_path):
    seen, unseen = tmp_path / "with.safetensors", tmp_path / "without.safetensors"
    assert furlkit("pack", "digits", "-o", seen) == 0
    assert furlkit("pack", "digits", "--no-labels", "-o", unseen) == 0
    outputs = [
        train(name, "--data", path)[1]
        for name, path in (("a", seen), ("b", unseen), ("c", "digits"))
    ]
    assert len({digest(output) for output in outputs}) == 1


def test_no_proximal_term_is_a_term_of_weight_0_and_a_heavy_one_holds_weights_back(
    five_clients, train
):
    sgd = ("--optimiser", "sgd", "--lr", 0.05, "--momentum", 0)
    without, zero, heavy = (
        train(name, *sgd, *more)[1]
        for name, more in (
            ("without", ()),
            ("zero", ("--proximal", 0)),
            ("heavy", ("--proximal", 10)),
        )
    )
    assert digest(without) == digest(zero)
    start = read_checkpoint(five_clients / "g.st").tensors

    def distance(path):
        tensors = read_checkpoint(path).tensors
        trained = [k for k in tensors if k.endswith(("weight", "bias"))]
        return sum(np.square(tensors[k] - start[k]).sum() for k in trained) ** 0.5

    assert 0 < distance(heavy) < 0.5 * distance(without)
    (line,) = epochs(heavy)
    assert set(line["losses"]) == {"simclr", "proximal"}
    assert line["losses"]["proximal"] > 0


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_keeps_float32_weights_and_nearly_the_loss(train, precision):
    exact, mixed = train("a")[1], train("b", "--precision", precision)[1]
    one, other = read_checkpoint(exact), read_checkpoint(mixed)
    assert {a.dtype.name for a in other.tensors.values()} == {"float32", "int64"}
    assert other.facts.loss == pytest.approx(one.facts.loss, rel=0.02)
    assert other.facts.loss != one.facts.loss


def test_cosines_are_compared_in_float32_even_in_mixed_precision():
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(8, 8, generator=generator) for _ in range(2))
    net = SimpleNamespace(encoder=lambda x: x @ w, projector=lambda h: h @ w)
    batch = SimpleNamespace(two_views=lambda: x)
    with torch.autocast("cpu", torch.bfloat16):
        forward = simclr.step(net, batch, 0.1, "full")
    assert forward.z.dtype == torch.bfloat16
    expected = simclr.nt_xent(*forward.z.float().chunk(2), 0.1, "full")
    assert torch.equal(forward.losses["simclr"], expected)


@pytest.mark.parametrize("objective", ["rotation", "autoencoder", "supervised"])
def test_every_objective_takes_mixed_precision(train, objective):
    objective = ("--objective", objective)
    exact, mixed = (
        train("a", *objective)[1],
        train("b", *objective, "--precision", "bfloat16")[1],
    )
    losses = [read_checkpoint(path).facts.loss for path in (exact, mixed)]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_channels_last_changes_the_speed_and_not_the_numbers(train):
    sgd = ("--optimiser", "sgd", "--lr", 0.01)
    one = read_checkpoint(train("a", *sgd)[1])
    other = read_checkpoint(train("b", *sgd, "--no-channels-last")[1])
    assert one.facts.loss == pytest.approx(other.facts.loss, rel=1e-4)
    for name, array in one.tensors.items():
        np.testing.assert_allclose(array, other.tensors[name], rtol=2e-2, atol=2e-4)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("g++") is None, reason="torch.compile needs a compiler"
)
def test_a_compiled_net_has_the_same_names_and_nearly_the_same_loss(train):
    one, other = (
        read_checkpoint(train(n, *m)[1]) for n, m in (("a", ()), ("b", ("--compile",)))
    )
    assert one.tensors.keys() == other.tensors.keys()
    assert one.facts.loss == pytest.approx(other.facts.loss, rel=1e-2)


@pytest.mark.slow
def test_clients_of_one_command_are_compiled_once(five_clients, tmp_path, monkeypatch):
    """As in the commands of --group. Graphs are traced, and not translated to C++."""
    from torch._dynamo.utils import counters

    traced = partialmethod(torch.nn.Module.compile, backend="eager")
    monkeypatch.setattr(torch.nn.Module, "compile", traced)
    graphs = []
    for clients in ("0", "0-1"):
        torch.compiler.reset()
        counters.clear()
        words = (
            "local-train",
            five_clients / "p.st",
            five_clients / "g.st",
            "--data",
            "digits",
        )
        how = ("--client", clients, "--epochs", 1, "--batch-size", 64, "--compile")
        output = tmp_path / clients / "client_{client}"
        assert furlkit(*words, *how, "-o", output) == 0
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] > 0 and graphs[1] == graphs[0]


def test_a_net_that_gives_one_point_is_called_collapsed(
    five_clients, train, tmp_path, capsys
):
    model = read_checkpoint(five_clients / "g.st")
    tensors = dict(model.tensors)
    tensors["projector.fc2.weight"] = np.zeros_like(tensors["projector.fc2.weight"])
    write_checkpoint(tmp_path / "flat.st", tensors, model.facts, Provenance("init"))
    sgd = ("--optimiser", "sgd", "--lr", 1e-3, "--weight-decay", 0)
    code, _ = train("c", "-q", *sgd, model=tmp_path / "flat.st")
    assert code == 0
    err = capsys.readouterr().err
    assert "warning: client 0: " in err and "collapsed (spread 0.000" in err
    repeated = ("c", "-q", *sgd)
    assert train(*repeated, model=tmp_path / "flat.st")[0] == 0
    assert capsys.readouterr().err == err
    assert train(*repeated, "--strict", model=tmp_path / "flat.st")[0] == 65
    assert "collapsed (spread 0.000" in capsys.readouterr().err
    code, _ = train("d", "-q")
    assert code == 0 and capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "more",
    [
        ("--optimiser", "sgd", "--lr", 1e30),  # within the epoch
        (
            "--optimiser",
            "sgd",
            "--lr",
            1e30,
            "--weight-decay",
            1e10,
            "--batch-size",
            288,
        ),  # in the very last step
    ],
)
def test_a_training_that_diverges_writes_nothing(train, tmp_path, capsys, more):
    _, output = train("c")
    before = output.read_bytes()
    code, _ = train("c", *more)
    assert code == 1
    err = capsys.readouterr().err
    assert "error: client 0: " in err and "--lr" in err
    assert output.read_bytes() == before


def test_resident_and_mapped_images_train_the_same(train, tmp_path, monkeypatch):
    assert furlkit("pack", "digits", "-o", tmp_path / "d.safetensors") == 0
    resident = train("a")[1]
    monkeypatch.setattr(batches, "RESIDENT_LIMIT", 0)
    mapped = train("b", "--data", tmp_path / "d.safetensors")[1]
    assert digest(resident) == digest(mapped)


def test_grey_images_train_a_net_for_colour(train, tmp_path):
    net = ("--data", "digits", *NET, "--channels", 3)
    assert furlkit("init", *net, "-o", tmp_path / "g.st") == 0
    code, output = train("c", model=tmp_path / "g.st")
    assert code == 0
    assert read_checkpoint(output).tensors["encoder.conv1.weight"].shape[1] == 3


def test_a_cosine_goes_on_through_the_rounds(five_clients, train, tmp_path):
    cosine = ("--schedule", "cosine", "--schedule-rounds", 2, "--lr", 0.01)
    _, client = train("c1", *cosine)
    assert furlkit("aggregate", client, "-o", tmp_path / "g1.st") == 0
    _, second = train("c2", *cosine, model=tmp_path / "g1.st")
    options = [read_checkpoint(p).header.options for p in (client, second)]
    assert [words["first-round"] for words in options] == [0, 1]
    # 9 steps in each round, 18 in all; the last rate of each round by hand.
    rates = [epochs(path)[-1]["lr"] for path in (client, second)]
    by_hand = [0.005 * (1 + np.cos(np.pi * step / 18)) for step in (8, 17)]
    assert rates == pytest.approx(by_hand)
    _, single = train("c3", "--schedule", "cosine", model=tmp_path / "g1.st")
    assert "first-round" not in read_checkpoint(single).header.options


def test_all_are_the_clients_with_images(tmp_path, run):
    """The public client has none and does not train."""
    round_0(tmp_path, ("--clients", 3, "--public-client", 1))
    words = (tmp_path / "p.st", tmp_path / "g.st", "--client", "all")
    for command in ("local-train", "pretrain-style"):
        made = run(command, *words, *FAST, "--dry-run", "-o", tmp_path / "c{client}")
        assert made.code == 0, made.err
        names = [line.split()[2] for line in made.out.splitlines()]
        assert names == [f"{tmp_path}/c0:", f"{tmp_path}/c2:"]


def test_all_without_a_partition_is_wrong_usage(five_clients, refused):
    words = ("local-train", five_clients / "g.st", "--client", "all", *FAST)
    refused(
        five_clients, 2, ["--client all", "PARTITION"], *words, "-o", five_clients / "c"
    )
