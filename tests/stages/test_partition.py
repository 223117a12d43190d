import json

import numpy as np
import pytest

from furlkit.files.container.read import Container
from furlkit.files.partition import read_partition
from tests.helpers import furlkit


def test_a_partition_file_holds_every_image_once(tmp_path, capsys):
    path = tmp_path / "p.st"
    assert furlkit("partition", "--data", "digits", "--clients", 7, "-o", path) == 0
    found = read_partition(path)
    parts = [found.of(client) for client in range(7)]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1438))
    assert found.histogram.sum(axis=1).tolist() == found.sizes.tolist()
    assert found.facts.class_names == list("0123456789")
    header = Container(path).header
    assert header.seed == 0 and header.options["scheme"] == "iid"
    assert capsys.readouterr().out == (
        f"{path}: 7 clients of 205 to 206 images by iid, 0 public, of 1,438\n"
    )


def test_public_images_belong_to_no_client(tmp_path):
    path, public = tmp_path / "p.st", ("--public-count", 100)
    assert furlkit("partition", "--data", "digits", *public, "-o", path) == 0
    found = read_partition(path)
    assert len(found.public) == 100
    assert not set(found.public) & set(found.indices)


@pytest.fixture
def styles(tmp_path):
    """A packed file of 12, 24 and 36 images of 2 classes in three styles."""
    domains = np.repeat(np.arange(3), [12, 24, 36])
    images = np.zeros((72, 4, 4, 1), np.uint8)
    np.savez(
        tmp_path / "s.npz", images=images, labels=np.arange(72) % 2, domains=domains
    )
    path, names = tmp_path / "s.safetensors", ("--domain-names", "ink,oil,pen")
    assert furlkit("pack", tmp_path / "s.npz", *names, "-o", path) == 0
    return path


def test_clients_of_a_style_are_equal_and_their_style_is_recorded(
    tmp_path, styles, capsys
):
    draw = ("partition", "--data", styles, "--scheme", "domains")
    path = tmp_path / "p.st"
    capsys.readouterr()
    assert furlkit(*draw, "--clients-per-domain", 5, "-o", path) == 0
    found = read_partition(path)
    assert found.sizes.tolist() == [4] * 15
    assert found.domains.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert [found.domain_of(k) for k in (0, 7, 14)] == ["ink", "oil", "pen"]
    assert Container(path).header.options["clients"] == 15
    assert capsys.readouterr().out == (
        f"{path}: 15 clients of 4 to 4 images by domains, 0 public, of 72; 5 of ink, "
        "5 of oil, 5 of pen\n"
    )
    assert furlkit(*draw, "--clients-per-domain", 5, "-o", path) == 0
    assert "already there" in capsys.readouterr().out


def test_the_style_of_clients_survives_a_split_file(tmp_path, styles):
    draw = ("partition", "--data", styles, "--scheme")
    one, other = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    assert furlkit(*draw, "domains", "--clients-per-domain", 2, "-o", one) == 0
    again = ("file", "--split-file", one, "--with-replacement")
    assert furlkit(*draw, *again, "-o", other) == 0
    a, b = read_partition(one), read_partition(other)
    assert a.domains.tolist() == b.domains.tolist()
    assert a.indices.tolist() == b.indices.tolist()


def test_mixed_clients_have_no_style_and_the_bytes_they_had(tmp_path, styles):
    """Nothing is written of domains unless every client is of one."""
    path = tmp_path / "p.st"
    assert furlkit("partition", "--data", styles, "-o", path) == 0
    assert "domains" not in Container(path).tensors()
    assert "domain_names" not in Container(path).header.facts
    assert read_partition(path).domains is None


def test_other_domains_make_another_partition(tmp_path, styles, capsys):
    """Though images and labels are the same."""
    path = tmp_path / "p.st"
    draw = ("partition", "--data", styles, "--scheme", "domains", "--clients", 3)
    assert furlkit(*draw, "-o", path) == 0
    with np.load(tmp_path / "s.npz") as arrays:
        other = {**arrays, "domains": arrays["domains"][::-1]}
    np.savez(tmp_path / "s.npz", **other)
    assert furlkit("pack", tmp_path / "s.npz", "-o", styles) == 0
    assert furlkit(*draw, "-o", path) == 0
    assert "making it again with" in capsys.readouterr().err
    assert read_partition(path).facts.domain_names == ["0", "1", "2"]


