"""Build the command line of a file from the header and the inputs.

A header records the options that affect the bytes, by flag, and the content hashes of the
inputs by role. Headers do not record paths: the command names the files that were found,
and the images with the recorded fingerprint.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from furlkit.catalogue import (
    COMMANDS,
    Argument,
    Clients,
    File,
    Flag,
    Option,
    taker_of,
)
from furlkit.data.sets.datasets import is_name as is_dataset
from furlkit.files.clients import is_client, is_name
from furlkit.files.container.header import Header
from furlkit.files.kinds import is_kind
from furlkit.files.published import KIND as RECORD
from furlkit.files.published import lacks_record
from furlkit.files.secret import DRAWN_BY, SYSTEM
from furlkit.reports.text import lookup
from furlkit.stages.replay.chain import WEIGHTS, Link

Find = Callable[[Any], list[str] | None]
Words = list[str]
UPLOAD = "client "  # Begin of the role of an upload.
RESOLVED = ("device", "isa", "deterministic")  # Recorded as the machine resolved them.


def reason_against(link: Link) -> str:
    """Reason why no command can be built from the header; empty if possible."""
    header = link.header
    if header.kind == WEIGHTS:
        return "the file is of another program and is read as it is"
    if not _is_recorded(header.stage):
        return f"{header.stage or 'the stage'} does not record the inputs"
    if header.options.get(DRAWN_BY) == SYSTEM:
        return (
            "the noise came from the operating system and is not recorded, on purpose"
        )
    if lacks_record(header):
        return (
            "the header is not whole, and the record of the file is missing; add --among "
            "FOLDER with the record"
        )
    if header.kind == "metrics" and not header.content:
        return "an older furlkit wrote the file without a content hash; evaluate again"
    if header.version == 1:
        return "format version 1 does not record options by flags"
    if header.options.get("scheme") == "file":
        return "the header does not record the indices of --split-file"
    if header.options.get("weights") == "given":
        return "the header does not record the file of --weights or --members, only the shares"
    if _has_client(header.stage) and not is_client(header.facts.get("client")):
        return "the header does not name the client"
    if not all(map(str.isprintable, (*_options(link), *_untrained(link)))):
        return "the options contain unprintable characters"
    if odd := sorted(r for r in link.parents if not taker_of(header.stage, r)):
        return f"{header.stage} takes no {', '.join(odd)}"
    if link.missing:
        lost = (f"{role} {header.inputs[role]!s:.12}" for role in link.missing)
        return f"input {', '.join(lost)} is not among the files; add --among FOLDER"
    return ""


def path_word(path: Path | str) -> str:
    """Path for a command line, distinct from options and names of datasets."""
    text = str(path)
    return f"./{text}" if text.startswith("-") or is_dataset(text) else text


def words_of(link: Link, output: Path, find: Find) -> tuple[Words, str]:
    """The command that makes a file again as `output`, and a reason if incomplete."""
    stage, header = link.header.stage, link.header
    if stage.startswith("audit "):
        data, lacking = _audited_data(link, find)
    elif _is_scored(link):
        data, lacking = _scored_data(link, find)
    else:
        data, lacking = _data(link, find)
    drawn = "seed" in COMMANDS[stage].options
    if header.kind == "metrics":
        drawn = header.seed is not None
    seed = ["--seed", str(header.seed or 0)] if drawn else []
    own = [*_clients(link), *data, *_options(link), *_untrained(link)]
    words = [*stage.split(), *_files(link), *own, *seed]
    return [*words, *_outputs(link, output)], lacking


def _clients(link: Link) -> Words:
    """--client of a stage that trains or scores single clients."""
    stage, facts = link.header.stage, link.header.facts
    if _has_client(stage):
        return ["--client", str(facts.get("client"))]
    scored = facts.get("clients") if stage == "evaluate personal" else None
    each = [c.get("client") for c in scored or () if isinstance(c, dict)]
    known = each and all(map(is_client, each))
    return ["--client", ",".join(map(str, each))] if known else []


def _untrained(link: Link) -> Words:
    """Options of the network for scores of --untrained, which have no model file."""
    if link.header.facts.get("untrained") is not True:
        return []
    known = lookup(link.header.facts, "checkpoint.facts.architecture")
    names = ("encoder", "width", "stem", "image_size")
    sizes = {n: known.get(n) for n in names} if isinstance(known, dict) else {}
    given = (pair for pair in sizes.items() if isinstance(pair[1], str | int | float))
    flags = ((f"--{key.replace('_', '-')}", _text(v)) for key, v in given if v)
    return ["--untrained", *(word for flag in flags for word in flag)]


def _is_recorded(stage: str) -> bool:
    """Return whether the header of a stage's output names every input file."""
    command = COMMANDS.get(stage)
    made = command.options.get("output") if command else None
    if command is None or made is None or not isinstance(made.kind, File):
        return False
    recorded = (isinstance(a.kind, File) and a.kind.role for a in command.arguments)
    return made.kind.kind != "folder" and all(recorded)


