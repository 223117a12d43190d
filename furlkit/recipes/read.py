"""Reading a recipe: settings, files and stages, and the settings of one run.

A recipe is a TOML file. [settings] has values that the command line can change; [files]
names the files of a run, [inputs] those that lie elsewhere, as files of another run;
[stages] has one command line for each kind of step; [resources] is for clusters (see
`recipes.resources`). A table [SETTING.VALUE] holds
settings that apply where SETTING is VALUE, and `extends = "FILE"` takes everything from
another recipe that this one does not set itself. A setting may name others, as
data = "{folder}/train-{seed}.safetensors".

A run may have phases before its rounds, each with rounds of its own: a file with
{PHASE_round} in its name is of one, whose number of rounds is the setting PHASE_rounds.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from os.path import realpath
from pathlib import Path
from typing import Any

from furlkit import presets
from furlkit.catalogue import COMMANDS
from furlkit.errors import FurlkitError, InputError, UsageError, did_you_mean
from furlkit.files.opening import read_toml

Value = str | int | float | bool | list[Any]
Settings = dict[str, Value]

# What every recipe has. `without` are clients that never train.
DEFAULTS: Settings = {
    "out": "exp",
    "preset": "",
    "clients": 5,
    "rounds": 5,
    "fraction": 1.0,
    "rounding": "nearest",
    "without": "",
    "seed": 0,
    "threads": 1,
    "isa": "",
    "device": "",
    "data_root": "",
    "download": False,
    "cache": "",
    "keep": "all",
}
# These say where data lies or how it is fetched, and change no byte of a result.
PLACES = ("data_root", "download", "cache")
# These are passed to every stage whose command has an option of that name.
PASSED = ("preset", "seed", "threads", "isa", "device", *PLACES)
TABLES = ("settings", "files", "inputs", "stages", "resources")
# What every step has; a recipe cannot give these names another meaning.
COUNTERS = ("round", "client", "participants")
SWITCHES = {"yes": True, "true": True, "no": False, "false": False, "": False}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
NAMED = re.compile(rf"\{{({NAME.pattern})\}}")
ROUND = re.compile(r"\{(?:([A-Za-z]\w*)_)?round\}")


@dataclass(frozen=True)
class Stage:
    """A command line with placeholders, and the rounds it runs in: "0 last", "every 5"."""

    name: str
    line: str
    rounds: str = ""


@dataclass(frozen=True)
class Recipe:
    """A recipe with everything that it extends; `cases` are the tables SETTING.VALUE.

    `removed` are stages of the recipe it extends that it does without. `inputs` are
    files that no stage makes; where a file has the same name, the input is meant.
    `resources` are those of the jobs of a cluster (see `recipes.resources`).
    """

    path: Path
    settings: Settings
    files: dict[str, str]
    stages: dict[str, Stage]
    cases: dict[str, dict[str, Settings]] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    inputs: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A recipe with the settings of one run, which is in the folder `out`.

    `preset` has the tables of its preset.
    """

    recipe: Recipe
    settings: Settings
    preset: dict[str, Any] = field(default_factory=dict)

    @property
    def out(self) -> str:
        """The folder of the run."""
        return str(self.settings["out"])

    @property
    def values(self) -> Settings:
        """The settings that placeholders stand for: not those with options of stages."""
        stages = self.recipe.stages
        return {k: v for k, v in self.settings.items() if k not in stages}

    @property
    def phases(self) -> list[str]:
        """The phases in the order of their files; the rounds proper, "", come last."""
        paths = [*self.recipe.files.values(), *self.recipe.inputs.values()]
        named = (match[1] or "" for path in paths for match in ROUND.finditer(path))
        found = (name for name in named if f"{name}_rounds" in self.settings)
        return [*dict.fromkeys(found), ""]

    def rounds(self, phase: str = "") -> int:
        """How many rounds a phase has."""
        return self.number(f"{phase}_rounds" if phase else "rounds")

    def number(self, name: str) -> int:
        """A setting that must be a whole number."""
        value = self.settings[name]
        try:
            return int(str(value))
        except ValueError as error:
            raise UsageError(f"{name}={value}: expected a whole number") from error


def read(path: Path) -> Recipe:
    """Read a recipe and those it extends."""
    tables = _tables(path, ())
    settings = _section(path, tables, "settings")
    _check_values(settings, f"{path}: [settings]")
    lines = _section(path, tables, "stages")
    removed = tuple(name for name, line in lines.items() if line == "")
    stages = {n: _stage(path, n, lines[n]) for n in lines if n not in removed}
    files, inputs = _paths(path, tables, "files"), _paths(path, tables, "inputs")
    known = {**DEFAULTS, **settings}
    cases = {key: value for key, value in tables.items() if key not in TABLES}
    resources = _section(path, tables, "resources")
    recipe = Recipe(path, known, files, stages, cases, removed, inputs, resources)
    _check(recipe)
    return recipe


