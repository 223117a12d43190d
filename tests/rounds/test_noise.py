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
    # Ten deviations of the mean of 200 rows: the secret of a site draws the noise.
    assert cosine.mean() == pytest.approx(expected, abs=0.02)
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


def noise_of(run, folder, to, *more):
    """Noise of shared rows, up to the length: the part that is orthogonal to the row."""
    plain = shared(run, folder, to, *more, site=True)[1].rows
    noisy = shared(run, folder, to, *more, "--row-noise", 1, site=True)[1].rows
    cosine = np.sum(plain * noisy, axis=1, keepdims=True)
    return (noisy - cosine * plain) / np.sqrt(1 - cosine**2)


def test_two_noisy_files_of_one_round_have_different_noise(start, run, tmp_path):
    """A repeated training and another run: equal noise would cancel in a difference."""
    first = noise_of(run, start, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    net = ("--data", "digits", *NET, "--seed", 7)
    assert run("init", *net, "-o", other / "g.safetensors").code == 0
    again = (start, "--lr", 0.3), (other,)
    for folder, *more in again:
        cosine = np.sum(first * noise_of(run, folder, tmp_path, *more), axis=1)
        assert abs(cosine.mean()) < 0.2


def test_a_secret_draws_other_images_in_another_run(start, run, tmp_path):
    """Equal models with other names of the run: only the choice makes a difference."""
    rows = []
    for name in ("one", "two"):
        model = tmp_path / "g.safetensors"
        given = ("--data", "digits", *NET, "--run-name", name, "--force")
        assert run("init", *given, "-o", model).code == 0
        _, features = shared(run, tmp_path, tmp_path, site=True)
        rows.append({row.tobytes() for row in features.rows})
    assert len(rows[0] & rows[1]) < 0.5 * len(rows[0])


def test_no_noise_leaves_the_bytes(start, run, tmp_path):
    plain, _ = shared(run, start, tmp_path)
    assert shared(run, start, tmp_path, "--row-noise", 0)[0] == plain
    assert "row-noise" not in Container(tmp_path / "rows.safetensors").header.options


def embedded(run, model, to, *more):
    done = run("embed", model, "--data", "digits", "--split", "test", *more, "-o", to)
    assert done.code == 0, done.err
    return to.read_bytes()


def test_noisy_similarities_are_cosines_that_the_server_accepts(start, run, tmp_path):
    assert run(*train(start, tmp_path)).code == 0
    model, to = tmp_path / "u.safetensors", tmp_path / "s.safetensors"
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


def test_a_global_model_gives_noise_by_a_secret(start, run, refused, tmp_path):
    model, out = start / "g.safetensors", tmp_path / "f.safetensors"
    words = ("embed", model, "--data", "digits", "--noise", 0.1)
    refused(tmp_path, 2, ("--noise", "--secret", model), *words, "-o", out)
    embedded(run, model, out, "--noise", 0.1, "--secret", tmp_path / "s.secret")


def test_an_output_does_not_replace_the_secret(start, refused, tmp_path):
    model, same = start / "g.safetensors", tmp_path / "m.safetensors"
    words = ("embed", model, "--data", "digits", "--noise", 0.1, "--secret", same)
    refused(tmp_path, 2, ("-o", same), *words, "-o", same)


def test_noise_has_a_limit(start, refused, tmp_path):
    model, out = start / "g.safetensors", tmp_path / "f.safetensors"
    words = ("embed", model, "--data", "digits", "--noise", 1e30, "-o", out)
    refused(tmp_path, 2, ("--noise", "100"), *words)
    words = train(start, tmp_path, "--row-noise", 1e30)
    refused(tmp_path, 2, ("--row-noise", "100"), *words)


def test_probabilities_have_no_noise(start, refused, tmp_path):
    words = ("embed", start / "g.safetensors", "--data", "digits", "--noise", 0.1,
             "--share", "probabilities", "-o", tmp_path / "x")  # fmt: skip
    refused(tmp_path, 2, ("--noise", "probabilities"), *words)
