"""FedStyle: rounds with infused views under every loss; what leaves and what stays."""

import numpy as np
import pytest
import torch

from furlkit.data.augment import normalise, plain, sobel
from furlkit.data.sets.source import Source
from furlkit.exchanges import style
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.partition import read_partition
from furlkit.files.private import read_private
from furlkit.models.loading import load_net, load_tensors
from furlkit.training import loop
from furlkit.weights import PRIVATE, below, part_of, within
from tests.helpers import (
    contents,
    digest,
    epochs,
    furlkit,
    step_of,
    tensor_bytes,
)

DIGITS = ("--data", "digits")
NET = ("--width", 0.02, "--projector", "8,4", "--predictor", "8,4")
FAST = (*DIGITS, "--batch-size", 240)
EPOCH = ("--epochs", 1)
LOSSES = ("simclr", "simsiam", "byol", "moco", "barlow")
INFUSED = ("--infusion", 0.5)
TARGET = {"target.encoder", "target.projector"}
CARRIED = {"byol": TARGET, "moco": {*TARGET, "queue", "infused_queue"}}
STYLE = {"generator", "style.encoder", "style.projector"}


@pytest.fixture(scope="module")
def styled_clients(tmp_path_factory):
    """Two clients with style models, and a model that every loss can train."""
    folder = tmp_path_factory.mktemp("fedstyle")
    assert furlkit("partition", *DIGITS, "--clients", 2, "-o", folder / "p") == 0
    init = ("init", *DIGITS, *NET, "--objective", "simsiam", "--head", "prototypes")
    init = (*init, "--head", "rotation", "-o", folder / "g")
    assert furlkit(*init) == 0
    style = ("pretrain-style", folder / "p", folder / "g", *FAST, "--client", "0-1")
    assert (
        furlkit(*style, *EPOCH, "--projector", "8,4", "-o", folder / "k{client}") == 0
    )
    return folder


@pytest.fixture
def train(styled_clients, tmp_path):
    """Train clients into a folder of the test's own; gives the exit code."""

    def run(folder, *more, client=0, objective="simclr", length=EPOCH, **files):
        out, model = tmp_path / folder, files.get("model", styled_clients / "g")
        words = ["local-train", styled_clients / "p", model, *FAST, *length]
        words += ["--objective", objective, "--client", client, "-q", *more]
        words += ["--private", files.get("private", styled_clients / "k{client}")]
        return furlkit(
            *words, "--private-out", out / "k{client}", "-o", out / "c{client}"
        )

    return run


def parts(tensors):
    return {part_of(name) for name in tensors}


def of(part, tensors):
    return {k: v.tobytes() for k, v in tensors.items() if within(part_of(k), [part])}


@pytest.mark.parametrize("objective", LOSSES)
def test_two_rounds_of_every_loss_send_the_content_model_and_keep_the_style(
    styled_clients, train, tmp_path, objective
):
    assert train("1", *INFUSED, client="0-1", objective=objective) == 0
    clients = (tmp_path / "1" / "c0", tmp_path / "1" / "c1")
    assert furlkit("aggregate", *clients, "-o", tmp_path / "g1") == 0
    how = {"model": tmp_path / "g1", "private": tmp_path / "1" / "k{client}"}
    assert train("2", *INFUSED, **how, objective=objective) == 0
    upload = read_checkpoint(tmp_path / "2" / "c0")
    assert not any(within(part, PRIVATE) for part in parts(upload.tensors))
    first, second = (read_private(tmp_path / n / "k0", 0).tensors for n in "12")
    heads = parts(upload.tensors)  # Of these the client keeps BatchNorm statistics.
    kept = STYLE | CARRIED.get(objective, set())
    assert parts(second) - heads == kept == parts(first) - heads
    start = read_private(styled_clients / "k0", 0).tensors
    assert of("style", start) == of("style", first) == of("style", second)
    assert of("generator", first) != of("generator", second)
    (line,) = epochs(tmp_path / "2" / "c0")
    assert line["losses"].keys() == {objective, "infusion"}
    assert line["terms"]["infusion"].keys() == {"spread", "effective_rank"}


