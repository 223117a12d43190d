"""check: whether a dataset can be read."""

from furlkit.cli.shared import argument, stage


@stage("check", argument("data", "NAME|PATH", kind=str))
def check() -> None:
    """Every image of a folder is decoded, every byte of a packed file is compared with
    its checksum. Exits with 65 if something cannot be read; `pack --skip-broken`
    leaves such files out. Says too where the decoded images of folders are kept, which
    may be removed at any time.

    \b
    Example:
      furlkit check pictures
    """
