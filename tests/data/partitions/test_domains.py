import numpy as np
import pytest

from furlkit.data.partitions.domains import domains_of_clients, sample_to
from furlkit.data.partitions.schemes import split
from furlkit.errors import UsageError
from tests.data.partitions.toy import TOY, chosen, dataset, rng, table


def test_domains_are_cut_to_the_mean_and_split_in_order():
    data = dataset(np.zeros(12), [0] * 7 + [1] * 2 + [2] * 3)
    parts = split(data, chosen("domains", 3, repeat=False), rng()).indices
    assert [len(part) for part in parts] == [4, 2, 3]
    assert [set(data.domains[part]) for part in parts] == [{0}, {1}, {2}]


def test_domains_are_sampled_to_the_mean_with_repeats():
    data = dataset(np.zeros(12), [0] * 7 + [1] * 2 + [2] * 3)
    parts = split(data, chosen("domains", 6), rng()).indices
    assert [len(part) for part in parts] == [2] * 6
    second = np.concatenate(parts[2:4])
    assert sorted(second) == [7, 7, 8, 8]


def test_repeats_are_as_even_as_they_can_be():
    drawn = sample_to(np.arange(3), 8, rng())
    assert sorted(np.bincount(drawn)) == [2, 3, 3]


@pytest.mark.parametrize("each", [1, 5, 10])
@pytest.mark.parametrize("mixed", [{}, {"concentration": 0.2}])
def test_every_domain_has_its_number_of_clients_and_all_are_equal(each, mixed):
    parts = split(TOY, chosen("domains", clients_per_domain=each, **mixed), rng())
    mean = TOY.examples // 3
    assert [len(part) for part in parts.indices] == [mean // each] * (3 * each)
    expected = np.repeat(np.arange(3), each)
    assert domains_of_clients(parts.indices, TOY).tolist() == expected.tolist()
    # A domain above the mean repeats nothing; one below it uses all it has.
    for domain in range(3):
        own = np.concatenate(parts.indices[domain * each : (domain + 1) * each])
        size = np.count_nonzero(TOY.domains == domain)
        assert len(np.unique(own)) == min(size, mean // each * each)


# Two styles of 50 images; class 0 has 30 of the first and 6 of the second.
SKEWED = dataset(
    [0] * 30 + [1] * 10 + [2] * 10 + [0] * 6 + [1] * 20 + [2] * 24, [0] * 50 + [1] * 50
)


def test_balanced_clients_have_the_same_number_of_a_class_up_to_one():
    known = chosen("domains", clients_per_domain=4, balance="clients")
    parts = split(SKEWED, known, rng()).indices
    assert [len(part) for part in parts] == [12] * 8
    counts = table(parts, SKEWED).reshape(2, 4, -1)  # (domains, clients, classes)
    assert (np.ptp(counts, axis=1) <= 1).all()
    loose = split(SKEWED, chosen("domains", clients_per_domain=4), rng()).indices
    assert np.ptp(table(loose, SKEWED).reshape(2, 4, -1), axis=1).max() > 1


def test_balanced_classes_have_the_same_number_of_images_at_every_client():
    """FedStyle: in IID settings each client has the same amount across classes."""
    known = chosen("domains", clients_per_domain=4, balance="classes")
    parts = split(SKEWED, known, rng()).indices
    assert table(parts, SKEWED)[:, :3].tolist() == [[4, 4, 4]] * 8
    # Class 0 of the second style is repeated, evenly; nothing else is if it need not be.
    rare = np.concatenate(parts[4:])
    rare = rare[SKEWED.labels[rare] == 0]
    assert sorted(np.bincount(rare)[50:]) == [2, 2, 3, 3, 3, 3]
    common = np.concatenate(parts[:4])
    assert len(np.unique(common[SKEWED.labels[common] == 0])) == 16


def test_balanced_classes_without_repeats_are_as_many_as_the_smallest():
    known = chosen("domains", clients_per_domain=2, balance="classes", repeat=False)
    parts = split(SKEWED, known, rng()).indices
    counts = table(parts, SKEWED)[:, :3]
    assert counts.tolist() == [[5, 5, 5]] * 2 + [[3, 3, 3]] * 2
    assert len(np.unique(np.concatenate(parts))) == counts.sum()


def test_a_balance_needs_labels_and_an_image_of_every_class():
    unlabelled = dataset(None, [0, 0, 1, 1])
    with pytest.raises(UsageError, match="--balance clients needs labels.* toy"):
        split(unlabelled, chosen("domains", 2, balance="clients"), rng())
    with pytest.raises(UsageError, match="--balance classes.* 3 classes"):
        split(SKEWED, chosen("domains", 50, balance="classes"), rng())
    with pytest.raises(UsageError, match="--balance does not apply beside"):
        chosen("domains", 2, balance="clients", concentration=0.2)


def test_clients_per_domain_is_a_multiple_of_clients():
    one = split(TOY, chosen("domains", clients_per_domain=2), rng()).indices
    other = split(TOY, chosen("domains", 6), rng()).indices
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_concentration_skews_the_classes_within_a_domain():
    """A class is a tenth of a domain and a client a fifth, so half is about the most."""

    def largest(**mixed):
        parts = split(TOY, chosen("domains", clients_per_domain=5, **mixed), rng())
        counts = table(parts.indices, TOY)
        return (counts.max(axis=1) / counts.sum(axis=1)).mean()

    assert largest() < 0.25 < 0.4 < largest(concentration=0.01)


def test_the_domains_of_clients_are_unknown_where_they_are_mixed():
    data = dataset(None, [0, 0, 1, 1])
    parts = [np.array([2, 3]), np.array([], int), np.array([0])]
    assert domains_of_clients(parts, data).tolist() == [1, -1, 0]
    assert domains_of_clients([np.array([1, 2])], data) is None
    assert domains_of_clients([np.array([1, 2])], dataset([0, 1, 2])) is None


def test_clients_must_be_a_multiple_of_the_domains():
    with pytest.raises(UsageError, match="--clients 4.* multiple of 3"):
        split(TOY, chosen("domains", 4), rng())
    with pytest.raises(UsageError, match="needs domains"):
        split(dataset([0, 1]), chosen("domains", clients_per_domain=1), rng())
    with pytest.raises(UsageError, match="1,005 clients of at least 1"):
        split(TOY, chosen("domains", clients_per_domain=335), rng())
    # Three clients of 300 are possible, five, the default of --clients, are not.
    large = chosen("domains", clients_per_domain=1, min_size=300)
    assert len(split(TOY, large, rng()).indices) == 3


def test_domains_by_class_need_labels_and_domains():
    with pytest.raises(UsageError, match="needs domains.* toy"):
        split(dataset([0, 1, 2]), chosen("domains", 3), rng())
    with pytest.raises(UsageError, match="toy: has no labels"):
        split(
            dataset(None, [0, 0, 1, 1]),
            chosen("domains", 2, concentration=1.0),
            rng(),
        )
