import pytest
import torch

from furlkit.data.augment.instahide import (
    draw_coefficients,
    draw_mask,
    draw_mixtures,
    mixed,
)
from tests.data.augment.noise import generator, noise


def test_coefficients_sum_to_1_and_none_is_negative_or_above_the_bound():
    found = draw_coefficients(5000, generator())
    assert found.shape == (5000, 4)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(5000))
    assert found.min() >= 0 and 0.6 < found.max() <= 0.65


def test_coefficients_are_those_of_absolute_normal_numbers_drawn_until_they_fit():
    """In a loop over rows, from as many draws: the same distribution, not the stream."""
    rng, rows = generator(1), []
    while len(rows) < 5000:
        drawn = [abs(float(x)) for x in torch.randn(4, generator=rng)]
        shares = [x / sum(drawn) for x in drawn]
        rows += [shares] if max(shares) <= 0.65 else []
    largest = torch.tensor(rows).max(dim=1).values
    found = draw_coefficients(5000, generator()).max(dim=1).values
    for q in (0.1, 0.5, 0.9):
        assert float(found.quantile(q)) == pytest.approx(
            float(largest.quantile(q)), abs=0.01
        )


def test_a_mixture_has_its_own_image_and_three_different_others():
    places = torch.arange(500) % 7
    found = draw_mixtures(places, 7, generator())
    assert found.shape == (500, 4) and torch.equal(found[:, 0], places)
    assert found.min() == 0 and found.max() == 6
    assert all(len(set(row)) == 4 for row in found.tolist())
    others = found[places == 3][:, 1:].flatten().bincount(minlength=7)
    assert others[3] == 0 and (others[[0, 1, 2, 4, 5, 6]] > 0).all()


def test_four_images_are_enough_and_three_are_not():
    assert set(draw_mixtures(torch.tensor([2]), 4, generator())[0].tolist()) == {
        *range(4)
    }
    with pytest.raises(ValueError, match="3 images"):
        draw_mixtures(torch.tensor([2]), 3, generator())


def test_a_mask_has_one_sign_for_every_value_and_both_are_as_frequent():
    found = draw_mask((50, 3, 8, 8), generator())
    assert found.shape == (50, 3, 8, 8) and set(found.unique().tolist()) == {-1.0, 1.0}
    assert abs(float(found.mean())) < 0.05
    assert not torch.equal(found[0], found[1]) and not torch.equal(*found[0, :2])


def test_draws_depend_on_the_generator_alone():
    def draws(seed):
        rng = generator(seed)
        places = torch.arange(9)
        yield draw_mixtures(places, 9, rng)
        yield draw_coefficients(9, rng)
        yield draw_mask((9, 1, 4, 4), rng)

    assert all(map(torch.equal, draws(3), draws(3)))
    assert not any(map(torch.equal, draws(3), draws(4)))


def test_a_mixture_by_hand():
    """0.5 (2, -4) + 0.25 (4, 0) + 0.25 (0, 8) + 0 (9, 9) = (2, 0); then its signs."""
    images = torch.tensor([[2.0, -4.0], [4.0, 0.0], [0.0, 8.0], [9.0, 9.0]])
    batches = list(images.view(4, 1, 1, 1, 2))
    shares = torch.tensor([[0.5, 0.25, 0.25, 0.0]])
    assert mixed(batches, shares, None).flatten().tolist() == [2.0, 0.0]
    shares, mask = torch.tensor([[0.25, 0.25, 0.25, 0.25]]), torch.tensor([-1.0, 1.0])
    found = mixed(batches, shares, mask.view(1, 1, 1, 2))
    assert found.flatten().tolist() == [-3.75, 3.25]


def test_mixing_matches_loops():
    images, shares = noise(4, 3, 2, 5, 5), draw_coefficients(3, generator())
    mask = draw_mask((3, 2, 5, 5), generator(2))
    found = mixed(list(images), shares, mask)
    for n in range(3):
        expected = sum(float(shares[n, j]) * images[j, n] for j in range(4))
        torch.testing.assert_close(found[n], expected * mask[n])
