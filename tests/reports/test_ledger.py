"""The ledger of real rounds on digits, against the sizes of the files by hand."""

import shutil
from os.path import getsize

import pytest
from safetensors.numpy import load_file

from furlkit.catalogue import defaults
from furlkit.cli.program import _outcome
from furlkit.reports.ledger import (
    Upload,
    document,
    flesd_equation_11,
    most_images,
    read_ledger,
)
from furlkit.stages import ledger as stage

DIGITS = ("--data", "digits")
NET = (*DIGITS, "--width", 0.02, "--projector", "8,4")
TRAIN = (*DIGITS, "--epochs", 1, "--batch-size", 240, "--save-every", 0, "-q")


def furlkit(*arguments):
    assert _outcome([str(argument) for argument in arguments]) == 0, arguments


def named(folder, number, name):
    return folder / f"r{number}" / f"{name}.safetensors"


def local_train(folder, number, client, *more, output="client_{client}"):
    given = folder / "partition.safetensors", named(folder, number - 1, "global")
    words = ("local-train", *given, *TRAIN, "--client", client)
    furlkit(*words, *more, "-o", named(folder, number, output))


def start(folder, *more):
    output = folder / "partition.safetensors"
    furlkit("partition", *DIGITS, "--clients", 3, *more, "-o", output)
    furlkit("init", *NET, "-o", named(folder, 0, "global"))
    return folder


def aggregate(folder, number, files, output, *more):
    uploads = [named(folder, number, name) for name in files]
    furlkit("aggregate", *uploads, *more, "-o", named(folder, number, output))


@pytest.fixture(scope="module")
def fedavg(tmp_path_factory):
    """Client 1 sits the second round out."""
    folder = start(tmp_path_factory.mktemp("fedavg"))
    for number, clients in ((1, "0,1,2"), (2, "0,2")):
        local_train(folder, number, clients)
        files = [f"client_{k}" for k in clients.split(",")]
        aggregate(folder, number, files, "global")
    return folder


@pytest.fixture(scope="module")
def fedca(tmp_path_factory):
    """Client 2 comes in the second round only."""
    folder = start(tmp_path_factory.mktemp("fedca"))
    targets = folder / "targets.safetensors"
    words = ("pretrain-align", named(folder, 0, "global"), *DIGITS, "--images", 60)
    words = (*words, "--epochs", 1, "--batch-size", 30, "--targets-out", targets, "-q")
    furlkit(*words, "-o", folder / "align.safetensors")
    for number, clients in ((1, "0,1"), (2, "0,1,2")):
        more = ["--align", targets, "--align-data", "digits", "--align-batch-size", 20]
        more += ["--dictionary-size", 20, "--alpha", 0.5]
        for kept in ("features", "private"):
            more += [f"--{kept}-out", named(folder, number, f"{kept}_{{client}}")]
        if number > 1:
            more += ["--dictionary", named(folder, 1, "dictionary")]
        local_train(folder, number, clients, *more)
        numbers = clients.split(",")
        aggregate(folder, number, [f"client_{k}" for k in numbers], "global")
        rows = [f"features_{k}" for k in numbers]
        aggregate(folder, number, rows, "dictionary", "--rule", "dictionary")
    return folder


@pytest.fixture(scope="module")
def flesd(tmp_path_factory):
    """Clients 1 and 2 send rows in round 1 and similarities in round 2."""
    folder = start(tmp_path_factory.mktemp("flesd"), "--public-client", 0)
    public = ("--partition", folder / "partition.safetensors", "--part", "public")
    for number, more in ((1, ["--share", "z"]), (2, ["--similarity"])):
        local_train(folder, number, "1,2")
        for k in (1, 2):
            model = named(folder, number, f"client_{k}")
            output = named(folder, number, f"sent_{k}")
            furlkit("embed", model, *DIGITS, *public, *more, "-o", output)
        rule = ("--rule", "ensemble")
        aggregate(folder, number, ["sent_1", "sent_2"], "ensemble", *rule)
        inputs = named(folder, number, "ensemble"), named(folder, number - 1, "global")
        words = ("distill", *inputs, *TRAIN, "--anchors", 240)
        furlkit(*words, "-o", named(folder, number, "global"))
    return folder


@pytest.fixture
def warned(capsys):
    """Read a ledger; gives it with its warnings."""

    def read(runs):
        capsys.readouterr()
        return read_ledger(runs), capsys.readouterr().err.splitlines()

    return read


def cells(found):
    return {(row["round"], row["client"]): row for row in found["cells"]}


def sizes(folder, number, *names):
    return sum(getsize(named(folder, number, name)) for name in names)


def kinds(side):
    return {kind: sums["bytes"] for kind, sums in side["kinds"].items()}


