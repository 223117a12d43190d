"""Federated clustering: from a pretext model to rounds; what is kept, sent and told."""

import json

import numpy as np
import pytest
import torch

from furlkit.data.augment.filters import cutout_
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.neighbours import read_neighbours
from furlkit.files.private import read_private
from furlkit.training import loop
from tests.helpers import Killed, digest, epochs, furlkit, round_0, tensor_bytes

DIGITS = ("--data", "digits")
WIDTHS = ("--width", 0.02, "--projector", "16,8")
CLUSTER = ("--objective", "cluster")
UNEVEN = ("--scheme", "volume", "--clients", 2, "--decay", 0.5, "--public-count", 1100)


@pytest.fixture(scope="module")
def pretext_models(tmp_path_factory):
    """Two clients, a pretext model g.st, and a model with three heads of clusters."""
    folder = round_0(tmp_path_factory.mktemp("pretext_models"), UNEVEN, WIDTHS)
    assert add_heads(folder, "start", "--heads", 3) == 0
    return folder


def add_heads(folder, name, *more):
    """Round 0 of the clustering, from the pretext model."""
    words = (*WIDTHS, "--from", folder / "g.st", *CLUSTER, "--head", "projector")
    given = (*words, "--clusters", 5, *more, "-o", folder / name)
    return furlkit("init", *DIGITS, *given)


def command(pretext_models, folder, *more, model=None, client="0-1", plan=(1, 32)):
    given = (
        pretext_models / "p.st",
        model or pretext_models / "start",
        *DIGITS,
        *CLUSTER,
    )
    given += ("--epochs", plan[0], "--batch-size", plan[1], "--client", client)
    # In the layout that the command neighbours has, whose rounding is then the same.
    given += ("--no-channels-last",)
    out = ("--private-out", folder / "k{client}", "-o", folder / "c{client}")
    return "local-train", *given, *more, *out


def kept(folder, client=0):
    return read_private(folder / f"k{client}", client).memory


@pytest.fixture
def first(pretext_models, tmp_path):
    """A first round and the global model after it."""
    assert furlkit(*command(pretext_models, tmp_path / "1")) == 0
    clients = (tmp_path / "1" / "c0", tmp_path / "1" / "c1")
    assert furlkit("aggregate", *clients, "-o", tmp_path / "1" / "g") == 0
    return tmp_path / "1"


# --- from pretext to clusters ---------------------------------------------------------


def test_heads_are_added_to_a_pretext_model_which_stays_as_it_is(
    pretext_models, capsys
):
    assert add_heads(pretext_models, "again", "--heads", 3) == 0
    said = capsys.readouterr().err
    assert "copied encoder, projector" in said and "--seed: clusters" in said
    before = read_checkpoint(pretext_models / "g.st").tensors
    model = read_checkpoint(pretext_models / "again")
    for name, array in before.items():
        assert np.array_equal(model.tensors[name], array)
    assert model.tensors["clusters.weight"].shape == (
        15,
        before["encoder.fc.bias"].size,
    )
    assert model.facts.architecture["heads"]["clusters"] == [5, 5, 5]
    assert model.facts.cluster_head is None and model.facts.round == 0


def test_a_pretext_model_without_clusters_is_refused_with_what_to_do(
    pretext_models, refused
):
    words = command(pretext_models, pretext_models, model=pretext_models / "g.st")
    refused(pretext_models, 65, (pretext_models / "g.st", "--from"), *words)
    words = ("init", *DIGITS, *WIDTHS, "--heads", 2, "-o", pretext_models / "x")
    refused(pretext_models, 2, ("--heads 2",), *words)
    words = ("init", *DIGITS, *CLUSTER, "--clusters", 1, "-o", pretext_models / "x")
    refused(pretext_models, 2, ("--clusters",), *words)


