"""Tables and figures of a recipe: the runs to compare, and the steps that compare them.

    [tables]                     # defaults of every table, and the folder of the results
    out = "exp/{dataset}/tables"
    seeds = [0, 1, 2]            # one run of each line per seed
    file = "{linear@final}"      # the file of a run that a line shows

    [lines.parts]                # lines that several tables share
    FedSimCLR = "fedsimclr"      # LABEL = "ROW", more settings as KEY=VALUE, {file};
                                 # {upload@final}:3 is the file of client 3
    FedCA = "fedca"

    [table.1]
    title = "Table 1, {split}"
    over = { split = ["iid", "noniid"] }  # one table for each value
    lines = ["parts", { untrained = "fedsimclr {linear@0}" }]
    run = "compare --reference FedSimCLR" # or a list of commands: compare, plot bars
    published = { table = "linear" }      # rows of paper.csv, chosen by column
    settings = { rounds = 8 }             # settings of the table's runs

`plan RECIPE table=1` plans the runs of the lines, without steps that no line needs, and
one step for each command, with an option --series LABEL=FILE,... per line. A variable of
`over` or `for` may be a setting; {NAME} stands for the value. With
`for = { mu = [0.1, 1] }` a line with {mu} in the label is repeated for each value; a line
with {mu} only in the text shows the files of all values. A list may also be the name of a
setting in braces; the setting may depend on the variables before. `needs` lists further
runs, in the form of a line, that runs of lines read files of. `extends = "1"` starts with
the entries of another table; `over`, `for` and `settings` of both are merged. {recipe} and {folder} are the paths of the recipe, {table}
is the name of the table. `tables = ["1", "2"]` joins
tables under one name. `option` replaces --series; an empty option passes the files
without labels. `label = "{split}:{label}"` changes the label of every line.

paper.csv, beside the recipe, has the columns of `published`, columns named like settings
or variables, and last a label and a number.
"""

import csv
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.errors import InputError, UsageError
from furlkit.files.opening import LONGEST_LIST, read_bytes
from furlkit.recipes.expand import Plan, expand
from furlkit.recipes.read import (
    DEFAULTS,
    NAMED,
    PASSED,
    Recipe,
    Run,
    Settings,
    Stage,
    Value,
    filled_out,
    folder_name,
    listed_values,
    merged,
    run_of,
    suggestion,
)

KEY, PAPER, FILE = "table", "paper.csv", "{linear@final}"
KEYS = (
    *("title", "over", "for", "lines", "run", "file", "seeds", "published", "option"),
    *("label", "settings", "needs", "out", "tables", "extends"),
)
JOINED = ("over", "for", "settings")  # Merged with the entries of the extended table.
VARIED = ("row", "seed", "out")  # Settings that differ between the lines of a table.
# Settings by hand that the commands of tables get too.
PASSED_ON = [name for name in PASSED if name not in ("preset", "seed")]
Variables = dict[str, Value]


class Line(NamedTuple):
    """Files of one run under a label; `file` is a placeholder like {linear@final}."""

    label: str
    run: Run
    file: str


class Table(NamedTuple):
    """The entries of [table.NAME] for one choice of variables, with a line per run."""

    name: str
    recipe: Recipe
    entries: dict[str, Any]
    values: Variables
    lines: list[Line]

    def text(self, key: str, usual: str = "") -> str:
        """Return an entry with values in place of variables and settings."""
        return _filled(str(self.entries.get(key, usual)), self.values)


def chosen_tables(recipe: Recipe, given: Sequence[str]) -> list[str]:
    """Names of the tables in table=NAME words; empty for a plan of ordinary runs."""
    words = [word for word in given if word.startswith(f"{KEY}=")]
    names = [name for word in words for name in word.partition("=")[2].split(",")]
    known = _section(recipe, KEY)
    found: list[str] = []
    for name in names:
        if name not in known:
            raise UsageError(f"{KEY}={name}: no such table{suggestion(name, known)}")
        found += known[name].get("tables", [name])
    return list(dict.fromkeys(found))


def plan_tables(recipe: Recipe, given: Sequence[str], group: int) -> list[Plan]:
    """Plans of the runs that tables need, then plans of the tables."""
    settings = [word for word in given if not word.startswith(f"{KEY}=")]
    lists = listed_values(recipe, settings)
    names = chosen_tables(recipe, given)
    tables = [one for name in names for one in _tables(recipe, name, lists)]
    runs = _runs(line for table in tables for line in table.lines)
    plans = {out: expand(run, group) for out, run in runs.items()}
    folders: dict[str, list[Table]] = {}
    for table in tables:
        folder = table.text("out", f"{recipe.settings['out']}/tables")
        folders.setdefault(str(Path(folder)), []).append(table)
    passed = {k: values[0] for k, values in lists.items() if k in PASSED_ON}
    found = [_run(out, each, plans, passed) for out, each in folders.items()]
    return [*plans.values(), *map(expand, found)]


# --- declarations -------------------------------------------------------------------------


