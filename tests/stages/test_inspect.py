import json
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from furlkit.catalogue import defaults
from furlkit.errors import InputError
from furlkit.files.checkpoint import CheckpointFacts, write_checkpoint
from furlkit.files.container import write as container
from furlkit.files.container.header import Header
from furlkit.files.container.read import Container
from furlkit.files.dataset import DatasetFacts, write_dataset
from furlkit.files.ensemble import EnsembleFacts, write_parts
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, write_features
from furlkit.files.journal import Journal
from furlkit.files.metrics import write_metrics
from furlkit.files.partition import PartitionFacts, write_partition
from furlkit.files.private import PrivateFacts, write_private
from furlkit.files.progress import ProgressFile
from furlkit.files.similarity import write_similarity
from furlkit.reports.text import byte_size, flatten, shorten
from furlkit.stages.inspect import run
from tests.helpers import furlkit

PARENT, PARTITION = "ab" * 32, "cd" * 32
PLAN = {"objective": "simclr", "plan": {"lr": 0.001, "epochs": 5}}
ZEROS = np.zeros(4, "f4")
MADE = Provenance("local-train", PLAN, 7, {"global": PARENT, "partition": PARTITION})


def explain(path, **options):
    ((text, data),) = run({**defaults("inspect"), "paths": (path,), **options})
    json.dumps(data)
    assert max(map(len, text.splitlines()[1:])) <= 100
    return text, data


def lines(path, **options):
    """The lines of a text without what sets them in."""
    return [line.strip() for line in explain(path, **options)[0].splitlines()]


def checkpoint(path, tensors=None, made=MADE, **facts):
    tensors = tensors or {"encoder.conv1.weight": np.zeros((4, 1, 3, 3), "f4")}
    architecture = {"encoder": "cnn5", "projector": [64, 32], "stem": ""}
    known = {"role": "client", "round": 2, "client": 3, "examples": 1280}
    known |= {"parent": PARENT, "architecture": architecture, **facts}
    write_checkpoint(
        path, tensors, CheckpointFacts(mean=[0.5], std=[0.25], **known), made
    )
    return path


def partition(path, histogram, names, public=0, extra=0):
    sizes = histogram.sum(axis=1)
    total = int(sizes.sum())
    parts = np.split(np.arange(total), np.cumsum(sizes)[:-1])
    facts = PartitionFacts(
        "classes", len(sizes), {"examples": total + public + extra}, names
    )
    shown = histogram if names else histogram[:, :0]
    rest = np.arange(total, total + public)
    write_partition(path, parts, rest, shown, facts, Provenance("partition"))
    return path


def test_checkpoint_of_a_client_is_explained_line_by_line(tmp_path):
    path = checkpoint(tmp_path / "c")
    text, data = explain(path)
    expected = f"""\
{path}
  checkpoint: the model of client 3 after round 2, trained on 1,280 images

    stage     local-train
    seed      7
    size      {byte_size(path.stat().st_size)}
    content   {data["content"]}
    verified  no
    versions  not recorded: it has no journal

  inputs
    global     abababababab
    partition  cdcdcdcdcdcd

  options
    objective    simclr
    plan.epochs  5
    plan.lr      0.001

  facts
    architecture.encoder    cnn5
    architecture.projector  64, 32
    architecture.stem
    client                  3
    examples                1280
    mean                    0.5
    parent                  abababababab
    role                    client
    round                   2
    statistics              yes
    std                     0.25

  tensors: 1 with 36 values, 144 bytes
    name                  type  shape          bytes
    encoder.conv1.weight  F32   4 x 1 x 3 x 3    144"""
    assert text == expected


def test_the_journal_tells_versions_and_instruction_set_of_the_last_start(tmp_path):
    journal = Journal(path := checkpoint(tmp_path / "c"))
    journal.write({"event": "start", "torch": "1.0", "cpu": "DEFAULT"})
    journal.write({"event": "start", "torch": "2.1\x1b", "cpu": "AVX2", "isa": "a=b"})
    journal.write({"event": "epoch", "step": 1})
    text, data = explain(path)
    assert "    versions  torch 2.1\\x1b, cpu AVX2, isa a=b\n" in text
    assert data["machine"] == {"torch": "2.1\x1b", "cpu": "AVX2", "isa": "a=b"}


