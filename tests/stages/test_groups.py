"""Images of a group, such as a patient, stay together."""

import json

import numpy as np
import pytest
from PIL import Image

from furlkit.data.partitions.groups import split_groups
from furlkit.data.partitions.schemes import SchemeOptions
from furlkit.data.sets.groups import one_of_each, whole_groups
from furlkit.data.sets.labels import LabelSet
from furlkit.files.dataset import read_dataset
from furlkit.files.partition import read_partition
from tests.helpers import furlkit

RNG = np.random.default_rng


def dataset(patients=12, each=5):
    """Patients of a class each, with a stray image of another class."""
    groups = np.repeat(np.arange(patients), each)
    labels = groups % 3
    labels[::each] = (labels[::each] + 1) % 3
    order = RNG(0).permutation(len(groups))
    return LabelSet(
        "toy",
        len(groups),
        labels[order],
        None,
        ("0", "1", "2"),
        {},
        groups=groups[order],
    )


def of(parts, groups):
    return [set(groups[part].tolist()) for part in parts]


@pytest.mark.parametrize(
    "scheme, own",
    [
        ("iid", {"with_replacement": False}),
        ("iid", {"with_replacement": False, "public_fraction": 0.3}),
        ("iid", {"with_replacement": False, "public_count": 11}),
        (
            "classes",
            {"classes_per_client": 1, "class_copies": 1, "ordered_classes": False},
        ),
        ("dirichlet", {"concentration": 0.5, "cap_at_mean": False}),
        ("volume", {"even_share": 0.5, "decay": 0.5, "classes_per_client": None}),
        ("shards", {"shards_per_client": 2}),
    ],
)
def test_no_scheme_divides_a_group(scheme, own):
    data, options = dataset(), SchemeOptions(scheme, 3, 1, 100, None, own)
    found = split_groups(data, options, RNG(1))
    held = of([*found.indices, found.public], data.groups)
    assert sum(map(len, held)) == len(set().union(*held)) == 12
    everyone = np.concatenate([*found.indices, found.public])
    assert np.array_equal(np.sort(everyone), np.arange(60))
    size = own.get("public_count") or round(60 * own.get("public_fraction", 0))
    assert len(found.public) == size // 5 * 5
    if scheme == "classes":
        reduced, _ = one_of_each(data, data.groups)
        for groups in held[:3]:
            assert len({int(reduced.labels[g]) for g in groups}) == 1


def test_a_client_may_be_public_and_small_clients_are_refused():
    data = dataset()
    own = {"with_replacement": False}
    found = split_groups(data, SchemeOptions("iid", 3, 1, 9, 2, own), RNG(0))
    assert len(found.public) == 20 and not len(found.indices[2])
    from furlkit.errors import UsageError

    with pytest.raises(UsageError, match="--min-size 21"):
        split_groups(data, SchemeOptions("iid", 3, 21, 9, None, own), RNG(0))


def test_whole_groups_have_about_the_number_of_images():
    groups = np.array([0, 0, 0, 1, 2, 2, 3, 3, 3, 3])
    for count in range(11):
        taken = whole_groups(groups, count, RNG(count))
        inside = set(groups[taken].tolist())
        assert taken.sum() == np.isin(groups, list(inside)).sum()
        assert taken.sum() <= max(count, 4) and taken.any()


@pytest.fixture
def scans(tmp_path):
    """class/patient/number.png, with a patient in both classes."""
    number = 0
    for kind, patients in (("ill", "abcdef"), ("well", "fghijk")):
        for patient in patients:
            (tmp_path / "scans" / kind / patient).mkdir(parents=True)
            for k in range(3):
                pixels = np.full((8, 8), number, np.uint8)
                Image.fromarray(pixels).save(
                    tmp_path / f"scans/{kind}/{patient}/{k}.png"
                )
                number += 1
    return tmp_path / "scans"


def patient_of(scans):
    """The patient of every image, in the order of the folder."""
    return np.array([path.parent.name for path in sorted(scans.rglob("*.png"))])


