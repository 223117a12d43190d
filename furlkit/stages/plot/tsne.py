"""plot tsne: features laid out in the plane, coloured by class."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
from furlkit.reports.figures.style import check_output, save
from furlkit.reports.text import plain


@dataclass(frozen=True)
class Settings:
    """At most `images` rows a panel, laid out with this perplexity from this seed."""

    images: int = 2000
    perplexity: float = 30
    seed: int = 0


@dataclass(frozen=True)
class Options:
    """`panels` are labels with feature files; `classes` are in colour, None for all.

    None for `title` says what is drawn.
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
    """Draw the t-SNE of each feature file, one panel a file."""
    check_output(options.output)
    if not options.panels:
        raise UsageError("plot tsne: give it feature files, which embed writes")
    given = [path for _, path in options.panels]
    check_inputs(options.output, [*given, Path(options.data.name)])
    known = options.data.labels()
    key = _key(known, options.classes)
    panels = [_panel(label, path, known, options) for label, path in options.panels]
    data = [_data(panel, known) for panel in panels]
    if not options.dry_run:
        settings = options.settings
        drawn = [lay_out(p.rows, settings.perplexity, settings.seed) for p in panels]
        for values, (_, divergence) in zip(data, drawn, strict=True):
            values["divergence"] = divergence
        clouds = [
            Cloud(p.label, points, p.labels)
            for p, (points, _) in zip(panels, drawn, strict=True)
        ]
        save(draw_clouds(clouds, key, _title(panels, options)), options.output)
    would = "would draw " if options.dry_run else ""
    line = f"{would}{options.output}: {_words(panels)}, perplexity "
    line += f"{options.settings.perplexity:g}, {len(key.shown):,} classes in colour"
    return line, {"output": str(options.output), "panels": data}


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1, so that near means a small angle; rows of zeros stay so."""
    rows = rows.astype(np.float64)
    # First by the largest entry: its square might not be a number any more.
    for order in (np.inf, 2):
        length = np.linalg.norm(rows, ord=order, axis=1, keepdims=True)
        rows = rows / np.where(length > 0, length, 1)
    return rows


def lay_out(rows: np.ndarray, perplexity: float, seed: int) -> tuple[np.ndarray, float]:
    """The t-SNE (n, 2) of unit rows, and the divergence that is left in the end.

    On one thread, whatever the machine has: sums made by several may differ in their
    last bits, and t-SNE makes another picture of that.
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


def _key(known: LabelSet, classes: tuple[int, ...] | None) -> Key:
    if known.labels is None:
        raise InputError(f"{known.name}: has no labels to colour by")
    shown = tuple(dict.fromkeys(classes)) if classes else tuple(range(known.classes))
    for label in shown:
        if not 0 <= label < known.classes:
            raise UsageError(
                f"--classes {label}: {known.name} has the classes 0 to "
                f"{known.classes - 1}"
            )
    return Key(shown, known.class_names, len(shown) == known.classes)


def _panel(label: str, path: Path, known: LabelSet, options: Options) -> Panel:
    features = read_features(path)
    _check_dataset(features, known, options.data)
    chosen = _chosen(features.index, options.settings)
    rows = unit_rows(features.rows[chosen])
    _check_rows(features, rows, options.settings.perplexity)
    labels = np.asarray(known.labels)[features.index[chosen]]
    if not label and len(options.panels) > 1:
        label = str(path)
    return Panel(plain(label), features, rows, labels)


def _check_dataset(features: Features, known: LabelSet, data: Source) -> None:
    theirs, index = features.facts.dataset, features.index
    if type(theirs.get("examples")) is not int:
        raise InputError(f"{features.path}: does not say which images its rows are of")
    difference = same_dataset(theirs, known.fingerprint)
    if difference:
        raise InputError(
            f"{features.path}: is of other images than {known.name} (split "
            f"{data.split}): {difference}; give the --data and --split of its embed"
        )
    if len(index) and not 0 <= index.min() <= index.max() < known.examples:
        raise InputError(
            f"{features.path}: its index runs from {index.min()} to {index.max()}, "
            f"{known.name} has {known.examples:,} images; make it anew with embed"
        )


def _chosen(index: np.ndarray, settings: Settings) -> np.ndarray:
    """Rows in random order, the same images wherever files have the same images."""
    order = np.argsort(index, kind="stable")
    rng = numpy_generator(settings.seed, "plot", "tsne", "images")
    return order[rng.permutation(len(order))[: settings.images]]


def _check_rows(features: Features, rows: np.ndarray, perplexity: float) -> None:
    n, width = rows.shape
    if n <= perplexity:
        raise UsageError(
            f"--perplexity {perplexity:g}: must be less than the {n} images of "
            f"{features.path} that are drawn"
        )
    if width < 2:
        raise InputError(f"{features.path}: has rows of {width} numbers, 2 are needed")
    if np.ptp(rows, axis=0).max() < 1e-7:
        raise InputError(
            f"{features.path}: all its rows point the same way: the model has "
            "collapsed, and there is nothing to lay out"
        )


def _data(panel: Panel, known: LabelSet) -> dict[str, Any]:
    facts = panel.features.facts
    return {
        "label": panel.label,
        "file": str(panel.features.path),
        "layer": facts.layer,
        "client": facts.client,
        "round": facts.round,
        "images": len(panel.rows),
        "of": len(panel.features.index),
        "per_class": np.bincount(panel.labels, minlength=known.classes).tolist(),
    }


def _words(panels: list[Panel]) -> str:
    layers = " and ".join(sorted({plain(p.features.facts.layer) for p in panels}))
    numbers = " and ".join(f"{n:,}" for n in sorted({len(p.rows) for p in panels}))
    return f"t-SNE of {layers} of {numbers} images"


def _title(panels: list[Panel], options: Options) -> str:
    if options.title is not None:
        return plain(options.title)
    return f"{_words(panels)}, perplexity {options.settings.perplexity:g}"
