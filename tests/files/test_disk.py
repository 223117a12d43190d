"""What happens when the disk, or the user, does not let the program finish."""

import errno
import os
import resource
import signal
import subprocess
import sys

import pytest

from furlkit.files.container import atomic


def aggregate(world):
    return "aggregate", *world.clients, "-o", world.output


def train(world, output=None):
    rest = ("--client", 0, "--epochs", 2, "--batch-size", 240)
    places = (world.partition, world.model, "--data", "digits")
    return "local-train", *places, *rest, "-o", output or world.output


def commands(world):
    yield aggregate(world)
    yield train(world)
    yield "partition", "--data", "digits", "-o", world.output
    yield "init", "--data", "digits", "--width", 0.02, "-o", world.output
    yield "embed", world.model, "--data", "digits", "-o", world.output
    yield "evaluate", "knn", world.model, "--data", "digits", "-o", world.output
    yield "export", world.model, "-o", world.folder
    yield "pack", "digits", "-o", world.output


# Not local-train, whose journal stays; see test_training_goes_on_when_there_is_room_again.
@pytest.mark.parametrize("number", [0, *range(2, 8)])
def test_no_space_left(world, refused, monkeypatch, number):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    arguments = list(commands(world))[number]
    monkeypatch.setattr(os, "fsync", full)
    words = (world.folder, "cannot write: No space left on device", "make room")
    refused(world.folder, 74, words, *arguments)


@pytest.mark.parametrize("number", range(8))
def test_read_only_folder(world, refused, monkeypatch, number):
    def locked(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    arguments = list(commands(world))[number]
    monkeypatch.setattr(atomic, "_open_part", locked)
    words = (world.folder, "cannot write: Read-only file system", "choose another -o")
    refused(world.folder, 74, words, *arguments)


def test_disk_that_fills_up_while_writing(world, program, snapshot):
    """A real limit: the operating system stops the file at 4,096 bytes."""
    before = snapshot(world.folder)
    done = program(
        *aggregate(world),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert done.returncode == 74
    assert f"{world.output}: cannot write: File too large" in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    assert snapshot(world.folder) == before


def test_output_that_is_a_folder(world, refused):
    for command in (aggregate(world), train(world)):
        words = [world.folder if word == world.output else word for word in command]
        refused(world.folder, 2, (world.folder, "is a "), *words)


def test_training_goes_on_when_there_is_room_again(world, run, monkeypatch, snapshot):
    undisturbed = world.folder / "undisturbed.safetensors"
    assert run(*train(world, undisturbed)).code == 0
    output, before = world.folder / "disturbed.safetensors", snapshot(world.folder)

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    outcome = run(*train(world, output))
    assert outcome.code == 74 and outcome.out == "" and "Traceback" not in outcome.err
    assert f"{output}: cannot write: No space left on device" in outcome.err
    left = snapshot(world.folder)
    assert left.keys() - before.keys() == {"disturbed.log.jsonl"}
    assert {name: left[name] for name in before} == before
    monkeypatch.undo()
    assert run(*train(world, output)).code == 0
    one, other = undisturbed.read_bytes(), output.read_bytes()
    assert one == other
    assert not list(world.folder.glob("*.progress"))


def test_two_jobs_at_once_end_with_the_same_bytes(world, environment, snapshot):
    command = [sys.executable, "-m", "furlkit", *map(str, aggregate(world))]
    names = set(snapshot(world.folder))
    first = subprocess.run(command, env=environment, capture_output=True, check=True)
    alone = world.output.read_bytes()
    world.output.unlink()
    jobs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
            for _ in range(3)]  # fmt: skip
    results = [job.communicate()[0] for job in jobs]
    codes = [job.returncode for job in jobs]
    assert 0 in codes and set(codes) <= {0, 75}
    # One that came after the writer finds its output.
    shown = [out for code, out in zip(codes, results, strict=True) if code == 0]
    assert first.stdout in shown
    assert all(out == first.stdout or b"already there" in out for out in shown)
    assert world.output.read_bytes() == alone
    assert set(snapshot(world.folder)) == names


def test_interrupted_command(world, refused, monkeypatch):
    from furlkit.stages.aggregate import checkpoints as stage

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stage, "write", interrupt)
    words = ("interrupted; run the same command again",)
    refused(world.folder, 130, words, *aggregate(world))


def test_ctrl_c_in_a_training(world, environment):
    arguments = [10**6 if word == 2 else word for word in train(world)]
    command = [sys.executable, "-m", "furlkit", *map(str, arguments)]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True
    ) as job:
        warning = job.stderr.readline()
        job.stderr.readline()  # The first epoch is over, or nothing is written at all.
        job.send_signal(signal.SIGINT)
        said = job.stderr.read()
    assert "has 0 bytes" in warning
    assert job.returncode == 130
    assert "interrupted; run the same command again" in said
    assert "Traceback" not in said
    assert world.output.read_bytes() == b""
    assert world.output.with_name("output.safetensors.progress").exists()
