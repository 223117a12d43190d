"""Groups of options that several commands have."""

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
    option = Option("output", File(kind, direction=direction), help="The file to write.",
                    required=True, recorded=False, second="-o")
    return option._replace(**changes)


def output_of_each(kind: str, direction: str) -> Option:
    """-o of a command that writes a file for each client."""
    return output(kind)._replace(
        kind=File(kind, direction=direction, per_client=True),
        help="The file to write; {client} stands for the client's number or name.")


DATA_FILES = (
    Option("data-root", File("folder"), help="Where torchvision's datasets are.",
           recorded=False, usual="data", metavar="FOLDER"),
    Option("download", Flag(), False, "Download the dataset if it is missing.",
           recorded=False),
    Option("cache", File("folder", direction=CACHE),
           help="Where the decoded images of folders are kept, up to 20 GB; what is in "
                "it may be removed at any time.",
           recorded=False, usual="furlkit in the user's cache folder", metavar="FOLDER"),
)
IMAGES = Option("images", Whole(1),
                help="Draw this many images by --seed, whatever their classes, for a first "
                     "try; a smaller draw is a part of a larger one.", usual="all")
SEED = Option("seed", Whole(0), 0, "The number that all random draws are derived from.",
              recorded=False)
PRESET = Option("preset", Text("NAME|FILE.toml"),
                help="Take defaults from this command's table of a preset; flags win. "
                     "`furlkit presets` lists them.", recorded=False)
DRY_RUN = Option("dry-run", Flag(), False,
                 "Open and check every input, print the plan, stop.", recorded=False)
VERBOSITY = (
    Option("json", Flag(), False, "Print the result as JSON.", recorded=False),
    Option("quiet", Flag(), False, "Print only the result, warnings and errors.",
           recorded=False, second="-q"),
    Option("verbose", Flag(), False, "Print more.", recorded=False, second="-v"),
    Option("strict", Flag(), False,
           "Make every warning an error: exit code 65, nothing is written after it.",
           recorded=False),
)
IN_OUT = "Inputs and outputs"
FORCE = Option("force", Flag(), False,
               "Make the output again, even if the same command has made it before.",
               recorded=False)
GENERAL = group("General", PRESET, SEED, DRY_RUN, FORCE, *VERBOSITY)
LAYER = Option("layer", Choice(("h", "z")), "h",
               "h, the encoder's output, or z, the projector's.")
PART = (
    Option("partition", File("partition", "partition"), help="The partition of --part.", recorded=False),
    Option("part", Text("all|public|CLIENT"), "all",
           "Which images: all, the public ones, or those of a client."),
)
CHANNELS = Option("channels", Whole(1, 32),
                  help="1 is grey, 3 is colour; TIFF files and arrays may have up to 32.",
                  usual="the data's")
DEPTH = Option("depth", Choice(("8", "16")), "8",
               "Bits of the pixels that a window makes. With 16, augmentation starts from "
               "16 bits; files and memory are twice as large.", newer=True)
PAGES = Option("pages", Choice(("first", "channels")),
               help="Of files with several pages, read the first, or all as channels; of "
                    "animations, the first frame.",
               usual="refuse them", newer=True)
WINDOW = Option("window", Text("LO,HI|..."),
                help="Which values are black and white, in images of more than 8 bits: "
                     "LO,HI; `percentile P,Q` of each image; full, the range of the "
                     "type; or dicom, the window in the file.",
                newer=True)
GROUPS = Option("groups", File("csv", words=("folder",)), metavar="FILE.csv|folder",
                help="Keep images of a group, such as those of a patient, together: "
                     "`folder` if folders of one name hold a group; a CSV file has the "
                     "columns file and group, or a group for each image in order.",
                recorded=False)
FRAME = (
    Option("title", Text(), "", "Title above the picture.", recorded=False),
    Option("size", Numbers(length=2), help="Width and height in inches.",
           recorded=False, usual="as large as needed", metavar="W,H"),
    Option("dpi", Whole(10, 2400), 150, "Dots per inch of a PNG file.",
           recorded=False),
)
PHASE = Option("objective", Text("NAME"),
               help="Of a run of several phases, draw the one with this objective.",
               recorded=False, usual="the only one")
TITLED = varied(FRAME, {"title": None})
FORMAT = Option("format", Choice(("text", "csv", "markdown", "latex")), "text",
                 "How tables are printed: as text; as csv, for programs, with all "
                 "digits; as markdown; or as latex with the rules of booktabs.",
                 recorded=False)
VALUE = Option("value", Text("NAME"), "accuracy",
                "What to show: the name of a number in the files.", recorded=False)
