"""ledger: the bytes clients sent and received, counted in files or planned ahead."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.errors import InputError, UsageError
from furlkit.files.container.read import open_kind
from furlkit.files.metrics import write_metrics
from furlkit.files.similarity import kept_of
from furlkit.inputs.paths import check_output
from furlkit.reports.ledger import RECEIVED, SENT, document, read_ledger
from furlkit.reports.text import byte_size, columns
from furlkit.weights import is_batchnorm_statistic

LISTED = 20
# Bytes of a number, and of what is written beside a row of features or of values.
WIDTHS = {"float32": 4, "float16": 2, "int8": 1}
INDEX, SCALE, COLUMN = 8, 4, 4
MOST_IMAGES = 2**62

Result = tuple[str, dict[str, Any]]
Rows = Sequence[dict[str, Any]]
Cells = list[tuple[str, ...]]


@dataclass(frozen=True)
class Options:
    """`runs` are folders, or single files; `output` is for programs and `inspect`."""

    runs: tuple[Path, ...]
    output: Path | None = None


@dataclass(frozen=True)
class Plan:
    """What FLESD would send: `images` rows of `width`, or a similarity of them.

    The model is given by its checkpoint, or by its number of float32 parameters.
    """

    images: int
    width: int | None = None
    encoding: str = "float32"
    similarity: bool = False
    top: float | None = None
    model: Path | None = None
    parameters: int | None = None
    clients: int = 1
    rounds: int = 1
    rounds_averaging: int | None = None


def run_values(values: dict[str, Any]) -> Result:
    """Count, or with `plan` calculate ahead, with flat options."""
    given = dict(values)
    runs, output, plan = (given.pop(key) for key in ("runs", "output", "plan"))
    if plan and (runs or output):
        raise UsageError(
            f"--plan: takes no RUN and writes no file; leave out {output or runs[0]}"
        )
    if plan and given["images"] is None:
        raise UsageError("ledger --plan: give --images, the number of public images")
    if plan:
        return run_plan(Plan(**given))
    if not runs:
        raise UsageError("ledger: give the folder of a run, or --plan")
    return run(Options(runs, output))


def run(options: Options) -> Result:
    """Count what went through the doors of a run, by round and by client."""
    ledger = read_ledger(options.runs)
    found = document(ledger)
    for warning in ledger.warnings:
        console.warn(warning)
    lines = [*_round_table(found), "", *_client_table(found["clients"]), ""]
    lines.append(_total_words(found["total"]))
    if options.output:
        known = (file.path for file in ledger.files)
        check_output(options.output, (*options.runs, *known))
        write_metrics(options.output, found)
        lines.append(f"written to {options.output}")
    return "\n".join(lines), found


def _round_table(found: dict[str, Any]) -> list[str]:
    """A column for each kind of file that was sent or received."""
    total = found["total"]
    kinds = [(way, kind) for way in (SENT, RECEIVED) for kind in total[way]["kinds"]]
    odd = ["unknown"] if total["unknown"] else []
    rows = [["round", "clients", *map(" ".join, kinds), "total", *odd]]
    last = {**total, "round": "all", "clients": range(total["clients"])}
    for row in (*found["rounds"], last):
        cells = [row[way]["kinds"].get(kind, {}).get("bytes", 0) for way, kind in kinds]
        numbers = [len(row["clients"]), *cells, row["bytes"]]
        numbers += [row["unknown"]] if odd else []
        rows.append([str(row["round"]), *(f"{number:,}" for number in numbers)])
    return columns(rows, "r" * len(rows[0]))


def _client_table(clients: Rows) -> list[str]:
    rows: Cells = [("client", "rounds", "sent", "received", "total")]
    for row in clients[:LISTED]:
        numbers = len(row["rounds"]), *_both_ways(row), row["bytes"]
        rows.append((str(row["client"]), *(f"{number:,}" for number in numbers)))
    more = len(clients) - LISTED
    rest = [f"... and {more:,} more (--json lists all)"] if more > 0 else []
    return [*columns(rows, "rrrrr"), *rest]


def _both_ways(row: dict[str, Any]) -> tuple[int, int]:
    return row[SENT]["bytes"], row[RECEIVED]["bytes"]


def _total_words(total: dict[str, Any]) -> str:
    sent, received = _both_ways(total)
    headers = total["bytes"] - total["payload"]
    words = (
        f"{_many(total['clients'], 'client')}, {_many(total['rounds'], 'round')}: "
        f"{sent:,} bytes sent, {received:,} received; {total['bytes']:,} in all "
        f"({byte_size(total['bytes'])}), {headers:,} of them headers"
    )
    unknown = _many(total["unknown"], "transfer")
    return f"{words}; {unknown} of unknown size" if total["unknown"] else words


def _many(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def run_plan(plan: Plan) -> Result:
    """FLESD Eq. 11: what the uploads of a round cost against averaging weights."""
    _check_plan(plan)
    values, down = _model_size(plan)
    T, T_averaging = plan.rounds, plan.rounds_averaging or plan.rounds
    up = upload_bytes(plan, plan.images)
    sides = {
        "flesd": _side(plan.clients, T, up, down),
        "averaging": _side(plan.clients, T_averaging, down, down),
    }
    left, right = T * plan.images * _row_length(plan, plan.images), T_averaging * values
    found = {
        **sides,
        "clients": plan.clients,
        "images": plan.images,
        "parameters": values,
        "equation_11": {"left": left, "right": right, "holds": left <= right},
        "break_even": {
            "sent": _most_images(plan, T_averaging * down),
            "both": _most_images(plan, 2 * T_averaging * down - T * down),
        },
    }
    return "\n".join(_plan_lines(plan, found)), found


def _check_plan(plan: Plan) -> None:
    if (plan.model is None) == (plan.parameters is None):
        raise UsageError(
            "ledger --plan: give the model's size, as --model CHECKPOINT or as "
            "--parameters NUMBER, one of them"
        )
    if plan.top is not None and not plan.similarity:
        raise UsageError(f"--top {plan.top:g}: is of a --similarity; give that too")
    if plan.similarity and plan.width is not None:
        raise UsageError(
            f"--width {plan.width}: a --similarity has a column an image, whatever the "
            "width of the representation; leave one of them out"
        )
    if not plan.similarity and plan.width is None:
        raise UsageError(
            "ledger --plan: give --width, the numbers an image is represented by, or "
            "--similarity"
        )


def _model_size(plan: Plan) -> tuple[int, int]:
    """Parameters and bytes of the model: of its tensors, as they would be sent."""
    if plan.model is None:
        values = plan.parameters or 0
        return values, WIDTHS["float32"] * values
    entries = open_kind(plan.model, "checkpoint").entries
    learnt = [entry for entry in entries if not is_batchnorm_statistic(entry.name)]
    values = sum(math.prod(entry.shape) for entry in learnt)
    if not values:
        raise InputError(f"{plan.model}: has no weights at all")
    return values, sum(entry.size for entry in entries)


def _row_length(plan: Plan, n: int) -> int:
    """Numbers that are sent of an image, one of n."""
    if not plan.similarity:
        return plan.width or 0
    return n if plan.top is None else kept_of(plan.top, n)


def upload_bytes(plan: Plan, n: int) -> int:
    """Bytes of the tensors that `embed` writes for n images."""
    each = WIDTHS[plan.encoding] + (0 if plan.top is None else COLUMN)
    scaled = plan.encoding == "int8" and not plan.similarity
    beside = INDEX + (SCALE if scaled else 0)
    return n * (each * _row_length(plan, n) + beside)


def _side(clients: int, rounds: int, up: int, down: int) -> dict[str, int]:
    times = clients * rounds
    return {
        "rounds": rounds,
        "up": up,
        "down": down,
        "sent": times * up,
        "received": times * down,
        "bytes": times * (up + down),
    }


def _most_images(plan: Plan, budget: int) -> int:
    """The most images whose uploads of all rounds keep within a budget of bytes."""

    def cost(n: int) -> int:
        return plan.rounds * upload_bytes(plan, n)

    return max(0, bisect_right(range(MOST_IMAGES), budget, key=cost) - 1)


def _plan_lines(plan: Plan, found: dict[str, Any]) -> Iterable[str]:
    rows: Cells = [("", "rounds", "up", "down", "sent", "received", "total")]
    for name, key in (("FLESD", "flesd"), ("weight averaging", "averaging")):
        rows.append((name, *(f"{number:,}" for number in found[key].values())))
    yield from columns(rows, ".rrrrrr")
    ratio = found["flesd"]["bytes"] / found["averaging"]["bytes"]
    verdict = (
        "costs the same" if ratio == 1 else "is cheaper" if ratio < 1 else "is dearer"
    )
    yield ""
    yield (
        f"FLESD {verdict}: {ratio:.3g} times the bytes of weight averaging, over all "
        f"rounds and {_many(plan.clients, 'client')}"
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
        "those that are sent"
    )
