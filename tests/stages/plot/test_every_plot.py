"""What holds for the command of every plot."""

import pytest

from furlkit.stages.plot import picture

COMMANDS = {
    "curve": ("m.json",),
    "angles": ("m.json",),
    "bars": ("--series", "a=m.json"),
    "cost": ("--series", "a=."),
    "loss": ("--series", "a=."),
    "partition": ("p.safetensors",),
    "tsne": ("h.safetensors", "--data", "digits"),
}


@pytest.fixture(params=COMMANDS)
def command(request, tmp_path, monkeypatch):
    """A plot of files that are not there: outputs are checked before they are read."""
    monkeypatch.chdir(tmp_path)
    return "plot", request.param, *COMMANDS[request.param]


@pytest.mark.parametrize("output", ["x.bmp", "x.txt", "x"])
def test_an_unknown_suffix_is_a_usage_error(command, refused, tmp_path, output):
    refused(tmp_path, 2, (output, ".png, .pdf, .svg"), *command, "-o", output)


def test_missing_matplotlib_says_how_to_install_it(
    command, refused, tmp_path, monkeypatch
):
    monkeypatch.setattr(picture, "find_spec", lambda name: None)
    install = "pip install 'furlkit[plot]'"
    refused(tmp_path, 1, (install,), *command, "-o", "x.png")


@pytest.mark.parametrize("given", ["a", "a=", "a=m.json,"])
@pytest.mark.parametrize("command", ["curve", "angles", "bars", "cost", "loss"])
def test_a_series_without_files_is_a_usage_error(refused, tmp_path, command, given):
    line = ("plot", command, "--series", given, "-o", tmp_path / "x.png")
    refused(tmp_path, 2, ("--series", "LABEL="), *line)


def test_the_stages_are_imported_without_anything_heavy(python):
    names = COMMANDS
    code = "import sys\n" + "".join(f"import furlkit.stages.plot.{n}\n" for n in names)
    heavy = "{'matplotlib', 'torch', 'sklearn', 'scipy'}"
    assert python(f"{code}print({heavy} & sys.modules.keys())").strip() == "set()"
