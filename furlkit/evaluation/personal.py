"""Scores of many clients: mean, spread and worst clients."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any


def worst_tenth(accuracies: Sequence[float]) -> float:
    """Mean of the lowest tenth, rounded up: of one to ten clients the lowest."""
    count = -(-len(accuracies) // 10)
    return fmean(sorted(accuracies)[:count])


def over_clients(accuracies: Sequence[float]) -> dict[str, float]:
    """Mean, standard deviation between clients (0 for one), and the worst tenth."""
    return {
        "accuracy": fmean(accuracies),
        "clients_std": stdev(accuracies) if len(accuracies) > 1 else 0.0,
        "worst_tenth_accuracy": worst_tenth(accuracies),
    }


def over_probes(clients: Sequence[Sequence[float]]) -> dict[str, object]:
    """Mean over clients of each probe, and the deviation; empty for one probe."""
    probes = [fmean(each) for each in zip(*clients, strict=True)]
    if len(probes) < 2:
        return {}
    return {"probes": probes, "accuracy_std": stdev(probes)}


def summary(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Combined scores of clients; each client has an `accuracy` and `probes`."""
    return {
        **over_clients([score["accuracy"] for score in scores]),
        **over_probes([score["probes"] for score in scores]),
    }


def by_domain(scores: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Summary of the clients of each `domain`, without clients that have no domain."""
    names = dict.fromkeys(score.get("domain") for score in scores)
    own = {
        name: [score for score in scores if score.get("domain") == name]
        for name in names
        if name is not None
    }
    return {name: {**summary(of), "clients": len(of)} for name, of in own.items()}
