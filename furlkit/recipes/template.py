"""Command lines of a recipe: words with placeholders, optionally in brackets.

{name}    a setting, a file of this round and client, {round}, {client}, {participants}
@0 @last @own @final @all    the file of another round: round 0, the previous round, the
          last round with this client, the final round, or every round
*         the files of every client of the round; after @own, of every client's last round
{a|b}     the file b if a does not exist yet; a and b may have @ and *
[...]     omitted if a setting inside is empty, or a file inside does not exist yet
"""

import json
import re
import shlex
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import groupby, pairwise
from os.path import isfile
from typing import Any, NamedTuple

from furlkit import presets
from furlkit.catalogue import (
    COMMANDS,
    Command,
    File,
    Flag,
    Option,
    command_at,
    reads_file,
    writes_file,
)
from furlkit.errors import FurlkitError, InputError
from furlkit.recipes.read import (
    COUNTERS,
    DEFAULTS,
    NAMED,
    PASSED,
    PLACES,
    ROUND,
    Recipe,
    Run,
    Stage,
    Value,
    preset_tables,
    suggestion,
)

PLACEHOLDER = re.compile(r"\{([A-Za-z]\w*)(?:@(\w+))?(\*)?((?:\|[\w@*]+)*)\}")
SWITCH = re.compile(r"\{\w+\?\}")  # {name?} of version 0.1.
OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
GROUPED = (["audit"], ["evaluate"], ["plot"])  # Commands with names of two words.
ROUNDS = ("last", "own", "final", "all")


class Ref(NamedTuple):
    """A placeholder for a file or a counter; `at` is the @ROUND, `every` the *.

    `others`: alternatives to the file; the first existing file is read.
    """

    name: str
    at: str = ""
    every: bool = False
    others: tuple["Ref", ...] = ()

    def __str__(self) -> str:
        return f"{{{'|'.join(ref.word for ref in self.choices)}}}"

    @property
    def word(self) -> str:
        """Text of the placeholder in a recipe, without braces and alternatives."""
        return f"{self.name}{f'@{self.at}' * bool(self.at)}{'*' * self.every}"

    @property
    def choices(self) -> tuple["Ref", ...]:
        """Placeholders of one file: this file, then the alternatives."""
        return (self._replace(others=()), *self.others) if self.others else (self,)


Word = tuple[str | Ref, ...]
Part = tuple[bool, tuple[Word, ...]]


@dataclass(frozen=True)
class Template:
    """A stage with settings filled in; `parts`: whether a part is optional, and words.

    `sources`: files that no stage writes, like images and weights. `text` lists the
    words and settings that, with the inputs, determine the bytes of the outputs.
    """

    stage: Stage
    command: str
    parts: tuple[Part, ...]
    outputs: tuple[Ref, ...]
    sources: tuple[str, ...]
    text: str

    @property
    def main(self) -> Ref:
        """Output written last; for most commands the file of -o."""
        return self.outputs[-1]

    @property
    def words(self) -> Iterator[Word]:
        """Words of the command line, with optional words."""
        for _, words in self.parts:
            yield from words

    @property
    def refs(self) -> Iterator[Ref]:
        """Placeholders of the command line, split into alternatives."""
        for word in self.words:
            yield from _refs(word)

    @cached_property
    def pieces(self) -> list[tuple[bool, list[Word | list[str]]]]:
        """Parts of the command line, with neighbouring plain words in one list."""
        found = []
        for optional, words in self.parts:
            pieces: list[Word | list[str]] = []
            for plain, some in groupby(words, lambda word: isinstance(word[0], str)):
                alike = list(some)
                if plain and all(len(word) == 1 for word in alike):
                    pieces.append([str(text) for (text,) in alike])
                else:
                    pieces += alike
            found.append((optional, pieces))
        return found

    @cached_property
    def inputs(self) -> set[Ref]:
        """Files that the stage reads."""
        return {r for r in self.refs if r.name not in COUNTERS} - set(self.outputs)

    @cached_property
    def grouped(self) -> bool:
        """Return whether one process can serve several clients."""
        return (Ref("client"),) in self.words and "client" in _flags(self.command)

    @cached_property
    def trains(self) -> bool:
        """Return whether the stage is a training, which takes long and can resume."""
        return "save-every" in _flags(self.command)