def table(scans, path):
    files = sorted(scans.rglob("*.png"))
    lines = [f"{f.relative_to(scans).as_posix()},{f.parent.name}" for f in files]
    path.write_text("\n".join(["file,group", *reversed(lines)]) + "\n")
    return path


@pytest.mark.parametrize("kind", ["folder", "csv"])
def test_partition_keeps_patients_together(scans, tmp_path, run, kind):
    groups = "folder" if kind == "folder" else table(scans, tmp_path / "t.csv")
    out = tmp_path / "p"
    command = ("partition", "--data", scans, "--groups", groups, "--clients", 4)
    found = run(*command, "--public-fraction", 0.2, "-o", out)
    assert found.code == 0 and "11 groups, none divided" in found.out
    partition, patients = read_partition(out), patient_of(scans)
    parts = [partition.of(k) for k in range(4)] + [partition.public]
    held = [set(patients[part]) for part in parts]
    assert sum(map(len, held)) == len(set().union(*held)) == 11
    assert b"file,group" not in out.read_bytes()


def test_splits_and_packed_files_keep_patients_together(scans, tmp_path):
    patients, seen = patient_of(scans), []
    for split in ("train", "test"):
        out = tmp_path / split
        pack = ("pack", scans, "--groups", "folder", "--train-fraction", 0.6)
        assert furlkit(*pack, "--split", split, "-o", out) == 0
        images = read_dataset(out).images[:, 0, 0, 0]
        seen.append(set(patients[images]))
        if split == "train":
            groups = read_dataset(out).groups
            assert len(set(zip(groups, patients[images], strict=True))) == len(seen[0])
    assert not seen[0] & seen[1] and len(seen[0] | seen[1]) == 11
    # A packed file remembers its groups.
    part = tmp_path / "p"
    data = ("--data", tmp_path / "train")
    assert furlkit("partition", *data, "--clients", 2, "-o", part) == 0
    partition = read_partition(part)
    held = [set(groups[partition.of(k)].tolist()) for k in range(2)]
    assert not held[0] & held[1]


def test_evaluate_semi_labels_whole_patients(scans, tmp_path):
    out = tmp_path / "d"
    assert furlkit("pack", scans, "--groups", "folder", "-o", out) == 0
    assert furlkit("init", "--data", out, "--width", 0.02, "-o", tmp_path / "m") == 0
    command = (
        "evaluate", "semi", tmp_path / "m", "--data", out, "--test-data", scans,
        "--mode", "central", "--fraction", 0.4, "--epochs", 1, "--batch-size", 4, "-o", tmp_path / "s.json",
    )  # fmt: skip
    assert furlkit(*command) == 0
    found = json.loads((tmp_path / "s.json").read_text())
    # Groups have 3 images, that of the patient in both classes has 6.
    assert found["train_examples"] % 3 == 0 and 0 < found["train_examples"] <= 14


@pytest.fixture
def parted(scans, tmp_path):
    """A table of patients, a partition by it, and a model."""
    groups = table(scans, tmp_path / "patients.csv")
    command = ("partition", "--data", scans, "--groups", groups, "--clients", 2)
    assert furlkit(*command, "-o", tmp_path / "p") == 0
    size = ("--image-size", 8, "--channels", 1, "--width", 0.02)
    assert furlkit("init", "--data", scans, *size, "-o", tmp_path / "m") == 0
    return groups


def semi(scans, tmp_path, *more):
    return (
        "evaluate", "semi", tmp_path / "m", "--data", scans, "--test-data",
        scans, "--fraction", 0.5, "--epochs", 1, "--rounds", 1, "--batch-size", 3,
        "--mode", "federated", "--partition", tmp_path / "p", *more,
        "-o", tmp_path / "s.json",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["folder", "csv"])
