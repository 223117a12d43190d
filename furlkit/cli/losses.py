"""plot's picture of training losses through the rounds."""

import click

from furlkit.cli import options as shared
from furlkit.cli.ledger import runs_by_label
from furlkit.cli.plots import split_series, title


@click.command()
@runs_by_label
@click.option(
    "--term",
    metavar="NAME",
    help="One term of the loss, as simclr: methods that add terms of their own can be "
    "compared by it  [default: the sum of all]",
)
@title
@shared.output
@shared.dry_run
@shared.speech
def loss(series, output, **rest) -> None:
    """Draw the training loss through the rounds, with the jumps of aggregation.

    Losses are those of the journals that local-train writes beside its checkpoints
    (client_0.log.jsonl beside client_0.safetensors), which tell round and client. The
    axis counts the local epochs of all rounds. Dashed is the mean of the clients in a
    round, with a band of one standard deviation over them; solid leads from the last
    epoch of a round to the first of the next, so it shows what aggregation did. As a
    journal has the mean of an epoch's steps, some training is in a jump too. Clients
    that sit a round out, or train for fewer epochs, are left out of the mean there.
    Several runs give the mean of their means, and a band over the clients of all.

    \b
    Example:
      furlkit plot loss --series FedAvg=exp/fedavg --series FLESD=exp/flesd \\
          -o exp/loss.png
    """
    from furlkit.stages.plot.loss import Options, run

    lines = tuple(map(split_series, series))
    shared.tell(run(Options(lines, output, **rest)))


PLOTS: tuple[click.Command, ...] = (loss,)
