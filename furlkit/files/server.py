"""Server files: the memory of a rule between rounds, such as momentum.

A tensor SLOT.NAME has the shape of the model's tensor NAME; the rule's catalogue entry
lists the slots.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit.files.container.read import Container
from furlkit.files.facts import open_facts


@dataclass(frozen=True)
class ServerFacts:
    """Rule with this memory; round and architecture of the model made with it."""

    rule: str
    round: int
    architecture: dict[str, Any]


def open_server(path: Path) -> tuple[Container, ServerFacts]:
    """Open the state of a server and check the header, without reading tensors."""
    return open_facts(path, "server", ServerFacts)
