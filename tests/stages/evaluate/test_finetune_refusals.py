import numpy as np
import pytest

from furlkit.data.sets.source import Source
from furlkit.files.facts import Provenance
from furlkit.files.partition import read_partition, write_partition
from tests.helpers import furlkit
from tests.stages.evaluate.conftest import federated

DIGITS = Source("digits").images()


def test_a_dry_run_writes_nothing(divided_digits, evaluate, tmp_path, capsys):
    part = ("--partition", divided_digits / "p.st")
    for words, said in (
        (federated(divided_digits, 0.01), "after 20 x 5 epochs on 15 labelled images in 3 clients"),
        (("semi", "--mode", "central", "--fraction", 0.01), "after 1 x 100 epochs on 14 labelled images in one place"),
        (("finetune", *part), "after 20 x 5 epochs on 1,438 labelled"),
        (("transfer",), "after 1 x 100 epochs on 1,438 labelled"),
    ):  # fmt: skip
        assert evaluate("x", *words, "--dry-run")[0] == 0
        assert said in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def partition_by_hand(divided_digits, path, parts):
    """Write a partition of digits whose parts are given."""
    facts = read_partition(divided_digits / "p.st").facts
    facts = type(facts)("by hand", len(parts), facts.dataset, facts.class_names)
    histogram = np.zeros((len(parts), 10))
    public = np.empty(0, np.int64)
    write_partition(path, parts, public, histogram, facts, Provenance("partition"))
    return path


def test_clients_that_cannot_train_are_left_out(
    divided_digits, evaluate, score, tmp_path, capsys
):
    two = [np.arange(30), np.arange(30, 60)]
    full = partition_by_hand(divided_digits, tmp_path / "full.st", two)
    gaps = [two[0], np.empty(0, np.int64), np.array([70]), two[1]]
    holed = partition_by_hand(divided_digits, tmp_path / "holed.st", gaps)
    short = ("--rounds", 1, "--epochs", 1)
    found = score("h", "finetune", "--partition", holed, *short)
    assert found["labelled"] == {"0": 30, "1": 0, "2": 0, "3": 30}
    err = capsys.readouterr().err
    for client, images in ((1, 0), (2, 1)):
        assert f"warning: client {client} has {images} images" in err
    assert found["train_examples"] == 60
    assert score("f", "finetune", "--partition", full, *short)["train_examples"] == 60
    none = partition_by_hand(
        divided_digits, tmp_path / "none.st", [np.array([3]), np.array([4])]
    )
    assert evaluate("n", "finetune", "--partition", none)[0] == 65
    assert f"{none}: has too few images" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, code, said",
    [
        ("semi --fraction 0.1", 2, "--partition"),
        ("semi --fraction 0.1 --mode central --rounds 3", 2, "--rounds"),
        ("semi --mode central", 2, "Missing option '--fraction'"),
        ("semi --fraction 0 --mode central", 2, "Invalid value for '--fraction'"),
        ("semi --fraction 1.1 --mode central", 2, "Invalid value for '--fraction'"),
        ("semi --fraction nan --mode central", 2, "Invalid value for '--fraction'"),
        ("semi --fraction 0.1 --mode central --head-lr 0", 2, "'--head-lr'"),
        ("semi --fraction 0.1 --mode central --milestone-factor 0.2", 2,
         "without --milestones"),
        ("finetune", 2, "Missing option '--partition'"),
        ("finetune --mode central", 2, "No such option"),
        ("transfer --image-size 7", 2, "Invalid value for '--image-size'"),
        ("transfer --rounds 2", 2, "No such option"),
        ("finetune --partition {bare}", 65, "checkpoint file"),
        ("finetune --partition {other}", 65, "other.st: "),
        ("transfer --test-data {bare_data}", 65, "bare.npz: has no labels"),
        ("transfer --data {bare_data} --test-data digits", 65, "bare.npz: has no labels"),
        ("transfer --data {colour} --test-data digits", 65, "grey"),
        ("transfer --data {colour}", 2, "test split"),
    ],
)  # fmt: skip
def test_wrong_input(divided_digits, evaluate, tmp_path, capsys, words, code, said):
    places = {
        "bare": divided_digits / "g.st", "other": tmp_path / "other.st",
        "bare_data": tmp_path / "bare.npz", "colour": tmp_path / "colour.npz",
    }  # fmt: skip
    np.savez(places["bare_data"], images=DIGITS.images)
    np.savez(places["colour"], images=DIGITS.images.repeat(3, 3), labels=DIGITS.labels)
    np.savez(
        tmp_path / "small.npz", images=DIGITS.images[:50], labels=DIGITS.labels[:50]
    )
    small = ("--data", tmp_path / "small.npz", "--clients", 2)
    assert furlkit("partition", *small, "-o", places["other"]) == 0
    before = set(tmp_path.iterdir())
    capsys.readouterr()
    assert evaluate("x", *words.format(**places).split())[0] == code
    out, err = capsys.readouterr()
    assert said in err and out == "" and "Traceback" not in err
    assert set(tmp_path.iterdir()) == before


def test_a_model_that_cannot_be_loaded(
    divided_digits, evaluate, forge, tmp_path, capsys
):
    model = tmp_path / "broken.st"
    model.write_bytes((divided_digits / "g.st").read_bytes())
    forge(model, tensors={"encoder.bn1.running_mean": None})
    assert evaluate("x", "transfer", model=model)[0] == 65
    err = capsys.readouterr().err
    assert f"{model}: " in err and "BatchNorm" in err
    assert evaluate("x", "transfer", model=divided_digits / "p.st")[0] == 65
    assert "p.st: is a partition" in capsys.readouterr().err
    # Its architecture is all that new weights need.
    assert (
        evaluate("y", "transfer", "--random-init", "--epochs", 1, model=model)[0] == 0
    )


def test_an_input_is_never_written_over(divided_digits, capsys):
    before = (divided_digits / "p.st").read_bytes()
    words = federated(divided_digits, 0.1)
    more = ("--data", "digits", "-o", divided_digits / "p.st")
    assert (
        furlkit("evaluate", words[0], divided_digits / "g.st", *words[1:], *more) == 2
    )
    assert f"-o {divided_digits / 'p.st'}" in capsys.readouterr().err
    assert (divided_digits / "p.st").read_bytes() == before


def test_classes_that_only_the_test_images_have(score, tmp_path):
    few = DIGITS.labels < 4
    data = tmp_path / "few.npz"
    np.savez(data, images=DIGITS.images[few], labels=DIGITS.labels[few])
    words = ("transfer", "--epochs", 1, "--test-data", "digits")
    found = score("x", *words, data=data)
    assert np.array(found["confusion"]).shape == (10, 10)
    assert found["test_examples"] == 359
