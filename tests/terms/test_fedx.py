"""FedX's three losses: loops, properties, known values."""

import math

import pytest
import torch

from furlkit.models.architecture import Architecture, build
from furlkit.models.loading import tensors_of
from furlkit.objectives.learner import Forward
from furlkit.terms.fedx import fedx, global_contrast, relational_loss

HOW = {"fedx_temperature": 0.1, "fedx_target_temperature": 0.1}


def rows(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).double()


def cosine(a, b):
    lengths = [sum(x * x for x in v) ** 0.5 for v in (a, b)]
    return sum(x * y for x, y in zip(a, b, strict=True)) / (lengths[0] * lengths[1])


def softmax(values):
    total = sum(math.exp(v) for v in values)
    return [math.exp(v) / total for v in values]


def test_the_global_contrast_matches_loops():
    p, g, tau = rows(4, 3), rows(4, 3, 1), 0.2
    every, total = [*p.tolist(), *g.tolist()], 0.0
    for i, row in enumerate(every):
        partner = (i + 4) % 8
        scores = {j: cosine(row, every[j]) / tau for j in range(8) if j != i}
        log_sum = math.log(sum(math.exp(s) for s in scores.values()))
        total += log_sum - scores[partner]
    assert float(global_contrast(p, g, tau)) == pytest.approx(total / 8)


def test_the_relational_loss_matches_loops():
    x_1, x_2, a = (rows(4, 3, seed) for seed in range(3))
    tau, tau_t, total = 0.3, 0.2, 0.0
    for n in range(4):
        others = [m for m in range(4) if m != n]
        found = [
            [cosine(x[n].tolist(), a[m].tolist()) for m in others] for x in (x_1, x_2)
        ]
        r_1, r_2 = (softmax([c / tau for c in row]) for row in found)
        sharp = [softmax([c / tau_t for c in row]) for row in found]
        r = [(p + q) / 2 for p, q in zip(*sharp, strict=True)]
        for student in (r_1, r_2):
            pairs = zip(r, student, strict=True)
            total += sum(p * math.log(p / q) for p, q in pairs) / 2
    loss = relational_loss(x_1, x_2, a, tau, tau_t)
    assert float(loss) == pytest.approx(total / 4)


def test_known_values():
    x = torch.eye(2)
    # Each row: the partner has the cosine 1, the two others 0.
    assert float(global_contrast(x, x, 1.0)) == pytest.approx(math.log(math.e + 2) - 1)
    # Two images: the other image is the only anchor, and every relation is 1.
    assert (
        float(relational_loss(rows(2, 3), rows(2, 3, 1), rows(2, 3, 2), 0.1, 0.1)) == 0
    )


def test_equal_views_have_equal_relations_and_lengths_do_not_matter():
    x, a = rows(5, 3), rows(5, 3, 1)
    assert float(relational_loss(x, x, a, 0.1, 0.1)) == pytest.approx(0, abs=1e-12)
    y = rows(5, 3, 2)
    one, other = (
        relational_loss(x, y, a, 0.1, 0.1),
        relational_loss(3 * x, y, 7 * a, 0.1, 0.1),
    )
    torch.testing.assert_close(one, other)


def test_gradients_of_sharp_relations_are_finite():
    x_1, x_2 = rows(6, 3).float().requires_grad_(), rows(6, 3, 1).float()
    relational_loss(x_1, x_2, x_1, 0.01, 0.001).backward()
    assert x_1.grad.isfinite().all()


def test_no_gradient_reaches_the_global_rows():
    p, g = rows(4, 3).requires_grad_(), rows(4, 3, 1).requires_grad_()
    global_contrast(p, g, 0.1).backward()
    assert g.grad is None and p.grad.abs().sum() > 0


@pytest.fixture
def net():
    heads = {"projector": (8, 4), "predictor": (8, 4)}
    architecture = Architecture("cnn5", 8, 1, 0.02, heads=heads)
    return build(architecture, torch.Generator().manual_seed(0)).train()


def forward_of(net, x):
    h = net.encoder(x)
    return Forward({}, x, h, net.projector(h))


def test_the_global_net_is_the_received_model_and_stays_frozen(net):
    received = {k: v.copy() for k, v in tensors_of(net).items()}
    term = fedx(net, {"received": received}, fedx=1.0, **HOW)
    x = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    before = forward_of(net.eval(), x)
    first = term(None, before).item()
    with torch.no_grad():
        for parameter in net.encoder.parameters():
            parameter.mul_(-1)
    # The pass of the old weights gives the old loss: the frozen net did not follow.
    assert term(None, before).item() == pytest.approx(first)
    assert term(None, forward_of(net, x)).item() != pytest.approx(first)


def test_the_term_trains_encoder_projector_and_predictor(net):
    received = tensors_of(net)
    term = fedx(net, {"received": received}, fedx=0.5, **HOW)
    x = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    term(None, forward_of(net, x)).backward()
    assert all(p.grad is not None for p in net.parameters())


def test_without_a_weight_there_is_no_term(net):
    assert fedx(net, {}, fedx=0.0, **HOW) is None
