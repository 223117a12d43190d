"""Broken files as every input: exit code, message, and nothing on disk changed."""

import io
import json
import os
import pickle

import numpy as np
import pytest

from furlkit.files.container.header import canonical
from furlkit.files.container.read import Container
from furlkit.files.ensemble import EnsembleFacts, write_parts
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, write_features
from furlkit.files.neighbours import NeighbourFacts, write_neighbours
from furlkit.files.private import PrivateFacts, write_private
from furlkit.files.similarity import write_similarity
from furlkit.files.targets import TargetFacts, write_targets
from tests.helpers import furlkit

DIGITS = ("--data", "digits")


@pytest.fixture
def shared_files(world):
    """The tiny world, and files for each of FedCA's and FLESD's inputs."""
    provenance, index = Provenance("local-train", {}, 0), np.arange(3)
    rows = np.eye(3, 4, dtype=np.float32)
    place = "{}/{}.safetensors".format
    own = FeatureFacts("z", {}, "0", 0, 0, 3)
    public = FeatureFacts("z", {"examples": 3}, "public", 0, 0, 3)
    known = {"features_0": own, "dictionary": own, "public_0": public}
    for name, facts in known.items():
        write_features(place(world.folder, name), rows, index, facts, provenance)
    private = PrivateFacts(0, 0, [], ["averaged_features"])
    memory = {"averaged_features.rows": rows, "averaged_features.index": index}
    path = place(world.folder, "private_0")
    write_private(path, {}, memory, private, provenance)
    described = TargetFacts("a" * 64, {}, [0.5], [0.5], {"examples": 3}, 3)
    answers = {"h": rows, "z": rows}
    write_targets(place(world.folder, "targets"), answers, index, described, provenance)
    blocks, path = [np.eye(3, dtype=np.float32)], place(world.folder, "similarity_0")
    write_similarity(path, blocks, index, public, provenance)
    ensemble = EnsembleFacts("rows", [0], 1, 0.1, {"examples": 3}, "all", 3)
    path = place(world.folder, "ensemble")
    write_parts(path, {0: rows}, {}, index, ensemble, provenance)
    about = NeighbourFacts("z", {"examples": 3}, "0", 3)
    near, path = np.array([[1], [2], [0]]), place(world.folder, "neighbours")
    write_neighbours(path, near, index, about, provenance)
    return world


def aggregate(shared_files, broken):
    """The commands that open a file: how each is given the broken one."""
    others = shared_files.clients[1:]
    return "aggregate", *others[:1], broken, *others[1:], "-o", shared_files.output


def local_train_partition(shared_files, broken):
    rest = ("--client", 0, "--epochs", 1, "-o", shared_files.output)
    return "local-train", broken, shared_files.model, *DIGITS, *rest


def local_train_global(shared_files, broken):
    rest = ("--client", 0, "--epochs", 1, "-o", shared_files.output)
    return "local-train", shared_files.partition, broken, *DIGITS, *rest


def local_train_dictionary(shared_files, broken):
    return *local_train_global(shared_files, shared_files.model), "--dictionary", broken


def local_train_align(shared_files, broken):
    more = ("--align", broken, "--align-data", "digits")
    return *local_train_global(shared_files, shared_files.model), *more


def local_train_private(shared_files, broken):
    return *local_train_global(shared_files, shared_files.model), "--private", broken


def local_train_neighbours(shared_files, broken):
    model = shared_files.folder / "clusters.safetensors"
    words = ("init", *DIGITS, "--width", 0.02, "--objective", "cluster")
    assert model.exists() or furlkit(*words, "-o", model) == 0
    more = ("--objective", "cluster", "--neighbours-from", broken)
    return *local_train_global(shared_files, model), *more


def aggregate_dictionary(shared_files, broken):
    return "aggregate", "--rule", "dictionary", broken, "-o", shared_files.output


def aggregate_ensemble(shared_files, broken):
    return "aggregate", "--rule", "ensemble", broken, "-o", shared_files.output


def aggregate_similarity(shared_files, broken):
    return aggregate_ensemble(shared_files, broken)


def distill_ensemble(shared_files, broken):
    return (
        "distill",
        broken,
        shared_files.model,
        *DIGITS,
        "--epochs",
        1,
        "-o",
        shared_files.output,
    )


def distill_start(shared_files, broken):
    ensemble = shared_files.folder / "ensemble.safetensors"
    return (
        "distill",
        ensemble,
        broken,
        *DIGITS,
        "--epochs",
        1,
        "-o",
        shared_files.output,
    )


