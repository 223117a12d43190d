"""evaluate neighbours: the share of neighbours of the own class, from files and labels."""

import json

import numpy as np
import pytest

from furlkit.data.sets.source import Source
from furlkit.files.neighbours import read_neighbours
from tests.helpers import furlkit, round_0


@pytest.fixture(scope="module")
def neighbour_files(tmp_path_factory):
    folder = round_0(tmp_path_factory.mktemp("neighbour_files"), ("--clients", 3))
    for client in (0, 1):
        words = ("neighbours", folder / "g.st", "--data", "digits", "--nearest", 3)
        part = ("--partition", folder / "p.st", "--part", client)
        assert furlkit(*words, *part, "-o", folder / f"n{client}.st") == 0
    return folder


@pytest.fixture
def measure(neighbour_files, run, tmp_path):
    def call(*files, data="digits", more=()):
        words = (
            "evaluate",
            "neighbours",
            *(neighbour_files / file for file in files),
            *more,
        )
        return run(*words, "--data", data, "-o", tmp_path / "near.json")

    return call


def counted_by_hand(found):
    """Transcription: each image, each of its neighbours, one after the other."""
    labels = Source("digits").labels().labels
    hits = np.zeros(found.nearest.shape[1])
    for image, others in zip(found.index, found.nearest, strict=True):
        for rank, other in enumerate(others):
            hits[rank] += labels[image] == labels[other]
    return hits / len(found.index)


def test_a_share_is_of_all_images_of_each_file_and_of_each_rank(
    neighbour_files, measure, tmp_path
):
    assert measure("n0.st", "n1.st").code == 0
    found = json.loads((tmp_path / "near.json").read_text())
    files = [read_neighbours(neighbour_files / f"n{k}.st") for k in (0, 1)]
    for part, file in zip(found["parts"], files, strict=True):
        ranks = counted_by_hand(file)
        assert part["ranks"] == pytest.approx(ranks)
        assert part["own_class"] == pytest.approx(ranks.mean())
        assert (part["part"], part["images"]) == (file.facts.part, len(file.index))
    sizes = [part["images"] for part in found["parts"]]
    shares = [part["own_class"] for part in found["parts"]]
    assert found["images"] == sum(sizes)
    assert found["own_class"] == pytest.approx(np.average(shares, weights=sizes))
    assert 0.1 < found["own_class"] < 1


def test_the_result_and_inspect_say_it_and_a_second_run_keeps_it(
    measure, run, tmp_path
):
    path = tmp_path / "near.json"
    share = f"{json.loads(measure('n0.st', more=['--json']).out)['own_class']:.1%}"
    before = path.stat().st_ino  # A file that is written again is another one.
    assert share in measure("n0.st").out and path.stat().st_ino == before
    told = json.loads(run("inspect", path, "--json").out)["summary"]
    assert share in told and "have the image's class" in told


def test_a_dry_run_writes_nothing(measure, tmp_path):
    done = measure("n0.st", "n1.st", more=["--dry-run"])
    assert done.code == 0 and "2 files" in done.out
    assert not (tmp_path / "near.json").exists()


def test_images_without_labels_and_files_of_other_images_are_refused(
    measure, tmp_path, neighbour_files
):
    for name, more in (("plain", ["--no-labels"]), ("test", ["--split", "test"])):
        packed = tmp_path / f"{name}.safetensors"
        assert furlkit("pack", "digits", *more, "-q", "-o", packed) == 0
        done = measure("n0.st", data=packed)
        assert done.code == 65 and f"{name}.safetensors" in done.err
    assert "n0.st" in done.err and not (tmp_path / "near.json").exists()
    assert measure("p.st").code == 65
