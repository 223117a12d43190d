import json
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from furlkit import catalogue
from furlkit.catalogue import Number, Option, Rule, defaults
from furlkit.errors import FurlkitError, InputError, TooEarlyError, UsageError
from furlkit.files.checkpoint import CheckpointFacts, read_checkpoint, write_checkpoint
from furlkit.files.facts import Provenance
from furlkit.stages.aggregate import run

MANY = """
import resource, sys
from pathlib import Path
from furlkit.catalogue import defaults
from furlkit.stages.aggregate import run
resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
paths = tuple(sorted(Path(sys.argv[1]).glob("c*")))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
out = Path(sys.argv[1]) / "out"
run({**defaults("aggregate"), "inputs": paths, "output": out})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def tensors(k: int) -> dict[str, np.ndarray]:
    """A model of a few numbers, of every kind a checkpoint may have."""
    rng = np.random.default_rng(k)
    return {
        "encoder.half": rng.normal(size=3).astype(np.float16),
        "encoder.weight": rng.normal(size=(4, 2)).astype(np.float32),
        "encoder.double": rng.normal(size=2),
        "encoder.bn.running_mean": rng.normal(size=4).astype(np.float32),
        "encoder.bn.running_var": rng.random(4).astype(np.float32),
        "encoder.bn.num_batches_tracked": np.array(2**60 + k),
        "encoder.scalar": np.float32(rng.normal()).reshape(()),
        "encoder.empty": np.empty((0, 3), np.float32),
    }


def write(path: Path, k: int, model=None, **facts) -> Path:
    words = {"client": k, "examples": 10 + k, "parent": "a" * 64, "round": 3}
    words["partition"] = "b" * 64
    known = {"role": "client", "architecture": {"encoder": "toy"}, "mean": [0.5]}
    provenance = Provenance("local-train", {}, 0)
    facts = CheckpointFacts(**{**known, "std": [0.5], **words, **facts})
    write_checkpoint(path, model or tensors(k), facts, provenance)
    return path


@pytest.fixture
def uploads(tmp_path) -> list[Path]:
    return [write(tmp_path / f"c{k}", k) for k in range(4)]


def values(uploads, tmp_path, **options):
    given = {"inputs": tuple(uploads), "output": tmp_path / "out", **options}
    return {**defaults("aggregate"), **given}


def mean_of(uploads, tmp_path, **options):
    run(values(uploads, tmp_path, **options))
    return read_checkpoint(tmp_path / "out")


def test_aggregate_of_one_client_is_identity(tmp_path):
    model = {"w": np.array([-0.0, 1 / 3, 1e-45, -3e38], np.float32), **tensors(1)}
    write(tmp_path / "c", 1, model)
    found = mean_of([tmp_path / "c"], tmp_path).tensors
    assert found.keys() == model.keys()
    for name, array in model.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_the_line_counts_its_clients(tmp_path, uploads):
    assert "mean of 4 clients, " in run(values(uploads, tmp_path))[0]
    line, _ = run(values(uploads[:1], tmp_path, force=True))
    assert "mean of 1 client, " in line


def transcribed(weights) -> dict[str, np.ndarray]:
    """The weighted mean in plain float64, in client order, cast at the very end."""
    found = {}
    for name, first in tensors(0).items():
        if first.dtype.kind != "f":
            found[name] = np.max([tensors(k)[name] for k in range(4)], axis=0)
            continue
        total = np.zeros(first.shape)
        for k, weight in enumerate(weights):
            total = total + tensors(k)[name].astype(float) * (weight / sum(weights))
        found[name] = total.astype(first.dtype)
    return found


@pytest.mark.parametrize(
    "how, weights",
    [
        ("examples", [10.0, 11.0, 12.0, 13.0]),
        ("uniform", [1.0, 1.0, 1.0, 1.0]),
        ("given", [0.5, 0.0, 2.0, 7.25]),
    ],
)
def test_mean_matches_transcription_to_the_last_bit(tmp_path, uploads, how, weights):
    if how == "given":
        how = str(tmp_path / "weights.json")
        words = {str(k): weight for k, weight in enumerate(weights)}
        Path(how).write_text(json.dumps({**words, "99": 1}))
    found = mean_of(uploads, tmp_path, weights=how)
    for name, array in transcribed(weights).items():
        assert found.tensors[name].dtype == array.dtype
        assert found.tensors[name].tobytes() == array.tobytes(), name
    shares = [weight / sum(weights) for weight in weights]
    assert found.header.options["shares"] == shares


def test_mean_of_a_tensor_of_many_pieces(tmp_path):
    rng = np.random.default_rng(0)
    large = [rng.normal(size=200_001).astype(np.float32) for _ in range(3)]
    paths = [write(tmp_path / f"c{k}", k, {"w": large[k]}) for k in range(3)]
    total = sum(large[k].astype(float) * ((10 + k) / 33) for k in range(3))
    found = mean_of(paths, tmp_path).tensors["w"]
    assert found.tobytes() == total.astype(np.float32).tobytes()


def test_header_of_the_global_model(tmp_path, uploads):
    found = mean_of(uploads, tmp_path)
    assert found.facts == CheckpointFacts(
        "global", 3, {"encoder": "toy"}, [0.5], [0.5], examples=46, parent="a" * 64,
        partition="b" * 64,
    )  # fmt: skip
    contents = [read_checkpoint(path).content for path in uploads]
    assert found.header.inputs == {f"client {k}": c for k, c in enumerate(contents)}


def test_order_and_names_of_files_change_no_byte(tmp_path, uploads):
    mean_of(uploads, tmp_path)
    first = (tmp_path / "out").read_bytes()
    moved = [p.rename(tmp_path / f"x{9 - k}") for k, p in enumerate(uploads)]
    for order in ([3, 1, 0, 2], [0, 2, 3, 1, 0, 0]):
        mean_of([moved[k] for k in order], tmp_path)
        assert (tmp_path / "out").read_bytes() == first
    assert str(tmp_path).encode() not in first


def test_same_file_twice_is_one_vote(tmp_path, uploads):
    mean_of(uploads, tmp_path)
    first = (tmp_path / "out").read_bytes()
    copy = tmp_path / "copy"
    copy.write_bytes(uploads[1].read_bytes())
    mean_of([*uploads, uploads[2], copy], tmp_path)
    assert (tmp_path / "out").read_bytes() == first


def test_keep_leaves_out_running_statistics(tmp_path, uploads):
    kept = mean_of(uploads, tmp_path, bn="keep")
    averaged = mean_of(uploads, tmp_path)
    assert not kept.facts.statistics
    left_out = averaged.tensors.keys() - kept.tensors.keys()
    assert {name.rpartition(".")[2] for name in left_out} == {
        "running_mean", "running_var", "num_batches_tracked",
    }  # fmt: skip
    for name, array in kept.tensors.items():
        assert array.tobytes() == averaged.tensors[name].tobytes()


def test_every_byte_counts_in_the_check_even_of_tensors_left_out(tmp_path, uploads):
    from furlkit.files.container.read import Container

    opened = Container(uploads[2])
    raw = uploads[2].read_bytes()
    for entry in opened.entries:
        for place in {entry.start, entry.end - 1} if entry.size else ():
            broken = bytearray(raw)
            broken[opened.body_start + place] ^= 1
            uploads[2].write_bytes(broken)
            for options in ({"bn": "keep"}, {"bn": "average"}, {"dry_run": True}):
                with pytest.raises(InputError, match="c2: "):
                    mean_of(uploads, tmp_path, **options)
                assert not (tmp_path / "out").exists()


def test_dry_run_writes_nothing_and_says_the_same(tmp_path, uploads):
    line, data = run(values(uploads, tmp_path, dry_run=True))
    assert not (tmp_path / "out").exists()
    real_line, real = run(values(uploads, tmp_path))
    assert line == real_line
    assert {**data, "content": real["content"]} == real


def test_too_few_clients(tmp_path, uploads):
    with pytest.raises(TooEarlyError, match="3 clients .*--at-least"):
        mean_of([*uploads[:3], uploads[0]], tmp_path, at_least=4)
    assert mean_of(uploads, tmp_path, at_least=4).facts.examples == 46


@pytest.mark.parametrize(
    "facts, message",
    [
        ({"role": "global", "client": None}, "role global"),
        ({"client": None}, "role client"),
        ({"examples": 0}, "0 examples"),
        ({"examples": 10**12 + 1}, "1000000000001 examples"),
        ({"round": 2}, "round is 2"),
        ({"parent": "b" * 64}, "b" * 64),
        ({"client": 1}, "client 1"),
        ({"mean": [0.4]}, "mean is [0.4]"),
        ({"architecture": {"encoder": "other"}}, "architecture"),
    ],
)
def test_upload_whose_facts_do_not_fit(tmp_path, uploads, facts, message):
    write(uploads[3], 3, **facts)
    with pytest.raises(InputError) as caught:
        mean_of(uploads, tmp_path)
    assert str(uploads[3]) in str(caught.value) and message in str(caught.value)
    assert not (tmp_path / "out").exists()


# --- models of several rounds ---------------------------------------------------------


def aged_uploads(tmp_path, *, head_in):
    """Clients 0 and 1 of round 5, 2 of round 4 and 3 of round 2, with different parts."""
    paths = []
    for k, round_ in enumerate((5, 5, 4, 2)):
        model = {"encoder.w": np.array([k + 1.0]), "clusters.w": np.array([10.0 * k])}
        if k not in head_in:
            del model["clusters.w"]
        about = {"round": round_, "parent": f"{round_}" * 64, "parts": [*model]}
        paths.append(write(tmp_path / f"a{k}", k, model, **about))
    return paths


def test_older_models_count_less_by_their_age(tmp_path):
    """n_k a^-(t - t_k), divided by the sum: 10, 11, 12 / 2 and 13 / 8 by hand."""
    paths = aged_uploads(tmp_path, head_in=(0, 1, 2, 3))
    found = mean_of(paths, tmp_path, staleness=2.0)
    weights = [10.0, 11.0, 12.0 / 2, 13.0 / 8]
    shares = [weight / sum(weights) for weight in weights]
    assert found.header.options["shares"] == shares
    assert found.header.options["staleness"] == 2.0
    expected = sum(share * (k + 1) for k, share in enumerate(shares))
    assert found.tensors["encoder.w"].tolist() == pytest.approx([expected])
    assert found.facts.round == 5 and found.facts.parent == "5" * 64
    assert found.facts.examples == 46


@pytest.mark.parametrize("head_in", [(0, 1), (0, 1, 3), (2, 3), (3,)])
def test_the_result_has_the_parts_of_the_newest_models(tmp_path, head_in):
    """Each tensor is the mean over those that have it; others are checked all the same."""
    paths = aged_uploads(tmp_path, head_in=head_in)
    found = mean_of(paths, tmp_path, staleness=2.0)
    weights = dict(zip(range(4), [10.0, 11.0, 6.0, 1.625], strict=True))
    total = sum(weights[k] * (k + 1) for k in weights) / sum(weights.values())
    assert found.tensors["encoder.w"].tolist() == pytest.approx([total])
    if 0 not in head_in:
        assert found.tensors.keys() == {"encoder.w"} == set(found.facts.parts)
    else:
        total = sum(weights[k] * 10 * k for k in head_in)
        expected = total / sum(weights[k] for k in head_in)
        assert found.tensors["clusters.w"].tolist() == pytest.approx([expected])
    raw = bytearray(paths[3].read_bytes())
    raw[-1] ^= 1
    paths[3].write_bytes(raw)
    (tmp_path / "out").unlink()
    with pytest.raises(InputError, match="a3: the bytes"):
        mean_of(paths, tmp_path, staleness=2.0)
    assert not (tmp_path / "out").exists()


def test_models_of_one_round_are_averaged_as_ever(tmp_path, uploads):
    plain, aged = mean_of(uploads, tmp_path), mean_of(uploads, tmp_path, staleness=1.4)
    for name, array in plain.tensors.items():
        assert aged.tensors[name].tobytes() == array.tobytes()


def test_a_model_of_another_shape_or_a_client_twice_is_refused(tmp_path):
    paths = aged_uploads(tmp_path, head_in=())
    about = {"round": 1, "parts": ["encoder.w"]}
    write(tmp_path / "twice", 3, {"encoder.w": np.array([1.0])}, **about)
    with pytest.raises(InputError, match=r"a3 and .*twice: are both of client 3"):
        mean_of([*paths, tmp_path / "twice"], tmp_path, staleness=2.0)
    write(paths[3], 3, {"encoder.w": np.ones(2)}, **about)
    with pytest.raises(InputError, match=r"a3: encoder.w is .*\(2,\)"):
        mean_of(paths, tmp_path, staleness=2.0)
    assert not (tmp_path / "out").exists()


def test_the_result_line_counts_models_of_earlier_rounds(tmp_path):
    paths = aged_uploads(tmp_path, head_in=())
    line, _ = run(values(paths, tmp_path, staleness=2.0))
    assert line.endswith("mean of 4 clients, 46 examples, 2 of them of earlier rounds")


@pytest.mark.parametrize(
    "name, array, message",
    [
        ("encoder.weight", np.ones((2, 4), "f4"), "(2, 4)"),
        ("encoder.weight", np.ones((1,), "f4"), "(1,)"),
        ("encoder.bn.running_mean", np.ones(1, "f4"), "(1,)"),
        ("encoder.scalar", np.ones(1, "f4"), "(1,)"),
        ("encoder.weight", np.ones((4, 2)), "float64"),
        ("encoder.bn.num_batches_tracked", np.array(1.0), "float64"),
        ("encoder.more", np.ones(1), "encoder.more"),
        ("encoder.weight", None, "encoder.weight"),
    ],
)
def test_upload_whose_tensors_do_not_fit(tmp_path, uploads, name, array, message):
    model = {**tensors(3), name: array}
    write(uploads[3], 3, {k: v for k, v in model.items() if v is not None})
    for options in ({}, {"bn": "keep"}, {"dry_run": True}):
        with pytest.raises(InputError) as caught:
            mean_of(uploads, tmp_path, **options)
        assert f"{uploads[3]}: " in str(caught.value)
        assert name in str(caught.value) and message in str(caught.value)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "model", [{"n": np.array(1.5)}, {"bn.running_var": np.ones(2)}]
)
def test_upload_without_weights(tmp_path, forge, model):
    path = write(tmp_path / "c", 0, model)
    forge(path, {"n": None})
    with pytest.raises(InputError, match="c: .*no weights"):
        mean_of([path], tmp_path, bn="keep")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_upload_that_diverged(tmp_path, uploads, forge, value):
    broken = tensors(1)["encoder.weight"]
    broken[2, 1] = value
    forge(uploads[1], {"encoder.weight": broken})
    for options in ({}, {"dry_run": True}):
        with pytest.raises(InputError, match="c1: encoder.weight"):
            mean_of(uploads, tmp_path, **options)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "text, error, message",
    [
        ('{"0": 1, "1": 1, "2": 1}', UsageError, "client 3"),
        ('{"0": 1, "0": 2}', InputError, "'0'"),
        ('{"0": NaN}', InputError, "NaN"),
        ('{"0": 1e999}', InputError, "JSON"),
        ('{"0": "1"}', InputError, "object"),
        ('{"0": true}', InputError, "object"),
        ('{"0": 1' + "0" * 400 + "}", InputError, "object"),
        ("[1, 1, 1, 1]", InputError, "object"),
        ("", InputError, "JSON"),
        ("[" * 100_000, InputError, "JSON"),
        (None, InputError, "no such file"),
        ('{"0": 0, "1": 0, "2": 0, "3": 0}', UsageError, "shares"),
        ('{"0": -1, "1": 2, "2": 1, "3": 1}', UsageError, "shares"),
    ],
)
def test_weights_that_cannot_be_used(tmp_path, uploads, text, error, message):
    path = tmp_path / "weights.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(error) as caught:
        mean_of(uploads, tmp_path, weights=str(path))
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_hundred_clients_stream_in_little_memory(tmp_path, python, monkeypatch):
    """100 models of 1 MB, more files than may be open, in far less than 100 MB."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 200:
        pytest.skip("this system allows too few open files")
    monkeypatch.setattr(os, "fsync", lambda _: None)
    weight = np.ones((512, 512), np.float32)
    for k in range(100):
        write(tmp_path / f"c{k:02}", k, {"w": weight * k}, examples=1)
    kilobytes = int(python(MANY, tmp_path))
    assert kilobytes < 30 * 1024
    assert np.all(read_checkpoint(tmp_path / "out").tensors["w"] == np.float32(49.5))