def test_fedavg_sends_models_and_receives_the_global_one(fedavg):
    found = document(read_ledger([fedavg]))
    assert found["missing"] == [] and found["total"]["unknown"] == 0
    by_place = cells(found)
    assert list(by_place) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 2)]
    for (number, k), row in by_place.items():
        sent = sizes(fedavg, number, f"client_{k}")
        received = sizes(fedavg, number - 1, "global")
        assert kinds(row["sent"]) == {"checkpoint": sent}
        assert kinds(row["received"]) == {"checkpoint": received}
        assert row["bytes"] == sent + received
    assert [row["clients"] for row in found["rounds"]] == [[0, 1, 2], [0, 2]]
    by_client = {row["client"]: row["bytes"] for row in found["clients"]}
    assert by_client[1] == sizes(fedavg, 1, "client_1") + sizes(fedavg, 0, "global")
    total = sizes(fedavg, 1, "client_0", "client_1", "client_2")
    total += sizes(fedavg, 2, "client_0", "client_2")
    total += 3 * sizes(fedavg, 0, "global") + 2 * sizes(fedavg, 1, "global")
    assert found["total"]["bytes"] == total == sum(by_client.values())
    assert sum(row["bytes"] for row in found["rounds"]) == total


def test_payload_is_what_the_tensors_take(fedavg):
    found = cells(document(read_ledger([fedavg])))
    tensors = load_file(named(fedavg, 1, "client_0"))
    wanted = sum(array.nbytes for array in tensors.values())
    side = found[1, 0]["sent"]
    assert side["payload"] == wanted < side["bytes"]
    assert found[1, 0]["payload"] == 2 * wanted


