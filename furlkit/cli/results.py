"""Commands about results: embed, evaluate, inspect, plot."""

from pathlib import Path

import click

from furlkit.cli import options as shared
from furlkit.cli.options import FilePath, Numbers, Real
from furlkit.errors import UsageError


@click.command()
@click.argument("model", metavar="CHECKPOINT", type=FilePath)
@shared.preset
@shared.data("The images to embed.")
@shared.split
@click.option(
    "--layer",
    type=click.Choice(["h", "z"]),
    default="h",
    show_default=True,
    help="h, what the encoder gives, or z, what the projector makes of it.",
)
@click.option(
    "--similarity", is_flag=True, help="Write the cosines between all images instead."
)
@click.option("--partition", type=FilePath, help="Where --part is looked up.")
@click.option(
    "--part",
    default="all",
    show_default=True,
    metavar="all|public|CLIENT",
    help="Which images.",
)
@shared.device
@shared.output
@shared.dry_run
@shared.speech
def embed(model, data, data_root, download, split, device, threads, **rest) -> None:
    """Write what a model makes of images: features or similarities.

    \b
    Example:
      furlkit embed exp/r003/global.safetensors --data digits --split test \\
          -o exp/r003/features.safetensors
    """
    from furlkit.data.source import Source
    from furlkit.runtime import Runtime
    from furlkit.stages.embed import Options, run

    source = Source(data, data_root, download, split=split)
    runtime = Runtime(device, threads)
    shared.tell(run(Options(model=model, data=source, runtime=runtime, **rest)))


@click.group()
def evaluate() -> None:
    """Score a representation; the result is a JSON file."""


_scored = shared.stacked(
    click.argument("model", metavar="CHECKPOINT", type=FilePath),
    shared.preset,
    shared.data("Labelled images to learn from; its test split is the test set."),
    click.option("--test-data", metavar="NAME|PATH",
                 help="Labelled images to test on  [default: the test split of --data]"),
)  # fmt: skip
_ending = shared.stacked(shared.device, shared.output, shared.dry_run, shared.speech)


def _options(model, data, test_data, data_root, download, device, threads, **rest):
    from furlkit.data.datasets import names
    from furlkit.data.source import Source
    from furlkit.runtime import Runtime
    from furlkit.stages.evaluate import Options

    if test_data is None and data not in names() and Path(data).exists():
        raise UsageError(
            f"--data {data}: has no test split of its own; give --test-data"
        )
    train = Source(data, data_root, download)
    test = Source(test_data or data, data_root, download, split="test")
    runtime = Runtime(device, threads)
    return Options(model=model, train=train, test=test, runtime=runtime, **rest)


@evaluate.command()
@_scored
@shared.optimisation(momentum=0.0)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Epochs; the last one is reported.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    default=512,
    show_default=True,
    help="Images in a batch.",
)
@click.option(
    "--milestones",
    type=Numbers(int),
    help="Epochs after which the rate is divided by 10: 60,80.",
)
@shared.seed
@_ending
def linear(
    optimiser, lr, weight_decay, momentum, epochs, batch_size, milestones, **rest
):
    """Train a linear classifier on the frozen h.

    \b
    Example:
      furlkit evaluate linear exp/r003/global.safetensors --data digits \\
          --preset fedca -o exp/r003/linear.json
    """
    from furlkit.evaluation.linear import LinearSettings
    from furlkit.stages.evaluate import run

    settings = LinearSettings(
        optimiser, lr, weight_decay, momentum, epochs, batch_size, milestones or ()
    )
    shared.tell(run(_options(**rest), settings))


@evaluate.command()
@_scored
@click.option(
    "--k",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Neighbours that vote.",
)
@click.option(
    "--temperature",
    type=Real(0, min_open=True),
    default=0.1,
    show_default=True,
    help="Of the vote's weights exp(cosine / t).",
)
@_ending
def knn(k, temperature, **rest) -> None:
    """Let the k nearest training images vote, by cosine of h.

    \b
    Example:
      furlkit evaluate knn exp/r003/global.safetensors --data digits -o exp/r003/knn.json
    """
    from furlkit.stages.evaluate import KnnSettings, run

    shared.tell(run(_options(**rest), KnnSettings(k, temperature)))


@click.command()
@click.argument("paths", nargs=-1, required=True, type=FilePath, metavar="FILE...")
@click.option(
    "--verify", is_flag=True, help="Check every byte against the content hash."
)
@click.option("--tensors", is_flag=True, help="List every tensor of a large file.")
@shared.speech
def inspect(paths, verify, tensors) -> None:
    """Explain any file of furlkit's.

    \b
    Example:
      furlkit inspect exp/r001/client_0.safetensors
    """
    from furlkit.stages.inspect import Options, run

    shared.tell(run(Options(paths, verify, tensors)))


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


COMMANDS = (embed, evaluate, inspect, plot)
