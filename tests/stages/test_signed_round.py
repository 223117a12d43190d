"""A round with signatures on both sides: the same bytes as without."""

import numpy as np
import pytest

from furlkit.catalogue import COMMANDS, File
from furlkit.errors import InputError
from furlkit.files.checkpoint import open_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.signatures import signature_of
from furlkit.stages.local_train import start
from tests.helpers import furlkit
from tests.stages.aggregate.test_claims import resealed

TRAIN = ("--data", "digits", "--client", 0, "--epochs", 1, "--batch-size", 240)


def local_train(world, *more) -> tuple:
    output = world.folder / "u"
    return ("local-train", world.partition, world.model, *TRAIN, *more, "-o", output)


def test_a_site_trains_from_a_model_that_the_server_signed(
    world, run, refused, keys, allowed
):
    signers = allowed("server", "0")
    words = local_train(world, "--signers", signers)
    unsigned = [world.model, "no signature of the server"]
    refused(world.folder, 65, unsigned, *words)
    assert furlkit("sign", world.model, "--key", keys("0")) == 0
    refused(world.folder, 65, [world.model, "no valid signature of the server"], *words)
    assert furlkit("sign", world.model, "--key", keys("server")) == 0
    assert run(*words).code == 0
    assert (world.folder / "u").read_bytes() == world.clients[0].read_bytes()


@pytest.mark.parametrize("client", [1, "mallory"])
def test_a_member_cannot_send_a_global_model(
    world, run, refused, forge, keys, allowed, client
):
    """The member names itself in the header and signs with its key."""
    forge(world.model, facts={"client": client})
    assert furlkit("sign", world.model, "--key", keys(str(client))) == 0
    signers = allowed("server", str(client))
    words = local_train(world, "--signers", signers)
    message = refused(world.folder, 65, [world.model, f"client {client}"], *words)
    assert "a file of the server" in message
    done = run("inspect", "--signers", signers, world.model)
    assert f"valid signature of {client}" in done.err
    assert "as a global model, a signature of server is needed" in done.err


def test_a_global_model_of_a_client_is_refused_everywhere(world, refused, forge):
    forge(world.model, facts={"client": 1})
    words = [world.model, "role global", "client 1"]
    with pytest.raises(InputError, match="names client 1"):
        open_checkpoint(world.model)
    refused(world.folder, 65, words, *local_train(world))
    out = ("-o", world.folder / "o")
    refused(world.folder, 65, words, "embed", world.model, "--data", "digits", *out)
    parent = ("--parent", world.model)
    refused(world.folder, 65, words, "aggregate", *world.clients, *parent, *out)


def test_who_signs_the_files_that_a_site_receives():
    """The server makes every file but the models of helpers."""
    command = COMMANDS["local-train"]
    takers = [*command.arguments, *command.options.values()]
    signers = {
        taker[0]: taker.kind.signer
        for taker in takers
        if isinstance(taker.kind, File) and taker.kind.direction.startswith("received")
    }
    assert signers.pop("helper") == "client"
    assert {"model", "dictionary", "align", "centroids", "correlations", "kernel"} <= (
        signers.keys()
    )
    assert {*signers.values()} == {"server"}


def test_rows_of_a_client_are_no_dictionary_of_the_server(
    world, run, refused, forge, keys, allowed
):
    rows = world.folder / "rows_0"
    shared = ("--alpha", 0, "--features-out", world.folder / "rows_{client}")
    assert run(*local_train(world, *shared)).code == 0
    forge(rows, facts={"round": 0})
    assert furlkit("sign", world.model, "--key", keys("server")) == 0
    assert furlkit("sign", rows, "--key", keys("0")) == 0
    words = ("--signers", allowed("server", "0"), "--dictionary", rows, "--force")
    expected = [rows, "client 0", "the server"]
    refused(world.folder, 65, expected, *local_train(world, *words))