def _section(recipe: Recipe, name: str) -> dict[str, Any]:
    found = recipe.declared.get(name, {})
    if not isinstance(found, dict):
        raise InputError(f"{recipe.path}: expected tables [{name}.NAME]")
    return found


def _tables(
    recipe: Recipe, name: str, lists: Mapping[str, list[str]]
) -> Iterator[Table]:
    """Tables of a declaration: one for each choice of the variables in `over`."""
    entries = _entries(recipe, name)
    where = f"{recipe.path}: [{KEY}.{name}]"
    for key in entries.keys() - {*KEYS}:
        raise InputError(f"{where}: {key}: unknown{suggestion(key, KEYS)}")
    for key in {"lines", "run"} - entries.keys():
        raise InputError(f"{where}: has no {key}")
    swept = {*entries.get("over", {}), *entries.get("for", {}), "seed"}
    for key in [k for k, v in lists.items() if len(v) > 1 and k not in swept]:
        raise UsageError(
            f"{key}={','.join(lists[key])}: the table {name} takes one value of {key}"
        )
    seeds = lists.get("seed", entries.get("seeds", [0]))
    by_hand: Settings = {k: v[0] for k, v in lists.items() if k not in swept}
    for choice in _choices(recipe, entries.get("over", {}), lists, by_hand):
        own = entries.get("settings", {})
        base = {**own, **by_hand, **_settings(recipe, choice)}
        places = {"recipe": str(recipe.path), "folder": str(recipe.path.parent)}
        places |= {KEY: name}
        usual = run_of(recipe, {"seed": seeds[0], **base}).settings
        # More options of a stage may have the name of a file.
        others = {*VARIED, *recipe.stages, *recipe.files}
        known = {k: usual[k] for k in recipe.settings if k not in others}
        values = {**places, **known, **choice}
        words = [name, *(folder_name(str(value)) for value in choice.values())]
        table = Table("-".join(words), recipe, entries, values, [])
        repeated = [*_choices(recipe, entries.get("for", {}), lists, base)]
        table.lines.extend(_lines(table, base, repeated, seeds))
        yield table


def _entries(recipe: Recipe, name: str) -> dict[str, Any]:
    """Entries of [tables], of the extended tables, and of the table; the last wins."""
    known, names = _section(recipe, KEY), [name]
    while base := known[names[-1]].get("extends"):
        if base not in known or base in names:
            where = f"{recipe.path}: [{KEY}.{names[-1]}]"
            raise InputError(f"{where}: extends {base!r}, expected another table")
        names.append(base)
    found: dict[str, Any] = {}
    for each in reversed(names):
        own = known[each]
        both = {k: own[k] for k in JOINED if k in own}
        found = {**found, **own, **merged({k: found.get(k) for k in both}, both)}
    return {**_section(recipe, "tables"), **found}


def _choices(
    recipe: Recipe,
    variables: Mapping[str, Any],
    lists: Mapping[str, list[str]],
    by_hand: Mapping[str, Value],
) -> Iterator[Variables]:
    """Every choice of values; values by hand replace the values of the recipe."""
    found: list[Variables] = [{}]
    for key, values in variables.items():
        found = [
            {**choice, key: value}
            for choice in found
            for value in lists.get(key)
            or _listed(recipe, key, values, {**by_hand, **_settings(recipe, choice)})
        ]
    yield from found


def _listed(
    recipe: Recipe, key: str, values: Any, by_hand: Mapping[str, Value]
) -> list[str]:
    """Values of a variable: a list, or the name of a setting in braces."""
    named = NAMED.fullmatch(values) if isinstance(values, str) else None
    found = run_of(recipe, by_hand).settings.get(named[1]) if named else values
    if not isinstance(found, list):
        raise InputError(f"{recipe.path}: {key} = {values!r}: expected a list")
    return [str(value) for value in found]


def _settings(recipe: Recipe, variables: Mapping[str, Value]) -> Settings:
    """Variables that are settings of the recipe."""
    return {key: value for key, value in variables.items() if key in recipe.settings}


def _lines(
    table: Table, base: Settings, repeated: list[Variables], seeds: Sequence[Value]
) -> Iterator[Line]:
    """Lines of every choice of the variables in `for`, and of every seed."""
    known: set[str] = set()
    form = str(table.entries.get("label", "{label}"))
    for name, text in _declared_lines(table):
        label = form.replace("{label}", name) if name else ""
        for choice in repeated:
            values = {**table.values, **choice}
            words = shlex.split(_filled(text, values))
            files = [word for word in words if word.startswith("{")]
            file = _filled((files or [table.entries.get("file", FILE)])[0], values)
            used = {k: v for k, v in choice.items() if f"{{{k}}}" in label + text}
            own = dict(_setting(word) for word in words if word not in files)
            settings = {**base, **_settings(table.recipe, used), **own}
            title = _filled(label, values)
            if (key := f"{title} {settings} {file}") not in known:
                known.add(key)
                for seed in seeds:
                    yield _line(table.recipe, title, {**settings, "seed": seed}, file)


