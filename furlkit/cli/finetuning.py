"""Commands of evaluate that train the encoder on: semi, finetune, transfer."""

from typing import Any

import click

from furlkit.cli import options as shared
from furlkit.cli.augmentation import augmenting, build_augmentation
from furlkit.cli.evaluation import build_options, ending, scored
from furlkit.cli.options import Decorator, FilePath, Real
from furlkit.errors import UsageError

# The paper's 100 epochs, in rounds of the 5 that its clients train for.
LENGTHS = {"federated": (20, 5), "central": (1, 100)}


def fraction(default: float | None) -> Decorator:
    """How many labels there are, and which."""
    shown = {"required": True} if default is None else {"default": default}
    return shared.stacked(
        click.option("--fraction", type=Real(0, 1, min_open=True),
                     show_default=default is not None, **shown,
                     help="Part of the images that have labels: 0.01 and 0.1 in the "
                     "paper; rounded, at least 2 images."),
        click.option("--choice", type=click.Choice(["random", "stratified"]),
                     default="random", show_default=True,
                     help="How they are drawn from each client's images: all alike, or "
                     "the fraction of every class."),
    )  # fmt: skip


batches = click.option(
    "--batch-size", type=click.IntRange(2), default=128, show_default=True,
    help="Images in a batch; a last partial batch is left out.",
)  # fmt: skip


def partition(needed: bool) -> Decorator:
    """Whose images they are."""
    return click.option(
        "--partition", type=FilePath, required=needed,
        help="Which images of --data each client holds.",
    )  # fmt: skip


def length(name: str, usual: int | None, help_text: str) -> Decorator:
    """How long to train; without `usual` the mode decides."""
    return click.option(
        name, type=click.IntRange(1), default=usual, show_default=usual is not None,
        help=help_text,
    )  # fmt: skip


network = shared.stacked(
    click.option("--hidden", type=click.IntRange(0, 2**16), default=512,
                 show_default=True,
                 help="Width of the MLP's hidden layer; 0 makes it one linear layer."),
    click.option("--random-init", is_flag=True,
                 help="Take the model's architecture but new weights, drawn from "
                 "--seed: the reference without pretraining."),
)  # fmt: skip
running = shared.stacked(
    shared.optimisation(momentum=0.9),
    augmenting(crop_scale="0.5,1", jitter=0.0, grey=0.0),
    click.option("--precision", type=click.Choice(["float32", "bfloat16", "float16"]),
                 default="float32", show_default=True,
                 help="Of the forward pass; weights stay float32."),
    click.option("--save-every", type=Real(0), default=60.0, show_default=True,
                 help="Seconds between progress files."),
    shared.seed,
    ending,
)  # fmt: skip


@click.command()
@scored
@click.option(
    "--mode",
    type=click.Choice(list(LENGTHS)),
    default="federated",
    show_default=True,
    help="Clients train and are averaged, or all labels lie in one place.",
)
@partition(needed=False)
@fraction(None)
@length("--rounds", None, "Rounds, in federated mode only  [default: 20]")
@length("--epochs", None, "Epochs, of every round if federated; the last one is "
        "reported  [default: 5 federated, 100 central]")  # fmt: skip
@batches
@network
@running
def semi(mode, rounds, epochs, **rest) -> None:
    """Finetune encoder and MLP on the few images that have labels.

    Every client has --fraction of its own images labelled. Federated, the clients
    train on them in rounds of supervised FedAvg, averaged by their number of labels;
    central, one place trains on all of them: on that part of --data, or, with
    --partition, on the clients' parts together.

    FedCA's paper has 1% and 10%, an MLP with one hidden layer, Adam, a rate of 1e-3
    and 100 epochs. Ours are: federated, in 20 rounds of 5 epochs; the hidden layer's
    512; batches of 128; crop and flip as augmentation; the weight decay. Its row
    "FedAvg (Supervised)" is --random-init.

    \b
    Example:
      furlkit evaluate semi exp/r020/global.safetensors --data digits \\
          --partition exp/partition.safetensors --fraction 0.1 -o exp/r020/semi.json
    """
    if mode == "central" and rounds is not None:
        raise UsageError(
            f"--rounds {rounds}: means nothing to --mode central; leave it out, or use "
            "--mode federated"
        )
    usual_rounds, usual_epochs = LENGTHS[mode]
    rest.update(rounds=rounds or usual_rounds, epochs=epochs or usual_epochs)
    _score("semi", mode=mode, **rest)


@click.command()
@scored
@partition(needed=True)
@fraction(1.0)
@length("--rounds", LENGTHS["federated"][0], "Rounds.")
@length("--epochs", LENGTHS["federated"][1],
        "Epochs of every round; the last one is reported.")  # fmt: skip
@batches
@network
@running
def finetune(**rest) -> None:
    """Finetune encoder and MLP by supervised FedAvg on the clients' labels.

    Each round every client trains from the same model on its labelled images; models
    are averaged by the number of those. It is `evaluate semi`
    with all labels, unless --fraction says otherwise.

    The optimiser, its rate and 100 epochs in all are those of FedCA's paper. Ours are:
    20 rounds of 5 epochs; the hidden layer's 512; batches of 128; crop and flip as
    augmentation; the weight decay.

    \b
    Example:
      furlkit evaluate finetune exp/r020/global.safetensors --data digits \\
          --partition exp/partition.safetensors -o exp/r020/finetune.json
    """
    _score("finetune", mode="federated", **rest)


@click.command()
@scored
@click.option(
    "--image-size",
    type=click.IntRange(8, 2**16),
    help="Side the images are resized to  [default: the model's]",
)
@length("--epochs", LENGTHS["central"][1], "Epochs; the last one is reported.")
@batches
@network
@running
def transfer(**rest) -> None:
    """Finetune encoder and MLP on all labels of another dataset.

    The whole network is trained in one place. Images are normalised as the model's
    own were.

    FedCA's paper has an MLP, Adam, a rate of 1e-3, 100 epochs, and CIFAR resized to 84
    for models of MiniImageNet. Ours are: the hidden layer's 512; batches of 128; crop
    and flip as augmentation; the weight decay. Its row "random init" is --random-init.

    \b
    Example:
      furlkit evaluate transfer exp/r020/global.safetensors --data cifar10 \\
          --image-size 84 -o exp/r020/transfer.json
    """
    _score("transfer", **rest)


def _score(protocol: str, **values: Any) -> None:
    """Group what belongs together; every value is taken exactly once."""
    from furlkit.stages.evaluate.finetune import Settings, run
    from furlkit.training.loop import Plan

    shared.check_momentum(values["optimiser"], values["momentum"])
    take = values.pop
    augmentation = build_augmentation(values)
    names = ("epochs", "batch_size", "optimiser", "lr", "weight_decay", "momentum")
    plan = Plan(**{name: take(name) for name in (*names, "precision")})
    names = ("mode", "partition", "rounds", "fraction", "choice", "image_size")
    given = {name: take(name) for name in names if name in values}
    settings = Settings(
        protocol, plan, augmentation, **given, hidden=take("hidden"),
        random_init=take("random_init"), save_every=take("save_every"),
    )  # fmt: skip
    shared.tell(run(build_options(**values), settings))


COMMANDS: tuple[click.Command, ...] = (semi, finetune, transfer)
