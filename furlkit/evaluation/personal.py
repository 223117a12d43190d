"""Scores of many clients: how good, how different, and how bad for the worst of them."""

from collections.abc import Sequence
from statistics import fmean, stdev


def worst_tenth(accuracies: Sequence[float]) -> float:
    """The mean of the lowest tenth, rounded up: of one to ten clients the lowest."""
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
    """The mean over clients of each probe, and their deviation; nothing for one probe."""
    probes = [fmean(each) for each in zip(*clients, strict=True)]
    if len(probes) < 2:
        return {}
    return {"probes": probes, "accuracy_std": stdev(probes)}