def _line(recipe: Recipe, label: str, settings: Settings, file: str) -> Line:
    run = run_of(recipe, settings)
    run.settings["out"] = str(Path(filled_out(run)))
    return Line(label, run, file)


def _declared_lines(table: Table) -> Iterator[tuple[str, str]]:
    """Labels and texts of a table's lines, from [lines.NAME] or from the table."""
    given, shared = table.entries["lines"], _section(table.recipe, "lines")
    for text in table.entries.get("needs", ()):
        yield "", text
    for part in given if isinstance(given, list) else [given]:
        if isinstance(part, str) and part not in shared:
            hint = suggestion(part, shared)
            raise InputError(
                f"{table.recipe.path}: lines = {part!r}: no table [lines.{part}]{hint}"
            )
        for label, text in (shared[part] if isinstance(part, str) else part).items():
            yield label, str(text)


def _setting(word: str) -> tuple[str, str]:
    """KEY=VALUE; a word without = is a row."""
    key, equals, value = word.partition("=")
    return (key, value) if equals else ("row", word)


def _filled(text: str, values: Mapping[str, Value]) -> str:
    """Text with values in place of {NAME}; other placeholders stay."""
    return NAMED.sub(
        lambda found: str(values[found[1]]) if found[1] in values else found[0], text
    )


# --- runs ---------------------------------------------------------------------------------


def _runs(lines: Iterable[Line]) -> dict[str, Run]:
    """Runs of lines by folder, with the wanted files of all lines."""
    runs: dict[str, Run] = {}
    for label, run, file in lines:
        known = runs.setdefault(run.out, run)
        other = known.settings
        keys = [k for k, v in run.settings.items() if str(v) != str(other.get(k))]
        if keys:
            raise InputError(
                f"{run.recipe.path}: {label}: {run.out} would be the folder of two runs, "
                f"which differ in {', '.join(keys)}; name these settings in `out`"
            )
        wanted = tuple(dict.fromkeys([*known.wanted, file]))
        runs[run.out] = replace(known, wanted=wanted)
    return runs


def _run(
    out: str,
    tables: Sequence[Table],
    plans: Mapping[str, Plan],
    passed: Mapping[str, Value],
) -> Run:
    """Run with the commands of tables as stages, and the files of other runs as inputs."""
    inputs: dict[str, str] = {}  # By path, the name.
    stages: dict[str, Stage] = {}
    files: dict[str, str] = {}
    for table in tables:
        series: dict[str, list[str]] = {}
        for line in [line for line in table.lines if line.label]:
            for path in plans[line.run.out].found[line.file]:
                name = inputs.setdefault(path, f"input_{len(inputs)}")
                series.setdefault(line.label, []).append(f"{{{name}}}")
        for file, words in _commands(table):
            stage = re.sub(r"\W+", "_", f"table_{file}")
            words = [*words, *_series(table, series), "-o", f"{{{stage}}}"]
            stages[stage], files[stage] = Stage(stage, " ".join(words)), file
    settings = {**DEFAULTS, **passed, "out": out}
    names = {name: path for path, name in inputs.items()}
    recipe = tables[0].recipe
    return Run(Recipe(recipe.path, settings, files, stages, inputs=names), settings)


def _commands(table: Table) -> Iterator[tuple[str, list[str]]]:
    """Files that the commands of a table write, and the quoted words of the commands."""
    given = table.entries["run"]
    names: list[str] = []
    for text in given if isinstance(given, list) else [given]:
        words = shlex.split(_filled(text, table.values))
        suffix = ".csv" if words[0] == "compare" else ".png"
        same = sum(name.endswith(suffix) for name in names)
        names.append(f"{table.name}{f'-{same + 1}' if same else ''}{suffix}")
        if table.entries.get("title") and "--title" not in words:
            words += ["--title", table.text("title")]
        if words[0] == "compare" and "--claims" not in words:
            words += _published(table)
        yield names[-1], [_quoted(word) for word in words]


def _series(table: Table, series: Mapping[str, Sequence[str]]) -> Iterator[str]:
    option = table.entries.get("option", "--series")
    for label, files in series.items():
        joined = ",".join(files)
        yield f"{option} {_quoted(f'{label}={joined}')}" if option else " ".join(files)


def _quoted(word: str) -> str:
    """Quote a word for the command line of a stage, in which brackets have a meaning."""
    if "[" in word or "]" in word:
        raise InputError(f"{word!r}: a command of a table cannot contain brackets")
    return shlex.quote(word)


def _published(table: Table) -> Iterator[str]:
    """Options of compare for the rows of paper.csv that fit the table."""
    if "published" not in table.entries:
        return
    path, labels = table.recipe.path.parent / PAPER, {e.label for e in table.lines}
    chosen = table.entries["published"].items()
    known = {**table.values, **{k: _filled(str(v), table.values) for k, v in chosen}}
    text = read_bytes(path, LONGEST_LIST).decode(errors="replace")
    for row in csv.DictReader(text.splitlines()):
        *columns, (_, label), (_, number) = row.items()
        if label in labels and all(str(known.get(k)) == v for k, v in columns):
            yield from ("--published", f"{label}={number}")
