"""init --from: weights of furlkit's exports and of other programs."""

import shlex
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from furlkit.files.checkpoint import read_checkpoint
from tests.helpers import digest, furlkit


def shape(size, channels):
    return ("--image-size", size, "--channels", channels, "--projector", "8,4")


@pytest.fixture
def taken(tmp_path, capsys):
    """Start a model from weights; gives the exit code, its tensors, and what was said."""

    def run(source, *words):
        path = tmp_path / "new.st"
        code = furlkit("init", *words, "--from", source, "-o", path)
        tensors = read_checkpoint(path).tensors if code == 0 else {}
        assert path.exists() == (code == 0)
        return code, tensors, capsys.readouterr().err

    return run


@pytest.fixture
def vit(tmp_path):
    """timm's test_vit for 160 x 160 x 3 with its classifier, as another program has it."""
    timm = pytest.importorskip("timm")
    path, net = tmp_path / "vit.safetensors", timm.create_model("test_vit")
    save_file(net.state_dict(), path)
    return path, net


def test_timm_s_weights_are_adapted_to_size_and_channels(vit, taken):
    path, net = vit
    code, tensors, err = taken(path, "--encoder", "timm:test_vit", *shape(32, 1))
    assert code == 0
    for word in ("from 3 to 1 channels", "from 10 x 10 to 2 x 2 positions"):
        assert word in err
    assert err.count("warning") == 1 and "left out: head.bias, head.weight" in err
    for name, tensor in net.state_dict().items():
        own = tensors.get(f"encoder.{name}")
        if own is not None and own.shape == tensor.shape:
            assert np.array_equal(own, tensor.numpy())
    summed = net.patch_embed.proj.weight.detach().sum(1, keepdim=True).numpy()
    np.testing.assert_allclose(
        tensors["encoder.patch_embed.proj.weight"], summed, atol=1e-6
    )
    assert read_checkpoint(path.with_name("new.st")).header.inputs == {
        "source": digest(path)
    }


def test_weights_that_fit_are_copied_without_a_warning(vit, taken):
    path, net = vit
    code, tensors, err = taken(path, "--encoder", "timm:test_vit", *shape(160, 3))
    assert code == 0 and "warning" not in err
    own = {k: v for k, v in tensors.items() if k.startswith("encoder.")}
    assert len(own) == len(net.state_dict()) - 2
    assert all(
        np.array_equal(v, net.state_dict()[k.removeprefix("encoder.")])
        for k, v in own.items()
    )


MEAN, STD = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)


def test_mean_and_std_are_those_of_the_weights_unless_given(tmp_path, taken):
    """A checkpoint's, an export's by its file, and timm's config.json beside the weights."""
    net = ("--width", 0.05, *shape(16, 3))
    first, folder, plain = (tmp_path / name for name in ("first", "export", "plain"))
    known = ("--mean", "0.1,0.2,0.3", "--std", "0.4,0.5,0.6")
    assert furlkit("init", *net, *known, "-o", first) == 0
    assert furlkit("export", first, "-o", folder) == 0
    plain.mkdir()
    weights = load_file(folder / "model.safetensors")
    save_file(weights, plain / "model.safetensors")
    (plain / "config.json").write_text((folder / "config.json").read_text())
    for source in (first, folder / "model.safetensors", plain):
        code, _, err = taken(source, *net, "--force")
        facts = read_checkpoint(tmp_path / "new.st").facts
        assert code == 0 and "copied encoder" in err and "mean and std" in err
        assert (tuple(facts.mean), tuple(facts.std)) == (MEAN, STD)
    _, _, err = taken(plain, *net, "--std", "1,1,1", "--force")
    facts = read_checkpoint(tmp_path / "new.st").facts
    assert (tuple(facts.mean), facts.std) == (MEAN, [1, 1, 1])
    assert "mean and std" not in err


@pytest.mark.parametrize(
    "config",
    [
        "[]",
        "{}",
        '{"pretrained_cfg": 3}',
        '{"pretrained_cfg": {"mean": [0.5], "std": [0.5]}}',
        '{"pretrained_cfg": {"mean": [0, 0, "x"], "std": [1, 1, 1]}}',
        '{"pretrained_cfg": {"mean": [0, 0, 0], "std": [1, 1, 0]}}',
        '{"pretrained_cfg": {"mean": [0, 0], "std": [1, 1, 1]}}',
    ],
)
def test_a_config_without_a_mean_and_std_for_the_model_says_nothing(
    tmp_path, taken, config
):
    net, weights = ("--width", 0.05, *shape(16, 3)), tmp_path / "model.safetensors"
    assert furlkit("init", *net, "-o", tmp_path / "first") == 0
    tensors = read_checkpoint(tmp_path / "first").tensors.items()
    named = {k[8:]: torch.tensor(v) for k, v in tensors if k.startswith("encoder.")}
    save_file(named, weights)
    weights.with_name("config.json").write_text(config)
    code, _, err = taken(weights, *net)
    assert code == 0 and "mean and std" not in err, err
    facts = read_checkpoint(tmp_path / "new.st").facts
    assert facts.mean == [0.485, 0.456, 0.406]


def test_half_precision_is_widened_with_one_warning(vit, taken):
    path, net = vit
    save_file(net.half().state_dict(), path)
    code, tensors, err = taken(path, "--encoder", "timm:test_vit", *shape(160, 3))
    assert code == 0 and err.count("float16 to float32") == 1
    assert tensors["encoder.pos_embed"].dtype == np.float32


