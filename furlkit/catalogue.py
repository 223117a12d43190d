"""What can be chosen by name, and every option: declared here, once, without torch.

An entry says what a method is called, where its function lies, which heads it trains,
which options it reads and what files pass through it. The command line makes its flags,
help and checks of it, files record options by it, and the README's table is made of it.

Other packages add entries through the entry-point groups `furlkit.objectives`,
`furlkit.encoders` and `furlkit.datasets`; see `plugins`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any, TypeVar

from furlkit import console
from furlkit.errors import UsageError

# --- kinds of values ------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """A real number within bounds; `above` and `below` exclude the bound itself."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None


@dataclass(frozen=True)
class Whole:
    """A whole number within bounds."""

    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Choice:
    """One of several words."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Numbers:
    """Numbers with commas between them, `count` of them if it is given: 0.2,1."""

    whole: bool = False
    count: int | None = None


@dataclass(frozen=True)
class Flag:
    """On or off; with `negative` there is a --no-NAME too."""

    negative: bool = False


@dataclass(frozen=True)
class File:
    """The path of a file or folder."""


@dataclass(frozen=True)
class Text:
    """Words that the stage itself reads; `metavar` shows their form."""

    metavar: str = "TEXT"


@dataclass(frozen=True)
class Clients:
    """Clients by number: 3, 0-4, 0,2,5-7."""


Kind = Number | Whole | Choice | Numbers | Flag | File | Text | Clients

# --- entries --------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """One option: its flag without dashes, its kind, default and help.

    `recorded` options decide the bytes of an output and go into its header. `short` is a
    second flag (-o), `variable` the name in Python where the flag's own is taken.
    """

    name: str
    kind: Kind
    default: Any = None
    help: str = ""
    required: bool = False
    multiple: bool = False
    recorded: bool = True
    metavar: str = ""
    short: str = ""
    variable: str = ""

    @property
    def key(self) -> str:
        """The option's name in Python."""
        return self.variable or self.name.replace("-", "_")


@dataclass(frozen=True)
class Group:
    """Options that stand together in --help."""

    title: str
    options: tuple[Option, ...]


@dataclass(frozen=True)
class Head:
    """A head: what it reads (h, or the projector's z), its form and usual widths.

    `form` is mlp (widths of its layers, the last one its output), linear (one width) or
    decoder (none). A head that reads z must give back something of z's width.
    """

    name: str
    reads: str = "h"
    form: str = "mlp"
    widths: tuple[int, ...] = ()
    help: str = ""


@dataclass(frozen=True)
class Objective:
    """What one batch minimises.

    `step` names a function `step(net, batch, **options) -> Forward`; a method that
    carries state has a `learner` instead, `learner(net, **options) -> Learner`. With
    `negatives` it takes rows of other clients as `z_dict`, with `labels` it sees labels.
    """

    name: str
    help: str
    heads: tuple[str | Head, ...]
    step: str = ""
    learner: str = ""
    options: tuple[Option, ...] = ()
    labels: bool = False
    negatives: bool = False
    paper: str = ""
    equation: str = ""

    @property
    def function(self) -> str:
        """Where its function lies, module:name."""
        return self.learner or self.step

    @property
    def head_names(self) -> tuple[str, ...]:
        """The heads it trains."""
        return tuple(h if isinstance(h, str) else h.name for h in self.heads)


@dataclass(frozen=True)
class Term:
    """What is added to any objective; `switch` is the option that turns it on."""

    name: str
    help: str
    function: str
    switch: str
    options: tuple[Option, ...]
    paper: str = ""
    equation: str = ""


@dataclass(frozen=True)
class Update:
    """What a client starts a round from: update(w_g, w_k, memory, **options).

    With `own` it needs w_k, the client's weights after its last round, which the client
    then keeps in its private file.
    """

    name: str
    help: str
    function: str
    options: tuple[Option, ...] = ()
    own: bool = False
    paper: str = ""
    equation: str = ""


@dataclass(frozen=True)
class Rule:
    """What the server makes of uploads of one `kind`: checkpoint, rows or similarity."""

    name: str
    help: str
    function: str
    reads: str
    options: tuple[Option, ...] = ()
    paper: str = ""
    equation: str = ""


@dataclass(frozen=True)
class Encoder:
    """A network that gives h: `function` builds it from an Architecture."""

    name: str
    function: str
    features: int
    scales: bool = False  # Whether --width applies.
    stems: bool = False  # Whether --stem applies.


Entry = TypeVar("Entry", Objective, Update, Term, Rule, Encoder, Head)


def _named(entries: Iterable[Entry]) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries}


