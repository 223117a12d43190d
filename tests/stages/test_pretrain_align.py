import numpy as np
import pytest

from furlkit.data.sets.digits import read_digits
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.partition import read_partition
from furlkit.files.targets import read_targets
from furlkit.stages import pretrain_align
from furlkit.stages.pretrain_align import work
from furlkit.training import loop
from tests.helpers import epoch_losses, furlkit, round_0, tensor_bytes

DIGITS = ("--data", "digits")


@pytest.fixture(scope="module")
def public_digits(tmp_path_factory):
    """A model with a head for every objective, and a partition with a public part."""
    heads = ("--head", "rotation", "--head", "decoder", "--head", "classifier")
    net = ("--width", 0.02, "--projector", "8,4", *heads)
    split = ("--clients", 3, "--public-count", 100)
    return round_0(tmp_path_factory.mktemp("public_digits"), split, net)


def command(public_digits, folder, *more):
    words = [
        "pretrain-align",
        public_digits / "g.st",
        *DIGITS,
        "--images",
        64,
        "--epochs",
        2,
    ]
    words += ["--batch-size", 32, "--save-every", 0, "-q"]
    return [*words, "--targets-out", folder / "t", *more, "-o", folder / "a"]


@pytest.fixture
def pretrain(public_digits, tmp_path):
    """Train into a folder of the test's own; returns model and targets."""

    def run(name, *more):
        folder = tmp_path / name
        assert furlkit(*command(public_digits, folder, *more)) == 0
        return folder / "a", folder / "t"

    return run


def test_the_targets_are_what_embed_says_of_the_model(pretrain, tmp_path):
    model, targets = pretrain("x")
    found = read_targets(targets)
    for layer in ("h", "z"):
        words = ("embed", model, *DIGITS, "--layer", layer)
        assert furlkit(*words, "-o", tmp_path / layer) == 0
        rows = read_features(tmp_path / layer).rows[found.index]
        np.testing.assert_allclose(getattr(found, layer), rows, rtol=1e-4, atol=1e-5)


def test_model_and_targets_say_where_they_come_from(public_digits, pretrain):
    model, targets = pretrain("x", "--seed", 5)
    trained, found = read_checkpoint(model), read_targets(targets)
    start = read_checkpoint(public_digits / "g.st")
    assert (trained.facts.role, trained.facts.round) == ("align", 0)
    assert trained.facts.client is None and trained.facts.examples == 64
    assert trained.facts.parent == start.content
    assert trained.facts.architecture == start.facts.architecture
    assert trained.tensors.keys() == start.tensors.keys()
    assert found.facts.model == trained.content
    assert found.facts.architecture == start.facts.architecture
    assert (found.facts.mean, found.facts.std) == (start.facts.mean, start.facts.std)
    assert found.facts.dataset["examples"] == 1438 and found.facts.examples == 64
    for header in (trained.header, Container(targets).header):
        assert header.stage == "pretrain-align" and header.seed == 5
        assert header.inputs == {"model": start.content}
        assert header.options["images"] == 64 and header.options["part"] == "all"


def test_it_learns_and_moves_encoder_and_projector_alone(public_digits, pretrain):
    model, _ = pretrain("x", "--epochs", 6, "--lr", 0.01)
    losses = epoch_losses(model)
    assert [loss.keys() for loss in losses] == [{"simclr"}] * 6
    assert losses[-1]["simclr"] < losses[0]["simclr"]
    before, after = tensor_bytes(public_digits / "g.st"), tensor_bytes(model)
    moved = {name.partition(".")[0] for name in after if after[name] != before[name]}
    assert moved == {"encoder", "projector"}


@pytest.mark.parametrize("objective", ["rotation", "autoencoder"])
def test_other_objectives_without_labels_work(pretrain, objective):
    model, targets = pretrain("x", "--objective", objective)
    assert read_checkpoint(model).header.options["objective"] == objective
    assert read_targets(targets).z.shape == (64, 4)


