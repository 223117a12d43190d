"""What holds for the command of every plot."""

import numpy as np
import pytest

from furlkit.reports import figures

COMMANDS = {
    "curve": ("m.json",),
    "angles": ("m.json",),
    "roc": ("m.json",),
    "leakage": ("--series", "a=m.json"),
    "bars": ("--series", "a=m.json"),
    "differences": ("--series", "a=m.json", "--reference", "a"),
    "cost": ("--series", "a=."),
    "loss": ("--series", "a=."),
    "updates": (".",),
    "uploads": ("m.json",),
    "confusion": ("m.json",),
    "clusters": ("m.json", "--data", "digits"),
    "partition": ("p.safetensors",),
    "tsne": ("h.safetensors", "--data", "digits"),
    "sweep": ("--series", "1=m.json", "--over", "lambda"),
    "sobel": ("--data", "digits"),
}


@pytest.fixture(params=COMMANDS)
def command(request, tmp_path, monkeypatch):
    """A plot of files that are not there: outputs are checked before they are read."""
    monkeypatch.chdir(tmp_path)
    return "plot", request.param, *COMMANDS[request.param]


@pytest.mark.parametrize("output", ["x.bmp", "x.txt", "x"])
def test_an_unknown_suffix_is_a_usage_error(command, refused, tmp_path, output):
    refused(tmp_path, 2, (output, ".png, .pdf, .svg"), *command, "-o", output)


@pytest.mark.parametrize("size", ["0.5,3", "3,60", "nan,3", "3"])
def test_a_size_that_cannot_be_drawn_is_a_usage_error(command, refused, tmp_path, size):
    refused(tmp_path, 2, ("--size",), *command, "--size", size, "-o", "x.png")


def test_size_and_dpi_decide_the_pixels(run, tmp_path, metrics):
    output = tmp_path / "x.png"
    words = ("--size", "3.5,2", "--dpi", 200, "-o", output)
    assert run("plot", "curve", metrics(tmp_path, "m"), *words).code == 0
    header = np.frombuffer(output.read_bytes()[16:24], ">u4")
    assert header.tolist() == [700, 400]


def test_axes_name_the_protocols(run, tmp_path, metrics, drawn):
    linear = metrics(tmp_path, "a")
    knn = metrics(tmp_path, "b", round_=2, protocol="knn")
    two = ("--series", f"a={knn}", "--series", f"b={linear}")
    allowed = ("--allow-different", "protocol")
    for name, words, label in (
        ("curve", (linear,), "linear accuracy (%)"),
        ("curve", (linear, knn), "k-NN or linear accuracy (%)"),
        ("bars", (*two, *allowed), "k-NN or linear accuracy (%)"),
        ("bars", two[:2], "k-NN accuracy (%)"),
    ):
        assert run("plot", name, *words, "-o", tmp_path / "x.png").code == 0
        assert drawn[-1].axes[0].get_ylabel() == label


def test_missing_matplotlib_says_how_to_install_it(
    command, refused, tmp_path, monkeypatch
):
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    install = "pip install 'furlkit[plot]'"
    refused(tmp_path, 1, (install,), *command, "-o", "x.png")


@pytest.mark.parametrize("given", ["a", "a=", "a=m.json,"])
@pytest.mark.parametrize(
    "command", ["curve", "angles", "bars", "differences", "cost", "loss"]
)
def test_a_series_without_files_is_a_usage_error(refused, tmp_path, command, given):
    line = ("plot", command, "--series", given, "-o", tmp_path / "x.png")
    refused(tmp_path, 2, ("--series", "LABEL="), *line)


def test_the_stages_are_imported_without_anything_heavy(python):
    names = COMMANDS
    code = "import sys\n" + "".join(f"import furlkit.stages.plot.{n}\n" for n in names)
    heavy = "{'matplotlib', 'torch', 'sklearn', 'scipy'}"
    assert python(f"{code}print({heavy} & sys.modules.keys())").strip() == "set()"
