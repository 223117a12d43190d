import math

import pytest
import torch

from furlkit.errors import InputError
from furlkit.evaluation import drift
from furlkit.evaluation.drift import (
    alignment,
    cka_matrix,
    false_negative_ratio,
    false_negative_weight,
    uniformity,
    uniformity_between,
)


def linear_cka(x, y):
    return cka_matrix([x, y])[0][1]


def gaussian(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


def rotation(d):
    return torch.linalg.qr(gaussian(d, d, 7))[0]


def units(x):
    return [[v / math.hypot(*row) for v in row] for row in x.tolist()]


def square(u, v):
    return sum((a - b) ** 2 for a, b in zip(u, v, strict=True))


def cosine(u, v):
    return sum(a * b for a, b in zip(u, v, strict=True))


def test_alignment_and_uniformity_match_loops():
    x, y = gaussian(12, 5), gaussian(12, 5, 1)
    pairs = zip(units(x), units(y), strict=True)
    expected = sum(square(u, v) for u, v in pairs) / 12
    assert alignment(x, y) == pytest.approx(expected, rel=1e-12)
    u = units(x)
    others = [(i, j) for i in range(12) for j in range(12) if i != j]
    mean = sum(math.exp(-2 * square(u[i], u[j])) for i, j in others) / len(others)
    assert uniformity(x) == pytest.approx(math.log(mean), rel=1e-12)


def test_uniformity_between_models_matches_loops(monkeypatch):
    x, y = gaussian(12, 5), gaussian(12, 5, 1)
    u, v = units(x), units(y)
    others = [(i, j) for i in range(12) for j in range(12) if i != j]
    mean = sum(math.exp(-2 * square(u[i], v[j])) for i, j in others) / len(others)
    assert uniformity_between(x, y) == pytest.approx(math.log(mean), rel=1e-12)
    assert uniformity_between(y, x) == pytest.approx(math.log(mean), rel=1e-12)
    monkeypatch.setattr(drift, "BLOCK", 36)  # Blocks of three rows.
    assert uniformity_between(x, y) == pytest.approx(math.log(mean), rel=1e-12)


def test_uniformity_between_equal_and_opposite_models():
    x = gaussian(12, 5)
    assert uniformity_between(x, x) == pytest.approx(uniformity(x))
    same = gaussian(1, 5).expand(6, 5)
    assert uniformity_between(same, -same) == pytest.approx(-8)


def test_false_negative_weight_matches_loops():
    x, labels, tau = gaussian(12, 5), torch.arange(12) % 3, 0.2
    u, shares = units(x), []
    for i in range(12):
        weights = {j: math.exp(cosine(u[i], u[j]) / tau) for j in range(12) if j != i}
        same = sum(w for j, w in weights.items() if labels[j] == labels[i])
        shares.append(same / sum(weights.values()))
    found = false_negative_weight(x, labels, tau)
    assert found == pytest.approx(sum(shares) / 12, rel=1e-12)


@pytest.mark.parametrize("d, e", [(3, 4), (3, 30), (30, 3), (40, 30), (10, 10)])
def test_cka_matches_loops_over_kernels(d, e):
    """<K, L> / (|K| |L|) of the centred kernels, for d below and above n."""
    x, y = gaussian(10, d), gaussian(10, e, 1)
    y[:, 0] += x[:, 0]

    def kernel(rows):
        means = [sum(column) / 10 for column in zip(*rows, strict=True)]
        rows = [[v - m for v, m in zip(row, means, strict=True)] for row in rows]
        return [[cosine(a, b) for b in rows] for a in rows]

    def product(k, m):
        return sum(k[i][j] * m[i][j] for i in range(10) for j in range(10))

    k, m = kernel(x.tolist()), kernel(y.tolist())
    expected = product(k, m) / math.sqrt(product(k, k) * product(m, m))
    assert linear_cka(x, y) == pytest.approx(expected, rel=1e-10)


def test_values_by_hand():
    x = torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])
    y = torch.tensor([[1.0, 0.0], [0.0, -1.0], [0.0, 5.0]])
    assert alignment(x, y) == pytest.approx((0 + 4 + 2) / 3)
    # Squared distances 2, 4, 2.
    expected = math.log((2 * math.exp(-4) + math.exp(-8)) / 3)
    assert uniformity(x) == pytest.approx(expected, rel=1e-5)
    # The first two are of one class: 1 / (1 + e^-2), 1 / 2, and no false negative.
    labels = torch.tensor([4, 4, 1])
    expected = (1 / (1 + math.exp(-2)) + 1 / 2) / 3
    assert false_negative_weight(x, labels) == pytest.approx(expected, rel=1e-5)
    assert false_negative_ratio(labels) == 2 / 6
    # Centred, x is 1, 0, -1 and y is 1, -2, 1: they have nothing in common.
    x, y = torch.tensor([[3.0], [2.0], [1.0]]), torch.tensor([[2.0], [-1.0], [2.0]])
    assert linear_cka(x, y) == pytest.approx(0, abs=1e-12)
    # Centred, y is 2, -1, -1 thirds: r = sqrt(3) / 2.
    y = torch.tensor([[1.0], [0.0], [0.0]])
    assert linear_cka(x, y) == pytest.approx(0.75)


