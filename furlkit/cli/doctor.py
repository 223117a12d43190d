"""doctor: what this machine offers to a training."""

from furlkit.catalogue.entries import command, group
from furlkit.catalogue.groups import VERBOSITY

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("doctor", "Show the devices, precisions and versions of this machine.",
    """The versions that decide the bytes of a result, the devices that --device can name,
    their memory, the precisions they compute in, and the CPU's instruction sets for
    --isa. Nothing is written.

    \b
    Example:
      furlkit doctor
    """,
    group("General", *VERBOSITY),
)
