"""SIGTERM, SIGUSR1 (sent by clusters before time runs out), SIGHUP, and Ctrl-C.

Outside a training, signals end the program immediately, or after an import of torch: an
exception inside torch's C++ code during the import would abort the process.
Inside a training, the loop saves progress after the current step. A signal after a
loop's last check stops the next loop, after the first step.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from furlkit.errors import Stopped

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT)
_RETRY = 0.01  # Seconds.
_WITH_CODE = ("torch", "torchvision")  # Packages whose C++ code runs Python's imports.


class _Requests:
    """Signal that requested a stop, and True if a loop will check the request.

    `lost`: signal to handle a moment later, during an import or after Python has dropped
    the exception.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.lost: int = signal.SIGTERM
        self.deferred = False


_requests = _Requests()


def install() -> None:
    """Take over the signals; called once by the command line."""
    for number in SIGNALS:
        # nohup ignores SIGHUP for the program it starts; keep that.
        ignored = signal.getsignal(number) is signal.SIG_IGN
        if number != signal.SIGHUP or not ignored:
            signal.signal(number, _handle)
    signal.signal(signal.SIGALRM, _raise_again)
    sys.unraisablehook = _unraisable


def _handle(number: int, _frame: object) -> None:
    if _requests.deferred and _requests.received is None:
        _requests.received = number
    elif _requests.deferred and number != signal.SIGINT:
        # make and Slurm send a signal to a whole group of processes, and pass it on to
        # each process: the second one is no new request. A second Ctrl-C does not wait.
        return
    elif any(map(_is_imported_now, _WITH_CODE)):
        _retry(number)
    else:
        _raise(number)


def _is_imported_now(package: str) -> bool:
    """Return whether the import of a package has begun and not ended."""
    spec = getattr(sys.modules.get(package), "__spec__", None)
    return getattr(spec, "_initializing", False)


def _retry(number: int) -> None:
    """Handle the signal a moment later."""
    _requests.lost = number
    signal.setitimer(signal.ITIMER_REAL, _RETRY)


def _raise(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    name = signal.Signals(number).name
    raise Stopped(f"stopped by {name}; run the same command again to resume", number)


def _unraisable(lost: "sys.UnraisableHookArgs") -> None:
    """Raise exceptions again that Python dropped in a weak reference's callback.

    Imports are full of such callbacks; `__del__` drops exceptions too.
    """
    if isinstance(lost.exc_value, Stopped | KeyboardInterrupt):
        _retry(getattr(lost.exc_value, "number", signal.SIGINT))
    else:
        sys.__unraisablehook__(lost)


def _raise_again(_number: int, frame: object) -> None:
    _handle(_requests.lost, frame)


@contextmanager
def deferring() -> Iterator[None]:
    """Record signals inside the block; `requested` reports them, `stop` raises."""
    before, _requests.deferred = _requests.deferred, True
    try:
        yield
    finally:
        _requests.deferred = before


def requested() -> bool:
    """Return True if a signal requested a stop."""
    return _requests.received is not None


def stop() -> None:
    """Raise the exception of the received signal, if any."""
    number, _requests.received = _requests.received, None
    if number is not None:
        _raise(number)
