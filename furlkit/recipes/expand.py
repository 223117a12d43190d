"""Expand a recipe into the steps of a run, with commands and files."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from furlkit.errors import InputError, UsageError
from furlkit.recipes.participants import ROUNDINGS, draw
from furlkit.recipes.read import COUNTERS, ROUND, Run, suggestion
from furlkit.recipes.template import (
    PLACEHOLDER,
    Ref,
    Template,
    Word,
    path_of,
    ref_of,
    templates,
)

MOST_STEPS = 10**7
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# A path that begins like an option or a home folder gets the prefix "./".
OPTION_LIKE = ("-", "~")
Round = int | None  # None: outside of rounds.
Clients = tuple[int, ...]
Found = tuple[list[str], list[str]]  # Words of a command, and paths of the files.
Written = dict[Ref, tuple[str, list[str]]]  # By output, the word and the paths.


class Step(NamedTuple):
    """One command of a run, in a round of a phase; phase "" has the main rounds.

    `after`: files to wait for, namely outputs of the steps that write the files in
    `reads`, and the record of the stage. `outputs` are written last, one per client.
    """

    stage: str
    phase: str
    round: Round
    clients: Clients
    command: list[str]
    reads: list[str]
    after: list[str]
    writes: list[str]
    outputs: list[str]
    trains: bool


class Plan(NamedTuple):
    """Steps of a run in an executable order, and the records of the stages.

    `samples` has one step per stage and choice of optional parts. `found`: the paths of
    the run's wanted files.
    """

    run: Run
    steps: list[Step]
    records: dict[str, str]
    samples: list[Step]
    found: dict[str, list[str]]


def expand(run: Run, group: int = 1) -> Plan:
    """Return the plan of a run; one command trains `group` clients."""
    return _Expansion(run, group).plan()


def noted_in(run: Run, name: str) -> str:
    """Path of a file about the plan, in the run's folder."""
    return f"{_folder(run)}plan/{name}"


def record_path(run: Run, stage: str, text: str) -> str:
    """Path of the file with the settings of a stage.

    The name has a hash of the settings. Make rules with old settings depend on a file
    with another hash, now deleted, so an old rule file cannot write into a newer run.
    """
    return noted_in(run, f"{stage}-{sha256(text.encode()).hexdigest()[:8]}.txt")


def _folder(run: Run) -> str:
    out = str(Path(run.out))
    if out == ".":
        return ""
    return f"{'./' * out.startswith(OPTION_LIKE)}{out.rstrip('/')}/"


class _MissingError(Exception):
    """A step reads a file without an earlier step to write the file."""


class _File:
    """Files of a name: a pattern with a round and {client} in a folder.

    This run does not write `given` files. `phase`: the phase of the file's round.
    """

    def __init__(self, folder: str, pattern: str, given: bool):
        self._path, self.given = folder + pattern, given
        counted = ROUND.search(pattern)
        self.by_round, self.by_client = counted is not None, "{client}" in pattern
        self.phase = (counted[1] or "") if counted else ""
        self._of_round = cache(lambda n: folder + ROUND.sub(f"{n:03d}", pattern))

    def path(self, number: Round, client: int | str) -> str:
        """Path of the file of a round and a client."""
        path = self._of_round(number) if self.by_round else self._path
        return path.replace("{client}", str(client)) if self.by_client else path


def _ordered(stages: list[Template]) -> list[Template]:
    """Order of the recipe, but each stage after the writers of the files it reads.

    Only files of the current round matter. New stages come last in a recipe with
    `extends`.
    """
    left, found = list(stages), []
    while left:
        made = {ref.name: stage for stage in left for ref in stage.outputs}
        ready = (
            stage for stage in left
            if all(made.get(r.name, stage) is stage for r in stage.inputs if _now(r))
        )  # fmt: skip
        found.append(next(ready, left[0]))
        left.remove(found[-1])
    return found


def _now(ref: Ref) -> bool:
    """Return whether a placeholder may refer to files of the stage's round."""
    return not ref.at or (ref.at == "own" and ref.every)


def _needed(steps: list[Step], found: dict[str, list[str]]) -> list[Step]:
    """Steps that write the files found, and every step that these steps need."""
    paths = {path for paths in found.values() for path in paths}
    needed = []
    for step in reversed(steps):
        if not paths.isdisjoint(step.writes):
            needed.append(step)
            paths.update(step.reads)
    return needed[::-1]


