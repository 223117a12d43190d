"""aggregate --rule mean: uploads that plainly do not fit, and clients that are missing."""

import json
import shutil

import numpy as np
import pytest

from tests.helpers import furlkit


@pytest.fixture(scope="module")
def hostile(_world, tmp_path_factory):
    """What client 1 of three sends: its update times 100."""
    output = tmp_path_factory.mktemp("lies") / "scaled"
    given = (_world.clients[1], "--kind", "scale", "--parent", _world.model)
    assert furlkit("attack", *given, "-o", output) == 0
    return output


def mean(world, *more):
    return ("aggregate", *world.clients, *more, "-o", world.folder / "mean")


@pytest.mark.parametrize("known", [True, False])
def test_an_update_far_from_the_others_is_named(world, hostile, run, known):
    shutil.copy(hostile, world.clients[1])
    done = run(*mean(world, *(("--parent", world.model) if known else ())))
    assert done.code == 0 and done.err.count("warning") == 1
    assert f"{world.clients[1]}: the update of client 1 is about" in done.err
    assert ("global model" if known else "middle of the uploads") in done.err


@pytest.mark.parametrize("client", [0, 1, 2])
def test_an_update_that_is_sent_backwards_is_named(world, run, tmp_path, client):
    """One of three clients; without the global model there are no directions.

    A line says so, but no warning: it is silent with -q, and passes with --strict.
    """
    path, output = world.clients[client], tmp_path / "flipped"
    given = (path, "--kind", "flip", "--parent", world.model)
    assert furlkit("attack", *given, "-o", output) == 0
    shutil.copy(output, path)
    done = run(*mean(world, "--parent", world.model))
    (line,) = done.err.splitlines()
    assert done.code == 0 and "degrees away from the others" in line
    assert f"{path}: the update of client {client} is about" in line
    (line,) = run(*mean(world, "--force", "--strict")).err.splitlines()
    assert "directions" in line and "--parent" in line
    assert run(*mean(world, "--force", "-q")).err == ""


def test_a_damaged_parent_decides_about_no_update(world, refused):
    whole = bytearray(world.model.read_bytes())
    whole[-1] ^= 1
    world.model.write_bytes(whole)
    words = mean(world, "--parent", world.model)
    refused(world.folder, 65, (world.model, "checksum"), *words)


def test_with_strict_no_result_is_written(world, hostile, run):
    shutil.copy(hostile, world.clients[1])
    done = run(*mean(world, "--strict"))
    assert done.code != 0 and not (world.folder / "mean").exists()


@pytest.mark.parametrize("more", [(), ("--parent",)])
def test_honest_rounds_and_two_clients_give_no_warning(world, hostile, run, more):
    given = ("--parent", world.model) if more else ()
    assert run(*mean(world, *given, "-q")).err == ""
    shutil.copy(hostile, world.clients[1])
    two = ("aggregate", *world.clients[:2], *given, "-o", world.folder / "two")
    assert run(*two).err == ""


def test_clients_of_the_partition_without_an_upload_are_a_warning(world, run):
    given = (world.clients[0], world.clients[2], "--partition", world.partition)
    line = ("aggregate", *given, "-o", world.folder / "some")
    text = "1 of 3 clients have no upload here: 1"
    done = run(*line)
    assert done.code == 0 and "warning" in done.err and text in done.err
    assert run(*line, "--strict", "--force").code == 65


def test_a_quorum_makes_missing_clients_no_warning(world, run):
    given = (world.clients[0], world.clients[2], "--partition", world.partition)
    done = run("aggregate", *given, "-o", world.folder / "some", "--at-least", 2)
    assert done.code == 0 and "have no upload here: 1\n" in done.err
    assert "warning" not in done.err
    every = ("aggregate", *world.clients, "-q", "--partition", world.partition)
    assert run(*every, "-o", world.folder / "all", "--strict").err == ""


@pytest.fixture
def sybils(tmp_path, upload_files):
    """Six honest clients, 0 to 5, and seven names, 6 to 12, for one hostile update."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=(60, 50))
    updates = 0.35 * rng.normal(size=(60, 50)) + rng.normal(size=(6, 60, 50))
    lie = -updates.mean(axis=0)
    lies = lie + 0.05 * lie.std() * rng.normal(size=(7, 60, 50))
    models = [start + 0.01 * u for u in (*updates, *lies)]
    weights = [{"encoder.w": w.astype(np.float32)} for w in models]
    upload_files(weights, {"encoder.w": start.astype(np.float32)})
    return [tmp_path / f"c{k}" for k in range(13)]


def test_sybils_do_not_frame_honest_clients(sybils, tmp_path, run):
    line = ("aggregate", *sybils, "--parent", tmp_path / "g", "-o", tmp_path / "out")
    done = run(*line)
    assert done.code == 0 and done.err.count("warning") == 2
    assert "nearly the same update of clients 6, 7, 8, 9, 10, 11, 12:" in done.err
    groups = "clients 6, 7, 8, 9, 10, 11, 12 (7) and clients 0, 1, 2, 3, 4, 5 (6)"
    assert f"two groups disagree: {groups}" in done.err
    report = tmp_path / "report.json"
    done = run(*line, "--report", report, "--force")
    assert done.code == 0 and f"two groups disagree: {groups}" in done.err
    found = json.loads(report.read_text())
    assert found["stands_out"] == list(range(6, 13))
    assert found["opposed"] == [list(range(6, 13)), list(range(6))]
