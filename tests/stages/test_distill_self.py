"""distill --teacher self: the model labels public images itself."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit.files.container.read import Container
from furlkit.files.partition import read_partition
from furlkit.training import loop
from tests.helpers import epochs, furlkit, tensor_bytes

DIGITS = ("--data", "digits")
PUBLIC = 60
FAST = ("--epochs", 2, "--batch-size", 20, "-q")
STRONG = ("--randaugment", "2,9", "--cutout", 3, "--flip", 0)


@pytest.fixture(scope="module")
def sure_models(tmp_path_factory, forge):
    """A partition with a public part, and models whose classifier is sure of much.

    Nobody has trained them: a classifier with large weights is sure all the same. g is
    an ordinary model of round 0, m a global model, c1 a client's.
    """
    folder = tmp_path_factory.mktemp("sure_models")
    split = ("--clients", 2, "--public-count", PUBLIC, "-o", folder / "p")
    assert furlkit("partition", *DIGITS, *split) == 0
    for name in ("g", "m", "c1"):
        net = ("--width", 0.05, "--objective", "supervised", "-o", folder / name)
        assert furlkit("init", *DIGITS, *net) == 0
    facts = {"round": 1, "partition": Container(folder / "p").content,
             "examples": 200, "parts": ["classifier", "encoder"]}  # fmt: skip
    large = {"classifier.weight": 8 * load_file(folder / "g")["classifier.weight"]}
    forge(folder / "m", large, facts)
    forge(folder / "c1", large, {**facts, "role": "client", "client": 1})
    return folder


def words_of(sure_models, output, *more, start="m", data=DIGITS):
    part = ("--partition", sure_models / "p", "--part", "public")
    command = ("distill", sure_models / start, "--teacher", "self", *data, *part)
    return [*command, *FAST, *STRONG, *more, "-o", output]


@pytest.fixture
def label(sure_models, tmp_path):
    """Self-label in a folder of the test's own; gives exit code and output."""

    def run(*more, name="g", **how):
        output = tmp_path / name
        return furlkit(*words_of(sure_models, output, *more, **how)), output

    return run


def test_confident_images_and_skipped_steps_are_in_journal_and_result(
    sure_models, run, tmp_path
):
    words = words_of(sure_models, tmp_path / "g", "--confidence", 0.6, "--lr", 1e-4)
    done = run(*words)
    assert done.code == 0
    lines = epochs(tmp_path / "g")
    shares = [line["confident"] for line in lines]
    assert all(0 < share < 1 for share in shares) and len(shares) == 2
    assert all(0 < line["cluster_entropy"] < np.log(10) for line in lines)
    last = lines[-1]
    assert done.out == (
        f"{tmp_path / 'g'}: round 1, labelled itself by its classifier on 60 public "
        f"images, {shares[-1]:.1%} confident in the last epoch, {last['skipped']} of 6 "
        "steps skipped\n"
    )
    result = json.loads(run(*words, "--force", "--json").out)
    assert result["skipped"] == last["skipped"] and result["images"] == PUBLIC
    names = ("confident", "largest_cluster", "used_clusters", "cluster_entropy")
    assert [result[name] for name in names] == [last[name] for name in names]
    again = json.loads(run(*words, "--json").out)
    assert again == {**result, "unchanged": True}


def test_all_images_count_at_0(label):
    code, path = label("--confidence", 0)
    assert code == 0
    assert [line["confident"] for line in epochs(path)] == [1, 1]
    assert [line["skipped"] for line in epochs(path)] == [0, 0]


@pytest.mark.parametrize("form", ["weak-strong", "same"])
def test_without_a_confident_image_the_model_stays_as_it_was(
    sure_models, label, capsys, form
):
    """An untrained model is sure of nothing: every step is skipped, none is an error."""
    code, path = label("--form", form, start="g")
    assert code == 0 and tensor_bytes(path) == tensor_bytes(sure_models / "g")
    assert epochs(path)[-1]["skipped"] == 6 and epochs(path)[-1]["losses"] == {
        "self-labelling": 0.0
    }
    said = capsys.readouterr()
    assert "0.0% confident in the last epoch, 6 of 6 steps skipped" in said.out
    assert f"{path}: no image reached --confidence 0.99" in said.err


def test_a_strict_distillation_that_taught_nothing_is_not_written(label):
    code, path = label("--strict", start="g")
    assert code == 65 and not path.exists()


