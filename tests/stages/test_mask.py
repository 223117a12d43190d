"""mask and aggregate --rule masked-sum: the server sees nothing but the sum."""

import json
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.container.write import write
from furlkit.files.keys import (
    PUBLIC,
    SECRET,
    Key,
    KeyFacts,
    mask_words,
    public_of,
    read_key,
)
from furlkit.files.masked import WEIGHT, ZEROS
from tests.helpers import whole_header

pytest.importorskip("cryptography", reason="install furlkit[masks]")


class Sites:
    """Keys and uploads of sites with random weights, in a folder."""

    def __init__(self, world, run, count):
        self.world, self.run, self.names = world, run, [f"s{k}" for k in range(count)]
        rng = np.random.default_rng(count)
        for k, name in enumerate(self.names):
            self.upload(name, rng, 100 + 37 * k)
            assert self.key(name).code == 0

    def path(self, kind: str, name: str) -> Path:
        return self.world.folder / f"{kind}_{name}.safetensors"

    @property
    def keys(self) -> list[Path]:
        return [self.path("key", name) for name in self.names]

    @property
    def masked(self) -> list[Path]:
        return [self.path("masked", name) for name in self.names]

    def key_words(self, name, *more):
        secret = ("--secret-out", self.path("secret", name))
        words = ("mask", "key", self.world.model, "--client", name, *secret, *more)
        return (*words, "-o", self.path("key", name))

    def key(self, name, *more):
        return self.run(*self.key_words(name, *more))

    def upload(self, name, rng, examples=100, **facts):
        opened = Container(self.world.clients[0])
        told = {"client": name, "examples": examples, **facts}
        header = opened.header.unsealed()
        header = replace(header, facts={**header.facts, **told})
        tensors = {}
        for k, a in opened.tensors().items():
            x = a + rng.normal(size=a.shape) if a.dtype.kind == "f" else a
            x = np.abs(x) if k.endswith("running_var") else x
            tensors[k] = np.asarray(x).astype(a.dtype)
        write(self.path("upload", name), tensors, header)

    def words(self, name, *more):
        secret = ("--secret", self.path("secret", name))
        upload, masked = self.path("upload", name), self.path("masked", name)
        return ("mask", "upload", upload, *self.keys, *secret, "-o", masked, *more)

    def mask(self, *more):
        for name in self.names:
            done = self.run(*self.words(name, *more, "--force"))
            assert done.code == 0, done.err

    def used(self, name) -> Path:
        secret = self.path("secret", name)
        return secret.with_name(f"{secret.name}.used")

    def forget(self, name) -> None:
        """Remove the rounds from the list of used masks, by hand."""
        first, *_ = self.used(name).read_text().splitlines(keepends=True)
        self.used(name).write_text(first)

    def change_model(self, forge) -> None:
        """The server sends the round again with one bit of the model changed."""
        path = self.world.model
        name, array = next(iter(Container(path).tensors().items()))
        array.reshape(-1).view(np.uint8)[0] ^= 1
        forge(path, {name: array})
        for site in self.names:
            forge(self.path("upload", site), facts={"parent": Container(path).content})

    def sum_words(self, *paths):
        rule = ("--rule", "masked-sum", "--parent", self.world.model)
        return ("aggregate", *(paths or self.masked), *rule, "-o", self.world.output)


@pytest.fixture
def sites(world, run):
    """Make keys and uploads of some sites."""
    return lambda count=3: Sites(world, run, count)


@pytest.mark.parametrize("count", [3, 10, 20])
@pytest.mark.parametrize("weights", ["uniform", "examples"])
def test_the_masked_sum_is_the_plain_mean(sites, run, count, weights):
    some = sites(count)
    some.mask("--weights", weights)
    done = run(*some.sum_words())
    assert done.code == 0, done.err
    assert "cannot be checked" in done.err
    models = [read_checkpoint(some.path("upload", name)) for name in some.names]
    w = [m.facts.examples if weights == "examples" else 1 for m in models]
    mean = read_checkpoint(some.world.output)
    assert mean.facts.round == 1 and mean.facts.role == "global"
    assert mean.facts.examples is None
    told = whole_header(some.world.output).facts.get("examples")
    assert told == (sum(w) if weights == "examples" else None)
    assert mean.tensors.keys() == models[0].tensors.keys()
    for name, array in mean.tensors.items():
        columns = np.stack([m.tensors[name].astype(np.float64) for m in models])
        expected = np.average(columns, axis=0, weights=w)
        assert array.dtype == models[0].tensors[name].dtype
        if array.dtype.kind == "f":
            assert np.abs(array - expected).max() <= 2.0**-20, name
        else:
            assert (array == np.rint(expected)).all()


