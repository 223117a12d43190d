"""plot: pictures of results and partitions, a command for every picture."""

from furlkit.catalogue.entries import (
    Argument,
    Choice,
    Clients,
    File,
    Flag,
    Labelled,
    Number,
    Numbers,
    Option,
    Text,
    Whole,
    command,
    command_group,
    group,
)
from furlkit.catalogue.groups import (
    ALLOW_DIFFERENT,
    DRAWN,
    DRY_RUN,
    FRAME,
    IN_OUT,
    INTERVAL,
    LOWEST,
    PHASE,
    PROTOCOL,
    REPLACE,
    RUNS,
    SEED,
    TITLED,
    VALUE,
    VERBOSITY,
    data_options,
    output,
    series_option,
    split_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command_group("plot", "Draw pictures of results and partitions.",
    command("plot curve", "Draw accuracy through the rounds from metrics files.",
        """Several files of one round (several seeds) give a mean and a band.

        \b
        Example:
          furlkit plot curve exp/r*/knn.json -o exp/curve.png
        """,
        Argument("files", File("metrics"), "METRICS...", required=False, several=True),
        group(IN_OUT, series_option("A line with a label"), VALUE, PROTOCOL,
              ALLOW_DIFFERENT, *FRAME, output("picture")),
        DRAWN,
    ),
    command("plot partition",
        "Draw the number of images of each class at each client.",
        """
        \b
        Example:
          furlkit plot partition exp/partition.safetensors -o exp/partition.png
        """,
        Argument("partition", File("partition")),
        group(IN_OUT,
            Option("style", Choice(("heat", "bubbles")), "heat",
                   "Heat map, or bubbles by size.", recorded=False),
            *TITLED,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot tsne",
        "Draw features in the plane by t-SNE, coloured by class or by client.",
        """embed writes FEATURES. Rows are first scaled to length 1, so a small distance is a
        small angle; this is our choice. Files of equal images show equal samples.

        \b
        Example:
          furlkit plot tsne exp/r020/h_0.safetensors --data cifar10 --classes 0,1 \\
              -o exp/tsne.png
        \b
        FedStyle's Figure 4, h_s of each client's images by the client's style model:
          furlkit embed g.safetensors --personal private_0.safetensors --style --data d.npz \\
              --partition p.safetensors --part 0 -o style_0.safetensors
          furlkit plot tsne style_*.safetensors --by client --data d.npz --split train \\
              -o styles.png
        """,
        Argument("files", File("features"), "FEATURES...", required=False,
            several=True),
        group(IN_OUT,
            Option("panel", Labelled(several=False, kind="features"), (),
                   "Feature file with a heading; may be repeated.", multiple=True,
                   recorded=False, variable="panels"),
            *data_options("Images of the features; the classes are read."),
            split_option("test"),
            output("picture"),
        ),
        group("Picture",
            Option("by", Choice(("class", "client")), "class",
                   "Meaning of the colours. client: files of several clients share one "
                   "panel, like FedStyle's Figure 4.", recorded=False),
            Option("classes", Numbers(whole=True), needs="by=class",
                   help="Classes in colour, other classes in grey: 0,1.", usual="all"),
            Option("images", Whole(2), 2000,
                   "Largest number of images of each file, drawn at random."),
            Option("perplexity", Number(1), 30.0,
                   "Perplexity of t-SNE, about the number of close neighbours."),
            *TITLED,
        ),
        group("General", SEED, DRY_RUN, REPLACE, *VERBOSITY),
    ),
    command("plot angles",
        "Draw the angles between models through the rounds as boxes.",
        """evaluate angles writes METRICS. Several files of one round (several seeds) are
        drawn side by side.

        \b
        Example:
          furlkit plot angles --series plain=a/r001/angles.json,a/r002/angles.json \\
              --series aligned=b/r001/angles.json,b/r002/angles.json -o angles.png
        """,
        Argument("files", File("metrics"), "METRICS...", required=False, several=True),
        group(IN_OUT, series_option("A panel with a label"), *FRAME,
              output("picture")),
        DRAWN,
    ),
    command("plot roc",
        "Draw the success of attacks over the false alarms, on logarithmic axes.",
        """audit writes METRICS. A curve shows the share of members that an attack finds (TPR)
        for every share of false alarms (FPR). The dashed line is a guess; the vertical
        line marks 1% FPR. Axes start at the smallest share that the images can show.

        \b
        Example:
          furlkit plot roc exp/r001/membership.json \\
              --series rows=exp/r001/rows.json -o exp/roc.png
        """,
        Argument("files", File("metrics"), "METRICS...", required=False, several=True),
        group(IN_OUT, series_option("A line with a label"), *TITLED, output("picture")),
        DRAWN,
    ),
    command("plot leakage",
        "Draw scores of models over the success of attacks on shared files.",
        """A point has files of furlkit audit, with an AUC, and files of furlkit evaluate, one
        of each per seed. The name of the point stands beside the mark, such as the noise on
        the shared rows. Files left of the others leak less, and models above the others
        are better. The dashed line is a guess.

        \b
        Example:
          furlkit plot leakage --series rows:0=rows_a.json,linear_a.json \\
              --series rows:0.1=rows_b.json,linear_b.json -o leakage.svg
        """,
        group(IN_OUT,
            series_option("A point: audits and scores, one of each per seed; points with an "
                    "equal LINE are joined", required=True,
                    metavar="[LINE:]POINT=FILE,..."),
            VALUE,
            ALLOW_DIFFERENT,
            *FRAME,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot bars",
        "Draw means over seeds as bars, with the standard deviation.",
        """
        \b
        Examples:
          furlkit plot bars --series IID:FedSimCLR=a0.json,a1.json \\
              --series IID:FedCA=b0.json,b1.json --reference FedSimCLR -o bars.png
          furlkit plot bars --by-domain --series FedAvg=a0.json,a1.json \\
              --series FedStyle=b0.json,b1.json -o styles.png
        """,
        group(IN_OUT,
            series_option("A bar: the mean of the files, one per seed; bars of a group are "
                    "adjacent, and a label has one colour in every group",
                    required=True, metavar="[GROUP:]LABEL=FILE,..."),
            VALUE,
            PROTOCOL,
            Option("by-domain", Flag(), False,
                   "Draw a group of bars for each domain, and a group for the mean, from "
                   "files of evaluate --by-domain.", recorded=False),
            Option("reference", Text("LABEL"),
                   help="Print the difference of every bar to this bar of the group: the "
                        "mean over pairs, by the models' seeds or by the order of the "
                        "files, with a 95% t interval.",
                   recorded=False),
            Option("from", Number(low=0), 0.0,
                   "Start of the axis, in the unit of the picture (percent for an "
                   "accuracy); a start above 0 is marked on the axis.", recorded=False,
                   variable="start"),
            ALLOW_DIFFERENT,
            *FRAME,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot sweep",
        "Draw scores over the values of an option.",
        """The axis is logarithmic if the numbers are powers apart, and has a 0 if 0 is a
        value. The example is FedStyle's Table 4.

        \b
        Example:
          furlkit plot sweep --over lambda --series SimCLR:0.1=a0.json,a1.json \\
              --series SimCLR:1=b0.json,b1.json --series SimSiam:0.1=c0.json,c1.json \\
              --series SimSiam:1=d0.json,d1.json -o lambda.png
        """,
        group(IN_OUT,
            series_option("A point: the mean of the files, one per seed; points with an "
                    "equal LINE are joined", required=True,
                    metavar="[LINE:]NUMBER=FILE,..."),
            Option("over", Text("NAME"), help="Name of the numbers, for the axis: lambda.",
                   required=True, recorded=False),
            VALUE,
            PROTOCOL,
            ALLOW_DIFFERENT,
            *FRAME,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot sobel",
        "Draw images and, below the images, the Sobel images.",
        """pretrain-style and --infusion compute the same edges, from images of the stored
        size. Images with domains have two rows for each domain.

        \b
        Example:
          furlkit plot sobel --data digits -o sobel.png
        """,
        group(IN_OUT,
            *data_options("Images; labels are not needed."),
            split_option("train"),
            Option("images", Whole(1, 100), 8,
                   "Number of images of each domain, drawn at random.", recorded=False),
            *TITLED,
            output("picture"),
        ),
        group("General", SEED, DRY_RUN, REPLACE, *VERBOSITY),
    ),
    command("plot differences",
        "Draw differences to a reference method, with intervals: a forest plot.",
        """A row shows the estimate and the interval over seeds, as in furlkit compare. The
        grey band around 0 shows the noise of probes (or repeats) alone: two standard
        errors, defined in furlkit compare --help. A dot is filled if a 95% interval
        excludes 0 and the dot is outside the band.

        \b
        Example:
          furlkit plot differences --series FedSimCLR=a0.json,a1.json \\
              --series FedCA=b0.json,b1.json --reference FedSimCLR -o differences.png
        """,
        group(IN_OUT,
            series_option("A row: the files of a method, or the folders of runs (the last "
                    "round is used); one per seed", required=True),
            VALUE,
            PROTOCOL,
            Option("reference", Text("LABEL"),
                   help="Series to compare the other series with, in pairs by seed or by "
                        "the order of the files.", required=True,
                   recorded=False),
            INTERVAL,
            LOWEST,
            ALLOW_DIFFERENT,
            Option("numbers", Flag(negative=True), True,
                   "Print differences and intervals at the right.", recorded=False),
            *FRAME,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot cost",
        "Draw accuracy over the cost in bytes, rounds or local epochs.",
        """Scores come from the metrics files of global models in a run's folder, a point for
        each round. Points of several runs with equal round and equal epochs until then give
        a mean and a band. With --last a run is a single point, so a line can join runs of
        different length.

        Bytes are computed as in furlkit ledger. A model without cost, as in round 0, is not
        drawn over bytes, because the axis is logarithmic. Epochs are the epochs of
        local-train, summed over rounds; if clients trained for different numbers of epochs
        in a round, the largest number is used, because the server waits for this client.

        \b
        Examples:
          furlkit plot cost --series FedAvg=exp/fedavg --series FLESD=exp/flesd \\
              -o exp/cost.png
        \b
        FLESD's Figure 4: more rounds with an equal total of epochs, a long run, and two
        rounds with more local epochs:
          furlkit plot cost --over rounds --last --series FedAvg=exp/a1,exp/a2,exp/a10 \\
              --series FLESD=exp/f1,exp/f2,exp/f10 -o exp/left.png
          furlkit plot cost --over rounds --series FedAvg=exp/fedavg-long \\
              --series FLESD=exp/flesd-long -o exp/middle.png
          furlkit plot cost --over epochs --last --series FedAvg=exp/a20,exp/a50,exp/a100 \\
              --series FLESD=exp/f20,exp/f50,exp/f100 -o exp/right.png
        """,
        group(IN_OUT, RUNS,
            Option("over", Choice(("bytes", "rounds", "epochs")), "bytes",
                   "Unit of the x axis: bytes, rounds, or local epochs until then.",
                   recorded=False),
            Option("last", Flag(), False, "Draw only the last round of each run.",
                   recorded=False),
            VALUE,
            PROTOCOL,
            ALLOW_DIFFERENT,
            *FRAME,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot loss",
        "Draw the training loss through the rounds, with the jumps of aggregation.",
        """Losses come from the journals that local-train writes beside checkpoints
        (client_0.log.jsonl beside client_0.safetensors), with round and client. The axis
        counts local epochs over the rounds. A dashed line is the mean of the clients in a
        round, with a band of one standard deviation over clients; a solid line from the
        last epoch of a round to the first epoch of the next round shows the effect of
        aggregation. A journal has the mean of an epoch's steps, so a jump includes some
        training. Clients that skip a round, or train for fewer epochs, are left out of the
        mean there. Several runs give the mean of the runs' means, and a band over the
        clients of every run. Phases of a run, with rounds from 1, are drawn separately.

        \b
        Example:
          furlkit plot loss --series FedAvg=exp/fedavg --series FLESD=exp/flesd \\
              -o exp/loss.png
        """,
        group(IN_OUT, RUNS,
            Option("term", Text("NAME"),
                   help="Term of the loss to draw, such as simclr, to compare methods "
                        "with further terms.", recorded=False,
                   usual="the sum of the terms"),
            Option("log", Flag(), False,
                   "Make the axis of the loss logarithmic; losses must be above 0.",
                   recorded=False),
            PHASE,
            *FRAME,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot confusion",
        "Draw the confusion matrix of a metrics file.",
        """A row shows the predictions for the images of a class, in percent. For evaluate
        cluster the columns are clusters, in the order of the matched classes; clusters
        without a class are at the right.

        \b
        Example:
          furlkit plot confusion exp/r050/cluster.json -o exp/confusion.png
        """,
        Argument("file", File("metrics"), "METRICS"),
        group(IN_OUT, *TITLED, output("picture")),
        DRAWN,
    ),
    command("plot clusters", "Draw the most certain images of each cluster, in rows.",
        """evaluate cluster writes METRICS, with the numbers of the images. Rows are in the
        order of the matched classes, with the number of the cluster and of the cluster's
        test images. Images of another class have a frame.

        \b
        Example:
          furlkit plot clusters exp/r050/cluster.json --data cifar10 -o exp/clusters.png
        """,
        Argument("file", File("metrics"), "METRICS"),
        group(IN_OUT,
            *data_options("Test images of the score."),
            split_option("test"),
            Option("clusters", Clients(), help="Clusters to draw: 0-9, or 1-5,8.",
                   recorded=False, usual="the first 20"),
            Option("images", Whole(1), 10,
                   "Images of each cluster, at most the number in the file.",
                   recorded=False),
            *TITLED,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot updates",
        "Draw the share of local weights with which clients started each round.",
        """For runs with --update fedema, fedu, dum or astw. A row for each client shows the
        share of the client's previous weights at the start of a round: 0 if the client took
        the global model, 1 if the client kept the previous model. Below are the distances
        that decided, a line for each client, and the threshold --mu of the update, if any.
        Both come from the journals that local-train writes beside checkpoints. Phases
        without a decision are left out.

        \b
        Example:
          furlkit plot updates exp/dum -o exp/updates.png
        """,
        Argument("folder", File("folder"), "RUN"),
        group(IN_OUT, PHASE, *FRAME, output("picture")),
        DRAWN,
    ),
    command("plot uploads",
        "Draw the reports of aggregate on the clients' uploads.",
        """aggregate --report writes REPORT, a file for each round. An upload is a dot in the
        column of the client: the norm of the update, the angle to the other updates, and
        how far the upload moved the result. Marked uploads are larger and orange.

        \b
        Example:
          furlkit plot uploads exp/r*/report.json -o exp/uploads.png
        """,
        Argument("files", File("metrics"), "REPORT...", several=True),
        group(IN_OUT, *FRAME, output("picture")),
        DRAWN,
    ),
)
