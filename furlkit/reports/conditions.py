"""Conditions of scores: only scores with equal conditions are compared.

The conditions of a score are the protocol, the options of the evaluation, and the images
used to train and test a classifier. Models and their training may differ.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.data.sets.fingerprint import same_dataset
from furlkit.errors import InputError
from furlkit.files.container.header import Header, canonical, short
from furlkit.files.container.read import Container
from furlkit.reports.text import lookup

# Options that are not conditions: the machine, the number of probes or repeats (compare
# shows the number), and the untrained reference.
FREE = ("device", "threads", "isa", "probes", "repeats", "surest", "random-init")
DATA = {"train": "data", "test": "test-data", "images": "data"}
MOST_NAMED = 6


class Measured(NamedTuple):
    """Label and file of a score, and conditions with the names of --allow-different."""

    label: str
    path: Path
    protocol: str
    options: dict[str, Any] | None
    data: dict[str, dict[str, Any]]

    def value(self, name: str) -> Any:
        """Value of an option, or the fingerprint of images."""
        known = {**(self.options or {}), **self.data, "protocol": self.protocol}
        return known.get(name)


def measured(
    label: str, path: Path, protocol: str, metrics: dict[str, Any]
) -> Measured:
    """Conditions of a metrics file; options are None if the file has no options."""
    options, data = metrics.get("options"), metrics.get("data")
    if isinstance(options, dict):
        options = {k: v for k, v in options.items() if not _is_free(k)}
    known = data if isinstance(data, dict) else {}
    images = {
        name: known[key]
        for key, name in DATA.items()
        if isinstance(known.get(key), dict) and type(known[key].get("examples")) is int
    }
    own = options if isinstance(options, dict) else None
    return Measured(label, path, protocol, own, images)


def _is_free(name: str) -> bool:
    # The package of an encoder belongs to the model; images have a fingerprint.
    return name in FREE or name.startswith("plugin ")


def check_alike(scores: Sequence[Measured], allowed: Collection[str]) -> None:
    """Refuse scores with different conditions, except the `allowed` names.

    `allowed` holds comma-separated names. An option may differ if the labels are its
    values, such as 20 and 100 for 20 and 100 epochs.
    """
    free = {name.strip("- ") for text in allowed for name in text.split(",")}
    for one in scores[1:]:
        first = scores[0]
        names = [n for n in _differences(first, one) if n not in free]
        names = [n for n in names if not _is_label(n, scores)]
        if not names:
            continue
        more = names[1:MOST_NAMED]
        others = f", and other {', '.join(more)}" if more else ""
        raise InputError(
            f"{one.path}: was measured with {_shown(names[0], one)}, {first.path} with "
            f"{_shown(names[0], first)}{others}; evaluate both alike, or name the "
            f"exceptions: --allow-different {','.join(names)}"
        )


def _differences(first: Measured, other: Measured) -> list[str]:
    """Conditions in which two scores differ; ignores options of other protocols."""
    found = []
    if first.protocol != other.protocol:
        found.append("protocol")
    elif first.options is not None and other.options is not None:
        for name in sorted(first.options.keys() | other.options.keys()):
            ours, theirs = first.options.get(name), other.options.get(name)
            if canonical(ours) != canonical(theirs):
                found.append(name)
    for name in sorted(first.data.keys() & other.data.keys()):
        if same_dataset(first.data[name], other.data[name]):
            found.append(name)
    return found


def _is_label(name: str, scores: Sequence[Measured]) -> bool:
    return all(_names(score.label, score.value(name)) for score in scores)


def _names(label: str, value: Any) -> bool:
    """Return True if a label is the value of an option: 20, 1e-3 or gradient."""
    if type(value) not in (int, float):
        return label == str(value)
    with suppress(ValueError):
        return float(label) == value
    return False


def _shown(name: str, score: Measured) -> str:
    """Condition and value, for people."""
    value = score.value(name)
    if name == "protocol":
        return f"the protocol {value}"
    if name in score.data:
        hashes = (value.get(key) for key in ("images", "labels", "files"))
        known = next((text for text in hashes if isinstance(text, str)), "unknown")
        return f"{name} of {value['examples']:,} images ({known:.12})"
    return f"no --{name}" if value is None else f"--{name} {short(value)}"


def stale_files(
    files: Iterable[tuple[Path, dict[str, Any]]],
    headers: Mapping[Path, Iterable[Header]] | None = None,
) -> list[Path]:
    """Scores of models that were replaced: the folder has another model in their place.

    The other model has equal stage, role, round and client. `headers`: the headers in
    each folder, if a caller has read them.
    """
    models: dict[Path, dict[str, Header]] = {}
    found = []
    for path, metrics in files:
        content = lookup(metrics, "checkpoint.content")
        if not isinstance(content, str):
            continue
        folder = path.parent
        if folder not in models:
            read = _headers(folder) if headers is None else headers.get(folder, ())
            models[folder] = {h.content: h for h in read if h.kind == "checkpoint"}
        if content in models[folder]:
            continue
        known = lookup(metrics, "checkpoint.facts")
        place = _place(lookup(metrics, "checkpoint.stage"), known)
        present = models[folder].values()
        if any(_place(header.stage, header.facts) == place for header in present):
            found.append(path)
    return found


def _headers(folder: Path) -> Iterable[Header]:
    for path in sorted(folder.glob("*.safetensors")):
        try:
            yield Container(path).header
        except InputError:
            continue


def _place(stage: Any, facts: Any) -> tuple:
    known = facts if isinstance(facts, dict) else {}
    place = (known.get(name) for name in ("role", "round", "client"))
    return (stage, *map(canonical, place))
