"""What a furlkit file is, in one sentence made from its header."""

from collections.abc import Sequence
from typing import Any, TypeGuard

from furlkit.files.container.header import Header
from furlkit.files.container.layout import Entry
from furlkit.files.partition import Partition
from furlkit.files.private import MEMORY
from furlkit.reports.text import count, plain, word
from furlkit.weights import is_batchnorm_statistic, parts_of

Facts = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]
LARGEST = 1e12


def sentence(header: Header, entries: Sequence[Entry]) -> str:
    """Say what the file is, for somebody who has never seen one."""
    describe = {
        "checkpoint": _checkpoint,
        "partition": _partition,
        "dataset": _dataset,
        "features": _features,
        "similarity": _similarity,
        "ensemble": _ensemble,
        "targets": _targets,
        "private": _private,
        "encoder": _encoder,
    }.get(header.kind, _progress)
    return describe(header, {entry.name: entry.shape for entry in entries})


def _checkpoint(header: Header, shapes: Shapes) -> str:
    if header.stage == "distill":
        public = count(header.facts.get("examples"))
        return f"{describe_model(header.facts)}, distilled on {public} public images"
    return describe_model(header.facts, len(header.inputs))


def describe_model(facts: Facts, parents: int = 0) -> str:
    """Which model a checkpoint holds; `parents` is the number of files it came from."""
    round_ = count(facts.get("round"))
    examples = facts.get("examples")
    if facts.get("role") == "client":
        text = f"the model of client {count(facts.get('client'))} after round {round_}"
        text += f", trained on {count(examples)} images" if examples else ""
    elif facts.get("role") == "align":
        text = "the alignment model"
        text += f", trained on {count(examples)} public images" if examples else ""
    elif facts.get("round") == 0:
        text = "the global model that everyone starts from (round 0)"
    else:
        text = f"the {word(facts.get('role'))} model after round {round_}"
        if examples and parents:
            clients = _number(parents, "client", "clients")
            text += f", made of {clients} with {count(examples)} images"
    # Format version 1 says left_out where version 2 has statistics.
    if facts.get("left_out") or facts.get("statistics") is False:
        text += ", without BatchNorm statistics"
    parts = facts.get("parts")
    return f"{text}; of its parts only {word(parts)}" if parts else text


def describe_metrics(metrics: Facts) -> str:
    """What an evaluation measured, and on which model."""
    scored = metrics.get("checkpoint")
    facts = scored.get("facts") if isinstance(scored, dict) else None
    model = describe_model(facts) if isinstance(facts, dict) else "an unknown model"
    accuracy = metrics.get("accuracy")
    protocol = word(metrics.get("protocol"))
    if protocol == "ledger":
        return _ledger(metrics.get("total"))
    if _is_number(accuracy):
        return f"{protocol} accuracy {100 * accuracy:.2f} % of {model}"
    compared = metrics.get("models")
    if isinstance(compared, list) and len(compared) > 1:
        model = f"{len(compared):,} models"
        if metrics.get("round") is not None:
            model += f" of round {count(metrics['round'])}"
    return _comparison(metrics, model) or f"{protocol} evaluation of {model}"


def _ledger(total: Any) -> str:
    """How many bytes went in each direction, as far as a ledger says so."""
    known = total if isinstance(total, dict) else {}
    ways = [known.get(way) for way in ("sent", "received")]
    sent, received = (
        count(way.get("bytes")) if isinstance(way, dict) else "unknown" for way in ways
    )
    return (
        f"{sent} bytes that {count(known.get('clients'))} clients sent and {received} "
        f"that they received, in {count(known.get('rounds'))} rounds"
    )


def _comparison(metrics: Facts, models: str) -> str:
    """The result of angles or drift; empty where its numbers are missing."""
    summary = metrics.get("angles")
    box = summary.get("quartiles") if isinstance(summary, dict) else None
    if metrics.get("protocol") == "angles" and isinstance(box, list) and len(box) == 3:
        low, median, high = (f"{q:.1f}" if _is_number(q) else word(q) for q in box)
        return (
            f"a median angle of {median} degrees (quartiles {low} to {high}) between "
            f"{models}"
        )
    if metrics.get("protocol") != "drift":
        return ""
    names = {"alignment": "alignment", "uniformity": "uniformity",
             "effective_rank": "effective rank", "mean_cka": "CKA"}  # fmt: skip
    known = {name: metrics.get(key) for key, name in names.items()}
    shown = [f"{name} {v:.4g}" for name, v in known.items() if _is_number(v)]
    return f"{', '.join(shown)} of {models}" if shown else ""


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number to print; JSON has some that no float can hold."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) < LARGEST


