"""Checks of a command before its inputs exist: data, splits, domains, rounds."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from furlkit.catalogue import Data, Option, Rule, load, rules, terms, updates
from furlkit.catalogue.entries import key_of
from furlkit.data.sets.datasets import is_name
from furlkit.errors import InputError, UsageError


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


def check_uploads(
    training: Mapping[str, Any], server: Mapping[str, Any], rounds: int
) -> None:
    """Refuse a rule of the server that cannot combine the uploads of a training.

    The values are of local-train, and of the aggregate that reads the uploads.
    """
    rule, every = rules()[server["rule"]], rules().values()
    if rule.reads != "checkpoint":
        return
    for name in (n for n, term in terms().items() if training.get(key_of(term.switch))):
        added = {*terms()[name].exchanges} & _adds(every)
        if added and not added <= {*rule.adds}:
            able = " or ".join(r.name for r in every if added <= {*r.adds})
            raise UsageError(
                f"--{terms()[name].switch}: uploads have the part {', '.join(added)}, "
                f"which --rule {rule.name} cannot combine; give --rule {able}"
            )
    update = updates()[training["update"]]
    if rule.parent and update.sends:
        choose = load(update.sends)
        settings = {option.key: training[option.key] for option in update.options}
        sent = [
            choose(("encoder", "heads"), n, **settings) for n in range(1, rounds + 1)
        ]
        for before, now in pairwise(sent):
            if not {*now} <= {*before}:
                raise UsageError(
                    f"--rule {rule.name}: computes the change of every tensor from "
                    f"--parent, but with --update {update.name} the global model lacks "
                    "the heads after a round without heads; give --rule mean or median"
                )


def _adds(every: Iterable[Rule]) -> set[str]:
    """Parts that only some rules combine."""
    return {part for rule in every for part in rule.adds}


def check_count(values: Mapping[str, Any], made: Collection[str]) -> None:
    """Refuse more --images than a present file of images, or digits, has."""
    data, count = str(values.get("data") or ""), values.get("images")
    if type(count) is not int or data in made:
        return
    if data != "digits" and not (Path(data).is_file() and not is_name(data)):
        return
    from furlkit.data.sets.source import Source  # Here, because few recipes need it.

    with suppress(InputError):  # The command itself refuses unreadable images.
        found = Source(data, split=values.get("split") or "train").labels().labels
        if found is not None and count > len(found):
            raise UsageError(f"--images {count}: {data} has {len(found):,}")


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
    from furlkit.data.sets.source import Source

    return not is_name(data) and Path(data).exists() and not Source(data).has_splits