@pytest.mark.parametrize("objective", LOSSES)
def test_a_lambda_of_0_is_fedavg_to_the_bit(styled_clients, train, tmp_path, objective):
    out = ("--private-out", tmp_path / "k", "-o", tmp_path / "plain")
    words = (
        "local-train",
        styled_clients / "p",
        styled_clients / "g",
        *FAST,
        *EPOCH,
        "--client",
        0,
    )
    assert furlkit(*words, "--objective", objective, *out) == 0
    assert train("0", "--infusion", 0, objective=objective) == 0
    zero = tmp_path / "0" / "c0"
    assert tensor_bytes(tmp_path / "plain") == tensor_bytes(zero)
    one, other = (Container(path).header for path in (tmp_path / "plain", zero))
    assert (one.facts, one.options, one.seed) == (
        other.facts,
        other.options,
        other.seed,
    )
    assert other.inputs.pop("private") and one.inputs == other.inputs
    # Its style is the client's still, for a round that infuses it.
    kept, start = (
        read_private(k, 0).tensors
        for k in (tmp_path / "0" / "k0", styled_clients / "k0")
    )
    assert of("style", kept) == of("style", start)


def test_a_round_without_infusion_passes_everything_of_the_style_on(train, tmp_path):
    assert train("1", *INFUSED, objective="moco") == 0
    first = tmp_path / "1"
    assert furlkit("aggregate", first / "c0", "-o", tmp_path / "g1") == 0
    how = {"model": tmp_path / "g1", "private": first / "k{client}"}
    assert train("2", **how, objective="moco") == 0
    before, after = (read_private(tmp_path / n / "k0", 0).tensors for n in "12")
    for part in ("style", "generator", "infused_queue"):
        assert of(part, before) == of(part, after) != {}


def test_clients_draw_generators_of_their_own_and_do_not_depend_on_each_other(
    train, tmp_path
):
    assert train("both", *INFUSED, client="0-1") == 0
    assert train("alone", *INFUSED, client=1) == 0
    for name in ("c1", "k1"):
        assert digest(tmp_path / "both" / name) == digest(tmp_path / "alone" / name)
    frozen = (*INFUSED, "--freeze-generator")
    assert train("frozen", *frozen, client="0-1") == 0
    drawn = [read_private(tmp_path / "frozen" / f"k{c}", c).tensors for c in (0, 1)]
    assert of("generator", drawn[0]) != of("generator", drawn[1])


def test_a_frozen_generator_stays_as_it_was_drawn(train, tmp_path):
    frozen = (*INFUSED, "--freeze-generator")
    assert train("1", *frozen) == 0
    assert furlkit("aggregate", tmp_path / "1" / "c0", "-o", tmp_path / "g1") == 0
    how = {"model": tmp_path / "g1", "private": tmp_path / "1" / "k{client}"}
    assert train("2", *frozen, **how) == 0
    assert train("3", *INFUSED) == 0
    first, second, trained = (
        of("generator", read_private(tmp_path / n / "k0", 0).tensors) for n in "123"
    )
    assert first == second != trained
    options = read_checkpoint(tmp_path / "1" / "c0").header.options
    assert options["freeze-generator"] is True and options["infusion"] == 0.5


def test_styles_are_those_of_plain_images_and_of_their_edges_computed_once(
    styled_clients, train, tmp_path, monkeypatch
):
    found, original = [], style.embed

    def counting(*given, **more):
        found.append((more["edges"], original(*given, **more)))
        return found[-1][1]

    monkeypatch.setattr(style, "embed", counting)
    assert train("1", *INFUSED, length=("--epochs", 3)) == 0
    model, own = (
        read_checkpoint(styled_clients / "g"),
        read_private(styled_clients / "k0", 0),
    )
    net = load_net(model, torch.device("cpu")).eval()
    load_tensors(net.encoder, below("style.encoder.", own.tensors))
    pixels = (
        Source("digits").images().images[read_partition(styled_clients / "p").of(0)]
    )
    x = plain(torch.from_numpy(pixels), 8)
    for (edges, rows), images in zip(found, (x, sobel(x)), strict=True):
        assert edges == (images is not x)
        shown = normalise(images, model.facts.mean, model.facts.std)
        with torch.no_grad():
            torch.testing.assert_close(rows, net.encoder(shown), rtol=1e-4, atol=1e-4)


def test_infusion_changes_what_is_sent(train, tmp_path):
    for name, weight in (("a", 0), ("b", 0.1), ("c", 1)):
        assert train(name, "--infusion", weight) == 0
    found = [tensor_bytes(tmp_path / name / "c0") for name in "abc"]
    assert len({one["encoder.conv1.weight"] for one in found}) == 3