class _Expansion:
    """State of the expansion: the files planned so far, and the steps that write them."""

    def __init__(self, run: Run, group: int):
        self.run, self.group = run, group
        self.last = {phase: run.rounds(phase) for phase in run.phases}
        self.phase = ""  # Phase of the current stage.
        self.templates = templates(run)
        self.steps: list[Step] = []
        self.samples: dict[tuple[str, ...], Step] = {}
        # made: by path, the output to wait for; own: by file and client, the last round.
        self.made: dict[str, str] = {}
        self.own: dict[tuple[str, int], int] = {}
        self.shared: dict[tuple[Ref, Round], Found] = {}
        self.missing: dict[str, Ref] = {}  # By stage, the unreadable placeholder.
        texts = {name: t.text for name, t in self.templates.items()}
        self.records = {name: record_path(run, name, texts[name]) for name in texts}
        self._files: dict[str, _File] = {}
        self._check_numbers()

    def _check_numbers(self) -> None:
        for phase, last in self.last.items():
            name = f"{phase}_rounds" if phase else "rounds"
            if last < 0:
                raise UsageError(f"{name}={last}: expected 0 or more")
            if last * self.run.number("clients") > MOST_STEPS:
                raise UsageError(
                    f"{name}={last} and clients={self.run.settings['clients']}: "
                    f"expected up to {MOST_STEPS:,} trainings"
                )
        if self.run.settings["keep"] not in ("all", "last"):
            raise UsageError(f"keep={self.run.settings['keep']}: expected all or last")
        if "{client}" in self.run.out or CONTROL.search(self.run.out):
            raise UsageError(f"out={self.run.out!r}: cannot be the name of a folder")

    @cached_property
    def clients(self) -> Clients:
        """Clients that may train: all but `without`."""
        without = set(str(self.run.settings["without"]).replace(",", " ").split())
        count = self.run.number("clients")
        found = tuple(c for c in range(count) if str(c) not in without)
        if len(found) + len(without) > max(count, 0):
            raise UsageError(
                f"without={self.run.settings['without']}: expected numbers of clients, "
                f"0 to {count - 1}"
            )
        if not found:
            raise UsageError(f"clients={count}: no client takes part")
        return found

    @property
    def rounding(self) -> str:
        """Rounding of the number of clients per round."""
        word = str(self.run.settings["rounding"])
        if word not in ROUNDINGS:
            raise UsageError(f"rounding={word}: expected {' or '.join(ROUNDINGS)}")
        return word

    @cached_property
    def participants(self) -> dict[str, list[Clients]]:
        """By phase, the clients of each round; round 0 has every client."""
        text = self.run.settings["fraction"]
        try:
            share, _, whole = str(text).partition("/")
            fraction = float(share) / float(whole or 1)
        except (ValueError, ZeroDivisionError) as error:
            raise UsageError(f"fraction={text}: expected a number") from error
        if not 0 < fraction <= 1:
            raise UsageError(f"fraction={text}: expected a value in (0, 1]")
        if fraction == 1:
            return {phase: [self.clients] * (n + 1) for phase, n in self.last.items()}
        seed, rounding = self.run.number("seed"), self.rounding
        return {
            phase: [
                self.clients,
                *(tuple(draw(self.clients, fraction, seed, r, phase, rounding))
                  for r in range(1, last + 1)),
            ]
            for phase, last in self.last.items()
        }  # fmt: skip

    def plan(self) -> Plan:
        """Expand the stages before the rounds, then each round, then the stages after.

        With several phases, phase by phase; a stage between two phases follows the first.
        """
        once = self._once()
        self._expand_once(once[0])
        for phase, after in zip(self.last, once[1:], strict=True):
            self._expand_rounds(phase)
            self._expand_once(after)
        if not self.run.wanted:
            self._check_all_run()
        found = {text: self._wanted(text) for text in self.run.wanted}
        steps = _needed(self.steps, found) if found else self.steps
        stages = {step.stage for step in steps}
        records = {n: t.text for n, t in self.templates.items() if n in stages}
        samples = [step for step in self.samples.values() if step.stage in stages]
        return Plan(self.run, steps, records, samples, found)

    def _wanted(self, text: str) -> list[str]:
        """Paths of the files of a placeholder: {linear@final}, {upload@1}:3 of client 3."""
        name, _, client = text.partition(":")
        clients = (int(client),) if client.isdecimal() else ()
        match = PLACEHOLDER.fullmatch(name)
        if not match or match[1] not in {**self.run.recipe.files, **self._written}:
            hint = suggestion(text, [f"{{{name}}}" for name in self.run.recipe.files])
            raise InputError(f"{self.run.recipe.path}: {text} is no file{hint}")
        try:
            return self._first(ref_of(match).choices, None, clients)[1]
        except _MissingError as error:
            raise InputError(
                f"{self.run.recipe.path}: {text}: no step of {self.run.out} writes this "
                "file"
            ) from error

    @property
    def _written(self) -> dict[str, Ref]:
        refs = (ref for t in self.templates.values() for ref in t.outputs)
        return {ref.name: ref for ref in refs}

    def _expand_once(self, stages: list[Template]) -> None:
        first = len(self.steps)
        for template in stages:
            self._expand(template, None)
        self._note_own(self.steps[first:])

    def _expand_rounds(self, phase: str) -> None:
        every = (t for t in self.templates.values() if self._by_round(t.main))
        stages = [t for t in every if self._file(t.main.name).phase == phase]
        stages = _ordered(stages)
        for number in range(self.last[phase] + 1):
            self.shared.clear()
            first = len(self.steps)
            for template in stages:
                if number in self._rounds(template):
                    self._expand(template, number)
            self._note_own(self.steps[first:])

    def _once(self) -> list[list[Template]]:
        """Stages that run once: before the first phase, then after each phase."""
        found: list[list[Template]] = [[] for _ in range(len(self.last) + 1)]
        late: dict[str, int] = {}  # By file, the number of phases before the file.
        for template in self.templates.values():
            if self._by_round(template.main):
                continue
            place = max((self._place(r, late) for r in template.inputs), default=0)
            found[place].append(template)
            late.update({ref.name: place for ref in template.outputs if place})
        return [_ordered(stages) for stages in found]

    def _place(self, ref: Ref, late: dict[str, int]) -> int:
        """Number of phases that end before the file exists."""
        if ref.at in ("final", "all"):
            return [*self.last].index(self._file(ref.name).phase) + 1
        return late.get(ref.name, 0)

    def _by_round(self, ref: Ref) -> bool:
        return not ref.at and self._file(ref.name).by_round

    def _rounds(self, template: Template) -> Sequence[int]:
        """Rounds in which a stage runs: `rounds` of the stage, by default every round."""
        words, last = template.stage.rounds, self._last(template.main)
        for key, value in self.run.settings.items():
            words = words.replace(f"{{{key}}}", str(value))
        if words in ("", "all"):
            return range(last + 1)
        found: set[int] = set()
        left = words.split()
        while left:
            word = left.pop(0)
            if word == "every" and left and left[0].isdecimal() and int(left[0]):
                step = int(left.pop(0))
                found |= set(range(step, last + 1, step))
            elif word == "last":
                found.add(last)
            elif word.isdecimal():
                found.add(int(word))
            else:
                raise InputError(
                    f"{self._where(template)}: rounds {words!r}: expected numbers, "
                    '"last", "every N", or several of these words'
                )
        return sorted(found)

    def _last(self, ref: Ref) -> int:
        """Last round of the file's phase."""
        return self.last[self._file(ref.name).phase]

    def _where(self, template: Template) -> str:
        return f"{self.run.recipe.path}: [stages] {template.stage.name}"

    # --- files ------------------------------------------------------------------------

    def _file(self, name: str) -> "_File":
        if name not in self._files:
            given = name in self.run.recipe.inputs
            folder = "" if given else _folder(self.run)
            path = path_of(self.run, name)
            if given and path.startswith(OPTION_LIKE):
                folder = "./"
            if len({match[0] for match in ROUND.finditer(path)}) > 1:
                raise InputError(f"{self.run.recipe.path}: {path}: is of two phases")
            self._files[name] = _File(folder, path, given)
        return self._files[name]

    def _round_of(self, ref: Ref, number: Round, client: int | None) -> Round:
        """Round of the file that a placeholder refers to; None for a file without rounds."""
        if not self._file(ref.name).by_round:
            return None
        if ref.at.isdecimal():
            return int(ref.at)
        if ref.at == "final":
            return self._last(ref)
        if number is None:
            raise InputError(
                f"{self.run.recipe.path}: {ref} is of a round, but this stage runs once, "
                "outside of rounds; write @0, @final or @all"
            )
        if self._file(ref.name).phase != self.phase and ref.at != "own":
            raise InputError(
                f"{self.run.recipe.path}: {ref} is of another phase than the output of "
                "the stage; write @0, @own, @final or @all"
            )
        if not ref.at:
            return number
        if ref.at == "last":
            return number - 1
        found = self.own.get((ref.name, -1 if client is None else client))
        if found is None:
            raise _MissingError(ref)
        return found

    def _read(self, ref: Ref, number: Round, clients: Clients) -> Found:
        """Words of the command for a placeholder, and the paths of the files."""
        if ref.at != "all":
            return self._existing(ref, number, clients)
        words: list[str] = []
        for each in range(self._last(ref) + 1):
            one = Ref(ref.name, str(each), ref.every)
            with suppress(_MissingError):
                words += self._existing(one, number, clients)[0]
        if not words:
            raise _MissingError(ref)
        return words, words

    def _existing(self, ref: Ref, number: Round, clients: Clients) -> Found:
        file, recipe = self._file(ref.name), self.run.recipe.path
        if ref.every or not file.by_client:
            return self._shared(ref, number)
        if not clients:
            raise InputError(f"{recipe}: {ref} is of one client; write * for all")
        at = self._round_of(ref, number, clients[0])
        paths = [file.path(at, c) for c in clients]
        self._require(ref, paths)
        return paths if len(paths) == 1 else [file.path(at, "{client}")], paths

    def _shared(self, ref: Ref, number: Round) -> Found:
        """Like `_existing`, for files common to the clients of a round; cached."""
        if (ref, number) in self.shared:
            return self.shared[ref, number]
        file = self._file(ref.name)
        if ref.every and ref.at == "own":
            paths = self._last_of_every_client(ref.name, number)
        else:
            at = self._round_of(ref, number, None)
            whose = self._of_round(at, file.phase) if ref.every else ("",)
            paths = [file.path(at, client) for client in whose]
        self._require(ref, paths)
        self.shared[ref, number] = paths, paths
        return paths, paths

    def _last_of_every_client(self, name: str, number: Round) -> list[str]:
        """Newest file of every client: of this round, or of the client's last round."""
        file, found = self._file(name), []
        now = number if file.phase == self.phase else None
        for client in self.clients:
            rounds = (now, self.own.get((name, client)))
            paths = (file.path(r, client) for r in rounds if r is not None)
            found += [path for path in paths if path in self.made][:1]
        return found

    def _require(self, ref: Ref, paths: list[str]) -> None:
        """Raise _MissingError unless a step or another run writes the files."""
        if self._file(ref.name).given:
            self.made.update({path: path for path in paths})
        if not paths or not self.made.keys() >= {*paths}:
            raise _MissingError(ref)

    def _of_round(self, number: Round, phase: str) -> Clients:
        if number is None:
            return self.clients
        drawn = self.participants[phase]
        return drawn[number] if 0 <= number < len(drawn) else ()

    def _write(self, ref: Ref, at: Round, clients: Clients) -> tuple[str, list[str]]:
        """Word of the command for an output, and the paths, one per client."""
        at, file = self._round_of(ref, at, None), self._file(ref.name)
        paths = [file.path(at, client) for client in clients or ("",)]
        return paths[0] if len(paths) == 1 else file.path(at, "{client}"), paths

    # --- steps ------------------------------------------------------------------------

    def _expand(self, template: Template, number: Round) -> None:
        """Add the steps of a stage in a round; skip steps with a missing input."""
        self.phase = self._file(template.main.name).phase
        for clients in self._groups(template, number):
            try:
                self._add(template, number, clients)
            except _MissingError as error:
                self.missing[template.stage.name] = error.args[0]

    def _groups(self, template: Template, number: Round) -> Iterator[Clients]:
        if not self._file(template.main.name).by_client:
            yield ()
            return
        everyone = self.participants[self.phase][number or 0]
        if self.group == 1 or not template.grouped:
            yield from ((client,) for client in everyone)
            return
        # One command has one pattern for the files of several clients, so clients with
        # @own files of different rounds are in different groups.
        names = [ref.name for ref in template.inputs if ref.at == "own"]
        alike: dict[tuple, list[int]] = {}
        for client in everyone:
            key = tuple(self.own.get((name, client)) for name in names)
            alike.setdefault(key, []).append(client)
        for found in alike.values():
            for start in range(0, len(found), self.group):
                yield tuple(found[start : start + self.group])

    def _add(self, template: Template, number: Round, clients: Clients) -> None:
        fixed = template.main.at
        at = int(fixed) if fixed.isdecimal() else number
        written = {ref: self._write(ref, at, clients) for ref in template.outputs}
        command: list[str] = []
        reads: list[str] = []
        kind = [template.stage.name]  # Then the numbers of the omitted optional parts.
        for part, (optional, pieces) in enumerate(template.pieces):
            known = len(command), len(reads)
            try:
                for piece in pieces:
                    if isinstance(piece, list):
                        command += piece
                    else:
                        words, paths = self._word(piece, at, clients, written)
                        command += words
                        reads += paths
            except _MissingError:
                if not optional:
                    raise
                del command[known[0] :], reads[known[1] :]
                kind.append(str(part))
        outputs = written[template.main][1]
        waits = dict.fromkeys(self.made[path] for path in reads)
        waits.update(dict.fromkeys(template.sources))
        waits[self.records[template.stage.name]] = None
        writes = [path for _, paths in written.values() for path in paths]
        for path, output in zip(writes, outputs * len(written), strict=True):
            if path in self.made:
                raise InputError(f"{self._where(template)}: {path} is written twice")
            self.made[path] = output
        step = Step(
            template.stage.name, self.phase, at, clients, command, reads, list(waits),
            writes, outputs, template.trains,
        )  # fmt: skip
        self.steps.append(step)
        self.samples.setdefault(tuple(kind), step)

    def _word(self, word: Word, at: Round, clients: Clients, written: Written) -> Found:
        """Words of the command for a word of a template, and the files to read.

        A command for several clients gets file names with {client}, and fills in each
        client.
        """
        if len(word) == 1:
            return self._part(word[0], at, clients, written)
        texts, reads = [""], []  # type: list[str], list[str]
        for part in word:
            if part == Ref("client") and len(clients) > 1:
                found, paths = ["{client}"], []  # type: list[str], list[str]
            else:
                found, paths = self._part(part, at, clients, written)
            texts = [text + more for text in texts for more in found]
            reads += paths
        return texts, reads

    def _part(
        self, part: str | Ref, at: Round, clients: Clients, written: Written
    ) -> Found:
        """Texts of a part of a word; several for a placeholder with several files."""
        if isinstance(part, str):
            return [part], []
        if part in written:
            return [written[part][0]], []
        if part.name in COUNTERS:
            return [self._counter(part, at, clients)], []
        return self._first(part.choices, at, clients)

    def _first(self, choices: Sequence[Ref], number: Round, clients: Clients) -> Found:
        """Like `_read`, for the first of several placeholders with existing files."""
        for ref in choices[:-1]:
            with suppress(_MissingError):
                return self._read(ref, number, clients)
        return self._read(choices[-1], number, clients)

    def _counter(self, ref: Ref, number: Round, clients: Clients) -> str:
        if ref.name == "client":
            if not clients:
                raise InputError(
                    f"{self.run.recipe.path}: a stage with {{client}} has an output "
                    "without {client} in its name in [files]"
                )
            return ",".join(map(str, clients))
        if ref.name == "participants":
            return str(len(self.participants[self.phase][number or 0]))
        return str(number or 0)

    def _note_own(self, steps: list[Step]) -> None:
        """Note at the end of a round that the round has the clients' newest files."""
        for step in steps:
            for ref in self.templates[step.stage].outputs:
                if step.round is not None:
                    keys = ((ref.name, client) for client in step.clients)
                    self.own.update(dict.fromkeys(keys, step.round))

    def _check_all_run(self) -> None:
        if 0 in self.last.values():
            return  # The user asked for a phase without rounds.
        ran = {step.stage for step in self.steps}
        for name, template in self.templates.items():
            if name in ran or (template.stage.rounds and not self._rounds(template)):
                continue
            ref = self.missing.get(name)
            why = f": reads {ref}, and no earlier stage writes this file" if ref else ""
            raise InputError(f"{self._where(template)}: never runs{why}")
