"""Options of exchanges are checked once, before files are opened and without torch."""

import subprocess
import sys

import pytest

from furlkit import catalogue
from furlkit.cli.program import furlkit as program
from furlkit.cli.shared import check_words

CHECKED = [entry for entry in catalogue.EXCHANGES.values() if entry.check]
LINE = ("local-train", "missing", "missing", "--data", "digits", "-o", "{client}.st")
PROGRAM = """
import sys
from furlkit.cli.program import _outcome
code = _outcome(sys.argv[1:])
print(*(name for name in ("torch", "sklearn") if name in sys.modules))
sys.exit(code)
"""


@pytest.mark.parametrize(
    "more",
    [
        ("--scaffold", "--optimiser", "sgd", "--momentum", 0),
        ("--personal", "ditto"),
        ("--infusion", 1),
        ("--kernel", "k", "--kernel-data", "digits"),
        ("--centroids", "c"),
        ("--correlations", "c"),
        ("--objective", "spectral", "--correlations-out", "{client}.R"),
        ("--keep-norms",),
        ("--objective", "cluster", "--mine-every", 2),
        ("--train-layers", "conv1", "--personal", "ditto"),
        ("--align", "t"),
        ("--features-out", "{client}.f"),
        ("--dictionary", "d", "--objective", "byol"),
    ],
    ids=lambda more: more[0] + more[-1] if isinstance(more[-1], str) else more[0],
)
def test_contradictory_options_come_before_missing_files(run, more):
    outcome = run(*LINE, "--client", "0-1", *more)
    assert outcome.code == 2 and "missing" not in outcome.err, outcome.err


def test_the_check_of_options_imports_no_torch(environment):
    words = [*LINE, "--client", "0", "--keep-norms"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.strip()) == (2, ""), done
    assert "--private-out" in done.stderr


@pytest.mark.parametrize("entry", CHECKED, ids=lambda entry: entry.name)
def test_every_check_passes_without_options_of_the_exchange(entry):
    catalogue.load(entry.check)(catalogue.defaults("local-train"))


@pytest.mark.parametrize(
    "words, active",
    [
        ((), []),
        (("--objective", "simclr", "--dictionary", "d"), ["dictionary"]),
        (("--objective", "simclr", "--features-out", "{client}.f"), ["dictionary"]),
    ],
    ids=["none", "received", "shared"],
)
def test_an_exchange_is_active_only_if_an_option_asks_for_it(words, active):
    from furlkit.exchanges.exchange import make_exchanges  # Imports torch.

    line = [*LINE, "--client", "0", "--private-out", "{client}.p", *words]
    made = make_exchanges(check_words(program, line)).items()
    assert [name for name, exchange in made if exchange.active] == active