def test_identical_points_are_aligned_and_not_uniform():
    x = gaussian(1, 9).expand(50, 9) * torch.linspace(0.1, 5, 50)[:, None]
    assert alignment(x, 3 * x) == pytest.approx(0, abs=1e-12)
    assert uniformity(x) == pytest.approx(0, abs=1e-12)
    assert uniformity(x.float()) == pytest.approx(0, abs=1e-5)


def test_opposite_views_have_the_largest_distance():
    x = gaussian(8, 4)
    assert alignment(x, -x) == pytest.approx(4)


def test_uniform_points_in_many_dimensions_approach_the_limit():
    assert uniformity(gaussian(1000, 512)) == pytest.approx(-4, abs=0.02)
    assert uniformity(gaussian(1000, 512), t=1) == pytest.approx(-2, abs=0.02)


@pytest.mark.parametrize("n", [2, 10, 100])
def test_false_negatives_of_two_equal_classes(n):
    labels = torch.arange(n) % 2
    expected = (n / 2 - 1) / (n - 1)
    assert false_negative_ratio(labels) == pytest.approx(expected)
    equal = torch.ones(n, 3)
    assert false_negative_weight(equal, labels) == pytest.approx(expected, abs=1e-6)


def test_a_model_that_separates_the_classes_has_the_largest_weight():
    labels = torch.arange(20) % 2
    x = torch.eye(2)[labels]
    ratio = false_negative_ratio(labels)
    weights = [false_negative_weight(x, labels, tau) for tau in (100, 0.5, 0.01, 1e-6)]
    assert weights[0] == pytest.approx(ratio, abs=0.01)
    assert weights == sorted(weights) and weights[-1] == pytest.approx(1)
    other = false_negative_weight(x, torch.arange(20) // 2 % 2, 0.01)
    assert other < ratio


@pytest.mark.parametrize("n", [5, 40])
def test_cka_is_invariant_to_rotation_and_scale(n):
    x, y = gaussian(n, 12), gaussian(n, 12, 1)
    turn, expected = rotation(12), linear_cka(x, y)
    assert linear_cka(x, x @ turn) == pytest.approx(1)
    assert linear_cka(x, -7 * x + 3) == pytest.approx(1)
    assert linear_cka(x @ turn, y) == pytest.approx(expected)
    assert linear_cka(x, y @ turn) == pytest.approx(expected)
    assert linear_cka(y, x) == pytest.approx(expected, rel=1e-12)
    assert 0 < expected < 0.95


def test_rotations_and_lengths_change_nothing_else():
    x, y, labels = gaussian(20, 6), gaussian(20, 6, 1), torch.arange(20) % 4
    turn, lengths = rotation(6), torch.linspace(0.1, 9, 20)[:, None]
    u, v = lengths * x @ turn, y @ turn
    assert alignment(u, v) == pytest.approx(alignment(x, y))
    assert uniformity(u) == pytest.approx(uniformity(x))
    expected = false_negative_weight(x, labels)
    assert false_negative_weight(u, labels) == pytest.approx(expected)


def test_the_matrix_has_the_cka_of_all_pairs():
    features = [gaussian(15, 4), gaussian(15, 30, 1), gaussian(15, 9, 2)]
    found = cka_matrix(features)
    assert [found[i][i] for i in range(3)] == [1, 1, 1]
    for i, x in enumerate(features):
        assert found[i] == pytest.approx([linear_cka(x, y) for y in features])
        assert [row[i] for row in found] == found[i]


def test_a_constant_has_no_cka():
    constant = torch.full((9, 4), 0.1) * torch.tensor([1.0, 3.0, 7.0, 9.0])
    assert cka_matrix([constant, gaussian(9, 4)]) == [[None, None], [None, 1]]
    assert linear_cka(torch.zeros(9, 20), gaussian(9, 3)) is None


@pytest.mark.parametrize("block", [1, 13, 40, 41 * 7])
def test_blocks_do_not_change_the_result(monkeypatch, block):
    x, labels = gaussian(40, 6), torch.arange(40) % 7
    expected = uniformity(x), false_negative_weight(x, labels)
    monkeypatch.setattr(drift, "BLOCK", block)
    found = uniformity(x), false_negative_weight(x, labels)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: alignment(x, x[:3]), "(4, 3) and (3, 3)"),
        (lambda x: uniformity(x[:1]), "found 1 rows"),
        (lambda x: uniformity(x * math.nan), "NaN"),
        (lambda x: false_negative_weight(x, torch.zeros(3)), "4 rows"),
        (lambda x: false_negative_ratio(torch.zeros(1)), "labels: found 1"),
        (lambda x: linear_cka(x, x[:3]), "4, 3 rows"),
    ],
)
def test_features_that_do_not_fit(call, message):
    with pytest.raises(InputError) as caught:
        call(gaussian(4, 3))
    assert message in str(caught.value)