def test_checkpoint_data_has_every_fact_and_tensor(tmp_path):
    path = checkpoint(tmp_path / "c")
    _, data = explain(path)
    assert data["kind"] == "checkpoint" and data["path"] == str(path)
    assert data["inputs"] == {"global": PARENT, "partition": PARTITION}
    assert data["options"] == PLAN and data["facts"]["examples"] == 1280
    (tensor,) = data["tensors"]
    assert tensor["name"] == "encoder.conv1.weight" and tensor["bytes"] == 144
    assert tuple(tensor["shape"]) == (4, 1, 3, 3) and tensor["dtype"] == "F32"


@pytest.mark.parametrize(
    ("facts", "inputs", "sentence"),
    [
        (
            {"role": "global", "round": 0, "client": None, "examples": None},
            {},
            "the initial global model (round 0)",
        ),
        (
            {"role": "global", "client": None, "statistics": False},
            {"client 0": PARENT, "client 1": PARTITION},
            "the global model after round 2, averaged from 2 clients with 1,280 images, "
            "without BatchNorm statistics",
        ),
        (
            {"parts": ["encoder"], "architecture": {"heads": {"projector": [4]}}},
            {},
            "the model of client 3 after round 2, trained on 1,280 images; only its "
            "encoder",
        ),
        (
            {"parts": ["encoder"], "architecture": {"heads": {}}, "examples": 0},
            {},
            "the model of client 3 after round 2",
        ),
        (
            {"role": "align", "client": None},
            {},
            "the alignment model, trained on 1,280 public images",
        ),
    ],
)
def test_checkpoint_sentence_follows_its_role(tmp_path, facts, inputs, sentence):
    made = Provenance("aggregate", {}, None, inputs)
    path = checkpoint(tmp_path / "c", made=made, **facts)
    assert explain(path)[1]["summary"] == sentence


def test_a_distilled_model_is_made_of_no_client_s_weights(tmp_path):
    made = Provenance("distill", {}, 0, {"ensemble": PARENT, "start": PARTITION})
    facts = {"role": "global", "client": None}
    text, _ = explain(checkpoint(tmp_path / "c", made=made, **facts))
    sentence = "the global model after round 2, distilled on 1,280 public images"
    assert f"checkpoint: {sentence}\n" in text


@pytest.mark.parametrize(
    "facts, sentence",
    [
        ({"role": "global", "client": None},
         "the global model after round 2, labelled by itself on 1,280 public images"),
        ({}, "the model of client 3 after round 2, trained on 1,280 images, then "
             "labelled by itself on public images"),
    ],
)  # fmt: skip
def test_a_model_that_labelled_images_itself(tmp_path, facts, sentence):
    made = Provenance("distill", {"teacher": "self"}, 0, {"start": PARTITION})
    path = checkpoint(tmp_path / "c", made=made, **facts)
    assert explain(path)[1]["summary"] == sentence


def test_many_tensors_are_grouped_and_listed_on_demand(tmp_path):
    names = [f"encoder.layer{k}.{n}.{w}" for k in range(6) for n in range(4)
             for w in ("weight", "bias")]  # fmt: skip
    tensors = {name: np.zeros(5, "f4") for name in names}
    tensors["encoder.bn.num_batches_tracked"] = np.array(3)
    path = checkpoint(tmp_path / "c", tensors)
    grouped = lines(path)
    assert "tensors: 49 with 241 values, 968 bytes (--tensors lists each)" in grouped
    assert "encoder.layer5.*                      8  F32     160" in grouped
    assert "encoder.bn.num_batches_tracked        1  I64       8" in grouped
    every = lines(path, tensors=True)
    assert "encoder.layer5.3.weight         F32   5          20" in every
    assert "encoder.bn.num_batches_tracked  I64   scalar      8" in every
    assert sum(line.startswith("encoder.") for line in every) == 49


def test_partition_shows_images_of_each_class(tmp_path):
    histogram = np.array([[9, 0, 1200], [0, 4, 0]])
    path = partition(tmp_path / "p", histogram, ["cat", "dog", "ship"], 7, extra=1)
    text = lines(path)
    sentence = "1,213 of 1,221 images assigned to 2 clients (scheme classes), 7 public"
    assert f"partition: {sentence}" in text
    start = text.index("images of each class")
    assert text[start + 1 : start + 5] == [
        "client  images  cat  dog   ship",
        "0        1,209    9    .  1,200",
        "1            4    .    4      .",
        "all      1,213    9    4  1,200",
    ]
    _, data = explain(path)
    assert data["sizes"] == [1209, 4] and data["public"] == 7
    assert data["histogram"] == histogram.tolist()


