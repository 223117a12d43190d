"""plot sweep and plot sobel: what is drawn, and what is refused."""

import json

import numpy as np
import pytest
import torch

from furlkit.data.augment import sobel
from furlkit.data.sets.source import Source


@pytest.fixture
def sweep(run, metrics, tmp_path):
    """Draw points of SimCLR and SimSiam by lambda; gives the outcome."""

    def call(numbers, *more):
        words = []
        for line, base in (("SimCLR", 0.5), ("SimSiam", 0.25)):
            for place, number in enumerate(numbers):
                files = [
                    metrics(tmp_path, f"{line}{place}{seed}", base + value, seed=seed)
                    for seed, value in ((0, 0.02 * place), (1, 0.04 * place))
                ]
                words += ["--series", f"{line}:{number}={files[0]},{files[1]}"]
        output = ("--over", "lambda", "-o", tmp_path / "x.svg", "--json")
        return run("plot", "sweep", *words, *more, *output)

    return call


def test_a_line_has_its_points_in_the_order_of_the_numbers(sweep):
    found = json.loads(sweep(("1", "0.1", "10")).out)
    assert [line["label"] for line in found["lines"]] == ["SimCLR", "SimSiam"]
    line = found["lines"][0]
    assert line["x"] == [0.1, 1, 10] and line["runs"] == [2, 2, 2]
    assert line["mean"] == pytest.approx([0.53, 0.5, 0.56])
    assert line["std"] == pytest.approx([0.02 / 2**0.5, 0, 0.04 / 2**0.5])


def test_the_line_names_what_is_drawn(run, metrics, tmp_path):
    words = ("--series", f"20={metrics(tmp_path, 'a', 0.5)}", "--over", "probe epochs")
    output = tmp_path / "x.svg"
    said = run("plot", "sweep", *words, "-o", output, "--dry-run").out
    assert said == f"would draw {output}: accuracy by probe epochs: 50.00 at 20\n"
    said = run(
        "plot", "sweep", "--series", f"a:{words[1]}", *words[2:], "-o", output
    ).out
    assert said == f"{output}: accuracy of a by probe epochs: 50.00 at 20\n"


@pytest.mark.parametrize(
    "numbers, scale",
    [
        (("0.1", "1", "10"), "log"),
        (("0", "10", "100"), "symlog"),
        (("1", "2", "3"), "linear"),
        (("-1", "10", "100"), "linear"),
        (("0",), "linear"),
    ],
)
def test_numbers_that_are_powers_apart_have_a_logarithmic_axis(
    sweep, drawn, numbers, scale
):
    assert sweep(numbers).code == 0
    (axes,) = drawn[-1].axes
    assert axes.get_xscale() == scale
    shown = [tick.get_text() for tick in axes.get_xticklabels()]
    assert shown == sorted(numbers, key=float)
    assert axes.get_xlabel().startswith("lambda\n")
    assert axes.get_ylabel() == "linear accuracy (%)"


@pytest.mark.parametrize(
    "labels, word",
    [(("SimCLR:x",), "number"), (("nan",), "number"), (("1", "1.0"), "twice")],
)
def test_a_label_that_is_no_number_or_is_there_twice(
    refused, metrics, tmp_path, labels, word
):
    files = [metrics(tmp_path, f"m{k}", k / 10) for k in range(len(labels))]
    given = [f"{a}={b}" for a, b in zip(labels, files, strict=True)]
    words = [word for one in given for word in ("--series", one)]
    line = ("plot", "sweep", *words, "--over", "lambda", "-o", tmp_path / "x.png")
    refused(tmp_path, 2, ("--series", word), *line)


def test_images_stand_above_their_edges(run, tmp_path, drawn):
    words = ("plot", "sobel", "--data", "digits", "--images", 3, "--seed", 1, "--json")
    found = json.loads(run(*words, "-o", tmp_path / "x.png").out)
    chosen = found["images"][""]
    assert len(set(chosen)) == 3
    images = Source("digits").images().images[chosen]
    pixels = [image.get_array() for image in drawn[-1].axes[0].images]
    assert len(pixels) == 6
    edges = sobel(torch.from_numpy(images).float().permute(0, 3, 1, 2) / 255)[:, 0]
    for place in range(3):
        assert np.array_equal(pixels[place], images[place, ..., 0])
        expected = 255 * edges[place].numpy()
        np.testing.assert_allclose(pixels[3 + place], expected, atol=0.51)
    again = json.loads(run(*words, "-o", tmp_path / "x.png").out)
    assert again["images"] == found["images"]


def test_every_domain_has_two_rows_and_images_need_not_be_square(run, tmp_path, drawn):
    rng = np.random.default_rng(0)
    arrays = {"images": rng.integers(0, 256, (6, 8, 10, 3), np.uint8)}
    arrays |= {"domains": np.arange(6) % 2, "domain_names": np.array(["ink", "paint"])}
    np.savez(tmp_path / "d.npz", **arrays)
    words = ("plot", "sobel", "--data", tmp_path / "d.npz", "--images", 2, "--json")
    found = json.loads(run(*words, "-o", tmp_path / "x.png").out)["images"]
    assert {name: {k % 2 for k in of} for name, of in found.items()} == {
        "ink": {0}, "paint": {1},
    }  # fmt: skip
    (axes,) = drawn[-1].axes
    assert len(axes.images) == 8
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["ink", "", "paint", ""]


def test_a_line_without_a_name_is_described_without_one(run, metrics, tmp_path):
    words = [f"{n}={metrics(tmp_path, f'm{n}', n / 4)}" for n in (1, 2)]
    series = [word for one in words for word in ("--series", one)]
    output = ("--over", "probe epochs", "-o", tmp_path / "x.svg")
    done = run("plot", "sweep", *series, *output)
    assert done.out.endswith(
        "x.svg: accuracy by probe epochs: 25.00 at 1, 50.00 at 2\n"
    )