def test_a_model_without_a_projector_is_mined_by_h(pretext_models, tmp_path, refused):
    model = tmp_path / "bare"
    words = ("init", *DIGITS, "--width", 0.02, *CLUSTER, "-o", model)
    assert furlkit(*words) == 0
    words = command(pretext_models, tmp_path, model=model, client=0)
    refused(tmp_path, 65, (model, "--mine-layer h"), *words)
    assert furlkit(*words, "--mine-layer", "h") == 0
    near = (
        "neighbours",
        model,
        *DIGITS,
        "--partition",
        pretext_models / "p.st",
        "--part",
        0,
    )
    assert furlkit(*near, "--layer", "h", "-o", tmp_path / "n") == 0
    found = read_neighbours(tmp_path / "n")
    assert np.array_equal(kept(tmp_path)["neighbours.nearest"], found.nearest)


# --- neighbours -----------------------------------------------------------------------


def test_a_client_mines_its_own_images_once_and_keeps_what_it_found(
    pretext_models, first, run
):
    near = (
        "neighbours",
        pretext_models / "start",
        *DIGITS,
        "--partition",
        pretext_models / "p.st",
    )
    assert furlkit(*near, "--part", 1, "-o", first / "n1") == 0
    memory, found = kept(first, 1), read_neighbours(first / "n1")
    assert np.array_equal(memory["neighbours.nearest"], found.nearest)
    assert np.array_equal(memory["neighbours.index"], found.index)
    assert memory["neighbours.round"] == 1
    again = ("--private", first / "k{client}")
    told = run(*command(pretext_models, first.parent / "2", *again, model=first / "g"))
    assert told.code == 0 and "mined" not in told.err
    later = kept(first.parent / "2", 1)
    assert all(np.array_equal(later[name], memory[name]) for name in memory)


@pytest.mark.parametrize("every, mined", [(0, 1), (1, 2), (2, 1)])
def test_neighbours_are_mined_again_when_they_are_old(
    pretext_models, first, every, mined
):
    again = ("--private", first / "k{client}", "--mine-every", every)
    words = command(
        pretext_models, first.parent / "2", *again, model=first / "g", client=0
    )
    assert furlkit(*words) == 0
    later = kept(first.parent / "2")
    assert later["neighbours.round"] == mined
    same = np.array_equal(
        later["neighbours.nearest"], kept(first)["neighbours.nearest"]
    )
    assert same == (mined == 1)


def test_without_a_private_file_and_with_another_number_they_are_mined_again(
    pretext_models, first
):
    for more in ((), ("--private", first / "k{client}", "--nearest", 7)):
        words = command(
            pretext_models, first.parent / "2", *more, model=first / "g", client=0
        )
        assert furlkit(*words, "--force") == 0
        assert kept(first.parent / "2")["neighbours.round"] == 2
    assert kept(first.parent / "2")["neighbours.nearest"].shape[1] == 7


def test_a_file_of_neighbours_gives_the_same_tensors_as_mining(
    pretext_models, first, tmp_path
):
    near = (
        "neighbours",
        pretext_models / "start",
        *DIGITS,
        "--partition",
        pretext_models / "p.st",
    )
    for client in (0, 1):
        more = ("--part", client, "--nearest", 30, "-o", tmp_path / f"n{client}")
        assert furlkit(*near, *more) == 0
    given = ("--neighbours-from", tmp_path / "n{client}")
    assert furlkit(*command(pretext_models, tmp_path / "f", *given)) == 0
    for name in ("c0", "c1", "k0", "k1"):
        assert tensor_bytes(tmp_path / "f" / name) == tensor_bytes(first / name)
    inputs = read_checkpoint(tmp_path / "f" / "c1").header.inputs
    assert inputs["neighbours"] == read_neighbours(tmp_path / "n1").content


