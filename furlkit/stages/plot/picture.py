"""Common parts of plots: check the output, read, draw unless a dry run, report."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from furlkit.errors import InputError, UsageError
from furlkit.files.receipts import run_folder
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import READ_BEFORE
from furlkit.reports.figures import Frame, check_format, figure

LARGEST = 50  # Inches.
Result = tuple[str, dict[str, Any]]
Paths = tuple[Path, ...]
Series = tuple[tuple[str, Paths], ...]  # Labels with files, or with folders of runs.
# Result of reading: a drawing function, a line of text, and the numbers.
Picture = tuple[Callable[[], Any], str, dict[str, Any]]


def picture(read: Callable[..., Picture]) -> Callable[[Mapping[str, Any]], Result]:
    """Wrap a plot's `read` in `run(values)`; `read` gets a frame and its options."""

    @wraps(read)
    def run(values: Mapping[str, Any]) -> Result:
        given = {key: v for key, v in values.items() if key not in READ_BEFORE}
        name = read.__module__.rpartition(".")[2]
        output, dry_run = given.pop("output"), given.pop("dry_run")
        frame, dpi = Frame(given.pop("title"), given.pop("size")), given.pop("dpi")
        check_format(output)
        _check_size(frame)
        inputs = [*_paths(tuple(given.values())), Path(given.get("data", ""))]
        check_output(output, inputs)
        if "files" in given and "series" in given:
            # Files without a label form a separate series.
            files = given.pop("files")
            given["series"] = ((("", files),) if files else ()) + given["series"]
            if not given["series"]:
                raise UsageError(
                    f"plot {name}: give metrics files, or --series LABEL=FILE,..."
                )
        draw, text, data = read(frame=frame, **given)
        if not dry_run:
            figure("style:save")(draw(), output, dpi, command=f"plot {name}")
        would = "would draw " if dry_run else ""
        return f"{would}{output}: {text}", {"output": str(output), **data}

    return run


def runs_of(series: Series) -> Series:
    """Replace each file by the folder of the planned run around it, without duplicates."""
    return tuple(
        (label, tuple(dict.fromkeys(map(_run_around, paths))))
        for label, paths in series
    )


def _run_around(path: Path) -> Path:
    folder = run_folder(str(path)) if path.is_file() else str(path)
    if folder is None:
        raise InputError(f"{path}: belongs to no planned run; give the run's folder")
    return Path(folder)


def _check_size(frame: Frame) -> None:
    """Refuse an impossible size before reading."""
    if frame.size and not all(1 <= side <= LARGEST for side in frame.size):
        size = ",".join(f"{side:g}" for side in frame.size)
        raise UsageError(f"--size {size}: expected inches between 1 and {LARGEST}")


def _paths(value: Any) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    for part in value if isinstance(value, tuple) else ():
        yield from _paths(part)
