"""examples/cluster: the site file, the page and the Snakefile."""

import shutil
from pathlib import Path

from tests.examples.conftest import EXAMPLES, blocks

CLUSTER = EXAMPLES / "cluster"
PLANS = {"slurm": "run.sh", "hq": "run.toml"}


def test_the_site_file_is_used(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shutil.copy(CLUSTER / "site.toml", "site.toml")
    recipe = EXAMPLES / "fedca" / "recipe.toml"
    few = "align=--images 500"
    words = ("plan", recipe, "data=digits", "public=digits", few, "rounds=1")
    for form, output in PLANS.items():
        more = ("--as", form, "--resources", "site.toml", "-o", output)
        assert run(*words, *more).code == 0
    script = Path("run.sh").read_text()
    assert '--array="$tasks%8" --partition=gpu --time=04:00:00 --mem=8G' in script
    assert ". $HOME/furlkit/bin/activate" in script
    assert '"gpus/nvidia" = "1"' in Path("run.toml").read_text()


def test_the_page_is_short_and_its_plans_are_checked(recorded, run):
    page = CLUSTER / "README.md"
    assert len(page.read_text().splitlines()) <= 80
    assert len((CLUSTER / "Snakefile").read_text().splitlines()) <= 15
    lines = [line for block in blocks(page) for line in block.splitlines()]
    shutil.copy(CLUSTER / "site.toml", "site.toml")
    plans = [line for line in lines if line.startswith("furlkit plan")]
    assert len(plans) == 2
    for line in plans:
        (words,) = recorded(line)
        done = run(*words, "--dry-run")
        assert done.code == 0, done.err
