"""Entries of the catalogue as click's options and commands, and the layout of --help."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from glob import escape, glob
from inspect import cleandoc
from math import isfinite
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click
from click.core import ParameterSource

from furlkit import catalogue, console, presets, runtime
from furlkit.catalogue import Argument, Option, writes_file
from furlkit.catalogue.registry import NAMES
from furlkit.cli.values import type_of
from furlkit.errors import UsageError, did_you_mean
from furlkit.files import bugs, late, receipts
from furlkit.files.lock import holding

CLICKS = (click.ClickException, click.Abort, click.exceptions.Exit)
# Recipes pass a preset to every stage; presets may lack tables for these commands.
OPTIONAL = (["evaluate", "classifier"], ["evaluate", "cluster"])
WORDS = "furlkit --help-words explains h, z, probe, spread, rank and other words."
TYPED = "furlkit.words"  # In a context's meta: the words after the command's name.


# Of a command with more than MANY options, --help shows TEN: the required options, then
# the first options of OFTEN.
MANY, TEN = 30, 10
OFTEN = (
    *("clients", "data", "test_data", "partition", "private", "private_out", "parent"),
    *("output", "preset", "objective", "rule", "teacher", "encoder", "width", "update"),
    *("fraction", "mode", "epochs", "lr", "batch_size", "seed", "device"),
)
ALL = "furlkit.all"  # In a context's meta: whether --help-all is given.
HELP_ROW = ("-h, --help", "Show this message and exit.")


def _show_all(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, hidden=True,
    callback=_show_all, help="Show all options and exit.",
)  # fmt: skip


def _metavar(option: Option) -> str:
    return option.metavar or type_of(option.kind)[1]


def _help(option: Option) -> str:
    """Help of an option with long lists of choices and the default."""
    text = option.help
    if isinstance(option.kind, catalogue.Choice) and not option.metavar:
        listed = _metavar(option) == "NAME"
        text += f" One of {', '.join(option.kind.words)}." if listed else ""
    if option.required:
        return f"{text}  [required]"
    usual = catalogue.shown(option)
    return f"{text}  [default: {usual}]" if usual else text


def _click_option(option: Option) -> click.Option:
    flags = [*([option.second] if option.second else []), f"--{option.name}"]
    more: dict[str, Any]
    if isinstance(option.kind, catalogue.Flag):
        # Without a default, neither flag of a pair is given: the value is None.
        more = {
            "is_flag": True,
            "default": option.default if option.negative else False,
        }
        if option.negative:
            flags[-1] += f"/--{option.negative}"
    else:
        kind, form = type_of(option.kind)
        more = {"type": kind, "metavar": option.metavar or form}
    # With a default of None, click would accept a missing required option.
    if option.default is not None and not option.multiple:
        more["default"] = option.default
    if option.key in _CALLBACKS:
        more["callback"] = _CALLBACKS[option.key]
        more["expose_value"] = option.key == "isa"
        # Other options may warn.
        more["is_eager"] = option.key in ("preset", "strict")
    return click.Option(
        [*flags, option.key],
        help=_help(option),
        required=option.required,
        multiple=option.multiple,
        **more,
    )


def _set_verbosity(_: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value and parameter.name in ("json", "strict"):
        setattr(console.settings, parameter.name, True)
    elif value:
        console.settings.verbosity = -1 if parameter.name == "quiet" else 1


def _apply_preset(context: click.Context, _: click.Parameter, name: str | None) -> None:
    """Use the preset's table as defaults of the command; typed options win."""
    if name is None:
        return
    stage = context.command_path.split()[1:]
    table = _table(name, stage)
    by_name = {o.name: o for o in catalogue.COMMANDS[" ".join(stage)].options.values()}
    for key in table:
        if key not in by_name or key == "preset":
            raise UsageError(
                f"--preset {name}: [{'.'.join(stage)}] sets {key!r}, "
                f"which {context.command_path} does not have"
            )
        if writes_file(by_name[key]):
            raise UsageError(
                f"--preset {name}: [{'.'.join(stage)}] sets {key!r}; a preset cannot "
                f"name an output file, so type --{key}"
            )
        if key == "force":
            raise UsageError(
                f"--preset {name}: [{'.'.join(stage)}] sets {key!r}; a preset cannot "
                f"decide about existing files, so type --{key}"
            )
    context.default_map = {
        by_name[key].key: _typed(name, by_name[key], value)
        for key, value in table.items()
    }