def test_labels_that_collapse_into_one_class_are_reported(label, capsys):
    """A model that was never trained and may believe itself at once ends in one class."""
    code, path = label("--confidence", 0.6)
    assert code == 0 and epochs(path)[-1]["largest_cluster"] > 0.9
    said = capsys.readouterr().err
    assert "the clustering has collapsed" in said and "--class-weights" in said
    assert "--entropy-weight" not in said  # distill has no such option


def test_a_confidence_above_1_is_impossible(sure_models, refused, tmp_path):
    words = words_of(sure_models, tmp_path / "g", "--confidence", 1.01)
    refused(tmp_path, 2, ("--confidence", "1.01"), *words)


def test_it_says_how_it_was_made(sure_models, label):
    _, path = label("--confidence", 0.6, "--seed", 5)
    header, start = Container(path).header, Container(sure_models / "m")
    assert header.inputs == {
        "start": start.content, "partition": Container(sure_models / "p").content
    }  # fmt: skip
    expected = {"teacher": "self", "head": "classifier", "confidence": 0.6,
                "form": "weak-strong", "class-weights": True,
                "mean-over": "confident", "part": "public"}  # fmt: skip
    assert expected.items() <= header.options.items()
    assert not {"layer", "ema", "anchors", "temperature"} & header.options.keys()
    facts = header.facts
    assert (facts["role"], facts["round"], facts["examples"]) == ("global", 1, PUBLIC)
    assert facts["partition"] == start.header.facts["partition"]
    assert facts["parent"] == start.content and (header.seed, header.stage) == (5, "distill")  # fmt: skip


def test_the_next_round_starts_from_it(sure_models, label, tmp_path):
    _, path = label("--confidence", 0.6)
    words = (
        "local-train",
        sure_models / "p",
        path,
        *DIGITS,
        "--client",
        "0-1",
        "--epochs",
        1,
    )
    words += ("--objective", "supervised", "-q", "-o", tmp_path / "c{client}")
    assert furlkit(*words) == 0
    clients = (tmp_path / "c0", tmp_path / "c1")
    assert furlkit("aggregate", *clients, "-o", tmp_path / "next") == 0
    assert Container(tmp_path / "next").header.facts["round"] == 2


def test_a_client_s_model_stays_the_client_s(sure_models, label):
    _, path = label("--confidence", 0.6, start="c1")
    facts, start = (Container(p).header.facts for p in (path, sure_models / "c1"))
    for name in ("role", "client", "examples", "parts", "round"):
        assert facts[name] == start[name]


@pytest.mark.parametrize(
    "option",
    [
        ("--seed", 1), ("--confidence", 0.5), ("--form", "same"), ("--cutout", 0),
        ("--no-class-weights",), ("--mean-over", "all"), ("--flip", 1),
    ],
)  # fmt: skip
def test_every_option_counts(label, option):
    more = ("--confidence", 0.7)
    one, other = label(*more)[1], label(*more, *option, name="o")[1]
    assert tensor_bytes(one) != tensor_bytes(other)


def test_public_images_of_another_set_need_no_partition(sure_models, tmp_path):
    public = read_partition(sure_models / "p").public
    from furlkit.data.sets.source import Source

    np.savez(tmp_path / "public.npz", images=Source("digits").images().images[public])
    words = ("distill", sure_models / "m", "--teacher", "self", "--confidence", 0.6)
    words += ("--data", tmp_path / "public.npz", *FAST, *STRONG)
    assert furlkit(*words, "-o", tmp_path / "g") == 0
    own = words_of(sure_models, tmp_path / "o", "--confidence", 0.6)
    assert furlkit(*own) == 0
    # The same images in the same order: where they come from changes no weight.
    assert tensor_bytes(tmp_path / "g") == tensor_bytes(tmp_path / "o")


def test_no_label_is_read(sure_models, label, tmp_path):
    """A file without labels teaches the same."""
    pack = ("pack", "digits", "--no-labels", "-o", tmp_path / "bare.safetensors")
    assert furlkit(*pack) == 0
    bare = ("--data", tmp_path / "bare.safetensors")
    one, other = label(), label(name="bare", data=bare)
    assert one[0] == other[0] == 0
    assert tensor_bytes(one[1]) == tensor_bytes(other[1])


