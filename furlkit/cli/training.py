"""The command that trains: local-train."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from furlkit.cli import options as shared
from furlkit.cli.augmentation import augmentation, build_augmentation
from furlkit.cli.options import OBJECTIVES, Clients, FilePath, Real

if TYPE_CHECKING:
    from furlkit.stages.local_train import Options


@click.command("local-train")
@click.argument("partition", type=FilePath)
@click.argument("model", metavar="GLOBAL", type=FilePath)
@shared.preset
@click.option(
    "--client",
    "clients",
    type=Clients(),
    required=True,
    help="One client or several: 3, 0-4, 0,2,5-7.",
)
@shared.data("The dataset the partition was made for.")
@click.option(
    "--objective",
    type=click.Choice(list(OBJECTIVES)),
    default="simclr",
    show_default=True,
    help="What a batch minimises.",
)
@click.option(
    "--temperature",
    type=Real(0, min_open=True),
    help="simclr: tau  [default: 0.5]",
)
@click.option(
    "--form",
    type=click.Choice(["oneway", "symmetric", "full"]),
    help="simclr: view 1 against view 2, both ways, or all 2N views  [default: full]",
)
@click.option(
    "--proximal",
    type=Real(0),
    default=0.0,
    show_default=True,
    help="FedProx: mu of (mu/2) ||w - w_global||^2.",
)
@click.option(
    "--update",
    type=click.Choice(["replace"]),
    default="replace",
    show_default=True,
    help="What the client starts the round from.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Local epochs E.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(2),
    default=128,
    show_default=True,
    help="Images in a batch; a last partial batch is left out.",
)
@shared.optimisation(momentum=0.9)
@click.option(
    "--schedule",
    type=click.Choice(["constant", "cosine"]),
    default="constant",
    show_default=True,
    help="Of the learning rate.",
)
@click.option(
    "--warmup",
    type=Real(0),
    default=0.0,
    show_default=True,
    help="Epochs of linear warm-up at the schedule's start.",
)
@click.option(
    "--schedule-rounds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Rounds the schedule spans; 1 starts it anew each round.",
)
@augmentation
@click.option(
    "--precision",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    default="float32",
    show_default=True,
    help="Of the forward pass; weights stay float32.",
)
@click.option(
    "--channels-last/--no-channels-last",
    default=True,
    show_default=True,
    help="Memory layout of the network.",
)
@click.option(
    "--compile/--no-compile",
    "compiled",
    default=False,
    show_default=True,
    help="Compile the network with torch.compile.",
)
@click.option(
    "--private", help="The client's private file of its last round; may hold {client}."
)
@click.option(
    "--private-out", help="Where to write the client's private file; may hold {client}."
)
@click.option(
    "--save-every",
    type=Real(0),
    default=60.0,
    show_default=True,
    help="Seconds between progress files.",
)
@shared.device
@shared.seed
@click.option(
    "-o",
    "--output",
    required=True,
    help="The file to write; {client} stands for the client's number.",
)
@shared.dry_run
@shared.speech
def local_train(partition, model, clients, output, **rest) -> None:
    """Train clients from the global model, each on its own images.

    Killed or stopped, the same command carries on where it was and ends with the same
    bytes. Loss, throughput and a collapse meter go to a .log.jsonl beside the output.

    \b
    Example:
      furlkit local-train exp/partition.safetensors exp/r000/global.safetensors \\
          --data digits --client 0-4 -o 'exp/r001/client_{client}.safetensors'
    """
    from furlkit.stages.local_train import run

    shared.tell(run(build_options(partition, model, clients, output, rest)))


def build_options(
    partition: Path,
    model: Path,
    clients: tuple[int, ...],
    output: str,
    values: dict[str, Any],
) -> "Options":
    """Group what belongs together; every value is taken exactly once."""
    from furlkit.data.source import Source
    from furlkit.loop import Plan
    from furlkit.runtime import Runtime
    from furlkit.stages.local_train import Options
    from furlkit.training import Handling

    take = values.pop
    augmentation = build_augmentation(values)
    source = Source(take("data"), take("data_root"), take("download"))
    settings = {"temperature": take("temperature"), "form": take("form")}
    plan = Plan(
        epochs=take("epochs"),
        batch_size=take("batch_size"),
        optimiser=take("optimiser"),
        lr=take("lr"),
        weight_decay=take("weight_decay"),
        momentum=take("momentum"),
        schedule=take("schedule"),
        warmup=take("warmup"),
        rounds=take("schedule_rounds"),
        precision=take("precision"),
    )
    handling = Handling(take("channels_last"), take("compiled"), take("save_every"))
    runtime = Runtime(take("device"), take("threads"))
    return Options(
        partition, model, clients, output, source, augmentation=augmentation,
        settings=settings, plan=plan, handling=handling, runtime=runtime, **values,
    )  # fmt: skip


COMMANDS = (local_train,)