def _typed(name: str, option: catalogue.Option, value: Any) -> Any:
    endless = isinstance(value, float) and not isfinite(value)
    if endless or not isinstance(value, str | int | float | list):
        raise UsageError(
            f"--preset {name}: {option.name!r} is {value!r}, expected text, a number, "
            "true, false or a list"
        )
    if option.multiple:
        return value if isinstance(value, list) else [value]
    # Comma-separated options take text; click would read a list differently.
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _table(name: str, stage: list[str]) -> dict[str, Any]:
    found = presets.table(presets.tables(name), " ".join(stage))
    if found is not None:
        return found
    if stage in OPTIONAL:
        return {}
    raise UsageError(f"--preset {name}: has no table [{'.'.join(stage)}]")


def _set_isa(_: click.Context, _parameter: click.Parameter, value: str) -> str:
    runtime.set_isa(value)  # Now, because no command has imported torch yet.
    return value


_CALLBACKS: dict[str, Callable[..., Any]] = {
    "isa": _set_isa,
    "json": _set_verbosity,
    "quiet": _set_verbosity,
    "verbose": _set_verbosity,
    "strict": _set_verbosity,
    "preset": _apply_preset,
}


class Command(click.Command):
    """A command with options in the groups of the catalogue.

    Plugins are loaded for --help, and if furlkit's options and names cannot explain a
    command line.
    """

    def __init__(self, entry: catalogue.Command):
        super().__init__(
            entry.name.split()[-1],
            callback=lambda **values: _hold_and_run(
                entry, _resolved(entry.name, values)
            ),
            help=f"{entry.help}\n\n{cleandoc(entry.text)}",
            epilog=WORDS,
        )
        self.entry = entry
        self._declare()

    def _declare(self) -> None:
        options = map(_click_option, self.entry.options.values())
        self.params = [*map(_click_argument, self.entry.arguments), *options]

    def make_context(
        self, info_name: str | None, args: list[str], *more: Any, **settings: Any
    ) -> click.Context:
        """Read the arguments."""
        words = list(args)
        try:
            context = self._read(info_name, args, *more, **settings)
        except click.NoSuchOption as error:
            raise self._explained(error) from error
        context.meta[TYPED] = words
        return context

    def _read(
        self, info_name: str | None, args: list[str], *more: Any, **settings: Any
    ) -> click.Context:
        """Read the arguments; after a failure, retry with the options of plugins."""
        read = super().make_context
        try:
            return read(info_name, list(args), *more, **settings)
        except (click.UsageError, UsageError):
            if not catalogue.add_plugins():
                raise
        self._declare()
        return read(info_name, args, *more, **settings)

    def _explained(self, error: click.NoSuchOption) -> click.UsageError:
        """An error about an unknown option with furlkit's name for the option."""
        word = error.option_name.lstrip("-")
        known = [option.name for option in self.entry.options.values()]
        hint = did_you_mean(word, known, "--")
        if name := catalogue.our_name(word, known):
            hint = f"; did you mean --{name}?"
        if self.entry.name == "plan":
            hint = f"; a setting of the recipe is given without dashes: {word}=VALUE"
        return click.UsageError(f"No such option {error.option_name}{hint}", error.ctx)

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Return the arguments and options, with --help and --help-all."""
        return [*super().get_params(context), HELP_ALL]

    def get_help(self, context: click.Context) -> str:
        """The text of --help."""
        if catalogue.add_plugins():
            self._declare()
        return super().get_help(context)

    def format_options(
        self, context: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write a section for each group, or the most used options and the titles."""
        shown = {p.name: p for p in self.params if isinstance(p, click.Option)}
        if len(shown) <= MANY or context.meta.get(ALL):
            self._format_groups(shown, formatter)
            return
        options = self.entry.options
        required = [key for key, option in options.items() if option.required]
        often = [key for key in dict.fromkeys([*required, *OFTEN]) if key in options]
        with formatter.section("Options used most"):
            rows = [_row(options[key], shown[key]) for key in often[:TEN]]
            formatter.write_dl([*rows, HELP_ROW], col_max=26)
        with formatter.section(f"All {len(shown)} options are in --help-all"):
            for title in _short_titles([group.title for group in self.entry.groups]):
                formatter.write_text(title)

    def _format_groups(
        self, shown: dict[str, click.Option], formatter: click.HelpFormatter
    ) -> None:
        for group in self.entry.groups:
            first, *rest = (_row(o, shown[o.key]) for o in group.options)
            choices = ((f"  {name}", text) for name, text in group.choices)
            rows = [first, *choices, *rest]
            if group.title == "General":
                rows.append(HELP_ROW)
            with formatter.section(group.title):
                formatter.write_dl(rows, col_max=26)


