"""The map of the package names every folder, and functions and files that exist."""

import re
from pathlib import Path
from pkgutil import resolve_name

import furlkit

PACKAGE = Path(furlkit.__file__).parent
ROOT = PACKAGE.parent
MAP = (PACKAGE / "README.md").read_text()
# Calls in the way of local-train: the module, if the page leaves it out.
CALLS = {
    "cli.main": "", "cli.program.main": "", "cli.shared._hold_and_run": "",
    "options_of": "stages.local_train.options.", "check_usage": "stages.local_train.usage.",
    "open_start": "stages.local_train.start.", "existing_result": "stages.local_train.start.",
    "open_inputs": "stages.local_train.inputs.", "open_client": "stages.local_train.client.",
    "train_client": "stages.local_train.train.", "training.run.run_jobs": "",
    "training.loop.train": "", "objectives.simclr.step": "",
    "results.write": "stages.local_train.", "files.container.write": "",
}  # fmt: skip


def test_the_map_fits_on_a_page():
    assert len(MAP.splitlines()) <= 100


def test_the_map_lists_every_folder():
    folders = {
        path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")
    }
    listed = re.findall(r"^\| `([\w/]+)/` \|", MAP, re.M)
    assert sorted(listed) == sorted({"furlkit", *folders} - {"."})


def test_the_calls_on_the_map_exist():
    for name, module in CALLS.items():
        assert f"`{name}" in MAP, name
        resolve_name(f"furlkit.{module}{name}")


def test_the_files_on_the_map_exist():
    named = {path for path in re.findall(r"`([\w/]+\.py)`", MAP) if "X" not in path}
    places = {
        path: (
            PACKAGE / path,
            ROOT / path,
            PACKAGE / "cli" / path,
            PACKAGE / "files" / path,
        )
        for path in named
    }
    assert [
        path for path, some in places.items() if not any(p.is_file() for p in some)
    ] == []
