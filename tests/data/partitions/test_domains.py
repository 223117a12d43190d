import numpy as np
import pytest

from furlkit.data.partitions.domains import sample_to
from furlkit.data.partitions.schemes import split
from furlkit.errors import UsageError
from tests.data.partitions.toy import TOY, chosen, dataset, rng


def test_domains_are_cut_to_the_mean_and_split_in_order():
    data = dataset(np.zeros(12), [0] * 7 + [1] * 2 + [2] * 3)
    parts = split(data, chosen("domains", 3), rng()).indices
    assert [len(part) for part in parts] == [4, 2, 3]
    assert [set(data.domains[part]) for part in parts] == [{0}, {1}, {2}]


def test_domains_with_replacement_repeat_up_to_the_mean():
    data = dataset(np.zeros(12), [0] * 7 + [1] * 2 + [2] * 3)
    options = chosen("domains", 6, with_replacement=True)
    parts = split(data, options, rng()).indices
    assert [len(part) for part in parts] == [2] * 6
    second = np.concatenate(parts[2:4])
    assert sorted(second) == [7, 7, 8, 8]


def test_repeats_are_as_even_as_they_can_be():
    drawn = sample_to(np.arange(3), 8, rng())
    assert sorted(np.bincount(drawn)) == [2, 3, 3]


def test_clients_must_be_a_multiple_of_the_domains():
    with pytest.raises(UsageError, match="--clients 4.* multiple of 3"):
        split(TOY, chosen("domains", 4), rng())


def test_domains_by_class_need_labels_and_domains():
    with pytest.raises(UsageError, match="needs domains.* toy"):
        split(dataset([0, 1, 2]), chosen("domains", 3), rng())
    with pytest.raises(UsageError, match="needs labels.* toy"):
        split(
            dataset(None, [0, 0, 1, 1]),
            chosen("domains", 2, concentration=1.0),
            rng(),
        )
