"""FedCA's dictionary: further negatives in every form of NT-Xent."""

import math
from types import SimpleNamespace

import pytest
import torch

from furlkit.objectives.simclr import (
    contrastive_loss,
    dictionary_logits,
    normalise,
    nt_xent,
    oneway_logits,
    own_row_loss,
    step,
)
from tests.objectives.tiny import rows

FORMS = ("oneway", "symmetric", "full")
N, K, D = 6, 4, 5


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def in_loops(z_1, z_2, z_dict, tau, form):
    """Each row's share of its positive among the candidates, and the dictionary."""

    def against(mine, others, own):
        total = 0.0
        for n, row in enumerate(mine):
            candidates = [*others, *z_dict]
            if own:
                candidates += [other for m, other in enumerate(mine) if m != n]
            terms = [math.exp(cosine(row, c) / tau) for c in candidates]
            total -= math.log(terms[n] / sum(terms))
        return total / len(mine)

    there, back = (against(*pair, form == "full") for pair in ((z_1, z_2), (z_2, z_1)))
    return there if form == "oneway" else (there + back) / 2


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_with_a_dictionary_matches_loops(form, tau):
    (z_1, z_2), z_dict = rows(2, N, D), rows(K, D, seed=1)
    expected = in_loops(z_1.tolist(), z_2.tolist(), z_dict.tolist(), tau, form)
    assert nt_xent(z_1, z_2, tau, form, z_dict).item() == pytest.approx(expected)


def test_logits_are_the_batch_and_then_the_dictionary():
    """Eq. 4 to 6: N x (N + K), and Eq. 7 to 8 on them."""
    (z_1, z_2), z_dict = rows(2, N, D), rows(K, D, seed=1)
    shared = dictionary_logits(normalise(z_1), z_dict)
    assert shared.shape == (N, K)
    for n in range(N):
        for k in range(K):
            expected = cosine(z_1[n].tolist(), z_dict[k].tolist())
            assert shared[n, k].item() == pytest.approx(expected)
    batch = oneway_logits(normalise(z_1), normalise(z_2))
    logits = torch.cat([batch, shared], dim=1)
    assert logits.shape == (N, N + K)
    torch.testing.assert_close(
        contrastive_loss(logits, 0.5), nt_xent(z_1, z_2, 0.5, "oneway", z_dict)
    )


def test_two_orthogonal_pairs_and_three_more_rows_by_hand():
    z, e = torch.eye(2), math.e
    # An image's own row, the other image's, and one that is the opposite of both.
    z_dict = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    far = math.exp(-1 / math.sqrt(2))
    oneway, full = (math.log((e + more + e + 1 + far) / e) for more in (1, 2))
    assert nt_xent(z, z, 1.0, "oneway", z_dict).item() == pytest.approx(oneway)
    assert nt_xent(z, z, 1.0, "symmetric", z_dict).item() == pytest.approx(oneway)
    assert nt_xent(z, z, 1.0, "full", z_dict).item() == pytest.approx(full)


@pytest.mark.parametrize(
    ("form", "candidates"), [("oneway", 10), ("symmetric", 10), ("full", 15)]
)
def test_collapsed_projections_cost_the_log_of_n_plus_k(form, candidates):
    z, z_dict = torch.ones(N, D), torch.ones(K, D)
    loss = nt_xent(z, z, 0.5, form, z_dict).item()
    assert loss == pytest.approx(math.log(candidates))


@pytest.mark.parametrize("form", FORMS)
def test_no_dictionary_is_an_empty_one(form):
    z_1, z_2 = rows(2, N, D)
    empty = torch.empty(0, D, dtype=torch.float64)
    without = nt_xent(z_1, z_2, 0.5, form)
    assert torch.equal(nt_xent(z_1, z_2, 0.5, form, empty), without)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_like_an_image_costs_more_than_one_that_is_far_from_all(form):
    # Numbers above 0: the opposite of a row is far from every other.
    (z_1, z_2), tau = rows(2, N, D).abs(), 0.2
    without = nt_xent(z_1, z_2, tau, form)
    own = nt_xent(z_1, z_2, tau, form, z_1[2:3])
    opposite = nt_xent(z_1, z_2, tau, form, -z_1[2:3])
    assert own > opposite > without


@pytest.mark.parametrize("form", FORMS)
def test_length_and_order_of_its_rows_change_nothing(form):
    (z_1, z_2), z_dict = rows(2, N, D), rows(K, D, seed=1)
    loss = nt_xent(z_1, z_2, 0.5, form, z_dict)
    lengths = torch.tensor([[0.01], [7.0], [1.0], [300.0]])
    changed = (normalise(z_dict), z_dict * lengths, z_dict[[2, 0, 3, 1]])
    for other in changed:
        torch.testing.assert_close(nt_xent(z_1, z_2, 0.5, form, other), loss)


@pytest.mark.parametrize("form", FORMS)
def test_the_dictionary_takes_no_gradient_and_the_batch_the_right_one(form):
    z_1, z_2 = (z.requires_grad_() for z in rows(2, 4, 3))
    z_dict = rows(2, 3, seed=1).requires_grad_()
    nt_xent(z_1, z_2, 0.5, form, z_dict).backward()
    assert z_dict.grad is None and z_1.grad.abs().sum() > 0
    fixed = z_dict.detach()
    assert torch.autograd.gradcheck(
        lambda a, b: nt_xent(a, b, 0.5, form, fixed), (z_1, z_2)
    )


