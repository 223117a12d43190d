"""The kinds of files: descriptions, tensors, and rules for leaving a site.

Other packages add kinds through the entry-point group `furlkit.kinds`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from furlkit.errors import InputError


class FileKind(NamedTuple):
    """A kind of file.

    `sentence` is the explanation of `inspect`; words in braces are facts of the header,
    sizes of tensors, and words that reports/explain.py adds. `joined` replaces `sentence`
    for rows of several clients. `plain` avoids technical words, for `inspect --outgoing`.
    `stays` is the reason why the file must not leave a site; otherwise empty. `reveals`
    chooses the findings of reports/outgoing.py: "weights", "rows", "answers" or "moments"
    of a network, "sum" of masked models, "key". `per_image` names the tensor with a row
    per image. `tensors`: type and dimensions by name, like "float32 n d"; equal letters
    are equal sizes. `check`: module:function(path, tensors) that raises for wrong numbers.
    `module` has open_upload, read_upload and write_result, for aggregate; the module
    `declared` serves kinds with `tensors`. `withheld`: tensors that an anonymous result of
    aggregate leaves out; needs a `module` that reads files without these tensors.
    """

    name: str
    sentence: str
    plain: str = ""
    joined: str = ""
    stays: str = ""
    reveals: str = ""
    per_image: str = ""
    tensors: Mapping[str, str] = {}
    check: str = ""
    module: str = "furlkit.files.declared"
    withheld: tuple[str, ...] = ()


KINDS = {
    kind.name: kind
    for kind in (
        FileKind(
            "checkpoint",
            "{model}",
            plain="the weights of a neural network",
            reveals="weights",
        ),
        FileKind(
            "correlations",
            "correlations of z over images, {R} values, after round {round}",
            plain="mean products of a neural network's outputs over the images of a site",
            reveals="moments",
            tensors={"R": "float32 d d"},
            check="furlkit.files.correlations:check_symmetric",
        ),
        FileKind(
            "dataset",
            "{images}; {labels}; {domains}",
            stays="holds the images themselves",
        ),
        FileKind(
            "encoder",
            "the bare encoder {architecture} after round {round}, h has {num_features} "
            "numbers; config.json explains how to load the encoder",
            plain="the weights of a neural network",
            reveals="weights",
        ),
        FileKind(
            "ensemble",
            "the averaged similarities of {examples} images by the models of {clients} "
            "after round {round}, in the form {form}",
            plain="similarities between images, computed by neural networks",
            reveals="answers",
            per_image="matrix",
        ),
        FileKind(
            "features",
            "{rows} values, {origin}{made}",
            plain="a row of numbers per image, computed by a neural network",
            joined="a dictionary of {rows} values, rows of {owners} after round "
            "{round}{made}",
            reveals="rows",
            per_image="rows",
            module="furlkit.files.features",
            # The counts of anonymous rows would add up to the images of all sites.
            withheld=("counts",),
        ),
        FileKind(
            "masked",
            "a masked model of client {client} after round {round}, readable only in the "
            "sum of {clients}",
            plain="the weights of a neural network, hidden by random numbers",
            reveals="sum",
        ),
        FileKind(
            "neighbours",
            "neighbours of {examples} images, {nearest} positions in the dataset, by "
            "{origin}",
            plain="the most similar images of every image, found by a neural network",
            per_image="nearest",
        ),
        FileKind(
            "partition",
            "{indices} of {total} images assigned to {clients} clients (scheme "
            "{scheme}), {public} public",
            plain="the assignment of images to clients, and counts of labels",
        ),
        FileKind(
            "private",
            "private state of client {client} after round {round}: {holds}; it must not "
            "leave the client",
            stays="is private, and must not leave the site",
        ),
        FileKind(
            "progress",
            "an unfinished {stage}, {step} steps done; the same command resumes",
            stays="is an unfinished training with private state; finish the training with "
            "the same command, and send the output",
        ),
        FileKind(
            "public-key",
            "the public key of client {client} for masked sums of run {run}",
            plain="a public key, without data of images",
            reveals="key",
        ),
        FileKind(
            "record",
            "the record of a {kind} file that {stage} published with a shorter header; it "
            "must not be published",
            stays="names sites, uploads and numbers that the published file leaves out",
        ),
        FileKind(
            "secret-key",
            "the secret key of client {client} for masked sums of run {run}; it must not "
            "leave the client",
            stays="is the secret key of the site, which removes the site's masks",
        ),
        FileKind(
            "server",
            "the memory of the server after round {round}, of --rule {rule}; stays at the "
            "server",
            stays="is the memory of the server between rounds; no client needs the file",
        ),
        FileKind(
            "similarity",
            "{matrix} values, every image with {others}, {origin}",
            plain="similarities between images, computed by a neural network",
            joined="{matrix} values, mean cosines of {examples} images by the models of "
            "{owners} after round {round}",
            reveals="answers",
            per_image="matrix",
            module="furlkit.files.similarity",
        ),
        FileKind(
            "targets",
            "outputs of the alignment model for {examples} public images: h {h}, z {z} "
            "values",
            plain="rows of numbers per image, computed by a neural network",
            reveals="rows",
            per_image="h",
        ),
    )
}


def is_kind(name: Any) -> bool:
    """Return whether furlkit or an installed package declares a kind of this name."""
    return isinstance(name, str) and (name in KINDS or name in _installed())


def kind_of(name: str) -> FileKind:
    """The kind of this name, of furlkit or of an installed package."""
    kind = KINDS.get(name) or _installed().get(name)
    if kind is None:
        raise InputError(
            f"{name!r} is no kind of file; expected one of {', '.join(KINDS)}, or a kind "
            "that an installed package adds to the entry-point group furlkit.kinds"
        )
    return kind


def _installed() -> dict[str, FileKind]:
    """Kinds of installed packages; the search takes long, so furlkit's kinds come first."""
    from furlkit.catalogue import installed

    return installed.new_names("furlkit.kinds", KINDS, FileKind)
