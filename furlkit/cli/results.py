"""Commands that look at models and files: embed, inspect."""

import click

from furlkit.cli import options as shared
from furlkit.cli.options import FilePath, Real


@click.command()
@click.argument("model", metavar="CHECKPOINT", type=FilePath)
@shared.preset
@shared.data("The images to embed.")
@shared.split
@click.option(
    "--layer",
    "--share",
    "layer",
    type=click.Choice(["h", "z"]),
    default="h",
    show_default=True,
    help="h, what the encoder gives, or z, what the projector makes of it.",
)
@click.option(
    "--similarity", is_flag=True, help="Write the cosines between all images instead."
)
@click.option(
    "--top",
    type=Real(0, 100, min_open=True),
    help="Of the similarities, so many percent of each row, the largest.",
)
@click.option(
    "--encoding",
    type=click.Choice(["float32", "float16", "int8"]),
    default="float32",
    show_default=True,
    help="How numbers are written; int8 has a scale for each row of features, and "
    "steps of 1/127 for similarities.",
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
def embed(
    model, data, data_root, download, split, device, threads, isa, **rest
) -> None:
    """Write what a model makes of images: features or similarities.

    \b
    Example:
      furlkit embed exp/r003/global.safetensors --data digits --split test \\
          -o exp/r003/features.safetensors
      furlkit embed exp/r001/client_1.safetensors --data digits --share z \\
          --partition exp/partition.safetensors --part public --encoding int8 \\
          -o exp/r001/public_1.safetensors
    """
    from furlkit.data.sets.source import Source
    from furlkit.runtime import Runtime
    from furlkit.stages.embed import Options, run

    source = Source(data, data_root, download, split=split)
    runtime = Runtime(device, threads, isa)
    shared.tell(run(Options(model=model, data=source, runtime=runtime, **rest)))


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


COMMANDS = (embed, inspect)