def test_neighbours_of_other_images_or_too_few_or_broken_are_refused(
    pretext_models, tmp_path, refused, forge
):
    near = (
        "neighbours",
        pretext_models / "start",
        *DIGITS,
        "--partition",
        pretext_models / "p.st",
    )
    for name, more in (
        ("other", ("--part", 1)),
        ("all", ()),
        ("few", ("--nearest", 3)),
    ):
        more = more if name != "few" else ("--part", 0, *more)
        assert furlkit(*near, *more, "-o", tmp_path / name) == 0
    words = command(pretext_models, tmp_path, client=0)
    for name, word in (
        ("other", "client 0"),
        ("all", "--part 0"),
        ("few", "--nearest"),
    ):
        path = tmp_path / name
        refused(tmp_path, 65, (path, word), *words, "--neighbours-from", path)
    wrong = read_neighbours(tmp_path / "few").nearest.copy()
    wrong[2, 1] = read_neighbours(tmp_path / "few").index[2]
    path = forge(tmp_path / "few", {"nearest": wrong})
    refused(tmp_path, 65, (path, "another image"), *words, "--neighbours-from", path)
    refused(tmp_path, 2, ("--mine-every",), *words[:5], *words[7:], "--mine-every", 3)


def test_a_site_is_not_told_of_a_partition_that_it_does_not_have(
    pretext_models, run, tmp_path
):
    near = (
        "neighbours",
        pretext_models / "start",
        *DIGITS,
        "--partition",
        pretext_models / "p.st",
    )
    assert furlkit(*near, "--part", 0, "-o", tmp_path / "n") == 0
    words = (
        "local-train",
        pretext_models / "start",
        *DIGITS,
        *CLUSTER,
        "--client",
        "st-mary",
    )
    done = run(*words, "--neighbours-from", tmp_path / "n", "-o", tmp_path / "c")
    assert (
        done.code == 65 and f"{tmp_path / 'n'}: lists neighbours for other" in done.err
    )
    assert "--data" in done.err and "--partition" not in done.err


@pytest.mark.parametrize("more", [("--mine-layer", "h"), ("--mine-every", 1)])
def test_nothing_is_mined_beside_a_file_of_neighbours(
    pretext_models, tmp_path, refused, more
):
    words = (*command(pretext_models, tmp_path, client=0), "--neighbours-from", "n")
    refused(tmp_path, 2, (more[0], "--neighbours-from"), *words, *more)


def test_neighbours_are_kept_for_some_rounds_in_a_private_file(
    pretext_models, tmp_path, refused
):
    given = (
        "local-train",
        pretext_models / "p.st",
        pretext_models / "start",
        *DIGITS,
        *CLUSTER,
    )
    words = (*given, "--client", 0, "--mine-every", 2, "-o", tmp_path / "c")
    refused(tmp_path, 2, ("--mine-every 2", "--private-out"), *words)


def test_a_client_with_fewer_images_than_neighbours_is_warned_of(
    pretext_models, run, tmp_path
):
    words = command(pretext_models, tmp_path, "--dry-run", client=0)
    assert "--nearest" not in run(*words).err
    done = run(*words, "--nearest", 5000)
    assert done.code == 0 and "--nearest 5000" in done.err and "client 0" in done.err


@pytest.mark.parametrize(
    "side, word", [(7, None), (8, "some"), (14, "some"), (15, "all"), (16, "all")]
)
def test_a_cutout_that_hides_whole_images_is_warned_of(
    pretext_models, run, tmp_path, side, word
):
    """Digits have 8 x 8 pixels, and the preset's square, for 32 x 32, has 16."""
    hidden = cutout_(torch.ones(64, 1, 8, 8), grid_of(8), side).sum((1, 2, 3)) == 0
    assert [word == "all", word is not None] == [bool(hidden.all()), bool(hidden.any())]
    train = command(pretext_models, tmp_path, "--dry-run", client=0)
    label = (
        "distill",
        pretext_models / "start",
        *DIGITS,
        "--teacher",
        "self",
        "--dry-run",
    )
    for words in (train, (*label, "-o", tmp_path / "out")):
        done = run(*words, "--cutout", side)
        assert done.code == 0
        assert (f"--cutout {side}: hides {word} images" in done.err) == (
            word is not None
        )


def grid_of(size):
    """The middles of all pixels, (size^2, 2)."""
    middles = (torch.arange(size) + 0.5) / size
    return torch.cartesian_prod(middles, middles)


