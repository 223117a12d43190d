"""Commands that train: pretrain-align, local-train, distill."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from furlkit.cli import options as shared
from furlkit.cli.augmentation import augmentation, build_augmentation
from furlkit.cli.fedca import aligning, build_aligning, build_sharing, sharing
from furlkit.cli.options import OBJECTIVES, Clients, FilePath, Real

if TYPE_CHECKING:
    from furlkit.inputs.client import Options
    from furlkit.training.loop import Plan
    from furlkit.training.run import Handling

# What is minimised, with the options of each objective.
_objective = shared.stacked(
    click.option("--objective", type=click.Choice(list(OBJECTIVES)), default="simclr",
                 show_default=True, help="What a batch minimises."),
    click.option("--temperature", type=Real(0, min_open=True),
                 help="simclr: tau  [default: 0.5]"),
    click.option("--form", type=click.Choice(["oneway", "symmetric", "full"]),
                 help="simclr: view 1 against view 2, both ways, or all 2N views  "
                 "[default: full]"),
)  # fmt: skip

# How it runs on the device.
_handling = shared.stacked(
    click.option("--precision", default="float32", show_default=True,
                 type=click.Choice(["float32", "bfloat16", "float16"]),
                 help="Of the forward pass; weights stay float32."),
    click.option("--channels-last/--no-channels-last", default=True, show_default=True,
                 help="Memory layout of the network."),
    click.option("--compile/--no-compile", "compiled", default=False, show_default=True,
                 help="Compile the network with torch.compile."),
    click.option("--save-every", type=Real(0), default=60.0, show_default=True,
                 help="Seconds between progress files."),
)  # fmt: skip


def _length(epochs: int, epochs_help: str):
    return shared.stacked(
        click.option("--epochs", type=click.IntRange(1), default=epochs,
                     show_default=True, help=epochs_help),
        click.option("--batch-size", type=click.IntRange(2), default=128,
                     show_default=True,
                     help="Images in a batch; a last partial batch is left out."),
        shared.optimisation(momentum=0.9),
        click.option("--schedule", type=click.Choice(["constant", "cosine"]),
                     default="constant", show_default=True,
                     help="Of the learning rate."),
        click.option("--warmup", type=Real(0), default=0.0, show_default=True,
                     help="Epochs of linear warm-up at the schedule's start."),
    )  # fmt: skip


@click.command("pretrain-align")
@click.argument("model", metavar="GLOBAL", type=FilePath)
@shared.preset
@shared.data("Public images.")
@shared.split
@click.option("--images", type=click.IntRange(0), default=0, show_default=True,
              help="Draw so many of them at random; 0 takes all.")  # fmt: skip
@click.option("--partition", type=FilePath, help="Where --part is looked up.")
@click.option("--part", default="all", show_default=True, metavar="all|public|CLIENT",
              help="Which images.")  # fmt: skip
@_objective
@_length(100, "Epochs.")
@augmentation
@_handling
@shared.device
@shared.seed
@click.option("--targets-out", type=click.Path(dir_okay=False, path_type=Path),
              required=True, help="Where to write h and z of the images.")  # fmt: skip
@shared.output
@shared.dry_run
@shared.speech
def pretrain_align(model, output, targets_out, dry_run, **rest) -> None:
    """Train FedCA's alignment model on public images, and write its targets.

    It starts from GLOBAL, has its architecture, and is trained without labels (all
    three our choice). Its h and z of every public image are computed once, so that a
    step of local-train --align costs one more pass of the client's own net.

    \b
    Example:
      furlkit pretrain-align exp/r000/global.safetensors --data digits --images 300 \\
          --targets-out exp/targets.safetensors -o exp/align.safetensors
    """
    from furlkit.data.sets.source import Source
    from furlkit.runtime import Runtime
    from furlkit.stages.pretrain_align import Options, run

    take = rest.pop
    options = Options(
        model=model,
        data=Source(
            take("data"), take("data_root"), take("download"), split=take("split")
        ),
        output=output,
        targets_out=targets_out,
        augmentation=build_augmentation(rest),
        settings=_build_settings(rest),
        plan=_build_plan(rest),
        handling=_build_handling(rest),
        runtime=Runtime(take("device"), take("threads"), take("isa")),
        dry_run=dry_run,
        **rest,
    )
    shared.tell(run(options))


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
@_objective
@click.option(
    "--proximal",
    type=Real(0),
    default=0.0,
    show_default=True,
    help="FedProx: mu of (mu/2) ||w - w_global||^2.",
)
@sharing
@aligning
@click.option(
    "--update",
    type=click.Choice(["replace", "keep"]),
    default="replace",
    show_default=True,
    help="What the client starts the round from: the global model, or (keep) its own, "
    "which then stands in GLOBAL's place.",
)
@_length(5, "Local epochs E.")
@click.option(
    "--schedule-rounds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Rounds the schedule spans; 1 starts it anew each round.",
)
@augmentation
@click.option(
    "--private", help="The client's private file of its last round; may hold {client}."
)
@click.option(
    "--private-out", help="Where to write the client's private file; may hold {client}."
)
@_handling
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
    from furlkit.data.sets.source import Source
    from furlkit.inputs.client import Options
    from furlkit.runtime import Runtime

    take = values.pop
    data, place = take("data"), (take("data_root"), take("download"))
    return Options(
        partition, model, clients, output, Source(data, *place),
        augmentation=build_augmentation(values),
        settings=_build_settings(values),
        sharing=build_sharing(values),
        aligning=build_aligning(values, place),
        plan=_build_plan(values),
        handling=_build_handling(values),
        runtime=Runtime(take("device"), take("threads"), take("isa")),
        **values,
    )  # fmt: skip


def _build_settings(values: dict[str, Any]) -> dict[str, Any]:
    """What the objective reads; a preset's values are those of its own objective."""
    from furlkit.training import methods

    settings = {name: values.pop(name) for name in ("temperature", "form")}
    unread = settings.keys() - methods.OBJECTIVES[values["objective"]].options.keys()
    for name in shared.overruled("objective", unread):
        del settings[name]
    return settings


