"""Commands of evaluate that compare models without labels: angles, drift."""

import click

from furlkit.cli import options as shared
from furlkit.cli.augmentation import augmentation, build_augmentation
from furlkit.cli.options import FilePath, Real

models = click.argument(
    "models", nargs=-1, required=True, type=FilePath, metavar="CHECKPOINT..."
)
layer = click.option(
    "--layer",
    type=click.Choice(["h", "z"]),
    default="h",
    show_default=True,
    help="h, what the encoder gives, or z, what the projector makes of it.",
)
ending = shared.stacked(shared.device, shared.output, shared.dry_run, shared.speech)


def source_and_runtime(data, data_root, download, split, device, threads, isa):
    from furlkit.data.sets.source import Source
    from furlkit.runtime import Runtime

    source = Source(data, data_root, download, split=split)
    return {"data": source, "runtime": Runtime(device, threads, isa)}


@click.command()
@models
@shared.preset
@shared.data("The images all models look at; labels are not needed.")
@click.option(
    "--split",
    type=click.Choice(["train", "test"]),
    default="test",
    show_default=True,
    help="Which split of a dataset known by name.",
)
@layer
@ending
def angles(
    models, data, data_root, download, split, device, threads, isa, **rest
) -> None:
    """Measure the angles between models' representations of the same images.

    The box (quartiles, whiskers) of every pair of models, and of all pairs together.

    \b
    Example:
      furlkit evaluate angles exp/r003/client_*.safetensors --data digits \\
          -o exp/r003/angles.json
    """
    from furlkit.stages.evaluate.angles import Options, run

    given = source_and_runtime(data, data_root, download, split, device, threads, isa)
    shared.tell(run(Options(models=models, **given, **rest)))


@click.command()
@models
@shared.preset
@shared.data("The images all models look at; labels are optional.")
@shared.split
@click.option("--partition", type=FilePath, help="Where --part is looked up.")
@click.option(
    "--part",
    default="all",
    show_default=True,
    metavar="all|public|CLIENT",
    help="Which images.",
)
@click.option(
    "--images",
    type=click.IntRange(0),
    default=2000,
    show_default=True,
    help="Draw so many of them, as pairs cost their square; 0 takes all.",
)
@layer
@click.option(
    "--temperature",
    type=Real(0, min_open=True),
    default=0.5,
    show_default=True,
    help="Of the weights exp(cosine / t) that false negatives get.",
)
@augmentation
@shared.seed
@ending
def drift(
    models, data, data_root, download, split, device, threads, isa, **rest
) -> None:
    """Measure how representations fare, and how alike they are, without labels.

    Alignment and uniformity of two augmented views; effective rank and spread of the
    plain images; linear CKA between every two models. Where labels are known, also
    the share of false negatives, and of the weight a contrastive loss gives them.

    \b
    Example:
      furlkit evaluate drift exp/r003/client_*.safetensors --data digits \\
          -o exp/r003/drift.json
    """
    from furlkit.stages.evaluate.drift import Options, run

    given = source_and_runtime(data, data_root, download, split, device, threads, isa)
    how = build_augmentation(rest)
    shared.tell(run(Options(models=models, augmentation=how, **given, **rest)))


COMMANDS: tuple[click.Command, ...] = (angles, drift)