def test_twice_is_the_same_bytes_and_another_seed_is_not(pretrain):
    first, again, other = (
        pretrain(name, "--seed", seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    for one, same, different in zip(first, again, other, strict=True):
        assert one.read_bytes() == same.read_bytes()
        assert tensor_bytes(one) != tensor_bytes(different)


def test_images_are_drawn_from_the_seed(pretrain):
    first, second = (
        read_targets(pretrain(f"s{seed}", "--seed", seed)[1]).index for seed in (0, 1)
    )
    for index in (first, second):
        assert len(index) == 64 and (np.diff(index) > 0).all() and index[-1] < 1438
    assert first.tolist() != second.tolist()
    # 64 of 1,438 by chance have about 3 in common.
    assert len(np.intersect1d(first, second)) < 20


def test_the_images_that_were_not_drawn_are_not_looked_at(pretrain, tmp_path):
    pixels, _ = read_digits("train")
    model, targets = pretrain("all")
    index = read_targets(targets).index
    others = np.setdiff1d(np.arange(len(pixels)), index)
    for name, black in (("others", others), ("own", index[:1])):
        changed = pixels.copy()
        changed[black] = 0
        np.savez(tmp_path / f"{name}.npz", images=changed)
    found = {
        name: pretrain(name, "--data", tmp_path / f"{name}.npz")
        for name in ("others", "own")
    }
    assert tensor_bytes(found["others"][0]) == tensor_bytes(model)
    assert tensor_bytes(found["others"][1]) == tensor_bytes(targets)
    assert tensor_bytes(found["own"][0]) != tensor_bytes(model)


def test_0_takes_all_images_of_the_split(pretrain):
    more = ("--split", "test", "--images", 0, "--epochs", 1)
    found = read_targets(pretrain("x", *more)[1])
    assert found.index.tolist() == list(range(359))
    assert found.facts.dataset["examples"] == 359


@pytest.mark.parametrize(
    "part, code, word",
    [((), 0, "give --partition"), (("public",), 0, ""), (("all",), 65, "--part all"),
     ((1,), 65, "--part 1")],
)  # fmt: skip
def test_images_of_clients_are_named(public_digits, tmp_path, run, part, code, word):
    words = [w for w in command(public_digits, tmp_path, "--dry-run") if w != "-q"]
    if part:
        words += ["--partition", public_digits / "p.st", "--part", *part]
    done = run(*words)
    assert done.code == 0 and word in done.err
    assert ("warning" in done.err) == (code == 65)
    assert run(*words, "--strict").code == code


@pytest.mark.parametrize("part, code", [("public", 0), (1, 0), ("all", 65), (0, 65)])
def test_targets_of_a_clients_images_are_named(
    public_digits, pretrain, tmp_path, run, part, code
):
    of = ("--partition", public_digits / "p.st", "--part", part, "--images", 0)
    targets = pretrain("t", *of)[1]
    words = (
        "local-train", public_digits / "p.st", public_digits / "g.st", *DIGITS,
        "--client", 0, "--epochs", 1, "--align", targets, "--align-data", "digits",
        "-o", tmp_path / "u.st",
    )  # fmt: skip
    done = run(*words, "--strict")
    assert done.code == code, done.err
    if code:
        assert str(targets) in done.err and "images of client 0" in done.err
        assert run(*words).code == 0


def test_a_part_of_a_partition(public_digits, pretrain):
    partition = read_partition(public_digits / "p.st")
    of = ("--partition", public_digits / "p.st", "--part")
    everything = read_targets(pretrain("x", *of, "public", "--images", 0)[1])
    assert everything.index.tolist() == partition.public.tolist()
    some = read_targets(pretrain("y", *of, "public")[1])
    assert len(some.index) == 64 and set(some.index) <= set(partition.public)
    own = read_targets(pretrain("z", *of, 1)[1])
    assert set(own.index) <= set(partition.of(1))
    header = Container(some.path).header
    assert header.inputs["partition"] == partition.content


def test_killed_and_started_again_it_ends_with_the_same_bytes(
    public_digits, pretrain, tmp_path, dies_at, capsys
):
    expected, folder = (
        [path.read_bytes() for path in pretrain("whole")],
        tmp_path / "parts",
    )
    for moment, there in (
        ((loop.Trainer, "step", 3), set()),
        ((work, "write_checkpoint"), set()),
        ((work, "write_targets"), {"a"}),
        ((pretrain_align.ProgressFile, "discard"), {"a", "t"}),
    ):
        with dies_at(*moment):
            furlkit(*command(public_digits, folder))
        assert (folder / "a.progress").exists()
        assert {name for name in "at" if (folder / name).exists()} == there
    capsys.readouterr()
    words = [word for word in command(public_digits, folder) if word != "-q"]
    assert furlkit(*words) == 0
    assert "already there" in capsys.readouterr().out
    assert [(folder / name).read_bytes() for name in "at"] == expected
    assert {path.name for path in folder.iterdir()} == {"a", "t", "a.log.jsonl"}


def test_a_dry_run_checks_and_writes_nothing(public_digits, tmp_path, run):
    done = run(*command(public_digits, tmp_path), "--dry-run")
    assert done.code == 0 and "64 images" in done.out and done.err == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "more, code, message",
    [
        (("--objective", "supervised"), 2, "'supervised'"),
        (("--objective", "cluster"), 2, "'cluster'"),
        (("--objective", "fedmatch"), 2, "'fedmatch'"),
        (("--helpers", "3"), 2, "--helpers"),
        (("--images", 1439), 2, "--images 1439"),
        (("--images", 1), 65, "digits: 1 image"),
        (("--part", "public"), 2, "--part public"),
        (("--objective", "rotation", "--form", "full"), 2, "--form"),
        (("--data", "nowhere"), 2, "nowhere"),
        (("--data", "nowhere.npz"), 65, "nowhere.npz"),
    ],
)
def test_what_makes_no_sense_is_refused(
    public_digits, tmp_path, refused, more, code, message
):
    words = (message,)
    refused(tmp_path, code, words, *command(public_digits, tmp_path, *more))
    refused(
        tmp_path, code, words, *command(public_digits, tmp_path, *more), "--dry-run"
    )


def test_a_part_that_has_too_few_images(public_digits, tmp_path, refused):
    more = ("--partition", public_digits / "p.st", "--part", "public", "--images", 101)
    refused(tmp_path, 2, ("--images 101",), *command(public_digits, tmp_path, *more))


def test_outputs_that_are_inputs_or_each_other(public_digits, tmp_path, refused):
    both = tmp_path / "t"
    both.touch()
    for more in (
        ("--targets-out", tmp_path / "a"),
        ("--targets-out", public_digits / "g.st"),
    ):
        words = command(public_digits, tmp_path, *more)
        refused(tmp_path, 2, (more[1], "--targets-out"), *words)
    words = [*command(public_digits, tmp_path)[:-1], public_digits / "g.st"]
    refused(tmp_path, 2, (f"-o {public_digits / 'g.st'}",), *words)


@pytest.mark.parametrize("objective", ["simclr", "rotation"])
def test_a_model_without_a_projector(public_digits, tmp_path, refused, objective):
    net = ("--width", 0.02, "--objective", "rotation", "-o", tmp_path / "g.st")
    assert furlkit("init", *DIGITS, *net) == 0
    words = command(tmp_path, tmp_path, "--objective", objective)
    refused(tmp_path, 65, (tmp_path / "g.st", "projector"), *words)
