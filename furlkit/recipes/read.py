"""Read a recipe: settings, files and stages, and the settings of one run.

A recipe is a TOML file. [settings] has values that the command line can change; [files]
names the files of a run; [inputs] names files outside of the run's folder, like files of
another run; [stages] has one command line per stage; [resources] is for clusters (see
`recipes.resources`); [table.NAME] declares a table or figure (see `recipes.tables`).

A table [SETTING.VALUE] applies if SETTING is VALUE. The table may set settings, and may
change [SETTING.VALUE.stages], files and inputs like a recipe that extends this recipe;
with `extends = "OTHER"`, the table [SETTING.OTHER] applies first. A command line that
starts with `...` continues the line of the extended recipe or table. VALUE may be a
pattern like "{rounds}x{epochs}": 2x10 sets rounds to 2 and epochs to 10.

With `extends = "FILE"`, a recipe inherits every entry of another recipe that the recipe
does not set. A setting may contain other settings, like
data = "{folder}/train-{seed}.safetensors".

A run may have phases with separate rounds before the main rounds: a file with
{PHASE_round} in the name belongs to PHASE, and PHASE_rounds is the number of rounds.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from os.path import realpath
from pathlib import Path
from typing import Any

from furlkit import presets
from furlkit.catalogue import command_at
from furlkit.errors import FurlkitError, InputError, UsageError, did_you_mean
from furlkit.files.opening import read_toml

Value = str | int | float | bool | list[Any]
Settings = dict[str, Value]

# Settings of every recipe. `without`: clients that never train.
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
# Settings about the place of the data; these settings change no byte of a result.
PLACES = ("data_root", "download", "cache")
# Settings passed to every stage with a command that has an option of this name.
PASSED = ("preset", "seed", "threads", "isa", "device", *PLACES)
SECTIONS = ("stages", "files", "inputs")
DECLARED = ("tables", "table", "lines", "claims")  # See `recipes.tables`.
TABLES = ("settings", *SECTIONS, "resources", *DECLARED)
# Placeholders of every step; a recipe cannot use these names for settings or files.
COUNTERS = ("round", "client", "participants")
CONTINUED = "..."  # The start of a command line that continues another line.
SWITCHES = {"yes": True, "true": True, "no": False, "false": False, "": False}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
NAMED = re.compile(rf"\{{({NAME.pattern})\}}")
ROUND = re.compile(r"\{(?:([A-Za-z]\w*)_)?round\}")


@dataclass(frozen=True)
class Stage:
    """A command line with placeholders, and the rounds: "0 last", "every 5"."""

    name: str
    line: str
    rounds: str = ""


@dataclass(frozen=True)
class Recipe:
    """A recipe merged with the recipes it extends; `cases`: tables [SETTING.VALUE].

    `removed`: stages of the extended recipe that this recipe drops. `inputs`: files that
    no stage writes; an input hides a file with an equal name.
    `resources`: resources of cluster jobs (see `recipes.resources`). `declared`: tables
    and figures (see `recipes.tables`). `presets`: see `preset_tables`.
    """

    path: Path
    settings: Settings
    files: dict[str, str]
    stages: dict[str, Stage]
    cases: dict[str, dict[str, Settings]] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    inputs: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict)
    presets: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A recipe with the settings of one run; the folder of the run is `out`.

    `preset` has the tables of the run's preset. `wanted`: placeholders of files, like
    {linear@final}; a run with wanted files has only the steps that these files need.
    """

    recipe: Recipe
    settings: Settings
    preset: dict[str, Any] = field(default_factory=dict)
    wanted: tuple[str, ...] = ()

    @property
    def out(self) -> str:
        """Folder of the run."""
        return str(self.settings["out"])

    @property
    def values(self) -> Settings:
        """Settings for placeholders: all settings but the options of stages."""
        stages = self.recipe.stages
        return {k: v for k, v in self.settings.items() if k not in stages}

    @property
    def phases(self) -> list[str]:
        """Phases in the order of the files; the main rounds, "", come last."""
        paths = [*self.recipe.files.values(), *self.recipe.inputs.values()]
        named = (match[1] or "" for path in paths for match in ROUND.finditer(path))
        found = (name for name in named if f"{name}_rounds" in self.settings)
        return [*dict.fromkeys(found), ""]

    def rounds(self, phase: str = "") -> int:
        """Number of rounds of a phase."""
        return self.number(f"{phase}_rounds" if phase else "rounds")

    def number(self, name: str) -> int:
        """Return a setting as a whole number."""
        value = self.settings[name]
        try:
            return int(str(value))
        except ValueError as error:
            raise UsageError(f"{name}={value}: expected a whole number") from error


