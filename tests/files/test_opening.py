"""Inputs that are no regular files, or too large, are refused and never waited for."""

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from furlkit.errors import InputError
from furlkit.files.container.header import MOST_LISTS, parse_strict
from furlkit.files.opening import (
    LONGEST_JSON,
    LONGEST_TOML,
    open_regular,
    read_bytes,
    read_toml,
)

DIGITS = ("--data", "digits")
# For each place where a command takes a file, the words with {x} for the file.
READERS = {
    "inspect": "inspect {x}",
    "aggregate": "aggregate {x} -o {o}",
    "parent": "aggregate {c} --parent {x} -o {o}",
    "aggregate's partition": "aggregate {c} --partition {x} -o {o}",
    "attack": "attack {x} --parent {g} -o {o}",
    "attack's parent": "attack {c} --parent {x} -o {o}",
    "copied": "attack {c} --kind copy --of {x} -o {o}",
    "replay": "replay {x}",
    "evaluate": "evaluate knn {x} --data digits -o {o}",
    "weights": "aggregate {c} --weights {x} -o {o}",
    "rows": "aggregate --rule dictionary {x} -o {o}",
    "similarities": "aggregate --rule ensemble {x} -o {o}",
    "partition": "local-train {x} {g} --data digits --client 0 -o {o}",
    "global": "local-train {p} {x} --data digits --client 0 -o {o}",
    "private": "local-train {p} {g} --data digits --client 0 --private {x} -o {o}",
    "dictionary": "local-train {p} {g} --data digits --client 0 --dictionary {x} -o {o}",
    "preset": "init --data digits --preset {x} -o {o}",
    "a preset to show": "presets {x}",
    "recipe": "plan {x}",
    "claims": "compare --series a={k} --series b={k} --claims {x}",
    "metrics": "compare --series a={x}",
    "curve": "plot curve {x} -o {o}.png",
    "init": "init --data digits --from {x} -o {o}",
    "embed": "embed {x} --data digits -o {o}",
    "distill": "distill {x} {g} --data digits -o {o}",
    "export": "export {x} -o {o}",
    "ledger": "ledger {x}",
    "drawn partition": "plot partition {x} -o {o}.png",
    "packed": "partition --data {x} -o {o}",
    "npz": "partition --data {x} -o {o}",
    "npy": "partition --data {x} -o {o}",
    "json": "partition --data {x} -o {o}",
    "txt": "partition --data {x} -o {o}",
    "split": "partition --data digits --scheme file --split-file {x} -o {o}",
}
SUFFIXES = {
    "preset": ".toml", "a preset to show": ".toml", "packed": ".safetensors",
    "npz": ".npz", "npy": ".npy", "json": ".json", "txt": ".txt",
}  # fmt: skip


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.open(path.parent, os.O_RDONLY)
        try:  # A socket's address may have 100 characters, a test's path has more.
            one.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")  # Endless; a symbolic link is followed.


@pytest.fixture
def impatient():
    """The program's own alarm stops a command that waits; its code is then 75."""
    signal.setitimer(signal.ITIMER_REAL, 30)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.mark.parametrize(
    "make, word", [(pipe, "pipe"), (bound_socket, "socket"), (device, "device")]
)
def test_only_regular_files_are_opened(tmp_path, make, word):
    make(tmp_path / "x")
    with pytest.raises(InputError, match=f"x: is a {word}; expected a regular file"):
        open_regular(tmp_path / "x")


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_waits_for_a_pipe(world, refused, impatient, reader):
    x, words = words_of(world, reader)
    pipe(x)
    refused(world.folder, 65, [x, "pipe"], *words)


def words_of(world, reader: str) -> tuple[Path, list[str]]:
    """The file that a command is given, and the command."""
    x = world.folder / f"x{SUFFIXES.get(reader, '')}"
    (scores := world.folder / "scores.json").write_text(SCORES)
    places = {"x": x, "o": world.folder / "new", "g": world.model, "k": scores}
    places |= {"p": world.partition, "c": world.clients[0]}
    return x, [word.format(**places) for word in READERS[reader].split()]


@pytest.mark.parametrize("reader", READERS)
def test_a_link_to_itself_is_no_bug(world, run, reader):
    x, words = words_of(world, reader)
    x.symlink_to(x)
    done = run(*words)
    assert done.code in (2, 65, 74) and str(x) in done.err and "bug" not in done.err


SCORES = json.dumps(
    {"kind": "metrics", "version": 2, "accuracy": 0.5, "protocol": "linear", "seed": 0}
)


def test_a_journal_and_a_progress_file_that_are_pipes(world, run, impatient):
    output = world.folder / "new.safetensors"
    words = ("local-train", world.partition, world.model, *DIGITS, "--client", 0)
    words += ("--epochs", 1, "--batch-size", 240, "-o", output)
    pipe(output.with_name("new.safetensors.progress"))
    outcome = run(*words)
    assert outcome.code == 0 and "pipe" in outcome.err
    output.unlink()
    output.with_name("new.log.jsonl").unlink()
    pipe(output.with_name("new.log.jsonl"))
    outcome = run(*words)
    assert outcome.code in (65, 74) and "new.log.jsonl" in outcome.err


@pytest.mark.parametrize("size, fits", [(10, True), (11, False)])
def test_more_bytes_than_expected_are_refused(tmp_path, size, fits):
    (path := tmp_path / "x").write_bytes(b"x" * size)
    if fits:
        assert read_bytes(path, 10) == b"x" * size
    else:
        with pytest.raises(InputError, match="x: has more than 10 bytes"):
            read_bytes(path, 10)


@pytest.mark.parametrize(
    "command, size",
    [("plan", LONGEST_TOML), ("inspect", LONGEST_JSON), ("presets", LONGEST_TOML)],
)
def test_a_large_file_is_refused_before_it_is_read(tmp_path, run, command, size):
    (path := tmp_path / "x.toml").write_bytes(b'{"kind":')
    os.truncate(path, 2**40)  # A hole: it takes no room.
    outcome = run(command, path)
    assert outcome.code == 65 and f"{path}: " in outcome.err
    assert f"{size:,}" in outcome.err


def test_json_of_too_many_lists_is_refused():
    with pytest.raises(ValueError, match="more than 1,000,000 lists"):
        parse_strict(b"[" + b"[]," * MOST_LISTS + b"1]")


@pytest.mark.parametrize("raw", [b"\xff", b"a = ", b"a = " + b"[" * 10_000])
def test_what_is_not_toml(tmp_path, raw):
    (path := tmp_path / "x").write_bytes(raw)
    with pytest.raises(InputError, match="x: is not TOML: "):
        read_toml(path)


def test_a_name_that_no_file_can_have(tmp_path):
    with pytest.raises(InputError, match="cannot be the name of a file"):
        open_regular(tmp_path / "a\0b")
