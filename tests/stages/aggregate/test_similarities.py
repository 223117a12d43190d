import json
import random

import numpy as np
import pytest

from furlkit.aggregators.dictionary import unit_rows
from furlkit.files.container.read import Container
from furlkit.files.ensemble import read_ensemble
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, write_features
from furlkit.files.similarity import write_similarity
from furlkit.stages.aggregate import similarities

N, PROVENANCE = 12, Provenance("embed", {}, None, {"model": "a" * 64})
DATASET = {"examples": 90, "images": "b" * 64}
INDEX = np.arange(N) * 3
WIDTHS = {2: 3, 10: 5, 0: 4}


def R(client):
    rng = np.random.default_rng(client)
    return rng.standard_normal((N, WIDTHS[client])).astype(np.float32)


def M(client):
    unit = unit_rows(R(client).astype(np.float64))
    return unit @ unit.T


def facts(client):
    return FeatureFacts("z", DATASET, "public", client, 2, N)


def features(folder, client, encoding="float32"):
    path = folder / f"f{client}"
    write_features(path, R(client), INDEX, facts(client), PROVENANCE, encoding)
    return path


def whole(folder, client, encoding="float32"):
    path, blocks = folder / f"s{client}", [M(client).astype(np.float32)]
    write_similarity(path, blocks, INDEX, facts(client), PROVENANCE, encoding)
    return path


def top(folder, client, encoding="float32", k=3):
    path, M_k = folder / f"t{client}", M(client)
    columns = np.argsort(-M_k, axis=1)[:, :k]
    values = np.take_along_axis(M_k, columns, 1).astype(np.float32)
    more = (INDEX, facts(client), PROVENANCE, encoding, columns)
    write_similarity(path, [values], *more)
    return path


def full_top(folder, client, encoding="float32"):
    return top(folder, client, encoding, k=N)


def uploads(folder, kind=features, encoding="float32"):
    """Clients 2, 10 and 0: sorted by name they are in another order than by number."""
    return [kind(folder, client, encoding) for client in WIDTHS]


@pytest.fixture
def aggregate(run, tmp_path):
    def call(*words, output=tmp_path / "e"):
        return run("aggregate", "--rule", "ensemble", *words, "-o", output), output

    return call


def mean(tau=0.1):
    """Eq. 4-6, over exp(1 / tau)."""
    return np.mean([np.exp((M(client) - 1) / tau) for client in WIDTHS], axis=0)


def matrix_of(path):
    return np.asarray(read_ensemble(path).matrix)


def test_unit_rows_are_kept_for_each_client(tmp_path, aggregate):
    done, path = aggregate(*uploads(tmp_path))
    line = f"{path}: round 2, ensemble of 3 clients on 12 images, as rows\n"
    assert done == (0, line, "")
    found = read_ensemble(path)
    assert list(found.parts) == [0, 2, 10] and not found.columns
    for client, rows in found.parts.items():
        np.testing.assert_allclose(rows, unit_rows(R(client)), rtol=1e-6)
    assert found.index.tolist() == INDEX.tolist()


def test_it_says_where_it_comes_from(tmp_path, aggregate):
    given = uploads(tmp_path)
    header = Container(aggregate(*given, "--temperature", 0.2)[1]).header
    assert header.stage == "aggregate" and header.seed is None
    assert header.options == {
        "rule": "ensemble",
        "temperature": 0.2,
        "matrix": False,
        "form": "rows",
    }
    assert header.inputs == {
        f"client {client}": Container(path).content
        for client, path in zip(WIDTHS, given, strict=True)
    }
    assert header.facts == {
        "form": "rows", "clients": [0, 2, 10], "round": 2, "temperature": 0.2,
        "dataset": DATASET, "part": "public", "examples": N, "layer": "z",
    }  # fmt: skip


@pytest.mark.parametrize("kind", [features, whole, full_top])
@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_a_matrix_is_equation_6_of_any_kind_of_upload(tmp_path, aggregate, kind, tau):
    more = ("--matrix", "--temperature", tau)
    done, path = aggregate(*uploads(tmp_path, kind), *more)
    assert done.code == 0
    np.testing.assert_allclose(matrix_of(path), mean(tau), rtol=1e-5)
    assert matrix_of(path).dtype == np.float32


def test_a_matrix_is_written_in_blocks(tmp_path, aggregate, monkeypatch):
    given = uploads(tmp_path)
    monkeypatch.setattr(similarities, "BLOCK", 5)
    np.testing.assert_allclose(
        matrix_of(aggregate(*given, "--matrix")[1]), mean(), rtol=1e-5
    )


def test_whole_similarities_make_a_matrix_unasked(tmp_path, aggregate):
    done, path = aggregate(*uploads(tmp_path, whole))
    assert done.out.endswith("on 12 images, as matrix\n")
    np.testing.assert_allclose(matrix_of(path), mean(), rtol=1e-5)


