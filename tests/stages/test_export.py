import importlib
import json

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torchvision import models

from furlkit.data.sets.decode import decode_file, fitted
from furlkit.files.checkpoint import read_checkpoint
from furlkit.models.loading import load_net
from tests.helpers import furlkit, photographs, round_0


@pytest.fixture
def export(tmp_path):
    """Make a model and export its encoder; returns folder, images and their features."""

    def run(size, channels, *net):
        path, folder = tmp_path / "g.st", tmp_path / "encoder"
        shape = ("--image-size", size, "--channels", channels)
        assert furlkit("init", *net, *shape, "-o", path) == 0
        assert furlkit("export", path, "-o", folder) == 0
        encoder = load_net(read_checkpoint(path), torch.device("cpu")).encoder.eval()
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(2, channels, size, size, generator=generator)
        with torch.no_grad():
            return folder, x, encoder(x)

    return run


@pytest.fixture
def standard(export):
    return export(64, 3, "--encoder", "resnet18", "--stem", "standard")


@torch.no_grad()
def test_torchvision_loads_it_and_lacks_only_the_classifier(standard):
    folder, x, expected = standard
    net = models.resnet18()
    found = net.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    assert set(found.missing_keys) == {"fc.weight", "fc.bias"}
    assert found.unexpected_keys == []
    net.fc = torch.nn.Identity()
    assert torch.equal(net.eval()(x), expected)


