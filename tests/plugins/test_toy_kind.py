"""A rule of another package with its own kind of upload, one file and three entries.

Clients share a histogram of z by an exchange of the package; the rule adds the
histograms. furlkit opens, checks, combines, writes and explains files of the new kind.
"""

import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

MODULE = """
import numpy as np

from furlkit import catalogue
from furlkit.aggregators.shared import Combined
from furlkit.errors import InputError
from furlkit.files.kinds import FileKind

KIND = FileKind(
    "histogram",
    "a histogram of z with {counts} bins after round {round}",
    plain="counts of a network's outputs",
    reveals="moments",
    tensors={"counts": "int64 b", "edges": "float32 e"},
    check="toy_kind:check_counts",
)
EXCHANGE = catalogue.Exchange(
    "histogram", "a histogram of z", "toy_kind:Histogram", title="Histograms",
    options=(
        catalogue.Option("histogram-out", catalogue.File("histogram", "histogram", "sent",
                         per_client=True), recorded=False, help="File for a histogram."),
    ),
)
RULE = catalogue.Rule(
    "histogram-sum", "the sum of histograms", "toy_kind:add", reads="histogram",
    writes="histogram", same=("b",), check="toy_kind:check_edges",
    options=(catalogue.Option("times", catalogue.Whole(1), 1, "Factor of the sum."),),
)


def check_counts(path, tensors):
    if tensors["counts"].min() < 0:
        raise InputError(f"{path}: has a negative count")


def check_edges(upload):
    if (np.diff(upload.tensors["edges"]) <= 0).any():
        raise InputError(f"{upload.path}: edges do not grow")


def add(uploads, *, times):
    edges = uploads[0].tensors["edges"]
    return Combined(
        f"sum of {len(edges) - 1} bins",
        lambda: {"counts": times * sum(u.tensors["counts"] for u in uploads),
                 "edges": edges},
        facts={"clients": len(uploads)},
    )


def __getattr__(name):  # The exchange imports torch, the entries do not.
    if name != "Histogram":
        raise AttributeError(name)
    from furlkit.exchanges.exchange import Exchange, Kept
    from furlkit.files.declared import SharedFacts, write_result
    from furlkit.inputs.paths import fill
    from furlkit.models.embedding import embed

    class Histogram(Exchange):
        def __init__(self, values):
            self.out = values["histogram_out"]
            self.active = bool(self.out)

        def open(self, setup):
            self.setup = setup

        def finish(self, client, trained):
            setup, net = self.setup, trained.learner.net
            view = setup.plain_view()
            z = embed(net, setup.images.images, client.index, view, "z").numpy()
            counts, edges = np.histogram(z, bins=5, range=(-2, 2))
            facts = SharedFacts(setup.round, client.number, parent=setup.parent,
                                run=setup.model.facts.run)
            path = fill(self.out, client.number)
            tensors = {"counts": counts, "edges": edges}
            about = (facts, client.provenance)
            trained.results["histogram"] = write_result(path, "histogram", tensors, *about)
            return Kept({}, {})

    return Histogram
"""
POINTS = """
[furlkit.kinds]
histogram = toy_kind:KIND
[furlkit.exchanges]
histogram = toy_kind:EXCHANGE
[furlkit.rules]
histogram-sum = toy_kind:RULE
"""
LINES = """
partition --data digits --clients 2 -o p.st
init --data digits --width 0.02 --projector 8,4 -o g0.st
local-train p.st g0.st --data digits --client 0-1 --epochs 1 --batch-size 256 --histogram-out h{client}.st -o u{client}.st
aggregate --rule histogram-sum --times 3 h0.st h1.st --parent g0.st -o sum.st
aggregate --rule histogram-sum --times 3 h1.st h0.st --parent g0.st -o sum.st
inspect sum.st
inspect --outgoing h0.st
replay sum.st --depth 1
!65 aggregate --rule histogram-sum u0.st u1.st -o no.st
!65 aggregate --rule histogram-sum sum.st -o no.st
"""
PROGRAM = """
import sys
from furlkit.cli.program import _outcome
for line in sys.stdin.read().strip().splitlines():
    code, words = (65, line[4:]) if line.startswith("!") else (0, line)
    assert _outcome(words.split()) == code, line
"""


@pytest.fixture(scope="module")
def done(environment, tmp_path_factory):
    """Run the lines with the package installed; return the folder and the output."""
    site, folder = (tmp_path_factory.mktemp(name) for name in ("site", "run"))
    (site / "toy_kind.py").write_text(MODULE)
    info = site / "toy_kind-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toy-kind\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(POINTS)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=LINES,
        cwd=folder,
        env={**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{site}"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return folder, result


def test_the_rule_adds_the_numbers_of_the_clients(done):
    folder, _ = done
    one, other, total = (
        load_file(folder / f"{name}.st") for name in ("h0", "h1", "sum")
    )
    assert total["counts"].tolist() == (3 * (one["counts"] + other["counts"])).tolist()
    assert total["edges"].tolist() == np.linspace(-2, 2, 6, dtype=np.float32).tolist()


def test_the_new_kind_is_reported_explained_and_replayed(done):
    _, result = done
    for word in ("sum of 5 bins of 2 clients", "already there", "--times 3"):
        assert word in result.stdout
    assert "a histogram of z with 5 bins after round 1" in result.stdout


def test_files_of_other_kinds_and_results_are_refused(done):
    folder, result = done
    assert "u0.st" in result.stderr and "sum.st: is of no client" in result.stderr
    assert not (folder / "no.st").exists()
