"""What an entry of the catalogue is made of: kinds of values, options, methods, commands."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
    """One of several words; a function gives those that other packages may add to."""

    names: "tuple[str, ...] | Callable[[], Iterable[str]]"

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.names() if callable(self.names) else self.names)


@dataclass(frozen=True, repr=False)
class Numbers:
    """Numbers with commas between them, `length` of them if it is given: 0.2,1.

    None of them is below `low`.
    """

    whole: bool = False
    length: int | None = None
    low: int | None = None


@dataclass(frozen=True, repr=False)
class Flag:
    """On or off; `negative` adds --no-NAME, or the flag that it names."""

    negative: bool | str = False


# What a command does with a file. A client receives a file from the server or from other
# clients, sends a file to them, keeps a file to itself, and recalls it in a later round.
# "received once": a client asks for the file in its first round only.
READ = ("read", "received", "received once", "recalled")
WRITTEN = ("written", "sent", "kept")
CACHE = "cache"  # A folder that furlkit reads and writes, and that may be removed.
# Kinds of files besides furlkit's own, which furlkit/files/kinds.py declares.
FORMATS = (
    *("any", "csv", "folder", "json", "metrics", "picture", "recipe", "rules", "toml"),
    "weights",
)


@dataclass(frozen=True, repr=False)
class File:
    """The path of a file or folder.

    `kind` names the kind of the file, `role` the entry of `inputs` in the headers of the
    outputs; several words are divided by "|". A file without a role is in no header.
    With `per_client` the path may hold {client}. `words` may be given in place of a path.
    The command writes a file that is `last` after all others, even after that of -o.
    """

    kind: str
    role: str = ""
    direction: str = "read"
    per_client: bool = False
    words: tuple[str, ...] = ()
    last: bool = False

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
    """Images that are read: the name of a dataset, or the path of a file or folder."""


@dataclass(frozen=True, repr=False)
class Text:
    """Words that the stage itself reads; `metavar` shows their form."""

    metavar: str = "TEXT"


@dataclass(frozen=True, repr=False)
class Clients:
    """Clients, or rounds, by number: 3, 0-4, 0,2,5-7; with `names`, or one by name."""

    names: bool = False


@dataclass(frozen=True, repr=False)
class Labelled:
    """A label and files that are read: LABEL=FILE,FILE,...; one file if not `several`.

    A file may be a pattern, like exp/seed*, or the folder of a run.
    """

    several: bool = True
    kind: str = "metrics|folder"


Kind = (
    Number | Whole | Choice | Numbers | Flag | File | Data | Text | Clients | Labelled
)


class Argument(NamedTuple):
    """A positional argument: its key, kind and name in --help.

    There may be `several` words. One that is `first` may be left out before others.
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
    """One option: its flag without dashes, its kind, default and help.

    `recorded` options decide the bytes of an output and go into its header. `needs` names
    the option without which this one does not apply: "features-out", or with the value
    it must have, "optimiser=sgd", several divided by "|"; or a head of init's model,
    "head=clusters". `replaces` names those that do not apply beside this one. `usual` describes a default that the
    inputs decide.
    `second` is a second flag (-o, --share), `variable` the name in Python where the
    flag's own is taken. One that is `newer` than files it decides is recorded only where
    it is not the default, so that the same command still makes the same bytes.
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
    """Options that stand together in --help.

    `choices` are the words that the first of them chooses from, each with its help.
    """

    title: str
    options: tuple[Option, ...]
    choices: tuple[tuple[str, str], ...] = ()

    def varied(self, **defaults: Any) -> "Group":
        """The same options, some with another default."""
        return self._replace(options=varied(self.options, defaults))

    def without(self, *keys: str) -> "Group":
        """The same options, less some."""
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
    """Where a method comes from; `equation` of an entry counts in it."""

    name: str
    url: str


class Head(NamedTuple):
    """A head: what it reads (h, or the projector's z), its form and usual widths.

    `form` is mlp (widths of its layers, the last one its output), linear (one width),
    prototypes (their number), clusters (their number, once for each head of several) or
    decoder (none). An mlp that reads z must give back something of z's width.
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
    `printed` says whether the function follows it: "as printed", "differs: ..." or
    "nothing printed", with the options for other readings.
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
    """What one batch minimises.

    Its function is a `step(net, batch, **options) -> Forward`; a method that carries
    state has a `learner(net, **options) -> Learner` instead. With `labels` it sees labels.
    `exchanges` names the exchanges that serve the objective, and `inputs` the data that
    the function takes from these exchanges, by keyword, if there are any. Options of an
    exchange are not passed to the function. One that does not `mix` sets weights itself,
    so that a mixture of the weights of two of its nets is not such a net. `sends` are
    parts of the learner that leave the client with the net. `tells` is a function(losses,
    measures) of the last epoch that gives facts for the upload. With `again` its pass can be
    made again from other h of the two views.
    """

    heads: tuple[str | Head, ...] = ()
    labels: bool = False
    exchanges: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    mixes: bool = True
    sends: tuple[str, ...] = ()
    tells: str = ""
    again: bool = False

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

    Its maker gets the `inputs` named here as a mapping: `received`, the model that the
    client received, `learner`, and data of the `exchanges` that the switch turns on.
    """

    switch: str = ""
    exchanges: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

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
    then keeps in its private file. `starts_from_own` expects the client's own model in
    place of the global one; one that `continues` trains the model of this round once more.
    `heads` are those it decides about, which the
    objective must train. `sends` is a function(parts, round, **options) that gives the
    parts which leave the client in a round.
    """

    own: bool = False
    starts_from_own: bool = False
    continues: bool = False
    heads: tuple[str, ...] = ()
    sends: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Personal(Method):
    """A model that a client trains for itself, beside the one that it sends.

    Its function is a `learner(learner, own, terms, memory, **options)` of both models,
    which are then trained together; or a `term(net, w, **options)` that is added to the
    losses of the client's own model, which is then trained after the other.
    """

    @property
    def together(self) -> bool:
        """Whether both models are trained in the same steps."""
        return self.function.endswith(":learner")


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Method):
    """What the server makes of uploads that it `reads`.

    They are checkpoints, rows, counted rows, similarity or probabilities. With `parent` it
    needs the global model that the clients started from, --parent. `state` lists the
    slots of a rule for checkpoints that remembers: rule(uploads, state, **options) then
    returns the pieces of the model and of the next state, by names SLOT.TENSOR. The
    result of a rule that `averages` has a mean of BatchNorm's statistics, which one
    client can move. A parent without the parts `adds` has zeros there.
    """

    reads: str = "checkpoint"
    parent: bool = False
    state: tuple[str, ...] = ()
    averages: bool = False
    adds: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Teacher(Method):
    """What a model learns public images from.

    `file` is the name of the file that it is in, which stands before START; empty for a
    teacher that has none. `lesson` opens the inputs: module:function(options) -> Lesson.
    """

    file: str = ""
    lesson: str = ""


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
    """A way to evaluate: `function` is what it computes, `groups` its arguments and options."""

    groups: "tuple[Argument | Group | Family, ...]" = ()


