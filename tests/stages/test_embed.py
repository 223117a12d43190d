import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.partition import read_partition
from furlkit.files.similarity import read_similarity
from furlkit.models.loading import load_net
from tests.helpers import furlkit, round_0


@pytest.fixture(scope="module")
def round_of_files(tmp_path_factory):
    return round_0(
        tmp_path_factory.mktemp("round_of_files"), split=("--public-count", 50)
    )


@pytest.fixture
def embed(round_of_files, tmp_path):
    def run(name, *more, model=round_of_files / "g.st"):
        output = tmp_path / f"{name}.st"
        return furlkit("embed", model, "--data", "digits", *more, "-o", output), output

    return run


@torch.no_grad()
def by_hand(round_of_files, split="train"):
    """h and z of all images in one forward pass."""
    model = read_checkpoint(round_of_files / "g.st")
    net = load_net(model, torch.device("cpu")).eval()
    pixels = (
        torch.from_numpy(Source("digits", split=split).images().images).float() / 255
    )
    x = (pixels.permute(0, 3, 1, 2) - model.facts.mean[0]) / model.facts.std[0]
    h = net.encoder(x)
    return h, net.projector(h)


def test_h_and_z_are_what_a_forward_pass_gives(round_of_files, embed):
    h, z = by_hand(round_of_files)
    for layer, expected in (("h", h), ("z", z)):
        code, path = embed(layer, "--layer", layer)
        found = read_features(path)
        assert code == 0 and found.facts.layer == layer and found.facts.part == "all"
        assert found.rows.shape == expected.shape and found.rows.dtype == np.float32
        np.testing.assert_allclose(found.rows, expected.numpy(), rtol=1e-4, atol=1e-5)
        assert np.array_equal(found.index, np.arange(1438))


def test_the_test_split_is_another_set_of_images(round_of_files, embed):
    h, _ = by_hand(round_of_files, "test")
    found = read_features(embed("t", "--split", "test")[1])
    np.testing.assert_allclose(found.rows, h.numpy(), rtol=1e-4, atol=1e-5)
    assert found.facts.examples == 359


@pytest.mark.parametrize("part", ["public", "0", "3"])
def test_a_part_is_the_rows_of_the_whole(round_of_files, embed, part):
    whole = read_features(embed("whole")[1])
    partition = read_partition(round_of_files / "p.st")
    expected = partition.public if part == "public" else partition.of(int(part))
    code, path = embed("part", "--partition", round_of_files / "p.st", "--part", part)
    found = read_features(path)
    assert code == 0 and found.facts.part == part
    assert np.array_equal(found.index, expected)
    np.testing.assert_allclose(found.rows, whole.rows[expected], rtol=1e-4, atol=1e-5)


def test_similarities_are_cosines(round_of_files, embed):
    public = (
        "--partition",
        round_of_files / "p.st",
        "--part",
        "public",
        "--layer",
        "z",
    )
    rows = torch.from_numpy(read_features(embed("rows", *public)[1]).rows)
    code, path = embed("cosines", *public, "--similarity")
    found = read_similarity(path)
    assert code == 0 and found.matrix.shape == (50, 50)
    expected = F.cosine_similarity(rows[:, None], rows[None], dim=2)
    np.testing.assert_allclose(found.matrix, expected.numpy(), atol=1e-5)
    assert np.array_equal(found.index, read_partition(round_of_files / "p.st").public)


def test_similarities_of_many_images_are_written_in_blocks(
    embed, round_of_files, monkeypatch
):
    from furlkit.stages.embed import work as stage

    public = (
        "--partition",
        round_of_files / "p.st",
        "--part",
        "public",
        "--similarity",
    )
    whole = read_similarity(embed("whole", *public)[1]).matrix
    monkeypatch.setattr(stage, "BLOCK", 7)
    blocks = read_similarity(embed("blocks", *public)[1]).matrix
    np.testing.assert_allclose(whole, blocks, atol=1e-6)


def test_the_same_command_gives_the_same_bytes(embed, tmp_path):
    assert embed("a")[1].read_bytes() == embed("b")[1].read_bytes()


def test_a_dry_run_checks_and_writes_nothing(round_of_files, embed, tmp_path, capsys):
    code, path = embed("x", "--dry-run")
    assert code == 0 and list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == (
        f"would write {path}: h of 1,438 images by {round_of_files / 'g.st'}\n"
    )


@pytest.mark.parametrize(
    "more, code, message",
    [
        (("--part", "public"), 2, "--part public"),
        (("--partition", "P", "--part", "²"), 2, "--part"),
        (("--partition", "P", "--part", "9"), 2, "--part 9: "),
        (("--partition", "P", "--split", "test"), 65, "p.st: "),
        (("--device", "cuda:99", "--dry-run"), 2, "--device cuda:99"),
        (("--top", "5"), 2, "--top"),
        (("--similarity", "--top", "0"), 2, "--top"),
        (("--similarity", "--top", "101"), 2, "--top"),
        (("--encoding", "int4"), 2, "--encoding"),
    ],
)
def test_what_does_not_fit(
    round_of_files, embed, tmp_path, capsys, more, code, message
):
    more = [str(round_of_files / "p.st") if word == "P" else word for word in more]
    assert embed("x", *more)[0] == code
    assert message in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_no_z_without_a_projector(embed, tmp_path, capsys):
    net = ("--data", "digits", "--width", 0.02, "--objective", "rotation")
    assert furlkit("init", *net, "-o", tmp_path / "g.st") == 0
    assert embed("x", "--layer", "z", model=tmp_path / "g.st")[0] == 65
    assert "projector" in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--top", 5), ("--encoding", "int8")])