def test_the_largest_stay_a_list_unless_a_matrix_is_asked_for(tmp_path, aggregate):
    given = uploads(tmp_path, top)
    done, path = aggregate(*given)
    found = read_ensemble(path)
    assert done.out.endswith("as top\n") and list(found.columns) == [0, 2, 10]
    expected = np.zeros((N, N))
    for client in WIDTHS:
        kept = M(client) >= np.sort(M(client), axis=1)[:, -3:-2]
        assert found.parts[client].shape == (N, 3)
        expected += kept * np.exp((M(client) - 1) / 0.1) / 3
    _, path = aggregate(*given, "--matrix")
    np.testing.assert_allclose(matrix_of(path), expected, rtol=1e-5)


def test_whole_and_largest_together_are_a_matrix(tmp_path, aggregate):
    given = [whole(tmp_path, 0), full_top(tmp_path, 2), whole(tmp_path, 10)]
    _, path = aggregate(*given)
    np.testing.assert_allclose(matrix_of(path), mean(), rtol=1e-5)


@pytest.mark.parametrize("kind", [features, whole])
@pytest.mark.parametrize("encoding, error", [("float16", 1e-3), ("int8", 1.5e-2)])
def test_fewer_bytes_change_cosines_by_their_rounding(
    tmp_path, aggregate, kind, encoding, error
):
    """exp(c / tau) turns an error e of a cosine into a factor of exp(e / tau)."""
    _, path = aggregate(*uploads(tmp_path, kind, encoding), "--matrix")
    change = np.abs(np.log(matrix_of(path) / mean()))
    assert 0 < change.max() < error / 0.1


def test_clients_may_write_their_numbers_in_different_ways(tmp_path, aggregate):
    ways = zip(WIDTHS, ("float32", "float16", "int8"), strict=True)
    done, path = aggregate(*(features(tmp_path, k, way) for k, way in ways))
    lengths = [np.linalg.norm(R, axis=1) for R in read_ensemble(path).parts.values()]
    assert done.code == 0
    np.testing.assert_allclose(lengths, 1, rtol=1e-6)


@pytest.mark.parametrize("kind", [features, whole, top])
@pytest.mark.parametrize("more", [(), ("--matrix",)])
def test_order_and_repetition_of_files_change_nothing(tmp_path, aggregate, kind, more):
    given = uploads(tmp_path, kind)
    expected = aggregate(*given, *more)[1].read_bytes()
    shuffled = [*given, given[0]]
    for seed in range(2):
        random.Random(seed).shuffle(shuffled)
        assert aggregate(*shuffled, *more)[1].read_bytes() == expected


def test_one_client_is_an_ensemble(tmp_path, aggregate):
    done, path = aggregate(features(tmp_path, 2), "--matrix")
    assert done.out.endswith("ensemble of 1 client on 12 images, as matrix\n")
    np.testing.assert_allclose(matrix_of(path), np.exp((M(2) - 1) / 0.1), rtol=1e-5)


def test_json_has_form_clients_and_content(tmp_path, aggregate):
    done, path = aggregate(*uploads(tmp_path), "--json")
    result = json.loads(done.out)
    assert (result["form"], result["clients"], result["round"]) == (
        "rows",
        [0, 2, 10],
        2,
    )
    assert result["content"] == Container(path).content


def test_a_dry_run_checks_and_writes_nothing(tmp_path, aggregate, forge):
    given = uploads(tmp_path)
    done, path = aggregate(*given, "--dry-run")
    assert done.code == 0 and "3 clients" in done.out and not path.exists()
    forge(given[1], facts={"round": 1})
    assert aggregate(*given, "--dry-run")[0].code == 65


OTHER = {**DATASET, "images": "c" * 64}


@pytest.mark.parametrize("kind", [features, whole, top])
@pytest.mark.parametrize(
    "tensors, words, message",
    [
        ({}, {"round": 1}, "round"),
        ({}, {"part": "all"}, "--part"),
        ({}, {"layer": "h"}, "--layer"),
        ({}, {"dataset": OTHER}, "other images"),
        ({}, {"dataset": {}}, "images"),
        ({}, {"client": 10}, "client 10"),
        ({}, {"client": -1}, "'client'"),
        ({"index": INDEX[::-1].copy()}, {}, "row 0"),
        ({"index": INDEX + 1}, {}, "12 of 12"),
        ({"index": None}, {}, "index"),
        ({"index": INDEX[1:]}, {}, "index"),
    ],
)
def test_uploads_that_do_not_fit(
    tmp_path, forge, refused, kind, tensors, words, message
):
    given = uploads(tmp_path, kind)
    path = forge(given[0], tensors, words)
    (tmp_path / "e").touch()
    for more in ((), ("--matrix",), ("--dry-run",)):
        command = ("aggregate", "--rule", "ensemble", *given, *more)
        refused(tmp_path, 65, (path, message), *command, "-o", tmp_path / "e")


