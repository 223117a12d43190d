"""furlkit neighbours: which images are nearest; its file, and what is refused."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from furlkit.files.features import read_features
from furlkit.files.neighbours import read_neighbours
from furlkit.files.partition import read_partition
from tests.helpers import furlkit, round_0, tensor_bytes


@pytest.fixture(scope="module")
def round_of_files(tmp_path_factory):
    split = ("--clients", 8, "--public-count", 30)
    return round_0(tmp_path_factory.mktemp("round_of_files"), split)


@pytest.fixture
def neighbours(round_of_files, tmp_path):
    def run(name, *more, data="digits"):
        output = tmp_path / f"{name}.st"
        words = (
            "neighbours",
            round_of_files / "g.st",
            "--data",
            data,
            *more,
            "-o",
            output,
        )
        return furlkit(*words), output

    return run


@pytest.mark.parametrize("layer", ["h", "z"])
@pytest.mark.parametrize("part", ["3", "public", "all"])
def test_they_have_the_highest_cosines_among_the_images_of_the_part(
    round_of_files, tmp_path, neighbours, layer, part
):
    chosen = ("--partition", round_of_files / "p.st", "--part", part, "--layer", layer)
    words = ("embed", round_of_files / "g.st", "--data", "digits", *chosen)
    assert furlkit(*words, "-o", tmp_path / "rows") == 0
    features = read_features(tmp_path / "rows")
    code, path = neighbours("n", *chosen, "--nearest", 5)
    found = read_neighbours(path)
    assert code == 0 and found.nearest.shape == (len(features.index), 5)
    assert np.array_equal(found.index, features.index)
    unit = F.normalize(torch.from_numpy(features.rows).double(), dim=1)
    place = {image: row for row, image in enumerate(found.index.tolist())}
    for row in (0, len(unit) // 2, len(unit) - 1):
        cosines = unit @ unit[row]
        cosines[row] = -1
        own = cosines[[place[image] for image in found.nearest[row].tolist()]]
        torch.testing.assert_close(own, cosines.topk(5).values, atol=1e-6, rtol=0)
    assert (found.facts.layer, found.facts.part) == (layer, part)


def test_the_default_is_the_20_nearest_by_z(round_of_files, neighbours, run):
    code, path = neighbours(
        "n", "--partition", round_of_files / "p.st", "--part", "public"
    )
    found = read_neighbours(path)
    assert code == 0 and found.nearest.shape == (30, 20) and found.facts.layer == "z"
    told = run("inspect", path).out
    assert "neighbours of 30 images" in told
    assert "z of the public part" in " ".join(told.split())
    again = run("neighbours", round_of_files / "g.st", "--data", "digits", "--partition",
                round_of_files / "p.st", "--part", "public", "-o", path)  # fmt: skip
    assert "already there" in again.out


def test_no_label_is_read_and_none_is_told_of(
    round_of_files, tmp_path, neighbours, capsys
):
    packed = tmp_path / "packed.safetensors"
    assert furlkit("pack", "digits", "--no-labels", "-o", packed) == 0
    part = ("--partition", round_of_files / "p.st", "--part", 0)
    with_labels, without = neighbours("a", *part), neighbours("b", *part, data=packed)
    assert tensor_bytes(with_labels[1]) == tensor_bytes(without[1])
    said = "".join(capsys.readouterr()).replace(str(tmp_path), "")
    assert "label" not in said


def test_a_small_part_has_as_many_neighbours_as_there_are(
    tmp_path, run, round_of_files
):
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "few.npz", images=images)
    np.savez(tmp_path / "one.npz", images=images[:1])
    words = ("neighbours", round_of_files / "g.st", "--nearest", 20)
    told = run(*words, "--data", tmp_path / "few.npz", "-o", tmp_path / "n")
    assert told.code == 0 and "the 4 nearest of each of 5 images" in told.out
    found = read_neighbours(tmp_path / "n")
    assert sorted(found.nearest[2].tolist()) == [0, 1, 3, 4]
    told = run(*words, "--data", tmp_path / "one.npz", "-o", tmp_path / "m")
    assert told.code == 65 and "one.npz" in told.err and "1 image" in told.err


def test_a_dry_run_and_what_is_refused(round_of_files, tmp_path, refused, run):
    words = (
        "neighbours",
        round_of_files / "g.st",
        "--data",
        "digits",
        "-o",
        tmp_path / "n",
    )
    told = run(*words, "--dry-run")
    assert (
        told.code == 0
        and told.out.startswith("would write")
        and not (tmp_path / "n").exists()
    )
    refused(tmp_path, 2, ("--nearest",), *words, "--nearest", 0)
    refused(tmp_path, 2, ("--part",), *words, "--part", 3)
    bare = tmp_path / "bare.st"
    net = ("--width", 0.02, "--objective", "rotation", "-o", bare)
    assert furlkit("init", "--data", "digits", *net) == 0
    wrong = ("neighbours", bare, *words[2:])
    refused(tmp_path, 65, (bare, "--layer h"), *wrong)
    assert run(*wrong, "--layer", "h").code == 0
    partition = read_partition(round_of_files / "p.st")
    assert len(partition.public) == 30
