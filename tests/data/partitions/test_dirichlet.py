import numpy as np

from furlkit.data.partitions.dirichlet import dirichlet, dirichlet_client
from furlkit.data.partitions.schemes import label_histogram
from furlkit.data.partitions.sizes import apportion
from tests.data.partitions.toy import TOY, dataset, rng, table


def by_class(data, clients, alpha, seed=0, cap=False):
    return dirichlet(data, clients, rng(seed), concentration=alpha, cap_at_mean=cap)


def by_client(data, clients, beta, seed=0, replace=False):
    more = {"concentration": beta, "with_replacement": replace}
    return dirichlet_client(data, clients, rng(seed), **more)


def test_apportion_sums_and_stays_within_one():
    shares = rng().dirichlet(np.full(30, 0.2), size=40)
    totals = rng(1).integers(0, 500, 40)
    counts = apportion(shares, totals, rng(2))
    assert np.array_equal(counts.sum(axis=1), totals)
    assert (np.abs(counts - shares * totals[:, None]) < 1 + 1e-6).all()
    assert counts.min() >= 0


def test_apportion_is_right_on_average():
    shares = np.tile([0.05, 0.15, 0.8], (20000, 1))
    counts = apportion(shares, np.full(20000, 3), rng())
    assert np.allclose(counts.mean(axis=0), [0.15, 0.45, 2.4], atol=0.02)


def test_dirichlet_with_large_alpha_is_nearly_even():
    data = dataset(np.repeat(np.arange(10), 1000))
    counts = table(by_class(data, 5, 1e6), data)
    assert counts.min() > 190 and counts.max() < 210


def test_dirichlet_with_small_alpha_gives_a_class_to_one_client():
    data = dataset(np.repeat(np.arange(10), 1000))
    counts = table(by_class(data, 5, 0.001), data)
    assert np.mean(counts.max(axis=0) > 990) >= 0.9


def test_dirichlet_shares_have_the_moments_of_the_distribution():
    labels, alpha, clients = np.repeat(np.arange(2000), 100), 0.5, 4
    parts = by_class(dataset(labels), clients, alpha)
    shares = label_histogram(parts, labels, 2000) / 100
    mean = 1 / clients
    variance = mean * (1 - mean) / (clients * alpha + 1)
    assert np.allclose(shares.mean(axis=1), mean, atol=0.02)
    assert np.allclose(shares.var(axis=1), variance, atol=0.01)


def test_cap_gives_nothing_more_to_a_client_at_the_mean():
    data = dataset(np.repeat(np.arange(10), 60))
    for seed in range(10):
        counts = table(by_class(data, 6, 0.05, seed, cap=True), data)
        before = np.cumsum(counts, axis=1) - counts
        assert (counts[before >= 100] == 0).all()
        assert counts.sum() == 600


def test_dirichlet_client_totals_are_equal_and_stock_is_never_exceeded():
    for beta in (0.001, 0.1, 1, 100):
        parts = by_client(TOY, 17, beta)
        sizes = np.array([len(part) for part in parts])
        assert set(sizes) == {59} and sizes.sum() == 1003
        assert np.array_equal(table(parts, TOY).sum(axis=0), np.bincount(TOY.labels))


def test_dirichlet_client_mixes_have_the_moments_of_the_distribution():
    labels, beta, clients = np.repeat(np.arange(4), 5000), 0.5, 2000
    parts = by_client(dataset(labels), clients, beta, replace=True)
    size = len(labels) // clients
    mixes = label_histogram(parts, labels, 4) / size
    mean, spread = 1 / 4, (1 / 4) * (3 / 4) / (4 * beta + 1)
    drawn = spread + (mean * (1 - mean) - spread) / size
    assert np.allclose(mixes.mean(axis=0), mean, atol=0.02)
    assert np.allclose(mixes.var(axis=0), drawn, atol=0.01)


def test_dirichlet_client_prefers_few_classes_when_beta_is_small():
    data = dataset(np.repeat(np.arange(10), 1000))
    counts = table(by_client(data, 5, 0.01), data)
    even = table(by_client(data, 5, 1e5), data)
    assert (counts > 0).sum(axis=1).mean() < 6
    assert np.abs(even - 200).max() < 60


def test_no_client_is_left_with_the_remains():
    """Client numbers do not matter: the last ones are as skewed as the first."""
    data = dataset(np.repeat(np.arange(10), 100))
    top = np.zeros(10)
    for seed in range(200):
        counts = table(by_client(data, 10, 0.1, seed), data)
        top += counts.max(axis=1) / 200
    assert abs(top[:3].mean() - top[-3:].mean()) < 4