def _tables(path: Path, above: tuple[str, ...]) -> dict[str, Any]:
    if realpath(path) in above:
        raise InputError(f"{path}: extends itself")
    own = read_toml(path)
    base = own.pop("extends", None)
    if base is None:
        return own
    if not isinstance(base, str):
        raise InputError(f"{path}: extends is {base!r}, expected the path of a recipe")
    if not (path.parent / base).exists():
        raise InputError(f"{path}: extends {base}, and there is no such file")
    return _merged(_tables(path.parent / base, (*above, realpath(path))), own)


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key, values of `own` win; what is new comes last."""
    found = dict(base)
    for key, value in own.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        found[key] = _merged(base[key], value) if both else value
    return found


def _section(path: Path, tables: dict[str, Any], name: str) -> dict[str, Any]:
    found = tables.get(name, {})
    if not isinstance(found, dict):
        raise InputError(f"{path}: {name} is {found!r}, expected a table [{name}]")
    for key in found:
        if not NAME.fullmatch(key):
            raise InputError(
                f"{path}: [{name}] {key}: a name has letters, digits and _ only"
            )
    return found


def _paths(path: Path, tables: dict[str, Any], section: str) -> dict[str, str]:
    found = _section(path, tables, section)
    for name, value in found.items():
        if not isinstance(value, str) or not value.strip("/."):
            raise InputError(
                f"{path}: [{section}] {name} is {value!r}, expected a path"
            )
    return found


def _stage(path: Path, name: str, value: Any) -> Stage:
    if isinstance(value, str):
        return Stage(name, value)
    if isinstance(value, dict) and value.keys() <= {"run", "rounds"} and "run" in value:
        run, rounds = value["run"], value.get("rounds", "")
        if isinstance(run, str) and isinstance(rounds, str | int):
            return Stage(name, run, str(rounds))
    raise InputError(
        f"{path}: [stages] {name}: expected a command line, or "
        '{ run = "COMMAND LINE", rounds = "0 last" }'
    )


def _check(recipe: Recipe) -> None:
    if not recipe.stages:
        raise InputError(f"{recipe.path}: has no [stages]")
    for name in DEFAULTS.keys() & recipe.stages.keys():
        raise InputError(
            f"{recipe.path}: [stages] {name}: is a setting of every recipe; give the "
            "stage another name"
        )
    for name in {*recipe.settings, *recipe.files, *recipe.inputs} & {*COUNTERS}:
        raise InputError(
            f"{recipe.path}: {name} cannot be a setting or a file: {{{name}}} is the "
            f"{name} of a step"
        )
    for name, cases in recipe.cases.items():
        if name not in recipe.settings:
            hint = suggestion(name, [*recipe.settings, *TABLES])
            raise InputError(
                f"{recipe.path}: [{name}] is neither one of its settings nor one of "
                f"{', '.join(TABLES)}{hint}"
            )
        for value, table in cases.items() if isinstance(cases, dict) else [(cases, 0)]:
            if not isinstance(table, dict):
                raise InputError(
                    f"{recipe.path}: [{name}] has {value}, expected tables "
                    f"[{name}.VALUE]"
                )
            where = f"{recipe.path}: [{name}.{value}]"
            _check_names(recipe, table, where, InputError)
            _check_values(table, where)
    for name in recipe.settings:
        if name in {**recipe.files, **recipe.inputs} and name not in recipe.stages:
            raise InputError(f"{recipe.path}: {name} is both a setting and a file")


def _check_names(
    recipe: Recipe, names: Iterable[str], where: str, error: type[FurlkitError]
) -> None:
    """Names must be settings, or stages that get more options.

    A stage that the recipe does without may have options too: they do no harm, and the
    same words then fit the recipe that it extends.
    """
    known = {*recipe.settings, *recipe.stages, *recipe.removed}
    for name in names:
        if name not in known:
            hint = suggestion(name, known)
            raise error(f"{where}: {name} is not a setting of this recipe{hint}")


def _check_values(table: Mapping[str, Any], where: str) -> None:
    """Values must be text, numbers, true or false, or lists of them."""
    for name, value in table.items():
        for one in value if isinstance(value, list) else [value]:
            endless = isinstance(one, float) and not isfinite(one)
            if endless or not isinstance(one, str | int | float):
                raise InputError(
                    f"{where} {name} is {value!r}, expected text, a number, true, "
                    "false or a list of them"
                )


def suggestion(name: str, known: Iterable[str]) -> str:
    """A similar name, or all of them."""
    known = sorted(known)
    return did_you_mean(name, known) or f"; it has {', '.join(known)}"


def runs(recipe: Recipe, given: Sequence[str]) -> list[Run]:
    """The runs that KEY=VALUE words ask for: one, or one for each combination of lists.

    A list has commas between its values (`\\,` is a comma of a value), or names its key
    twice. Options of a stage are never a list, since theirs have commas themselves.
    Each run has a folder of its own, in `out`; with settings in it, as exp/{row}/{seed},
    `out` is that folder itself.
    """
    swept: dict[str, list[str]] = {}
    for word in given:
        key, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"{word}: expected KEY=VALUE")
        if not _is_unicode(word):
            raise UsageError(f"{word!r}: expected text in UTF-8")
        _check_option(recipe, key, word)
        _check_names(recipe, [key], word, UsageError)
        options = {*recipe.stages, *recipe.removed}
        values = [text] if key in options else _values(text)
        swept.setdefault(key, []).extend(values)
    lists = {key: values for key, values in swept.items() if len(values) > 1}
    folders = {key: _folders(key, values) for key, values in lists.items()}
    found: dict[str, Run] = {}
    for chosen in itertools.product(*swept.values()):
        by_hand = dict(zip(swept, chosen, strict=True))
        settings = resolve(recipe, by_hand)
        name = str(settings["preset"])
        run = Run(recipe, settings, presets.tables(name) if name else {})
        named = set(NAMED.findall(run.out))
        parts = (folders[key][by_hand[key]] for key in lists if key not in named)
        out = str(Path(_filled(run), *parts))
        if out in found:
            raise UsageError(f"out={run.out}: {out} would be the folder of two runs")
        run.settings["out"] = out
        found[out] = run
    return list(found.values())


def _check_option(recipe: Recipe, key: str, word: str) -> None:
    """Refuse a setting that is an option of a stage, with the right form of it."""
    if key in {*recipe.settings, *recipe.stages, *recipe.removed}:
        return
    name, value = key.replace("_", "-"), word.partition("=")[2]
    for stage in recipe.stages.values():
        names = (" ".join(stage.line.split()[:count]) for count in (2, 1))
        command = next((COMMANDS[name] for name in names if name in COMMANDS), None)
        if command and name in {option.name for option in command.options.values()}:
            raise UsageError(
                f"{word}: {key} is not a setting of this recipe, but an option of "
                f"{stage.name}; write {stage.name}='--{name} {value}'"
            )


def _is_unicode(text: str) -> bool:
    """Whether all of a text can be written as UTF-8; bytes of old file names cannot."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


