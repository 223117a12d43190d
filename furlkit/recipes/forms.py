"""A plan as make rules, as a shell script, as a graph, or as JSON.

Names are quoted for make and for the shell, so nothing in one is ever run.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from furlkit.errors import UsageError
from furlkit.recipes.expand import Plan, Step, record_path
from furlkit.recipes.removal import Removal, removals

Lines = Iterator[str]
_quote = cache(shlex.quote)

# What make reads in a name as something else. A = would make a rule an assignment, and
# cannot be quoted, so it stands in a variable.
_SPECIAL = re.compile(r"[\\\s:%#*?\[\]~;|&$=]")
_MAKE_HEAD = """\
# Made by `furlkit plan`: one rule for each file, with its exact command.
#   make -f FILE -j2        LAUNCH='srun --gpus 1' starts every command, LAUNCH_TRAIN the
#                           trainings; V=1 shows the commands
FURLKIT ?= furlkit
LAUNCH ?=
LAUNCH_TRAIN ?= $(LAUNCH)
SHELL := /bin/sh
show := $(if $(V),,@)
equals := =
.DEFAULT_GOAL := all
.PHONY: all
"""
_SHELL_HEAD = """\
#!/bin/sh
# Made by `furlkit plan`: every command of the run, in order. A command is left out if its
# output is there and newer than what it reads; if the script is killed, run it again.
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


def title(step: Step) -> str:
    """A step for people: train, round 3, client 0."""
    parts = [step.stage]
    if step.round is not None:
        parts.append(f"round {step.round}")
    if step.clients:
        many = "s" * (len(step.clients) > 1)
        parts.append(f"client{many} {','.join(map(str, step.clients))}")
    return ", ".join(parts)


@cache
def _make_name(name: str) -> str:
    """A file's name as make reads it in a rule."""
    if not name.isprintable():
        raise UsageError(f"{name!r}: make cannot have such a file in a rule")
    return _SPECIAL.sub(_escaped, name) if _SPECIAL.search(name) else name


def _escaped(match: re.Match) -> str:
    sign = match[0]
    return {"$": "$$", "=": "$(equals)", "\\": "\\"}.get(sign, f"\\{sign}")


def _joined(words: Iterable[str]) -> str:
    return " ".join(map(_quote, words))


def _for_make(words: Sequence[str]) -> str:
    """Words of a command as a line of a make rule."""
    return _joined(words).replace("$", "$$")


def as_make(plans: Sequence[Plan]) -> Lines:
    """One rule for each step."""
    yield _MAKE_HEAD
    count, total = 0, sum(len(plan.steps) for plan in plans)
    for plan in plans:
        for name in plan.records:
            path = record_path(plan.run, name)
            lost = f"{path}: missing; run furlkit plan again"
            yield f"{_make_name(path)}:"
            yield f"\t@{_for_make(['echo', lost])} >&2; exit 2"
        gone = removals(plan)
        removed = {path for removal in gone for path in removal.files}
        outputs = (path for step in plan.steps for path in step.outputs)
        kept = [_make_name(path) for path in outputs if path not in removed]
        yield "all: " + " \\\n  ".join(kept)
        for step in plan.steps:
            count += 1
            yield from _rule(step, f"[{count}/{total}]")
        yield from _make_removals(gone)


def _rule(step: Step, number: str) -> Lines:
    names = " ".join(map(_make_name, step.outputs))
    # With &: (GNU make 4.3) one command makes several files.
    colon = "&:" if len(step.outputs) > 1 else ":"
    launch = "$(LAUNCH_TRAIN)" if step.trains else "$(LAUNCH)"
    yield f"\n{names} {colon} {' '.join(map(_make_name, step.after))}"
    yield f"\t@echo '{number} {title(step)}'"
    yield f"\t$(show){launch} $(FURLKIT) {_for_make(step.command)} -q"


def _make_removals(found: Sequence[Removal]) -> Lines:
    if not found:
        return
    # A file that was removed is re-created only if something needs it again.
    removed = [_make_name(path) for removal in found for path in removal.files]
    yield "\n.SECONDARY: " + " \\\n  ".join(removed)
    for removal in found:
        stamp = _make_name(removal.stamp)
        yield f"\nall: {stamp}"
        yield f"{stamp}: {' '.join(map(_make_name, removal.after))}"
        yield f"\t@{_for_make(['rm', '-f', *removal.files])}"
        yield f"\t@{_for_make(['touch', removal.stamp])}"


def as_shell(plans: Sequence[Plan]) -> Lines:
    """One command after the other."""
    yield _SHELL_HEAD
    count, total = 0, sum(len(plan.steps) for plan in plans)
    for plan in plans:
        late: dict[str, list[Removal]] = {}
        for removal in removals(plan):
            late.setdefault(removal.after[-1], []).append(removal)
        for step in plan.steps:
            count += 1
            yield f"echo '[{count}/{total}] {title(step)}'"
            launch = "$train" if step.trains else "$launch"
            tests = (_joined([out, *step.after]) for out in step.outputs)
            test = " && ".join(f"made {words}" for words in tests)
            group = f"{{ {test}; }}" if len(step.outputs) > 1 else test
            yield f"{group} || {launch} $run {_joined(step.command)} -q"
            for removal in late.get(step.outputs[-1], ()):
                yield _joined(["rm", "-f", *removal.files])
                yield _joined(["touch", removal.stamp])


def as_dot(plans: Sequence[Plan]) -> Lines:
    """Files and the commands between them, for Graphviz."""
    yield "digraph plan {\n  rankdir=LR;\n  node [shape=box, fontname=Helvetica];"
    for number, step in _numbered(plans):
        label = json.dumps(title(step), ensure_ascii=False)
        yield f"  step{number} [label={label}, style=filled, fillcolor=lightgrey];"
        for path in dict.fromkeys(step.reads):
            yield f"  {json.dumps(path, ensure_ascii=False)} -> step{number};"
        for path in step.writes:
            yield f"  step{number} -> {json.dumps(path, ensure_ascii=False)};"
    yield "}"


def as_json(plans: Sequence[Plan]) -> Lines:
    """A list of runs, each with its settings and steps."""
    found = [
        {
            "out": plan.run.out,
            "settings": plan.run.settings,
            "steps": [step._asdict() for step in plan.steps],
        }
        for plan in plans
    ]
    yield json.dumps(found, indent=1, ensure_ascii=False)


def _numbered(plans: Sequence[Plan]) -> Iterator[tuple[int, Step]]:
    return enumerate(step for plan in plans for step in plan.steps)


# Further forms, such as the job scripts of a cluster, go here.
FORMS: dict[str, Callable[[Sequence[Plan]], Lines]] = {
    "make": as_make,
    "sh": as_shell,
    "dot": as_dot,
    "json": as_json,
}
