from dataclasses import replace

import numpy as np
import pytest

from furlkit.errors import InputError, UsageError
from furlkit.files.facts import Provenance
from furlkit.files.partition import PartitionFacts, read_partition, write_partition

FACTS = PartitionFacts("iid", 3, {"examples": 10, "labels": "x"}, ["cat", "dog"])
PARTS = [np.array([4, 2]), np.array([], int), np.array([9, 0, 1])]
PUBLIC, HISTOGRAM = np.array([7]), np.array([[1, 1], [0, 0], [3, 0]])


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "p"
    provenance = Provenance("partition", {"clients": 3}, 5)
    write_partition(place, PARTS, PUBLIC, HISTOGRAM, FACTS, provenance)
    return place


def test_partition_is_read_as_it_was_written(path):
    read = read_partition(path)
    assert read.facts == FACTS
    assert [read.of(k).tolist() for k in range(3)] == [[4, 2], [], [9, 0, 1]]
    assert read.public.tolist() == [7]
    assert read.sizes.tolist() == [2, 0, 3]
    assert read.histogram.tolist() == HISTOGRAM.tolist()


def test_domains_of_clients_are_read_as_they_were_written(tmp_path, path):
    assert read_partition(path).domains is None
    assert read_partition(path).domain_of(0) is None
    facts = replace(FACTS, domain_names=["ink", "oil"])
    more = (PARTS, PUBLIC, HISTOGRAM, facts, Provenance("partition"))
    write_partition(tmp_path / "d", *more, np.array([1, -1, 0]))
    read = read_partition(tmp_path / "d")
    assert read.domains.tolist() == [1, -1, 0]
    assert [read.domain_of(k) for k in range(3)] == ["oil", None, "ink"]


@pytest.mark.parametrize(
    "domains, names",
    [
        (np.array([0, 1]), ["ink", "oil"]),
        (np.array([0, 1, 2]), ["ink", "oil"]),
        (np.array([0, -2, 1]), ["ink", "oil"]),
        (np.array([0, 0, 0]), None),
    ],
)
def test_domains_that_do_not_fit(path, forge, domains, names):
    forge(path, {"domains": domains}, {"domain_names": names} if names else {})
    with pytest.raises(InputError, match="p: the domains of the clients do not fit"):
        read_partition(path)


@pytest.mark.parametrize("client", [-1, 3, 10**9])
def test_a_client_that_is_not_there(path, client):
    with pytest.raises(
        UsageError, match=f"--client {client}: .*p has the clients 0 to"
    ):
        read_partition(path).of(client)


@pytest.mark.parametrize(
    "tensors, facts",
    [
        ({"indices": np.array([4, 2, 9, 0, 10])}, {}),
        ({"indices": np.array([4, 2, 9, 0, -1])}, {}),
        ({"public": np.array([10])}, {}),
        ({"offsets": np.array([0, 2, 2, 4])}, {}),
        ({"offsets": np.array([1, 2, 2, 5])}, {}),
        ({"offsets": np.array([0, 3, 2, 5])}, {}),
        ({"offsets": np.array([0, 2, 5])}, {}),
        ({"histogram": np.ones((2, 2), int)}, {}),
        ({}, {"clients": 4}),
        ({}, {"dataset": {"examples": 9}}),
    ],
)
def test_indices_that_do_not_fit(path, forge, tensors, facts):
    forge(path, tensors, facts)
    with pytest.raises(InputError, match="p: indices do not fit . clients over"):
        read_partition(path)


@pytest.mark.parametrize(
    "tensors, message",
    [
        ({"indices": np.zeros(5, np.int32)}, r"indices is int32 \(5,\)"),
        (
            {"indices": np.zeros((5, 1), int)},
            r"indices is int64 \(5, 1\)",
        ),
        ({"public": np.array(7)}, r"public is int64 \(\)"),
        ({"histogram": np.zeros(3, int)}, r"histogram is int64 \(3,\)"),
        ({"offsets": None}, "has no tensor offsets"),
        ({"domains": np.zeros((3, 1), int)}, r"domains is int64 \(3, 1\)"),
    ],
)
def test_tensors_of_another_make(path, forge, tensors, message):
    forge(path, tensors)
    with pytest.raises(InputError, match=f"p: {message}"):
        read_partition(path)


def test_further_tensors_are_ignored(path, forge):
    forge(path, {"later": np.ones(2)})
    assert read_partition(path).of(0).tolist() == [4, 2]


def test_too_few_class_names(path, forge):
    forge(path, facts={"class_names": ["cat"]})
    with pytest.raises(InputError, match="p: names 1 classes and counts 2"):
        read_partition(path)
    forge(path, facts={"class_names": []})
    assert read_partition(path).facts.class_names == []


@pytest.mark.parametrize(
    "dataset", [{}, {"examples": "10"}, {"examples": -1}, {"examples": 10, "labels": 3}]
)
def test_fingerprints_of_another_make(path, forge, dataset):
    forge(path, facts={"dataset": dataset})
    with pytest.raises(InputError, match="p: .*dataset"):
        read_partition(path)


@pytest.mark.parametrize("facts", [{"dataset": []}, {"class_names": "ab"}])
def test_facts_of_another_make(path, forge, facts):
    forge(path, facts=facts)
    with pytest.raises(InputError, match="p: header fact .* expected"):
        read_partition(path)
