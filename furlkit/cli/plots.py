"""plot: pictures of results and partitions, a command a picture; compare: a table."""

from pathlib import Path

import click

from furlkit.cli import options as shared
from furlkit.cli.options import FilePath, Numbers, Real
from furlkit.errors import UsageError

title = click.option("--title", default="", help="Stands above the picture.")
value = click.option(
    "--value",
    default="accuracy",
    show_default=True,
    help="What to show: the name of a number in the files.",
)


@click.group()
def plot() -> None:
    """Draw pictures of results and partitions."""


def split_series(text: str) -> tuple[str, tuple[Path, ...]]:
    """LABEL=FILE,FILE,... as a label and its files."""
    label, equals, names = text.partition("=")
    if not equals or not all(names.split(",")):
        raise UsageError(f"--series {text}: wanted LABEL=FILE,FILE,...")
    return label, tuple(map(Path, names.split(",")))


def labelled(command: str, files, series) -> tuple[tuple[str, tuple[Path, ...]], ...]:
    """Files without a label, then those of each --series."""
    lines = [("", tuple(files))] if files else []
    lines += map(split_series, series)
    if not lines:
        raise UsageError(
            f"plot {command}: give metrics files, or --series LABEL=FILE,..."
        )
    return tuple(lines)


@plot.command()
@click.argument("files", nargs=-1, type=FilePath, metavar="METRICS...")
@click.option(
    "--series",
    multiple=True,
    metavar="LABEL=FILE,FILE,...",
    help="A labelled line of its own; may be repeated.",
)
@value
@title
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
    from furlkit.stages.plot.scores import CurveOptions, run_curve

    lines = labelled("curve", files, series)
    shared.tell(run_curve(CurveOptions(lines, output, **rest)))


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
    from furlkit.stages.plot.scores import PartitionOptions, run_partition

    shared.tell(run_partition(PartitionOptions(**options)))


@plot.command()
@click.argument("files", nargs=-1, type=FilePath, metavar="FEATURES...")
@click.option(
    "--panel",
    "panels",
    multiple=True,
    metavar="LABEL=FILE",
    help="A feature file with a heading; may be repeated.",
)
@shared.data("The images the features are of, for their classes.")
@click.option(
    "--split",
    type=click.Choice(["train", "test"]),
    default="test",
    show_default=True,
    help="Which split of a dataset known by name.",
)
@click.option(
    "--classes",
    type=Numbers(int),
    help="Classes in colour, the others in grey: 0,1  [default: all]",
)
@click.option(
    "--images",
    type=click.IntRange(2),
    default=2000,
    show_default=True,
    help="Draw at most these many of each file, chosen at random.",
)
@click.option(
    "--perplexity",
    type=Real(1),
    default=30,
    show_default=True,
    help="About how many neighbours an image is kept close to.",
)
@shared.seed
@click.option("--title", help="Stands above the picture.")
@shared.output
@shared.dry_run
@shared.speech
def tsne(
    files, panels, data, data_root, download, split, images, perplexity, seed, **rest
) -> None:
    """Draw features in the plane by t-SNE, coloured by class.

    Features are made by embed. Rows are scaled to length 1 first, so that near means a
    small angle; that is our choice. Files of the same images show the same ones of them.

    \b
    Example:
      furlkit plot tsne exp/r020/h_0.safetensors --data cifar10 --classes 0,1 \\
          -o exp/tsne.png
    """
    from furlkit.data.sets.source import Source
    from furlkit.stages.plot.tsne import Options, Settings, run

    shown = [("", path) for path in files]
    for text in panels:
        label, equals, name = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--panel {text}: wanted LABEL=FILE")
        shown.append((label, Path(name)))
    source = Source(data, data_root, download, split=split)
    settings = Settings(images, perplexity, seed)
    options = Options(tuple(shown), source, settings=settings, **rest)
    shared.tell(run(options))


