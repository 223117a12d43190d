"""aggregate: rows and similarities of one client that outvote the others, or make no sense."""

from pathlib import Path

import numpy as np
import pytest

from furlkit.aggregators.dictionary import repeated, unit_rows
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, read_features, write_features
from furlkit.files.similarity import write_similarity

PROVENANCE = Provenance("local-train", {}, 0, {"partition": "a" * 64})
OF_A_SITE = Provenance("local-train", {}, 0)
N, MARK = 24, {"examples": 90, "images": "b" * 64, "labels": "c" * 64}


def directions(client: int, count: int = N, width: int = 6) -> np.ndarray:
    rows = np.random.default_rng(client).standard_normal((count, width))
    return unit_rows(rows.astype(np.float32))


@pytest.fixture
def shared(tmp_path):
    """What local-train --features-out writes, of any rows."""

    def write(client: int, rows: np.ndarray, provenance=PROVENANCE) -> Path:
        path = tmp_path / f"f{client}"
        facts = FeatureFacts(
            "z", {}, str(client), client, 2, len(rows), parent="a" * 64
        )
        write_features(path, rows, np.arange(len(rows)), facts, provenance)
        return path

    return write


@pytest.fixture
def public(tmp_path):
    """What embed writes of a client's model: rows, or the largest of their cosines."""

    def write(client: int, rows: np.ndarray, top: int = 0, encoding="float32") -> Path:
        path, index = tmp_path / f"p{client}", np.arange(N)
        facts = FeatureFacts("h", MARK, "public", client, 2, N)
        if not top:
            write_features(path, rows, index, facts, PROVENANCE)
            return path
        unit = unit_rows(rows)
        M = unit @ unit.T
        columns = np.argsort(-M, axis=1)[:, :top]
        values = np.take_along_axis(M, columns, axis=1)
        write_similarity(path, [values], index, facts, PROVENANCE, encoding, columns)
        return path

    return write


@pytest.fixture
def combine(run, tmp_path):
    def call(rule, *words):
        line = ("aggregate", "--rule", rule, *words, "--force", "-o", tmp_path / "out")
        done = run(*line)
        assert done.code == 0, done.err
        return done.err

    return call


# --- dictionaries -----------------------------------------------------------------------


def test_rows_of_honest_clients_say_nothing(shared, combine):
    files = [shared(k, directions(k, 8)) for k in range(3)]
    assert combine("dictionary", *files) == ""


def test_a_client_that_fills_the_dictionary_is_named_and_cut(shared, combine, tmp_path):
    """It comes first in client order, so it pushes all others out."""
    files = [shared(0, directions(0, 60))] + [
        shared(k, directions(k, 8)) for k in (1, 2)
    ]
    said = combine("dictionary", *files, "--dictionary-size", 24)
    assert said.count("\n") == 1 and str(files[0]) in said
    assert "24 of the 24 rows" in said and "client 0, and 2 other clients" in said
    said = combine("dictionary", *files, "--dictionary-size", 24, "--max-share", 0.34)
    assert said.count("\n") == 1 and "cut client 0 (60 rows) to 8" in said
    found = read_features(tmp_path / "out")
    assert found.facts.owners == [[0, 8], [1, 8], [2, 8]]
    assert Container(tmp_path / "out").header.options["max-share"] == 0.34


def test_a_site_has_at_most_half_of_a_dictionary(shared, combine, tmp_path):
    files = [shared(0, directions(0, 60), OF_A_SITE)]
    files += [shared(k, directions(k, 6), OF_A_SITE) for k in (1, 2)]
    said = combine("dictionary", *files, "--dictionary-size", 24)
    assert said.count("\n") == 1 and "--max-share 0.5, the default" in said
    assert "cut client 0 (60 rows) to 12 rows" in said
    owners = read_features(tmp_path / "out").facts.owners
    assert owners == [[0, 12], [1, 6], [2, 6]]
    combine("dictionary", *files, "--dictionary-size", 24, "--max-share", 1)
    assert read_features(tmp_path / "out").facts.owners == [[0, 24], [1, 0], [2, 0]]
    two = combine("dictionary", *files[:2], "--dictionary-size", 24)
    assert "24 of the 24 rows" in two


@pytest.mark.parametrize("fraction, named", [(1.0, True), (0.5, True), (0.05, False)])
def test_rows_that_an_attack_has_planted_are_named(
    shared, combine, run, tmp_path, fraction, named
):
    files = [shared(k, directions(k, 40)) for k in range(3)]
    line = ("attack", files[1], "--kind", "backdoor-rows", "--fraction", fraction)
    assert run(*line, "-o", tmp_path / "hostile").code == 0
    files[1] = tmp_path / "hostile"
    said = combine("dictionary", *files)
    assert said.count("\n") == named
    assert ("client 1 repeat" in said and str(files[1]) in said) is named


def test_rows_with_a_little_noise_are_a_single_row(shared, combine, tmp_path):
    """The noise hides the repetition from the warning, and not from --distinct."""
    rows = directions(1, 40)
    rows[10:] = rows[10]
    rows = unit_rows(rows + 0.01 * directions(9, 40))
    files = [shared(k, directions(k, 40)) for k in (0, 2)] + [shared(1, rows)]
    assert combine("dictionary", *files) == ""
    said = combine("dictionary", *files, "--distinct", 0.999)
    assert "--distinct 0.999: dropped 29 of 40 rows of client 1\n" in said
    assert read_features(tmp_path / "out").facts.owners == [[0, 40], [1, 11], [2, 40]]
    assert Container(tmp_path / "out").header.options["distinct"] == 0.999


