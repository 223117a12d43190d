"""A method of one file and one entry: two heads, kept state, an epoch hook, an option.

The package is written into a temporary folder and found through its entry point.
"""

import importlib
import json
import subprocess
import sys
from importlib.metadata import Distribution, EntryPoint
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit.catalogue.distributions import described
from tests.recipes.launcher import launched

ENTRY = """
from furlkit.catalogue import Head, Number, Objective, Option

TOY = Objective(
    "toy",
    "guess the group that an image was put into",
    heads=("projector", Head("guesser", widths=(8, 3), help="Widths of the guesser.")),
    function="toy_method:learner",
    options=(Option("shrink", Number(low=0), 0.1, "Weight of ||z||^2."),),
)
"""
METHOD = """
import torch
import torch.nn.functional as F
from torch import nn

from furlkit.objectives.learner import Forward


class Toy(nn.Module):
    def __init__(self, net, shrink):
        super().__init__()
        self.net, self.shrink = net, shrink
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def begin_epoch(self, images, epoch, rng):
        groups = torch.randint(3, (len(images),), generator=rng)
        self.register_buffer("groups", groups)

    def step(self, batch):
        x = batch.one_view()
        h = self.net.encoder(x)
        z = self.net.projector(h)
        guess = F.cross_entropy(self.net.guesser(h), self.groups[batch.index])
        shrink = self.shrink * z.square().mean()
        return Forward({"guess": guess, "shrink": shrink}, x, h, z)

    def after_step(self):
        self.steps += 1


def learner(net, *, shrink):
    return Toy(net, shrink)
"""
FAST = ("--data", "digits", "--batch-size", 64, "--epochs", 2)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder as pip would leave it: two modules and the metadata of a distribution."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "toy_entry.py").write_text(ENTRY)
    (folder / "toy_method.py").write_text(METHOD)
    info = folder / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[furlkit.objectives]\ntoy = toy_entry:TOY\n"
    )
    return folder


@pytest.fixture(scope="module")
def with_package(package, environment):
    return {**environment, "PYTHONPATH": f"{environment['PYTHONPATH']}:{package}"}


@pytest.fixture(scope="module")
def program_with_package(with_package, tmp_path_factory):
    with launched(tmp_path_factory.mktemp("launcher"), with_package) as words:
        yield words


