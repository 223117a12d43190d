"""The README's table of methods, made from the catalogue."""

from collections.abc import Iterator
from typing import Any

from furlkit import catalogue

HEADING = ("method", "chosen by", "module", "equation")


def methods_table() -> str:
    """Markdown: one row for each objective, term, update, rule and protocol."""
    rows = [HEADING, ("---",) * len(HEADING), *_rows()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _rows() -> Iterator[tuple[str, ...]]:
    for entry in catalogue.OBJECTIVES.values():
        yield _row(entry, f"local-train --objective {entry.name}")
    for term in catalogue.TERMS.values():
        yield _row(term, f"local-train --{term.switch}")
    for update in catalogue.UPDATES.values():
        yield _row(update, f"local-train --update {update.name}")
    for rule in catalogue.RULES.values():
        yield _row(rule, f"aggregate --rule {rule.name}")
    for protocol in catalogue.PROTOCOLS.values():
        yield _row(protocol, f"evaluate {protocol.name}")


def _row(entry: Any, flag: str) -> tuple[str, ...]:
    text = entry.help.rstrip(".")
    text = text[0].lower() + text[1:]
    return f"{entry.name}: {text}", f"`{flag}`", f"`{_module(entry)}`", entry.equation


def _module(entry: Any) -> str:
    path = entry.function.partition(":")[0].removeprefix("furlkit.")
    return path.replace(".", "/") + ".py"
