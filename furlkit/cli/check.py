"""check: whether a dataset can be read, and what its images are."""

from furlkit.cli.shared import stage


@stage("check")
def check() -> None:
    """Every image of a folder is decoded: formats, types, ranges of values, channels,
    pages and copies are listed, with a window for images of more than 8 bits. Every byte
    of a packed file is compared with its checksum. Exits with 65 if something cannot be
    read; `pack --skip-broken` leaves such files out. Says too where the decoded images of
    folders are kept, which may be removed at any time.

    \b
    Examples:
      furlkit check pictures
      furlkit check scans --sheet seen.png --window 0,4095 --image-size 64
      furlkit check train --test-data test
    """
