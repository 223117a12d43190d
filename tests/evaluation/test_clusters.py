"""Scores of clusterings: the best of all matchings, values by hand, k-means."""

from itertools import permutations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from furlkit.errors import InputError, UsageError
from furlkit.evaluation.clusters import (
    Assignment,
    arranged,
    kmeans,
    matching,
    most_probable,
    nearest,
    nmi_and_ari,
    table_of,
)


def best_by_trying_all(table: np.ndarray) -> int:
    """The most images that are in the cluster of their class, by any matching."""
    classes, clusters = table.shape
    if classes > clusters:
        return best_by_trying_all(table.T)
    choices = permutations(range(clusters), classes)
    return max(sum(int(table[c, k]) for c, k in enumerate(ks)) for ks in choices)


@pytest.mark.parametrize("classes", range(1, 7))
@pytest.mark.parametrize("clusters", range(1, 7))
def test_the_matching_is_the_best_of_all(classes, clusters):
    rng = np.random.default_rng(10 * classes + clusters)
    for most in (2, 50):  # Small numbers have many ties.
        table = rng.integers(0, most, (classes, clusters))
        matched = matching(table)
        chosen = [k for k in matched if k is not None]
        assert len(matched) == classes and len(set(chosen)) == len(chosen)
        assert len(chosen) == min(classes, clusters)
        found = sum(int(table[c, k]) for c, k in enumerate(matched) if k is not None)
        assert found == best_by_trying_all(table) == np.trace(arranged(table, matched))


def test_a_table_counts_images_by_class_and_cluster():
    labels, clusters = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([3, 3, 0, 3, 1])
    found = table_of(labels, clusters, 3, 4)
    assert found.tolist() == [[0, 0, 0, 2], [1, 0, 0, 0], [0, 1, 0, 1]]


def test_columns_after_matching_by_hand():
    """Class 0 matches cluster 2, class 1 cluster 0; cluster 1 is left over."""
    table = np.array([[1, 2, 9], [7, 3, 0]])
    assert matching(table) == [2, 0]
    assert arranged(table, [2, 0]).tolist() == [[9, 1, 2], [0, 7, 3]]
    # Turned round, class 1 is left over, and its column is empty.
    assert matching(table.T) == [1, None, 0]
    expected = [[7, 0, 1], [3, 0, 2], [0, 0, 9]]
    assert arranged(table.T, [1, None, 0]).tolist() == expected


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="found 0 to 3"):
        table_of(torch.tensor([0, 3]), torch.tensor([0, 0]), 3, 2)
    with pytest.raises(InputError, match="2 rows"):
        table_of(torch.tensor([0]), torch.tensor([0, 0]), 3, 2)


def test_nmi_and_ari_are_scikit_learn_s_and_do_not_depend_on_names():
    rng = np.random.default_rng(0)
    labels, clusters = rng.integers(0, 5, 200), rng.integers(0, 7, 200)
    clusters[:120] = labels[:120]
    found = nmi_and_ari(torch.from_numpy(labels), torch.from_numpy(clusters))
    pair = labels, clusters
    expected = normalized_mutual_info_score(*pair), adjusted_rand_score(*pair)
    assert found == pytest.approx(expected)
    renamed = torch.from_numpy((clusters + 3) % 7)
    assert nmi_and_ari(torch.from_numpy(labels), renamed) == pytest.approx(found)


def test_nmi_and_ari_by_hand():
    """Two classes of two. One cluster of each half: no information, ARI -1/2."""
    labels = torch.tensor([0, 0, 1, 1])
    assert nmi_and_ari(labels, torch.tensor([1, 1, 0, 0])) == (1.0, 1.0)
    assert nmi_and_ari(labels, torch.tensor([0, 1, 0, 1])) == pytest.approx((0, -0.5))
    assert nmi_and_ari(labels, torch.tensor([0, 0, 0, 0])) == (0.0, 0.0)


def blobs(seed: int, count: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows around three directions, of different lengths, which do not matter."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(3).repeat(count)
    rows = torch.eye(3, 5)[labels] + 0.1 * torch.randn(3 * count, 5, generator=rng)
    return rows * torch.linspace(0.1, 9, len(rows))[:, None], labels


def test_k_means_finds_directions_and_gives_the_same_bytes_again():
    (h, labels), (test, expected) = blobs(0), blobs(1)
    centroids = kmeans(h, 3, 7)
    found = nearest(test, centroids).clusters
    assert nmi_and_ari(expected, found) == (1.0, 1.0)
    assert nmi_and_ari(labels, nearest(h, centroids).clusters) == (1.0, 1.0)
    assert kmeans(h, 3, 7).numpy().tobytes() == centroids.numpy().tobytes()
    assert kmeans(h, 3, 8).numpy().tobytes() != centroids.numpy().tobytes()


def test_the_nearest_centroid_matches_loops():
    h, _ = blobs(2, 4)
    centroids = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    found = nearest(h, centroids)
    for place, row in enumerate(h.double()):
        x = row / row.norm()
        gaps = [float((x - c).square().sum()) for c in centroids.double()]
        cluster = gaps.index(min(gaps))
        assert int(found.clusters[place]) == cluster
        assert float(found.sureness[place]) == pytest.approx(1 - min(gaps), abs=1e-5)


def test_k_means_of_too_few_and_of_equal_rows(capsys):
    h = torch.ones(3, 2)
    with pytest.raises(UsageError, match="--kmeans 4.*3 images"):
        kmeans(h, 4, 0)
    assert nearest(h, kmeans(h, 2, 0)).clusters.unique().numel() == 1
    assert capsys.readouterr().err == ""
    with pytest.raises(InputError, match="NaN"):
        kmeans(torch.full((3, 2), torch.nan), 2, 0)


def test_the_surest_images_of_a_cluster_come_first_and_ties_in_order():
    q = torch.tensor([[0.6, 0.4], [0.1, 0.9], [0.9, 0.1], [0.6, 0.4], [0.4, 0.6]])
    found = most_probable(q)
    assert found.clusters.tolist() == [0, 1, 0, 0, 1]
    assert found.surest(0, 2) == [2, 0] and found.surest(0, 9) == [2, 0, 3]
    assert found.surest(1, 9) == [1, 4] and found.surest(1, 0) == []
    empty = Assignment(torch.zeros(2, dtype=torch.long), torch.ones(2))
    assert empty.surest(1, 3) == []
