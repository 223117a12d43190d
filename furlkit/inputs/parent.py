"""Comparison of an upload with the parent, the global model at the start of a round.

The parent decides about round, run, network and tensors. Each upload is compared with the
parent and not with most uploads: strangers must not outvote the clients.
"""

from collections.abc import Iterable
from pathlib import Path

from furlkit.errors import InputError
from furlkit.files.clients import ClientId
from furlkit.files.container.header import short
from furlkit.files.container.layout import Entry
from furlkit.inputs.uploads import TRAIN_AGAIN, OpenedUpload, Sent
from furlkit.weights import is_batchnorm_statistic, online_name, part_of

# Maximum size of a client's additional tensors, relative to the model.
MOST_NEW = 4
Entries = dict[str, Entry]


class EarlierUpload(InputError):
    """An upload of an earlier round, which is normal in an inbox."""

    def __init__(self, message: str, round_: int, client: ClientId | None):
        super().__init__(message)
        self.round, self.client = round_, client


def check_round(upload: OpenedUpload, parent: Sent) -> None:
    """Check by header that an upload is of the round after this global model."""
    now, found = parent.facts.round + 1, upload.facts.round
    if found == now:
        return
    text = (
        f"{upload.path}: is of round {found}; this is round {now}, which starts from "
        f"{parent.path}"
    )
    if found is not None and found < now:
        raise EarlierUpload(text, found, getattr(upload.facts, "client", None))
    raise InputError(text)


def check_parent(upload: OpenedUpload, parent: Sent, partial: bool) -> None:
    """Check by header that an upload was trained from this global model.

    A `partial` upload has some layers only (aggregate --complete).
    """
    if upload.facts.run != parent.facts.run:
        raise InputError(
            f"{upload.path}: is of {_words_for_run(upload)}, {parent.path} is of "
            f"{_words_for_run(parent)}; leave the upload out"
        )
    model = upload.opened.header.kind == "checkpoint"
    # Rows of embed do not record the parent.
    unknown = () if model else (None,)
    if upload.facts.parent not in (*unknown, parent.content):
        raise InputError(
            f"{upload.path}: was trained from another model than {parent.path}; "
            f"{TRAIN_AGAIN}"
        )
    if model:
        _check_net(upload, parent)
        check_tensors(upload.path, upload.opened.entries, parent, partial)


def _words_for_run(file: OpenedUpload) -> str:
    return "no run" if file.facts.run is None else f"run {file.facts.run}"


def _check_net(upload: OpenedUpload, parent: Sent) -> None:
    for fact in ("architecture", "mean", "std", "reading"):
        ours, theirs = getattr(upload.facts, fact), getattr(parent.facts, fact)
        if ours != theirs:
            raise InputError(
                f"{upload.path}: {fact} is {short(ours)}, {parent.path} has "
                f"{short(theirs)}; {TRAIN_AGAIN}"
            )


def check_tensors(
    path: Path, entries: Iterable[Entry], parent: Sent, partial: bool
) -> None:
    """Check the tensors of every part that the parent has; other parts have a limit.

    A whole part may be absent (local-train --send) or new: the model of round 0 has no
    target network. The target network has the tensors of the online network.
    """
    parts, new = _by_part(parent.opened.entries), 0
    for part, ours in _by_part(entries).items():
        if part not in parts:
            part = online_name(part)
            ours = {online_name(name): entry for name, entry in ours.items()}
        if part in parts:
            _check_part(path, ours, parent.path, parts[part])
            if not partial:
                _check_all(path, ours, parent.path, parts[part])
        else:
            new += sum(entry.size for entry in ours.values())
    if new > MOST_NEW * parent.opened.size:
        raise InputError(
            f"{path}: has {new:,} bytes of tensors that {parent.path} lacks, "
            f"expected at most {MOST_NEW} times the model's size; {TRAIN_AGAIN}"
        )


def _by_part(entries: Iterable[Entry]) -> dict[str, Entries]:
    parts: dict[str, Entries] = {}
    for entry in entries:
        parts.setdefault(part_of(entry.name), {})[entry.name] = entry
    return parts


def _check_part(path: Path, ours: Entries, parent: Path, theirs: Entries) -> None:
    """Check names, shapes and types of a part's tensors."""
    for name, entry in ours.items():
        other = theirs.get(name)
        if other is None and not _is_new_statistic(entry, theirs):
            raise InputError(
                f"{path}: has {entry.name}, which {parent} lacks; {TRAIN_AGAIN}"
            )
        if other and (entry.shape, entry.dtype) != (other.shape, other.dtype):
            raise InputError(
                f"{path}: {entry.name} is {entry.dtype} {entry.shape}, {parent} has "
                f"{other.dtype} {other.shape}; was it trained with another --stem or "
                "--width?"
            )


def _check_all(path: Path, ours: Entries, parent: Path, theirs: Entries) -> None:
    """Check that a part has every tensor."""
    missing = theirs.keys() - ours.keys()
    # --keep-norms: BatchNorm layers stay at the client; control variates have no
    # statistics.
    if missing not in (
        set(),
        _norms(theirs),
        set(filter(is_batchnorm_statistic, theirs)),
    ):
        raise InputError(
            f"{path}: lacks {min(missing)}, which {parent} has; {TRAIN_AGAIN}, or give "
            "--complete for uploads of some layers"
        )


def _is_new_statistic(entry: Entry, theirs: Entries) -> bool:
    """Return whether a global model of --bn keep lacks this statistic of a layer."""
    weight = theirs.get(online_name(_layer(entry.name)) + ".weight")
    without = not any(map(is_batchnorm_statistic, theirs))
    fits = weight is not None and entry.shape in ((), weight.shape)
    return without and fits and is_batchnorm_statistic(entry.name)


def _norms(entries: Entries) -> set[str]:
    """Names of the tensors of BatchNorm layers."""
    layers = {_layer(name) for name in entries if is_batchnorm_statistic(name)}
    return {name for name in entries if _layer(name) in layers}


def _layer(name: str) -> str:
    return name.rpartition(".")[0]
