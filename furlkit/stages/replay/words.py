"""The command line that made a file, from its header and the files it was made from.

A header has the options that decide the bytes, by their flags, and the content of the
inputs by role. What it has not is where things lie: the paths are those of the files
that were found, and the images those that have the recorded fingerprint.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from furlkit.catalogue import COMMANDS, Flag, Option
from furlkit.data.sets.datasets import is_name
from furlkit.files.clients import is_client
from furlkit.reports.text import lookup
from furlkit.stages.replay.chain import Link

Find = Callable[[Any], list[str] | None]
Words = list[str]

# For each stage, the roles of its positional arguments; "*" stands for all others.
GIVEN = {
    "evaluate linear": ("model",),
    "evaluate knn": ("model",),
    "evaluate personal": ("partition", "model", "*"),
    "evaluate classifier": ("model",),
    "evaluate cluster": ("model",),
    "evaluate semi": ("model",),
    "evaluate finetune": ("model",),
    "evaluate transfer": ("model",),
    "evaluate angles": ("*",),
    "evaluate drift": ("*",),
    "evaluate neighbours": ("*",),
    "evaluate negatives": ("partition",),
    "partition": (),
    "init": (),
    "pretrain-align": ("model",),
    "pretrain-style": ("partition", "global"),
    "local-train": ("partition", "global"),
    "embed": ("model",),
    "neighbours": ("model",),
    "aggregate": ("*",),
    "distill": ("ensemble", "probabilities", "start"),
}
# The option that takes the file of a role, where that is no positional argument.
FLAGS = {
    ("evaluate semi", "partition"): "--partition",
    ("evaluate finetune", "partition"): "--partition",
    ("evaluate drift", "partition"): "--partition",
    ("init", "source"): "--from",
    ("pretrain-align", "partition"): "--partition",
    ("local-train", "private"): "--private",
    ("local-train", "neighbours"): "--neighbours-from",
    ("local-train", "dictionary"): "--dictionary",
    ("local-train", "targets"): "--align",
    ("local-train", "helper"): "--helper",
    ("aggregate", "partition"): "--partition",
    ("aggregate", "parent"): "--parent",
    ("aggregate", "state"): "--state",
    ("embed", "partition"): "--partition",
    ("embed", "private"): "--personal",
    ("neighbours", "partition"): "--partition",
    ("distill", "partition"): "--partition",
}
# Stages that draw nothing, or get everything about their images from a file.
CLIENTS = ("local-train", "pretrain-style")
WITHOUT_DATA = ("init", "aggregate", "evaluate negatives")
WITHOUT_SEED = ("embed", "neighbours", "aggregate")


def reason_against(link: Link) -> str:
    """Why nothing but a person can say how the file was made; empty if that is known."""
    header = link.header
    if header.stage not in GIVEN:
        return f"{header.stage or 'its stage'} does not record what it was given"
    if header.kind == "metrics" and not header.content:
        return "an older furlkit wrote it, without a content hash; evaluate again"
    if header.version == 1:
        return "format version 1 does not record options by their flags"
    if header.options.get("scheme") == "file":
        return "a split of one's own is not recorded"
    if header.options.get("weights") == "given":
        return "weights of one's own are not recorded, only the shares that they gave"
    if header.stage in CLIENTS and not is_client(header.facts.get("client")):
        return "it does not say which client it is of"
    if not all(map(str.isprintable, (*_options(link), *_untrained(link)))):
        return "its options are no text that furlkit writes"
    if odd := sorted(r for r in link.parents if not _is_taken(header.stage, r)):
        return f"{header.stage} takes no {', '.join(odd)}"
    if link.missing:
        lost = (f"{role} {header.inputs[role]!s:.12}" for role in link.missing)
        return f"its {', '.join(lost)} is not among the files; add --among FOLDER"
    return ""


def path_word(path: Path | str) -> str:
    """A path as a word of a command: no option, and no name of a dataset."""
    text = str(path)
    return f"./{text}" if text.startswith("-") or is_name(text) else text


def words_of(link: Link, output: Path, find: Find) -> tuple[Words, str]:
    """The command that makes a file again as `output`, and what is still open."""
    stage, header = link.header.stage, link.header
    data, lacking = _scored_data(link, find) if _is_scored(link) else _data(link, find)
    drawn = stage not in WITHOUT_SEED
    if header.kind == "metrics":
        drawn = header.seed is not None
    seed = ["--seed", str(header.seed or 0)] if drawn else []
    own = [*_clients(link), *data, *_options(link), *_untrained(link)]
    words = [*stage.split(), *_files(link), *own, *seed]
    return [*words, *_outputs(link, output)], lacking


def _clients(link: Link) -> Words:
    """--client of a stage that trains or scores single clients."""
    stage, facts = link.header.stage, link.header.facts
    if stage in CLIENTS:
        return ["--client", str(facts.get("client"))]
    scored = facts.get("clients") if stage == "evaluate personal" else None
    each = [c.get("client") for c in scored or () if isinstance(c, dict)]
    known = each and all(map(is_client, each))
    return ["--client", ",".join(map(str, each))] if known else []


def _untrained(link: Link) -> Words:
    """The network of scores of --untrained, which is in no file."""
    if link.header.facts.get("untrained") is not True:
        return []
    known = lookup(link.header.facts, "checkpoint.facts.architecture")
    names = ("encoder", "width", "stem", "image_size")
    sizes = {n: known.get(n) for n in names} if isinstance(known, dict) else {}
    given = (pair for pair in sizes.items() if isinstance(pair[1], str | int | float))
    flags = ((f"--{key.replace('_', '-')}", _text(v)) for key, v in given if v)
    return ["--untrained", *(word for flag in flags for word in flag)]


def _is_taken(stage: str, role: str) -> bool:
    given = GIVEN[stage]
    return "*" in given or role in given or (stage, _flagged(role)) in FLAGS


def _flagged(role: str) -> str:
    """The role as FLAGS has it: `helper 3` is one of several helpers."""
    return "helper" if role.startswith("helper ") else role


def _files(link: Link) -> Words:
    stage = link.header.stage
    paths = {role: path_word(p.path) for role, p in link.parents.items() if p}
    words = [paths.pop(role) for role in GIVEN[stage] if role in paths]
    flags = {role: FLAGS.get((stage, _flagged(role))) for role in paths}
    words += [path for role, path in paths.items() if flags[role] is None]
    for role, flag in flags.items():
        words += [flag, paths[role]] if flag else []
    return words


def _is_scored(link: Link) -> bool:
    data = link.header.facts.get("data")
    return link.header.kind == "metrics" and isinstance(data, dict) and "test" in data


def _scored_data(link: Link, find: Find) -> tuple[Words, str]:
    """--data and --test-data of scores; a name stands for both its splits."""
    data = link.header.facts["data"]
    train = find(data["train"]) if "train" in data else None
    test = find(data["test"])
    words = ["--data", train[0]] if train else []
    if test and test[1:] == ["test"] and (not train or train == [test[0], "train"]):
        words = ["--data", test[0]]
    elif test:
        words += ["--test-data", test[0]]
    if test and (train or "train" not in data):
        return words, ""
    lost = data["train"] if test else data["test"]
    return words, _not_found(lost)


def _not_found(fingerprint: Any) -> str:
    images = fingerprint.get("examples") if isinstance(fingerprint, dict) else None
    return (
        f"its images are not found: {images or 'unknown'} of them; name them by --data"
    )


def _data(link: Link, find: Find) -> tuple[Words, str]:
    """--data and --split of the images, or what they must be."""
    words: Words = []
    lacking = ""
    wanted = {} if link.header.stage in WITHOUT_DATA else {"": link.dataset}
    if targets := link.parents.get("targets"):
        wanted["align-"] = targets.dataset
    options = {o.name for o in COMMANDS[link.header.stage].options.values()}
    for prefix, fingerprint in wanted.items():
        name, *split = find(fingerprint) or ["DATASET"]
        words += [f"--{prefix}data", name]
        words += (
            [f"--{prefix}split", *split]
            if f"{prefix}split" in options and split
            else []
        )
        if name == "DATASET":
            lacking = _not_found(fingerprint)
    return words, lacking


def _options(link: Link) -> Words:
    """The recorded options that are flags; the others are what inputs decided."""
    options = COMMANDS[link.header.stage].options.values()
    # No other is recorded, and a forged header must not say where anything is written.
    known = {o.name: o for o in options if o.recorded or o.name in ("device", "isa")}
    words: Words = []
    for name, value in sorted(_given(link).items()):
        if name in known and value is not None and not isinstance(value, dict):
            words += _flag(known[name], value)
    return words


def _given(link: Link) -> dict[str, Any]:
    """The options; the classes of a new model are recorded with its architecture."""
    header, options = link.header, dict(link.header.options)
    architecture = header.facts.get("architecture")
    if header.stage == "init" and isinstance(architecture, dict):
        heads = architecture.get("heads")
        width = heads.get("classifier") if isinstance(heads, dict) else None
        if isinstance(width, list) and width:
            options.setdefault("classes", width[-1])
    return options


def _flag(option: Option, value: Any) -> Words:
    flag = f"--{option.name}"
    if isinstance(option.kind, Flag):
        if value:
            return [flag]
        return [f"--no-{option.name}"] if option.kind.negative else []
    values = value if isinstance(value, list) else [value]
    if option.multiple:
        return [word for one in values for word in (flag, _text(one))]
    return [flag, ",".join(map(_text, values))] if values else []


def _text(value: Any) -> str:
    """A value that is read back as the same one."""
    return repr(value) if isinstance(value, float) else str(value)


def _outputs(link: Link, output: Path) -> Words:
    """-o and the other files that the same command writes, each beside it."""
    header, name = link.header, path_word(output)
    beside = {"-o": f"{name}.model"}
    own = "-o"
    if header.stage == "local-train":
        beside["--private-out"] = f"{name}.private"
        if "rows" in header.options:
            beside["--features-out"] = f"{name}.features"
        own = {"private": "--private-out", "features": "--features-out"}.get(
            header.kind, "-o"
        )
    if header.stage == "pretrain-align":
        beside["--targets-out"] = f"{name}.targets"
        own = "--targets-out" if header.kind == "targets" else "-o"
    if header.stage == "aggregate" and (
        "state" in header.facts or header.kind == "server"
    ):
        beside["--state-out"] = f"{name}.state"
        own = "--state-out" if header.kind == "server" else "-o"
    beside[own] = name
    return [word for pair in beside.items() for word in pair]
