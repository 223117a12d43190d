import json
import re

import pytest
import torch
import torch.nn.functional as F

from furlkit.errors import InputError, UsageError
from furlkit.models.architecture import Architecture, build
from furlkit.models.encoders import Cnn5, _average_pool_4x4


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def small(**options):
    given = {"encoder": "cnn5", "image_size": 8, "channels": 1, "width": 0.05}
    return Architecture(**{**given, **options})


ALL_HEADS = {
    "projector": (16, 8),
    "predictor": (4, 8),
    "decoder": (),
    "classifier": (10,),
    "rotation": (4,),
    "prototypes": (30,),
    "clusters": (7, 7),
}


def parameters(net):
    return sum(p.numel() for p in net.parameters())


def test_cnn5_at_width_1_has_the_parameters_counted_by_hand():
    convolutions = 9 * (3 * 64 + 64 * 192 + 192 * 384 + 384 * 256 + 256 * 256)
    norms = 2 * (64 + 192 + 384 + 256 + 256)
    linear = 256 * 4 * 4 * 2048 + 2048
    assert convolutions + norms + linear == 10_643_392
    assert parameters(build(Architecture("cnn5", 32, 3), None)) == 10_643_392


@pytest.mark.parametrize(
    ("width", "count"), [(0.5, 2_662_368), (0.25, 666_352), (0.1, 108_377)]
)
def test_width_scales_cnn5(width, count):
    assert parameters(build(Architecture("cnn5", 32, 3, width=width), None)) == count


def test_cnn5_computes_the_described_layers():
    net = build(small(image_size=16, channels=3), seeded()).encoder.eval()
    x = torch.randn(2, 3, 16, 16, generator=seeded(1))
    y = x
    for i in range(1, 6):
        bn = getattr(net, f"bn{i}")
        y = F.conv2d(y, getattr(net, f"conv{i}").weight, padding=1)
        y = F.relu(y / (1 + bn.eps) ** 0.5)
        if i in (1, 2, 5):
            y = F.max_pool2d(y, 2)
    y = F.linear(F.adaptive_avg_pool2d(y, 4).flatten(1), net.fc.weight, net.fc.bias)
    torch.testing.assert_close(net(x), y)


@pytest.mark.parametrize("rows", range(1, 14))
def test_average_pool_matches_adaptive_pooling(rows):
    x = torch.randn(2, 3, rows, 14 - rows, generator=seeded())
    torch.testing.assert_close(_average_pool_4x4(x), F.adaptive_avg_pool2d(x, 4))


@pytest.mark.parametrize("size", [8, 11, 28, 32, 84])
@pytest.mark.parametrize("channels", [1, 3])
def test_decoder_gives_an_image_of_the_input_size(size, channels):
    net = build(
        small(image_size=size, channels=channels, heads={"decoder": ()}), seeded()
    )
    x = torch.randn(2, channels, size, size, generator=seeded())
    assert net.decoder(net(x)).shape == x.shape


@pytest.mark.parametrize("encoder", ["resnet18", "resnet34", "resnet50"])
def test_resnet_tensors_have_torchvisions_names_and_shapes(encoder):
    from torchvision import models

    net = build(Architecture(encoder, 84, 3), None)
    with torch.device("meta"):
        theirs = getattr(models, encoder)(weights=None).state_dict()
    expected = {f"encoder.{k}": v.shape for k, v in theirs.items() if "fc." not in k}
    assert {k: v.shape for k, v in net.state_dict().items()} == expected


def test_resnet_with_the_standard_stem_computes_what_torchvisions_does():
    from torchvision import models

    net = build(Architecture("resnet18", 64, 3), seeded()).eval()
    theirs = models.resnet18(weights=None).eval()
    theirs.load_state_dict(net.encoder.state_dict(), strict=False)
    theirs.fc = torch.nn.Identity()
    x = torch.randn(2, 3, 64, 64, generator=seeded())
    assert torch.equal(net(x), theirs(x))


