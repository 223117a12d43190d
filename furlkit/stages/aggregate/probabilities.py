"""aggregate --rule probabilities: average the clients' class probabilities."""

from pathlib import Path
from typing import Any

import numpy as np

from furlkit.aggregators.probabilities import mean_probabilities
from furlkit.catalogue import load, rules
from furlkit.files.features import (
    PROBABILITIES,
    FeatureFacts,
    Features,
    check_probabilities,
    write_features,
)
from furlkit.inputs.existing import existing_result
from furlkit.inputs.inbox import Kind, open_uploads
from furlkit.inputs.uploads import Sent, check_same, provenance_of
from furlkit.stages.aggregate import similarities
from furlkit.stages.aggregate.tables import examined_rows, open_rows


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check for equal images in equal order; average and sharpen."""
    options, clients = open_uploads(values, KIND)
    first, index = clients[0].facts, clients[0].index
    facts = FeatureFacts(
        PROBABILITIES, first.dataset, first.part, round=first.round,
        examples=len(index), run=first.run,
    )  # fmt: skip
    line = (
        f"{options.output}: round {facts.round}, probabilities of {len(index):,} images "
        f"by {len(clients)} client{'s' * (len(clients) > 1)}"
    )
    data: dict[str, Any] = {"round": facts.round, "images": len(index)}
    data["clients"] = [client.facts.client for client in clients]
    if not options.dry_run:
        provenance = provenance_of(options, clients)
        if made := existing_result(options, "features", provenance, facts):
            return made
        p = mean_probabilities(client.rows for client in clients)
        sharpen = load(rules()[options.rule].function)
        rows = sharpen(p, options.settings["temperature"]).astype(np.float32)
        more = (index, facts, provenance)
        data["content"] = write_features(options.output, rows, *more)
    return line, data


def _open(path: Path) -> Sent:
    sent = open_rows(path)
    similarities.check_upload(sent)
    return sent


def _examined(sent: Sent, by: str | None, remember: bool) -> Features:
    client = examined_rows(sent, by, remember)
    check_probabilities(client)
    return client


def _check_together(clients: list[Features]) -> None:
    similarities.check_together(clients)
    widths = [client.rows.shape[1] for client in clients]
    cure = "train the clients from one global model"
    check_same(clients, "number of classes", widths, cure)


KIND = Kind(("features",), _open, _examined, _check_together)
