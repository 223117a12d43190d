"""Claims of papers, read from a TOML file and checked against our differences."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.errors import InputError
from furlkit.files.container.header import short
from furlkit.files.opening import read_toml
from furlkit.reports.differences import Difference
from furlkit.reports.metrics import is_number


class Claim(NamedTuple):
    """Claim that the series `higher` is above the series `lower`; `claim` is the text.

    `paper`: the printed difference in the displayed unit (points of percent for an
    accuracy), None if the paper prints only the order. Claims without `value` and
    `protocol` use the values of the options.
    """

    claim: str
    higher: str
    lower: str
    paper: float | None = None
    value: str | None = None
    protocol: str | None = None


NEEDED = ("claim", "higher", "lower")
RECIPE = ("extends", "stages")  # Every recipe has one of these entries.


def read_claims(path: Path, labels: Collection[str]) -> list[Claim]:
    """Claims of the table [claims], or of [[claims]]; `labels`: labels of the series.

    The file may be a recipe.
    """
    tables = read_toml(path)
    found = tables.get("claims")
    alone = tables.keys() == {"claims"} or not tables.keys().isdisjoint(RECIPE)
    if not alone or not isinstance(found, dict | list) or not found:
        names = ", ".join(map(short, tables)) or "nothing"
        raise InputError(
            f"{path}: has {names}; expected a table [claims] with one entry per claim"
        )
    if isinstance(found, dict):
        found = [_named(text, entry) for text, entry in found.items()]
    return [
        _claim(f"{path}: claim {number}", table, labels)
        for number, table in enumerate(found, 1)
    ]


def _named(text: str, entry: Any) -> Any:
    """Entry of [claims] in the form of a table [[claims]], with the text."""
    return {"claim": text, **entry} if isinstance(entry, dict) else entry


def _claim(where: str, table: Any, labels: Collection[str]) -> Claim:
    keys = set(table) if isinstance(table, dict) else set()
    if not keys >= set(NEEDED) or keys - set(Claim._fields):
        raise InputError(
            f"{where}: has {', '.join(sorted(map(short, keys))) or 'no table'}; expected "
            f"{', '.join(NEEDED)} and optionally paper, value, protocol"
        )
    for key in sorted(keys - {"paper"}):
        if not isinstance(table[key], str):
            raise InputError(f"{where}: {key} is {short(table[key])}, expected text")
    claim = Claim(**table)
    for label in (claim.higher, claim.lower):
        if label not in labels:
            raise InputError(
                f"{where}: names the series {short(label)}; --series gives only "
                f"{', '.join(labels)}"
            )
    if claim.higher == claim.lower:
        raise InputError(f"{where}: compares {short(claim.higher)} with itself")
    if claim.paper is not None and not (is_number(claim.paper) and claim.paper > 0):
        raise InputError(
            f"{where}: paper is {short(claim.paper)}, expected the paper's value of "
            "'higher' minus 'lower', above 0; exchange both if the value is below 0"
        )
    return claim


def verdict(difference: Difference) -> str:
    """Verdict on a claim from our difference, higher minus lower.

    Confirmed if a 95 % interval is above 0 and the difference exceeds the noise of the
    probes; refuted if the interval is below 0, likewise; otherwise undecided: the
    interval includes 0, or there are too few seeds for 95 %, or probe noise explains
    the difference. Only the order is judged, not the size of the difference.
    """
    if not difference.decisive:
        return "undecided"
    return "confirmed" if difference.effect.estimate > 0 else "refuted"
