"""Headers with wrong facts and fitting hashes: refused, or read; never a traceback."""

import json
import mmap
import os
import random
import shutil
import signal
import time
import unicodedata
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from furlkit import console
from furlkit.cli.program import _outcome
from furlkit.files.container.header import canonical
from furlkit.files.container.read import Container
from furlkit.files.container.write import write
from tests.files import mutate
from tests.helpers import write_alone

DIGITS = ("--data", "digits")
ONE = ("--epochs", 1, "--batch-size", 400)
DEEP: list = []
for _ in range(100):
    DEEP = [DEEP]
MISSING = object()
NASTY = (None, -1, 0, [], {}, "", 1e308, DEEP, True, MISSING)
FEWER = (None, -1, [], MISSING)  # For what is inside a dict or a list of options.


def call(*arguments) -> tuple[int, str]:
    """Exit code and messages of the program."""
    code, _, said = streams(*arguments)
    return code, said


def streams(*arguments) -> tuple[int, str, str]:
    """Exit code, results and messages of the program."""
    told, said = StringIO(), StringIO()
    with redirect_stdout(told), redirect_stderr(said):
        code = _outcome([str(argument) for argument in arguments])
    return code, told.getvalue(), said.getvalue()


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
        ("aggregate", client, "-o", folder / "next"),
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
        ("local-train", p, g, *DIGITS, "--client", 0, *ONE, "--objective", "spectral",
         "--correlations-out", folder / "correlations_0",
         "--private-out", folder / "private_spectral", "-o", folder / "spectral"),
        ("aggregate", "--rule", "correlations", folder / "correlations_0",
         "-o", folder / "correlations"),
        ("aggregate", "--rule", "fedavgm", client, "--parent", g,
         "--state-out", folder / "server", "-o", folder / "moved"),
        ("local-train", p, folder / "moved", *DIGITS, "--client", 0, *ONE,
         "-o", folder / "second"),
    )  # fmt: skip
    for command in commands:
        code, said = call(*command)
        assert code == 0, said
    write_alone(client, folder / "masked")
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
    "private_0.safetensors": lambda f, x: local_train(f, model=f / "next", private=x),
    "features_0.safetensors": lambda f, x: (
        "aggregate", "--rule", "dictionary", x, "-o", f / "output"
    ),
    "dictionary": lambda f, x: local_train(f, model=f / "next", dictionary=x),
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
    "correlations_0": lambda f, x: (
        "aggregate", "--rule", "correlations", x, "-o", f / "output"
    ),
    "correlations": lambda f, x: local_train(
        f, model=f / "next", objective="spectral", correlations=x,
        private=f / "private_spectral",
    ),
    "masked": lambda f, x: (
        "aggregate", "--rule", "masked-sum", x, "--parent", f / "global.safetensors",
        "-o", f / "output",
    ),
    "server": lambda f, x: (
        "aggregate", "--rule", "fedavgm", f / "second", "--parent", f / "moved",
        "--state", x, "--state-out", f / "output_state", "-o", f / "output",
    ),
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


# How many files the slow test mutates; a smaller number makes a quick look.
MUTATIONS = int(os.environ.get("FURLKIT_MUTATIONS", 10_000))
TEXTS = {
    "recipe.toml": "[settings]\nclients = 2\nrounds = 1\n[files]\n"
    'p = "p.st"\n[stages]\na = "partition --data digits --clients {clients} -o {p}"\n',
    "own.toml": 'extends = "digits"\n[init]\nwidth = 0.02\nprojector = [8, 4]\n',
    "claims.toml": '[[claims]]\nclaim = "more"\nhigher = "a"\nlower = "b"\npaper = 1.5\n',
    "weights.json": '{"0": 1, "1": 0.5}',
    "members": "# members\n0 weight=2 examples=700\n1 weight=0.5\n",
    "split.json": json.dumps(
        {"0": [*range(30)], "1": [*range(30, 60)], "public": [70]}
    ),
    "labels.json": json.dumps([0, 1, 2] * 20),
    "labels.txt": "cat\ndog\n" * 30,
    "log.jsonl": '{"event": "start", "torch": "2"}\n{"event": "epoch", "step": 1}\n',
}


def status_of(folder: Path, recipe: Path) -> tuple:
    """The status of a run whose plan says what a file says."""
    shutil.copy(recipe, folder / "planned" / "plan" / "recipe.json")
    return "status", folder / "planned"


TEXT_READERS = {
    "recipe.toml": lambda f, x: ("plan", x, f"out={f / 'run'}"),
    "own.toml": lambda f, x: (
        "init", *DIGITS, "--preset", x, "--dry-run", "-o", f / "output"
    ),
    "claims.toml": lambda f, x: (
        "compare", "--series", f"a={f / 'knn.json'}", "--series", f"b={f / 'knn.json'}",
        "--claims", x,
    ),
    "weights.json": lambda f, x: (
        "aggregate", f / "client_0.safetensors", "--weights", x, "-o", f / "output"
    ),
    "members": lambda f, x: (
        "aggregate", f / "client_0.safetensors", "--members", x, "-o", f / "output"
    ),
    "split.json": lambda f, x: (
        "partition", *DIGITS, "--scheme", "file", "--split-file", x, "-o", f / "output"
    ),
    "labels.json": lambda f, x: ("partition", "--data", x, "-o", f / "output"),
    "labels.txt": lambda f, x: ("partition", "--data", x, "-o", f / "output"),
    "log.jsonl": lambda f, x: ("inspect", x),
    "recipe.json": status_of,
    "arrays.npz": lambda f, x: ("partition", "--data", x, "-o", f / "output"),
    "labels.npy": lambda f, x: ("partition", "--data", x, "-o", f / "output"),
}  # fmt: skip
READERS = {**CONSUMERS, **TEXT_READERS}
REFUSALS = (65, 2)


