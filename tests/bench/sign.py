"""Signatures of 100 ResNet-18 uploads: time relative to the aggregation."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from furlkit.files.container.read import Container
from furlkit.files.signatures import Signers, sign
from tests.bench.aggregate import CLIENTS, _timed, _uploads

_AGGREGATE = "import sys; from furlkit.cli.program import main; main(sys.argv[1:])"


class Cost(NamedTuple):
    """Seconds on the clock, and of CPU time in this process and the processes below."""

    clock: float
    cpu: float


def run() -> Iterator[str]:
    """Files are in the page cache; each client has a key and a call of ssh-keygen."""
    with tempfile.TemporaryDirectory() as folder:
        paths = _uploads(Path(folder))
        keys = [_new_key(Path(folder, f"key_{client}")) for client in range(CLIENTS)]
        allowed = Path(folder, "allowed_signers")
        lines = (f"{k} {_public(key)}" for k, key in enumerate(keys))
        allowed.write_text("".join(lines))
        command = ["aggregate", *paths, "--force", "-o", f"{folder}/g.safetensors"]
        turns = [_turn(paths, keys, allowed, command) for _ in range(3)]
        signing, checking, whole = sorted(turns, key=_ratio)[1]
        clock = (signing.clock + checking.clock) / whole.clock
        yield (
            f"{CLIENTS} uploads, seconds of CPU: sign {signing.cpu:.2f}, verify "
            f"{checking.cpu:.2f}, aggregate {whole.cpu:.1f}, ratio "
            f"{_ratio((signing, checking, whole)):.3f} (bar: 0.2); on the clock "
            f"{signing.clock:.2f}, {checking.clock:.2f}, {whole.clock:.1f}, ratio "
            f"{clock:.3f}"
        )


def _turn(
    paths: list[Path], keys: list[Path], allowed: Path, command: list
) -> tuple[Cost, Cost, Cost]:
    files, signers = [Container(path) for path in paths], Signers(allowed)
    pairs = zip(files, keys, strict=True)
    return (
        _cost(lambda: [sign([file], key) for file, key in pairs]),
        _cost(lambda: [signers.check(file) for file in files]),
        _cost(lambda: _timed(_AGGREGATE, command)),
    )


def _ratio(costs: tuple[Cost, Cost, Cost]) -> float:
    signing, checking, whole = costs
    return (signing.cpu + checking.cpu) / whole.cpu


def _cost(function: Callable[[], object]) -> Cost:
    before = os.times()
    function()
    after = os.times()
    return Cost(after.elapsed - before.elapsed, sum(after[:4]) - sum(before[:4]))


def _new_key(path: Path) -> Path:
    words = ("-q", "-t", "ed25519", "-N", "", "-f", str(path))
    subprocess.run(["ssh-keygen", *words], check=True)
    return path


def _public(key: Path) -> str:
    return key.with_suffix(".pub").read_text()
