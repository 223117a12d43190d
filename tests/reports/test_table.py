import csv
from io import StringIO

from furlkit.reports.table import render

ROWS = [("", "n"), ("a_b", "-1"), ("x|y & 5%", "+2")]


def test_text_is_aligned():
    assert render(ROWS, "text", ".r").splitlines() == [
        "           n", "a_b       -1", "x|y & 5%  +2"
    ]  # fmt: skip


def test_markdown_escapes_its_signs_and_aligns_numbers():
    assert render(ROWS, "markdown", ".r").splitlines() == [
        "|  | n |", "| --- | ---: |", r"| a\_b | -1 |", r"| x\|y & 5% | +2 |"
    ]  # fmt: skip


def test_latex_is_a_tabular_with_rules():
    assert render(ROWS, "latex", ".r").splitlines() == [
        r"% \usepackage{booktabs}", r"\begin{tabular}{lr}", r"\toprule", r" & n \\",
        r"\midrule", r"a\_b & $-$1 \\", r"x\textbar{}y \& 5\% & +2 \\",
        r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip


def test_latex_escapes_every_special_character():
    found = render([("&%$#_{}~^\\<>|±",)], "latex").splitlines()[3]
    assert found == (
        r"\&\%\$\#\_\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}"
        r"\textless{}\textgreater{}\textbar{}$\pm$ \\"
    )


def test_csv_keeps_every_digit_and_every_character():
    rows = [["label", "mean"], ['a,"b"\nc', 0.1 + 0.2], ["d", None]]
    read = list(csv.reader(StringIO(render(rows, "csv"))))
    assert read == [["label", "mean"], ['a,"b"\nc', "0.30000000000000004"], ["d", ""]]
    assert float(read[1][1]) == 0.1 + 0.2
