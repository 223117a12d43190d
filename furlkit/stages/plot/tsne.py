"""plot tsne: features laid out in the plane, coloured by class or by client."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.labels import LabelSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.features import Features, read_features
from furlkit.inputs.settings import fill
from furlkit.randomness import derive, numpy_generator
from furlkit.reports.figures import Frame
from furlkit.reports.summary import Cloud
from furlkit.reports.text import plain
from furlkit.stages.plot.picture import Paths, Picture, figure, picture


@picture
def run(
    files: Paths,
    panels: tuple[tuple[str, Path], ...],
    frame: Frame,
    by: str,
    classes: tuple[int, ...] | None,
    images: int,
    perplexity: float,
    seed: int,
    **data: Any,
) -> Picture:
    """Draw the t-SNE of each feature file, a panel for each file.

    `images`: maximum number of rows. `classes`: classes in colour, None for all. With
    `by` client the files share a panel.
    """
    source, given = fill(Source, data), tuple(("", path) for path in files) + panels
    if not given:
        raise UsageError("plot tsne: give feature files, which embed writes")
    known, clients = source.labels(), by == "client"
    names = {} if clients else _coloured(known, classes)
    clouds, shown = [], []
    for label, path in given:
        features = read_features(path)
        _check_dataset(features, known, source)
        chosen = _chosen(features.index, images, seed)
        rows = unit_rows(features.rows[chosen])
        if clients:
            labels = np.full(len(chosen), _client(features, names, known))
        else:
            _check_rows(path, rows, perplexity)
            labels = np.asarray(known.labels)[features.index[chosen]]
        name = plain(str(path) if not label and len(given) > 1 else label)
        clouds.append(Cloud(name, rows, labels))
        shown.append(_data(clouds[-1], features, 0 if clients else known.classes))
    if clients:
        clouds = [_together(given, clouds)]
        _check_rows(given[0][1], clouds[0].points, perplexity)
    layers = " and ".join(sorted({_symbol(each) for each in shown}))
    counts = " and ".join(f"{n:,}" for n in sorted({len(c.points) for c in clouds}))
    text = f"t-SNE of {layers} of {counts} images, perplexity {perplexity:g}"

    def draw() -> Any:
        drawn = []
        for place, cloud in enumerate(clouds):
            points, divergence = lay_out(cloud.points, perplexity, seed)
            for numbers in shown if clients else shown[place : place + 1]:
                numbers["divergence"] = divergence
            drawn.append(cloud._replace(points=points))
        titled = frame._replace(title=text) if frame.title is None else frame
        return figure("clouds:draw_clouds")(drawn, names, titled, by)

    of = "clients" if clients else "classes"
    coloured = f"{text}, {len(names):,} {of} in colour"
    return draw, coloured, {"panels": shown}


def _symbol(numbers: dict[str, Any]) -> str:
    """Symbol of the features: h, z, or h_s of a style model."""
    return plain(numbers["layer"]) + "_s" * (numbers["personal"] == "style")


def _client(features: Features, names: dict[int, str], images: LabelSet) -> int:
    """Index of the client in `names`; appended if new.

    The name includes the client's domain, if any.
    """
    client, path = features.facts.client, features.path
    if client is None:
        raise InputError(
            f"{path}: is not of one client's model; embed the model of a client, or "
            "with --personal, or leave out --by client"
        )
    domains = () if images.domains is None else images.domains[features.index]
    held = sorted(set(np.asarray(domains, int).tolist()))
    domain = images.domain_names[held[0]] if len(held) == 1 else ""
    name = plain(f"{client} {domain}").rstrip()
    if name in names.values():
        raise UsageError(f"{path}: client {client} is there already; give it once")
    names[len(names)] = name
    return len(names) - 1


def _together(given: Sequence[tuple[str, Path]], clouds: Sequence[Cloud]) -> Cloud:
    """Combine the files into a single cloud, with rows of equal length."""
    first = clouds[0].points.shape[1]
    for (_, path), cloud in zip(given, clouds, strict=True):
        if cloud.points.shape[1] != first:
            raise InputError(
                f"{path}: has rows of {cloud.points.shape[1]} numbers, {given[0][1]} of "
                f"{first}; embed all files with models of a single run"
            )
    points, labels = (
        np.concatenate([getattr(cloud, part) for cloud in clouds])
        for part in ("points", "labels")
    )
    return Cloud("", points, labels)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Normalise rows: near means a small angle; rows of zeros stay zero."""
    rows = rows.astype(np.float64)
    # First by the largest entry, whose square might overflow.
    for order in (np.inf, 2):
        length = np.linalg.norm(rows, ord=order, axis=1, keepdims=True)
        rows = rows / np.where(length > 0, length, 1)
    return rows