def _short_titles(titles: list[str]) -> list[str]:
    """Merge titles of one choice: --update fedema, --update dum -> --update fedema, dum."""
    short: list[str] = []
    for title in titles:
        flag, _, name = title.partition(" ")
        if flag.startswith("--") and short and short[-1].startswith(f"{flag} "):
            short[-1] += f", {name}"
        else:
            short.append(title)
    return short


def _hold_and_run(entry: catalogue.Command, values: dict[str, Any]) -> None:
    """Run a command while no other process writes the output.

    local-train writes several files, and holds a file only during the client's training.
    """
    output = values.get("output")
    path = output if isinstance(output, Path) else None
    with bugs.kept(path, CLICKS):
        if not values.get("force"):
            _check_outputs(entry, values)
        if path and not values.get("dry_run"):
            with holding(path), _noting(entry, values):
                _run_stage(entry.stage, values)
        else:
            with _noting(entry, values):
                _run_stage(entry.stage, values)


def _check_outputs(entry: catalogue.Command, values: dict[str, Any]) -> None:
    """Refuse to replace a file that this command did not write."""
    for option in filter(writes_file, entry.options.values()):
        kind, pattern = option.kind, str(values.get(option.key) or "")
        if not isinstance(kind, catalogue.File) or not pattern:
            continue
        clients = values.get("clients") if kind.per_client else None
        if clients is None or clients == ("all",):
            paths = glob(escape(pattern).replace("{client}", "*"))
            outputs = [(path, None) for path in paths]
        else:
            outputs = [(pattern.replace("{client}", str(k)), k) for k in clients]
        flag = option.second or f"--{option.name}"
        for path, client in outputs:
            if Path(path).exists():
                # Here, because a first run does not need the modules for headers.
                from furlkit.files.replaceable import check_replaceable

                check_replaceable(
                    Path(path), flag, entry.name, kind.kinds, client,
                    force="force" in entry.options,
                )  # fmt: skip


def _run_stage(stage: str, values: dict[str, Any]) -> None:
    """Import a stage, call the stage, and print the results."""
    runtime.limit_numpy(values.get("threads") or 1)
    tell(resolve_name(stage)(values))


@contextmanager
def _noting(entry: catalogue.Command, values: dict[str, Any]) -> Iterator[None]:
    """Record the command and the outputs in the folder of a planned run."""
    output = str(values.get("output") or "")
    folder = receipts.run_folder(output) if not values.get("dry_run") else None
    if not output or folder is None:
        yield
        return
    words = [*entry.name.split(), *click.get_current_context().meta[TYPED]]
    writing = {f"--{o.name}" for o in entry.options.values() if writes_file(o)}
    clients = _clients(values) if "{client}" in output else (None,)
    calls = [receipts.call_of(words, client, writing) for client in clients]
    # Before receipts take the hashes of inputs.
    inputs = {path: None for call in calls for path in call.reads_within(folder)}
    if waited := late.wait_for(inputs):
        console.info(f"waited {waited:.1f} s for missing files")
    preset, warned = partial(_preset_text, entry.name), console.settings.warned
    code = catalogue.used_code
    code.clear()  # Several commands may run in one process.
    with receipts.noting(folder, calls, preset, warned, code):
        yield


def _clients(values: dict[str, Any]) -> tuple[Any, ...]:
    """Clients of a command with an output for each client; None for other commands."""
    clients = values.get("clients")  # A number in partition.
    if clients != ("all",):
        return clients if isinstance(clients, tuple) else (None,)
    chosen_clients = catalogue.load("furlkit.inputs.sites:chosen_clients")
    return chosen_clients(clients, values["partition"])


def _preset_text(command: str, name: str) -> str | None:
    return presets.table_text(name, command)


def _row(option: Option, shown: click.Option) -> tuple[str, str]:
    names = ", ".join(shown.opts)
    if shown.secondary_opts:
        names += f" / {shown.secondary_opts[0]}"
    return f"{names} {_metavar(option)}".rstrip(), shown.help or ""


def _one_or_none(_: click.Context, parameter: click.Parameter, given: tuple) -> Any:
    if len(given) > 1:
        name = str(parameter.name).upper()
        raise UsageError(f"{name}: expected one file at most, found {len(given)}")
    return given[0] if given else None


