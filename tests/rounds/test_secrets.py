"""Secret of a site: nobody can repeat the draws of shared rows from public facts."""

import errno
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from furlkit.aggregators.dictionary import drawn_places
from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.metrics import read_metrics
from furlkit.files.secret import fingerprint_of
from furlkit.randomness import numpy_generator
from tests.helpers import furlkit

NET = ("--width", 0.02, "--projector", "8,4")
BRIEF = ("--epochs", 1, "--batch-size", 64)


@pytest.fixture
def site(tmp_path):
    """A site with the images of digits, and a global model."""
    start = tmp_path / "g.safetensors"
    assert furlkit("init", "--data", "digits", *NET, "-o", start) == 0
    return tmp_path


def train(site: Path, way: str, *more, private: bool = True, name: str = "f"):
    kept = ("--private-out", site / "kept/p.safetensors") if private else ()
    return (
        "local-train", site / "g.safetensors", "--data", "digits", "--client", "st-mary",
        *BRIEF, "--participants", 2, "--dictionary-size", 60, "--share-rows", way, *kept,
        "--features-out", site / f"{name}.safetensors", *more,
        "-o", site / "u.safetensors",
    )  # fmt: skip


@pytest.mark.parametrize("way", ["instahide", "averaged"])
def test_a_site_draws_by_a_secret_and_repeats_the_same_bytes(site, run, way):
    done = run(*train(site, way))
    assert done.code == 0, done.err
    secret, rows = site / "kept/st-mary.secret", site / "f.safetensors"
    assert len(secret.read_bytes()) == 32
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    first = rows.read_bytes()
    assert Container(rows).header.options["drawn-by"] == "secret"
    assert secret.read_bytes() not in first
    assert run(*train(site, way), "--force").code == 0
    assert rows.read_bytes() == first
    secret.unlink()
    assert run(*train(site, way), "--force").code == 0
    assert rows.read_bytes() != first


def test_the_choice_of_images_is_not_the_choice_by_the_seed(site, run):
    """With the upload and every image, the rows by public facts are others."""
    assert run(*train(site, "plain")).code == 0
    opened = Container(site / "f.safetensors")
    shared = read_features(opened.path).rows
    given = ("--data", "digits", "--layer", "z", "-o", site / "z.safetensors")
    assert run("embed", site / "u.safetensors", *given).code == 0
    z = read_features(site / "z.safetensors").rows
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    rng = numpy_generator(opened.header.seed, "share", 1, "st-mary")
    guessed = set(drawn_places(len(z), len(shared), rng))
    # The rows themselves are of the site's images: the audit recognises them.
    cosines = shared @ z.T
    assert cosines.max(axis=1) == pytest.approx(1, abs=1e-5)
    # 15 of 30 random places of 1,438 agree with other places once in 10^17 draws.
    assert len(shared) == 30
    assert len(guessed & set(cosines.argmax(axis=1))) < 15


def test_a_simulation_may_use_a_secret_too(world, run):
    rows, secret = world.folder / "f_{client}", world.folder / "{client}.secret"
    given = (world.partition, world.model, "--data", "digits", "--client", "0-1",
             "--batch-size", 240, "--epochs", 1, "--features-out", rows,
             "--share-rows", "plain", "--dictionary-size", 30)  # fmt: skip
    output = ("-o", world.folder / "u_{client}")
    assert run("local-train", *given, *output).code == 0
    plain = (world.folder / "f_0").read_bytes()
    assert not list(world.folder.glob("*.secret"))
    done = run("local-train", *given, "--secret", secret, *output, "--force")
    assert done.code == 0, done.err
    assert (world.folder / "f_0").read_bytes() != plain
    assert {p.name for p in world.folder.glob("*.secret")} == {"0.secret", "1.secret"}
    replay = ("replay", world.folder / "f_0", "--run", "--depth", 1)
    done = run(*replay)
    assert done.code == 65 and "--secret" in done.err
    done = run(*replay, "--secret", world.folder / "0.secret")
    assert done.code == 0 and "same bytes" in done.out, done.out + done.err


def test_a_site_without_a_place_for_the_secret_is_refused(site, refused):
    command = train(site, "instahide", private=False)
    refused(site, 2, ["--private-out", "--secret"], *command)


def test_a_dry_run_writes_no_secret(site, run):
    assert run(*train(site, "instahide"), "--dry-run").code == 0
    assert not list(site.rglob("*.secret"))


@pytest.mark.parametrize("length, mode, word", [(31, 0o600, "32"), (32, 0o644, "600")])
def test_a_broken_or_open_secret_is_refused(site, run, length, mode, word):
    secret = site / "s"
    secret.write_bytes(os.urandom(length))
    secret.chmod(mode)
    done = run(*train(site, "instahide", "--secret", secret))
    assert done.code == 65 and str(secret) in done.err and word in done.err
    assert "for a new secret" not in done.err


def test_an_audit_needs_the_secret(site, run, refused):
    assert run(*train(site, "plain")).code == 0
    secret, rows = site / "kept/st-mary.secret", site / "f.safetensors"
    given = ("--model", site / "u.safetensors", "--candidates", "digits", "--k", 20)
    command = ("audit", "rows", rows, *given, "-o", site / "r.json")
    refused(site, 2, [rows, "--secret"], *command)
    done = run(*command, "--secret", secret)
    assert done.code == 0 and "the secret fits the record" in done.out
    assert read_metrics(site / "r.json")["identified"] > 0.9
    refused(site, 2, [secret], *command[:-2], "--secret", secret, "-o", secret)