def test_a_step_pushes_images_away_from_the_dictionary():
    z_1, z_2 = rows(2, N, D)
    z_dict = rows(1, D, seed=1)

    def likeness_after_a_step(*more):
        z = z_1.clone().requires_grad_()
        nt_xent(z, z_2, 0.5, "oneway", *more).backward()
        return dictionary_logits(normalise(z.detach() - 0.01 * z.grad), z_dict)

    assert (likeness_after_a_step(z_dict) < likeness_after_a_step()).all()


def test_the_step_hands_its_dictionary_on():
    x, z_dict = rows(8, 4).float(), rows(3, 4, seed=1).float()
    net = SimpleNamespace(encoder=lambda x: x, projector=lambda h: h)
    batch = SimpleNamespace(two_views=lambda: x)
    loss = step(net, batch, 0.5, "oneway", z_dict).losses["simclr"]
    expected = nt_xent(*x.chunk(2), 0.5, "oneway", z_dict)
    assert torch.equal(loss, expected)
    assert loss > step(net, batch, 0.5, "oneway").losses["simclr"]


# --- the image's own row as the positive ----------------------------------------------


def own_in_loops(z_1, z_2, z_dict, z_own, tau, form):
    """The batch without a dictionary, and the dictionary with each image's own row."""

    def dictionary(mine, others):
        total = 0.0
        for n, row in enumerate(mine):
            key = z_own[n] if any(z_own[n]) else others[n]
            terms = [math.exp(cosine(row, c) / tau) for c in (key, *z_dict)]
            total -= math.log(terms[0] / sum(terms))
        return total / len(mine)

    there, back = dictionary(z_1, z_2), dictionary(z_2, z_1)
    own = there if form == "oneway" else (there + back) / 2
    return in_loops(z_1, z_2, [], tau, form) + own


@pytest.mark.parametrize("tau", [0.1, 0.5])
@pytest.mark.parametrize("form", FORMS)
def test_own_rows_match_loops(form, tau):
    (z_1, z_2, z_own), z_dict = rows(3, N, D), rows(K, D, seed=1)
    z_own[4] = 0
    given = (z.tolist() for z in (z_1, z_2, z_dict, z_own))
    loss = nt_xent(z_1, z_2, tau, form, z_dict, z_own)
    assert loss.item() == pytest.approx(own_in_loops(*given, tau, form))


@pytest.mark.parametrize("form", FORMS)
def test_own_rows_beside_an_empty_dictionary_change_nothing(form):
    z_1, z_2, z_own = rows(3, N, D)
    without = nt_xent(z_1, z_2, 0.5, form)
    empty = torch.empty(0, D, dtype=torch.float64)
    torch.testing.assert_close(nt_xent(z_1, z_2, 0.5, form, empty, z_own), without)
    assert torch.equal(nt_xent(z_1, z_2, 0.5, form, None, z_own), without)


def test_own_rows_by_hand():
    """An image on its own row and across the dictionary's only one; then one unknown."""
    z, z_dict = torch.eye(2), torch.tensor([[1.0, 1.0]])
    near = math.exp(1 / math.sqrt(2))
    expected = math.log((math.e + near) / math.e)
    found = own_row_loss(z, -z, z_dict, 5 * z, 1.0)
    assert found.item() == pytest.approx(expected)
    unknown = own_row_loss(z[:1], -z[:1], z_dict, torch.zeros(1, 2), 1.0)
    assert unknown.item() == pytest.approx(math.log((1 / math.e + near) * math.e))


@pytest.mark.parametrize("form", FORMS)
def test_own_rows_take_no_gradient_and_the_batch_the_right_one(form):
    z_1, z_2, z_own = (z.requires_grad_() for z in rows(3, 4, 3))
    fixed = rows(2, 3, seed=1)
    nt_xent(z_1, z_2, 0.5, form, fixed, z_own).backward()
    assert z_own.grad is None
    own = z_own.detach()
    assert torch.autograd.gradcheck(
        lambda a, b: nt_xent(a, b, 0.5, form, fixed, own), (z_1, z_2)
    )


def test_leaving_the_dictionary_together_costs_where_the_own_row_stays():
    """The literal loss falls when both views move to the far side; this one rises."""
    z_dict, z_own = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])
    near, far = torch.tensor([[1.0, 0.1]]), torch.tensor([[-0.5, -1.0]])
    literal = [nt_xent(z, z, 0.5, "oneway", z_dict) for z in (near, far)]
    held = [nt_xent(z, z, 0.5, "oneway", z_dict, z_own) for z in (near, far)]
    assert literal[1] < literal[0] and held[1] > held[0]


def test_the_step_takes_the_rows_of_its_images():
    x, z_own, z_dict = (rows(n, 4, seed=n).float() for n in (8, 9, 3))
    net = SimpleNamespace(encoder=lambda x: x, projector=lambda h: h)
    index = torch.tensor([7, 0, 3, 8])
    batch = SimpleNamespace(two_views=lambda: x, index=index)
    loss = step(net, batch, 0.5, "oneway", z_dict, z_own).losses["simclr"]
    expected = nt_xent(*x.chunk(2), 0.5, "oneway", z_dict, z_own[index])
    assert torch.equal(loss, expected)
