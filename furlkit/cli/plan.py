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
from furlkit.catalogue.groups import DRY_RUN, IN_OUT, VERBOSITY, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("plan", "Print the rules that run a recipe, with every command checked.",
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
    Then: make -f run.mk -j2, or sh run.sh.
    """,
    Argument("recipe", File("recipe")),
    Argument("given", Text("KEY=VALUE"), "[KEY=VALUE]...", required=False,
        several=True),
    group(IN_OUT,
        Option("as", Choice(("make", "sh", "slurm", "hq", "dot", "json")), "make",
               "Make rules, a shell script, a script that submits Slurm jobs, a job "
               "file of HyperQueue, a graph for Graphviz, or a list.",
               recorded=False, variable="form"),
        Option("resources", File("toml"),
               help="Partition, time, memory, GPUs, ... of the jobs of a cluster; "
                    "[resources] of the recipe has the same form.",
               recorded=False, metavar="FILE.toml"),
        Option("rounds-at-once", Whole(1),
               help="Submit the jobs of so many rounds; the last of these jobs "
                    "submits the next rounds.", usual="all rounds",
               recorded=False),
        Option("group", Whole(1), 1,
               "Clients that one command trains one after the other.",
               recorded=False),
        Option("allow-outside", Flag(), False,
               "Let the recipe and its preset write outside the run's folder.",
               recorded=False),
        output("rules", help="Write it to a file instead of stdout.", required=False),
    ),
    group("General", DRY_RUN, *VERBOSITY),
    run="furlkit.cli.plan:run",
)


def run(values: dict[str, Any]) -> None:
    """Print the plan, each command of which is checked as the program would."""
    from furlkit.cli.program import furlkit
    from furlkit.cli.shared import check_words
    from furlkit.stages.plan import run

    console.result(*run(values, lambda words: check_words(furlkit, words)))
