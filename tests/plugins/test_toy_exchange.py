"""An exchange in one file: rows with counts in both directions, memory, one option.

The package is written into a temporary folder and found through its entry points. Its
clients share the mean z of two halves of their images with the number of images, and are
drawn to the mean of all rows that they receive.
"""

import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit.files.container.read import Container

MODULE = """
import numpy as np
import torch

from furlkit import catalogue
from furlkit.exchanges.exchange import Exchange, Kept, is_asked_for
from furlkit.files.features import FeatureFacts, read_features, write_features
from furlkit.inputs.paths import fill
from furlkit.models.embedding import embed
from furlkit.objectives.learner import Forward

ENTRY = catalogue.Exchange(
    "halves",
    "mean z of two halves of the images",
    "toy_halves:Halves",
    options=(
        catalogue.Option("halves", catalogue.File("features", "halves", "received"), (),
                         multiple=True, recorded=False,
                         help="Rows with counts of a client; may be repeated."),
        catalogue.Option("halves-out", catalogue.File("features", "halves", "sent",
                         per_client=True), recorded=False,
                         help="Where to write the client's rows with counts."),
        catalogue.Option("draw", catalogue.Number(low=0), 1.0, "Weight of the drawing."),
    ),
)
OBJECTIVE = catalogue.Objective(
    "drawn", "z is drawn to the mean of all clients", "toy_halves:step",
    heads=("projector",), options=ENTRY.options, exchanges=("halves",),
    inputs=("goal", "weight"),
)


class Halves(Exchange):
    memory = ("halves",)

    def __init__(self, values):
        self.active = is_asked_for("halves", values)
        if self.active:
            self.received, self.weight = values["halves"], values["draw"]
            self.out = values["halves_out"]

    def open(self, setup):
        self.setup = setup
        self.files = [read_features(path) for path in self.received]

    def begin(self, client, net):
        if not self.files:
            return {}
        both = np.concatenate([file.rows for file in self.files])
        rows, counts = both[:, :-1], both[:, -1:]
        goal = (rows * counts).sum(axis=0) / counts.sum()
        return {"goal": torch.from_numpy(goal), "weight": self.weight}

    def finish(self, client, trained):
        setup = self.setup
        net, pixels = trained.learner.net, setup.images.images
        z = embed(net, pixels, client.index, setup.plain_view(), "z").numpy()
        halves = np.array_split(z, 2)
        rows = [np.append(half.mean(axis=0), len(half)) for half in halves]
        facts = FeatureFacts("z", {}, str(client.number), client.number, setup.round,
                             2, setup.parent)
        if self.out:
            path, rows = fill(self.out, client.number), np.float32(rows)
            content = write_features(path, rows, np.arange(2), facts, client.provenance)
            trained.results["halves"] = content
        rounds = client.memory.get("halves.rounds", np.zeros((), np.int64))
        return Kept({}, {"halves.rounds": rounds + 1})


def step(net, batch, *, goal=None, weight=0.0):
    x = batch.one_view()
    h = net.encoder(x)
    z = net.projector(h)
    losses = {"size": z.square().mean()}
    if goal is not None:
        losses["draw"] = weight * (z - goal).square().mean()
    return Forward(losses, x, h, z)
"""
POINTS = """
[furlkit.exchanges]
halves = toy_halves:ENTRY
[furlkit.objectives]
drawn = toy_halves:OBJECTIVE
"""
ROUNDS = """
partition --data digits --clients 2 -o p.st
init --data digits --objective drawn --width 0.02 --projector 8,4 -o g0.st
local-train p.st g0.st {FAST} --halves-out h1_{{client}}.st --private-out v1_{{client}}.st -o u1_{{client}}.st
aggregate u1_0.st u1_1.st -o g1.st
local-train p.st g1.st {FAST} --halves h1_0.st --halves h1_1.st --draw 3 --halves-out h2_{{client}}.st --private v1_{{client}}.st --private-out v2_{{client}}.st -o u2_{{client}}.st
local-train p.st g1.st {FAST} --halves h1_0.st --halves h1_1.st --draw 3 --halves-out h2_{{client}}.st --private v1_{{client}}.st --private-out v2_{{client}}.st -o u2_{{client}}.st
embed u1_1.st --data digits --partition p.st --part 1 --split train --layer z -o z.st
"""
FAST = "--data digits --objective drawn --client 0-1 --epochs 1 --batch-size 256"
PROGRAM = """
import sys
from furlkit.cli.program import _outcome
for line in sys.stdin.read().strip().splitlines():
    assert _outcome(line.split()) == 0, line
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two rounds through the command line, with the package installed."""
    site, folder = (tmp_path_factory.mktemp(name) for name in ("site", "run"))
    (site / "toy_halves.py").write_text(MODULE)
    info = site / "toy_halves-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toy-halves\nVersion: 1.0\n"
    )
    (info / "entry_points.txt").write_text(POINTS)
    return site, folder


@pytest.fixture(scope="module")
def done(run, environment):
    site, folder = run
    path = f"{environment['PYTHONPATH']}:{site}"
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=ROUNDS.format(FAST=FAST),
        cwd=folder,
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def test_clients_share_the_mean_rows_of_their_images_with_counts(done):
    folder, _ = done
    z, rows = (load_file(folder / f)["rows"] for f in ("z.st", "h1_1.st"))
    first, second = np.array_split(z, 2)
    np.testing.assert_allclose(rows[0, :-1], first.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(rows[1, :-1], second.mean(axis=0), atol=1e-5)
    assert rows[:, -1].tolist() == [len(first), len(second)]


def test_the_rows_of_all_clients_come_back_and_change_training(done):
    folder, _ = done
    shared = [Container(folder / f"h1_{k}.st").content for k in (0, 1)]
    header = Container(folder / "u2_0.st").header
    assert [header.inputs[f"halves {k}"] for k in (0, 1)] == shared
    assert header.options["draw"] == 3.0
    assert any(name.startswith("plugin toy-halves") for name in header.options)
    journal = (folder / "u2_0.st.log.jsonl").read_text()
    assert '"draw"' in journal
    assert '"draw"' not in (folder / "u1_0.st.log.jsonl").read_text()


def test_memory_passes_from_round_to_round_and_a_finished_command_is_reported(done):
    folder, text = done
    for round_ in (1, 2):
        kept = load_file(folder / f"v{round_}_0.st")["memory.halves.rounds"]
        assert kept == round_
    assert text.count("already there") == 2
