"""export: the bare encoder, for use without furlkit."""

import json
import re
from contextlib import ExitStack, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import torch

from furlkit.errors import FurlkitError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.header import Header
from furlkit.files.container.read import open_kind
from furlkit.files.container.write import write
from furlkit.files.metrics import read_json
from furlkit.files.pretrained import CONFIG, WEIGHTS
from furlkit.inputs.declared import by_role
from furlkit.models.description import Architecture, architecture_of
from furlkit.models.libraries import (
    has_fixed_size,
    name_of,
    timm_layers,
    torchvision_changes,
    torchvision_options,
)
from furlkit.models.loading import fitting_net, load_net
from furlkit.stages.export.card import (
    CARD,
    Sources,
    check_licence,
    is_own_card,
    model_card,
    read_scores,
    read_uploads,
)
from furlkit.stages.export.graphs import (
    MARK,
    ONNX,
    TORCH_EXPORT,
    check_packages,
    onnx_graph,
    torch_export_graph,
)
from furlkit.weights import below

# torchvision's networks that timm also has, with equal tensors.
SHARED = re.compile(r"(wide_)?resne(t|xt)\d")
GRAPHS = {ONNX: "onnx", TORCH_EXPORT: "torch_export"}  # Files by option.
OWN = ("cnn5", "resnet18", "resnet34", "resnet50")


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Write an encoder's tensors under the library's names, and a description.

    `output`: a folder with model.safetensors, config.json, the model card and, on
    request, graphs, in Hugging Face's form. The weights are written last.
    """
    output = values["output"]
    _check_options(values)
    model = read_checkpoint(values["model"])
    fitting_net(model)
    scores = read_scores(model, values["metrics"])
    uploads = read_uploads(model, values["upload"])
    a, facts = architecture_of(model.path, model.facts), _facts(model)
    weights, differences = output / WEIGHTS, {}
    if not values["dry_run"]:
        graphs = _graphs(model, a, values)
        differences = {name: found for name, (_, found) in graphs.items()}
        config = {**facts, **_timm_config(a, facts), "how_to_load": _how_to_load(a)}
        sources = Sources(values["license"] or "", scores, uploads, differences)
        card = model_card(model, a, config, sources)
        text = json.dumps(config, indent=2, sort_keys=True) + "\n"
        files = {name: data for name, (data, _) in graphs.items()}
        _write(output, {**files, CARD: card.encode(), CONFIG: text.encode()})
        contents = by_role("export", model=model)
        header = Header("encoder", "export", {}, None, contents, facts)
        encoder = below("encoder.", model.tensors)
        facts = {**facts, "content": write(weights, encoder, header)}
    line = f"{weights}: {a.encoder}, h has {a.feature_dim}"
    if model.facts.role == "client":
        line += f"; the upload of client {model.facts.client}, not the global model"
    if a.stem == "small":
        line += "; its stem is 3x3 without pooling, config.json says how to load it"
    for name, difference in differences.items():
        line += f"; {name} differs by at most {difference:.1e} on random images"
    return line, {**facts, **({"differences": differences} if differences else {})}


def _check_options(values: dict[str, Any]) -> None:
    """Refuse a wrong licence, missing packages, and files of other programs."""
    check_licence(values["license"] or "")
    if values["onnx"]:
        check_packages()
    names = [CONFIG, WEIGHTS, CARD, *(name for name in GRAPHS if values[GRAPHS[name]])]
    for path in (values["output"] / name for name in names):
        if path.exists() and not _is_own(path):
            raise UsageError(
                f"{path}: furlkit export did not write this file, or somebody edited it; "
                "export does not replace it; choose another -o, or remove the file"
            )


def _graphs(
    model: Checkpoint, a: Architecture, values: dict[str, Any]
) -> dict[str, tuple[bytes, float]]:
    """Graphs by file name: the bytes, and the difference from the encoder."""
    makers = {ONNX: onnx_graph, TORCH_EXPORT: torch_export_graph}
    chosen = [name for name in GRAPHS if values[GRAPHS[name]]]
    if not chosen:
        return {}
    net = load_net(model, torch.device("cpu")).encoder.eval()
    shape = (a.channels, a.image_size, a.image_size)
    return {name: makers[name](net, shape, model.content) for name in chosen}


def _write(output: Path, files: dict[str, bytes]) -> None:
    """Write files; remove graphs of an earlier export, which have other weights."""
    for name in GRAPHS:
        if name not in files and (path := output / name).exists() and _is_own(path):
            path.unlink()
    for name, data in files.items():
        write_bytes(output / name, data)


def _is_own(path: Path) -> bool:
    """Return whether export wrote this file."""
    known = {CONFIG: _is_own_config, WEIGHTS: _is_own_encoder, CARD: is_own_card}
    return known.get(path.name, _is_own_graph)(path)


def _is_own_graph(path: Path) -> bool:
    """Search for export's mark; neither format compresses text."""
    with suppress(OSError, ValueError), ExitStack() as opened:
        stream = opened.enter_context(open(path, "rb"))
        # mmap raises ValueError for an empty file.
        data = opened.enter_context(mmap(stream.fileno(), 0, access=ACCESS_READ))
        return data.find(MARK.encode()) >= 0
    return False


