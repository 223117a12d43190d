"""aggregate of an inbox in which files change, between the check and the sum."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.lockstep import Lockstep
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, read_features, write_features
from furlkit.files.similarity import write_similarity
from furlkit.inputs import inbox as inbox_module
from furlkit.stages.aggregate import clients as clients_module
from tests.stages.aggregate.conftest import model

# Facts of uploads from another model.
OTHER_NETS = {
    "mean": [0.1],
    "architecture": {"encoder": "big"},
    "reading": {"window": "0,99"},
}
HONEST = (0, 1, 2, 3, 4, 5)


@pytest.fixture
def inbox(tmp_path, upload_files) -> Path:
    """An inbox with the uploads of six clients, trained from the model g."""
    upload_files([model(k) for k in HONEST], model(99))
    folder = tmp_path / "inbox"
    folder.mkdir()
    for k in HONEST:
        shutil.copy(tmp_path / f"c{k}", folder)
    return folder


def other_numbers(path: Path) -> bytes:
    """The file with numbers that its hashes do not fit."""
    opened, raw = Container(path), bytearray(path.read_bytes())
    entry = opened.entry("encoder.w")
    place = opened.body_start + entry.start
    raw[place : place + entry.size] = np.full(entry.shape, 50, np.float32).tobytes()
    return bytes(raw)


def replaced(path: Path) -> None:
    path.with_name(".new").write_bytes(other_numbers(path))
    path.with_name(".new").rename(path)


def overwritten(path: Path) -> None:
    data = other_numbers(path)
    with open(path, "r+b") as stream:
        stream.write(data)


def not_finite(path: Path) -> None:
    opened = Container(path)
    with open(path, "r+b") as stream:
        stream.seek(opened.body_start + opened.entry("encoder.w").start)
        stream.write(np.full(300 * 7, np.nan, np.float32).tobytes())


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def removed(path: Path) -> None:
    path.unlink()


def sent_again(path: Path) -> None:
    """Another good upload of the same client."""
    shutil.copy(path.parent.parent / "again", path)


CHANGES: tuple[Callable, ...] = (
    replaced,
    overwritten,
    not_finite,
    cut,
    removed,
    sent_again,
)


@pytest.fixture
def between(monkeypatch) -> Callable[[Callable[[], None]], None]:
    """Call a function once, after the check and before the files are combined."""

    def call(function: Callable[[], None]) -> None:
        enter, left = Lockstep.__enter__, [function]

        def late(self):
            if left:
                left.pop()()
            return enter(self)

        monkeypatch.setattr(Lockstep, "__enter__", late)

    return call


def command(folder: Path, rule: str, *more) -> tuple:
    given = ("--rule", rule, folder / "inbox", "--parent", folder / "g")
    return ("aggregate", *given, *more, "-o", folder / "out")


@pytest.mark.parametrize("rule", ["mean", "median", "krum", "clip"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_an_upload_that_changes_is_left_out_and_the_round_goes_on(
    tmp_path, inbox, run, forge, between, change, rule
):
    forge(Path(shutil.copy(tmp_path / "c2", tmp_path / "again")), facts={"loss": 2.0})
    between(lambda: change(inbox / "c2"))
    hostile = ("--assumed-hostile", 1) if rule == "krum" else ()
    done = run(*command(tmp_path, rule, *hostile))
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if "left out" in line]
    assert f"{inbox}/c2: has changed" in line
    rest = [tmp_path / f"c{k}" for k in HONEST if k != 2]
    named = ("--rule", rule, "--parent", tmp_path / "g", "-o", tmp_path / "by_name")
    assert run("aggregate", *rest, *named, *hostile).code == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "by_name").read_bytes()


def test_several_changes_are_found_at_once(tmp_path, inbox, run, between):
    between(lambda: [removed(inbox / "c2"), overwritten(inbox / "c4")])
    done = run(*command(tmp_path, "mean"))
    (line,) = [line for line in done.err.splitlines() if "left out" in line]
    assert done.code == 0 and "c2" in line and "1 more" in line
    assert read_checkpoint(tmp_path / "out").facts.examples == 40


def test_too_few_are_left(tmp_path, inbox, run, between):
    between(lambda: removed(inbox / "c2"))
    done = run(*command(tmp_path, "mean", "--at-least", 6))
    assert done.code == 75 and "5 clients" in done.err
    assert not (tmp_path / "out").exists()


def test_the_same_bytes_again_are_no_change(tmp_path, inbox, run, between):
    between(lambda: (inbox / "c2").write_bytes((tmp_path / "c2").read_bytes()))
    done = run(*command(tmp_path, "mean"))
    assert done.code == 0 and "left out" not in done.err


def test_a_file_that_changes_all_the_time_never_counts_unchecked(tmp_path, inbox, run):
    """One upload is honest and forged in turn, from beginning to end."""
    honest, forged = (tmp_path / "c2").read_bytes(), other_numbers(tmp_path / "c2")
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            for data in (honest, forged):
                with open(inbox / "c2", "r+b") as stream:
                    stream.write(data)

    expected = []
    for clients in (HONEST, [k for k in HONEST if k != 2]):
        files = [tmp_path / f"c{k}" for k in clients]
        assert run("aggregate", *files, "-o", tmp_path / "named", "--force").code == 0
        expected.append((tmp_path / "named").read_bytes())
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            done = run(*command(tmp_path, "mean", "--force"))
            assert done.code == 0, done.err
            assert (tmp_path / "out").read_bytes() in expected
    finally:
        over.set()
        writer.join()


def test_named_files_with_signatures_are_compared_again(
    tmp_path, inbox, run, keys, allowed, between
):
    """The check of a signature and the sum read the same bytes."""
    files = [inbox / f"c{k}" for k in HONEST]
    for k, path in enumerate(files):
        assert run("sign", path, "--key", keys(str(k))).code == 0
    between(lambda: overwritten(inbox / "c2"))
    signers = ("--signers", allowed(*map(str, HONEST)))
    done = run("aggregate", *files, *signers, "-o", tmp_path / "out")
    assert done.code == 0 and f"{inbox}/c2: has changed" in done.err
    assert read_checkpoint(tmp_path / "out").facts.examples == 50


def test_strangers_cannot_outvote_the_global_model(tmp_path, inbox, run, forge):
    """More files than clients agree on another normalisation, network or window."""
    for k in range(10):
        for fact, value in OTHER_NETS.items():
            path = Path(shutil.copy(tmp_path / "c0", inbox / f"x{k}{fact}"))
            forge(path, facts={"client": 100 + k, fact: value})
    done = run(*command(tmp_path, "mean", "--at-least", 6))
    assert done.code == 0, done.err
    lines = [line for line in done.err.splitlines() if "left out" in line]
    assert len(lines) == 3 and all("9 more files" in line for line in lines)
    assert read_checkpoint(tmp_path / "out").facts.examples == 60


def lengthen(path: Path, name: str, rows: int) -> None:
    """Let the header promise so many rows of a tensor; the file is sparse."""
    opened = Container(path)
    entry = opened.entry(name)
    with open(path, "rb") as stream:  # The file may be a long one already.
        head = stream.read(opened.body_start)[8:].rstrip(b" ")
    shape = ",".join(map(str, (rows, *entry.shape[1:])))
    grown = head.replace(
        str([*entry.shape]).replace(" ", "").encode(), f"[{shape}]".encode()
    )
    more = (rows - entry.shape[0]) * (entry.size // entry.shape[0])
    for old in sorted({e.end for e in opened.entries if e.end >= entry.end})[::-1]:
        grown = grown.replace(f"{old}".encode(), f"{old + more}".encode())
    path.write_bytes(len(grown).to_bytes(8, "little") + grown)
    os.truncate(path, 8 + len(grown) + opened.size + more)


def test_a_header_that_does_not_fit_is_refused_before_the_body_is_read(
    tmp_path, inbox, run, forge
):
    """A sparse file of 40 GB: nobody waits for its checksum."""
    large = {"encoder.w": np.zeros((301, 7), np.float32)}
    path = forge(Path(shutil.copy(tmp_path / "c0", inbox / "large")), large)
    lengthen(path, "encoder.w", 10**10 // 7)
    done = run(*command(tmp_path, "mean"))
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if "left out" in line]
    assert "large: encoder.w is float32 (" in line


def test_a_model_far_larger_than_the_others_is_refused_by_its_header(
    tmp_path, inbox, run
):
    """A sparse file of 40 GB among named files, without --parent."""
    path = Path(shutil.copy(tmp_path / "c0", tmp_path / "large"))
    lengthen(path, "encoder.w", 10**10 // 7)
    done = run("aggregate", path, tmp_path / "c1", "-o", tmp_path / "out")
    assert done.code == 65 and f"{path}: has 40,0" in done.err, done.err


def test_reasons_that_repeat_are_one_line(tmp_path, inbox, run, forge):
    for k in range(300):
        (inbox / f"junk{k}").write_bytes(b"\1" + np.random.default_rng(k).bytes(99 + k))
    for k in range(50):
        shutil.copy(tmp_path / "c1", inbox / f"same{k}")
    done = run(*command(tmp_path, "mean"))
    lines = done.err.splitlines()
    assert done.code == 0 and len(lines) < 8
    assert any("299 more files" in line for line in lines)
    assert any("same0: is the same file as" in x and "49 more" in x for x in lines)


def test_clients_with_equal_numbers_are_one_line(tmp_path, inbox, run, forge):
    for k in range(40):
        path = Path(shutil.copy(tmp_path / "c1", inbox / f"copy{k}"))
        forge(path, facts={"client": 100 + k})
    done = run(*command(tmp_path, "mean"))
    (line,) = [line for line in done.err.splitlines() if "same numbers" in line]
    assert done.code == 0 and "as client 1 " in line and "39 more clients" in line


def test_the_work_for_unfit_uploads_does_not_grow_with_their_square(
    tmp_path, inbox, run, forge, monkeypatch
):
    """All of them are found in one look at the uploads together."""
    for k in range(30):
        path = Path(shutil.copy(tmp_path / "c1", inbox / f"far{k}"))
        weights = np.full((300, 7), 10.0 ** (20 + k % 10), np.float32)
        forge(path, {"encoder.w": weights}, facts={"client": 100 + k})
    for k in range(30, 60):
        shutil.copy(tmp_path / f"c{k % 6}", inbox / f"more{k}")
        forge(inbox / f"more{k}", facts={"client": k})
    looks = []
    together = clients_module.check_sizes
    monkeypatch.setattr(
        clients_module, "check_sizes", lambda *a: (looks.append(1), together(*a))[1]
    )
    done = run(*command(tmp_path, "mean"))
    assert done.code == 0, done.err
    assert len(looks) == 2 and "29 more files" in done.err


@pytest.fixture
def public(tmp_path, upload_files) -> Path:
    """An inbox with what three models find similar, and with the rows they share."""
    upload_files([model(0)], model(99))
    folder = tmp_path / "inbox"
    folder.mkdir()
    for k in range(3):
        rows = np.random.default_rng(k).normal(size=(6, 3)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        facts = {"client": k, "round": 1, "examples": 6}
        whole = FeatureFacts("h", {"examples": 6}, "public", **facts)
        made = Provenance("embed")
        cosines = (rows @ rows.T).clip(-1, 1)
        write_similarity(folder / f"s{k}", [cosines], np.arange(6), whole, made)
        shared = FeatureFacts("z", {}, str(k), **facts)
        write_features(folder / f"f{k}", rows, np.arange(6), shared, made)
    return folder


@pytest.mark.parametrize("rule, name", [("ensemble", "s1"), ("dictionary", "f1")])
def test_tables_that_change_after_the_check_count_as_they_were(
    tmp_path, public, run, monkeypatch, rule, name
):
    """They are in memory, or in a copy that nobody else can write to."""
    line = command(tmp_path, rule, "--force")
    for path in public.glob("s*" if rule == "dictionary" else "f*"):
        path.unlink()
    assert run(*line).code == 0
    expected = (tmp_path / "out").read_bytes()
    path = public / name

    def change(_) -> None:
        opened = Container(path)
        with open(path, "r+b") as stream:
            stream.seek(opened.body_start)
            stream.write(bytes(opened.size))

    monkeypatch.setattr(inbox_module, "name_copies", change)
    done = run(*line)
    assert done.code == 0, done.err
    assert not any(path.read_bytes()[-8:])
    assert (tmp_path / "out").read_bytes() == expected


def test_a_table_is_compared_with_its_hash_in_the_pass_that_reads_it(
    tmp_path, public, run
):
    """The damaged rows are left out, and the round goes on."""
    for path in public.glob("s*"):
        path.unlink()
    opened = Container(public / "f1")
    raw = bytearray((public / "f1").read_bytes())
    raw[opened.body_start] ^= 1
    (public / "f1").write_bytes(raw)
    done = run(*command(tmp_path, "dictionary"))
    assert done.code == 0 and f"{public}/f1: the bytes do not match" in done.err
    assert read_features(tmp_path / "out").facts.owners == [[0, 6], [2, 6]]


@pytest.mark.parametrize("rule, name, tensor", [
    ("ensemble", "s1", "matrix"), ("dictionary", "f1", "rows"),
])  # fmt: skip
def test_a_table_with_too_many_rows_is_refused_by_its_header(
    tmp_path, public, run, rule, name, tensor
):
    """A sparse file of 12 GB, of the right round: its body is not read."""
    for path in public.glob("s*" if rule == "dictionary" else "f*"):
        path.unlink()
    path = public / name
    lengthen(path, "index", 10**9)
    lengthen(path, tensor, 10**9)
    done = run(*command(tmp_path, rule))
    assert done.code == 0 and f"{path}: has " in done.err, done.err
    assert "--max-upload; left out" in done.err
    named = ("aggregate", "--rule", rule, *sorted(public.glob("?[0-9]")))
    done = run(*named, "-o", tmp_path / "named")
    assert done.code == 65 and f"{path}: has " in done.err
