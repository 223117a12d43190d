"""Groups of options for several commands."""

from typing import Any

from furlkit.catalogue.entries import (
    CACHE,
    Choice,
    Clients,
    Data,
    File,
    Flag,
    Labelled,
    Number,
    Numbers,
    Option,
    Text,
    Whole,
    group,
    varied,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

def output(kind: str, direction: str = "written", **changes: Any) -> Option:
    """-o, a file of this kind."""
    option = Option("output", File(kind, direction=direction), help="Output file.",
                    required=True, recorded=False, second="-o")
    return option._replace(**changes)


def output_of_each(kind: str, direction: str) -> Option:
    """-o of a command with a file per client."""
    return output(kind)._replace(
        kind=File(kind, direction=direction, per_client=True),
        help="Output file; {client} is replaced by the client's number or name.")


DATA_FILES = (
    Option("data-root", File("folder"), help="Folder of torchvision's datasets.",
           recorded=False, usual="data", metavar="FOLDER"),
    Option("download", Flag(), False, "Download the dataset if it is missing.",
           recorded=False),
    Option("cache", File("folder", direction=CACHE),
           help="Folder for decoded images, up to 20 GB; you may remove the content at "
                "any time.",
           recorded=False, usual="furlkit in the user's cache folder", metavar="FOLDER"),
)
IMAGES = Option("images", Whole(1),
                help="Number of images to draw by --seed, of any class, for a first try; a "
                     "larger draw contains the smaller draws.", usual="all")
SEED = Option("seed", Whole(0), 0, "Seed of every random draw.",
              recorded=False)
PRESET = Option("preset", Text("NAME|FILE.toml"),
                help="Take defaults from this command's table of a preset; typed options "
                     "win. `furlkit presets` lists the presets.", recorded=False)
DRY_RUN = Option("dry-run", Flag(), False,
                 "Check every input and print the plan; write no file.", recorded=False)
VERBOSITY = (
    Option("json", Flag(), False, "Print the result as JSON.", recorded=False),
    Option("quiet", Flag(), False, "Print only the result, warnings and errors.",
           recorded=False, second="-q"),
    Option("verbose", Flag(), False, "Print details.", recorded=False, second="-v"),
    Option("strict", Flag(), False,
           "Turn every warning into an error: stop with exit code 65 before writing.",
           recorded=False),
)
IN_OUT = "Inputs and outputs"
FORCE = Option("force", Flag(), False,
               "Make the output again, and replace any file that has this name.",
               recorded=False)
REPLACE = FORCE._replace(
    help="Replace any file that has this name; without --force, only a file that this "
         "command has written.")
GENERAL = group("General", PRESET, SEED, DRY_RUN, FORCE, *VERBOSITY)
LAYER = Option("layer", Choice(("h", "z")), "h",
               "h, the encoder's output, or z, the projector's output.")
PART = (
    Option("partition", File("partition", "partition"), help="Partition for --part.", recorded=False),
    Option("part", Text("all|public|CLIENT"), "all",
           "Part of the images: every image, public images, or a client's images."),
)
CHANNELS = Option("channels", Whole(1, 32),
                  help="Number of channels: 1 for grey, 3 for colour, up to 32 for TIFF "
                       "files and arrays.",
                  usual="the data's")
DEPTH = Option("depth", Choice(("8", "16")), "8",
               "Bits per pixel after the window. With 16, augmentation starts from 16 bits; "
               "files and memory are twice as large.", newer=True)
PAGES = Option("pages", Choice(("first", "channels")),
               help="Files with several pages: read the first page, or read the pages as "
                    "channels; `first` also accepts animations.",
               usual="refuse such files", newer=True)
WINDOW = Option("window", Text("LO,HI|..."),
                help="Black and white values of images with more than 8 bits: LO,HI; "
                     "`percentile P,Q` of each image; full, the range of the type; or "
                     "dicom, the window in the file.",
                newer=True)
GROUPS = Option("groups", File("csv", words=("folder",)), metavar="FILE.csv|folder",
                help="Keep the images of a group, like a patient, together: `folder` if "
                     "the name of the folder is the group; or a CSV file with the columns "
                     "file and group, or with a group for each image in order.",
                recorded=False)
FRAME = (
    Option("title", Text(), "", "Title above the picture.", recorded=False),
    Option("size", Numbers(length=2), help="Width and height in inches.",
           recorded=False, usual="as large as needed", metavar="W,H"),
    Option("dpi", Whole(10, 2400), 150, "Dots per inch of a PNG file.",
           recorded=False),
)
PHASE = Option("objective", Text("NAME"),
               help="Phase to draw, by objective, for a run with several phases.",
               recorded=False, usual="the only phase")
TITLED = varied(FRAME, {"title": None})
FORMAT = Option("format", Choice(("text", "csv", "markdown", "latex")), "text",
                 "Format of tables: text; csv with every digit, for programs; markdown; "
                 "or latex with the rules of booktabs.",
                 recorded=False)
VALUE = Option("value", Text("NAME"), "accuracy",
                "Number to show, by name in the files.", recorded=False)
COUNT = Whole(1, 10**12)
PROTOCOL = Option("protocol", Text("NAME"), "linear",
                   "Protocol of the metrics in the folder of a run: linear, knn, ...",
                   recorded=False)
ALLOW_DIFFERENT = Option("allow-different", Text("NAME,..."), (),
                         "Settings that may differ between the evaluations: protocol, "
                         "data, test-data, or options of evaluate, like epochs,lr.",
                         multiple=True, recorded=False)
LOWEST = Option("lowest", Text("LABEL"), (),
                 "Line with several files per seed, such as a file per client; use the "
                 "lowest score of each seed; may be repeated.",
                 multiple=True, recorded=False)
INTERVAL = Option("interval", Choice(("t", "wilcoxon")), "t",
                   "Interval of paired differences: t, Student's t around the mean, 95%; "
                   "or wilcoxon, Wilcoxon's exact signed-rank test around Hodges and "
                   "Lehmann's estimate, which assumes no normal distribution but needs "
                   "6 seeds for 95% (3 give 75%); the output shows the attained level.",
                   recorded=False)
DRAWN = group("General", DRY_RUN, REPLACE, *VERBOSITY)


def series_option(help_text: str, required: bool = False, metavar: str = "") -> Option:
    return Option("series", Labelled(), (), f"{help_text}; may be repeated.",
                  required=required, multiple=True, recorded=False, metavar=metavar)


RUNS = series_option("A line: the folders of a method's runs, one per seed or length, or "
                "files of planned runs",
                required=True, metavar="LABEL=RUN,RUN,...")


def data_options(help_text: str, required: bool = True) -> tuple[Option, ...]:
    """--data and the options for finding datasets."""
    data = Option("data", Data(), help=help_text, required=required,
                  recorded=False)
    return data, *DATA_FILES


def split_option(default: str, recorded: bool = False) -> Option:
    return Option("split", Choice(("train", "test")), default,
                  "Split of a built-in dataset.", recorded=recorded)


def epochs_option(default: int, help_text: str) -> Option:
    return Option("epochs", Whole(1), default, help_text)


BATCH_SIZE = Option("batch-size", Whole(2), 128,
                    "Number of images in a batch; an incomplete last batch is left out.")
OPTIMISER = (
    Option("optimiser", Choice(("adam", "sgd")), "adam", "Optimiser of the weights."),
    Option("lr", Number(above=0), 1e-3, "Learning rate."),
    Option("weight-decay", Number(low=0), 1e-6, "L2 penalty, added to the gradient."),
    Option("momentum", Number(0, 1), 0.9, "Momentum of SGD.", needs="optimiser=sgd"),
)
SCHEDULE = (
    Option("schedule", Choice(("constant", "cosine")), "constant",
           "Course of the learning rate."),
    Option("warmup", Number(low=0), 0.0,
           "Epochs of linear warm-up at the start of the schedule."),
)
OPTIMISATION = group("Optimisation", BATCH_SIZE, *OPTIMISER, *SCHEDULE)

AUGMENTATION = group("Augmentation",
    Option("crop-scale", Numbers(length=2), (0.2, 1.0),
           "Random resized crop: range of the area."),
    Option("crop-ratio", Numbers(length=2), (0.75, 1.3333),
           "Random resized crop: range of width / height."),
    Option("flip", Number(0, 1), 0.5, "Probability of a horizontal flip."),
    Option("jitter", Numbers(length=4), (0.4, 0.4, 0.4, 0.1),
           "Strength of brightness, contrast, saturation, hue."),
    Option("jitter-probability", Number(0, 1), 0.8, "Probability of colour jitter."),
    Option("grey", Number(0, 1), 0.2, "Probability of greyscale."),
    Option("blur", Number(0, 1), 0.0, "Probability of Gaussian blur."),
    Option("blur-sigma", Numbers(length=2), (0.1, 2.0),
           "Range of the blur's sigma, in pixels."),
    Option("solarise", Number(0, 1), 0.0, "Probability of solarising."),
    Option("cutout", Whole(0), 0,
           "Side of the square to cut out, in pixels; 0 is off."),
    Option("randaugment", Numbers(whole=True, length=2), (0, 9),
           "Number of operations for each image, and the magnitude, up to 30."),
)
ISA = Option("isa", Choice(("auto", "native", "avx2", "avx512")), "auto",
             "CPU instructions; avx2 and avx512 give equal bytes on every CPU with these "
             "instructions.", recorded=False)
RUNTIME = (
    Option("device", Text("auto|cpu|cuda|cuda:N|mps"), "auto",
           "Device for the computation; further devices of PyTorch work too.",
           recorded=False),
    Option("gpu-memory", Number(above=0, high=1),
           help="Share of the GPU's memory for this process, if several processes share "
                "the GPU: 0.25.", recorded=False, usual="all", metavar="FRACTION"),
    Option("threads", Whole(1), 1,
           "Number of CPU threads; several clients in parallel are faster than several "
           "threads for one client."),
    ISA,
)
PRECISION = Option("precision", Choice(("float32", "bfloat16", "float16")), "float32",
                   "Number format of the forward pass; weights stay float32.")
SAVE_EVERY = Option("save-every", Number(low=0), 60.0,
                    "Seconds between progress files.", recorded=False)
EXECUTION = group("Execution", PRECISION,
    Option("channels-last", Flag(negative=True), True,
           "Memory layout of the network, channels last."),
    Option("compile", Flag(negative=True), False,
           "Compile the network with torch.compile."),
    Option("deterministic", Flag(negative="fast"), True,
           "On a GPU, give the same bytes in every run; --fast allows faster algorithms "
           "with other rounding in each run. Nothing changes on a CPU.", recorded=False),
    SAVE_EVERY,
    *RUNTIME,
)
RUNNING = group("Execution", *RUNTIME)

ANONYMOUS = Option("anonymous", Flag(negative="named"),
    help="Leave out names of sites, hashes of uploads, shares and numbers of images; the "
         "whole header goes to a record. The size of a dictionary still tells the number of "
         "images of sites with fewer images than rows. --named publishes the whole header.",
    usual="--anonymous if a client is a site, without a PARTITION, or with --record; "
          "otherwise --named",
    newer=True)
RECORD = Option("record", File("record", direction="kept"), metavar="FILE",
    help="Record of an anonymous output: the whole header, for replay, ledger and report. "
         "The record stays at the server; the mode is 0600.",
    usual="OUTPUT.record beside the output", recorded=False)
SIGNERS = Option("signers", File("signers"), recorded=False, metavar="ALLOWED_SIGNERS")

# For commands that train several clients in sequence.
CLIENT = Option("client", Clients(names=True),
                help="Clients to train: 3, 0-4, 0,2,5-7, all; a site's name; or public, "
                     "the server, with the public part of the partition.",
                required=True, recorded=False, variable="clients")
OWN_IMAGES = "Dataset of the partition; without a partition, the client's images."
