"""plot uploads: each client's uploads according to a report of aggregate."""

from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.clients import client_order, is_client
from furlkit.files.container.header import short
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import is_number, read_once
from furlkit.reports.summary import Upload
from furlkit.reports.text import counted
from furlkit.stages.plot.picture import Picture, figure, picture


@picture
def run(files: tuple[Path, ...], frame: Frame) -> Picture:
    """Draw norm, angle and influence of each upload, by client; outliers in red."""
    read = list(read_once(files))
    every = (each for path, metrics in read for each in _uploads(path, metrics))
    found = sorted(every, key=lambda each: (client_order(each.client), *each[1:3]))
    odd = list(dict.fromkeys(each.client for each in found if each.stands_out))
    who = f"standing out: {', '.join(map(str, odd))}" if odd else "none stands out"
    return (
        lambda: figure("uploads:draw_uploads")(found, frame),
        f"{counted(len(found), 'upload')} in {counted(len(read), 'report')}, {who}",
        {"uploads": [each._asdict() for each in found], "stands_out": odd},
    )


def _uploads(path: Path, metrics: dict[str, Any]) -> list[Upload]:
    clients, number = metrics.get("clients"), metrics.get("round")
    if metrics.get("protocol") != "uploads" or not isinstance(clients, list):
        protocol = short(metrics.get("protocol"))
        raise InputError(
            f"{path}: expected a report on uploads, found the protocol {protocol}; "
            "create it with furlkit aggregate --report"
        )
    return [_upload(path, number, each) for each in clients]


def _upload(path: Path, number: Any, each: Any) -> Upload:
    known = each if isinstance(each, dict) else {}
    norm, angle, moved = (known.get(name) for name in ("norm", "angle", "moved"))
    counts = type(number) is int and is_client(known.get("client"))
    optional = all(value is None or is_number(value) for value in (angle, moved))
    if not counts or not optional or not is_number(norm):
        raise InputError(
            f"{path}: has {short(each)} of round {short(number)}; expected a client with "
            "a norm, an angle and a distance; re-create it with furlkit aggregate --report"
        )
    return Upload(
        known["client"], number, norm, angle, moved, bool(known.get("reasons"))
    )
