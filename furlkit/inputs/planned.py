"""Checks of a command before its inputs exist: data, splits, domains, rounds."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from furlkit.catalogue import Data, Option
from furlkit.data.sets.datasets import is_name
from furlkit.errors import UsageError


def check_planned(values: Mapping[str, Any], last_round: int | None) -> None:
    """Refuse options that must fail; `last_round`: last round of the command."""
    if values.get("scheme") == "domains" and is_name(str(values["data"])):
        raise UsageError(
            f"--scheme domains needs domains, but {values['data']} has none; pack "
            "several sources, or a folder with --domain-folders"
        )
    rounds = values.get("schedule_rounds") or 1
    cosine = values.get("schedule") == "cosine" and rounds > 1
    if cosine and last_round is not None and last_round > rounds:
        raise UsageError(
            f"--schedule-rounds {rounds}: the run has {last_round} rounds, and a cosine "
            f"schedule has reached 0 by then; give --schedule-rounds {last_round}"
        )


def data_warnings(
    options: Mapping[str, Option], values: Mapping[str, Any], made: Collection[str]
) -> Iterator[str]:
    """Yield warnings about missing images; `made`: files that the run makes."""
    for key, option in options.items():
        if not isinstance(option.kind, Data):
            continue
        given = values.get(key) or ()
        for name in [given] if isinstance(given, str) else given:
            if name not in made and not Path(name).exists() and not is_name(name):
                yield f"--{option.name} {name}: no such file or folder, and no dataset"
    data = values.get("data")
    needs_split = "test_data" in values and not values["test_data"]
    if needs_split and data and (data in made or _is_undivided(data)):
        yield f"--data {data}: has no test split; give --test-data"


def _is_undivided(data: str) -> bool:
    """Return whether these images exist and have no test split."""
    from furlkit.data.sets.source import Source  # Here, because few recipes need it.

    return not is_name(data) and Path(data).exists() and not Source(data).has_splits
