import math

import numpy as np
import pytest
import torch

from furlkit.aggregators import similarity
from furlkit.aggregators.dictionary import unit_rows
from furlkit.aggregators.similarity import sharpened, trimmed_ensemble


def clients(*widths, n=7, seed=0):
    rng = np.random.default_rng(seed)
    return [unit_rows(rng.standard_normal((n, d))) for d in widths]


def ensemble(parts, tau):
    return similarity.ensemble(sharpened(R @ R.T, tau) for R in parts)


def in_loops(parts, tau):
    """Eq. 4-6 as they are written."""
    n = len(parts[0])
    M = [[0.0] * n for _ in range(n)]
    for R in parts:
        for i in range(n):
            for j in range(n):
                M_k_ij = sum(a * b for a, b in zip(R[i], R[j], strict=True))
                M[i][j] += math.exp(M_k_ij / tau) / len(parts)
    return np.array(M)


@pytest.mark.parametrize("tau", [0.07, 0.1, 1.0])
def test_equations_4_to_6_in_loops_up_to_a_factor(tau):
    parts = clients(3, 5, 4)
    found, expected = ensemble(parts, tau), in_loops(parts, tau)
    np.testing.assert_allclose(found, expected * math.exp(-1 / tau), rtol=1e-9)
    rows = found / found.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        rows, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9
    )


def test_two_images_and_two_clients_by_hand():
    """One finds them alike, one at right angles; tau_T = 0.5."""
    alike, apart = np.array([[1.0], [1.0]]), np.eye(2)
    across = (1 + math.exp(-2)) / 2
    expected = [[1, across], [across, 1]]
    np.testing.assert_allclose(ensemble([alike, apart], 0.5), expected, rtol=1e-12)


def test_rotating_the_rows_of_a_client_changes_nothing():
    parts = clients(4, 6)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    assert not np.allclose(parts[1] @ turn, parts[1])
    np.testing.assert_allclose(
        ensemble([parts[0], parts[1] @ turn], 0.1), ensemble(parts, 0.1), rtol=1e-9
    )


def test_more_dimensions_of_the_same_arrangement_change_nothing():
    parts = clients(4, 6)
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((20, 6)))[0].T
    wider = [parts[0], parts[1] @ basis]
    assert wider[1].shape == (7, 20)
    np.testing.assert_allclose(ensemble(wider, 0.1), ensemble(parts, 0.1), rtol=1e-9)


def test_every_client_counts_alike_and_their_order_only_for_rounding():
    parts = clients(3, 5, 4)
    np.testing.assert_allclose(
        ensemble(parts[::-1], 0.1), ensemble(parts, 0.1), rtol=1e-12
    )
    np.testing.assert_allclose(ensemble(parts * 2, 0.1), ensemble(parts, 0.1))
    assert ensemble(parts[:1], 0.1).tolist() == sharpened(parts[0] @ parts[0].T, 0.1).tolist()  # fmt: skip


def test_trimmed_numbers_by_hand():
    stack = np.array([[9.0, 1.0], [2.0, 5.0], [4.0, 3.0], [1.0, 3.0]])
    for given in (stack, torch.from_numpy(stack)):
        assert trimmed_ensemble(given, 0.25).tolist() == [3, 3]
        assert trimmed_ensemble(given, 0.49).tolist() == [3, 3]
        assert trimmed_ensemble(given, 0).tolist() == [4, 3]
        assert trimmed_ensemble(given[:3], 0.49).tolist() == [4, 3]
        # 0.2 of 4 clients: 0.8 of the weight of each end is cut, 1.6 of 4 in all.
        assert trimmed_ensemble(given, 0.2).tolist()[0] == pytest.approx(8 / 2.4)


@pytest.mark.parametrize("trim", [0.0, 0.2, 0.3, 0.49])
def test_a_trimmed_ensemble_in_loops(trim):
    stack = np.random.default_rng(0).random((10, 3, 4))
    expected = np.empty((3, 4))
    for i in range(3):
        for j in range(4):
            total = weight = 0.0
            for place, value in enumerate(sorted(stack[:, i, j])):
                low, high = max(place / 10, trim), min((place + 1) / 10, 1 - trim)
                total, weight = (
                    total + value * max(high - low, 0),
                    weight + max(high - low, 0),
                )
            expected[i, j] = total / weight
    np.testing.assert_allclose(trimmed_ensemble(stack, trim), expected, rtol=1e-9)


def test_two_liars_of_ten_stay_within_the_honest_numbers():
    stack = np.random.default_rng(0).random((10, 50))
    stack[3], stack[8] = 1e9, 1e9
    found, honest = trimmed_ensemble(stack, 0.2), np.delete(stack, [3, 8], axis=0)
    assert (found >= honest.min(axis=0)).all() and (found <= honest.max(axis=0)).all()


def test_smaller_temperatures_look_at_nearer_neighbours():
    (R,) = clients(3)
    shares = []
    for tau in (1.0, 0.3, 0.1, 0.03):
        M = ensemble([R], tau)
        shares.append((M.diagonal() / M.sum(axis=1)).min())
    assert shares == sorted(shares) and shares[0] < 0.3 < 0.9 < shares[-1]


def test_no_temperature_overflows():
    for kind in (np.array, torch.tensor):
        found = sharpened(kind([1.0, 0.0, -1.0], dtype=(np if kind is np.array else torch).float32), 1e-3)  # fmt: skip
        assert found.tolist() == [1, 0, 0]


def test_what_was_not_sent_counts_nothing():
    for cosines in (np.array([1, -np.inf]), torch.tensor([1, -torch.inf])):
        assert sharpened(cosines, 0.1).tolist() == [1, 0]


def test_arrays_and_tensors_agree_and_what_is_given_stays():
    cosines = np.linspace(-1, 1, 9)
    tensor = torch.from_numpy(cosines.copy())
    np.testing.assert_allclose(sharpened(tensor, 0.1).numpy(), sharpened(cosines, 0.1))
    assert tensor.tolist() == cosines.tolist() == np.linspace(-1, 1, 9).tolist()


def test_an_ensemble_of_nobody():
    with pytest.raises(ValueError, match="no models"):
        similarity.ensemble([])
