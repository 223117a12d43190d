"""Decoders that predict the pixels of hidden patches: the head `patches`, for MAE.

A decoder has the `side` of a patch in pixels and the `count` of patches of an image, in
rows from the top left. `reconstruct` encodes an image without its hidden patches, and
returns h and the predicted pixels of each hidden patch.

TokenDecoder, for a Vision Transformer of timm: MAE's. The encoder gets the tokens of
visible patches only. MapDecoder, for a network without attention: hidden patches are
zero, the mean of normalised images, and the decoder starts from h.
"""

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.errors import UsageError
from furlkit.models.heads import conv3x3

HEAD_WIDTH = 32  # Of an attention head, as in MAE's decoder of 512 numbers.
MAP = 4  # Side of the map that MapDecoder makes from h.
GRIDS = (4, 8)  # Patches along a side, for images below and from FINE pixels.
FINE = 32


def patch_decoder(
    encoder: nn.Module, inputs: int, widths: tuple[int, ...], image: tuple[int, int]
) -> nn.Module:
    """Decoder for an encoder; `widths` are the widths of the decoder's blocks."""
    if _is_vit(encoder):
        return TokenDecoder(encoder, widths, image[1])
    attention = [type(m).__name__ for m in encoder.modules() if _attends(m)]
    if attention:
        raise UsageError(
            f"head patches: the encoder, {type(encoder).__name__}, has layers of "
            f"{attention[0]} but is no plain Vision Transformer of timm (h from the class "
            "token or a mean), so hidden patches cannot be left out; choose an encoder "
            "like timm:vit_small_patch16_224, or a network without attention"
        )
    return MapDecoder(inputs, widths, *image)


def _is_vit(encoder: Any) -> bool:
    """Return whether this is timm's Vision Transformer with patches of pixels."""
    kind = type(encoder)
    plain = kind.__name__ == "VisionTransformer" and kind.__module__.startswith("timm.")
    embed = type(encoder.patch_embed).__name__ if plain else ""
    # MAE does not train a pooling by attention.
    return plain and embed == "PatchEmbed" and encoder.attn_pool is None


def _attends(module: nn.Module) -> bool:
    return "attention" in type(module).__name__.lower()


class TokenDecoder(nn.Module):
    """MAE's decoder: transformer blocks over visible tokens and a token for hidden ones."""

    def __init__(self, encoder: Any, widths: tuple[int, ...], channels: int) -> None:
        super().__init__()
        width, listed = widths[0], ",".join(map(str, widths))
        if {*widths} != {width} or width % 4:
            raise UsageError(
                f"--patches {listed}: expected a width per block, all equal and a "
                "multiple of 4, such as 128,128"
            )
        self.side, self.grid = encoder.patch_embed.patch_size[0], _grid_of(encoder)
        self.count, self._first = self.grid[0] * self.grid[1], encoder.num_prefix_tokens
        self.embed = nn.Linear(encoder.embed_dim, width)
        self.hidden = nn.Parameter(torch.empty(width))
        self.blocks = nn.Sequential(*(Block(width) for _ in widths))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.out = nn.Linear(width, self.side**2 * channels)

    def reset(self, generator: torch.Generator) -> None:
        """Draw the token of hidden patches."""
        nn.init.normal_(self.hidden, std=0.02, generator=generator)

    def reconstruct(
        self, encoder: Any, x: Tensor, visible: Tensor, hidden: Tensor
    ) -> tuple[Tensor, Tensor]:
        """h of visible patches, and pixels (B, M, side^2 C) of hidden patches."""
        tokens = visible_tokens(encoder, x, visible)  # (B, first + V, d)
        return encoder.forward_head(tokens), self(tokens, visible, hidden)

    def forward(self, tokens: Tensor, visible: Tensor, hidden: Tensor) -> Tensor:
        """Predict hidden patches; attention ignores the order of the tokens."""
        y, place = self.embed(tokens), sine_places(*self.grid, self.hidden)
        first, seen = y.split([self._first, visible.shape[1]], dim=1)
        blank = self.hidden + place[hidden]  # (B, M, width)
        y = self.blocks(torch.cat([first, seen + place[visible], blank], dim=1))
        return self.out(self.norm(y[:, -hidden.shape[1] :]))