def read(path: Path) -> Recipe:
    """Read a recipe and the recipes it extends."""
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
    declared = {name: tables[name] for name in DECLARED if name in tables}
    recipe = Recipe(
        path, known, files, stages, cases, removed, inputs, resources, declared
    )
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
        raise InputError(f"{path}: extends {base}: no such file")
    return merged(_tables(path.parent / base, (*above, realpath(path))), own)


def merged(
    base: dict[str, Any], own: dict[str, Any], within: str = ""
) -> dict[str, Any]:
    """Merge tables key by key; values of `own` win, and new keys come last.

    `within`: the key of both tables.
    """
    found = dict(base)
    for key, value in own.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        if within == "stages" and key in base:
            found[key] = _continued(base[key], value)
        else:
            found[key] = merged(base[key], value, key) if both else value
    return found


def _continued(base: Any, own: Any) -> Any:
    """Merge two declarations of a stage; `...` stands for the line of the base."""
    before, after = (e if isinstance(e, dict) else {"run": e} for e in (base, own))
    line, text = before.get("run"), after.get("run")
    if line and isinstance(text, str) and text.startswith(CONTINUED):
        return {**before, **after, "run": f"{line}{text.removeprefix(CONTINUED)}"}
    return {**base, **own} if isinstance(own, dict) and base == before else own


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
        value = {"run": value}
    if isinstance(value, dict) and value.keys() <= {"run", "rounds"} and "run" in value:
        run, rounds = value["run"], value.get("rounds", "")
        if isinstance(run, str) and run.startswith(CONTINUED):
            raise InputError(
                f"{path}: [stages] {name}: starts with {CONTINUED}, but there is no line "
                "to continue"
            )
        if isinstance(run, str) and isinstance(rounds, str | int):
            return Stage(name, run, str(rounds))
    raise InputError(
        f"{path}: [stages] {name}: expected a command line, or "
        '{ run = "COMMAND LINE", rounds = "0 last" }'
    )


def _with_sections(recipe: Recipe, tables: dict[str, Any]) -> Recipe:
    """Change the stages, files and inputs of a recipe; an empty line removes a stage."""
    stages = dict(recipe.stages)
    lines = _section(recipe.path, tables, "stages")
    for name, line in lines.items():
        if name in stages:
            base = {"run": stages[name].line, "rounds": stages[name].rounds}
            line = _continued(base, line)
        if line == "":
            stages.pop(name, None)
        else:
            stages[name] = _stage(recipe.path, name, line)
    removed = {*recipe.removed, *recipe.stages, *lines} - stages.keys()
    files = {**recipe.files, **_paths(recipe.path, tables, "files")}
    inputs = {**recipe.inputs, **_paths(recipe.path, tables, "inputs")}
    return replace(
        recipe, stages=stages, files=files, inputs=inputs, removed=tuple(removed)
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
                f"{recipe.path}: [{name}] is neither a setting of the recipe nor one of "
                f"{', '.join(TABLES)}{hint}"
            )
        for value, table in cases.items() if isinstance(cases, dict) else [(cases, 0)]:
            if not isinstance(table, dict):
                raise InputError(
                    f"{recipe.path}: [{name}] has {value}, expected tables "
                    f"[{name}.VALUE]"
                )
            _check_case(recipe, name, value)
    for name in recipe.settings:
        if name in {**recipe.files, **recipe.inputs} and name not in recipe.stages:
            raise InputError(f"{recipe.path}: {name} is both a setting and a file")


def _check_case(recipe: Recipe, name: str, value: str) -> None:
    """Check a table [SETTING.VALUE]: settings, and sections like a recipe's."""
    where = f"{recipe.path}: [{name}.{value}]"
    own: dict[str, Any] = dict(recipe.cases[name][value])
    if (base := own.pop("extends", value)) not in recipe.cases[name]:
        known = ", ".join(recipe.cases[name])
        raise InputError(f"{where}: extends {base!r}, expected one of {known}")
    variant = recipe
    for table in _extended(recipe, name, value):
        variant = _with_sections(variant, table)
    own = {key: entry for key, entry in own.items() if key not in SECTIONS}
    _check_names(recipe, [*NAMED.findall(value), *own], where, InputError)
    _check_values(own, where)


