"""export: the bare encoder, for those who use it without furlkit."""

import json
from typing import Any

from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.header import Header
from furlkit.files.container.write import write
from furlkit.models.loading import architecture_of, fitting_net
from furlkit.weights import below


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Write an encoder's tensors under torchvision's names, and what it takes.

    `output` is a folder: model.safetensors and config.json.
    """
    model, output = read_checkpoint(values["model"]), values["output"]
    if not model.facts.statistics:
        raise InputError(
            f"{model.path}: has no BatchNorm statistics, without which an encoder cannot "
            "be used; export a client's checkpoint"
        )
    fitting_net(model)
    config = _config(model)
    weights = output / "model.safetensors"
    if not values["dry_run"]:
        document = {**config, "how_to_load": _how_to_load(model)}
        text = json.dumps(document, indent=2, sort_keys=True) + "\n"
        write_bytes(output / "config.json", text.encode())
        contents = {"model": model.content}
        header = Header("encoder", "export", {}, None, contents, config)
        encoder = below("encoder.", model.tensors)
        config["content"] = write(weights, encoder, header)
    line = f"{weights}: {config['architecture']}, h has {config['num_features']}"
    if config["stem"] == "small":
        line += "; its stem is 3x3 without pooling, config.json says how to load it"
    return line, config


def _config(model: Checkpoint) -> dict[str, Any]:
    a = architecture_of(model.path, model.facts)
    return {
        "architecture": a.encoder,
        "width": a.width,
        "stem": a.stem,
        "num_classes": 0,
        "num_features": a.feature_dim,
        "input_size": [a.channels, a.image_size, a.image_size],
        "mean": model.facts.mean,
        "std": model.facts.std,
        "round": model.facts.round,
    }


def _how_to_load(model: Checkpoint) -> list[str]:
    """Lines of Python after which `net` is the encoder, ready for images."""
    a = architecture_of(model.path, model.facts)
    lines = ["from safetensors.torch import load_file"]
    if a.encoder == "cnn5":
        lines += [
            "from furlkit.models.encoders import Cnn5",
            f"net = Cnn5(channels={a.channels}, width={a.width})",
        ]
    else:
        lines += [
            "from torch import nn",
            f"from torchvision.models import {a.encoder}",
            f"net = {a.encoder}()",
            "net.fc = nn.Identity()",
        ]
        if a.stem == "small":
            conv = f"nn.Conv2d({a.channels}, 64, 3, padding=1, bias=False)"
            lines += [f"net.conv1 = {conv}", "net.maxpool = nn.Identity()"]
        elif a.channels != 3:
            conv = f"nn.Conv2d({a.channels}, 64, 7, stride=2, padding=3, bias=False)"
            lines += [f"net.conv1 = {conv}"]
    load = 'net.load_state_dict(load_file("model.safetensors"))'
    return [*lines, load, "net.eval()"]
