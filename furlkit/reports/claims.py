"""Claims of papers: read from a TOML file, and judged by our own differences."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.errors import InputError
from furlkit.files.container.header import short
from furlkit.files.opening import read_toml
from furlkit.reports.differences import Difference
from furlkit.reports.metrics import is_number


class Claim(NamedTuple):
    """That the series `higher` is above the series `lower`, in the words of `claim`.

    `paper` is the difference that the paper prints, in the unit that is shown (points of
    percent for an accuracy), None where it gives only the order. `value` and `protocol`
    are those of the options where a claim has none of its own.
    """

    claim: str
    higher: str
    lower: str
    paper: float | None = None
    value: str | None = None
    protocol: str | None = None


NEEDED = ("claim", "higher", "lower")


def read_claims(path: Path, labels: Collection[str]) -> list[Claim]:
    """The claims of a file, one for each [[claims]] table; `labels` are of the series."""
    tables = read_toml(path)
    found = tables.get("claims")
    if tables.keys() != {"claims"} or not isinstance(found, list) or not found:
        names = ", ".join(map(short, tables)) or "nothing"
        raise InputError(
            f"{path}: has {names}; expected one [[claims]] table for each claim"
        )
    return [
        _claim(f"{path}: claim {number}", table, labels)
        for number, table in enumerate(found, 1)
    ]


def _claim(where: str, table: Any, labels: Collection[str]) -> Claim:
    keys = set(table) if isinstance(table, dict) else set()
    if not keys >= set(NEEDED) or keys - set(Claim._fields):
        raise InputError(
            f"{where}: has {', '.join(sorted(map(short, keys))) or 'no table'}; expected "
            f"{', '.join(NEEDED)} and, if they are known, paper, value, protocol"
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
            f"{where}: paper is {short(claim.paper)}, expected how far the paper has "
            "'higher' above 'lower', a number above 0; exchange the two if it is below"
        )
    return claim


def verdict(difference: Difference) -> str:
    """What our difference, higher minus lower, says about a claim.

    Confirmed if a 95 % interval lies wholly above 0 and the difference is not within the
    noise of the probes; refuted if it lies wholly below 0, likewise; else undecided: the
    interval includes 0, or there are too few seeds for 95 %, or probes alone would give
    as much. Only the order is judged, not how far apart the two are.
    """
    if not difference.decisive:
        return "undecided"
    return "confirmed" if difference.effect.estimate > 0 else "refuted"
