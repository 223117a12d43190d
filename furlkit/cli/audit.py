"""audit: attack shared files, and measure the success; a command for every attack."""

from furlkit.catalogue.audits import AUDITS
from furlkit.catalogue.entries import command, command_group

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

# The text of --help for each audit, after the first line.
_TEXTS = {
    "membership": """The attacker has the model, candidate images and the augmentation of the
    training, and with --parent the model before training; the attacker knows no member.
    Views of a member are more similar (EncoderMI), the contrastive loss of a member is
    lower, and z of a member is longer. auc is of the mean of the three standardised
    scores; scores has each score alone. Others that are equal to a member are left out.

    AUC 0.5 is chance. A low AUC of this attack does not prove that no other attack
    succeeds.

    \b
    Example:
      furlkit audit membership exp/r001/client_0.safetensors --members digits \\
          --partition exp/partition.safetensors --part 0 \\
          --parent exp/r000/global.safetensors -o exp/r001/membership.json
      furlkit plot roc exp/r001/membership.json -o exp/r001/membership.png
    """,
    "rows": """The attacker has the ROWS of a client, a model and candidate images, and takes
    an image for the client's if the rows are more likely with the image's z than with z
    of other candidates; the noise of the rows is in the header. auc compares images behind
    rows with images that the client does not have; identified is the share of images
    behind rows that the attacker picks from k candidates. scores has the distance to the
    nearest row alone, a weaker attack.

    Rows of local-train do not name the images: the audit repeats the choice of the
    images, by the seed in the header or by --secret, and needs the same images in the
    same order. Partitions and numbers of images that contradict the headers are refused;
    other images of the same number give a low number. With the .record beside the rows,
    a wrong secret is refused; without the record, a wrong secret gives a low number.

    \b
    Example:
      furlkit audit rows exp/r001/features_0.safetensors --candidates digits \\
          --model exp/r001/client_0.safetensors \\
          --partition exp/partition.safetensors -o exp/r001/rows.json
    """,
    "classes": """The attacker has one file of each client, and labelled public images. Rows of
    a client's images: the nearest public images vote. A model: the contrastive loss of
    public images is lower for classes of the training. Features or similarities of public
    images: near images have the same class more often. Both are relative to --parent or
    to the mean over the clients.

    clients lists a score for every class. With --partition, auc compares the scores of
    classes that a client holds with the scores of other classes.

    \b
    Example:
      furlkit audit classes exp/r001/client_*.safetensors --public digits --split test \\
          --partition exp/partition.safetensors -o exp/r001/classes.json
    """,
    "inversion": """The attacker has the ROWS of a client, a model and public images, and trains a
    decoder from z of public images to the images. ssim is the mean structural similarity
    of reconstructions and originals, ssim_of_mean of the mean public image, the best
    guess without rows. rank is the median rank of the original among the originals of
    all rows; identified is the share of rows for which the original agrees best among k
    candidates. auc compares the agreement with the original and with other originals.

    \b
    Example:
      furlkit audit inversion exp/r001/features_0.safetensors --candidates digits \\
          --model exp/r001/client_0.safetensors --public public.safetensors \\
          --partition exp/partition.safetensors --sheet exp/r001/sheet.png \\
          -o exp/r001/inversion.json
    """,
}
COMMAND = command_group("audit", "Attack shared files and measure the success.",
    *(
        command(f"audit {name}", audit.help, _TEXTS[name], *audit.groups)
        for name, audit in AUDITS.items()
    ),
)
