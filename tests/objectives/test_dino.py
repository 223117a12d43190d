"""DINO: loss and centre in loops, by property and by hand, lightly; the teacher."""

import math

import pytest
import torch

from furlkit.objectives.dino import (
    dino_loss,
    learner,
    next_centre,
    teacher_probabilities,
    view_loss,
)
from furlkit.objectives.simclr import normalise
from tests.objectives.tiny import PrototypeNet, TwoImages, descend, rows

# --- loss and centre ------------------------------------------------------------------


def softmax(values):
    below = sum(math.exp(value) for value in values)
    return [math.exp(value) / below for value in values]


def test_loss_matches_loops():
    N, K, c = 3, 4, rows(4, seed=2)
    s, t = rows(2 * N, K), rows(2 * N, K, seed=1)
    total = 0.0
    for n in range(2 * N):
        other = (n + N) % (2 * N)  # The second view of the image.
        P_s = softmax([float(s[n, k]) / 0.1 for k in range(K)])
        P_t = softmax([(float(t[other, k]) - float(c[k])) / 0.04 for k in range(K)])
        total -= sum(p * math.log(q) for p, q in zip(P_t, P_s, strict=True))
    found = float(dino_loss(s, teacher_probabilities(t, c, 0.04), 0.1))
    assert found == pytest.approx(total / N / 2, abs=1e-12)


def test_centre_matches_loops_and_ends_at_the_mean():
    c, t = rows(3), rows(5, 3, seed=1)
    expected = [
        0.9 * float(c[k]) + 0.1 * sum(float(t[n, k]) for n in range(5)) / 5
        for k in range(3)
    ]
    found = next_centre(c, t, 0.9)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    for _ in range(300):
        c = next_centre(c, t, 0.9)
    torch.testing.assert_close(c, t.mean(dim=0))


def test_values_by_hand():
    # Equal scores give each of four prototypes 1/4, with any centre of equal numbers.
    same = torch.zeros(2, 4, dtype=torch.float64)
    P_t = teacher_probabilities(same, same[0] + 3, 0.04)
    torch.testing.assert_close(P_t, same + 0.25)
    assert float(view_loss(same, P_t, 0.1)) == pytest.approx(math.log(4))
    # The centre takes away the prototype that all images prefer.
    t = torch.tensor([[1.0, 0.1], [1.0, 0.0]], dtype=torch.float64)
    c = torch.tensor([1.0, 0.05], dtype=torch.float64)
    assert teacher_probabilities(t, 0 * c, 0.04).argmax(dim=1).tolist() == [0, 0]
    assert teacher_probabilities(t, c, 0.04).argmax(dim=1).tolist() == [1, 0]


def test_a_small_temperature_sharpens_and_the_loss_is_at_least_the_entropy():
    t, c = rows(6, 5), rows(5, seed=1)
    entropies = [
        float(torch.special.entr(teacher_probabilities(t, c, tau)).sum(dim=1).mean())
        for tau in (0.04, 0.1, 1.0)
    ]
    assert entropies == sorted(entropies)
    P_t = teacher_probabilities(t, c, 0.1)
    assert float(view_loss(rows(6, 5, seed=2), P_t, 0.1)) >= entropies[1]
    # The same scores, centred alike, are the best prediction.
    assert float(view_loss(t - c, P_t, 0.1)) == pytest.approx(entropies[1])


def test_agrees_with_lightly_for_three_steps_of_the_centre():
    theirs = pytest.importorskip("lightly.loss").DINOLoss(output_dim=7)
    c = torch.zeros(7)
    for step in range(3):
        s, t = rows(10, 7, seed=step).float(), rows(10, 7, seed=step + 9).float()
        expected = theirs(list(t.chunk(2)), list(s.chunk(2)))
        found = dino_loss(s, teacher_probabilities(t, c, 0.04), 0.1)
        torch.testing.assert_close(found, expected)
        c = next_centre(c, t, 0.9)
        torch.testing.assert_close(c, theirs.center.flatten())


# --- the learner ----------------------------------------------------------------------


OPTIONS = {"temperature": 0.1, "teacher_temperature": 0.04, "centre_momentum": 0.9}


def scores(parts):
    z = parts["projector"](parts["encoder"](TwoImages().two_views()))
    return (normalise(z) @ normalise(parts["prototypes"].weight).T).detach()


def test_steps_are_those_of_algorithm_1():
    dino, c = (
        learner(PrototypeNet(), **OPTIONS, ema=0.75, freeze_steps=0),
        torch.zeros(5),
    )
    for _ in range(3):
        s, t = scores(dict(dino.net.named_children())), scores(dino.target)
        expected = dino_loss(s, teacher_probabilities(t, c, 0.04), 0.1)
        slow = dino.target["prototypes"].weight.clone()
        forward = descend(dino)
        torch.testing.assert_close(forward.losses["dino"].detach(), expected)
        c = next_centre(c, t, 0.9)
        torch.testing.assert_close(dino.centre, c)
        followed = 0.75 * slow + 0.25 * dino.net.prototypes.weight
        torch.testing.assert_close(dino.target["prototypes"].weight, followed)
    assert all(p.grad is None for p in dino.target.parameters())


def test_prototypes_rest_in_the_first_steps_of_a_run():
    dino = learner(net := PrototypeNet(), **OPTIONS, ema=0.9, freeze_steps=2)
    start = net.prototypes.weight.clone()
    for step in range(1, 4):
        descend(dino)
        assert torch.equal(net.prototypes.weight, start) == (step <= 2)
        assert int(net.prototypes.steps) == step


def test_lengths_of_prototypes_do_not_matter():
    dino = learner(net := PrototypeNet(), **OPTIONS, ema=0.9, freeze_steps=0)
    loss = dino.step(TwoImages()).losses["dino"]
    with torch.no_grad():
        net.prototypes.weight *= 3
        dino.target["prototypes"].weight *= 0.5
    torch.testing.assert_close(dino.step(TwoImages()).losses["dino"], loss)


def test_the_journal_tells_how_sharp_and_how_varied_the_teacher_is():
    dino = learner(PrototypeNet(), **OPTIONS, ema=1.0, freeze_steps=0)
    with torch.no_grad():
        dino.target["prototypes"].weight[:] = torch.ones(4)  # Equal scores of all.
    descend(dino)
    found = dino.end_epoch({})
    assert found["teacher_entropy"] == pytest.approx(math.log(5), abs=1e-5)
    assert 1 <= found["used_prototypes"] <= 4
