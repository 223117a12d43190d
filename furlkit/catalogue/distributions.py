"""Version and content of an installed package that adds entries to the catalogue."""

from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def distribution_name(point: EntryPoint) -> str:
    """Return the name of the package, or of the module without a known package."""
    return point.dist.name if point.dist else point.module.partition(".")[0]


def described(point: EntryPoint, entry: Any) -> str:
    """Version of a package and hash of the package's files: "1.0 3f2a...".

    The hash covers the distribution's list of files, and the files beside the modules of
    entry and function, because the list of an editable installation is incomplete.
    """
    modules = {point.module, str(getattr(entry, "function", "")).partition(":")[0]}
    files = dict(_listed(point))
    for module in sorted(filter(None, modules)):
        files |= _below(module.partition(".")[0])
    digest = sha256()
    for name in sorted(files):
        content = sha256(files[name].read_bytes()).hexdigest()
        digest.update(f"{name}\0{content}\n".encode())
    return f"{point.dist.version if point.dist else 'none'} {digest.hexdigest()}"


def _listed(point: EntryPoint) -> Iterator[tuple[str, Path]]:
    """Files of the distribution's list, without metadata and scripts."""
    for file in (point.dist and point.dist.files) or ():
        inside = not file.parts[0].endswith((".dist-info", "..", ".egg-info"))
        path = Path(str(file.locate()))
        if inside and _is_content(path):
            yield file.as_posix(), path


def _below(top: str) -> dict[str, Path]:
    """Files of a package, or of a single-file module."""
    spec = find_spec(top)
    if spec is None:
        return {}
    roots = [Path(place) for place in spec.submodule_search_locations or ()]
    paths = [path for root in roots for path in root.rglob("*")]
    paths += [] if roots else [Path(str(spec.origin))]
    above = [root.parent for root in roots] or [path.parent for path in paths]
    return {
        path.relative_to(place).as_posix(): path
        for place in above
        for path in paths
        if _is_content(path) and path.is_relative_to(place)
    }


def _is_content(path: Path) -> bool:
    hidden = "__pycache__" in path.parts or path.suffix in (".pyc", ".pth")
    return path.is_file() and not hidden
