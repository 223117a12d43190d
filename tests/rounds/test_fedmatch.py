"""FedMatch with labels at the server: sigma and psi through two rounds."""

import shutil

import numpy as np
import pytest

from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.reports.ledger import read_ledger
from furlkit.training import loop
from furlkit.weights import below, is_batchnorm_statistic
from tests.helpers import epochs, furlkit, tensor_bytes

DIGITS = ("--data", "digits")
PRESET = ("--preset", "fedmatch")
NUMBERS = (0, 1, 2)
FAST = ("--batch-size", 240, "-q")


def named(folder, number, what):
    return folder / f"r{number}" / f"{what}.safetensors"


def uploads(folder, number):
    return [named(folder, number, f"client_{k}") for k in NUMBERS]


def train_words(folder, number, clients, output, *more, data=DIGITS):
    given = (folder / "p.safetensors", named(folder, number - 1, "global"))
    words = ("local-train", *given, *data, *PRESET, *FAST, "--client", clients)
    # Without much training nobody is sure of much.
    return [*words, "--confidence", 0.2, *more, "-o", output]


def label_words(folder, start, output, *more, data=DIGITS, partition=None):
    part = ("--partition", partition or folder / "p.safetensors", "--part", "public")
    words = ("distill", start, *data, *part, *PRESET, "--batch-size", 20, "-q")
    return [*words, *more, "-o", output]