def test_partition_with_long_class_names_numbers_them(tmp_path):
    names = [f"a long name {k}" for k in range(10)]
    path = partition(tmp_path / "p", np.full((2, 10), 25), names)
    assert "client  images   0   1   2   3   4   5   6   7   8   9" in lines(path)


def test_partition_of_many_classes_names_the_most_frequent(tmp_path):
    histogram = np.zeros((2, 40), int)
    histogram[0, [3, 5]] = 10, 20
    histogram[1] = np.arange(40)
    path = partition(tmp_path / "p", histogram, [f"n{k}" for k in range(40)])
    text = lines(path)
    assert "client  images  classes  most of" in text
    assert "0           30        2  n5 20, n3 10" in text
    assert "1          780       39  n39 39, n38 38, n37 37, n36 36, ..." in text


def test_partition_of_many_clients_is_summed_up(tmp_path):
    histogram = np.zeros((40, 2), int)
    histogram[:, 0] = np.arange(40)
    histogram[0, 1] = 5
    text = lines(partition(tmp_path / "p", histogram, ["a", "b"]))
    assert "images per client       1   19.6    39" in text
    assert "classes per client      1    1.0     1" in text
    assert "images per class        5  392.5   780" in text


def test_partition_without_labels_lists_sizes(tmp_path):
    text = lines(partition(tmp_path / "p", np.array([[3], [12]]), []))
    start = text.index("clients")
    assert text[start + 1 : start + 4] == ["client  images", "0            3", "1           12"]  # fmt: skip


def test_partition_with_a_histogram_of_another_shape_is_refused(tmp_path):
    facts = PartitionFacts("iid", 1, {"examples": 3}, [])
    parts, made = [np.arange(3)], Provenance("partition")
    path = tmp_path / "p"
    write_partition(path, parts, np.arange(0), np.ones((2, 2)), facts, made)
    with pytest.raises(InputError, match="do not fit 1 clients"):
        explain(path)


def test_features_and_similarity_say_n_and_d(tmp_path):
    facts = FeatureFacts("z", {"examples": 50}, "test", client=3, round=2)
    rows, index = np.zeros((20, 16), "f4"), np.arange(20)
    write_features(tmp_path / "f", rows, index, facts, MADE)
    origin = "z of the test part, by the model of client 3 after round 2"
    assert f"features: 20 x 16 values, {origin}" in lines(tmp_path / "f")
    blocks = [np.zeros((20, 20), "f4")]
    write_similarity(tmp_path / "s", blocks, index, facts, MADE)
    assert explain(tmp_path / "s")[1]["summary"] == (
        f"20 x 20 values, every image with every other, {origin}"
    )


@pytest.mark.parametrize(
    "options, share", [({"top": 10}, " (10 %)"), ({"top": 7.5}, " (7.5 %)"), ({}, ""),
                       ({"top": "x"}, ""), ({"top": True}, "")],
)  # fmt: skip
def test_the_largest_similarities_say_how_many(tmp_path, options, share):
    facts = FeatureFacts("z", {"examples": 50}, "public", client=3, round=2)
    more = (np.arange(20), facts, Provenance("embed", options), "float32")
    rows = np.ones((20, 2), "f4")
    write_similarity(tmp_path / "t", [rows], *more, rows.astype(int))
    assert explain(tmp_path / "t")[1]["summary"] == (
        f"20 x 2 values, every image with the 2{share} most similar ones, z of the public "
        "part, by the model of client 3 after round 2"
    )


@pytest.mark.parametrize(
    "clients, who", [([1], "models of 1 client"), ([1, 4], "models of 2 clients")]
)
def test_an_ensemble_says_how_many_clients(tmp_path, clients, who):
    facts = EnsembleFacts("rows", clients, 3, 0.1, {"examples": 9}, "public", 5)
    parts = {k: np.ones((5, 2), "f4") for k in clients}
    write_parts(tmp_path / "e", parts, {}, np.arange(5), facts, MADE)
    summary = explain(tmp_path / "e")[1]["summary"]
    assert "5 images" in summary and f"{who} after round 3, in the form rows" in summary


def test_private_file_says_whose_it_is_and_that_it_stays(tmp_path):
    facts = PrivateFacts(3, 2, ["encoder", "predictor"], ["averaged_features"])
    kept = {"encoder.bn1.running_mean": ZEROS, "predictor.fc.weight": ZEROS}
    memory = {"averaged_features.rows": ZEROS, "averaged_features.index": ZEROS}
    write_private(tmp_path / "p", kept, memory, facts, MADE)
    assert explain(tmp_path / "p")[1]["summary"] == (
        "private state of client 3 after round 2: predictor; BatchNorm statistics of encoder; "
        "memory of averaged features; it must not leave the client"
    )


