"""Rounds of sites: clients that have images of their own and no partition."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.clients import client_order, is_name
from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.private import read_private
from furlkit.randomness import derive
from tests.helpers import digest, furlkit

NET = ("--image-size", 8, "--width", 0.02, "--projector", "8,4")
BRIEF = ("--epochs", 1, "--batch-size", 8)
FACTS = {
    "role", "round", "architecture", "mean", "std", "client", "parent", "parts",
    "run", "statistics",
}  # fmt: skip


def folder_of_digits(folder: Path, first: int, count: int) -> Path:
    """A folder of classes with digits as PNG files."""
    digits = load_digits()
    for place in range(first, first + count):
        path = folder / f"digit{digits.target[place]}" / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[place] * 15).astype(np.uint8)).save(path)
    return folder


@pytest.fixture(scope="module")
def _sites(tmp_path_factory) -> Path:
    """Two folders, st-mary and north, and a global model of round 0."""
    root = tmp_path_factory.mktemp("sites")
    mary = folder_of_digits(root / "st-mary", 0, 20)
    folder_of_digits(root / "north", 20, 12)
    made = ("--data", mary, *NET, "-o", root / "g0.safetensors")
    assert furlkit("init", *made) == 0
    return root


@pytest.fixture
def sites(_sites, tmp_path) -> "Sites":
    return Sites(_sites, tmp_path)


class Sites:
    """Both sites, and the folder of a test."""

    def __init__(self, root: Path, folder: Path):
        self.root, self.folder = root, folder
        self.start = root / "g0.safetensors"

    def __call__(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def train(self, client, data: str, output: str, *more, model=None) -> Path:
        """One round of a site."""
        given = ("--data", self.root / data, "--client", client, *BRIEF)
        words = (model or self.start, *given, *more, "-o", self(output))
        assert furlkit("local-train", *words) == 0
        return self(output)

    def both(self, prefix: str, *more, model=None) -> list[Path]:
        """One round of both; {} in the options stands for the name."""
        return [
            self.train(name, name, f"{prefix}_{name}",
                       *(str(word).replace("{}", name) for word in more), model=model)
            for name in ("st-mary", "north")
        ]  # fmt: skip


def test_a_number_of_a_site_has_the_random_stream_of_that_client(sites):
    """A partition that gives client 0 all images trains the same weights.

    Only the site leaves out the numbers of batches, which tell the number of images.
    """
    data = sites.root / "st-mary"
    words = ("--data", data, "--clients", 1, "-o", sites("p"))
    assert furlkit("partition", *words) == 0
    given = (sites("p"), sites.start, "--data", data, "--client", 0, *BRIEF)
    assert furlkit("local-train", *given, "-o", sites("partitioned")) == 0
    sites.train(0, "st-mary", "site")
    site, simulated = (read_checkpoint(sites(n)) for n in ("site", "partitioned"))
    for name, array in simulated.tensors.items():
        if not name.endswith("num_batches_tracked"):
            np.testing.assert_array_equal(site.tensors[name], array)
    assert site.facts.partition is None and site.header.seed is None
    assert simulated.header.seed == 0


def test_names_come_after_numbers_and_are_part_of_the_seed():
    given = ["st-mary", 10, "Zoo", 9, "a.b_c"]
    assert sorted(given, key=client_order) == [9, 10, "Zoo", "a.b_c", "st-mary"]
    assert derive(0, "local-train", 1, "north") != derive(0, "local-train", 1, "south")


@pytest.mark.parametrize("name", ["a", "st-mary", "Site_7.b", "x" * 64])
def test_names_that_are_allowed(name):
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", "3a", "-a", ".a", "..", "a/b", "a\\b", "a b", "a\n", "é", "x" * 65]
)
def test_names_that_are_refused(sites, refused, name):
    assert not is_name(name)
    given = ("--data", sites.root / "north", "--client", name, "-o", sites("u"))
    refused(sites.folder, 2, ["--client"], "local-train", sites.start, *given)


def test_two_clients_of_one_folder_are_refused(sites, refused):
    given = ("--data", sites.root / "north", "--client", "0-1")
    command = ("local-train", sites.start, *given, "-o", sites("u_{client}"))
    refused(sites.folder, 2, ["PARTITION"], *command)


@pytest.mark.parametrize(
    "tell, told",
    [
        (None, {"examples", "loss"}),
        ("nothing", set()),
        ("classes", {"classes"}),
        ("examples", {"examples"}),
    ],
)
def test_the_header_tells_what_the_site_chose_and_no_more(sites, tell, told):
    more = () if tell is None else ("--tell", tell)
    header = Container(sites.train("north", "north", "u", *more)).header
    assert header.facts.keys() == FACTS | told
    assert header.inputs.keys() == {"global"}
    if "classes" in told:
        counts = header.facts["classes"]
        assert sum(counts.values()) == 12 and set(counts) <= {
            f"digit{k}" for k in range(10)
        }
    text = header.to_json()
    fingerprint_words = ("images", "labels", "files", "north.", str(sites.root))
    assert not any(f'"{word}"' in text for word in fingerprint_words)


def test_counts_of_batches_do_not_tell_what_is_not_told(sites):
    """BatchNorm counts batches, and so images; nothing else differs."""
    told = read_checkpoint(sites.train("north", "north", "told")).tensors
    path = sites.train("north", "north", "untold", "--tell", "nothing")
    untold, before = (
        read_checkpoint(path).tensors,
        read_checkpoint(sites.start).tensors,
    )
    counts = {name for name in told if name.endswith("num_batches_tracked")}
    assert counts
    for name, array in untold.items():
        expected = before if name in counts else told
        np.testing.assert_array_equal(array, expected[name])


def test_without_numbers_of_examples_every_site_counts_the_same(sites, run):
    sites.train("st-mary", "st-mary", "a")
    sites.train(3, "north", "b", "--tell", "nothing")
    done = run("aggregate", "--json", sites("a"), sites("b"), "-o", sites("g1"))
    assert done.code == 0 and "client 3 does not tell" in done.err
    assert json.loads(done.out)["shares"] == {"3": 0.5, "st-mary": 0.5}
    mean, one, other = (read_checkpoint(sites(n)) for n in ("g1", "a", "b"))
    assert mean.facts.examples is None
    name = "encoder.conv1.weight"
    expected = (one.tensors[name].astype(np.float64) + other.tensors[name]) / 2
    np.testing.assert_array_equal(mean.tensors[name], expected.astype(np.float32))


def test_numbers_that_are_told_are_weights_and_classes_are_summed(sites, run):
    uploads = sites.both("u", "--tell", "examples,classes")
    done = run("aggregate", "--json", *uploads, "-o", sites("g1"))
    found = json.loads(done.out)
    assert found["shares"] == {"north": 12 / 32, "st-mary": 20 / 32}
    assert sum(found["classes"].values()) == 32
    assert read_checkpoint(sites("g1")).facts.examples is None
    named = ("aggregate", *uploads, "--named", "-o", sites("named"))
    assert run(*named).code == 0
    assert read_checkpoint(sites("named")).facts.examples == 32


def test_two_uploads_of_one_name_are_refused(sites, refused):
    one, other = (sites.train("north", data, data) for data in ("north", "st-mary"))
    words = [one, other, "north"]
    refused(sites.folder, 65, words, "aggregate", one, other, "-o", sites("g1"))


def test_a_header_with_a_path_for_a_name_is_refused(sites, forge, refused):
    upload = forge(sites.train("north", "north", "u"), facts={"client": "../../etc"})
    words = [upload, "client"]
    refused(sites.folder, 65, words, "aggregate", upload, "-o", sites("g1"))


def test_a_partition_has_no_client_by_name(world, refused):
    given = (world.partition, world.model, "--data", "digits", "--client", "north")
    words = ["--client north", world.partition]
    refused(world.folder, 2, words, "local-train", *given, "-o", world.output)


def test_an_upload_of_other_images_is_made_again(sites, run):
    """The upload does not say which images it is of; the site's journal does."""
    data = folder_of_digits(sites.folder / "own", 0, 10)
    words = ("local-train", sites.start, "--data", data, "--client", "x", *BRIEF)
    words = (*words, "-o", sites("u"))
    assert run(*words).code == 0
    first = digest(sites("u"))
    assert "already there" in run(*words).out
    folder_of_digits(data, 10, 10)
    assert "making it again" in run(*words).err
    assert digest(sites("u")) != first


