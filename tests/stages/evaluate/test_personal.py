"""evaluate personal: whose model and whose images, limits, what it writes and refuses."""

import json
import shutil

import numpy as np
import pytest

from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.stages.evaluate.work import personal
from tests.helpers import few_digits, furlkit

FAST = ("--epochs", 1, "--batch-size", 20, "-q")
HEAD = ("--epochs", 20, "--lr", 0.1, "--probes", 2)
METHODS = {
    "fedavg": (),
    "fedper": ("--send", "encoder"),
    "ditto": ("--personal", "ditto", "--pull", 0),
    "apfl": ("--personal", "apfl"),
    "apfl-0": ("--personal", "apfl", "--own-share", 0),
    "fedprox": ("--update", "own", "--proximal", 0.2),
}


@pytest.fixture(scope="module")
def three_clients(tmp_path_factory):
    """Digits: 180 to train on, of three clients, and 60 to test on."""
    folder = few_digits(tmp_path_factory.mktemp("personal"), 3)
    one = ("--data", folder / "d.npz", "--clients", 1, "-o", folder / "one")
    assert furlkit("partition", *one) == 0
    return folder


@pytest.fixture(scope="module")
def method(three_clients):
    """Two rounds of a method; gives the folder."""
    done = {}

    def run(name, clients="0-2"):
        if (name, clients) in done:
            return done[name, clients]
        folder = done[name, clients] = three_clients / f"{name}{clients}"
        for number in (1, 2):
            model = folder / f"g{number - 1}" if number == 2 else three_clients / "g0"
            kept = ("--private-out", folder / f"k{number}_{{client}}")
            if number == 2:
                kept += ("--private", folder / "k1_{client}")
            words = (
                three_clients / "p",
                model,
                "--data",
                three_clients / "d.npz",
                *FAST,
            )
            out = ("--client", clients, "-o", folder / f"c{number}_{{client}}")
            assert furlkit("local-train", *words, *METHODS[name], *kept, *out) == 0
            uploads = sorted(folder.glob(f"c{number}_?"))
            assert (
                furlkit("aggregate", *uploads, "-q", "-o", folder / f"g{number}") == 0
            )
        return folder

    return run


@pytest.fixture
def evaluate(three_clients, tmp_path):
    def run(name, model, *private, more=(), partition="p"):
        output = tmp_path / f"{name}.json"
        data = (
            "--data",
            three_clients / "d.npz",
            "--test-data",
            three_clients / "t.npz",
        )
        words = (three_clients / partition, model, *private, *data, *HEAD, *more)
        return furlkit("evaluate", "personal", *words, "-q", "-o", output), output

    return run


def accuracies(document):
    return [score["probes"] for score in document["clients"]]


def privates(folder):
    return sorted(folder.glob("k2_?"))


def test_a_score_says_whose_it_is_and_of_what(score, method, three_clients):
    folder = method("ditto")
    found = score("x", folder / "g2", *privates(folder), more=("--seed", 3))
    assert found["protocol"] == "personal" and found["seed"] == 3
    each = np.array([client["accuracy"] for client in found["clients"]])
    assert [client["client"] for client in found["clients"]] == [0, 1, 2]
    assert found["accuracy"] == pytest.approx(each.mean())
    assert found["clients_std"] == pytest.approx(each.std(ddof=1))
    assert found["worst_tenth_accuracy"] == each.min()
    probes = np.array(accuracies(found))
    assert probes.shape == (3, 2) and probes.mean(axis=1) == pytest.approx(each)
    assert found["probes"] == pytest.approx(probes.mean(axis=0).tolist())
    assert found["accuracy_std"] == pytest.approx(np.std(found["probes"], ddof=1))
    for client in found["clients"]:
        assert (client["train_examples"], client["test_examples"]) == (60, 60)
    contents = [Container(path).header.content for path in privates(folder)]
    assert found["private"] == dict(zip("012", contents, strict=True))
    assert found["data"]["partition"] == Container(three_clients / "p").header.content
    facts = found["checkpoint"]["facts"]
    assert (facts["role"], facts["round"]) == ("global", 2)


def test_a_single_client_with_the_global_model_is_evaluate_linear(
    score, method, three_clients, tmp_path, forge
):
    model, output = method("fedavg") / "g2", tmp_path / "linear.json"
    data = ("--data", three_clients / "d.npz", "--test-data", three_clients / "t.npz")
    assert furlkit("evaluate", "linear", model, *data, *HEAD, "-o", output) == 0
    forge(
        three_clients / "one", {"indices": np.arange(180)}
    )  # In the order of the dataset.
    linear, own = json.loads(output.read_text()), score("x", model, partition="one")
    assert own["probes"] == linear["probes"] and len(own["clients"]) == 1
    assert own["accuracy"] == pytest.approx(linear["accuracy"])


