"""The table of METHODS.md from the catalogue; `make methods` writes the table."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from furlkit import catalogue

PLACE = Path(__file__).parents[1] / "METHODS.md"
MARKS = re.compile(r"(<!-- methods:.*?-->\n).*?(\n<!-- end of methods -->)", re.S)
HEADING = ("flag", "module", "from", "follows the equation")


def methods_table() -> str:
    """Markdown table with a row for each objective, term, update, rule, ..."""
    rows = [HEADING, ("---",) * len(HEADING), *_rows()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _rows() -> Iterator[tuple[str, ...]]:
    for entry in catalogue.OBJECTIVES.values():
        yield _row(entry, f"--objective {entry.name}")
    for term in catalogue.TERMS.values():
        yield _row(term, f"--{term.switch}")
    for update in catalogue.UPDATES.values():
        yield _row(update, f"--update {update.name}")
    for personal in catalogue.PERSONAL.values():
        if personal.function:
            yield _row(personal, f"--personal {personal.name}")
    for exchange in catalogue.EXCHANGES.values():
        if exchange.printed:
            yield _row(exchange, f"--{exchange.options[0].name}")
    for rule in catalogue.RULES.values():
        yield _row(rule, f"--rule {rule.name}")
    for attack in catalogue.ATTACKS.values():
        if attack.paper:
            yield _row(attack, f"attack --kind {attack.name}")
    for teacher in catalogue.TEACHERS.values():
        yield _row(teacher, f"--teacher {teacher.name}")
    for protocol in catalogue.PROTOCOLS.values():
        yield _row(protocol, f"evaluate {protocol.name}")


def _row(entry: Any, flag: str) -> tuple[str, ...]:
    origin = f"[{entry.paper.name}]({entry.paper.url})" if entry.paper else ""
    source = f"{origin} {entry.equation}".strip()
    return f"`{flag}`", f"`{_module(entry)}`", source, entry.printed.replace("|", "\\|")


def _module(entry: Any) -> str:
    path = entry.function.partition(":")[0].removeprefix("furlkit.")
    return path.replace(".", "/") + ".py"


def with_table(text: str) -> str:
    """Return the text of METHODS.md with the present table between the marks."""
    return MARKS.sub(lambda marks: f"{marks[1]}{methods_table()}{marks[2]}", text)


if __name__ == "__main__":
    PLACE.write_text(with_table(PLACE.read_text()))