# --- the methods that come with furlkit -----------------------------------------------

SIMCLR = 'Chen et al. 2020, "A Simple Framework for Contrastive Learning"'
FEDCA = 'Zhang et al. 2020, "Federated Unsupervised Representation Learning"'
FLESD = 'Shi et al. 2021, "Communication-Efficient Federated Representation Learning"'
FEDPROX = 'Li et al. 2020, "Federated Optimization in Heterogeneous Networks"'
FEDAVG = 'McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks"'
ROTNET = 'Gidaris et al. 2018, "Predicting Image Rotations"'

# Weights are drawn in this order, so a new head goes to the end.
HEADS = _named(
    (
        Head("projector", widths=(512, 128), help="Widths of the projector's layers."),
        Head(
            "predictor",
            reads="z",
            widths=(512, 128),
            help="Widths of the predictor's layers.",
        ),
        Head("decoder", form="decoder"),
        Head("classifier", form="linear"),
        Head("rotation", form="linear", widths=(4,)),
    )
)

OBJECTIVES = _named(
    (
        Objective(
            "simclr",
            "contrast of two views (NT-Xent)",
            heads=("projector",),
            step="furlkit.objectives.simclr:step",
            options=(
                Option("temperature", Number(above=0), 0.5, "tau of the contrast."),
                Option(
                    "form",
                    Choice(("oneway", "symmetric", "full")),
                    "full",
                    "View 1 against view 2, both ways, or all 2N views.",
                ),
            ),
            negatives=True,
            paper=SIMCLR,
            equation="SimCLR Eq. 1, FedCA Eq. 3; `--form oneway` is FedCA Eq. 4-8",
        ),
        Objective(
            "rotation",
            "which quarter turn an image was given",
            heads=("rotation",),
            step="furlkit.objectives.rotation:step",
            paper=ROTNET,
            equation="Gidaris et al. Eq. 2-3",
        ),
        Objective(
            "autoencoder",
            "reconstruction through a decoder",
            heads=("decoder",),
            step="furlkit.objectives.autoencoder:step",
            equation="squared error",
        ),
        Objective(
            "supervised",
            "cross-entropy on labels",
            heads=("classifier",),
            step="furlkit.objectives.supervised:step",
            labels=True,
            paper=FEDAVG,
            equation="cross-entropy",
        ),
    )
)

TERMS = _named(
    (
        Term(
            "proximal",
            "the weights stay near the global model's",
            "furlkit.terms.proximal:proximal",
            switch="proximal",
            options=(
                Option(
                    "proximal",
                    Number(low=0),
                    0.0,
                    "mu of (mu/2) ||w - w_global||^2; 0 turns it off.",
                ),
            ),
            paper=FEDPROX,
            equation="FedProx Eq. 2, with the half",
        ),
        Term(
            "alignment",
            "h and z of public images stay near those of a common model",
            "furlkit.terms.alignment:alignment",
            switch="align",
            options=(
                Option(
                    "align",
                    File(),
                    help="h and z of public images by the alignment model, as "
                    "pretrain-align writes them.",
                    recorded=False,
                    metavar="TARGETS",
                ),
                Option(
                    "align-data",
                    Text("NAME|PATH"),
                    help="The public images that the targets were made from.",
                    recorded=False,
                ),
                Option(
                    "align-split",
                    Choice(("train", "test")),
                    help="Which split of a dataset known by name.  [default: train]",
                    recorded=False,
                ),
                Option("beta", Number(low=0), 0.01, "Weight of the term."),
                Option(
                    "align-reduction",
                    Choice(("sum", "mean")),
                    "sum",
                    "Over the public images of a step.",
                ),
                Option(
                    "align-batch-size", Whole(1), 128, "Public images of each step."
                ),
            ),
            paper=FEDCA,
            equation="FedCA Eq. 11-14",
        ),
    )
)

UPDATES = _named(
    (
        Update(
            "replace",
            "the global model",
            "furlkit.updates.replace:replace",
            paper=FEDAVG,
        ),
        Update(
            "keep",
            "the client's own model, given in place of GLOBAL",
            "furlkit.updates.keep:keep",
            paper=FLESD,
        ),
    )
)

DICTIONARY_SIZE = Option("dictionary-size", Whole(1), 1024, "K, its number of rows.")

