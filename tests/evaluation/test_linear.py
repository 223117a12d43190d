import math
from itertools import islice

import pytest
import torch
import torch.nn.functional as F

from furlkit.errors import FurlkitError, InputError
from furlkit.evaluation.linear import (
    LinearSettings,
    draw_orders,
    draw_start,
    fit_linear,
    predict_linear,
    train_heads,
)

SGD = LinearSettings("sgd", lr=0.5, weight_decay=1e-2, momentum=0.9, epochs=4)
ADAM = LinearSettings("adam", lr=1e-2, weight_decay=1e-2, epochs=4)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def fit_one(features, labels, classes, settings, generator):
    """The only head of a single generator."""
    (head,) = fit_linear(features, labels, classes, settings, [generator])
    return head


def problem(rows=50, d=6, classes=3):
    """Separable with a margin: labels are the largest of three directions."""
    features = torch.randn(rows, d, generator=seeded(9))
    labels = features[:, :classes].argmax(dim=1)
    features[torch.arange(rows), labels] += 1
    return features, labels


def with_torch(features, labels, settings, seed):
    """The same training by autograd and torch.optim."""
    generator = seeded(seed)
    d, classes = features.shape[1], 3
    draw = (2 * torch.rand(classes * (d + 1), generator=generator) - 1) / math.sqrt(d)
    weight = draw[: classes * d].view(classes, d).clone().requires_grad_()
    bias = draw[classes * d :].clone().requires_grad_()
    common = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    if settings.optimiser == "adam":
        optimiser = torch.optim.Adam([weight, bias], **common)
    else:
        optimiser = torch.optim.SGD([weight, bias], momentum=0.9, **common)
    milestones = list(settings.milestones)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, milestones)
    for _ in range(settings.epochs):
        order = torch.randperm(len(labels), generator=generator)
        for start in range(0, len(labels), settings.batch_size):
            rows = order[start : start + settings.batch_size]
            optimiser.zero_grad()
            logits = F.linear(features[rows], weight, bias)
            F.cross_entropy(logits, labels[rows]).backward()
            optimiser.step()
        schedule.step()
    return weight.detach(), bias.detach()


