"""plot tsne: features laid out in the plane, coloured by class."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.labels import LabelSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.features import Features, read_features
from furlkit.inputs.paths import check_output as check_inputs
from furlkit.inputs.settings import fill
from furlkit.randomness import derive, numpy_generator
from furlkit.reports.figures.clouds import Cloud, Key, draw_clouds
from furlkit.reports.figures.style import check_output, finish
from furlkit.reports.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """At most `images` rows per panel, and t-SNE's perplexity and seed."""

    images: int = 2000
    perplexity: float = 30
    seed: int = 0


@dataclass(frozen=True)
class Options:
    """`panels` are labels with feature files; `classes` are in colour, None for all.

    Without a `title` one is made.
    """

    panels: tuple[tuple[str, Path], ...]
    data: Source
    output: Path
    classes: tuple[int, ...] | None = None
    settings: Settings = Settings()
    title: str | None = None
    dry_run: bool = False


class Panel(NamedTuple):
    """The rows of one file that are drawn, and the class of each."""

    label: str
    features: Features
    rows: np.ndarray
    labels: np.ndarray


def run_values(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Draw with flat options."""
    return run(fill(Options, values))


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Draw the t-SNE of each feature file, one panel per file."""
    check_output(options.output)
    if not options.panels:
        raise UsageError("plot tsne: give feature files, which embed writes")
    paths = [path for _, path in options.panels]
    check_inputs(options.output, [*paths, Path(options.data.name)])
    images, settings = options.data.labels(), options.settings
    key = _key(images, options.classes)
    panels = [_panel(label, path, images, options) for label, path in options.panels]
    layers = " and ".join(sorted({plain(p.features.facts.layer) for p in panels}))
    numbers = " and ".join(f"{n:,}" for n in sorted({len(p.rows) for p in panels}))
    text = f"t-SNE of {layers} of {numbers} images"
    text += f", perplexity {settings.perplexity:g}"
    title = text if options.title is None else options.title
    data = [_data(panel, images.classes) for panel in panels]

    def draw() -> "Figure":
        clouds = []
        for panel, numbers in zip(panels, data, strict=True):
            points, left = lay_out(panel.rows, settings.perplexity, settings.seed)
            numbers["divergence"] = left
            clouds.append(Cloud(panel.label, points, panel.labels))
        return draw_clouds(clouds, key, plain(title))

    text += f", {len(key.shown):,} classes in colour"
    return finish(draw, options.output, options.dry_run, text, {"panels": data})


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1, so that near means a small angle; rows of zeros stay zero."""
    rows = rows.astype(np.float64)
    # First by the largest entry, whose square might overflow.
    for order in (np.inf, 2):
        length = np.linalg.norm(rows, ord=order, axis=1, keepdims=True)
        rows = rows / np.where(length > 0, length, 1)
    return rows


def lay_out(rows: np.ndarray, perplexity: float, seed: int) -> tuple[np.ndarray, float]:
    """The t-SNE (n, 2) of unit rows, and the remaining divergence.

    It runs on one thread: sums of several threads may differ in their last bits, from
    which t-SNE makes another picture.
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


def _key(images: LabelSet, classes: tuple[int, ...] | None) -> Key:
    if images.labels is None:
        raise InputError(f"{images.name}: has no labels to colour by")
    last = images.classes - 1
    for label in classes or ():
        if not 0 <= label <= last:
            raise UsageError(
                f"--classes {label}: {images.name} has the classes 0 to {last}"
            )
    shown = tuple(dict.fromkeys(classes or range(images.classes)))
    return Key(shown, images.class_names, len(shown) == images.classes)


def _panel(label: str, path: Path, images: LabelSet, options: Options) -> Panel:
    features = read_features(path)
    _check_dataset(features, images, options.data)
    chosen = _chosen(features.index, options.settings)
    rows = unit_rows(features.rows[chosen])
    _check_rows(path, rows, options.settings.perplexity)
    labels = np.asarray(images.labels)[features.index[chosen]]
    label = str(path) if not label and len(options.panels) > 1 else label
    return Panel(plain(label), features, rows, labels)


def _check_dataset(features: Features, images: LabelSet, data: Source) -> None:
    path, dataset, index = features.path, features.facts.dataset, features.index
    if type(dataset.get("examples")) is not int:
        raise InputError(f"{path}: does not say which images its rows belong to")
    difference = same_dataset(dataset, images.fingerprint)
    if difference:
        raise InputError(
            f"{path}: belongs to other images than {images.name} (split {data.split}): "
            f"{difference}; give the --data and --split of its embed"
        )
    if len(index) and not 0 <= index.min() <= index.max() < images.examples:
        raise InputError(
            f"{path}: its index goes from {index.min()} to {index.max()}, {images.name} "
            f"has {images.examples:,} images; re-create it with embed"
        )


def _chosen(index: np.ndarray, settings: Settings) -> np.ndarray:
    """Rows in random order, the same images wherever files have the same images."""
    order = np.argsort(index, kind="stable")
    rng = numpy_generator(settings.seed, "plot", "tsne", "images")
    return order[rng.permutation(len(order))[: settings.images]]


def _check_rows(path: Path, rows: np.ndarray, perplexity: float) -> None:
    n, width = rows.shape
    if n <= perplexity:
        raise UsageError(
            f"--perplexity {perplexity:g}: must be less than the {n} images of {path} "
            "that are drawn"
        )
    if width < 2:
        raise InputError(f"{path}: has rows of {width} numbers, 2 are needed")
    if np.ptp(rows, axis=0).max() < 1e-7:
        raise InputError(
            f"{path}: all its rows have the same direction: the model has collapsed, and "
            "there is nothing to draw"
        )


def _data(panel: Panel, classes: int) -> dict[str, Any]:
    facts = panel.features.facts
    return {
        "label": panel.label,
        "file": str(panel.features.path),
        "layer": facts.layer,
        "client": facts.client,
        "round": facts.round,
        "images": len(panel.rows),
        "of": len(panel.features.index),
        "per_class": np.bincount(panel.labels, minlength=classes).tolist(),
    }