class _EmptySettingError(Exception):
    """A placeholder refers to an empty setting."""


def templates(run: Run) -> dict[str, Template]:
    """Stages of a run, without the stages that need an empty setting."""
    found = {}
    for name, stage in run.recipe.stages.items():
        with suppress(_EmptySettingError):
            found[name] = _template(run, stage)
    _check_files(run, found)
    return found


def _template(run: Run, stage: Stage) -> Template:
    where = f"{run.recipe.path}: [stages] {stage.name}"
    line = f"{stage.line} {run.settings.get(stage.name, '')}"
    command = _command(line, where)
    parts: list[Part] = []
    for optional, text in _split(line, where):
        try:
            words = [w for word in _shell_words(text, where) for w in _fill(run, word)]
            parts.append((optional, tuple(words)))
        except _EmptySettingError:
            if not optional:
                raise
    typed = {str(word[0]) for _, words in parts for word in words}
    missing = [key for key in PASSED if f"--{key.replace('_', '-')}" not in typed]
    passed = {key: _passed(run, command, key, typed) for key in missing}
    text = _text(run, command, parts, passed)
    more = tuple((w,) for words in passed.values() for w in words)
    (optional, first), start = parts[0], len(command.name.split())
    parts[0] = (optional, (*first[:start], *more, *first[start:]))
    outputs = _outputs(command, [w for _, words in parts for w in words], where)
    sources = _sources(command, parts)
    return Template(stage, command.name, tuple(parts), outputs, sources, text)


def _command(line: str, where: str) -> Command:
    """Command at the start of a line, with a name of one or two words."""
    words = line.split()
    if (command := command_at(words)) and command.parts:
        return command
    known = [name for name, command in COMMANDS.items() if command.parts]
    name = " ".join(words[:2] if words[:1] in GROUPED else words[:1])
    raise InputError(
        f"{where}: {name} is not a command of furlkit{suggestion(name, known)}"
    )


def _split(line: str, where: str) -> Iterator[tuple[bool, str]]:
    """Pieces of a line; pieces in brackets are optional."""
    if switch := SWITCH.search(line):
        raise InputError(
            f"{where}: {switch[0]} is no placeholder; change or remove the stage in a "
            "table [SETTING.VALUE.stages]"
        )
    for number, text in enumerate(OPTIONAL.split(line)):
        if "[" in text or "]" in text:
            raise InputError(f"{where}: brackets do not match, or are nested")
        if text.strip():
            yield bool(number % 2), text


def _shell_words(text: str, where: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{where}: {error} in {text.strip()!r}") from error


def _fill(run: Run, word: str) -> list[Word]:
    """Fill settings into a word; a setting with a list becomes several words."""
    alone = PLACEHOLDER.fullmatch(word)
    if alone and isinstance(values := run.values.get(alone[1]), list):
        return [(str(value),) for value in values]
    parts: list[str | Ref] = []
    end = 0
    for match in PLACEHOLDER.finditer(word):
        parts.append(word[end : match.start()])
        ref = ref_of(match)
        setting = ref.name in run.values and ref == Ref(ref.name)
        parts.append(_text_of(run.values[ref.name]) if setting else ref)
        end = match.end()
    parts.append(word[end:])
    return [_joined(parts)]


def ref_of(match: re.Match) -> Ref:
    others = (PLACEHOLDER.fullmatch(f"{{{text}}}") for text in match[4].split("|")[1:])
    found = tuple(ref_of(other) for other in others if other)
    return Ref(match[1], match[2] or "", match[3] == "*", found)


def _text_of(value: Value) -> str:
    if value == "" or value is False or value == []:
        raise _EmptySettingError
    if isinstance(value, list):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _joined(parts: list[str | Ref]) -> Word:
    """Join neighbouring texts; keep an empty word."""
    found: list[str | Ref] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, str) and isinstance(last, str):
            found[-1] = last + part
        elif part != "":
            found.append(part)
    return tuple(found) or ("",)


def _passed(run: Run, command: Command, key: str, typed: Collection) -> list[str]:
    """Option of a setting for every stage; empty if the command has no such option.

    An option that needs a second option is passed if the second option is in `typed`.
    """
    name, value = key.replace("_", "-"), run.settings[key]
    option = _flags(command.name).get(name)
    if option is None or value == "" or value is False:
        return []
    if option.needs and f"--{option.needs}" not in typed:
        return []
    if key == "preset" and presets.table(run.preset, command.name) is None:
        return []
    return [f"--{name}"] + ([] if isinstance(option.kind, Flag) else [_text_of(value)])