class Mode(NamedTuple):
    """A way to do something: where finetuning takes place, how a probe is fitted."""

    name: str
    help: str
    options: tuple[Option, ...] = ()


WIDTH = Option("width", Number(above=0), 1.0, "Multiplies the width of every layer.")
STEM = Option(
    "stem",
    Choice(("auto", "small", "standard")),
    "auto",
    "small is 3x3 without pooling; auto takes it for images below 64 pixels.",
)


class Encoder(NamedTuple):
    """A network that gives h: `function` builds it from an Architecture.

    `features` is the length of h; None where the network must be built to know it. One
    that `draws` has initial weights of its own, by torch's global generator, which is
    lent the state of furlkit's; of the others furlkit draws them. A name that ends in
    ":NAME" stands for every name of a library.
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


ANY = ":NAME"  # Ends the name of an entry that stands for all names of a library.


def named(*entries: Entry) -> dict[str, Entry]:
    return {entry.name: entry for entry in entries}


def entry_of(entries: Mapping[str, Any], name: str) -> Any:
    """The entry that a name chooses: its own, or its library's; None without one."""
    library, colon, _ = name.partition(":")
    return entries.get(name) or (entries.get(library + ANY) if colon else None)


class Family(NamedTuple):
    """A choice by name, as --objective, and the entries it chooses from.

    Each entry has options of its own. Where a preset's table serves several calls of a
    command that choose differently it is `mixed`: it has options of several entries.
    One that is `newer` than files of its command is recorded as a newer option is.
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
        kind, newer = Choice(self.entries), self.newer
        default, text = self.default, self.help
        return Option(self.name, kind, default, text, metavar="NAME", newer=newer)

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
        if option.kind != first.kind:
            raise UsageError(
                f"--{first.name}: {first_name} and {name} declare it with different "
                "types; an installed package must rename its option"
            )
    text = f"{first.help} Read by {', '.join(found)}."
    texts = _told({name: option.help for name, option in found.items()})
    if len(texts) > 1:
        text = " ".join(f"{names}: {help_}" for help_, names in texts.items())
    if len({option.default for option in found.values()}) == 1:
        return first._replace(help=text)
    defaults = _told({name: shown(option) for name, option in found.items()})
    usual = "; ".join(f"{default} for {names}" for default, names in defaults.items())
    return first._replace(default=None, help=text, usual=usual)


def _told(by_name: Mapping[str, str]) -> dict[str, str]:
    """What entries say of an option, each text once, and the names of who says it."""
    found: dict[str, list[str]] = {}
    for name, text in by_name.items():
        found.setdefault(text, []).append(name)
    return {text: ", ".join(names) for text, names in found.items()}


def key_of(name: str) -> str:
    """The name in Python of an option or a command."""
    return name.replace("-", "_")


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


def writes_file(option: Option) -> bool:
    """Return whether a command writes the file that an option names."""
    return isinstance(option.kind, File) and option.kind.written


def reads_file(option: Option) -> bool:
    """Return whether a command reads the file or the images that an option names."""
    kind = option.kind
    return isinstance(kind, Data) or (isinstance(kind, File) and kind.direction in READ)


@dataclass(frozen=True, eq=False, repr=False)
class Exchange(Method):
    """Data that passes between rounds besides the model: FedCA's dictionary, a bank.

    `function` is a class, see `furlkit.exchanges.exchange`. The options of an exchange
    with a `title` are a group of local-train's options; those with a `family` are a choice
    of methods with options. Objectives and terms list the options of the other exchanges.
    """

    title: str = ""
    family: Family | None = None

    @property
    def part(self) -> "Group | Family | None":
        """The group or family that the exchange adds to local-train."""
        return self.family or (Group(self.title, self.options) if self.title else None)

    @property
    def all_options(self) -> tuple[Option, ...]:
        """The options, with the choice and the options of a family."""
        family = (self.family.choice, *self.family.options) if self.family else ()
        return (*self.options, *family)


Part = Group | Family


class Command(NamedTuple):
    """A command: its name, one line of help, a longer text, its arguments and options.

    `stage` is the function that gets the values by key, and gives one result or several.
    A command with `commands` below it runs nothing itself.
    """

    name: str
    help: str
    text: str = ""
    parts: "tuple[Argument | Part | Callable[[], Part | list[Part]], ...]" = ()
    stage: str = ""
    commands: "tuple[Command, ...]" = ()

    @property
    def arguments(self) -> list[Argument]:
        """Its positional arguments."""
        return [part for part in self.parts if isinstance(part, Argument)]

    @property
    def resolved_parts(self) -> list[Part]:
        """Groups and families of options; functions are called for theirs."""
        found: list[Part] = []
        for part in self.parts:
            whole = part() if callable(part) else part
            if not isinstance(whole, Argument):
                found += whole if isinstance(whole, list) else [whole]
        return found

    @property
    def roles(self) -> dict[str, "Argument | Option"]:
        """The argument or option that takes the file of a role, by role."""
        takers: list[Argument | Option] = [*self.arguments, *self.options.values()]
        return {
            role: each
            for each in takers
            if isinstance(each.kind, File) and not each.kind.written
            for role in each.kind.roles
        }

    @property
    def families(self) -> list[Family]:
        """The choices whose entries have options of their own."""
        return [part for part in self.resolved_parts if isinstance(part, Family)]

    @property
    def groups(self) -> list[Group]:
        """Its options in the order of --help; options of the same title stand together."""
        found: dict[str, Group] = {}
        for part in self.resolved_parts:
            for group in part.groups if isinstance(part, Family) else [part]:
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


def command(
    name: str,
    help_text: str,
    text: str,
    *parts: "Argument | Part | Callable[[], Part | list[Part]]",
    run: str = "",
) -> Command:
    """A command with these arguments and groups of options.

    `evaluate drift` calls `run` in furlkit/stages/evaluate/drift.py, unless `run` names
    another function.
    """
    place = key_of(name).replace(" ", ".")
    return Command(name, help_text, text, parts, run or f"furlkit.stages.{place}:run")


def command_group(name: str, help_text: str, *commands: Command) -> Command:
    """A command that has others below it."""
    return Command(name, help_text, commands=commands)
