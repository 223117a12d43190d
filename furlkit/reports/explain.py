"""Description of a furlkit file, in one sentence made from the header."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from furlkit.catalogue import AUDITS, SHARE_ROWS
from furlkit.files.container.header import Header
from furlkit.files.container.layout import Entry
from furlkit.files.kinds import kind_of
from furlkit.files.partition import Partition
from furlkit.files.private import MEMORY
from furlkit.reports.audits import describe_audit
from furlkit.reports.metrics import domains_text, facts_of, is_number, spread_of
from furlkit.reports.text import count, counted, lookup, plain, shorten, word
from furlkit.weights import is_batchnorm_statistic, parts_of

Facts = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]
# What distill did to a model, by its teacher; other teachers distil.
TAUGHT = {"self": "labelled by itself on", "labels": "taught by the labels of"}
# Model that computed h, if not the content model: FedStyle.
MODELS = {"stylised": "personal model", "style": "style model"}
NEGATIVES = ("local", "fused", "remote")
LARGEST = 1e12  # Of larger numbers the digits would fill the line.


def sentence(header: Header, entries: Sequence[Entry]) -> str:
    """Say what the file is, for somebody who has never seen one."""
    facts, kind = header.facts, kind_of(header.kind)
    shapes = {entry.name: entry.shape for entry in entries}
    words = _words({}) | {"stage": plain(header.stage), "holds": _held(shapes)}
    words |= {k: " x ".join(map(count, s)) or "one" for k, s in shapes.items()}
    words |= _words(facts)
    words |= {
        "model": _checkpoint(header),
        "total": count(lookup(facts, "dataset.examples")),
        "origin": _origin(facts),
        "others": _others(header, shapes),
        "made": "".join(f"; {SHARE_ROWS[way]}" for way in _ways(facts)),
    }
    for name in ("clients", "owners"):
        if isinstance(facts.get(name), list):
            words[name] = counted(facts[name], "client")
    if kind.name == "dataset":
        words |= _dataset(facts, shapes)
    joined = kind.joined if isinstance(facts.get("owners"), list) else ""
    return (joined or kind.sentence).format_map(words)


def _words(facts: Facts) -> dict[str, str]:
    """Words of a sentence; facts missing in the header are "none"."""
    return defaultdict(lambda: "none", {k: count(v) for k, v in facts.items()})


def _checkpoint(header: Header) -> str:
    if header.stage == "distill":
        teacher = header.options.get("teacher")
        how, public = TAUGHT.get(str(teacher), "distilled on"), "public images"
        if header.facts.get("role") != "client":
            public = f"{count(header.facts.get('examples'))} {public}"
            return f"{describe_model(header.facts)}, {how} {public}"
        return f"{describe_model(header.facts)}, then {how} {public}"
    # Inputs may also contain a partition and the parent.
    clients = sum(str(role).startswith("client ") for role in header.inputs)
    return describe_model(header.facts, clients)


def describe_model(facts: Facts, uploads: int = 0) -> str:
    """Describe the model of a checkpoint; `uploads`: number of averaged clients."""
    examples = facts.get("examples")
    if facts.get("role") == "client":
        text = "the model of client {client} after round {round}"
        text += ", trained on {examples} images" if examples else ""
    elif facts.get("role") == "align":
        text = "the alignment model"
        text += ", trained on {examples} public images" if examples else ""
    elif facts.get("round") == 0:
        text = "the initial global model (round 0)"
    else:
        text = "the {role} model after round {round}"
        if examples and uploads:
            clients = counted(uploads, "client")
            text += f", averaged from {clients} with {{examples}} images"
    # Format version 1 has left_out instead of statistics.
    if facts.get("left_out") or facts.get("statistics") is False:
        text += ", without BatchNorm statistics"
    losses = facts.get("cluster_losses")
    if isinstance(losses, list) and len(losses) > 1:
        text += f"; of {len(losses):,} cluster heads, {{cluster_head}} has the "
        text += "lowest loss"
    heads, parts = lookup(facts, "architecture.heads"), facts.get("parts")
    if isinstance(heads, dict) and isinstance(parts, list):
        text += "" if heads.keys() <= set(map(str, parts)) else "; only its {parts}"
    return text.format_map(_words(facts))


def describe_metrics(metrics: Facts) -> str:
    """Describe the measure and the model of an evaluation."""
    facts, protocol = facts_of(metrics), word(metrics.get("protocol"))
    if protocol in WITHOUT_MODEL:
        return WITHOUT_MODEL[protocol](metrics)
    model = describe_model(facts) if facts else "an unknown model"
    if metrics.get("untrained") is True:
        model = f"an untrained {word(lookup(facts, 'architecture.encoder'))}"
    scored = metrics.get("clients")
    if protocol == "personal" and isinstance(scored, list):
        model = f"{counted(scored, 'client')}, with personal models, from {model}"
    accuracy = metrics.get("accuracy")
    if is_number(accuracy, LARGEST):
        spread = spread_of(metrics)
        shown = f"{100 * accuracy:.2f} %{spread and f' ({spread})'}"
        each = domains_text(metrics)
        return f"{protocol} accuracy {shown} of {model}{each and f'; {each}'}"
    compared = metrics.get("models")
    if isinstance(compared, list) and len(compared) > 1:
        model = f"{len(compared):,} models"
        if metrics.get("round") is not None:
            model += f" of round {count(metrics['round'])}"
    return _comparison(metrics, model) or f"{protocol} evaluation of {model}"


def _negatives(metrics: Facts) -> str:
    """Share of false negatives of each kind, if the file contains them."""
    known = {name: lookup(metrics, f"measured.{name}") for name in NEGATIVES}
    shown = [f"{v:.4g} {name}" for name, v in known.items() if is_number(v, LARGEST)]
    clients = count(metrics.get("clients"))
    return f"false-negative ratios of {clients} clients: {', '.join(shown) or 'none'}"


def _neighbours(metrics: Facts) -> str:
    """Share of neighbours with the image's class, if the file contains the share."""
    share, images = metrics.get("own_class"), count(metrics.get("images"))
    shown = f"{share:.1%}" if is_number(share, 1) else "an unknown share"
    return f"{shown} of the neighbours of {images} images have the image's class"