def helped(files):
    return [word for path in files for word in ("--helper", path)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two rounds; in the second, clients are helped by those of the first."""
    folder = tmp_path_factory.mktemp("fedmatch")
    split = ("--clients", 3, "--public-fraction", 0.042, "-o", folder / "p.safetensors")
    net = ("--width", 0.05, "-o", named(folder, 0, "start"))
    assert furlkit("partition", *DIGITS, *PRESET, *split) == 0
    assert furlkit("init", *DIGITS, *PRESET, *net) == 0
    start = named(folder, 0, "start")
    assert furlkit(*label_words(folder, start, named(folder, 0, "global"))) == 0
    for number in (1, 2):
        more = helped(uploads(folder, 1)) if number == 2 else ()
        out = named(folder, number, "client_{client}")
        assert furlkit(*train_words(folder, number, "0-2", out, *more)) == 0
        mean = named(folder, number, "mean")
        assert furlkit("aggregate", *uploads(folder, number), *PRESET, "-o", mean) == 0
        out = named(folder, number, "global")
        assert furlkit(*label_words(folder, mean, out)) == 0
    return folder


def divided(path):
    """theta's weights, sigma and psi of a file."""
    tensors = read_checkpoint(path).tensors
    sigma = below("sigma.", tensors)
    theta = {name: tensors[name] for name in sigma}
    return theta, sigma, {name: theta[name] - sigma[name] for name in sigma}


def close(one, other, tolerance=1e-6):
    return one.keys() == other.keys() and all(
        np.allclose(one[name], other[name], atol=tolerance) for name in one
    )


def test_a_client_moves_psi_and_leaves_sigma(whole):
    """In round 1 psi was a fifth of sigma; in round 2 it is that of the mean."""
    for number in (1, 2):
        start = read_checkpoint(named(whole, number - 1, "global")).tensors
        for path in uploads(whole, number):
            _, sigma, psi = divided(path)
            before = below("sigma.", start)
            if number == 1:
                before = {name: start[name] / 1.2 for name in sigma}
            assert close(sigma, before)
            psi_before = {name: start[name] - before[name] for name in sigma}
            assert not close(psi, psi_before)
            names = {k for k in start if not k.startswith("sigma.")}
            assert {k for k in names if not is_batchnorm_statistic(k)} == sigma.keys()


def test_the_mean_is_sigma_and_the_mean_psi(whole):
    sizes = [Container(p).header.facts["examples"] for p in uploads(whole, 2)]
    parts = [divided(path) for path in uploads(whole, 2)]
    theta, sigma, psi = divided(named(whole, 2, "mean"))
    # Not a bit of sigma is lost on the way.
    assert all(sigma[k].tobytes() == parts[0][1][k].tobytes() for k in sigma)
    for name in psi:
        mean = sum(n * p[2][name] for n, p in zip(sizes, parts, strict=True)) / sum(sizes)  # fmt: skip
        assert np.allclose(psi[name], mean, atol=1e-6)
        assert np.allclose(theta[name], sigma[name] + psi[name], atol=1e-6)


def test_the_server_moves_sigma_and_leaves_psi(whole):
    for number in (1, 2):
        before, after = (
            divided(named(whole, number, name)) for name in ("mean", "global")
        )
        assert close(before[2], after[2]) and not close(before[1], after[1])
        assert close(after[0], {k: after[1][k] + after[2][k] for k in after[1]})


def test_helpers_need_the_signatures_of_their_clients(
    whole, tmp_path, run, refused, keys, allowed
):
    """GLOBAL is the server's; a helper is another client's upload."""
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    helpers, model = uploads(folder, 1)[:2], named(folder, 1, "global")
    words = train_words(folder, 2, "2", folder / "u", *helped(helpers), "--dry-run")
    words += ["--signers", allowed("server", "0", "1")]
    for path, key in ((model, "server"), (helpers[0], "0")):
        assert furlkit("sign", path, "--key", keys(key)) == 0
    refused(folder, 65, [helpers[1], "no signature of client 1"], *words)
    assert furlkit("sign", helpers[1], "--key", keys("server")) == 0
    refused(folder, 65, [helpers[1], "no valid signature of client 1"], *words)
    assert furlkit("sign", helpers[1], "--key", keys("1")) == 0
    done = run(*words)
    assert done.code == 0, done.err
    other = folder / "other"
    shutil.copy(model, other)
    assert furlkit("sign", other, "--key", keys("server")) == 0
    refused(folder, 65, [other, "names no client"], *words, *helped([other]))


def test_the_first_model_is_not_divided_and_its_labels_are_learnt(whole):
    start, taught = (Container(named(whole, 0, n)) for n in ("start", "global"))
    assert {e.name for e in start.entries} == {e.name for e in taught.entries}
    header = taught.header
    expected = {"teacher": "labels", "label-weight": 10.0, "part": "public"}
    assert expected.items() <= header.options.items()
    assert header.inputs.keys() == {"start", "partition"}
    assert header.facts["round"] == 0 and header.facts["examples"] == 60


def test_two_others_help_each_client(whole):
    for k, path in enumerate(uploads(whole, 2)):
        roles = {r for r in Container(path).header.inputs if r.startswith("helper")}
        assert roles == {f"helper {other}" for other in NUMBERS if other != k}
        losses = epochs(path)[-1]["losses"]
        assert losses.keys() == {"agreement", "consistency", "l1", "l2"}
        assert 0 < epochs(path)[-1]["confident"] <= 1
    first = epochs(uploads(whole, 1)[0])[-1]["losses"]
    assert first.keys() == {"agreement", "l1", "l2"}


def test_a_helper_is_a_client_s_psi_with_the_server_s_new_sigma(whole):
    import torch

    from furlkit.exchanges.helpers import helper_net

    upload, model = (
        read_checkpoint(path) for path in (uploads(whole, 1)[1], named(whole, 1, "global"))
    )  # fmt: skip
    net = helper_net(upload, model, torch.device("cpu"))
    _, sigma, _ = divided(named(whole, 1, "global"))
    psi = divided(uploads(whole, 1)[1])[2]
    for name, weight in net.named_parameters():
        assert np.allclose(weight.numpy(), sigma[name] + psi[name], atol=1e-6)
    assert not any(p.requires_grad for p in net.parameters()) and not net.training


def test_fewer_helpers_are_the_nearest_and_the_order_of_files_does_not_matter(
    whole, tmp_path
):
    files, found = uploads(whole, 1), []
    for order in (files, files[::-1]):
        out = tmp_path / f"c{len(found)}"
        more = ("--helpers", 1, *helped(order))
        assert furlkit(*train_words(whole, 2, 0, out, *more)) == 0
        found.append(Container(out).header.inputs)
    assert found[0] == found[1]
    assert len([role for role in found[0] if role.startswith("helper")]) == 1
    assert (tmp_path / "c0").read_bytes() == (tmp_path / "c1").read_bytes()


def test_only_those_who_help_count(whole, tmp_path):
    """Without its own upload client 0 asks with the global model; both others help."""
    more = helped(uploads(whole, 1)[1:])
    assert furlkit(*train_words(whole, 2, 0, tmp_path / "c", *more)) == 0
    assert tensor_bytes(tmp_path / "c") == tensor_bytes(uploads(whole, 2)[0])
    alone = helped(uploads(whole, 1)[:1])
    assert furlkit(*train_words(whole, 2, 0, tmp_path / "alone", *alone)) == 0
    assert "consistency" not in epochs(tmp_path / "alone")[-1]["losses"]


def test_clients_read_no_label(whole, tmp_path):
    data = tmp_path / "bare.safetensors"
    assert furlkit("pack", "digits", "--no-labels", "-o", data) == 0
    more = helped(uploads(whole, 1))
    words = train_words(whole, 2, 1, tmp_path / "c", *more, data=("--data", data))
    assert furlkit(*words) == 0
    assert tensor_bytes(tmp_path / "c") == tensor_bytes(uploads(whole, 2)[1])


def test_the_server_reads_the_labels_of_public_images_alone(whole, tmp_path):
    """Other labels of the clients' images change nothing; of public ones they do."""
    given = Source("digits").images()
    public = np.isin(np.arange(len(given.images)), _public(whole))
    for name, wrong in (("clients", ~public), ("public", public)):
        labels = np.where(wrong, (given.labels + 1) % 10, given.labels)
        data, part = tmp_path / f"{name}.npz", tmp_path / f"{name}.safetensors"
        np.savez(data, images=given.images, labels=labels)
        split = ("--clients", 3, "--public-fraction", 0.042, "-o", part)
        assert furlkit("partition", "--data", data, *PRESET, *split) == 0
        out = tmp_path / name
        words = label_words(
            whole, named(whole, 0, "start"), out, data=("--data", data), partition=part
        )
        assert furlkit(*words) == 0
    expected = tensor_bytes(named(whole, 0, "global"))
    assert tensor_bytes(tmp_path / "clients") == expected
    assert tensor_bytes(tmp_path / "public") != expected


def _public(folder):
    from furlkit.files.partition import read_partition

    return read_partition(folder / "p.safetensors").public


def test_what_helps_was_received(whole):
    moved = read_ledger([whole]).transfers
    roles = {(t.round, t.role) for t in moved if t.direction == "received"}
    assert roles == {
        (1, "global"),
        (2, "global"),
        *((2, f"helper {k}") for k in NUMBERS),
    }


@pytest.mark.parametrize("how", [(), ("--precision", "float16")])
def test_killed_before_any_step_it_ends_with_the_same_bytes(
    whole, tmp_path, until_done, how
):
    more = (*helped(uploads(whole, 1)), "--save-every", 0, "--epochs", 2)
    more = (*more, *how, "--private-out", tmp_path / "private")
    assert furlkit(*train_words(whole, 2, 1, tmp_path / "whole", *more)) == 0
    kept = (tmp_path / "private").read_bytes()
    words = train_words(whole, 2, 1, tmp_path / "parts", *more)
    assert until_done(loop.Trainer, "step", *words) >= 2
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert (tmp_path / "private").read_bytes() == kept
    one, other = (epochs(tmp_path / k)[-1] for k in ("whole", "parts"))
    assert (one["losses"], one["confident"]) == (other["losses"], other["confident"])


def test_the_server_killed_before_any_step(whole, tmp_path, until_done):
    out = tmp_path / "g.safetensors"
    words = label_words(whole, named(whole, 2, "mean"), out, "--save-every", 0)
    assert until_done(loop.Trainer, "step", *words) >= 2
    assert out.read_bytes() == named(whole, 2, "global").read_bytes()


@pytest.mark.parametrize(
    "number, files, key",
    [
        (1, ("r1/client_1",), "has no sigma"),
        (2, ("r2/client_1",), "round 2"),
        (2, ("r1/global",), "not a client's"),
        (2, ("r1/client_1", "other"), "both of client 1"),
        (2, ("bare",), "shapes of sigma"),
    ],
)
def test_what_cannot_help_is_refused(
    whole, refused, forge, tmp_path, number, files, key
):
    upload = uploads(whole, 1)[1]
    for name in ("other", "bare"):
        (whole / f"{name}.safetensors").write_bytes(upload.read_bytes())
    forge(whole / "other.safetensors", facts={"loss": 1.5})
    names = [
        name for name in read_checkpoint(upload).tensors if name.startswith("sigma.")
    ]
    parts = {"parts": ["classifier", "encoder"]}
    forge(whole / "bare.safetensors", dict.fromkeys(names), parts)
    more = helped(whole / f"{name}.safetensors" for name in files)
    words = train_words(whole, number, 0, tmp_path / "c", *more)
    refused(tmp_path, 65, (key,), *words)
    for name in ("other", "bare"):
        (whole / f"{name}.safetensors").unlink()


def test_other_objectives_have_no_helpers(whole, refused, tmp_path):
    given = (whole / "p.safetensors", named(whole, 0, "start"), *DIGITS)
    words = ("local-train", *given, "--objective", "supervised", "--client", 0)
    more = ("--helper", uploads(whole, 1)[1], "-o", tmp_path / "c")
    refused(tmp_path, 2, ("--helper",), *words, *more)


def test_a_helper_is_not_written_over(whole, refused, tmp_path):
    path = uploads(whole, 1)[1]
    words = train_words(whole, 2, 0, path, "--helper", path)
    refused(tmp_path, 2, (path, "exists"), *words)


def test_labels_must_be_there_and_a_classifier_too(whole, refused, tmp_path):
    data = tmp_path / "bare.safetensors"
    assert furlkit("pack", "digits", "--no-labels", "-o", data) == 0
    start, out = named(whole, 0, "start"), tmp_path / "out"
    words = ("distill", start, "--teacher", "labels", "--data", data, "-o", out)
    refused(tmp_path, 65, (data, "no labels"), *words)
    bare = tmp_path / "z"
    assert furlkit("init", *DIGITS, "--width", 0.05, "-o", bare) == 0
    words = ("distill", bare, "--teacher", "labels", *DIGITS, "-o", out)
    refused(tmp_path, 65, (bare, "classifier"), *words)


def test_a_recipe_of_it_is_planned_and_every_command_fits(run, tmp_path):
    recipe = tmp_path / "fedmatch.toml"
    recipe.write_text(
        '[settings]\npreset = "fedmatch"\nclients = 3\nrounds = 2\n'
        '[files]\nglobal = "r{round}/global"\nmean = "r{round}/mean"\n'
        'upload = "r{round}/client_{client}"\n[stages]\n'
        'partition = "partition --data digits --clients {clients} -o {partition}"\n'
        'init = "init --data digits -o {mean@0}"\n'
        'train = "local-train {partition} {global@last} --data digits --client {client}'
        ' [--helper={upload@last*}] -o {upload}"\n'
        'mean = "aggregate {upload*} -o {mean}"\n'
        'labels = "distill {mean} --data digits --partition {partition} --part public'
        ' -o {global}"\n'
    )
    done = run("plan", recipe, "--as", "sh")
    assert done.code == 0, done.err
    # The server learns in round 0 too, before any client.
    assert done.out.count("--helper=") == 3 * 3 and done.out.count(" distill ") == 3
