import json

import numpy as np
import pytest
import torch

from furlkit.data.sets.source import Source
from furlkit.evaluation.knn import predict_knn
from furlkit.evaluation.linear import LinearSettings, fit_linear, predict_linear
from furlkit.evaluation.logistic import choose_logistic
from furlkit.evaluation.scores import accuracy
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.features import read_features
from furlkit.randomness import torch_generator
from tests.helpers import furlkit, round_0

SPLITS = ("train", "test")


@pytest.fixture(scope="module")
def scored_models(tmp_path_factory):
    """A client's model, and a global one whose BatchNorm stayed with the clients."""
    folder = round_0(tmp_path_factory.mktemp("scored_models"))
    fast = ("--data", "digits", "--epochs", 1, "--client", 0, "--seed", 5)
    client = folder / "c.st"
    start = (folder / "p.st", folder / "g.st")
    assert furlkit("local-train", *start, *fast, "-o", client) == 0
    assert furlkit("aggregate", client, "--bn", "keep", "-o", folder / "keep.st") == 0
    return folder


@pytest.fixture
def evaluate(scored_models, tmp_path):
    def run(name, protocol, *more, model=scored_models / "c.st"):
        output = tmp_path / f"{name}.json"
        more = (*([model] if model else []), "--data", "digits", *more)
        return furlkit("evaluate", protocol, *more, "-o", output), output

    return run


@pytest.mark.parametrize("protocol", [("linear", "--epochs", 3), ("knn", "--k", 20)])
def test_a_score_says_what_was_scored_and_how(
    scored_models, evaluate, protocol, capsys
):
    seed = ("--seed", 2) if protocol[0] == "linear" else ()
    code, path = evaluate("score", *protocol, *seed)
    assert code == 0
    found = json.loads(path.read_text())
    assert found["kind"] == "metrics" and found["protocol"] == protocol[0]
    confusion, heads = np.array(found["confusion"]), len(found.get("probes", [0]))
    assert heads == (5 if seed else 1)
    assert confusion.shape == (10, 10) and confusion.sum() == 359 * heads
    assert found["train_examples"] == 1438 and found["test_examples"] == 359
    assert found["accuracy"] == pytest.approx(np.trace(confusion) / 359 / heads)
    recall = np.diag(confusion) / confusion.sum(axis=1)
    assert found["per_class"] == pytest.approx(recall.tolist())
    assert found["class_names"] == list("0123456789")
    assert found["seed"] == (2 if seed else None)
    assert found["options"][protocol[1][2:]] == protocol[2]
    model = read_checkpoint(scored_models / "c.st")
    assert found["checkpoint"]["content"] == model.content
    assert found["checkpoint"]["seed"] == 5
    facts = found["checkpoint"]["facts"]
    assert (facts["role"], facts["round"], facts["client"]) == ("client", 1, 0)
    shown = f"{100 * found['accuracy']:.2f}%"
    if seed:
        shown += f" (std {100 * found['accuracy_std']:.2f}, 5 probes)"
    assert capsys.readouterr().out == (
        f"{path}: {protocol[0]} accuracy {shown} on 359 images, client model of round 1\n"
    )


def features(model, split, folder):
    """What embed writes, and the labels."""
    path = folder / f"{split}.st"
    data = ("--data", "digits", "--split", split)
    assert furlkit("embed", model, *data, "--force", "-o", path) == 0
    labels = torch.from_numpy(Source("digits", split=split).images().labels)
    return torch.from_numpy(read_features(path).rows), labels


def test_accuracy_is_the_mean_of_the_probes(score):
    found = score("five", "linear", "--epochs", 5)
    each = np.array(found["probes"])
    assert each.shape == (5,) and len(set(each)) > 1
    assert found["accuracy"] == pytest.approx(each.mean(), abs=1e-15)
    assert found["accuracy_std"] == pytest.approx(each.std(ddof=1))
    assert found["options"]["probes"] == 5 and found["options"]["solver"] == "gradient"


def test_the_first_of_several_probes_is_a_single_one(score):
    """A single one has neither a deviation nor a list."""
    several = score("two", "linear", "--epochs", 5, "--probes", 2, "--seed", 3)
    one = score("one", "linear", "--epochs", 5, "--probes", 1, "--seed", 3)
    assert several["probes"][0] == one["accuracy"]
    assert not {"probes", "accuracy_std"} & one.keys()


