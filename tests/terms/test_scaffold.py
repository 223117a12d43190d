import numpy as np
import pytest
import torch
from torch import nn

from furlkit.terms.scaffold import correction, next_control, scaffold


def drawn(*shape, requires_grad=False):
    rng = torch.Generator().manual_seed(sum(shape) + requires_grad)
    return torch.randn(*shape, generator=rng, requires_grad=requires_grad)


def test_the_gradient_of_the_correction_is_c_minus_c_k():
    y = [drawn(3, 2, requires_grad=True), drawn(4, requires_grad=True)]
    difference = [drawn(3, 2), drawn(4)]
    correction(y, difference).backward()
    for weight, expected in zip(y, difference, strict=True):
        assert torch.equal(weight.grad, expected)


def test_the_correction_matches_loops():
    y, difference = drawn(4, 3, 2).double()[:2]
    total = sum(
        float(y[i, j]) * float(difference[i, j]) for i in range(3) for j in range(2)
    )
    found = correction([y[:1], y[1:]], [difference[:1], difference[1:]])
    assert float(found) == pytest.approx(total, rel=1e-12)


def test_a_control_variate_by_hand():
    c_k, c, x, y = (np.float32([v]) for v in (0.5, 0.25, 3.0, 1.0))
    # (3 - 1) / 0.4 = 5; 0.5 - 0.25 + 5
    assert next_control(c_k, c, x, y, 0.4).tolist() == [5.25]


def test_corrected_steps_on_a_line_give_the_mean_gradient_as_control_variate():
    """Loops: plain SGD on a (y - 1)^2 / 2 with c - c_k added to each gradient."""
    c_k, c, x, a, eta = 0.2, -0.3, 2.0, 0.7, 0.1
    y, gradients = x, []
    for _ in range(5):
        gradients.append(a * (y - 1))
        y -= eta * (gradients[-1] - c_k + c)
    numbers = (np.float64([v]) for v in (c_k, c, x, y))
    found = next_control(*numbers, 5 * eta)
    assert found[0] == pytest.approx(sum(gradients) / 5, rel=1e-6)


def test_without_the_switch_there_is_no_term():
    assert scaffold(nn.Linear(2, 1), {}, scaffold=False) is None
