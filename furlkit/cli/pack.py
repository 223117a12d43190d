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
    GENERAL,
    GROUPS,
    IMAGES,
    IN_OUT,
    ISA,
    PAGES,
    SEED,
    WINDOW,
    output,
    split_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("pack", "Put a dataset into one file that training maps into memory.",
    """Several sources become the domains of one dataset, and classes of the same name
    are one class. A folder with --domain-folders, or an .npz with an array `domains`,
    has its domains already. Folders are decoded block by block, so they may be larger
    than the memory.

    Shards are read in the same way: WebDataset tar files (one image for each sample, a
    label in .cls or under `label` in .json), and Parquet or Arrow files of Hugging Face
    datasets (columns `image` and `label`; pip install 'furlkit[parquet]'). A quoted
    pattern is one source, and so is a folder of shards.

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
            help="Which split of a dataset known by name, or of what "
                 "--train-fraction divides."),
        *DATA_FILES,
        output("dataset"),
    ),
    group("Images",
        Option("image-size", Whole(),
               help="Resize the shorter side to this, then cut out the centre."),
        CHANNELS._replace(usual="as the images are"),
        WINDOW,
        PAGES._replace(
            kind=Choice(("first", "each", "channels")),
            help="Of files with several pages, read the first, make each an image, "
                 "or make all of them channels; of animations, read the first "
                 "frame."),
        DEPTH,
        Option("slices", Text("AXIS[,STEP]"),
               help="Make images of the slices of NIfTI volumes, along axial, coronal "
                    "or sagittal, every STEP-th one: axial,5.", newer=True),
        IMAGES._replace(help="Draw this many images of each source by --seed, "
                             "whatever their classes, for a first try; a smaller "
                             "draw is a part of a larger one."),
        Option("no-labels", Flag(), False,
               "Leave the labels out; a folder may then be nested in any way."),
        Option("skip-broken", Flag(), False,
               "Leave out the files of folders that cannot be read; the others are "
               "decoded twice.", newer=True),
    ),
    group("Domains",
        Option("domain-folders", Flag(), False,
               "A folder holds domains, which hold classes: art/cat/1.jpg."),
        Option("domain-names", Text("NAME,..."),
               help="Names of the domains, in their order.",
               usual="those of the sources or folders"),
    ),
    group("Splits of folders and files, which have none of their own",
        GROUPS,
        Option("train-fraction", Number(above=0, below=1),
               help="Draw this share of each class of each domain as the train "
                    "split; the rest is the test split."),
        SEED._replace(default=None, usual="0",
                      help="The number that --train-fraction and --images draw by."),
    ),
    group("Execution", ISA),
    GENERAL.without("preset", "seed", "force"),
)