def krum(uploads):
    """The upload with the smallest sum of squared distances to its n - 2 nearest."""
    n = len(uploads.clients)
    D = np.zeros((n, n))
    for name in uploads.names:
        for distances in uploads.combine(name, squared_distances):
            D += distances
    chosen = np.sort(D, axis=1)[:, 1 : n - 1].sum(axis=1).argmin()
    return lambda name: uploads.combine(
        name, lambda column: [array.copy() for array in column][chosen]
    )


def squared_distances(column):
    rows = np.stack([array.astype(float) for array in column])  # (n, d)
    return ((rows[:, None] - rows) ** 2).sum(axis=2)  # (n, n)


def scaled(uploads, *, scale):
    """Client 0's tensors times a factor."""

    def first(column):
        array = next(column)
        with np.errstate(over="ignore", invalid="ignore"):
            array *= scale
        return array

    return lambda name: uploads.combine(name, first)


@pytest.fixture
def add_rule(monkeypatch):
    def add(function, *options):
        name = function.__name__
        place = f"{__name__}:{name}"
        rule = Rule(name, "a toy", place, reads="checkpoint", options=options)
        monkeypatch.setitem(catalogue.RULES, name, rule)
        own = {option.key for option in catalogue.RULES["mean"].options}
        return {k: v for k, v in defaults("aggregate").items() if k not in own}

    return add


