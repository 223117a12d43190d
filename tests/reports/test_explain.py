import time

import numpy as np
import pytest

from furlkit.files.container.header import Header
from furlkit.files.container.layout import Entry
from furlkit.reports.explain import sentence


def seconds(name: str, tensors: int) -> float:
    """Least CPU time of three calls, with a part of the model for each tensor."""
    float32, header = np.dtype("<f4"), Header("private", "x")
    entries = [Entry(name.format(k), float32, (0,)) for k in range(tensors)]
    times = []
    for _ in range(3):
        start = time.process_time()
        sentence(header, entries)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("statistic", ["running_mean", "weight"])
def test_parts_of_a_private_file_are_named_in_order(statistic):
    names = (f"encoder.{statistic}", "projector.weight", "memory.bank.rows")
    entries = [Entry(name, np.dtype("<f4"), (1,)) for name in names]
    said = sentence(Header("private", "local-train"), entries)
    apart = statistic == "running_mean"
    held = (
        "projector; BatchNorm statistics of encoder" if apart else "encoder, projector"
    )
    assert f"{held}; memory of bank" in said


@pytest.mark.parametrize("name", ["t{}", "t{}.running_mean", "memory.t{}"])
def test_the_cost_of_a_sentence_is_linear_in_tensors(name):
    # The square of 64 would be 4,096; a busy machine may slow either call.
    assert seconds(name, 64_000) < 600 * seconds(name, 1_000)
