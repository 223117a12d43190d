from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from furlkit import catalogue
from furlkit.aggregators.dictionary import average_features, shared_rows
from furlkit.errors import InputError, UsageError
from furlkit.exchanges.dictionary import (
    INDEX,
    ROWS,
    open_dictionary,
    rows_of_others,
)
from furlkit.exchanges.sharing import Sharing
from furlkit.files.checkpoint import Checkpoint, CheckpointFacts
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, Features, write_features
from furlkit.files.private import Private, PrivateFacts
from furlkit.inputs.kept import kept_rows
from furlkit.inputs.settings import fill

OWNERS = [[0, 2], [2, 1], [5, 0], [7, 3]]
FACTS = FeatureFacts("z", {}, "dictionary", round=2, examples=6, owners=OWNERS)
PROVENANCE = Provenance("aggregate")


def averaged_features(private, index, width):
    return kept_rows(private, "averaged_features", index, width)


def numbered(n=6, d=2):
    return np.arange(n * d, dtype=np.float32).reshape(n, d)


def in_memory(facts=FACTS, rows=None):
    rows = numbered() if rows is None else rows
    return Features("d", facts, "a" * 64, rows, np.arange(len(rows)))


def kept(rows, index):
    memory = {ROWS: rows, INDEX: np.asarray(index, np.int64)}
    return Private("p", PrivateFacts(0, 1, [], []), "a" * 64, {}, memory)


SHARING = {
    option.key: option.default for option in catalogue.EXCHANGES["dictionary"].options
}


@pytest.fixture
def write(tmp_path):
    """Write a dictionary file; returns its path."""

    def to(rows=None, **facts):
        rows = numbered() if rows is None else rows
        path = tmp_path / "d"
        write_features(
            path, rows, np.arange(len(rows)), replace(FACTS, **facts), PROVENANCE
        )
        return path

    return to


def test_defaults_are_those_of_the_paper():
    sharing = fill(Sharing, SHARING)
    assert sharing.alpha == 0.5 and sharing.rows(5) == 205


def test_rows_are_shared_among_those_who_take_part():
    given = {"dictionary_size": 100, "participants": 3}
    sharing = fill(Sharing, {**SHARING, **given})
    assert sharing.rows(10) == 34
    assert replace(sharing, participants=None).rows(10) == 10


def model(round_, parent=None):
    facts = CheckpointFacts("global", round_, {}, [], [], parent=parent)
    return Checkpoint(Path("g"), facts, "", {}, None)


def test_a_dictionary_is_read(write):
    found = open_dictionary(write(), 2, model(2))
    assert found.rows.tolist() == numbered().tolist() and found.facts == FACTS


def test_an_older_one_and_one_of_no_round_are_accepted(write):
    assert open_dictionary(write(), 2, model(9)).facts.round == 2
    assert open_dictionary(write(round=None), 2, model(0)).facts.round is None


def test_one_of_the_same_round_must_be_of_the_same_run(write):
    assert open_dictionary(write(parent="a"), 2, model(2, "a")).facts.parent == "a"
    with pytest.raises(InputError, match="d: .*another run"):
        open_dictionary(write(parent="a"), 2, model(2, "b"))
    assert open_dictionary(write(parent="a"), 2, model(3, "b")).facts.round == 2


@pytest.mark.parametrize(
    "facts, width, message",
    [
        ({"layer": "h"}, 2, "d: holds h"),
        ({}, 3, "d: .*2 numbers"),
        ({"round": 3}, 2, "d: .*round 3"),
        ({"owners": [[0, 5]]}, 2, "d: .*6 rows"),
        ({"owners": [[0, 7], [1, -1]]}, 2, "d: .*owners"),
        ({"owners": [[-1, 6]]}, 2, "d: .*owners"),
        ({"owners": [[0, 6, 0]]}, 2, "d: .*owners"),
        ({"owners": [[]]}, 2, "d: .*owners"),
        ({"owners": [["0", 6]]}, 2, "d: .*'0'"),
        ({"owners": [[0, 6.0]]}, 2, "d: .*'owners'"),
    ],
)
def test_dictionaries_that_do_not_fit(write, facts, width, message):
    with pytest.raises(InputError, match=message):
        open_dictionary(write(**facts), width, model(2))


