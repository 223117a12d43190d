"""Two sites with folders of photographs of different sizes: three rounds of each system.

The commands are those of the README's second example, with a preset and short trainings.
"""

from pathlib import Path
from typing import Any

import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from tests.helpers import digest, photographs, whole_header

SITES = ("st-mary", "north")
NET = ("--image-size", 16, "--channels", 3, "--encoder", "cnn5", "--width", 0.02)
HEAD = ("--projector", "8,4")
BRIEF = ("--epochs", 1, "--batch-size", 4)
ROUNDS = (1, 2, 3)


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """A folder for each site, and one of public images."""
    folder = tmp_path_factory.mktemp("photos")
    photographs(folder / "st-mary", 0, 9)
    photographs(folder / "north", 9, 6)
    photographs(folder / "public", 15, 8)
    return folder


class Federation:
    """The files of a run, and the commands of its stages."""

    def __init__(self, run, photos: Path, folder: Path, preset: str):
        self._run, self.photos, self.folder = run, photos, folder
        self.preset = ("--preset", preset)
        self.do("init", *NET, *HEAD, "-o", self("global_0"))

    def __call__(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def do(self, command: str, *words: Any) -> None:
        """It must work, and say once of each folder that its images are changed."""
        done = self._run(command, *words, *self.preset)
        assert done.code == 0, done.err
        folders = {
            str(word) for word in words if self.photos in Path(str(word)).parents
        }
        warned = [
            line for line in done.err.splitlines() if "converted to 16 x 16" in line
        ]
        assert {line.split(": ")[1] for line in warned} == folders
        assert len(warned) == len(folders)

    def train(self, round_: int, *more: Any) -> list[Path]:
        """One round of both; {} in the options stands for the site's name."""
        model = self(f"global_{round_ - 1}")
        for site in SITES:
            own = ("--data", self.photos / site, "--client", site, *BRIEF)
            rest = [str(word).replace("{}", site) for word in more]
            self.do("local-train", model, *own, *rest, "-o", self(f"{site}_{round_}"))
        return [self(f"{site}_{round_}") for site in SITES]

    def check(self) -> None:
        """Every round gave another model, which is whole, of the same architecture."""
        models = [read_checkpoint(self(f"global_{r}")) for r in (0, *ROUNDS)]
        assert [model.facts.round for model in models] == [0, *ROUNDS]
        assert len({digest(model.path) for model in models}) == 4
        assert all(m.tensors.keys() == models[0].tensors.keys() for m in models)


@pytest.fixture
def federation(run, photos, tmp_path):
    return lambda preset: Federation(run, photos, tmp_path, preset)


def averaged(path: Path) -> set[str]:
    return set(whole_header(path).inputs)


def test_fedsimclr(federation):
    sites = federation("fedsimclr")
    for r in ROUNDS:
        sites.do("aggregate", *sites.train(r), "-o", sites(f"global_{r}"))
        assert averaged(sites(f"global_{r}")) == {f"client {site}" for site in SITES}
    assert whole_header(sites("global_3")).facts["examples"] == 15
    sites.check()


def test_fedca(federation):
    sites = federation("fedca")
    public, targets = sites.photos / "public", sites("targets")
    made = ("--data", public, "--images", 8, *BRIEF, "--targets-out", targets)
    sites.do("pretrain-align", sites("global_0"), *made, "-o", sites("align"))
    align = ("--align", targets, "--align-data", public, "--participants", 2)
    for r in ROUNDS:
        more = ("--features-out", sites(f"rows_{{}}_{r}"))
        more += ("--private-out", sites(f"private_{{}}_{r}"))
        if r > 1:
            more += ("--dictionary", sites(f"dictionary_{r - 1}"))
            more += ("--private", sites(f"private_{{}}_{r - 1}"))
        sites.do(
            "aggregate", *sites.train(r, *align, *more), "-o", sites(f"global_{r}")
        )
        rows = [sites(f"rows_{site}_{r}") for site in SITES]
        pooled = ("--rule", "dictionary", *rows, "-o", sites(f"dictionary_{r}"))
        sites.do("aggregate", *pooled)
        assert averaged(pooled[-1]) == {f"client {site}" for site in SITES}
    assert Container(sites("north_3")).header.inputs.keys() > {"dictionary", "targets"}
    sites.check()


def test_flesd(federation):
    sites = federation("flesd")
    public = ("--data", sites.photos / "public")
    for r in ROUNDS:
        rows = [sites(f"rows_{site}_{r}") for site in SITES]
        for model, output in zip(sites.train(r), rows, strict=True):
            sites.do("embed", model, *public, "-o", output)
        ensemble = sites(f"ensemble_{r}")
        sites.do("aggregate", "--rule", "ensemble", *rows, "-o", ensemble)
        assert Container(ensemble).header.facts["clients"] == [0, 1]
        assert averaged(ensemble) == {f"client {site}" for site in SITES}
        given = (ensemble, sites(f"global_{r - 1}"), *public, *BRIEF, "--anchors", 8)
        sites.do("distill", *given, "-o", sites(f"global_{r}"))
    sites.check()