def _has_client(stage: str) -> bool:
    """Return whether a stage writes a file per client."""
    option = COMMANDS[stage].options.get("clients")
    return option is not None and isinstance(option.kind, Clients) and option.required


def _files(link: Link) -> Words:
    """Positional arguments in order, then the files of options."""
    stage = link.header.stage
    paths = {role: path_word(p.path) for role, p in link.parents.items() if p}
    takers = {role: taker_of(stage, role) for role in paths}
    given = (a.kind for a in COMMANDS[stage].arguments)
    order = [role for kind in given if isinstance(kind, File) for role in kind.roles]
    words = [
        path
        for first in order
        for role, path in paths.items()
        if isinstance(takers[role], Argument) and role.partition(" ")[0] == first
    ]
    for role, taker in takers.items():
        words += [f"--{taker.name}", paths[role]] if isinstance(taker, Option) else []
    return words


def _is_scored(link: Link) -> bool:
    data = link.header.facts.get("data")
    return link.header.kind == "metrics" and isinstance(data, dict) and "test" in data


def _scored_data(link: Link, find: Find) -> tuple[Words, str]:
    """--data and --test-data of scores; a name includes both splits."""
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


def _audited_data(link: Link, find: Find) -> tuple[Words, str]:
    """Images of an audit; the document names the fingerprints by option."""
    options = COMMANDS[link.header.stage].options
    known = link.header.facts.get("data")
    words: Words = []
    for name, fingerprint in (known if isinstance(known, dict) else {}).items():
        if name not in options:
            continue
        found = find(fingerprint)
        if found is None:
            return words, _not_found(fingerprint)
        words += [f"--{name}", found[0]]
        words += ["--split", *found[1:]] if "split" in options and found[1:] else []
    return words, ""


def _not_found(fingerprint: Any) -> str:
    if not isinstance(fingerprint, dict) or not fingerprint:
        return (
            "no header names the images, and a record of an older furlkit does not either; "
            "write the images instead of DATASET"
        )
    images = fingerprint.get("examples") or "unknown"
    return f"the {images} images are not found; name the dataset by --data"


def _data(link: Link, find: Find) -> tuple[Words, str]:
    """--data and --split of the images, and a reason if images are missing."""
    words: Words = []
    lacking = ""
    options = {o.name: o for o in COMMANDS[link.header.stage].options.values()}
    # If images are optional, the header or the inputs have the facts of the images.
    needed = "data" in options and options["data"].required
    wanted = {"": link.dataset} if needed else {}
    if targets := link.parents.get("targets"):
        wanted["align-"] = targets.dataset
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
    """Words of the recorded options; values derived from inputs are left out."""
    options = COMMANDS[link.header.stage].options.values()
    # No other is recorded, and a forged header must not say where anything is written.
    known = {o.name: o for o in options if o.recorded or o.name in RESOLVED}
    words: Words = []
    for name, value in sorted(_given(link).items()):
        if name in known and value is not None and not isinstance(value, dict):
            words += _flag(known[name], value)
    return words


