"""pretrain-style: what a client's private file then holds, restarts, refusals."""

import json

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.partition import read_partition
from furlkit.files.private import read_private
from furlkit.stages.pretrain_style import work
from furlkit.training import loop
from tests.helpers import (
    NET,
    contents,
    epoch_losses,
    furlkit,
    progress_of,
    round_0,
    tensor_bytes,
)

FAST = ("--data", "digits", "--epochs", 2, "--batch-size", 96, "--projector", "8,4")


@pytest.fixture(scope="module")
def two_clients(tmp_path_factory):
    return round_0(tmp_path_factory.mktemp("two_clients"), ("--clients", 3), NET)


def command(two_clients, output, *more, client=0):
    words = [
        "pretrain-style",
        two_clients / "p.st",
        two_clients / "g.st",
        "--client",
        client,
    ]
    return [*words, *FAST, "-q", *more, "-o", output]


@pytest.fixture
def pretrain(two_clients, tmp_path):
    """Train the style model of a client into a file of the test's own."""

    def run(name, *more, client=0):
        assert (
            furlkit(*command(two_clients, tmp_path / name, *more, client=client)) == 0
        )
        return tmp_path / name

    return run


def test_without_normalisation_the_loss_is_that_of_z_itself(pretrain):
    unit, raw = pretrain("unit"), pretrain("raw", "--no-normalise")
    assert epoch_losses(unit)[0] != epoch_losses(raw)[0]
    options = [Container(path).header.options for path in (unit, raw)]
    assert "normalise" not in options[0] and options[1]["normalise"] is False


def test_the_private_file_has_a_style_model_of_the_content_model_s_encoder(
    two_clients, pretrain
):
    private = read_private(pretrain("k", client=1), 1)
    model = read_checkpoint(two_clients / "g.st")
    assert (private.facts.client, private.facts.round) == (1, 0)
    assert private.facts.parts == ["style.encoder", "style.projector"]
    shapes = {k: v.shape for k, v in private.tensors.items()}
    for name, array in model.tensors.items():
        if name.startswith("encoder."):
            assert shapes[f"style.{name}"] == array.shape
    assert shapes["style.projector.fc2.weight"] == (4, 8)
    header = Container(private.path).header
    assert header.stage == "pretrain-style" and header.options["temperature"] == 0.07
    assert header.inputs == {
        "global": model.content,
        "partition": read_partition(two_clients / "p.st").content,
    }


def test_it_learns_to_tell_the_styles_apart(pretrain):
    sgd = ("--optimiser", "sgd", "--lr", 0.05, "--epochs", 6)
    mean, printed = (
        [losses["style"] for losses in epoch_losses(pretrain(name, *sgd, *more))]
        for name, more in (("a", ()), ("b", ("--reduction", "paper", "--epochs", 1)))
    )
    # Below rows that are all the same; above 96 images in each of two far points.
    assert np.log(95) < mean[-1] < np.log(191) < mean[0]
    assert printed[0] > 20 * mean[0]


