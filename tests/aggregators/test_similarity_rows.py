"""Parts of M that are computed when asked for, against M itself."""

import tracemalloc

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from furlkit.aggregators.dictionary import unit_rows
from furlkit.aggregators.similarity_rows import Similarities
from furlkit.errors import InputError

N, TAU, CPU = 40, 0.1, torch.device("cpu")


def clients(*widths, n=N, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {k: rng.standard_normal((n, d)) for k, d in enumerate(widths)}
    return {k: unit_rows(rows.astype(np.float32)) for k, rows in sizes.items()}


def ensemble(form, n=N, tau=TAU, parts=None, columns=None, matrix=None):
    """Similarities as distill makes them of an ensemble file of that form."""
    given = [torch.from_numpy(part) for part in (parts or {}).values()]
    places = [torch.from_numpy(c).long() for c in (columns or {}).values()]
    return Similarities(given, places, matrix, tau_T=tau, name="e")


def whole(parts, tau=TAU):
    """M over exp(1 / tau), in float64."""
    cosines = [R.astype(np.float64) @ R.T.astype(np.float64) for R in parts.values()]
    return np.mean([np.exp((M_k - 1) / tau) for M_k in cosines], axis=0)


def largest(parts, k):
    """The k largest cosines of every row of every client, and their columns."""
    values, columns = {}, {}
    for client, R in parts.items():
        M_k = R @ R.T
        columns[client] = np.argsort(-M_k, axis=1, kind="stable")[:, :k]
        values[client] = np.take_along_axis(M_k, columns[client], 1)
    return values, {client: c.astype(np.int32) for client, c in columns.items()}


def rows(given, images, anchors):
    found = given(torch.tensor(images), torch.tensor(anchors))
    return found.numpy()


IMAGES, ANCHORS = [3, 0, 39, 3], [5, 3, 3, 12, 0, 39, 20]


def test_rows_on_the_fly_are_those_of_the_matrix():
    parts = clients(3, 8, 5)
    expected = whole(parts)[np.ix_(IMAGES, ANCHORS)]
    found = rows(ensemble("rows", parts=parts), IMAGES, ANCHORS)
    assert found.shape == (4, 7) and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    matrix = whole(parts).astype(np.float32)
    stored = rows(ensemble("matrix", matrix=matrix), IMAGES, ANCHORS)
    assert stored.tolist() == matrix[np.ix_(IMAGES, ANCHORS)].tolist()


def test_the_largest_100_percent_are_the_whole():
    parts = clients(3, 8, 5)
    values, columns = largest(parts, N)
    found = rows(ensemble("top", parts=values, columns=columns), IMAGES, ANCHORS)
    np.testing.assert_allclose(
        found, rows(ensemble("rows", parts=parts), IMAGES, ANCHORS), rtol=1e-5
    )


@pytest.mark.parametrize("form", ["rows", "top"])
def test_a_trimmed_ensemble_of_three_is_the_median(form):
    parts = clients(3, 8, 5)
    values, columns = (parts, None) if form == "rows" else largest(parts, N)
    given = [torch.from_numpy(part) for part in values.values()]
    places = [torch.from_numpy(c).long() for c in (columns or {}).values()]
    found = rows(Similarities(given, places, tau_T=TAU, trim=0.4), IMAGES, ANCHORS)
    sharp = [np.exp((R @ R.T - 1) / TAU) for R in parts.values()]
    expected = np.median(sharp, axis=0)[np.ix_(IMAGES, ANCHORS)]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_of_the_largest_alone_the_others_count_nothing():
    parts = clients(3, 8)
    values, columns = largest(parts, 4)
    found = rows(ensemble("top", parts=values, columns=columns), IMAGES, ANCHORS)
    for b, image in enumerate(IMAGES):
        for m, anchor in enumerate(ANCHORS):
            sent = [
                np.exp((parts[k][image] @ parts[k][anchor] - 1) / TAU)
                for k in parts
                if anchor in columns[k][image]
            ]
            assert found[b, m] == pytest.approx(sum(sent) / 2, rel=1e-4, abs=1e-12)
    assert (found == 0).any() and (found > 0).any()


def test_rotation_and_dimension_change_nothing():
    parts = clients(3, 8)
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((20, 8)))[0].T
    turned = {**parts, 1: (parts[1] @ basis).astype(np.float32)}
    np.testing.assert_allclose(
        rows(ensemble("rows", parts=turned), IMAGES, ANCHORS),
        rows(ensemble("rows", parts=parts), IMAGES, ANCHORS), rtol=1e-4,
    )  # fmt: skip


def test_the_temperature_is_the_ensemble_s():
    parts = clients(3)
    for tau in (0.05, 1.0):
        found = rows(ensemble("rows", tau=tau, parts=parts), IMAGES, ANCHORS)
        expected = whole(parts, tau)[np.ix_(IMAGES, ANCHORS)]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.1])
def test_a_matrix_is_checked_where_it_is_read(value):
    matrix = whole(clients(3)).astype(np.float32)
    matrix[7, 9] = value
    given = ensemble("matrix", matrix=matrix)
    assert rows(given, [6], [9]).shape == (1, 1)
    with pytest.raises(InputError, match="e: the matrix"):
        rows(given, [7], [9])


class Largest(TorchFunctionMode):
    """The size of the largest tensor that any torch call has returned."""

    most = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, torch.Tensor):
                self.most = max(self.most, tensor.numel())
        return made


@pytest.mark.parametrize("form", ["rows", "top"])
def test_nothing_is_n_by_n(form):
    """The largest tensor of a call: (B, m) and the rows for rows, (B, n) for top."""
    n, d, B, m = 20_000, 4, 4, 8
    parts = clients(d, d, n=n)
    columns = {k: np.tile(np.arange(d, dtype=np.int32), (n, 1)) for k in parts}
    what = {"parts": parts, "columns": columns} if form == "top" else {"parts": parts}
    images, anchors = torch.arange(B), torch.arange(m)
    similarities = ensemble(form, n=n, **what)
    with Largest() as made:
        assert similarities(images, anchors).shape == (B, m)
    assert B * m <= made.most <= (B * m if form == "rows" else B * n)


def test_of_a_matrix_the_asked_for_rows_alone_are_read(tmp_path):
    n, B = 2000, 4
    stored = np.memmap(tmp_path / "m", np.float32, "w+", shape=(n, n))
    stored[:B] = 1
    given = ensemble("matrix", n=n, matrix=stored)
    tracemalloc.start()
    found = given(torch.arange(B), torch.arange(9))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.tolist() == np.ones((B, 9)).tolist()
    assert peak < 3 * B * n * 4
