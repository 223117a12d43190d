import json
import random

import numpy as np
import pytest

from furlkit.aggregators.dictionary import unit_rows
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, read_features, write_features

PARENT = "a" * 64
PROVENANCE = Provenance("local-train", {}, 0, {"partition": "b" * 64})


def upload(folder, client, rows=4, width=3, round_=2, parent=PARENT):
    """What local-train --features-out writes."""
    Z = np.random.default_rng(client).standard_normal((rows, width))
    path = folder / f"f{client}"
    facts = FeatureFacts("z", {}, str(client), client, round_, rows, parent=parent)
    unit = unit_rows(Z.astype(np.float32))
    write_features(path, unit, np.arange(rows), facts, PROVENANCE)
    return path


@pytest.fixture
def uploads(tmp_path):
    """Clients 2, 10 and 0: sorted by name they are in another order than by number."""
    return [upload(tmp_path, client) for client in (2, 10, 0)]


@pytest.fixture
def aggregate(run, tmp_path):
    def call(*words, output=tmp_path / "d"):
        return run("aggregate", "--rule", "dictionary", *words, "-o", output), output

    return call


def test_rows_follow_each_other_in_client_order(uploads, aggregate):
    done, path = aggregate(*uploads)
    assert done == (0, f"{path}: round 2, dictionary of 12 rows of 3 clients\n", "")
    found, (two, ten, zero) = read_features(path), map(read_features, uploads)
    expected = np.concatenate([zero.rows, two.rows, ten.rows])
    assert found.rows.tobytes() == expected.tobytes() and found.rows.dtype == np.float32
    assert found.facts.owners == [[0, 4], [2, 4], [10, 4]]
    assert found.index.tolist() == list(range(12))


def test_it_says_where_it_comes_from(uploads, aggregate):
    _, path = aggregate(*uploads, "--dictionary-size", 10)
    header = Container(path).header
    assert header.stage == "aggregate" and header.seed is None
    assert header.options == {"rule": "dictionary", "dictionary-size": 10}
    assert header.inputs == {
        f"client {client}": Container(upload).content
        for client, upload in zip((2, 10, 0), uploads, strict=True)
    }
    assert header.facts == {
        "layer": "z", "dataset": {}, "part": "dictionary", "round": 2, "examples": 10,
        "parent": PARENT, "owners": [[0, 4], [2, 4], [10, 2]],
    }  # fmt: skip


@pytest.mark.parametrize(
    "size, counts", [(1, [1, 0, 0]), (4, [4, 0, 0]), (9, [4, 4, 1]), (12, [4, 4, 4])]
)
def test_it_is_cut_to_k_rows(uploads, aggregate, size, counts):
    _, whole = aggregate(*uploads)
    everything = read_features(whole).rows
    done, path = aggregate(*uploads, "--dictionary-size", size)
    found = read_features(path)
    assert done.code == 0 and found.rows.tolist() == everything[:size].tolist()
    assert [rows for _, rows in found.facts.owners] == counts


def test_the_paper_s_size_is_the_default(tmp_path, aggregate):
    files = [upload(tmp_path, client, rows=205) for client in range(6)]
    _, path = aggregate(*files)
    assert len(read_features(path).rows) == 1024


def test_order_and_repetition_of_files_change_nothing(uploads, aggregate):
    expected = aggregate(*uploads)[1].read_bytes()
    shuffled = [*uploads, uploads[0]]
    for seed in range(3):
        random.Random(seed).shuffle(shuffled)
        assert aggregate(*shuffled)[1].read_bytes() == expected


def test_json_has_owners_and_content(uploads, aggregate):
    done, path = aggregate(*uploads, "--json")
    result = json.loads(done.out)
    assert result["rows"] == 12 and result["round"] == 2
    assert result["owners"] == [[0, 4], [2, 4], [10, 4]]
    assert result["content"] == Container(path).content


def test_a_dry_run_checks_and_writes_nothing(uploads, aggregate, tmp_path, forge):
    done, path = aggregate(*uploads, "--dry-run")
    assert done.code == 0 and "12 rows" in done.out and not path.exists()
    forge(uploads[1], facts={"round": 1})
    assert aggregate(*uploads, "--dry-run")[0].code == 65


def test_clients_may_share_different_numbers_of_rows(tmp_path, aggregate):
    files = [upload(tmp_path, client, rows=rows) for client, rows in ((0, 2), (1, 5))]
    done, path = aggregate(*files)
    assert done.code == 0
    assert read_features(path).facts.owners == [[0, 2], [1, 5]]


@pytest.mark.parametrize(
    "facts, message",
    [
        ({"round": 1}, "round"),
        ({"parent": "b" * 64}, "b" * 64),
        ({"client": 10}, "client 10"),
        ({"layer": "h"}, "--features-out"),
        ({"owners": [[2, 4]]}, "--features-out"),
        ({"client": -1}, "'client'"),
    ],
)
def test_uploads_that_do_not_fit(uploads, forge, refused, tmp_path, facts, message):
    forge(uploads[0], facts=facts)
    words = (uploads[0], message)
    output = tmp_path / "d"
    output.touch()
    for more in ((), ("--dry-run",)):
        refused(
            tmp_path, 65, words, "aggregate", "--rule", "dictionary", *uploads, *more,
            "-o", output,
        )  # fmt: skip


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda rows: rows[:, :2] / np.linalg.norm(rows[:, :2], axis=1)[:, None],
         "length"),
        (lambda rows: 2 * rows, "length 2"),
        (lambda rows: 0 * rows, "length 0"),
        (lambda rows: rows * np.nan, "NaN"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit(uploads, forge, refused, tmp_path, change, message):
    rows = change(read_features(uploads[0]).rows)
    forge(uploads[0], {"rows": rows})
    words = ("aggregate", "--rule", "dictionary", *uploads, "-o", tmp_path / "d")
    refused(tmp_path, 65, (uploads[0], message), *words)


def test_too_few_clients_is_a_stop_and_not_a_failure(uploads, refused, tmp_path):
    words = ("aggregate", "--rule", "dictionary", *uploads, uploads[0])
    message = ("3 clients", "--at-least")
    refused(tmp_path, 75, message, *words, "--at-least", 4, "-o", tmp_path / "d")


@pytest.mark.parametrize(
    "rule, option",
    [
        ("dictionary", ("--weights", "uniform")),
        ("dictionary", ("--bn", "keep")),
        ("mean", ("--dictionary-size", 9)),
    ],
)
def test_options_of_the_other_rule(uploads, refused, tmp_path, rule, option):
    words = ("aggregate", "--rule", rule, *option, *uploads, "-o", tmp_path / "d")
    refused(tmp_path, 2, (option[0], f"--rule {rule}"), *words)


def test_an_output_that_is_an_input(uploads, refused, tmp_path):
    words = ("aggregate", "--rule", "dictionary", *uploads, "-o", uploads[1])
    refused(tmp_path, 2, (f"-o {uploads[1]}",), *words)
