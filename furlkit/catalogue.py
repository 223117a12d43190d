"""What can be chosen by name, and every option: declared here, once, without torch.

An entry says what a method is called, where its function lies, which heads it trains,
which options it reads and what files pass through it. A command lists the groups of its
options. The flags, the groups of --help, the checks of what applies to what, the options
that a file records and the README's table of methods are all made from these entries.

Other packages add entries through the entry-point groups `furlkit.objectives`,
`furlkit.encoders` and `furlkit.datasets`; see `add_plugins`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import Any, NamedTuple, TypeVar

from furlkit import console
from furlkit.errors import UsageError

# --- kinds of values ------------------------------------------------------------------


class Number(NamedTuple):
    """A real number within bounds; `above` and `below` exclude the bound itself."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None


class Whole(NamedTuple):
    """A whole number within bounds."""

    low: int | None = None
    high: int | None = None


class Choice(NamedTuple):
    """One of several words; a function gives those that other packages may add to."""

    names: "tuple[str, ...] | Callable[[], Iterable[str]]"

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.names() if callable(self.names) else self.names)


class Numbers(NamedTuple):
    """Numbers with commas between them, `length` of them if it is given: 0.2,1.

    None of them is below `low`.
    """

    whole: bool = False
    length: int | None = None
    low: int | None = None


class Flag(NamedTuple):
    """On or off; with `negative` there is a --no-NAME too."""

    negative: bool = False


class File(NamedTuple):
    """The path of a file or folder; one that is `written` must not be a folder."""

    written: bool = False


class Text(NamedTuple):
    """Words that the stage itself reads; `metavar` shows their form."""

    metavar: str = "TEXT"


class Clients(NamedTuple):
    """Clients, or rounds, by number: 3, 0-4, 0,2,5-7."""


class Labelled(NamedTuple):
    """A label and files: LABEL=FILE,FILE,...; one file where not `several`.

    A file may be a pattern, like exp/seed*, or the folder of a run.
    """

    several: bool = True


Kind = Number | Whole | Choice | Numbers | Flag | File | Text | Clients | Labelled

# --- entries --------------------------------------------------------------------------


class Option(NamedTuple):
    """One option: its flag without dashes, its kind, default and help.

    `recorded` options decide the bytes of an output and go into its header. `needs` names
    the option without which this one does not apply: "features-out", or with the value
    it must have, "optimiser=sgd"; `replaces` one that does not apply beside this. `usual`
    describes a default that the inputs decide.
    `second` is a second flag (-o, --share), `variable` the name in Python where the
    flag's own is taken. One that is `newer` than files it decides is recorded only where
    it is not the default, so that the same command still makes the same bytes.
    """

    name: str
    kind: Kind
    default: Any = None
    help: str = ""
    required: bool = False
    multiple: bool = False
    recorded: bool = True
    needs: str = ""
    replaces: str = ""
    usual: str = ""
    metavar: str = ""
    second: str = ""
    variable: str = ""
    newer: bool = False

    @property
    def key(self) -> str:
        """The option's name in Python."""
        return self.variable or self.name.replace("-", "_")


class Group(NamedTuple):
    """Options that stand together in --help.

    `choices` are the words that the first of them chooses from, each with its help.
    """

    title: str
    options: tuple[Option, ...]
    choices: tuple[tuple[str, str], ...] = ()

    def varied(self, **defaults: Any) -> "Group":
        """The same options, some with another default."""
        return self._replace(options=_varied(self.options, defaults))

    def without(self, *keys: str) -> "Group":
        """The same options, less some."""
        kept = tuple(option for option in self.options if option.key not in keys)
        return self._replace(options=kept)


def group(title: str, *options: Option) -> Group:
    """A group of these options."""
    return Group(title, options)


def _varied(options: Iterable[Option], defaults: Mapping[str, Any]) -> tuple:
    return tuple(
        option._replace(default=defaults.get(option.key, option.default))
        for option in options
    )


class Paper(NamedTuple):
    """Where a method comes from; `equation` of an entry counts in it."""

    name: str
    url: str


class Head(NamedTuple):
    """A head: what it reads (h, or the projector's z), its form and usual widths.

    `form` is mlp (widths of its layers, the last one its output), linear (one width),
    prototypes (their number) or decoder (none). An mlp that reads z must give back
    something of z's width.
    """

    name: str
    reads: str = "h"
    form: str = "mlp"
    widths: tuple[int, ...] = ()
    help: str = ""


# Entries are told apart by name. Every command waits for their classes to be made, which
# takes half the time without comparison and text.
@dataclass(frozen=True, eq=False, repr=False)
class Method:
    """Something chosen by name: `function` is where it lies, module:name.

    Its options are passed to the function by their keys. `equation` counts in `paper`.
    """

    name: str
    help: str
    function: str
    options: tuple[Option, ...] = ()
    paper: Paper | None = None
    equation: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Objective(Method):
    """What one batch minimises.

    Its function is a `step(net, batch, **options) -> Forward`; a method that carries
    state has a `learner(net, **options) -> Learner` instead. With `negatives` it takes
    rows of other clients as `z_dict`, and `remote_only` where nothing else is negative;
    with `own_rows` rows of the client's own images as `z_own`; with `labels` it sees
    labels.
    """

    heads: tuple[str | Head, ...] = ()
    labels: bool = False
    negatives: bool = False
    own_rows: bool = False

    @property
    def has_state(self) -> bool:
        """Whether its function gives a learner."""
        return self.function.endswith(":learner")

    @property
    def head_names(self) -> tuple[str, ...]:
        """The heads it trains."""
        return tuple(h if isinstance(h, str) else h.name for h in self.heads)


@dataclass(frozen=True, eq=False, repr=False)
class Term(Method):
    """What is added to any objective; `switch` is the option that turns it on.

    One that `matches_rows` needs an objective with `negatives`, whose step gives `rows`.
    """

    switch: str = ""
    matches_rows: bool = False

    @property
    def group(self) -> Group:
        """Its options, which apply only where the switch is given."""
        options = (
            option if option.name == self.switch else option._replace(needs=self.switch)
            for option in self.options
        )
        return Group(f"{self.name.capitalize()}: {self.help}", tuple(options))


@dataclass(frozen=True, eq=False, repr=False)
class Update(Method):
    """What a client starts a round from: update(w_g, w_k, memory, **options).

    With `own` it needs w_k, the client's weights after its last round, which the client
    then keeps in its private file.
    """

    own: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Method):
    """What the server makes of uploads that it `reads`: checkpoint, rows, similarity."""

    reads: str = "checkpoint"


@dataclass(frozen=True, eq=False, repr=False)
class Scheme(Method):
    """How a dataset's images are partitioned: function(data, clients, rng, **options).

    Where `sizes_vary` between draws, one with a client that is too small is repeated.
    `evened_by` is the option that makes sizes more even when it is raised.
    """

    sizes_vary: bool = False
    evened_by: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Protocol(Method):
    """A way to evaluate: `function` is what it computes, `groups` its own options."""

    groups: "tuple[Group | Family, ...]" = ()


class Mode(NamedTuple):
    """A way to do something: where finetuning takes place, how a probe is fitted."""

    name: str
    help: str
    options: tuple[Option, ...] = ()


class Encoder(NamedTuple):
    """A network that gives h: `function` builds it from an Architecture."""

    name: str
    function: str
    features: int
    scales: bool = False  # Whether --width applies.
    stems: bool = False  # Whether --stem applies.
    help: str = ""

    @property
    def options(self) -> tuple[Option, ...]:
        """Those of --width and --stem that it reads."""
        return (WIDTH,) * self.scales + (STEM,) * self.stems


class Dataset(NamedTuple):
    """A dataset known by name.

    `function(split, root, download=...)` gives images (N, H, W, C) in uint8, labels or
    None, and the names of the classes; `mean` and `std` are for values in [0, 1].
    """

    name: str
    function: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


Entry = TypeVar("Entry", bound="Method | Encoder | Head | Mode | Command")


def _named(*entries: Entry) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries}


