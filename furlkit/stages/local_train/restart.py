"""What an interrupted start of several clients has done already.

A client's progress file is removed as soon as its output is written. From the first
client's output to the last one's, the start has a progress file of its own: where it is
found, an output that the same command made is not made again.
"""

from dataclasses import astuple
from pathlib import Path
from typing import Any

from furlkit.errors import FurlkitError
from furlkit.files.checkpoint import CheckpointFacts, read_checkpoint
from furlkit.files.container.header import canonical
from furlkit.files.container.read import open_kind
from furlkit.files.facts import Provenance
from furlkit.files.journal import Journal
from furlkit.files.progress import ProgressFile
from furlkit.inputs.paths import fill
from furlkit.stages.local_train.inputs import Client, Inputs, Options


def progress_of(options: Options) -> ProgressFile:
    """The progress file of a start; it says nothing but that there was one."""
    clients = f"{options.clients[0]}-{options.clients[-1]}"
    output = Path(options.output.replace("{client}", clients))
    return ProgressFile(output, Provenance("local-train", {}, options.seed))


def written(
    inputs: Inputs, client: Client
) -> tuple[CheckpointFacts, dict[str, Any]] | None:
    """The facts and results of a client whose files are all there.

    None if it must be trained: a file is missing, damaged or made by another command.
    """
    options, number = inputs.options, client.number
    output = fill(options.output, number)
    lines = Journal(output).read()
    if not lines or lines[-1].get("epoch") != options.plan.epochs:
        return None
    more = {"private": options.private_out, "features": options.sharing.features_out}
    data = {key: value for key, value in lines[-1].items() if key != "event"}
    try:
        for kind, pattern in more.items():
            if pattern:
                data[kind] = _content(fill(pattern, number), kind, client)
        data["content"] = _content(output, "checkpoint", client)
        facts = read_checkpoint(output).facts
    except FurlkitError:
        return None
    return (facts, data) if facts.client == number else None


def _content(path: Path, kind: str, client: Client) -> str:
    """The content hash of a file that the client's training made; else an error."""
    opened = open_kind(path, kind)
    made = opened.header
    how = [made.stage, made.options, made.seed, made.inputs]
    if canonical(how) != canonical(astuple(client.provenance)):
        raise FurlkitError(f"{path}: made by another command")
    return opened.content