def test_an_untrained_style_infuses_too(styled_clients, train, tmp_path):
    style = (
        "pretrain-style",
        styled_clients / "p",
        styled_clients / "g",
        *FAST,
        "--epochs",
        0,
    )
    style = (*style, "--client", 0, "--projector", "8,4", "-o", tmp_path / "k")
    assert furlkit(*style) == 0
    assert train("a", *INFUSED) == 0
    assert train("b", *INFUSED, private=tmp_path / "k") == 0
    one, other = (tensor_bytes(tmp_path / name / "c0") for name in "ab")
    assert one != other


@pytest.mark.parametrize("objective", ["simclr", "moco"])
def test_killed_and_started_again_it_ends_with_the_same_bytes(
    train, tmp_path, dies_at, objective
):
    how = (*INFUSED, "--batch-size", 180, "--epochs", 2, "--save-every", 0)
    assert train("whole", *how, objective=objective) == 0
    for _ in range(2):
        with dies_at(loop.Trainer, "step", 3):
            train("parts", *how, objective=objective)
    assert step_of(tmp_path / "parts" / "c0") == 4
    assert train("parts", *how, objective=objective) == 0
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")


def test_it_goes_with_the_parts_of_other_systems(styled_clients, train, tmp_path):
    """A dictionary, neighbours, a proximal term, FedPer, phases, mixed precision."""
    rows = ("--features-out", tmp_path / "f", "--alpha", 0, "--dictionary-size", 20)
    assert train("1", *INFUSED, *rows) == 0
    assert furlkit("aggregate", tmp_path / "1" / "c0", "-o", tmp_path / "g1") == 0
    second = {"model": tmp_path / "g1", "private": tmp_path / "1" / "k{client}"}
    terms = ("--neighbours", 2, "--proximal", 0.1, "--dictionary", tmp_path / "f")
    assert train("2", *INFUSED, *terms, **second) == 0
    (line,) = epochs(tmp_path / "2" / "c0")
    names = {"simclr", "infusion", "neighbours", "proximal"}
    assert line["losses"].keys() == names
    assert train("per", *INFUSED, "--send", "encoder") == 0
    assert parts(read_checkpoint(tmp_path / "per" / "c0").tensors) == {"encoder"}
    assert train("half", *INFUSED, "--precision", "bfloat16", objective="byol") == 0


def test_a_generator_is_trained_in_the_phases_that_name_it(train, tmp_path):
    found = []
    for name, phases in (("a", "encoder:1"), ("b", "encoder+generator:1")):
        assert train(name, *INFUSED, length=("--phases", phases)) == 0
        found.append(of("generator", read_private(tmp_path / name / "k0", 0).tensors))
    assert train("c", *INFUSED, "--freeze-generator") == 0
    drawn = of("generator", read_private(tmp_path / "c" / "k0", 0).tensors)
    assert found[0] == drawn != found[1]


def test_a_collapse_of_the_infused_views_is_reported(
    styled_clients, train, forge, tmp_path, capsys
):
    """A generator that gives one point for all images; the content does not collapse."""
    assert train("1", *INFUSED) == 0
    private = read_private(tmp_path / "1" / "k0", 0).tensors
    flat = {
        name: np.zeros_like(array) + name.endswith("bias")
        for name, array in private.items()
        if name.startswith("generator.")
    }
    dead = forge(tmp_path / "1" / "k0", flat, {"round": 0})
    capsys.readouterr()
    assert train("2", *INFUSED, "--freeze-generator", private=dead) == 0
    err = capsys.readouterr().err
    assert err.count("warning: ") == 1 and "of infusion has collapsed" in err
    assert "--infusion" in err and "client 0" in err


@pytest.mark.parametrize("weight, collapsed", [(0.5, False), (10_000, True)])
def test_a_large_lambda_collapses_and_the_meter_says_so(
    train, tmp_path, capsys, weight, collapsed
):
    """FedStyle's Table 4: a strong second loss leaves G one point for all images."""
    how = ("--batch-size", 120, "--optimiser", "sgd", "--lr", 0.1, "--momentum", 0.9)
    words = ("--infusion", weight, *how)
    assert train("1", *words, length=("--epochs", 2)) == 0
    err = capsys.readouterr().err
    assert (
        "of infusion has collapsed" in err and "lower --infusion" in err
    ) == collapsed
    last = epochs(tmp_path / "1" / "c0")[-1]["terms"]["infusion"]
    assert (last["spread"] < 0.01) == collapsed


