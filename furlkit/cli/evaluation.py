"""evaluate: what a representation is worth, a command a protocol."""

from pathlib import Path

import click

from furlkit.cli import options as shared
from furlkit.cli import presets
from furlkit.cli.options import FilePath, Numbers, Real
from furlkit.errors import UsageError


@click.group()
def evaluate() -> None:
    """Score a representation; the result is a JSON file."""


scored = shared.stacked(
    click.argument("model", metavar="CHECKPOINT", type=FilePath),
    shared.preset,
    shared.data("Labelled images to learn from; its test split is the test set."),
    click.option("--test-data", metavar="NAME|PATH",
                 help="Labelled images to test on  [default: the test split of --data]"),
)  # fmt: skip
ending = shared.stacked(shared.device, shared.output, shared.dry_run, shared.speech)


def _check_split(data: str, test_data: str | None) -> None:
    from furlkit.data.sets.datasets import names

    if test_data is None and data not in names() and Path(data).exists():
        raise UsageError(
            f"--data {data}: has no test split of its own; give --test-data"
        )


def build_options(
    model, data, test_data, data_root, download, device, threads, isa, **rest
):
    from furlkit.data.sets.source import Source
    from furlkit.runtime import Runtime
    from furlkit.stages.evaluate.frozen import Options

    _check_split(data, test_data)
    train = Source(data, data_root, download)
    test = Source(test_data or data, data_root, download, split="test")
    runtime = Runtime(device, threads, isa)
    return Options(model=model, train=train, test=test, runtime=runtime, **rest)


@evaluate.command()
@scored
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
@ending
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
    from furlkit.stages.evaluate.frozen import run

    settings = LinearSettings(
        optimiser, lr, weight_decay, momentum, epochs, batch_size, milestones or ()
    )
    shared.tell(run(build_options(**rest), settings))


@evaluate.command()
@scored
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
@ending
def knn(k, temperature, **rest) -> None:
    """Let the k nearest training images vote, by cosine of h.

    \b
    Example:
      furlkit evaluate knn exp/r003/global.safetensors --data digits -o exp/r003/knn.json
    """
    from furlkit.stages.evaluate.frozen import KnnSettings, run

    shared.tell(run(build_options(**rest), KnnSettings(k, temperature)))


def _apply_if_there(
    context: click.Context, parameter: click.Parameter, name: str | None
) -> str | None:
    """Recipes name their preset on every stage; here is little that one could set."""
    tables = presets.tables(name).get("evaluate") if name else None
    if isinstance(tables, dict) and "classifier" in tables:
        return presets.apply(context, parameter, name)
    return name


@evaluate.command()
@click.argument("model", metavar="CHECKPOINT", type=FilePath)
@click.option(
    "--preset",
    is_eager=True,
    expose_value=False,
    callback=_apply_if_there,
    metavar="NAME|FILE.toml",
    help="Take defaults from this command's table of a preset, if it has one; flags win.",
)
@shared.data(
    "Its test split is the test set; beside --test-data it only tells the classes.",
    required=False,
)
@click.option(
    "--test-data",
    metavar="NAME|PATH",
    help="Labelled images to test on  [default: the test split of --data]",
)
@ending
def classifier(
    model, data, test_data, data_root, download, device, threads, isa, **rest
) -> None:
    """Score the classifier that a model has of its own; nothing is trained.

    It is what local-train --objective supervised trains, and what aggregate makes of
    the clients'. Models without one are scored by evaluate linear.

    \b
    Example:
      furlkit evaluate classifier exp/r003/global.safetensors --data digits \\
          -o exp/r003/classifier.json
    """
    from furlkit.data.sets.source import Source
    from furlkit.runtime import Runtime
    from furlkit.stages.evaluate.classifier import Options, run

    if data is None and test_data is None:
        raise UsageError("evaluate classifier: give --data or --test-data")
    if data is not None:
        _check_split(data, test_data)
    test = Source(test_data or data, data_root, download, split="test")
    # A named set has the same classes in both its splits, and test splits are small.
    both = test_data is not None and data is not None
    train = Source(data, data_root, download, split="test") if both else None
    runtime = Runtime(device, threads, isa)
    shared.tell(run(Options(model, test, train=train, runtime=runtime, **rest)))


COMMANDS = (evaluate,)