@pytest.mark.parametrize(
    "weight, message",
    [(0, "zeros"), (3e38, "NaN")],
)
def test_no_cosines_without_a_direction(
    round_of_files, embed, forge, tmp_path, capsys, more, weight, message
):
    model = shutil.copy(round_of_files / "g.st", tmp_path / "g.st")
    last = {f"projector.fc2.{n}": np.full(s, weight, "f4") for n, s in
            (("weight", (8, 16)), ("bias", 8))}  # fmt: skip
    forge(model, last)
    code, path = embed("x", *public(round_of_files, "--similarity", *more), model=model)
    assert code == 65 and not path.exists()
    err = capsys.readouterr().err
    assert err.startswith(f"error: {model}: ")
    assert message in err and "50 of 50 images" in err


def test_one_image_without_a_direction(round_of_files, embed, forge, tmp_path, capsys):
    """Without biases and normalisation, the z of a black image is all zeros."""
    model, pixels = tmp_path / "g.st", Source("digits").images().images[:4].copy()
    shutil.copy(round_of_files / "g.st", model)
    biases = Container(model).tensors()
    zeros = {k: v * 0 for k, v in biases.items() if k.endswith(".bias")}
    forge(model, zeros, {"mean": [0.0], "std": [1.0]})
    pixels[2] = 0
    np.savez(tmp_path / "black.npz", images=pixels)
    data = ("--data", tmp_path / "black.npz", "--layer", "z")
    code, _ = embed("cosines", *data, "--similarity", model=model)
    assert code == 65 and "1 of 4 images" in capsys.readouterr().err
    code, path = embed("rows", *data, model=model)
    assert code == 0 and not read_features(path).rows[2].any()


def public(round_of_files, *more):
    return (
        "--partition",
        round_of_files / "p.st",
        "--part",
        "public",
        "--layer",
        "z",
        *more,
    )


def test_fewer_bytes_for_the_same_rows(round_of_files, embed):
    exact = read_features(embed("x", *public(round_of_files))[1]).rows
    sizes = {}
    for encoding in ("float32", "float16", "int8"):
        code, path = embed(encoding, *public(round_of_files, "--encoding", encoding))
        found, sizes[encoding] = read_features(path).rows, path.stat().st_size
        scale = np.abs(exact).max(axis=1, keepdims=True) / 127
        assert code == 0 and found.dtype == np.float32
        assert (np.abs(found - exact) <= 0.501 * scale).all()
    # 8 numbers in a row, and with int8 a scale of 4 bytes; the headers are alike.
    assert sizes["float32"] - sizes["float16"] == pytest.approx(50 * 16, abs=64)
    assert sizes["float16"] - sizes["int8"] == pytest.approx(50 * 4, abs=90)


@pytest.mark.parametrize(
    "percent, count", [(100, 50), (10, 5), (7, 4), (14, 7), (1, 1), (0.001, 1)]
)
def test_the_largest_of_each_row_are_kept(round_of_files, embed, percent, count):
    """7 % of 50 is 3.5, and of 14 % no rounding makes 8 images."""
    M = read_similarity(
        embed("whole", *public(round_of_files, "--similarity"))[1]
    ).matrix
    more = public(round_of_files, "--similarity", "--top", percent)
    code, path = embed("top", *more)
    found = read_similarity(path)
    assert code == 0 and found.matrix.shape == found.columns.shape == (50, count)
    np.testing.assert_allclose(
        found.matrix, np.sort(M, axis=1)[:, ::-1][:, :count], atol=1e-6
    )
    there = np.take_along_axis(M, found.columns.astype(int), 1)
    np.testing.assert_allclose(found.matrix, there, atol=1e-6)
    assert all(len(set(row)) == count for row in found.columns.tolist())


def test_an_image_is_nearest_to_itself_even_beside_its_twin(
    embed, tmp_path, round_of_files
):
    """Three different pictures, each four times: every cosine of a twin is 1 too."""
    pixels = Source("digits").images().images[[0, 1, 2] * 4]
    np.savez(tmp_path / "twins.npz", images=pixels)
    words = ("--data", tmp_path / "twins.npz", "--similarity", "--top", 1)
    code, path = embed("twins", *words)
    found = read_similarity(path)
    assert code == 0 and found.columns[:, 0].tolist() == list(range(12))
    assert found.matrix.tolist() == [[1.0]] * 12


def test_whole_and_largest_in_blocks(embed, round_of_files, monkeypatch):
    from furlkit.stages.embed import work as stage

    more = public(round_of_files, "--similarity", "--top", 20, "--encoding", "int8")
    whole = read_similarity(embed("whole", *more)[1])
    monkeypatch.setattr(stage, "BLOCK", 7)
    blocks = read_similarity(embed("blocks", *more)[1])
    np.testing.assert_allclose(whole.matrix, blocks.matrix, atol=1.01 / 127)
    assert blocks.columns[:, 0].tolist() == list(range(50))


def test_a_model_with_weights_that_overflow_is_named(
    round_of_files, tmp_path, forge, refused
):
    """The weights are finite, and h is not; the output is not to blame."""
    model = shutil.copy(round_of_files / "g.st", tmp_path / "g")
    tensors = Container(model).tensors()
    forge(model, {k: v * np.float32(1e10) for k, v in tensors.items() if "conv" in k})
    words = ("embed", model, "--data", "digits", "-o", tmp_path / "h")
    refused(tmp_path, 65, [f"{model}: h of the images has"], *words)
