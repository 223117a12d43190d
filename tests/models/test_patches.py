"""Decoders of hidden patches: what the encoder sees, places, refused encoders."""

import math

import numpy as np
import pytest
import torch

from furlkit.errors import UsageError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.features import read_features
from furlkit.models.architecture import Architecture, build
from furlkit.models.patches import Block, sine_places, visible_tokens
from furlkit.training import loop
from tests.helpers import contents, epoch_losses, furlkit

VIT = ("timm:test_vit", 64, 1)  # 4 x 4 patches of 16 pixels, h of 64 numbers.


def net_of(encoder, size, channels=1, widths=(32, 32), **more):
    heads = {"patches": widths}
    architecture = Architecture(encoder, size, channels, heads=heads, **more)
    return build(architecture, torch.Generator().manual_seed(0)).eval()


def images(size, channels=1, count=3):
    shape = (count, channels, size, size)
    return torch.rand(shape, generator=torch.Generator().manual_seed(1))


@pytest.fixture(params=[("cnn5", 8, 1), ("resnet18", 33, 3), VIT])
def net(request):
    if request.param == VIT:
        pytest.importorskip("timm")
    _, size, channels = request.param
    return net_of(*request.param), images(size, channels)


def test_hidden_pixels_do_not_matter_and_visible_pixels_do(net):
    net, x = net
    side, count = net.patches.side, net.patches.count
    order = torch.stack([torch.roll(torch.arange(count), k) for k in range(3)])
    visible, hidden = order[:, :2], order[:, 2:]
    h, y = net.patches.reconstruct(net.encoder, x, visible, hidden)
    assert y.shape == (3, count - 2, side**2 * x.shape[1])
    grid = math.isqrt(count)
    for chosen, same in ((hidden, True), (visible, False)):
        changed = x.clone()
        for b in range(3):
            for n in chosen[b].tolist():
                top, left = side * (n // grid), side * (n % grid)
                changed[b, :, top : top + side, left : left + side] += 1
        other = net.patches.reconstruct(net.encoder, changed, visible, hidden)
        assert torch.equal(h, other[0]) == same
        assert torch.equal(y, other[1]) == same


def test_all_tokens_visible_is_the_encoder_of_timm():
    pytest.importorskip("timm")
    net, x = net_of(*VIT), images(64)
    every = torch.arange(16).expand(3, -1)
    tokens = visible_tokens(net.encoder, x, every)
    torch.testing.assert_close(tokens, net.encoder.forward_features(x))
    torch.testing.assert_close(net.encoder.forward_head(tokens), net.encoder(x))


def test_agrees_with_timm_s_choice_of_tokens():
    """timm drops tokens after the positions too, in its module patch_drop."""
    pytest.importorskip("timm")
    net, x = net_of(*VIT), images(64)
    visible = torch.tensor([[5, 0, 7], [1, 2, 3], [15, 14, 0]])

    class Chosen(torch.nn.Module):
        def forward(self, tokens):
            rows = [
                torch.cat([t[:1], t[1:][v]])
                for t, v in zip(tokens, visible, strict=True)
            ]
            return torch.stack(rows)

    found = visible_tokens(net.encoder, x, visible)
    net.encoder.patch_drop = Chosen()
    torch.testing.assert_close(found, net.encoder.forward_features(x))


def test_agrees_with_lightly_s_masked_encoder():
    modules = pytest.importorskip("lightly.models.modules")
    net, x = net_of(*VIT), images(64)
    visible = torch.tensor([[5, 0, 7], [1, 2, 3], [15, 14, 0]])
    found = visible_tokens(net.encoder, x, visible)
    kept = {"weight_initialization": "skip", "pos_embed_initialization": "skip"}
    theirs = modules.MaskedVisionTransformerTIMM(net.encoder, **kept)
    keep = torch.cat([torch.zeros(3, 1).long(), visible + 1], dim=1)
    torch.testing.assert_close(found, theirs.eval().encode(x, idx_keep=keep))


def test_a_block_matches_loops():
    torch.manual_seed(0)
    block, x = Block(4).double(), torch.randn(1, 3, 4).double()
    a = block.norm1(x)[0]
    q, k, v = (part.tolist() for part in block.qkv(a).split(4, dim=1))
    mixed = []
    for i in range(3):
        scores = [
            sum(p * r for p, r in zip(q[i], k[j], strict=True)) / 2 for j in range(3)
        ]
        total = sum(math.exp(s) for s in scores)
        shares = [math.exp(s) / total for s in scores]
        mixed.append([sum(shares[j] * v[j][d] for j in range(3)) for d in range(4)])
    y = x + block.proj(torch.tensor([mixed]).double())
    y = y + block.fc2(torch.nn.functional.gelu(block.fc1(block.norm2(y))))
    torch.testing.assert_close(block(x), y)


def test_places_match_loops_and_differ():
    found = sine_places(2, 3, torch.empty(8))
    for n in range(6):
        row, column, expected = n // 3, n % 3, []
        for place in (column, row):
            angles = [place / 10000 ** (k / 2) for k in range(2)]
            expected += [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        assert found[n].tolist() == pytest.approx(expected, abs=1e-6)
    assert len({tuple(row) for row in found.tolist()}) == 6


def test_attention_does_not_depend_on_the_order_of_patches():
    pytest.importorskip("timm")
    net, x = net_of(*VIT), images(64)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0)).expand(3, -1)
    visible, hidden = order[:, :5], order[:, 5:]
    one = net.patches.reconstruct(net.encoder, x, visible, hidden)
    other = net.patches.reconstruct(net.encoder, x, visible.flip(1), hidden.flip(1))
    torch.testing.assert_close(one[0], other[0])
    torch.testing.assert_close(one[1], other[1].flip(1))


