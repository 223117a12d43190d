"""ledger: bytes sent and received by clients, counted in files or planned ahead."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.errors import InputError, UsageError
from furlkit.files.clients import client_order
from furlkit.files.container.read import open_kind
from furlkit.files.metrics import write_metrics
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import READ_BEFORE
from furlkit.reports.ledger import (
    RECEIVED,
    SENT,
    WIDTHS,
    Upload,
    document,
    flesd_equation_11,
    most_images,
    read_ledger,
    training_time,
)
from furlkit.reports.table import check_format, render
from furlkit.reports.text import byte_size, counted
from furlkit.weights import is_batchnorm_statistic

LISTED = 20

Result = tuple[str, dict[str, Any]]


def run(values: dict[str, Any]) -> Result:
    """Count bytes sent and received, or with `plan` calculate them ahead."""
    given = {key: v for key, v in values.items() if key not in READ_BEFORE}
    runs, output, plan = (given.pop(key) for key in ("runs", "output", "plan"))
    check_format(given["format"])
    time = given.pop("time")
    if plan and (runs or output):
        raise UsageError(
            f"--plan: takes no RUN and writes no file; leave out {output or runs[0]}"
        )
    if plan and time:
        raise UsageError("--plan: there is no training to time yet; leave out --time")
    if plan:
        return _plan(**given)
    if not runs:
        raise UsageError("ledger: give the folder of a run, or --plan")
    return _count(runs, output, given["format"], time)


def _count(runs: Sequence[Path], output: Path | None, form: str, time: bool) -> Result:
    """Count bytes sent and received by a run's clients, by round and by client."""
    ledger = read_ledger(runs)
    found = document(ledger)
    if time:
        found["total"] |= training_time(ledger.files)
    if output:
        check_output(output, (*runs, *(file.path for file in ledger.files)))
        write_metrics(output, found)
    if form == "csv":
        return render(_transfers(found), "csv"), found
    listed = found["clients"][: LISTED if form == "text" else None]
    if form == "text" and output and console.settings.verbosity < 0:
        return f"{output}: {_total(found['total'])}", found
    shown = _round_table(found), _client_table(listed)
    tables = [render(table, form, "r" * len(table[0])) for table in shown]
    if form == "text":
        if more := len(found["clients"]) - len(listed):
            tables[1] += f"\n... and {more:,} more (--json lists all)"
        written = f"\nwritten to {output}" if output else ""
        tables.append(_total(found["total"]) + written)
    return "\n\n".join(tables), found


def _transfers(found: dict[str, Any]) -> list[tuple]:
    """Rows by round, client, direction and kind; missing files have no bytes."""
    rows = [
        (cell["round"], cell["client"], way, kind, *sums.values())
        for cell in found["cells"]
        for way in (SENT, RECEIVED)
        for kind, sums in cell[way]["kinds"].items()
    ]
    rows += [
        (t["round"], t["client"], t["direction"], "unknown", 1, None, None)
        for t in found["missing"]
    ]
    head = ("round", "client", "direction", "kind", "files", "bytes", "payload")
    return [head, *sorted(rows, key=lambda row: (row[0], client_order(row[1])))]


def _round_table(found: dict[str, Any]) -> list[list]:
    """Table by round, with a column for each kind of file sent or received."""
    total = found["total"]
    kinds = [(way, kind) for way in (SENT, RECEIVED) for kind in total[way]["kinds"]]
    unknown = ["unknown"] if total["unknown"] else []
    rows: list[list] = [["round", "clients", *map(" ".join, kinds), "total", *unknown]]
    last = {**total, "round": "all", "clients": range(total["clients"])}
    for row in (*found["rounds"], last):
        cells = [row[way]["kinds"].get(kind, {}).get("bytes", 0) for way, kind in kinds]
        numbers = [len(row["clients"]), *cells, row["bytes"]]
        numbers += [row["unknown"]] if unknown else []
        rows.append([str(row["round"]), *numbers])
    return rows


def _client_table(clients: Sequence[dict[str, Any]]) -> list[list]:
    rows: list[list] = [["client", "rounds", "sent", "received", "total"]]
    for row in clients:
        ways = row[SENT]["bytes"], row[RECEIVED]["bytes"], row["bytes"]
        rows.append([str(row["client"]), len(row["rounds"]), *ways])
    return rows