def write_texts(folder: Path) -> None:
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12, 8, 8), np.uint8)
    np.savez_compressed(folder / "arrays.npz", images=images, labels=np.arange(12) % 3)
    np.save(folder / "labels.npy", np.arange(60) % 3)
    assert call("plan", folder / "recipe.toml", f"out={folder / 'planned'}")[0] == 0
    shutil.copy(folder / "planned" / "plan" / "recipe.json", folder / "recipe.json")


def mutated(folder: Path, name: str, rng: random.Random) -> tuple[str, bytes]:
    """A mutation of a file: "bytes", "sealed" again, or "json" and "toml" values."""
    raw = (folder / name).read_bytes()
    if name in CONSUMERS and name != "knn.json" and rng.random() < 0.5:
        return "sealed", mutate.resealed(folder / name, rng, folder / "mutation")
    if name.endswith(".json") and rng.random() < 0.5:
        return "json", mutate.json_changed(raw, rng)
    if name.endswith(".toml") and rng.random() < 0.5:
        return "toml", mutate.toml_changed(raw, rng)
    other = folder / rng.choice(sorted(READERS))
    return "bytes", mutate.bytes_changed(raw, rng, other.read_bytes())


def judged(kind: str, name: str, command: tuple) -> tuple[int, int, str]:
    """The exit code for a mutated file, the memory that was taken, and what is wrong.

    The rule: a file with a seal whose bytes have changed is refused by every command
    that reads its tensors (a packed dataset's images are mapped, not read). Anything
    else is accepted, or refused: with 65 by a message that names the file, or with 2
    by one that names the file, or the option or setting whose value it gives.
    """
    began, before = time.process_time(), reset_peak()
    code, told, said = streams(*command)
    seconds, taken = time.process_time() - began, memory("VmHWM") - before
    outcome = code, told, said, seconds, taken
    return code, taken, _wrong(outcome, kind, name, command[0])


def _moves_a_cursor(character: str) -> bool:
    """Or reorders what is read, or cannot be written; what Unicode has not yet named may stand."""
    odd = not character.isprintable() and character != "\t"
    return odd and unicodedata.category(character) != "Cn"


def _wrong(outcome: tuple, kind: str, name: str, command: str) -> str:
    code, told, said, seconds, taken = outcome
    sealed = name in CONSUMERS and name not in ("knn.json", "dataset.safetensors")
    if (
        kind == "bytes"
        and sealed
        and command not in ("inspect", "replay")
        and code != 65
    ):
        return f"{code} for changed bytes: {said}"
    named = Path(name).stem in said or (code == 2 and ("--" in said or "=" in said))
    if code and (code not in REFUSALS or not named):
        return f"{code} {said}"
    if "Traceback" in said or "is a bug" in said:
        return said
    lines = f"{told}\n{said}".split("\n")  # splitlines would hide some controls.
    if odd := [line for line in lines if any(map(_moves_a_cursor, line))]:
        return f"control characters: {odd[0][:200]!r}"
    if max(map(len, said.splitlines()), default=0) > console.LONGEST + 100:
        return f"a line of {max(map(len, said.splitlines()))} characters"
    if taken > MOST_MEMORY:
        return f"took {taken / 1e6:.0f} MB"
    return f"took {seconds:.1f} s" if seconds > SLOWEST else ""


SLOWEST = 10.0  # Seconds of the CPU; 1 as a rule, more on a busy machine.
# Bytes that a command may take for a file, above what Python, torch and the images of
# the tests take before it begins: torch alone takes more.
MOST_MEMORY = 300e6


def reset_peak() -> int:
    """Forget the most memory that this process had so far; how much it has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def memory(entry: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM the most since `reset_peak`."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{entry}:")[1].split()[0]) * 1024


def test_the_memory_of_one_command_is_seen():
    for size in (100_000_000, 40_000_000):  # What was taken before does not count.
        before = reset_peak()
        with mmap.mmap(-1, size) as fresh:  # Not what the heap has left from before.
            fresh[::4096] = b"1" * len(fresh[::4096])
        assert size * 0.9 < memory("VmHWM") - before < size * 1.5


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_mutated_files_are_refused_or_read(written, monkeypatch, tmp_path, name):
    """A share of 10,000 for each kind of file, through inspect and its own reader."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    write_texts(written)
    (written / "output").unlink(missing_ok=True)
    whole = READERS[name](written, written / name)
    assert call(*whole)[0] == 0, call(*whole)
    path, rng, failed = written / f"broken_{name}", random.Random(name), []
    counts, most = Counter[tuple[str, ...]](), 0
    for number in range(-(-MUTATIONS // len(READERS))):
        kind, raw = mutated(written, name, rng)
        path.write_bytes(raw)
        for command in (
            ("inspect", path),
            READERS[name](written, path),
            *([("replay", path, "--depth", 1)] if name in CONSUMERS else ()),
        ):
            (written / "output").unlink(missing_ok=True)
            signal.setitimer(
                signal.ITIMER_REAL, 120
            )  # A command that waits ends with 75.
            code, taken, wrong = judged(kind, name, command)
            most = max(most, taken)
            signal.setitimer(signal.ITIMER_REAL, 0)
            counts[command[0], kind, "refused" if code else "accepted"] += 1
            if wrong:
                failed.append(f"{number} {kind} {command[0]}: {wrong[:400]}")
                print(name, failed[-1])
    print(name, dict(counts), f"at most {most / 1e6:.0f} MB")
    assert not failed, "\n".join(
        [f"{len(failed)} of {sum(counts.values())}", *failed[:20]]
    )
