"""Plugins that fail: the message names the package, and other commands go on."""

import pytest

ENTRY = """
from furlkit.catalogue import Dataset

SET = Dataset("spots", "spots_reader:read", (0.5,), (0.5,))
"""
READER = """
import sys


def read(split, root, download):
    {line}
"""


@pytest.fixture
def installed(program, environment, tmp_path, monkeypatch):
    """Install a package of two modules; gives a function that calls the program."""

    def install(entry: str, reader: str = "raise KeyError('spots')"):
        folder = tmp_path / "site"
        info = folder / "spots-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / "spots.py").write_text(entry)
        (folder / "spots_reader.py").write_text(READER.format(line=reader))
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: spots\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(
            "[furlkit.datasets]\nspots = spots:SET\n"
        )
        (info / "RECORD").write_text("spots.py,,\nspots_reader.py,,\n")
        path = f"{environment['PYTHONPATH']}:{folder}"
        monkeypatch.setitem(environment, "PYTHONPATH", path)
        monkeypatch.setitem(environment, "TMPDIR", str(tmp_path))  # For tracebacks.
        return program

    return install


@pytest.mark.parametrize("line", ["import sys; sys.exit(3)", "1 / 0"])
def test_a_plugin_that_exits_at_its_import_stops_no_command(installed, world, line):
    call = installed(line)
    arguments = ("--clients", 2, "-o", world.folder / "p")
    known = call("partition", "--data", "digits", *arguments)
    assert known.returncode == 0 and known.stderr == ""
    packed = world.folder / "d.safetensors"
    assert call("pack", "digits", "-o", packed).returncode == 0
    done = call("partition", "--data", packed, *arguments, "--force")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("warning: spots, spots:SET: cannot load")


@pytest.mark.parametrize(
    "line, error",
    [("raise KeyError('round')", "KeyError"), ("sys.exit(4)", "SystemExit")],
)
def test_an_error_in_a_plugin_names_the_plugin(installed, tmp_path, line, error):
    done = installed(ENTRY, line)("partition", "--data", "spots", "-o", tmp_path / "p")
    assert done.returncode == 1 and done.stderr.startswith(f"error: {error}")
    for words in (
        "spots_reader.py, line 6",
        "the package spots 1.0",
        "furlkit.datasets",
    ):
        assert words in done.stderr
    assert "bug in furlkit" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("function", ["spots_reader:raed", "spots_reader.none:read"])
def test_an_entry_without_its_function_names_the_plugin(installed, tmp_path, function):
    call = installed(ENTRY.replace("spots_reader:read", function))
    done = call("partition", "--data", "spots", "-o", tmp_path / "p")
    assert done.returncode == 1 and "the package spots 1.0" in done.stderr
    assert "bug in furlkit" not in done.stderr