def test_private_file_of_format_version_1_says_what_it_holds(tmp_path):
    facts = {"client": 3, "round": 2, "holds": ["BatchNorm statistics", "ensemble Z"]}
    header = Header("private", "local-train", {}, 0, {}, facts, version=1)
    container.write(tmp_path / "p", {"ensemble.rows": ZEROS}, header)
    assert ": BatchNorm statistics, ensemble Z; it must" in explain(tmp_path / "p")[0]


def test_progress_file_says_how_far_the_stage_has_come(tmp_path):
    file = ProgressFile(tmp_path / "c", MADE)
    file.save(1200, {"w": np.zeros(3, "f4")}, {"seconds": 1.5, "last": None})
    text = lines(file.path)
    assert (
        "progress: an unfinished local-train, 1,200 steps done; the same command"
        in (" ".join(text))
    )
    assert "values.seconds  1.5" in text and "values.last     none" in text


def by_domain(path, clients):
    """A partition of one image for each client, in two domains and nobody's."""
    facts = PartitionFacts(
        "domains", clients, {"examples": clients}, ["cat"], ["ink", "Real World"]
    )
    parts, nobody = list(np.arange(clients)[:, None]), np.arange(0)
    domains = np.r_[np.arange(clients - 1) % 2, -1]
    more = (nobody, np.ones((clients, 1), int), facts, MADE, domains)
    write_partition(path, parts, *more)


def test_partition_names_the_domain_of_each_client(tmp_path):
    by_domain(tmp_path / "p", 3)
    text, data = explain(tmp_path / "p")
    for line in ("0 ink              1    1", "1 Real World       1    1"):
        assert f"    {line}\n" in text
    assert data["domains"] == ["ink", "Real World", None]


def test_partition_counts_the_clients_of_each_domain_where_they_are_many(tmp_path):
    by_domain(tmp_path / "p", 24)
    text = lines(tmp_path / "p")
    assert "clients of each domain" in text
    assert "ink         12" in text and "Real World  11" in text


def test_dataset_says_size_classes_and_domains(tmp_path):
    images, facts = np.zeros((6, 8, 9, 3), "u1"), DatasetFacts(
        ["cat", "dog"], ["photo"], {"examples": 6}, [0.5] * 3, [0.2] * 3
    )  # fmt: skip
    made, path = Provenance("pack"), tmp_path / "d"
    columns = {"labels": np.zeros(6, np.int64)}
    write_dataset(path, images.shape, [images], columns, facts, made)
    size = "6 packed images of 8 x 9 pixels, 3 channels"
    assert f"dataset: {size}; 2 classes; no domains" in lines(path)
    columns = {"domains": np.zeros(6, np.int64)}
    write_dataset(path, images.shape, [images], columns, facts, made)
    assert f"dataset: {size}; no labels; 1 domain" in lines(path)
    assert "images of each domain" in lines(path) and "photo  6" in lines(path)
    assert explain(path)[1]["domains"] == {"photo": 6}


def test_metrics_say_protocol_accuracy_and_model(tmp_path):
    path = tmp_path / "m.whatever"
    scored = {"content": PARENT, "facts": {"role": "global", "round": 3}}
    matrix = [[1, 2], [3, 4]]
    values = {"protocol": "knn", "accuracy": 0.93214, "options": {"k": 200}}
    write_metrics(path, {**values, "checkpoint": scored, "confusion": matrix})
    text = lines(path, verify=True)
    assert "metrics: knn accuracy 93.21 % of the global model after round 3" in text
    assert "verified  yes, every value fits the content hash" in text
    assert "options.k  200" in text and "confusion  (2 x 2 values)" in text
    assert "content      abababababab" in text
    _, data = explain(path)
    assert data["accuracy"] == 0.93214 and data["confusion"] == matrix


@pytest.mark.parametrize("checkpoint", [None, 3, {}, {"facts": []}])
def test_metrics_of_an_unknown_model_are_explained_all_the_same(tmp_path, checkpoint):
    path = tmp_path / "m"
    write_metrics(path, {"protocol": "drift", "checkpoint": checkpoint})
    assert "metrics: drift evaluation of an unknown model" in lines(path)


