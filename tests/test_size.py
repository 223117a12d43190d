"""Lines of each folder: a folder may shrink, or grow with a reason in the commit.

Lower a number when a folder has shrunk. Raise a number only in the commit that needs the
lines, and say in its message what the lines give and what else was looked at to save.
"""

from collections import Counter
from pathlib import Path

import furlkit

PACKAGE = Path(furlkit.__file__).parent
SLACK = 150  # Lines that a folder may lie below its number.
LINES = {  # Rounded up to 20.
    ".": 960,
    "aggregators": 2280,
    "attacks": 160,
    "audits": 420,
    "catalogue": 4400,
    "cli": 3380,
    "data": 6660,
    "evaluation": 1280,
    "exchanges": 2160,
    "files": 5460,
    "inputs": 3640,
    "models": 1700,
    "objectives": 2560,
    "personal": 280,
    "presets": 160,
    "recipes": 4000,
    "reports": 6640,
    "stages": 15500,
    "terms": 800,
    "training": 2120,
    "updates": 280,
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
