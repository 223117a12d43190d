import json

import numpy as np
import pytest
import torch

from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.partition import read_partition
from furlkit.randomness import derive, numpy_generator
from furlkit.stages.evaluate.finetune import choose
from furlkit.stages.evaluate.work import finetune as evaluate_finetune
from tests.helpers import furlkit
from tests.stages.evaluate.conftest import federated

DIGITS = Source("digits").images()
# What every test can afford; a net this small needs a large rate.
FAST = ("--lr", 0.01, "--batch-size", 64, "--hidden", 16)
PLAIN = ("--flip", 0, "--crop-scale", "1,1", "--crop-ratio", "1,1")


@pytest.fixture
def settings():
    return FAST


def central(fraction, *more):
    return ("semi", "--mode", "central", "--fraction", fraction, *more)


def learnt(document):
    """The results of training, apart from its settings."""
    return [document[key] for key in ("confusion", "train_loss", "accuracy")]


def test_the_document_says_what_was_done_to_what(divided_digits, evaluate, capsys):
    more = ("--rounds", 2, "--epochs", 1, "--seed", 3)
    code, path = evaluate("semi", *federated(divided_digits, 0.1, *more))
    assert code == 0
    found = json.loads(path.read_text())
    assert found["protocol"] == "semi" and found["mode"] == "federated"
    assert found["fraction"] == 0.1 and found["seed"] == 3
    assert (found["rounds"], found["epochs"]) == (2, 1)
    assert found["labelled"] == {"0": 48, "1": 48, "2": 48}
    assert found["train_examples"] == 144 and found["test_examples"] == 359
    assert found["random_init"] is False and found["train_loss"] > 0
    confusion = np.array(found["confusion"])
    assert confusion.shape == (10, 10) and confusion.sum() == 359
    assert found["accuracy"] == pytest.approx(np.trace(confusion) / 359)
    assert found["options"]["lr"] == 0.01 and found["options"]["hidden"] == 16
    assert (
        found["checkpoint"]["content"]
        == read_checkpoint(divided_digits / "g.st").content
    )
    assert found["checkpoint"]["facts"]["round"] == 0
    assert (
        found["inputs"]["partition"] == read_partition(divided_digits / "p.st").content
    )
    line = f"accuracy {100 * found['accuracy']:.2f}% on 359 images, "
    out = capsys.readouterr().out
    assert out == f"{path}: semi {line}global model of round 0\n"
    assert {p.name for p in path.parent.iterdir()} == {
        "semi.json", "semi.json.log.jsonl",
    }  # fmt: skip
    assert furlkit("inspect", path) == 0
    assert "semi accuracy" in capsys.readouterr().out
    assert furlkit("plot", "curve", path, "-o", path.with_suffix(".png")) == 0


@pytest.mark.parametrize("how", ["semi", "finetune", "transfer"])
def test_repeats_are_trainings_with_seeds_of_their_own(divided_digits, score, how):
    """The first is what a single training is, the second that of a derived seed."""
    part = ("--partition", divided_digits / "p.st", "--rounds", 1, "--epochs", 2)
    words = {
        "semi": central(0.1, "--epochs", 2),
        "finetune": ("finetune", *part, "--fraction", 0.1),
        "transfer": ("transfer", "--epochs", 1),
    }[how]
    one = score("one", *words, "--seed", 3)
    assert not {"repeats", "accuracy_std"} & one.keys()
    assert "repeats" not in one["options"]
    two = score("two", *words, "--seed", 3, "--repeats", 2)
    other = score("other", *words, "--seed", derive(3, "repeat", 1))
    assert two["options"]["repeats"] == 2 and two["seed"] == 3
    assert two["repeats"] == [one["accuracy"], other["accuracy"]]
    assert two["accuracy"] == pytest.approx(np.mean(two["repeats"]))
    assert two["accuracy_std"] == pytest.approx(np.std(two["repeats"], ddof=1))
    confusion = np.add(one["confusion"], other["confusion"])
    assert two["confusion"] == confusion.tolist()
    assert two["test_examples"] == 359
    losses = [one["train_loss"], other["train_loss"]]
    assert two["train_loss"] == pytest.approx(np.mean(losses))


def test_the_line_and_the_plan_name_the_repeats(evaluate, capsys):
    words = central(0.05, "--epochs", 1, "--repeats", 3)
    assert evaluate("x", *words, "--dry-run")[0] == 0
    assert capsys.readouterr().out.endswith(", 3 times\n")
    code, path = evaluate("x", *words)
    assert code == 0 and ", 3 repeats) on 359 images" in capsys.readouterr().out
    assert furlkit("inspect", path) == 0
    assert ", 3 repeats) of " in capsys.readouterr().out.replace("\n", " ")