def test_comparisons_of_models_say_what_they_found(tmp_path):
    path, facts = tmp_path / "m", {"role": "client", "round": 3, "client": 1}
    models = [{"facts": facts}] * 5
    known = {"models": models, "checkpoint": models[0], "round": 3}
    angles = {"angles": {"quartiles": [10.07, 14.2, 19.04]}, "protocol": "angles"}
    write_metrics(path, {**known, **angles})
    assert (
        "metrics: a median angle of 14.2 degrees (quartiles 10.1 to 19.0) between 5 "
        "models of round 3"
    ) in " ".join(lines(path))
    drift = {"alignment": 0.12345, "uniformity": -2.5, "effective_rank": 31.25}
    drift["protocol"] = "drift"
    write_metrics(path, {**known, **drift, "mean_cka": 0.9, "round": None})
    assert (
        "metrics: alignment 0.1235, uniformity -2.5, effective rank 31.25, CKA 0.9 of "
        "5 models"
    ) in " ".join(lines(path))
    write_metrics(path, {**known, **drift, "mean_cka": None, "models": models[:1]})
    assert ("effective rank 31.25 of the model of client 1 after round 3") in " ".join(
        lines(path)
    )


@pytest.mark.parametrize(
    "angles", [None, {}, {"quartiles": [1, 2]}, {"quartiles": [[], "x", 10**400]}]
)
def test_odd_comparisons_are_explained_without_failing(tmp_path, angles):
    path = tmp_path / "m"
    odd = {"models": [0, 1], "round": {}, "alignment": [], "angles": angles}
    for protocol in ("angles", "drift"):
        write_metrics(path, {"protocol": protocol, **odd})
        assert " 2 models of round (0 entries)" in " ".join(lines(path))


def test_journal_shows_its_last_whole_line(tmp_path):
    journal = Journal(tmp_path / "c.safetensors")
    for step in (5, 10):
        journal.write({"event": "epoch", "step": step, "losses": {"simclr": 3.5}})
    with open(journal.path, "a") as stream:
        stream.write('{"event": "ep')
    text, data = explain(journal.path)
    assert "journal: what happened while a stage ran, 2 lines" in text
    assert data["last"]["step"] == 10 and "losses.simclr  3.5" in text


def test_verify_finds_a_flipped_bit_that_a_look_does_not(tmp_path):
    path = checkpoint(tmp_path / "c")
    assert "verified  yes, every byte fits the content hash" in lines(path, verify=True)
    assert explain(path, verify=True)[1]["verified"] is True
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert explain(path)[1]["verified"] is False
    with pytest.raises(InputError, match="do not match the content hash"):
        explain(path, verify=True)


def test_verify_finds_a_flipped_bit_in_the_checksum(tmp_path):
    path = checkpoint(tmp_path / "c")
    content = path.read_bytes()
    digits = Container(path).header.check.encode()
    other = (b"1" if digits[:1] == b"0" else b"0") + digits[1:]
    path.write_bytes(content.replace(digits, other))
    with pytest.raises(InputError, match="checksum"):
        explain(path, verify=True)


@pytest.fixture
def folder(tmp_path):
    """A run: two checkpoints, scores, an export and notes that are not furlkit's."""
    for place in ("r001", "export", ".hidden"):
        (tmp_path / "run" / place).mkdir(parents=True)
    run = tmp_path / "run"
    checkpoint(run / "r001" / "a.safetensors")
    checkpoint(run / "b", client=4)
    write_metrics(run / "r001" / "linear.json", {"accuracy": 0.769})
    save_file({"w": ZEROS}, run / "export" / "model.safetensors")
    (run / "export" / "config.json").write_text('{"architecture": "resnet18"}')
    (run / "notes.txt").write_text("notes")
    (run / ".hidden" / "c.safetensors").write_text("unfinished")
    return run


def test_verify_checks_all_files_below_a_folder(folder):
    ((text, data),) = run({**defaults("inspect"), "paths": (folder,), "verify": True})
    assert text.startswith(f"{folder}: 3 files verified (2 checkpoint, 1 metrics)")
    assert data["verified"] == {"checkpoint": 2, "metrics": 1}
    assert (data["other"], data["unsealed"]) == (3, 0)
    with pytest.raises(InputError, match="run: is a folder; --verify"):
        explain(folder)


def test_verify_names_every_broken_file_below_a_folder(folder, capsys):
    scores = folder / "r001" / "linear.json"
    scores.write_text(scores.read_text().replace("0.769", "0.979"))
    with pytest.raises(InputError, match="linear.json: was changed"):
        explain(folder, verify=True)
    (folder / "r001" / "a.safetensors").write_bytes(b"not one")
    with pytest.raises(InputError, match="run: 2 files below are broken"):
        explain(folder, verify=True)
    said = capsys.readouterr().err
    assert "a.safetensors" in said and "linear.json: was changed" in said


