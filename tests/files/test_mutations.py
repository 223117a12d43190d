"""Headers with wrong facts and fitting hashes: refused, or read; never a traceback."""

import json
import os
import shutil
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from furlkit.cli.program import _outcome
from furlkit.files.container.header import canonical
from furlkit.files.container.read import Container
from furlkit.files.container.write import write

DIGITS = ("--data", "digits")
ONE = ("--epochs", 1, "--batch-size", 400)
DEEP: list = []
for _ in range(100):
    DEEP = [DEEP]
MISSING = object()
NASTY = (None, -1, 0, [], {}, "", 1e308, DEEP, True, MISSING)
FEWER = (None, -1, [], MISSING)  # For what is inside a dict or a list of options.


def call(*arguments) -> tuple[int, str]:
    """Exit code and messages of the program; an exception it does not know passes."""
    said = StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(said):
        code = _outcome([str(argument) for argument in arguments])
    return code, said.getvalue()


@pytest.fixture(scope="module")
def written(_world, tmp_path_factory):
    """A file of each kind that stages pass on."""
    folder = Path(shutil.copytree(_world.folder, tmp_path_factory.mktemp("m") / "w"))
    p, client = folder / "partition.safetensors", folder / "client_0.safetensors"
    g = folder / "global.safetensors"
    rows, private = folder / "features_0.safetensors", folder / "private_0.safetensors"
    public = ("--partition", p, "--part", "public")
    commands = (
        ("partition", *DIGITS, "--clients", 3, "--public-count", 24, "-o", p),
        ("local-train", p, g, *DIGITS, "--client", 0, *ONE, "--features-out", rows,
         "--private-out", private, "--dictionary-size", 32, "--alpha", 0.5,
         "-o", client),
        ("aggregate", "--rule", "dictionary", rows, "-o", folder / "dictionary"),
        ("embed", client, *DIGITS, "--layer", "z", *public, "-o", folder / "public"),
        ("embed", client, *DIGITS, *public, "--similarity", "--top", 20,
         "-o", folder / "similarity"),
        ("aggregate", "--rule", "ensemble", folder / "public", "-o", folder / "ensemble"),
        ("pretrain-align", g, *DIGITS, *public, *ONE[:2], "--batch-size", 12,
         "--targets-out", folder / "targets", "-o", folder / "align"),
        ("pack", "digits", "-o", folder / "dataset.safetensors"),
        ("init", *DIGITS, "--width", 0.02, "--projector", "8,4", "--head", "projector",
         "--objective", "cluster", "-o", folder / "clusters"),
        ("neighbours", g, *DIGITS, "--partition", p, "--part", 0,
         "-o", folder / "neighbours"),
        ("local-train", p, folder / "clusters", *DIGITS, "--client", 0, *ONE,
         "--objective", "cluster", "-o", folder / "clustered"),
        ("evaluate", "knn", g, *DIGITS, "-o", folder / "knn.json"),
    )  # fmt: skip
    for command in commands:
        code, said = call(*command)
        assert code == 0, said
    return folder


def local_train(folder, **files):
    """A dry run, which opens and checks every input."""
    known = {
        "partition": folder / "partition.safetensors",
        "model": folder / "global.safetensors",
    }
    partition, model = ({**known, **files}[name] for name in known)
    more = [w for k, v in files.items() if k not in known for w in (f"--{k}", v)]
    where = ("--client", 0, "--dry-run", "-o", folder / "output")
    return "local-train", partition, model, *DIGITS, *more, *where


def public(folder):
    return *DIGITS, "--partition", folder / "partition.safetensors", "--part", "public"


# For each file, the command that reads it.
CONSUMERS = {
    "partition.safetensors": lambda f, x: local_train(f, partition=x),
    "global.safetensors": lambda f, x: ("embed", x, *public(f), "-o", f / "output"),
    "client_0.safetensors": lambda f, x: ("aggregate", x, "-o", f / "output"),
    "private_0.safetensors": lambda f, x: local_train(f, private=x),
    "features_0.safetensors": lambda f, x: (
        "aggregate", "--rule", "dictionary", x, "-o", f / "output"
    ),
    "dictionary": lambda f, x: local_train(f, dictionary=x),
    "public": lambda f, x: ("aggregate", "--rule", "ensemble", x, "-o", f / "output"),
    "similarity": lambda f, x: (
        "aggregate", "--rule", "ensemble", x, "-o", f / "output"
    ),
    "ensemble": lambda f, x: (
        "distill", x, f / "global.safetensors", *DIGITS, "--dry-run", "-o", f / "output"
    ),
    "targets": lambda f, x: (
        *local_train(f, align=x), "--align-data", "digits",
    ),
    "neighbours": lambda f, x: (
        *local_train(f, model=f / "clusters", objective="cluster"),
        "--neighbours-from", x,
    ),
    "clustered": lambda f, x: ("aggregate", x, "-o", f / "output"),
    "dataset.safetensors": lambda f, x: ("partition", "--data", x, "-o", f / "output"),
    "knn.json": lambda f, x: ("compare", "--series", f"a={x}"),
}  # fmt: skip


def places(value: dict, depth: int = 2) -> list[tuple[str, ...]]:
    """Every key of a dict and of the dicts in it."""
    found = []
    for key, inner in value.items():
        found.append((key,))
        if isinstance(inner, dict) and depth > 1:
            found += [(key, *rest) for rest in places(inner, depth - 1)]
    return found


def changed(value: dict, place: tuple[str, ...], new) -> dict:
    first, *rest = place
    if rest:
        return {**value, first: changed(value[first], tuple(rest), new)}
    return {k: v for k, v in {**value, first: new}.items() if v is not MISSING}


def mutations(path: Path):
    """The bytes of the file with one fact or entry replaced, and which one it was."""
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        for place in places(document):
            for new in NASTY if len(place) == 1 else FEWER:
                yield place, new, canonical(changed(document, place, new)).encode()
        return
    opened, copy = Container(path), path.with_name("mutation")
    header, tensors = opened.header.unsealed(), opened.tensors()
    words = {"facts": header.facts, "inputs": header.inputs, "seed": header.seed}
    words |= {"options": dict.fromkeys(header.options, 0), "stage": header.stage}
    for place in places(words, 3 if "architecture" in header.facts else 2):
        if place[0] == "options" and len(place) > 1:
            continue
        # The first word of a place is the header's entry.
        for new in NASTY if place[0] == "facts" and len(place) == 2 else FEWER:
            if new is MISSING and len(place) == 1:
                continue
            write(copy, tensors, replace(header, **changed(words, place, new)))
            yield place, new, copy.read_bytes()


@pytest.mark.parametrize("name", CONSUMERS)
def test_wrong_facts_are_refused_or_read(written, monkeypatch, name):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    path, output = written / f"broken_{name}", written / "output"
    failed = []
    for place, new, raw in mutations(written / name):
        path.write_bytes(raw)
        for command in (("inspect", path), CONSUMERS[name](written, path)):
            output.unlink(missing_ok=True)
            try:
                code, said = call(*command)
            except Exception as error:
                failed.append(f"{command[0]} {place} = {str(new)[:40]}: {error!r}")
                continue
            if code not in (0, 65, 2) or (code and str(path) not in said):
                failed.append(f"{command[0]} {place} = {str(new)[:40]}: {code} {said}")
    assert not failed, "\n".join(failed)
