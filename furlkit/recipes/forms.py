"""Print a plan: make rules, a shell script, a graph, or JSON.

Names are quoted for make and for the shell, so no part of a name is ever run. Characters
that make cannot read in the name of a file, even quoted, are refused.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from furlkit.errors import UsageError
from furlkit.recipes.expand import Plan, Step, noted_in, record_path
from furlkit.recipes.records import JSON
from furlkit.recipes.removal import Removal, removals

Lines = Iterator[str]
_quote = cache(shlex.quote)

# Characters with a meaning in make. A = would turn a rule into an assignment, and cannot
# be quoted, so a variable holds the =. A % is quoted in targets only.
_QUOTED = {" ": "\\ ", ":": "\\:", "#": "\\#", "$": "$$", "=": "$(equals)"}
_SPECIAL = re.compile(r"[ :#$=]")
_UNUSUAL = re.compile(r"[^\n -~]")
# Words without a need for quotes, with single spaces between words.
_PLAIN = re.compile(r"[\w@+,./-]+( [\w@+,./-]+)*", re.ASCII)
# A name that ends like x(y) would be a member of an archive.
_IMPOSSIBLE = re.compile(r"[\x00-\x1f\x7f;|*?\[\]\\]|^(\./)?~|[ )]$|\$[({]")
# File names that make reads as special targets, or as words of make's language.
_MEANT_OTHERWISE = re.compile(
    r"(\./)*\.[A-Z][^/]*|-.*|all|s?include|define|endef|undefine|ifn?def|ifn?eq|else"
    r"|endif|(un)?export|override|private|vpath|load", re.DOTALL
)  # fmt: skip
_MAKE_HEAD = """\
# Made by `furlkit plan`: one rule for each file, with its exact command.
#   make -f FILE -j2        LAUNCH='srun --gpus 1' starts every command, LAUNCH_TRAIN the
#                           trainings; V=1 shows the commands
FURLKIT ?= furlkit
LAUNCH ?=
LAUNCH_TRAIN ?= $(LAUNCH)
SHELL := /bin/sh
# Files are finished by their contents; this sets times by which make decides the same.
by := $(if $(findstring n,$(firstword -$(MAKEFLAGS))),,--by $$PPID)
settled := $(shell $(FURLKIT) status --settle $(by) $(runs) >&2 && echo yes)
ifneq ($(settled),yes)
$(error the run cannot be carried out)
endif
MAKEFLAGS += --no-builtin-rules --no-builtin-variables
.SUFFIXES:
show := $(if $(V),,@)
equals := =
.DEFAULT_GOAL := all
.PHONY: all
"""
PLANNED = """\
# planned RECORD...: whether the settings are still those of this script
planned() {
    for record; do
        test -e "$record" && continue
        printf '%s\\n' "$record: missing; run furlkit plan again" >&2
        return 2
    done
}
"""
_SHELL_HEAD = """\
#!/bin/sh
# Made by `furlkit plan`: every command of the run, in order. A command is left out if its
# output is finished; if the script is killed, run it again.
set -eu
run=${FURLKIT:-furlkit} launch=${LAUNCH:-}
train=${LAUNCH_TRAIN:-$launch}

