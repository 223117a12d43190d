"""Roles of input files, from the declarations of options."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from furlkit.catalogue.entries import Argument, Data, File, Option
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


class GivenFile(NamedTuple):
    """A file on a command line; the path may contain {client}.

    `several`: further files may have the same role.
    """

    flag: str
    path: str
    file: File
    several: bool = False

    @property
    def is_received(self) -> bool:
        """Return whether the file is from the server or another client."""
        return self.file.direction.startswith("received")


def given_data(command: str, values: Mapping[str, Any]) -> list[str]:
    """Names or places of the images on a command line."""
    options = COMMANDS[command].options.items()
    keys = [key for key, option in options if isinstance(option.kind, Data)]
    return [values[key] for key in keys if values.get(key)]


def given_files(command: str, values: Mapping[str, Any]) -> list[GivenFile]:
    """Files on a command line, in the order of the declarations."""
    entry, files = COMMANDS[command], []
    takers: list[Argument | Option] = [*entry.arguments, *entry.options.values()]
    for taker in takers:
        if not isinstance(taker.kind, File) or not (value := values.get(taker.key)):
            continue
        several = isinstance(value, tuple)
        flag = taker.key.upper()
        if isinstance(taker, Option):
            flag = taker.second or f"--{taker.name}"
        for path in value if several else (value,):
            files.append(GivenFile(flag, str(path), taker.kind, several))
    return files
