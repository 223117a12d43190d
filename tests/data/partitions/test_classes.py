from dataclasses import replace

import numpy as np
import pytest

from furlkit.data.partitions.schemes import split
from furlkit.errors import UsageError
from tests.data.partitions.toy import TOY, chosen, dataset, rng, table


def test_iid_sizes_differ_by_one_at_most():
    data = replace(TOY, labels=None)
    sizes = [len(p) for p in split(data, chosen("iid", 4), rng()).indices]
    assert sizes == [251, 251, 251, 250]


def test_iid_with_replacement_draws_from_everything():
    options = chosen("iid", 2, with_replacement=True)
    parts = split(TOY, options, rng()).indices
    assert [len(part) for part in parts] == [502, 501]
    assert set(parts[0]) & set(parts[1])
    assert len(np.unique(parts[0])) < len(parts[0])


def test_classes_are_exclusive():
    counts = table(
        split(TOY, chosen("classes", 5, classes_per_client=2), rng()).indices,
        TOY,
    )
    assert ((counts > 0).sum(axis=1) == 2).all()
    assert ((counts > 0).sum(axis=0) == 1).all()
    assert np.array_equal(counts.sum(axis=0), np.bincount(TOY.labels))


def test_ordered_classes_go_by_number():
    options = chosen("classes", 5, classes_per_client=2, ordered_classes=True)
    counts = table(split(TOY, options, rng()).indices, TOY)
    assert [list(np.flatnonzero(row)) for row in counts] == [
        [2 * client, 2 * client + 1] for client in range(5)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_each_class_is_split_evenly_over_its_copies(seed):
    parts = split(
        TOY,
        chosen("classes", 10, classes_per_client=3, class_copies=3),
        rng(seed),
    ).indices
    counts = table(parts, TOY)
    assert ((counts > 0).sum(axis=1) == 3).all()
    assert ((counts > 0).sum(axis=0) == 3).all()
    copies = [column[column > 0] for column in counts.T]
    assert max(column.max() - column.min() for column in copies) <= 1


def test_classes_left_over_are_left_out():
    options = chosen("classes", 3, classes_per_client=2)
    counts = table(split(TOY, options, rng()).indices, TOY)
    assert (counts.sum(axis=0) > 0).sum() == 6
    assert counts.sum() < TOY.examples


def test_too_many_classes_names_the_option_to_change():
    options = chosen("classes", 5, classes_per_client=3)
    with pytest.raises(UsageError) as caught:
        split(TOY, options, rng())
    assert str(caught.value) == (
        "5 clients x 3 classes need 15 classes, found 10 x 1 (--class-copies); "
        "lower --classes-per-client or raise --class-copies to 2"
    )
    split(TOY, chosen("classes", 5, classes_per_client=3, class_copies=2), rng())


def test_more_classes_per_client_than_classes():
    options = chosen("classes", 1, classes_per_client=11, class_copies=9)
    with pytest.raises(UsageError, match="--classes-per-client 11.* 10 classes"):
        split(TOY, options, rng())


def test_labels_with_gaps_use_the_classes_present():
    data = dataset([3, 3, 3, 3, 8, 8])
    options = chosen("classes", 2, classes_per_client=1, ordered_classes=True)
    parts = split(data, options, rng()).indices
    assert [list(part) for part in parts] == [[0, 1, 2, 3], [4, 5]]


def test_shards_of_eight_examples_by_hand():
    data = dataset([1, 0, 1, 0, 2, 2, 3, 3])
    options = chosen("shards", 2, shards_per_client=2)
    for seed in range(5):
        counts = table(split(data, options, rng(seed)).indices, data)[:, :4]
        assert sorted(counts.ravel()) == [0, 0, 0, 0, 2, 2, 2, 2]
        assert (counts.sum(axis=1) == 4).all()


def test_too_many_shards():
    with pytest.raises(UsageError, match="--shards-per-client"):
        split(dataset([0, 1, 1, 0, 1]), chosen("shards", 4), rng())