def test_torchvision_s_weights_fit_a_small_stem(tmp_path, taken):
    from torchvision import models

    net, path = models.resnet18(num_classes=3), tmp_path / "tv.safetensors"
    state = net.state_dict()
    # Files of old versions have no counts of batches.
    save_file({k: v for k, v in state.items() if "tracked" not in k}, path)
    code, tensors, err = taken(path, "--encoder", "resnet18", *shape(16, 3))
    assert code == 0 and "conv1.weight from 7 x 7 to 3 x 3" in err
    assert "left out: fc.bias, fc.weight" in err and "--stem" in err
    name = "layer4.1.conv2.weight"
    assert np.array_equal(tensors[f"encoder.{name}"], state[name])


@pytest.mark.parametrize(
    "encoder", ["timm:test_resnet", "torchvision:squeezenet1_1", "cnn5"]
)
def test_an_export_is_a_source_by_its_folder_and_its_file(tmp_path, taken, encoder):
    first, folder = tmp_path / "first.st", tmp_path / "encoder"
    net = ("--encoder", encoder, *(("--width", 0.05) if encoder == "cnn5" else ()))
    assert furlkit("init", *net, *shape(32, 3), "--seed", 5, "-o", first) == 0
    assert furlkit("export", first, "-o", folder) == 0
    before = read_checkpoint(first).tensors
    for source in (folder, folder / "model.safetensors"):
        code, tensors, _ = taken(source, *net, *shape(32, 3), "--force")
        assert code == 0
        for name, array in tensors.items():
            same = np.array_equal(array, before[name])
            assert same or name.startswith("projector.fc")


def test_a_checkpoint_for_grey_images_of_another_size_is_adapted(tmp_path, taken):
    first = tmp_path / "first.st"
    net = ("--encoder", "timm:test_vit")
    assert furlkit("init", *net, *shape(32, 3), "-o", first) == 0
    code, tensors, err = taken(first, *net, *shape(48, 1))
    assert code == 0 and "from 2 x 2 to 3 x 3 positions" in err
    before = read_checkpoint(first).tensors["projector.fc2.weight"]
    assert np.array_equal(tensors["projector.fc2.weight"], before)


def test_another_network_is_refused_with_what_it_lacks_or_has(vit, taken):
    path, net = vit
    code, _, err = taken(path, "--encoder", "timm:test_resnet", *shape(32, 3))
    assert code == 65 and str(path) in err and "lacks" in err
    # A deeper network has all that this one has, and more.
    block = net.blocks[0].state_dict()
    deeper = {f"blocks.9.{name}": tensor.clone() for name, tensor in block.items()}
    save_file({**net.state_dict(), **deeper}, path)
    code, _, err = taken(path, "--encoder", "timm:test_vit", *shape(160, 3))
    assert code == 65 and "blocks.9." in err and "timm:test_vit lacks" in err


def test_a_tensor_that_cannot_be_adapted_is_refused(vit, taken):
    path, net = vit
    save_file({**net.state_dict(), "norm.weight": torch.ones(65)}, path)
    code, _, err = taken(path, "--encoder", "timm:test_vit", *shape(160, 3))
    assert code == 65 and "norm.weight" in err and "(65,)" in err


def test_weights_that_are_not_finite_are_refused(vit, taken):
    path, net = vit
    bad = torch.full_like(net.norm.weight, torch.nan)
    save_file({**net.state_dict(), "norm.weight": bad}, path)
    code, _, err = taken(path, "--encoder", "timm:test_vit", *shape(160, 3))
    assert code == 65 and "norm.weight has 64 values that are NaN" in err


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("conv1.weight", 1e38, ("1e+38", "1e+12")),
        ("conv1.weight", -1e38, ("-1e+38", "1e+12")),
        ("bn1.running_var", -0.5, ("-0.5", "variance")),
    ],
)
def test_weights_that_no_training_gives_are_refused(
    tmp_path, refused, name, value, words
):
    from torchvision.models import resnet18

    tensors = resnet18().state_dict()
    tensors[name].view(-1)[3] = value
    save_file(tensors, tmp_path / "r.safetensors")
    known = (tmp_path / "r.safetensors", f"encoder.{name}", *words, "another --from")
    net = ("--encoder", "resnet18", *shape(32, 3))
    output = ("--from", tmp_path / "r.safetensors", "-o", tmp_path / "new.st")
    refused(tmp_path, 65, known, "init", *net, *output)


def test_a_folder_without_weights_and_a_partition_are_refused(tmp_path, taken):
    code, _, err = taken(tmp_path, *shape(8, 1))
    assert code == 65 and "without model.safetensors" in err
    assert furlkit("partition", "--data", "digits", "-o", tmp_path / "p.st") == 0
    code, _, err = taken(tmp_path / "p.st", *shape(8, 1))
    assert code == 65 and "is a partition file" in err


class Trap:
    """Unpickling it would fail the test."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_is_never_opened_and_the_commands_convert_it(
    vit, tmp_path, taken, monkeypatch, legacy
):
    net, path = vit[1], tmp_path / "it's.pth"
    new = {"_use_new_zipfile_serialization": not legacy}
    words = ("--encoder", "timm:test_vit", *shape(160, 3))
    torch.save({"state_dict": net.state_dict(), "trap": Trap()}, path, **new)
    code, _, err = taken(path, *words)
    assert code == 65 and "never unpickles" in err
    torch.save({"state_dict": net.state_dict(), "epoch": 3}, path, **new)
    _, _, err = taken(path, *words)
    convert = shlex.split(err[err.index("python -c") : err.index("&& furlkit init")])
    python, flag, code, source, target = convert
    assert (python, flag, source) == ("python", "-c", str(path))
    monkeypatch.setattr(sys, "argv", ["-c", source, target])
    exec(code, {})
    assert shlex.split(err[err.index("furlkit init") :])[3] == target
    code, tensors, _ = taken(target, *words)
    assert code == 0
    assert np.array_equal(tensors["encoder.norm.weight"], net.norm.weight.detach())
