"""Files with the tracebacks of unexpected errors, and messages about such errors.

If the stage has started a journal, the traceback goes to the journal; otherwise to a
new temporary file. An error in the code of a plugin names the plugin.
"""

import os
import tempfile
import traceback
from contextlib import suppress
from importlib.metadata import EntryPoint, PackageNotFoundError, distributions, metadata
from pathlib import Path
from traceback import walk_tb
from types import FrameType, ModuleType

from furlkit.errors import DiskError
from furlkit.files.journal import Journal

PACKAGE = Path(__file__).parent.parent


def report(error: BaseException, output: Path | None) -> str:
    """Save the traceback beside `output` or in a temporary file; return the message."""
    return _sentence(error, _keep(error, output))


def _sentence(error: BaseException, place: str | None) -> str:
    where = f"the traceback is in {place}" if place else "the traceback was lost"
    text = f"{type(error).__name__}: {str(error)[:300]}" if str(error) else repr(error)
    plugin = _plugin(error)
    if plugin is None:
        whose, address = "a bug in furlkit", _address()
    else:
        dist, adds = plugin.dist, f"{plugin.name} to {plugin.group}"
        name = f"the package {dist.name} {dist.version}" if dist else plugin.module
        whose, address = f"an error in {name}, which adds {adds}", "the authors"
    return (
        f"{text} ({_location(error, plugin)}); this is {whose}; {where}; please report "
        f"it to {address}"
    )


def _plugin(error: BaseException) -> EntryPoint | None:
    """Entry point of the plugin that was running; None if furlkit itself was."""
    running = {_top(frame) for frame, _ in walk_tb(error.__traceback__)}
    running = (running | {_lacking_module(error)}) - {"furlkit"}
    with suppress(Exception):  # A broken installation must not hide the error.
        points = (point for found in distributions() for point in found.entry_points)
        plugins = (point for point in points if point.group.startswith("furlkit."))
        return next((one for one in plugins if _modules(one) & running), None)
    return None


def _lacking_module(error: BaseException) -> str:
    """Top-level module without the name or submodule that furlkit looked up."""
    owner = getattr(error, "obj", None)
    name = owner.__name__ if isinstance(owner, ModuleType) else None
    if isinstance(error, ModuleNotFoundError):
        name = error.name
    return (name or "").partition(".")[0]


def _modules(plugin: EntryPoint) -> set[str]:
    """Top-level modules of the plugin's distribution."""
    files = (plugin.dist.files if plugin.dist else None) or ()
    installed = {file.parts[0].removesuffix(".py") for file in files}
    return {plugin.module.partition(".")[0], *installed}


def _top(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _keep(error: BaseException, output: Path | None) -> str | None:
    text = "".join(traceback.format_exception(error))
    journal = Journal(output) if output else None
    if journal and journal.path.is_file():
        with suppress(DiskError):
            journal.write({"event": "error", "traceback": text})
            return str(journal.path)
    with suppress(OSError):
        handle, name = tempfile.mkstemp(".traceback", "furlkit-")
        with os.fdopen(handle, "w", errors="backslashreplace") as stream:
            stream.write(text)
        return name
    return None


def _location(error: BaseException, plugin: EntryPoint | None) -> str:
    """Last executed line of the plugin, or of furlkit."""
    modules = _modules(plugin) if plugin else {"furlkit"}
    lines = list(walk_tb(error.__traceback__))
    frame, number = ([x for x in lines if _top(x[0]) in modules] or lines)[-1]
    file = Path(frame.f_code.co_filename)
    inside = file.is_relative_to(PACKAGE)
    return f"{file.relative_to(PACKAGE.parent) if inside else file}, line {number}"


def _address() -> str:
    """Address of the issue tracker in pyproject.toml."""
    with suppress(PackageNotFoundError):
        for entry in metadata("furlkit").get_all("Project-URL") or ():
            label, _, address = entry.partition(",")
            if label.strip().lower() in ("issues", "bug tracker", "tracker"):
                return address.strip()
    return "whoever gave you furlkit"