class Family(NamedTuple):
    """A choice by name, as --objective, and the entries it chooses from.

    Each entry has options of its own. Where a preset's table serves several calls of a
    command that choose differently it is `mixed`: it has options of several entries.
    """

    name: str
    entries: Callable[[], Mapping[str, Any]]
    default: str
    help: str
    mixed: bool = False

    @property
    def choice(self) -> Option:
        """The option that chooses."""
        kind = Choice(self.entries)
        return Option(self.name, kind, self.default, self.help, metavar="NAME")

    @property
    def options(self) -> tuple[Option, ...]:
        """The options of all entries, each once."""
        return tuple(_merged(found) for found in self._found.values())

    @property
    def groups(self) -> list[Group]:
        """The choice and what several entries read; then the options of each entry."""
        shared = [self.choice]
        own: dict[str, tuple[Option, ...]] = {}
        for found in self._found.values():
            if len(found) > 1:
                shared.append(_merged(found))
            else:
                ((name, option),) = found.items()
                own[name] = (*own.get(name, ()), option)
        groups = [Group(f"--{self.name} {name}", own[name]) for name in own]
        choices = tuple((e.name, e.help) for e in self.entries().values())
        return [Group(self.name.capitalize(), tuple(shared), choices), *groups]

    @property
    def _found(self) -> dict[str, dict[str, Option]]:
        """By an option's name, the entries that read it and what they declare."""
        found: dict[str, dict[str, Option]] = {}
        for entry in self.entries().values():
            for option in entry.options:
                found.setdefault(option.name, {})[entry.name] = option
        return found


def _merged(found: Mapping[str, Option]) -> Option:
    """One flag for an option that several entries read; its help names them."""
    first_name, first = next(iter(found.items()))
    if len(found) == 1:
        return first
    for name, option in found.items():
        # Tuples of two types may be equal: Whole(0) and Numbers().
        if (type(option.kind), option.kind) != (type(first.kind), first.kind):
            raise UsageError(
                f"--{first.name}: {first_name} and {name} declare it with different "
                "types; an installed package must rename its option"
            )
    texts = {option.help for option in found.values()}
    text = f"{first.help} Read by {', '.join(found)}."
    if len(texts) > 1:
        text = " ".join(f"{name}: {option.help}" for name, option in found.items())
    if len({option.default for option in found.values()}) == 1:
        return first._replace(help=text)
    usual = ", ".join(f"{shown(option)} for {name}" for name, option in found.items())
    return first._replace(default=None, help=text, usual=usual)


def shown(option: Option) -> str:
    """An option's default as --help shows it; empty if there is none."""
    value = option.default
    if option.usual:
        return option.usual
    if value is None or value is False or value in ("", ()):
        return ""
    if value is True:
        return "on"
    parts = value if isinstance(value, tuple) else (value,)
    return ",".join(f"{p:g}" if isinstance(p, float) else str(p) for p in parts)


class Command(NamedTuple):
    """A command: its words, one line of help, and the groups of its options."""

    name: str
    help: str
    parts: "tuple[Group | Family | Callable[[], Group], ...]" = ()

    @property
    def families(self) -> list[Family]:
        """The choices whose entries have options of their own."""
        return [part for part in self.parts if isinstance(part, Family)]

    @property
    def groups(self) -> list[Group]:
        """Its options in the order of --help; options of the same title stand together."""
        found: dict[str, Group] = {}
        for part in self.parts:
            whole = part() if callable(part) else part
            for group in whole.groups if isinstance(whole, Family) else [whole]:
                known = found.get(group.title, Group(group.title, (), group.choices))
                options = (*known.options, *group.options)
                found[group.title] = known._replace(options=options)
        return [group for group in found.values() if group.options]

    @property
    def options(self) -> dict[str, Option]:
        """All its options by key; no two may have the same."""
        found: dict[str, Option] = {}
        for group in self.groups:
            for option in group.options:
                if option.key in found:
                    raise UsageError(
                        f"{self.name}: two things add an option --{option.name}; an "
                        "installed package must rename its own"
                    )
                found[option.key] = option
        return found


# --- the methods that come with furlkit -----------------------------------------------

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

SIMCLR = Paper("SimCLR", "https://arxiv.org/abs/2002.05709")
SIMSIAM = Paper("SimSiam", "https://arxiv.org/abs/2011.10566")
BYOL = Paper("BYOL", "https://arxiv.org/abs/2006.07733")
SWAV = Paper("SwAV", "https://arxiv.org/abs/2006.09882")
DEEPCLUSTER = Paper("DeepCluster", "https://arxiv.org/abs/1807.05520")
MOCO = Paper("MoCo", "https://arxiv.org/abs/1911.05722")
FEDEMA = Paper("FedEMA", "https://arxiv.org/abs/2204.04385")
FEDCA = Paper("FedCA", "https://arxiv.org/abs/2010.08982")
FLESD = Paper("FLESD", "https://arxiv.org/abs/2109.14611")
FEDPROX = Paper("FedProx", "https://arxiv.org/abs/1812.06127")
FEDAVG = Paper("FedAvg", "https://arxiv.org/abs/1602.05629")
FCL = Paper("FCL", "https://arxiv.org/abs/2111.10763")
ROTNET = Paper("RotNet", "https://arxiv.org/abs/1803.07728")
WU = Paper("Wu et al.", "https://arxiv.org/abs/1805.01978")
WANG = Paper("Wang and Isola", "https://arxiv.org/abs/2005.10242")

# Weights are drawn in this order, so a new head goes to the end.
HEADS = _named(
    Head("projector", widths=(512, 128), help="Widths of the projector's layers."),
    Head("predictor", reads="z", widths=(512, 128),
         help="Widths of the predictor's layers."),
    Head("decoder", form="decoder"),
    Head("classifier", form="linear"),
    Head("rotation", form="linear", widths=(4,)),
    Head("prototypes", reads="z", form="prototypes", widths=(300,),
         help="Number of prototypes."),
)

OBJECTIVES = _named(
    Objective("simclr", "contrast of two views (NT-Xent)",
        heads=("projector",),
        function="furlkit.objectives.simclr:step",
        options=(
            Option("temperature", Number(above=0), 0.5, "tau of the contrast."),
            Option("form", Choice(("oneway", "symmetric", "full")), "full",
                   "View 1 against view 2, both ways, or all 2N views."),
        ),
        negatives=True,
        own_rows=True,
        paper=SIMCLR,
        equation="Eq. 1; FedCA Eq. 3-8",
    ),
    Objective("simsiam", "each view predicts the other's projection",
        heads=("projector", "predictor"),
        function="furlkit.objectives.simsiam:step",
        paper=SIMSIAM,
        equation="Eq. 1-4",
    ),
    Objective("byol", "a net predicts the projections of a slow copy of itself",
        heads=("projector", "predictor"),
        function="furlkit.objectives.byol:learner",
        options=(
            Option("ema", Number(0, 1), 0.99, "How much of the target stays in a step."),
        ),
        paper=BYOL,
        equation="Eq. 1-2",
    ),
    Objective("moco", "a query finds its key among those of earlier batches",
        heads=("projector",),
        function="furlkit.objectives.moco:learner",
        options=(
            Option("temperature", Number(above=0), 0.1, "tau of the contrast."),
            Option("ema", Number(0, 1), 0.99, "How much of the target stays in a step."),
            Option("queue", Whole(1, 2**24), 4096,
                   "K, keys of the client's earlier batches; best fewer than it has "
                   "images. They stay in the private file."),
        ),
        negatives=True,
        paper=MOCO,
        equation="Eq. 1-2; FCL Eq. 1-3, 6",
    ),
    Objective("swav", "each view predicts the other's share in every prototype",
        heads=("projector", "prototypes"),
        function="furlkit.objectives.swav:learner",
        options=(
            Option("temperature", Number(above=0), 0.1, "tau of the predictions."),
            Option("epsilon", Number(above=0), 0.05,
                   "Smoothness of the codes; small ones choose one prototype."),
            Option("sinkhorn-iterations", Whole(1), 3,
                   "How often prototypes and images are brought into balance."),
            Option("freeze-steps", Whole(0), 100,
                   "Steps at the start of the run, counted through all rounds, that "
                   "leave the prototypes as they are."),
            Option("queue", Whole(1, 2**24), 3840,
                   "Features of the client's earlier batches, for each view, that codes "
                   "look at once so many are there. They stay in the private file."),
            Option("queue-after", Whole(0), 1000,
                   "Steps of the run, through all rounds, before features enter the "
                   "queue."),
        ),
        paper=SWAV,
        equation="Eq. 1-5",
    ),
    Objective("deepcluster", "both views fall into the cluster of their image",
        heads=("projector",),
        function="furlkit.objectives.deepcluster:learner",
        options=(
            Option("temperature", Number(above=0), 0.1, "tau of the scores."),
            Option("clusters", Numbers(whole=True, low=1), (100, 100, 100),
                   "Clusters of each clustering: 100,100,100 makes three, from "
                   "different starts."),
            Option("kmeans-iterations", Whole(1), 10,
                   "Iterations of k-means, at the start of each epoch."),
        ),
        paper=DEEPCLUSTER,
        equation="Eq. 1-2; SwAV app. D",
    ),
    Objective("rotation", "which quarter turn an image was given",
        heads=("rotation",),
        function="furlkit.objectives.rotation:step",
        paper=ROTNET,
        equation="Eq. 2-3",
    ),
    Objective("autoencoder", "reconstruction through a decoder",
        heads=("decoder",),
        function="furlkit.objectives.autoencoder:step",
        equation="squared error",
    ),
    Objective("supervised", "cross-entropy on labels",
        heads=("classifier",),
        function="furlkit.objectives.supervised:step",
        labels=True,
        paper=FEDAVG,
        equation="cross-entropy",
    ),
)

