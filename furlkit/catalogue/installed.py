"""Entries of other packages, and the lists that they are added to."""

from collections.abc import Iterable
from functools import cache
from pkgutil import resolve_name
from typing import Any

from furlkit import console
from furlkit.catalogue.entries import Dataset, Encoder, Exchange, Head, Objective
from furlkit.catalogue.exchanges import EXCHANGES
from furlkit.catalogue.methods import ENCODERS, HEADS, OBJECTIVES
from furlkit.errors import UsageError


def load(function: str) -> Any:
    """The function at module:name; this is where torch gets imported."""
    return resolve_name(function)


KINDS: dict[str, type] = {
    "furlkit.objectives": Objective,
    "furlkit.encoders": Encoder,
    "furlkit.datasets": Dataset,
    "furlkit.exchanges": Exchange,
}


_points: dict[tuple[str, str], Any] = {}  # Where the entry of a name comes from.


@cache
def plugins(group: str) -> dict[str, Any]:
    """Entries that other installed packages add: furlkit.objectives and so on.

    A package whose entry cannot be loaded is reported and left out, so that one broken
    installation does not stop every command.
    """
    from importlib.metadata import entry_points

    found: dict[str, Any] = {}
    for point in entry_points(group=group):
        try:
            entry = point.load()
            if not issubclass(type(entry), KINDS[group]):
                raise TypeError(f"expected a {KINDS[group].__name__}, found {entry!r}")
        except (Exception, SystemExit) as error:
            reason = repr(error) if isinstance(error, SystemExit) else error
            package = f"{point.dist.name}, " if point.dist else ""
            console.warn(
                f"{package}{point.value}: cannot load this {group} entry: {reason}"
            )
            continue
        if entry.name in found:
            raise UsageError(
                f"{entry.name}: two installed packages add this name to {group}; "
                "uninstall one of them"
            )
        found[entry.name] = entry
        _points[group, entry.name] = point
    return found


def _new_names(group: str, taken: Iterable[str]) -> dict[str, Any]:
    """A group's plugins, none of which may have a name that furlkit has `taken`."""
    for name in sorted(plugins(group).keys() & set(taken)):
        raise UsageError(
            f"{name}: an installed package adds this name to {group}, but furlkit has "
            "it already; uninstall or rename it"
        )
    return plugins(group)


_added_objectives: dict[str, Objective] = {}
_added_encoders: dict[str, Encoder] = {}
_added_exchanges: dict[str, Exchange] = {}


def add_plugins() -> bool:
    """Add objectives, encoders and exchanges of other packages; whether there are any.

    The search reads the metadata of all installed packages, which takes longer than the
    rest of a start. So it waits until a name or an option is not furlkit's own, or
    until all of them are to be listed.
    """
    _added_objectives.update(_new_names("furlkit.objectives", OBJECTIVES))
    _added_encoders.update(_new_names("furlkit.encoders", ENCODERS))
    _added_exchanges.update(_new_names("furlkit.exchanges", EXCHANGES))
    return bool(_added_objectives or _added_encoders or _added_exchanges)


def objectives() -> dict[str, Objective]:
    """The objectives: furlkit's, and those of other packages after `add_plugins`."""
    return {**OBJECTIVES, **_added_objectives}


def encoders() -> dict[str, Encoder]:
    """The encoders: furlkit's, and those of other packages after `add_plugins`."""
    return {**ENCODERS, **_added_encoders}


def exchanges() -> dict[str, Exchange]:
    """The exchanges: furlkit's, and those of other packages after `add_plugins`."""
    return {**EXCHANGES, **_added_exchanges}


def datasets(taken: Iterable[str] = ()) -> dict[str, Dataset]:
    """The datasets that other packages add; furlkit's own have the names `taken`."""
    return _new_names("furlkit.datasets", taken)


def plugin_options(group: str, name: Any) -> dict[str, str]:
    """Version and hash of the package that adds an entry; nothing for furlkit's own.

    A command that uses the entry records them with its options, so that its output is
    made again if the code of the package has changed.
    """
    own: dict[str, Any] = {
        "furlkit.objectives": OBJECTIVES,
        "furlkit.encoders": ENCODERS,
        "furlkit.exchanges": EXCHANGES,
        "furlkit.datasets": ("digits",),  # Others take longer to open than the search.
    }
    is_path = not isinstance(name, str) or bool({".", "/"} & set(name))
    if is_path or name in own[group] or name not in plugins(group):
        return {}
    from furlkit.catalogue.distributions import described, distribution_name

    point, entry = _points[group, name], plugins(group)[name]
    return {f"plugin {distribution_name(point)}": described(point, entry)}


def heads() -> dict[str, Head]:
    """The heads: furlkit's, then those that objectives of other packages bring."""
    found = dict(HEADS)
    for objective in _added_objectives.values():
        for head in objective.heads:
            if isinstance(head, Head):
                found.setdefault(head.name, head)
    return found
