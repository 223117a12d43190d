"""MOON's model contrast: loops, properties, known values; the frozen nets."""

import math

import pytest
import torch

from furlkit.models.architecture import Architecture, build
from furlkit.models.loading import tensors_of
from furlkit.objectives.learner import Forward
from furlkit.terms.moon import model_contrast, moon
from tests.helpers import epoch_losses, furlkit

HOW = {"moon": 1.0, "moon_temperature": 0.5}


def rows(n, d, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64)


def cosine(a, b):
    lengths = [sum(x * x for x in v) ** 0.5 for v in (a, b)]
    return sum(x * y for x, y in zip(a, b, strict=True)) / (lengths[0] * lengths[1])


# --- Eq. 3 ----------------------------------------------------------------------------


def test_the_contrast_matches_loops():
    z, z_glob, z_prev = (rows(5, 3, seed) for seed in range(3))
    tau, total = 0.3, 0.0
    for n in range(5):
        near = math.exp(cosine(z[n].tolist(), z_glob[n].tolist()) / tau)
        far = math.exp(cosine(z[n].tolist(), z_prev[n].tolist()) / tau)
        total -= math.log(near / (near + far))
    found = float(model_contrast(z, z_glob, z_prev, tau))
    assert found == pytest.approx(total / 5)


def test_the_contrast_is_a_cross_entropy_of_two_logits():
    z, z_glob, z_prev = (rows(6, 4, seed) for seed in range(3))
    pairs = (torch.cosine_similarity(z, other, dim=1) for other in (z_glob, z_prev))
    logits = torch.stack([*pairs], dim=1) / 0.5
    expected = torch.nn.functional.cross_entropy(logits, torch.zeros(6).long())
    torch.testing.assert_close(model_contrast(z, z_glob, z_prev, 0.5), expected)


def test_known_values():
    z = torch.eye(2)
    assert float(model_contrast(z, z, z, 0.5)) == pytest.approx(math.log(2))
    # Near the global net, opposite to the last net: log(1 + exp(-2 / tau)).
    found = float(model_contrast(z, 3 * z, -z, 0.5))
    assert found == pytest.approx(math.log1p(math.exp(-4)))
    assert float(model_contrast(z, -z, z, 0.5)) == pytest.approx(4 + found)


def test_lengths_of_rows_do_not_matter():
    z, z_glob, z_prev = (rows(5, 3, seed) for seed in range(3))
    one = model_contrast(z, z_glob, z_prev, 0.5)
    torch.testing.assert_close(model_contrast(4 * z, 2 * z_glob, z_prev, 0.5), one)


def test_a_small_temperature_stays_finite_and_a_step_moves_to_the_global_rows():
    z = rows(5, 3).float().requires_grad_()
    z_glob, z_prev = rows(5, 3, 1).float(), rows(5, 3, 2).float()
    assert model_contrast(z, z_glob, z_prev, 1e-4).isfinite()
    model_contrast(z, z_glob, z_prev, 0.5).backward()
    moved = z.detach() - 0.01 * z.grad
    before = torch.cosine_similarity(z, z_glob, dim=1).mean()
    assert torch.cosine_similarity(moved, z_glob, dim=1).mean() > before


def test_no_gradient_reaches_the_frozen_rows():
    z, z_glob, z_prev = (rows(4, 3, seed).requires_grad_() for seed in range(3))
    model_contrast(z, z_glob, z_prev, 0.5).backward()
    assert z.grad.abs().sum() > 0 and z_glob.grad is None and z_prev.grad is None


# --- the term -------------------------------------------------------------------------


@pytest.fixture
def net():
    architecture = Architecture("cnn5", 8, 1, 0.02, heads={"projector": (8, 4)})
    return build(architecture, torch.Generator().manual_seed(0)).train()


def weights(net, factor=1.0):
    return {
        k: v * factor if k.endswith("fc.weight") else v.copy()
        for k, v in tensors_of(net).items()
    }


def forward_of(net):
    x = torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    h = net.encoder(x)
    return Forward({}, x, h, net.projector(h))


def test_equal_frozen_nets_give_log_2(net):
    given = {"received": weights(net), "last": weights(net)}
    loss = moon(net, given, **HOW)(None, forward_of(net))
    assert loss.item() == pytest.approx(math.log(2), abs=1e-6)


def test_the_received_net_is_near_and_the_last_net_is_far(net):
    """Both weights are read: exchanging them turns the sign of the logit."""
    same, other = weights(net), weights(net, -1.0)
    forward = forward_of(net.eval())
    good = moon(net, {"received": same, "last": other}, **HOW)(None, forward).item()
    bad = moon(net, {"received": other, "last": same}, **HOW)(None, forward).item()
    assert good < math.log(2) < bad


def test_the_frozen_nets_do_not_follow_the_net(net):
    given = {"received": weights(net), "last": weights(net, -1.0)}
    term, forward = moon(net, given, **HOW), forward_of(net.eval())
    first = term(None, forward).item()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(-1)
    assert term(None, forward).item() == pytest.approx(first)
    assert term(None, forward_of(net)).item() != pytest.approx(first)


def test_the_term_trains_encoder_and_projector(net):
    given = {"received": weights(net), "last": weights(net, -1.0)}
    moon(net, given, **HOW)(None, forward_of(net)).backward()
    assert all(p.grad is not None for p in net.parameters())


def test_no_term_without_a_weight_or_without_a_net_of_the_last_round(net):
    given = {"received": weights(net), "last": {}}
    assert moon(net, given, **HOW) is None
    assert moon(net, given, moon=0.0, moon_temperature=0.5) is None
    encoder = {k: v for k, v in weights(net).items() if k.startswith("encoder.")}
    assert moon(net, {**given, "last": encoder}, **HOW) is None


# --- two rounds -----------------------------------------------------------------------


def test_the_term_starts_in_the_second_round(exchanged, tmp_path, monkeypatch):
    monkeypatch.chdir(exchanged)
    train = ("local-train", "p", "--data", "d.npz", "--client", 0, "--epochs", 1)
    kept = ("--moon", 1, "--private-out", tmp_path / "k1")
    assert furlkit(*train, "g0", *kept, "-o", tmp_path / "c1") == 0
    assert all("moon" not in losses for losses in epoch_losses(tmp_path / "c1"))
    second = (
        "--moon",
        1,
        "--private",
        tmp_path / "k1",
        "--private-out",
        tmp_path / "k",
    )
    assert furlkit(*train, "g1", *second, "-o", tmp_path / "c2") == 0
    (losses,) = epoch_losses(tmp_path / "c2")
    assert 0 < losses["moon"] < 4.2  # At most log(1 + exp(2 / tau)).