@plot.command()
@click.argument("files", nargs=-1, type=FilePath, metavar="METRICS...")
@click.option(
    "--series",
    multiple=True,
    metavar="LABEL=FILE,FILE,...",
    help="A labelled panel of its own; may be repeated.",
)
@title
@shared.output
@shared.dry_run
@shared.speech
def angles(files, series, output, **rest) -> None:
    """Draw the angles between models through the rounds as boxes.

    The files are those of evaluate angles. Several files of one round (several seeds)
    stand side by side.

    \b
    Example:
      furlkit plot angles --series plain=a/r001/angles.json,a/r002/angles.json \\
          --series aligned=b/r001/angles.json,b/r002/angles.json -o angles.png
    """
    from furlkit.stages.plot.angles import Options, run

    panels = labelled("angles", files, series)
    shared.tell(run(Options(panels, output, **rest)))


@plot.command()
@click.option(
    "--series",
    multiple=True,
    required=True,
    metavar="[GROUP:]LABEL=FILE,FILE,...",
    help="A bar: the mean of its files, one a seed; may be repeated. Bars of the same "
    "group stand together, and a label has the same colour in all of them.",
)
@value
@click.option(
    "--reference",
    metavar="LABEL",
    help="Tell how far each bar is above this one of its group: the mean of the "
    "differences, paired by the models' seeds or else by the order of the files, with "
    "a 95% t interval.",
)
@click.option(
    "--from",
    "start",
    type=Real(0),
    default=0,
    show_default=True,
    help="Where the axis starts, in what is drawn (percent for an accuracy); if not at "
    "0, the axis says so.",
)
@title
@shared.output
@shared.dry_run
@shared.speech
def bars(series, output, **rest) -> None:
    """Draw means over seeds as bars, with their standard deviation.

    \b
    Example:
      furlkit plot bars --series IID:FedSimCLR=a0.json,a1.json \\
          --series IID:FedCA=b0.json,b1.json --reference FedSimCLR -o bars.png
    """
    from furlkit.reports.series import Series
    from furlkit.stages.plot.bars import Options, run

    found = []
    for text in series:
        words, files = split_series(text)
        group, colon, label = words.partition(":")
        found.append(Series(group, label, files) if colon else Series("", words, files))
    shared.tell(run(Options(tuple(found), output, **rest)))


@click.command()
@click.option(
    "--series",
    multiple=True,
    required=True,
    metavar="LABEL=FILE,FILE,...",
    help="A line: the files of a method, one a seed; may be repeated.",
)
@value
@click.option(
    "--reference",
    metavar="LABEL",
    help="Tell how far each line is above this one: the mean of the differences, paired "
    "by seed or else by the order of the files, with a 95% t interval.",
)
@click.option(
    "--published",
    multiple=True,
    metavar="LABEL=NUMBER",
    help="What a paper prints for a line (percent for an accuracy); may be repeated.",
)
@click.option(
    "--lowest",
    multiple=True,
    metavar="LABEL",
    help="The files of this line are several a seed, of which only the lowest counts, "
    "as of all clients the worst; may be repeated.",
)
@shared.speech
def compare(series, value, reference, published, lowest) -> None:
    """Print scores of several seeds side by side, with paired differences.

    \b
    Example:
      furlkit compare --series FedSimCLR=a0.json,a1.json --series FedCA=b0.json,b1.json \\
          --reference FedSimCLR
    """
    from furlkit.reports.series import Series
    from furlkit.stages.compare import Options, run

    lines = [Series("", *split_series(text)) for text in series]
    for label in sorted(set(lowest) - {line.label for line in lines}):
        raise UsageError(f"--lowest {label}: is no label of a --series")
    lines = [line._replace(lowest=line.label in lowest) for line in lines]
    numbers = []
    for text in published:
        label, _, number = text.rpartition("=")
        try:
            numbers.append((label, float(number)))
        except ValueError as error:
            raise UsageError(f"--published {text}: wanted LABEL=NUMBER") from error
    shared.tell(run(Options(tuple(lines), value, reference, tuple(numbers))))


COMMANDS = (plot, compare)