@pytest.mark.parametrize(
    "more, word",
    [
        (("--clients", 6, "--clients-per-domain", 2), "--clients"),
        (("--clients-per-domain", 0), "--clients-per-domain"),
        (("--clients", 4), "multiple of 3"),
        (("--with-replacement",), "--with-replacement"),
        (("--clients-per-domain", 30), "--min-size"),
    ],
)
def test_wrong_options_of_domains(tmp_path, styles, refused, more, word):
    draw = ("partition", "--data", styles, "--scheme", "domains", *more)
    refused(tmp_path, 2, [word], *draw, "-o", tmp_path / "p.st")


def test_a_dataset_without_domains_says_how_to_get_some(tmp_path, refused):
    draw = ("partition", "--data", "digits", "--scheme", "domains")
    words = ["digits", "--domain-folders"]
    refused(tmp_path, 2, words, *draw, "-o", tmp_path / "p.st")


@pytest.mark.parametrize(
    "scheme",
    [
        ("iid",),
        ("classes", "--classes-per-client", 2),
        ("dirichlet", "--concentration", 0.5),
        ("dirichlet-client", "--concentration", 0.5),
        ("volume",),
        ("shards",),
    ],
)
def test_same_seed_same_bytes_other_seed_other_clients(tmp_path, scheme):
    draw = ("partition", "--data", "digits", "--scheme", *scheme)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        folder = tmp_path / name
        assert furlkit(*draw, "--seed", seed, "-o", folder / "p.st") == 0
    a, b = ((tmp_path / name / "p.st").read_bytes() for name in "ab")
    assert a == b
    one, other = (read_partition(tmp_path / name / "p.st") for name in "ac")
    assert not np.array_equal(one.indices, other.indices)


def test_the_four_partitions_of_fedusc(tmp_path):
    """10 clients beside 10 % public; uniform, unbalanced, and Dirichlet 100 and 1."""
    found = {}
    for name, scheme in (
        ("uniform", ("iid",)),
        ("unbalanced", ("volume", "--even-share", 0.1, "--decay", 0.9)),
        ("even", ("dirichlet", "--concentration", 100)),
        ("skewed", ("dirichlet", "--concentration", 1)),
    ):
        words = ("partition", "--data", "digits", "--clients", 10, "--scheme", *scheme)
        path = tmp_path / name
        assert furlkit(*words, "--public-fraction", 0.1, "-o", path) == 0
        found[name] = read_partition(path)
        assert len(found[name].public) == 144 and found[name].sizes.sum() == 1294
    assert np.ptp(found["uniform"].sizes) <= 1
    powers = 0.9 ** np.arange(10)
    shares = 0.1 / 10 + 0.9 * powers / powers.sum()
    assert np.abs(found["unbalanced"].sizes - 1294 * shares).max() <= 1
    # How far a client's mix of classes is from that of all.
    skew = {}
    for name in ("uniform", "even", "skewed"):
        counts = found[name].histogram
        mixes = counts / counts.sum(axis=1, keepdims=True)
        skew[name] = (
            np.abs(mixes - counts.sum(axis=0) / counts.sum()).sum(axis=1).mean()
        )
    assert skew["even"] < 0.4 < 0.6 < skew["skewed"] and skew["uniform"] < 0.4


def test_a_file_of_indices_is_taken_as_it_is_and_its_name_is_not_kept(tmp_path):
    expected = [[0, 5, 9], [1, 2]]
    (tmp_path / "mine.json").write_text(json.dumps(expected))
    split = ("--scheme", "file", "--split-file", tmp_path / "mine.json")
    path = tmp_path / "p.st"
    code = furlkit("partition", "--data", "digits", *split, "--clients", 2, "-o", path)
    assert code == 0
    found = read_partition(path)
    assert [found.of(client).tolist() for client in (0, 1)] == expected
    assert str(tmp_path).encode() not in path.read_bytes()


def test_a_dry_run_prints_the_result_and_writes_nothing(tmp_path, capsys):
    path = tmp_path / "p.st"
    draw = ("partition", "--data", "digits", "-o", path)
    assert furlkit(*draw, "--dry-run") == 0 and list(tmp_path.iterdir()) == []
    planned = capsys.readouterr().out
    assert furlkit(*draw) == 0
    assert f"would write {capsys.readouterr().out}" == planned


