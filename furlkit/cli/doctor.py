"""doctor: show devices, precisions and versions of this machine."""

from furlkit.catalogue.entries import command, group
from furlkit.catalogue.groups import VERBOSITY

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("doctor", "Show the devices, precisions and versions of this machine.",
    """doctor lists the versions that affect the bytes of a result, the devices for --device
    with memory and precisions, and the CPU's instruction sets for --isa. doctor writes no
    file.

    \b
    Example:
      furlkit doctor
    """,
    group("General", *VERBOSITY),
)
