"""aggregate --rule kernels: mean cosines of public images by the clients' models."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from furlkit.catalogue import load, rules
from furlkit.files.features import FeatureFacts, Features
from furlkit.files.similarity import Similarity, write_similarity
from furlkit.inputs.existing import existing_result
from furlkit.inputs.inbox import open_uploads
from furlkit.inputs.uploads import check_fit, provenance_of, shown_ids
from furlkit.reports.text import counted
from furlkit.stages.aggregate.claims import name_repeats
from furlkit.stages.aggregate.similarities import (
    BLOCK,
    KIND,
    Upload,
    check_together,
    cosine_rows,
)


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check for equal images in equal order, then average the cosines."""
    options, clients = open_uploads(values, KERNELS)
    first, n = clients[0].facts, len(clients[0].index)
    line = (
        f"{options.output}: round {first.round}, mean of {n} x {n} cosines of "
        f"{counted(len(clients), 'client')}"
    )
    data: dict[str, Any] = {"round": first.round, "clients": len(clients)}
    name_repeats([client for client in clients if isinstance(client, Features)])
    if options.dry_run:
        return line, data
    owners = [[client, n] for client in shown_ids(options, clients)]
    facts: FeatureFacts = replace(first, client=None, owners=owners, examples=n)
    provenance = provenance_of(options, clients)
    if made := existing_result(options, "similarity", provenance, facts):
        return made
    mean = load(rules()[options.rule].function)
    parts = [cosine_rows(client) for client in clients]

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, n, BLOCK):
            yield mean(of(slice(start, start + BLOCK)) for of in parts).clip(-1, 1)

    about = (clients[0].index, facts, provenance)
    data["content"] = write_similarity(options.output, blocks(), *about)
    return line, data


def _check_together(clients: list[Upload]) -> None:
    check_together(clients)
    cure = "embed all images' cosines, without --top"
    check_fit(
        (client, f"holds only the largest cosines of each image; {cure}")
        for client in clients
        if isinstance(client, Similarity) and client.columns is not None
    )


KERNELS = KIND._replace(check_together=_check_together)
