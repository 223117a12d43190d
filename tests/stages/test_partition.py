import json

import numpy as np
import pytest

from furlkit.files.container.read import Container
from furlkit.files.partition import read_partition
from tests.helpers import furlkit


def test_a_partition_file_holds_every_image_once(tmp_path, capsys):
    path = tmp_path / "p.st"
    assert furlkit("partition", "--data", "digits", "--clients", 7, "-o", path) == 0
    found = read_partition(path)
    parts = [found.of(client) for client in range(7)]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1438))
    assert found.histogram.sum(axis=1).tolist() == found.sizes.tolist()
    assert found.facts.class_names == list("0123456789")
    header = Container(path).header
    assert header.seed == 0 and header.options["scheme"] == "iid"
    assert capsys.readouterr().out == (
        f"{path}: 7 clients of 205 to 206 images by iid, 0 public, of 1,438\n"
    )


def test_public_images_belong_to_no_client(tmp_path):
    path, public = tmp_path / "p.st", ("--public-count", 100)
    assert furlkit("partition", "--data", "digits", *public, "-o", path) == 0
    found = read_partition(path)
    assert len(found.public) == 100
    assert not set(found.public) & set(found.indices)


@pytest.mark.parametrize(
    "scheme",
    [
        ("iid",),
        ("classes", "--classes-per-client", 2),
        ("dirichlet", "--concentration", 0.5),
        ("dirichlet-client", "--concentration", 0.5),
        ("volume",),
        ("shards",),
    ],
)
def test_same_seed_same_bytes_other_seed_other_clients(tmp_path, scheme):
    draw = ("partition", "--data", "digits", "--scheme", *scheme)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        folder = tmp_path / name
        assert furlkit(*draw, "--seed", seed, "-o", folder / "p.st") == 0
    a, b = ((tmp_path / name / "p.st").read_bytes() for name in "ab")
    assert a == b
    one, other = (read_partition(tmp_path / name / "p.st") for name in "ac")
    assert not np.array_equal(one.indices, other.indices)


def test_the_four_partitions_of_fedusc(tmp_path):
    """10 clients beside 10 % public; uniform, unbalanced, and Dirichlet 100 and 1."""
    found = {}
    for name, scheme in (
        ("uniform", ("iid",)),
        ("unbalanced", ("volume", "--even-share", 0.1, "--decay", 0.9)),
        ("even", ("dirichlet", "--concentration", 100)),
        ("skewed", ("dirichlet", "--concentration", 1)),
    ):
        words = ("partition", "--data", "digits", "--clients", 10, "--scheme", *scheme)
        path = tmp_path / name
        assert furlkit(*words, "--public-fraction", 0.1, "-o", path) == 0
        found[name] = read_partition(path)
        assert len(found[name].public) == 144 and found[name].sizes.sum() == 1294
    assert np.ptp(found["uniform"].sizes) <= 1
    powers = 0.9 ** np.arange(10)
    shares = 0.1 / 10 + 0.9 * powers / powers.sum()
    assert np.abs(found["unbalanced"].sizes - 1294 * shares).max() <= 1
    # How far a client's mix of classes is from that of all.
    skew = {}
    for name in ("uniform", "even", "skewed"):
        counts = found[name].histogram
        mixes = counts / counts.sum(axis=1, keepdims=True)
        skew[name] = (
            np.abs(mixes - counts.sum(axis=0) / counts.sum()).sum(axis=1).mean()
        )
    assert skew["even"] < 0.4 < 0.6 < skew["skewed"] and skew["uniform"] < 0.4


def test_a_file_of_indices_is_taken_as_it_is_and_its_name_is_not_kept(tmp_path):
    expected = [[0, 5, 9], [1, 2]]
    (tmp_path / "mine.json").write_text(json.dumps(expected))
    split = ("--scheme", "file", "--split-file", tmp_path / "mine.json")
    path = tmp_path / "p.st"
    code = furlkit("partition", "--data", "digits", *split, "--clients", 2, "-o", path)
    assert code == 0
    found = read_partition(path)
    assert [found.of(client).tolist() for client in (0, 1)] == expected
    assert str(tmp_path).encode() not in path.read_bytes()


def test_a_dry_run_prints_the_result_and_writes_nothing(tmp_path, capsys):
    path = tmp_path / "p.st"
    draw = ("partition", "--data", "digits", "-o", path)
    assert furlkit(*draw, "--dry-run") == 0 and list(tmp_path.iterdir()) == []
    planned = capsys.readouterr().out
    assert furlkit(*draw) == 0
    assert f"would write {capsys.readouterr().out}" == planned


@pytest.mark.parametrize(
    "wrong, message",
    [
        (("--decay", 0.5), "--decay"),
        (("--scheme", "dirichlet", "--concentration", "nan"), "--concentration"),
        (("--scheme", "dirichlet", "--concentration", 0), "--concentration"),
        (("--scheme", "volume", "--even-share", 1.5), "--even-share"),
        (("--scheme", "volume", "--decay", 0), "--decay"),
        (("--scheme", "classes", "--classes-per-client", 0), "--classes-per-client"),
        (("--scheme", "classes", "--class-copies", 0), "--class-copies"),
        (("--scheme", "shards", "--shards-per-client", 0), "--shards-per-client"),
        (("--public-fraction", 1), "--public-fraction"),
        (("--public-count", -1), "--public-count"),
        (("--public-client", -1), "--public-client"),
        (("--min-size", -1), "--min-size"),
        (("--redraws", -1), "--redraws"),
        (("--scheme", "diriclet"), "--scheme"),
        (("--clients", 0), "--clients"),
        (("-o", "."), "directory"),
    ],
)
def test_wrong_options_are_wrong_usage(tmp_path, capsys, wrong, message):
    command = ("partition", "--data", "digits", "-o", tmp_path / "p.st", *wrong)
    assert furlkit(*command) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_split_file_decides_the_number_of_clients(tmp_path):
    (tmp_path / "s.json").write_text("[[0, 1, 2], [3, 4]]")
    draw = ("partition", "--data", "digits", "--scheme", "file", "--split-file")
    assert furlkit(*draw, tmp_path / "s.json", "-o", tmp_path / "p") == 0
    options = Container(tmp_path / "p").header.options
    assert read_partition(tmp_path / "p").facts.clients == options["clients"] == 2
