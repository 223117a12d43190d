"""report: collect the facts about runs, and write the page."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from multiprocessing import get_context
from os.path import commonpath
from pathlib import Path
from typing import Any

from furlkit import catalogue, console
from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.files import receipts
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.header import canonical
from furlkit.files.replaceable import check_same_table
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.recipes import records
from furlkit.recipes.engines import queue_of
from furlkit.recipes.expand import expand
from furlkit.recipes.finished import DONE, STALE
from furlkit.recipes.forms import title
from furlkit.recipes.status import Status, status
from furlkit.reports.metrics import read_one
from furlkit.reports.page.collect import Planned, Problem, Run, collect
from furlkit.reports.page.page import Extra, build, csv_name
from furlkit.reports.runs import is_of_records
from furlkit.reports.summary import grouped
from furlkit.reports.table import render
from furlkit.reports.text import byte_size, counted, plain
from furlkit.runtime import end_with_parent, no_search_for_garbage

ENDINGS = (".html", ".htm")
EVERY = 2.0  # Seconds between two looks with --watch.
SHOWN = 8  # Stale steps by name.
SHEETS, IMAGES = 10, 16  # Clients with images, and images of a client.
# Settings without an effect on scores, and the seed.
FREE = (
    "out",
    "seed",
    "threads",
    "isa",
    "device",
    "data_root",
    "download",
    "cache",
    "keep",
)


@dataclass(frozen=True)
class ReportOptions:
    """Runs, page and further content."""

    runs: tuple[Path, ...]
    output: Path
    force: bool
    watch: bool
    refresh: int | None
    with_images: bool
    tables: Path | None
    audit: tuple[Path, ...]


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Write the page; with `watch`, again after each finished step."""
    catalogue.add_plugins()  # Headers may name methods of plugins.
    options = fill(ReportOptions, values)
    if options.output.suffix.lower() not in ENDINGS:
        raise UsageError(
            f"-o {options.output}: the page is HTML; expected a name ending in "
            f"{' or '.join(ENDINGS)}; print the page in a browser for a PDF"
        )
    check_output(options.output, options.audit)
    folders, kept = _divided(options.runs)
    while True:
        before = [*map(receipts.stamp, folders)]
        runs = _collect(folders, kept)
        written = _write(options, runs)
        if not options.watch or not _is_unfinished(runs):
            break
        console.info(written[0])
        while [*map(receipts.stamp, folders)] == before:
            time.sleep(EVERY)
    return written