def test_repeated_rows_by_hand():
    rows = np.array([[1, 0], [2, 0], [0, 1], [-0.0, 1], [1, 1], [1, 1 + 1e-6]], "f4")
    assert repeated(rows) == 3
    assert repeated(directions(0)) == 0 and repeated(np.empty((0, 2), "f4")) == 0


def test_a_row_that_is_too_long_is_refused_with_its_client(shared, refused, tmp_path):
    files = [shared(0, directions(0)), shared(1, directions(1) * 3)]
    line = ("aggregate", "--rule", "dictionary", *files, "-o", tmp_path / "out")
    refused(tmp_path, 65, [files[1], "client 1", "length 3"], *line)


def test_rows_near_one_direction_are_named(shared, combine):
    """Noise hides the repetition, and not the common direction."""
    rows = unit_rows(directions(1, 1) + 0.02 * directions(9, 40))
    files = [shared(0, directions(0)), shared(1, rows), shared(2, directions(2))]
    said = combine("dictionary", *files)
    assert said.count("\n") == 1 and str(files[1]) in said
    assert "client 1" in said and "one direction" in said


@pytest.mark.parametrize("count, named", [(24, True), (16, True), (8, False)])
def test_slightly_changed_rows_of_another_client_are_named(
    shared, combine, count, named
):
    rows = directions(1, 24).copy()
    rows[:count] = directions(7, 24)[:count] * (1 + 1e-7)
    files = [shared(0, directions(7, 24)), shared(1, rows), shared(2, directions(2))]
    said = combine("dictionary", *files)
    assert said.count("\n") == named
    assert (str(files[1]) in said and f"client too ({files[0]})" in said) is named


def test_rows_of_another_client_are_named(shared, combine):
    files = [
        shared(0, directions(7)),
        shared(1, directions(1)),
        shared(2, directions(7)),
    ]
    said = combine("dictionary", *files)
    assert "client 2 sent the same numbers as client 0" in said


# --- ensembles ---------------------------------------------------------------------------


@pytest.mark.parametrize("top", [0, 5, N])
def test_models_of_honest_clients_say_nothing(public, combine, top):
    files = [public(k, directions(k), top) for k in range(3)]
    assert combine("ensemble", *files) == ""


@pytest.mark.parametrize("top", [0, N])
def test_a_model_that_finds_everything_alike_is_named(public, combine, top):
    """All of its cosines are near 1, the others' are not: it is most of every sum."""
    collapsed = directions(1) * 0.1 + np.ones(6, "f4")
    files = [public(0, directions(0), top), public(1, collapsed, top)]
    files.append(public(2, directions(2), top))
    said = combine("ensemble", *files)
    assert said.count("\n") == 1 and str(files[1]) in said
    assert "of the ensemble is of client 1" in said


def test_rows_of_a_public_set_that_repeat_are_named(public, combine):
    rows = directions(1)
    rows[: N // 2] = rows[0]
    files = [public(0, directions(0)), public(1, rows), public(2, directions(2))]
    assert "11 of the 24 rows of client 1 repeat" in combine("ensemble", *files)


@pytest.mark.parametrize("encoding", ["float32", "float16", "int8"])
@pytest.mark.parametrize("top", [2, 3, 7, N])
def test_largest_cosines_of_every_encoding_are_accepted(public, combine, top, encoding):
    files = [public(k, directions(k), top, encoding) for k in range(3)]
    assert combine("ensemble", *files) == ""


def larger(matrix, columns):
    """Row 2 finds its second nearest more similar than that one finds it."""
    matrix[2, 1] = 0.99


def moved(matrix, columns):
    """Row 2 names, with a large cosine, an image that does not name it."""
    others = [j for j in range(N) if j not in columns[2] and 2 not in columns[j]]
    columns[2, 1], matrix[2, 1] = others[0], 0.99


def twice(matrix, columns):
    columns[2, 2] = columns[2, 1]


@pytest.mark.parametrize(
    "change, word", [(larger, "row 2"), (moved, "row 2"), (twice, "twice")]
)
def test_a_similarity_that_is_one_sided_is_refused(
    public, refused, forge, tmp_path, change, word
):
    files = [public(k, directions(k), 4) for k in range(2)]
    tensors = Container(files[1]).tensors()
    matrix, columns = tensors["matrix"], tensors["columns"]
    change(matrix, columns)
    forge(files[1], {"matrix": matrix, "columns": columns})
    line = ("aggregate", "--rule", "ensemble", *files, "-o", tmp_path / "out")
    refused(tmp_path, 65, [files[1], word], *line)


def test_an_inbox_leaves_out_cosines_that_no_vectors_have(
    public, world, run, forge, tmp_path
):
    """The rows of the world's clients; client 1 claims that all images are opposites."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for k in range(3):
        path = public(k, directions(k), N)
        forge(
            path, facts={"round": 1, "run": Container(world.model).header.facts["run"]}
        )
        path.rename(inbox / f"p{k}")
    M = 1.9 * np.eye(N, dtype=np.float32) - 0.9
    columns = np.argsort(-M, axis=1).astype(np.int32)
    values = np.take_along_axis(M, columns, axis=1)
    forge(inbox / "p1", {"matrix": values, "columns": columns})
    line = ("aggregate", "--rule", "ensemble", inbox, "--parent", world.model)
    done = run(*line, "-o", tmp_path / "out")
    assert done.code == 0 and "ensemble of 2 clients" in done.out
    assert f"{inbox / 'p1'}: no vectors have the cosines" in done.err
    assert "left out" in done.err