def _build_plan(values: dict[str, Any]) -> "Plan":
    from furlkit.training.loop import Plan

    shared.check_momentum(values["optimiser"], values["momentum"])
    rounds = values.pop("schedule_rounds", 1)
    names = (
        "epochs", "batch_size", "optimiser", "lr", "weight_decay", "momentum",
        "schedule", "warmup", "precision",
    )  # fmt: skip
    return Plan(rounds=rounds, **{name: values.pop(name) for name in names})


def _build_handling(values: dict[str, Any]) -> "Handling":
    from furlkit.training.run import Handling

    names = ("channels_last", "compiled", "save_every")
    return Handling(*(values.pop(name) for name in names))


@click.command()
@click.argument("ensemble", type=FilePath)
@click.argument("model", metavar="START", type=FilePath)
@shared.preset
@shared.data("The dataset that embed was given.")
@shared.split
@click.option("--layer", type=click.Choice(["h", "z"]),
              help="What of the student is held against the ensemble  "
              "[default: what the clients' models were asked for]")  # fmt: skip
@click.option("--temperature", type=Real(0, min_open=True),
              help="tau_S  [default: the ensemble's tau_T]")  # fmt: skip
@click.option("--ema", "zeta", type=Real(0, 1), default=0.999, show_default=True,
              help="zeta, the momentum of the student's slow copy.")  # fmt: skip
@click.option("--anchors", type=click.IntRange(2), default=2048, show_default=True,
              help="m, the length of the queue of anchors.")  # fmt: skip
@_length(200, "Epochs over the public images.")
@augmentation
@_handling
@shared.device
@shared.seed
@shared.output
@shared.dry_run
@shared.speech
def distill(data, data_root, download, split, zeta, **rest) -> None:
    """Distil what clients find alike into one model, on public images.

    START is the global model of the last round, or a new one of any architecture.
    Killed or stopped, the same command carries on and ends with the same bytes.

    \b
    Example:
      furlkit distill exp/r001/ensemble.safetensors exp/r000/global.safetensors \\
          --data digits --epochs 20 -o exp/r001/global.safetensors
    """
    from furlkit.data.sets.source import Source
    from furlkit.runtime import Runtime
    from furlkit.stages.distill import Options, run

    take = rest.pop
    options = Options(
        data=Source(data, data_root, download, split=split),
        momentum=zeta,
        augmentation=build_augmentation(rest),
        plan=_build_plan(rest),
        handling=_build_handling(rest),
        runtime=Runtime(take("device"), take("threads"), take("isa")),
        **rest,
    )
    shared.tell(run(options))


COMMANDS = (pretrain_align, local_train, distill)