def _grid_of(encoder: Any) -> tuple[int, int]:
    rows, columns = encoder.patch_embed.grid_size
    if rows * columns < 2:
        size = encoder.patch_embed.img_size[0]
        raise UsageError(
            f"head patches: an image of {size} pixels is a single patch; give a larger "
            "--image-size, or an encoder with smaller patches"
        )
    return rows, columns


def visible_tokens(encoder: Any, x: Tensor, visible: Tensor) -> Tensor:
    """timm's tokens, for visible patches (B, V) only: (B, first + V, d).

    The tokens before the patches (class token, registers) stay.
    """
    # timm's forward_features, with a choice of patches in the place of patch_drop.
    first = encoder.num_prefix_tokens
    tokens = encoder._pos_embed(encoder.patch_embed(x))
    patches = torch.take_along_dim(tokens[:, first:], visible[..., None], dim=1)
    tokens = encoder.norm_pre(torch.cat([tokens[:, :first], patches], dim=1))
    return encoder.norm(encoder.blocks(tokens))


class Block(nn.Module):
    """A transformer block: attention and an MLP, each after a LayerNorm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = 1 if width % HEAD_WIDTH else width // HEAD_WIDTH
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=1e-6) for _ in range(2))
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        qkv = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, heads, tokens, width / heads)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.proj(mixed)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


def sine_places(rows: int, columns: int, like: Tensor) -> Tensor:
    """Sines and cosines of rows and columns, (rows * columns, width of `like`)."""
    return _sine_places(rows, columns, like.shape[-1], like.device)


@lru_cache
@torch.no_grad()
def _sine_places(rows: int, columns: int, width: int, device: torch.device) -> Tensor:
    rates = 1e-4 ** (torch.arange(width // 4, device=device) * 4 / width)
    waves = [
        torch.arange(side, device=device)[:, None] * rates for side in (rows, columns)
    ]
    down, across = (torch.cat([wave.sin(), wave.cos()], dim=1) for wave in waves)
    down = down[:, None].expand(-1, columns, -1)  # (rows, columns, width / 2)
    across = across[None].expand(rows, -1, -1)
    return torch.cat([across, down], dim=2).flatten(0, 1)


class MapDecoder(nn.Module):
    """h -> a map of 4 x 4, enlarged to a place per patch, 3x3 convolutions, pixels.

    Pixels right and below of the last whole patch are always visible.
    """

    def __init__(
        self, inputs: int, widths: tuple[int, ...], size: int, channels: int
    ) -> None:
        super().__init__()
        self.grid = GRIDS[size >= FINE]
        self.side, self.count = size // self.grid, self.grid**2
        self.fc = nn.Linear(inputs, widths[0] * MAP**2)
        before = (widths[0], *widths[:-1])
        self.convs = nn.ModuleList(map(conv3x3, before, widths))
        self.bns = nn.ModuleList(map(nn.BatchNorm2d, widths))
        self.out = nn.Conv2d(widths[-1], self.side**2 * channels, 1)

    def reconstruct(
        self, encoder: nn.Module, x: Tensor, visible: Tensor, hidden: Tensor
    ) -> tuple[Tensor, Tensor]:
        """h of the image with zeros, and pixels (B, M, side^2 C) of hidden patches."""
        h = encoder(x * self._shown(x, visible))
        return h, torch.take_along_dim(self(h), hidden[..., None], dim=1)

    def forward(self, h: Tensor) -> Tensor:
        """Pixels of every patch, (B, count, side^2 C)."""
        y = F.relu(self.fc(h)).unflatten(1, (-1, MAP, MAP))
        y = F.interpolate(y, size=(self.grid, self.grid), mode="nearest")
        for conv, bn in zip(self.convs, self.bns, strict=True):
            y = F.relu_(bn(conv(y)))
        return self.out(y).flatten(2).mT

    def _shown(self, x: Tensor, visible: Tensor) -> Tensor:
        """1 for the pixels of visible patches, 0 for hidden ones: (B, 1, H, W)."""
        g, p, rest = self.grid, self.side, x.shape[-1] - self.grid * self.side
        shown = x.new_zeros(len(x), self.count).scatter(1, visible, 1.0)
        pixels = shown.view(-1, 1, g, 1, g, 1).expand(-1, -1, -1, p, -1, p)
        return F.pad(pixels.reshape(-1, 1, g * p, g * p), (0, rest, 0, rest), value=1.0)