def _text(
    run: Run, command: Command, parts: list[Part], passed: dict[str, list[str]]
) -> str:
    """Words and settings that, with the inputs, determine the bytes of the outputs."""
    # With optional parts: the files decide whether a command has these parts.
    line = [word for _, part in parts for word in part]
    words = ["".join(_shown(run, each) for each in word) for word in line]
    words += [w for key in passed if key not in PLACES for w in passed[key]]
    lines = [shlex.join(words)]
    refs = [ref for word in line for ref in _refs(word)]
    if any(ref.every or ref.name == "participants" for ref in refs):
        drawn = ["clients", "without", "fraction", "seed"]
        if run.settings["rounding"] != DEFAULTS["rounding"]:
            drawn.append("rounding")
        lines.append(" ".join(f"{key}={run.settings[key]}" for key in drawn))
    tables = _preset_tables(run, parts)
    for key, value in sorted((presets.table(tables, command.name) or {}).items()):
        lines.append(f"{key} = {json.dumps(value, default=str)}")
    return "\n".join(lines) + "\n"


def _preset_tables(run: Run, parts: list[Part]) -> dict[str, Any]:
    """Tables of the stage's --preset, by default of the run's preset."""
    words = [word for _, part in parts for word in part]
    for flag, word in pairwise(words):
        if flag == ("--preset",) and isinstance(word[0], str):
            try:
                return preset_tables(run.recipe, word[0])
            except FurlkitError:  # The check of the command reports the error.
                return {}
    return run.preset


def _shown(run: Run, part: str | Ref) -> str:
    """Text of a part: files of the run by name (the folder may move), inputs by path."""
    if isinstance(part, str):
        return part
    given = (ref.name for ref in part.choices if ref.name in run.recipe.inputs)
    return f"{''.join(path_of(run, name) for name in given)}{part}"


def path_of(run: Run, name: str) -> str:
    """Path of a file or input, with placeholders for the round and {client} only."""
    recipe = run.recipe
    pattern = {**recipe.files, **recipe.inputs}.get(name) or _usual_path(run, name)
    return NAMED.sub(lambda found: _in_path(run, name, found), pattern)


def _usual_path(run: Run, name: str) -> str:
    """Path of a file that [files] does not list: NAME.json for metrics."""
    for stage in run.recipe.stages.values():
        words = stage.line.split()
        command = (
            command_at(words) if ("-o", f"{{{name}}}") in pairwise(words) else None
        )
        kind = _flags(command.name)["output"].kind if command else None
        if isinstance(kind, File) and kind.kind == "metrics":
            return f"{name}.json"
    return f"{name}.safetensors"


def _in_path(run: Run, name: str, found: re.Match) -> str:
    if found[1] in ("round", "client"):
        return found[0]
    if found[1] in run.values:
        return str(run.settings[found[1]])
    if ROUND.fullmatch(found[0]) and f"{found[1]}s" in run.values:
        return found[0]
    hint = suggestion(found[1], [*run.values, "round", "client"])
    section = "inputs" if name in run.recipe.inputs else "files"
    where = f"{run.recipe.path}: [{section}] {name}"
    raise InputError(f"{where}: {found[0]} is no setting{hint}")


def _refs(word: Word) -> Iterator[Ref]:
    for part in word:
        yield from part.choices if isinstance(part, Ref) else ()


@cache
def _flags(command: str) -> dict[str, Option]:
    return {option.name: option for option in COMMANDS[command].options.values()}


def _sources(command: Command, parts: list[Part]) -> tuple[str, ...]:
    """Existing files among the inputs of a command."""
    # No folders: the time of a folder says little about the files below.
    flags = {f"--{o.name}" for o in _flags(command.name).values() if reads_file(o)}
    words = [word for _, some in parts for word in some]
    named = (word[0] for flag, word in pairwise(words) if flag[0] in flags)
    found = (str(name) for name in named if not isinstance(name, Ref))
    return tuple(dict.fromkeys(name for name in found if isfile(name)))


