"""inspect --outgoing: what a data-protection officer reads before a file leaves a site."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, write_features
from furlkit.files.metrics import write_metrics
from furlkit.files.progress import ProgressFile
from tests.helpers import furlkit


@pytest.fixture
def rows(tmp_path) -> Path:
    """Six rows of four numbers that a site shares, made of mixed images."""
    facts = FeatureFacts(
        "z", {}, "st-mary", client="st-mary", round=1, examples=6,
        share_rows="instahide",
    )  # fmt: skip
    path, made = tmp_path / "rows.safetensors", Provenance("local-train", seed=7)
    write_features(path, np.eye(6, 4, dtype=np.float32), np.arange(6), facts, made)
    return path


def facts_about(run, *paths: Path) -> list[dict]:
    done = run("inspect", "--outgoing", "--json", *paths)
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def papers(about: dict) -> str:
    return " ".join(
        paper for found in about["recoverable"] for paper in found["papers"]
    )


def test_a_model_is_explained_in_words(world, run):
    done = run("inspect", "--outgoing", world.clients[0])
    assert done.code == 0, done.err
    assert "the site's images (client 0)" in " ".join(done.out.split())
    for word in ("480 images", "Zhu et al. 2019", "Geiping", "Shokri", "seed 0"):
        assert word in " ".join(done.out.split()), word
    assert "no label is" in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= max(100, len(str(world.clients[0])))


def test_numbers_of_a_model_are_counted_for_each_image(world, run):
    opened = Container(world.clients[0])
    total = sum(math.prod(entry.shape) for entry in opened.entries)
    (about,) = facts_about(run, world.clients[0])
    assert about["numbers"] == total and about["images"] == 480
    assert about["numbers_per_image"] == total / 480
    assert about["told"].keys() == {"client", "round", "examples", "loss", "seed"}


def test_a_global_model_is_no_update_of_one_site(world, run):
    upload, model = facts_about(run, world.clients[1], world.model)
    assert "Deep Leakage" in papers(upload) and "Deep Leakage" not in papers(model)
    assert "Yin et al. 2020" in papers(model)


def test_numbers_that_are_not_told_are_not_counted(world, run, forge):
    forge(world.clients[0], facts={"examples": None})
    done = run("inspect", "--outgoing", world.clients[0])
    assert "is not in the file" in " ".join(done.out.split())


def test_rows_of_images_are_counted_row_by_row(rows, run):
    (about,) = facts_about(run, rows)
    assert about["images"] == 6 and about["numbers_per_image"] == 5  # And an index.
    for paper in ("Mahendran", "Dosovitskiy", "Carlini et al. 2021"):
        assert paper in papers(about)


def test_similarities_of_public_images_have_no_image_of_the_site(world, run):
    seen = world.folder / "public.safetensors"
    given = ("--data", "digits", "--split", "test", "--similarity", "--top", 1)
    assert furlkit("embed", world.clients[0], *given, "-o", seen) == 0
    (about,) = facts_about(run, seen)
    assert "Mahendran" not in papers(about) and "Tramèr" in papers(about)
    assert about["told"]["dataset"]["examples"] == about["images"] == 359


def test_private_files_are_refused_and_nothing_is_said_of_others(world, refused):
    private = world.folder / "private"
    given = (world.partition, world.model, "--data", "digits", "--client", 1)
    more = ("--epochs", 1, "--batch-size", 240, "--private-out", private)
    assert furlkit("local-train", *given, *more, "-o", world.folder / "u") == 0
    files = (world.clients[0], private)
    words = [private, "must not leave"]
    refused(world.folder, 65, words, "inspect", "--outgoing", *files)


def test_what_else_stays_at_the_site(world, rows, refused):
    packed = world.folder / "packed.safetensors"
    assert furlkit("pack", "digits", "-o", packed) == 0
    refused(world.folder, 65, [packed, "images"], "inspect", "--outgoing", packed)
    unfinished = ProgressFile(world.folder / "u", Provenance("local-train"))
    unfinished.save(3, {"x": np.zeros(2)}, {})
    words = [unfinished.path, "unfinished"]
    refused(world.folder, 65, words, "inspect", "--outgoing", unfinished.path)
    journal = world.folder / "client_0.log.jsonl"
    refused(world.folder, 65, [journal, "read"], "inspect", "--outgoing", journal)


def test_a_damaged_file_is_not_explained(world, refused):
    whole = world.clients[0].read_bytes()
    world.clients[0].write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    words = [world.clients[0], "content hash"]
    refused(world.folder, 65, words, "inspect", "--outgoing", world.clients[0])


def test_rows_are_explained_by_measured_numbers(rows, world, run):
    mixed, upload, model = facts_about(run, rows, world.clients[0], world.model)
    assert "chance level" in mixed["measured"][0] and not mixed["audited"]
    assert "is the key of the draws" in mixed["measured"][1]
    assert "200 epochs on 21 images" in upload["measured"][0]
    assert "mean of five clients" in model["measured"][0]
    for about in (mixed, upload, model):
        assert "examples/privacy/README.md" in about["measured"][0]
    said = run("inspect", "--outgoing", rows).out
    assert "blurred" not in said and "not anonymous" in " ".join(said.split())


def test_an_audit_of_the_file_is_cited(world, run, refused):
    audit = world.folder / "audit.json"
    members = ("--members", "digits", "--partition", world.partition, "--part", 0)
    given = ("--views", 2, "--images", 40, "-o", audit)
    assert run("audit", "membership", world.clients[0], *members, *given).code == 0
    done = run("inspect", "--outgoing", world.clients[0], "--audit", audit)
    said = " ".join(done.out.split())
    assert "audit membership: AUC 0." in said and "the attacker has the model" in said
    # The sentence of the attack that was not audited stays.
    assert "recognise training images" not in said and "AUC 0.93" in said
    wrong = ("inspect", "--outgoing", world.clients[1], "--audit", audit)
    refused(world.folder, 65, [audit, "none of the files"], *wrong)


def test_only_audits_are_cited(world, refused):
    score = world.folder / "knn.json"
    assert furlkit("evaluate", "knn", world.model, "--data", "digits", "-o", score) == 0
    command = ("inspect", "--outgoing", world.clients[1], "--audit", score)
    refused(world.folder, 65, [score, "audit"], *command)


@pytest.mark.parametrize(
    "drawn, key", [({}, "removes it"), ({"drawn-by": "secret"}, "")]
)
def test_noise_is_named_with_its_limits(run, tmp_path, drawn, key):
    path, dataset = tmp_path / "f.safetensors", {"examples": 6, "images": "a" * 64}
    made = Provenance("embed", {"noise": 0.1, **drawn}, None, {})
    facts = FeatureFacts("z", dataset, "public", client="st-mary", round=1, examples=6)
    write_features(path, np.eye(6, 4, dtype=np.float32), np.arange(6), facts, made)
    done = run("inspect", "--outgoing", path)
    said = " ".join(done.out.split())
    assert "noise of 0.1" in said and "no epsilon" in said
    assert ("removes it" in said) is bool(key)


# --- audits of other files, and attacks that no audit has measured --------------------


def document(protocol: str, path: Path, **entries) -> Path:
    """A result of audit, with the numbers that a test needs."""
    about = {"protocol": protocol, "attacker": "the attacker has files"}
    write_metrics(path, {"options": {}, "seed": 0, **about, **entries})
    return path


def cited(run, file: Path, *audits: Path) -> str:
    options = [word for audit in audits for word in ("--audit", audit)]
    done = run("inspect", "--outgoing", file, *options)
    assert done.code == 0, done.err
    return " ".join(done.out.split())


@pytest.mark.parametrize(
    "protocol, role",
    [("membership", "parent"), ("rows", "model"), ("classes", "model 0")],
)
def test_other_inputs_of_an_audit_are_not_the_attacked_file(
    world, refused, protocol, role
):
    content = Container(world.clients[0]).content
    attacked = {"membership": "model", "rows": "rows", "classes": "upload 0"}[protocol]
    inputs = {attacked: "0" * 64, role: content}
    audit = document(protocol, world.folder / "a.json", inputs=inputs, auc=0.5)
    command = ("inspect", "--outgoing", world.clients[0], "--audit", audit)
    refused(world.folder, 65, [audit, "none of the files"], *command)


def test_an_audit_without_numbers_replaces_nothing(world, run, tmp_path):
    inputs = {"upload 0": Container(world.clients[0]).content}
    audit = document("classes", tmp_path / "a.json", inputs=inputs, n={"clients": 5})
    said = cited(run, world.clients[0], audit)
    assert "audit classes: 5 clients" in said and "AUC 0.93." in said
    with_auc = document("classes", tmp_path / "b.json", inputs=inputs, auc=0.75)
    said = cited(run, world.clients[0], with_auc)
    assert "AUC 0.93." not in said and "recognise training images" in said


def test_audits_of_rows_leave_the_sentences_of_noise_and_seed(run, tmp_path):
    facts = FeatureFacts("z", {}, "0", client=0, round=1, examples=6)
    path, made = tmp_path / "f", Provenance("local-train", {"row-noise": 0.1}, 7)
    write_features(path, np.eye(6, 4, dtype=np.float32), np.arange(6), facts, made)
    about: dict = {"inputs": {"rows": Container(path).content}, "auc": 0.53}
    about["rows"] = {"client": 0, "round": 1}
    own = {"checkpoint": {"facts": {"client": 0, "round": 1}}}
    by_mean = {"checkpoint": {"facts": {"role": "global", "round": 1}}}
    weak = document("rows", tmp_path / "w.json", **about, **by_mean)
    said = cited(run, path, weak)
    assert "AUC 0.530" in said and "server, recognise nearly" in said
    strong = document("rows", tmp_path / "s.json", **about, **own)
    said = cited(run, path, strong)
    assert "server, recognise nearly" not in said
    for words in (
        "infer the classes",
        "rough images",
        "no epsilon",
        "key of the draws",
    ):
        assert words in said, words
    every = [document(name, tmp_path / f"{name}.json", **about, **own)
             for name in ("rows", "inversion")]  # fmt: skip
    inputs = {"upload 0": Container(path).content}
    every.append(document("classes", tmp_path / "c.json", inputs=inputs, auc=0.9))
    said = cited(run, path, *every)
    assert "Not this file" not in said and "no epsilon" in said


def test_an_anonymous_dictionary_has_no_seed_and_names_the_record(run, tmp_path):
    for name in ("north", "south"):
        facts = FeatureFacts("z", {}, name, client=name, round=1, examples=4, run="r")
        rows = np.eye(4, dtype=np.float32)
        made = Provenance("local-train", {"drawn-by": "secret"})
        write_features(tmp_path / name, rows, np.arange(4), facts, made)
    output = tmp_path / "dictionary.safetensors"
    files = (tmp_path / "north", tmp_path / "south")
    assert furlkit("aggregate", "--rule", "dictionary", *files, "-o", output) == 0
    assert output.with_name("dictionary.record").exists()
    said = cited(run, output)
    assert "seed in the header" not in said
    assert "input files: none in the header; the record" in said
