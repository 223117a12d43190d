"""Options that several commands share, as small decorators, and their types."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from furlkit import console, runtime
from furlkit.cli import presets
from furlkit.errors import UsageError

Decorator = Callable[[Callable], Callable]
FilePath = click.Path(path_type=Path)
MOST_CLIENTS = 10**6
LARGEST = 1e30
# The head each objective trains; the stage's own table says the same.
OBJECTIVES = {
    "simclr": "projector",
    "rotation": "rotation",
    "autoencoder": "decoder",
    "supervised": "classifier",
}


class Real(click.FloatRange):
    """A number within a range, which NaN never is, and that float32 can hold."""

    def convert(self, value, param, ctx):
        """Text to a number."""
        number = super().convert(value, param, ctx)
        if not abs(number) <= LARGEST:
            self.fail(f"{value!r}: wanted a number up to {LARGEST:g}", param, ctx)
        return number


class Numbers(click.ParamType):
    """Numbers with commas between: 0.2,1."""

    def __init__(self, kind: type, count: int | None = None):
        self.name = "NUMBERS" if count is None else ",".join(["N"] * count)
        self._kind, self._count = kind, count

    def convert(self, value, param, ctx):
        """Text to a tuple of numbers."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(self._kind(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r}: wanted numbers with commas between", param, ctx)
        if self._count is not None and len(numbers) != self._count:
            self.fail(f"{value!r}: wanted {self._count} numbers", param, ctx)
        if not all(abs(number) <= LARGEST for number in numbers):
            self.fail(f"{value!r}: wanted numbers up to {LARGEST:g}", param, ctx)
        return numbers


class Clients(click.ParamType):
    """Clients by number: 3, 0-4, 0,2,5-7; the order and repeats do not matter."""

    name = "CLIENTS"

    def convert(self, value, param, ctx):
        """Text to a sorted tuple of numbers."""
        if isinstance(value, tuple):
            return value
        chosen: set[int] = set()
        for part in str(value).split(","):
            first, dash, last = part.partition("-")
            if not first.isdecimal() or (dash and not last.isdecimal()):
                self.fail(
                    f"{value!r}: wanted numbers like 3, 0-4 or 0,2,5-7", param, ctx
                )
            if int(last or first) - int(first) >= MOST_CLIENTS:
                self.fail(f"{value!r}: is more than {MOST_CLIENTS:,}", param, ctx)
            chosen.update(range(int(first), int(last or first) + 1))
        if not chosen:
            self.fail(
                f"{value!r}: is empty; the smaller number comes first", param, ctx
            )
        return tuple(sorted(chosen))


def stacked(*decorators: Decorator) -> Decorator:
    """Several decorators as one, in the order they are read."""

    def decorate(function: Callable) -> Callable:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def _say(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if parameter.name == "as_json" and value:
        console.settings.json = True
    elif parameter.name == "quiet" and value:
        console.settings.verbosity = -1
    elif parameter.name == "verbose" and value:
        console.settings.verbosity = 1


speech = stacked(
    click.option("--json", "as_json", is_flag=True, expose_value=False, callback=_say,
                 help="Print the result as JSON."),
    click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=_say,
                 help="Say nothing but the result, warnings and errors."),
    click.option("-v", "--verbose", is_flag=True, expose_value=False, callback=_say,
                 help="Say more."),
)  # fmt: skip

preset = click.option(
    "--preset", is_eager=True, expose_value=False, callback=presets.apply,
    metavar="NAME|FILE.toml",
    help="Take defaults from this command's table of a preset; flags win.",
)  # fmt: skip
output = click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True,
    help="The file to write.",
)  # fmt: skip
seed = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True,
    help="What every random draw is derived from.",
)  # fmt: skip
dry_run = click.option(
    "--dry-run", is_flag=True, help="Open and check every input, print the plan, stop."
)


def _set_isa(context: click.Context, parameter: click.Parameter, value: str) -> str:
    runtime.set_isa(value)  # Now, because no command has imported torch yet.
    return value


isa = click.option(
    "--isa", type=click.Choice(runtime.ISAS), default="auto", show_default=True,
    callback=_set_isa,
    help="CPU instructions; avx2 or avx512 give the same bytes on every CPU that has "
    "them.",
)  # fmt: skip
device = stacked(
    click.option("--device", default="auto", show_default=True,
                 metavar="auto|cpu|cuda|cuda:N|mps", help="Where to compute."),
    click.option("--threads", type=click.IntRange(1), default=1, show_default=True,
                 help="Threads of the CPU; several clients at once beat several "
                 "threads in one."),
    isa,
)  # fmt: skip


def data(help_text: str, required: bool = True) -> Decorator:
    """--data and where its files lie."""
    return stacked(
        click.option("--data", required=required, metavar="NAME|PATH", help=help_text),
        data_place,
    )


data_place = stacked(
    click.option("--data-root", type=FilePath,
                 help="Where torchvision's datasets lie  [default: data]"),
    click.option("--download", is_flag=True, help="Fetch the dataset if it is missing."),
)  # fmt: skip


split = click.option(
    "--split", type=click.Choice(["train", "test"]), default="train", show_default=True,
    help="Which split of a dataset known by name.",
)  # fmt: skip


def optimisation(momentum: float) -> Decorator:
    """How weights are moved."""
    return stacked(
        click.option("--optimiser", type=click.Choice(["adam", "sgd"]), default="adam",
                     show_default=True, help="How weights are moved."),
        click.option("--lr", type=Real(0, min_open=True), default=1e-3,
                     show_default=True, help="Learning rate."),
        click.option("--weight-decay", type=Real(0), default=1e-6, show_default=True,
                     help="L2 penalty, added to the gradient."),
        click.option("--momentum", type=Real(0, 1), default=momentum, show_default=True,
                     help="SGD's momentum."),
    )  # fmt: skip


def check_momentum(optimiser: str, momentum: float) -> None:
    """Adam has momenta of its own: one that is given by hand would not be read."""
    source = click.get_current_context().get_parameter_source("momentum")
    if optimiser == "adam" and source is ParameterSource.COMMANDLINE:
        raise UsageError(f"--momentum {momentum:g}: only --optimiser sgd takes one")


def overruled(choice: str, names: Iterable[str]) -> list[str]:
    """Those of the options that a preset sets, where `choice` is made anew by hand.

    A preset's alpha belongs to its own --scheme: with another it is no mistake of the
    user's that nothing reads it.
    """
    source = click.get_current_context().get_parameter_source
    if source(choice) is not ParameterSource.COMMANDLINE:
        return []
    return [name for name in names if source(name) is ParameterSource.DEFAULT_MAP]


def tell(results: Iterable[tuple[str, dict]] | tuple[str, dict]) -> None:
    """Print what a stage gave: one result, or one after the other."""
    dry = click.get_current_context().params.get("dry_run")
    for line, values in [results] if isinstance(results, tuple) else results:
        planned = dry and not line.startswith("would")
        console.result(f"would write {line}" if planned else line, values)