def test_images_are_seen_as_they_are_so_that_two_seeds_differ_in_order_and_start(
    pretrain,
):
    first, again, other = (
        tensor_bytes(pretrain(name, "--seed", seed))
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == again and first != other


def test_no_epochs_keep_a_model_of_the_client_s_own_draws(
    two_clients, pretrain, tmp_path
):
    untrained = ("--epochs", 0)
    first, same = (pretrain(name, *untrained) for name in "ab")
    assert first.read_bytes() == same.read_bytes()
    assert tensor_bytes(first) != tensor_bytes(pretrain("c", *untrained, client=1))
    private = read_private(first, 0).tensors
    assert private["style.encoder.bn1.num_batches_tracked"] == 0
    # Weights of its own, not those of the content model.
    content = read_checkpoint(two_clients / "g.st").tensors
    name = "encoder.conv1.weight"
    assert not np.array_equal(private[f"style.{name}"], content[name])
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c"}


def test_several_clients_are_the_same_as_one_at_a_time(two_clients, pretrain, tmp_path):
    together = command(two_clients, tmp_path / "k{client}", client="0-2")
    assert furlkit(*together) == 0
    alone = [pretrain(f"alone{client}", client=client) for client in range(3)]
    for client, path in enumerate(alone):
        assert path.read_bytes() == (tmp_path / f"k{client}").read_bytes()


def test_killed_and_started_again_it_ends_with_the_same_bytes(
    two_clients, pretrain, tmp_path, dies_at
):
    expected, output = pretrain("whole").read_bytes(), tmp_path / "parts"
    words = command(two_clients, output, "--save-every", 0)
    for moment in ((loop.Trainer, "step", 3), (work, "write_private")):
        with dies_at(*moment):
            furlkit(*words)
        assert progress_of(output).exists() and not output.exists()
    assert furlkit(*words) == 0
    assert output.read_bytes() == expected and not progress_of(output).exists()


def test_the_same_command_again_does_nothing_and_force_makes_it_again(
    two_clients, pretrain, tmp_path, run
):
    pretrain("k")
    before = contents(tmp_path)
    again = run(*command(two_clients, tmp_path / "k"))
    assert again.code == 0 and "already there" in again.out
    journal = (tmp_path / "k.log.jsonl").read_bytes()
    forced = run(*command(two_clients, tmp_path / "k", "--force", "--json"))
    found = json.loads(forced.out)
    assert found["client"] == 0 and found["examples"] == 480 and "losses" in found
    assert (tmp_path / "k.log.jsonl").read_bytes() != journal
    assert contents(tmp_path) == before


def test_a_dry_run_checks_and_writes_nothing(two_clients, tmp_path, run):
    done = run(*command(two_clients, tmp_path / "k{client}", "--dry-run", client="0-1"))
    assert done.code == 0 and done.err == "" and done.out.count("would write") == 2
    assert "480 images, 2 epochs" in done.out and list(tmp_path.iterdir()) == []


def test_two_styles_in_two_points_are_no_collapse(pretrain, capsys):
    pretrain("k", "--optimiser", "sgd", "--lr", 0.1, "--epochs", 8)
    assert capsys.readouterr().err == ""


def test_what_the_file_is(pretrain, run):
    found = json.loads(run("inspect", pretrain("k"), "--json").out)
    assert found["kind"] == "private" and "client 0" in found["summary"]
    assert "style.encoder" in found["summary"] and "must not" in found["summary"]


def test_no_stage_takes_it_for_an_upload(pretrain, tmp_path, refused):
    path = pretrain("k")
    words = ("aggregate", path, "-o", tmp_path / "g")
    refused(tmp_path, 65, (path, "private"), *words)


@pytest.mark.parametrize(
    "more, code, word",
    [
        (("--client", 3), 2, "--client 3"),
        (("--client", "0-1"), 2, "pattern"),
        (("--epochs", -1), 2, "--epochs"),
        (("--temperature", 0), 2, "--temperature"),
        (("--reduction", "sum"), 2, "--reduction"),
        (("--projector", "0"), 2, "--projector"),
        (("--data", "nowhere.npz"), 65, "nowhere.npz"),
    ],
)
def test_what_makes_no_sense_is_refused(
    two_clients, tmp_path, refused, more, code, word
):
    for dry in ((), ("--dry-run",)):
        words = command(two_clients, tmp_path / "k", *more, *dry)
        refused(tmp_path, code, (word,), *words)


def test_a_client_s_model_and_images_of_another_dataset_are_refused(
    two_clients, tmp_path, refused
):
    pixels = np.zeros((40, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "other.npz", images=pixels)
    words = command(two_clients, tmp_path / "k", "--data", tmp_path / "other.npz")
    refused(tmp_path, 65, (two_clients / "p.st", "another dataset"), *words)
    train = (
        "local-train",
        two_clients / "p.st",
        two_clients / "g.st",
        "--data",
        "digits",
    )
    more = ("--client", 0, "--epochs", 1, "--batch-size", 240, "-o", tmp_path / "c")
    assert furlkit(*train, *more) == 0
    words = command(two_clients, tmp_path / "k")
    words[2] = tmp_path / "c"
    refused(tmp_path, 65, (tmp_path / "c", "role client"), *words)


def test_an_output_that_is_an_input_is_refused(two_clients, tmp_path, refused):
    words = command(two_clients, two_clients / "g.st")
    refused(tmp_path, 2, (f"-o {two_clients / 'g.st'}",), *words)
