"""plan: the rules that run a recipe."""

from typing import Any

from furlkit import console
from furlkit.catalogue.entries import (
    Argument,
    Choice,
    File,
    Flag,
    Option,
    Text,
    Whole,
    command,
    group,
)
from furlkit.catalogue.groups import DRY_RUN, IN_OUT, REPLACE, VERBOSITY, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("plan", "Print the rules that run a recipe, with every command checked.",
    """RECIPE is a TOML file: the settings, files and stages of a system. KEY=VALUE changes
    a setting; STAGE='OPTIONS' adds options to a stage. A list, seed=0,1,2, makes a run for
    each value, in a separate folder (write \\, for a comma within a value);
    out='exp/{preset}/seed{seed}' names these folders. plan checks every command before
    printing.

    The folder of the run records the settings in plan/. If settings or image files
    change, make re-creates the dependent files, and `furlkit status` lists these files.
    Rules of an older plan of the folder, or of a preset that has changed, do not run. A
    recipe and the recipe's preset may write only below the folder of the run, unless
    KEY=VALUE names another place or --allow-outside is given.

    \b
    Examples:
      furlkit plan recipe.toml rounds=3 out=exp/a -o run.mk
      furlkit plan recipe.toml seed=0,1,2 preset=fedca,fedsimclr -o run.mk
      furlkit plan recipe.toml train='--epochs 2' --as sh -o run.sh
      furlkit plan recipe.toml --as slurm --resources site.toml -o run.sh
      furlkit plan recipe.toml --as hq --resources site.toml -o run.toml
    Then: make -f run.mk -j2, sh run.sh, or hq job submit-file run.toml.
    """,
    Argument("recipe", File("recipe")),
    Argument("given", Text("KEY=VALUE"), "[KEY=VALUE]...", required=False,
        several=True),
    group(IN_OUT,
        Option("as", Choice(("make", "sh", "slurm", "hq", "dot", "json")), "make",
               "Output: make rules, a shell script, a script that submits Slurm jobs, "
               "a job file of HyperQueue, a graph for Graphviz, or a JSON list.",
               recorded=False, variable="form"),
        Option("resources", File("toml"),
               help="Partition, time, memory, GPUs, ... of the jobs of a cluster, in "
                    "the form of [resources] in a recipe.",
               recorded=False, metavar="FILE.toml"),
        Option("rounds-at-once", Whole(1),
               help="Number of rounds to submit at a time; the last job submits the "
                    "next rounds.", usual="all rounds",
               recorded=False),
        Option("group", Whole(1), 1,
               "Number of clients that a command trains in sequence.",
               recorded=False),
        Option("allow-outside", Flag(), False,
               "Let the recipe and its preset write outside the run's folder.",
               recorded=False),
        output("rules", help="File for the plan instead of stdout.", required=False),
    ),
    group("General", DRY_RUN, REPLACE, *VERBOSITY),
    run="furlkit.cli.plan:run",
)


def run(values: dict[str, Any]) -> None:
    """Print the plan; check every command like the program does."""
    from furlkit.cli.program import furlkit
    from furlkit.cli.shared import check_words
    from furlkit.stages.plan import run

    console.result(*run(values, lambda words: check_words(furlkit, words)))
