"""SIGTERM and SIGUSR1 (what clusters send before time runs out), and Ctrl-C.

Outside a training they end the program at once. Inside one they are noted, and the
loop saves its progress after the step it is in. One that comes too late for a loop to
look at it stops the next one, after its first step.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from furlkit.errors import StoppedError

_CARRY_ON = "run the same command again to carry on"


class _Requests:
    """The signal that asked for a stop, and whether a loop will look at it."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.deferred = False


_requests = _Requests()


def install() -> None:
    """Take over the signals; called once by the command line."""
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, _handle)


def _handle(number: int, _frame: object) -> None:
    # A second signal does not wait for the step to end.
    if _requests.deferred and _requests.received is None:
        _requests.received = number
        return
    _raise(number)


def _raise(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise StoppedError(f"stopped by {signal.Signals(number).name}; {_CARRY_ON}")


@contextmanager
def deferring() -> Iterator[None]:
    """Signals inside the block are noted; `requested` tells, `stop` acts on them."""
    before, _requests.deferred = _requests.deferred, True
    try:
        yield
    finally:
        _requests.deferred = before


def requested() -> bool:
    """Whether a signal has asked for a stop."""
    return _requests.received is not None


def stop() -> None:
    """Raise what the signal that came asks for."""
    number, _requests.received = _requests.received, None
    if number is not None:
        _raise(number)
