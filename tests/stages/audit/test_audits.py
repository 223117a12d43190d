"""audit: attacks through the command line, on files with and without a leak."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from furlkit.files.metrics import read_metrics
from tests.helpers import furlkit

WEAK = ("--crop-scale", "0.5,1", "--jitter-probability", 0, "--grey", 0, "--flip", 0)


class Files(NamedTuple):
    """A model before training, a client with 20 images, five clients of 2 classes."""

    folder: Path
    start: Path
    few: Path
    trained: Path
    partition: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Files:
    folder = tmp_path_factory.mktemp("audits")
    start, few = folder / "start.safetensors", folder / "few.safetensors"
    trained, parted = folder / "trained.safetensors", folder / "partition.safetensors"
    shared = ("--features-out", folder / "rows_{client}.safetensors",
              "--private-out", folder / "private_{client}.safetensors")  # fmt: skip
    commands = (
        ("init", "--data", "digits", "--width", 0.25, "-o", start),
        ("partition", "--data", "digits", "--clients", 71, "-o", few),
        ("local-train", few, start, "--data", "digits", "--client", 0, "--epochs", 200,
         "--batch-size", 20, *WEAK, "-o", trained),
        ("partition", "--data", "digits", "--scheme", "classes", "--clients", 5,
         "--classes-per-client", 2, "-o", parted),
        ("local-train", parted, start, "--data", "digits", "--client", "0-4",
         "--epochs", 3, "--batch-size", 64, "--dictionary-size", 600, *shared,
         "-o", folder / "client_{client}.safetensors"),
    )  # fmt: skip
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        codes = [furlkit(*command) for command in commands]
    assert not any(codes), said.getvalue()
    return Files(folder, start, few, trained, parted)


def members(files: Files, model: Path, *more):
    of = ("--members", "digits", "--partition", files.few, "--part", 0)
    return ("audit", "membership", model, *of, *more)


def rows_of(files: Files, model: str, *more):
    of = ("--candidates", "digits", "--partition", files.partition)
    rows = files.folder / "rows_0.safetensors"
    return ("audit", "rows", rows, "--model", files.folder / model, *of, *more)


def test_a_model_of_20_images_and_200_epochs_reveals_the_images(files, run, tmp_path):
    output = tmp_path / "m.json"
    done = run(*members(files, files.trained, "-o", output))
    assert done.code == 0, done.err
    found = read_metrics(output)
    assert found["n"]["members"] in (20, 21) and found["n"]["others"] == 359
    low, high = found["auc_interval"]
    assert found["auc"] > 0.9 and 0.8 < low < found["auc"] < high
    assert found["scores"].keys() == {"similarity", "loss", "features"}
    assert found["cpu_seconds"] > 0 and found["augmentation"]["crop_scale"] == [0.5, 1]
    for words in ("AUC 0.9", "1% FPR", "CPU seconds", "the attacker has the model"):
        assert words in done.out
    assert len(done.out.splitlines()) == 1


def test_with_the_parent_the_attack_is_relative(files, run, tmp_path):
    output = tmp_path / "m.json"
    done = run(*members(files, files.trained, "--parent", files.start, "-o", output))
    assert done.code == 0 and "before training" in done.out
    assert read_metrics(output)["auc"] > 0.9


def test_an_untrained_model_reveals_nothing(files, run, tmp_path):
    output = tmp_path / "m.json"
    assert run(*members(files, files.start, "-o", output)).code == 0
    low, high = read_metrics(output)["auc_interval"]
    assert low < 0.5 < high


def test_equal_commands_give_equal_documents_apart_from_the_time(files, run, tmp_path):
    one, other = tmp_path / "1.json", tmp_path / "2.json"
    for output in (one, other):
        assert run(*members(files, files.trained, "--views", 3, "-o", output)).code == 0
    documents = [read_metrics(path) for path in (one, other)]
    for document in documents:
        del document["cpu_seconds"]
    assert documents[0] == documents[1]
    done = run(*members(files, files.trained, "--views", 3, "-o", one))
    assert "already there" in done.out


def test_copies_of_members_are_no_others(files, run, tmp_path):
    more = ("--others", "digits", "--images", 30, "-o", tmp_path / "m.json")
    whole = ("audit", "membership", files.trained, "--members", "digits")
    assert "copies" not in run(*whole, *more).err
    packed = tmp_path / "train.safetensors"
    assert run("pack", "digits", "-o", packed).code == 0
    done = run(
        *members(files, files.start, "--others", packed, "-o", tmp_path / "n.json")
    )
    assert done.code == 0 and "of 1,438 images are copies of members" in done.err
    done = run(*whole, "--others", packed, "-o", tmp_path / "o.json")
    assert done.code == 65 and "every image is also a member" in done.err


def test_a_dry_run_estimates_the_cost_and_writes_nothing(files, run, tmp_path):
    output = tmp_path / "m.json"
    done = run(*members(files, files.trained, "--dry-run", "--json", "-o", output))
    assert done.code == 0 and not output.exists()
    assert 0 < json.loads(done.out)["estimated_cpu_seconds"] < 60


def test_rows_identify_the_images_to_owners_of_the_model(files, run, tmp_path):
    output = tmp_path / "r.json"
    done = run(*rows_of(files, "client_0.safetensors", "-o", output))
    assert done.code == 0, done.err
    found = read_metrics(output)
    assert found["n"]["members"] == 120  # 600 rows of five clients.
    assert (found["auc"], found["tpr_at_1_fpr"], found["identified"]) == (1, 1, 1)
    assert found["rows"]["client"] == 0 and "100.0% identified among 100" in done.out


def test_rows_say_less_to_owners_of_another_model(files, run, tmp_path):
    output = tmp_path / "r.json"
    done = run(*rows_of(files, "start.safetensors", "-o", output))
    assert done.code == 0 and "the global model of round 0" in done.out
    assert read_metrics(output)["identified"] < 0.5


def test_rows_of_embed_know_their_images(files, run, tmp_path):
    rows, output = tmp_path / "rows.safetensors", tmp_path / "r.json"
    model = files.folder / "client_1.safetensors"
    given = ("--data", "digits", "--partition", files.partition, "--part", 1)
    assert run("embed", model, *given, "--layer", "z", "-o", rows).code == 0
    done = run("audit", "rows", rows, "--model", model, "--candidates", "digits",
               "--images", 50, "--k", 20, "-o", output)  # fmt: skip
    assert done.code == 0, done.err
    assert read_metrics(output)["identified"] > 0.99


def test_rows_with_other_images_are_refused(files, refused, tmp_path):
    rows = files.folder / "rows_0.safetensors"
    model = files.folder / "client_0.safetensors"
    given = ("--candidates", "digits", "--partition", files.few)
    command = (
        "audit",
        "rows",
        rows,
        "--model",
        model,
        *given,
        "-o",
        tmp_path / "r.json",
    )
    refused(tmp_path, 65, [rows, "partition"], *command)


def classes(run, tmp_path, files, *words):
    output = tmp_path / "c.json"
    of = ("--public", "digits", "--split", "test", "--partition", files.partition)
    done = run("audit", "classes", *words, *of, "-o", output)
    assert done.code == 0, done.err
    return read_metrics(output)


def test_classes_are_inferred_from_models(files, run, tmp_path):
    models = [files.folder / f"client_{k}.safetensors" for k in range(5)]
    found = classes(run, tmp_path, files, *models[::-1])
    assert found["auc"] > 0.75 and found["held"] == 10 and found["not_held"] == 40
    assert [each["client"] for each in found["clients"]] == [0, 1, 2, 3, 4]
    assert [sum(row) for row in found["holds"]] == [2] * 5


def test_classes_are_inferred_from_rows(files, run, tmp_path):
    rows = [files.folder / f"rows_{k}.safetensors" for k in range(5)]
    own = [
        word
        for k in range(5)
        for word in ("--model", files.folder / f"client_{k}.safetensors")
    ]
    found = classes(run, tmp_path, files, *rows, *own)
    assert found["auc"] > 0.95 and found["first_guess"] == 1


@pytest.mark.parametrize("kept", [(), ("--top", 5, "--encoding", "int8")])
def test_classes_are_inferred_from_similarities(files, run, tmp_path, kept):
    made = []
    for k in range(5):
        made.append(tmp_path / f"similarity_{k}.safetensors")
        given = ("--data", "digits", "--split", "test", "--layer", "z", "--similarity")
        model = files.folder / f"client_{k}.safetensors"
        assert run("embed", model, *given, *kept, "-o", made[-1]).code == 0
    assert classes(run, tmp_path, files, *made)["auc"] > 0.7


def test_a_single_model_needs_a_parent(files, refused, run, tmp_path):
    model = files.folder / "client_2.safetensors"
    given = ("audit", "classes", model, "--public", "digits", "-o", tmp_path / "c.json")
    refused(tmp_path, 2, [model, "--parent"], *given)
    found = classes(run, tmp_path, files, model, "--parent", files.start)
    assert len(found["clients"]) == 1 and 0 <= found["auc"] <= 1


def test_rows_need_a_model(files, refused, tmp_path):
    rows = files.folder / "rows_0.safetensors"
    given = ("audit", "classes", rows, "--public", "digits", "-o", tmp_path / "c.json")
    refused(tmp_path, 2, [rows, "--model"], *given)


def test_a_decoder_of_public_images_reconstructs_rows(files, run, tmp_path):
    output, sheet = tmp_path / "i.json", tmp_path / "sheet.png"
    rows = files.folder / "rows_0.safetensors"
    given = ("--model", files.folder / "client_0.safetensors", "--public", "digits",
             "--candidates", "digits", "--partition", files.partition)  # fmt: skip
    more = ("--epochs", 8, "--k", 20, "--sheet", sheet, "-o", output)
    done = run("audit", "inversion", rows, *given, *more)
    assert done.code == 0, done.err
    found = read_metrics(output)
    assert found["n"] == {"rows": 120, "public_images": 1438 - 120}
    assert found["ssim"] > found["ssim_of_mean"]
    assert found["identified"] > 0.2 > found["identified_by_chance"] == 0.05
    assert 1 <= found["rank"] < 40 and found["auc"] > 0.8
    assert sheet.read_bytes()[:4] == b"\x89PNG"


def test_an_audit_is_replayed_drawn_and_explained(files, run, tmp_path):
    output, picture = tmp_path / "m.json", tmp_path / "roc.svg"
    assert run(*members(files, files.trained, "--views", 3, "-o", output)).code == 0
    done = run(
        "replay", output, "--among", files.folder, "--run", "--into", tmp_path / "i"
    )
    assert done.code == 0, done.err
    # Equal CPU seconds, by chance, give equal bytes.
    assert "cpu_seconds" in done.out or "same bytes" in done.out
    done = run("plot", "roc", output, "--series", f"again={output}", "-o", picture)
    assert done.code == 0 and "m AUC 0.9" in done.out
    assert "false positive rate" in picture.read_text()
    assert "audit membership: AUC 0.9" in " ".join(run("inspect", output).out.split())
    done = run("compare", "--series", f"a={output}", "--value", "auc")
    assert done.code == 0, done.err
    done = run("plot", "roc", files.trained, "-o", picture)
    assert done.code == 65
