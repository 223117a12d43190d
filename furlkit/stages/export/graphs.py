"""The encoder as a graph for other programs: ONNX, and torch.export's .pt2.

Both graphs accept any number of images. Both are compared with the encoder on random
images before export writes a file. The files contain no paths, no time stamps and no pickles.
"""

import io
import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from furlkit.errors import FurlkitError, UsageError

ONNX = "model.onnx"
TORCH_EXPORT = "model.pt2"
MARK = "furlkit export"  # In every graph that export writes, before the model's hash.
TOLERANCE = 1e-3  # Of the largest value of h; a float32 runtime differs by about 1e-6.
Shape = tuple[int, int, int]  # Channels, height, width.


def check_packages() -> None:
    """Refuse --onnx without the packages of the extra."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        if find_spec(name) is None:
            raise UsageError(
                f"--onnx: {name} is not installed; run pip install 'furlkit[onnx]'"
            )


def onnx_graph(net: nn.Module, shape: Shape, content: str) -> tuple[bytes, float]:
    """Bytes of the ONNX file, and the largest difference from the net's h."""
    import onnxruntime

    program = _traced("--onnx", lambda: _onnx_program(net, shape))
    _strip(program.model)
    program.model.metadata_props["furlkit"] = f"{MARK} {content}"
    data = program.model_proto.SerializeToString(deterministic=True)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])

    def h_of(images: Tensor) -> np.ndarray:
        return session.run(["h"], {"images": images.numpy()})[0]

    return data, _difference("--onnx", net, h_of, shape)


def _onnx_program(net: nn.Module, shape: Shape) -> Any:
    return torch.onnx.export(
        net, (_zeros(shape),), dynamo=True, verbose=False, dynamic_shapes=_any_batch(),
        input_names=["images"], output_names=["h"],
    )  # fmt: skip


def torch_export_graph(
    net: nn.Module, shape: Shape, content: str
) -> tuple[bytes, float]:
    """Bytes of the .pt2 file, and the largest difference from the net's h."""
    program = _traced(
        "--torch-export",
        lambda: torch.export.export(net, (_zeros(shape),), dynamic_shapes=_any_batch()),
    )
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # Paths of this machine.
    program.example_inputs = None  # torch would write the zeros as a pickle.
    stream = io.BytesIO()
    torch.export.save(program, stream, extra_files={"furlkit": f"{MARK} {content}"})
    stream.seek(0)
    loaded = torch.export.load(stream).module()

    def h_of(images: Tensor) -> np.ndarray:
        return loaded(images).numpy()

    return stream.getvalue(), _difference("--torch-export", net, h_of, shape)


def _zeros(shape: Shape) -> Tensor:
    # torch.export fixes the size of a batch of one image.
    return torch.zeros(2, *shape)


def _any_batch() -> Any:
    return ({0: torch.export.Dim("batch")},)


def _traced(option: str, trace: Callable[[], Any]) -> Any:
    """Trace a net; torch reports a failure by many kinds of errors."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)  # torch's notes about operators of torchvision.
    try:
        with torch.no_grad():
            return trace()
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise FurlkitError(
            f"{option}: torch cannot trace this encoder for any number of images "
            f"({type(error).__name__}: {reason}); export without {option}"
        ) from error
    finally:
        logging.disable(level)


def _strip(model: Any) -> None:
    """Remove torch's notes about source lines, which contain paths."""
    graph = model.graph
    outputs = (value for node in graph for value in node.outputs)
    values = (*graph.inputs, *graph.initializers.values(), *outputs)
    for each in (model, graph, *graph, *values):
        each.metadata_props.clear()


@torch.no_grad()
def _difference(
    option: str, net: nn.Module, h_of: Callable[[Tensor], np.ndarray], shape: Shape
) -> float:
    """Largest difference in h of random images, in batches of 1 and 3."""
    generator = torch.Generator().manual_seed(0)
    worst = 0.0
    for size in (1, 3):
        images = torch.randn(size, *shape, generator=generator)
        h = net(images).numpy()
        found = float(np.abs(h_of(images) - h).max())
        if not found <= TOLERANCE * float(np.abs(h).max()):
            raise FurlkitError(
                f"{option}: h of the graph differs from h of the encoder by {found:.3g} "
                "on random images; nothing is written"
            )
        worst = max(worst, found)
    return worst
