"""Files that a command may replace: earlier outputs of the same command.

A mistyped -o must not cost a file. A command replaces without --force an empty file, or
a file that the same command wrote: of the same kind, and for the same client and round.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from furlkit.errors import FurlkitError, UsageError
from furlkit.files.container.header import (
    Header,
    parse_header,
    parse_strict,
    short,
    with_article,
)
from furlkit.files.container.read import read_head
from furlkit.files.opening import LONGEST_JSON, open_regular, read_bytes

# A hostile upload has the header of the upload that it replaces.
_IMITATED = {"attack": ("local-train", "embed")}
# Texts of the rules of `plan`, one for each form.
_RULES = ("# Made by `furlkit plan`", "digraph plan {", '[\n {\n  "out": ')
_PAGE = "<title>furlkit: "
_SEARCHED = 4096  # Bytes at both ends of a text or picture that may have the mark.


def mark_of(command: str) -> str:
    """Text in the pictures of a command."""
    return f"furlkit {command}"


def protocol_of(command: str) -> str:
    """The protocol in the scores of a command."""
    return "uploads" if command == "aggregate" else command.split()[-1]


def check_replaceable(
    path: Path,
    flag: str,
    command: str,
    kinds: tuple[str, ...],
    client: Any = None,
    *,
    force: bool = True,
) -> None:
    """Refuse an output that would replace a file of another command or program.

    A table has no mark: `compare` reads the heading (`check_same_table`). A record
    belongs to an output (`inputs.records`). `force`: the command has --force.
    """
    elsewhere = kinds[0] in ("table", "folder", "record")
    if elsewhere or not path.is_file() or not path.stat().st_size:
        return
    if kinds[0] in ("picture", "page", "rules"):
        problem = _text_problem(path, command, kinds[0])
    elif kinds == ("metrics",):
        problem = _scores_problem(path, command)
    else:
        problem = _header_problem(path, command, kinds, client)
    if problem:
        raise refusal(path, flag, problem, force)


def refusal(path: Path, flag: str, problem: str, force: bool = True) -> UsageError:
    """Error for a file that a command does not replace."""
    remedy = "give --force to replace the file" if force else "remove the file"
    return UsageError(
        f"{flag} {path}: exists and {problem}; choose another name, or {remedy}"
    )


def check_same_output(
    path: Path, flag: str, kind: str, facts: Mapping[str, Any]
) -> None:
    """Refuse to replace an output of another kind, client or round.

    `facts`: facts of the new header, or entries of the new scores.
    """
    header = _header_of(path) if path.is_file() else None
    if header and header.kind != kind:
        raise refusal(path, flag, f"is {with_article(header.kind)} file, not {kind}")
    if kind == "metrics":
        old, new = _scored(_scores_of(path) or {}), _scored(facts)
    else:
        old, new = header.facts if header else {}, facts
    if problem := _other_round(old, new):
        raise refusal(path, flag, problem)


def _scored(entries: Mapping[str, Any]) -> Mapping[str, Any]:
    """Entries of scores, with the facts of the scored model."""
    model = entries.get("checkpoint")
    facts = model.get("facts") if isinstance(model, Mapping) else None
    return {**facts, **entries} if isinstance(facts, Mapping) else entries


def check_same_table(path: Path, flag: str, text: str) -> None:
    """Refuse to replace anything but a table with the same heading."""
    if not path.is_file() or not path.stat().st_size:
        return
    with open_regular(path) as stream:
        begin = stream.read(_SEARCHED).decode(errors="replace")
    if begin.partition("\n")[0].split() != text.partition("\n")[0].split():
        raise refusal(path, flag, "is no table with the same columns")


def _other_round(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Description of the file's client or round, if another one is expected."""
    for name in ("client", "round"):
        was, now = old.get(name), new.get(name)
        if was is not None and name in new and was != now:
            this = f"no {name}" if now is None else f"{name} {now}"
            return f"is of {name} {short(was)}, this output is of {this}"
    return ""


def _header_problem(
    path: Path, command: str, kinds: tuple[str, ...], client: Any
) -> str:
    header = _header_of(path)
    if header is None:
        return f"is no output of furlkit {command}"
    if header.stage not in (command, *_IMITATED.get(command, ())):
        return f"is an output of furlkit {short(header.stage)[1:-1]}"
    if header.kind not in kinds:
        return f"is {with_article(header.kind)} file, expected {' or '.join(kinds)}"
    return "" if client is None else _other_round(header.facts, {"client": client})


def _header_of(path: Path) -> Header | None:
    """The header of a file of furlkit, also if the tensors are cut off."""
    with suppress(FurlkitError, ValueError, RecursionError, KeyError, TypeError):
        text = parse_strict(read_head(path)[0][8:])["__metadata__"]["furlkit"]
        return parse_header(path, text)
    return None


def _scores_of(path: Path) -> dict[str, Any] | None:
    """Entries of a file of scores; of a damaged file, the protocol."""
    with suppress(FurlkitError):
        text = read_bytes(path, LONGEST_JSON)
        with suppress(ValueError, RecursionError):
            document = parse_strict(text)
            is_ours = isinstance(document, dict) and document.get("kind") == "metrics"
            return document if is_ours else None
        protocol = re.search(rb'^ "protocol": "(\w+)",$', text, re.M)
        if protocol and b'\n "kind": "metrics",\n' in text:
            return {"protocol": protocol[1].decode()}
    return None


def _scores_problem(path: Path, command: str) -> str:
    scores, expected = _scores_of(path), protocol_of(command)
    if scores is None:
        return f"is no output of furlkit {command}"
    protocol = scores.get("protocol")
    same = protocol == expected
    return "" if same else f"has scores of {short(protocol)}, not of {expected}"


def _text_problem(path: Path, command: str, kind: str) -> str:
    with open_regular(path) as stream:
        begin = stream.read(_SEARCHED)
        stream.seek(max(0, path.stat().st_size - _SEARCHED))
        text = (begin + stream.read(_SEARCHED)).decode(errors="replace")
    marks = {"rules": _RULES, "page": (_PAGE,)}.get(kind, (mark_of(command),))
    if any(mark in text for mark in marks):
        return ""
    return f"is no {kind} of furlkit {command}"
