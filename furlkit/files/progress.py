"""Progress files: where a long stage had come to, so that it can go on from there."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import FurlkitError
from furlkit.files.container import read as container
from furlkit.files.container.header import canonical
from furlkit.files.facts import Provenance, understand


@dataclass(frozen=True)
class ProgressFacts:
    """The work it belongs to, the steps done, and numbers that go on being summed."""

    key: str
    step: int
    values: dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """A training that was interrupted."""

    step: int
    tensors: dict[str, np.ndarray]
    values: dict[str, Any]


class ProgressFile:
    """The progress file beside an output; `made` says which work it belongs to."""

    def __init__(self, output: Path, made: Provenance):
        self.path = output.with_name(output.name + ".progress")
        self._made = made
        words = [made.stage, made.options, made.seed, made.inputs, output.name]
        self._key = hashlib.sha256(canonical(words).encode()).hexdigest()

    def save(
        self, step: int, tensors: dict[str, np.ndarray], values: dict[str, Any]
    ) -> None:
        """Replace what was saved before."""
        facts = ProgressFacts(self._key, step, values)
        container.write(self.path, tensors, self._made.header("progress", facts))

    def load(self) -> tuple[Progress | None, str | None]:
        """What was saved, if it belongs to this work, and why not, if it is of no use."""
        if not self.path.exists():
            return None, None
        try:
            opened = container.open_kind(self.path, "progress")
            facts = understand(self.path, opened.header, ProgressFacts, ("step",))
            if facts.key != self._key:
                reason = "it belongs to other options or inputs"
                return None, f"{self.path}: {reason}; starting over"
            return Progress(facts.step, opened.tensors(), facts.values), None
        except FurlkitError as error:
            return None, f"{error}; starting over"

    def discard(self) -> None:
        """The work is done."""
        self.path.unlink(missing_ok=True)
