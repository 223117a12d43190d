"""File names with {client} for a client's number or name."""

from collections.abc import Iterable, Sequence
from os.path import realpath
from pathlib import Path

from furlkit.errors import UsageError
from furlkit.files.clients import ClientId

Patterns = dict[str, str | None]
Files = Iterable[Path | str | None]  # None: the option is not given.


def fill(pattern: str, client: ClientId) -> Path:
    """Return the file of a client."""
    return Path(pattern.replace("{client}", str(client)))


def check_output(output: Path, inputs: Files, flag: str = "-o") -> None:
    """Check that the output is not an input."""
    # Path.resolve raises a different error for circular links.
    if realpath(output) in {realpath(path) for path in inputs if path}:
        raise UsageError(f"{flag} {output}: this command uses that file already")


def check_patterns(
    clients: Sequence[ClientId], reads: Patterns, writes: Patterns, inputs: Files
) -> None:
    """Check that no file is written twice, or both read and written; keys are flags.

    A restart reads the inputs again: a command that overwrites inputs cannot resume.
    """
    read = {flag: pattern for flag, pattern in reads.items() if pattern}
    written = {flag: pattern for flag, pattern in writes.items() if pattern}
    for flag, pattern in {**read, **written}.items():
        if len(clients) > 1 and "{client}" not in pattern:
            raise UsageError(
                f"{flag} {pattern}: {len(clients)} clients need a pattern, "
                f"like {flag} 'exp/r001/client_{{client}}.safetensors'"
            )
    given = {Path(path).absolute() for path in inputs if path}
    for client in clients:
        used = given | {fill(pattern, client).absolute() for pattern in read.values()}
        for flag, pattern in written.items():
            path = fill(pattern, client)
            if path.is_dir():
                raise UsageError(f"{flag} {path}: is a folder, expected a file")
            if path.absolute() in used:
                raise UsageError(f"{flag} {path}: this command uses that file already")
            used.add(path.absolute())
