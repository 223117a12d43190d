"""aggregate of an inbox: quorum, deadline, and what a folder may hold besides uploads."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.inputs import inbox as inbox_module
from furlkit.inputs.inbox import seconds_of
from tests.helpers import furlkit


@pytest.fixture
def inbox(world) -> Path:
    """An inbox with the uploads of clients 0 and 1."""
    folder = world.folder / "inbox"
    folder.mkdir()
    for upload in world.clients[:2]:
        shutil.copy(upload, folder)
    world.output.unlink()
    return folder


def command(world, inbox: Path, *more) -> tuple:
    output = world.folder / "g1.safetensors"
    return ("aggregate", inbox, "--parent", world.model, *more, "-o", output)


def private(world, inbox: Path, forge) -> None:
    given = (world.partition, world.model, "--data", "digits", "--client", 2)
    more = ("--epochs", 1, "--batch-size", 240, "--private-out", inbox / "bad")
    assert furlkit("local-train", *given, *more, "-o", world.folder / "u") == 0


def of_another_round(world, inbox: Path, forge) -> None:
    forge(Path(shutil.copy(world.clients[2], inbox / "bad")), facts={"round": 2})


def of_another_model(world, inbox: Path, forge) -> None:
    parent = {"parent": "0" * 64}
    forge(Path(shutil.copy(world.clients[2], inbox / "bad")), facts=parent)


def noise(world, inbox: Path, forge) -> None:
    (inbox / "bad").write_bytes(np.random.default_rng(0).bytes(2**20) * 100)


def noise_behind_a_header(world, inbox: Path, forge) -> None:
    whole = world.clients[2].read_bytes()
    (inbox / "bad").write_bytes(whole[:-200] + bytes(200))


def half(world, inbox: Path, forge) -> None:
    whole = world.clients[2].read_bytes()
    (inbox / "bad").write_bytes(whole[: len(whole) // 2])


def fifo(world, inbox: Path, forge) -> None:
    os.mkfifo(inbox / "bad")


def link(world, inbox: Path, forge) -> None:
    (inbox / "bad").symlink_to(world.clients[2])


def folder(world, inbox: Path, forge) -> None:
    (inbox / "bad").mkdir()


def control_characters(world, inbox: Path, forge) -> None:
    shutil.copy(world.clients[2], inbox / "\x1b[2Jbad\n")


def path_in_its_name(world, inbox: Path, forge) -> None:
    shutil.copy(world.clients[2], inbox / "up\\..\\..\\bad")


def path_for_a_client(world, inbox: Path, forge) -> None:
    name = {"client": "../../bad"}
    forge(Path(shutil.copy(world.clients[2], inbox / "bad")), facts=name)


def other_shapes(world, inbox: Path, forge) -> None:
    wider = {"encoder.conv1.weight": np.zeros((5, 1, 3, 3), np.float32)}
    forge(Path(shutil.copy(world.clients[2], inbox / "bad")), wider)


def not_finite(world, inbox: Path, forge) -> None:
    weight = read_checkpoint(world.clients[2]).tensors["encoder.conv1.weight"]
    broken = {"encoder.conv1.weight": np.full_like(weight, np.nan)}
    forge(Path(shutil.copy(world.clients[2], inbox / "bad")), broken)


def the_global_model(world, inbox: Path, forge) -> None:
    shutil.copy(world.model, inbox / "bad")


def secret(world, inbox: Path, forge) -> None:
    (inbox / "bad.secret").write_bytes(os.urandom(32))


def dataset(world, inbox: Path, forge) -> None:
    forge(Path(shutil.copy(world.clients[2], inbox / "bad")), kind="dataset")


BAD: dict[Callable, str] = {
    secret: "secret of a site, which must not be sent",
    dataset: "dataset file, which must not be sent",
    private: "private",
    of_another_round: "round 2",
    of_another_model: "another model",
    noise: "not a safetensors",
    noise_behind_a_header: "bytes",
    half: "truncated",
    fifo: "no regular file",
    link: "symbolic link",
    folder: "no regular file",
    control_characters: "control characters",
    path_in_its_name: "control characters and backslashes",
    path_for_a_client: "client called",
    other_shapes: "encoder.conv1.weight",
    not_finite: "NaN",
    the_global_model: "role global",
}


@pytest.mark.parametrize("put", BAD, ids=lambda put: put.__name__)
def test_what_is_no_upload_is_left_out_and_the_round_goes_on(
    world, inbox, run, forge, snapshot, put
):
    put(world, inbox, forge)
    before = snapshot(world.folder)
    done = run(*command(world, inbox, "--at-least", 2))
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if "left out" in line]
    assert line.isprintable() and BAD[put] in line and "bad" in line
    after = snapshot(world.folder)
    new = {name for name in after if name not in before}
    assert {name.rpartition(".lock")[0] or name for name in new} <= {
        "g1.safetensors",
        ".g1.safetensors",
    }
    assert {name: after[name] for name in before} == before
    files = ("aggregate", *world.clients[:2], "-o", world.folder / "by_name")
    assert run(*files).code == 0
    expected = (world.folder / "by_name").read_bytes()
    assert (world.folder / "g1.safetensors").read_bytes() == expected


@pytest.mark.parametrize("put", [fifo, noise_behind_a_header, other_shapes])
def test_below_the_quorum_nothing_is_written(world, inbox, forge, refused, put):
    put(world, inbox, forge)
    words = ["2 clients", "--at-least", "bad"]
    refused(world.folder, 75, words, *command(world, inbox, "--at-least", 3))


def test_two_files_of_one_client_are_both_left_out(world, inbox, run, forge):
    shutil.copy(world.clients[2], inbox)
    other = Path(shutil.copy(world.clients[0], inbox / "again"))
    forge(other, {"encoder.conv1.bias": None}, facts={"loss": 1.0})
    done = run(*command(world, inbox, "--at-least", 2))
    assert done.code == 0 and "both of client 0" in done.err
    assert read_checkpoint(world.folder / "g1.safetensors").facts.examples == 958


def test_hidden_names_are_what_is_still_being_copied(world, inbox, run):
    (inbox / ".client_2.safetensors.x7").write_bytes(b"half")
    done = run(*command(world, inbox))
    assert done.code == 0 and "left out" not in done.err


def test_it_waits_for_uploads_to_arrive(world, inbox, run, monkeypatch):
    monkeypatch.setattr(inbox_module, "POLL", 0.01)
    late, whole = inbox / "late", world.clients[2].read_bytes()
    # After the first look a part arrives: a copy under way is not refused for ever.
    arriving = iter([whole[:1000], whole])

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: late.write_bytes(next(arriving)))
        done = run(*command(world, inbox, "--at-least", 3, "--wait", "2m"))
    assert done.code == 0, done.err
    assert "2 of 3" in done.err and "left out" not in done.err
    files = ("aggregate", *world.clients, "-o", world.folder / "by_name")
    assert run(*files).code == 0
    expected = (world.folder / "by_name").read_bytes()
    assert (world.folder / "g1.safetensors").read_bytes() == expected


def test_at_the_deadline_the_quorum_decides(world, inbox, run, monkeypatch):
    monkeypatch.setattr(inbox_module, "POLL", 0.01)
    late = run(*command(world, inbox, "--at-least", 3, "--wait", "0.05s"))
    assert late.code == 75 and "2 clients" in late.err
    assert not (world.folder / "g1.safetensors").exists()
    enough = ("--at-least", 2, "--expect", 3, "--wait", "0.05s")
    assert run(*command(world, inbox, *enough)).code == 0


def test_earlier_uploads_are_no_warning_and_name_who_is_missing(
    world, inbox, run, monkeypatch, forge
):
    """An inbox keeps the uploads of earlier rounds; clients of the last are expected."""
    monkeypatch.setattr(inbox_module, "POLL", 0.01)
    for client, upload in enumerate(world.clients):
        forge(Path(shutil.copy(upload, inbox / f"old_{client}")), facts={"round": 0})
    waits = ("--at-least", 2, "--expect", 3, "--wait", "0.5s", "--strict")
    done = run(*command(world, inbox, *waits))
    assert done.code == 0 and "warning" not in done.err, done.err
    assert "2 of 3 clients have reported; waiting for 2\n" in done.err
    assert "no upload in this round from 2\n" in done.err


def test_a_round_that_is_closed_stays_closed(world, inbox, run):
    """Clients have gone on from it: a late upload changes nothing, unless by force."""
    assert run(*command(world, inbox, "--at-least", 2)).code == 0
    before = (world.folder / "g1.safetensors").read_bytes()
    shutil.copy(world.clients[2], inbox)
    done = run(*command(world, inbox, "--at-least", 2))
    assert done.code == 0 and "closed" in done.out
    assert (world.folder / "g1.safetensors").read_bytes() == before
    shutil.rmtree(inbox)
    inbox.mkdir()
    assert run(*command(world, inbox, "--at-least", 2)).code == 0
    for upload in world.clients:
        shutil.copy(upload, inbox)
    assert run(*command(world, inbox, "--force")).code == 0
    assert (world.folder / "g1.safetensors").read_bytes() != before


def test_files_of_another_rule_are_passed_over(world, inbox, run):
    """FedCA's clients send models and rows to one inbox."""
    given = (world.partition, world.model, "--data", "digits", "--client", "0-1")
    more = ("--epochs", 1, "--batch-size", 240, "--alpha", 0)
    rows = ("--features-out", inbox / "rows_{client}", "-o", world.folder / "u{client}")
    assert furlkit("local-train", *given, *more, *rows) == 0
    done = run(*command(world, inbox))
    assert done.code == 0 and "left out" not in done.err
    pooled = ("--rule", "dictionary", "--parent", world.model, "--at-least", 2)
    done = run("aggregate", inbox, *pooled, "-o", world.folder / "d")
    assert done.code == 0 and "left out" not in done.err


