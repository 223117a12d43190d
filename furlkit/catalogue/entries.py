"""Classes of the catalogue's entries: kinds of values, options, methods, commands."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from furlkit.errors import UsageError


@dataclass(frozen=True, repr=False)
class Number:
    """A real number within bounds; `above` and `below` exclude the bound itself."""

    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None


@dataclass(frozen=True, repr=False)
class Whole:
    """A whole number within bounds."""

    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, repr=False)
class Choice:
    """A word of a list; if plugins may add words, `names` is a function."""

    names: "tuple[str, ...] | Callable[[], Iterable[str]]"

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.names() if callable(self.names) else self.names)


@dataclass(frozen=True, repr=False)
class Numbers:
    """Comma-separated numbers, at least `low`, as many as `length` if given: 0.2,1."""

    whole: bool = False
    length: int | None = None
    low: int | None = None


@dataclass(frozen=True, repr=False)
class Flag:
    """On or off; `negative` adds --no-NAME, or the flag that it names."""

    negative: bool | str = False


# Directions of files. A client receives a file from the server or from other clients,
# sends a file, keeps a private file, and recalls the private file in a later round.
# "received once": a client receives the file in the first round only.
READ = ("read", "received", "received once", "recalled")
WRITTEN = ("written", "sent", "kept")
CACHE = "cache"  # A folder or file that furlkit reads, and creates if missing.
# Kinds of files besides the kinds of furlkit/files/kinds.py.
FORMATS = (
    *("any", "csv", "folder", "json", "key", "members", "metrics", "page", "picture"),
    *("recipe", "rules", "signers", "table", "toml", "weights"),
)


@dataclass(frozen=True, repr=False)
class File:
    """The path of a file or folder.

    `kind` names the kind of the file, `role` the entry of `inputs` in the headers of the
    outputs; "|" separates alternatives. A file without a role is in no header.
    `per_client`: the path may contain {client}. `words`: words allowed instead of a path.
    `last`: the command writes the file after the other outputs, even after -o.
    `chosen`: the command computes which of several files to use and to record.
    `signer`, for commands with --signers, of a received file: the server; or the client
    that the header names, if clients share the file with each other.
    """

    kind: str
    role: str = ""
    direction: str = "read"
    per_client: bool = False
    words: tuple[str, ...] = ()
    last: bool = False
    chosen: bool = False
    signer: str = "server"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that the file may be of."""
        return tuple(self.kind.split("|"))

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that the file may have in a header."""
        return tuple(self.role.split("|")) if self.role else ()

    @property
    def written(self) -> bool:
        """Whether the command writes the file."""
        return self.direction in WRITTEN


@dataclass(frozen=True, repr=False)
class Data:
    """Images to read: the name of a dataset, or the path of a file or folder."""


@dataclass(frozen=True, repr=False)
class Text:
    """Text that the stage parses; `metavar` shows the form."""

    metavar: str = "TEXT"


@dataclass(frozen=True, repr=False)
class Clients:
    """Numbers of clients or rounds: 3, 0-4, 0,2,5-7; with `names`, or a client's name."""

    names: bool = False


@dataclass(frozen=True, repr=False)
class Labelled:
    """A label and input files: LABEL=FILE,FILE,...; a single file if not `several`.

    A file may be a pattern, like exp/seed*, or the folder of a run.
    """

    several: bool = True
    kind: str = "metrics|folder"


Kind = (
    Number | Whole | Choice | Numbers | Flag | File | Data | Text | Clients | Labelled
)


class Argument(NamedTuple):
    """A positional argument: key, kind and name in --help.

    `several`: the argument takes several words. `first`: the user may omit the argument
    although further arguments follow.
    """

    key: str
    kind: Kind
    metavar: str = ""
    required: bool = True
    several: bool = False
    first: bool = False


class _Fields(NamedTuple):
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


