"""Expanding a recipe: every step of a run, with its command and the files it uses."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from furlkit.errors import InputError, UsageError
from furlkit.recipes.participants import ROUNDINGS, draw
from furlkit.recipes.read import COUNTERS, ROUND, Run
from furlkit.recipes.template import Ref, Template, Word, path_of, templates

MOST_STEPS = 10**7
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# A path that begins like an option or a home folder must not be taken for one.
OPTION_LIKE = ("-", "~")


class Step(NamedTuple):
    """One command of a run, in a round of a phase; "" are the rounds proper.

    `after` are the files it must wait for: outputs of the steps that make what it
    `reads`, and the record of its stage. `outputs` are written last, one per client.
    """

    stage: str
    phase: str
    round: int | None
    clients: tuple[int, ...]
    command: list[str]
    reads: list[str]
    after: list[str]
    writes: list[str]
    outputs: list[str]
    trains: bool


class Plan(NamedTuple):
    """All steps of a run in an order in which they can run, and its stages' records.

    `samples` has one step for each stage and choice of its optional parts.
    """

    run: Run
    steps: list[Step]
    records: dict[str, str]
    samples: list[Step]


def expand(run: Run, group: int = 1) -> Plan:
    """All steps of a run; `group` clients are trained by one command."""
    return _Expansion(run, group).plan()


def noted_in(run: Run, name: str) -> str:
    """A file in which a run's folder notes something about its plan."""
    return f"{_folder(run)}plan/{name}"


def record_path(run: Run, stage: str, text: str) -> str:
    """Where the settings of a stage are noted.

    The name has a hash of them: rules that were planned with other settings depend on
    another file, which is gone, so they cannot mix theirs with those of a later plan.
    """
    return noted_in(run, f"{stage}-{sha256(text.encode()).hexdigest()[:8]}.txt")


def _folder(run: Run) -> str:
    out = str(Path(run.out))
    if out == ".":
        return ""
    return f"{'./' * out.startswith(OPTION_LIKE)}{out.rstrip('/')}/"


class _MissingError(Exception):
    """A step reads a file that nothing has made yet."""


class _File:
    """The files of a name: a pattern with a round and {client} in a folder.

    Those that are `given` were not made by this run; `phase` is whose round it is.
    """

    def __init__(self, folder: str, pattern: str, given: bool):
        self._folder, self._pattern, self.given = folder, pattern, given
        counted = ROUND.search(pattern)
        self.by_round, self.by_client = counted is not None, "{client}" in pattern
        self.phase = (counted[1] or "") if counted else ""
        self._known: dict[int | None, str] = {}

    def path(self, number: int | None, client: int | str) -> str:
        """The file of a round and a client."""
        pattern = self._known.get(number) or self._of_round(number)
        return pattern.replace("{client}", str(client)) if self.by_client else pattern

    def _of_round(self, number: int | None) -> str:
        filled = self._pattern
        if self.by_round:
            filled = ROUND.sub(f"{number:03d}", filled)
        self._known[number] = self._folder + filled
        return self._known[number]


