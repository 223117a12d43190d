import numpy as np
import pytest

from furlkit.evaluation.negatives import by_equations, measured

EXCLUSIVE = np.kron(np.eye(5, dtype=int), [[50, 50]])  # 5 clients of 2 classes each


@pytest.mark.parametrize("ratios", [measured, by_equations])
def test_five_clients_of_two_exclusive_classes_by_hand(ratios):
    assert ratios(EXCLUSIVE, 64, 64) == pytest.approx((0.5, 0.1, 0.0))


@pytest.mark.parametrize("ratios", [measured, by_equations])
def test_clients_that_are_alike_gain_nothing(ratios):
    """The paper's third case: with IID data R is 1/m, with or without remote rows."""
    same = np.full((4, 10), 30)
    assert ratios(same, 64, 64) == pytest.approx((0.1, 0.1, 0.1))


def test_equations_in_loops():
    """Eq. 4 and 5 for every image, as printed, with one m and one |Q| for all clients."""
    histogram = np.array([[10, 10, 0, 0], [0, 10, 10, 0], [10, 0, 0, 10]])
    held, m, Q = histogram > 0, 2, 7
    local, fused, remote = [], [], []
    for c, counts in enumerate(histogram):
        for y, count in enumerate(counts):
            others = [i for i in range(3) if i != c]
            I = sum(bool(held[i, y]) for i in others)  # noqa: E741
            R = (Q / m + I * Q / m) / (Q + Q * len(others))
            local += [1 / m] * count
            fused += [R] * count
            remote += [I / m / len(others)] * count
    expected = [np.mean(ratios) for ratios in (local, fused, remote)]
    assert by_equations(histogram, Q, Q) == pytest.approx(expected)
    # The classes of a client are equal in number, so that the equations are exact.
    assert measured(histogram, Q, Q) == pytest.approx(expected)


def test_the_measure_is_the_mean_over_pairs_of_image_and_row():
    """Counted pair by pair, for clients that all have 8 images and share all of them."""
    histogram = np.array([[6, 2, 0], [1, 4, 3], [0, 2, 6]])
    labels = [np.repeat(np.arange(3), counts) for counts in histogram]
    local, fused, remote = [], [], []
    for c, own in enumerate(labels):
        others = np.concatenate([labels[i] for i in range(3) if i != c])
        for y in own:
            local.append(np.mean(own == y))
            fused.append(np.mean(np.concatenate([own, others]) == y))
            remote.append(np.mean(others == y))
    expected = [np.mean(ratios) for ratios in (local, fused, remote)]
    assert measured(histogram, 8, 8) == pytest.approx(expected)
    assert by_equations(histogram, 8, 8) != pytest.approx(expected)


def test_a_smaller_bank_leaves_more_false_negatives():
    ratios = [measured(EXCLUSIVE, 64, shared).fused for shared in (1, 16, 64, 100)]
    assert ratios == sorted(ratios, reverse=True) and ratios[0] > 0.4
    assert measured(EXCLUSIVE, 64, 1000).fused == ratios[-1]  # Each has 100 images.


def test_a_client_alone_has_no_remote_negatives():
    assert measured(np.array([[5, 5]]), 8, 8) == pytest.approx((0.5, 0.5, None))
    assert by_equations(np.array([[5, 5], [0, 0]]), 8, 8).remote is None