def _check_names(
    recipe: Recipe, names: Iterable[str], where: str, error: type[FurlkitError]
) -> None:
    """Raise unless every name is a setting, or a stage that gets more options.

    A removed stage may have options too: the options do no harm, and equal words then
    fit this recipe and the recipe it extends.
    """
    known = {*recipe.settings, *_stage_names(recipe)}
    for name in names:
        if name not in known:
            hint = suggestion(name, known)
            raise error(f"{where}: {name} is not a setting of this recipe{hint}")


def _stage_names(recipe: Recipe) -> set[str]:
    """Stages of the recipe, removed stages, and stages of tables [SETTING.VALUE]."""
    tables: list[dict[str, Any]] = [
        table for cases in recipe.cases.values() for table in cases.values()
    ]
    more = {name for table in tables for name in table.get("stages", ())}
    return {*recipe.stages, *recipe.removed, *more}


def _check_values(table: Mapping[str, Any], where: str) -> None:
    """Raise unless every value is text, a number, true, false or a list."""
    for name, value in table.items():
        for one in value if isinstance(value, list) else [value]:
            endless = isinstance(one, float) and not isfinite(one)
            if endless or not isinstance(one, str | int | float):
                raise InputError(
                    f"{where} {name} is {value!r}, expected text, a number, true, "
                    "false or a list"
                )


def suggestion(name: str, known: Iterable[str]) -> str:
    """Suggest a similar name, or list every name."""
    known = sorted(known)
    return did_you_mean(name, known) or f"; expected one of {', '.join(known)}"


def runs(recipe: Recipe, given: Sequence[str]) -> list[Run]:
    """Runs for KEY=VALUE words: one run, or one run per combination of listed values.

    A list has commas between the values (`\\,` is a comma within a value), or repeats
    the key. Options of a stage are never a list, since options may contain commas.
    Each run has a separate folder below `out`. If `out` contains settings, like
    exp/{row}/{seed}, `out` is the folder of the run.
    """
    swept = listed_values(recipe, given)
    lists = {key: values for key, values in swept.items() if len(values) > 1}
    folders = {key: _folders(key, values) for key, values in lists.items()}
    found: dict[str, Run] = {}
    for chosen in itertools.product(*swept.values()):
        by_hand = dict(zip(swept, chosen, strict=True))
        run = run_of(recipe, by_hand)
        named = set(NAMED.findall(str(run.settings["out"])))
        parts = (folders[key][by_hand[key]] for key in lists if key not in named)
        out = str(Path(filled_out(run), *parts))
        if out in found:
            raise UsageError(f"out={run.out}: {out} would be the folder of two runs")
        run.settings["out"] = out
        found[out] = run
    return list(found.values())


def listed_values(recipe: Recipe, given: Sequence[str]) -> dict[str, list[str]]:
    """Values of each setting in KEY=VALUE words; a list has commas between the values."""
    swept: dict[str, list[str]] = {}
    for word in given:
        key, equals, text = word.partition("=")
        if not equals:
            raise UsageError(f"{word}: expected KEY=VALUE")
        if not _is_unicode(word):
            raise UsageError(f"{word!r}: expected text in UTF-8")
        _check_option(recipe, key, word)
        _check_names(recipe, [key], word, UsageError)
        values = [text] if key in _stage_names(recipe) else _values(text)
        swept.setdefault(key, []).extend(values)
    return swept


def run_of(recipe: Recipe, by_hand: Mapping[str, Value]) -> Run:
    """One run with these settings; the name of the folder, `out`, is not filled yet."""
    variant, settings = resolve(recipe, by_hand)
    return Run(variant, settings, preset_tables(recipe, str(settings["preset"])))


def preset_tables(recipe: Recipe, name: str) -> dict[str, Any]:
    """Tables of a preset; a recipe reads a preset once."""
    if name and name not in recipe.presets:
        recipe.presets[name] = presets.tables(name)
    return recipe.presets[name] if name else {}


def _check_option(recipe: Recipe, key: str, word: str) -> None:
    """Refuse a setting that is an option of a stage, and show the right form."""
    if key in {*recipe.settings, *_stage_names(recipe)}:
        return
    name, value = key.replace("_", "-"), word.partition("=")[2]
    for stage in recipe.stages.values():
        command = command_at(stage.line.split())
        if command and name in {option.name for option in command.options.values()}:
            raise UsageError(
                f"{word}: {key} is not a setting of this recipe, but an option of "
                f"{stage.name}; write {stage.name}='--{name} {value}'"
            )


