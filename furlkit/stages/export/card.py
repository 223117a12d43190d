"""The model card: README.md in the format of Hugging Face."""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.console import plain
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, CheckpointFacts, open_checkpoint
from furlkit.models.description import Architecture
from furlkit.reports.differences import wilson
from furlkit.reports.explain import privacy_text
from furlkit.reports.metrics import number, protocol_of, read_one
from furlkit.reports.table import render
from furlkit.reports.text import counted
from furlkit.weights import below, is_batchnorm_statistic

CARD = "README.md"
LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}")
SEAL = re.compile(r"\n<!-- furlkit export ([0-9a-f]{64}) -->\n\Z")
NOT_TOLD = "not told"
MOST_CLASSES = 20
LIMITS = (
    "The encoder returns features, not classes: train a classifier on labelled images "
    "before use, and test the classifier on images of the place of use.",
    "Other image sizes, channels, windows and kinds of images than in training are "
    "untested.",
    "Federated training keeps images at the clients, but weights can reveal facts about "
    "training images. This card makes no claim of privacy.",
)


class Score(NamedTuple):
    """Accuracy by one protocol, on a number of test images."""

    protocol: str
    accuracy: float
    images: int | None


class Sources(NamedTuple):
    """Facts for the card besides the model's facts.

    `graphs`: files in the folder besides the weights, with the difference of h.
    """

    licence: str
    scores: Sequence[Score]
    uploads: Sequence[CheckpointFacts]
    graphs: dict[str, float]


def check_licence(name: str) -> None:
    """Refuse a licence that is no identifier, like apache-2.0."""
    if name and not LICENCE.fullmatch(name):
        raise UsageError(
            f"--license {plain(name)}: expected an identifier of Hugging Face, like "
            "apache-2.0, mit or other"
        )


def read_scores(model: Checkpoint, paths: Sequence[Path]) -> list[Score]:
    """Read metrics files of the exported model."""
    return [_read_score(model, path) for path in paths]


def _read_score(model: Checkpoint, path: Path) -> Score:
    document = read_one(path)
    inputs = document.get("inputs")
    if not isinstance(inputs, dict) or model.content not in inputs.values():
        raise InputError(
            f"{path}: has the score of another model than {model.path}; give metrics of "
            "the exported model"
        )
    images = document.get("test_examples")
    known = images if type(images) is int and images > 0 else None
    return Score(protocol_of(document), number(path, document, "accuracy"), known)


def read_uploads(model: Checkpoint, paths: Sequence[Path]) -> list[CheckpointFacts]:
    """Read the facts in uploads that the exported model was aggregated from."""
    return [_read_upload(model, path) for path in paths]


def _read_upload(model: Checkpoint, path: Path) -> CheckpointFacts:
    opened, facts = open_checkpoint(path)
    if facts.role != "client" or opened.content not in model.header.inputs.values():
        raise InputError(
            f"{path}: is not an upload that {model.path} was aggregated from; give "
            "uploads of the model's round"
        )
    return facts