TERMS = _named(
    Term("proximal", "the weights stay near the global model's",
        "furlkit.terms.proximal:proximal",
        switch="proximal",
        options=(
            Option("proximal", Number(low=0), 0.0,
                   "mu of (mu/2) ||w - w_global||^2; 0 turns it off."),
        ),
        paper=FEDPROX,
        equation="Eq. 2",
    ),
    Term("alignment", "h and z of public images stay near those of a common model",
        "furlkit.terms.alignment:alignment",
        switch="align",
        options=(
            Option("align", File(),
                   help="h and z of public images by the alignment model, as "
                        "pretrain-align writes them.", recorded=False,
                   metavar="TARGETS"),
            Option("align-data", Text("NAME|PATH"),
                   help="The public images that the targets were made from.",
                   recorded=False),
            Option("align-split", Choice(("train", "test")), "train",
                   "Which split of a dataset known by name.", recorded=False),
            Option("beta", Number(low=0), 0.01, "Weight of the term."),
            Option("align-reduction", Choice(("sum", "mean")), "sum",
                   "Over the public images of a step."),
            Option("align-batch-size", Whole(1), 128,
                   "Public images of each step."),
        ),
        paper=FEDCA,
        equation="Eq. 11-14",
    ),
    Term("neighbours", "images are drawn to the nearest rows of the queue and the dictionary",
        "furlkit.terms.neighbours:neighbours",
        switch="neighbours",
        options=(
            Option("neighbours", Whole(0), 0,
                   "N, the rows that an image is drawn to; 0 turns it off.", newer=True),
            Option("neighbour-candidates", Whole(1), 4096,
                   "K, rows drawn at random in each step, among which neighbours are."),
            Option("neighbour-temperature", Number(above=0), 0.1,
                   "tau_nm of the choice among them."),
            Option("neighbour-weight", Number(low=0), 0.1, "lambda of the term."),
        ),
        matches_rows=True,
        paper=FCL,
        equation="Eq. 7-12",
    ),
)

UPDATES = _named(
    Update("replace", "the global model", "furlkit.updates.replace:replace",
        paper=FEDAVG,
    ),
    Update("keep", "the client's own model, given in place of GLOBAL",
        "furlkit.updates.replace:replace",
        paper=FLESD,
    ),
    Update("fedema", "the global model mixed with the client's own by their distance",
        "furlkit.updates.fedema:fedema",
        options=(
            Option("tau", Number(0, 1), 0.7,
                   "How much of its own the client keeps when it first mixes."),
        ),
        own=True,
        paper=FEDEMA,
        equation="section 4",
    ),
)

DICTIONARY_SIZE = Option("dictionary-size", Whole(1), 1024, "K, its number of rows.")

RULES = _named(
    Rule("mean", "the weighted mean of models", "furlkit.aggregators.mean:mean",
        reads="checkpoint",
        options=(
            Option("weights", Text("examples|uniform|FILE.json"), "examples",
                   'By number of images, equal, or given as {"CLIENT": '
                   "WEIGHT}."),
            Option("bn", Choice(("average", "keep")), "average",
                   "BatchNorm statistics are averaged, or left out for "
                   "clients to keep."),
        ),
        paper=FEDAVG,
        equation="Algorithm 1; FedCA Eq. 2",
    ),
    Rule("dictionary", "the rows that clients share, one after the other",
        "furlkit.aggregators.dictionary:dictionary",
        reads="rows",
        options=(DICTIONARY_SIZE,),
        paper=FEDCA,
        equation="Eq. 9-10, Algorithm 1",
    ),
    Rule("ensemble", "what the clients' models find similar among public images",
        "furlkit.aggregators.similarity:ensemble",
        reads="similarity",
        options=(
            Option("temperature", Number(above=0), 0.1,
                   "tau_T of exp(cosine / tau_T)."),
            Option("matrix", Flag(), False,
                   "Write the n x n matrix instead of what it is computed "
                   "from."),
        ),
        paper=FLESD,
        equation="Eq. 4-6",
    ),
)

NEGATIVES = Option("negatives", Choice(("fused", "remote", "local")), "fused",
    "What images are told apart from where a dictionary is given: the client's own images "
    "(batch or queue) and the dictionary (FedCA Eq. 6, FCL Eq. 3), the dictionary alone "
    "(FCL Eq. 5), or its own alone.", newer=True)
SHARE_ROWS = ("averaged", "instahide", "mixup", "plain")

# What a client shares for others to use as negatives.
SHARING = group("Sharing rows: FedCA's dictionary, FCL's remote features",
    Option("dictionary", File(),
           help="Rows that are negatives for every image; aggregate --rule dictionary "
                "writes them.", recorded=False),
    Option("leave-own-out", Flag(), False,
           "Leave the client's own rows of the dictionary out."),
    NEGATIVES,
    Option("features-out", Text("FILE"),
           help="Where to write the rows that the client shares, ceil(K / m) rows; may "
                "hold {client}.", recorded=False),
    Option("share-rows", Choice(SHARE_ROWS), SHARE_ROWS[0],
           "What the rows are: Z, z averaged over rounds (FedCA); z of fresh mixtures of "
           "4 images with random signs (InstaHide, as FCL has it), or of such mixtures "
           "without signs; z of single images. InstaHide has been broken (Carlini et "
           "al. 2021), and features are not anonymous.",
           needs="features-out", newer=True),
    Option("alpha", Number(low=0, below=1), 0.5,
           "Z <- alpha Z + (1 - alpha) z; 0 shares z alone (FedCA Eq. 9).",
           needs="share-rows=averaged"),
    DICTIONARY_SIZE._replace(needs="features-out"),
    Option("participants", Whole(1), help="m, the clients of the round.",
           usual="all of the partition", needs="features-out"),
    Option("dictionary-from", Choice(("client", "global")), "client",
           "Which model computes z of the client's images: the client's, after training "
           "(FedCA's Algorithm 1), or the global one it was given (the paper's text, "
           "with --alpha 0). Of MoCo's two networks it is the slow one.", newer=True),
    Option("dictionary-positive", Choice(("view", "own")), "view",
           "The positive against the dictionary: the other view, or the image's own row, "
           "which is that of Z in --private, or with --dictionary-from global the global "
           "model's z (ours, after MoCo's key).", newer=True),
)

WIDTH = Option("width", Number(above=0), 1.0, "Multiplies the width of every layer.")
STEM = Option("stem", Choice(("auto", "small", "standard")), "auto",
              "small is 3x3 without pooling; auto takes it for images below 64 "
              "pixels.")

ENCODERS = _named(
    Encoder("cnn5", "furlkit.models.encoders:cnn5", 2048, scales=True,
            help="five convolutions and a linear layer"),
    Encoder("resnet18", "furlkit.models.encoders:resnet", 512, stems=True,
            help="torchvision's ResNet-18"),
    Encoder("resnet34", "furlkit.models.encoders:resnet", 512, stems=True,
            help="torchvision's ResNet-34"),
    Encoder("resnet50", "furlkit.models.encoders:resnet", 2048, stems=True,
            help="torchvision's ResNet-50"),
)

_CONCENTRATION = Option("concentration", Number(above=0),
                        help="Of the Dirichlet distribution, alpha or beta; small is "
                             "skewed.")