@torch.no_grad()
def test_timm_loads_it_by_its_path(standard):
    timm = pytest.importorskip("timm")
    folder, x, expected = standard
    path = str(folder / "model.safetensors")
    net = timm.create_model("resnet18", num_classes=0, checkpoint_path=path)
    torch.testing.assert_close(net.eval()(x), expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(
    "size, channels, net",
    [
        (64, 1, ("--encoder", "resnet18")),  # its stem is torchvision's
        (16, 1, ("--encoder", "resnet18")),  # small
        (8, 1, ("--width", 0.02)),
        (32, 1, ("--encoder", "timm:test_vit")),
        (16, 3, ("--encoder", "timm:test_resnet")),
        (32, 1, ("--encoder", "torchvision:resnet18")),
    ],
)
def test_timm_loads_the_folder(export, size, channels, net):
    timm = pytest.importorskip("timm")
    importlib.import_module("furlkit.models.timm")
    folder, x, expected = export(size, channels, *net)
    found = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    torch.testing.assert_close(found(x), expected, rtol=1e-5, atol=1e-5)
    assert [*found.pretrained_cfg["input_size"]] == [channels, size, size]


FINETUNED = {
    "ResNet-18": (64, 3, ("--encoder", "resnet18")),
    "ResNet-18 of a small stem": (16, 1, ("--encoder", "resnet18")),
    "ResNet-18 of torchvision": (32, 1, ("--encoder", "torchvision:resnet18")),
    "cnn5": (8, 1, ("--width", 0.02)),
    "ViT": (32, 1, ("--encoder", "timm:test_vit")),
}
finetuned = pytest.mark.parametrize("size, channels, net", FINETUNED.values(),
                                    ids=FINETUNED)  # fmt: skip


def first_gradient(net, scores):
    """How far the first layer would move to raise the first class."""
    scores[:, 0].sum().backward()
    return next(net.parameters()).grad.abs().sum()


@finetuned
def test_timm_finetunes_it_for_classes(export, size, channels, net):
    timm = pytest.importorskip("timm", reason="timm is not installed")
    importlib.import_module("furlkit.models.timm")
    folder, x, h = export(size, channels, *net)
    name = f"local-dir:{folder}"
    found = timm.create_model(name, pretrained=True, num_classes=4).eval()
    expected = found.get_classifier()(h)
    assert expected.shape == (2, 4)
    torch.testing.assert_close(found(x), expected, rtol=1e-5, atol=1e-5)
    assert first_gradient(found, found(x)) > 0
    found.reset_classifier(0)
    torch.testing.assert_close(found(x), h, rtol=1e-5, atol=1e-5)


@finetuned
def test_timm_adapts_it_to_other_channels(export, size, channels, net):
    timm = pytest.importorskip("timm", reason="timm is not installed")
    importlib.import_module("furlkit.models.timm")
    folder, x, _ = export(size, channels, *net)
    options = {"num_classes": 4, "in_chans": 4 - channels}
    found = timm.create_model(f"local-dir:{folder}", pretrained=True, **options).eval()
    assert found(x[:, :1].repeat(1, 4 - channels, 1, 1)).shape == (2, 4)


@finetuned
def test_torch_finetunes_it_for_classes(export, monkeypatch, size, channels, net):
    folder, x, h = export(size, channels, *net)
    config = json.loads((folder / "config.json").read_text())
    monkeypatch.chdir(folder)
    names = {}
    exec("\n".join(config["how_to_load"]), names)
    head = torch.nn.Linear(config["num_features"], 4)
    found = torch.nn.Sequential(names["net"], head)
    torch.testing.assert_close(found(x), head(h))
    assert first_gradient(found, found(x)) > 0


@finetuned
def test_transformers_finetunes_it_for_classes(export, size, channels, net):
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed, and too large to require"
    )
    importlib.import_module("furlkit.models.timm")
    folder, x, h = export(size, channels, *net)
    auto = transformers.AutoModelForImageClassification
    found = auto.from_pretrained(folder, num_labels=4).eval()
    expected = found.timm_model.get_classifier()(h)
    torch.testing.assert_close(found(x).logits, expected, rtol=1e-5, atol=1e-5)
    assert first_gradient(found, found(x).logits) > 0
    plain = transformers.AutoModel.from_pretrained(folder).eval()
    torch.testing.assert_close(plain(x).pooler_output, h, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_transformers_prepares_images_like_furlkit(export, tmp_path, channels):
    """Images of any shape: the shorter side is resized and the centre is cropped."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed, and too large to require"
    )
    folder, _, _ = export(16, channels, "--encoder", "resnet18")
    path = photographs(tmp_path / "photographs", 0, 1) / "0.jpg"
    square = fitted(decode_file(path, channels).pixels, 16)
    pixels = torch.from_numpy(square.copy()).permute(2, 0, 1) / 255
    config = json.loads((folder / "config.json").read_text())
    mean, std = (torch.tensor(config[name])[:, None, None] for name in ("mean", "std"))
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    image = Image.open(path).convert("L" if channels == 1 else "RGB")
    found = processor(image, return_tensors="pt")["pixel_values"][0]
    torch.testing.assert_close(found, (pixels - mean) / std, rtol=0, atol=0.01)


@pytest.mark.parametrize(
    "encoder, name",
    [
        ("resnet18", "furlkit_resnet18"),
        ("torchvision:squeezenet1_1", "torchvision:squeezenet1_1"),
    ],
)
def test_what_timm_lacks_has_no_name_of_timm_s(export, encoder, name):
    """It must not load a network that has the same name and other layers."""
    folder, _, _ = export(32, 3, "--encoder", encoder)
    found = json.loads((folder / "config.json").read_text())["architecture"]
    assert found == name


@torch.no_grad()
@pytest.mark.parametrize(
    "size, channels, net",
    [
        (64, 1, ("--encoder", "resnet18")),
        (16, 3, ("--encoder", "resnet18")),
        (16, 1, ("--encoder", "resnet18")),
        (8, 1, ("--width", 0.02)),
        (32, 1, ("--encoder", "timm:test_vit")),
        (32, 1, ("--encoder", "torchvision:squeezenet1_1")),
        (32, 3, ("--encoder", "torchvision:mobilenet_v3_small")),
    ],
)
def test_the_config_says_how_to_load_it(export, monkeypatch, size, channels, net):
    folder, x, expected = export(size, channels, *net)
    config = json.loads((folder / "config.json").read_text())
    monkeypatch.chdir(folder)
    names = {}
    exec("\n".join(config["how_to_load"]), names)
    assert torch.equal(names["net"](x), expected)
    assert config["num_features"] == expected.shape[1]
    assert config["input_size"] == [channels, size, size]


def test_a_small_stem_says_so(export, capsys):
    folder, _, _ = export(16, 3, "--encoder", "resnet18")
    config = json.loads((folder / "config.json").read_text())
    assert config["stem"] == "small"
    assert "3x3 without pooling" in capsys.readouterr().out


def test_heads_stay_behind(export):
    folder, _, _ = export(8, 1, "--width", 0.02, "--head", "classifier", "--classes", 3)
    names = load_file(folder / "model.safetensors").keys()
    assert "conv1.weight" in names
    assert not any("projector" in name or "classifier" in name for name in names)


def test_the_same_model_gives_the_same_bytes(export, tmp_path):
    folder, _, _ = export(8, 1, "--width", 0.02)
    other = tmp_path / "other"
    assert furlkit("export", tmp_path / "g.st", "-o", other) == 0
    for name in ("model.safetensors", "config.json", "README.md"):
        assert (folder / name).read_bytes() == (other / name).read_bytes()


def test_a_dry_run_writes_nothing(tmp_path):
    path, shape = tmp_path / "g.st", ("--image-size", 8, "--channels", 1)
    assert furlkit("init", "--width", 0.02, *shape, "-o", path) == 0
    assert furlkit("export", path, "-o", tmp_path / "encoder", "--dry-run") == 0
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_whose_batchnorm_stayed_with_the_clients(tmp_path, capsys):
    round_0(tmp_path)
    fast = ("--data", "digits", "--epochs", 1, "--client", 0)
    p, g, c, keep = (tmp_path / f"{name}.st" for name in ("p", "g", "c", "keep"))
    assert furlkit("local-train", p, g, *fast, "-o", c) == 0
    assert furlkit("aggregate", c, "--bn", "keep", "-o", keep) == 0
    assert furlkit("export", keep, "-o", tmp_path / "encoder") == 65
    err = capsys.readouterr().err
    assert f"{keep}: " in err and "BatchNorm" in err
    assert not (tmp_path / "encoder").exists()


def test_inspect_says_what_was_exported(export, capsys):
    folder, _, _ = export(8, 1, "--width", 0.02)
    capsys.readouterr()
    assert furlkit("inspect", folder / "model.safetensors") == 0
    assert "encoder: the bare encoder cnn5 after round 0" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "README.md"])
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_files_of_other_programs_are_not_replaced(world, refused, name, dry):
    folder = world.folder / "encoder"
    folder.mkdir()
    if name == "model.safetensors":
        save_file({"conv1.weight": torch.zeros(1)}, folder / name)
    else:
        (folder / name).write_text('{"architecture": "resnet18"}')
    words = (folder / name, "did not write", "another -o")
    refused(world.folder, 2, words, "export", world.model, "-o", folder, *dry)


def test_an_export_replaces_an_older_export(world, run):
    folder = world.folder / "encoder"
    for model in (world.clients[0], world.model):
        assert run("export", model, "-o", folder).code == 0
    expected = read_checkpoint(world.model).tensors["encoder.conv1.weight"]
    found = load_file(folder / "model.safetensors")["conv1.weight"]
    assert torch.equal(found, torch.from_numpy(expected))
