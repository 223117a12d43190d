"""aggregate --report: measures of each upload, and the effect on the result."""

from collections.abc import Callable, Iterator, Sequence
from itertools import filterfalse, islice
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.aggregators.distances import distances_from, inner_products
from furlkit.aggregators.mean import shares_of
from furlkit.aggregators.outliers import Measured, measured, stand_out
from furlkit.aggregators.uploads import Combine, Pieces, Stacked, Uploads
from furlkit.errors import UsageError
from furlkit.stages.aggregate.suspects import disagreement, nearly_equal
from furlkit.weights import is_batchnorm_statistic

Rule = Callable[[Uploads], Pieces]
MOST_APPLIED = 64


def describe(uploads: Uploads, rule: Rule, name: str) -> dict[str, Any]:
    """Contents of a report; `name`: the rule's name.

    `moved` is the distance between the weights of the result with and without a client.
    For the mean, `moved` follows from the products of the uploads. Other rules are
    applied once per client, up to MOST_APPLIED clients; beyond, `moved` is None.
    """
    G = inner_products(uploads, uploads.parent)
    shares = uploads.shares(uploads.names[0])
    found = measured(uploads, G)
    reasons, columns = stand_out(found), range(len(uploads.clients))
    moved: list[float | None] = [None] * len(columns)
    if name == "mean":
        moved = _moved_mean(G[uploads.parent :, uploads.parent :], shares)
    elif len(columns) <= MOST_APPLIED:
        result = rule(uploads)
        moved = [_moved(uploads, result, rule, k) for k in columns]
    clients = [
        {
            "client": uploads.clients[k],
            "share": shares[k],
            "norm": float(found.norms[k]),
            "angle": None if found.angles is None else float(found.angles[k]),
            "statistics": float(found.statistics[k]),
            "moved": moved[k],
            "copy_of": _named(uploads, found.copies[k]),
            "reasons": reasons[k],
        }
        for k in columns
    ]
    return {
        "against": "parent" if uploads.parent else "geometric median",
        "clients": clients,
        "stands_out": [c["client"] for c in clients if c["reasons"]],
        **_groups(uploads, found),
    }


def _groups(uploads: Uploads, found: Measured) -> dict[str, Any]:
    """Groups of clients for the report: `opposed` and `alike`, if there are any."""
    groups = {"opposed": found.opposed or (), "alike": found.alike}
    return {
        name: [[uploads.clients[k] for k in group] for group in some]
        for name, some in groups.items()
        if some
    }


def line_of(path: Path, document: dict[str, Any]) -> str:
    """Name the uploads that stand out in a line, with reasons."""
    clients = document["clients"]
    odd = [_shown(each, clients) for each in clients if {*each["reasons"]} - {"alike"}]
    said = [f"stands out: {'; '.join(odd)}"] if odd else []
    said += [f"{nearly_equal(group)}" for group in document.get("alike", ())]
    if "opposed" in document:
        said.append(disagreement(*document["opposed"]))
    words = "; ".join(said) or "no upload stands out"
    return f"{path}: of {len(clients)} uploads, {words}"


def _shown(one: dict[str, Any], clients: Sequence[dict[str, Any]]) -> str:
    words = []
    for reason, unit in (("norm", ""), ("angle", " degrees"), ("statistics", "")):
        if reason in one["reasons"]:
            usual = np.median([each[reason] for each in clients])
            words.append(f"{reason} {one[reason]:.4g}{unit}, median {usual:.4g}")
    if one["copy_of"] is not None:
        words.append(f"the same as client {one['copy_of']}")
    return f"client {one['client']} ({', '.join(words)})"


def _named(uploads: Uploads, place: int | None) -> int | str | None:
    return None if place is None else uploads.clients[place]


def _moved_mean(G: np.ndarray, shares: Sequence[float]) -> list[float | None]:
    """||w - w_{-k}|| = p_k / (1 - p_k) ||w_k - w|| of the mean w."""
    apart = distances_from(G, np.asarray(shares))
    pairs = zip(shares, apart.tolist(), strict=True)
    return [p / (1 - p) * gap if p < 1 else None for p, gap in pairs]


def _moved(uploads: Uploads, result: Pieces, rule: Rule, k: int) -> float | None:
    """Distance to the result without client k; None if too few clients remain."""
    try:
        others = rule(_Without(uploads, k))
    except UsageError:
        return None
    total = 0.0
    for name in filterfalse(is_batchnorm_statistic, uploads.names):
        for one, other in zip(result(name), others(name), strict=True):
            if one.dtype.kind == "f":
                total += float(np.sum((one.astype(np.float64) - other) ** 2))
    return float(np.sqrt(total))


class _Without:
    """Uploads of the clients except one."""

    def __init__(self, uploads: Uploads, left_out: int):
        if len(uploads.clients) == 1:
            raise UsageError("no upload is left")
        self._uploads, self._k = uploads, left_out
        self.names, self.parent = uploads.names, uploads.parent
        self.weights = uploads.weights
        self.clients = self._rest(uploads.clients)

    def shares(self, name: str) -> list[float]:
        """Shares of the remaining clients."""
        return shares_of(self._rest(self._uploads.shares(name)))

    def combine(
        self, name: str, function: Combine, parent: bool = False
    ) -> Iterator[np.ndarray]:
        """Yield `function` of each piece over the remaining clients."""
        place = self._k + parent

        def others(column: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
            yield from islice(column, place)
            next(column)
            yield from column

        return self._uploads.combine(name, lambda c: function(others(c)), parent)

    def stacked(
        self, name: str, function: Stacked, parent: bool = False
    ) -> Iterator[np.ndarray]:
        """Yield `function` of each slice of the remaining clients."""
        place = self._k + parent
        return self._uploads.stacked(
            name, lambda stack: function(np.delete(stack, place, axis=0)), parent
        )

    def _rest(self, values: Sequence[Any]) -> list[Any]:
        return [*values[: self._k], *values[self._k + 1 :]]
