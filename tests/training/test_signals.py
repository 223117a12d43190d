import os
import signal
import subprocess
import sys
import time
import weakref
from types import ModuleType, SimpleNamespace

import pytest

from furlkit.errors import Stopped
from furlkit.training import signals as stopping


@pytest.fixture(autouse=True)
def handlers():
    numbers, hook = (*stopping.SIGNALS, signal.SIGALRM), sys.unraisablehook
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # The tests may run under nohup.
    stopping.install()
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    sys.unraisablehook = hook
    stopping._requests.received, stopping._requests.deferred = None, False


def send(number):
    os.kill(os.getpid(), number)


STOPS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


@pytest.mark.parametrize("number", STOPS)
def test_outside_a_training_a_signal_stops_at_once(number):
    with pytest.raises(Stopped, match=f"stopped by {number.name}; run the same"):
        send(number)


def test_ctrl_c_outside_a_training_is_ctrl_c():
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)


@pytest.mark.parametrize(
    "number, error",
    [
        (signal.SIGTERM, Stopped),
        (signal.SIGUSR1, Stopped),
        (signal.SIGHUP, Stopped),
        (signal.SIGINT, KeyboardInterrupt),
    ],
)
def test_inside_a_training_a_signal_waits_for_the_loop(number, error):
    with stopping.deferring():
        assert not stopping.requested()
        send(number)
        assert stopping.requested()
        with pytest.raises(error):
            stopping.stop()
        assert not stopping.requested()


def test_under_nohup_a_lost_terminal_stops_nothing():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stopping.install()
    send(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_stop_does_nothing_unless_asked():
    with stopping.deferring():
        stopping.stop()


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_that_arrives_twice_is_one_request(second):
    """make gets the signal of the group, and passes the signal on to its children."""
    with stopping.deferring():
        send(signal.SIGTERM)
        send(second)
        with pytest.raises(Stopped, match="SIGTERM"):
            stopping.stop()
        assert not stopping.requested()


def test_a_second_ctrl_c_does_not_wait():
    with stopping.deferring():
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


def test_a_signal_after_a_loops_last_look_stops_the_next_loop():
    with stopping.deferring():
        send(signal.SIGTERM)
    with stopping.deferring():
        assert stopping.requested()
        with pytest.raises(Stopped):
            stopping.stop()


def test_a_signal_between_two_loops_stops_at_once():
    with stopping.deferring():
        pass
    with pytest.raises(Stopped):
        send(signal.SIGTERM)


def test_a_stop_is_no_error():
    """`except FurlkitError` and `except Exception` let it pass."""
    assert not issubclass(Stopped, Exception)


def arrives_at(monkeypatch, where, name):
    """SIGTERM arrives while `where.name` runs."""
    real = getattr(where, name)

    def interrupted(*given, **more):
        send(signal.SIGTERM)
        return real(*given, **more)

    monkeypatch.setattr(where, name, interrupted)


def test_a_stop_while_a_progress_file_is_read_is_a_stop(world, run, monkeypatch):
    from furlkit.files import progress

    command = (
        "local-train", world.partition, world.model, "--data", "digits", "--client", 0,
        "--epochs", 1, "--batch-size", 240, "-o", world.output,
    )  # fmt: skip
    saved = world.output.with_name("output.safetensors.progress")
    saved.write_bytes(world.model.read_bytes())
    before = world.output.read_bytes()
    arrives_at(monkeypatch, progress, "open_facts")
    outcome = run(*command)
    assert outcome.code == 75
    assert "stopped by SIGTERM" in outcome.err
    assert world.output.read_bytes() == before
    monkeypatch.undo()
    assert run(*command).code == 0


def test_a_stop_while_a_ledger_reads_is_a_stop(world, run, monkeypatch):
    from furlkit.reports import runs

    arrives_at(monkeypatch, runs, "Heads")
    outcome = run("ledger", world.folder)
    assert outcome.code == 75
    assert "stopped by SIGTERM" in outcome.err and outcome.out == ""


def test_a_stop_that_python_drops_is_raised_again():
    """What is raised in a weak reference's callback is ignored by Python."""

    class Thing:
        pass

    thing = Thing()
    kept = weakref.ref(thing, lambda _: send(signal.SIGTERM))
    del thing
    assert kept() is None
    with pytest.raises(Stopped):
        time.sleep(2)


def test_a_signal_waits_for_the_end_of_an_import_of_torch(monkeypatch):
    """An exception inside torch's C++ code would abort the process."""
    module = ModuleType("torch")
    module.__spec__ = SimpleNamespace(_initializing=True)
    monkeypatch.setitem(sys.modules, "torch", module)
    send(signal.SIGTERM)
    time.sleep(0.05)  # No exception.
    module.__spec__._initializing = False
    with pytest.raises(Stopped):
        time.sleep(2)


READY = """
import sys
from furlkit.cli import program
real = program.stopping.install
def install():
    real()
    print("ready", flush=True)
program.stopping.install = install
program.main(sys.argv[1:])
"""


@pytest.mark.parametrize("delay", [0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6])
def test_a_signal_during_the_start_ends_with_75(world, environment, delay):
    """Most of the start is spent in imports."""
    command = (
        "local-train", world.partition, world.model, "--data", "digits", "--client", 0,
        "--epochs", 10**6, "--batch-size", 240, "-o", world.output,
    )  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", READY, *map(str, command)], env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as job:  # fmt: skip
        assert job.stdout.readline() == "ready\n"
        time.sleep(delay)
        job.send_signal(signal.SIGTERM)
        said = job.communicate(timeout=60)[1]
    assert job.returncode == 75, said
    assert "stopped by SIGTERM" in said and "Traceback" not in said
