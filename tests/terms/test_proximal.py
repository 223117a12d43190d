import pytest
import torch

from furlkit.terms.proximal import proximal_term


def weights(seed):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(3, 2), (4,), ()]
    return [torch.randn(shape, generator=generator) for shape in shapes]


def test_matches_loops():
    w, w_g = weights(0), weights(1)
    total = 0.0
    for a, b in zip(w, w_g, strict=True):
        for x, y in zip(a.flatten().tolist(), b.flatten().tolist(), strict=True):
            total += (x - y) ** 2
    assert proximal_term(w, w_g, 0.3).item() == pytest.approx(0.15 * total, rel=1e-5)


def test_value_by_hand_has_the_half():
    w, w_g = (
        [torch.tensor([3.0, 0.0]), torch.tensor(1.0)],
        [torch.zeros(2), torch.zeros(())],
    )
    assert proximal_term(w, w_g, 0.1).item() == pytest.approx(0.5)


def test_gradient_is_mu_times_the_distance_and_leaves_the_server_alone():
    w = [a.requires_grad_() for a in weights(0)]
    w_g = [b.requires_grad_() for b in weights(1)]
    proximal_term(w, w_g, 0.3).backward()
    for a, b in zip(w, w_g, strict=True):
        torch.testing.assert_close(a.grad, 0.3 * (a - b).detach())
        assert b.grad is None


def test_is_zero_at_the_global_model_and_without_mu():
    assert proximal_term(weights(0), weights(0), 0.3).item() == 0
    assert proximal_term(weights(0), weights(1), 0.0).item() == 0


def test_shapes_are_never_broadcast_and_no_parameter_is_dropped():
    with pytest.raises(ValueError, match="64"):
        proximal_term([torch.zeros(64)], [torch.zeros(1)], 0.3)
    with pytest.raises(ValueError, match="shorter"):
        proximal_term(weights(0), weights(1)[:2], 0.3)