# --- what is refused ------------------------------------------------------------------


@pytest.fixture
def words(styled_clients, tmp_path):
    """A command line with infusion, for a client's private file, or without one."""

    def line(*more, private=styled_clients / "k0", model=None, out=True):
        known = [
            "local-train",
            styled_clients / "p",
            model or styled_clients / "g",
            *FAST,
            *EPOCH,
        ]
        known += ["--client", 0, *INFUSED, *more]
        known += ["--private", private] if private else []
        known += ["--private-out", tmp_path / "k"] if out else []
        return [*known, "-o", tmp_path / "c"]

    return line


def test_infusion_needs_a_private_file_and_a_place_for_the_next(
    words, tmp_path, refused
):
    refused(tmp_path, 2, ("--private,", "pretrain-style"), *words(private=None))
    refused(tmp_path, 2, ("--private-out", "generator"), *words(out=False))


@pytest.mark.parametrize("objective", ["rotation", "swav"])
def test_a_loss_that_does_not_compare_two_views_has_a_reason(
    words, tmp_path, refused, objective
):
    expected = (f"--objective {objective}", "two views", "simclr", "barlow")
    refused(tmp_path, 2, expected, *words("--objective", objective))


def test_a_private_file_without_a_style_model(styled_clients, words, tmp_path, refused):
    plain = (
        "local-train",
        styled_clients / "p",
        styled_clients / "g",
        *FAST,
        *EPOCH,
        "--client",
        0,
    )
    files = ("--private-out", tmp_path / "kept", "-o", tmp_path / "c0")
    assert furlkit(*plain, *files) == 0
    assert furlkit("aggregate", tmp_path / "c0", "-o", tmp_path / "g1") == 0
    given = {"private": tmp_path / "kept", "model": tmp_path / "g1"}
    for dry in ((), ("--dry-run",)):
        expected = (tmp_path / "kept", "style model", "pretrain-style")
        refused(tmp_path, 65, expected, *words(*dry, **given))


def test_a_style_model_of_another_width(styled_clients, words, tmp_path, refused):
    wide = ("init", *DIGITS, *NET, "--width", 0.04, "--objective", "simsiam")
    assert furlkit(*wide, "-o", tmp_path / "wide") == 0
    expected = (styled_clients / "k0", "style.encoder.", tmp_path / "wide")
    refused(tmp_path, 65, expected, *words(model=tmp_path / "wide"))


def test_a_style_model_or_a_generator_that_is_not_whole(
    styled_clients, words, tmp_path, refused, forge, train
):
    assert train("1", *INFUSED) == 0
    path = tmp_path / "1" / "k0"
    forge(path, {"style.encoder.conv1.weight": None}, {"round": 0})
    expected = (path, "style.encoder.conv1.weight", "lacks")
    refused(tmp_path, 65, expected, *words(private=path))
    first = read_private(styled_clients / "k0", 0).tensors
    name = "style.encoder.conv1.weight"
    forge(path, {name: first[name], "generator.fc1.weight": np.zeros((9, 9), "f4")})
    expected = (path, "generator.fc1.weight", "(9, 9)")
    refused(tmp_path, 65, expected, *words(private=path))


def test_another_client_s_style(styled_clients, words, tmp_path, refused):
    expected = (styled_clients / "k1", "client 1")
    refused(tmp_path, 65, expected, *words(private=styled_clients / "k1"))


@pytest.mark.parametrize("part", ["generator", "style", "infused_queue"])
def test_style_and_generator_cannot_be_sent(words, tmp_path, refused, part):
    send = ("--objective", "moco", "--send", f"encoder,projector,{part}")
    refused(tmp_path, 2, (f"--send {part}", "projector"), *words(*send))


def test_options_of_infusion_do_not_apply_without_it(styled_clients, tmp_path, refused):
    plain = (
        "local-train",
        styled_clients / "p",
        styled_clients / "g",
        *FAST,
        *EPOCH,
        "--client",
        0,
    )
    words = (*plain, "--freeze-generator", "-o", tmp_path / "c")
    refused(tmp_path, 2, ("--freeze-generator", "--infusion"), *words)
    words = (
        *plain[:-4],
        "--client",
        0,
        "--phases",
        "generator:1",
        "-o",
        tmp_path / "c",
    )
    refused(tmp_path, 2, ("--phases generator",), *words)
