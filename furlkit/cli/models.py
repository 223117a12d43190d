"""Commands about models: init, aggregate, export."""

from pathlib import Path

import click
from click.core import ParameterSource

from furlkit.cli import options as shared
from furlkit.cli.options import OBJECTIVES, FilePath, Numbers, Real
from furlkit.errors import UsageError

# The rule each option of aggregate belongs to; the others belong to all.
RULE_OPTIONS = {
    "weights": "mean",
    "bn": "mean",
    "dictionary_size": "dictionary",
    "temperature": "ensemble",
    "matrix": "ensemble",
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
    type=Real(0, min_open=True),
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
@shared.isa
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
    from furlkit.data.sets.source import Source
    from furlkit.stages.init import Options, run

    source = Source(data, data_root, download, None) if data else None
    heads = (OBJECTIVES[objective], *more_heads)
    wanted = int(channels) if channels else None
    shared.tell(run(Options(heads=heads, data=source, channels=wanted, **rest)))


@click.command()
@click.argument("inputs", nargs=-1, required=True, type=FilePath, metavar="UPLOAD...")
@shared.preset
@click.option(
    "--rule",
    type=click.Choice(["mean", "dictionary", "ensemble"]),
    default="mean",
    show_default=True,
    help="mean of models, dictionary of the rows clients share, or ensemble of what "
    "their models find alike.",
)
@click.option(
    "--weights",
    metavar="examples|uniform|FILE.json",
    help="mean: by number of images, equal, or given as "
    '{"CLIENT": WEIGHT}  [default: examples]',
)
@click.option(
    "--bn",
    type=click.Choice(["average", "keep"]),
    help="mean: BatchNorm statistics averaged, or left out for clients to keep  "
    "[default: average]",
)
@click.option(
    "--dictionary-size",
    type=click.IntRange(1),
    help="dictionary: K, the rows it has at most  [default: 1024]",
)
@click.option(
    "--temperature",
    type=Real(0, min_open=True),
    help="ensemble: tau_T of exp(cosine / tau_T)  [default: 0.1]",
)
@click.option(
    "--matrix",
    is_flag=True,
    default=None,
    help="ensemble: write the n x n matrix, and not what it is made of.",
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
def aggregate(rule, **values) -> None:
    """Make one global model, dictionary or ensemble of what clients sent.

    Checked first: architecture, shapes, types, finite values, round, parent model, and
    that no client counts twice; for an ensemble also that all are of the same images, in
    the same order. The order of the files does not matter.

    \b
    Example:
      furlkit aggregate exp/r001/client_*.safetensors -o exp/r001/global.safetensors
      furlkit aggregate --rule dictionary exp/r001/features_*.safetensors \\
          -o exp/r001/dictionary.safetensors
      furlkit aggregate --rule ensemble exp/r001/public_*.safetensors \\
          -o exp/r001/ensemble.safetensors
    """
    given = {name: value for name, value in values.items() if value is not None}
    context = click.get_current_context()
    for name in [n for n in given if RULE_OPTIONS.get(n, rule) != rule]:
        # A preset has the options of all rules; by hand, one too many is a mistake.
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} means nothing to --rule {rule}")
        del given[name]
    if rule == "dictionary":
        from furlkit.stages.aggregate import dictionary as of_rows

        size = given.pop("dictionary_size", 1024)
        shared.tell(of_rows.run(of_rows.Options(size=size, **given)))
    elif rule == "ensemble":
        from furlkit.stages.aggregate import ensemble as of_views

        shared.tell(of_views.run(of_views.Options(**given)))
    else:
        from furlkit.stages.aggregate import mean as of_models

        shared.tell(of_models.run(of_models.Options(rule=rule, **given)))


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


COMMANDS = (init, aggregate, export)
