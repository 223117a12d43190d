"""plot clusters: images with the highest confidence in each cluster."""

from pathlib import Path
from typing import Any

import numpy as np

from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.decoded import Fit
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.source import Source
from furlkit.data.sets.window import in_bytes
from furlkit.errors import InputError, UsageError
from furlkit.files.container.header import short
from furlkit.inputs.settings import fill
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import read_one
from furlkit.reports.summary import ImageRow
from furlkit.reports.text import counted, lookup
from furlkit.stages.plot.confusion import class_names
from furlkit.stages.plot.picture import Picture, figure, picture

MOST = 20  # Maximum number of clusters without --clusters.
SIDE = 96  # Pixels of a folder's images, if sizes differ.


@picture
def run(
    file: Path, clusters: tuple[int, ...] | None, images: int, frame: Frame, **data: Any
) -> Picture:
    """Draw a row of images for each cluster, in the order of the matched classes."""
    metrics, source = read_one(file), fill(Source, data)
    surest, matching = _surest(file, metrics), metrics["matching"]
    if not any(surest):
        raise InputError(f"{file}: names no images; evaluate it again with --surest 12")
    shown = _shown(clusters, surest, matching)
    known = source.images(Fit(SIDE))
    _check_images(file, metrics, surest, known, source)
    names = class_names(metrics, len(matching))
    rows = [_row(k, surest[k][:images], metrics, names, known) for k in shown]
    text = (
        f"{counted(len(rows), 'cluster')} of {len(surest)}, with the images that each "
    )
    text += "is surest of"
    titled = frame._replace(title=text) if frame.title is None else frame
    return (
        lambda: figure("mosaic:draw_mosaic")(rows, titled),
        text,
        {"clusters": [_to_json(row, surest, images) for row in rows]},
    )


def _surest(path: Path, metrics: dict[str, Any]) -> list[list[int]]:
    """Most confident images of each cluster, from a file of evaluate cluster."""
    found: Any = metrics.get("surest")
    matching: Any = metrics.get("matching")
    lists = isinstance(found, list) and all(isinstance(each, list) for each in found)
    whole = lists and all(type(k) is int and k >= 0 for each in found for k in each)
    known = whole and [None, *range(len(found))]
    if (
        not known
        or not isinstance(matching, list)
        or any(k not in known for k in matching)
    ):
        protocol = short(metrics.get("protocol"))
        raise InputError(
            f"{path}: names no images of clusters (protocol {protocol}); expected a file "
            "of furlkit evaluate cluster"
        )
    return found


def _shown(
    given: tuple[int, ...] | None, surest: list[list[int]], matching: list[int | None]
) -> list[int]:
    """Clusters with images; clusters that match a class first."""
    for cluster in given or ():
        if cluster >= len(surest):
            raise UsageError(
                f"--clusters {cluster}: there are the clusters 0 to {len(surest) - 1}"
            )
    matched = [k for k in matching if k is not None]
    order = [*matched, *(k for k in range(len(surest)) if k not in matched)]
    filled = [k for k in order if surest[k] and (given is None or k in given)]
    if not filled:
        raise UsageError(f"--clusters {short(list(given or ()))}: have no images")
    return filled if given else filled[:MOST]


def _check_images(
    path: Path,
    metrics: dict[str, Any],
    surest: list[list[int]],
    images: ImageSet,
    source: Source,
) -> None:
    theirs = lookup(metrics, "data.test")
    known = isinstance(theirs, dict) and type(theirs.get("examples")) is int
    difference = same_dataset(theirs, images.fingerprint) if known else "none named"
    if difference or max(max(each, default=0) for each in surest) >= len(images.images):
        raise InputError(
            f"{path}: was scored on other images than {images.name} (split "
            f"{source.split}): {difference}; give --data and --split of the test set"
        )


def _row(
    cluster: int,
    index: list[int],
    metrics: dict[str, Any],
    names: list[str],
    images: ImageSet,
) -> ImageRow:
    matching: list[int | None] = metrics["matching"]
    occupancy: Any = metrics.get("occupancy")
    label = matching.index(cluster) if cluster in matching else None
    wrong = [False] * len(index)
    if label is not None and images.labels is not None:
        wrong = (np.asarray(images.labels)[index] != label).tolist()
    known = isinstance(occupancy, list) and len(occupancy) > cluster
    size = occupancy[cluster] if known else len(index)
    name = "no class" if label is None else names[label]
    note = f"cluster {cluster}: {counted(size, 'image')}"
    return ImageRow(cluster, name, note, in_bytes(images.images[index]), wrong)


def _to_json(row: ImageRow, surest: list[list[int]], images: int) -> dict[str, Any]:
    shown = surest[row.cluster][:images]
    return {
        "cluster": row.cluster,
        "name": row.name,
        "images": shown,
        "wrong": row.wrong,
    }
