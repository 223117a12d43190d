"""A round of two clients with all heads, and every file that clients exchange.

`term_words` has the flags of a term with these files; a term with a plain weight needs no
entry in TERMS.
"""

from pathlib import Path

import pytest

from furlkit import catalogue
from tests.helpers import furlkit, save_digits

DATA = ("--data", "d.npz")
FAST = (
    *DATA, "--epochs", 1, "--batch-size", 32, "--optimiser", "sgd", "--lr", 0.001,
)  # fmt: skip
CLIENTS = ("--client", "0-1")
TERMS = {
    "alignment": (
        *("--align", "targets", "--align-data", "d.npz", "--align-batch-size", 16),
    ),
    "neighbours": (
        *("--dictionary", "dictionary", "--neighbours", 3),
        *("--neighbour-candidates", 8),
    ),
    "centroids": ("--centroids", "z", "--centroid-weight", 0.5),
    "cka": (
        *("--cka", 0.5, "--cka-batch-size", 16),
        *("--kernel", "kernel", "--kernel-data", "d.npz"),
    ),
    "infusion": ("--infusion", 0.5, "--private", "style_0"),
    "moon": ("--moon", 0.5, "--private", "last_0"),
    "scaffold": ("--scaffold", "--optimiser", "sgd", "--momentum", 0),
}
# Terms with files of the first round.
SECOND_ROUND = ("neighbours", "centroids", "moon", "cka")


def term_words(name: str) -> tuple:
    """Flags that turn a term on."""
    return TERMS.get(name, (f"--{catalogue.TERMS[name].switch}", 0.1))


def model_of(term: str) -> str:
    """The global model at the start of a round with a term."""
    return "g1" if term in SECOND_ROUND else "g0"


def write_files(path: Path) -> Path:
    """Call the commands of the round in a folder."""
    save_digits(path, train=160, test=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for words in _commands():
            assert furlkit(*words) == 0, words
    return path


def _commands():
    heads = [word for head in catalogue.HEADS for word in ("--head", head)]
    small = ("--width", 0.05, "--projector", "16,8", "--predictor", "8,8", *heads)
    yield "partition", *DATA, "--clients", 2, "-o", "p"
    yield "init", *DATA, *small, "-o", "g0"
    train = ("local-train", "p", "g0", *FAST, *CLIENTS)
    shared = ("--features-out", "r_{client}", "--dictionary-size", 32)
    yield *train, *shared, "--private-out", "k_{client}", "-o", "c_{client}"
    yield "aggregate", "c_0", "c_1", "-o", "g1"
    yield "aggregate", "r_0", "r_1", "--rule", "dictionary", "-o", "dictionary"
    # The term starts in the second round; the first round keeps the weights.
    yield *train, "--moon", 1, "--private-out", "last_{client}", "-o", "n_{client}"
    centroids = ("--centroids-out", "z_{client}", "-o", "m_{client}")
    yield *train, *centroids
    yield "aggregate", "z_0", "z_1", "--rule", "centroids", "--centroids", 4, "-o", "z"
    spectral = ("--objective", "spectral", "--correlations-out", "R_{client}")
    yield *train, *spectral, "--private-out", "s_{client}", "-o", "t_{client}"
    yield "aggregate", "R_0", "R_1", "--rule", "correlations", "-o", "R"
    part = ("--partition", "p", "--part", 0)
    yield "neighbours", "g0", *DATA, *part, "--nearest", 3, "-o", "near_0"
    yield "pretrain-align", "g0", *FAST, "--targets-out", "targets", "-o", "align"
    style = ("--projector", "16,8", "-o", "style_{client}")
    yield "pretrain-style", "p", "g0", *FAST, *CLIENTS, *style
    kept = ("--private", "style_{client}", "--private-out", "infused_{client}")
    yield *train, *kept, "--infusion", 0.5, "-o", "i_{client}"
    yield *train, "--objective", "fedmatch", "-o", "f_{client}"
    yield "aggregate", "f_0", "f_1", "-o", "f"
    for rule, form, *share in (
        ("ensemble", "rows"), ("ensemble", "top", "--similarity", "--top", 20),
        ("ensemble", "matrix", "--similarity"),
        ("probabilities", "probabilities", "--share", "probabilities"),
    ):  # fmt: skip
        for client in (0, 1):
            output = ("-o", f"{form}_{client}")
            yield "embed", f"c_{client}", *DATA, *share, *output
        matrix = ("--matrix",) * (form == "matrix")
        rows = (f"{form}_0", f"{form}_1")
        yield "aggregate", *rows, "--rule", rule, *matrix, "-o", form
    yield "aggregate", "matrix_0", "matrix_1", "--rule", "kernels", "-o", "kernel"
