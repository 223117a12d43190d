"""sign: signatures of files by ssh-keygen, and their check by inspect."""

import json
import os
import subprocess

import pytest

from tests.helpers import furlkit


def test_a_signature_is_one_of_openssh(world, run, keys, allowed):
    """The line of the help signs and verifies the same statement."""
    upload, signers = world.clients[0], allowed("0")
    done = run("sign", upload, "--key", keys("0"))
    assert done.code == 0 and done.out == f"{upload}.sig: signature of 0\n"
    said = run("sign", "--statement", upload)
    about = json.loads(run("inspect", "--json", upload).out)
    assert json.loads(said.out) == {
        "client": 0, "content": about["content"], "kind": "checkpoint", "round": 1,
        "run": about["facts"]["run"],
    }  # fmt: skip
    words = ("-n", "furlkit", "-f", signers, "-I", "0", "-s", f"{upload}.sig")
    command = ["ssh-keygen", "-Y", "verify", *map(str, words)]
    subprocess.run(command, input=said.out.encode(), check=True, capture_output=True)
    by_hand = ["ssh-keygen", "-Y", "sign", "-n", "furlkit", "-f", str(keys("0"))]
    made = subprocess.run(by_hand, input=said.out.encode(), capture_output=True)
    assert made.stdout == upload.with_name(f"{upload.name}.sig").read_bytes()


def test_inspect_checks_signatures_and_bytes(world, run, refused, keys, allowed):
    signers = allowed("server", "0")
    key, files = keys("server"), (world.model, world.partition)
    assert run("sign", *files, "--key", key).code == 0
    done = run("inspect", "--signers", signers, *files)
    assert done.code == 0 and f"{world.model}: valid signature of server" in done.err
    whole = bytearray(world.model.read_bytes())
    whole[-1] ^= 1
    world.model.write_bytes(whole)
    words = ("inspect", "--signers", signers, world.model)
    refused(world.folder, 65, [world.model, "bytes"], *words)
    unsigned = ("inspect", "--signers", signers, world.clients[0])
    refused(world.folder, 65, [world.clients[0], "no signature"], *unsigned)


def test_a_signature_is_no_file_of_furlkit(world, run, refused, keys):
    assert run("sign", world.model, "--key", keys("server")).code == 0
    path = world.model.with_name(f"{world.model.name}.sig")
    refused(world.folder, 65, [path, "is a signature"], "inspect", path)


def test_what_must_stay_is_not_signed(world, refused, keys):
    private = world.folder / "private"
    given = (world.partition, world.model, "--data", "digits", "--client", 2)
    more = ("--epochs", 1, "--batch-size", 240, "--private-out", private)
    assert furlkit("local-train", *given, *more, "-o", world.folder / "u") == 0
    words = ("sign", world.model, private, "--key", keys("2"))
    refused(world.folder, 65, [private, "private"], *words)


@pytest.mark.parametrize(
    "client", ["*", "st-*", "a,b", "st mary", "!a", "-oops", ["a"]]
)
def test_a_name_that_is_a_pattern_is_refused(world, refused, forge, keys, client):
    upload = forge(world.clients[0], facts={"client": client})
    words = ("sign", upload, "--key", keys("0"))
    refused(world.folder, 65, [upload, "client called"], *words)


def test_a_key_that_cannot_sign(keys, world, refused, tmp_path):
    key = tmp_path / "nobody"
    words = ("sign", world.clients[0], "--key", key)
    refused(world.folder, 65, [key, "No such file"], *words)


@pytest.mark.parametrize("script, word", [("", "cannot run"), ("exit 1", "too old")])
def test_without_a_fit_ssh_keygen(
    world, refused, keys, allowed, tmp_path, monkeypatch, script, word
):
    """An old ssh-keygen does not know -Y."""
    signers, key = allowed("0"), keys("0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    if script:
        old = tmp_path / "bin" / "ssh-keygen"
        old.write_text(f"#!/bin/sh\necho 'unknown option -- Y' >&2\n{script}\n")
        old.chmod(0o755)
    words = ("inspect", "--signers", signers, world.clients[0])
    refused(world.folder, 1, ["ssh-keygen", word, "OpenSSH"], *words)
    if not script:
        words = ("sign", world.clients[0], "--key", key)
        refused(world.folder, 1, ["ssh-keygen", word, "OpenSSH"], *words)


def test_a_key_with_a_passphrase_in_the_agent(
    world, run, allowed, tmp_path, monkeypatch
):
    key = tmp_path / "secret"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "words", "-f", str(key)]
    subprocess.run(make, check=True)
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=-3)
    try:
        asks = tmp_path / "asks"
        asks.write_text("#!/bin/sh\necho words\n")
        asks.chmod(0o755)
        while not socket.exists():
            assert agent.poll() is None
        more = {"SSH_AUTH_SOCK": str(socket), "SSH_ASKPASS": str(asks)}
        more |= {"SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
        environment = {**os.environ, **more}
        add = ["ssh-add", "-q", str(key)]
        subprocess.run(add, check=True, env=environment, stdin=-3)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        done = run("sign", world.clients[0], "--key", key)
    finally:
        agent.terminate()
        agent.wait()
    assert done.code == 0, done.err
    signers = allowed("1")
    signers.write_text(f"0 {key.with_suffix('.pub').read_text()}")
    assert run("inspect", "--signers", signers, world.clients[0]).code == 0