@pytest.fixture
def furlkit(program_with_package, with_package, tmp_path):
    """Call the program with the package installed; it must succeed unless told."""

    def call(*arguments, code=0, extra=None):
        start = [sys.executable, *extra] if extra else program_with_package
        done = subprocess.run(
            [*start, *map(str, arguments)],
            cwd=tmp_path,
            env=with_package,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        return done

    return call


@pytest.fixture
def start(furlkit):
    furlkit("partition", "--data", "digits", "--clients", 3, "-o", "p.st")
    sizes = ("--width", 0.02, "--projector", "8,4", "--guesser", "5,3")
    furlkit("init", "--data", "digits", "--objective", "toy", *sizes, "-o", "g.st")


def train(furlkit, model, name, *more, **how):
    out = ("--private-out", f"{name}_private.st", "-o", f"{name}.st")
    command = ("local-train", "p.st", model, "--client", 0, "--objective", "toy")
    return furlkit(*command, *FAST, *more, *out, **how)


def test_its_option_and_heads_are_in_the_help(furlkit):
    text = furlkit("local-train", "--help-all").stdout
    assert "--shrink" in text
    assert "toy" in text
    assert "--guesser" in furlkit("init", "--help-all").stdout


def test_a_round_with_state_that_the_client_keeps(furlkit, start, tmp_path):
    train(furlkit, "g.st", "a", "--shrink", 0.5)
    upload, private = (load_file(tmp_path / f"a{k}.st") for k in ("", "_private"))
    assert {name.split(".")[0] for name in upload} == {
        "encoder",
        "projector",
        "guesser",
    }
    assert upload["guesser.fc1.weight"].shape[0] == 5
    steps = 2 * (len(load_file(tmp_path / "p.st")["indices"]) // 3 // 64)
    assert int(private["steps"]) == steps
    furlkit("aggregate", "a.st", "-o", "g1.st")
    train(furlkit, "g1.st", "b", "--private", "a_private.st")
    assert int(load_file(tmp_path / "b_private.st")["steps"]) == 2 * steps
    furlkit("evaluate", "knn", "g1.st", "--data", "digits", "-o", "knn.json")


def test_its_option_reaches_the_method_and_the_header(furlkit, start, tmp_path):
    train(furlkit, "g.st", "a", "--shrink", 0)
    train(furlkit, "g.st", "b", "--shrink", 3)
    a, b = load_file(tmp_path / "a.st"), load_file(tmp_path / "b.st")
    assert any(not np.array_equal(a[name], b[name]) for name in a)
    assert '"shrink": 3' in furlkit("inspect", "--json", "b.st").stdout
    assert "--shrink 3.0 " in furlkit("replay", "b.st", "--depth", 1).stdout
    simclr = ("--objective", "simclr", "--shrink", 1)
    done = train(furlkit, "g.st", "c", *simclr, code=2)
    assert "--shrink" in done.stderr


DYING = """
import sys
from furlkit.files.progress import ProgressFile
from furlkit.cli.program import main
save, left = ProgressFile.save, [int(sys.argv.pop(1))]
def dying(self, *given):
    save(self, *given)
    left[0] -= 1
    if not left[0]:
        import os
        os._exit(9)
ProgressFile.save = dying
main(sys.argv[1:])
"""


@pytest.mark.parametrize("moment", [1, 3, 4])
def test_killed_within_an_epoch_it_ends_with_the_same_bytes(
    furlkit, start, tmp_path, moment
):
    """The groups that begin_epoch drew are in the progress file, in their own shape."""
    train(furlkit, "g.st", "whole")
    often = ("--save-every", 0)
    train(furlkit, "g.st", "cut", *often, code=9, extra=["-c", DYING, str(moment)])
    assert (tmp_path / "cut.st.progress").exists()
    done = train(furlkit, "g.st", "cut", *often)
    assert "resum" in done.stderr
    for kind in ("", "_private"):
        whole, cut = (load_file(tmp_path / f"{n}{kind}.st") for n in ("whole", "cut"))
        assert whole.keys() == cut.keys()
        assert all(np.array_equal(whole[name], cut[name]) for name in whole)


def test_without_its_package_a_model_is_refused_by_name(
    furlkit, start, program, tmp_path
):
    done = program("evaluate", "knn", tmp_path / "g.st", "--data", "digits",
                   "-o", tmp_path / "k.json")  # fmt: skip
    assert done.returncode == 65
    assert "guesser" in done.stderr


def test_an_output_is_made_again_if_the_code_of_its_package_has_changed(
    furlkit, start, package, tmp_path
):
    train(furlkit, "g.st", "a", "--epochs", 1)
    before = (tmp_path / "a.st").read_bytes()
    assert "already there" in train(furlkit, "g.st", "a", "--epochs", 1).stdout
    method = package / "toy_method.py"
    method.write_text(METHOD.replace("guess, ", "2 * guess, "))
    done = train(furlkit, "g.st", "a", "--epochs", 1)
    method.write_text(METHOD)
    assert "making it again with plugin toy 1.0 " in done.stderr
    assert (tmp_path / "a.st").read_bytes() != before


RECIPE = """
[settings]
data = "digits"
clients = 2
rounds = 1
[files]
global = "r{round}/global.safetensors"
upload = "r{round}/client_{client}.safetensors"
private = "r{round}/private_{client}.safetensors"
knn = "r{round}/knn.json"
[stages]
partition = "partition --data {data} --clients {clients} -o {partition}"
init = "init --data {data} --objective toy --width 0.02 --projector 8,4 -o {global@0}"
train = "local-train {partition} {global@last} --data {data} --client {client} --objective toy --epochs 1 --batch-size 240 --private-out {private} -o {upload}"
average = "aggregate {upload*} -o {global}"
knn = "evaluate knn {global} --data {data} -o {knn}"
"""


def test_changed_code_makes_the_steps_of_a_run_stale(furlkit, package, tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    furlkit("plan", "recipe.toml", "-o", "run")
    for step in json.loads(
        furlkit("plan", "recipe.toml", "--as", "json", "--dry-run").stdout
    )[0]["steps"]:
        furlkit(*step["command"])

    def stale():
        return json.loads(furlkit("status", "exp", "--json").stdout)["stale"]

    assert stale() == []
    scores = ("a=exp/r001/knn.json", "b=exp/r000/knn.json")
    compare = ("compare", *(x for s in scores for x in ("--series", s)))
    assert "code" not in furlkit(*compare).stderr
    upload = "exp/r001/client_0.safetensors"
    replay = ("replay", upload, "--depth", 1, "--run")
    assert "same bytes" in furlkit(*replay).stdout
    method = package / "toy_method.py"
    method.write_text(METHOD.replace("guess, ", "2 * guess, "))
    try:
        assert "train, round 1, client 0" in stale() and "partition" not in stale()
        planned = furlkit("plan", "recipe.toml", "-o", "run").stderr
        assert "exp: the code of toy has changed" in planned
        assert "exp: the code of toy has changed" in furlkit(*compare).stderr
        replayed = furlkit(*replay, code=1).stdout
        assert "plugin toy 1.0 " in replayed and "same versions" not in replayed
    finally:
        method.write_text(METHOD)
    assert stale() == []


def test_a_package_that_a_command_does_not_use_leaves_no_trace(
    furlkit, program, tmp_path
):
    words = ("partition", "--data", "digits", "--clients", 3, "-o")
    furlkit(*words, "with.st")
    assert program(*words, tmp_path / "without.st").returncode == 0
    files = [(tmp_path / f"{name}.st").read_bytes() for name in ("with", "without")]
    assert files[0] == files[1]


@pytest.fixture
def point(tmp_path, monkeypatch):
    """Write the files of a package of an entry; gives the entry point."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(files: dict[str, str], listed: str = "") -> EntryPoint:
        info = tmp_path / "toys-1.0.dist-info"
        texts = {"METADATA": "Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n"}
        for path, text in {
            **files,
            "toys-1.0.dist-info/METADATA": texts["METADATA"],
        }.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
        if listed:
            (info / "RECORD").write_text(listed)
        importlib.invalidate_caches()
        found = EntryPoint("toy", "toys.entry:TOY", "furlkit.objectives")
        vars(found).update(dist=Distribution.at(info))
        return found

    return write


def test_the_hash_of_a_package_covers_its_files_and_not_its_place(point):
    files = {
        "toys/__init__.py": "",
        "toys/entry.py": "TOY = 1\n",
        "other.py": "x = 1\n",
    }
    entry = SimpleNamespace(function="other:learner")
    first = described(point(files), entry)
    assert first.startswith("1.0 ") and len(first) == 4 + 64
    # An ordinary installation lists its files, an editable one does not.
    record = "toys/entry.py,,\ntoys/__init__.py,,\ntoys-1.0.dist-info/METADATA,,\n"
    assert described(point(files, record), entry) == first
    assert (
        described(point({**files, "toys/__pycache__/entry.pyc": "y"}), entry) == first
    )
    for change in ({"toys/entry.py": "TOY = 2\n"}, {"other.py": "x = 2\n"},
                   {"toys/table.csv": "1,2\n"}):  # fmt: skip
        assert described(point({**files, **change}), entry) != first
