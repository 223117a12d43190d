import os
import signal

import pytest

from furlkit.errors import StoppedError
from furlkit.training import signals as stopping


@pytest.fixture(autouse=True)
def handlers():
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    stopping.install()
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    stopping._requests.received, stopping._requests.deferred = None, False


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_outside_a_training_a_signal_stops_at_once(number):
    with pytest.raises(StoppedError, match=f"stopped by {number.name}; run the same"):
        send(number)


def test_ctrl_c_outside_a_training_is_ctrl_c():
    with pytest.raises(KeyboardInterrupt):
        send(signal.SIGINT)


@pytest.mark.parametrize(
    "number, error",
    [
        (signal.SIGTERM, StoppedError),
        (signal.SIGUSR1, StoppedError),
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


def test_stop_does_nothing_unless_asked():
    with stopping.deferring():
        stopping.stop()


def test_a_second_signal_does_not_wait():
    with stopping.deferring():
        send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


def test_a_signal_after_a_loops_last_look_stops_the_next_loop():
    with stopping.deferring():
        send(signal.SIGTERM)
    with stopping.deferring():
        assert stopping.requested()
        with pytest.raises(StoppedError):
            stopping.stop()


def test_a_signal_between_two_loops_stops_at_once():
    with stopping.deferring():
        pass
    with pytest.raises(StoppedError):
        send(signal.SIGTERM)