_M = Option("classes-per-client", Whole(1), help="m, classes of each client.")
_REPLACEMENT = Option("with-replacement", Flag(), False,
                      "Let several clients hold the same image.")
_PUBLIC = (
    Option("public-fraction", Number(0, below=1),
           help="Hold out this share as public."),
    Option("public-count", Whole(0), help="Hold out this many images as public."),
)

SCHEMES = _named(
    Scheme("iid", "equal random parts", "furlkit.data.partitions.classes:iid",
        (_REPLACEMENT, *_PUBLIC)),
    Scheme("classes", "m classes for each client, exclusive or on several clients",
        "furlkit.data.partitions.classes:classes",
        (
            _M,
            Option("class-copies", Whole(1), 1, "How many clients hold each class."),
            Option("ordered-classes", Flag(), False,
                   "Client 0 gets the first m classes, and so on."),
            *_PUBLIC,
        ),
        sizes_vary=True,
        paper=FEDAVG,
    ),
    Scheme("dirichlet",
        "each CLASS is spread over the clients by Dir(alpha): clients differ in size "
        "and in mix",
        "furlkit.data.partitions.dirichlet:dirichlet",
        (
            _CONCENTRATION,
            Option("cap-at-mean", Flag(), False,
                   "A client at the mean size gets no further class."),
            *_PUBLIC,
        ),
        sizes_vary=True,
        evened_by="concentration",
    ),
    Scheme("dirichlet-client",
        "each CLIENT draws its mix of classes from Dir(beta): clients are equal in "
        "size and differ in mix",
        "furlkit.data.partitions.dirichlet:dirichlet_client",
        (_CONCENTRATION, _REPLACEMENT, *_PUBLIC),
    ),
    Scheme("volume", "client i gets delta/n + (1-delta) gamma^i / sum_j gamma^j",
        "furlkit.data.partitions.volume:volume",
        (
            Option("even-share", Number(0, 1), 0.1, "delta, the share that is even."),
            Option("decay", Number(above=0), 0.9,
                   "gamma, the ratio from client to client."),
            _M,
            *_PUBLIC,
        ),
        evened_by="even-share",
    ),
    Scheme("shards", "sorted by label, s shards for each client",
        "furlkit.data.partitions.classes:shards",
        (Option("shards-per-client", Whole(1), 2, "s."), *_PUBLIC),
        paper=FEDAVG,
    ),
    Scheme("domains", "a group of clients for each domain of a packed file",
        "furlkit.data.partitions.domains:domains",
        (_CONCENTRATION, _REPLACEMENT, *_PUBLIC),
    ),
    Scheme("file", "indices from a file",
        "furlkit.data.partitions.from_file:from_file",
        (
            Option("split-file", File(),
                   help="JSON or safetensors with the indices of each client.",
                   recorded=False),
            _REPLACEMENT,
        ),
    ),
)

# --- groups of options that several commands have -------------------------------------

OUTPUT = Option("output", File(written=True), help="The file to write.", required=True,
                recorded=False, second="-o")
DATA_FILES = (
    Option("data-root", File(), help="Where torchvision's datasets are.",
           recorded=False, usual="data", metavar="FOLDER"),
    Option("download", Flag(), False, "Download the dataset if it is missing.",
           recorded=False),
)
SEED = Option("seed", Whole(0), 0, "The number that all random draws are derived from.",
              recorded=False)
PRESET = Option("preset", Text("NAME|FILE.toml"),
                help="Take defaults from this command's table of a preset; flags win. "
                     "`furlkit presets` lists them.", recorded=False)
DRY_RUN = Option("dry-run", Flag(), False,
                 "Open and check every input, print the plan, stop.", recorded=False)
VERBOSITY = (
    Option("json", Flag(), False, "Print the result as JSON.", recorded=False),
    Option("quiet", Flag(), False, "Print only the result, warnings and errors.",
           recorded=False, second="-q"),
    Option("verbose", Flag(), False, "Print more.", recorded=False, second="-v"),
)
IN_OUT = "Inputs and outputs"
FORCE = Option("force", Flag(), False,
               "Make the output again, even if the same command has made it before.",
               recorded=False)
GENERAL = group("General", PRESET, SEED, DRY_RUN, FORCE, *VERBOSITY)
LAYER = Option("layer", Choice(("h", "z")), "h",
               "h, the encoder's output, or z, the projector's.")
PART = (
    Option("partition", File(), help="The partition of --part.", recorded=False),
    Option("part", Text("all|public|CLIENT"), "all",
           "Which images: all, the public ones, or those of a client."),
)
_CHANNELS = Option("channels", Choice(("1", "3")), help="1 is grey, 3 is colour.",
                   usual="the data's")
_FRAME = (
    Option("title", Text(), "", "Title above the picture.", recorded=False),
    Option("size", Numbers(length=2), help="Width and height in inches.",
           recorded=False, usual="as large as needed", metavar="W,H"),
    Option("dpi", Whole(10, 2400), 150, "Dots per inch of a PNG file.",
           recorded=False),
)
_TITLED = _varied(_FRAME, {"title": None})
_FORMAT = Option("format", Choice(("text", "csv", "markdown", "latex")), "text",
                 "How tables are printed: as text; as csv, for programs, with all "
                 "digits; as markdown; or as latex with the rules of booktabs.",
                 recorded=False)
_VALUE = Option("value", Text("NAME"), "accuracy",
                "What to show: the name of a number in the files.", recorded=False)
_COUNT = Whole(1, 10**12)
_PROTOCOL = Option("protocol", Text("NAME"), "linear",
                   "Which metrics to take from the folder of a run: linear, knn, ...",
                   recorded=False)
_LOWEST = Option("lowest", Text("LABEL"), (),
                 "This line has several files for each seed, of which only the lowest "
                 "counts, as of all clients the worst; may be repeated.",
                 multiple=True, recorded=False)
_INTERVAL = Option("interval", Choice(("t", "wilcoxon")), "t",
                   "The interval of paired differences: Student's t around their mean, "
                   "95%; or that of Wilcoxon's exact signed-rank test around Hodges and "
                   "Lehmann's estimate, which assumes no normal distribution but needs "
                   "6 seeds for 95% (3 give 75%); the level that it attains is shown.",
                   recorded=False)
_DRAWN = group("General", DRY_RUN, *VERBOSITY)


def _series(help_text: str, required: bool = False, metavar: str = "") -> Option:
    return Option("series", Labelled(), (), f"{help_text}; may be repeated.",
                  required=required, multiple=True, recorded=False, metavar=metavar)


_RUNS = _series("A line: the folders of a method's runs, one per seed or length",
                required=True, metavar="LABEL=RUN,RUN,...")


def _data(help_text: str, required: bool = True) -> tuple[Option, ...]:
    """--data and where its files are."""
    data = Option("data", Text("NAME|PATH"), help=help_text, required=required,
                  recorded=False)
    return data, *DATA_FILES


def _split(default: str, recorded: bool = False) -> Option:
    return Option("split", Choice(("train", "test")), default,
                  "Which split of a dataset known by name.", recorded=recorded)


def _epochs(default: int, help_text: str) -> Option:
    return Option("epochs", Whole(1), default, help_text)


BATCH_SIZE = Option("batch-size", Whole(2), 128,
                    "Images of each batch; a last partial batch is left out.")
OPTIMISER = (
    Option("optimiser", Choice(("adam", "sgd")), "adam", "How weights are updated."),
    Option("lr", Number(above=0), 1e-3, "Learning rate."),
    Option("weight-decay", Number(low=0), 1e-6, "L2 penalty, added to the gradient."),
    Option("momentum", Number(0, 1), 0.9, "Momentum of SGD.", needs="optimiser=sgd"),
)
SCHEDULE = (
    Option("schedule", Choice(("constant", "cosine")), "constant",
           "How the learning rate changes."),
    Option("warmup", Number(low=0), 0.0,
           "Epochs of linear warm-up at the start of the schedule."),
)
OPTIMISATION = group("Optimisation", BATCH_SIZE, *OPTIMISER, *SCHEDULE)