def test_a_single_probe_draws_from_the_seed_as_it_always_did(
    scored_models, score, tmp_path
):
    """So that numbers of earlier versions can be compared."""
    (h, labels), (test, truth) = (
        features(scored_models / "c.st", s, tmp_path) for s in SPLITS
    )
    generator = torch_generator(3, "evaluate", "linear")
    (head,) = fit_linear(h, labels, 10, LinearSettings(epochs=4), [generator])
    expected = (predict_linear(test, *head) == truth).double().mean().item()
    found = score("one", "linear", "--epochs", 4, "--probes", 1, "--seed", 3)
    assert found["accuracy"] == pytest.approx(expected)


def test_lbfgs_scores_what_it_chose_and_has_no_randomness(
    scored_models, score, tmp_path
):
    one, other = (
        score(f"l{s}", "linear", "--solver", "lbfgs", "--seed", s) for s in (0, 1)
    )
    assert one.pop("content") != other.pop("content")
    assert {**one, "seed": 1} == other
    assert not {"probes", "accuracy_std"} & one.keys()
    (h, labels), (test, truth) = (
        features(scored_models / "c.st", s, tmp_path) for s in SPLITS
    )
    fit, facts = choose_logistic(h, labels, 10)
    assert one["accuracy"] == accuracy(fit.predict(test), truth)
    assert {key: one[key] for key in facts} == facts
    assert set(one["options"]) == {"solver", "threads", "device"}


@pytest.mark.parametrize(
    "more, word",
    [
        (("--solver", "lbfgs", "--probes", 5), "--probes does not apply"),
        (("--solver", "lbfgs", "--lr", 1), "--lr does not apply"),
        (("--width", 0.5), "--width does not apply without --untrained"),
        (("--encoder", "resnet18"), "--encoder does not apply"),
        (("--untrained", "--width", 0.5), "--width does not apply beside"),
        (("--untrained", "--image-size", 9), "--image-size does not apply beside"),
        (("--probes", 0), "--probes"),
    ],
)
def test_options_that_do_not_apply_are_refused(
    scored_models, refused, tmp_path, more, word
):
    command = ("evaluate", "linear", scored_models / "c.st", "--data", "digits", *more)
    refused(tmp_path, 2, [word], *command, "-o", tmp_path / "x.json")


def test_a_preset_for_gradients_serves_lbfgs(score):
    plain = score("a", "linear", "--solver", "lbfgs")
    assert score("b", "linear", "--solver", "lbfgs", "--preset", "moco") == plain


LEARNT = ("accuracy", "confusion", "per_class", "probes")


@pytest.mark.parametrize("protocol", [("linear", "--epochs", 2), ("knn",)])
def test_the_untrained_network_is_what_init_writes(score, tmp_path, capsys, protocol):
    """Of the same architecture and seed, whether a file shows it or the options do."""
    net = ("--width", 0.02, "--projector", "8,4", "--seed", 3)
    start = tmp_path / "start.st"
    assert furlkit("init", "--data", "digits", *net, "-o", start) == 0
    seed = ("--seed", 3) if protocol[0] == "linear" else ()
    written = score("written", *protocol, *seed, model=start)
    more = (*protocol, "--untrained", "--seed", 3)
    like = score("like", *more)
    alone = score("alone", *more, "--width", 0.02, model=None)
    assert "untrained cnn5" in capsys.readouterr().out
    for found in (like, alone):
        assert [found.get(k) for k in LEARNT] == [written.get(k) for k in LEARNT]
        assert found["untrained"] is True and found["checkpoint"]["content"] is None
        assert found["checkpoint"]["seed"] == 3
        facts = found["checkpoint"]["facts"]
        assert (facts["role"], facts["round"]) == ("global", 0)
    assert "untrained" not in written
    assert score("other", *more[:-1], 4)["confusion"] != like["confusion"]


def test_untrained_scores_are_read_by_every_consumer(evaluate, run, tmp_path):
    _, path = evaluate("u", "linear", "--epochs", 1, "--untrained")
    told = run("inspect", path).out
    assert "an untrained cnn5" in told and "5 probes" in told
    assert run("plot", "curve", path, "-o", tmp_path / "c.svg").code == 0
    table = run("compare", "--series", f"untrained={path}")
    assert table.code == 0 and "untrained" in table.out
    assert "already there" in evaluate_again(run, path).out