@pytest.mark.parametrize(
    "client, left",
    [(0, [2, 3, 4, 5]), (2, [0, 1, 3, 4, 5]), (7, [0, 1, 2]), (5, [*range(6)]), (1, [*range(6)])],
)  # fmt: skip
def test_exactly_the_own_rows_are_left_out(client, left):
    found = rows_of_others(in_memory(), client)
    assert found.tolist() == numbered()[left].tolist()


def test_a_dictionary_of_one_client_leaves_it_nothing():
    alone = in_memory(replace(FACTS, owners=[[4, 6]]))
    assert rows_of_others(alone, 4).shape == (0, 2)
    assert rows_of_others(alone, 0).shape == (6, 2)


def test_an_empty_dictionary_has_no_rows_of_anyone():
    empty = in_memory(replace(FACTS, owners=[]), numbered(0))
    assert rows_of_others(empty, 0).shape == (0, 2)


def test_own_rows_cannot_be_found_where_owners_are_unknown():
    with pytest.raises(UsageError, match="--leave-own-out: d .* --named"):
        rows_of_others(in_memory(replace(FACTS, owners=None)), 0)


def test_averaged_features_start_at_0():
    index = np.array([4, 2])
    assert averaged_features(None, index, 3).tolist() == [[0, 0, 0], [0, 0, 0]]
    tensors = {"bn.mean": numbered()}
    statistics = Private("p", PrivateFacts(0, 1, [], []), "a" * 64, tensors, {})
    assert averaged_features(statistics, index, 3).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_averaged_features_are_found_by_the_images_place_in_the_dataset():
    private = kept(numbered(3), [40, 7, 12])
    found = averaged_features(private, np.array([12, 99, 40]), 2)
    assert found.tolist() == [[4, 5], [0, 0], [0, 1]]


def test_features_are_averaged_by_image():
    """Eq. 9 for known images; a new image starts from 0, a removed one is dropped."""
    private = kept(np.array([[8.0], [4.0]], np.float32), [3, 9])
    z = np.array([[2.0], [6.0]], np.float32)
    Z = averaged_features(private, np.array([9, 5]), 1)
    expected = [[0.25 * 4 + 0.75 * 2], [0.75 * 6]]
    assert average_features(Z, z, 0.25).tolist() == expected
    assert average_features(Z, z, 0).tolist() == z.tolist()


@pytest.mark.parametrize(
    "rows, index",
    [
        (numbered(3, 4), [1, 2, 3]),  # another width
        (numbered(3), [1, 2]),  # a row too many
        (numbered(3).ravel(), [1, 2, 3]),
        (numbered(3), [[1], [2], [3]]),
    ],
)
def test_averaged_features_of_another_model_are_refused(rows, index):
    with pytest.raises(InputError, match="p: .*2 numbers"):
        averaged_features(kept(rows, index), np.array([1, 2]), 2)


def test_averaged_features_without_an_index_are_refused():
    private = kept(numbered(3), [1, 2, 3])
    del private.memory[INDEX]
    with pytest.raises(InputError, match="p: .*2 numbers"):
        averaged_features(private, np.array([1]), 2)


def test_shared_rows_are_different_rows_of_Z_of_length_1():
    Z = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32) * 9
    shared = shared_rows(Z, 8, np.random.default_rng(1))
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    places = np.abs(unit[:, None] - shared).sum(axis=2).argmin(axis=0)
    assert shared.shape == (8, 3) and len(set(places.tolist())) == 8
    np.testing.assert_allclose(shared, unit[places], rtol=1e-6)


def test_a_client_with_few_images_shares_all_of_them():
    Z = numbered(3) + 1
    shared = shared_rows(Z, 8, np.random.default_rng(1))
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    np.testing.assert_allclose(sorted(shared.tolist()), sorted(unit.tolist()))


def test_what_is_shared_depends_on_the_draw():
    Z = numbered(200) + 1
    first, again, other = (
        shared_rows(Z, 5, np.random.default_rng(seed)).tolist() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_rows_of_zeros_are_not_shared():
    Z = np.array([[0, 0], [3, 4], [0, 0]], np.float32)
    rows = shared_rows(Z, 3, np.random.default_rng(0))
    assert rows.tolist() == pytest.approx(np.array([[0.6, 0.8]]))