def pretrain_align(shared_files, broken):
    outputs = ("--targets-out", shared_files.folder / "t", "-o", shared_files.output)
    return "pretrain-align", broken, *DIGITS, "--epochs", 1, *outputs


def pretrain_style(shared_files, broken):
    rest = ("--client", 0, "--epochs", 1, "-o", shared_files.output)
    return "pretrain-style", shared_files.partition, broken, *DIGITS, *rest


def dry_run(shared_files, broken):
    return *local_train_global(shared_files, broken), "--dry-run"


def evaluate(shared_files, broken):
    return "evaluate", "knn", broken, *DIGITS, "-o", shared_files.output


def embed(shared_files, broken):
    return "embed", broken, *DIGITS, "-o", shared_files.output


def neighbours(shared_files, broken):
    return "neighbours", broken, *DIGITS, "-o", shared_files.output


def export(shared_files, broken):
    return "export", broken, "-o", shared_files.folder / "exported"


def init_from(shared_files, broken):
    rest = ("--width", 0.02, "--projector", "8,4", "-o", shared_files.output)
    return "init", *DIGITS, "--from", broken, *rest


def plot(shared_files, broken):
    return "plot", "partition", broken, "-o", shared_files.folder / "heat.png"


def inspect(shared_files, broken):
    return "inspect", "--verify", broken


def packed_data(shared_files, broken):
    return "partition", "--data", broken, "-o", shared_files.output


def split_file(shared_files, broken):
    rest = ("--scheme", "file", "--split-file", broken, "-o", shared_files.output)
    return "partition", *DIGITS, *rest


# Each command, and the file of the shared_files it is given.
COMMANDS = {
    aggregate: "client_0", local_train_partition: "partition",
    local_train_global: "global", dry_run: "global", evaluate: "global",
    embed: "global", export: "global", init_from: "global", plot: "partition",
    inspect: "client_0", packed_data: "partition", split_file: "partition",
    local_train_dictionary: "dictionary", local_train_align: "targets",
    local_train_private: "private_0", aggregate_dictionary: "features_0",
    pretrain_align: "global", pretrain_style: "global",
    aggregate_ensemble: "public_0",
    aggregate_similarity: "similarity_0", distill_ensemble: "ensemble",
    distill_start: "global", neighbours: "global",
    local_train_neighbours: "neighbours",
}  # fmt: skip


def head_of(raw: bytes) -> tuple[dict, bytes]:
    end = 8 + int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:end]), raw[end:]


def joined(text: str, body: bytes = b"") -> bytes:
    return len(text.encode()).to_bytes(8, "little") + text.encode() + body


def flipped(raw: bytes, place: int) -> bytes:
    broken = bytearray(raw)
    broken[place] ^= 1
    return bytes(broken)


def renamed(raw: bytes, new: str) -> bytes:
    table, body = head_of(raw)
    first = next(name for name in table if name != "__metadata__")
    table[new] = table.pop(first)
    return joined(json.dumps(table), body)


def with_header(raw: bytes, **words) -> bytes:
    table, body = head_of(raw)
    inner = json.loads(table["__metadata__"]["furlkit"])
    table["__metadata__"]["furlkit"] = canonical({**inner, **words})
    return joined(canonical(table), body)


def with_nan(raw: bytes) -> bytes:
    table, body = head_of(raw)
    return joined(json.dumps({"extra": float("nan"), **table}), body)


def twice(raw: bytes) -> bytes:
    table, body = head_of(raw)
    name = next(name for name in table if name != "__metadata__")
    again = f'"{name}":{json.dumps(table[name])}'
    return joined(json.dumps(table)[:-1] + "," + again + "}", body)


def rewritten(raw: bytes) -> bytes:
    """The same in other words: spaces, and another order of the keys."""
    table, body = head_of(raw)
    return joined(json.dumps(dict(reversed(table.items()))), body)


def nested(levels: int) -> dict:
    value: dict = {}
    for _ in range(levels):
        value = {"a": [value]}
    return value


def legacy_torch(raw: bytes) -> bytes:
    return pickle.dumps({"weights": raw}, protocol=2)


def zipped_torch(raw: bytes) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save({"w": torch.ones(3)}, buffer)
    return buffer.getvalue()


def foreign(raw: bytes) -> bytes:
    from safetensors.numpy import save

    return save({"w": np.ones(3)}, {"format": "pt"})


