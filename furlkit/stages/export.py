"""export: the bare encoder, for those who use it without furlkit."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files import container
from furlkit.files.atomic import write_bytes
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.header import Header
from furlkit.loading import architecture_of


@dataclass(frozen=True)
class Options:
    """`output` is a folder: model.safetensors and config.json."""

    model: Path
    output: Path
    dry_run: bool = False


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Write an encoder's tensors under torchvision's names, and what it takes."""
    model = read_checkpoint(options.model)
    if model.facts.left_out:
        raise InputError(
            f"{model.path}: has no {model.facts.left_out}, without which an encoder "
            "is of no use; export a client's checkpoint"
        )
    prefix = "encoder."
    tensors = {
        name.removeprefix(prefix): array
        for name, array in model.tensors.items()
        if name.startswith(prefix)
    }
    config = _config(model)
    weights = options.output / "model.safetensors"
    if not options.dry_run:
        text = json.dumps(config, indent=2, sort_keys=True) + "\n"
        write_bytes(options.output / "config.json", text.encode())
        made = Provenance("export", inputs={"model": model.content})
        header = Header("encoder", made.stage, {}, None, made.inputs, config)
        config = {
            **config,
            "content": container.write(weights, tensors, header).content,
        }
    line = f"{weights}: {config['architecture']}, h has {config['num_features']}"
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
