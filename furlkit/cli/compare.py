"""compare: scores of several seeds side by side."""

from furlkit.catalogue.entries import File, Option, Text, command, group
from furlkit.catalogue.groups import (
    ALLOW_DIFFERENT,
    FORMAT,
    IN_OUT,
    INTERVAL,
    LOWEST,
    PROTOCOL,
    VALUE,
    VERBOSITY,
    series_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("compare",
    "Print scores of several seeds side by side, with paired differences.",
    """Scores vary by the seed of the training (std) and, for one and the same model, by
    the probe that measures them, or the repeat of finetuning (probe std, pooled over
    models; probe se is the standard error of a model's mean, probe std / sqrt(probes)).
    Files with a single probe do not tell the second.

    A difference has an interval over seeds, which covers both kinds of noise, and a note
    where the interval includes 0. "Probes alone" is what probes would give two models of
    the same quality: two standard errors, 2 sqrt((a^2 + b^2) / n), where a and b are the
    probe se of the two sides and n is the number of pairs. A smaller difference is noted
    as "within probe noise". One seed gives no interval; probes alone still apply.

    Scores must be measured alike: the same protocol, options of evaluate, training images
    and test images. Others are refused unless --allow-different names what differs; seeds,
    models, the machine, and the numbers of probes and repeats may always differ. A series
    whose label is the value of an option (20 and 100 for --epochs) is about that option.
    Scores of a model that is not there any more, because the file beside them has another
    content, are noted as "stale".

    --claims takes a file with a table for each claim; its labels are those of --series:

    \b
      [[claims]]
      claim = "FedCA is better than FedSimCLR"
      higher = "FedCA"
      lower = "FedSimCLR"
      paper = 2.7           # higher minus lower, in points; none: only the order counts
      protocol = "linear"   # if not --protocol
      value = "accuracy"    # if not --value

    The verdict is "confirmed" if a 95% interval of higher minus lower lies wholly above
    0 and the difference is not within probe noise, "refuted" if it lies wholly below 0
    and likewise, else "undecided". An interval of less than 95%, or of no width because
    every seed has the same difference, decides nothing. Only the order is judged, not
    the size of the difference.

    \b
    Examples:
      furlkit compare --series FedSimCLR=a0.json,a1.json --series FedCA=b0.json,b1.json \\
          --reference FedSimCLR
      furlkit compare --series FedCA=b0.json,b1.json --format latex
      furlkit compare --series FedSimCLR=a0.json,a1.json --series FedCA=b0.json,b1.json \\
          --claims claims.toml --format markdown
    """,
    group(IN_OUT,
        series_option("A line: the files of a method, or the folders of its runs, whose "
                "last rounds count; one per seed", required=True),
        VALUE,
        PROTOCOL,
        Option("reference", Text("LABEL"),
               help="Show how far each line is above this one: the mean of the "
                    "differences, paired by seed or else by the order of the "
                    "files, with an interval.", recorded=False),
        INTERVAL,
        Option("published", Text("LABEL=NUMBER"), (),
               "What a paper prints for a line (percent for an accuracy); may be "
               "repeated.", multiple=True, recorded=False),
        LOWEST,
        ALLOW_DIFFERENT,
        Option("claims", File("toml"),
               help="Print instead what the lines say about the claims of this "
                    "TOML file: confirmed, refuted or undecided.",
               recorded=False, metavar="FILE.toml"),
        FORMAT,
    ),
    group("General", *VERBOSITY),
)
