"""Starts of the program that take milliseconds, because torch is imported only once.

`serve` waits at a socket; `CLIENT` is a program that takes furlkit's arguments, has them
run in a fork of the server, and exits with its code. A client that is killed kills the
fork too, and SIGTERM and SIGUSR1 are passed on: seen from outside, the client is furlkit.
With HOLD=OUTPUT:STEP in the environment, a training waits there: see `hold_training`.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

CLIENT = """
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, _: server.send(bytes([number])))
server.connect(sys.argv[1])
hold = os.environ.get("HOLD")
words = {"words": sys.argv[2:], "folder": os.getcwd(), "hold": hold}
socket.send_fds(server, [json.dumps(words).encode()], [0, 1, 2])
sys.exit(int(server.recv(8) or b"1"))
"""


def serve(place: str) -> None:
    """Answer every client in a process of its own."""

    import furlkit.stages.aggregate.checkpoints
    import furlkit.stages.aggregate.rows
    import furlkit.stages.evaluate.work.frozen
    import furlkit.stages.init.work
    import furlkit.stages.inspect
    import furlkit.stages.local_train.train
    import furlkit.stages.pretrain_align.work  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen()
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(client)
        client.close()


def _answer(client: socket.socket) -> None:
    text, streams, _, _ = socket.recv_fds(client, 2**20, 3)
    process = os.fork()
    if process == 0:
        client.close()
        _work(json.loads(text), streams)
    ended = os.pidfd_open(process)
    while True:
        ready, _, _ = select.select([ended, client], [], [])
        if ended in ready:
            _, status = os.waitpid(process, 0)
            with suppress(OSError):
                client.send(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
        os.kill(process, (client.recv(1) or bytes([signal.SIGKILL]))[0])


def _work(given: dict, streams: list[int]) -> None:
    from furlkit.cli import main
    from tests.helpers import hold_training

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(given["folder"])
    code = 1
    try:
        if given["hold"]:
            output, step = given["hold"].split(":")
            hold_training(output, int(step), given["words"])
        main(given["words"])
    except SystemExit as done:
        code = int(done.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


@contextmanager
def launched(folder: Path, environment: Mapping[str, str]) -> Iterator[list[str]]:
    """Start a server in an environment; gives the words that start furlkit."""
    (folder / "client.py").write_text(CLIENT)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.recipes.launcher", str(folder / "socket")],
        stdout=subprocess.PIPE, env=environment, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield [sys.executable, "-IS", str(folder / "client.py"), str(folder / "socket")]
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    serve(sys.argv[1])
