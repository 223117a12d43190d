"""FedStyle's nets beside the content model: the style model, the generator G.

h_c    the representation of an image by the content model, which is averaged
h_s    by the client's own style model
G      (h_c, h_s) -> h', as long as h_c
"""

from dataclasses import replace

from furlkit.files.checkpoint import Checkpoint
from furlkit.models.architecture import Architecture
from furlkit.models.loading import full_architecture

STYLE = (
    "style."  # What a private file puts before the names of the style model's tensors.
)


def style_architecture(
    model: Checkpoint, projector: tuple[int, ...] | None = None
) -> Architecture:
    """The encoder of the content model, with a projector of its own or without one."""
    whole = full_architecture(model.path, model.facts)
    heads = {"projector": projector} if projector else {}
    return replace(whole, heads=heads, projector_norm="hidden")