AUGMENTATION = group("Augmentation",
    Option("crop-scale", Numbers(length=2), (0.2, 1.0),
           "Random resized crop: range of the area."),
    Option("crop-ratio", Numbers(length=2), (0.75, 1.3333),
           "Random resized crop: range of width / height."),
    Option("flip", Number(0, 1), 0.5, "Probability of a horizontal flip."),
    Option("jitter", Numbers(length=4), (0.4, 0.4, 0.4, 0.1),
           "Strength of brightness, contrast, saturation, hue."),
    Option("jitter-probability", Number(0, 1), 0.8, "Probability of colour jitter."),
    Option("grey", Number(0, 1), 0.2, "Probability of greyscale."),
    Option("blur", Number(0, 1), 0.0, "Probability of Gaussian blur."),
    Option("blur-sigma", Numbers(length=2), (0.1, 2.0),
           "Range of the blur's sigma, in pixels."),
    Option("solarise", Number(0, 1), 0.0, "Probability of solarising."),
    Option("cutout", Whole(0), 0,
           "Side of a square that is cut out, in pixels; 0 is off."),
    Option("randaugment", Numbers(whole=True, length=2), (0, 9),
           "Operations for each image, and their magnitude out of 30."),
)
ISA = Option("isa", Choice(("auto", "native", "avx2", "avx512")), "auto",
             "CPU instructions; avx2 and avx512 give the same bytes on every CPU that "
             "has them.", recorded=False)
RUNTIME = (
    Option("device", Text("auto|cpu|cuda|cuda:N|mps"), "auto", "Where to compute.",
           recorded=False),
    Option("threads", Whole(1), 1,
           "Threads of the CPU; several clients at once are faster than several "
           "threads in one."),
    ISA,
)
PRECISION = Option("precision", Choice(("float32", "bfloat16", "float16")), "float32",
                   "Of the forward pass; weights stay float32.")
SAVE_EVERY = Option("save-every", Number(low=0), 60.0,
                    "Seconds between progress files.", recorded=False)
EXECUTION = group("Execution", PRECISION,
    Option("channels-last", Flag(negative=True), True, "Memory layout of the network."),
    Option("compile", Flag(negative=True), False,
           "Compile the network with torch.compile."),
    SAVE_EVERY,
    *RUNTIME,
)
RUNNING = group("Execution", *RUNTIME)

# --- evaluation -----------------------------------------------------------------------

_TEST_DATA = Option("test-data", Text("NAME|PATH"), help="Labelled images to test on.",
                    recorded=False, usual="the test split of --data")
_SCORED = group(IN_OUT,
    *_data("Labelled images to learn from; its test split is the test set."),
    _TEST_DATA,
    OUTPUT,
)
_SCORED_CLASSIFIER = group(IN_OUT,
    *_data("Its test split is the test set; with --test-data it only gives the "
           "classes.", required=False),
    _TEST_DATA,
    OUTPUT,
)
# An untrained network has no file; its options decide nothing that the file of a trained
# one would record, so a score's `checkpoint` has them.
_UNTRAINED = group("Reference: the untrained network",
    Option("untrained", Flag(), False,
           "Score new weights, drawn from --seed as init draws them: the architecture "
           "of CHECKPOINT or, without one, that of the options below for --data.",
           recorded=False),
    Option("encoder", Choice(lambda: encoders()), None, "The network, where no CHECKPOINT is given.",
           needs="untrained", recorded=False, usual="cnn5", metavar="NAME"),
    WIDTH._replace(default=None, needs="untrained", recorded=False, usual="1"),
    STEM._replace(default=None, needs="untrained", recorded=False, usual="auto"),
)
_FRACTION = (
    Option("fraction", Number(above=0, high=1),
           help="Part of the images that have labels: 0.01 and 0.1 in the paper; "
                "rounded, at least 2 images.", required=True),
    Option("choice", Choice(("random", "stratified")), "random",
           "How they are drawn from each client's images: all alike, or the fraction "
           "of every class."),
)
_PARTITION = Option("partition", File(),
                    help="Which images of --data each client holds.", recorded=False)
_NETWORK = group("Network",
    Option("hidden", Whole(0, 2**16), 512,
           "Width of the MLP's hidden layer; 0 makes it one linear layer."),
    Option("random-init", Flag(), False,
           "Take the model's architecture but new weights, drawn from --seed: the "
           "reference without pretraining."),
)
# The paper's 100 epochs; in rounds of the 5 that its clients train for.
_ROUNDS = Option("rounds", Whole(1), 20, "Rounds.")
_FEDERATED_EPOCHS = _epochs(5, "Epochs of each round; the last one is reported.")
_CENTRAL_EPOCHS = _epochs(100, "Epochs; the last one is reported.")
_MODES = _named(
    Mode("federated", "clients train and are averaged", (_ROUNDS, _FEDERATED_EPOCHS)),
    Mode("central", "all labels are in one place", (_CENTRAL_EPOCHS,)),
)
_MODE = Family("mode", lambda: _MODES, "federated", "Where training takes place.")
_SOLVERS = _named(
    Mode("gradient", "heads are trained in batches, as papers do", (
        Option("probes", Whole(1, 100), 5,
               "Heads with their own initial weights and order of images; accuracy is "
               "their mean, accuracy_std their standard deviation."),
        _CENTRAL_EPOCHS,
        Option("batch-size", Whole(1), 512, "Images of each batch."),
        *_varied(OPTIMISER, {"momentum": 0.0}),
        Option("milestones", Numbers(whole=True), (),
               "Epochs after which the rate is divided by 10: 60,80."),
    )),
    Mode("lbfgs", "one convex fit to standardised h, without randomness; its L2 penalty "
                  "is chosen on a fifth of the training images"),
)
_SOLVER = Family("solver", lambda: _SOLVERS, "gradient", "How the classifier is fitted.")
_REPEATS = Option("repeats", Whole(1, 100), 1,
                  "Train this often, each time with other labels, initial weights and "
                  "orders; accuracy is the mean, accuracy_std the standard deviation.")
_FINETUNING = (
    group("Optimisation", BATCH_SIZE, *OPTIMISER, _REPEATS),
    AUGMENTATION.varied(crop_scale=(0.5, 1.0), jitter_probability=0.0, grey=0.0),
    _NETWORK,
    group("Execution", PRECISION, SAVE_EVERY, *RUNTIME),
)