def test_a_signed_model_that_is_exchanged_after_the_check(
    world, refused, keys, allowed, monkeypatch
):
    """The twin has the content hash of the signed model, other numbers, and a check."""
    assert furlkit("sign", world.model, "--key", keys("server")) == 0
    twin, raw = world.folder / "twin", bytearray(world.model.read_bytes())
    raw[-4:] = np.float32(0.5).tobytes()
    twin.write_bytes(raw)
    resealed(twin, content=Container(world.model).content)
    forged, read_partition = twin.read_bytes(), start.read_partition
    twin.unlink()
    words = local_train(world, "--signers", allowed("server"))
    before = world.model.read_bytes()

    def exchange(path):
        world.model.write_bytes(forged)
        return read_partition(path)

    monkeypatch.setattr(start, "read_partition", exchange)
    assert furlkit(*words) == 65
    assert not (world.folder / "u").exists()
    world.model.write_bytes(before)
    monkeypatch.undo()
    assert furlkit(*words) == 0


def test_tensors_behind_a_signed_header(world, refused, keys, allowed):
    """A forger can keep the checksum, but not the content hash."""
    assert furlkit("sign", world.model, "--key", keys("server")) == 0
    signature = signature_of(world.model).read_bytes()
    whole = bytearray(world.model.read_bytes())
    whole[-1] ^= 1
    world.model.write_bytes(whole)
    assert signature_of(world.model).read_bytes() == signature
    words = local_train(world, "--signers", allowed("server"))
    refused(world.folder, 65, [world.model, "bytes"], *words)


@pytest.mark.parametrize("signed", [True, False])
def test_shared_files_are_signed_too(world, run, refused, forge, keys, allowed, signed):
    """The dictionary is the server's; another client's rows would be the client's."""
    rows, bank = world.folder / "rows_{client}", world.folder / "bank"
    given = ("--alpha", 0, "--features-out", rows)
    assert run(*local_train(world, *given)).code == 0
    made = ("aggregate", "--rule", "dictionary", world.folder / "rows_0", "-o", bank)
    assert run(*made).code == 0
    forge(bank, facts={"round": 0})
    files = (world.model, bank) if signed else (world.model,)
    assert furlkit("sign", *files, "--key", keys("server")) == 0
    words = ("--signers", allowed("server"), "--dictionary", bank, "--force")
    if signed:
        assert run(*local_train(world, *words)).code == 0
    else:
        refused(world.folder, 65, [bank, "signature"], *local_train(world, *words))


def test_an_own_model_needs_no_signature(world, run, refused, allowed):
    """--update keep: the site continues from the last upload, at first from GLOBAL."""
    own = ("--update", "keep", "--signers", allowed("server"))
    words = ("local-train", world.partition, world.clients[0], *TRAIN, *own)
    done = run(*words, "-o", world.folder / "u")
    assert done.code == 0, done.err
    first = local_train(world, *own, "--force")
    refused(world.folder, 65, [world.model, "no signature of the server"], *first)


def test_a_courier_cannot_send_the_own_model_of_a_site(
    world, run, refused, forge, keys, allowed
):
    """Without the record that the site's training leaves, the site must have signed."""
    folder, signers = world.folder, allowed("server", "st-mary", "mallory")
    site = ("--data", "digits", "--client", "st-mary", "--epochs", 1)
    site += ("--batch-size", 240)
    upload, sent = folder / "u1", folder / "sent"
    assert run("local-train", world.model, *site, "-o", upload).code == 0
    own = (*site, "--update", "keep", "--signers", signers, "-o", folder / "u2")
    assert run("local-train", upload, *own, "--dry-run").code == 0
    sent.write_bytes(upload.read_bytes())
    words = ("local-train", sent, *own)
    refused(folder, 65, [sent, "no signature of client st-mary"], *words)
    for name, code in (("mallory", 65), ("server", 65), ("st-mary", 0)):
        assert furlkit("sign", sent, "--key", keys(name)) == 0
        assert run(*words, "--dry-run").code == code


def test_the_server_cannot_give_two_models_one_name(world, refused):
    """Masks and uploads name the model by the content hash, which GLOBAL must fit."""
    name = Container(world.model).content
    raw = bytearray(world.model.read_bytes())
    raw[-4:] = np.float32(0.5).tobytes()
    world.model.write_bytes(raw)
    resealed(world.model, content=name)
    assert Container(world.model).content == name
    refused(world.folder, 65, [world.model, "content"], *local_train(world))


