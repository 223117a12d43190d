"""Progress files: the state of an unfinished stage, to resume from."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.atomic import OWNER
from furlkit.files.container.header import canonical
from furlkit.files.container.read import Tensors
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, open_facts


@dataclass(frozen=True)
class ProgressFacts:
    """Key of the work, number of finished steps, and running sums.

    `tensors` is a hash of names, types and shapes: an optimiser has a tensor for a
    parameter only after a step that moved the parameter, and readers cannot know which.
    `secret`: fingerprint of the secret for draws of the site.
    """

    key: str
    step: int
    values: dict[str, Any]
    tensors: str
    secret: str | None = None


class Progress(NamedTuple):
    """An interrupted training."""

    step: int
    tensors: dict[str, np.ndarray]
    values: dict[str, Any]


class ProgressFile:
    """Progress file beside an output; `provenance` identifies the work.

    Only the `versions` that wrote the file resume it: other versions round differently,
    and may name tensors differently.
    """

    def __init__(
        self,
        output: Path,
        provenance: Provenance,
        versions: Mapping[str, str] = MappingProxyType({}),
    ):
        self.path = progress_of(output)
        self._provenance, self._output = provenance, output
        self._versions = dict(versions)

    @cached_property
    def _key(self) -> str:
        how = self._provenance
        work = how.stage, how.options, how.seed, how.inputs
        known = [*work, self._output.name, self._versions]
        return hashlib.sha256(canonical(known).encode()).hexdigest()

    def save(self, step: int, tensors: Tensors, values: dict[str, Any]) -> None:
        """Replace the saved state, which may contain the client's private state."""
        how = self._provenance
        facts = ProgressFacts(self._key, step, values, _table_hash(tensors), how.secret)
        write(self.path, tensors, how.header("progress", facts), OWNER)

    def load(self) -> tuple[Progress | None, str | None]:
        """Return the saved state; or None, and why an existing file is not used."""
        if not self.path.exists():
            return None, None
        try:
            opened, facts = open_facts(self.path, "progress", ProgressFacts)
            if facts.key != self._key:
                why = "belongs to different options, inputs or versions"
                raise InputError(f"{self.path}: {why}")
            tensors = opened.tensors()
            if facts.tensors != _table_hash(tensors):
                why = "cannot be resumed: the tensors are not the saved tensors"
                raise InputError(f"{self.path}: {why}")
        except FurlkitError as error:
            return None, f"{error}; starting over"
        return Progress(facts.step, tensors, facts.values), None

    def discard(self) -> None:
        """Delete the file at the end of the work."""
        self.path.unlink(missing_ok=True)


def progress_of(output: Path) -> Path:
    """Path of the progress file of an output."""
    return output.with_name(output.name + ".progress")


def _table_hash(tensors: Mapping[str, np.ndarray]) -> str:
    table = sorted((name, a.dtype.name, a.shape) for name, a in tensors.items())
    return hashlib.sha256(canonical(table).encode()).hexdigest()