def _outputs(command: Command, words: list[Word], where: str) -> tuple[Ref, ...]:
    """Outputs in the order of writing; most commands write the file of -o last."""
    written = (o for o in _flags(command.name).values() if writes_file(o))
    flags = {f"--{option.name}" for option in written if not option.second}
    found: list[Ref] = []
    main: list[Ref] = []
    for flag, word in pairwise(words):
        if flag[0] not in {"-o", "--output", *flags}:
            continue
        if len(word) != 1 or not isinstance(word[0], Ref) or word[0].every:
            raise InputError(f"{where}: after {flag[0]} expected one file, as {{name}}")
        if word[0].at and not word[0].at.isdecimal():
            raise InputError(
                f"{where}: {flag[0]} {word[0]}: a stage writes files of the current "
                "round, as {name}, or of a fixed round, as {name@0}"
            )
        (found if flag[0] in flags else main).append(word[0])
    if len(main) != 1:
        raise InputError(f"{where}: expected one output, as -o {{name}}")
    kinds = (option.kind for option in _flags(command.name).values())
    last = any(isinstance(kind, File) and kind.last for kind in kinds)
    return (*main, *found) if last else (*found, *main)


def _check_files(run: Run, found: dict[str, Template]) -> None:
    """Raise if a placeholder is unknown, or if two stages write a file."""
    made: dict[Ref, str] = {}
    for name, template in found.items():
        for ref in template.outputs:
            if ref.name in run.recipe.inputs:
                raise InputError(
                    f"{run.recipe.path}: [stages] {name} writes {ref}, but {ref} is "
                    "listed in [inputs]"
                )
            if ref in made:
                both = f"{made[ref]} and {name}" if made[ref] != name else name
                raise InputError(
                    f"{run.recipe.path}: [stages] {both}: {ref} is written twice"
                )
            made[ref] = name
    recipe = run.recipe
    everything = {part for each in recipe.stages.values() for part in _named(each)}
    paths = {**recipe.files, **recipe.inputs}
    known = {*run.values, *paths, *COUNTERS, *(r.name for r in made)}
    for name, template in found.items():
        where = f"{recipe.path}: [stages] {name}"
        for ref in template.refs:
            if ref.name not in known and ref.name not in everything:
                hint = suggestion(ref.name, known)
                raise InputError(
                    f"{where}: {ref} is no setting, and no stage writes this file{hint}"
                )
            if ref.at and not ref.at.isdecimal() and ref.at not in ROUNDS:
                hint = suggestion(ref.at, ROUNDS)
                raise InputError(f"{where}: {ref}: {ref.at} is no round{hint}")


def _named(stage: Stage) -> set[str]:
    """Files that a stage's line writes, even if the run omits the stage."""
    words = stage.line.replace("[", " ").replace("]", " ").split()
    after = (b for a, b in pairwise(words) if a.startswith("-"))
    return {match[1] for word in after if (match := PLACEHOLDER.fullmatch(word))}


def check_used(run: Run, recipe: Recipe) -> None:
    """Raise InputError for a setting or file of a recipe that no run uses."""
    stages = [*recipe.stages.values(), *run.recipe.stages.values()]
    lines = [stage.line + stage.rounds for stage in stages]
    # Tables [SETTING.VALUE] of other runs may use a setting too.
    cases = (table for tables in recipe.cases.values() for table in tables.values())
    every = [recipe.settings, run.settings, recipe.declared, *cases]
    more = [str(value) for each in every for value in each.values()]
    paths = {**recipe.files, **recipe.inputs}
    text = " ".join([*lines, *more, *recipe.files.values(), *recipe.inputs.values()])
    refs = (
        ref for found in PLACEHOLDER.finditer(text) for ref in ref_of(found).choices
    )
    used = {ref.name for ref in refs}
    used |= {f"{name}s" for name in used if name.endswith("_round")}  # Phases.
    if recipe.removed:
        return  # Settings and files of removed stages are unused.
    for name in recipe.settings:
        if name not in {*used, *DEFAULTS, *recipe.cases, *recipe.stages}:
            raise InputError(f"{recipe.path}: [settings] {name}: used by no stage")
    for name in paths:
        if name not in used:
            table = "inputs" if name in recipe.inputs else "files"
            raise InputError(f"{recipe.path}: [{table}] {name}: used by no stage")