def _click_argument(argument: Argument) -> click.Argument:
    """Positional argument; click reads a `first` argument as a list of 0 or 1 files."""
    key, first = argument.key, argument.first
    return click.Argument(
        [key],
        argument.required and not first,
        type=type_of(argument.kind)[0],
        metavar=f"[{key.upper()}]" if first else argument.metavar or None,
        nargs=-1 if first or argument.several else 1,
        callback=_one_or_none if first else None,
    )


class Commands(click.Group):
    """Commands in the catalogue's order, created on demand."""

    def __init__(self, path: str = "", **more: Any):
        name = path or "furlkit"
        super().__init__(name, **more)
        self._path = f"{path} " if path else ""

    def list_commands(self, _context: click.Context | None = None) -> list[str]:
        """The names of the commands of this group."""
        if not self._path:
            return [*NAMES]
        below = catalogue.COMMANDS[self._path.strip()].commands
        return [entry.name.removeprefix(self._path) for entry in below]

    def get_command(
        self, context: click.Context | None, name: str
    ) -> click.Command | None:
        """The command of this name."""
        if name not in self.list_commands(context):
            return None
        return _click_command(f"{self._path}{name}")

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command named by the first word, and the words after the name."""
        name = words[0]
        unknown = self.get_command(context, name) is None
        if unknown and not name.startswith("-") and not context.resilient_parsing:
            hint = self.hint(name)
            raise click.UsageError(f"No such command {name!r}{hint}", context)
        return super().resolve_command(context, words)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Read the words up to the name of a command, with a hint for other words."""
        try:
            return super().parse_args(context, args)
        except click.NoSuchOption as error:
            if not self._path:
                raise
            names = ", ".join(self.list_commands())
            raise click.UsageError(
                f"No such option {error.option_name}; furlkit {self._path.strip()} needs "
                f"a command before the options: {names}",
                context,
            ) from error

    def hint(self, name: str) -> str:
        """Suggest a command of this group, or of another group, for an unknown name."""
        if self._path and Path(name).exists():
            first = self.list_commands()[0]
            return f"; a command comes first: furlkit {self._path}{first} {name}"
        below = [each for each in catalogue.COMMANDS if each.endswith(f" {name}")]
        if below:
            return f"; did you mean {below[0]}?"
        return did_you_mean(name, self.list_commands())

    def format_commands(
        self, context: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands."""
        names = self.list_commands(context)
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, catalogue.COMMANDS[self._path + name].help) for name in names]
            )


@cache
def _click_command(name: str) -> click.Command:
    entry = catalogue.COMMANDS[name]
    return Commands(name, help=entry.help) if entry.commands else Command(entry)


def _resolved(name: str, given: dict[str, Any]) -> dict[str, Any]:
    source = click.get_current_context().get_parameter_source
    by_hand = {key for key in given if source(key) is ParameterSource.COMMANDLINE}
    from_preset = {key for key in given if source(key) is ParameterSource.DEFAULT_MAP}
    return catalogue.resolved(name, given, by_hand, from_preset)


def tell(results: Iterable[tuple[str, dict]] | tuple[str, dict] | None) -> None:
    """Print the result of a stage, or the results one by one."""
    dry = click.get_current_context().params.get("dry_run")
    for line, values in [results] if isinstance(results, tuple) else results or ():
        planned = dry and not line.startswith("would")
        console.result(f"would write {line}" if planned else line, values)


def check_words(program: click.Group, words: list[str]) -> dict[str, Any]:
    """Values of a command line by key; raise for invalid words. Opens no file."""
    node: click.Command | None = program
    context = click.Context(program, info_name="furlkit")
    left, before = list(words), replace(console.settings)
    try:
        while isinstance(node, click.Group):
            name = left.pop(0)
            node = node.get_command(context, name)
            if isinstance(node, click.Group):
                context = click.Context(node, parent=context, info_name=name)
        if not isinstance(node, Command):
            group = context.command
            hint = group.hint(name) if isinstance(group, Commands) else ""
            raise UsageError(f"{name} is not a command of furlkit{hint}")
        with node.make_context(name, left, parent=context) as context:
            return _resolved(node.entry.name, dict(context.params))
    except click.ClickException as error:
        raise UsageError(error.format_message()) from error
    finally:
        vars(console.settings).update(vars(before))