class Option(_Fields):
    """An option: name without dashes, kind, default and help.

    `recorded`: the option affects the bytes of the output; the header records the value.
    `needs`: the option applies only with another option, "features-out", only with some
    values of another option, "optimiser=sgd|adam", or only if init's model has a head,
    "head=clusters". `replaces`: names of options that this option excludes. `usual`:
    description of a default that depends on the inputs. `second`: a second flag (-o,
    --share). `variable`: name in Python, if different from the flag. `newer`: added after
    the first release; recorded only if not the default, to keep the bytes of old commands.
    """

    @cached_property
    def key(self) -> str:
        """The option's name in Python."""
        return self.variable or key_of(self.name)

    @property
    def negative(self) -> str:
        """The flag without dashes that switches the option off; empty if none does."""
        named = self.kind.negative if isinstance(self.kind, Flag) else False
        return named if isinstance(named, str) else f"no-{self.name}" * named


class Group(NamedTuple):
    """Options with a common title in --help.

    `choices`: words for the first option, with help. `owner`: term or exchange with these
    options, see `_owner_of`; empty for the options of a command.
    """

    title: str
    options: tuple[Option, ...]
    choices: tuple[tuple[str, str], ...] = ()
    owner: str = ""

    def varied(self, **defaults: Any) -> "Group":
        """Return the group with other defaults for some options."""
        return self._replace(options=varied(self.options, defaults))

    def without(self, *keys: str) -> "Group":
        """Return the group without some options."""
        kept = tuple(option for option in self.options if option.key not in keys)
        return self._replace(options=kept)


def group(title: str, *options: Option) -> Group:
    """A group of these options."""
    return Group(title, options)


def varied(options: Iterable[Option], defaults: Mapping[str, Any]) -> tuple:
    return tuple(
        option._replace(default=defaults.get(option.key, option.default))
        for option in options
    )


class Paper(NamedTuple):
    """Source of a method: name, address, year, title and authors in BibTeX's form."""

    name: str
    url: str
    year: int = 0
    title: str = ""
    authors: str = ""


class Head(NamedTuple):
    """A head: input (h, or the projector's z), form and default widths.

    Forms and widths: mlp (widths of the layers, ending with the output), linear (one
    width), prototypes (number of prototypes), clusters (number of clusters, for each
    cluster head) or decoder (no width). An mlp that reads z must return z's width.
    A head of the form "other" has a `function`, module:name, that builds the module from
    the encoder, the length of the input, the widths, and size and channels of images.
    """

    name: str
    reads: str = "h"
    form: str = "mlp"
    widths: tuple[int, ...] = ()
    help: str = ""
    function: str = ""


# Entries are compared by name. Without generated __eq__ and __repr__, Python creates the
# classes twice as fast, which shortens the start of every command.
@dataclass(frozen=True, eq=False, repr=False)
class Method:
    """A method that users choose by name; `function` is the place, module:name.

    The function gets the options by key. `equation` is the number in `paper`. `printed`
    compares function and equation: "as printed", "differs: ..." or "nothing printed",
    with the options for other readings.
    """

    name: str
    help: str
    function: str
    options: tuple[Option, ...] = ()
    paper: Paper | None = None
    equation: str = ""
    printed: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Objective(Method):
    """A training objective: the loss of a batch.

    The function is `step(net, batch, **options) -> Forward`, or for a method with state
    `learner(net, **options) -> Learner`. `labels`: the objective reads labels.
    `exchanges`: names of exchanges that serve the objective. `inputs`: keywords of the
    function for data of these exchanges. The function does not get the options of an
    exchange. `mixes` is false if the objective constrains weights, for example to unit
    rows: then averages of weights are invalid. `sends`: parts of the learner to send with
    the net. `tells`: function(losses, measures) of the last epoch that returns facts for
    the upload. `again`: the forward pass can be repeated with other h of the two views.
    `pairs`: z has two rows of every image, all first views, then all second views.
    """

    heads: tuple[str | Head, ...] = ()
    labels: bool = False
    exchanges: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    mixes: bool = True
    sends: tuple[str, ...] = ()
    tells: str = ""
    again: bool = False
    pairs: bool = False

    @property
    def has_state(self) -> bool:
        """Return whether the function returns a learner."""
        return self.function.endswith(":learner")

    @property
    def head_names(self) -> tuple[str, ...]:
        """Names of the trained heads."""
        return tuple(h if isinstance(h, str) else h.name for h in self.heads)


