"""plan: the rules that run a recipe."""

from typing import Any

from furlkit import console
from furlkit.cli.shared import argument, arguments, check_words, command


@command("plan", argument("recipe"), arguments("given", "[KEY=VALUE]...", False, str))
def plan(values: dict[str, Any]) -> None:
    """RECIPE is a TOML file: the settings, files and stages of a system. KEY=VALUE changes
    a setting; STAGE='OPTIONS' gives a stage more options. A list, seed=0,1,2, makes a run
    for each value, in a folder of its own (write \\, for a comma within a value);
    out='exp/{preset}/seed{seed}' names these folders. Every command is checked before
    anything is printed.

    The settings of the run are noted in its folder, in plan/. When they change, or a file
    of images does, make re-creates what depends on it, and `furlkit status` names it.
    Rules of an older plan of the folder, or whose preset has changed, do not run.
    A recipe and its preset may write below the folder of the run only, unless KEY=VALUE
    names another place or --allow-outside is given.

    \b
    Examples:
      furlkit plan recipe.toml rounds=3 out=exp/a -o run.mk
      furlkit plan recipe.toml seed=0,1,2 preset=fedca,fedsimclr -o run.mk
      furlkit plan recipe.toml train='--epochs 2' --as sh -o run.sh
      furlkit plan recipe.toml --as slurm --resources site.toml -o run.sh
      furlkit plan recipe.toml --as hq --resources site.toml -o run.toml
    Then: make -f run.mk -j2, sh run.sh, or hq job submit-file run.toml.
    """
    from furlkit.cli.program import furlkit
    from furlkit.stages.plan import run

    console.result(*run(values, lambda words: check_words(furlkit, words)))
