"""Lists of entries, furlkit's and the entries of installed plugins."""

from collections.abc import Callable, Iterable
from functools import cache, partial
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
from furlkit.catalogue.methods.encoders import ENCODERS, HEADS
from furlkit.catalogue.methods.objectives import OBJECTIVES
from furlkit.catalogue.methods.rules import RULES
from furlkit.catalogue.methods.terms import TERMS
from furlkit.catalogue.methods.updates import UPDATES
from furlkit.errors import UsageError


def load(function: str) -> Any:
    """Import the function at module:name, and with the function torch."""
    return resolve_name(function)


def objectives_that(accept: Callable[[Objective], bool]) -> str:
    """Names of the accepted objectives, as text: "simclr or moco"."""
    names = [entry.name for entry in objectives().values() if accept(entry)]
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


KINDS: dict[str, type] = {
    "furlkit.objectives": Objective,
    "furlkit.terms": Term,
    "furlkit.updates": Update,
    "furlkit.rules": Rule,
    "furlkit.encoders": Encoder,
    "furlkit.datasets": Dataset,
    "furlkit.exchanges": Exchange,
}
# furlkit's entries by entry-point group.
OWN: dict[str, dict[str, Any]] = {
    "furlkit.objectives": OBJECTIVES,
    "furlkit.terms": TERMS,
    "furlkit.updates": UPDATES,
    "furlkit.rules": RULES,
    "furlkit.exchanges": EXCHANGES,
    "furlkit.encoders": ENCODERS,
}


_points: dict[tuple[str, str], Any] = {}  # Entry points by group and name.


@cache
def plugins(group: str, form: type | None = None) -> dict[str, Any]:
    """Entries of installed packages for a group, such as furlkit.objectives.

    `form`: class of the entries of a group that is not in KINDS.
    An entry that fails to load is reported and left out: a broken installation must not
    stop every command.
    """
    from importlib.metadata import entry_points

    found: dict[str, Any] = {}
    expected = form or KINDS[group]
    for point in entry_points(group=group):
        try:
            entry = point.load()
            if not issubclass(type(entry), expected):
                raise TypeError(f"expected a {expected.__name__}, found {entry!r}")
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
                "uninstall either package"
            )
        found[entry.name] = entry
        _points[group, entry.name] = point
    return found


def new_names(
    group: str, taken: Iterable[str], form: type | None = None
) -> dict[str, Any]:
    """Return a group's plugins; raise if a plugin has a name in `taken`."""
    entries = plugins(group, form)
    for name in sorted(entries.keys() & set(taken)):
        raise UsageError(
            f"{name}: an installed package adds this name to {group}, but furlkit uses "
            "the name; uninstall the package or rename the entry"
        )
    return entries


_added: dict[str, dict[str, Any]] = {group: {} for group in OWN}


def add_plugins() -> bool:
    """Add the entries of installed plugins; return whether plugins exist.

    The search reads the metadata of every installed package and takes longer than the
    rest of a start. Call this function only for names and options that furlkit does not
    declare, and for complete lists.
    """
    for group, own in OWN.items():
        _added[group].update(new_names(group, own))
    return any(_added.values())


def _entries(group: str) -> dict[str, Any]:
    """Entries of furlkit and, after `add_plugins`, of plugins."""
    return {**OWN[group], **_added[group]}


def rules_that(accept: Callable[[Rule], Any]) -> str:
    """Names of the accepted rules, as text: "fedavgm, fedadam and fedyogi"."""
    names = [rule.name for rule in rules().values() if accept(rule)]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


objectives: Callable[[], dict[str, Objective]] = partial(_entries, "furlkit.objectives")
terms: Callable[[], dict[str, Term]] = partial(_entries, "furlkit.terms")
updates: Callable[[], dict[str, Update]] = partial(_entries, "furlkit.updates")
rules: Callable[[], dict[str, Rule]] = partial(_entries, "furlkit.rules")
encoders: Callable[[], dict[str, Encoder]] = partial(_entries, "furlkit.encoders")
exchanges: Callable[[], dict[str, Exchange]] = partial(_entries, "furlkit.exchanges")


def datasets(taken: Iterable[str] = ()) -> dict[str, Dataset]:
    """Datasets of plugins; `taken` has the names of furlkit's datasets."""
    return new_names("furlkit.datasets", taken)


# By group and name of an entry, the package's name, version and hash: the plugins that a
# command has recorded in a header. Receipts keep a copy.
used_code: dict[str, str] = {}


def plugin_options(group: str, name: Any) -> dict[str, str]:
    """Version and hash of the package of an entry; empty for furlkit's entries.

    Commands record version and hash with the options: if the code of the package
    changes, the command makes the output again.
    """
    # Opening a dataset other than digits takes longer than the search.
    own = OWN.get(group, ("digits",))
    is_path = not isinstance(name, str) or bool({".", "/"} & set(name))
    if is_path or name in own or not (code := _package_code(group, name)):
        return {}
    used_code[f"{group} {name}"] = " ".join(code)
    return {f"plugin {code[0]}": code[1]}


def _package_code(group: str, name: str) -> tuple[str, str] | None:
    """Name of an entry's package, with version and hash; None without the package."""
    if name not in plugins(group):
        return None
    from furlkit.catalogue.distributions import described, distribution_name

    point, entry = _points[group, name], plugins(group)[name]
    return distribution_name(point), described(point, entry)


def changed_package(entry: str, code: str) -> str | None:
    """Name of a package if its code differs from a line of `used_code`.

    A missing package is no change: the files are from another machine.
    """
    group, _, name = entry.partition(" ")
    present = _package_code(group, name) if group in KINDS else None
    return present[0] if present and " ".join(present) != code else None


def heads() -> dict[str, Head]:
    """Heads of furlkit, then heads of the plugins' objectives."""
    found = dict(HEADS)
    for objective in _added["furlkit.objectives"].values():
        for head in objective.heads:
            if isinstance(head, Head):
                found.setdefault(head.name, head)
    return found
