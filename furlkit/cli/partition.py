"""partition: which client holds which images."""

from furlkit.cli.shared import stage


@stage("partition")
def partition() -> None:
    """Clients share no image, unless --with-replacement or --repeat says so; the public
    part, which is drawn first, belongs to none of them. Where every client is of one
    domain, as by --scheme domains, the file records which.

    \b
    Examples:
      furlkit partition --data digits --scheme classes --classes-per-client 2 \\
          -o exp/partition.safetensors
      furlkit partition --data scans --groups patients.csv -o exp/partition.safetensors
      furlkit partition --data styles.safetensors --scheme domains \\
          --clients-per-domain 5 --concentration 0.2 -o exp/partition.safetensors
    """
