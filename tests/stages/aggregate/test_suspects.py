"""aggregate --rule mean: uploads that plainly do not fit, and clients that are missing."""

import shutil

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