@pytest.mark.parametrize(
    "wrong, message",
    [
        (("--decay", 0.5), "--decay"),
        (("--scheme", "dirichlet", "--concentration", "nan"), "--concentration"),
        (("--scheme", "dirichlet", "--concentration", 0), "--concentration"),
        (("--scheme", "volume", "--even-share", 1.5), "--even-share"),
        (("--scheme", "volume", "--decay", 0), "--decay"),
        (("--scheme", "classes", "--classes-per-client", 0), "--classes-per-client"),
        (("--scheme", "classes", "--class-copies", 0), "--class-copies"),
        (("--scheme", "shards", "--shards-per-client", 0), "--shards-per-client"),
        (("--public-fraction", 1), "--public-fraction"),
        (("--public-count", -1), "--public-count"),
        (("--public-client", -1), "--public-client"),
        (("--min-size", -1), "--min-size"),
        (("--redraws", -1), "--redraws"),
        (("--scheme", "diriclet"), "--scheme"),
        (("--clients", 0), "--clients"),
        (("-o", "."), "directory"),
    ],
)
def test_wrong_options_are_wrong_usage(tmp_path, capsys, wrong, message):
    command = ("partition", "--data", "digits", "-o", tmp_path / "p.st", *wrong)
    assert furlkit(*command) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_split_file_decides_the_number_of_clients(tmp_path):
    (tmp_path / "s.json").write_text("[[0, 1, 2], [3, 4]]")
    draw = ("partition", "--data", "digits", "--scheme", "file", "--split-file")
    assert furlkit(*draw, tmp_path / "s.json", "-o", tmp_path / "p") == 0
    options = Container(tmp_path / "p").header.options
    assert read_partition(tmp_path / "p").facts.clients == options["clients"] == 2


def test_verify_finds_a_flipped_bit_in_the_images_of_a_packed_file(tmp_path, run):
    packed, output = tmp_path / "d.safetensors", tmp_path / "p.safetensors"
    assert run("pack", "digits", "-o", packed).code == 0
    partition = ("partition", "--data", packed, "-o", output)
    assert run(*partition, "--verify").code == 0
    content = bytearray(packed.read_bytes())
    content[-1] ^= 1
    packed.write_bytes(content)
    output.unlink()
    outcome = run(*partition, "--verify")
    assert (outcome.code, output.exists()) == (65, False)
    assert str(packed) in outcome.err and "checksum" in outcome.err
    assert run(*partition).code == 0


def test_verify_is_for_packed_files(tmp_path, refused):
    words = "--verify", "digits", "pack"
    refused(tmp_path, 2, words, "partition", "--data", "digits", "--verify",
            "-o", tmp_path / "p")  # fmt: skip


def drawn(path, count, seed=0, *more):
    words = ("--images", count, "--seed", seed, "--clients", 3, *more)
    assert furlkit("partition", "--data", "digits", *words, "-o", path) == 0
    return read_partition(path)


def test_some_images_are_drawn_by_seed_and_whatever_their_class(tmp_path, capsys):
    found = drawn(tmp_path / "p.st", 60, 1, "--public-count", 6)
    assert capsys.readouterr().out.endswith("6 public, of 60 drawn from 1,438\n")
    assert found.sizes.tolist() == [18, 18, 18] and len(found.public) == 6
    assert found.facts.dataset["examples"] == 1438
    every = np.concatenate([found.indices, found.public])
    assert len(set(every)) == 60 and every.max() > 1300
    assert Container(tmp_path / "p.st").header.options["images"] == 60
    smaller, other = drawn(tmp_path / "q.st", 20, 1), drawn(tmp_path / "r.st", 20, 2)
    assert set(smaller.indices) < set(every)
    assert set(smaller.indices) != set(other.indices)


def test_a_partition_of_all_images_has_no_option_images(tmp_path):
    assert furlkit("partition", "--data", "digits", "-o", tmp_path / "p.st") == 0
    assert "images" not in Container(tmp_path / "p.st").header.options


def test_more_images_than_there_are_is_wrong_usage(tmp_path, refused):
    words = ("partition", "--data", "digits", "--images", 1439, "-o", tmp_path / "p")
    refused(tmp_path, 2, ["--images 1439", "1,438"], *words)