@pytest.mark.parametrize(
    ("size", "stem", "shape"),
    [(32, "small", (64, 1, 3, 3)), (64, "standard", (64, 1, 7, 7))],
)
def test_stem_follows_the_image_size_and_grey_input_has_one_channel(size, stem, shape):
    architecture = Architecture("resnet18", size, 1)
    net = build(architecture, seeded()).eval()
    assert architecture.stem == stem
    assert net.encoder.conv1.weight.shape == shape
    assert net(torch.zeros(1, 1, size, size)).shape == (1, 512)


def test_small_stem_keeps_resolution():
    net = build(Architecture("resnet18", 32, 3), None).encoder
    assert net.conv1.stride == (1, 1)
    assert isinstance(net.maxpool, torch.nn.Identity)


def test_heads_map_h_and_z_to_their_widths():
    net = build(small(heads=ALL_HEADS), seeded()).eval()
    h = net(torch.zeros(3, 1, 8, 8))
    z = net.projector(h)
    assert h.shape == (3, small().feature_dim) == (3, 102)
    assert z.shape == net.predictor(z).shape == (3, 8)
    assert net.classifier(h).shape == (3, 10)
    assert net.rotation(h).shape == (3, 4)
    assert net.prototypes(z).shape == (3, 30)
    assert net.clusters(h).shape == (3, 2, 7)


def test_only_the_heads_asked_for_are_children():
    names = [
        name
        for name, _ in build(small(heads={"projector": (8,)}), None).named_children()
    ]
    assert names == ["encoder", "projector"]
    names = [name for name, _ in build(small(heads=ALL_HEADS), None).named_children()]
    assert names == ["encoder", *ALL_HEADS]


def test_build_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    build(small(heads=ALL_HEADS), seeded())
    build(Architecture("resnet18", 32, 3), seeded())
    assert torch.equal(torch.get_rng_state(), before)


def test_same_seed_gives_the_same_net_whatever_the_global_seed():
    first = build(small(heads=ALL_HEADS), seeded(3)).state_dict()
    torch.rand(5)
    again = build(small(heads=ALL_HEADS), seeded(3)).state_dict()
    assert all(torch.equal(first[k], again[k]) for k in first)
    other = build(small(heads=ALL_HEADS), seeded(4)).state_dict()
    drawn = [k for k in first if first[k].unique().numel() > 1]
    assert drawn and not any(torch.equal(first[k], other[k]) for k in drawn)


def test_encoder_weights_do_not_depend_on_the_heads():
    bare, full = build(small(), seeded()), build(small(heads=ALL_HEADS), seeded())
    theirs = full.encoder.state_dict()
    assert all(torch.equal(v, theirs[k]) for k, v in bare.encoder.state_dict().items())


def test_initial_weights_have_the_stated_scales():
    net = build(Architecture("resnet18", 32, 3, heads={"classifier": (10,)}), seeded())
    weight = net.encoder.layer4[0].conv2.weight
    assert weight.std().item() == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.01)
    bound = 512**-0.5
    assert 0.99 * bound < net.classifier.weight.abs().max() <= bound
    assert net.classifier.bias.abs().max() <= bound
    bn = net.encoder.bn1
    assert bn.weight.eq(1).all() and bn.bias.eq(0).all()
    assert bn.running_mean.eq(0).all() and bn.running_var.eq(1).all()
    assert bn.num_batches_tracked.item() == 0
    assert bn.num_batches_tracked.dtype == torch.int64


def test_prototypes_are_unit_rows_that_have_seen_no_step():
    net = build(small(heads={"projector": (8,), "prototypes": (30,)}), seeded())
    torch.testing.assert_close(net.prototypes.weight.norm(dim=1), torch.ones(30))
    assert net.prototypes.bias is None and net.prototypes.steps.item() == 0