def test_rows_of_single_images_are_dropped_when_the_images_change(sites, run):
    data = folder_of_digits(sites.folder / "own", 0, 10)
    given = ("--data", data, "--client", "x", *BRIEF, "--participants", 1)
    shared = ("--alpha", 0.5, "--features-out")
    first = (
        *given,
        *shared,
        sites("f1"),
        "--private-out",
        sites("p1"),
        "-o",
        sites("u1"),
    )
    assert run("local-train", sites.start, *first).code == 0
    assert run("aggregate", sites("u1"), "-o", sites("g1")).code == 0
    again = ("--private", sites("p1"), "--private-out", sites("p2"), "-o", sites("u2"))
    second = ("local-train", sites("g1"), *given, *shared, sites("f2"), *again)
    kept = run(*second)
    assert kept.code == 0 and "have changed" not in kept.err
    folder_of_digits(data, 10, 10)
    changed = run(*second)
    assert changed.code == 0 and "have changed" in changed.err
    assert len(read_private(sites("p2")).memory["averaged_features.rows"]) == 20


def test_rows_of_all_images_tell_their_number(sites, run):
    """Eight rows of twelve images do not."""
    shared = ("--tell", "nothing", "--participants", 1, "--alpha", 0)
    shared = (*shared, "--features-out", sites("f"), *BRIEF, "--client", "x")
    shared = (*shared, "--secret", sites.folder / "x.secret")
    given = (sites.start, "--data", sites.root / "north", *shared)
    command = ("local-train", *given, "-o", sites("u"))
    done = run(*command, "--dictionary-size", 12)
    assert done.code == 0 and "--tell leaves out" in done.err
    done = run(*command, "--dictionary-size", 8, "--force")
    assert done.code == 0 and "--tell leaves out" not in done.err, done.err


