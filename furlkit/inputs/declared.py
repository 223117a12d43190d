"""Files on a command line, by their declarations: checks of names, and content hashes."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from furlkit.catalogue import COMMANDS, File, GivenFile
from furlkit.files.clients import ClientId
from furlkit.files.container.read import Container
from furlkit.inputs.paths import Patterns, check_patterns, fill


def check_files(
    files: Iterable[GivenFile], clients: Sequence[ClientId], inputs: Sequence[str]
) -> None:
    """Check the patterns of the files; clients may share a received file."""
    reads: Patterns = {}
    writes: Patterns = {}
    common: list[Path | str] = [*inputs]
    for each in files:
        if each.file.written:
            writes[each.flag] = each.path
        elif each.file.per_client and not each.is_received:
            reads[each.flag] = each.path
        else:
            common += [fill(each.path, client) for client in clients]
    check_patterns(clients, reads, writes, common)


def contents_of(
    files: Iterable[GivenFile], client: ClientId, known: Mapping[Path, str]
) -> dict[str, str]:
    """Content hashes of the input files of a client, by role, for the header.

    `known` are the hashes of files that are open already. The client in a header numbers
    several files of a role: "halves 3". Files that the command chooses are left out.
    """
    contents = {}
    for _, pattern, file, several in files:
        if not file.role or file.written or file.chosen:
            continue
        path, role = fill(pattern, client), file.role
        if several:
            role = f"{role} {Container(path).header.facts.get('client')}"
        contents[role] = known.get(path) or Container(path).content
    return contents


def by_role(command: str, **opened: Any) -> dict[str, str]:
    """Content hashes of opened files, by the roles of a command's declarations.

    The names are keys of arguments and options; roles, if the declaration of an argument
    has several roles. Several files of an argument are numbered: give a dictionary of
    numbers and files. None, and a network without a file, have no content.
    """
    contents: dict[str, str] = {}
    roles: dict[str, str] = {}
    for role, taker in COMMANDS[command].roles.items():
        several = isinstance(taker.kind, File) and len(taker.kind.roles) > 1
        roles[role if several else taker.key] = role
    for key, files in opened.items():
        several = isinstance(files, Mapping)
        numbered = files.items() if several else [("", files)]
        for number, file in numbered:
            if file and file.content:
                contents[f"{roles[key]} {number}".strip()] = file.content
    return contents
