"""Commands about data: partition, sample, pack."""

import click

from furlkit.cli import options as shared
from furlkit.cli.options import Clients, FilePath, Real

SCHEMES = (
    "iid", "classes", "dirichlet", "dirichlet-client", "volume", "shards", "domains",
    "file",
)  # fmt: skip


@click.command()
@shared.preset
@shared.data("Dataset name, image folder, packed file, .npz, or a file of labels.")
@click.option(
    "--scheme",
    type=click.Choice(SCHEMES),
    default="iid",
    show_default=True,
    help="How images are dealt; see above.",
)
@click.option(
    "--clients", type=int, default=5, show_default=True, help="Number of clients."
)
@click.option("--classes-per-client", type=int, help="classes, volume: m.")
@click.option(
    "--class-copies",
    type=int,
    default=1,
    show_default=True,
    help="classes: how many clients hold each class.",
)
@click.option(
    "--ordered-classes",
    is_flag=True,
    help="classes: client 0 gets the first m classes, and so on.",
)
@click.option(
    "--concentration",
    type=Real(),
    help="dirichlet: alpha; dirichlet-client, domains: beta. Small is skewed.",
)
@click.option(
    "--cap-at-mean",
    is_flag=True,
    help="dirichlet: a client at the mean size gets no further class.",
)
@click.option(
    "--even-share",
    type=Real(),
    default=0.1,
    show_default=True,
    help="volume: delta, the share that is dealt evenly.",
)
@click.option(
    "--decay",
    type=Real(),
    default=0.9,
    show_default=True,
    help="volume: gamma, the ratio between one client and the next.",
)
@click.option(
    "--shards-per-client", type=int, default=2, show_default=True, help="shards: s."
)
@click.option(
    "--split-file",
    type=FilePath,
    help="file: JSON or safetensors with the indices of each client.",
)
@click.option("--with-replacement", is_flag=True, help="Let clients share images.")
@click.option(
    "--min-size",
    type=int,
    default=1,
    show_default=True,
    help="Draw again while a client has fewer images.",
)
@click.option(
    "--redraws",
    type=int,
    default=100,
    show_default=True,
    help="How often to draw again before giving up.",
)
@click.option("--public-fraction", type=Real(), help="Hold out this share as public.")
@click.option("--public-count", type=int, help="Hold out this many images as public.")
@click.option(
    "--public-client",
    type=int,
    help="Make this client's part public; it does not train.",
)
@shared.seed
@shared.output
@shared.dry_run
@shared.speech
def partition(data, data_root, download, seed, output, dry_run, **scheme) -> None:
    """Deal a dataset's images to clients.

    \b
    iid               equal random parts
    classes           m classes a client, exclusive or on several clients
    dirichlet         each CLASS is spread over the clients by Dir(alpha):
                      clients differ in size and in mix
    dirichlet-client  each CLIENT draws its mix of classes from Dir(beta):
                      clients are equal in size and differ in mix
    volume            client i gets delta/n + (1-delta) gamma^i / sum_j gamma^j
    shards            sorted by label, s shards a client
    domains           a group of clients for each domain of a packed file
    file              indices from a file

    \b
    Example:
      furlkit partition --data digits --scheme classes --classes-per-client 2 \\
          -o exp/partition.safetensors
    """
    from furlkit.data.partitions.options import SchemeOptions
    from furlkit.data.partitions.schemes import options_read
    from furlkit.data.sets.source import Source
    from furlkit.stages.partition import Options, run

    unread = scheme.keys() - options_read(scheme["scheme"])
    for name in shared.overruled("scheme", unread):
        del scheme[name]
    source = Source(data, data_root, download)
    shared.tell(run(Options(source, SchemeOptions(**scheme), seed, output, dry_run)))


@click.command()
@click.option(
    "--clients", type=Clients(), required=True, help="Who may be drawn: 0-9, or 1-5,8."
)
@click.option(
    "--fraction",
    type=Real(),
    default=1.0,
    show_default=True,
    help="Share of the clients that takes part, one client at least.",
)
@click.option(
    "--rounds",
    type=Clients(),
    default="1",
    show_default=True,
    help="Rounds to draw for: 3, or 1-20.",
)
@shared.seed
@shared.speech
def sample(clients, fraction, rounds, seed) -> None:
    """Print which clients take part in which round, as ROUND/CLIENT.

    A round's draw depends on the seed and the round alone.

    \b
    Example:
      furlkit sample --clients 0-9 --fraction 0.4 --rounds 1-20 --seed 0
    """
    from furlkit.stages.sample import Options, run

    shared.tell(run(Options(clients, fraction, rounds, seed)))


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="NAME|PATH...")
@shared.split
@click.option(
    "--image-size", type=int, help="Resize: shorter side to this, then the centre."
)
@click.option(
    "--channels",
    type=click.Choice(["1", "3"]),
    help="Pack as grey or colour  [default: as the images are]",
)
@click.option("--no-labels", is_flag=True, help="Leave the labels out.")
@click.option(
    "--domain-folders",
    is_flag=True,
    help="A folder holds domains, which hold classes: art/cat/1.jpg.",
)
@shared.data_place
@shared.isa
@shared.output
@shared.dry_run
@shared.speech
def pack(
    sources,
    split,
    image_size,
    channels,
    no_labels,
    domain_folders,
    data_root,
    download,
    isa,
    output,
    dry_run,
) -> None:
    """Put a dataset into one file that training maps into memory.

    Several sources become the domains of one dataset. Folders are decoded block by
    block, so they may be larger than the memory.

    \b
    Examples:
      furlkit pack imagenet/train --image-size 256 -o imagenet.safetensors
      furlkit pack office-home --domain-folders --image-size 224 -o office.safetensors
      furlkit pack mnist svhn usps --image-size 32 --channels 3 -o digit.safetensors
    """
    from furlkit.data.sets.source import Source
    from furlkit.stages.pack import Options, run

    chosen = tuple(
        Source(name, data_root, download, image_size, split) for name in sources
    )
    wanted = int(channels) if channels else None
    how = (wanted, not no_labels, domain_folders, isa)
    shared.tell(run(Options(chosen, output, *how, dry_run)))


COMMANDS = (partition, sample, pack)
