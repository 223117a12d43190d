"""Commands about communication: ledger, and plot's picture of what scores cost."""

from pathlib import Path

import click

from furlkit.cli import options as shared
from furlkit.cli.options import FilePath, Real
from furlkit.cli.plots import split_series, title, value
from furlkit.errors import UsageError

MOST = 10**12
number = click.IntRange(1, MOST)
# Options of --plan. None have defaults here, so that one too many can be told.
planning = shared.stacked(
    click.option("--images", type=number, help="plan: how many public images."),
    click.option("--width", type=number,
                 help="plan: d, the numbers that an image is represented by."),
    click.option("--encoding", type=click.Choice(["float32", "float16", "int8"]),
                 help="plan: how clients write numbers, as in embed  "
                 "[default: float32]"),
    click.option("--similarity", is_flag=True, default=None,
                 help="plan: clients send the cosines between all images instead."),
    click.option("--top", type=Real(0, 100, min_open=True),
                 help="plan: of the similarities, so many percent of each row."),
    click.option("--model", type=FilePath, metavar="CHECKPOINT",
                 help="plan: the model whose bytes count; only its header is read."),
    click.option("--parameters", type=number,
                 help="plan: or its number of parameters, 4 bytes each."),
    click.option("--clients", type=number,
                 help="plan: clients that train in a round  [default: 1]"),
    click.option("--rounds", type=number, help="plan: rounds of FLESD  [default: 1]"),
    click.option("--rounds-averaging", type=number,
                 help="plan: rounds of weight averaging  [default: as --rounds]"),
)  # fmt: skip


@click.command()
@click.argument("runs", nargs=-1, type=FilePath, metavar="RUN...")
@click.option(
    "--plan",
    is_flag=True,
    help="Calculate before anything is trained; takes no RUN.",
)
@planning
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result as a metrics file too; --plan writes none.",
)
@shared.speech
def ledger(runs, plan, output, **settings) -> None:
    """Count the bytes that clients sent and received, by round and kind of file.

    RUN is the folder of a run, searched for *.safetensors, or single files of it. All
    is read from the files' headers. A file was sent if it was given to aggregate: so
    FLESD's models, which stay with the clients, cost nothing. A client that trains
    receives the global model and the dictionary in every round, and targets once.
    Bytes are those of whole files. The public images are not counted, nor is what a
    client knows by itself: its partition, private files, a model of its own. (The first
    model was given to it, and counts, whichever architecture it has.)

    --plan is the paper's Eq. 11, w |D_pub| d_k <= w' |f_k|, in bytes: representations
    up and the model down in every round of FLESD, against the model up and down in
    every round of weight averaging. It counts tensors; a header adds some kB to a file.

    \b
    Examples:
      furlkit ledger exp/flesd
      furlkit ledger --plan --images 8333 --width 128 --encoding float16 \\
          --parameters 11500000 --clients 5 --rounds 2 --rounds-averaging 10
    """
    from furlkit.stages.ledger import Options, Plan, run, run_plan

    given = {name: value for name, value in settings.items() if value is not None}
    if plan and (runs or output):
        raise UsageError(
            f"--plan: takes no RUN and writes no file; leave out {output or runs[0]}"
        )
    if plan and "images" not in given:
        raise UsageError("ledger --plan: give --images, the number of public images")
    if plan:
        shared.tell(run_plan(Plan(**given)))
        return
    if given:
        flag = min(given).replace("_", "-")
        raise UsageError(f"--{flag}: is an option of --plan; give that too")
    if not runs:
        raise UsageError("ledger: give the folder of a run, or --plan")
    shared.tell(run(Options(runs, output)))


runs_by_label = click.option(
    "--series",
    multiple=True,
    required=True,
    metavar="LABEL=RUN,RUN,...",
    help="A line: the folders of a method's runs, one a seed or length; may be repeated.",
)


@click.command()
@runs_by_label
@click.option(
    "--over",
    type=click.Choice(["bytes", "rounds", "epochs"]),
    default="bytes",
    show_default=True,
    help="What is on the x axis: bytes, rounds, or local epochs until then.",
)
@click.option("--last", is_flag=True, help="Of each run, only its last round counts.")
@value
@click.option(
    "--protocol",
    default="linear",
    show_default=True,
    help="Of which evaluation: linear, knn, ...",
)
@title
@shared.output
@shared.dry_run
@shared.speech
def cost(series, output, **rest) -> None:
    """Draw accuracy over what it cost in bytes, rounds or local epochs.

    Scores are those of the metrics files in a run's folder that are of its global
    models, a point a round. Points of several runs that have the same round and the same
    epochs until then give a mean and a band. With --last each run is a point, so that a
    line can be made of runs of different length.

    Bytes are those of furlkit ledger. A model that cost none, as that of round 0, has no
    place on their axis. Epochs are those of local-train, rounds added up; of clients that
    trained for different numbers in a round the largest counts: the server waits for it.

    \b
    Examples:
      furlkit plot cost --series FedAvg=exp/fedavg --series FLESD=exp/flesd \\
          -o exp/cost.png
    \b
    FLESD's Figure 4: more rounds with as many epochs in all, one long run, and two
    rounds with more local epochs:
      furlkit plot cost --over rounds --last --series FedAvg=exp/a1,exp/a2,exp/a10 \\
          --series FLESD=exp/f1,exp/f2,exp/f10 -o exp/left.png
      furlkit plot cost --over rounds --series FedAvg=exp/fedavg-long \\
          --series FLESD=exp/flesd-long -o exp/middle.png
      furlkit plot cost --over epochs --last --series FedAvg=exp/a20,exp/a50,exp/a100 \\
          --series FLESD=exp/f20,exp/f50,exp/f100 -o exp/right.png
    """
    from furlkit.stages.plot.cost import Options, run

    lines = tuple(map(split_series, series))
    shared.tell(run(Options(lines, output, **rest)))


COMMANDS: tuple[click.Command, ...] = (ledger,)
PLOTS: tuple[click.Command, ...] = (cost,)
