"""SIGTERM, SIGUSR1 (which clusters send before time runs out), SIGHUP, and Ctrl-C.

Outside a training they end the program at once, or as soon as torch is imported. Inside
one they are noted, and the loop saves its progress after the current step. A signal that
comes after a loop's last look stops the next loop, after its first step.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from furlkit.errors import Stopped

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT)
_RETRY = 0.01  # Seconds.


class _Requests:
    """The signal that asked for a stop, and whether a loop will look at it.

    `lost` is a signal whose exception Python has dropped.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.lost: int = signal.SIGTERM
        self.deferred = False


_requests = _Requests()


def install() -> None:
    """Take over the signals; called once by the command line."""
    for number in SIGNALS:
        # nohup ignores SIGHUP for the program that it starts, and so do we then.
        ignored = signal.getsignal(number) is signal.SIG_IGN
        if number != signal.SIGHUP or not ignored:
            signal.signal(number, _handle)
    signal.signal(signal.SIGALRM, _raise_again)
    sys.unraisablehook = _unraisable


def _handle(number: int, _frame: object) -> None:
    # A second signal does not wait for the step to end.
    if _requests.deferred and _requests.received is None:
        _requests.received = number
        return
    _raise(number)


def _raise(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    name = signal.Signals(number).name
    raise Stopped(f"stopped by {name}; run the same command again to resume", number)


def _unraisable(lost: "sys.UnraisableHookArgs") -> None:
    """Python drops what is raised in a weak reference's callback or a `__del__`.

    Imports are full of such callbacks. A stop that is lost in one is raised again.
    """
    if isinstance(lost.exc_value, Stopped | KeyboardInterrupt):
        _requests.lost = getattr(lost.exc_value, "number", signal.SIGINT)
        signal.setitimer(signal.ITIMER_REAL, _RETRY)
    else:
        sys.__unraisablehook__(lost)


def _raise_again(_number: int, frame: object) -> None:
    _handle(_requests.lost, frame)


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
    """Raise what the received signal asks for, if there is one."""
    number, _requests.received = _requests.received, None
    if number is not None:
        _raise(number)