def test_all_names_every_client(score, method):
    model = method("fedavg") / "g2"
    found = score("every", model, more=("--client", "all"))
    assert found["clients"] == score("usual", model)["clients"]


def test_images_of_others_do_not_count(score, method, three_clients, tmp_path, forge):
    """A client's score is the same where the labels of all others are wrong."""
    model = method("fedavg") / "g2"
    found = score("x", model, more=("--client", 1))
    digits, mine = np.load(three_clients / "d.npz"), read_part(three_clients / "p", 1)
    labels = (digits["labels"] + 1) % 10
    labels[mine] = digits["labels"][mine]
    np.savez(tmp_path / "d.npz", images=digits["images"], labels=labels)
    partition = forge(
        shutil.copy(three_clients / "p", tmp_path / "p"), facts=fingerprint(tmp_path)
    )
    data = ("--data", tmp_path / "d.npz", "--test-data", three_clients / "t.npz")
    words = ("evaluate", "personal", partition, model, *data, *HEAD, "--client", 1)
    assert furlkit(*words, "-q", "-o", tmp_path / "y.json") == 0
    other = json.loads((tmp_path / "y.json").read_text())
    assert other["clients"] == found["clients"] and len(found["clients"]) == 1


def read_part(path, client):
    tensors = Container(path).tensors()
    offsets = tensors["offsets"]
    return tensors["indices"][offsets[client] : offsets[client + 1]]


def fingerprint(folder):
    return {"dataset": Source(str(folder / "d.npz")).images().fingerprint}


def test_clients_without_a_model_of_their_own_have_the_global_one(score, method):
    folder = method("fedavg")
    plain = score("x", folder / "g2")
    assert accuracies(score("y", folder / "g2", *privates(folder))) == accuracies(plain)
    mixed = method("apfl-0")
    own = score("z", mixed / "g2", *privates(mixed))
    assert accuracies(own) == accuracies(plain)


def test_fedper_has_the_global_encoder(score, method):
    folder = method("fedper")
    own = score("x", folder / "g2", *privates(folder))
    assert accuracies(own) == accuracies(score("y", folder / "g2"))


@pytest.mark.parametrize("name", ["ditto", "apfl", "fedprox"])
def test_a_model_of_its_own_is_scored_in_place_of_the_global_one(score, method, name):
    folder = method(name)
    own = score("x", folder / "g2", *privates(folder))
    assert accuracies(own) != accuracies(score("y", folder / "g2"))
    if name == "fedprox":  # Which sends its own model.
        for client in range(3):
            sent = score(
                f"z{client}", folder / f"c2_{client}", more=("--client", client)
            )
            assert accuracies(sent) == accuracies(own)[client : client + 1]


@pytest.mark.parametrize("name", ["fedavg", "fedper"])
def test_a_local_model_is_scored_in_place_of_the_global_one(score, method, name):
    """FedAvg's personalisation in FedStyle: the model as the client trained it."""
    folder = method(name)
    uploads = sorted(folder.glob("c2_?"))
    own = score("x", folder / "g2", *privates(folder), *uploads)
    assert accuracies(own) != accuracies(score("y", folder / "g2", *privates(folder)))
    for client, upload in enumerate(uploads):
        alone = score(f"z{client}", upload, folder / f"k2_{client}")
        assert accuracies(alone) == accuracies(own)[client : client + 1]
    contents = [Container(path).header.content for path in uploads]
    assert own["uploads"] == dict(zip("012", contents, strict=True))
    some = score("w", folder / "g2", uploads[1], more=("--client", "0-1"))
    assert some["uploads"]["0"] is None and some["uploads"]["1"] == contents[1]


def test_ditto_without_a_pull_is_as_good_as_training_alone(score, method):
    folder, alone = method("ditto"), method("fedavg", clients="0")
    own = score("x", folder / "g2", folder / "k2_0")
    assert [client["client"] for client in own["clients"]] == [0]
    by_hand = score("y", alone / "c2_0", more=("--client", 0))
    assert accuracies(own) == accuracies(by_hand)


def test_a_client_that_has_kept_nothing_yet_has_the_global_model(score, method):
    folder = method("ditto")
    some = score("x", folder / "g2", folder / "k2_1", more=("--client", "0-1"))
    plain = accuracies(score("y", folder / "g2"))
    own = accuracies(score("z", folder / "g2", *privates(folder)))
    assert accuracies(some) == [plain[0], own[1]] and some["private"]["0"] is None


def test_test_images_are_embedded_once_for_clients_that_share_an_encoder(
    evaluate, method, monkeypatch
):
    counts = []
    original = personal.embed

    def counted(net, images, index, *more):
        counts.append(len(index))
        return original(net, images, index, *more)

    monkeypatch.setattr(personal, "embed", counted)
    folder = method("fedper")
    assert evaluate("x", folder / "g2", *privates(folder))[0] == 0
    assert sorted(counts) == [60, 60, 60, 60]