# --- another secret -------------------------------------------------------------------


def replaced(secret: Path) -> bytes:
    """Replace a secret by another secret; return the old secret."""
    old = secret.read_bytes()
    secret.write_bytes(os.urandom(32))
    return old


def test_an_audit_refuses_another_secret(site, run, refused):
    assert run(*train(site, "plain")).code == 0
    secret, rows = site / "kept/st-mary.secret", site / "f.safetensors"
    given = ("--model", site / "u.safetensors", "--candidates", "digits", "--k", 20)
    command = ("audit", "rows", rows, *given, "--secret", secret, "-o", site / "r.json")
    right = fingerprint_of(secret)
    replaced(secret)
    record = site / "f.record"
    words = [secret, fingerprint_of(secret), record, right]
    refused(site, 65, words, *command)
    record.unlink()
    done = run(*command)
    assert done.code == 0 and "the secret is not checked" in done.out
    assert read_metrics(site / "r.json")["identified"] < 0.5


def test_a_repeated_command_with_another_secret_is_refused(site, run, refused):
    assert run(*train(site, "plain")).code == 0
    secret, rows = site / "kept/st-mary.secret", site / "f.safetensors"
    first, kept = rows.read_bytes(), site / "kept/p.safetensors"
    right = replaced(secret)
    refused(site, 65, [secret, site / "u.record", "--force"], *train(site, "plain"))
    (site / "u.safetensors").unlink()
    refused(site, 65, [secret, site / "u.record"], *train(site, "plain"))
    dry = (*train(site, "plain"), "--dry-run")
    refused(site, 65, [secret, site / "u.record"], *dry)
    for name in ("u.record", "f.record"):
        (site / name).unlink()
    refused(site, 65, [secret, kept], *train(site, "plain"))
    assert rows.read_bytes() == first
    secret.write_bytes(right)
    assert run(*train(site, "plain")).code == 0
    assert rows.read_bytes() == first
    replaced(secret)
    assert run(*train(site, "plain"), "--force").code == 0
    assert rows.read_bytes() != first


def test_a_lost_secret_is_no_new_secret(site, run, refused):
    """Complete outputs need no secret; the secret of missing outputs is not drawn again."""
    assert run(*train(site, "plain")).code == 0
    secret = site / "kept/st-mary.secret"
    secret.unlink()
    assert "already there" in run(*train(site, "plain")).out
    (site / "u.safetensors").unlink()
    refused(site, 65, [secret, "no such file"], *train(site, "plain"))
    assert not secret.exists()


def test_a_resumed_training_with_another_secret_is_refused(
    site, run, refused, monkeypatch
):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "no space")

    words = train(site, "plain", "--save-every", 0)
    with monkeypatch.context() as patch:
        patch.setattr("furlkit.exchanges.dictionary.write_features", full)
        assert run(*words).code == 74
    progress = site / "u.safetensors.progress"
    secret = site / "kept/st-mary.secret"
    assert Container(progress).header.facts["secret"] == fingerprint_of(secret)
    right = replaced(secret)
    refused(site, 65, [secret, progress], *words)
    assert progress.exists()
    secret.write_bytes(right)
    assert run(*words).code == 0 and not progress.exists()


def test_files_of_earlier_versions_have_any_secret(site, run, forge):
    """Without the entry, a command with another secret does nothing, as before."""
    assert run(*train(site, "plain")).code == 0
    secret, rows = site / "kept/st-mary.secret", site / "f.safetensors"
    first = rows.read_bytes()
    for name in ("u.record", "f.record"):
        forge(site / name, facts={"secret": None})
    results = site / "kept/p.safetensors"
    forge(results, facts={"secret": None})
    replaced(secret)
    done = run(*train(site, "plain"))
    assert done.code == 0 and "already there" in done.out, done.err
    assert rows.read_bytes() == first


def test_embed_refuses_another_secret(site, run, refused):
    assert run(*train(site, "plain")).code == 0
    secret, output = site / "s.secret", site / "n.safetensors"
    words = ("embed", site / "u.safetensors", "--data", "digits", "--split", "test",
             "--layer", "z", "--noise", 0.1, "--secret", secret, "-o", output)  # fmt: skip
    assert run(*words, "--dry-run").code == 0 and not secret.exists()
    assert run(*words).code == 0
    first, record = output.read_bytes(), site / "n.record"
    assert Container(record).header.facts["secret"] == fingerprint_of(secret)
    assert fingerprint_of(secret).encode() not in first
    assert "already there" in run(*words).out
    replaced(secret)
    refused(site, 65, [secret, record, "--force"], *words)
    secret.unlink()
    assert "already there" in run(*words).out and not secret.exists()
    output.unlink()
    refused(site, 65, [secret, record, "no such file"], *words)
    assert run(*words, "--force").code == 0 and output.read_bytes() != first


def test_a_simulation_records_no_secret(world, run):
    given = (world.partition, world.model, "--data", "digits", "--client", 0,
             "--batch-size", 240, "--epochs", 1, "--features-out", world.folder / "f",
             "--share-rows", "plain", "--dictionary-size", 30, "--private-out",
             world.folder / "p_0", "--secret", world.folder / "s")  # fmt: skip
    assert run("local-train", *given, "-o", world.folder / "u").code == 0
    for name in ("f", "p_0", "u"):
        text = (world.folder / name).read_bytes()
        assert fingerprint_of(world.folder / "s").encode() not in text