PROTOCOLS = _named(
    Protocol("linear", "Train a linear classifier on the frozen h.",
        "furlkit.evaluation.linear:fit_linear",
        groups=(
            _SCORED,
            _SOLVER,
            _UNTRAINED,
            RUNNING,
            GENERAL,
        ),
        equation="softmax on h",
    ),
    Protocol("knn", "Classify by the k nearest training images, by cosine of h.",
        "furlkit.evaluation.knn:predict_knn",
        groups=(
            _SCORED,
            group("Vote",
                Option("k", Whole(1), 200, "Neighbours that vote."),
                Option("temperature", Number(above=0), 0.1,
                       "t of the vote's weights exp(cosine / t)."),
            ),
            group(_UNTRAINED.title, *_UNTRAINED.options,
                SEED._replace(default=None, needs="untrained", usual="0")),
            RUNNING,
            GENERAL.without("seed"),
        ),
        paper=WU,
        equation="section 3.4",
    ),
    Protocol("classifier",
        "Score the classifier that a model has of its own; nothing is trained.",
        "furlkit.evaluation.linear:predict_linear",
        groups=(_SCORED_CLASSIFIER, RUNNING, GENERAL.without("seed")),
        paper=FLESD,
        equation="Fig. 2",
    ),
    Protocol("semi", "Finetune encoder and MLP on the few images that have labels.",
        "furlkit.stages.evaluate.finetune:choose",
        groups=(
            group(IN_OUT, *_SCORED.options, _PARTITION),
            group("Labels", *_FRACTION),
            _MODE,
            *_FINETUNING,
            GENERAL,
        ),
        paper=FEDCA,
        equation="Table 2",
    ),
    Protocol("finetune",
        "Finetune encoder and MLP by supervised FedAvg on the clients' labels.",
        "furlkit.stages.evaluate.finetune:run",
        groups=(
            group(IN_OUT, *_SCORED.options, _PARTITION._replace(required=True)),
            group("Labels",
                _FRACTION[0]._replace(default=1.0, required=False),
                _FRACTION[1],
            ),
            group("Optimisation", _ROUNDS, _FEDERATED_EPOCHS),
            *_FINETUNING,
            GENERAL,
        ),
        paper=FEDCA,
        equation="Table 2",
    ),
    Protocol("transfer", "Finetune encoder and MLP on all labels of another dataset.",
        "furlkit.stages.evaluate.finetune:run",
        groups=(
            _SCORED,
            group("Optimisation",
                Option("image-size", Whole(8, 2**16),
                       help="Side that images are resized to.", usual="the model's"),
                _CENTRAL_EPOCHS,
            ),
            *_FINETUNING,
            GENERAL,
        ),
        paper=FEDCA,
        equation="Table 3",
    ),
    Protocol("angles",
        "Measure the angles between models' representations of the same images.",
        "furlkit.evaluation.angles:angles",
        groups=(
            group(IN_OUT,
                *_data("The images for all models; labels are not needed."),
                _split("test"),
                OUTPUT,
            ),
            group("Measurement", LAYER),
            RUNNING,
            GENERAL.without("seed"),
        ),
        paper=FEDCA,
        equation="Fig. 4",
    ),
    Protocol("drift",
        "Measure representations, and how similar they are, without labels.",
        "furlkit.evaluation.drift:cka_matrix",
        groups=(
            group(IN_OUT,
                *_data("The images for all models; labels are optional."),
                _split("train"),
                *PART,
                OUTPUT,
            ),
            group("Measurement",
                Option("images", Whole(0), 2000,
                       "Draw this many of them, as pairs cost their square; 0 takes "
                       "all."),
                LAYER,
                Option("temperature", Number(above=0), 0.5,
                       "t of the weights exp(cosine / t) of false negatives."),
            ),
            AUGMENTATION,
            RUNNING,
            GENERAL,
        ),
        paper=WANG,
        equation="and CKA",
    ),
    Protocol("negatives",
        "Measure how many negatives are of the image's own class, from a partition.",
        "furlkit.evaluation.negatives:measured",
        groups=(
            group(IN_OUT, OUTPUT),
            group("Negatives",
                NEGATIVES._replace(
                    help="Which ratio is the file's false_negative_ratio; it has all "
                         "three.", newer=False),
                Option("queue", Whole(1), 4096, "Rows of a client's own images."),
                DICTIONARY_SIZE._replace(
                    default=None, usual="as many rows of each client as --queue",
                    help="K, rows that all clients share together."),
            ),
            GENERAL.without("preset", "seed"),
        ),
        paper=FCL,
        equation="Eq. 4-5",
    ),
)

# fmt: on
# --- looking up -----------------------------------------------------------------------


def load(function: str) -> Any:
    """The function at module:name; this is where torch gets imported."""
    return resolve_name(function)


KINDS: dict[str, type] = {
    "furlkit.objectives": Objective,
    "furlkit.encoders": Encoder,
    "furlkit.datasets": Dataset,
}


@cache
def plugins(group: str) -> dict[str, Any]:
    """Entries that other installed packages add: furlkit.objectives and so on.

    A package whose entry cannot be loaded is reported and left out, so that one broken
    installation does not stop every command.
    """
    from importlib.metadata import entry_points

    found: dict[str, Any] = {}
    for point in entry_points(group=group):
        try:
            entry = point.load()
            if not issubclass(type(entry), KINDS[group]):
                raise TypeError(f"expected a {KINDS[group].__name__}, found {entry!r}")
        except Exception as error:
            console.warn(f"{point.value}: cannot load this {group} entry: {error}")
            continue
        if entry.name in found:
            raise UsageError(
                f"{entry.name}: two installed packages add this name to {group}; "
                "uninstall one of them"
            )
        found[entry.name] = entry
    return found


def _new_names(group: str, taken: Iterable[str]) -> dict[str, Any]:
    """A group's plugins, none of which may have a name that furlkit has `taken`."""
    for name in sorted(plugins(group).keys() & set(taken)):
        raise UsageError(
            f"{name}: an installed package adds this name to {group}, but furlkit has "
            "it already; uninstall or rename it"
        )
    return plugins(group)


_added_objectives: dict[str, Objective] = {}
_added_encoders: dict[str, Encoder] = {}


def add_plugins() -> bool:
    """Add the objectives and encoders of other packages; whether there are any.

    The search reads the metadata of all installed packages, which takes longer than the
    rest of a start. So it waits until a name or an option is not furlkit's own, or
    until all of them are to be listed.
    """
    _added_objectives.update(_new_names("furlkit.objectives", OBJECTIVES))
    _added_encoders.update(_new_names("furlkit.encoders", ENCODERS))
    return bool(_added_objectives or _added_encoders)


def objectives() -> dict[str, Objective]:
    """The objectives: furlkit's, and those of other packages after `add_plugins`."""
    return {**OBJECTIVES, **_added_objectives}


def encoders() -> dict[str, Encoder]:
    """The encoders: furlkit's, and those of other packages after `add_plugins`."""
    return {**ENCODERS, **_added_encoders}


def datasets(taken: Iterable[str] = ()) -> dict[str, Dataset]:
    """The datasets that other packages add; furlkit's own have the names `taken`."""
    return _new_names("furlkit.datasets", taken)


def heads() -> dict[str, Head]:
    """The heads: furlkit's, then those that objectives of other packages bring."""
    found = dict(HEADS)
    for objective in _added_objectives.values():
        for head in objective.heads:
            if isinstance(head, Head):
                found.setdefault(head.name, head)
    return found


# --- commands -------------------------------------------------------------------------


def _head_widths() -> Group:
    """The widths of MLPs and numbers of prototypes, those of other packages too."""
    kind = Numbers(whole=True)
    options = (
        Option(head.name, kind, head.widths, head.help or f"Widths of {head.name}.")
        for head in heads().values()
        if head.form in ("mlp", "prototypes")
    )
    return group("Heads", *options)


OBJECTIVE = Family("objective", objectives, "simclr", "What a batch minimises.")
UPDATE = Family(
    "update", lambda: UPDATES, "replace", "What the client starts the round from."
)
RULE = Family("rule", lambda: RULES, "mean", "What is made of the uploads.", mixed=True)
SCHEME = Family("scheme", lambda: SCHEMES, "iid", "How images are partitioned.")
ENCODER = Family(
    "encoder", encoders, "cnn5", "The network whose output is the representation h."
)


def command(
    name: str, help_text: str, *parts: "Group | Family | Callable[[], Group]"
) -> Command:
    """A command with these groups of options."""
    return Command(name, help_text, parts)