def _ordered(stages: list[Template]) -> list[Template]:
    """In the recipe's order, but after those that make what they read of their round.

    A stage that a recipe adds to the one it extends comes last there.
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
    """Whether a placeholder may mean files of the round that a stage runs in."""
    return not ref.at or (ref.at == "own" and ref.every)


class _Expansion:
    """The state of expanding: which files exist so far, and who made them."""

    def __init__(self, run: Run, group: int):
        self.run, self.group = run, group
        self.last = {phase: run.rounds(phase) for phase in run.phases}
        self.phase = ""  # Of the stage whose steps are added.
        self.templates = templates(run)
        self.steps: list[Step] = []
        self.samples: dict[tuple[str, ...], Step] = {}
        # By path the output to wait for; by file and client the last round that made it.
        self.made: dict[str, str] = {}
        self.own: dict[tuple[str, int], int] = {}
        self.shared: dict[tuple[Ref, int | None], tuple[list[str], list[str]]] = {}
        self.missing: dict[str, Ref] = {}  # By stage, what it could not read.
        self.records = {
            name: record_path(run, name, t.text) for name, t in self.templates.items()
        }
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
    def clients(self) -> tuple[int, ...]:
        """The clients that may train."""
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
        """How a share of the clients becomes a whole number."""
        word = str(self.run.settings["rounding"])
        if word not in ROUNDINGS:
            raise UsageError(f"rounding={word}: expected {' or '.join(ROUNDINGS)}")
        return word

    @cached_property
    def participants(self) -> dict[str, list[tuple[int, ...]]]:
        """By phase, the clients of each round; in round 0 they are all."""
        text = self.run.settings["fraction"]
        try:
            fraction = float(str(text))
        except ValueError as error:
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
        """Stages before the rounds, then round by round, then those after the last.

        So for each phase; what runs once between two of them comes after the first.
        """
        once = self._once()
        self._expand_once(once[0])
        for phase, after in zip(self.last, once[1:], strict=True):
            self._expand_rounds(phase)
            self._expand_once(after)
        self._check_all_run()
        records = {name: t.text for name, t in self.templates.items()}
        return Plan(self.run, self.steps, records, list(self.samples.values()))

    def _expand_once(self, stages: list[Template]) -> None:
        first = len(self.steps)
        for template in stages:
            self._expand(template, None)
        self._note_own(self.steps[first:])

    def _expand_rounds(self, phase: str) -> None:
        stages = self._of_phase(phase)
        for number in range(self.last[phase] + 1):
            self.shared.clear()
            first = len(self.steps)
            for template in stages:
                if number in self._rounds(template):
                    self._expand(template, number)
            self._note_own(self.steps[first:])

    def _of_phase(self, phase: str) -> list[Template]:
        """The stages that run in its rounds."""
        stages = (t for t in self.templates.values() if self._by_round(t.main))
        return _ordered([t for t in stages if self._file(t.main.name).phase == phase])

    def _once(self) -> list[list[Template]]:
        """The stages that run once: before all phases, then after each of them."""
        found: list[list[Template]] = [[] for _ in range(len(self.last) + 1)]
        late: dict[str, int] = {}  # By file, after how many phases it is made.
        for template in self.templates.values():
            if self._by_round(template.main):
                continue
            place = max((self._place(r, late) for r in template.inputs), default=0)
            found[place].append(template)
            late.update({ref.name: place for ref in template.outputs if place})
        return [_ordered(stages) for stages in found]

    def _place(self, ref: Ref, late: dict[str, int]) -> int:
        """After how many phases a file is there."""
        if ref.at in ("final", "all"):
            return [*self.last].index(self._file(ref.name).phase) + 1
        return late.get(ref.name, 0)

    def _by_round(self, ref: Ref) -> bool:
        return not ref.at and self._file(ref.name).by_round

    def _rounds(self, template: Template) -> Sequence[int]:
        """The rounds that a stage names; all of them if it names none."""
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
                    '"last", "every N", or several of them'
                )
        return sorted(found)

    def _last(self, ref: Ref) -> int:
        """The last round of the phase that a file is of."""
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

    def _round_of(self, ref: Ref, number: int | None, client: int | None) -> int | None:
        """The round whose file a placeholder means; None if it has no rounds."""
        if not self._file(ref.name).by_round:
            return None
        if ref.at.isdecimal():
            return int(ref.at)
        if ref.at == "final":
            return self._last(ref)
        if number is None:
            raise InputError(
                f"{self.run.recipe.path}: {ref} is of a round, and a stage that runs "
                "once has none; write @0, @final or @all"
            )
        if self._file(ref.name).phase != self.phase and ref.at != "own":
            raise InputError(
                f"{self.run.recipe.path}: {ref} is of another phase than what is made "
                "of it; write @0, @own, @final or @all"
            )
        if not ref.at:
            return number
        if ref.at == "last":
            return number - 1
        found = self.own.get((ref.name, -1 if client is None else client))
        if found is None:
            raise _MissingError(ref)
        return found

    def _read(
        self, ref: Ref, number: int | None, clients: tuple[int, ...]
    ) -> tuple[list[str], list[str]]:
        """What a placeholder stands for: words of the command, and the files they mean."""
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

    def _existing(
        self, ref: Ref, number: int | None, clients: tuple[int, ...]
    ) -> tuple[list[str], list[str]]:
        file = self._file(ref.name)
        if ref.every or not file.by_client:
            return self._shared(ref, number)
        if clients:
            at = self._round_of(ref, number, clients[0])
            paths = [file.path(at, c) for c in clients]
            words = paths if len(paths) == 1 else [file.path(at, "{client}")]
        else:
            raise InputError(
                f"{self.run.recipe.path}: {ref} is of one client; write * for all"
            )
        self._require(ref, paths)
        return words, paths

    def _shared(self, ref: Ref, number: int | None) -> tuple[list[str], list[str]]:
        """What is the same for all clients of a round is looked up once."""
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

    def _last_of_every_client(self, name: str, number: int | None) -> list[str]:
        """Files of this round, and of those who did not take part their last ones."""
        file, found = self._file(name), []
        now = number if file.phase == self.phase else None
        for client in self.clients:
            rounds = (now, self.own.get((name, client)))
            paths = (file.path(r, client) for r in rounds if r is not None)
            found += [path for path in paths if path in self.made][:1]
        return found

    def _require(self, ref: Ref, paths: list[str]) -> None:
        """Files must have been made, by a step before or by another run."""
        if self._file(ref.name).given:
            self.made.update({path: path for path in paths})
        if not paths or not self.made.keys() >= {*paths}:
            raise _MissingError(ref)

    def _of_round(self, number: int | None, phase: str) -> tuple[int, ...]:
        if number is None:
            return self.clients
        drawn = self.participants[phase]
        return drawn[number] if 0 <= number < len(drawn) else ()

    def _write(
        self, ref: Ref, number: int | None, clients: tuple[int, ...]
    ) -> tuple[str, list[str]]:
        """The word for an output, and its files, one per client."""
        at, file = self._round_of(ref, number, None), self._file(ref.name)
        paths = [file.path(at, client) for client in clients or ("",)]
        return paths[0] if len(paths) == 1 else file.path(at, "{client}"), paths

    # --- steps ------------------------------------------------------------------------

    def _expand(self, template: Template, number: int | None) -> None:
        """Add the steps of a stage in a round; none where what it reads is missing."""
        self.phase = self._file(template.main.name).phase
        for clients in self._groups(template, number):
            try:
                self._add(template, number, clients)
            except _MissingError as error:
                self.missing[template.stage.name] = error.args[0]

    def _groups(
        self, template: Template, number: int | None
    ) -> Iterator[tuple[int, ...]]:
        if not self._file(template.main.name).by_client:
            yield ()
            return
        everyone = self.participants[self.phase][number or 0]
        if self.group == 1 or not template.grouped:
            yield from ((client,) for client in everyone)
            return
        # One command has one pattern for the files of its clients, so those whose own
        # files are of different rounds are in different groups.
        names = [ref.name for ref in template.inputs if ref.at == "own"]
        alike: dict[tuple, list[int]] = {}
        for client in everyone:
            key = tuple(self.own.get((name, client)) for name in names)
            alike.setdefault(key, []).append(client)
        for found in alike.values():
            for start in range(0, len(found), self.group):
                yield tuple(found[start : start + self.group])

    def _add(
        self, template: Template, number: int | None, clients: tuple[int, ...]
    ) -> None:
        fixed = template.main.at
        at = int(fixed) if fixed.isdecimal() else number
        written = {ref: self._write(ref, at, clients) for ref in template.outputs}
        command: list[str] = []
        reads: list[str] = []
        kind = [template.stage.name]  # And which optional parts are left out.
        for part, (optional, pieces) in enumerate(template.pieces):
            known = len(command), len(reads)
            try:
                for piece in pieces:
                    if isinstance(piece, list):
                        command += piece
                    else:
                        self._word(piece, at, clients, written, command, reads)
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

    def _word(
        self,
        word: Word,
        number: int | None,
        clients: tuple[int, ...],
        written: dict[Ref, tuple[str, list[str]]],
        command: list[str],
        reads: list[str],
    ) -> None:
        """Add to a command what a word of a template becomes, and the files it reads.

        The name of a file keeps {client} in a command for several clients, which fills
        it in for each.
        """
        if len(word) == 1:
            command += self._part(word[0], number, clients, written, reads)
            return
        texts = [""]
        for part in word:
            if part == Ref("client") and len(clients) > 1:
                found: Sequence[str] = ["{client}"]
            else:
                found = self._part(part, number, clients, written, reads)
            texts = [text + more for text in texts for more in found]
        command += texts

    def _part(
        self,
        part: str | Ref,
        number: int | None,
        clients: tuple[int, ...],
        written: dict[Ref, tuple[str, list[str]]],
        reads: list[str],
    ) -> Sequence[str]:
        """The words that a part of a word stands for; one, unless it is many files."""
        if isinstance(part, str):
            return (part,)
        if part in written:
            return (written[part][0],)
        if part.name in COUNTERS:
            return (self._counter(part, number, clients),)
        found, paths = self._first(part.choices, number, clients)
        reads += paths
        return found

    def _first(
        self, choices: Sequence[Ref], number: int | None, clients: tuple[int, ...]
    ) -> tuple[list[str], list[str]]:
        """The same for the first file that has been made."""
        for ref in choices[:-1]:
            with suppress(_MissingError):
                return self._read(ref, number, clients)
        return self._read(choices[-1], number, clients)

    def _counter(self, ref: Ref, number: int | None, clients: tuple[int, ...]) -> str:
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
        """At the end of a round: its files are the last ones of their clients."""
        for step in steps:
            for ref in self.templates[step.stage].outputs:
                if step.round is not None:
                    last = dict.fromkeys(step.clients, step.round)
                    self.own.update({(ref.name, c): r for c, r in last.items()})

    def _check_all_run(self) -> None:
        if 0 in self.last.values():
            return  # Nothing is trained in a phase, on purpose.
        ran = {step.stage for step in self.steps}
        for name, template in self.templates.items():
            if name in ran or (template.stage.rounds and not self._rounds(template)):
                continue
            ref = self.missing.get(name)
            why = f": it reads {ref}, which no stage makes before it" if ref else ""
            raise InputError(f"{self._where(template)}: never runs{why}")