@pytest.mark.parametrize("stage", ["evaluate", "distill"])
def test_a_model_that_does_not_tell_its_best_head_is_warned_of(
    first, run, forge, refused, tmp_path, stage
):
    """Its clients trained with --tell nothing."""
    words = {
        "evaluate": ("evaluate", "cluster", first / "g", *DIGITS),
        "distill": ("distill", first / "g", *DIGITS, "--teacher", "self", "--dry-run"),
    }[stage]
    words = (*words, "-o", tmp_path / "out")
    assert "lowest loss" not in run(*words).err
    forge(first / "g", {}, {"cluster_head": None})
    done = run(*words)
    assert done.code == 0 and f"{first / 'g'}: does not record which of 3" in done.err
    (tmp_path / "out").unlink(missing_ok=True)
    forge(first / "g", {}, {"cluster_head": 3})
    refused(tmp_path, 65, (first / "g", "head 3"), *words)


def test_kept_neighbours_that_are_broken_are_refused(
    pretext_models, first, refused, forge
):
    words = command(pretext_models, first.parent / "2", model=first / "g", client=0)
    given = (*words, "--private", first / "k0")
    forge(first / "k0", {"memory.neighbours.round": np.zeros(2, np.int64)})
    refused(first.parent, 65, (first / "k0", "round"), *given)
    forge(first / "k0", {"memory.neighbours.nearest": np.full((3, 2), 7)})
    refused(first.parent, 65, (first / "k0", "neighbours"), *given)


# --- what leaves, what stays, what is told --------------------------------------------


def test_uploads_hold_encoder_and_heads_and_nothing_of_the_images(
    pretext_models, first
):
    names = set(tensor_bytes(first / "c0"))
    assert names == set(read_checkpoint(pretext_models / "start").tensors)
    assert set(kept(first)) == {
        "neighbours.nearest", "neighbours.index", "neighbours.round",
    }  # fmt: skip
    header = json.dumps(read_checkpoint(first / "c0").header.facts)
    assert "index" not in header and "nearest" not in header
    # The projector has no part in the loss; all else is trained.
    before = read_checkpoint(pretext_models / "start").tensors
    moved = {k.split(".")[0] for k, v in read_checkpoint(first / "c0").tensors.items()
             if not np.array_equal(v, before[k])}  # fmt: skip
    assert moved == {"encoder", "clusters"}


def test_the_head_of_lowest_loss_is_recorded_and_the_server_chooses_by_the_mean(first):
    uploads = [read_checkpoint(first / f"c{k}").facts for k in (0, 1)]
    for client, facts in enumerate(uploads):
        last = epochs(first / f"c{client}")[-1]
        losses = [last["losses"][f"cluster.{k}"] for k in range(3)]
        assert facts.cluster_losses == losses
        assert facts.cluster_head == last["head"] == losses.index(min(losses))
        assert facts.loss == pytest.approx(sum(losses))
    n = np.array([facts.examples for facts in uploads])
    assert n[0] > n[1]
    expected = n / n.sum() @ np.array([facts.cluster_losses for facts in uploads])
    shared = read_checkpoint(first / "g").facts
    np.testing.assert_allclose(shared.cluster_losses, expected, rtol=1e-12)
    assert shared.cluster_head == int(expected.argmin())


def test_uploads_with_another_number_of_heads_are_not_averaged(first, forge, refused):
    forge(first / "c1", facts={"cluster_losses": [1.0, 2.0]})
    words = ("aggregate", first / "c0", first / "c1", "-o", first / "x")
    refused(first, 65, (first, "cluster losses"), *words)


def test_every_epoch_tells_of_occupancy_entropy_and_certainty(
    pretext_models, tmp_path, run
):
    words = command(pretext_models, tmp_path, client=0, plan=(2, 16))
    told = run(*words, "--json")
    assert told.code == 0
    lines = epochs(tmp_path / "c0")
    assert len(lines) == 2
    for line in lines:
        assert 1 / 5 <= line["largest_cluster"] <= 1 and 0 <= line["confident"] <= 1
        assert 1 <= line["used_clusters"] <= 5 and len(line["occupancy"]) == 5
        assert 0 <= line["cluster_entropy"] <= np.log(5) + 1e-6
        assert line["head"] in (0, 1, 2)
    assert "used clusters" in told.err
    data = json.loads(told.out)
    assert data["used_clusters"] == lines[-1]["used_clusters"]
    assert "measures" not in data and "measures" not in lines[0]