def test_verify_names_every_broken_file_of_several(folder, capsys):
    first, second = folder / "r001" / "a.safetensors", folder / "b"
    for path in (first, second):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    good = folder / "r001" / "linear.json"
    paths = (first, good, second)
    with pytest.raises(InputError, match="2 of 3 files are broken"):
        [*run({**defaults("inspect"), "paths": paths, "verify": True})]
    said = capsys.readouterr().err
    assert str(first) in said and str(second) in said and str(good) not in said


def test_verify_names_an_exchanged_upload(world, capsys):
    mean = world.folder / "mean.safetensors"
    world.output.unlink()  # No file of furlkit.
    assert furlkit("aggregate", *world.clients, "-o", mean) == 0
    assert furlkit("inspect", "--verify", world.folder) == 0
    upload, kept = world.clients[1], world.folder / "kept"
    kept.write_bytes(upload.read_bytes())
    words = ("--client", 1, "--data", "digits", "--epochs", 2, "--batch-size", 240)
    words += ("--force", "-o", upload)
    assert furlkit("local-train", world.partition, world.model, *words) == 0
    kept.unlink()
    capsys.readouterr()
    assert furlkit("inspect", "--verify", world.folder) == 65
    said = capsys.readouterr().err
    assert f"{mean}: was made from client 1" in said and str(upload) in said


def test_files_are_explained_in_the_order_given(tmp_path):
    paths = checkpoint(tmp_path / "b"), checkpoint(tmp_path / "a", client=4)
    found = run({**defaults("inspect"), "paths": paths})
    assert [data["facts"]["client"] for _, data in found] == [3, 4]


def test_foreign_files_are_refused_politely(tmp_path):
    path = tmp_path / "f"
    save_file({"w": np.zeros(2, "f4")}, path)
    with pytest.raises(InputError, match="but not one of furlkit's"):
        explain(path)
    path.write_text('{"a": 1}')
    with pytest.raises(InputError, match="is JSON, but not a metrics file"):
        explain(path)
    path.write_text("{")
    with pytest.raises(InputError, match="is not a metrics file"):
        explain(path)
    path.write_text("")
    with pytest.raises(InputError, match="has 0 bytes"):
        explain(path)
    with pytest.raises(InputError, match="no such file"):
        explain(tmp_path / "missing")
    with pytest.raises(InputError, match="is a folder"):
        explain(tmp_path)


def test_container_whose_length_starts_like_json_is_still_a_container(tmp_path):
    text = b'{"__metadata__":{}}'.ljust(ord("{"))
    (tmp_path / "f").write_bytes(len(text).to_bytes(8, "little") + text)
    assert (tmp_path / "f").read_bytes().startswith(b"{")
    with pytest.raises(InputError, match="is a safetensors file, but not one"):
        explain(tmp_path / "f")


def test_sizes_and_long_words_are_shortened():
    assert byte_size(999) == "999 bytes" and byte_size(1_234_567) == "1.2 MB"
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 10) == "abc...hijk"
    nested = {"b": {"y": None, "x": False}, "a": 1e-6}
    pairs = [("a", "1e-06"), ("b.x", "no"), ("b.y", "none")]
    assert list(flatten(nested)) == pairs


def test_header_of_odd_facts_is_shown_without_failing(tmp_path):
    deep = {"a": {}}
    for _ in range(50):
        deep = {"a": deep}
    odd = {"round": "x\x1b[2J\ud800", "client": None, "examples": [1], "deep": deep}
    odd |= {"long": ["name" * 10] * 500, "mixed": [[1], [2, 3]], "yes": True}
    for kind in ("checkpoint", "features", "similarity", "private", "progress", "dataset"):  # fmt: skip
        header = Header(kind, "stage\n", {"list": list(range(1000))}, 1, {}, odd)
        container.write(tmp_path / "f", {"w": np.zeros(3, "f4")}, header)
        text, _ = explain(tmp_path / "f")
        assert text.replace("\n", "").isprintable()
        text.encode()
        assert "... (1,000 values)" in text and "mixed  " in text


def test_inspect_is_light():
    code = (
        "import sys, furlkit.stages.inspect; "
        "heavy = {'torch', 'torchvision', 'matplotlib', 'rich', 'click'}; "
        "sys.exit(bool(heavy & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
