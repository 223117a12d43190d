"""What a furlkit file is, in one sentence made of its header."""

from collections.abc import Sequence
from typing import Any, TypeGuard

from furlkit.files.container.header import Header
from furlkit.files.container.layout import Entry
from furlkit.reports.text import count, plain, word

Facts = dict[str, Any]
LARGEST = 1e12


def sentence(header: Header, entries: Sequence[Entry]) -> str:
    """Say what the file is for somebody who has never seen one."""
    shapes = {entry.name: entry.shape for entry in entries}
    facts = header.facts
    if header.kind == "checkpoint":
        if header.stage == "distill":
            public = count(facts.get("examples"))
            return f"{model_words(facts)}, distilled on {public} public images"
        return model_words(facts, len(header.inputs))
    if header.kind == "partition":
        return _partition_words(facts, shapes)
    if header.kind == "dataset":
        return _dataset_words(facts, shapes)
    if header.kind == "features":
        return _features_words(facts, shapes.get("rows", ()))
    if header.kind == "similarity":
        return _similarity_words(header, shapes)
    if header.kind == "ensemble":
        return _ensemble_words(facts)
    if header.kind == "targets":
        return _targets_words(facts, shapes)
    if header.kind == "private":
        return _private_words(facts)
    if header.kind == "encoder":
        return _encoder_words(facts)
    return _progress_words(header)


def model_words(facts: Facts, parents: int = 0) -> str:
    """Which model a checkpoint holds; `parents` is how many files it was made of."""
    round_ = count(facts.get("round"))
    examples = facts.get("examples")
    if facts.get("role") == "client":
        words = f"the model of client {count(facts.get('client'))} after round {round_}"
        words += f", trained on {count(examples)} images" if examples else ""
    elif facts.get("role") == "align":
        words = "the alignment model"
        words += f", trained on {count(examples)} public images" if examples else ""
    elif facts.get("round") == 0:
        words = "the global model that everyone starts from (round 0)"
    else:
        words = f"the {word(facts.get('role'))} model after round {round_}"
        if examples and parents:
            made_of = "client" if parents == 1 else "clients"
            words += f", made of {parents:,} {made_of} with {count(examples)} images"
    # Format version 1 says left_out where version 2 has statistics.
    if facts.get("left_out") or facts.get("statistics") is False:
        words += ", without BatchNorm statistics"
    return words


def score_words(metrics: Facts) -> str:
    """What an evaluation measured, and of which model."""
    scored = metrics.get("checkpoint")
    facts = scored.get("facts") if isinstance(scored, dict) else None
    model = model_words(facts) if isinstance(facts, dict) else "an unknown model"
    accuracy = metrics.get("accuracy")
    protocol = word(metrics.get("protocol"))
    if protocol == "ledger":
        return _ledger_words(metrics.get("total"))
    if _is_number(accuracy):
        return f"{protocol} accuracy {100 * accuracy:.2f} % of {model}"
    compared = metrics.get("models")
    if isinstance(compared, list) and len(compared) > 1:
        model = f"{len(compared):,} models"
        if metrics.get("round") is not None:
            model += f" of round {count(metrics['round'])}"
    return _comparison_words(metrics, model) or f"{protocol} evaluation of {model}"


def _ledger_words(total: Any) -> str:
    """How much went both ways, as far as a ledger says so."""
    known = total if isinstance(total, dict) else {}
    ways = [known.get(way) for way in ("sent", "received")]
    sent, received = (
        count(way.get("bytes")) if isinstance(way, dict) else "unknown" for way in ways
    )
    return (
        f"{sent} bytes that {count(known.get('clients'))} clients sent and {received} "
        f"that they received, in {count(known.get('rounds'))} rounds"
    )


def _comparison_words(metrics: Facts, models: str) -> str:
    """What angles or drift found, or nothing where its numbers are missing."""
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
    told = [f"{name} {v:.4g}" for name, v in known.items() if _is_number(v)]
    return f"{', '.join(told)} of {models}" if told else ""


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number that can be told; JSON has some no float can hold."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) < LARGEST