def test_the_result_is_the_model_of_the_next_round(sites, run):
    some = sites()
    some.mask()
    assert run(*some.sum_words()).code == 0
    again = run(*some.sum_words(*reversed(some.masked)))
    assert again.code == 0 and "already there" in again.out
    words = (some.world.partition, some.world.output, "--data", "digits", "--client", 0)
    plan = ("--epochs", 1, "--batch-size", 240, "--dry-run")
    done = run("local-train", *words, *plan, "-o", some.world.folder / "next")
    assert done.code == 0, done.err


def test_a_missing_site_voids_the_round(sites, refused):
    some = sites(4)
    some.mask()
    words = some.sum_words(*some.masked[:2], some.masked[3])
    refused(some.world.folder, 75, ["no masked upload of s2", "round is void"], *words)


def test_a_missing_site_in_an_inbox(sites, refused, run):
    some = sites(3)
    some.mask()
    inbox = some.world.folder / "inbox"
    inbox.mkdir()
    for path in some.masked[1:]:
        shutil.copy(path, inbox)
    refused(some.world.folder, 75, ["no masked upload of s0"], *some.sum_words(inbox))
    shutil.copy(some.masked[0], inbox)
    assert run(*some.sum_words(inbox)).code == 0


def test_a_replaced_public_key_is_refused(sites, refused, run):
    """A server gives s0 another key of s2 than the other sites have."""
    some = sites()
    some.mask()
    assert some.key("s2", "--renew").code == 0
    used = some.used("s0")
    refused(some.world.folder, 65, [used, "other keys"], *some.words("s0"))
    some.forget("s0")
    assert run(*some.words("s0")).code == 0
    words = some.sum_words()
    refused(some.world.folder, 65, [some.masked[0], "roster", "same keys"], *words)


def test_a_public_key_is_replaced_only_with_renew(sites, refused):
    some = sites()
    key, other = some.path("key", "s0"), some.path("other", "s0")
    words = ("mask", "key", some.world.model, "--client", "s0", "-o", key)
    for secret in (other, some.path("secret", "s1")):
        more = ("--secret-out", secret)
        word = "public key of another" if secret == other else "client s1"
        refused(some.world.folder, 65, [word], *words, *more)
        refused(some.world.folder, 65, [word], *words, *more, "--dry-run")
    assert some.key("s0").code == 0


def test_others_must_not_read_the_secret_key_and_the_list_of_masks(sites, refused):
    some = sites()
    secret = some.path("secret", "s0")
    secret.chmod(0o644)
    refused(some.world.folder, 65, [secret, "others may read"], *some.words("s0"))
    secret.chmod(0o600)
    some.mask()
    used = some.used("s0")
    assert stat.S_IMODE(used.stat().st_mode) == 0o600


def test_a_secret_key_must_belong_to_the_public_key(sites, refused):
    some = sites()
    own = some.path("key", "s0").read_bytes()
    assert some.key("s0", "--renew").code == 0
    some.path("key", "s0").write_bytes(own)
    key = some.path("key", "s0")
    refused(some.world.folder, 65, [key, "no public key of"], *some.words("s0"))


