"""log: losses and scores of runs, in a tracker."""

from furlkit.catalogue.entries import (
    Argument,
    Choice,
    File,
    Flag,
    Option,
    command,
    group,
)
from furlkit.catalogue.groups import IN_OUT, VERBOSITY, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("log", "Copy losses, speed and scores of runs into a tracker.",
    """RUN is the folder of a run of `furlkit plan`, any folder with files of furlkit, or a
    folder of such folders. log reads journals (losses, learning rate, collapse meters and
    speed of every epoch) and metrics files (scores). The epochs of a training appear when
    the training has written its output.

    A repeated command adds only new points, also after a kill. A run is named by its path
    from the folder around -o, a score by its file: r003/knn.json gives knn/accuracy at
    step 3. Epochs are counted over all rounds.

    \b
    tensorboard   event files; tensorboard --logdir FOLDER
    csv           FOLDER/points.csv, a row per point
    mlflow        mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db
    wandb         offline; wandb sync --append FOLDER/wandb/offline-run-*
    trackio       TRACKIO_DIR=FOLDER trackio show

    No tracker uses the network. Clients' names and losses are in the tracker: think before
    you upload the folder.

    \b
    Examples:
      furlkit log exp/demo --to tensorboard
      furlkit log exp/seed* --to csv -o exp/table
      furlkit log exp/demo --to tensorboard --follow
    """,
    Argument("runs", File("folder"), "RUN...", several=True),
    group(IN_OUT,
        Option("to", Choice(("tensorboard", "csv", "mlflow", "wandb", "trackio")),
               help="Tracker; mlflow, wandb and trackio need the extra of this name.",
               required=True, recorded=False),
        output("folder", required=False, usual="the name of the tracker",
               metavar="FOLDER", help="Folder of the tracker."),
        Option("follow", Flag(), False,
               "Add points after each finished step, until the runs are done.",
               recorded=False),
    ),
    group("General", *VERBOSITY),
)