def test_the_rates_of_head_and_milestones_are_recorded_where_they_are_given(score):
    plain = score("plain", *central(0.1, "--epochs", 2))
    options = plain["options"].keys()
    assert not {"head-lr", "milestones", "milestone-factor"} & options
    same = score("same", *central(0.1, "--epochs", 2, "--head-lr", 0.01))
    assert learnt(same) == learnt(plain) and same["options"]["head-lr"] == 0.01
    fast = score("fast", *central(0.1, "--epochs", 2, "--head-lr", 0.1))
    assert learnt(fast) != learnt(plain)
    late = ("--milestones", "1,2", "--milestone-factor", 0.2)
    slower = score("slower", *central(0.1, "--epochs", 2, *late))
    assert learnt(slower) != learnt(plain)
    assert slower["options"]["milestones"] == [1, 2]
    assert slower["options"]["milestone-factor"] == 0.2


def test_labels_are_worth_something(divided_digits, score):
    part = ("--partition", divided_digits / "p.st", "--rounds", 3, "--epochs", 3)
    rounds = score("fed", "finetune", *PLAIN, *part)
    everything = score("all", *central(1, *PLAIN, "--epochs", 6))
    few = score("few", *central(0.01, *PLAIN, "--epochs", 6))
    assert everything["train_examples"] == 1438 and few["train_examples"] == 14
    assert everything["accuracy"] > 0.6 and rounds["accuracy"] > 0.4
    assert few["accuracy"] < everything["accuracy"] - 0.2


def test_one_client_and_one_round_is_central(divided_digits, score):
    """The same labels, the same draws, and an average of one model."""
    one = score("c", *central(0.2, "--epochs", 3))
    more = ("--rounds", 1, "--epochs", 3)
    other = score("f", *federated(divided_digits, 0.2, *more, partition="p1.st"))
    assert learnt(one) == learnt(other)


def test_central_with_a_partition_has_the_labels_of_its_clients(divided_digits, score):
    part = ("--partition", divided_digits / "p.st", "--epochs", 1)
    found = score("c", *central(0.1, *part))
    assert found["labelled"] == {"0": 48, "1": 48, "2": 48}
    assert found["train_examples"] == 144 and found["rounds"] == 1
    assert learnt(found) != learnt(score("d", *central(0.1, "--epochs", 1)))


@pytest.mark.parametrize("mode", ["central", "federated"])
def test_other_labels_than_those_chosen_do_not_matter(
    divided_digits, score, tmp_path, mode
):
    partition = read_partition(divided_digits / "p.st")
    held = [np.arange(1438)]
    if mode == "federated":
        held = [partition.of(client) for client in range(3)]
    chosen = np.concatenate([
        choose(index, 0.1, None, numpy_generator(0, "labelled", k))
        for k, index in enumerate(held)
    ])  # fmt: skip
    rng = np.random.default_rng(0)
    others = rng.integers(0, 10, 1438)
    inside, outside = DIGITS.labels.copy(), others.copy()
    outside[chosen] = DIGITS.labels[chosen]
    inside[chosen] = others[chosen]
    found = []
    for name, labels in (("as", DIGITS.labels), ("out", outside), ("in", inside)):
        data, part = tmp_path / f"{name}.npz", tmp_path / f"{name}.st"
        np.savez(data, images=DIGITS.images, labels=labels)
        assert furlkit("partition", "--data", data, "--clients", 3, "-o", part) == 0
        assert np.array_equal(read_partition(part).indices, partition.indices)
        words = ("--test-data", "digits", "--epochs", 2)
        if mode == "federated":
            words += ("--partition", part, "--rounds", 2)
        words = ("semi", "--mode", mode, "--fraction", 0.1, *words)
        found.append(learnt(score(name, *words, data=data)))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("protocol", ["semi", "transfer"])
