import math

import numpy as np
import pytest
import torch
from matplotlib.cbook import boxplot_stats

from furlkit.errors import InputError
from furlkit.evaluation import angles as module
from furlkit.evaluation.angles import angles, box


def gaussian(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def rotation(d):
    return torch.linalg.qr(gaussian(d, d, 7).double())[0]


def test_angles_by_hand():
    a = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0], [1.0, 0.0], [1.0, 0.0]])
    b = torch.tensor([[1.0, 1.0], [5.0, 0.0], [0.0, -9.0], [0.0, 7.0], [-1.0, 3**0.5]])
    found = angles(a, b)
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx([45, 0, 180, 90, 120], abs=1e-6)


def test_angles_match_loops():
    a, b = gaussian(20, 6), gaussian(20, 6, 1)
    expected = []
    for u, v in zip(a.tolist(), b.tolist(), strict=True):
        product = sum(x * y for x, y in zip(u, v, strict=True))
        lengths = math.hypot(*u) * math.hypot(*v)
        expected.append(math.degrees(math.acos(product / lengths)))
    assert angles(a, b).tolist() == pytest.approx(expected, abs=1e-9)


def test_equal_rows_give_zero_and_opposite_ones_180_exactly():
    a = gaussian(500, 128)
    assert angles(a, a.clone()).abs().max() == 0
    assert (angles(a, -a) == 180).all()


@pytest.mark.parametrize("degrees", [1e-9, 1e-6, 1e-3, 180 - 1e-6])
def test_tiny_angles_keep_their_digits(degrees):
    turn = math.radians(degrees)
    b = torch.tensor([[math.cos(turn), math.sin(turn)]], dtype=torch.float64)
    found = float(angles(torch.tensor([[1.0, 0.0]]).double(), b))
    assert min(found, 180 - found) == pytest.approx(min(degrees, 180 - degrees), 1e-6)


def test_rotating_both_models_and_scaling_rows_change_nothing():
    a, b = gaussian(30, 8).double(), gaussian(30, 8, 1).double()
    expected = angles(a, b).tolist()
    turn, lengths = rotation(8), torch.linspace(0.1, 9, 30)[:, None].double()
    assert angles(a @ turn, b @ turn).tolist() == pytest.approx(expected, abs=1e-9)
    assert angles(a * lengths, b).tolist() == pytest.approx(expected, abs=1e-9)
    assert angles(a @ turn, b).tolist() != pytest.approx(expected, abs=1)


def test_the_order_of_the_models_changes_no_bit():
    a, b = gaussian(50, 16), gaussian(50, 16, 1)
    assert torch.equal(angles(a, b), angles(b, a))


def test_blocks_do_not_change_the_result(monkeypatch):
    a, b = gaussian(50, 16), gaussian(50, 16, 1)
    whole = angles(a, b)
    monkeypatch.setattr(module, "BLOCK", 16 * 7)
    assert angles(a, b).tolist() == pytest.approx(whole.tolist(), rel=1e-12)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda b: b[:3], "(4, 3) and (3, 3)"),
        (lambda b: b[:, :2], "(4, 3) and (4, 2)"),
        (lambda b: b * torch.tensor([1, 1, 0, 1])[:, None], "zeros"),
        (lambda b: b * math.nan, "NaN"),
    ],
)
def test_rows_that_have_no_angle(change, message):
    with pytest.raises(InputError) as caught:
        angles(gaussian(4, 3), change(gaussian(4, 3, 1)))
    assert message in str(caught.value)


def test_box_by_hand():
    """Quartiles 3.25, 5.5, 7.75: whiskers reach to -3.5 and 14.5, and 30 is beyond."""
    found = box(np.array([4, 30, 9, 1, 2, 3, 6, 7, 8, 5]))
    assert found == {
        "mean": 7.5,
        "std": pytest.approx(math.sqrt(62.25)),
        "min": 1,
        "max": 30,
        "quartiles": [3.25, 5.5, 7.75],
        "whiskers": [1, 9],
        "fliers": 0.1,
    }


@pytest.mark.parametrize("values", [[5.0], [0, 10, 10, 10], [1, 2], [0, 0, 0, 0, 9]])
def test_box_of_few_values_equals_matplotlibs(values):
    check_box(np.array(values))


@pytest.mark.parametrize("n", [7, 100, 1001])
def test_box_of_many_values_equals_matplotlibs(n):
    check_box(np.random.default_rng(n).lognormal(2, 1, n))


def check_box(values):
    found, (drawn,) = box(values), boxplot_stats(values)
    assert found["quartiles"] == pytest.approx([drawn["q1"], drawn["med"], drawn["q3"]])
    assert found["whiskers"] == pytest.approx([drawn["whislo"], drawn["whishi"]])
    assert found["fliers"] == pytest.approx(len(drawn["fliers"]) / len(values))
    assert found["mean"] == pytest.approx(drawn["mean"])


def test_the_order_of_values_changes_no_bit_of_their_box():
    values = np.random.default_rng(0).normal(20, 5, 1000)
    assert box(values) == box(values[::-1]) == box(np.roll(values, 123))
