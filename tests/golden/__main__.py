"""`make golden`: run fixed command lines with two versions of furlkit and compare.

python -m tests.golden REVISION   compare the working tree with a revision of git
python -m tests.golden OUT CODE   record the furlkit of a folder in OUT

The comparison prints the different lines of the logs and of the hashes, and exits with 1
if there are any: each difference needs a reason in the commit.
"""

import difflib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def record(code: Path, out: Path) -> None:
    """Run the lines with the furlkit in the folder `code`; write to `out`."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    environment = {
        **os.environ,
        "PYTHONPATH": str(code),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "XDG_CACHE_HOME": str(out / ".cache"),
    }
    command = [sys.executable, str(HERE / "drive.py"), str(HERE / "lines.txt")]
    subprocess.run(command, cwd=out, env=environment, check=True)


def export(revision: str, folder: Path) -> Path:
    """Write the package of a revision to a folder."""
    command = ["git", "-C", str(ROOT), "archive", revision, "furlkit"]
    archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def differences(old: Path, new: Path) -> list[str]:
    """Different lines of the logs and the hashes."""
    lines: list[str] = []
    for name in ("log.txt", "sums.txt"):
        texts = [(folder / name).read_text().splitlines() for folder in (old, new)]
        lines += difflib.unified_diff(*texts, "old", "new", lineterm="", n=3)
    return lines


def main(words: list[str]) -> int:
    """Record or compare; return the exit code."""
    if len(words) == 2:
        record(Path(words[1]).resolve(), Path(words[0]).resolve())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder, "old"), Path(folder, "new")
        record(export(words[0], Path(folder, "code")), old)
        record(ROOT, new)
        found = differences(old, new)
    print("\n".join(found) or f"the same as {words[0]}: output, exit codes and bytes")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