def _uploads(metrics: Facts) -> str:
    """Clients with conspicuous uploads, if a report of aggregate names them."""
    odd, clients = metrics.get("stands_out"), metrics.get("clients")
    names = ", ".join(map(count, odd)) if isinstance(odd, list) else ""
    said = f"standing out: {names}" if names else "none stands out"
    of = f"{counted(clients, 'upload')} of round {count(metrics.get('round'))}"
    return f"a report on {of}, {said}"


def _ledger(metrics: Facts) -> str:
    """Bytes in both directions, if a ledger contains them."""
    names = ("sent.bytes", "clients", "received.bytes", "rounds")
    known = (lookup(metrics, f"total.{name}") for name in names)
    sent, clients, received, rounds = map(count, known)
    return (
        f"{sent} bytes sent and {received} received by {clients} clients, "
        f"in {rounds} rounds"
    )


# Protocols of metrics about no single model.
WITHOUT_MODEL: dict[str, Callable[[Facts], str]] = {
    **dict.fromkeys(AUDITS, describe_audit),
    "ledger": _ledger,
    "negatives": _negatives,
    "neighbours": _neighbours,
    "uploads": _uploads,
}


def _comparison(metrics: Facts, models: str) -> str:
    """Result of angles or drift; empty if numbers are missing."""
    box = lookup(metrics, "angles.quartiles")
    if metrics.get("protocol") == "angles" and isinstance(box, list) and len(box) == 3:
        shown = [f"{q:.1f}" if is_number(q, LARGEST) else word(q) for q in box]
        low, median, high = shown
        return (
            f"a median angle of {median} degrees (quartiles {low} to {high}) between "
            f"{models}"
        )
    if metrics.get("protocol") != "drift":
        return ""
    names = {"alignment": "alignment", "uniformity": "uniformity",
             "effective_rank": "effective rank", "mean_cka": "CKA"}  # fmt: skip
    known = {name: metrics.get(key) for key, name in names.items()}
    shown = [f"{name} {v:.4g}" for name, v in known.items() if is_number(v, LARGEST)]
    return f"{', '.join(shown)} of {models}" if shown else ""


def class_names(partition: Partition) -> list[str]:
    """Names of the classes in the histogram, or their numbers."""
    names, classes = partition.facts.class_names, partition.histogram.shape[1]
    fit = isinstance(names, list) and len(names) == classes
    return [plain(str(name)) for name in (names if fit else range(classes))]


def domains_of(partition: Partition) -> list[str | None]:
    """Name of each client's domain, or None."""
    return [partition.domain_of(client) for client in range(partition.facts.clients)]


def client_names(partition: Partition) -> list[str]:
    """Clients' numbers, with the domain if there is one: "7 svhn"."""
    return [
        str(client) if domain is None else f"{client} {shorten(plain(domain), 16)}"
        for client, domain in enumerate(domains_of(partition))
    ]


def _dataset(facts: Facts, shapes: Shapes) -> dict[str, str]:
    shape = shapes.get("images", ())
    text = f"packed images of shape {shape}"
    if len(shape) == 4:
        n, height, width, channels = shape
        text = f"{n:,} packed images of {height} x {width} pixels, "
        text += counted(channels, "channel")
    labels, domains = "no labels", "no domains"
    if "labels" in shapes:
        labels = counted(facts.get("class_names"), "class", "classes")
    if "domains" in shapes:
        domains = counted(facts.get("domain_names"), "domain")
    return {"images": text, "labels": labels, "domains": domains}


def _others(header: Header, shapes: Shapes) -> str:
    """Images compared with each image of a similarity."""
    shape = shapes.get("matrix", ())
    if "columns" not in shapes or len(shape) != 2:
        return "every other"
    top = header.options.get("top")
    share = f" ({top:g} %)" if is_number(top, LARGEST) else ""
    return f"the {shape[1]:,}{share} most similar ones"


def _origin(facts: Facts) -> str:
    part = word(facts.get("part"))
    named = part.isdecimal() or part == facts.get("client")
    whose = f"client {part}'s" if named else f"the {part}"
    text = f"{word(facts.get('layer'))} of {whose} part"
    if facts.get("client") is not None:
        model = MODELS.get(str(facts.get("personal")), "model")
        text += f", by the {model} of client {count(facts['client'])}"
    if facts.get("round") is not None:
        text += f" after round {count(facts['round'])}"
    return text


def _ways(facts: Facts) -> list[str]:
    """Methods that made the shared rows, if SHARED describes them."""
    named = str(facts.get("share_rows")).split(", ")
    return [way for way, text in SHARE_ROWS.items() if text and way in named]


def _held(names: Iterable[str]) -> str:
    """Parts and memory of a private file's tensors."""
    memory = {n.split(".")[1].replace("_", " ") for n in names if n.startswith(MEMORY)}
    model = [name for name in names if not name.startswith(MEMORY)]
    whole = parts_of(name for name in model if not is_batchnorm_statistic(name))
    rest = sorted({*parts_of(model)} - {*whole})
    held = {"": whole, "BatchNorm statistics of ": rest, "memory of ": sorted(memory)}
    texts = [f"{what}{word(of)}" for what, of in held.items() if of]
    return "; ".join(texts) or "nothing"
