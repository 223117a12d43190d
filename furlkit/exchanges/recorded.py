"""Options in headers that follow from the options of exchanges, without torch."""

from collections.abc import Mapping
from typing import Any

from furlkit.aggregators.dictionary import rows_to_share
from furlkit.files.secret import DRAWN_BY, SECRET


def record_rows(
    options: dict[str, Any], values: Mapping[str, Any], clients: int
) -> None:
    """Leave out a dictionary's options without effect, and add the number of rows.

    `clients`: clients of the partition; 1 for a site.
    """
    shares = values["features_out"]
    if not values["dictionary"]:  # A recipe may give the flag in the first round too.
        for name in ("leave-own-out", "negatives", "dictionary-positive"):
            options.pop(name, None)
        if not shares:
            options.pop("dictionary-from", None)
    if shares:
        participants = values["participants"] or clients
        options["rows"] = rows_to_share(values["dictionary_size"], participants)
    if shares:
        _record_secret(options, values)


def record_noise(
    options: dict[str, Any], values: Mapping[str, Any], clients: int
) -> None:
    """Record that the secret of a site decides the noise."""
    if values["correlations_noise"]:
        _record_secret(options, values)


def _record_secret(options: dict[str, Any], values: Mapping[str, Any]) -> None:
    if values["secret"] or not values["partition"]:
        options[DRAWN_BY] = SECRET