COUNT = Whole(1, 10**12)
PROTOCOL = Option("protocol", Text("NAME"), "linear",
                   "Which metrics to take from the folder of a run: linear, knn, ...",
                   recorded=False)
ALLOW_DIFFERENT = Option("allow-different", Text("NAME,..."), (),
                         "What may differ between the evaluations: protocol, data, "
                         "test-data, or options of evaluate, like epochs,lr.",
                         multiple=True, recorded=False)
LOWEST = Option("lowest", Text("LABEL"), (),
                 "This line has several files for each seed, of which only the lowest "
                 "counts, as of all clients the worst; may be repeated.",
                 multiple=True, recorded=False)
INTERVAL = Option("interval", Choice(("t", "wilcoxon")), "t",
                   "The interval of paired differences: Student's t around their mean, "
                   "95%; or that of Wilcoxon's exact signed-rank test around Hodges and "
                   "Lehmann's estimate, which assumes no normal distribution but needs "
                   "6 seeds for 95% (3 give 75%); the level that it attains is shown.",
                   recorded=False)
DRAWN = group("General", DRY_RUN, *VERBOSITY)


def series_option(help_text: str, required: bool = False, metavar: str = "") -> Option:
    return Option("series", Labelled(), (), f"{help_text}; may be repeated.",
                  required=required, multiple=True, recorded=False, metavar=metavar)


RUNS = series_option("A line: the folders of a method's runs, one per seed or length",
                required=True, metavar="LABEL=RUN,RUN,...")


def data_options(help_text: str, required: bool = True) -> tuple[Option, ...]:
    """--data and where its files are."""
    data = Option("data", Data(), help=help_text, required=required,
                  recorded=False)
    return data, *DATA_FILES


def split_option(default: str, recorded: bool = False) -> Option:
    return Option("split", Choice(("train", "test")), default,
                  "Which split of a dataset known by name.", recorded=recorded)


def epochs_option(default: int, help_text: str) -> Option:
    return Option("epochs", Whole(1), default, help_text)


BATCH_SIZE = Option("batch-size", Whole(2), 128,
                    "Images of each batch; a last partial batch is left out.")
OPTIMISER = (
    Option("optimiser", Choice(("adam", "sgd")), "adam", "How weights are updated."),
    Option("lr", Number(above=0), 1e-3, "Learning rate."),
    Option("weight-decay", Number(low=0), 1e-6, "L2 penalty, added to the gradient."),
    Option("momentum", Number(0, 1), 0.9, "Momentum of SGD.", needs="optimiser=sgd"),
)
SCHEDULE = (
    Option("schedule", Choice(("constant", "cosine")), "constant",
           "How the learning rate changes."),
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
           "Side of a square that is cut out, in pixels; 0 is off."),
    Option("randaugment", Numbers(whole=True, length=2), (0, 9),
           "Operations for each image, and their magnitude out of 30."),
)
ISA = Option("isa", Choice(("auto", "native", "avx2", "avx512")), "auto",
             "CPU instructions; avx2 and avx512 give the same bytes on every CPU that "
             "has them.", recorded=False)
RUNTIME = (
    Option("device", Text("auto|cpu|cuda|cuda:N|mps"), "auto", "Where to compute; also any other device that PyTorch has.",
           recorded=False),
    Option("gpu-memory", Number(above=0, high=1),
           help="The part of the GPU's memory that this process may take, if several "
                "share the GPU: 0.25.", recorded=False, usual="all", metavar="FRACTION"),
    Option("threads", Whole(1), 1,
           "Threads of the CPU; several clients at once are faster than several "
           "threads in one."),
    ISA,
)
PRECISION = Option("precision", Choice(("float32", "bfloat16", "float16")), "float32",
                   "Of the forward pass; weights stay float32.")
SAVE_EVERY = Option("save-every", Number(low=0), 60.0,
                    "Seconds between progress files.", recorded=False)
EXECUTION = group("Execution", PRECISION,
    Option("channels-last", Flag(negative=True), True, "Memory layout of the network."),
    Option("compile", Flag(negative=True), False,
           "Compile the network with torch.compile."),
    Option("deterministic", Flag(negative="fast"), True,
           "On a GPU, give the same bytes in every run; --fast allows faster algorithms "
           "with other rounding in each run. Nothing changes on a CPU.", recorded=False),
    SAVE_EVERY,
    *RUNTIME,
)
RUNNING = group("Execution", *RUNTIME)

# For commands that train several clients, one after the other.
CLIENT = Option("client", Clients(names=True),
                help="One client or several: 3, 0-4, 0,2,5-7, all; or a site's name; or "
                     "public, the server, which trains on its part of the partition.",
                required=True, recorded=False, variable="clients")
OWN_IMAGES = ("The dataset that the partition was made for; without a partition, the "
              "client's own images.")