def test_heads_of_clusters_are_linear_maps_below_each_other():
    net = build(small(heads={"clusters": (3, 3)}), seeded())
    h = torch.randn(5, 102, generator=seeded(1))
    first, second = net.clusters.weight.split(3)
    one, other = net.clusters.bias.split(3)
    expected = torch.stack([h @ first.T + one, h @ second.T + other], dim=1)
    torch.testing.assert_close(net.clusters(h), expected)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("widths", [(), (1,), (3, 4), (3, 1), (5,) * 65, ("5",)])
def test_heads_have_the_same_number_of_clusters_and_more_than_one(widths):
    with pytest.raises(UsageError, match="clusters"):
        small(heads={"clusters": widths})


def test_net_without_generator_takes_loaded_weights():
    source = build(small(heads=ALL_HEADS), seeded())
    x = torch.randn(4, 1, 8, 8, generator=seeded())
    source.decoder(source(x))
    net = build(small(heads=ALL_HEADS), None)
    assert all(t.is_meta for t in net.state_dict().values())
    net.load_state_dict(source.state_dict(), assign=True)
    assert torch.equal(net.eval()(x), source.eval()(x))
    assert all(p.requires_grad for p in net.parameters())
    assert not any(b.is_meta for b in net.buffers())


def test_every_parameter_gets_a_gradient():
    net = build(small(heads=ALL_HEADS), seeded())
    h = net(torch.randn(4, 1, 8, 8, generator=seeded()))
    outputs = [net.predictor(net.projector(h)), net.decoder(h)]
    outputs += [net.classifier(h), net.rotation(h), net.prototypes(net.projector(h))]
    outputs.append(net.clusters(h))
    sum(out.square().sum() for out in outputs).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_architecture_survives_json():
    for architecture in (small(heads=ALL_HEADS), Architecture("resnet50", 84, 3)):
        text = json.dumps(architecture.to_dict())
        assert Architecture.from_dict(json.loads(text)) == architecture


def test_resolved_stem_is_what_is_stored():
    assert Architecture("resnet18", 32, 3).to_dict()["stem"] == "small"
    assert Architecture("resnet18", 32, 3, stem="standard").stem == "standard"
    assert small().stem == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": {}}, "--encoder {}"),
        ({"encoder": "vgg"}, "--encoder vgg"),
        ({"encoder": "resnet18"}, "--width 0.05"),
        ({"width": 0}, "--width 0"),
        ({"width": float("nan")}, "--width nan"),
        ({"stem": "small"}, "--stem small"),
        ({"encoder": "resnet18", "width": 1, "stem": "big"}, "--stem big"),
        ({"image_size": 7}, "image size 7"),
        ({"channels": 33}, "33 channels"),
        ({"channels": True}, "True channels"),
        ({"heads": 3}, "heads 3"),
        ({"heads": {"projector": ()}}, "--projector"),
        ({"heads": {"projector": (8, 0)}}, "--projector"),
        ({"heads": {"predictor": (8,)}}, "--predictor"),
        ({"heads": {"projector": (8,), "predictor": (4,)}}, "--predictor"),
        ({"heads": {"classifier": (0,)}}, "classifier (0,)"),
        ({"heads": {"decoder": "yes"}}, "decoder yes"),
        ({"heads": {"tail": (3,)}}, "head tail"),
        ({"projector_norm": "none"}, "--projector-norm none"),
        ({"projector_norm": [1]}, "--projector-norm [1]"),
    ],
)
def test_impossible_architectures_are_refused(options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        small(**options)
    values = {**small().to_dict(), **options}
    with pytest.raises(InputError, match="architecture: "):
        Architecture.from_dict(values)


@pytest.mark.parametrize("change", ["missing", "unknown", "list"])
def test_header_with_other_keys_is_refused(change):
    values = small().to_dict()
    if change == "missing":
        del values["channels"]
    elif change == "unknown":
        values["depth"] = 3
    else:
        values = ["cnn5"]
    with pytest.raises(InputError, match="keys"):
        Architecture.from_dict(values)


def test_cnn5_takes_larger_images_than_it_was_described_for():
    net = Cnn5(channels=3, width=0.02)
    assert net(torch.zeros(2, 3, 84, 84)).shape == net(torch.zeros(2, 3, 8, 8)).shape


def test_autoencoder_learns_to_copy_a_few_images():
    net = build(small(width=0.1, heads={"decoder": ()}), seeded())
    x = torch.randn(4, 1, 8, 8, generator=seeded(1))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(150):
        optimiser.zero_grad()
        loss = (net.decoder(net(x)) - x).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] < 3
    assert losses[-1] < 0.2 * losses[0]


