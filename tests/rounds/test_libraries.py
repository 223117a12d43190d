"""Whole rounds of networks that are timm's and torchvision's."""

import json

import numpy as np
import pytest
import torch

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.features import read_features
from furlkit.models.loading import load_net
from tests.helpers import furlkit

pytest.importorskip("timm")
TRAIN = ("--epochs", 1, "--batch-size", 4, "-q")


@pytest.fixture
def data(tmp_path):
    """16 grey images of 8 x 8, which a model sees as large as its own input."""
    rng = np.random.default_rng(0)
    path, labels = tmp_path / "images.npz", np.arange(16) % 2
    images = rng.integers(0, 256, (16, 8, 8), dtype=np.uint8)
    images[labels == 1] //= 2
    np.savez(path, images=images, labels=labels)
    return ("--data", path)


@pytest.fixture
def round_1(tmp_path, data):
    """Train two clients of a new model and average them; gives the global model."""

    def run(encoder, *objective):
        p, g, out = (tmp_path / name for name in ("p", "g0", "c{client}"))
        net = ("--encoder", encoder, "--image-size", 32, "--projector", "8,4")
        start = objective[:2]  # --objective NAME
        clients = (*objective, "--client", "0-1", *TRAIN)
        commands = [
            ("partition", *data, "--clients", 2, "-o", p),
            ("init", *data, *net, *start, "-o", g),
            ("local-train", p, g, *data, *clients, "-o", out),
            ("aggregate", tmp_path / "c0", tmp_path / "c1", "-o", tmp_path / "g1"),
        ]
        assert [furlkit(*command) for command in commands] == [0] * 4
        return tmp_path / "g1"

    return run


def test_vit_tiny_is_trained_averaged_exported_and_loaded_in_timm(
    tmp_path, data, round_1
):
    import timm

    model = round_1("timm:vit_tiny_patch16_224")
    assert furlkit("embed", model, *data, "-o", tmp_path / "h") == 0
    assert read_features(tmp_path / "h").rows.shape == (16, 192)
    assert furlkit("export", model, "-o", tmp_path / "encoder") == 0
    net = timm.create_model(f"local-dir:{tmp_path / 'encoder'}", pretrained=True)
    own = load_net(read_checkpoint(model), torch.device("cpu")).encoder
    x = torch.randn(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(net.eval()(x), own.eval()(x))
    # The mean of two clients that both moved away from the start.
    name = "encoder.blocks.0.attn.qkv.weight"
    start, one, two, mean = (
        read_checkpoint(tmp_path / k).tensors[name] for k in ("g0", "c0", "c1", "g1")
    )
    np.testing.assert_allclose(mean, (one + two) / 2, atol=1e-7)
    assert not np.array_equal(start, one) and not np.array_equal(one, two)


@pytest.mark.parametrize(
    "encoder, objective",
    [
        ("timm:test_vit", ("--objective", "moco", "--queue", 8)),
        ("timm:test_efficientnet_gn", ("--objective", "simclr", "--proximal", 0.1)),
        ("torchvision:shufflenet_v2_x0_5", ("--objective", "supervised")),
    ],
)
def test_rounds_without_batchnorm_and_with_it_are_scored(
    tmp_path, data, round_1, encoder, objective
):
    model = round_1(encoder, *objective)
    short = ("--epochs", 1, "--probes", 1, "-o", tmp_path / "m.json")
    test = ("--test-data", data[1])
    assert furlkit("evaluate", "linear", model, *data, *test, *short) == 0
    assert 0 <= json.loads((tmp_path / "m.json").read_text())["accuracy"] <= 1


def test_an_untrained_network_of_a_library_is_a_reference(tmp_path, data):
    words = ("--untrained", "--encoder", "timm:test_resnet", "--test-data", data[1])
    out = ("--k", 3, "-o", tmp_path / "m.json")
    assert furlkit("evaluate", "knn", *data, *words, *out) == 0
    assert 0 <= json.loads((tmp_path / "m.json").read_text())["accuracy"] <= 1