@dataclass(frozen=True, eq=False, repr=False)
class Term(Method):
    """A loss to add to any objective; the option `switch` turns the term on.

    The function gets a mapping with the `inputs`: `received`, the model from the server,
    `last`, the client's weights after the last round (empty in a first round), `learner`,
    and data of the `exchanges`, which the switch turns on too. `heads`: heads that the
    objective must train. `pairs`: the objective must compare z of two views.
    """

    switch: str = ""
    exchanges: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    pairs: bool = False

    @property
    def group(self) -> Group:
        """Options of the term, which need the switch."""
        options = (
            option if option.name == self.switch else option._replace(needs=self.switch)
            for option in self.options
        )
        title = f"{self.name.capitalize()}: {self.help}"
        return Group(title, tuple(options), owner=_owner_of(self))


@dataclass(frozen=True, eq=False, repr=False)
class Update(Method):
    """Start of a client's round: update(w_g, w_k, memory, **options).

    `own`: the update needs w_k, the client's weights after the last round, from the
    private file. `starts_from_own`: GLOBAL must be the client's model. `continues`: the
    round trains the client's model of this round again. `heads`: heads that the update
    handles; the objective must train these heads. `sends`: function(parts, round,
    **options) that returns the parts to send in a round.
    """

    own: bool = False
    starts_from_own: bool = False
    continues: bool = False
    heads: tuple[str, ...] = ()
    sends: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Personal(Method):
    """A personal model that the client trains besides the upload.

    The function is `learner(learner, own, terms, memory, **options)`, which trains both
    models together, or `term(net, w, **options)`, a loss for the personal model, which
    is trained after the upload.
    """

    @property
    def together(self) -> bool:
        """Return whether a step trains both models."""
        return self.function.endswith(":learner")


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Method):
    """A rule of the server for combining uploads.

    `reads` and `writes`: kinds of the uploads and of the result; "|" separates kinds.
    `parent`: the rule needs --parent, the global model from which the clients started.
    `state`: slots of the server's memory; rule(uploads, state, **options) then returns the
    pieces of the model and of the next state, by names SLOT.TENSOR. `averages`: the result
    has means of BatchNorm statistics, which a single client can shift. `adds`: parts that
    are zero in a parent without these parts. `private`: place of the function for --noise.

    A rule for other files than models is rule(uploads, **options) -> Combined, see
    `furlkit.aggregators.shared`. `same`: facts and sizes that the uploads share, besides
    run, round and parent. `images`: the uploads are rows of the same public images.
    `check`: module:function(upload) that raises for wrong numbers. `module`: module of
    furlkit/stages/aggregate, for a rule that needs more.
    """

    reads: str = "checkpoint"
    writes: str = "checkpoint"
    parent: bool = False
    state: tuple[str, ...] = ()
    averages: bool = False
    adds: tuple[str, ...] = ()
    private: str = ""
    same: tuple[str, ...] = ()
    images: bool = False
    check: str = ""
    module: str = ""

    @property
    def stage(self) -> str:
        """Module of furlkit/stages/aggregate that opens the uploads."""
        usual = "checkpoints" if self.reads == "checkpoint" else "shared"
        return self.module or usual


@dataclass(frozen=True, eq=False, repr=False)
class Attack(Method):
    """A hostile upload made from an honest upload.

    The function is `attack(updates, **options)`: the hostile update, from the updates
    (m, n) of the uploads that the attackers know. An attack on a single upload has no
    function; `stages.attack` has the line of arithmetic.
    """