def _partition(header: Header, shapes: Shapes) -> str:
    facts = header.facts
    dataset = facts.get("dataset")
    total = dataset.get("examples") if isinstance(dataset, dict) else None
    images, public = (sum(shapes.get(name, ())[:1]) for name in ("indices", "public"))
    return (
        f"{count(images)} of {count(total)} images assigned to "
        f"{count(facts.get('clients'))} clients (scheme {word(facts.get('scheme'))}), "
        f"{count(public)} public"
    )


def class_names(partition: Partition) -> list[str]:
    """The names of the classes that its histogram counts, or their numbers."""
    names, classes = partition.facts.class_names, partition.histogram.shape[1]
    fit = isinstance(names, list) and len(names) == classes
    return [plain(str(name)) for name in (names if fit else range(classes))]


def _dataset(header: Header, shapes: Shapes) -> str:
    shape = shapes.get("images", ())
    text = f"packed images of shape {shape}"
    if len(shape) == 4:
        channels = _number(shape[3], "channel", "channels")
        text = (
            f"{shape[0]:,} packed images of {shape[1]} x {shape[2]} pixels, {channels}"
        )
    labels, domains = "no labels", "no domains"
    if "labels" in shapes:
        labels = _number(header.facts.get("class_names"), "class", "classes")
    if "domains" in shapes:
        domains = _number(header.facts.get("domain_names"), "domain", "domains")
    return f"{text}; {labels}; {domains}"


def _number(things: Any, one: str, many: str) -> str:
    """A number, or the length of a list, with its noun."""
    number = len(things) if isinstance(things, list) else things
    number = number if type(number) is int else 0
    return f"{number:,} {one if number == 1 else many}"


def _features(header: Header, shapes: Shapes) -> str:
    facts, shape = header.facts, shapes.get("rows", ())
    if isinstance(facts.get("owners"), list):
        clients = _number(facts["owners"], "client", "clients")
        after = f"after round {count(facts.get('round'))}"
        return f"a dictionary of {_by(shape)} values, rows of {clients} {after}"
    return f"{_by(shape)} values, {_origin(facts)}"


def _similarity(header: Header, shapes: Shapes) -> str:
    shape = shapes.get("matrix", ())
    which = "every image with every other"
    if "columns" in shapes and len(shape) == 2:
        top = header.options.get("top")
        share = f" ({top:g} %)" if _is_number(top) else ""
        which = f"every image with the {shape[1]:,}{share} most similar ones"
    return f"{_by(shape)} values, {which}, {_origin(header.facts)}"


def _origin(facts: Facts) -> str:
    part = word(facts.get("part"))
    whose = f"client {part}'s" if part.isdecimal() else f"the {part}"
    text = f"{word(facts.get('layer'))} of {whose} part"
    if facts.get("client") is not None:
        text += f", by the model of client {count(facts['client'])}"
    if facts.get("round") is not None:
        text += f" after round {count(facts['round'])}"
    return text


def _ensemble(header: Header, shapes: Shapes) -> str:
    facts = header.facts
    clients = _number(facts.get("clients"), "client", "clients")
    return (
        f"the averaged similarities of {count(facts.get('examples'))} images by the "
        f"models of {clients} after round {count(facts.get('round'))}, as "
        f"{word(facts.get('form'))}"
    )


def _targets(header: Header, shapes: Shapes) -> str:
    return (
        f"outputs of the alignment model for {count(header.facts.get('examples'))} public "
        f"images: h {_by(shapes.get('h', ()))}, z {_by(shapes.get('z', ()))} values"
    )


def _private(header: Header, shapes: Shapes) -> str:
    facts = header.facts
    held = word(facts["holds"]) if "holds" in facts else _held(shapes)
    return (
        f"what client {count(facts.get('client'))} keeps after round "
        f"{count(facts.get('round'))}: {held}; it must not leave the client"
    )


def _held(shapes: Shapes) -> str:
    """The parts and the memory that a private file's tensors belong to."""
    memory = [n.removeprefix(MEMORY) for n in shapes if n.startswith(MEMORY)]
    names = [name for name in shapes if not name.startswith(MEMORY)]
    whole = parts_of(name for name in names if not is_batchnorm_statistic(name))
    rest = [part for part in parts_of(names) if part not in whole]
    remembered = sorted({name.split(".")[0].replace("_", " ") for name in memory})
    said = {"": whole, "BatchNorm statistics of ": rest, "memory of ": remembered}
    return (
        "; ".join(f"{what}{word(of)}" for what, of in said.items() if of) or "nothing"
    )


def _encoder(header: Header, shapes: Shapes) -> str:
    facts = header.facts
    return (
        f"the bare encoder {word(facts.get('architecture'))} after round "
        f"{count(facts.get('round'))}, h has {count(facts.get('num_features'))} numbers; "
        "config.json beside it says how to load it"
    )


def _progress(header: Header, shapes: Shapes) -> str:
    return (
        f"an unfinished {plain(header.stage)}, {count(header.facts.get('step'))} steps "
        "done; the same command resumes it"
    )


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{length:,}" for length in shape) or "no"
