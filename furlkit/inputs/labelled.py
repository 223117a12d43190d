"""The labelled images that a protocol learns from, and those it tests on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from furlkit.data.sets.datasets import names
from furlkit.data.sets.source import Source
from furlkit.errors import UsageError


def train_and_test(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with sources `train` and `test` in place of --data and --test-data.

    Without --test-data the test images are the test split of --data.
    """
    given = dict(values)
    data, test = given.pop("data"), given.pop("test_data")
    place = {key: given.pop(key) for key in ("data_root", "download")}
    if data and test is None and data not in names() and Path(data).exists():
        raise UsageError(
            f"--data {data}: has no test split of its own; give --test-data"
        )
    train = Source(data, **place) if data else None
    return {
        **given,
        "train": train,
        "test": Source(test or data, **place, split="test"),
    }
