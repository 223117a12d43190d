"""plot: pictures of results and partitions, one command for each."""

from pkgutil import resolve_name
from typing import Any

from furlkit.catalogue import COMMANDS
from furlkit.cli.shared import Commands, command, tell

plot = Commands("plot", help=COMMANDS["plot"].help)


def _draw(name: str, values: dict[str, Any]) -> None:
    tell(resolve_name(f"furlkit.stages.plot.{name}:run")(values))


@command("plot curve")
def curve(values: dict[str, Any]) -> None:
    """Several files of one round (several seeds) give a mean and a band.

    \b
    Example:
      furlkit plot curve exp/r*/knn.json -o exp/curve.png
    """
    _draw("curve", values)


@command("plot partition")
def partition(values: dict[str, Any]) -> None:
    """
    \b
    Example:
      furlkit plot partition exp/partition.safetensors -o exp/partition.png
    """
    _draw("partition", values)


@command("plot tsne")
def tsne(values: dict[str, Any]) -> None:
    """Features are made by embed. Rows are scaled to length 1 first, so that near means a
    small angle; that is our choice. Files of the same images show the same ones of them.

    \b
    Example:
      furlkit plot tsne exp/r020/h_0.safetensors --data cifar10 --classes 0,1 \\
          -o exp/tsne.png
    \b
    FedStyle's Figure 4, h_s of each client's images by its own style model:
      furlkit embed g.safetensors --personal private_0.safetensors --style --data d.npz \\
          --partition p.safetensors --part 0 -o style_0.safetensors
      furlkit plot tsne style_*.safetensors --by client --data d.npz --split train \\
          -o styles.png
    """
    _draw("tsne", values)


@command("plot angles")
def angles(values: dict[str, Any]) -> None:
    """The files are those of evaluate angles. Several files of one round (several seeds)
    stand side by side.

    \b
    Example:
      furlkit plot angles --series plain=a/r001/angles.json,a/r002/angles.json \\
          --series aligned=b/r001/angles.json,b/r002/angles.json -o angles.png
    """
    _draw("angles", values)


@command("plot bars")
def bars(values: dict[str, Any]) -> None:
    """
    \b
    Examples:
      furlkit plot bars --series IID:FedSimCLR=a0.json,a1.json \\
          --series IID:FedCA=b0.json,b1.json --reference FedSimCLR -o bars.png
      furlkit plot bars --by-domain --series FedAvg=a0.json,a1.json \\
          --series FedStyle=b0.json,b1.json -o styles.png
    """
    _draw("bars", values)


@command("plot sweep")
def sweep(values: dict[str, Any]) -> None:
    """The axis is logarithmic where the numbers are powers apart, as they usually are;
    it has a 0 where 0 is among them. The example is FedStyle's Table 4.

    \b
    Example:
      furlkit plot sweep --over lambda --series SimCLR:0.1=a0.json,a1.json \\
          --series SimCLR:1=b0.json,b1.json --series SimSiam:0.1=c0.json,c1.json \\
          --series SimSiam:1=d0.json,d1.json -o lambda.png
    """
    _draw("sweep", values)


@command("plot sobel")
def sobel(values: dict[str, Any]) -> None:
    """Edges are those that pretrain-style and --infusion use, of images of the size in
    which they are stored. Images with domains have two rows for each domain.

    \b
    Example:
      furlkit plot sobel --data digits -o sobel.png
    """
    _draw("sobel", values)


@command("plot differences")
def differences(values: dict[str, Any]) -> None:
    """A row shows the estimate and its interval over seeds, as furlkit compare prints
    them. The grey band around 0 is what the probes (or repeats) alone would give: two
    standard errors, as furlkit compare --help defines them. A dot is filled where a
    95% interval excludes 0 and the dot is outside the band.

    \b
    Example:
      furlkit plot differences --series FedSimCLR=a0.json,a1.json \\
          --series FedCA=b0.json,b1.json --reference FedSimCLR -o differences.png
    """
    _draw("differences", values)


@command("plot cost")
def cost(values: dict[str, Any]) -> None:
    """Scores are those of the metrics files in a run's folder that are of its global
    models, one point for each round. Points of several runs that have the same round and
    the same epochs until then give a mean and a band. With --last each run is one point,
    so that a line can be made of runs of different length.

    Bytes are those of furlkit ledger. A model that cost none, as that of round 0, is not
    drawn over bytes: their axis is logarithmic and has no zero. Epochs are those of
    local-train, summed over rounds; of clients that trained for different numbers in a
    round the largest counts: the server waits for it.

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
    _draw("cost", values)


@command("plot loss")
def loss(values: dict[str, Any]) -> None:
    """Losses are those of the journals that local-train writes beside its checkpoints
    (client_0.log.jsonl beside client_0.safetensors), which give round and client. The
    axis counts the local epochs of all rounds. Dashed is the mean of the clients in a
    round, with a band of one standard deviation over them; solid leads from the last
    epoch of a round to the first of the next, so it shows the effect of aggregation. As a
    journal has the mean of an epoch's steps, some training is in a jump too. Clients
    that skip a round, or train for fewer epochs, are left out of the mean there.
    Several runs give the mean of their means, and a band over the clients of all.
    Phases of a run, each of which counts its rounds from 1, are drawn one at a time.

    \b
    Example:
      furlkit plot loss --series FedAvg=exp/fedavg --series FLESD=exp/flesd \\
          -o exp/loss.png
    """
    _draw("loss", values)


@command("plot confusion")
def confusion(values: dict[str, Any]) -> None:
    """A row for each class: what its images were taken for, in percent. Of evaluate
    cluster the columns are clusters, each below the class that it matches; those that
    match none stand at the right.

    \b
    Example:
      furlkit plot confusion exp/r050/cluster.json -o exp/confusion.png
    """
    _draw("confusion", values)


@command("plot clusters")
def clusters(values: dict[str, Any]) -> None:
    """The file is one of evaluate cluster, which names the images. Rows stand in the
    order of the classes that the clusters match, with the number of the cluster and the
    test images in it. Images of another class have a frame.

    \b
    Example:
      furlkit plot clusters exp/r050/cluster.json --data cifar10 -o exp/clusters.png
    """
    _draw("clusters", values)


@command("plot updates")
def updates(values: dict[str, Any]) -> None:
    """Of runs with --update fedema, fedu, dum or astw. A row for each client shows how
    much of its own weights it started a round with: 0 if it took the global model, 1 if
    it kept its own. Below is the distance that decided, a line for each client, and the
    threshold --mu, where the update has one. Both are in the journals that local-train
    writes beside its checkpoints. Phases in which nothing is decided are left out.

    \b
    Example:
      furlkit plot updates exp/dum -o exp/updates.png
    """
    _draw("updates", values)


@command("plot uploads")
def uploads(values: dict[str, Any]) -> None:
    """The files are those of aggregate --report, one for each round. Each upload is a dot
    in the column of its client: the norm of its update, its angle to those of the
    others, and how far the result moved because of it. Those that stand out are larger
    and orange.

    \b
    Example:
      furlkit plot uploads exp/r*/report.json -o exp/uploads.png
    """
    _draw("uploads", values)
