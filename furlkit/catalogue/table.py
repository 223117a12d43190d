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
    """A row for each entry; an entry without a function or a comparison has none."""
    own = [e for e in catalogue.PERSONAL.values() if e.function]
    attacks = [e for e in catalogue.ATTACKS.values() if e.paper]
    compared = [e for e in catalogue.EXCHANGES.values() if e.printed]
    for entries, flag in (
        (catalogue.OBJECTIVES.values(), "--objective {0.name}"),
        (catalogue.TERMS.values(), "--{0.switch}"),
        (catalogue.UPDATES.values(), "--update {0.name}"),
        (own, "--personal {0.name}"),
        (compared, "--{0.options[0].name}"),
        (catalogue.RULES.values(), "--rule {0.name}"),
        (attacks, "attack --kind {0.name}"),
        (catalogue.TEACHERS.values(), "--teacher {0.name}"),
        (catalogue.PROTOCOLS.values(), "evaluate {0.name}"),
        (catalogue.AUDITS.values(), "audit {0.name}"),
    ):
        yield from (_row(entry, flag.format(entry)) for entry in entries)


def _row(entry: Any, flag: str) -> tuple[str, ...]:
    origin = f"[{entry.paper.name}]({entry.paper.url})" if entry.paper else ""
    source = f"{origin} {entry.equation}".strip()
    module = entry.function.partition(":")[0].removeprefix("furlkit.")
    place = f"`{module.replace('.', '/')}.py`"
    return f"`{flag}`", place, source, entry.printed.replace("|", "\\|")


def with_table(text: str) -> str:
    """Return the text of METHODS.md with the present table between the marks."""
    return MARKS.sub(lambda marks: f"{marks[1]}{methods_table()}{marks[2]}", text)


if __name__ == "__main__":
    PLACE.write_text(with_table(PLACE.read_text()))
