"""plot: pictures of results and partitions, a command a picture."""

from pathlib import Path

import click

from furlkit.cli import options as shared
from furlkit.cli.options import FilePath
from furlkit.errors import UsageError


@click.group()
def plot() -> None:
    """Draw pictures of results and partitions."""


@plot.command()
@click.argument("files", nargs=-1, type=FilePath, metavar="METRICS...")
@click.option(
    "--series",
    multiple=True,
    metavar="LABEL=FILE,FILE,...",
    help="A labelled line of its own; may be repeated.",
)
@click.option(
    "--value",
    default="accuracy",
    show_default=True,
    help="What to draw: the name of a number in the files.",
)
@click.option("--title", default="", help="Stands above the picture.")
@shared.output
@shared.dry_run
@shared.speech
def curve(files, series, output, **rest) -> None:
    """Draw accuracy through the rounds from metrics files.

    Several files of one round (several seeds) give a mean and a band.

    \b
    Example:
      furlkit plot curve exp/r*/knn.json -o exp/curve.png
    """
    from furlkit.stages.plot import CurveOptions, run_curve

    lines = [("", tuple(files))] if files else []
    for text in series:
        label, equals, names = text.partition("=")
        if not equals:
            raise UsageError(f"--series {text}: wanted LABEL=FILE,FILE,...")
        lines.append((label, tuple(map(Path, names.split(",")))))
    if not lines:
        raise UsageError("plot curve: give metrics files, or --series LABEL=FILE,...")
    shared.tell(run_curve(CurveOptions(tuple(lines), output, **rest)))


@plot.command("partition")
@click.argument("partition", type=FilePath)
@click.option(
    "--style",
    type=click.Choice(["heat", "bubbles"]),
    default="heat",
    show_default=True,
    help="A heat map, or bubbles by size.",
)
@click.option("--title", help="Stands above the picture.")
@shared.output
@shared.dry_run
@shared.speech
def plot_partition(**options) -> None:
    """Draw which client holds how many images of which class.

    \b
    Example:
      furlkit plot partition exp/partition.safetensors -o exp/partition.png
    """
    from furlkit.stages.plot import PartitionOptions, run_partition

    shared.tell(run_partition(PartitionOptions(**options)))


COMMANDS = (plot,)
