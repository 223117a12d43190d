"""HTML of the page: escaped text, tables that scripts can sort, sections."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import zip_longest
from typing import Any, NamedTuple

from furlkit.reports.text import plain

MOST_ROWS = 2000  # Rows of a table on the page; CSV files have all rows.


class Cell(NamedTuple):
    """A value for CSV files and for sorting, and the text for people."""

    value: Any
    text: str


class Table(NamedTuple):
    """A table with a caption; `name` is the name of the CSV file.

    Cells are texts, numbers, None or Cells. `tones`: the CSS class of each row.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    tones: Sequence[str] = ()

    def values(self) -> list[tuple]:
        """Heading and values for CSV files."""
        plain_rows = (tuple(_value(cell) for cell in row) for row in self.rows)
        return [self.columns, *plain_rows]


def text(value: Any) -> str:
    """Escape text of a file for HTML and attributes."""
    return escape(plain(str(value)))


def element(name: str, content: str, **attributes: Any) -> str:
    """Return an element; attributes are escaped, the content is HTML.

    A trailing underscore in the name of an attribute is dropped, others become dashes.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>"


def paragraph(words: str, class_: str | None = None) -> str:
    """Return a paragraph of escaped text."""
    return element("p", text(words), class_=class_)


def section(key: str, title: str, parts: Iterable[str]) -> str:
    """Return a section with a heading, empty without content."""
    content = "".join(parts)
    heading = element("h2", text(title))
    return element("section", f"{heading}{content}", id=key) if content else ""


def details(summary: str, content: str) -> str:
    """Return content that a click shows; the summary is escaped."""
    return element("details", element("summary", text(summary)) + content)


def table(given: Table) -> str:
    """Return a table; numbers are aligned, and columns without content are left out."""
    used = [
        k
        for k in range(len(given.columns))
        if any(_value(row[k]) not in (None, "") for row in given.rows)
    ]
    numeric = {k for k in used if all(_is_numeric(row[k]) for row in given.rows)}
    head = "".join(
        element("th", text(given.columns[k]), scope="col", class_=_side(k in numeric))
        for k in used
    )
    body = "\n".join(
        element("tr", "".join(_cell(row[k], k in numeric) for k in used), class_=tone)
        for row, tone in zip_longest(given.rows[:MOST_ROWS], given.tones)
    )
    caption = element("caption", text(given.caption)) if given.caption else ""
    whole = element(
        "table", f"{caption}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
    )
    left = len(given.rows) - MOST_ROWS
    note = paragraph(f"{left:,} more rows: --tables writes all rows", "note")
    return element("div", whole, class_="scroll") + (note if left > 0 else "")


def _value(cell: Any) -> Any:
    return cell.value if isinstance(cell, Cell) else cell


def _is_numeric(cell: Any) -> bool:
    return _value(cell) is None or type(_value(cell)) in (int, float)


def _side(numeric: bool) -> str | None:
    return "n" if numeric else None


def _cell(cell: Any, numeric: bool) -> str:
    value = _value(cell)
    shown = cell.text if isinstance(cell, Cell) else _shown(value)
    # The script sorts by data-v, or else by the text.
    sort = value if shown != str(value) and type(value) in (int, float) else None
    key = None if sort is None else f"{sort:.8g}"
    return element("td", text(shown), class_=_side(numeric), data_v=key)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if type(value) is int:
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
