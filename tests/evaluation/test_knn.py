import math

import pytest
import torch

from furlkit.errors import InputError
from furlkit.evaluation import knn
from furlkit.evaluation.knn import nearest_others, predict_knn


def gaussian(rows, d=4, seed=0):
    return torch.randn(rows, d, generator=torch.Generator().manual_seed(seed))


def in_loops(train, labels, test, classes, k, t):
    def unit(row):
        length = math.sqrt(sum(v * v for v in row))
        return [v / length for v in row]

    train = [unit(row) for row in train.tolist()]
    predictions = []
    for row in map(unit, test.tolist()):
        cosines = [sum(a * b for a, b in zip(row, r, strict=True)) for r in train]
        nearest = sorted(range(len(train)), key=lambda i: -cosines[i])[:k]
        votes = [0.0] * classes
        for i in nearest:
            votes[labels[i]] += math.exp(cosines[i] / t)
        predictions.append(votes.index(max(votes)))
    return predictions


@pytest.mark.parametrize(("k", "t"), [(1, 0.1), (7, 0.1), (40, 0.5), (40, 10.0)])
def test_matches_loops(k, t):
    train, test = gaussian(40), gaussian(30, seed=1)
    labels = torch.arange(40) % 3
    expected = in_loops(train, labels.tolist(), test, 3, k, t)
    assert predict_knn(train, labels, test, 3, k, t).tolist() == expected


def test_two_distant_clusters_are_separated():
    centres = torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0]])
    labels, truth = torch.arange(60) % 2, torch.arange(20) % 2
    train = centres[labels] + 0.05 * gaussian(60)
    test = centres[truth] + 0.05 * gaussian(20, seed=1)
    assert torch.equal(predict_knn(train, labels, test, 2), truth)


def test_near_votes_outweigh_many_far_ones_only_at_low_temperature():
    train = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.6, 0.8]])
    labels, query = torch.tensor([1, 0, 0]), torch.tensor([[1.0, 0.0]])
    assert predict_knn(train, labels, query, 2, t=0.1).item() == 1
    assert predict_knn(train, labels, query, 2, t=1.0).item() == 0


def test_tiny_temperature_does_not_overflow():
    train, test = gaussian(40), gaussian(30, seed=1)
    labels = torch.arange(40) % 3
    nearest = predict_knn(train, labels, test, 3, k=1)
    assert torch.equal(predict_knn(train, labels, test, 3, t=1e-5), nearest)


def test_length_of_features_and_size_of_blocks_change_nothing(monkeypatch):
    train, test = gaussian(40), gaussian(30, seed=1)
    labels = torch.arange(40) % 3
    whole = predict_knn(train, labels, test, 3, k=9)
    lengths = torch.arange(1.0, 41.0)[:, None]
    assert torch.equal(predict_knn(train * lengths, labels, test, 3, k=9), whole)
    for block in (1, 7 * 40):
        monkeypatch.setattr(knn, "BLOCK", block)
        assert torch.equal(predict_knn(train, labels, test, 3, k=9), whole)


def test_nearest_others_match_loops_whatever_the_size_of_blocks(monkeypatch):
    rows, n = gaussian(23).double(), 23
    unit = [[v / math.dist(row, [0] * 4) for v in row] for row in rows.tolist()]
    expected = []
    for i in range(n):
        cosines = [sum(a * b for a, b in zip(unit[i], u, strict=True)) for u in unit]
        others = [j for j in range(n) if j != i]
        expected.append(sorted(others, key=lambda j: -cosines[j])[:5])
    for block in (knn.BLOCK, 7 * n, 1):
        monkeypatch.setattr(knn, "BLOCK", block)
        assert nearest_others(rows, 5).tolist() == expected


def test_a_twin_is_a_neighbour_and_oneself_never_is():
    rows = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    assert nearest_others(rows, 1).tolist() == [[1], [0], [3], [2]]
    # There are no more neighbours than other rows.
    every = nearest_others(rows, 20)
    assert [sorted(own) for own in every.tolist()] == [
        [1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2],
    ]  # fmt: skip
    with pytest.raises(InputError, match="NaN"):
        nearest_others(rows * math.inf, 1)


def test_broken_input_is_refused():
    train, labels = gaussian(4), torch.tensor([0, 1, 2, 0])
    with pytest.raises(InputError, match="0 to 2, expected 0 to 1"):
        predict_knn(train, labels, train, 2)
    with pytest.raises(InputError, match="4 rows .* 3 labels"):
        predict_knn(train, labels[:3], train, 3)
    with pytest.raises(InputError, match="NaN"):
        predict_knn(train, labels, train * math.nan, 3)
