"""Commands about models: init, local-train, aggregate, export."""

from pathlib import Path

import click

from furlkit.cli import options as shared
from furlkit.cli.augmentation import augmentation
from furlkit.cli.options import Clients, FilePath, Numbers

OBJECTIVES = {
    "simclr": "projector",
    "rotation": "rotation",
    "autoencoder": "decoder",
    "supervised": "classifier",
}
HEADS = ("projector", "predictor", "decoder", "classifier", "rotation")


@click.command()
@shared.preset
@shared.data(
    "Take image size, channels, classes, mean and std from it.", required=False
)
@click.option(
    "--encoder",
    default="cnn5",
    show_default=True,
    type=click.Choice(["cnn5", "resnet18", "resnet34", "resnet50"]),
    help="The network whose output is the representation h.",
)
@click.option(
    "--width",
    type=float,
    default=1.0,
    show_default=True,
    help="cnn5: multiplies every layer's width.",
)
@click.option(
    "--stem",
    type=click.Choice(["auto", "small", "standard"]),
    default="auto",
    show_default=True,
    help="ResNets: small is 3x3 without pooling, auto takes it below 64 px.",
)
@click.option(
    "--objective",
    type=click.Choice(list(OBJECTIVES)),
    default="simclr",
    show_default=True,
    help="Gives the model the head it trains.",
)
@click.option(
    "--head",
    "more_heads",
    multiple=True,
    type=click.Choice(HEADS),
    help="A further head; may be repeated.",
)
@click.option(
    "--projector",
    type=Numbers(int),
    default="512,128",
    show_default=True,
    help="Widths of the projector's layers.",
)
@click.option(
    "--predictor",
    type=Numbers(int),
    default="512,128",
    show_default=True,
    help="Widths of the predictor's layers.",
)
@click.option("--image-size", type=int, help="Side of the input  [default: the data's]")
@click.option(
    "--channels",
    type=click.Choice(["1", "3"]),
    help="1 grey, 3 colour  [default: the data's]",
)
@click.option("--classes", type=int, help="For the classifier  [default: the data's]")
@click.option(
    "--mean", type=Numbers(float), help="Normalisation  [default: the data's]"
)
@click.option("--std", type=Numbers(float), help="Normalisation  [default: the data's]")
@click.option(
    "--from",
    "source",
    type=FilePath,
    help="Take over the encoder, and heads of the same name, of a checkpoint.",
)
@shared.seed
@shared.output
@shared.dry_run
@shared.speech
def init(data, data_root, download, objective, more_heads, channels, **rest) -> None:
    """Make the global model of round 0.

    \b
    Example:
      furlkit init --data digits --encoder cnn5 --width 0.25 -o exp/r000/global.safetensors
    """
    from furlkit.data.source import Source
    from furlkit.stages.init import Options, run

    source = Source(data, data_root, download, None) if data else None
    heads = (OBJECTIVES[objective], *more_heads)
    wanted = int(channels) if channels else None
    shared.tell(run(Options(heads=heads, data=source, channels=wanted, **rest)))


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
    type=click.FloatRange(0, min_open=True),
    help="simclr: tau  [default: 0.5]",
)
@click.option(
    "--form",
    type=click.Choice(["oneway", "symmetric", "full"]),
    help="simclr: view 1 against view 2, both ways, or all 2N views  [default: full]",
)
@click.option(
    "--proximal",
    type=click.FloatRange(0),
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
@click.option(
    "--optimiser",
    type=click.Choice(["adam", "sgd"]),
    default="adam",
    show_default=True,
    help="How weights are moved.",
)
@click.option(
    "--lr",
    type=click.FloatRange(0, min_open=True),
    default=1e-3,
    show_default=True,
    help="Learning rate.",
)
@click.option(
    "--weight-decay",
    type=click.FloatRange(0),
    default=1e-6,
    show_default=True,
    help="L2 penalty, added to the gradient.",
)
@click.option(
    "--momentum",
    type=click.FloatRange(0, 1),
    default=0.9,
    show_default=True,
    help="SGD's momentum.",
)
@click.option(
    "--schedule",
    type=click.Choice(["constant", "cosine"]),
    default="constant",
    show_default=True,
    help="Of the learning rate.",
)
@click.option(
    "--warmup",
    type=click.FloatRange(0),
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
    type=click.FloatRange(0),
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
    from furlkit.cli.training import build_options
    from furlkit.stages.local_train import run

    options = build_options(partition, model, clients, output, rest)
    shared.tell(run(options))


@click.command()
@click.argument(
    "inputs", nargs=-1, required=True, type=FilePath, metavar="CHECKPOINT..."
)
@shared.preset
@click.option(
    "--rule",
    type=click.Choice(["mean"]),
    default="mean",
    show_default=True,
    help="What the server makes of the uploads.",
)
@click.option(
    "--weights",
    default="examples",
    show_default=True,
    metavar="examples|uniform|FILE.json",
    help='By number of images, equal, or given as {"CLIENT": WEIGHT}.',
)
@click.option(
    "--bn",
    type=click.Choice(["average", "keep"]),
    default="average",
    show_default=True,
    help="BatchNorm statistics: averaged, or left out for clients to keep.",
)
@click.option(
    "--min-clients",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Exit with 75 if fewer have reported.",
)
@shared.output
@shared.dry_run
@shared.speech
def aggregate(inputs, rule, weights, bn, min_clients, output, dry_run) -> None:
    """Make one global model of the clients' models.

    Checked first: architecture, shapes, types, finite values, round, parent model, and
    that no client counts twice. The order of the files does not matter.

    \b
    Example:
      furlkit aggregate exp/r001/client_*.safetensors -o exp/r001/global.safetensors
    """
    from furlkit.stages.aggregate import Options, run

    shared.tell(run(Options(inputs, output, rule, weights, bn, min_clients, dry_run)))


@click.command()
@click.argument("model", metavar="CHECKPOINT", type=FilePath)
@click.option(
    "-o",
    "--output",
    type=FilePath,
    required=True,
    help="The folder to write model.safetensors and config.json into.",
)
@shared.dry_run
@shared.speech
def export(model, output, dry_run) -> None:
    """Write the bare encoder under torchvision's names.

    \b
    Example:
      furlkit export exp/r020/global.safetensors -o encoder
      # torchvision: resnet18().load_state_dict(load_file("encoder/model.safetensors"),
      #              strict=False)
      # timm:        create_model("resnet18", num_classes=0,
      #              checkpoint_path="encoder/model.safetensors")
    """
    from furlkit.stages.export import Options, run

    shared.tell(run(Options(model, Path(output), dry_run)))


COMMANDS = (init, local_train, aggregate, export)