def test_fedca_has_dictionaries_every_round_and_targets_once(fedca):
    found = cells(document(read_ledger([fedca])))
    assert list(found) == [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
    targets = getsize(fedca / "targets.safetensors")
    for (number, k), row in found.items():
        model, rows = f"client_{k}", f"features_{k}"
        assert kinds(row["sent"]) == {
            "checkpoint": sizes(fedca, number, model),
            "features": sizes(fedca, number, rows),
        }
        received = {"checkpoint": sizes(fedca, number - 1, "global")}
        if number == 2:
            received["features"] = sizes(fedca, 1, "dictionary")
        if (number, k) in ((1, 0), (1, 1), (2, 2)):
            received["targets"] = targets
        assert kinds(row["received"]) == received


def test_flesd_sends_what_aggregate_was_given_and_never_weights(flesd):
    found = cells(document(read_ledger([flesd])))
    assert list(found) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    for (number, k), row in found.items():
        kind = "features" if number == 1 else "similarity"
        assert kinds(row["sent"]) == {kind: sizes(flesd, number, f"sent_{k}")}
        received = sizes(flesd, number - 1, "global")
        assert kinds(row["received"]) == {"checkpoint": received}


def test_a_client_that_carries_on_from_its_own_model_receives_none(
    flesd, tmp_path, warned
):
    """The first round's model came from elsewhere; the second round's did not."""
    folder = tmp_path / "run"
    shutil.copytree(flesd, folder)
    partition, own = folder / "partition.safetensors", named(folder, 1, "client_1")
    words = ("local-train", partition, own, *TRAIN, "--client", 1, "--update", "keep")
    furlkit(*words, "-o", named(folder, 2, "client_1"))
    row = cells(document(read_ledger([folder])))[2, 1]
    assert row["received"]["files"] == 0 and row["sent"]["files"] == 1
    own.unlink()
    again, (warning,) = warned([folder])
    assert cells(document(again))[2, 1] == row
    assert "client 1 in round 1" in warning and "unknown" in warning


def test_neither_order_nor_repeats_nor_copies_matter(fedca, tmp_path, warned):
    whole = read_ledger([fedca])
    files = sorted(fedca.rglob("*.safetensors"))
    folders = [fedca / "r2", fedca / "r0", fedca / "r1", *fedca.glob("*.safetensors")]
    for runs in (files, files[::-1], folders, [fedca, *files, fedca]):
        again, warnings = warned(runs)
        assert document(again) == document(whole) and warnings == []
    shutil.copytree(fedca, tmp_path / "a" / "run")
    shutil.copytree(fedca, tmp_path / "b")
    assert document(read_ledger([tmp_path])) == document(whole)


def test_bytes_until_a_round_add_up(fedavg):
    ledger = read_ledger([fedavg])
    each = [row["bytes"] for row in document(ledger)["rounds"]]
    assert [ledger.until(number) for number in (0, 1, 2, 3)] == [
        0, each[0], sum(each), sum(each)
    ]  # fmt: skip


def test_what_was_sent_for_an_ensemble_that_is_gone_is_unknown(flesd, tmp_path, warned):
    folder = tmp_path / "run"
    shutil.copytree(flesd, folder)
    named(folder, 1, "ensemble").unlink()
    _, (warning,) = warned([folder])
    model = named(folder, 1, "global")
    assert f"{model} was distilled from this ensemble" in warning


def test_a_missing_global_model_is_named_once_and_counted_as_unknown(
    fedavg, tmp_path, warned
):
    folder = tmp_path / "run"
    shutil.copytree(fedavg, folder)
    named(folder, 0, "global").unlink()
    named(folder, 2, "client_2").unlink()
    ledger, warnings = warned([folder])
    found = document(ledger)
    assert [row["unknown"] for row in found["rounds"]] == [3, 2]
    missing = {(m["round"], m["client"], m["direction"]) for m in found["missing"]}
    assert missing == {
        (1, 0, "received"), (1, 1, "received"), (1, 2, "received"), (2, 2, "sent"),
        (2, 2, "received"),
    }  # fmt: skip
    text = "\n".join(warnings)
    content = found["missing"][0]["content"][:12]
    assert len(warnings) == 3 and content in text
    assert "received by client 0 in round 1 (and 2 more)" in text
    assert "sent by client 2 in round 2" in text
    # With its only file it is lost what the client received.
    assert "client 2 in round 2: sent a file" in text
    assert found["rounds"][1]["received"]["files"] == 1


@pytest.mark.parametrize("encoding", ["float32", "float16", "int8"])
@pytest.mark.parametrize("form", ["z", "similarity", "top"])
def test_a_plan_counts_the_tensors_that_embed_writes(flesd, tmp_path, encoding, form):
    model, output = named(flesd, 1, "client_1"), tmp_path / "f.safetensors"
    top = 7 if form == "top" else None
    words = ["--share", "z"] if form == "z" else ["--similarity"]
    words += ["--top", top] if top else []
    words += ["--partition", flesd / "partition.safetensors", "--part", "public"]
    words += ["--encoding", encoding, "-o", output]
    furlkit("embed", model, *DIGITS, *words)
    tensors = load_file(output)
    n = len(tensors["index"])
    width = 4 if form == "z" else None
    plan = {"runs": (), "plan": True, "images": n, "width": width, "model": model}
    plan |= {"encoding": encoding, "similarity": form != "z", "top": top}
    wanted = sum(array.nbytes for array in tensors.values())
    assert Upload(width, encoding, top).bytes(n) == wanted
    found = stage.run({**defaults("ledger"), **plan})[1]
    assert found["flesd"]["up"] == wanted
    weights = load_file(model)
    assert found["averaging"]["up"] == sum(array.nbytes for array in weights.values())
    learnt = {k for k in weights if k.endswith(("weight", "bias"))}
    assert found["parameters"] == sum(weights[k].size for k in learnt)


def test_models_that_were_thrown_away_after_embed_are_missed(flesd, tmp_path, warned):
    shutil.copytree(flesd, tmp_path / "run")
    for number, k in ((1, 1), (1, 2), (2, 1)):
        named(tmp_path / "run", number, f"client_{k}").unlink()
    ledger, (warning,) = warned([tmp_path / "run"])
    found, whole = cells(document(ledger)), cells(document(read_ledger([flesd])))
    assert [row["unknown"] for row in found.values()] == [1, 1, 1, 0]
    assert [row["sent"] for row in found.values()] == [
        row["sent"] for row in whole.values()
    ]
    assert "client 1 in round 1 (and 2 more)" in warning


@pytest.mark.parametrize(
    "upload, wanted",
    [
        (Upload(10), 100 * (40 + 8)),
        (Upload(10, "int8"), 100 * (10 + 8 + 4)),
        (Upload(None), 100 * (400 + 8)),
        (Upload(None, "int8"), 100 * (100 + 8)),
        (Upload(None, "float16", 2.5), 100 * (3 * (2 + 4) + 8)),
        (Upload(None, "int8", 0.001), 100 * (1 * (1 + 4) + 8)),
    ],
)
def test_bytes_of_an_upload_by_hand(upload, wanted):
    assert upload.bytes(100) == wanted


@pytest.mark.parametrize("upload", [Upload(7), Upload(None), Upload(None, top=3.0)])
@pytest.mark.parametrize("rounds, budget", [(1, 20_004), (2, 200_040), (3, 40_008)])
def test_one_image_more_than_the_most_exceeds_the_budget(upload, rounds, budget):
    most = most_images(upload, rounds, budget)
    assert rounds * upload.bytes(most) <= budget < rounds * upload.bytes(most + 1)


def test_equation_11_with_the_numbers_of_the_paper():
    """10,000 images, d = 512 and ResNet-18's 11 million parameters, in equal rounds."""
    found = flesd_equation_11(T=1, n=10_000, d=512, T_avg=1, w=11_000_000)
    assert found == {"left": 5_120_000, "right": 11_000_000, "holds": True}
    assert not flesd_equation_11(T=3, n=10_000, d=512, T_avg=1, w=11_000_000)["holds"]


def test_a_model_that_counts_again_in_a_later_round_was_sent_once(fedavg, tmp_path):
    folder = tmp_path / "astw"
    shutil.copytree(fedavg, folder)
    before = document(read_ledger([folder]))
    uploads = [
        named(folder, number, f"client_{k}") for k, number in ((0, 2), (2, 2), (1, 1))
    ]
    words = ("aggregate", *uploads, "--staleness", 1.4, "-q")
    furlkit(*words, "-o", named(folder, 2, "global"))
    after = document(read_ledger([folder]))
    assert after["total"] == before["total"]
    assert after["rounds"] == before["rounds"]
