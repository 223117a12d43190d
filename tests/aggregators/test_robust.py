"""Rules that withstand hostile clients: against loops, by property, by hand."""

import tracemalloc
from itertools import combinations
from math import acos, degrees

import numpy as np
import pytest

from furlkit.aggregators import distances
from furlkit.aggregators.clip import clip_factors, clipped_mean
from furlkit.aggregators.distances import squared_distance_rows
from furlkit.aggregators.geometric_median import geometric_median, weiszfeld
from furlkit.aggregators.krum import krum, krum_scores
from furlkit.aggregators.l_dawa import l_dawa
from furlkit.aggregators.mean import mean
from furlkit.aggregators.median import median, weighted_median
from furlkit.aggregators.trimmed_mean import trimmed_mean
from furlkit.errors import UsageError
from furlkit.weights import is_batchnorm_statistic

RULES = {
    "median": (median, {}),
    "trimmed-mean": (trimmed_mean, {"trim": 0.25}),
    "geometric-median": (geometric_median, {"smoothing": 1e-6}),
    "krum": (krum, {"assumed_hostile": 2, "chosen": 1}),
    "multi-krum": (krum, {"assumed_hostile": 2, "chosen": 4}),
    "clip": (clipped_mean, {"clip": None}),
    "l-dawa": (l_dawa, {"scaling": "shares"}),
}
WITH_PARENT = ("clip", "l-dawa")


def squared_distances(products):
    return np.concatenate([rows for _, rows in squared_distance_rows(products)])


