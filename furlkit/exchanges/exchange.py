"""The interface between local-train and the exchanges.

local-train makes every exchange of the catalogue from the values of the command line,
keeps the active exchanges, and calls in this order

    open(setup)                     once
    new_parts, start, contents      for every client; first a check of the clients,
    check(client)                   up to this call
    begin(client, net)              -> inputs of the learner and of terms
    jobs(client, job, twin)         -> the trainings
    finish(client, trained)         -> parts and memory for the private file

An exchange serves one client at a time and may keep data of this client in attributes.
The options of the catalogue entry declare the files; an exchange that writes a file puts
the content hash into `Trained.results`, by the role of the declaration.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from furlkit import catalogue
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.exchanges.usage import Values
from furlkit.exchanges.usage import is_asked_for as is_asked_for  # For plugins.
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.container.read import Container, Readable
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts
from furlkit.files.partition import Partition
from furlkit.files.private import Private
from furlkit.files.secret import origin_of_draws, site_secret
from furlkit.inputs.paths import fill
from furlkit.inputs.publishing import is_site
from furlkit.inputs.sites import images_of
from furlkit.models.architecture import Net
from furlkit.models.description import Architecture
from furlkit.models.loading import view_of
from furlkit.training.loop import Epoch, Job, Purpose
from furlkit.training.plan import Plan
from furlkit.training.run import Jobs
from furlkit.updates.decision import Decision
from furlkit.weights import Tensors


@dataclass(frozen=True)
class Setup:
    """Values common to the clients of a run.

    `net` and `learner` have the expected tensors of net and learner by name. `parent` is
    the content hash of the received model. `tell` names the facts about the client's
    images that an upload may contain. `received`: files that --signers has checked.
    """

    partition: Partition | None
    model: Checkpoint
    architecture: Architecture
    images: ImageSet
    net: dict[str, Tensor]
    learner: dict[str, Tensor]
    clients: tuple[ClientId, ...]
    round: int
    parent: str | None
    plan: Plan
    seed: int
    tell: tuple[str, ...]
    device: torch.device
    channels_last: bool
    received: Mapping[Path, Container]

    def readable(self, path: Path) -> Readable:
        """The received file that --signers has checked, otherwise the path."""
        return self.received.get(path, path)

    def index_of(self, client: ClientId) -> np.ndarray:
        """Positions of a client's images in the dataset."""
        return images_of(client, self.partition, self.images)

    def is_site(self, client: ClientId) -> bool:
        """Return whether a client is a site, with protected headers and draws."""
        return is_site(client, self.partition)

    def plain_view(self, channels_last: bool = False) -> Any:
        """The view of images without augmentation."""
        return view_of(self.model, Augmentation(), channels_last)


@dataclass(frozen=True)
class Client:
    """A client at the start of a round.

    `received` is the global model, completed by parts of the private file. The update
    turns `received` into `tensors`, the start of training. `last` has the client's
    weights after the last round, or nothing. `memory` is the memory of methods. `carried`
    are unchanged tensors of the private file. `work` is the provenance of files that stay
    at the client; the provenance of a site names the site's images.
    """

    number: ClientId
    index: np.ndarray
    private: Private | None
    purpose: Purpose
    received: Tensors
    tensors: Tensors
    last: Tensors
    memory: Tensors
    carried: Tensors
    decision: Decision | None
    provenance: Provenance
    work: Provenance


@dataclass
class Trained:
    """A client after training; `learner` trained the copy of the global model.

    An exchange may replace `sent`, the learner of the upload, together with the `last`
    epoch and the `losses`. `results` go to the output of the command.
    """

    learner: Any
    sent: Any
    last: Epoch
    losses: dict[str, float]
    results: dict[str, Any] = field(default_factory=dict)


class Kept(NamedTuple):
    """Tensors for the private file: parts of models, and memory."""

    parts: Tensors
    memory: Tensors


class Exchange(Protocol):
    """An exchange in a run of local-train; every method has a default."""

    active: bool = True
    # Parts of models: trained with the net; sent with the net; kept while inactive.
    trains: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    # First words of the names of the memory that `finish` returns.
    memory: tuple[str, ...] = ()

    def __init__(self, values: Values) -> None:
        """Read the options; `check` of the catalogue entry has checked the options."""

    def open(self, setup: Setup) -> None:
        """Open the clients' inputs and compare the inputs with the model."""

    def extend(self, learner: Any, architecture: Architecture) -> None:
        """Add modules to train with the net."""

    def own_tensors(self, setup: Setup) -> dict[str, Tensor]:
        """Tensors of a private file for this exchange only."""
        return {}

    def kept_tensors(self, setup: Setup) -> set[str]:
        """Names of the learner's tensors that stay at the client, of any part."""
        return set()

    def unsent_tensors(self, setup: Setup) -> set[str]:
        """Names of the net's tensors that the client neither trains, sends nor keeps."""
        return set()

    def new_parts(self, client: ClientId, start: Tensors) -> Tensors:
        """Draw parts missing in `start`, the model of a client's first round."""
        return {}

    def start(self, client: Client) -> None:
        """Open and check the client's files, before training."""

    def check(self, client: Client) -> None:
        """Raise or warn once per client, before the first training."""

    def contents(self) -> dict[str, str]:
        """Content hashes of files with `chosen` in the declaration, by role.

        local-train records the other files by the declarations.
        """
        return {}

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        """Inputs of the learner and of terms; `net` has the weights before training."""
        return {}

    def jobs(
        self, client: Client, job: Job, twin: Callable[[Tensors], Job]
    ) -> Job | Jobs | None:
        """Trainings instead of `job`; `twin` makes an equal job for a second model."""
        return None

    def finish(self, client: Client, trained: Trained) -> Kept:
        """Write the shared files; return the tensors for the private file."""
        return Kept({}, {})


def shared_rows_facts(setup: Setup, client: Client, rows: int) -> FeatureFacts:
    """Facts of rows that a client shares; the header does not name the images."""
    number, parent, run = client.number, setup.parent, setup.model.facts.run
    return FeatureFacts(
        "z", {}, str(number), number, setup.round, rows, parent=parent, run=run
    )


def protected_purpose(
    setup: Setup, client: Client, secret: str | None, what: str
) -> Purpose:
    """Purpose of draws that protect shared data: by the secret, else by the seed.

    A site may use a secret in many runs, with other draws for every model received.
    """
    purpose = what, setup.round, client.number
    if not secret:
        return setup.seed, *purpose
    origin = origin_of_draws(setup.model.facts.run, setup.parent)
    return site_secret(fill(secret, client.number)), *purpose, *origin


def make_exchanges(values: Values) -> dict[str, Exchange]:
    """Make the exchanges of the catalogue by name, active or not."""
    entries = catalogue.exchanges().items()
    return {name: catalogue.load(entry.function)(values) for name, entry in entries}
