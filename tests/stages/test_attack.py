"""attack: hostile uploads that every reader accepts, and copies of honest ones."""

from dataclasses import replace

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.container.write import write
from furlkit.files.features import read_features
from furlkit.weights import is_batchnorm_statistic


@pytest.fixture
def attack(world, run):
    """The tensors of a hostile upload of client 0: attack("scale", ...)."""

    def call(kind, *more, parent=True):
        start = ("--parent", world.model) if parent else ()
        line = ("attack", world.clients[0], "--kind", kind, *start, *more)
        done = run(*line, "-o", world.output)
        assert done.code == 0, done.err
        return read_checkpoint(world.output)

    return call


@pytest.mark.parametrize("kind, factor", [("scale", 100), ("flip", -1)])
def test_scale_and_flip_change_the_update(world, attack, kind, factor):
    upload, parent = read_checkpoint(world.clients[0]), read_checkpoint(world.model)
    found = attack(kind)
    assert found.facts == upload.facts and found.content != upload.content
    for name, w in upload.tensors.items():
        if w.dtype.kind != "f" or is_batchnorm_statistic(name):
            assert found.tensors[name].tobytes() == w.tobytes()
        else:
            w_g = parent.tensors[name].astype(float)
            np.testing.assert_allclose(
                found.tensors[name], w_g + factor * (w - w_g), rtol=1e-4, atol=1e-6
            )


def test_noise_is_as_long_as_the_update_times_a_factor(world, attack):
    upload, parent = read_checkpoint(world.clients[0]), read_checkpoint(world.model)
    found = attack("noise", "--factor", 3)
    name = max(upload.tensors, key=lambda n: upload.tensors[n].size)
    u, v = (m.tensors[name] - parent.tensors[name] for m in (upload, found))
    assert np.linalg.norm(v) == pytest.approx(3 * np.linalg.norm(u), rel=0.1)
    assert attack("noise", "--factor", 3).content == found.content
    assert attack("noise", "--factor", 3, "--seed", 1).content != found.content


def test_copy_has_the_header_of_one_and_the_tensors_of_another(world, attack):
    found = attack("copy", "--of", world.clients[2], parent=False)
    other = read_checkpoint(world.clients[2])
    assert found.facts == read_checkpoint(world.clients[0]).facts
    for name, array in other.tensors.items():
        assert found.tensors[name].tobytes() == array.tobytes()


def test_rows_are_replaced_by_one_of_them(world, run):
    rows, hostile = world.folder / "rows", world.folder / "hostile"
    assert run("local-train", world.partition, world.model, "--data", "digits",
               "--client", 1, "--epochs", 1, "--batch-size", 240, "--features-out", rows,
               "--private-out", world.folder / "own",
               "--dictionary-size", 24, "-o", world.folder / "c").code == 0  # fmt: skip
    line = ("attack", rows, "--kind", "backdoor-rows", "--row", 3, "-o", hostile)
    assert run(*line, "--fraction", 0.5).code == 0
    honest, found = read_features(rows), read_features(hostile)
    same = (found.rows == honest.rows[3]).all(axis=1)
    assert same.sum() in (4, 5) and len(same) == 8  # row 3 may be one of the 4
    assert (found.rows[~same] == honest.rows[~same]).all()
    assert found.facts == honest.facts
    assert (
        run("aggregate", "--rule", "dictionary", hostile, "-o", world.output).code == 0
    )


def test_clients_that_do_not_attack_are_copied_to_the_byte(world, run):
    line = ("attack", world.clients[1], "--parent", world.model, "-o", world.output)
    assert run(*line, "--clients", "0,2").out.endswith("as client 1 sent it\n")
    assert world.output.read_bytes() == world.clients[1].read_bytes()
    assert run(*line, "--clients", "1").code == 0
    hostile = world.output.read_bytes()
    assert hostile != world.clients[1].read_bytes()
    assert run(*line, "--clients", "all").code == 0
    assert world.output.read_bytes() == hostile


def test_a_site_with_a_name_may_attack(world, run):
    opened = Container(world.clients[1])
    facts = {**opened.header.facts, "client": "north", "partition": None}
    upload = world.folder / "north"
    write(upload, opened.tensors(), replace(opened.header.unsealed(), facts=facts))
    line = ("attack", upload, "--parent", world.model, "-o", world.output, "--clients")
    assert "as client north sent it" in run(*line, "south").out
    assert "attack of client north" in run(*line, "north").out
    assert read_checkpoint(world.output).facts.client == "north"


@pytest.mark.parametrize("rule", ["mean", "krum", "clip"])
def test_aggregate_and_inspect_accept_a_hostile_upload(world, run, attack, rule):
    attack("scale")
    world.output.rename(world.clients[0])
    options = {"krum": ("--assumed-hostile", 0), "clip": ("--parent", world.model)}
    line = ("aggregate", "--rule", rule, *world.clients, *options.get(rule, ()))
    assert run(*line, "-o", world.folder / "g").code == 0
    assert run("inspect", "--verify", world.clients[0]).code == 0


def test_what_it_refuses(world, refused):
    line = ("attack", world.clients[0], "-o", world.output, "--kind")
    here = world.folder
    refused(here, 2, ("--parent",), *line, "scale")
    refused(here, 2, ("--of",), *line, "copy")
    refused(here, 2, ("--factor",), *line, "copy", "--factor", 2)
    refused(here, 65, (world.partition, "checkpoint"), *line, "flip", "--parent",
            world.partition)  # fmt: skip
    refused(here, 65, (world.clients[1], "trained from"), *line, "flip", "--parent",
            world.clients[1])  # fmt: skip
    refused(
        here, 65, (world.model, "client"), "attack", world.model, "-o", world.output
    )
    refused(here, 65, (world.clients[0], "features"), *line, "backdoor-rows")


@pytest.mark.parametrize("kind", ["scale", "flip", "noise"])
@pytest.mark.parametrize("shape", [(7, 1, 3, 3), (5,), ()])
def test_an_upload_of_other_shapes_is_refused(world, forge, refused, kind, shape):
    upload = forge(
        world.clients[0], {"encoder.conv1.weight": np.zeros(shape, np.float32)}
    )
    given = (upload, "--kind", kind, "--parent", world.model, "-o", world.folder / "x")
    words = [upload, "encoder.conv1.weight", world.model]
    refused(world.folder, 65, words, "attack", *given)