def test_the_order_of_files_does_not_matter_and_twice_is_once(evaluate, method, capsys):
    folder = method("apfl")
    _, output = evaluate("x", folder / "g2", *privates(folder))
    first = output.read_bytes()
    assert evaluate("y", folder / "g2", *privates(folder)[::-1])[0] == 0
    assert output.with_name("y.json").read_bytes() == first
    capsys.readouterr()
    assert evaluate("x", folder / "g2", *privates(folder))[0] == 0
    assert "already there" in capsys.readouterr().out
    output.write_bytes(first.replace(b'"clients_std": ', b'"clients_std": 7'))
    assert evaluate("x", folder / "g2", *privates(folder))[0] == 0
    assert output.read_bytes() == first  # A file that was changed is made again.
    assert evaluate("x", folder / "g2", more=("--seed", 1))[0] == 0
    assert json.loads(output.read_text())["seed"] == 1


def test_lbfgs_and_a_preset_of_linear_serve_too(three_clients, method, run, tmp_path):
    data = ("--data", three_clients / "d.npz", "--test-data", three_clients / "t.npz")
    words = (
        "evaluate",
        "personal",
        three_clients / "p",
        method("fedavg") / "g2",
        *data,
    )
    assert run(*words, "--solver", "lbfgs", "-o", tmp_path / "x.json").code == 0
    assert "probes" not in json.loads((tmp_path / "x.json").read_text())
    preset = ("--preset", "moco", "--probes", 1)
    assert run(*words, *preset, "-o", tmp_path / "y.json").code == 0
    options = json.loads((tmp_path / "y.json").read_text())["options"]
    assert (options["lr"], options["milestones"]) == (30, [60, 80])


def test_people_are_told(three_clients, method, run, tmp_path):
    data = ("--data", three_clients / "d.npz", "--test-data", three_clients / "t.npz")
    words = (
        "evaluate",
        "personal",
        three_clients / "p",
        method("fedavg") / "g2",
        *data,
        *HEAD,
    )
    done = run(*words, "-o", tmp_path / "x.json")
    found = json.loads((tmp_path / "x.json").read_text())
    assert done.out == (
        f"{tmp_path}/x.json: personal accuracy {100 * found['accuracy']:.2f}% of 3 "
        f"clients (std {100 * found['clients_std']:.2f}, worst tenth "
        f"{100 * found['worst_tenth_accuracy']:.2f}%), round 2\n"
    )
    assert "client 2: accuracy" in done.err
    shown = " ".join(run("inspect", tmp_path / "x.json").out.split())
    assert "personal accuracy" in shown and "of 3 clients" in shown
    assert "3 clients" in run(*words, "--dry-run", "-o", tmp_path / "z.json").out
    assert not (tmp_path / "z.json").exists()


@pytest.mark.parametrize(
    "case, code, words",
    [
        ("late", 65, ("k2_0", "round 2")),
        ("twice", 2, ("k2_0", "client 0")),
        ("foreign", 65, ("k1_0", "float32")),
        ("client", 2, ("--client 7",)),
        ("kind", 65, ("p", "a partition", "private")),
        ("global", 65, ("g1", "global", "uploads")),
        ("early", 65, ("c2_0", "round 2")),
        ("two uploads", 2, ("c1_0", "client 0")),
        ("other net", 65, ("c2_0", "architecture")),
        ("data", 65, ("p", "another dataset")),
    ],
)
def test_what_does_not_fit_is_refused(
    three_clients, method, tmp_path, refused, forge, case, code, words
):
    folder = method("ditto")
    model, private, more, data = (
        folder / "g2",
        [folder / "k2_0"],
        (),
        three_clients / "d.npz",
    )
    if case == "late":
        model = folder / "g1"
    elif case == "twice":
        private.append(folder / "k1_0")
    elif case == "foreign":
        other = {"own.encoder.conv1.weight": np.zeros((2, 1, 3, 3), np.float32)}
        private = [forge(shutil.copy(folder / "k1_0", tmp_path / "k1_0"), other)]
    elif case == "client":
        more = ("--client", 7)
    elif case == "kind":
        private = [three_clients / "p"]
    elif case == "global":
        private = [folder / "g1"]
    elif case == "early":
        model, private = folder / "g1", [folder / "c2_0"]
    elif case == "two uploads":
        private = [folder / "c2_0", folder / "c1_0"]
    elif case == "other net":
        other = {**read_checkpoint(folder / "c2_0").facts.architecture, "width": 0.1}
        copy = shutil.copy(folder / "c2_0", tmp_path / "c2_0")
        private = [forge(copy, facts={"architecture": other})]
    else:
        data = three_clients / "t.npz"
    given = ("--data", data, "--test-data", three_clients / "t.npz", *HEAD, *more)
    command = ("evaluate", "personal", three_clients / "p", model, *private, *given)
    refused(tmp_path, code, words, *command, "-o", tmp_path / "x.json")