# made OUTPUT INPUT...: whether the output is there and no input is newer
made() {
    output=$1
    shift
    test -e "$output" || return 1
    for input; do
        if test "$input" -nt "$output"; then return 1; fi
    done
}
"""
_SHELL_SETTLE = """\
# Files are finished by their contents; this sets times by which `made` decides the same.
"""
# With keep = "last": if a step must run, the step's removed inputs are needed again.
_SHELL_REMOVED = """\
# needed STAMP FILE...: whether a file is missing that was removed; then it is made again
needed() {
    stamp=$1
    shift
    for file; do
        test -e "$file" && continue
        rm -f "$stamp"
        return
    done
    return 1
}
again=yes
while test "$again"; do again=
"""


def title(step: Step) -> str:
    """Title of a step for people: train, round 3, client 0."""
    parts = [step.stage]
    if step.round is not None:
        parts.append(f"round {step.round}")
    if step.clients:
        many = "s" * (len(step.clients) > 1)
        parts.append(f"client{many} {','.join(map(str, step.clients))}")
    return ", ".join(parts)


def _impossible(name: str) -> re.Match | None:
    return _IMPOSSIBLE.search(name) or _MEANT_OTHERWISE.fullmatch(name)


@cache
def _make_name(name: str) -> str:
    """Quote the name of a file for the right side of a make rule."""
    if found := _impossible(name):
        raise UsageError(
            f"{name!r}: make cannot read {found[0]!r} in the name of a file; choose "
            "another name, or print the plan with --as sh"
        )
    return _SPECIAL.sub(lambda sign: _QUOTED[sign[0]], name)


@cache
def _prerequisite(name: str) -> str:
    """Like `_make_name`, but empty for names that make cannot read; no rule writes these."""
    return "" if _impossible(name) else _make_name(name)


def _make_target(name: str) -> str:
    """Quote the name of a file for the left side of a make rule."""
    return _make_name(name).replace("%", "\\%")


def _spaced(words: Sequence[str], quote: Callable[[str], str]) -> str:
    """Join words with spaces; quote the words unless the whole line is plain."""
    line = " ".join(words)
    plain = _PLAIN.fullmatch(line) and line.count(" ") == len(words) - 1
    return line if plain else " ".join(filter(None, map(quote, words)))


def joined(words: Iterable[str]) -> str:
    """Join the words of a shell command, with quotes if necessary."""
    return _spaced(list(words), _quote)


def in_one_line(words: Sequence[str], form: str) -> str:
    """Join the words of a command on one line; refuse a line break within a word."""
    line = joined(words)
    if "\n" in line or "\r" in line:
        found = next(word for word in words if "\n" in word or "\r" in word)
        raise UsageError(
            f"{found!r}: {form} cannot read a line break in a command; choose another "
            "name, or print the plan with --as sh"
        )
    return line


def removing(removal: Removal) -> str:
    """Shell command that removes files."""
    # The stamp first: if killed in between, no removed file is needed again.
    return f"touch {joined([removal.stamp])} && rm -f {joined(removal.files)}"


def _for_make(words: Sequence[str]) -> str:
    """Join the words of a command into a line of a make rule."""
    return in_one_line(words, "make").replace("$", "$$")


def as_make(plans: Sequence[Plan]) -> Lines:
    """Yield one make rule for each step."""
    runs = _for_make([run_folder(plan) for plan in plans]).replace("#", "\\#")
    shell = "SHELL := /bin/sh\n"
    yield _MAKE_HEAD.replace(shell, f"{shell}runs := {runs}\n")
    count, total = 0, sum(len(plan.steps) for plan in plans)
    for plan in plans:
        yield from _make_records(plan)
        gone = removals(plan)
        removed = {path for removal in gone for path in removal.files}
        outputs = (path for step in plan.steps for path in step.outputs)
        kept = [_make_name(path) for path in outputs if path not in removed]
        yield "all: " + " \\\n  ".join(kept)
        for step in plan.steps:
            count += 1
            yield from _rule(step, f"[{count}/{total}]")
        yield from _make_removals(gone)


def _make_records(plan: Plan) -> Lines:
    """Yield rules that stop make if the settings of the run have changed."""
    noted = noted_in(plan.run, JSON)
    for name, text in plan.records.items():
        path = record_path(plan.run, name, text)
        yield f"{_make_target(path)}: | {_make_name(noted)}"
        yield _refusal(f"{path}: missing; run furlkit plan again")
    yield f"{_make_target(noted)}:"
    yield _refusal(f"{noted}: missing; run furlkit plan again")


def _refusal(message: str) -> str:
    said = _for_make(["printf", "%s\\n", message])
    return f"\t@{said} >&2; exit 2"


def run_folder(plan: Plan) -> str:
    """Folder of a run, for use in a command."""
    return noted_in(plan.run, "").removesuffix("plan/").rstrip("/") or "."


def records_of(plan: Plan) -> list[str]:
    """Files that exist until the settings of a run change."""
    records = (record_path(plan.run, *record) for record in plan.records.items())
    return [noted_in(plan.run, JSON), *records]


def _rule(step: Step, number: str) -> Lines:
    names = _spaced(step.outputs, _make_target)
    colon = ":"
    if len(step.outputs) > 1:
        colon = "&:"  # GNU make 4.3: one command writes several files.
        # On Ctrl-C make would remove the files of finished clients.
        yield f"\n.PRECIOUS: {' '.join(map(_make_name, step.outputs))}"
    launch = "$(LAUNCH_TRAIN)" if step.trains else "$(LAUNCH)"
    yield f"\n{names} {colon} {_spaced(step.after, _prerequisite)}"
    yield f"\t@echo '{number} {title(step)}'"
    yield f"\t$(show){launch} $(FURLKIT) {_for_make(step.command)} -q"


def _make_removals(found: Sequence[Removal]) -> Lines:
    if not found:
        return
    # make re-creates a removed file only if another step needs the file.
    removed = [_make_name(path) for removal in found for path in removal.files]
    yield "\n.SECONDARY: " + " \\\n  ".join(removed)
    for removal in found:
        stamp = _make_name(removal.stamp)
        yield f"\nall: {stamp}"
        after = " ".join(map(_make_name, removal.after))
        yield f"{_make_target(removal.stamp)}: {after}"
        yield f"\t@{_for_make(['rm', '-f', *removal.files])}"
        yield f"\t@{_for_make(['touch', removal.stamp])}"


def as_shell(plans: Sequence[Plan]) -> Lines:
    """Yield a shell script: the commands in order."""
    yield _SHELL_HEAD + PLANNED + _SHELL_SETTLE
    runs = joined(run_folder(plan) for plan in plans)
    yield f"$run status --settle --by $$ {runs}"
    count, total = 0, sum(len(plan.steps) for plan in plans)
    for plan in plans:
        yield f"planned {joined(records_of(plan))}"
        gone = removals(plan)
        stamps = {path: removal.stamp for removal in gone for path in removal.files}
        late: dict[str, list[Removal]] = {}
        for removal in gone:
            late.setdefault(removal.after[-1], []).append(removal)
        if gone:
            yield _SHELL_REMOVED
        for step in plan.steps:
            count += 1
            yield from _shell_step(step, f"[{count}/{total}]", stamps)
            for removal in late.get(step.outputs[-1], ()):
                # The stamp first: if killed in between, no removed file is needed again.
                yield joined(["touch", removal.stamp])
                yield joined(["rm", "-f", *removal.files])
        if gone:
            yield "done"


def _shell_step(step: Step, number: str, stamps: Mapping[str, str]) -> Lines:
    """Yield a command that runs unless the outputs exist, or were removed on purpose."""
    tests = (joined([out, *step.after]) for out in step.outputs)
    test = " && ".join(f"made {words}" for words in tests)
    done = [f"{{ {test}; }}" if len(step.outputs) > 1 else test]
    if step.outputs[0] in stamps:
        done.append(f"made {joined([stamps[step.outputs[0]], *step.after])}")
    back: dict[str, list[str]] = {}
    for path in step.reads:
        if path in stamps:
            back.setdefault(stamps[path], []).append(path)
    yield f"{' || '.join(done)} || {{"
    for stamp, paths in back.items():
        test = f"needed {joined([stamp, *paths])}"
        yield f"    if {test}; then again=yes; continue; fi"
    yield f"    echo '{number} {title(step)}'"
    launch = "$train" if step.trains else "$launch"
    yield f"    {launch} $run {joined(step.command)} -q"
    yield "}"


def as_dot(plans: Sequence[Plan]) -> Lines:
    """Yield a graph of files and commands for Graphviz."""
    yield "digraph plan {\n  rankdir=LR;\n  node [shape=box, fontname=Helvetica];"
    for number, step in enumerate(step for plan in plans for step in plan.steps):
        label = json.dumps(title(step), ensure_ascii=False)
        yield f"  step{number} [label={label}, style=filled, fillcolor=lightgrey];"
        for path in dict.fromkeys(step.reads):
            yield f"  {json.dumps(path, ensure_ascii=False)} -> step{number};"
        for path in step.writes:
            yield f"  step{number} -> {json.dumps(path, ensure_ascii=False)};"
    yield "}"


def as_json(plans: Sequence[Plan]) -> Lines:
    """Yield a JSON list of runs with settings and steps."""
    found = [
        {
            "out": plan.run.out,
            "settings": plan.run.settings,
            "steps": [step._asdict() for step in plan.steps],
        }
        for plan in plans
    ]
    text = json.dumps(found, indent=1, ensure_ascii=False)
    yield _UNUSUAL.sub(_escaped_in_json, text)


def _escaped_in_json(found: re.Match) -> str:
    """Escape a character for JSON unless the character is printable."""
    sign = found[0]
    if sign.isprintable():
        return sign
    return "\\u007f" if sign == "\x7f" else json.dumps(sign).strip('"')


# Forms for one machine; `slurm` and `hq` have the forms for clusters.
FORMS: dict[str, Callable[[Sequence[Plan]], Lines]] = {
    "make": as_make,
    "sh": as_shell,
    "dot": as_dot,
    "json": as_json,
}
