import numpy as np
import pytest

from furlkit.aggregators.dictionary import (
    average_features,
    rows_to_share,
    unit_rows,
)


def rounds(t=4, n=5, d=3):
    """The outputs of a client's model for its images, round after round."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((t, n, d)).astype(np.float32)


def averaged(z, alpha):
    Z = np.zeros_like(z[0])
    for of_round in z:
        Z = average_features(Z, of_round, alpha)
    return Z


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
def test_averaged_features_match_loops(alpha):
    """Eq. 9, number by number."""
    z = rounds()
    found, (t, n, d) = averaged(z, alpha), z.shape
    for i in range(n):
        for j in range(d):
            Z = 0.0
            for r in range(t):
                Z = alpha * Z + (1 - alpha) * float(z[r, i, j])
            assert found[i, j] == pytest.approx(Z, rel=1e-5, abs=1e-6)
    assert found.dtype == np.float32


def test_three_rounds_by_hand():
    z = np.array([[[8.0]], [[4.0]], [[2.0]]], np.float32)
    # 4, then 2 + 2, then 2 + 1
    assert averaged(z[:1], 0.5) == 4 and averaged(z[:2], 0.5) == 4
    assert averaged(z, 0.5) == 3


def test_alpha_0_is_the_last_round_itself():
    z = rounds()
    assert averaged(z, 0).tobytes() == z[-1].tobytes()


def test_a_model_that_does_not_change_keeps_the_direction_of_its_rows():
    z = np.repeat(rounds(t=1), 5, axis=0)
    np.testing.assert_allclose(averaged(z, 0.7), z[0] * (1 - 0.7**5), rtol=1e-5)
    np.testing.assert_allclose(
        unit_rows(averaged(z, 0.7)), unit_rows(z[0]), rtol=1e-4, atol=1e-6
    )


def test_other_images_are_refused():
    z = rounds()[0]
    with pytest.raises(ValueError, match=r"\(1, 3\) .*\(5, 3\)"):
        average_features(z[:1], z, 0.5)


def test_unit_rows_match_loops_and_have_length_1():
    Z = rounds()[0]
    found = unit_rows(Z)
    for row, expected in zip(found.tolist(), Z.tolist(), strict=True):
        length = sum(x * x for x in expected) ** 0.5
        assert row == pytest.approx([x / length for x in expected], rel=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    assert found.dtype == Z.dtype


def test_a_unit_row_by_hand():
    assert unit_rows(np.array([[3.0, -4.0]])).tolist() == [[0.6, -0.8]]


@pytest.mark.parametrize("t", [1, 2, 10])
def test_the_correction_of_the_start_cancels(t):
    """Eq. 10 with Z / (1 - alpha^t) and without."""
    alpha, Z = 0.5, averaged(rounds(t=t), 0.5)
    corrected = unit_rows((Z / (1 - alpha**t)).astype(np.float32))
    np.testing.assert_allclose(corrected, unit_rows(Z), rtol=1e-6)


def test_the_length_of_a_row_does_not_matter():
    Z, lengths = rounds()[0], np.array([[1e-8], [1e8], [3], [0.1], [1]], np.float32)
    np.testing.assert_allclose(unit_rows(Z * lengths), unit_rows(Z), rtol=1e-5)


def test_a_row_of_zeros_stays_one():
    Z = np.array([[0.0, 0.0], [0.0, 2.0]], np.float32)
    assert unit_rows(Z).tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    "size, participants, each",
    [(1024, 5, 205), (1024, 4, 256), (10, 3, 4), (1, 7, 1), (8, 1, 8)],
)
def test_everyone_gives_an_equal_share_rounded_up(size, participants, each):
    assert rows_to_share(size, participants) == each
    assert each * participants >= size > (each - 1) * participants