@dataclass(frozen=True, eq=False, repr=False)
class Teacher(Method):
    """A teacher for public images.

    `file`: metavar of the teacher's file, which precedes START; empty for a teacher
    without a file, "NAME..." for a teacher with several files. `lesson` opens the inputs:
    module:function(options) -> Lesson.
    """

    file: str = ""
    lesson: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Scheme(Method):
    """A scheme to partition images: function(data, clients, rng, **options).

    `sizes_vary`: sizes depend on the draw, so a draw with too small a client is repeated.
    `evened_by`: option with larger values for more even sizes.
    """

    sizes_vary: bool = False
    evened_by: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Protocol(Method):
    """An evaluation protocol; `groups` has the arguments and options."""

    groups: "tuple[Argument | Group | Family, ...]" = ()


class Mode(NamedTuple):
    """A choice with options: the place of finetuning, the solver of a probe."""

    name: str
    help: str
    options: tuple[Option, ...] = ()


WIDTH = Option("width", Number(above=0), 1.0, "Factor for the width of every layer.")
STEM = Option(
    "stem",
    Choice(("auto", "small", "standard")),
    "auto",
    "First layers: small is 3x3 without pooling; auto is small below 64 pixels.",
)


class Encoder(NamedTuple):
    """A network from images to h: `function` builds the network from an Architecture.

    `features`: length of h, or None if only the network knows. `draws`: the library draws
    the initial weights, with torch's global generator in the state of furlkit's; otherwise
    furlkit draws the weights. A name that ends in ":NAME" matches every name of a library.
    """

    name: str
    function: str
    features: int | None
    scales: bool = False  # Whether --width applies.
    stems: bool = False  # Whether --stem applies.
    help: str = ""
    draws: bool = False

    @property
    def options(self) -> tuple[Option, ...]:
        """--width and --stem, if the encoder reads these options."""
        return (WIDTH,) * self.scales + (STEM,) * self.stems


class Dataset(NamedTuple):
    """A built-in dataset.

    `function(split, root, download=...)` returns images (N, H, W, C) in uint8, labels or
    None, and the names of the classes; `mean` and `std` are for values in [0, 1].
    """

    name: str
    function: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


Entry = TypeVar("Entry", bound="Method | Encoder | Head | Mode | Command")


ANY = ":NAME"  # Ends the name of an entry that matches every name of a library.


def named(*entries: Entry) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries}


def entry_of(entries: Mapping[str, Any], name: str) -> Any:
    """Look up an entry by name, then by library; None if neither exists."""
    library, colon, _ = name.partition(":")
    return entries.get(name) or (entries.get(library + ANY) if colon else None)


class Family(NamedTuple):
    """A choice by name, like --objective, and the entries to choose from.

    Entries have options. `mixed`: a preset's table may have options of several entries,
    because a recipe calls the command with different choices. `newer`: recorded like a
    newer option.
    """

    name: str
    entries: Callable[[], Mapping[str, Any]]
    default: str
    help: str
    mixed: bool = False
    newer: bool = False

    @property
    def choice(self) -> Option:
        """The option that chooses."""
        option = Option(self.name, Choice(self.entries), self.default, self.help)
        return option._replace(metavar="NAME", newer=self.newer)

    @property
    def options(self) -> tuple[Option, ...]:
        """Options of the entries, without duplicates."""
        return tuple(_merged(found) for found in self._found.values())

    @property
    def groups(self) -> list[Group]:
        """The choice with options of several entries, then the options of each entry."""
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
        """Declarations by the option's name, then by the entry's name."""
        found: dict[str, dict[str, Option]] = {}
        first: dict[str, _Declared] = {}
        for entry in self.entries().values():
            for option in entry.options:
                declared = _Declared(_owner_of(entry), option)
                known = first.setdefault(option.name, declared)
                if known.option.kind != option.kind:
                    raise _collision(known, declared, "declare one type, or rename")
                found.setdefault(option.name, {})[entry.name] = option
        return found

    def declared(self, key: str) -> "list[_Declared]":
        """The declarations of an option."""
        every = [_Declared(f"a choice {OURS}", self.choice)]
        for entry in self.entries().values():
            every += [_Declared(_owner_of(entry), option) for option in entry.options]
        return [one for one in every if one.option.key == key]


