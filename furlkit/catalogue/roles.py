"""Roles of input files, from the declarations of options."""

from collections.abc import Mapping
from typing import Any

from furlkit.catalogue.entries import Argument, File, Option
from furlkit.catalogue.registry import COMMANDS


def taker_of(command: str, role: str) -> Argument | Option | None:
    """The argument or option of a command for the file of a role.

    Headers number several files of a role: "client 3", "helper st-mary".
    """
    name, numbered, _ = role.partition(" ")
    taker = COMMANDS[command].roles.get(name)
    if isinstance(taker, Option):
        return taker if taker.multiple or not numbered else None
    return taker if taker and (taker.several or not numbered) else None


def _file(command: str, role: str) -> File | None:
    taker = taker_of(command, role)
    return taker.kind if taker and isinstance(taker.kind, File) else None


def direction_of(command: str, role: str) -> str:
    """Direction of the file with a role; empty if the command has no such role."""
    file = _file(command, role)
    return file.direction if file else ""


def kinds_of(command: str, role: str) -> tuple[str, ...]:
    """Kinds of files for a role."""
    file = _file(command, role)
    return file.kinds if file else ()


def received_paths(command: str, values: Mapping[str, Any]) -> list[str]:
    """Paths of the files from the server and other clients; may contain {client}."""
    paths: dict[str, None] = {}
    for role, taker in COMMANDS[command].roles.items():
        if direction_of(command, role).startswith("received"):
            value = values.get(taker.key) or ()
            several = value if isinstance(value, tuple) else (value,)
            paths |= dict.fromkeys(map(str, several))
    return [*paths]
