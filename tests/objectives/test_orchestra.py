"""Orchestra: loops, properties, values by hand, and two rounds by the command line."""

import math

import numpy as np
import pytest
import torch

from furlkit.exchanges.centroids import local_centroids
from furlkit.files.features import read_features
from furlkit.objectives.orchestra import assignment_loss, log_assignments, turned
from tests.helpers import FLAT, epoch_losses, few_digits, furlkit
from tests.objectives.tiny import rows


def transcribed(z, z_target, mu, tau):
    def shares(row):
        length = math.hypot(*row)
        logits = [
            sum(a * b for a, b in zip(row, m, strict=True))
            / length
            / math.hypot(*m)
            / tau
            for m in mu.tolist()
        ]
        total = sum(map(math.exp, logits))
        return [math.exp(logit) / total for logit in logits]

    pairs = zip(map(shares, z.tolist()), map(shares, z_target.tolist()), strict=True)
    terms = [
        sum(-q * math.log(p) for p, q in zip(*pair, strict=True)) for pair in pairs
    ]
    return sum(terms) / len(terms)


@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_loss_matches_loops(tau):
    z, z_target, mu = rows(5, 3), rows(5, 3, seed=1), rows(4, 3, seed=2)
    found = float(assignment_loss(z, z_target, mu, tau))
    assert found == pytest.approx(transcribed(z, z_target, mu, tau))


def test_values_by_hand():
    e = torch.eye(2, dtype=torch.float64)
    # Equal cosines to both centroids: half and half, so log 2.
    assert float(assignment_loss(e[:1], e[:1] + e[1:], e, 0.5)) == pytest.approx(
        (math.log1p(math.exp(-2)) + math.log1p(math.exp(2))) / 2
    )
    middle = e[:1] + e[1:]
    assert float(assignment_loss(middle, middle, e, 0.5)) == pytest.approx(math.log(2))


def test_assignments_are_smallest_at_the_target_and_ignore_lengths():
    z, mu = rows(6, 3), rows(4, 3, seed=2)
    own = assignment_loss(z, z, mu, 0.3)
    assert own < assignment_loss(rows(6, 3, seed=5), z, mu, 0.3)
    torch.testing.assert_close(assignment_loss(7 * z, z, 3 * mu, 0.3), own)
    assert log_assignments(z, mu, 0.3).exp().sum(dim=1).tolist() == pytest.approx(
        [1] * 6
    )


def test_images_are_turned_by_their_places():
    x = rows(6, 1, 4, 4)
    found, turns = turned(x)
    assert turns.tolist() == [0, 1, 2, 3, 0, 1]
    for image, rotated, k in zip(x, found, turns.tolist(), strict=True):
        assert torch.equal(rotated, torch.rot90(image, k, (1, 2)))


def test_local_clusters_of_equal_size():
    draw = np.random.default_rng(0)
    centres = np.repeat(np.eye(2), [30, 10], axis=0)
    z = (centres + 0.1 * draw.standard_normal((40, 2))).astype(np.float32)
    _, free = local_centroids(z, 2)
    _, equal = local_centroids(z, 2, equal_sizes=True)
    assert sorted(free) == [10, 30]
    assert max(equal) - min(equal) < 10  # Sizes of the soft plan are equal.


def test_two_rounds(tmp_path):
    data = ("--data", tmp_path / "d.npz")
    few_digits(tmp_path, 2, (*FLAT, "--objective", "orchestra"))
    for number in (1, 2):
        given = ("--centroids", tmp_path / "z1") if number == 2 else ()
        words = ("local-train", tmp_path / "p", tmp_path / f"g{number - 1}", *data)
        fast = ("--objective", "orchestra", "--epochs", 1, "--batch-size", 30)
        out = (
            "--centroids-out",
            tmp_path / f"z{number}_{{client}}",
            "--local-equal-sizes",
        )
        more = (*fast, *given, *out, "--client", "0-1", "-q")
        assert furlkit(*words, *more, "-o", tmp_path / f"u{number}_{{client}}") == 0
        for name, rule in (
            ("u", ()),
            ("z", ("--rule", "centroids", "--centroids", 6, "--equal-sizes")),
        ):
            files = [tmp_path / f"{name}{number}_{k}" for k in range(2)]
            output = tmp_path / (f"g{number}" if name == "u" else f"z{number}")
            assert furlkit("aggregate", *rule, *files, "-q", "-o", output) == 0
    assert epoch_losses(tmp_path / "u1_0")[0].keys() == {"turns"}
    losses = epoch_losses(tmp_path / "u2_0")[0]
    assert losses.keys() == {"turns", "orchestra"}
    assert 0 < losses["orchestra"] < 2 * math.log(6)
    assert read_features(tmp_path / "z2").counts.sum() == 180
