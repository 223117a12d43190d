"""compare: scores of several seeds side by side."""

from furlkit.catalogue.entries import File, Option, Text, command, group
from furlkit.catalogue.groups import (
    ALLOW_DIFFERENT,
    FORMAT,
    IN_OUT,
    INTERVAL,
    LOWEST,
    PROTOCOL,
    REPLACE,
    VALUE,
    VERBOSITY,
    output,
    series_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("compare",
    "Print scores of several seeds side by side, with paired differences.",
    """Scores vary with the seed of the training (std) and, for a given model, with the
    probe or the repeat of finetuning (probe std, pooled over models; probe se is the
    standard error of a model's mean, probe std / sqrt(probes)). Files with a single probe
    have no probe std.

    A difference has an interval over seeds, which covers both kinds of noise, and a note
    if the interval includes 0, with the number of seeds whose interval would exclude 0 if
    the mean and the deviation stay. "Probes alone" is the difference that probes can show
    between two models of equal quality: two standard errors, 2 sqrt((a^2 + b^2) / n),
    with the probe se of both sides, a and b, and the number of pairs n. A smaller
    difference has the note "within probe noise". A single seed gives no interval; probes
    alone still apply.

    Scores must have the same protocol, options of evaluate, training images and test
    images. Other scores are refused unless --allow-different names the difference; seeds,
    models, the machine, and the numbers of probes and repeats may always differ. If the
    labels of the series are values of an option (20 and 100 for --epochs), this option
    may differ. A score is "stale" if the model file beside the score has changed since.

    --claims reads a file with one entry per claim, with labels of --series:

    \b
      [claims]
      "FedCA is better" = { higher = "FedCA", lower = "FedSimCLR", paper = 2.7 }

    `paper` is higher minus lower, in points; optional, like `value` and `protocol`, which
    replace --value and --protocol. A file may also have one table [[claims]] per claim,
    with the text as `claim`.

    The verdict is "confirmed" if the 95% interval of higher minus lower is above 0 and
    the difference exceeds probe noise, "refuted" if the interval is below 0 and the
    difference exceeds probe noise, otherwise "undecided". An interval of less than 95%,
    or without width because the seeds agree exactly, is undecided. The verdict is about
    the order, not about the size of the difference.

    \b
    Examples:
      furlkit compare --series FedSimCLR=a0.json,a1.json --series FedCA=b0.json,b1.json \\
          --reference FedSimCLR
      furlkit compare --series FedCA=b0.json,b1.json --format latex
      furlkit compare --series FedSimCLR=a0.json,a1.json --series FedCA=b0.json,b1.json \\
          --claims claims.toml --format markdown
    """,
    group(IN_OUT,
        series_option("A line: the files of a method, or the folders of runs (the last "
                "round is used); one per seed", required=True),
        VALUE,
        PROTOCOL,
        Option("reference", Text("LABEL"),
               help="Show the difference of every line to this line: the mean over "
                    "pairs, by seed or by the order of the files, with an interval.",
               recorded=False),
        INTERVAL,
        Option("published", Text("LABEL=NUMBER"), (),
               "Published value for a line (percent for an accuracy); may be "
               "repeated.", multiple=True, recorded=False),
        LOWEST,
        ALLOW_DIFFERENT,
        Option("claims", File("toml"),
               help="Print instead a verdict on every claim of this TOML file: "
                    "confirmed, refuted or undecided.",
               recorded=False, metavar="FILE.toml"),
        FORMAT,
        Option("title", Text(), help="Heading of the table.", recorded=False),
        output("table", required=False,
               help="Also write the table to this file, in the form of the ending: "
                    ".txt, .csv, .md or .tex."),
    ),
    group("General", REPLACE, *VERBOSITY),
)
