"""partition: which client holds which images."""

from typing import Any

from furlkit.cli.shared import command, tell


@command("partition")
def partition(values: dict[str, Any]) -> None:
    """Clients share no image, unless --with-replacement says so; the public part, which
    is drawn first, belongs to none of them.

    \b
    iid               equal random parts
    classes           m classes for each client, exclusive or on several clients
    dirichlet         each CLASS is spread over the clients by Dir(alpha):
                      clients differ in size and in mix
    dirichlet-client  each CLIENT draws its mix of classes from Dir(beta):
                      clients are equal in size and differ in mix
    volume            client i gets delta/n + (1-delta) gamma^i / sum_j gamma^j
    shards            sorted by label, s shards for each client
    domains           a group of clients for each domain of a packed file
    file              indices from a file

    \b
    Example:
      furlkit partition --data digits --scheme classes --classes-per-client 2 \\
          -o exp/partition.safetensors
    """
    from furlkit.stages.partition import run

    tell(run(values))
