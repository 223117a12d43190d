"""The fixed command lines of `make golden` cover every command."""

import shlex
from pathlib import Path

from furlkit.catalogue import COMMANDS

LINES = Path(__file__).parent / "golden/lines.txt"
# Pictures of inputs that take long to make.
WITHOUT = {
    *("plot leakage", "plot sweep", "plot clusters", "plot updates"),
}


def test_every_command_has_a_line():
    lines = [line.removeprefix("!") for line in LINES.read_text().splitlines()]
    words = [shlex.split(line) for line in lines if line and line[0] != "#"]
    run = {" ".join(line[:count]) for line in words for count in (1, 2)}
    names = {name for name, entry in COMMANDS.items() if not entry.commands}
    assert names - run == WITHOUT