def evaluate_again(run, path):
    model = ("--untrained", "--width", 0.02)
    words = ("evaluate", "linear", *model, "--data", "digits", "--epochs", 1)
    first = run(*words, "-o", path)
    assert first.code == 0 and "already there" not in first.out
    return run(*words, "-o", path)


def test_without_a_model_there_is_nothing_to_score(refused, tmp_path):
    for protocol in ("linear", "knn"):
        words = ("evaluate", protocol, "--data", "digits", "-o", tmp_path / "x.json")
        refused(tmp_path, 2, ["CHECKPOINT", "--untrained"], *words)


def test_an_untrained_network_that_cannot_be_built(refused, tmp_path):
    words = (
        "evaluate",
        "knn",
        "--untrained",
        "--data",
        "digits",
        "-o",
        tmp_path / "x.json",
    )
    refused(tmp_path, 2, ["--width"], *words, "--encoder", "resnet18", "--width", 0.5)
    refused(tmp_path, 2, ["--stem"], *words, "--stem", "small")


def test_knn_scores_the_features_that_embed_writes(scored_models, evaluate, tmp_path):
    train, (test, truth) = (
        features(scored_models / "c.st", s, tmp_path) for s in SPLITS
    )
    predicted = predict_knn(*train, test, 10, 5, 0.2)
    expected = (predicted == truth).double().mean().item()
    _, path = evaluate("knn", "knn", "--k", 5, "--temperature", 0.2)
    assert json.loads(path.read_text())["accuracy"] == pytest.approx(expected)


def test_the_last_epoch_counts_and_not_the_best(evaluate):
    """The head's steps do not depend on --epochs; the best accuracy would never fall."""
    sgd = ("--optimiser", "sgd", "--lr", 3, "--momentum", 0.9, "--probes", 1)
    found = [
        json.loads(evaluate(str(n), "linear", *sgd, "--epochs", n)[1].read_text())
        for n in range(1, 7)
    ]
    accuracies = [score["accuracy"] for score in found]
    assert accuracies != sorted(accuracies)


@pytest.mark.parametrize("protocol", [("linear", "--epochs", 2, "--seed", 3), ("knn",)])
def test_same_command_same_bytes(evaluate, protocol):
    paths = [evaluate(name, *protocol)[1] for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_probe_reads_the_seed(evaluate):
    probe = ("linear", "--epochs", 1)
    one, other = (evaluate(str(s), *probe, "--seed", s)[1] for s in (0, 1))
    confusions = [json.loads(path.read_text())["confusion"] for path in (one, other)]
    assert confusions[0] != confusions[1]


def test_a_packed_file_has_no_test_split_of_its_own(evaluate, tmp_path, capsys):
    train, test = tmp_path / "train.safetensors", tmp_path / "test.safetensors"
    assert furlkit("pack", "digits", "-o", train) == 0
    assert furlkit("pack", "digits", "--split", "test", "-o", test) == 0
    code, path = evaluate("x", "knn", "--data", train)
    assert code == 2 and not path.exists()
    assert f"--data {train}: has no test split" in capsys.readouterr().err
    code, path = evaluate("packed", "knn", "--data", train, "--test-data", test)
    assert code == 0
    assert path.read_bytes() == evaluate("named", "knn")[1].read_bytes()


def test_a_dry_run_writes_nothing(evaluate, tmp_path, capsys):
    for protocol in ("linear", "knn"):
        assert evaluate("x", protocol, "--dry-run")[0] == 0
    assert list(tmp_path.iterdir()) == []
    assert "would score" in capsys.readouterr().out


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_model_whose_batchnorm_stayed_with_the_clients(
    scored_models, evaluate, tmp_path, capsys, more
):
    assert evaluate("x", "knn", *more, model=scored_models / "keep.st")[0] == 65
    err = capsys.readouterr().err
    assert f"{scored_models / 'keep.st'}: " in err and "BatchNorm" in err
    assert list(tmp_path.iterdir()) == []


def test_images_without_labels_score_nothing(evaluate, tmp_path, capsys):
    data = tmp_path / "d.safetensors"
    assert furlkit("pack", "digits", "--no-labels", "-o", data) == 0
    assert evaluate("x", "knn", "--test-data", data)[0] == 65
    assert f"{data}: has no labels" in capsys.readouterr().err