# In the order in which a person works.
# fmt: off
COMMANDS = _named(
    command("partition", "Partition a dataset's images among clients.",
        group(IN_OUT,
            *_data("Dataset name, image folder, packed file, .npz, or a file of "
                   "labels."),
            OUTPUT,
        ),
        SCHEME,
        group("All schemes",
            Option("clients", Whole(1), 5, "Number of clients."),
            Option("min-size", Whole(0), 1,
                   "Draw again while a client has fewer images."),
            Option("redraws", Whole(0), 100,
                   "How often to draw again before giving up."),
            Option("public-client", Whole(0),
                   help="Make this client's part public; it does not train."),
        ),
        GENERAL,
    ),
    command("sample", "Print which clients take part in which round, as ROUND/CLIENT.",
        group("Sampling",
            Option("clients", Clients(), help="Which clients there are: 0-9, or 1-5,8.",
                   required=True),
            Option("fraction", Number(), 1.0,
                   "Share of the clients that takes part, at least one client."),
            Option("rounds", Clients(), (1,), "Rounds to draw for: 3, or 1-20."),
        ),
        GENERAL.without("preset", "dry_run", "force"),
    ),
    command("pack", "Put a dataset into one file that training maps into memory.",
        group(IN_OUT, _split("train", recorded=True), *DATA_FILES, OUTPUT),
        group("Images",
            Option("image-size", Whole(),
                   help="Resize the shorter side to this, then cut out the centre."),
            _CHANNELS._replace(help="Pack as grey (1) or colour (3).",
                               usual="as the images are"),
            Option("no-labels", Flag(), False, "Leave the labels out."),
            Option("domain-folders", Flag(), False,
                   "A folder holds domains, which hold classes: art/cat/1.jpg."),
        ),
        group("Execution", ISA),
        GENERAL.without("preset", "seed", "force"),
    ),
    command("init", "Make the global model of round 0.",
        group(IN_OUT,
            *_data("Take image size, channels, classes, mean and std from it.",
                   required=False),
            Option("from", File(),
                   help="Copy the encoder, and heads of the same name, from a "
                        "checkpoint.", recorded=False, metavar="CHECKPOINT",
                   variable="source"),
            OUTPUT,
        ),
        ENCODER,
        group("Heads",
            OBJECTIVE.choice._replace(
                metavar="", help="Gives the model the heads that this objective trains."),
            Option("head", Choice(heads), (),
                   "A further head; may be repeated.", multiple=True,
                   variable="more_heads"),
            Option("projector-norm", Choice(("hidden", "all")), "hidden",
                   "BatchNorm in the projector: between its layers, or on z too, there "
                   "without a shift. SimCLR's official head is all, with h's width "
                   "between: --projector 2048,128.", newer=True),
        ),
        _head_widths,
        group("Images",
            Option("image-size", Whole(), help="Side of the input.",
                   usual="the data's"),
            _CHANNELS,
            Option("classes", Whole(), help="Classes of the classifier.",
                   usual="the data's"),
            Option("mean", Numbers(), help="Normalisation.", usual="the data's"),
            Option("std", Numbers(), help="Normalisation.", usual="the data's"),
        ),
        group("Execution", ISA),
        GENERAL,
    ),
    command("pretrain-align",
        "Train FedCA's alignment model on public images, and write its targets.",
        group(IN_OUT,
            *_data("Public images."),
            _split("train"),
            Option("images", Whole(0), 0,
                   "Draw this many of them at random; 0 takes all."),
            *PART,
            Option("targets-out", File(written=True), help="Where to write h and z of the images.",
                   required=True, recorded=False),
            OUTPUT,
        ),
        OBJECTIVE,
        group("Optimisation", _epochs(100, "Epochs."), *OPTIMISATION.options),
        AUGMENTATION,
        EXECUTION,
        GENERAL,
    ),
    command("local-train",
        "Train clients from the global model, each on its own images.",
        group(IN_OUT,
            Option("client", Clients(), help="One client or several: 3, 0-4, 0,2,5-7.",
                   required=True, recorded=False, variable="clients"),
            *_data("The dataset that the partition was made for."),
            Option("private", Text("FILE"),
                   help="The client's private file of its last round; may hold "
                        "{client}.", recorded=False),
            Option("private-out", Text("FILE"),
                   help="Where to write the client's private file; may hold {client}.",
                   recorded=False),
            OUTPUT._replace(
                kind=Text("FILE"),
                help="The file to write; {client} stands for the client's number."),
            Option("send", Text("PART,..."),
                   help="Parts of the model that leave the client; it keeps the others "
                        "in its private file.", usual="encoder and heads"),
        ),
        OBJECTIVE,
        SHARING,
        *(term.group for term in TERMS.values()),
        UPDATE,
        group("Optimisation",
            _epochs(5, "Local epochs E."),
            *OPTIMISATION.options,
            Option("schedule-rounds", Whole(1), 1,
                   "Rounds that the schedule spans; 1 restarts it each round."),
            Option("phases", Text("PART:EPOCHS,..."),
                   help="Train only some parts at a time: projector:5,encoder:5.",
                   replaces="epochs"),
        ),
        AUGMENTATION,
        EXECUTION,
        GENERAL,
    ),
    command("embed",
        "Write a model's features of images, or the similarities between them.",
        group(IN_OUT, *_data("The images to embed."), _split("train"), *PART, OUTPUT),
        group("What is written",
            LAYER._replace(second="--share"),
            Option("similarity", Flag(), False,
                   "Write the cosines between all images instead."),
            Option("top", Number(above=0, high=100),
                   help="Keep this many percent of each row, the largest.",
                   needs="similarity"),
            Option("encoding", Choice(("float32", "float16", "int8")), "float32",
                   "How numbers are written; int8 has a scale for each row of "
                   "features, and steps of 1/127 for similarities."),
        ),
        RUNNING,
        GENERAL.without("seed"),
    ),
    command("aggregate",
        "Make one global model, dictionary or ensemble of the clients' uploads.",
        group(IN_OUT, OUTPUT),
        RULE,
        group("All rules",
            Option("min-clients", Whole(1), 1, "Exit with 75 if fewer have reported.",
                   recorded=False),
        ),
        GENERAL.without("seed"),
    ),
    command("distill", "Distil what the clients' models find similar into one model.",
        group(IN_OUT,
            *_data("The dataset that embed was given."),
            _split("train"),
            OUTPUT,
        ),
        group("Distillation (FLESD Eq. 7-10)",
            LAYER._replace(
                default=None, usual="the ensemble's",
                help="Which output of the student is compared with the ensemble."),
            Option("temperature", Number(above=0), help="tau_S.",
                   usual="the ensemble's tau_T"),
            Option("ema", Number(0, 1), 0.999,
                   "zeta, the momentum of the student's slow copy."),
            Option("anchors", Whole(2), 2048, "m, the length of the queue of anchors."),
        ),
        group("Optimisation",
            _epochs(200, "Epochs over the public images."),
            Option("steps", Whole(1),
                   help="Steps, which need not end with an epoch, in place of epochs: "
                        "a smaller public set then trains no less.", replaces="epochs"),
            *OPTIMISATION.options,
        ),
        AUGMENTATION,
        EXECUTION,
        GENERAL,
    ),
    command("evaluate", "Score a representation; the result is a JSON file."),
    *(
        Command(f"evaluate {protocol.name}", protocol.help, protocol.groups)
        for protocol in PROTOCOLS.values()
    ),
    command("compare",
        "Print scores of several seeds side by side, with paired differences.",
        group(IN_OUT,
            _series("A line: the files of a method, or the folders of its runs, whose "
                    "last rounds count; one per seed", required=True),
            _VALUE,
            _PROTOCOL,
            Option("reference", Text("LABEL"),
                   help="Show how far each line is above this one: the mean of the "
                        "differences, paired by seed or else by the order of the "
                        "files, with an interval.", recorded=False),
            _INTERVAL,
            Option("published", Text("LABEL=NUMBER"), (),
                   "What a paper prints for a line (percent for an accuracy); may be "
                   "repeated.", multiple=True, recorded=False),
            _LOWEST,
            Option("claims", File(),
                   help="Print instead what the lines say about the claims of this "
                        "TOML file: confirmed, refuted or undecided.",
                   recorded=False, metavar="FILE.toml"),
            _FORMAT,
        ),
        group("General", *VERBOSITY),
    ),
    command("plot", "Draw pictures of results and partitions."),
    command("plot curve", "Draw accuracy through the rounds from metrics files.",
        group(IN_OUT, _series("A labelled line of its own"), _VALUE, _PROTOCOL,
              *_FRAME, OUTPUT),
        _DRAWN,
    ),
    command("plot partition",
        "Draw which client holds how many images of which class.",
        group(IN_OUT,
            Option("style", Choice(("heat", "bubbles")), "heat",
                   "A heat map, or bubbles by size.", recorded=False),
            *_TITLED,
            OUTPUT,
        ),
        _DRAWN,
    ),
    command("plot tsne", "Draw features in the plane by t-SNE, coloured by class.",
        group(IN_OUT,
            Option("panel", Labelled(several=False), (),
                   "A feature file with a heading; may be repeated.", multiple=True,
                   recorded=False, variable="panels"),
            *_data("The images of the features, for their classes."),
            _split("test"),
            OUTPUT,
        ),
        group("Picture",
            Option("classes", Numbers(whole=True),
                   help="Classes in colour, the others in grey: 0,1.", usual="all"),
            Option("images", Whole(2), 2000,
                   "Draw at most this many of each file, chosen at random."),
            Option("perplexity", Number(1), 30.0,
                   "About how many neighbours an image is kept close to."),
            *_TITLED,
        ),
        group("General", SEED, DRY_RUN, *VERBOSITY),
    ),
    command("plot angles",
        "Draw the angles between models through the rounds as boxes.",
        group(IN_OUT, _series("A labelled panel of its own"), *_FRAME,
              OUTPUT),
        _DRAWN,
    ),
    command("plot bars",
        "Draw means over seeds as bars, with their standard deviation.",
        group(IN_OUT,
            _series("A bar: the mean of its files, one per seed; bars of the same group "
                    "stand together, and a label has the same colour in all of them",
                    required=True, metavar="[GROUP:]LABEL=FILE,..."),
            _VALUE,
            _PROTOCOL,
            Option("reference", Text("LABEL"),
                   help="Show how far each bar is above this one of its group: the "
                        "mean of the differences, paired by the models' seeds or else "
                        "by the order of the files, with a 95% t interval.",
                   recorded=False),
            Option("from", Number(low=0), 0.0,
                   "Where the axis starts, in the unit that is drawn (percent for an "
                   "accuracy); if not at 0, the axis says so.", recorded=False,
                   variable="start"),
            *_FRAME,
            OUTPUT,
        ),
        _DRAWN,
    ),
    command("plot differences",
        "Draw how far methods are above one of them, with intervals: a forest plot.",
        group(IN_OUT,
            _series("A row: the files of a method, or the folders of its runs, whose "
                    "last rounds count; one per seed", required=True),
            _VALUE,
            _PROTOCOL,
            Option("reference", Text("LABEL"),
                   help="The series that the others are compared with, paired by seed "
                        "or else by the order of the files.", required=True,
                   recorded=False),
            _INTERVAL,
            _LOWEST,
            Option("numbers", Flag(negative=True), True,
                   "Write differences and intervals at the right.", recorded=False),
            *_FRAME,
            OUTPUT,
        ),
        _DRAWN,
    ),
    command("plot cost",
        "Draw accuracy over what it cost in bytes, rounds or local epochs.",
        group(IN_OUT, _RUNS,
            Option("over", Choice(("bytes", "rounds", "epochs")), "bytes",
                   "What is on the x axis: bytes, rounds, or local epochs until then.",
                   recorded=False),
            Option("last", Flag(), False, "Of each run, only its last round counts.",
                   recorded=False),
            _VALUE,
            _PROTOCOL,
            *_FRAME,
            OUTPUT,
        ),
        _DRAWN,
    ),
    command("plot loss",
        "Draw the training loss through the rounds, with the jumps of aggregation.",
        group(IN_OUT, _RUNS,
            Option("term", Text("NAME"),
                   help="One term of the loss, as simclr: methods that add terms of "
                        "their own can be compared by it.", recorded=False,
                   usual="the sum of all"),
            *_FRAME,
            OUTPUT,
        ),
        _DRAWN,
    ),
    command("ledger",
        "Count the bytes that clients sent and received, by round and kind of file.",
        group(IN_OUT,
            OUTPUT._replace(
                help="Write the result as a metrics file too; --plan writes none.",
                required=False),
            _FORMAT,
        ),
        group("Planning ahead: FLESD Eq. 11",
            Option("plan", Flag(), False,
                   "Calculate before anything is trained; takes no RUN."),
            Option("images", _COUNT, help="How many public images.", needs="plan"),
            Option("width", _COUNT,
                   help="d, the numbers that an image is represented by.",
                   needs="plan"),
            Option("encoding", Choice(("float32", "float16", "int8")), "float32",
                   "How clients write numbers, as in embed.", needs="plan"),
            Option("similarity", Flag(), False,
                   "Clients send the cosines between all images instead.",
                   needs="plan"),
            Option("top", Number(above=0, high=100),
                   help="Of the similarities, this many percent of each row.",
                   needs="similarity"),
            Option("model", File(),
                   help="The model whose bytes count; only its header is read.",
                   needs="plan", metavar="CHECKPOINT"),
            Option("parameters", _COUNT,
                   help="Or its number of parameters, 4 bytes each.", needs="plan"),
            Option("clients", _COUNT, 1, "Clients that train in a round.",
                   needs="plan"),
            Option("rounds", _COUNT, 1, "Rounds of FLESD.", needs="plan"),
            Option("rounds-averaging", _COUNT, help="Rounds of weight averaging.",
                   needs="plan", usual="as --rounds"),
        ),
        group("General", *VERBOSITY),
    ),
    command("inspect", "Explain any file of furlkit's.",
        group(IN_OUT,
            Option("verify", Flag(), False,
                   "Check every byte against the content hash."),
            Option("tensors", Flag(), False, "List every tensor of a large file."),
        ),
        group("General", *VERBOSITY),
    ),
    command("export", "Write the bare encoder under torchvision's names.",
        group(IN_OUT,
            OUTPUT._replace(
                help="The folder for model.safetensors and config.json.",
                kind=File(), metavar="FOLDER"),
        ),
        GENERAL.without("preset", "seed", "force"),
    ),
    command("presets", "List the presets, or print one with its comments.",
        group("General", *VERBOSITY),
    ),
    command("plan", "Print the rules that run a recipe, with every command checked.",
        group(IN_OUT,
            Option("as", Choice(("make", "sh", "dot", "json")), "make",
                   "Make rules, a shell script, a graph for Graphviz, or a list.",
                   recorded=False, variable="form"),
            Option("group", Whole(1), 1,
                   "Clients that one command trains one after the other.",
                   recorded=False),
            OUTPUT._replace(help="Write it to a file instead of stdout.", required=False),
        ),
        group("General", DRY_RUN, *VERBOSITY),
    ),
    command("status", "Show how far a run has come, what is stale, and the last scores.",
        group(IN_OUT,
            Option("scores", Flag(), False,
                   "Show the scores of all rounds as a table instead.", recorded=False),
            Option("watch", Flag(), False, "Show it again until the run is done.",
                   recorded=False),
        ),
        group("General", *VERBOSITY),
    ),
)

