"""Commands by name. furlkit/cli/X.py declares command X; Python loads X.py on demand."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pkgutil import resolve_name

from furlkit.catalogue.entries import Command, key_of

# In the order in which a person works.
NAMES = (
    "partition",
    "sample",
    "pack",
    "check",
    "init",
    "pretrain-align",
    "pretrain-style",
    "local-train",
    "embed",
    "neighbours",
    "sign",
    "mask",
    "aggregate",
    "attack",
    "distill",
    "evaluate",
    "audit",
    "compare",
    "plot",
    "ledger",
    "inspect",
    "replay",
    "export",
    "presets",
    "plan",
    "status",
    "report",
    "log",
    "doctor",
)


@cache
def _declared(name: str) -> dict[str, Command]:
    """Command and subcommands by name: `plot` and `plot curve`."""
    command: Command = resolve_name(f"furlkit.cli.{key_of(name)}:COMMAND")
    return {each.name: each for each in (command, *command.commands)}


class _Commands(Mapping[str, Command]):
    """Commands by name, loaded on demand."""

    def __getitem__(self, name: str) -> Command:
        first = name.split(" ")[0]
        if first not in NAMES:
            raise KeyError(name)
        return _declared(first)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for first in NAMES for name in _declared(first))

    def __len__(self) -> int:
        return sum(1 for _ in self)


COMMANDS = _Commands()


def command_at(words: Sequence[str]) -> Command | None:
    """The command at the start of a line, with a name of one or two words."""
    names = (" ".join(words[:count]) for count in (2, 1))
    return next((COMMANDS[name] for name in names if name in COMMANDS), None)