RULES = _named(
    (
        Rule(
            "mean",
            "the weighted mean of models",
            "furlkit.aggregators.mean:mean",
            reads="checkpoint",
            options=(
                Option(
                    "weights",
                    Text("examples|uniform|FILE.json"),
                    "examples",
                    'By number of images, equal, or given as {"CLIENT": WEIGHT}.',
                ),
                Option(
                    "bn",
                    Choice(("average", "keep")),
                    "average",
                    "BatchNorm statistics are averaged, or left out for clients to keep.",
                ),
            ),
            paper=FEDAVG,
            equation="FedAvg; FedCA Eq. 2",
        ),
        Rule(
            "dictionary",
            "the rows that clients share, one after the other",
            "furlkit.aggregators.dictionary:dictionary",
            reads="rows",
            options=(DICTIONARY_SIZE,),
            paper=FEDCA,
            equation="FedCA Eq. 4-8, Algorithm 1",
        ),
        Rule(
            "ensemble",
            "what the clients' models find similar among public images",
            "furlkit.aggregators.similarity:ensemble",
            reads="similarity",
            options=(
                Option(
                    "temperature", Number(above=0), 0.1, "tau_T of exp(cosine / tau_T)."
                ),
                Option(
                    "matrix",
                    Flag(),
                    False,
                    "Write the n x n matrix instead of what it is computed from.",
                ),
            ),
            paper=FLESD,
            equation="FLESD Eq. 4-6",
        ),
    )
)

# What a client shares for others to use as negatives.
SHARING = Group(
    "Sharing rows (FedCA's dictionary)",
    (
        Option(
            "dictionary",
            File(),
            help="Rows that are negatives for every image; aggregate --rule dictionary "
            "writes them.",
            recorded=False,
        ),
        Option(
            "leave-own-out",
            Flag(),
            False,
            "Leave the client's own rows of the dictionary out.",
        ),
        Option(
            "features-out",
            Text("FILE"),
            help="Where to write the rows that the client shares, ceil(K / m) rows of "
            "its averaged features Z; may hold {client}.",
            recorded=False,
        ),
        Option(
            "alpha",
            Number(low=0, below=1),
            0.5,
            "Z <- alpha Z + (1 - alpha) z; 0 shares z alone.",
        ),
        DICTIONARY_SIZE,
        Option(
            "participants",
            Whole(1),
            help="m, the clients of the round.  [default: all of the partition]",
        ),
    ),
)

ENCODERS = _named(
    (
        Encoder("cnn5", "furlkit.models.encoders:cnn5", 2048, scales=True),
        Encoder("resnet18", "furlkit.models.encoders:resnet", 512, stems=True),
        Encoder("resnet34", "furlkit.models.encoders:resnet", 512, stems=True),
        Encoder("resnet50", "furlkit.models.encoders:resnet", 2048, stems=True),
    )
)

# --- looking up -----------------------------------------------------------------------


def load(function: str) -> Any:
    """The function at module:name; this is where torch gets imported."""
    return resolve_name(function)


@cache
def plugins(group: str) -> dict[str, Any]:
    """Entries that other installed packages add: furlkit.objectives and so on.

    A package whose entry cannot be loaded is reported and left out, so that one broken
    installation does not stop every command.
    """
    from importlib.metadata import entry_points

    found = {}
    for point in entry_points(group=group):
        try:
            entry = point.load()
        except Exception as error:
            console.warn(f"{point.value}: cannot load this {group} entry: {error}")
            continue
        found[entry.name] = entry
    return found


def _with_plugins(own: dict[str, Entry], group: str) -> dict[str, Entry]:
    more = plugins(group)
    for name in own.keys() & more.keys():
        raise UsageError(
            f"{name}: an installed package adds this name to {group}, which furlkit has "
            "already; uninstall or rename it"
        )
    return {**own, **more}


def objectives() -> dict[str, Objective]:
    """All objectives, those of other packages included."""
    return _with_plugins(OBJECTIVES, "furlkit.objectives")


def encoders() -> dict[str, Encoder]:
    """All encoders, those of other packages included."""
    return _with_plugins(ENCODERS, "furlkit.encoders")


@cache
def heads() -> dict[str, Head]:
    """All heads: furlkit's, then those that objectives of other packages bring."""
    found = dict(HEADS)
    for objective in plugins("furlkit.objectives").values():
        for head in objective.heads:
            if isinstance(head, Head):
                found.setdefault(head.name, head)
    return found


def settings_of(
    options: Iterable[Option], given: Mapping[str, Any], owner: str
) -> dict[str, Any]:
    """An entry's options by key: the values given, defaults where they are None.

    `owner` is the choice they belong to, as "--objective simclr".
    """
    known = {option.key: option for option in options}
    for key, value in given.items():
        if value is not None and key not in known:
            flag = key.replace("_", "-")
            raise UsageError(f"--{flag} does not apply to {owner}")
    return {
        key: option.default if given.get(key) is None else given[key]
        for key, option in known.items()
    }