def _merged(found: Mapping[str, Option]) -> Option:
    """Merge the declarations of several entries; the help names the entries."""
    first = next(iter(found.values()))
    if len(found) == 1:
        return first
    text = f"{first.help} Read by {', '.join(found)}."
    texts = _told({name: option.help for name, option in found.items()})
    if len(texts) > 1:
        text = " ".join(f"{names}: {help_}" for help_, names in texts.items())
    if len({option.default for option in found.values()}) == 1:
        return first._replace(help=text)
    defaults = _told({name: shown(option) for name, option in found.items()})
    usual = "; ".join(f"{default} for {names}" for default, names in defaults.items())
    return first._replace(default=None, help=text, usual=usual)


OURS = "of furlkit"  # Ends the name of an owner.


class _Declared(NamedTuple):
    """A declaration of an option; `owner` is the entry or the command."""

    owner: str
    option: Option

    @property
    def words(self) -> str:
        """Owner and type, with the type as in the code: dcl of furl_dcl (Number(low=0))."""
        kind, given = self.option.kind, {}
        for field in fields(kind):
            value = getattr(kind, field.name)
            if value != field.default:
                given[field.name] = value() if callable(value) else value
        shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"{self.owner} ({type(kind).__name__}({shown}))"


def _owner_of(entry: Any) -> str:
    """Name of an entry, and the package of the entry's function."""
    function = getattr(entry, "function", "")  # Some of furlkit's entries have none.
    return f"{entry.name} of {function.split(':')[0].split('.')[0] or 'furlkit'}"


def _collision(one: _Declared, other: _Declared, cure: str) -> UsageError:
    """Error about an option of two owners; other packages rename, not furlkit."""
    both = (one.owner, other.owner)
    theirs = [owner for owner in both if not owner.endswith(OURS)] or both
    return UsageError(
        f"--{one.option.name} is an option of {one.words} and of {other.words}; {cure} "
        f"the option of {' or of '.join(theirs)}"
    )


def _told(by_name: Mapping[str, str]) -> dict[str, str]:
    """Names by text: the entries that describe an option in equal words."""
    found: dict[str, list[str]] = {}
    for name, text in by_name.items():
        found.setdefault(text, []).append(name)
    return {text: ", ".join(names) for text, names in found.items()}


def key_of(name: str) -> str:
    """The name in Python of an option or a command."""
    return name.replace("-", "_")


def shown(option: Option) -> str:
    """Format an option's default for --help; empty without a default."""
    value = option.default
    if option.usual:
        return option.usual
    if value is None or value is False or value in ("", ()):
        return ""
    if value is True:
        return "on"
    parts = value if isinstance(value, tuple) else (value,)
    return ",".join(f"{p:g}" if isinstance(p, float) else str(p) for p in parts)


def writes_file(option: Option) -> bool:
    """Return whether the command writes the file of this option."""
    return isinstance(option.kind, File) and option.kind.written


def reads_file(option: Option) -> bool:
    """Return whether the command reads the file or the images of this option."""
    kind = option.kind
    return isinstance(kind, Data) or (isinstance(kind, File) and kind.direction in READ)


