"""Entries of other packages, and the lists that they are added to."""

from collections.abc import Iterable
from functools import cache
from pkgutil import resolve_name
from typing import Any

from furlkit import console
from furlkit.catalogue.entries import (
    Dataset,
    Encoder,
    Exchange,
    Head,
    Objective,
    Rule,
    Term,
    Update,
)
from furlkit.catalogue.exchanges import EXCHANGES
from furlkit.catalogue.methods import (
    ENCODERS,
    HEADS,
    OBJECTIVES,
    RULES,
    TERMS,
    UPDATES,
)
from furlkit.errors import UsageError


def load(function: str) -> Any:
    """The function at module:name; this is where torch gets imported."""
    return resolve_name(function)


KINDS: dict[str, type] = {
    "furlkit.objectives": Objective,
    "furlkit.terms": Term,
    "furlkit.updates": Update,
    "furlkit.rules": Rule,
    "furlkit.encoders": Encoder,
    "furlkit.datasets": Dataset,
    "furlkit.exchanges": Exchange,
}
# Entries of furlkit by the group that other packages add to.
OWN: dict[str, dict[str, Any]] = {
    "furlkit.objectives": OBJECTIVES,
    "furlkit.terms": TERMS,
    "furlkit.updates": UPDATES,
    "furlkit.rules": RULES,
    "furlkit.exchanges": EXCHANGES,
    "furlkit.encoders": ENCODERS,
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


_added: dict[str, dict[str, Any]] = {group: {} for group in OWN}


def add_plugins() -> bool:
    """Add the methods and encoders of other packages; return whether there are any.

    The search reads the metadata of all installed packages, which takes longer than the
    rest of a start. So it waits until a name or an option is not furlkit's own, or
    until all of them are to be listed.
    """
    for group, own in OWN.items():
        _added[group].update(_new_names(group, own))
    return any(_added.values())


def objectives() -> dict[str, Objective]:
    """The objectives: furlkit's, and those of other packages after `add_plugins`."""
    return {**OBJECTIVES, **_added["furlkit.objectives"]}


def terms() -> dict[str, Term]:
    """The terms: furlkit's, and those of other packages after `add_plugins`."""
    return {**TERMS, **_added["furlkit.terms"]}


def updates() -> dict[str, Update]:
    """The updates: furlkit's, and those of other packages after `add_plugins`."""
    return {**UPDATES, **_added["furlkit.updates"]}


def rules() -> dict[str, Rule]:
    """The rules: furlkit's, and those of other packages after `add_plugins`."""
    return {**RULES, **_added["furlkit.rules"]}


def encoders() -> dict[str, Encoder]:
    """The encoders: furlkit's, and those of other packages after `add_plugins`."""
    return {**ENCODERS, **_added["furlkit.encoders"]}


def exchanges() -> dict[str, Exchange]:
    """The exchanges: furlkit's, and those of other packages after `add_plugins`."""
    return {**EXCHANGES, **_added["furlkit.exchanges"]}


def datasets(taken: Iterable[str] = ()) -> dict[str, Dataset]:
    """The datasets that other packages add; furlkit's own have the names `taken`."""
    return _new_names("furlkit.datasets", taken)


def plugin_options(group: str, name: Any) -> dict[str, str]:
    """Version and hash of the package that adds an entry; nothing for furlkit's own.

    A command that uses the entry records them with its options, so that its output is
    made again if the code of the package has changed.
    """
    # Other datasets take longer to open than the search.
    own = OWN.get(group, ("digits",))
    is_path = not isinstance(name, str) or bool({".", "/"} & set(name))
    if is_path or name in own or name not in plugins(group):
        return {}
    from furlkit.catalogue.distributions import described, distribution_name

    point, entry = _points[group, name], plugins(group)[name]
    return {f"plugin {distribution_name(point)}": described(point, entry)}


def heads() -> dict[str, Head]:
    """The heads: furlkit's, then those that objectives of other packages bring."""
    found = dict(HEADS)
    for objective in _added["furlkit.objectives"].values():
        for head in objective.heads:
            if isinstance(head, Head):
                found.setdefault(head.name, head)
    return found
