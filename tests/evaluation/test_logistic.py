import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from furlkit.errors import InputError
from furlkit.evaluation import logistic
from furlkit.evaluation.logistic import choose_logistic, fit_path, held_out
from furlkit.evaluation.scores import accuracy


def digits():
    """Features of the digits' pixels: 64 columns, some of them constant."""
    found = load_digits()
    x = torch.from_numpy(found.data).float()
    x = torch.cat([x, x[:, 20:40].sqrt() * 100 + 3], dim=1)
    return x, torch.from_numpy(found.target)


@pytest.mark.parametrize("l2", [1.0, 1e-2, 1e-4])
def test_fit_is_that_of_scikit_learn(l2):
    x, y = digits()
    train, test = (x[:1200], y[:1200]), (x[1200:], y[1200:])
    fit = fit_path(*train, 10, [l2])[-1]
    scaler = StandardScaler().fit(train[0].double())
    theirs = LogisticRegression(C=1 / (l2 * 1200), tol=1e-8, max_iter=10000)
    theirs.fit(scaler.transform(train[0].double()), train[1])
    constant = (train[0] == train[0][0]).all(dim=0).numpy()
    assert constant.sum() > 2
    np.testing.assert_allclose(
        fit.weight[:, ~constant], theirs.coef_[:, ~constant], rtol=1e-2, atol=2e-3
    )
    predicted = torch.from_numpy(theirs.predict(scaler.transform(test[0].double())))
    assert accuracy(fit.predict(test[0]), test[1]) == pytest.approx(
        accuracy(predicted, test[1]), abs=1e-3
    )


def test_loss_and_gradient_match_autograd():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    w = torch.randn(3, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 2, 2, 1, 0, 0, 1, 2])
    expected = F.cross_entropy(x @ w[:, :4].T + w[:, 4], y)
    expected = expected + 0.3 / 2 * w[:, :4].square().sum()
    expected.backward()
    loss, gradient = logistic._loss(w.detach(), x, y, 0.3)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(gradient, w.grad)


def test_two_points_by_hand():
    """x = +-1: w of both classes is +-a with l2 a = p, p = 1 / (1 + exp(2 a))."""
    fit = fit_path(torch.tensor([[3.0], [7.0]]), torch.tensor([0, 1]), 2, [0.1])[0]
    a = float(fit.weight[1, 0])
    assert float(fit.weight[0, 0]) == pytest.approx(-a)
    assert 0.1 * a == pytest.approx(1 / (1 + math.exp(2 * a)) / 1, rel=1e-4)
    assert fit.bias.abs().max() < 1e-5
    assert (float(fit.mean), float(fit.std)) == (5, 2)


def test_scale_and_offset_of_features_do_not_matter():
    """Nor does float32 spoil a feature whose offset is large."""
    x, y = (part[::3] for part in digits())
    factors = 2.0 ** (torch.arange(x.shape[1]) % 9 - 4)
    one, other = fit_path(x, y, 10, [1e-3])[0], fit_path(x * factors, y, 10, [1e-3])[0]
    torch.testing.assert_close(one.weight, other.weight, rtol=1e-3, atol=1e-5)
    assert torch.equal(one.predict(x), other.predict(x * factors))


def test_a_fit_does_not_depend_on_where_it_started():
    x, y = (part[::3] for part in digits())
    path, direct = (
        fit_path(x, y, 10, [1, 1e-2, 1e-4])[-1],
        fit_path(x, y, 10, [1e-4])[0],
    )
    torch.testing.assert_close(path.weight, direct.weight, rtol=1e-2, atol=1e-2)
    assert torch.equal(path.predict(x), direct.predict(x))


def test_every_fifth_row_of_each_class_is_held_out():
    labels = torch.tensor([1, 0, 1, 1, 0, 1, 1, 0, 1, 0, 0, 2])
    assert held_out(labels).nonzero().flatten().tolist() == [6, 10]
    with pytest.raises(InputError, match="--solver gradient"):
        held_out(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]))


def test_the_penalty_with_the_least_loss_on_rows_held_out_is_chosen():
    x, y = digits()
    x, y = x[:400] + 40 * torch.rand(400, 84, generator=torch.manual_seed(0)), y[:400]
    fit, facts = choose_logistic(x, y, 10)
    held = held_out(y)
    assert facts["held_out_examples"] == int(held.sum())
    assert [each["l2"] for each in facts["l2_range"]] == list(logistic.L2)
    for each in facts["l2_range"]:
        own = fit_path(x[~held], y[~held], 10, [each["l2"]])[0]
        loss = F.cross_entropy(own.logits(x[held]), y[held]).item()
        assert each["loss"] == pytest.approx(loss, rel=3e-2)
        expected = accuracy(own.predict(x[held]), y[held])
        assert each["accuracy"] == pytest.approx(expected, abs=0.03)
    losses = [each["loss"] for each in facts["l2_range"]]
    assert facts["l2"] == logistic.L2[losses.index(min(losses))]
    assert facts["l2"] not in (logistic.L2[0], logistic.L2[-1])
    whole = fit_path(x, y, 10, [facts["l2"]])[0]
    torch.testing.assert_close(fit.weight, whole.weight, rtol=1e-2, atol=1e-3)


def test_rounding_of_the_features_changes_no_class():
    """Machines round a network's output differently, by about 1e-6 of its size."""
    x, y = digits()
    rounded = x * (1 + 1e-6 * torch.rand(x.shape, generator=torch.manual_seed(0)))
    one, facts = choose_logistic(x[:400], y[:400], 10)
    other, again = choose_logistic(rounded[:400], y[:400], 10)
    assert facts["l2"] == again["l2"]
    assert torch.equal(one.predict(x[400:]), other.predict(rounded[400:]))


def test_broken_features_are_refused():
    x, y = digits()
    with pytest.raises(InputError, match="NaN"):
        choose_logistic(x * math.nan, y, 10)
