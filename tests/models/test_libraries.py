"""Encoders of torchvision and timm."""

import sys

import pytest
import torch

from furlkit.errors import InputError, UsageError
from furlkit.models.architecture import Architecture, build
from tests.helpers import furlkit

# BatchNorm, tokens, a convolution as the last layer, buffers that no file holds.
ENCODERS = [
    ("timm:test_resnet", 16, 1),
    ("timm:test_vit", 32, 1),
    ("timm:test_efficientnet_gn", 16, 3),
    ("timm:efficientvit_m0", 64, 3),
    ("torchvision:squeezenet1_1", 32, 1),
    ("torchvision:shufflenet_v2_x0_5", 32, 3),
]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@torch.no_grad()
@pytest.mark.parametrize("encoder, size, channels", ENCODERS)
def test_a_library_s_network_is_drawn_from_the_seed_and_loads(encoder, size, channels):
    a = Architecture(encoder, size, channels, heads={"projector": (8, 4)})
    before = torch.get_rng_state()
    net, again, other = (build(a, seeded(seed)).eval() for seed in (0, 0, 1))
    loaded = build(a, None)
    assert all(tensor.is_meta for tensor in loaded.state_dict().values())
    loaded.load_state_dict(net.state_dict(), assign=True)
    x = torch.randn(2, channels, size, size, generator=seeded())
    h = net(x)
    assert h.shape == (2, a.feature_dim) and net.projector(h).shape == (2, 4)
    assert torch.equal(again(x), h) and torch.equal(loaded.eval()(x), h)
    assert not torch.equal(other(x), h)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_encoder_does_not_depend_on_the_heads():
    nets = [
        build(Architecture("timm:test_vit", 32, 3, heads=heads), seeded()).state_dict()
        for heads in ({}, {"projector": (8, 4)}, {"classifier": (3,)})
    ]
    for name, tensor in nets[0].items():
        assert all(torch.equal(net[name], tensor) for net in nets)


def test_torchvision_s_tensors_have_their_names_and_the_classifier_is_gone():
    from torchvision import models

    a = Architecture("torchvision:mobilenet_v3_small", 32, 3)
    own = build(a, None).encoder.state_dict()
    with torch.device("meta"):
        theirs = models.mobilenet_v3_small().state_dict()
    assert theirs.keys() - own.keys() == {"classifier.3.weight", "classifier.3.bias"}
    assert all(theirs[name].shape == tensor.shape for name, tensor in own.items())
    assert a.feature_dim == 1024


@torch.no_grad()
def test_nothing_is_dropped_at_random_in_training():
    """EfficientNet has stochastic depth; BatchNorm normalises both passes alike."""
    net = build(Architecture("torchvision:efficientnet_b0", 32, 3), seeded()).encoder
    x = torch.randn(4, 3, 32, 32, generator=seeded())
    assert torch.equal(net.train()(x), net(x))


@pytest.mark.parametrize(
    "encoder, size, message",
    [
        ("timm:test_vitt", 32, "did you mean timm:test_vit?"),
        ("timm:resnet18.a1_in1k", 32, "leave out .a1_in1k"),
        ("timm:test_vit", 8, "does not take images of 8 x 8 x 3"),
        ("torchvision:vgg99", 32, "torchvision has no such network"),
        ("torchvision:fasterrcnn_resnet50_fpn", 32, "torchvision has no such network"),
        ("torchvision:", 32, "torchvision has no such network"),
        ("keras:vgg16", 32, "timm:NAME"),
    ],
)
def test_what_cannot_be_built_is_refused(encoder, size, message):
    with pytest.raises(UsageError) as error:
        Architecture(encoder, size, 3)
    assert message in str(error.value)
    with pytest.raises(InputError):
        Architecture.from_dict({"encoder": encoder, "image_size": size, "channels": 3})


def test_without_timm_the_message_says_how_to_install_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    words = ("--encoder", "timm:test_vit2", "--image-size", 32, "--channels", 3)
    assert furlkit("init", *words, "-o", tmp_path / "g.st") == 2
    assert "pip install 'furlkit[timm]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["timm", "timm:", "keras:vgg16"])
def test_other_words_are_no_encoder(tmp_path, capsys, name):
    words = ("--encoder", name, "--image-size", 32, "--channels", 3)
    assert furlkit("init", *words, "-o", tmp_path / "g.st") == 2
    err = capsys.readouterr().err
    assert "--encoder" in err and "timm:NAME" in err


@pytest.mark.parametrize("option", [("--width", 0.5), ("--stem", "small")])
def test_width_and_stem_are_not_a_library_s(tmp_path, capsys, option):
    words = ("--encoder", "timm:test_vit", "--image-size", 32, "--channels", 3)
    assert furlkit("init", *words, *option, "-o", tmp_path / "g.st") == 2
    assert "does not apply" in capsys.readouterr().err