def _divided(given: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Divide paths into the folders of runs, and records with folders of records."""
    kept = [path for path in given if path.exists() and is_of_records(path)]
    # A folder of scores may have records too.
    places = [p for p in given if p not in kept] or [p for p in kept if p.is_dir()]
    if not places:
        raise InputError(f"{kept[0]}: is a record; give the folder of the run too")
    return records.run_folders(places), kept


def _is_unfinished(runs: Sequence[Run]) -> bool:
    return any(run.planned and run.planned.done < run.planned.steps for run in runs)


def _collect(folders: Sequence[Path], kept: Sequence[Path]) -> list[Run]:
    """Read the runs, several at a time."""
    names = _names(folders)
    if len(folders) == 1:
        return [_collect_one(folders[0], names[0], kept)]
    workers = min(len(folders), os.cpu_count() or 1)
    fork, ending = get_context("fork"), end_with_parent()
    with ProcessPoolExecutor(workers, fork, initializer=ending) as pool:
        return list(pool.map(_collect_one, folders, names, repeat(kept)))


def _collect_one(folder: Path, name: str, kept: Sequence[Path]) -> Run:
    with no_search_for_garbage():
        found = collect(folder, name, _planned(folder), kept)
    if not (found.planned or found.trainings or found.scores or found.hashes):
        raise InputError(f"{folder}: has no file of furlkit; give the folder of a run")
    return found


def _names(folders: Sequence[Path]) -> list[str]:
    """Short names of the runs: paths below the common folder."""
    if len(folders) == 1:
        return [plain(folders[0].resolve().name)]
    above = Path(commonpath([str(folder.absolute()) for folder in folders]))
    inside = [folder.absolute().relative_to(above).as_posix() for folder in folders]
    return [plain(f"{above.name}/{name}") for name in inside]


def _planned(folder: Path) -> Planned | None:
    if not (folder / receipts.NOTED).exists():
        return None
    one, group = records.load(folder)
    found = status(expand(one, group), queue_of(folder))
    settings = {k: v for k, v in one.settings.items() if k not in FREE}
    stages = {name: stage.line for name, stage in one.recipe.stages.items()}
    return Planned(
        plain(one.recipe.path.name),
        one.settings,
        stages,
        len(found.states),
        found.states.count(DONE),
        (*_step_problems(folder, found), *_warnings(folder)),
        canonical([one.recipe.path.name, settings, stages]),
    )


def _step_problems(folder: Path, found: Status) -> list[Problem]:
    steps = found.plan.steps
    failed = (f"{title(steps[k])}: {error}" for k, error in found.errors.items())
    problems = [Problem("error", "failed", plain(line)) for line in failed]
    stale = [
        f"{title(step)} ({found.reasons[number]})"
        if number in found.reasons
        else title(step)
        for number, step in enumerate(steps)
        if found.states[number] == STALE
    ]
    if stale:
        more = f" and {len(stale) - SHOWN:,} more" if stale[SHOWN:] else ""
        names = plain("; ".join(stale[:SHOWN]))
        text = f"{counted(len(stale), 'step')}: {names}{more}"
        problems.append(Problem("warning", "stale", text))
    for name in records.changed_presets(folder):
        text = f"{name}: has changed since the plan; run furlkit plan again"
        problems.append(Problem("warning", "stale", text))
    return problems


def _warnings(folder: Path) -> list[Problem]:
    """Warnings of the commands, each once, with the first file."""
    made = receipts.read(str(folder)).items()
    pairs = [(str(text), path) for path, receipt in made for text in receipt.warnings]
    problems = []
    for text, same in grouped(pairs, lambda pair: pair[0]).items():
        more = f" (and {len(same) - 1:,} more files)" if same[1:] else ""
        kind = "refused upload" if text.endswith("left out") else "warning"
        problems.append(Problem("warning", kind, f"{text}; for {same[0][1]}{more}"))
    return problems


# --- output ---------------------------------------------------------------------------


def _write(options: ReportOptions, runs: list[Run]) -> tuple[str, dict[str, Any]]:
    audits = tuple((path.name, read_one(path)) for path in options.audit)
    sheets = _sheets(runs) if options.with_images else ()
    page = build(runs, Extra(sheets, audits, options.refresh))
    content = page.html.encode()
    if options.tables:
        for each in page.tables:
            path, text = (
                options.tables / csv_name(each.name),
                render(each.values(), "csv"),
            )
            if not options.force:
                check_same_table(path, "--tables", text)
            write_bytes(path, f"{text}\n".encode())
    write_bytes(options.output, content)
    problems = sum(len(run.problems) for run in runs)
    line = (
        f"{options.output}: {counted(len(runs), 'run')}, "
        f"{counted(problems, 'problem')}, {byte_size(len(content))}"
    )
    data = {"output": str(options.output), "runs": [str(run.folder) for run in runs],
            "problems": problems, "bytes": len(content)}  # fmt: skip
    return line, data


def _sheets(runs: Sequence[Run]) -> tuple[tuple[str, bytes], ...]:
    """Images of some clients of the first run, as the network sees them."""
    first = runs[0]
    if first.last is None or first.planned is None:
        console.warn(f"--with-images: {first.folder} has no plan that names the images")
        return ()
    try:
        return tuple(_client_sheets(first, Path(first.last[0])))
    except FurlkitError as error:
        console.warn(f"--with-images: {error}; no images on the page")
        return ()


def _client_sheets(run: Run, path: Path) -> list[tuple[str, bytes]]:
    import torch

    from furlkit.data.augment import plain as resize
    from furlkit.data.sets.source import Source
    from furlkit.files.checkpoint import read_checkpoint
    from furlkit.files.partition import read_partition
    from furlkit.inputs.images import open_images
    from furlkit.reports.sheet import contact_sheet

    settings = run.planned.settings if run.planned else {}
    model = read_checkpoint(path)
    opened = open_images(Source(str(settings.get("data", ""))), model)
    split = read_partition(run.folder / "partition.safetensors")
    size, found = int(model.facts.architecture["image_size"]), []
    for client in range(min(SHEETS, split.facts.clients)):
        index = split.of(client)
        chosen = index[:: max(1, len(index) // IMAGES)][:IMAGES]
        pixels = resize(torch.from_numpy(opened.images[chosen].copy()), size)
        sheet = contact_sheet(pixels.permute(0, 2, 3, 1).numpy())
        found.append((f"client {client}", sheet))
    return found