VERSION_1 = {
    "encoder": "cnn5",
    "image_size": 8,
    "channels": 1,
    "width": 0.05,
    "stem": "",
    "projector": [16, 8],
    "predictor": None,
    "decoder": True,
    "classifier": 10,
    "rotation": False,
}


def test_heads_of_format_version_1_are_read():
    heads = {"projector": (16, 8), "decoder": (), "classifier": (10,)}
    assert Architecture.from_dict(VERSION_1) == small(heads=heads)
    assert Architecture.from_dict({**VERSION_1, "rotation": True}).heads[
        "rotation"
    ] == (4,)
    for odd in ({"projector": 7.5}, {"classifier": "ten"}, {"decoder": 3}):
        with pytest.raises(InputError, match="architecture: "):
            Architecture.from_dict({**VERSION_1, **odd})


def test_a_missing_key_has_its_default():
    values = small().to_dict()
    del values["stem"]
    assert Architecture.from_dict(values) == small()


def test_heads_come_in_one_order_whatever_they_were_given_in():
    heads = dict(reversed(ALL_HEADS.items()))
    assert list(small(heads=heads).heads) == list(ALL_HEADS)
    one, other = (build(small(heads=h), seeded()) for h in (heads, ALL_HEADS))
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])


def test_only_some_parts_have_only_their_heads():
    whole = small(heads=ALL_HEADS)
    assert whole.only(["encoder"]).heads == {}
    assert list(whole.only(["encoder", "predictor", "rotation"]).heads) == ["rotation"]
    assert whole.only(["encoder", *ALL_HEADS]) == whole


def test_simclr_s_official_head_by_hand():
    """Linear, BatchNorm, ReLU, Linear, and BatchNorm that scales but does not shift."""
    heads = {"projector": (5, 3), "predictor": (4, 3)}
    a = small(heads=heads, projector_norm="all")
    net, h = build(a, seeded()), torch.randn(7, a.feature_dim, generator=seeded(1))
    names = ["fc1.weight", "bn1.weight", "bn1.bias", "fc2.weight", "bn2.weight"]
    assert [name for name, _ in net.projector.named_parameters()] == names
    assert "fc2.bias" in dict(net.predictor.named_parameters())
    with torch.no_grad():
        net.projector.bn2.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
    between = h @ net.projector.fc1.weight.T
    between = (between - between.mean(0)) / (between.var(0, correction=0) + 1e-5).sqrt()
    z = between.relu() @ net.projector.fc2.weight.T
    z = (z - z.mean(0)) / (z.var(0, correction=0) + 1e-5).sqrt()
    found = net.projector(h)
    torch.testing.assert_close(found, z * torch.tensor([1.0, 2.0, 3.0]))
    found.square().sum().backward()
    assert net.projector.bn2.weight.grad.abs().sum() > 0


def test_the_usual_norm_is_in_no_header_and_another_one_is():
    usual, official = (
        small(heads=ALL_HEADS, projector_norm=n) for n in ("hidden", "all")
    )
    assert usual == small(heads=ALL_HEADS) and "projector_norm" not in usual.to_dict()
    assert official.to_dict()["projector_norm"] == "all"
    assert Architecture.from_dict(official.to_dict()) == official
    one, other = (build(a, seeded()).state_dict() for a in (usual, official))
    encoder = [name for name in one if name.startswith("encoder.")]
    assert encoder and all(torch.equal(one[k], other[k]) for k in encoder)
