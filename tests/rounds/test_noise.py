"""Noise on shared rows and similarities: draws, headers, and valid cosines."""

import numpy as np
import pytest

from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.similarity import read_similarity
from tests.helpers import furlkit

NET = ("--width", 0.02, "--projector", "8,16")
SHARE = ("--epochs", 1, "--batch-size", 64, "--participants", 2, "--dictionary-size",
         400, "--alpha", 0)  # fmt: skip


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A folder with a global model and a partition of digits."""
    folder = tmp_path_factory.mktemp("noise")
    model, partition = folder / "g.safetensors", folder / "p.safetensors"
    assert furlkit("init", "--data", "digits", *NET, "-o", model) == 0
    assert (
        furlkit("partition", "--data", "digits", "--clients", 2, "-o", partition) == 0
    )
    return folder


def train(folder, to, *more, site=False):
    """Words of a training that shares rows, at a named site or in a simulation."""
    inputs = (folder / "g.safetensors", "--client", "st-mary")
    if not site:
        inputs = (folder / "p.safetensors", folder / "g.safetensors", "--client", 0)
    outputs = ("--features-out", to / "rows.safetensors", "-o", to / "u.safetensors")
    kept = ("--private-out", to / "private.safetensors")
    return ("local-train", *inputs, "--data", "digits", *SHARE, *kept, *outputs, *more)


def shared(run, folder, to, *more, **how):
    done = run(*train(folder, to, *more, **how), "--force")
    assert done.code == 0, done.err
    return (to / "rows.safetensors").read_bytes(), read_features(
        to / "rows.safetensors"
    )


@pytest.mark.parametrize("site", [True, False])
def test_rows_have_the_noise_of_the_header_and_length_1(start, run, tmp_path, site):
    _, plain = shared(run, start, tmp_path, site=site)
    upload = (tmp_path / "u.safetensors").read_bytes()
    sigma = 0.1
    noisy, found = shared(run, start, tmp_path, "--row-noise", sigma, site=site)
    assert np.linalg.norm(found.rows, axis=1) == pytest.approx(1, abs=1e-5)
    header = Container(tmp_path / "rows.safetensors").header
    assert header.options["row-noise"] == sigma
    # u + sigma n has the length L and the cosine 1 / L with u, up to fluctuations.
    cosine = np.sum(plain.rows * found.rows, axis=1)
    expected = 1 / np.sqrt(1 + found.rows.shape[1] * sigma**2)
    assert cosine.mean() == pytest.approx(expected, abs=0.01)
    # What is left of a row after removing its plain row is noise of sigma per number.
    rest = found.rows / cosine[:, None] - plain.rows
    rest -= np.sum(rest * plain.rows, axis=1, keepdims=True) * plain.rows
    d = rest.shape[1]
    assert np.sqrt((rest**2).sum() / (len(rest) * (d - 1))) == pytest.approx(
        0.1, rel=0.1
    )
    assert shared(run, start, tmp_path, "--row-noise", sigma, site=site)[0] == noisy
    other = shared(run, start, tmp_path, "--row-noise", 2 * sigma, site=site)[1]
    # Equal draws for two values of sigma would give the plain rows away.
    again = (other.rows - plain.rows, found.rows - plain.rows)
    assert abs(np.corrcoef(*(each.ravel() for each in again))[0, 1]) < 0.7
    shared(run, start, tmp_path, "--row-noise", 0, site=site)
    assert (tmp_path / "u.safetensors").read_bytes() == upload


def test_noise_of_a_site_comes_from_the_secret(start, run, tmp_path):
    noise = ("--row-noise", 0.1)
    first, _ = shared(run, start, tmp_path, *noise, site=True)
    assert (
        Container(tmp_path / "rows.safetensors").header.options["drawn-by"] == "secret"
    )
    (tmp_path / "st-mary.secret").unlink()
    assert shared(run, start, tmp_path, *noise, site=True)[0] != first


def test_no_noise_leaves_the_bytes(start, run, tmp_path):
    plain, _ = shared(run, start, tmp_path)
    assert shared(run, start, tmp_path, "--row-noise", 0)[0] == plain
    assert "row-noise" not in Container(tmp_path / "rows.safetensors").header.options


def embedded(run, model, to, *more):
    done = run("embed", model, "--data", "digits", "--split", "test", *more, "-o", to)
    assert done.code == 0, done.err
    return to.read_bytes()


def test_noisy_similarities_are_cosines_that_the_server_accepts(start, run, tmp_path):
    model, to = start / "g.safetensors", tmp_path / "s.safetensors"
    given = ("--similarity", "--layer", "z", "--noise", 0.1)
    first = embedded(run, model, to, *given)
    M = np.asarray(read_similarity(to).matrix, np.float64)
    assert np.diag(M) == pytest.approx(1, abs=1e-5) and np.abs(M - M.T).max() < 1e-6
    assert np.linalg.eigvalsh(M).min() > -1e-4
    assert Container(to).header.options["noise"] == 0.1
    rows = tmp_path / "f.safetensors"
    embedded(run, model, rows, "--layer", "z", "--noise", 0.1)
    u = read_features(rows).rows
    # Rows and similarities have one noise: nothing averages out.
    assert u @ u.T == pytest.approx(M, abs=1e-5)
    assert embedded(run, model, to, *given, "--force") == first
    plain = tmp_path / "p.safetensors"
    embedded(run, model, plain, "--layer", "z")
    z = read_features(plain).rows
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    cosine = np.sum(z * u, axis=1).mean()
    assert cosine == pytest.approx(1 / np.sqrt(1 + u.shape[1] * 0.01), abs=0.01)


@pytest.fixture
def upload(start, run, tmp_path):
    """Upload of a named site."""
    assert run(*train(start, tmp_path, site=True)).code == 0
    return tmp_path / "u.safetensors"


def test_a_site_gives_noise_by_a_secret(upload, run, refused, tmp_path):
    out, secret = tmp_path / "f.safetensors", tmp_path / "s.secret"
    noise = ("--noise", 0.1)
    words = ("embed", upload, "--data", "digits", *noise, "-o", out)
    refused(tmp_path, 2, ("--noise", "--secret", upload), *words)
    first = embedded(run, upload, out, *noise, "--secret", secret)
    assert secret.stat().st_mode & 0o777 == 0o600
    assert Container(out).header.options["drawn-by"] == "secret"
    assert secret.read_bytes() not in first
    assert embedded(run, upload, out, *noise, "--secret", secret, "--force") == first
    secret.unlink()
    assert embedded(run, upload, out, *noise, "--secret", secret, "--force") != first
    verdict = run("replay", out, "--among", upload.parent, "--run", "--into",
                  tmp_path / "i", "--secret", secret, "--depth", 1)  # fmt: skip
    assert verdict.code == 0 and "same bytes" in verdict.out, verdict


def test_probabilities_have_no_noise(start, refused, tmp_path):
    words = ("embed", start / "g.safetensors", "--data", "digits", "--noise", 0.1,
             "--share", "probabilities", "-o", tmp_path / "x")  # fmt: skip
    refused(tmp_path, 2, ("--noise", "probabilities"), *words)