def lay_out(rows: np.ndarray, perplexity: float, seed: int) -> tuple[np.ndarray, float]:
    """Compute the t-SNE (n, 2) of unit rows, and the remaining divergence.

    Runs on a single thread: sums over several threads may differ in the last bits,
    which changes the picture.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    state = derive(seed, "plot", "tsne", "init") % 2**32
    method = TSNE(
        perplexity=perplexity, init="pca", learning_rate="auto", random_state=state,
        n_jobs=1,
    )  # fmt: skip
    with threadpool_limits(1):
        points = method.fit_transform(rows)
    return points.astype(np.float64), float(method.kl_divergence_)


def _coloured(images: LabelSet, classes: tuple[int, ...] | None) -> dict[int, str]:
    """Names of the classes in colour."""
    if images.labels is None:
        raise InputError(f"{images.without_labels} to colour by")
    last = images.classes - 1
    for label in classes or ():
        if not 0 <= label <= last:
            raise UsageError(
                f"--classes {label}: {images.name} has the classes 0 to {last}"
            )
    shown = classes or range(images.classes)
    return {label: plain(str(images.class_names[label])) for label in shown}


def _check_dataset(features: Features, images: LabelSet, data: Source) -> None:
    path, dataset, index = features.path, features.facts.dataset, features.index
    if type(dataset.get("examples")) is not int:
        raise InputError(f"{path}: does not say which images the rows belong to")
    difference = same_dataset(dataset, images.fingerprint)
    if difference:
        raise InputError(
            f"{path}: belongs to other images than {images.name} (split {data.split}): "
            f"{difference}; give --data and --split of embed"
        )
    if len(index) and not 0 <= index.min() <= index.max() < images.examples:
        raise InputError(
            f"{path}: the index goes from {index.min()} to {index.max()}, but "
            f"{images.name} has {images.examples:,} images; re-create it with embed"
        )


def _chosen(index: np.ndarray, images: int, seed: int) -> np.ndarray:
    """Rows in random order; files with equal images give equal choices."""
    order = np.argsort(index, kind="stable")
    rng = numpy_generator(seed, "plot", "tsne", "images")
    return order[rng.permutation(len(order))[:images]]


def _check_rows(path: Path, rows: np.ndarray, perplexity: float) -> None:
    n, width = rows.shape
    if n <= perplexity:
        raise UsageError(
            f"--perplexity {perplexity:g}: must be less than the {n} images drawn "
            f"from {path}"
        )
    if width < 2:
        raise InputError(f"{path}: has rows of {width} numbers, 2 are needed")
    if np.ptp(rows, axis=0).max() < 1e-7:
        raise InputError(
            f"{path}: all rows have the same direction: the model has collapsed, and "
            "there is nothing to draw"
        )


def _data(cloud: Cloud, features: Features, classes: int) -> dict[str, Any]:
    """JSON entry of a file; without classes, labels are not classes."""
    names = ("layer", "personal", "client", "round")
    origin = {k: getattr(features.facts, k) for k in names}
    found = {
        "label": cloud.label,
        "file": str(features.path),
        **origin,
        "images": len(cloud.points),
        "of": len(features.index),
    }
    if classes:
        found["per_class"] = np.bincount(cloud.labels, minlength=classes).tolist()
    return found