@pytest.fixture
def points(tmp_path):
    """Clients at (0, 1), (4, 0), (3, 4) and, far away, (100, 100)."""
    places = [(0, 1), (4, 0), (3, 4), (100, 100)]
    return [
        write(tmp_path / f"p{k}", k, {
            "encoder.a": np.array([a], np.float32), "encoder.b": np.array([b], np.float32)
        })
        for k, (a, b) in enumerate(places)
    ]  # fmt: skip


def test_a_rule_may_go_through_all_uploads_first(tmp_path, points, add_rule):
    """Distances 17, 18 and 17: client 1 wins. By a alone 2 would, by b alone 0."""
    known = add_rule(krum)
    run({**known, "rule": "krum", "inputs": tuple(points), "output": tmp_path / "out"})
    found = read_checkpoint(tmp_path / "out")
    assert found.tensors["encoder.a"].tolist() == [4]
    assert found.tensors["encoder.b"].tolist() == [0]
    assert found.facts.role == "global" and found.header.options["rule"] == "krum"


def test_a_rule_that_drops_uploads_still_refuses_broken_ones(
    tmp_path, points, add_rule, forge
):
    known = add_rule(krum)
    forge(points[3], {"encoder.b": np.array([np.nan], np.float32)})
    given = {"rule": "krum", "inputs": tuple(points), "output": tmp_path / "out"}
    with pytest.raises(InputError, match="p3: encoder.b"):
        run({**known, **given})
    assert not (tmp_path / "out").exists()


def test_a_rule_is_given_its_own_options(tmp_path, points, add_rule):
    known = add_rule(scaled, Option("scale", Number(), 2.0, "A factor."))
    given = {"rule": "scaled", "inputs": tuple(points), "output": tmp_path / "out"}
    run({**known, **given, "scale": 3.0})
    found = read_checkpoint(tmp_path / "out")
    assert found.tensors["encoder.a"].tolist() == [0]
    assert found.tensors["encoder.b"].tolist() == [3]
    assert found.header.options == {
        "rule": "scaled", "scale": 3.0, "shares": [10 / 46, 11 / 46, 12 / 46, 13 / 46],
    }  # fmt: skip


def test_a_rule_that_gives_nan_writes_nothing(tmp_path, points, add_rule):
    known = add_rule(scaled, Option("scale", Number(), 2.0, "A factor."))
    given = {"rule": "scaled", "inputs": tuple(points), "output": tmp_path / "out"}
    with pytest.raises(FurlkitError, match=r"out: .*encoder\.a"):
        run({**known, **given, "scale": 1e39})
    assert not (tmp_path / "out").exists()