def test_a_site_may_tell_less_than_others_without_a_warning(sites, run):
    uploads = [
        sites.train("north", "north", "n", "--tell", "nothing"),
        sites.train("st-mary", "st-mary", "m"),
    ]
    done = run("aggregate", *uploads, "-o", sites("g"), "--strict")
    assert done.code == 0 and "equal weights" in done.err, done.err


def test_the_models_of_one_client_and_the_files_of_another(sites, refused):
    mary, north = sites.both("u")
    data = ("--data", sites.root / "north", "--test-data", sites.root / "st-mary")
    words = [north, mary, "client st-mary", "the global model"]
    command = ("evaluate", "personal", mary, north, *data)
    refused(sites.folder, 65, words, *command, "-o", sites.folder / "o.json")


def test_shared_rows_need_the_number_of_participants(sites, refused):
    given = ("--data", sites.root / "north", "--client", "x", "--alpha", 0)
    command = ("local-train", sites.start, *given, "--features-out", sites("f"))
    refused(sites.folder, 2, ["--participants"], *command, "-o", sites("u"))


def test_fedca_of_two_sites(sites, run):
    """Alignment, shared rows, private files, a common dictionary, and the ledger."""
    public = ("--data", folder_of_digits(sites.folder / "public", 40, 8), *BRIEF)
    align = ("--targets-out", sites("t"), "-o", sites("align"))
    assert furlkit("pretrain-align", sites.start, *public, *align) == 0
    files = sites.folder
    more = (
        "--align", sites("t"), "--align-data", public[1], "--participants", 2,
        "--dictionary-size", 10, "--features-out", files / "f_{}.safetensors",
        "--private-out", files / "p1_{}.safetensors",
    )  # fmt: skip
    uploads = sites.both("u1", *more)
    rows = [sites(f"f_{name}") for name in ("st-mary", "north")]
    pooled = ("aggregate", "--rule", "dictionary", *rows, "-o", sites("d"))
    assert furlkit(*pooled) == 0
    assert read_features(sites("d")).facts.owners is None
    record = Container(files / "d.record").header.facts["facts"]
    assert record["owners"] == [["north", 5], ["st-mary", 5]]
    assert furlkit("aggregate", *uploads, "-o", sites("g1")) == 0
    second = ("--dictionary", sites("d"), "--leave-own-out")
    second += ("--private", files / "p1_{}.safetensors")
    uploads = sites.both("u2", *second, model=sites("g1"))
    assert furlkit("aggregate", *uploads, "-o", sites("g2")) == 0
    counted = json.loads(run("ledger", "--json", sites.folder).out)
    assert [row["client"] for row in counted["clients"]] == ["north", "st-mary"]
    assert counted["total"]["unknown"] == 2  # The model of round 0 is elsewhere.


def test_flesd_of_two_sites(sites):
    public = ("--data", folder_of_digits(sites.folder / "public", 40, 8))
    for upload in sites.both("u"):
        output = sites.folder / f"r_{upload.name}"
        more = ("--similarity", "--top", 50, "-o", output)
        assert furlkit("embed", upload, *public, "--layer", "z", *more) == 0
    seen = sorted(sites.folder.glob("r_*.safetensors"))
    words = ("aggregate", "--rule", "ensemble", *seen, "-o", sites("e"))
    assert furlkit(*words) == 0
    more = (*public, *BRIEF, "--anchors", 8, "-o", sites("g1"))
    assert furlkit("distill", sites("e"), sites.start, *more) == 0
    assert read_checkpoint(sites("g1")).facts.round == 1


def test_a_site_evaluates_its_own_model(sites, run):
    """Ditto: the own model is in the private file, and is scored at the site."""
    more = ("--personal", "ditto", "--private-out", sites("p"))
    upload = sites.train("st-mary", "st-mary", "u", *more)
    assert furlkit("aggregate", upload, "-o", sites("g1")) == 0
    data = sites.root / "st-mary"
    given = ("--data", data, "--test-data", data, "--epochs", 2, "--probes", 1)
    words = ("evaluate", "personal", sites("g1"), sites("p"), *given)
    done = run(*words, "--json", "-o", sites.folder / "personal.json")
    assert done.code == 0, done.err
    (score,) = json.loads(done.out)["clients"]
    assert score["client"] == "st-mary" and score["train_examples"] == 20
    models = ("evaluate", "drift", upload, sites("g1"), "--data", data)
    assert run(*models, "-o", sites.folder / "drift.json").code == 0


@pytest.mark.parametrize("client", ["north", 3])
def test_a_site_has_a_style_of_its_own(sites, client):
    data = ("--data", sites.root / "north", "--client", client, *BRIEF)
    made = ("pretrain-style", sites.start, *data, "--projector", "8,4")
    assert furlkit(*made, "-o", sites("p0")) == 0
    assert read_private(sites("p0")).facts.client == client
    words = ("embed", sites.start, *data[:2], "--personal", sites("p0"), "--style")
    assert furlkit(*words, "-o", sites("f")) == 0
    assert sites("f").with_suffix(".record").exists()