def test_evaluate_semi_of_a_folder_labels_whole_patients(
    scans, tmp_path, parted, run, kind
):
    groups = "folder" if kind == "folder" else parted
    done = run(*semi(scans, tmp_path, "--groups", groups))
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "s.json").read_text())
    assert all(n % 3 == 0 and n > 0 for n in found["labelled"].values())
    assert str(parted) not in (tmp_path / "s.json").read_text()


def test_evaluate_semi_asks_for_the_groups_of_the_partition(
    scans, tmp_path, parted, refused
):
    words = [tmp_path / "p", "give --groups"]
    refused(tmp_path, 65, words, *semi(scans, tmp_path))
    lines = parted.read_text().replace("/a/0.png,a", "/a/0.png,other")
    (tmp_path / "other.csv").write_text(lines)
    more = ("--groups", tmp_path / "other.csv")
    refused(tmp_path, 65, [*words, "other"], *semi(scans, tmp_path, *more))


def test_evaluate_semi_of_arrays_takes_a_group_for_each_image(tmp_path, run):
    images = RNG(0).integers(0, 256, (24, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "d.npz", images=images, labels=np.arange(24) % 2)
    lines = ["group", *(str(n // 4) for n in range(24))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    data = ("--data", tmp_path / "d.npz")
    assert furlkit("init", *data, "--width", 0.02, "-o", tmp_path / "m") == 0
    done = run(
        "evaluate", "semi", tmp_path / "m", *data, "--test-data", tmp_path / "d.npz",
        "--mode", "central", "--fraction", 0.4, "--epochs", 1, "--batch-size", 4,
        "--groups", tmp_path / "t.csv", "-o", tmp_path / "s.json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "s.json").read_text())["train_examples"] == 8


@pytest.mark.parametrize("kind", ["folder", "csv"])
def test_replay_finds_the_groups(scans, tmp_path, parted, run, kind):
    if kind == "folder":
        command = ("partition", "--data", scans, "--groups", "folder")
        assert furlkit(*command, "--clients", 2, "-o", tmp_path / "p", "--force") == 0
    more = ("--data", scans, "--run", "--into", tmp_path / "again" / "here")
    done = run("replay", tmp_path / "p", *more)
    assert done.code == 0 and "same bytes" in done.out, done
    assert furlkit(*semi(scans, tmp_path, "--groups", parted)) == 0
    done = run("replay", tmp_path / "s.json", *more, "--depth", 1)
    assert done.code == 0 and "same" in done.out, done
    parted.unlink()
    if kind == "csv":
        done = run("replay", tmp_path / "p", *more)
        assert done.code == 65 and "table of groups" in done.err


@pytest.mark.parametrize(
    "text, word",
    [
        ("", "file,group"),
        ("a,b\n1,2\n", "file,group"),
        ("file,group\nill/a/0.png,1\n", "no group for"),
        ("group\n1\n2\n", "2 groups"),
        ("file,group\nill/a/0.png,\n", "no group"),
    ],
)
def test_tables_that_do_not_fit_are_refused(scans, tmp_path, refused, text, word):
    (tmp_path / "t.csv").write_text(text)
    command = ("partition", "--data", scans, "--groups", tmp_path / "t.csv")
    words = [tmp_path / "t.csv", word]
    refused(tmp_path, 65, words, *command, "-o", tmp_path / "p")


def test_groups_need_files_or_a_line_for_each_image(tmp_path, run):
    command = ("partition", "--data", "digits", "--groups")
    assert run(*command, "folder", "-o", tmp_path / "p").code == 2
    lines = "\n".join(["group", *(str(n // 10) for n in range(1438))])
    (tmp_path / "t.csv").write_text(lines)
    assert "144 groups" in run(*command, tmp_path / "t.csv", "-o", tmp_path / "p").out


def test_check_warns_of_patients_in_train_and_test(scans, run):
    command = ("check", scans / "ill", "--test-data", scans / "well")
    found = run(*command, "--groups", "folder")
    assert found.code == 0 and "share 1 group" in found.err and "f/0.png" in found.err
    assert "share" not in run(*command).err
