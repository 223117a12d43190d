from dataclasses import replace

import numpy as np
import pytest

from furlkit.catalogue import SCHEMES, Option, Scheme, Whole
from furlkit.data.partitions.schemes import draw_public, label_histogram, split
from furlkit.errors import UsageError
from tests.data.partitions.toy import TOY, chosen, rng

DISJOINT = {
    "iid": chosen("iid", 7),
    "classes": chosen("classes", 5, classes_per_client=2),
    "class copies": chosen("classes", 10, classes_per_client=3, class_copies=3),
    "dirichlet": chosen("dirichlet", 6, concentration=0.5),
    "capped": chosen("dirichlet", 6, concentration=0.1, cap_at_mean=True),
    "dirichlet-client": chosen("dirichlet-client", 6, concentration=0.01),
    "volume": chosen("volume", 10),
    "volume by class": chosen("volume", 10, classes_per_client=2),
    "shards": chosen("shards", 9),
    "domains": chosen("domains", 6, repeat=False),
    "domains by class": chosen("domains", 6, repeat=False, concentration=0.2),
}
COVERING = [name for name in DISJOINT if not name.startswith("domains")]


@pytest.mark.parametrize("name", DISJOINT)
def test_clients_share_no_example_and_indices_are_sorted(name):
    parts = split(TOY, DISJOINT[name], rng()).indices
    assert len(parts) == DISJOINT[name].clients
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert together.min() >= 0 and together.max() < TOY.examples
    for part in parts:
        assert part.dtype == np.int64 and len(part) and (np.diff(part) > 0).all()


@pytest.mark.parametrize("name", COVERING)
def test_every_example_is_used(name):
    parts = split(TOY, DISJOINT[name], rng()).indices
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(TOY.examples))


@pytest.mark.parametrize("name", DISJOINT)
def test_same_generator_same_split_and_another_another(name):
    def drawn(seed):
        return np.concatenate(split(TOY, DISJOINT[name], rng(seed)).indices)

    assert np.array_equal(drawn(3), drawn(3))
    assert not np.array_equal(drawn(3), drawn(4))


@pytest.mark.parametrize("name", DISJOINT)
def test_public_part_belongs_to_no_client(name):
    known = DISJOINT[name]
    drawn = split(TOY, replace(known, own={**known.own, "public_fraction": 0.1}), rng())
    assert len(drawn.public) == 100
    assert not set(drawn.public) & set(np.concatenate(drawn.indices))
    if name in COVERING:
        used = [*drawn.indices, drawn.public]
        assert np.array_equal(np.sort(np.concatenate(used)), np.arange(TOY.examples))


def test_min_size_draws_again_from_the_same_generator():
    options = chosen("dirichlet", 6, concentration=0.05, min_size=20)
    sizes = [len(part) for part in split(TOY, options, rng()).indices]
    assert min(sizes) >= 20
    once = replace(options, min_size=0)
    generator, expected = rng(), None
    while expected is None or min(expected) < 20:
        expected = [len(part) for part in split(TOY, once, generator).indices]
    assert sizes == expected


def test_min_size_that_cannot_be_reached_says_why():
    options = chosen("dirichlet", 6, concentration=0.001, min_size=160)
    with pytest.raises(UsageError) as caught:
        split(TOY, replace(options, redraws=4), rng())
    for word in ("--min-size 160", "5 draws", "raise --concentration above 0.001"):
        assert word in str(caught.value)


def test_min_size_beyond_the_dataset_is_refused_at_once():
    with pytest.raises(UsageError) as caught:
        split(TOY, chosen("iid", 100, min_size=11), rng())
    assert str(caught.value) == (
        "100 clients of at least 11 examples need 1,100, toy has 1,003 for them; "
        "lower --clients or --min-size"
    )


def test_draw_public():
    assert len(draw_public(50, 0.1, None, rng())) == 5
    assert len(draw_public(50, None, 7, rng())) == 7
    assert len(draw_public(50, None, None, rng())) == 0
    for fraction, count in ((0.1, 3), (1.0, None), (None, 50)):
        with pytest.raises(UsageError):
            draw_public(50, fraction, count, rng())


def test_public_client_becomes_public_and_others_keep_their_numbers():
    plain = split(TOY, DISJOINT["dirichlet"], rng())
    given = split(TOY, replace(DISJOINT["dirichlet"], public_client=2), rng())
    assert np.array_equal(given.public, plain.indices[2])
    for client, (before, after) in enumerate(
        zip(plain.indices, given.indices, strict=True)
    ):
        assert np.array_equal(after, before if client != 2 else [])


def test_public_client_out_of_range_or_beside_a_public_part():
    for wrong in ({"public_client": 7}, {"public_client": 0, "public_count": 3}):
        with pytest.raises(UsageError, match="--public-client"):
            split(TOY, chosen("iid", 7, **wrong), rng())


@pytest.mark.parametrize("scheme", sorted(SCHEMES.keys() - {"file", "domains"}))
def test_schemes_by_class_need_labels(scheme):
    data = replace(TOY, labels=None)
    mixed = {"concentration": 1.0}
    needed = {"classes": {"classes_per_client": 1}, "dirichlet": mixed}
    needed["dirichlet-client"] = mixed
    options = chosen(scheme, 2, **needed.get(scheme, {}))
    if scheme in ("iid", "volume"):
        assert len(split(data, options, rng()).indices) == 2
    else:
        with pytest.raises(UsageError, match="has no labels"):
            split(data, options, rng())


@pytest.mark.parametrize(
    "scheme, needed",
    [
        ("dirichlet", "--concentration"),
        ("dirichlet-client", "--concentration"),
        ("classes", "--classes-per-client"),
        ("file", "--split-file"),
    ],
)
def test_an_option_without_a_default_is_needed(scheme, needed):
    with pytest.raises(UsageError, match=f"--scheme {scheme} needs {needed}"):
        split(TOY, chosen(scheme), rng())


def test_a_new_scheme_is_one_function_and_one_entry(monkeypatch):
    place, own = "tests.data.partitions.toy:every_nth", (Option("first", Whole(0), 1),)
    monkeypatch.setitem(SCHEMES, "nth", Scheme("nth", "every n-th", place, own))
    parts = split(TOY, chosen("nth", 400), rng()).indices
    assert parts[0].tolist() == [1, 401, 801]
    assert split(TOY, chosen("nth", 2, first=1001), rng()).indices[0].tolist() == [1001]


def test_label_histogram_matches_loops():
    parts = split(TOY, DISJOINT["dirichlet"], rng()).indices
    counts = label_histogram(parts, TOY.labels, 10)
    for client, part in enumerate(parts):
        for c in range(10):
            assert counts[client, c] == sum(TOY.labels[i] == c for i in part)
    assert label_histogram(parts, None, 10).shape == (6, 0)