def _given(link: Link) -> dict[str, Any]:
    """The options, with the classes of a new model from the architecture."""
    header, options = link.header, dict(link.header.options)
    architecture = header.facts.get("architecture")
    if header.stage == "init" and isinstance(architecture, dict):
        heads = architecture.get("heads")
        width = heads.get("classifier") if isinstance(heads, dict) else None
        if isinstance(width, list) and width:
            options.setdefault("classes", width[-1])
    if any(is_name(role.removeprefix(UPLOAD)) for role in _uploads(header)):
        options.setdefault("anonymous", False)  # The default for sites is True.
    return options


def _uploads(header: Header) -> list[str]:
    """Roles of uploads, of a command that may leave out the names of clients."""
    named = "anonymous" in COMMANDS[header.stage].options
    return [role for role in header.inputs if named and role.startswith(UPLOAD)]


def _flag(option: Option, value: Any) -> Words:
    flag = f"--{option.name}"
    if isinstance(option.kind, Flag):
        if value:
            return [flag]
        return [f"--{option.negative}"] if option.negative else []
    values = value if isinstance(value, list) else [value]
    if option.multiple:
        return [word for one in values for word in (flag, _text(one))]
    return [flag, ",".join(map(_text, values))] if values else []


def _text(value: Any) -> str:
    """Text that parses to the value."""
    return repr(value) if isinstance(value, float) else str(value)


def _outputs(link: Link, output: Path) -> Words:
    """-o and further output files of the command, beside `output`."""
    name, written = path_word(output), _written(link)
    fitting = [flag for flag, kinds in written.items() if link.header.kind in kinds]
    paths = {flag: f"{name}.{kinds[0]}" for flag, kinds in written.items()}
    paths |= {"-o": f"{name}.model", (fitting or ["-o"])[-1]: name}
    return [word for pair in paths.items() for word in pair]


def _written(link: Link) -> dict[str, tuple[str, ...]]:
    """Kinds of output files by option, without reports for people."""
    options = COMMANDS[link.header.stage].options.values()
    found: dict[str, tuple[str, ...]] = {}
    kept: dict[str, tuple[str, ...]] = {}
    for option in options:
        kind = option.kind
        if not isinstance(kind, File) or not kind.written:
            continue
        if option.second:
            found["-o"] = kind.kinds
        elif kind.kind == RECORD:
            continue  # Beside the output.
        elif is_kind(kind.kinds[0]) and _is_written(link.header, option, options):
            found[f"--{option.name}"] = kind.kinds
        elif kind.direction == "kept" and kind.per_client:
            kept[f"--{option.name}"] = kind.kinds
    # Options may need a private file, which no header of an upload names.
    return {**kept, **found}


def _is_written(header: Header, option: Option, options: Collection[Option]) -> bool:
    """Return whether the header shows that the command wrote the file of an option.

    The facts of the main output name a file with a role. A header records options that
    need a file only if the command wrote the file. Commands always write other files. The
    header of a shared file does not tell of a private file, which does no harm.
    """
    needing = [each.name for each in options if each.needs == option.name]
    needed = not needing or any(name in header.options for name in needing)
    if not isinstance(option.kind, File) or not option.kind.role:
        return needed
    if header.kind in option.kind.kinds:
        # Rows and centroids have one kind; recorded options tell which was written.
        return needed or len(_writing(header.kind, options)) == 1
    if option.kind.direction == "kept" and not _is_main(header.kind, options):
        return True
    return bool(needing and needed) or option.kind.role in header.facts


def _is_main(kind: str, options: Collection[Option]) -> bool:
    """Return whether -o of the command writes files of a kind."""
    mains = (each.kind for each in options if each.second)
    return any(isinstance(file, File) and kind in file.kinds for file in mains)


def _writing(kind: str, options: Collection[Option]) -> list[Option]:
    """Options with a role for output files of a kind."""
    files = [(each, each.kind) for each in options if isinstance(each.kind, File)]
    return [each for each, f in files if f.written and f.role and kind in f.kinds]