# fmt: on
# --- values ---------------------------------------------------------------------------


def defaults(command: str) -> dict[str, Any]:
    """What a command's options are by key where nothing is given."""
    options = COMMANDS[command].options
    given = {key: option.default for key, option in options.items()}
    return resolved(command, given, (), ())


def resolved(
    command: str,
    given: Mapping[str, Any],
    by_hand: Collection[str],
    from_preset: Collection[str],
) -> dict[str, Any]:
    """The values of a command by key: those given, and the defaults of what was chosen.

    An option of an entry that was not chosen is left out. One that does not apply is
    refused if it was typed by hand or if a preset contradicts itself; a preset's own is
    ignored where the choice it belongs to was made by hand.
    """
    entry, values = COMMANDS[command], dict(given)

    def refuse(option: Option, choice: str, why: str, mixed: bool = False) -> None:
        overruled = mixed or choice in by_hand
        if option.key in by_hand or (option.key in from_preset and not overruled):
            raise UsageError(f"--{option.name} does not apply {why}")

    for family in entry.families:
        name, choice = values[family.choice.key], family.choice
        own = {option.key: option for option in family.entries()[name].options}
        for option in family.options:
            if option.key not in own:
                why = f"to --{choice.name} {name}"
                refuse(option, choice.key, why, family.mixed)
                values.pop(option.key, None)
            elif values.get(option.key) is None:
                values[option.key] = own[option.key].default
    for option in entry.options.values():
        if values.get(option.key) and key_of(option.replaces) in by_hand:
            other = option.replaces
            raise UsageError(f"--{other} does not apply beside --{option.name}")
        if option.key in values and (unmet := _unmet(option, entry.options, values)):
            refuse(option, *unmet)
            values[option.key] = option.default
    return values


def key_of(name: str) -> str:
    """The name in Python of an option."""
    return name.replace("-", "_")


def _unmet(
    option: Option, options: Mapping[str, Option], values: Mapping[str, Any]
) -> tuple[str, str] | None:
    """The key of what an option needs and lacks, and words for it; None if it applies.

    What an option needs must apply itself.
    """
    while option.needs:
        needed, _, value = option.needs.partition("=")
        key = key_of(needed)
        found = values.get(key)
        if value and found != value:
            return key, f"to --{needed} {found}"
        if not found:
            return key, f"without --{needed}"
        option = options[key]
    return None


def recorded(command: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that decide the bytes of a command's output, by flag, for its header.

    `values` are resolved ones. Options that do not apply are left out, and those whose
    default the inputs decide: the stage adds what it made of them.
    """
    options = COMMANDS[command].options
    return {
        option.name: list(values[key]) if type(values[key]) is tuple else values[key]
        for key, option in options.items()
        if option.recorded and values.get(key) is not None
        if not _unmet(option, options, values)
        if not (option.newer and values[key] == option.default)
    }


def divided(
    values: Mapping[str, Any], options: Iterable[Option]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of some options, and all others."""
    keys = {option.key for option in options}
    own = {key: value for key, value in values.items() if key in keys}
    return own, {key: value for key, value in values.items() if key not in keys}
