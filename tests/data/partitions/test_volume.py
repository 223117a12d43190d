import numpy as np
import pytest

from furlkit.data.partitions.schemes import split
from furlkit.data.partitions.volume import volume_shares
from tests.data.partitions.toy import TOY, chosen, dataset, rng, table

OPTIONS = {
    "volume": chosen("volume", 10),
    "volume by class": chosen("volume", 10, classes_per_client=2),
}


@pytest.mark.parametrize(
    "delta, gamma", [(0.1, 0.9), (0.0, 0.5), (1.0, 0.5), (0.3, 1), (0.1, 1.5)]
)
def test_volume_shares_follow_the_formula_and_sum_to_one(delta, gamma):
    shares = volume_shares(10, delta, gamma)
    total = sum(gamma**j for j in range(10))
    for i, share in enumerate(shares):
        assert share == pytest.approx(delta / 10 + (1 - delta) * gamma**i / total)
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", ["volume", "volume by class"])
def test_volume_sizes_are_the_shares(name):
    sizes = [len(part) for part in split(TOY, OPTIONS[name], rng()).indices]
    assert np.abs(sizes - volume_shares(10, 0.1, 0.9) * 1003).max() <= 1
    assert sizes[0] > sizes[-1]


def test_volume_by_class_takes_m_classes_while_they_last():
    options = chosen("volume", 3, classes_per_client=2, decay=0.5)
    data = dataset(np.repeat(np.arange(10), 1000))
    counts = table(split(data, options, rng()).indices, data)
    assert np.array_equal(counts.sum(axis=0), np.full(10, 1000))
    few = chosen("volume", 20, classes_per_client=2, decay=1.0)
    counts = table(split(data, few, rng()).indices, data)
    assert (counts[:3] > 0).sum(axis=1).tolist() == [2, 2, 2]


def test_a_huge_gamma_leaves_all_to_the_last_client():
    assert volume_shares(20, 0.0, 1e30).tolist() == pytest.approx([0] * 19 + [1])
