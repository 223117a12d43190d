"""The kinds of furlkit's files: how people read about them, and whether they may leave."""

from typing import NamedTuple


class FileKind(NamedTuple):
    """A kind of file.

    `sentence` is the explanation of `inspect`; words in braces are facts of the header,
    sizes of tensors, and words that reports/explain.py adds. `joined` replaces it for rows
    of several clients. `plain` avoids words of the trade, for `inspect --outgoing`.
    `stays` is the reason why the file must not leave a site; empty if it may. `reveals`
    chooses the findings of reports/outgoing.py: "weights", "rows" or "answers" of a
    network. `per_image` names the tensor with a row for each image.
    """

    name: str
    sentence: str
    plain: str = ""
    joined: str = ""
    stays: str = ""
    reveals: str = ""
    per_image: str = ""


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
            "dataset",
            "{images}; {labels}; {domains}",
            stays="holds the images themselves",
        ),
        FileKind(
            "encoder",
            "the bare encoder {architecture} after round {round}, h has {num_features} "
            "numbers; config.json beside it says how to load it",
            plain="the weights of a neural network",
            reveals="weights",
        ),
        FileKind(
            "ensemble",
            "the averaged similarities of {examples} images by the models of {clients} "
            "after round {round}, as {form}",
            plain="for each image how alike neural networks find others to it",
            reveals="answers",
            per_image="matrix",
        ),
        FileKind(
            "features",
            "{rows} values, {origin}{made}",
            plain="for each image a row of numbers, which a neural network makes of it",
            joined="a dictionary of {rows} values, rows of {owners} after round "
            "{round}{made}",
            reveals="rows",
            per_image="rows",
        ),
        FileKind(
            "neighbours",
            "the nearest others of each of {examples} images, {nearest} places in the "
            "dataset, by {origin}",
            plain="for each image which others a neural network finds nearest to it",
            per_image="nearest",
        ),
        FileKind(
            "partition",
            "{indices} of {total} images assigned to {clients} clients (scheme "
            "{scheme}), {public} public",
            plain="which images of a dataset each client holds, and counts of their "
            "labels",
        ),
        FileKind(
            "private",
            "what client {client} keeps after round {round}: {holds}; it must not leave "
            "the client",
            stays="is what the site keeps to itself, and must not leave it",
        ),
        FileKind(
            "progress",
            "an unfinished {stage}, {step} steps done; the same command resumes it",
            stays="is an unfinished training, with what the site keeps to itself; finish "
            "it with the same command, and send its output",
        ),
        FileKind(
            "server",
            "the memory of the server after round {round}, of --rule {rule}; it stays at "
            "the server",
            stays="is the memory of the server between rounds, which no client needs",
        ),
        FileKind(
            "similarity",
            "{matrix} values, every image with {others}, {origin}",
            plain="for each image how alike a neural network finds others to it",
            reveals="answers",
            per_image="matrix",
        ),
        FileKind(
            "targets",
            "outputs of the alignment model for {examples} public images: h {h}, z {z} "
            "values",
            plain="for each image rows of numbers, which a neural network makes of it",
            reveals="rows",
            per_image="h",
        ),
    )
}