def _filled(run: Run) -> str:
    """The folder `out` with the settings that it names."""
    for name in NAMED.findall(run.out):
        if name not in run.settings:
            hint = suggestion(name, run.settings)
            raise UsageError(
                f"out={run.out}: {name} is not a setting, which the name of a folder "
                f"could have{hint}"
            )
    return NAMED.sub(lambda name: _folder(str(run.settings[name[1]])), run.out)


def _folder(value: str) -> str:
    """A value as the name of a folder."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", value).strip("-.") or "none"


def _values(text: str) -> list[str]:
    return [part.replace("\\,", ",") for part in re.split(r"(?<!\\),", text)]


def _folders(key: str, values: Sequence[str]) -> dict[str, str]:
    """A folder for each value of a list: seed0, or the word itself."""
    found: dict[str, str] = {}
    for value in values:
        name = _folder(value)
        if re.fullmatch(r"[0-9.]+(e-?[0-9]+)?", name):
            name = f"{key}{name}"
        if name in found.values():
            raise UsageError(f"{key}={','.join(values)}: {value} is there twice")
        found[value] = name
    return found


def resolve(recipe: Recipe, by_hand: Mapping[str, Value]) -> Settings:
    """The settings of a run: by hand, else of the tables that apply, else the recipe's.

    Tables apply in the order of the recipe, so that one can decide about a later one.
    """
    by_hand = {key: _switch(recipe, key, value) for key, value in by_hand.items()}
    settings = {**recipe.settings, **by_hand}
    for name, cases in recipe.cases.items():
        value = str(settings[name])
        # Presets are checked by name, and a user's own one is as good.
        known = [*cases, str(recipe.settings[name])]
        if value not in known and name != "preset":
            raise UsageError(
                f"{name}={value}: expected one of {', '.join(dict.fromkeys(known))}"
            )
        for key, chosen in cases.get(value, {}).items():
            if key not in by_hand:
                settings[key] = chosen
    texts = {*settings} - {"out", *recipe.stages, *recipe.removed}
    return {
        k: _composed(k, settings, texts) if k in texts else settings[k]
        for k in settings
    }


def _composed(key: str, settings: Settings, texts: set[str]) -> Value:
    """A setting with the values of those that it names; these name none themselves."""
    value = settings[key]
    names = texts & {*NAMED.findall(value)} if isinstance(value, str) else set()
    for name in sorted(names):
        inner = str(settings[name])
        if texts & {*NAMED.findall(inner)}:
            raise UsageError(
                f"{key}={value}: names {name}, which is {inner}; a setting that is "
                "named must have a plain value"
            )
        value = str(value).replace(f"{{{name}}}", inner)
    return value


def _switch(recipe: Recipe, key: str, value: Value) -> Value:
    """Text for a setting that the recipe has as true or false, as one of them."""
    if not isinstance(recipe.settings.get(key), bool):
        return value
    if value not in SWITCHES:
        raise UsageError(f"{key}={value}: expected yes or no")
    return SWITCHES[str(value)]
