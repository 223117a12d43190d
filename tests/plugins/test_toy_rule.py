"""A rule with a memory, a term and an update of another package, one file each.

The package is written into a temporary folder and found through its entry points.
"""

import subprocess

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.recipes.launcher import launched

RULE = """
import numpy as np

from furlkit.catalogue import Number, Option, Rule


def heavy_ball(uploads, state, *, friction):
    def moved(column):
        w = next(column).copy()
        return np.stack([w, sum(u / len(uploads.clients) for u in column) - w])

    def both(name):
        old = state(f"speed.{name}") if state else None
        for w, delta in uploads.combine(name, moved, parent=True):
            yield w, delta + (1 - friction) * (next(old) if old else 0)

    def model(name):
        if name.endswith(("weight", "bias")):
            return (w + speed for w, speed in both(name))
        return uploads.combine(name, lambda column: next(column).copy())

    return model, lambda name: (v for _, v in both(name.removeprefix("speed.")))


TOY = Rule(
    "heavy-ball", "the mean with momentum", "toy_rule:heavy_ball",
    options=(Option("friction", Number(0, 1), 0.1, "Share of the speed that is lost."),),
    parent=True, state=("speed",),
)
"""
TERM = """
from furlkit.catalogue import Number, Option, Term


def shrink(net, given, *, shrink):
    return lambda batch, forward: shrink * sum(
        p.square().sum() for p in net.parameters()
    )


TOY = Term(
    "shrink", "short weights", "toy_term:shrink", switch="shrink",
    options=(Option("shrink", Number(low=0), 0.0, "Weight of ||w||^2."),),
)
"""
UPDATE = """
from furlkit.catalogue import Number, Option, Update


def damped(w_g, w_k, memory, *, damping):
    from furlkit.updates.decision import Decision
    floats = {k: v for k, v in w_g.items() if v.dtype.kind == "f"}
    start = {**w_g, **{k: (damping * v).astype(v.dtype) for k, v in floats.items()}}
    return start, memory, Decision(0.0)


TOY = Update(
    "damped", "the global model, shortened", "toy_update:damped",
    options=(Option("damping", Number(0, 1), 0.5, "Factor of every number."),),
)
"""
GROUPS = {"rule": RULE, "term": TERM, "update": UPDATE}
FAST = ("--data", "digits", "--batch-size", 64, "--epochs", 1, "--client", "0-1")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder as pip would leave it: a module for each entry, and metadata."""
    folder = tmp_path_factory.mktemp("site")
    info = folder / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    points = ""
    for family, text in GROUPS.items():
        (folder / f"toy_{family}.py").write_text(text)
        points += f"[furlkit.{family}s]\ntoy = toy_{family}:TOY\n"
    (info / "entry_points.txt").write_text(points)
    return folder


@pytest.fixture(scope="module")
def furlkit(package, environment, tmp_path_factory):
    """Call the program with the package installed; it must succeed unless told."""
    path = f"{environment['PYTHONPATH']}:{package}"
    there, folder = {**environment, "PYTHONPATH": path}, tmp_path_factory.mktemp("r")

    def call(*arguments, code=0):
        command = [*words, *map(str, arguments)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done

    call.folder = folder
    with launched(tmp_path_factory.mktemp("launcher"), there) as words:
        yield call


@pytest.fixture(scope="module")
def rounds(furlkit):
    """Two rounds with all three toys."""
    furlkit("partition", "--data", "digits", "--clients", 2, "-o", "p.st")
    sizes = ("--width", 0.02, "--projector", "8,4")
    furlkit("init", "--data", "digits", *sizes, "-o", "g0.st")
    for number in (1, 2):
        parent, uploads = f"g{number - 1}.st", [f"u{number}_{k}.st" for k in (0, 1)]
        toys = ("--update", "damped", "--damping", 0.9, "--shrink", 0.01)
        furlkit("local-train", "p.st", parent, *FAST, *toys,
                "-o", f"u{number}_{{client}}.st")  # fmt: skip
        old = ("--state", f"s{number - 1}.st") if number > 1 else ()
        furlkit("aggregate", "--rule", "heavy-ball", "--friction", 0.25, *uploads,
                "--parent", parent, *old, "--state-out", f"s{number}.st",
                "-o", f"g{number}.st")  # fmt: skip
    return {path.stem: load_file(path) for path in furlkit.folder.glob("*.st")}


def test_the_rule_of_another_package_remembers(rounds):
    name = "encoder.conv1.weight"
    speed = np.zeros(())
    for number in (1, 2):
        w = rounds[f"g{number - 1}"][name].astype(np.float64)
        mean = (
            sum(rounds[f"u{number}_{k}"][name].astype(np.float64) for k in (0, 1)) / 2
        )
        speed = 0.75 * speed + mean - w
        found = rounds[f"s{number}"][f"speed.{name}"], rounds[f"g{number}"][name]
        np.testing.assert_allclose(found[0], speed, atol=1e-6)
        np.testing.assert_allclose(found[1], w + speed, atol=1e-6)
    assert {n.split(".")[0] for n in rounds["s2"]} == {"speed"}
    assert not any("running" in n or "tracked" in n for n in rounds["s2"])


def test_term_and_update_of_another_package_are_recorded(furlkit, rounds):
    text = furlkit("inspect", "--json", "u1_0.st").stdout
    for word in ('"plugin toy"', '"shrink": 0.01', '"damping": 0.9'):
        assert word in text
    text = furlkit("replay", "g2.st", "--depth", 1).stdout
    for word in (
        "--friction 0.25",
        "--state s1.st",
        "--state-out",
        "--rule heavy-ball",
    ):
        assert word in text


def test_the_term_and_the_update_change_the_training(furlkit, rounds):
    furlkit("local-train", "p.st", "g0.st", *FAST, "--client", 0, "-o", "plain.st")
    plain = load_file(furlkit.folder / "plain.st")["encoder.conv1.weight"]
    toy = rounds["u1_0"]["encoder.conv1.weight"]
    assert np.linalg.norm(toy) < 0.95 * np.linalg.norm(plain)
