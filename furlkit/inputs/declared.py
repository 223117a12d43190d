"""Content hashes of the files on a command line, by the declared roles."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from furlkit.catalogue import GivenFile
from furlkit.files.clients import ClientId
from furlkit.files.container.read import Container
from furlkit.inputs.paths import fill


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
