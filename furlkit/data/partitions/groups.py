"""Partitions that never divide a group of images, such as the images of a patient."""

from dataclasses import replace

import numpy as np

from furlkit.data.partitions.schemes import SchemeOptions, Split, public_size, split
from furlkit.data.partitions.sizes import Rng
from furlkit.data.sets.groups import one_of_each, whole_groups
from furlkit.data.sets.labels import LabelSet
from furlkit.errors import UsageError


def split_groups(data: LabelSet, options: SchemeOptions, rng: Rng) -> Split:
    """Divide groups by a scheme like single images; then give clients all images.

    The class of a group is the most frequent class. The public part has whole groups.
    """
    if options.scheme == "file":
        raise UsageError("--groups does not apply to --scheme file")
    if options.own.get("with_replacement"):
        raise UsageError("--with-replacement does not apply beside --groups")
    groups = np.asarray(data.groups)
    own = dict(options.own)
    size = public_size(
        data.examples, own.pop("public_fraction", None), own.pop("public_count", None)
    )
    held = np.zeros(data.examples, bool)
    if size:
        held = whole_groups(groups, size, rng)
    pool = np.flatnonzero(~held)
    least = replace(options, own=own, min_size=min(options.min_size, 1))
    for _ in range(options.redraws + 1):
        drawn = _expanded(data.subset(pool), least, rng)
        sizes = [len(part) for part in drawn.indices if len(part)]
        if min(sizes, default=0) >= options.min_size:
            break
    else:
        raise UsageError(
            f"--min-size {options.min_size}: a client had fewer images in "
            f"{options.redraws + 1} draws of whole groups; lower --min-size or --clients"
        )
    public = pool[drawn.public] if len(drawn.public) else np.flatnonzero(held)
    return Split([pool[part] for part in drawn.indices], public)


def _expanded(data: LabelSet, options: SchemeOptions, rng: Rng) -> Split:
    """Divide the groups of a dataset; return indices of images."""
    reduced, codes = one_of_each(data, np.asarray(data.groups))
    drawn = split(reduced, options, rng)
    images = [np.flatnonzero(np.isin(codes, part)) for part in drawn.indices]
    return Split(images, np.flatnonzero(np.isin(codes, drawn.public)))