def _is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode a text; bytes of old file names cannot be encoded."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


def filled_out(run: Run) -> str:
    """Folder `out` with settings in place of placeholders."""
    for name in NAMED.findall(run.out):
        if name not in run.settings:
            hint = suggestion(name, run.settings)
            raise UsageError(
                f"out={run.out}: {name} is not a setting; the name of a folder may "
                f"contain settings only{hint}"
            )
    return NAMED.sub(lambda name: folder_name(str(run.settings[name[1]])), run.out)


def folder_name(value: str) -> str:
    """Name of a folder for a value."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", value).strip("-.") or "none"


def _values(text: str) -> list[str]:
    return [part.replace("\\,", ",") for part in re.split(r"(?<!\\),", text)]


def _folders(key: str, values: Sequence[str]) -> dict[str, str]:
    """Folder for each value of a list: seed0 for a number, else the value."""
    found: dict[str, str] = {}
    for value in values:
        name = folder_name(value)
        if re.fullmatch(r"[0-9.]+(e-?[0-9]+)?", name):
            name = f"{key}{name}"
        if name in found.values():
            raise UsageError(f"{key}={','.join(values)}: lists {value} twice")
        found[value] = name
    return found


def resolve(recipe: Recipe, by_hand: Mapping[str, Value]) -> tuple[Recipe, Settings]:
    """Recipe and settings of a run: by hand, else from a matching table, else usual.

    Tables apply in the order of the recipe, so a table can select a later table.
    """
    by_hand = {key: _switch(recipe, key, value) for key, value in by_hand.items()}
    settings = {**recipe.settings, **by_hand}
    for name, cases in recipe.cases.items():
        value, parts = _matched(cases, str(settings[name]))
        # Presets are checked by name elsewhere; a user's preset file is allowed.
        known = [*cases, str(recipe.settings[name])]
        if value not in known and name != "preset":
            raise UsageError(
                f"{name}={value}: expected one of {', '.join(dict.fromkeys(known))}"
            )
        settings |= {k: v for k, v in parts.items() if k not in by_hand}
        for table in _extended(recipe, name, value):
            if not table.keys().isdisjoint(SECTIONS):
                recipe = _with_sections(recipe, table)
            own = {k: v for k, v in table.items() if k not in (*SECTIONS, "extends")}
            settings |= {k: v for k, v in own.items() if k not in by_hand}
    texts = {*settings} - {"out", *recipe.stages, *recipe.removed}
    return recipe, {
        k: _composed(k, settings, texts) if k in texts else settings[k]
        for k in settings
    }


def _matched(cases: Iterable[str], value: str) -> tuple[str, dict[str, str]]:
    """Name of the table for a value, and the settings in the name, if a pattern."""
    for case in cases if value and value not in cases else ():
        words = NAMED.split(case)  # Text, name, text, name, text.
        text = [re.escape(word) for word in words[::2]]
        found = re.fullmatch(r"([\w.]+?)".join(text), value)
        if found and words[1::2]:
            return case, dict(zip(words[1::2], found.groups(), strict=True))
    return value, {}


def _extended(recipe: Recipe, name: str, value: str) -> list[dict[str, Any]]:
    """Table [SETTING.VALUE] after the tables that it extends."""
    found: dict[str, dict[str, Any]] = {}
    while value in recipe.cases[name]:
        if value in found:
            raise InputError(f"{recipe.path}: [{name}.{value}] extends itself")
        found[value] = recipe.cases[name][value]
        value = found[value].get("extends", "")
    return [*found.values()][::-1]


def _composed(key: str, settings: Settings, texts: set[str]) -> Value:
    """Setting with values in place of named settings, which must be plain values."""
    value = settings[key]
    names = texts & {*NAMED.findall(value)} if isinstance(value, str) else set()
    for name in sorted(names):
        inner = str(settings[name])
        if texts & {*NAMED.findall(inner)}:
            raise UsageError(
                f"{key}={value}: names {name}, which is {inner}; a named setting must "
                "have a plain value"
            )
        value = str(value).replace(f"{{{name}}}", inner)
    return value


def _switch(recipe: Recipe, key: str, value: Value) -> Value:
    """Parse yes or no for boolean settings."""
    if not isinstance(recipe.settings.get(key), bool):
        return value
    if value not in SWITCHES:
        raise UsageError(f"{key}={value}: expected yes or no")
    return SWITCHES[str(value)]
