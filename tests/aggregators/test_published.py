"""Robust rules against ByzFL's, on random numbers."""

import numpy as np
import pytest

from furlkit.aggregators.geometric_median import geometric_median
from furlkit.aggregators.krum import krum
from furlkit.aggregators.median import median
from furlkit.aggregators.trimmed_mean import trimmed_mean

CLIENTS, HOSTILE = 11, 3
# Ours and theirs. Their multi-Krum averages m - f uploads; its scores count one neighbour
# more than the paper's, which changes none of the choices below.
PAIRS = {
    "median": (median, {}, lambda byzfl: byzfl.Median()),
    "trimmed-mean": (
        trimmed_mean,
        {"trim": HOSTILE / CLIENTS},
        lambda byzfl: byzfl.TrMean(f=HOSTILE),
    ),
    "geometric-median": (
        geometric_median,
        {"smoothing": 1e-6},
        lambda byzfl: byzfl.GeometricMedian(nu=1e-6, T=1000),
    ),
    "multi-krum": (
        krum,
        {"assumed_hostile": HOSTILE, "chosen": CLIENTS - HOSTILE},
        lambda byzfl: byzfl.MultiKrum(f=HOSTILE),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("far", [1.0, 50.0])
def test_the_same_as_byzfl(name, far, combined):
    byzfl = pytest.importorskip("byzfl")  # Slow to import, so not with the module.
    ours, options, theirs = PAIRS[name]
    rng = np.random.default_rng(int(far))
    vectors = rng.normal(size=(CLIENTS, 40)) + 1
    vectors[:HOSTILE] *= far
    found = combined(ours, [{"encoder.w": v} for v in vectors], **options)["encoder.w"]
    np.testing.assert_allclose(found, theirs(byzfl)(vectors), rtol=1e-6, atol=1e-9)