def _partition_words(facts: Facts, shapes: dict[str, tuple[int, ...]]) -> str:
    dataset = facts.get("dataset")
    total = dataset.get("examples") if isinstance(dataset, dict) else None
    dealt = count(_length(shapes.get("indices", ())))
    return (
        f"{dealt} of {count(total)} images dealt to {count(facts.get('clients'))} "
        f"clients (scheme {word(facts.get('scheme'))}), "
        f"{count(_length(shapes.get('public', ())))} public"
    )


def _dataset_words(facts: Facts, shapes: dict[str, tuple[int, ...]]) -> str:
    shape = shapes.get("images", ())
    words = f"packed images of shape {shape}"
    if len(shape) == 4:
        channels = "channel" if shape[3] == 1 else "channels"
        words = (
            f"{shape[0]:,} packed images of {shape[1]} x {shape[2]} pixels, "
            f"{shape[3]} {channels}"
        )
    labels, domains = "no labels", "no domains"
    if "labels" in shapes:
        labels = _names(facts.get("class_names"), "class", "classes")
    if "domains" in shapes:
        domains = _names(facts.get("domain_names"), "domain", "domains")
    return f"{words}; {labels}; {domains}"


def _names(names: Any, one: str, many: str) -> str:
    number = len(names) if isinstance(names, list) else 0
    return f"{number:,} {one if number == 1 else many}"


def _features_words(facts: Facts, shape: tuple[int, ...]) -> str:
    if isinstance(facts.get("owners"), list):
        clients = "client" if len(facts["owners"]) == 1 else "clients"
        return (
            f"a dictionary of {_by(shape)} values, rows of {len(facts['owners']):,} "
            f"{clients} after round {count(facts.get('round'))}"
        )
    return f"{_by(shape)} values, {_origin(facts)}"


def _similarity_words(header: Header, shapes: dict[str, tuple[int, ...]]) -> str:
    shape = shapes.get("matrix", ())
    which = "every image with every other"
    if "columns" in shapes and len(shape) == 2:
        top = header.options.get("top")
        share = f" ({top:g} %)" if _is_number(top) else ""
        which = f"every image with the {shape[1]:,}{share} most like it"
    return f"{_by(shape)} values, {which}, {_origin(header.facts)}"


def _origin(facts: Facts) -> str:
    part = word(facts.get("part"))
    whose = f"client {part}'s" if part.isdecimal() else f"the {part}"
    words = f"{word(facts.get('layer'))} of {whose} part"
    if facts.get("client") is not None:
        words += f", by the model of client {count(facts['client'])}"
    if facts.get("round") is not None:
        words += f" after round {count(facts['round'])}"
    return words


def _ensemble_words(facts: Facts) -> str:
    clients = facts.get("clients")
    number = len(clients) if isinstance(clients, list) else 0
    models = (
        "model of 1 client finds"
        if number == 1
        else f"models of {number:,} clients find"
    )
    return (
        f"what the {models} alike among "
        f"{count(facts.get('examples'))} images after round {count(facts.get('round'))}, "
        f"as {word(facts.get('form'))}"
    )


def _targets_words(facts: Facts, shapes: dict[str, tuple[int, ...]]) -> str:
    return (
        f"what the alignment model makes of {count(facts.get('examples'))} public "
        f"images: h {_by(shapes.get('h', ()))}, z {_by(shapes.get('z', ()))} values"
    )


def _private_words(facts: Facts) -> str:
    return (
        f"what client {count(facts.get('client'))} keeps after round "
        f"{count(facts.get('round'))}: {word(facts.get('holds'))}; "
        "it must not leave the client"
    )


def _encoder_words(facts: Facts) -> str:
    return (
        f"the bare encoder {word(facts.get('architecture'))} after round "
        f"{count(facts.get('round'))}, h has {count(facts.get('num_features'))} numbers; "
        "config.json beside it says how to load it"
    )


def _progress_words(header: Header) -> str:
    return (
        f"an unfinished {plain(header.stage)}, {count(header.facts.get('step'))} steps "
        "done; the same command carries on from here"
    )


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{length:,}" for length in shape) or "no"


def _length(shape: tuple[int, ...]) -> int:
    return shape[0] if shape else 0
