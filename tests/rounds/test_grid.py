"""Objectives, terms, updates and personal methods combine: one step of every pair.

The grid comes from the catalogue. A run through the command line trains client 0 for one
step with an objective, perhaps a term, an update and perhaps a personal method, and so
tries six pairs at once; the runs cover every pair that fits. Every pair that does not
fit is refused before any file is written, with the reason. `make test-slow` tries the
whole product.
"""

import math
from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

import pytest

from furlkit import catalogue
from furlkit.files.checkpoint import read_checkpoint
from tests.exchanged import DATA, model_of, term_words
from tests.helpers import epoch_losses

STEP = (*DATA, "--epochs", 1, "--batch-size", 80, "--optimiser", "sgd", "--momentum", 0)
ROWS_OF_Z = {"dictionary", "centroids"}  # Exchanges of rows of z.
ALONE = {"infusion", "scaffold"}  # Terms that do not train a second model.


class Run(NamedTuple):
    """A combination; an empty term or "none" leaves a family out."""

    objective: str
    term: str = ""
    update: str = "replace"
    personal: str = "none"

    @property
    def pairs(self) -> set[tuple]:
        """Pairs of choices of two families."""
        return {*combinations(self._asdict().items(), 2)}


def reasons(run: Run) -> list[str]:
    """Words for why a combination does not fit, by the facts of the catalogue."""
    objective, update = (
        catalogue.OBJECTIVES[run.objective],
        catalogue.UPDATES[run.update],
    )
    needs = [*update.heads]
    found = []
    if run.term:
        term = catalogue.TERMS[run.term]
        needs += term.heads
        needs += ["projector"] * bool(ROWS_OF_Z & {*term.exchanges})
        repeats = run.term == "infusion"
        unpaired = term.pairs and not objective.pairs
        found += ["two views"] * (unpaired or (repeats and not objective.again))
        if run.term in ALONE and run.personal != "none":
            found.append("--personal")
    if update.starts_from_own and run.personal != "none":
        found.append("--personal")
    if run.personal == "apfl" and not objective.mixes:
        found.append("constrains weights")
    return [*(head for head in needs if head not in objective.head_names), *found]


FAMILIES = (
    [*catalogue.OBJECTIVES], ["", *catalogue.TERMS], [*catalogue.UPDATES],
    [*catalogue.PERSONAL],
)  # fmt: skip


def fitting_runs() -> Iterator[Run]:
    """Runs that cover all pairs of choices that fit; each run covers new pairs."""
    every = [Run(*choices) for choices in product(*FAMILIES)]
    fitting = [run for run in every if not reasons(run)]
    left = {pair for run in fitting for pair in run.pairs}
    by_start: dict[tuple, list[Run]] = {}
    for run in fitting:
        by_start.setdefault((run.objective, run.term), []).append(run)
    for runs in by_start.values():
        while new := max(len(run.pairs & left) for run in runs):
            best = next(run for run in runs if len(run.pairs & left) == new)
            left -= best.pairs
            yield best
    assert not left


def misfits() -> Iterator[Run]:
    """A run for every pair of choices that fits nowhere, with usual other choices."""
    for o, t in product(FAMILIES[0], FAMILIES[1]):
        yield Run(o, t)
    for o, u in product(FAMILIES[0], FAMILIES[2]):
        yield Run(o, update=u)
    for o, p in product(FAMILIES[0], FAMILIES[3]):
        yield Run(o, personal=p)
    for t, p in product(FAMILIES[1], FAMILIES[3]):
        yield Run("simclr", t, personal=p)
    for u, p in product(FAMILIES[2], FAMILIES[3]):
        yield Run("byol", update=u, personal=p)


def name_of(run: Run) -> str:
    return "-".join(filter(None, run))


def words_of(run: Run) -> list:
    """The command line without outputs; later rounds read the private file."""
    term = term_words(run.term) if run.term else ()
    update = catalogue.UPDATES[run.update]
    model = "c_0" if update.starts_from_own else model_of(run.term)
    if update.own and not update.starts_from_own:
        model = "g1"
    own = () if model == "g0" or "--private" in term else ("--private", "k_0")
    chosen = (
        *("--objective", run.objective, "--update", run.update),
        *("--personal", run.personal),
    )
    return ["local-train", "p", model, "--client", 0, *STEP, *chosen, *own, *term]


def check_step(furlkit, run: Run, folder) -> None:
    output = folder / "upload"
    outcome = furlkit(*words_of(run), "--private-out", folder / "kept", "-o", output)
    assert outcome.code == 0, outcome.err
    assert math.isfinite(read_checkpoint(output).facts.loss)
    (losses,) = epoch_losses(output)[:1]
    assert all(map(math.isfinite, losses.values()))
    assert not run.term or run.term in losses


FITTING = [*fitting_runs()]


@pytest.mark.parametrize("combination", FITTING, ids=name_of)
def test_a_combination_that_fits_trains(
    exchanged, monkeypatch, run, tmp_path, combination
):
    monkeypatch.chdir(exchanged)
    check_step(run, combination, tmp_path)


def test_every_pair_of_choices_is_trained_or_refused():
    tried = {pair for run in [*FITTING, *misfits()] for pair in run.pairs}
    for one, other in combinations(zip(Run._fields, FAMILIES, strict=True), 2):
        for a, b in product(one[1], other[1]):
            assert ((one[0], a), (other[0], b)) in tried
    assert len(catalogue.OBJECTIVES) >= 16


def test_a_combination_that_does_not_fit_is_refused_with_the_reason(
    exchanged, monkeypatch, run, tmp_path
):
    monkeypatch.chdir(exchanged)
    refused = [one for one in misfits() if reasons(one)]
    for one in refused:
        kept, output = tmp_path / "kept", tmp_path / "upload"
        outcome = run(*words_of(one), "--private-out", kept, "-o", output)
        assert outcome.code == 2, (one, outcome.err)
        assert any(reason in outcome.err for reason in reasons(one)), outcome.err
        assert one.objective in outcome.err or one.personal != "none", outcome.err
    assert len(refused) > 40 and not any(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("objective", catalogue.OBJECTIVES)
def test_the_whole_product(exchanged, monkeypatch, run, tmp_path, objective):
    monkeypatch.chdir(exchanged)
    for number, rest in enumerate(product(*FAMILIES[1:])):
        one = Run(objective, *rest)
        folder = tmp_path / str(number)
        if not reasons(one):
            check_step(run, one, folder)
            continue
        outcome = run(*words_of(one), "--private-out", folder / "k", "-o", folder / "c")
        assert outcome.code == 2, (one, outcome.err)
        assert any(reason in outcome.err for reason in reasons(one)), outcome.err