def test_masks_of_a_wrong_secret_do_not_cancel(sites, refused, forge):
    """The header is right, but the words are masked with another secret."""
    some = sites()
    some.mask()
    other = mask_words(bytes(range(32)), read_key(some.keys[1], PUBLIC), "x")
    opened = Container(some.masked[0])
    forge(
        some.masked[0],
        {e.name: other(e.size // 8).reshape(e.shape) for e in opened.entries},
    )
    words = some.sum_words()
    refused(some.world.folder, 65, [some.masked[0], "do not cancel"], *words)


def test_a_replayed_mask_is_refused(sites, refused, run, forge):
    """s1 sends words of an earlier round under the header of this round."""
    some = sites()
    some.mask()
    old = Container(some.masked[1]).tensors()
    for name in some.names:
        forge(some.path("upload", name), facts={"round": 2})
    some.mask()
    for path in some.masked:
        forge(path, facts={"round": 1})
    assert run(*some.sum_words()).code == 0
    some.world.output.unlink()
    forge(some.masked[1], old)
    words = some.sum_words()
    refused(some.world.folder, 65, [some.masked[0], "do not cancel"], *words)


def test_the_wrong_round_is_refused(sites, refused, run, forge):
    some = sites()
    some.mask()
    forge(some.path("upload", "s1"), facts={"round": 2})
    assert run(*some.words("s1", "--force")).code == 0
    words = some.sum_words()
    refused(some.world.folder, 65, [some.masked[1], "round 2"], *words)


def test_tensors_that_do_not_cancel_are_refused(sites, refused, forge):
    """The zeros cancel, the words of a tensor do not."""
    some = sites()
    some.mask()
    tensors = Container(some.masked[2]).tensors()
    name = max(tensors, key=lambda k: tensors[k].size)
    forge(some.masked[2], {name: tensors[name][::-1].copy()})
    words = some.sum_words()
    refused(some.world.folder, 65, [some.masked[0], "do not cancel"], *words)


def test_a_second_upload_with_the_same_masks_is_refused(sites, refused):
    some = sites()
    some.mask()
    bytes_ = some.masked[0].read_bytes()
    assert some.run(*some.words("s0")).code == 0
    assert some.masked[0].read_bytes() == bytes_
    some.upload("s0", np.random.default_rng(9))
    used = some.used("s0")
    refused(some.world.folder, 65, [used, "reveal the model"], *some.words("s0"))
    other = some.words("s1", "--weights", "examples")
    refused(some.world.folder, 65, ["other --weights"], *other)


def test_a_round_is_masked_once_whatever_the_model(sites, run, refused, forge):
    """The sum of four sites minus a sum of the three others is the fourth's model."""
    some = sites(4)
    some.mask()
    some.change_model(forge)
    used, folder = some.used("s0"), some.world.folder
    refused(folder, 65, [used, "another model"], *some.words("s0"))
    some.names.remove("s3")
    refused(folder, 65, [used, "another model"], *some.words("s0"))
    refused(folder, 65, [used, "another model"], *some.words("s0", "--new-roster"))


def test_a_run_keeps_its_keys(sites, run, refused, forge):
    some = sites(4)
    some.mask()
    for name in some.names:
        forge(some.path("upload", name), facts={"round": 2})
    some.names.remove("s3")
    used, folder = some.used("s0"), some.world.folder
    words = [used, "--new-roster", "round 1"]
    refused(folder, 65, words, *some.words("s0"))
    refused(folder, 65, words, *some.words("s0", "--dry-run"))
    some.mask("--new-roster")
    some.mask()  # The same uploads again.
    for name in some.names:
        forge(some.path("upload", name), facts={"round": 3})
    some.mask()


def test_a_run_keeps_its_weights(sites, refused, forge):
    """Of an equal and an unequal sum of two sites, the server solves for both models."""
    some = sites()
    some.mask()
    for name in some.names:
        forge(some.path("upload", name), facts={"round": 2})
    words = some.words("s0", "--weights", "examples")
    expected = [some.used("s0"), "round 1", "--weights uniform"]
    refused(some.world.folder, 65, expected, *words)
    refused(some.world.folder, 65, expected, *words, "--new-roster")
    some.mask()


def test_a_masked_file_of_an_earlier_round_is_kept(sites, refused, forge, run):
    some = sites()
    some.mask()
    assert run(*some.words("s0")).code == 0
    forge(some.path("upload", "s0"), facts={"round": 2})
    words = [some.path("masked", "s0"), "round 1", "--force"]
    refused(some.world.folder, 2, words, *some.words("s0"))
    assert len(some.used("s0").read_text().splitlines()) == 2


def test_new_keys_do_not_open_a_masked_round_again(sites, run, refused, forge):
    some = sites()
    some.mask()
    for name in some.names:
        assert some.key(name, "--renew").code == 0
    words = some.words("s0", "--new-roster")
    refused(some.world.folder, 65, [some.used("s0"), "round 1"], *words)
    for name in some.names:
        forge(some.path("upload", name), facts={"round": 2})
    some.mask("--new-roster")
    forge(some.world.model, facts={"run": "another"})
    assert some.key("s0", "--renew").code == 0
    assert len(some.used("s0").read_text().splitlines()) == 1


def test_a_site_has_one_key_in_a_run(sites, refused, forge):
    """The server asks for a second pair of keys, to mask the round again."""
    some = sites()
    some.mask()
    folder, used = some.world.folder, some.used("s0")
    second = ("--secret-out", folder / "second", "-o", folder / "second.pub")
    words = ("mask", "key", some.world.model, "--client", "s0", *second)
    refused(folder, 65, [used, "client s0", "--renew"], *words)
    refused(folder, 65, [used, "client s0"], *words, "--renew")
    forge(some.world.model, facts={"run": "another"})
    assert some.run(*words).code == 0


def test_a_missing_list_and_a_copy_of_the_secret_are_noticed(sites, run, refused):
    some = sites()
    secret, folder = some.path("secret", "s0"), some.world.folder
    copy = folder / "copy"
    shutil.copy2(secret, copy)
    words = some.words("s0", "--secret", copy)
    refused(folder, 65, [folder / "copy.used", "no such file"], *words)
    shutil.copy2(some.used("s1"), folder / "copy.used")
    refused(folder, 65, [folder / "copy.used", "another secret"], *words)
    some.used("s0").unlink()
    refused(folder, 65, [some.used("s0"), "--renew"], *some.words("s0"))
    assert some.key("s0").code == 0  # The existing key: no new list.
    refused(folder, 65, [some.used("s0"), "no such file"], *some.words("s0"))
    some.used("s0").write_text("[]")
    refused(folder, 65, [some.used("s0"), "no list"], *some.words("s0"))
    assert some.key("s0", "--renew").code == 0
    assert run(*some.words("s0")).code == 0


def test_a_new_key_replaces_no_other_list(sites, run, refused, forge):
    """A list of another run, whose secret key was moved; and a file of the user."""
    some = sites()
    some.mask()
    for name in some.names[:2]:
        some.path("key", name).unlink()
        some.path("secret", name).rename(some.world.folder / f"moved_{name}")
    forge(some.world.model, facts={"run": "another"})
    some.used("s1").write_text("notes")
    for name in some.names[:2]:
        used, words = some.used(name), some.key_words(name)
        refused(some.world.folder, 65, [used, "--secret-out"], *words)
        assert run(*words, "--renew").code == 0


HOLD = """
import sys
from pathlib import Path
from furlkit.files.lock import holding
with holding(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_uploads_at_once_use_a_mask_once(sites, environment, program, refused):
    """A process holds the list from the check to the note: others must wait."""
    some = sites()
    words = [sys.executable, "-c", HOLD, str(some.used("s0"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment}
    with subprocess.Popen(words, **pipes) as holder:
        assert holder.stdout.readline() == b"held\n"
        for command in (some.words("s0"), some.key_words("s0", "--renew")):
            done = program(*command)
            assert done.returncode == 75 and f"process {holder.pid}" in done.stderr
        assert not some.masked[0].exists()
        # The holder masks an upload: after the lock, the next one reads the list.
        uses = [
            {"round": 1, "parent": "p", "upload": "u", "roster": "r", "weights": "w"}
        ]
        first = some.used("s0").read_text()
        some.used("s0").write_text(first + "".join(map(json.dumps, uses)) + "\n")
        holder.stdin.close()
    refused(some.world.folder, 65, [some.used("s0"), "round 1"], *some.words("s0"))


@pytest.mark.parametrize("name, value", [("var", -1.2), ("batches_tracked", -3)])
def test_no_statistics_of_any_training(sites, run, refused, forge, name, value):
    """One site cheats: the sum has a negative variance, or a negative counter."""
    some = sites()
    upload = some.path("upload", "s2")
    tensors = Container(upload).tensors()
    key = next(k for k in tensors if k.endswith(name))
    bad = np.full_like(tensors[key], 1000 * value)
    before = upload.read_bytes()
    forge(upload, {key: bad})
    refused(some.world.folder, 65, [upload, key, "which is no"], *some.words("s2"))
    upload.write_bytes(before)
    some.mask()
    # The cheat adds to the words after masking.
    masked = Container(some.masked[2]).tensors()
    shift = np.int64(3 * 1000 * value * 2.0**32).astype(np.int64).view(np.uint64)
    forge(some.masked[2], {key: masked[key] + shift})
    words = [key, "which is no", "round is void"]
    refused(some.world.folder, 65, words, *some.sum_words())


def test_uploads_that_no_sum_can_add(sites, refused, forge):
    some = sites()
    upload, folder = some.path("upload", "s0"), some.world.folder
    options = Container(upload).header.options
    forge(upload, options={**options, "train-layers": "conv3,bn3"})
    refused(folder, 65, [upload, "--train-layers", "whole"], *some.words("s0"))
    forge(upload, {"control.encoder.x": np.zeros(3, np.float32)}, options=options)
    refused(folder, 2, [upload, "control", "scaffold"], *some.words("s0"))


def test_a_key_with_another_top_bit_is_the_same_key(sites, refused, forge):
    """X25519 ignores the bit: mallory repeats s1's key."""
    some = sites()
    key = np.frombuffer(read_key(some.keys[1], PUBLIC).key, np.uint8).copy()
    key[-1] ^= 0x80
    forge(some.keys[2], {"X25519": key})
    refused(some.world.folder, 65, [some.keys[2], "the key of"], *some.words("s0"))


def test_one_masked_upload_is_uniform(sites):
    """Bytes of a masked model of zeros: chi-squared within 6 deviations, bits at 1/2."""
    some = sites()
    opened = Container(some.path("upload", "s0"))
    zeros = {k: np.zeros_like(a) for k, a in opened.tensors().items()}
    write(some.path("upload", "s0"), zeros, opened.header.unsealed())
    some.mask()
    tensors = Container(some.masked[0]).tensors()
    words = np.concatenate([array.ravel() for array in tensors.values()])
    counts = np.bincount(words.view(np.uint8), minlength=256)
    expected = words.nbytes / 256
    chi = ((counts - expected) ** 2 / expected).sum()
    assert expected > 50 and abs(chi - 255) < 6 * (2 * 255) ** 0.5
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).mean(0)
    assert np.abs(bits - 0.5).max() < 6 * 0.5 / len(words) ** 0.5
    assert np.unique(words).size == words.size


def test_masks_differ_by_round_and_pair_and_agree_in_a_pair(sites):
    some = sites()
    secret = {n: read_key(some.path("secret", n), SECRET).key for n in some.names}
    public = {n: read_key(some.path("key", n), PUBLIC) for n in some.names}
    one = mask_words(secret["s0"], public["s1"], ["run", 1])(8)
    assert (one == mask_words(secret["s1"], public["s0"], ["run", 1])(8)).all()
    assert (one != mask_words(secret["s0"], public["s1"], ["run", 2])(8)).all()
    assert (one != mask_words(secret["s0"], public["s2"], ["run", 1])(8)).all()


def test_x25519_of_rfc_7748():
    """Section 5.2: one iteration from the base point."""
    nine = bytes([9, *bytes(31)])
    known = "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
    assert public_of(nine).hex() == known


def test_a_key_of_small_order_is_refused(tmp_path):
    weak = Key(tmp_path / "k", KeyFacts("s1", "run"), "", bytes(32))
    with pytest.raises(InputError, match="no valid X25519 key of client s1"):
        mask_words(bytes(range(32)), weak, "x")


def test_a_broken_key_uses_no_mask(sites, run, refused, forge):
    """mallory's key of small order does not take the round from s0."""
    some = sites()
    before = some.keys[2].read_bytes()
    forge(some.keys[2], {"X25519": np.zeros(32, np.uint8)})
    refused(some.world.folder, 65, [some.keys[2], "X25519"], *some.words("s0"))
    some.keys[2].write_bytes(before)
    assert run(*some.words("s0")).code == 0


def test_the_server_is_no_site(sites, run, refused, forge, keys, allowed):
    some, signers = sites(4), allowed("s0", "s1", "s2", "server")
    forge(some.keys[3], facts={"client": "server"})
    for name, path in zip(("s0", "s1", "s2", "server"), some.keys, strict=True):
        assert run("sign", path, "--key", keys(name)).code == 0
    words = some.words("s0", "--signers", signers)
    refused(some.world.folder, 65, [some.keys[3], "of the server"], *words)


def test_numbers_that_do_not_fit_are_refused_by_name(sites, refused, forge):
    some = sites()
    name, array = next(iter(Container(some.path("upload", "s0")).tensors().items()))
    upload = forge(some.path("upload", "s0"), {name: np.full_like(array, 2**30)})
    refused(some.world.folder, 65, [upload, name, "1.07374e+09"], *some.words("s0"))


def test_the_header_says_nothing_about_the_site(sites, run):
    some = sites()
    some.mask("--weights", "examples")
    header = Container(some.masked[1]).header
    upload = Container(some.path("upload", "s1"))
    assert header.seed is None and "loss" not in header.facts
    assert header.inputs.keys() == {"key s0", "key s1", "key s2"}
    text = header.to_json()
    assert upload.content not in text and '"examples":' not in text
    assert "137" not in json.dumps(
        {**header.facts, "roster": "", "run": "", "parent": ""}
    )


def test_the_sum_names_no_site_with_a_number(sites, run):
    """A masked upload tells that the number is of a site, not of a simulation."""
    some = sites()
    some.names, headers = [90417, 60352, 81264], {}
    for partition in (None, "b" * 64):
        for k, number in enumerate(some.names):
            some.upload(number, np.random.default_rng(k), partition=partition)
            assert some.key(number, "--renew").code == 0
            some.forget(number)
        some.mask()
        assert run(*some.sum_words(), "--force").code == 0
        headers[partition] = Container(some.world.output).header
        told = Container(some.masked[0]).header.facts
        assert told.get("site") is (True if partition is None else None)
    site, simulated = headers.values()
    text = site.to_json()
    names = [rf"(?<![0-9a-f]){number}(?![0-9a-f])" for number in some.names]
    assert not any(re.search(name, text) for name in names)
    assert "client 60352" in simulated.inputs and "anonymous" not in simulated.options


def test_inspect_knows_the_files(sites, run, refused):
    some = sites()
    some.mask()
    out = " ".join(run("inspect", "--outgoing", some.masked[0]).out.split())
    for word in ("random", "Bonawitz", "sum of 3 clients", "client s0"):
        assert word in out, out
    out = " ".join(run("inspect", "--outgoing", some.keys[0]).out.split())
    assert "says nothing about images" in out and "client s0" in out
    secret = some.path("secret", "s0")
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    words = ("inspect", "--outgoing", secret)
    refused(some.world.folder, 65, [secret, "secret key of the site"], *words)
    assert "secret key of client s0" in run("inspect", secret).out


def test_the_ledger_counts_masked_uploads(sites, run):
    some = sites()
    some.mask()
    assert run(*some.sum_words()).code == 0
    for path in (*some.world.clients, *(some.path("upload", n) for n in some.names)):
        path.unlink()
    done = run("ledger", "--json", some.world.folder)
    assert done.code == 0, done.err
    size = sum(path.stat().st_size for path in some.masked)
    assert json.loads(done.out)["total"]["sent"]["bytes"] == size


def test_other_rules_refuse_masked_uploads_and_the_reverse(sites, refused):
    some = sites()
    some.mask()
    words = ("aggregate", *some.masked, "-o", some.world.output)
    refused(some.world.folder, 65, [some.masked[0], "masked file"], *words)
    plain = some.sum_words(*some.world.clients)
    refused(some.world.folder, 65, [some.world.clients[0], "a masked file"], *plain)
    report = (*some.sum_words(), "--report", some.world.folder / "r.json")
    refused(some.world.folder, 2, ["--report", "masked-sum"], *report)
    lone = ("aggregate", *some.masked, "--rule", "masked-sum", "-o", some.world.output)
    refused(some.world.folder, 2, ["--parent"], *lone)


def test_a_site_needs_the_keys_of_all_sites(sites, refused):
    some = sites()
    words = some.words("s0")
    few = (*words[:3], *some.keys[:2], *words[6:])
    refused(some.world.folder, 2, ["2 keys", "3 to 20"], *few)
    twice = (*words[:3], *some.keys, some.keys[0], *words[6:])
    refused(some.world.folder, 65, [some.keys[0], "one key of each site"], *twice)


def test_a_secret_key_is_kept(sites, run, refused):
    some = sites()
    secret, public = some.path("secret", "s0"), some.path("key", "s0")
    before = secret.read_bytes(), public.read_bytes()
    public.unlink()
    assert some.key("s0").code == 0
    assert (secret.read_bytes(), public.read_bytes()) == before
    words = ("mask", "key", some.world.model, "--client", "s7", "--secret-out", secret)
    out = ("-o", some.world.folder / "k")
    refused(some.world.folder, 65, [secret, "client s0", "client s7"], *words, *out)
    assert some.key("s0", "--renew").code == 0
    assert secret.read_bytes() != before[0]


def test_signed_keys(sites, run, refused, keys, allowed):
    some, signers = sites(), allowed("s0", "s1", "s2")
    more = ("--signers", signers)
    unsigned = some.words("s0", *more)
    refused(some.world.folder, 65, [some.keys[0], "no signature"], *unsigned)
    for name, path in zip(some.names, some.keys, strict=True):
        assert run("sign", path, "--key", keys(name)).code == 0
    done = run(*some.words("s0", *more))
    assert done.code == 0 and "not checked" not in done.err
    assert {WEIGHT, ZEROS} < {e.name for e in Container(some.masked[0]).entries}