@pytest.mark.parametrize("base", [SGD, ADAM])
@pytest.mark.parametrize("batch_size", [512, 8])
@pytest.mark.parametrize("milestones", [(), (1, 3)])
def test_matches_autograd_and_torch_optim(base, batch_size, milestones):
    options = {"batch_size": batch_size, "milestones": milestones}
    settings = LinearSettings(**{**vars(base), **options})
    features, labels = problem()
    weight, bias = fit_one(features, labels, 3, settings, seeded())
    expected = with_torch(features, labels, settings, 0)
    torch.testing.assert_close((weight, bias), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("base", [SGD, ADAM])
@pytest.mark.parametrize("epochs", [1, 3, 25])
def test_five_heads_in_one_pass_are_those_of_five_runs(base, epochs):
    """Head p starts a tenth of the epochs, rounded up, after the one before it."""
    more = {"batch_size": 16, "epochs": epochs, "milestones": (2, 11)}
    settings = LinearSettings(**{**vars(base), **more})
    features, labels = problem()
    together = fit_linear(features, labels, 3, settings, [*map(seeded, range(5))])
    assert len({head.weight.sum().item() for head in together}) == 5
    stream = seeded(0)
    starts = [draw_start(6, 3, seeded(p) if p else stream) for p in range(5)]
    orders = list(islice(draw_orders(len(labels), stream), 5 * 25))
    for p, head in enumerate(together):
        own = iter(orders[p * math.ceil(epochs / 10) :])
        (alone,) = train_heads(features, labels, settings, starts[p][None], own)
        torch.testing.assert_close(head, alone, rtol=1e-4, atol=1e-5)


def test_the_first_head_does_not_depend_on_the_others():
    features, labels = problem()
    one = fit_one(features, labels, 3, ADAM, seeded(4))
    five = fit_linear(features, labels, 3, ADAM, [seeded(4), *map(seeded, range(4))])
    torch.testing.assert_close(five[0], one, rtol=1e-4, atol=1e-5)


def test_one_step_by_hand():
    settings = LinearSettings("sgd", lr=2.0, weight_decay=0, epochs=1)
    features, labels = torch.tensor([[4.0]]), torch.tensor([1])
    start = fit_one(features, labels, 2, LinearSettings(epochs=0), seeded())
    weight, bias = fit_one(features, labels, 2, settings, seeded())
    logits = 4 * start[0][:, 0] + start[1]
    p = 1 / (1 + math.exp(float(logits[1] - logits[0])))
    error = torch.tensor([p, -p])
    torch.testing.assert_close(weight[:, 0], start[0][:, 0] - 2 * 4 * error)
    torch.testing.assert_close(bias, start[1] - 2 * error)


@pytest.mark.parametrize("settings", [SGD, LinearSettings(lr=0.05)])
def test_separates_a_separable_set(settings):
    features, labels = problem(rows=300)
    head = fit_one(features, labels, 3, settings, seeded())
    assert (predict_linear(features, *head) == labels).float().mean() > 0.97


def test_same_seed_same_head_and_another_seed_another():
    features, labels = problem()
    before = torch.get_rng_state()
    first = fit_one(features, labels, 3, ADAM, seeded(1))
    again = fit_one(features, labels, 3, ADAM, seeded(1))
    other = fit_one(features, labels, 3, ADAM, seeded(2))
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_last_partial_batch_is_trained_on():
    features, labels = torch.eye(3), torch.tensor([0, 1, 2])
    settings = LinearSettings("sgd", lr=1.0, weight_decay=0, epochs=1, batch_size=2)
    start = fit_one(features, labels, 3, LinearSettings(epochs=0), seeded())
    weight, _ = fit_one(features, labels, 3, settings, seeded())
    assert (weight != start[0]).any(dim=0).all()


def test_initial_weights_are_uniform_within_the_bound():
    features, labels = torch.zeros(3, 400), torch.tensor([0, 1, 2])
    weight, bias = fit_one(features, labels, 3, LinearSettings(epochs=0), seeded())
    assert 0.99 / 20 < weight.abs().max() <= 1 / 20
    assert weight.mean().abs() < 0.004
    assert bias.abs().max() <= 1 / 20


def test_prediction_is_the_largest_logit():
    weight, bias = torch.tensor([[1.0], [-1.0]]), torch.tensor([0.0, 0.5])
    features = torch.tensor([[1.0], [0.0], [-1.0], [0.3]])
    assert predict_linear(features, weight, bias).tolist() == [0, 1, 1, 0]


def test_default_settings_are_fedcas():
    s = LinearSettings()
    assert (s.optimiser, s.lr, s.weight_decay) == ("adam", 1e-3, 1e-6)
    assert (s.epochs, s.batch_size, s.milestones) == (100, 512, ())


def test_learning_rate_falls_at_the_milestones():
    s = LinearSettings("sgd", lr=30.0, milestones=(60, 80))
    rates = [s.lr_at(epoch) for epoch in (0, 59, 60, 79, 80, 99)]
    assert rates == pytest.approx([30, 30, 3, 3, 0.3, 0.3])


def test_broken_input_and_divergence_are_refused():
    features, labels = problem()
    with pytest.raises(InputError, match="expected 0 to 1"):
        fit_one(features, labels, 2, ADAM, seeded())
    with pytest.raises(InputError, match="50 rows .* 49 labels"):
        fit_one(features, labels[1:], 3, ADAM, seeded())
    with pytest.raises(InputError, match="NaN"):
        fit_one(features * math.nan, labels, 3, ADAM, seeded())
    wild = LinearSettings("sgd", lr=1e30, weight_decay=1e30, epochs=9)
    with pytest.raises(FurlkitError, match="diverged"):
        fit_one(features, labels, 3, wild, seeded())