def _total(total: dict[str, Any]) -> str:
    headers = total["bytes"] - total["payload"]
    text = (
        f"{counted(total['clients'], 'client')}, {counted(total['rounds'], 'round')}: "
        f"{total[SENT]['bytes']:,} bytes sent, {total[RECEIVED]['bytes']:,} received; "
        f"{total['bytes']:,} in all ({byte_size(total['bytes'])}), {headers:,} of them "
        "headers"
    )
    if total["unknown"]:
        text += f"; {counted(total['unknown'], 'transfer')} of unknown size"
    if total.get("cpu_seconds") is not None:
        text += f"; {total['cpu_seconds']:.1f} CPU seconds of local-train"
        text += f" in {counted(total['timed'], 'journal')}"
    return text


def _plan(
    images: int | None, model: Path | None, parameters: int | None, similarity: bool,
    clients: int, rounds: int, rounds_averaging: int | None, format: str, **sent: Any,
) -> Result:  # fmt: skip
    """Compare the cost of FLESD's uploads with averaging weights (FLESD Eq. 11).

    `sent`: fields of `Upload`. The model is given by a checkpoint, or by the number of
    float32 parameters.
    """
    upload = Upload(**sent)
    if images is None:
        raise UsageError("ledger --plan: give --images, the number of public images")
    if (model is None) == (parameters is None):
        raise UsageError(
            "ledger --plan: give the model's size by either --model CHECKPOINT or "
            "--parameters NUMBER"
        )
    if similarity == (upload.width is not None):
        raise UsageError(
            "ledger --plan: give the upload for an image by either --width NUMBERS or "
            "--similarity"
        )
    w = parameters or 0
    down = WIDTHS["float32"] * w
    if model:
        w, down = _model_size(model)
    T, T_avg, n = rounds, rounds_averaging or rounds, images
    found: dict[str, Any] = {
        "flesd": _side(clients, T, upload.bytes(n), down),
        "averaging": _side(clients, T_avg, down, down),
        "clients": clients,
        "images": n,
        "parameters": w,
        "equation_11": flesd_equation_11(T, n, upload.numbers(n), T_avg, w),
        "break_even": {
            "sent": most_images(upload, T, T_avg * down),
            "both": most_images(upload, T, 2 * T_avg * down - T * down),
        },
    }
    return _plan_table(found, format), found


def _model_size(model: Path) -> tuple[int, int]:
    """Parameters of a model, and bytes of the tensors."""
    entries = open_kind(model, "checkpoint").entries
    learnt = [entry for entry in entries if not is_batchnorm_statistic(entry.name)]
    values = sum(math.prod(entry.shape) for entry in learnt)
    if not values:
        raise InputError(f"{model}: has no weights at all")
    return values, sum(entry.size for entry in entries)


def _side(clients: int, rounds: int, up: int, down: int) -> dict[str, int]:
    sent, received = clients * rounds * up, clients * rounds * down
    sums = {"sent": sent, "received": received, "bytes": sent + received}
    return {"rounds": rounds, "up": up, "down": down, **sums}


def _plan_table(found: dict[str, Any], form: str) -> str:
    """Table of both methods; in text form with a verdict."""
    head = ["method", "rounds", "up", "down", "sent", "received", "total"]
    sides = {"FLESD": found["flesd"], "weight averaging": found["averaging"]}
    rows = [head, *([name, *side.values()] for name, side in sides.items())]
    table = render(rows, form, ".rrrrrr")
    return "\n".join([table, "", *_verdict(found)]) if form == "text" else table


def _verdict(found: dict[str, Any]) -> Iterator[str]:
    """Yield sentences that compare the costs of both methods."""
    ratio = found["flesd"]["bytes"] / found["averaging"]["bytes"]
    verdict = "the same" if ratio == 1 else "less" if ratio < 1 else "more"
    yield (
        f"FLESD costs {verdict}: {ratio:.3g} times the bytes of weight averaging, over "
        f"all rounds and {counted(found['clients'], 'client')}"
    )
    equation = found["equation_11"]
    sign, truth = ("<=", "holds") if equation["holds"] else (">", "does not hold")
    yield (
        f"Eq. 11 {truth}: {equation['left']:,} {sign} {equation['right']:,} numbers "
        "that a client sends"
    )
    most = {way: f"{n:,}" if n else "none" for way, n in found["break_even"].items()}
    yield (
        f"Break-even in public images: {most['both']} for all bytes, {most['sent']} for "
        "the bytes sent"
    )