# How a file is broken, and a word of the message.
BREAKAGES = {
    "truncated by one byte": (lambda raw: raw[:-1], "damaged"),
    "truncated in the header": (lambda raw: raw[:200], "truncated"),
    "one byte more": (lambda raw: raw + b"\0", "damaged"),
    "flipped bit in the body": (lambda raw: flipped(raw, -1), "do not match"),
    "flipped bit in the metadata": (
        lambda raw: flipped(raw, raw.index(b'\\"seed\\":0') + len(b'\\"seed\\":')),
        "do not match",
    ),
    "flipped bit in the hash": (
        lambda raw: flipped(raw, raw.index(b'\\"content\\":\\"') + 20), ""
    ),
    "flipped bit in the length": (lambda raw: flipped(raw, 0), "damaged"),
    "empty": (lambda raw: b"", "has 0 bytes"),
    "text": (lambda raw: b"What is this?\n" * 9, "not a safetensors file"),
    "zeros": (lambda raw: bytes(len(raw)), "not a safetensors file"),
    "key twice": (twice, "occurs twice"),
    "path in a name": (lambda raw: renamed(raw, "../../etc"), "looks like a path"),
    "escape in a name": (lambda raw: renamed(raw, "\x1b[2J"), "unusable name '\\x1b"),
    "rewritten": (rewritten, "another program"),
    "NaN in the header": (with_nan, "not a safetensors file"),
    "newer version": (
        lambda raw: with_header(raw, version=3, new=1), "install a newer furlkit"
    ),
    "unknown kind": (lambda raw: with_header(raw, kind="x"), "unknown kind"),
    "header edited": (lambda raw: with_header(raw, seed=9), "do not match"),
    "deep nesting": (lambda raw: joined('{"a":' + "[" * 10**6), "damaged"),
    "deep nesting in the facts": (
        lambda raw: with_header(raw, facts=nested(100)), "nested more than"
    ),
    "pickle": (legacy_torch, "is a pickle or zip file"),
    "torch.save": (zipped_torch, "is a pickle or zip file"),
    "JSON": (lambda raw: b'{"kind": "metrics"}', "is "),
    "foreign safetensors": (foreign, "not one of furlkit's"),
}  # fmt: skip


@pytest.mark.parametrize("breakage", BREAKAGES)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_broken_bytes(shared_files, refused, command, breakage):
    make, message = BREAKAGES[breakage]
    path = shared_files.folder / f"{COMMANDS[command]}.safetensors"
    if command is packed_data and message == "do not match":
        message = "expected a dataset"
    if command is init_from and make is foreign:
        message = "lacks"  # It takes other programs' files, but not this one.
    if command is packed_data and make is zipped_torch:
        message = "no array called images"  # A zip file is taken for an .npz.
    path.write_bytes(make(path.read_bytes()))
    refused(shared_files.folder, 65, (path, message), *command(shared_files, path))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_missing_file_and_folder_in_its_place(shared_files, refused, command):
    missing = shared_files.folder / "nowhere.safetensors"
    refused(
        shared_files.folder,
        65,
        (missing, "no such file"),
        *command(shared_files, missing),
    )
    missing.mkdir()
    err = refused(shared_files.folder, 65, (missing,), *command(shared_files, missing))
    assert "folder" in err or "image" in err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_file_that_may_not_be_read(shared_files, refused, monkeypatch, command):
    path, real = shared_files.folder / f"{COMMANDS[command]}.safetensors", os.open

    def locked(name, *rest, **more):
        if name == path:
            raise PermissionError(13, "Permission denied", str(name))
        return real(name, *rest, **more)

    monkeypatch.setattr(os, "open", locked)
    words = (path, "Permission denied")
    refused(shared_files.folder, 74, words, *command(shared_files, path))


@pytest.mark.parametrize("count", [2, 64, "half"])
def test_an_upload_with_negated_weights_is_not_averaged(shared_files, refused, count):
    """Flips of top bits, two of which the sum of words of version 1 did not notice."""
    opened = Container(shared_files.clients[0])
    weight = opened.entry("encoder.fc.weight")
    start = opened.body_start + weight.start
    raw = np.frombuffer(shared_files.clients[0].read_bytes(), np.uint8).copy()
    words = weight.size // 8 if count == "half" else count
    raw[start + 3 : start + 3 + 8 * words : 8] ^= 0x80
    shared_files.clients[0].write_bytes(raw.tobytes())
    command = ("aggregate", *shared_files.clients, "-o", shared_files.output)
    refused(
        shared_files.folder, 65, (shared_files.clients[0], "do not match"), *command
    )
    refused(shared_files.folder, 65, (shared_files.clients[0],), *command, "--dry-run")
