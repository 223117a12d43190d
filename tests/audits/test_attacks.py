"""Equations of the attacks against loops and known values."""

import numpy as np
import pytest

from furlkit.audits.classes import (
    class_scores,
    classes_of_rows,
    nearest_columns,
    purity,
)
from furlkit.audits.inversion import agreement, ranks, ssim
from furlkit.audits.membership import (
    combined,
    contrastive_gain,
    feature_length,
    scores,
    view_similarity,
)
from furlkit.audits.rows import evidence, identification, nearness
from furlkit.audits.success import auc


@pytest.fixture
def z():
    return np.random.default_rng(0).normal(size=(4, 5, 3))  # views, images, numbers


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


def test_similarity_of_views_is_the_mean_of_all_pairs(z):
    for image, found in enumerate(view_similarity(z)):
        pairs = [cosine(z[a, image], z[b, image]) for a in range(4) for b in range(a)]
        assert found == pytest.approx(np.mean(pairs))


def test_contrastive_gain_matches_loops(z):
    tau = 0.3
    for image, found in enumerate(contrastive_gain(z, tau)):
        gains = []
        for view in (1, 2, 3):
            all_ = [np.exp(cosine(z[view, image], z[0, j]) / tau) for j in range(5)]
            negatives = sum(all_) - all_[image]
            gains.append(np.log(all_[image] / negatives))
        assert found == pytest.approx(np.mean(gains))


def test_length_is_the_mean_logarithm(z):
    expected = np.log(np.linalg.norm(z, axis=2)).mean(axis=0)
    assert feature_length(z) == pytest.approx(expected)


def test_scores_relative_to_an_equal_parent_are_zero(z):
    for name, found in scores(z, 0.5, parent=z).items():
        assert np.abs(found).max() < 1e-12, name


def test_combined_scores_weigh_every_score_alike():
    found = {"a": np.array([0.0, 2.0]), "b": np.array([0.0, 1e6]), "c": np.ones(2)}
    assert combined(found) == pytest.approx([-2 / 3, 2 / 3])


def test_nearness_is_the_distance_on_the_unit_sphere():
    rows = np.array([[2.0, 0], [0, 3]])
    found = nearness(np.array([[5.0, 0], [1, 1], [-1, 0]]), rows)
    assert found == pytest.approx([0, -np.sqrt(2 - np.sqrt(2)), -np.sqrt(2)], abs=1e-7)


def test_rows_of_images_identify_the_images():
    rng = np.random.default_rng(0)
    members, others = rng.normal(size=(20, 16)), rng.normal(size=(200, 16))
    near = nearness(members, members), nearness(others, members)
    chances, chance = identification(*near, k=50)
    assert chances.tolist() == [1] * 20 and chance == 0.02


def test_neighbours_vote_for_the_class_of_rows():
    centres = np.eye(3)
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 30)
    z = centres[labels] + rng.normal(0, 0.05, (90, 3))
    rows = centres[[0, 0, 2, 2]] + rng.normal(0, 0.05, (4, 3))
    assert classes_of_rows(rows, z, labels, 3).tolist() == [0.5, 0, 0.5]


def test_purity_of_near_images_matches_loops():
    rng = np.random.default_rng(0)
    labels, cosines = rng.integers(0, 3, 12), rng.uniform(-1, 1, (12, 12))
    columns = nearest_columns(cosines, 4)
    for i in range(12):
        order = [int(j) for j in np.argsort(-cosines[i]) if j != i]
        assert sorted(columns[i].tolist()) == sorted(order[:4])
    columns[:, 0] = np.arange(12)  # An image is among its own largest cosines.
    for c, found in enumerate(purity(columns, labels, 3)):
        near = [labels[j] == c for i in range(12) if labels[i] == c for j in columns[i]
                if j != i]  # fmt: skip
        assert found == pytest.approx(np.mean(near))
    assert np.isnan(purity(columns, labels, 4)[3])


def test_evidence_for_classes_is_relative_to_reference_and_classes():
    measured = np.array([[3.0, 1.0], [1.0, 3.0]])
    found = class_scores(measured, np.array([2.0, 1.0]))
    assert found.tolist() == [[0.5, -0.5], [-1.5, 1.5]]


def test_ssim_of_equal_images_is_one_and_matches_a_loop():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(2, 3, 9, 8, 2))
    assert ssim(x, x) == pytest.approx([1, 1, 1])
    values = []
    for i in range(3):
        for j in range(2):
            a, b = x[0, i : i + 7, j : j + 7], y[0, i : i + 7, j : j + 7]
            for c in range(2):
                p, q = a[..., c].ravel(), b[..., c].ravel()
                cov = ((p - p.mean()) * (q - q.mean())).mean()
                top = (2 * p.mean() * q.mean() + 1e-4) * (2 * cov + 9e-4)
                bottom = p.mean() ** 2 + q.mean() ** 2 + 1e-4
                values.append(top / (bottom * (p.var() + q.var() + 9e-4)))
    assert ssim(x, y)[0] == pytest.approx(np.mean(values))


def test_ssim_of_an_image_smaller_than_the_window():
    x = np.random.default_rng(0).uniform(size=(1, 4, 4, 1))
    assert ssim(x, x) == pytest.approx([1])


def test_ranks_of_the_originals():
    x = np.array([0.0, 1.0, 2.0]).reshape(3, 1, 1, 1)
    found = agreement(np.array([0.1, 1.9, 1.0]).reshape(3, 1, 1, 1), x)
    assert found[0] == pytest.approx([-0.01, -0.81, -3.61])
    assert ranks(found, np.arange(3)).tolist() == [1, 2, 2.5]


def test_evidence_matches_loops():
    rng = np.random.default_rng(1)
    z, rows, sigma = rng.normal(size=(6, 4)), rng.normal(size=(3, 4)), 0.7
    scale = np.sqrt(1 + 4 * sigma**2) / sigma**2
    p = [[np.exp(scale * cosine(a, b)) for b in rows] for a in z]
    for i, found in enumerate(evidence(z, rows, sigma)):
        ratios = [p[i][j] / np.mean([p[k][j] for k in range(6)]) for j in range(3)]
        assert found == pytest.approx(np.log(np.mean(ratios)))


def test_evidence_finds_noisy_rows_better_than_the_distance():
    rng = np.random.default_rng(2)
    z = 3 + rng.normal(size=(400, 16))  # A common direction, like features of a model.
    u = z / np.linalg.norm(z, axis=1, keepdims=True)
    rows = u[:100] + 0.1 * rng.normal(size=(100, 16))
    better, plain = (
        auc(s[:100], s[100:]) for s in (evidence(z, rows, 0.1), nearness(z, rows))
    )
    assert better > plain + 0.1 and better > 0.75
    assert auc(*np.split(evidence(z, u[:100]), [100])) == 1
