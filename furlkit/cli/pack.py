"""pack: a dataset in one file."""

from furlkit.catalogue.entries import (
    Argument,
    Choice,
    Data,
    Flag,
    Number,
    Option,
    Text,
    Whole,
    command,
    group,
)
from furlkit.catalogue.groups import (
    CHANNELS,
    DATA_FILES,
    DEPTH,
    DRY_RUN,
    GROUPS,
    IMAGES,
    IN_OUT,
    ISA,
    PAGES,
    REPLACE,
    SEED,
    VERBOSITY,
    WINDOW,
    output,
    split_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("pack", "Write a dataset to one file, which training maps into memory.",
    """Several sources become domains of one dataset; classes with equal names are merged. A
    folder with --domain-folders, or an .npz with an array `domains`, has several domains.
    Folders are decoded block by block and may be larger than the memory.

    pack also reads shards: WebDataset tar files (one image for each sample, a label in
    .cls or under `label` in .json), and Parquet or Arrow files of Hugging Face datasets
    (columns `image` and `label`; pip install 'furlkit[parquet]'). A quoted pattern or a
    folder of shards is a single source.

    \b
    Examples:
      furlkit pack imagenet/train --image-size 256 -o imagenet.safetensors
      furlkit pack mnist svhn usps --image-size 32 --channels 3 -o train.safetensors
      furlkit pack styles.npz --domain-names art,photo,sketch -o styles.safetensors
      furlkit pack 'shards-*.tar' --image-size 64 -o shards.safetensors
      furlkit pack 'data/train-*.parquet' -o train.safetensors
    \b
    Scans of more than 8 bits, with the scans of a patient in one split:
      furlkit pack scans --window -160,240 --groups folder --train-fraction 0.7 \\
          -o train.safetensors
    \b
    A folder of domains in two parts, drawn with the same seed:
      furlkit pack office-home --domain-folders --image-size 224 \\
          --train-fraction 0.7 --seed 2011 -o train.safetensors
      furlkit pack office-home --domain-folders --image-size 224 \\
          --train-fraction 0.7 --seed 2011 --split test -o test.safetensors
    """,
    Argument("sources", Data(), "NAME|PATH...", several=True),
    group(IN_OUT,
        split_option("train", recorded=True)._replace(
            help="Split of a built-in dataset, or of --train-fraction."),
        *DATA_FILES,
        output("dataset"),
    ),
    group("Images",
        Option("image-size", Whole(),
               help="Resize the shorter side to N pixels, then cut out the centre."),
        CHANNELS._replace(usual="as the images are"),
        WINDOW,
        PAGES._replace(
            kind=Choice(("first", "each", "channels")),
            help="Files with several pages: read the first page, make every page an "
                 "image, or make the pages channels; `first` also accepts animations."),
        DEPTH,
        Option("slices", Text("AXIS[,STEP]"),
               help="Make images of every STEP-th slice of NIfTI volumes, axial, "
                    "coronal or sagittal: axial,5.", newer=True),
        IMAGES._replace(help="Number of images to draw from each source by --seed, of "
                             "any class, for a first try; a larger draw contains the "
                             "smaller draws."),
        Option("no-labels", Flag(), False,
               "Leave out labels; folders may then be nested in any way."),
        Option("skip-broken", Flag(), False,
               "Leave out unreadable files of folders; readable files are decoded "
               "twice.", newer=True),
    ),
    group("Domains",
        Option("domain-folders", Flag(), False,
               "A folder holds domains, which hold classes: art/cat/1.jpg."),
        Option("domain-names", Text("NAME,..."),
               help="Names of the domains, in order.",
               usual="names of the sources or folders"),
    ),
    group("Splits of folders and files",
        GROUPS,
        Option("train-fraction", Number(above=0, below=1),
               help="Share of each class of each domain for the train split, drawn "
                    "at random; other images form the test split."),
        SEED._replace(default=None, usual="0",
                      help="Seed of --train-fraction and --images."),
    ),
    group("Execution", ISA),
    group("General", DRY_RUN, REPLACE, *VERBOSITY),
)
