"""Options of local-train for FedCA's two parts, dictionary and alignment."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from furlkit.cli import options as shared
from furlkit.cli.options import FilePath, Real
from furlkit.errors import UsageError

if TYPE_CHECKING:
    from furlkit.inputs.client import Aligning
    from furlkit.inputs.dictionary import Sharing

# FedCA's dictionary and ensemble.
sharing = shared.stacked(
    click.option("--dictionary", type=FilePath,
                 help="FedCA: K rows that are negatives for every image."),
    click.option("--leave-own-out", is_flag=True,
                 help="FedCA: not the client's own rows of the dictionary."),
    click.option("--features-out",
                 help="FedCA: where to write the rows the client shares, "
                 "ceil(K/m) rows of its ensemble Z; may hold {client}."),
    click.option("--alpha", type=Real(0, 1, max_open=True),
                 help="FedCA: Z <- alpha Z + (1 - alpha) z; 0 shares z alone  "
                 "[default: 0.5]"),
    click.option("--dictionary-size", type=click.IntRange(1),
                 help="FedCA: K  [default: 1024]"),
    click.option("--participants", type=click.IntRange(1),
                 help="FedCA: m, the clients of the round  "
                 "[default: the partition's]"),
)  # fmt: skip

# FedCA's alignment.
aligning = shared.stacked(
    click.option("--align", type=FilePath, metavar="TARGETS",
                 help="FedCA: what the alignment model makes of public images; "
                 "pretrain-align writes it."),
    click.option("--align-data", metavar="NAME|PATH",
                 help="FedCA: the public images the targets are of."),
    click.option("--align-split", type=click.Choice(["train", "test"]),
                 help="FedCA: their split, of a dataset known by name  "
                 "[default: train]"),
    click.option("--beta", type=Real(0),
                 help="FedCA: weight of the alignment term  [default: 0.01]"),
    click.option("--align-reduction", type=click.Choice(["sum", "mean"]),
                 help="FedCA: over the public images of a step  [default: sum]"),
    click.option("--align-batch-size", type=click.IntRange(1),
                 help="FedCA: public images of a step  [default: 128]"),
)  # fmt: skip


def build_sharing(values: dict[str, Any]) -> "Sharing":
    """Take the options of the dictionary."""
    from furlkit.inputs.dictionary import Sharing

    size = values.pop("dictionary_size")
    names = ("dictionary", "leave_own_out", "features_out", "alpha", "participants")
    return Sharing(size=size, **{name: values.pop(name) for name in names})


def build_aligning(
    values: dict[str, Any], place: tuple[Path | None, bool]
) -> "Aligning | None":
    """Take the options of the alignment; None if there are none."""
    from furlkit.data.sets.source import Source
    from furlkit.inputs.client import Aligning

    targets, data = values.pop("align"), values.pop("align_data")
    split = values.pop("align_split")
    names = {
        "beta": "beta",
        "align_reduction": "reduction",
        "align_batch_size": "batch_size",
    }
    given = {names[flag]: values.pop(flag) for flag in names}
    given = {name: value for name, value in given.items() if value is not None}
    if targets and data:
        source = Source(data, *place, split=split or "train")
        return Aligning(targets, source, **given)
    if targets or data or split or given:
        lacking = "--align-data" if targets else "--align"
        raise UsageError(
            f"alignment needs --align TARGETS, --align-data and a weight --beta; "
            f"{lacking} is missing"
        )
    return None