@pytest.mark.parametrize(
    "more",
    [
        ("--confidence", 0.7),
        ("--confidence", 0.97, "--form", "same", "--optimiser", "sgd"),
        ("--confidence", 0.7, "--precision", "float16", "--schedule", "cosine"),
    ],
)
def test_killed_before_any_step_it_ends_with_the_same_bytes(
    sure_models, tmp_path, until_done, more
):
    """At 0.97 some steps of this model are skipped and others are not."""
    more = (*more, "--save-every", 0)
    assert furlkit(*words_of(sure_models, tmp_path / "whole", *more)) == 0
    words = words_of(sure_models, tmp_path / "parts", *more)
    assert until_done(loop.Trainer, "step", *words) >= 3
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    names = ("step", "losses", "confident", "cluster_entropy", "skipped")
    one, other = (
        [[line[name] for name in names] for line in epochs(tmp_path / k)]
        for k in ("whole", "parts")
    )
    assert one == other
    if "same" in more:
        assert 0 < one[-1][-1] < 6


def test_other_heads_stay(sure_models, tmp_path):
    net = ("--width", 0.05, "--objective", "supervised", "--head", "projector")
    assert furlkit("init", *DIGITS, *net, "-o", tmp_path / "both") == 0
    words = ("distill", tmp_path / "both", "--teacher", "self", "--confidence", 0)
    assert furlkit(*words, *DIGITS, "--steps", 2, "-q", "-o", tmp_path / "g") == 0
    found, start = load_file(tmp_path / "g"), load_file(tmp_path / "both")
    stay = {k for k in found if found[k].tobytes() == start[k].tobytes()}
    assert stay == {k for k in found if k.startswith("projector.")}


@pytest.mark.parametrize(
    "words, code, key",
    [
        (("distill", "{m}"), 2, "ENSEMBLE START"),
        (("distill", "{p}", "{m}", "--teacher", "self"), 2, "expected START"),
        (("distill", "{p}", "{m}", "{g}"), 2, "expected ENSEMBLE START"),
        (("distill", "{m}", "--teacher", "self", "--ema", 0.5), 2, "--ema"),
        (("distill", "{p}", "{m}", "--confidence", 0.5), 2, "--confidence"),
        (("distill", "{m}", "--teacher", "self", "--part", "public"), 2, "--partition"),
        (("distill", "{p}", "--teacher", "self"), 65, "checkpoint"),
        (("distill", "{z}", "--teacher", "self"), 65, "classifier"),
    ],
)
def test_refusals(sure_models, refused, tmp_path, words, code, key):
    if not (sure_models / "z").exists():
        assert furlkit("init", *DIGITS, "--width", 0.05, "-o", sure_models / "z") == 0
    given = [str(word).format(**{k: sure_models / k for k in "mpgz"}) for word in words]
    refused(tmp_path, code, (key,), *given, *DIGITS, "-o", tmp_path / "out")


def test_the_output_is_not_an_input(sure_models, refused, tmp_path):
    part = (
        "--partition",
        sure_models / "p",
        "--part",
        "public",
        "-o",
        sure_models / "p",
    )
    words = ("distill", sure_models / "m", "--teacher", "self", *DIGITS, *part)
    refused(
        tmp_path,
        2,
        (sure_models / "p", "exists and is an output of furlkit partition"),
        *words,
    )


def test_a_plan_refuses_a_teacher_without_its_file(sure_models, refused, tmp_path):
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        '[settings]\nrounds = 1\n[files]\nglobal = "r{round}/g"\nown = "r{round}/o"\n'
        '[stages]\ninit = "init --data digits -o {global@0}"\n'
        'own = "distill {global@0} --data digits -o {own}"\n'
    )
    refused(tmp_path, 65, ("ENSEMBLE START",), "plan", recipe)


@pytest.mark.parametrize("lr, lost", [(3e-3, True), (1e-6, False)])
def test_a_model_that_gives_up_most_of_its_clusters_is_warned_of(
    sure_models, run, tmp_path, lr, lost
):
    """Nine classes become two in six epochs, without the collapse into one."""
    train = (
        "local-train",
        sure_models / "p",
        sure_models / "g",
        *DIGITS,
        "--client",
        0,
        "-q",
    )
    train += ("--objective", "supervised", "--epochs", 2, "--batch-size", 32)
    assert furlkit(*train, "--flip", 0, "-o", tmp_path / "t") == 0
    more = ("--confidence", 0.4, "--lr", lr, "--epochs", 6, "--batch-size", 60)
    done = run(*words_of(sure_models, tmp_path / "g", *more, start=tmp_path / "t"))
    used = [line["used_clusters"] for line in epochs(tmp_path / "g")]
    assert done.code == 0 and used[0] == 9 and (used[-1] <= 4) == lost
    assert (f"9 clusters have become {used[-1]}" in done.err) == lost
    assert "collapsed" not in done.err
