import math

import pytest
import torch

from furlkit.objectives.simclr import (
    contrastive_loss,
    normalise,
    nt_xent,
    oneway_logits,
    same_view_logits,
)


def views(n=6, d=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, d, generator=generator, dtype=torch.float64)


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def oneway_in_loops(z_i, z_j, tau):
    total = 0.0
    for n, row in enumerate(z_i):
        terms = [math.exp(cosine(row, other) / tau) for other in z_j]
        total -= math.log(terms[n] / sum(terms))
    return total / len(z_i)


def full_in_loops(z_1, z_2, tau):
    everything, n, total = z_1 + z_2, len(z_1), 0.0
    for a, row in enumerate(everything):
        others = [b for b in range(2 * n) if b != a]
        terms = {b: math.exp(cosine(row, everything[b]) / tau) for b in others}
        total -= math.log(terms[(a + n) % (2 * n)] / sum(terms.values()))
    return total / (2 * n)


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
def test_every_form_matches_loops(tau):
    z_1, z_2 = views()
    a, b = z_1.tolist(), z_2.tolist()
    there, back = oneway_in_loops(a, b, tau), oneway_in_loops(b, a, tau)
    full = full_in_loops(a, b, tau)
    assert nt_xent(z_1, z_2, tau, "oneway").item() == pytest.approx(there)
    assert nt_xent(z_1, z_2, tau, "symmetric").item() == pytest.approx(
        (there + back) / 2
    )
    assert nt_xent(z_1, z_2, tau, "full").item() == pytest.approx(full)


def test_two_orthogonal_pairs_by_hand():
    z = torch.tensor([[2.0, 0.0], [0.0, 0.5]])
    e = math.e
    assert nt_xent(z, z, 1.0, "oneway").item() == pytest.approx(math.log(1 + 1 / e))
    assert nt_xent(z, z, 1.0, "symmetric").item() == pytest.approx(math.log(1 + 1 / e))
    assert nt_xent(z, z, 1.0, "full").item() == pytest.approx(math.log(1 + 2 / e))


@pytest.mark.parametrize(
    ("form", "candidates"), [("oneway", 6), ("symmetric", 6), ("full", 11)]
)
def test_collapsed_projections_cost_the_log_of_the_candidates(form, candidates):
    z = torch.ones(6, 3)
    assert nt_xent(z, z, 0.5, form).item() == pytest.approx(math.log(candidates))


def test_symmetric_and_full_do_not_care_which_view_is_first():
    z_1, z_2 = views()
    for form in ("symmetric", "full"):
        there, back = nt_xent(z_1, z_2, 0.5, form), nt_xent(z_2, z_1, 0.5, form)
        torch.testing.assert_close(there, back)
    there, back = nt_xent(z_1, z_2, 0.5), nt_xent(z_2, z_1, 0.5)
    assert abs(there - back) > 1e-3


@pytest.mark.parametrize("form", ["oneway", "symmetric", "full"])
def test_order_of_images_and_length_of_rows_change_nothing(form):
    z_1, z_2 = views()
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    lengths = torch.tensor([[0.1], [3.0], [1.0], [7.0], [0.5], [2.0]])
    changed = nt_xent(z_1[order] * lengths, z_2[order], 0.5, form)
    torch.testing.assert_close(changed, nt_xent(z_1, z_2, 0.5, form))


@pytest.mark.parametrize("form", ["oneway", "symmetric", "full"])
def test_gradient_is_right_and_finite(form):
    z_1, z_2 = (z.requires_grad_() for z in views(n=4, d=3))
    assert torch.autograd.gradcheck(lambda a, b: nt_xent(a, b, 0.5, form), (z_1, z_2))


def test_further_columns_are_further_negatives():
    z_1, z_2 = (normalise(z) for z in views())
    dictionary = normalise(views(n=3, seed=1)[0])
    batch, shared = oneway_logits(z_1, z_2), z_1 @ dictionary.T
    loss = contrastive_loss(torch.cat([batch, shared], dim=1), 0.5)
    everything = torch.cat([z_2, dictionary]).tolist()
    assert loss.item() == pytest.approx(oneway_in_loops(z_1.tolist(), everything, 0.5))
    assert loss > contrastive_loss(batch, 0.5)


def remote_in_loops(z_i, z_j, rows, tau):
    total = 0.0
    for view, other in zip(z_i, z_j, strict=True):
        positive = math.exp(cosine(view, other) / tau)
        negatives = sum(math.exp(cosine(view, row) / tau) for row in rows)
        total -= math.log(positive / (positive + negatives))
    return total / len(z_i)


def test_remote_negatives_alone_match_loops():
    """FCL Eq. 3 without Q_l; the forms differ only in whether both views are queries."""
    (z_1, z_2), rows = views(), views(n=9, seed=1)[0]
    given = z_1.tolist(), z_2.tolist(), rows.tolist(), 0.5
    there = remote_in_loops(*given)
    back = remote_in_loops(given[1], given[0], *given[2:])
    for form, expected in (("oneway", there), ("symmetric", (there + back) / 2),
                           ("full", (there + back) / 2)):  # fmt: skip
        found = nt_xent(z_1, z_2, 0.5, form, rows, remote_only=True)
        assert found.item() == pytest.approx(expected)


def test_remote_negatives_by_hand():
    """A view and its partner coincide; of two rows one does too, one is orthogonal."""
    z, rows = torch.tensor([[2.0, 0.0]]), torch.tensor([[5.0, 0.0], [0.0, 1.0]])
    found = nt_xent(z, z, 1.0, "oneway", rows, remote_only=True)
    assert found.item() == pytest.approx(math.log(2 + 1 / math.e))


@pytest.mark.parametrize("form", ["oneway", "symmetric", "full"])
def test_without_rows_of_others_remote_negatives_are_local_to_the_bit(form):
    z_1, z_2 = views()
    assert torch.equal(
        nt_xent(z_1, z_2, 0.5, form, None, remote_only=True),
        nt_xent(z_1, z_2, 0.5, form),
    )


def test_same_view_logits_leave_out_the_diagonal_only():
    z = normalise(views()[0])
    logits = same_view_logits(z)
    assert logits.diagonal().eq(float("-inf")).all()
    torch.testing.assert_close(logits.exp(), (z @ z.T).exp() * (1 - torch.eye(6)))


def test_unknown_form_is_refused():
    with pytest.raises(ValueError, match="form 'both'"):
        nt_xent(*views(), 0.5, "both")
