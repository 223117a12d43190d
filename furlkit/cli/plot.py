"""plot: pictures of results and partitions, one command for each."""

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
        group(IN_OUT, series_option("A labelled line of its own"), VALUE, PROTOCOL,
              ALLOW_DIFFERENT, *FRAME, output("picture")),
        DRAWN,
    ),
    command("plot partition",
        "Draw which client holds how many images of which class.",
        """
        \b
        Example:
          furlkit plot partition exp/partition.safetensors -o exp/partition.png
        """,
        Argument("partition", File("partition")),
        group(IN_OUT,
            Option("style", Choice(("heat", "bubbles")), "heat",
                   "A heat map, or bubbles by size.", recorded=False),
            *TITLED,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot tsne",
        "Draw features in the plane by t-SNE, coloured by class or by client.",
        """Features are made by embed. Rows are scaled to length 1 first, so that near means a
        small angle; that is our choice. Files of the same images show the same ones of them.

        \b
        Example:
          furlkit plot tsne exp/r020/h_0.safetensors --data cifar10 --classes 0,1 \\
              -o exp/tsne.png
        \b
        FedStyle's Figure 4, h_s of each client's images by its own style model:
          furlkit embed g.safetensors --personal private_0.safetensors --style --data d.npz \\
              --partition p.safetensors --part 0 -o style_0.safetensors
          furlkit plot tsne style_*.safetensors --by client --data d.npz --split train \\
              -o styles.png
        """,
        Argument("files", File("features"), "FEATURES...", required=False,
            several=True),
        group(IN_OUT,
            Option("panel", Labelled(several=False, kind="features"), (),
                   "A feature file with a heading; may be repeated.", multiple=True,
                   recorded=False, variable="panels"),
            *data_options("The images of the features, for their classes."),
            split_option("test"),
            output("picture"),
        ),
        group("Picture",
            Option("by", Choice(("class", "client")), "class",
                   "What colours show. client: files of several clients are laid out "
                   "together in one panel, as FedStyle's Figure 4.", recorded=False),
            Option("classes", Numbers(whole=True), needs="by=class",
                   help="Classes in colour, the others in grey: 0,1.", usual="all"),
            Option("images", Whole(2), 2000,
                   "Draw at most this many of each file, chosen at random."),
            Option("perplexity", Number(1), 30.0,
                   "About how many neighbours an image is kept close to."),
            *TITLED,
        ),
        group("General", SEED, DRY_RUN, *VERBOSITY),
    ),
    command("plot angles",
        "Draw the angles between models through the rounds as boxes.",
        """The files are those of evaluate angles. Several files of one round (several seeds)
        stand side by side.

        \b
        Example:
          furlkit plot angles --series plain=a/r001/angles.json,a/r002/angles.json \\
              --series aligned=b/r001/angles.json,b/r002/angles.json -o angles.png
        """,
        Argument("files", File("metrics"), "METRICS...", required=False, several=True),
        group(IN_OUT, series_option("A labelled panel of its own"), *FRAME,
              output("picture")),
        DRAWN,
    ),
    command("plot bars",
        "Draw means over seeds as bars, with their standard deviation.",
        """
        \b
        Examples:
          furlkit plot bars --series IID:FedSimCLR=a0.json,a1.json \\
              --series IID:FedCA=b0.json,b1.json --reference FedSimCLR -o bars.png
          furlkit plot bars --by-domain --series FedAvg=a0.json,a1.json \\
              --series FedStyle=b0.json,b1.json -o styles.png
        """,
        group(IN_OUT,
            series_option("A bar: the mean of its files, one per seed; bars of the same group "
                    "stand together, and a label has the same colour in all of them",
                    required=True, metavar="[GROUP:]LABEL=FILE,..."),
            VALUE,
            PROTOCOL,
            Option("by-domain", Flag(), False,
                   "A group of bars for each domain, and one for their mean, from "
                   "files of evaluate --by-domain.", recorded=False),
            Option("reference", Text("LABEL"),
                   help="Show how far each bar is above this one of its group: the "
                        "mean of the differences, paired by the models' seeds or else "
                        "by the order of the files, with a 95% t interval.",
                   recorded=False),
            Option("from", Number(low=0), 0.0,
                   "Where the axis starts, in the unit that is drawn (percent for an "
                   "accuracy); if not at 0, the axis says so.", recorded=False,
                   variable="start"),
            ALLOW_DIFFERENT,
            *FRAME,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot sweep",
        "Draw scores over the numbers that an option was given.",
        """The axis is logarithmic where the numbers are powers apart, as they usually are;
        it has a 0 where 0 is among them. The example is FedStyle's Table 4.

        \b
        Example:
          furlkit plot sweep --over lambda --series SimCLR:0.1=a0.json,a1.json \\
              --series SimCLR:1=b0.json,b1.json --series SimSiam:0.1=c0.json,c1.json \\
              --series SimSiam:1=d0.json,d1.json -o lambda.png
        """,
        group(IN_OUT,
            series_option("A point: the mean of its files, one per seed; points of the "
                    "same line are joined", required=True,
                    metavar="[LINE:]NUMBER=FILE,..."),
            Option("over", Text("NAME"), help="What the numbers are, for the axis: lambda.",
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
        "Draw images and, below them, their Sobel images.",
        """Edges are those that pretrain-style and --infusion use, of images of the size in
        which they are stored. Images with domains have two rows for each domain.

        \b
        Example:
          furlkit plot sobel --data digits -o sobel.png
        """,
        group(IN_OUT,
            *data_options("The images; labels are not needed."),
            split_option("train"),
            Option("images", Whole(1, 100), 8, "Images of each domain, drawn at random.",
                   recorded=False),
            *TITLED,
            output("picture"),
        ),
        group("General", SEED, DRY_RUN, *VERBOSITY),
    ),
    command("plot differences",
        "Draw how far methods are above one of them, with intervals: a forest plot.",
        """A row shows the estimate and its interval over seeds, as furlkit compare prints
        them. The grey band around 0 is what the probes (or repeats) alone would give: two
        standard errors, as furlkit compare --help defines them. A dot is filled where a
        95% interval excludes 0 and the dot is outside the band.

        \b
        Example:
          furlkit plot differences --series FedSimCLR=a0.json,a1.json \\
              --series FedCA=b0.json,b1.json --reference FedSimCLR -o differences.png
        """,
        group(IN_OUT,
            series_option("A row: the files of a method, or the folders of its runs, whose "
                    "last rounds count; one per seed", required=True),
            VALUE,
            PROTOCOL,
            Option("reference", Text("LABEL"),
                   help="The series that the others are compared with, paired by seed "
                        "or else by the order of the files.", required=True,
                   recorded=False),
            INTERVAL,
            LOWEST,
            ALLOW_DIFFERENT,
            Option("numbers", Flag(negative=True), True,
                   "Write differences and intervals at the right.", recorded=False),
            *FRAME,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot cost",
        "Draw accuracy over what it cost in bytes, rounds or local epochs.",
        """Scores are those of the metrics files in a run's folder that are of its global
        models, one point for each round. Points of several runs that have the same round and
        the same epochs until then give a mean and a band. With --last each run is one point,
        so that a line can be made of runs of different length.

        Bytes are those of furlkit ledger. A model that cost none, as that of round 0, is not
        drawn over bytes: their axis is logarithmic and has no zero. Epochs are those of
        local-train, summed over rounds; of clients that trained for different numbers in a
        round the largest counts: the server waits for it.

        \b
        Examples:
          furlkit plot cost --series FedAvg=exp/fedavg --series FLESD=exp/flesd \\
              -o exp/cost.png
        \b
        FLESD's Figure 4: more rounds with as many epochs in all, one long run, and two
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
                   "What is on the x axis: bytes, rounds, or local epochs until then.",
                   recorded=False),
            Option("last", Flag(), False, "Of each run, only its last round counts.",
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
        """Losses are those of the journals that local-train writes beside its checkpoints
        (client_0.log.jsonl beside client_0.safetensors), which give round and client. The
        axis counts the local epochs of all rounds. Dashed is the mean of the clients in a
        round, with a band of one standard deviation over them; solid leads from the last
        epoch of a round to the first of the next, so it shows the effect of aggregation. As a
        journal has the mean of an epoch's steps, some training is in a jump too. Clients
        that skip a round, or train for fewer epochs, are left out of the mean there.
        Several runs give the mean of their means, and a band over the clients of all.
        Phases of a run, each of which counts its rounds from 1, are drawn one at a time.

        \b
        Example:
          furlkit plot loss --series FedAvg=exp/fedavg --series FLESD=exp/flesd \\
              -o exp/loss.png
        """,
        group(IN_OUT, RUNS,
            Option("term", Text("NAME"),
                   help="One term of the loss, as simclr: methods that add terms of "
                        "their own can be compared by it.", recorded=False,
                   usual="the sum of all"),
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
        "Draw which classes are taken for which, from a metrics file.",
        """A row for each class: what its images were taken for, in percent. Of evaluate
        cluster the columns are clusters, each below the class that it matches; those that
        match none stand at the right.

        \b
        Example:
          furlkit plot confusion exp/r050/cluster.json -o exp/confusion.png
        """,
        Argument("file", File("metrics"), "METRICS"),
        group(IN_OUT, *TITLED, output("picture")),
        DRAWN,
    ),
    command("plot clusters", "Draw the images that each cluster is surest of, in rows.",
        """The file is one of evaluate cluster, which names the images. Rows stand in the
        order of the classes that the clusters match, with the number of the cluster and the
        test images in it. Images of another class have a frame.

        \b
        Example:
          furlkit plot clusters exp/r050/cluster.json --data cifar10 -o exp/clusters.png
        """,
        Argument("file", File("metrics"), "METRICS"),
        group(IN_OUT,
            *data_options("The test images of the score."),
            split_option("test"),
            Option("clusters", Clients(), help="Which clusters: 0-9, or 1-5,8.",
                   recorded=False, usual="the first 20"),
            Option("images", Whole(1), 10,
                   "Images of each, as far as the file names them.", recorded=False),
            *TITLED,
            output("picture"),
        ),
        DRAWN,
    ),
    command("plot updates",
        "Draw what the clients of a run took, mixed or kept at the start of each round.",
        """Of runs with --update fedema, fedu, dum or astw. A row for each client shows how
        much of its own weights it started a round with: 0 if it took the global model, 1 if
        it kept its own. Below is the distance that decided, a line for each client, and the
        threshold --mu, where the update has one. Both are in the journals that local-train
        writes beside its checkpoints. Phases in which nothing is decided are left out.

        \b
        Example:
          furlkit plot updates exp/dum -o exp/updates.png
        """,
        Argument("folder", File("folder"), "RUN"),
        group(IN_OUT, PHASE, *FRAME, output("picture")),
        DRAWN,
    ),
    command("plot uploads",
        "Draw what a report of aggregate says of each client's uploads.",
        """The files are those of aggregate --report, one for each round. Each upload is a dot
        in the column of its client: the norm of its update, its angle to those of the
        others, and how far the result moved because of it. Those that stand out are larger
        and orange.

        \b
        Example:
          furlkit plot uploads exp/r*/report.json -o exp/uploads.png
        """,
        Argument("files", File("metrics"), "REPORT...", several=True),
        group(IN_OUT, *FRAME, output("picture")),
        DRAWN,
    ),
)
