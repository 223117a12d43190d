"""Files of clients, in any order: private files and uploads."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.container.read import Container
from furlkit.files.private import Private, read_private
from furlkit.weights import outlines


@dataclass(frozen=True)
class ClientFiles:
    """Files of a client; either file may be missing."""

    private: Private | None = None
    upload: Checkpoint | None = None

    def read_again(self) -> "ClientFiles":
        """Read the files with tensors."""
        private, upload = self.private, self.upload
        return ClientFiles(
            private and read_private(private.path, private.facts.client),
            upload and read_checkpoint(upload.path),
        )


def read_clients(
    paths: Iterable[Path], model: Checkpoint
) -> dict[ClientId, ClientFiles]:
    """Read files by client; the header contains a file's kind.

    The records have outlines of tensors, because memory is for one client at a time.
    """
    found: dict[ClientId, dict[str, Any]] = {}
    for path in paths:
        record: Any
        if Container(path).header.kind == "checkpoint":
            kind, record = "upload", _upload(path, model)
        else:
            kind, record = "private", read_private(path)
            record = replace(record, memory=outlines(record.memory))
        record = replace(record, tensors=outlines(record.tensors))
        client = record.facts.client
        if model.facts.client not in (None, client):
            raise InputError(
                f"{path}: is of client {client}, {model.path} is the model of client "
                f"{model.facts.client}; give the global model before the clients' files"
            )
        own = found.setdefault(client, {})
        if kind in own:
            raise UsageError(
                f"{own[kind].path} and {path}: are both of client {client}; give only "
                "one"
            )
        own[kind] = record
    return {client: ClientFiles(**own) for client, own in found.items()}


def _upload(path: Path, model: Checkpoint) -> Checkpoint:
    """Read a client's upload from the model's run, up to the model's round."""
    upload = read_checkpoint(path)
    if upload.facts.client is None:
        raise InputError(
            f"{path}: is a {upload.facts.role} checkpoint; expected private files and "
            "uploads of clients"
        )
    if upload.facts.architecture != model.facts.architecture:
        raise InputError(
            f"{path}: has another architecture than {model.path}; give the uploads of "
            "one run"
        )
    if upload.facts.round > model.facts.round:
        raise InputError(
            f"{path}: is of round {upload.facts.round}, {model.path} of round "
            f"{model.facts.round}; give a model and uploads of one round"
        )
    return upload
