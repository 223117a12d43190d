"""Description of a file that leaves a site, for people who must allow the transfer.

"Recoverable" means shown by a paper for similar data. No paper named means no paper
known here, not a proof that nothing can be recovered.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from furlkit.errors import InputError
from furlkit.files.container.header import Header
from furlkit.files.container.layout import Entry
from furlkit.files.features import PROBABILITIES, noise_of
from furlkit.files.kinds import kind_of
from furlkit.files.published import lacks_record
from furlkit.files.secret import DRAWN_BY, SECRET
from furlkit.reports.audits import (
    PAGE,
    describe_audit,
    describe_measured,
    measured_attacks,
)
from furlkit.reports.explain import sentence
from furlkit.reports.text import byte_size, counted, plain, short_hash, shorten, word
from furlkit.weights import is_batchnorm_statistic

# Facts about the site.
TOLD = ("client", "round", "examples", "classes", "loss", "cluster_losses", "dataset")


class Finding(NamedTuple):
    """Data recovered from similar files, and the papers that show the recovery."""

    what: str
    papers: tuple[str, ...]


GRADIENTS = Finding(
    "Training images have been reconstructed from the change of a model by training, "
    "best from few images in few steps. The server knows the model before and after.",
    (
        "Zhu et al. 2019, Deep Leakage from Gradients, NeurIPS",
        "Geiping et al. 2020, Inverting Gradients, NeurIPS",
    ),
)
SEED = " The seed in the file also reveals the order and augmentation of images."
MEMBERS = Finding(
    "Owners of the model and an image can guess, better than by chance, if the image "
    "was used for training.",
    (
        "Shokri et al. 2017, Membership Inference Attacks Against Machine Learning "
        "Models, IEEE S&P",
        "Nasr et al. 2019, Comprehensive Privacy Analysis of Deep Learning, IEEE S&P",
        "Liu et al. 2021, EncoderMI, CCS (encoders trained by contrast)",
    ),
)
PROPERTIES = Finding(
    "Properties of the training images that the task does not need have been inferred "
    "from updates.",
    ("Melis et al. 2019, Exploiting Unintended Feature Leakage, IEEE S&P",),
)
STATISTICS = Finding(
    "BatchNorm statistics are means and variances over the site's images. Images that "
    "resemble the training images have been synthesised with their help.",
    ("Yin et al. 2020, Dreaming to Distill (DeepInversion), CVPR",),
)
MOMENTS = Finding(
    "The matrix is a mean over the site's images. The server knows the network: the "
    "matrix of a single image gives the network's output for this image, and the matrix "
    "of few images the space that their outputs span. Images have been synthesised from "
    "means of a network's outputs. --correlations-noise adds noise.",
    ("Yin et al. 2020, Dreaming to Distill (DeepInversion), CVPR",),
)
CLASSIFIER = Finding(
    "From a classifier's outputs, recognisable images have been made of classes that "
    "are a single person.",
    ("Fredrikson et al. 2015, Model Inversion Attacks, CCS",),
)
INVERSION = Finding(
    "Images that resemble the originals have been reconstructed from a network's "
    "features by owners of the network, such as the server. A row also "
    "identifies the image among candidate images; rows are not anonymous.",
    (
        "Mahendran & Vedaldi 2015, Understanding Deep Image Representations by Inverting "
        "Them, CVPR",
        "Dosovitskiy & Brox 2016, Inverting Visual Representations with Convolutional "
        "Networks, CVPR",
    ),
)
INSTAHIDE = Finding(
    "InstaHide, used to mix the images, has been broken: the originals were "
    "reconstructed from the mixtures.",
    ("Carlini et al. 2021, Is Private Learning Possible with Instance Encoding?, S&P",),
)
EXTRACTION = Finding(
    "A model's answers let others train a similar model. No reconstruction "
    "of training images from answers on public images is known here.",
    ("Tramèr et al. 2016, Stealing Machine Learning Models via Prediction APIs, USENIX "
     "Security",),
)  # fmt: skip
SUM = Finding(
    "Every number is random for people without the secret keys. The server learns the sum "
    "over all sites, and the mean reveals as much as a mean without masks. This holds if "
    "the public keys are the sites' (mask upload --signers), and if another site "
    "does not help the server: all other sites and the server know this site's model.",
    ("Bonawitz et al. 2017, Practical Secure Aggregation, CCS",),
)
KEY = Finding("The key says nothing about images.", ("RFC 7748, X25519",))


class Numbers(NamedTuple):
    """Count of numbers in a file, of images, and of numbers per image.

    `images` is None if the file does not contain the number.
    """

    all: int
    images: int | None
    each: float | None


def check_may_leave(path: Any, header: Header) -> None:
    """Refuse what must stay at the site."""
    if reason := kind_of(header.kind).stays:
        whose = header.facts.get("client")
        of = f" of client {whose}" if whose is not None else ""
        raise InputError(f"{path}: a {header.kind} file{of}: {reason}")


def numbers_of(header: Header, entries: Sequence[Entry]) -> Numbers:
    """Numbers in all and for each image."""
    total = sum(math.prod(entry.shape) for entry in entries)
    shapes = {entry.name: entry.shape for entry in entries}
    rows = shapes.get(kind_of(header.kind).per_image, ())
    if len(rows) == 2:
        return Numbers(total, rows[0], total / max(rows[0], 1))
    told = header.facts.get("examples")
    if type(told) is not int or told < 1:
        return Numbers(total, None, None)
    return Numbers(total, told, total / told)


def findings(header: Header, entries: Sequence[Entry]) -> list[Finding]:
    """What is known to be recoverable from such a file."""
    facts, reveals = header.facts, kind_of(header.kind).reveals
    if reveals == "weights":
        parts = {entry.name.split(".")[0] for entry in entries}
        change = GRADIENTS
        if header.seed is not None:
            change = change._replace(what=change.what + SEED)
        found = [change] if facts.get("role") == "client" else []
        found += [MEMBERS, PROPERTIES]
        if any(is_batchnorm_statistic(entry.name) for entry in entries):
            found.append(STATISTICS)
        return found + ([CLASSIFIER] if "classifier" in parts else [])
    if facts.get("layer") == PROBABILITIES or reveals == "answers":
        return [EXTRACTION]
    if reveals == "rows":
        mixed = "instahide" in str(facts.get("share_rows"))
        return [INVERSION, *([INSTAHIDE] if mixed else [])]
    others = {"moments": [MOMENTS], "sum": [SUM], "key": [KEY]}
    return others.get(reveals, [])


def told(header: Header) -> dict[str, Any]:
    """Facts in the header about the site and its images, besides training options."""
    found = {k: header.facts[k] for k in TOLD if header.facts.get(k) not in (None, {})}
    return found | ({} if header.seed is None else {"seed": header.seed})


def measured(header: Header, audits: Sequence[dict[str, Any]] = ()) -> list[str]:
    """Results of audits of this file, and orders of magnitude of the other attacks."""
    shared = _shared_as(header)
    audited = {attack for document in audits for attack in measured_attacks(document)}
    return [
        *(
            f"{describe_audit(document)}; {plain(str(document.get('attacker')))}"
            for document in audits
        ),
        *describe_measured(shared, audited),
        *_noise(header),
        *_published_key(header, shared),
    ]


def _noise(header: Header) -> list[str]:
    """Sentence about noise on rows or similarities."""
    sigma = noise_of(header)
    if not sigma:
        return []
    return [
        f"Every number of a row of length 1 has Gaussian noise of {sigma:g}. The noise is "
        "no proof: there is no epsilon, several files of one image average it out, and "
        f"{PAGE} shows how little or much an attack still finds."
    ]


def _published_key(header: Header, shared: str) -> list[str]:
    """Warning about a header with the seed of the draws, which undo the protection."""
    if header.options.get(DRAWN_BY) == SECRET:
        return []
    if shared in ("rows", "mixtures"):
        if header.seed is None:  # The dictionary of an aggregate names no seed.
            return []
        return [
            "The seed in the header is the key of the draws: whoever has candidate images "
            "can repeat the choice of images, the mixtures and the noise. With local-train "
            "--secret, a secret of the site is the key."
        ]
    if noise_of(header):
        return [
            "The noise comes from the seed of the run: whoever knows the seed and the "
            "model removes it. With embed --secret, a secret of the site is the key."
        ]
    return []


def _shared_as(header: Header) -> str:
    """Name of the file among the measured kinds of files."""
    facts, reveals = header.facts, kind_of(header.kind).reveals
    if reveals == "weights":
        return "upload" if facts.get("role") == "client" else "model"
    if reveals != "rows" or facts.get("dataset"):
        return header.kind if header.kind != "features" else "answers"
    return "mixtures" if _is_mixed(facts) else "rows"


def _is_mixed(facts: dict[str, Any]) -> bool:
    return any(way in str(facts.get("share_rows")) for way in ("instahide", "mixup"))


def paragraphs(
    header: Header,
    entries: Sequence[Entry],
    size: int,
    audits: Sequence[dict[str, Any]] = (),
) -> Iterator[tuple[str, str]]:
    """Pairs of a title and a text; `audits`: audits of this file."""
    plainly = kind_of(header.kind).plain
    yield "what it is", f"{plainly}: {sentence(header, entries)}"
    yield "made from", _made_from(header)
    amount = _amount(header, numbers_of(header, entries))
    yield "how much", f"{amount}; {byte_size(size)}"
    shown = ", ".join(f"{name} {_shown(value)}" for name, value in told(header).items())
    shown = shown or "nothing of the site"
    yield "it tells", f"{shown}; and the options of the command"
    for text in measured(header, audits):
        yield "measured", text
    for finding in findings(header, entries):
        papers = "; ".join(finding.papers)
        yield "recoverable", f"{finding.what} ({papers})"
    if not findings(header, entries):
        yield "recoverable", "Nothing is known here about such files."


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        inside = (f"{k} {_shown(v)}" for k, v in value.items() if v is not None)
        return f"({shorten(', '.join(inside), 300)})"
    return plain(word(value))


def _made_from(header: Header) -> str:
    facts, options = header.facts, header.options
    inputs = [f"{plain(k)} {short_hash(str(v))}" for k, v in header.inputs.items()]
    text = f"by furlkit {plain(header.stage)}"
    if facts.get("role") == "client" or facts.get("owners") is None:
        text += _images(header)
    if options.get("objective"):
        epochs = counted(options.get("epochs"), "epoch")
        text += f"; {epochs} of --objective {word(options['objective'])}"
    text += f"; input files: {', '.join(inputs) or 'none'}"
    if lacks_record(header):
        text += " in the header; the record, which must stay, lists every input file"
    return text


def _images(header: Header) -> str:
    """Owner of the images behind the file, if the kind of file tells."""
    facts = header.facts
    client = facts.get("client")
    own = header.stage in ("local-train", "mask upload") or facts.get("part") == str(
        client
    )
    if own and client is not None:
        labels = "the names of classes are" if facts.get("classes") else "no label is"
        return (
            f", from the site's images (client {plain(str(client))}); no image and no "
            f"file name is in the file, and {labels}"
        )
    if header.stage == "embed":
        return (
            ", from the images given to embed, by a model; make sure that only public "
            "images were given"
        )
    return ""


def _amount(header: Header, numbers: Numbers) -> str:
    weights = kind_of(header.kind).reveals == "weights"
    text = counted(numbers.all, "number") + ", for any number of images" * weights
    if numbers.each is None:
        return text + "; the number of images is not in the file" * weights
    return f"{text}: {numbers.each:,.1f} for each of {numbers.images:,} images"