@pytest.mark.parametrize(
    "kind, tensors, message",
    [
        (features, {"rows": R(2)[1:], "index": INDEX[1:]}, "11 images"),
        (features, {"rows": R(2) * (np.arange(N) > 0)[:, None]}, "zeros in 1 of"),
        (features, {"rows": np.zeros((N, 0), "f4")}, "zeros in 12 of"),
        (features, {"rows": R(2) * np.nan}, "NaN"),
        (whole, {"matrix": np.full((N, N), np.nan, "f4")}, "nan"),
        (whole, {"matrix": np.full((N, N), np.inf, "f2")}, "inf"),
        (whole, {"matrix": np.ones((N, 3), "f4")}, "(12, 3)"),
        (whole, {"matrix": np.full((N, N), 9, "f4")}, "row 0"),
        (whole, {"matrix": np.full((N, N), -9, "f4")}, "-9"),
        (whole, {"matrix": 1.8 * np.eye(N, dtype="f4") - 0.8}, "no vectors"),
        (top, {"matrix": np.full((N, 3), np.nan, "f4")}, "nan"),
        (top, {"matrix": np.full((N, 3), 2, "f4")}, "row 0"),
        (top, {"columns": np.full((N, 3), N, "i4")}, "columns"),
    ],
)  # fmt: skip
def test_values_that_cannot_be(tmp_path, forge, refused, kind, tensors, message):
    given = uploads(tmp_path, kind)
    path = forge(given[0], tensors)
    command = ("aggregate", "--rule", "ensemble", *given, "-o", tmp_path / "e")
    refused(tmp_path, 65, (path, message), *command)


@pytest.mark.parametrize("kind", [features, whole, full_top])
def test_a_trimmed_ensemble_of_three_is_the_median(tmp_path, aggregate, kind):
    given = uploads(tmp_path, kind)
    _, path = aggregate(*given, "--matrix", "--trim", 0.34)
    sharp = np.exp((np.stack([M(client) for client in WIDTHS]) - 1) / 0.1)
    np.testing.assert_allclose(matrix_of(path), np.median(sharp, axis=0), rtol=1e-4)
    assert read_ensemble(path).facts.trim == 0.34


def test_a_collapsed_client_moves_a_trimmed_ensemble_little(tmp_path, aggregate, forge):
    """Client 2 claims that all images are alike: cosines of 1."""
    given = uploads(tmp_path)
    forge(given[0], {"rows": np.ones((N, 3), "f4")})
    done, path = aggregate(*given, "--matrix", "--trim", 0.34)
    honest = [np.exp((M(client) - 1) / 0.1) for client in (0, 10)]
    assert (matrix_of(path) <= np.maximum(*honest) * 1.001).all()
    assert "of the ensemble is of" not in done.err
    assert matrix_of(aggregate(*given, "--matrix")[1]).min() > 0.333


def test_features_among_similarities(tmp_path, refused):
    given = [whole(tmp_path, 0), features(tmp_path, 2), top(tmp_path, 10)]
    command = ("aggregate", "--rule", "ensemble", *given, "-o", tmp_path / "e")
    words = (given[1], "features", "similarity")
    refused(tmp_path, 65, words, *command)


def test_too_few_clients_is_a_stop_and_not_a_failure(tmp_path, refused):
    given = uploads(tmp_path)
    command = ("aggregate", "--rule", "ensemble", *given, given[0], "--at-least", 4)
    words = ("3 clients", "--at-least")
    refused(tmp_path, 75, words, *command, "-o", tmp_path / "e")


@pytest.mark.parametrize(
    "rule, option",
    [
        ("mean", ("--temperature", 0.1)),
        ("mean", ("--matrix",)),
        ("dictionary", ("--temperature", 0.1)),
        ("dictionary", ("--matrix",)),
        ("ensemble", ("--weights", "uniform")),
        ("ensemble", ("--bn", "keep")),
        ("ensemble", ("--dictionary-size", 9)),
    ],
)
def test_options_of_another_rule(tmp_path, refused, rule, option):
    given = uploads(tmp_path)
    command = ("aggregate", "--rule", rule, *option, *given, "-o", tmp_path / "e")
    refused(tmp_path, 2, (option[0], f"--rule {rule}"), *command)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "x"])
def test_temperatures_that_cannot_be(tmp_path, refused, value):
    command = ("aggregate", "--rule", "ensemble", "--temperature", value)
    given = uploads(tmp_path)
    refused(tmp_path, 2, ("--temperature",), *command, *given, "-o", tmp_path / "e")


def test_an_output_that_is_an_input(tmp_path, refused):
    given = uploads(tmp_path)
    command = ("aggregate", "--rule", "ensemble", *given, "-o", given[1])
    refused(tmp_path, 2, (f"-o {given[1]}",), *command)
