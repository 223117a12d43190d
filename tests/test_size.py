"""Lines of each folder: a folder may shrink, or grow with a reason in the commit.

Lower a number when a folder has shrunk. Raise a number only in the commit that needs the
lines, and say in its message what the lines give and what else was looked at to save.
"""

from collections import Counter
from pathlib import Path

import furlkit

PACKAGE = Path(furlkit.__file__).parent
SLACK = 150  # Lines that a folder may lie below its number.
LINES = {
    ".": 958,
    "aggregators": 2261,
    "attacks": 145,
    "audits": 402,
    "catalogue": 4381,
    "cli": 3368,
    "data": 6660,
    "evaluation": 1266,
    "exchanges": 2144,
    "files": 5451,
    "inputs": 3639,
    "models": 1683,
    "objectives": 2548,
    "personal": 261,
    "presets": 153,
    "recipes": 3981,
    "reports": 6631,
    "stages": 15488,
    "terms": 797,
    "training": 2102,
    "updates": 268,
}


def lines_by_folder() -> Counter[str]:
    """Lines of Python by folder; of the folders below a folder too."""
    lines: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        lines[parts[0] if len(parts) > 1 else "."] += len(path.read_text().splitlines())
    return lines


def test_no_folder_has_grown():
    grown = {
        folder: f"{count:,} lines, expected at most {LINES.get(folder, 0):,}"
        for folder, count in lines_by_folder().items()
        if count > LINES.get(folder, 0)
    }
    assert not grown, f"{grown}: see the docstring of {__name__}"


def test_the_numbers_follow_the_folders():
    lines = lines_by_folder()
    assert LINES.keys() == lines.keys()
    low = {k: lines[k] for k in LINES if lines[k] < LINES[k] - SLACK}
    assert not low, f"lower the numbers of {low}"