@dataclass(frozen=True, eq=False, repr=False)
class Exchange(Method):
    """Data passed between rounds besides the model: FedCA's dictionary, a bank.

    `function` is a class, see `furlkit.exchanges.exchange`. The options of an exchange
    with a `title` are a group of local-train; a `family` is a choice of methods with
    options. Objectives and terms list the options of the remaining exchanges. Two functions
    without torch: `check` raises for contradictory options before files are opened, see
    `furlkit.exchanges.usage`; `record` adapts the options for the header, see
    `furlkit.exchanges.recorded`.
    """

    check: str = ""
    record: str = ""
    title: str = ""
    family: Family | None = None

    @property
    def part(self) -> "Group | Family | None":
        """Group or family of options that the exchange adds to local-train."""
        if self.family or not self.title:
            return self.family
        return Group(self.title, self.options, owner=_owner_of(self))

    @property
    def all_options(self) -> tuple[Option, ...]:
        """The options, with the choice and the options of a family."""
        family = (self.family.choice, *self.family.options) if self.family else ()
        return (*self.options, *family)


Part = Group | Family
PartFunction = Callable[[], "Argument | Part | list[Part]"]  # For parts with plugins.


class Command(NamedTuple):
    """A command: name, first line of help, longer text, arguments and options.

    `stage` is a function from values by key to one result or several results. A command
    with `commands` is a group without a stage.
    """

    name: str
    help: str
    text: str = ""
    parts: "tuple[Argument | Part | PartFunction, ...]" = ()
    stage: str = ""
    commands: "tuple[Command, ...]" = ()

    @property
    def arguments(self) -> list[Argument]:
        """Positional arguments."""
        return [part for part in self._all_parts if isinstance(part, Argument)]

    @property
    def resolved_parts(self) -> list[Part]:
        """Groups and families of options, after calling functions among the parts."""
        return [part for part in self._all_parts if not isinstance(part, Argument)]

    @property
    def _all_parts(self) -> "list[Argument | Part]":
        parts: list[Argument | Part] = []
        for part in self.parts:
            whole = part() if callable(part) else part
            parts += whole if isinstance(whole, list) else [whole]
        return parts

    @property
    def roles(self) -> dict[str, "Argument | Option"]:
        """Arguments and options by the role of the input file."""
        takers: list[Argument | Option] = [*self.arguments, *self.options.values()]
        return {
            role: each
            for each in takers
            if isinstance(each.kind, File) and not each.kind.written
            for role in each.kind.roles
        }

    @property
    def families(self) -> list[Family]:
        """The choices among entries with options."""
        return [part for part in self.resolved_parts if isinstance(part, Family)]

    @property
    def groups(self) -> list[Group]:
        """Groups of options in the order of --help; equal titles are merged."""
        found: dict[str, Group] = {}
        for part in self.resolved_parts:
            for group in part.groups if isinstance(part, Family) else [part]:
                known = found.get(group.title, group._replace(options=()))
                options = (*known.options, *group.options)
                found[group.title] = known._replace(options=options)
        return [group for group in found.values() if group.options]

    @property
    def options(self) -> dict[str, Option]:
        """Options by key; raise for duplicate keys."""
        found: dict[str, Option] = {}
        for group in self.groups:
            for option in group.options:
                if option.key in found:
                    first, *_, last = self._declared(option.key)
                    raise _collision(first, last, "rename")
                found[option.key] = option
        return found

    def _declared(self, key: str) -> "list[_Declared]":
        """The declarations of an option."""
        found: list[_Declared] = []
        for part in self.resolved_parts:
            if isinstance(part, Family):
                found += part.declared(key)
            else:
                owner = part.owner or f"{self.name} {OURS}"
                found += [_Declared(owner, o) for o in part.options if o.key == key]
        return found


def command(
    name: str,
    help_text: str,
    text: str,
    *parts: "Argument | Part | PartFunction",
    run: str = "",
) -> Command:
    """A command with these arguments and groups of options.

    `evaluate drift` calls `run` in furlkit/stages/evaluate/drift.py, unless `run` names
    another function.
    """
    place = key_of(name).replace(" ", ".")
    return Command(name, help_text, text, parts, run or f"furlkit.stages.{place}:run")


def command_group(name: str, help_text: str, *commands: Command) -> Command:
    """A group of commands."""
    return Command(name, help_text, commands=commands)