def _is_own_config(path: Path) -> bool:
    with suppress(FurlkitError):
        document = read_json(path)
        return isinstance(document, dict) and "how_to_load" in document
    return False


def _is_own_encoder(path: Path) -> bool:
    with suppress(FurlkitError):
        return open_kind(path, "encoder").header.stage == "export"
    return False


def _facts(model: Checkpoint) -> dict[str, Any]:
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
        **({"reading": model.facts.reading} if model.facts.reading else {}),
        **({"privacy": model.facts.privacy} if model.facts.privacy else {}),
    }


def _timm_config(a: Architecture, facts: dict[str, Any]) -> dict[str, Any]:
    """Return timm's part of config.json: a network of timm's registry, and images.

    timm needs the name of the classifier to omit the classifier for num_classes=.
    """
    shared = ("num_classes", "input_size", "mean", "std")
    fixed = a.encoder.startswith("timm:") and has_fixed_size(a)
    pretrained = {
        **timm_layers(a),
        **{name: facts[name] for name in shared},
        "fixed_input_size": fixed,
        "interpolation": "bilinear",
        "crop_pct": 1.0,
    }
    # timm takes channels and size also from pretrained_cfg, transformers from here.
    arguments: dict[str, Any] = {"width": a.width} if a.encoder == "cnn5" else {}
    arguments |= {"in_chans": a.channels} if a.channels != 3 else {}
    arguments |= {"img_size": a.image_size} if fixed else {}
    return {
        "architecture": _timm_name(a),
        "model_args": arguments,
        "pretrained_cfg": pretrained,
    }


def _timm_name(a: Architecture) -> str:
    """Name in timm's registry; for other networks, a name that timm refuses."""
    if a.encoder == "cnn5" or a.stem == "small":
        return f"furlkit_{a.encoder}"  # See furlkit.models.timm.
    shared = a.encoder.startswith("torchvision:") and SHARED.match(name_of(a))
    known = a.encoder.startswith("timm:") or shared
    return name_of(a) if known else a.encoder


def _how_to_load(a: Architecture) -> list[str]:
    """Lines of Python after which `net` is the encoder, ready for images.

    The lines run in the folder of the export.
    """
    if a.encoder.startswith("timm:"):
        load = 'net = timm.create_model("local-dir:.", pretrained=True)'
        return ["import timm", load, "net.eval()"]
    load = f'net.load_state_dict(load_file("{WEIGHTS}"))'
    if a.encoder == "cnn5":
        lines = [
            "from furlkit.models.encoders import Cnn5",
            f"net = Cnn5(channels={a.channels}, width={a.width})",
        ]
    elif a.encoder.startswith("torchvision:") or a.encoder in OWN:
        lines = _torchvision_lines(a)
    else:
        lines = [
            "from furlkit.models.architecture import Architecture, build",
            f"net = build({a.bare}, None).encoder",
        ]
        load = load.replace("))", "), assign=True)")  # The net has no weights yet.
    return ["from safetensors.torch import load_file", *lines, load, "net.eval()"]


def _torchvision_lines(a: Architecture) -> list[str]:
    """Lines for torchvision's network, with the layers replaced by furlkit."""
    from torchvision import models

    options = torchvision_options(a)
    given = "".join(f", {key}={value!r}" for key, value in options.items())
    with torch.device("meta"):
        net = models.get_model(name_of(a), weights=None, **options)
        changes = torchvision_changes(net, a.channels)
    replaced = {place: f"nn.{layer!r}" for place, layer in changes.items()}
    if a.stem == "small":
        conv = f"nn.Conv2d({a.channels}, 64, 3, padding=1, bias=False)"
        replaced |= {"conv1": conv, "maxpool": "nn.Identity()"}
    return [
        "from torch import nn",
        "from torchvision import models",
        f'net = models.get_model("{name_of(a)}", weights=None{given})',
        *(f"net.{_attribute(place)} = {layer}" for place, layer in replaced.items()),
    ]


def _attribute(place: str) -> str:
    """Python expression of a layer's place: classifier.6 is classifier[6]."""
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", place)
