"""Tables for people, programs and papers: aligned text, CSV, Markdown and LaTeX."""

import csv
import re
from collections.abc import Sequence
from io import StringIO
from typing import Any

from furlkit import console
from furlkit.errors import UsageError
from furlkit.reports.text import columns

_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]<>|"})
_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "±": r"$\pm$"}
)
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


def check_format(form: str) -> None:
    """Refuse two output formats."""
    if form != "text" and console.settings.json:
        raise UsageError(f"--format {form}: does not apply with --json; give one")


def render(rows: Sequence[Sequence[Any]], form: str, right: str = "") -> str:
    """Format rows of cells, the heading first, in text, csv, markdown or latex.

    `right` has an r for each right-aligned column. CSV keeps all digits of a number;
    the other formats write whole numbers with commas.
    """
    if form == "csv":
        stream = StringIO()
        csv.writer(stream, lineterminator="\n").writerows(rows)
        return stream.getvalue().removesuffix("\n")
    cells = [[c if isinstance(c, str) else f"{c:,}" for c in row] for row in rows]
    if form == "text":
        return "\n".join(columns(cells, right))
    sides = right.ljust(len(cells[0]), ".")[: len(cells[0])]
    return (_markdown if form == "markdown" else _latex)(cells, sides)


def _markdown(rows: Sequence[Sequence[str]], sides: str) -> str:
    head, *body = ([cell.translate(_MARKDOWN) for cell in row] for row in rows)
    rule = ["---:" if side == "r" else "---" for side in sides]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))


def _latex(rows: Sequence[Sequence[str]], sides: str) -> str:
    """A tabular with the rules of booktabs."""
    cells = [[_MINUS.sub("$-$", c.translate(_LATEX)) for c in row] for row in rows]
    head, *body = (f"{' & '.join(row)} \\\\" for row in cells)
    start = f"\\begin{{tabular}}{{{sides.replace('.', 'l')}}}"
    rules = [start, r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
    return "\n".join(["% \\usepackage{booktabs}", *rules, r"\end{tabular}"])