def test_replay_of_a_signed_aggregate(world, run, keys, allowed):
    """The header names the uploads by content: replay needs no signature."""
    for client, upload in enumerate(world.clients):
        assert furlkit("sign", upload, "--key", keys(str(client))) == 0
    output = world.folder / "g1"
    words = ("--signers", allowed("0", "1", "2"), "--parent", world.model)
    assert run("aggregate", *world.clients, *words, "-o", output).code == 0
    plain = world.folder / "plain"
    assert run("aggregate", *world.clients, "-o", plain).code == 0
    assert output.read_bytes() == plain.read_bytes()
    for path in (*world.folder.glob("*.sig"), plain, world.output):
        path.unlink()
    done = run("replay", output, "--run", "--depth", 1)
    assert done.code == 0 and "same bytes" in done.out, done


def test_later_files_inherit_the_name_of_the_run(world, run):
    folder = world.folder
    net = ("--data", "digits", "--width", 0.02, "--projector", "8,4")
    plain, named = folder / "plain", folder / "named"
    assert run("init", *net, "-o", plain).code == 0
    assert plain.read_bytes() == world.model.read_bytes()
    assert run("init", *net, "--run-name", "chest-2026", "-o", named).code == 0
    train = ("local-train", world.partition, named, *TRAIN, "-o", folder / "u")
    embed = ("--data", "digits")
    steps = (
        (*train, "--alpha", 0, "--features-out", folder / "rows"),
        ("aggregate", folder / "u", "--parent", named, "-o", folder / "g1"),
        ("embed", folder / "u", *embed, "-o", folder / "h"),
        ("embed", folder / "u", *embed, "--similarity", "-o", folder / "s"),
        ("aggregate", "--rule", "ensemble", folder / "s", "-o", folder / "e"),
        ("aggregate", "--rule", "dictionary", folder / "rows", "-o", folder / "d"),
        ("distill", folder / "e", named, "--data", "digits", "--epochs", 1,
         "--batch-size", 240, "-o", folder / "g2"),
    )  # fmt: skip
    for step in steps:
        done = run(*step)
        assert done.code == 0, done.err
    for name in ("named", "u", "rows", "g1", "h", "s", "e", "d", "g2"):
        assert Container(folder / name).header.facts.get("run") == "chest-2026", name
    assert "chest-2026" in run("sign", "--statement", folder / "u").out
    assert "--run-name chest-2026" in run("replay", named).out


def run_of(path) -> str:
    return Container(path).header.facts["run"]


def test_init_writes_the_id_of_a_run(tmp_path, run):
    """Equal commands give equal bytes; any other option, seed, name or file another id."""
    net = ("--data", "digits", "--width", 0.02, "--projector", "8,4")
    others = ((), ("--seed", 1), ("--mean", 0.3), ("--run-name", "chest"))
    others += (("--head", "rotation"), ("--from", tmp_path / "same"))
    assert run("init", *net, "-o", tmp_path / "same").code == 0
    ids = []
    for number, more in enumerate(others):
        assert run("init", *net, *more, "-o", tmp_path / f"g{number}").code == 0
        ids.append(run_of(tmp_path / f"g{number}"))
    assert (tmp_path / "g0").read_bytes() == (tmp_path / "same").read_bytes()
    assert len(set(ids)) == len(others) and ids[3] == "chest"
    assert all(len(each) == 16 for each in ids if each != "chest")


def test_a_model_without_an_id_stays(world, run, forge):
    """Files of earlier versions name no run: init keeps the model, the round goes on."""
    net = ("--data", "digits", "--width", 0.02, "--projector", "8,4")
    forge(world.model, facts={"run": None})
    before = world.model.read_bytes()
    assert "already there" in run("init", *net, "-o", world.model).out
    assert world.model.read_bytes() == before
    u, g1 = world.folder / "u", world.folder / "g1"
    train = ("local-train", world.partition, world.model, *TRAIN, "-o", u)
    assert run(*train).code == 0
    assert run("aggregate", u, "--parent", world.model, "-o", g1).code == 0
    assert "run" not in Container(g1).header.facts


@pytest.mark.parametrize("name", ["", "2026", "a b", "../x", "x" * 65])
def test_names_that_a_run_cannot_have(tmp_path, refused, name):
    net = ("--image-size", 8, "--channels", 1, "--run-name", name)
    refused(tmp_path, 2, ["--run-name"], "init", *net, "-o", tmp_path / "g")