def model(k: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(k)
    return {
        "encoder.a.weight": rng.normal(size=(4, 2)).astype(np.float32) + 1,
        "encoder.a.bias": rng.normal(size=4).astype(np.float32),
        "encoder.bn.weight": rng.normal(size=2).astype(np.float16) + np.float16(2),
        "encoder.bn.running_var": rng.random(2).astype(np.float32) + 1,
        "encoder.bn.num_batches_tracked": np.array(10 + k),
        "projector.w": rng.normal(size=5),
    }


def vector(models: list[dict]) -> np.ndarray:
    """The weights of each model in a row; not BatchNorm's statistics."""
    names = [name for name in models[0] if not is_batchnorm_statistic(name)]
    return np.stack([
        np.concatenate([each[name].ravel().astype(float) for name in names])
        for each in models
    ])  # fmt: skip


@pytest.fixture
def models() -> list[dict]:
    return [model(k) for k in range(7)]


def parent_of(name: str) -> dict | None:
    return model(99) if name in WITH_PARENT else None


@pytest.mark.parametrize("name", RULES)
def test_the_order_of_clients_does_not_matter(name, models, combined):
    rule, options = RULES[name]
    shares = [0.1, 0.2, 0.1, 0.15, 0.25, 0.05, 0.15]
    order = [4, 0, 6, 2, 5, 1, 3]
    first = combined(rule, models, shares, parent_of(name), **options)
    moved = [models[k] for k in order]
    weights = [shares[k] for k in order]
    second = combined(rule, moved, weights, parent_of(name), **options)
    for key, array in first.items():
        assert second[key].dtype == array.dtype == models[0][key].dtype
        np.testing.assert_allclose(second[key], array, rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("name", RULES)
def test_equal_uploads_are_the_result(name, combined):
    rule, options = RULES[name]
    found = combined(rule, [model(1)] * 7, None, parent_of(name), **options)
    for key, array in model(1).items():
        np.testing.assert_allclose(found[key], array, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("name", ["median", "geometric-median", "krum", "multi-krum"])
def test_a_majority_of_equal_uploads_wins(name, combined):
    """f + 1 equal uploads of 2 f + 1: what the others send changes nothing."""
    rule, options = RULES[name]
    hostile = [{k: a * 50 for k, a in model(k).items()} for k in range(3)]
    if name.endswith("krum"):  # which needs 2 f + 3
        hostile, options = hostile[:2], {**options, "assumed_hostile": 2}
    models = [hostile[0], *[model(9)] * 5, *hostile[1:]]
    if name == "multi-krum":
        options = {**options, "chosen": 5}
    found = combined(rule, models, **options)
    for key, array in model(9).items():
        np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["median", "trimmed-mean", "geometric-median", "krum"])
@pytest.mark.parametrize("size", [1e3, 1e30])
def test_two_hostile_of_nine_do_not_move_the_result_far(name, size, combined):
    rule, options = RULES[name]
    honest = [{"w": np.random.default_rng(k).normal(size=20)} for k in range(7)]
    attack = {"w": np.full(20, size)}
    found = combined(rule, [attack, *honest, attack], **options)["w"]
    low, high = (f([each["w"] for each in honest], axis=0) for f in (np.min, np.max))
    assert (found >= low - 1).all() and (found <= high + 1).all()


def test_median_matches_numpy(models, combined):
    for count in (6, 7):
        found = combined(median, models[:count])
        for key, array in found.items():
            each = np.stack([one[key] for one in models[:count]])
            if array.dtype.kind == "f":
                expected = np.median(each.astype(float), axis=0).astype(array.dtype)
                assert array.tobytes() == expected.tobytes()
    assert found["encoder.bn.num_batches_tracked"] == 13
    lower = combined(median, models[:6])["encoder.bn.num_batches_tracked"]
    assert lower == 12 and lower.dtype == np.int64


def weighted_median_in_loops(values, weights) -> float:
    """Half of the weight is at or below, half at or above; or the middle of two."""
    total = sum(weights)
    fit = [
        v for v in values
        if 2 * sum(w for x, w in zip(values, weights, strict=True) if x < v) <= total
        and 2 * sum(w for x, w in zip(values, weights, strict=True) if x > v) <= total
    ]  # fmt: skip
    return (min(fit) + max(fit)) / 2


@pytest.mark.parametrize("weights", [[1, 2, 3, 4, 5], [5, 1, 1, 1, 1], [4, 2, 1, 1, 2]])
def test_weighted_median_matches_loops(weights, combined):
    models = [{"w": np.random.default_rng(k).normal(size=40)} for k in range(5)]
    shares = [weight / sum(weights) for weight in weights]
    found = combined(median, models, shares)["w"]
    for place in range(40):
        values = [one["w"][place] for one in models]
        assert found[place] == weighted_median_in_loops(values, weights)


def test_weights_of_whole_numbers_are_repeated_clients(combined):
    models = [{"w": np.random.default_rng(k).normal(size=10)} for k in range(4)]
    weights = [3, 1, 2, 2]
    repeated = [m for m, n in zip(models, weights, strict=True) for _ in range(n)]
    shares = [n / 8 for n in weights]
    for rule, options in ((median, {}), (trimmed_mean, {"trim": 0.25})):
        one = combined(rule, models, shares, **options)["w"]
        np.testing.assert_allclose(one, combined(rule, repeated, **options)["w"])
    one, other = (
        combined(geometric_median, *given, smoothing=1e-9)["w"]
        for given in ((models, shares), (repeated,))
    )
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("count, trim, cut", [(10, 0.2, 2), (8, 0.25, 2), (5, 0.0, 0)])
def test_trimmed_mean_matches_loops(count, trim, cut, combined):
    models = [{"w": np.random.default_rng(k).normal(size=12)} for k in range(count)]
    found = combined(trimmed_mean, models, trim=trim)["w"]
    for place in range(12):
        kept = sorted(one["w"][place] for one in models)[cut : count - cut]
        assert found[place] == pytest.approx(sum(kept) / len(kept))


def test_trimmed_mean_by_hand(combined):
    """Weights 1/2, 1/4, 1/4; a quarter is cut at either end: (0 + 8) / 2."""
    models = [{"w": np.array([x])} for x in (0.0, 8.0, 100.0)]
    assert combined(trimmed_mean, models, [0.5, 0.25, 0.25], trim=0.25)["w"] == 4
    # Of 5 equal clients 0.3 is 1.5 clients: half of 2, 4 and half of 6.
    models = [{"w": np.array([x])} for x in (-99.0, 2.0, 4.0, 6.0, 99.0)]
    found = combined(trimmed_mean, models, trim=0.3)["w"]
    assert found == pytest.approx(4)


def test_distances_match_loops(models, products):
    rows = vector(models)
    found = squared_distances(products(models))
    for i, j in combinations(range(7), 2):
        expected = sum((a - b) ** 2 for a, b in zip(rows[i], rows[j], strict=True))
        assert found[i, j] == found[j, i] == pytest.approx(expected)
    assert not found.diagonal().any()


def test_krum_matches_loops(models, combined, products):
    rows, f = vector(models), 2
    scores = []
    for i in range(7):
        others = sorted(np.sum((rows[i] - rows[j]) ** 2) for j in range(7) if j != i)
        scores.append(sum(others[: 7 - f - 2]))
    assert krum_scores(products(models), f) == pytest.approx(scores)
    best = sorted(range(7), key=scores.__getitem__)
    found = combined(krum, models, assumed_hostile=f, chosen=1)
    for key, array in models[best[0]].items():
        assert found[key].tobytes() == array.tobytes()


def test_multi_krum_averages_the_chosen_by_their_weights(models, combined):
    """Krum ignores weights where it chooses, not where it averages."""
    rows = [{"w": np.array([x])} for x in (0.0, 1.0, 2.0, 50.0, 60.0)]
    shares = [0.1, 0.1, 0.2, 0.3, 0.3]
    found = combined(krum, rows, shares, assumed_hostile=1, chosen=3)
    assert found["w"] == pytest.approx((0.1 * 0 + 0.1 * 1 + 0.2 * 2) / 0.4)


@pytest.mark.parametrize(
    "count, options, word",
    [
        (6, {"assumed_hostile": 2, "chosen": 1}, "--assumed-hostile 2"),
        (7, {"assumed_hostile": 2, "chosen": 6}, "--chosen 6"),
    ],
)
def test_krum_refuses_too_few_uploads(models, combined, count, options, word):
    with pytest.raises(UsageError, match=word):
        combined(krum, models[:count], **options)


def test_geometric_median_by_hand(combined):
    """Of a triangle it is Fermat's point, at 120 degrees to every two corners."""
    corners = np.array([[0.0, 0.0], [4.0, 0.0], [1.0, 3.0]])
    models = [{"w": corner} for corner in corners]
    v = combined(geometric_median, models, smoothing=1e-9)["w"]
    for one, other in combinations(corners - v, 2):
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        assert degrees(acos(cosine)) == pytest.approx(120, abs=1e-3)


def test_geometric_median_has_the_least_sum_of_distances(models, combined):
    rows, shares = vector(models), np.array([1, 2, 3, 4, 3, 2, 1]) / 16
    found = vector([combined(geometric_median, models, shares, smoothing=1e-9)])[0]

    def total(v):
        return shares @ np.linalg.norm(rows - v, axis=1)

    rng = np.random.default_rng(0)
    steps = rng.normal(size=(50, rows.shape[1])) * 0.05
    assert all(total(found) < total(found + step) for step in steps)


def test_weiszfeld_matches_its_steps_on_the_uploads(models, products):
    rows, alpha, nu = vector(models), np.full(7, 1 / 7), 1e-6
    v = alpha @ rows
    for _ in range(500):
        beta = alpha / np.maximum(nu, np.linalg.norm(rows - v, axis=1))
        v = beta @ rows / beta.sum()
    weights = weiszfeld(products(models), alpha, nu)
    np.testing.assert_allclose(weights, beta / beta.sum(), atol=1e-9)


def test_clip_by_hand(combined):
    """Updates (3, 4), (0, 1) and (100, 0) from (1, 1), cut to 5, the median length."""
    parent = {"w": np.array([1.0, 1.0])}
    models = [{"w": parent["w"] + u} for u in ([3.0, 4.0], [0.0, 1.0], [100.0, 0.0])]
    found = combined(clipped_mean, models, None, parent, clip=None)["w"]
    np.testing.assert_allclose(found, [1 + 8 / 3, 1 + 5 / 3])
    found = combined(clipped_mean, models, [0.5, 0.25, 0.25], parent, clip=1.0)["w"]
    np.testing.assert_allclose(found, [1 + 0.3 + 0.25, 1 + 0.4 + 0.25])
    assert clip_factors(np.array([0.0, 0.0]), None).tolist() == [1, 1]


def test_clip_of_short_updates_is_the_mean(models, combined):
    found = combined(clipped_mean, models, None, model(99), clip=1e6)
    for key, array in found.items():
        if not is_batchnorm_statistic(key):
            mean = np.mean([one[key].astype(float) for one in models], axis=0)
            np.testing.assert_allclose(array, mean, rtol=1e-3)


@pytest.mark.parametrize("scaling", ["shares", "paper"])
def test_l_dawa_matches_loops(models, combined, scaling):
    """Layers a and bn have a cosine each; so has the projector, whose tensor is alone."""
    parent, shares = model(99), [0.1, 0.2, 0.1, 0.15, 0.25, 0.05, 0.15]
    found = combined(l_dawa, models, shares, parent, scaling=scaling)
    layers = {
        "encoder.a": ("weight", "bias"),
        "encoder.bn": ("weight",),
        "projector": ("w",),
    }
    for layer, ends in layers.items():
        deltas = []
        for one in models:
            mine, theirs = (
                np.concatenate([each[f"{layer}.{end}"].ravel().astype(float) for end in ends])
                for each in (one, parent)
            )  # fmt: skip
            length = np.linalg.norm(mine) * np.linalg.norm(theirs)
            deltas.append(max(0.0, mine @ theirs / length))
        weights = [p * d for p, d in zip(shares, deltas, strict=True)]
        whole = sum(weights)
        for key in (key for key in parent if key.rpartition(".")[0] == layer):
            if parent[key].dtype.kind != "f":
                continue
            by = 1 if scaling == "paper" and "running" not in key else whole
            total = sum(
                w / by * one[key].astype(float)
                for w, one in zip(weights, models, strict=True)
            )
            np.testing.assert_allclose(found[key], total, rtol=1e-3)  # fmt: skip
    assert found["encoder.bn.num_batches_tracked"] == 13


def test_l_dawa_of_layers_without_a_direction(combined):
    """Zeros in the parent count alike; opposite layers all count as they are."""
    parent = {"a.bias": np.zeros(2), "b.weight": np.ones(2)}
    models = [{"a.bias": np.full(2, k), "b.weight": np.full(2, -k)} for k in (1.0, 3.0)]
    found = combined(l_dawa, models, None, parent, scaling="shares")
    assert found["a.bias"].tolist() == [2, 2]
    assert found["b.weight"].tolist() == [-2, -2]


ODD_SIZES = {
    "one number": (1,),
    "a scalar": (),
    "no number": (0, 3),
    "one column": (4, 1),
}


@pytest.mark.parametrize("shape", ODD_SIZES.values(), ids=ODD_SIZES)
@pytest.mark.parametrize("shares", [None, [0.1, 0.2, 0.1, 0.15, 0.25, 0.05, 0.15]])
@pytest.mark.parametrize("name", [*RULES, "mean"])
def test_no_rule_changes_its_uploads(name, shares, shape, combined):
    """The stacks are read-only, so a rule that sorts in place fails."""
    rule, options = {**RULES, "mean": (mean, {})}[name]
    rng = np.random.default_rng(0)
    given = [
        {"a.weight": rng.normal(size=5), "b.bias": np.asarray(rng.normal(size=shape))}
        for _ in range(7)
    ]
    parent = given[3] if name in WITH_PARENT else None
    found = combined(rule, given, shares, parent, **options)["b.bias"]
    every = np.stack([each["b.bias"] for each in given])
    assert found.shape == shape
    if found.size:
        assert (found >= every.min(axis=0)).all() and (found <= every.max(axis=0)).all()


@pytest.mark.parametrize("shares", [[1 / 3] * 3, [0.4, 0.3, 0.3]])
def test_median_of_one_number_leaves_the_stack_as_it_is(shares):
    stack = np.array([[9], [1], [2]], "f4")
    assert weighted_median(stack, shares).tolist() == [2]
    assert stack.tolist() == [[9], [1], [2]]


def test_one_number_decides_by_hand(combined):
    """Client 0 is hostile and its only tensor has one number."""
    given = [{"b": np.array([x], "f4")} for x in (90, 1, 2, 3, 2)]
    for name, expected in (("krum", 2), ("geometric-median", 2), ("median", 2)):
        rule, options = RULES[name]
        options = {**options, "assumed_hostile": 1} if name == "krum" else options
        assert combined(rule, given, **options)["b"] == pytest.approx(
            expected, abs=1e-3
        )
    parent = {"b": np.array([0], "f4")}
    # Update lengths are 90, 1, 2, 3, 2: client 0 counts as 2, so does client 3.
    found = combined(clipped_mean, given, None, parent, clip=None)
    assert found["b"] == pytest.approx((2 + 1 + 2 + 2 + 2) / 5)


@pytest.mark.parametrize("rows", [2, 3, 7, 100])
def test_matrices_in_blocks_of_rows_are_the_same(models, products, monkeypatch, rows):
    G = products(models)
    whole = squared_distances(G), krum_scores(G, 2)
    monkeypatch.setattr(distances, "ROWS", rows)
    np.testing.assert_allclose(products(models), G, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(squared_distances(G), whole[0])
    np.testing.assert_array_equal(krum_scores(G, 2), whole[1])


@pytest.mark.parametrize("name", ["krum", "geometric-median", "clip"])
def test_memory_is_one_matrix_of_all_clients(name, combined, monkeypatch):
    """m x m numbers of 8 bytes, and a few rows of that."""
    monkeypatch.setattr(distances, "ROWS", 20)
    rule, options = RULES[name]
    m = 600
    given = [{"w": np.random.default_rng(k).normal(size=9)} for k in range(m)]
    tracemalloc.start()
    combined(rule, given, None, given[0] if name in WITH_PARENT else None, **options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (0.5 if name == "clip" else 2) * 8 * m**2
