"""The methods behind a file, from the file's header."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from furlkit.catalogue.entries import Exchange, File, Method, Option, Term, entry_of
from furlkit.catalogue.installed import exchanges, terms
from furlkit.catalogue.registry import COMMANDS

# Directions of files that other participants write or read.
SHARED = ("sent", "received", "received once")


def methods_used(
    command: str, options: Mapping[str, Any], roles: Collection[str]
) -> Iterator[tuple[str, Method]]:
    """Yield the methods of a command's output, each with the name of the family.

    `options` are the recorded options. `roles` are the roles of the input files and of
    the files that the command wrote beside the output.
    """
    if command not in COMMANDS:
        return
    entry, names = COMMANDS[command], {role.partition(" ")[0] for role in roles}
    listed: set[str] = set()  # Exchanges of the chosen methods.
    for family in entry.families:
        chosen = str(options.get(family.choice.name) or family.default)
        method = entry_of(family.entries(), chosen)
        if isinstance(method, Method) and method.function:
            listed.update(getattr(method, "exchanges", ()))
            yield family.name, method
    known = {option.name: option for option in entry.options.values()}
    for term in terms().values():
        if term.switch in known and _is_on(term, known[term.switch], options, names):
            listed.update(term.exchanges)
            yield "term", term
    if {"objective", "update"} <= known.keys():
        for exchange in exchanges().values():
            if _is_used(exchange, options, names, listed):
                yield "exchange", exchange


def _is_on(
    term: Term, switch: Option, options: Mapping[str, Any], roles: Collection[str]
) -> bool:
    """Return whether a term is active; a header records no file, but the file's role."""
    if isinstance(switch.kind, File):
        return switch.kind.role in roles
    return bool(options.get(term.switch))


def _is_used(
    exchange: Exchange,
    options: Mapping[str, Any],
    roles: Collection[str],
    listed: Collection[str],
) -> bool:
    """Return whether a client took part in an exchange.

    Files show it, and options that are recorded only with a file. Without shared files, an
    option of the exchange or a method that needs the exchange shows it. A personal model
    is a choice, which `methods_used` has named.
    """
    kinds = (option.kind for option in exchange.options)
    files = [kind for kind in kinds if isinstance(kind, File) and kind.role]
    beside = (option.name for option in exchange.options if option.needs)
    if any(file.role in roles for file in files) or any(n in options for n in beside):
        return True
    if exchange.family or any(file.direction in SHARED for file in files):
        return False
    if exchange.title:
        return any(options.get(option.name) for option in exchange.options)
    return exchange.name in listed