def test_named_files_are_refused_as_before(world, refused, forge):
    forge(world.clients[2], facts={"round": 2})
    words = [world.clients[2], "round"]
    for more in ((), ("--parent", world.model)):
        given = (*world.clients, *more, "-o", world.folder / "g1")
        refused(world.folder, 65, words, "aggregate", *given)


@pytest.mark.parametrize(
    "more, word",
    [
        (("--wait", "soon"), "--wait"),
        (("--wait", "1s", "--expect", 2, "--at-least", 3), "--expect"),
        (("--staleness", 0.5), "--staleness"),
    ],
)
def test_options_that_do_not_fit_an_inbox(world, inbox, refused, more, word):
    refused(world.folder, 2, [word], *command(world, inbox, *more))


def test_what_an_inbox_needs(world, inbox, refused):
    output = world.folder / "g1"
    refused(world.folder, 65, [inbox, "--parent"], "aggregate", inbox, "-o", output)
    inside = (inbox, "--parent", world.model, "-o", inbox / "g1")
    refused(world.folder, 2, [inbox], "aggregate", *inside)
    waits = (*world.clients, "--wait", "1s", "-o", output)
    refused(world.folder, 2, ["--wait"], "aggregate", *waits)


def test_times():
    times = ("90s", "30m", "2h", "1d", "0.5s")
    assert [seconds_of(text) for text in times] == [90, 1800, 7200, 86400, 0.5]


def test_a_named_upload_may_be_missing_if_the_quorum_is_there(world, run, refused):
    lost = world.clients[2]
    lost.unlink()
    output = world.folder / "g1.safetensors"
    named = ("aggregate", *world.clients, "-o", output)
    done = run(*named, "--at-least", 2)
    assert done.code == 0 and f"{lost}: no such file" in done.err
    assert run("aggregate", *world.clients[:2], "-o", world.folder / "two").code == 0
    assert output.read_bytes() == (world.folder / "two").read_bytes()
    output.unlink()
    refused(world.folder, 75, ["2 clients", "--at-least"], *named, "--at-least", 3)
    refused(world.folder, 65, [lost, "no such file"], *named)
