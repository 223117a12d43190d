"""A rule of another package with its own kind of upload, one file and three entries.

Clients share a histogram of z by an exchange of the package; the rule adds the
histograms. furlkit opens, checks, combines, writes and explains files of the new kind.
"""

import shutil
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
MISSPELT = catalogue.Rule("misspelt", "a misspelt kind", "toy_kind:add",
                          reads="histograms", writes="histogram")
SHORT = catalogue.Rule("short", "a result without edges", "toy_kind:shorten",
                       reads="histogram", writes="histogram")


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


def shorten(uploads):
    return Combined("no edges", lambda: {"counts": uploads[0].tensors["counts"]})


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
misspelt = toy_kind:MISSPELT
short = toy_kind:SHORT
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
!65 aggregate --rule misspelt h0.st h1.st -o no.st
!65 aggregate --rule short h0.st h1.st -o no.st
"""
SITES = """
local-train g0.st --data digits --client st-mary --epochs 1 --batch-size 256 --histogram-out h-mary.st -o u-mary.st
local-train g0.st --data digits --client north --epochs 1 --batch-size 256 --histogram-out h-north.st -o u-north.st
aggregate --rule histogram-sum h-mary.st h-north.st --parent g0.st -o sites.st
"""
INBOX = "aggregate inbox --parent g0.st --strict -o g1.st"
PROGRAM = """
import sys
from furlkit.cli.program import _outcome
for line in sys.stdin.read().strip().splitlines():
    code, words = (65, line[4:]) if line.startswith("!") else (0, line)
    assert _outcome(words.split()) == code, line
"""


@pytest.fixture(scope="module")
def run(environment, tmp_path_factory):
    """Install the package; gives a function that runs lines in a folder."""
    site, folder = (tmp_path_factory.mktemp(name) for name in ("site", "run"))
    (site / "toy_kind.py").write_text(MODULE)
    info = site / "toy_kind-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toy-kind\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(POINTS)

    def run_lines(lines):
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=lines,
            cwd=folder,
            env={**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{site}"},
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        return folder, result

    return run_lines


@pytest.fixture(scope="module")
def done(run):
    """Run the lines; return the folder and the output."""
    return run(LINES)


@pytest.fixture(scope="module")
def sites(done, run):
    """Two sites with names; return the folder and the output."""
    return run(SITES)


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


def test_errors_of_a_rule_name_the_rule_and_the_kind(done):
    _, result = done
    assert "error: --rule misspelt: 'histograms' is no kind of file" in result.stderr
    assert "furlkit.kinds" in result.stderr
    assert (
        "no.st: --rule short returned the tensors counts; a histogram file has counts, "
        "edges" in result.stderr
    )


def test_an_anonymous_result_of_sites_has_all_tensors(sites):
    folder, _ = sites
    mary, north, total = (
        load_file(folder / name)["counts"]
        for name in ("h-mary.st", "h-north.st", "sites.st")
    )
    assert total.tolist() == (mary + north).tolist()
    assert b"st-mary" not in (folder / "sites.st").read_bytes()


def test_an_inbox_passes_over_uploads_for_a_rule_of_the_package(sites, run):
    folder, _ = sites
    (folder / "inbox").mkdir()
    for name in ("h-mary.st", "u-mary.st", "u-north.st"):
        shutil.copy(folder / name, folder / "inbox")
    _, result = run(INBOX)  # In a new process, which has not looked for plugins.
    assert "2 clients" in result.stdout
