"""Audits: attacks on the privacy of shared files, with the success in numbers."""

from furlkit.catalogue import papers
from furlkit.catalogue.entries import (
    Argument,
    Data,
    File,
    Number,
    Option,
    Protocol,
    Whole,
    group,
    named,
)
from furlkit.catalogue.groups import (
    DATA_FILES,
    GENERAL,
    IN_OUT,
    LAYER,
    PART,
    RUNNING,
    epochs_option,
    output,
    split_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

_METRICS = output("metrics")
_GENERAL = GENERAL.without("preset")
_PARTITION = Option("partition", File("partition", "partition"), recorded=False,
                    help="Partition of the images; the header of ROWS names the client.")
_CANDIDATES = Option("candidates", Data(), required=True, recorded=False,
    help="Dataset with the images of the client: with --partition the dataset of the "
         "partition, otherwise the images of the site.")
_ATTACKER = Option("model", File("checkpoint", "model"), required=True, recorded=False,
    help="Model of the attacker: the client's upload, which the server has, or the global "
         "model, which every client has.", metavar="CHECKPOINT")
_SECRET = Option("secret", File("key"), recorded=False, metavar="FILE",
    help="Secret of the site that chose the images of the rows (local-train --secret); "
         "the audit needs the truth, the attacker does not have the secret.")
_ROWS = Argument("rows", File("features", "rows"), "ROWS")
_PUBLIC = Option("public", Data(), required=True, recorded=False,
                 help="Public images of the attacker.")
_K = Option("k", Whole(2), 100, "Number of candidates, of which one is the image.")


def _most(what: str) -> Option:
    return Option("images", Whole(2), 1000, f"Largest number of {what}, drawn by --seed.")


AUDITS = named(
    Protocol("membership",
        "Guess from a model if images were used for training.",
        "furlkit.audits.membership:combined",
        groups=(
            Argument("model", File("checkpoint", "model"), "CHECKPOINT"),
            group(IN_OUT,
                Option("members", Data(), required=True, recorded=False,
                       help="Images of the training; with --part, the dataset of the "
                            "partition."),
                *DATA_FILES,
                PART[0],
                PART[1]._replace(
                    help="Part of --members that trained the model: every image, public "
                         "images, or a client's images."),
                Option("others", Data(), recorded=False, usual="the test split of --members",
                       help="Images like the members, but not used for training."),
                Option("parent", File("checkpoint", "parent"), recorded=False,
                       help="Model before the training, which the attacker knows; scores "
                            "are then differences between both models."),
                _METRICS,
            ),
            group("Attack",
                Option("views", Whole(2, 1000), 10, "Augmented views of each image."),
                LAYER._replace(default="z"),
                Option("temperature", Number(above=0), usual="the training's, or 0.5",
                       help="tau of the contrastive loss."),
                _most("members, and of other images"),
            ),
            RUNNING,
            _GENERAL,
        ),
        paper=papers.ENCODERMI,
        equation="EncoderMI-T",
        printed="differs: similarity of views as printed; loss, length of z and --parent "
                "are our additions",
    ),
    Protocol("rows",
        "Recognise a client's images by the rows that the client shares.",
        "furlkit.audits.rows:evidence",
        groups=(
            _ROWS,
            group(IN_OUT,
                _ATTACKER,
                _CANDIDATES,
                *DATA_FILES,
                _PARTITION,
                _SECRET,
                Option("others", Data(), recorded=False,
                       usual="with --partition the images of other clients and the public "
                             "part, otherwise the test split of --candidates",
                       help="Images that the client does not have."),
                _METRICS,
            ),
            group("Attack", _K, _most("images behind rows, and of other images")),
            RUNNING,
            _GENERAL,
        ),
        equation="likelihood ratio of the rows",
        printed="nothing printed",
    ),
    Protocol("classes",
        "Infer the classes that clients hold from uploads, rows or similarities.",
        "furlkit.audits.classes:class_scores",
        groups=(
            Argument("uploads", File("checkpoint|features|similarity", "upload"),
                     "UPLOAD...", several=True),
            group(IN_OUT,
                _PUBLIC._replace(help="Labelled public images of the attacker; for "
                                      "similarities, the dataset of the similarities."),
                *DATA_FILES,
                split_option("train"),
                PART[0]._replace(
                    help="Partition with the true classes of the clients; also for --part."),
                PART[1]._replace(help="Part of --public that the attacker has."),
                Option("model", File("checkpoint", "model"), (), multiple=True,
                       recorded=False, metavar="CHECKPOINT", variable="models",
                       help="For rows of the clients' images: model of the attacker, to "
                            "compare rows with public images; may be repeated: the upload "
                            "of a client serves for the client's rows."),
                Option("parent", File("checkpoint", "parent"), recorded=False,
                       usual="the mean over the uploads",
                       help="For models: the global model from which the clients started, "
                            "as a reference."),
                _METRICS,
            ),
            group("Attack", LAYER._replace(default="z"), _most("public images")),
            RUNNING,
            _GENERAL,
        ),
        paper=papers.MELIS,
        equation="property inference",
        printed="nothing printed",
    ),
    Protocol("inversion",
        "Reconstruct images from rows by a decoder that learns from public images.",
        "furlkit.audits.inversion:ssim",
        groups=(
            _ROWS,
            group(IN_OUT,
                _ATTACKER,
                _PUBLIC,
                _CANDIDATES,
                *DATA_FILES,
                _PARTITION,
                _SECRET,
                Option("sheet", File("picture", direction="written"), recorded=False,
                       metavar="PICTURE",
                       help="Picture with originals and reconstructions, .png, .pdf or "
                            ".svg."),
                _METRICS,
            ),
            group("Attack",
                epochs_option(30, "Epochs of the decoder."),
                Option("lr", Number(above=0), 2e-3, "Learning rate of the decoder."),
                _K,
                _most("rows to reconstruct"),
                Option("public-images", Whole(2), 5000,
                       "Largest number of public images, drawn by --seed."),
            ),
            RUNNING,
            _GENERAL,
        ),
        paper=papers.DOSOVITSKIY,
        equation="decoder of features",
        printed="differs: the decoder of --objective autoencoder, and squared error",
    ),
)
