"""What all plots do: check the output, read, draw unless it is a dry run, report."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from furlkit.errors import UsageError
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import READ_BEFORE
from furlkit.reports.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = tuple[str, dict[str, Any]]
Paths = tuple[Path, ...]
Series = tuple[tuple[str, Paths], ...]  # Labels with files, or with folders of runs.


class Picture(NamedTuple):
    """What a plot has read: how it is drawn, a line about it, and its numbers."""

    draw: Callable[[], "Figure"]
    text: str
    data: dict[str, Any]


def picture(read: Callable[..., Picture]) -> Callable[[Mapping[str, Any]], Result]:
    """A plot's `run(values)`; `read` gets all options by key but output and dry_run."""

    @wraps(read)
    def run(values: Mapping[str, Any]) -> Result:
        given = {key: v for key, v in values.items() if key not in READ_BEFORE}
        output, dry_run = given.pop("output"), given.pop("dry_run")
        style.check_output(output)
        inputs = [*_paths(tuple(given.values())), Path(given.get("data", ""))]
        check_output(output, inputs)
        draw, text, data = read(**given)
        if not dry_run:
            style.save(draw(), output)
        would = "would draw " if dry_run else ""
        return f"{would}{output}: {text}", {"output": str(output), **data}

    return run


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    for part in value if isinstance(value, tuple) else ():
        yield from _paths(part)


def labelled(plot: str, files: Paths, series: Series) -> Series:
    """Files without a label as a series of their own, before those of --series."""
    lines = ((("", files),) if files else ()) + series
    if not lines:
        raise UsageError(f"plot {plot}: give metrics files, or --series LABEL=FILE,...")
    return lines