def test_same_command_same_bytes(divided_digits, evaluate, protocol):
    words = ("transfer", "--epochs", 1, "--image-size", 12)
    if protocol == "semi":
        words = federated(
            divided_digits, 0.1, "--rounds", 2, "--epochs", 1, "--choice", "stratified"
        )
    paths = [evaluate(name, *words)[1] for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    other = evaluate("c", *words, "--seed", 1)[1]
    one, another = (json.loads(p.read_text()) for p in (paths[0], other))
    assert learnt(one) != learnt(another)


def test_new_weights_have_nothing_of_the_model(divided_digits, score, tmp_path, capsys):
    other = tmp_path / "other.st"
    net = ("--data", "digits", "--width", 0.02, "--seed", 9)
    assert furlkit("init", *net, "-o", other) == 0
    words = central(0.2, "--epochs", 1, "--random-init")
    found = [score(m.stem, *words, model=m) for m in (divided_digits / "g.st", other)]
    assert learnt(found[0]) == learnt(found[1])
    assert "new weights in place of the global model of" in capsys.readouterr().out
    assert found[0]["random_init"] is True
    assert learnt(found[0]) != learnt(score("again", *words, "--seed", 1))
    kept = [
        score(m.stem, *words[:-1], model=m) for m in (divided_digits / "g.st", other)
    ]
    assert learnt(kept[0]) != learnt(kept[1])
    assert learnt(kept[0]) != learnt(found[0])


@pytest.mark.parametrize("more", [(), ("--random-init",)])
def test_images_reach_the_net_in_the_size_asked_for(evaluate, monkeypatch, more):
    seen = []

    def train(jobs, *_files):
        images = jobs.job(0).images
        batch = images.batch(torch.arange(2), torch.Generator())
        seen.append(batch.one_view().shape[2:])
        jobs.current.losses = (0.0,)

    def watched(_net, x):
        seen.append(x[0].shape[2:])

    def predict(net, images, view):
        net.encoder.register_forward_pre_hook(watched)
        return original(net, images[:2], view).repeat(180)[:359]

    original = evaluate_finetune.predict
    monkeypatch.setattr(evaluate_finetune.training, "run_jobs", train)
    monkeypatch.setattr(evaluate_finetune, "predict", predict)
    code, path = evaluate("t", "transfer", "--image-size", 84, *more)
    assert code == 0 and seen == [(84, 84), (84, 84)]
    assert json.loads(path.read_text())["options"]["image-size"] == 84


def test_a_resnet_keeps_its_stem_in_another_size(tmp_path, evaluate, monkeypatch):
    """A new resnet of this size would have the standard stem, 7 x 7."""
    model, seen = tmp_path / "resnet.st", []
    net = ("--data", "digits", "--encoder", "resnet18")
    assert furlkit("init", *net, "-o", model) == 0
    original = evaluate_finetune.give_classifier
    monkeypatch.setattr(
        evaluate_finetune, "give_classifier",
        lambda net, *more: seen.append(net.encoder.conv1.kernel_size)
        or original(net, *more),
    )  # fmt: skip
    for more in ((), ("--random-init",)):
        words = ("transfer", "--image-size", 84, "--dry-run", *more)
        assert evaluate("t", *words, model=model)[0] == 0
    assert seen == [(3, 3), (3, 3)]


def test_the_size_of_images_counts(score):
    words = ("transfer", "--epochs", 1)
    own, given, larger = (
        score(str(k), *words, *more)
        for k, more in enumerate(((), ("--image-size", 8), ("--image-size", 12)))
    )
    assert learnt(own) == learnt(given) != learnt(larger)


def test_random_choice_is_a_fraction_and_grows():
    index = np.random.default_rng(0).permutation(np.arange(100, 1100))
    drawn = [choose(index, f, None, np.random.default_rng(5)) for f in (0.01, 0.1, 1)]
    assert [len(d) for d in drawn] == [10, 100, 1000]
    assert set(drawn[0]) < set(drawn[1]) and np.array_equal(drawn[2], np.sort(index))
    again = choose(np.sort(index), 0.01, None, np.random.default_rng(5))
    assert np.array_equal(again, drawn[0])
    # BatchNorm needs two; a client with fewer gives all it has.
    for held, expected in ((50, 2), (1, 1), (0, 0)):
        assert (
            len(choose(index[:held], 0.01, None, np.random.default_rng(5))) == expected
        )


def test_stratified_choice_is_the_fraction_of_every_class():
    labels = np.repeat([0, 2, 3], [400, 200, 100])
    rng = np.random.default_rng(1)
    index = rng.permutation(700)
    assert np.bincount(labels[choose(index, 0.1, labels, rng)]).tolist() == [
        40,
        0,
        20,
        10,
    ]
    # 4, 2 and 1 would be exact for 7; of 10 the remainders 0.71, 0.86, 0.43 take two.
    assert np.bincount(labels[choose(index, 10 / 700, labels, rng)]).tolist() == [
        6,
        0,
        3,
        1,
    ]
    # Which of equal classes get no image is drawn, and not always the last ones.
    equal, seen = np.repeat(np.arange(10), 10), set()
    for _ in range(40):
        got = equal[choose(np.arange(100), 0.02, equal, rng)]
        assert len(set(got)) == 2
        seen |= set(got)
    assert seen == set(range(10))
