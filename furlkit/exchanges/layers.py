"""Layer-wise training: a client trains and sends some layers of the encoder only.

Tun et al., "LW-FedSSL: Resource-efficient Layer-wise Federated Self-Supervised Learning",
arXiv 2401.11647. In a stage, clients train one block of the encoder, with the heads; the
other layers stay as received, are in eval mode, and are not in the upload. `aggregate
--complete` takes these layers from the clients' start.

The paper was not at hand in full. In the paper a later block does not exist before its
stage; here every block exists, and later blocks keep their initial weights.
"""

from collections.abc import Iterable
from typing import Any

from furlkit.errors import InputError
from furlkit.exchanges.exchange import Client, Exchange, Setup
from furlkit.exchanges.usage import Values
from furlkit.models.architecture import Net

ENCODER = "encoder."


class Layers(Exchange):
    """The trained layers, by first words of the names of tensors."""

    def __init__(self, values: Values) -> None:
        text = values["train_layers"]
        self.active = bool(text)
        self._layers = tuple(text.split(",")) if text else ()

    def unsent_tensors(self, setup: Setup) -> set[str]:
        """Names of the encoder's other tensors; raise for unknown layers."""
        names = [name for name in setup.net if name.startswith(ENCODER)]
        for layer in self._layers:
            if not any(_within(name, [layer]) for name in names):
                known = {name.split(".")[1]: None for name in names}
                raise InputError(
                    f"{setup.model.path}: --train-layers {layer}: the encoder has no such "
                    f"layer; expected some of {', '.join(known)}"
                )
        return {name for name in names if not _within(name, self._layers)}

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        for name, parameter in net.named_parameters():
            if name.startswith(ENCODER) and not _within(name, self._layers):
                parameter.requires_grad_(False)
        for name, module in net.named_modules():
            own = any(True for _ in module.parameters(recurse=False))
            if name.startswith(ENCODER) and own:
                # training.loop leaves such a module in eval mode.
                module.frozen = not _within(name, self._layers)  # type: ignore
        return {}


def _within(name: str, layers: Iterable[str]) -> bool:
    """Return whether a tensor or module of the encoder belongs to a layer."""
    place = name.removeprefix(ENCODER)
    return any(place == one or place.startswith(f"{one}.") for one in layers)