@pytest.mark.parametrize(
    ("encoder", "size", "widths", "word"),
    [
        ("torchvision:vit_b_16", 32, (32,), "MultiheadAttention"),
        ("torchvision:swin_t", 32, (32,), "ShiftedWindowAttention"),
        ("timm:test_vit", 16, (32,), "single patch"),
        ("timm:test_vit", 64, (32, 16), "32,16"),
        ("timm:test_vit", 64, (30,), "multiple of 4"),
    ],
)
def test_encoders_and_widths_that_cannot_serve_are_refused(encoder, size, widths, word):
    pytest.importorskip("timm")
    with pytest.raises(UsageError, match=word):
        build(Architecture(encoder, size, 3, heads={"patches": widths}), None)


# --- a round of a Vision Transformer --------------------------------------------------


def test_a_vision_transformer_is_trained_resumed_averaged_and_embedded(
    tmp_path, dies_at
):
    pytest.importorskip("timm")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (24, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", images=pixels)
    data, choice = ("--data", tmp_path / "d.npz"), ("--objective", "mae")
    net = ("--encoder", "timm:test_vit", "--image-size", 32, "--patches", "16,16")
    assert furlkit("partition", *data, "--clients", 2, "-o", tmp_path / "p") == 0
    assert furlkit("init", *data, *net, *choice, "-o", tmp_path / "g0") == 0

    def train(folder):
        words = ("local-train", tmp_path / "p", tmp_path / "g0", *data, *choice, "-q")
        how = ("--epochs", 2, "--batch-size", 6, "--client", "0-1", "--save-every", 0)
        return furlkit(*words, *how, "-o", tmp_path / folder / "c{client}")

    assert train("a") == 0
    with dies_at(loop.Trainer, "step", 3):
        train("b")
    assert train("b") == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    first, last = epoch_losses(tmp_path / "a" / "c0")
    assert last["mae"] < first["mae"]
    uploads = (tmp_path / "a" / "c0", tmp_path / "a" / "c1")
    assert furlkit("aggregate", *uploads, "-o", tmp_path / "g1") == 0
    assert {*read_checkpoint(tmp_path / "g1").facts.parts} == {"encoder", "patches"}
    assert furlkit("embed", tmp_path / "g1", *data, "-o", tmp_path / "h") == 0
    assert read_features(tmp_path / "h").rows.std(axis=0).max() > 0