def test_a_collapsed_clustering_warns_once_and_says_what_helps(tmp_path, capsys):
    """Images that are all the same can only be in one cluster."""
    np.savez(tmp_path / "same.npz", images=np.full((64, 8, 8, 1), 99, np.uint8))
    data = ("--data", tmp_path / "same.npz")
    still = ("--crop-scale", "1,1", "--crop-ratio", "1,1", "--jitter-probability", 0)
    words = ("local-train", tmp_path / "p", tmp_path / "g", *data, *CLUSTER, *still)
    net = ("--width", 0.02, *CLUSTER, "--heads", 2, "-o", tmp_path / "g")
    assert furlkit("partition", *data, "--clients", 2, "-o", tmp_path / "p") == 0
    assert furlkit("init", *data, *net) == 0
    plan = ("--mine-layer", "h", "--epochs", 2, "--client", 0)
    assert furlkit(*words, *plan, "-o", tmp_path / "c") == 0
    said = capsys.readouterr().err
    assert said.count("the clustering has collapsed: 100% of the images") == 1
    assert "--entropy-weight" in said and "--batch-size" in said and "pretext" in said
    assert [line["largest_cluster"] for line in epochs(tmp_path / "c")] == [1, 1]


def test_no_label_is_read(pretext_models, first, tmp_path):
    packed = tmp_path / "packed.safetensors"
    assert furlkit("pack", "digits", "--no-labels", "-o", packed) == 0
    assert furlkit(*command(pretext_models, tmp_path, "--data", packed)) == 0
    for name in ("c0", "c1", "k0"):
        assert tensor_bytes(tmp_path / name) == tensor_bytes(first / name)


def test_killed_and_resumed_ends_with_the_same_bytes_and_the_same_head(
    pretext_models, tmp_path, monkeypatch
):
    """Killed in its first epoch, between two, and in its last; private file too."""

    def words(folder):
        plan = ("--save-every", 0, "--proximal", 0.1)
        return command(pretext_models, folder, *plan, client=0, plan=(3, 32))

    assert furlkit(*words(tmp_path / "a")) == 0
    steps, original = len(read_private(tmp_path / "a" / "k0", 0).memory[
        "neighbours.index"]) // 32, loop.Trainer.step  # fmt: skip
    for step in (2, steps - 2, steps + 1):
        done = iter(range(10**9))

        def dying(self, *given, step=step, done=done):
            if next(done) == step:
                raise Killed
            return original(self, *given)

        monkeypatch.setattr(loop.Trainer, "step", dying)
        with pytest.raises(Killed):
            furlkit(*words(tmp_path / "b"))
        monkeypatch.undo()
    assert furlkit(*words(tmp_path / "b")) == 0
    for name in ("c0", "k0"):
        assert digest(tmp_path / "a" / name) == digest(tmp_path / "b" / name)
    timed = {"time", "samples_per_second", "step_seconds", "input_share", "cpu_seconds"}
    told = [
        [{k: v for k, v in line.items() if k not in timed}
         for line in epochs(tmp_path / folder / "c0")]
        for folder in "ab"
    ]  # fmt: skip
    assert told[0] == told[1] and len(told[0]) == 3


def test_one_head_is_named_as_well(pretext_models, tmp_path):
    assert add_heads(pretext_models, "single") == 0
    assert (
        furlkit(
            *command(
                pretext_models, tmp_path, model=pretext_models / "single", client=0
            )
        )
        == 0
    )
    facts = read_checkpoint(tmp_path / "c0").facts
    assert facts.cluster_head == 0 and facts.cluster_losses == [facts.loss]