def is_own_card(path: Path) -> bool:
    """Return whether export wrote the card and nobody has edited the card since."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return False
    seal = SEAL.search(text)
    return bool(seal and seal[1] == _hash(text[: seal.start()]))


def model_card(
    model: Checkpoint, a: Architecture, config: dict[str, Any], sources: Sources
) -> str:
    """Text of README.md; the last line has the hash of the text above."""
    sections = {
        "Model": _bullets(_model_lines(model, a)),
        "Use": _use(a, config, sources),
        "Training": _bullets(_training_lines(model)),
        "Data": _data(model, sources.uploads),
        "Scores": _scores(sources.scores),
        "Limits": _bullets(LIMITS),
        "Provenance": _bullets(_provenance_lines(model)),
    }
    parts = (f"## {title}\n\n{text}\n" for title, text in sections.items())
    title = f"# {a.encoder} after round {model.facts.round}\n"
    text = "\n".join([_front_matter(config, sources.licence), title, *parts])
    return f"{text}\n<!-- furlkit export {_hash(text)} -->\n"


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _front_matter(config: dict[str, Any], licence: str) -> str:
    """YAML that Hugging Face reads; networks outside timm need furlkit."""
    name = config["architecture"]
    own = name.startswith("furlkit_") or ":" in name
    lines = (
        "---",
        f"license: {licence or '# Fill in, for example apache-2.0.'}",
        f"library_name: {'furlkit' if own else 'timm'}",
        "pipeline_tag: image-feature-extraction",
        "tags:",
        *("- federated-learning", "- representation-learning", "- furlkit"),
        "---\n",
    )
    return "\n".join(lines)


def _model_lines(model: Checkpoint, a: Architecture) -> Iterator[str]:
    tensors = below("encoder.", model.tensors).items()
    sizes = (array.size for name, array in tensors if not is_batchnorm_statistic(name))
    width = f", width {a.width:g}" if a.encoder == "cnn5" else ""
    stem = ", stem of 3x3 without pooling" if a.stem == "small" else ""
    yield f"Architecture: `{a.encoder}`{width}{stem}, {sum(sizes):,} parameters"
    if model.facts.role == "client":
        yield (
            "Origin: the upload of a single client, not the global model; such a model "
            "reveals more about the client's images"
        )
    yield f"Output: h, {a.feature_dim} features of an image"
    size = f"{a.image_size} x {a.image_size}"
    yield f"Input: {size} pixels, {counted(a.channels, 'channel')}"
    resized = "the shorter side is resized (bilinear), the centre is cropped"
    yield f"Preprocessing: {resized}; values from 0 to 1, then mean and std"
    yield f"Mean: {_numbers(model.facts.mean)}; std: {_numbers(model.facts.std)}"
    for name, value in (model.facts.reading or {}).items():
        text = f"`{_code(value)}`"
        yield f"{name.capitalize()} of images with more than 8 bits: {text}"


def _use(a: Architecture, config: dict[str, Any], sources: Sources) -> str:
    """Python for timm and transformers if timm knows the network, then plain torch."""
    name = config["architecture"]
    lines = ["import furlkit.models.timm"] if name.startswith("furlkit_") else []
    timm = 'net = timm.create_model("local-dir:.", pretrained=True).eval()'
    auto = (
        'transformers.AutoModel.from_pretrained(".")',
        'transformers.AutoImageProcessor.from_pretrained(".")',
    )
    libraries = "\n".join(["import timm, transformers", *lines, timm, *auto])
    blocks = [] if ":" in name else [libraries]
    blocks.append("\n".join(config["how_to_load"]))
    code = "\n\n".join(f"```python\n{block}\n```" for block in blocks)
    graphs = (
        f"`{file}` returns h of any number of images; h differs from torch by at most "
        f"{difference:.1e} on random images."
        for file, difference in sources.graphs.items()
    )
    intro = (
        f"Run in this folder; every block returns the same {a.feature_dim} features."
    )
    return "\n\n".join([intro, code, *graphs])


def _training_lines(model: Checkpoint) -> Iterator[str]:
    facts, header = model.facts, model.header
    yield f"Rounds: {facts.round}"
    clients = sum(role.startswith("client ") for role in header.inputs)
    if clients:
        yield f"Clients in the last round: {clients:,}"
    rule = header.options.get("rule")
    yield f"Last step: furlkit {header.stage}" + (
        f", rule `{_code(rule)}`" if rule else ""
    )
    if facts.run:
        yield f"Run: `{_code(facts.run)}`"
    if words := privacy_text(vars(facts)):
        yield f"Differential privacy{words.removeprefix(',')}"


def _data(model: Checkpoint, uploads: Sequence[CheckpointFacts]) -> str:
    """Facts that clients disclosed (local-train --tell)."""
    total = model.facts.examples
    told = NOT_TOLD if total is None else f"{total:,}"
    line = f"Training images in the last round: {told}."
    if not uploads:
        return line
    rows = [("client", "images", "classes"), *map(_client_row, uploads)]
    return f"{line}\n\n{render(rows, 'markdown', '.r.')}"


def _client_row(facts: CheckpointFacts) -> tuple[str, str, str]:
    images = NOT_TOLD if facts.examples is None else f"{facts.examples:,}"
    if facts.classes is None:
        return plain(str(facts.client)), images, NOT_TOLD
    shown = [*facts.classes.items()][:MOST_CLASSES]
    classes = ", ".join(plain(f"{name}: {count}") for name, count in shown)
    more = len(facts.classes) - len(shown)
    return (
        plain(str(facts.client)),
        images,
        classes + (f" and {more} more" * (more > 0)),
    )


def _scores(scores: Sequence[Score]) -> str:
    if not scores:
        return "No score was given to export."
    head = ("protocol", "accuracy (%)", "95 % interval", "test images")
    table = render([head, *map(_score_row, scores)], "markdown", ".rrr")
    return f"{table}\n\nIntervals: Wilson's over the test images."


def _score_row(score: Score) -> tuple[str, ...]:
    shown = f"{100 * score.accuracy:.2f}"
    if score.images is None or not 0 <= score.accuracy <= 1:
        return plain(score.protocol), shown, "", ""
    low, high = wilson(score.accuracy, score.images)
    interval = f"{100 * low:.1f} to {100 * high:.1f}"
    return plain(score.protocol), shown, interval, f"{score.images:,}"


def _provenance_lines(model: Checkpoint) -> Iterator[str]:
    yield f"Content hash of the exported checkpoint: `{model.content}`"
    for name in ("parent", "partition"):
        if content := getattr(model.facts, name):
            yield f"Content hash of the {name}: `{_code(content)}`"


def _bullets(lines: Iterator[str] | Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _code(value: Any) -> str:
    """Text inside backquotes."""
    return plain(str(value)).replace("`", "'")
