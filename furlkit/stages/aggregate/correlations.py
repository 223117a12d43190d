"""aggregate --rule correlations: the mean of the clients' correlation matrices."""

from pathlib import Path
from typing import Any

from furlkit.catalogue import load, rules
from furlkit.errors import InputError
from furlkit.files.correlations import (
    CorrelationFacts,
    Correlations,
    correlations_of,
    open_correlations,
    write_correlations,
)
from furlkit.inputs.existing import existing_result
from furlkit.inputs.inbox import Kind, open_uploads
from furlkit.inputs.uploads import (
    ROUND,
    Sent,
    check_same,
    check_same_facts,
    provenance_of,
)
from furlkit.reports.text import counted


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check the matrices against each other, then average."""
    options, clients = open_uploads(values, KIND)
    first, d = clients[0].facts, len(clients[0].R)
    line = (
        f"{options.output}: round {first.round}, mean of {d} x {d} correlations of "
        f"{counted(len(clients), 'client')}"
    )
    data: dict[str, Any] = {"round": first.round, "clients": len(clients)}
    if options.dry_run:
        return line, data
    about = {"parent": first.parent, "run": first.run}
    facts = CorrelationFacts(first.round, clients=len(clients), **about)
    provenance = provenance_of(options, clients)
    if made := existing_result(options, "correlations", provenance, facts):
        return made
    mean = load(rules()[options.rule].function)([client.R for client in clients])
    data["content"] = write_correlations(options.output, mean, facts, provenance)
    return line, data


def _open(path: Path) -> Sent:
    opened, facts = open_correlations(path)
    if facts.client is None:
        raise InputError(
            f"{path}: is of no client; give the files of local-train --correlations-out"
        )
    return Sent(opened.path, opened.content, opened, facts)


def _examined(sent: Sent, by: str | None, remember: bool) -> Correlations:
    tensors = sent.opened.verified_tensors(by or "check", remember)
    return correlations_of(sent.opened, sent.facts, tensors)


def _check_together(clients: list[Correlations]) -> None:
    check_same_facts(clients, ROUND)
    sizes = [len(client.R) for client in clients]
    check_same(clients, "side of the matrix", sizes, ROUND["round"])


KIND = Kind(("correlations",), _open, _examined, _check_together)
