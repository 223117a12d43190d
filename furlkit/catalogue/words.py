"""The vocabulary: furlkit's words, and options under the names of other programs.

`furlkit --help-words` prints the glossary. Help texts, log lines and metrics files use
these words without explanation.
"""

from collections.abc import Collection

GLOSSARY = {
    "accuracy": "share of test images with a correct prediction of the class",
    "alignment": "mean squared distance between the outputs of two views of an image, of "
    "length 1; 0 is best",
    "checkpoint": "file with named parts of a model: the global model or an upload",
    "client": "holder of images, by number in a partition or by name for a site; the "
    "images never leave the client",
    "collapse": "failure of training: images get nearly equal outputs; see spread and "
    "rank",
    "dictionary": "shared rows of z, negatives for the clients (FedCA, FCL)",
    "encoder": "network from an image to h, the result of training",
    "false negative": "image of equal class, pushed away by a contrastive loss",
    "global model": "model of the server, the start of every client's round",
    "h": "output of the encoder, the representation to evaluate",
    "head": "small network on top of h for training: projector, predictor, classifier, "
    "clusters, ...",
    "lidar": "number of dimensions that tell images from views of an image; higher is "
    "better",
    "linear CKA": "similarity of the outputs of two models for given images, 0 to 1",
    "loss": "number minimised by training, the mean over an epoch's batches",
    "metrics": "JSON file with the scores of a model",
    "neighbours": "images with the nearest outputs to the output of an image",
    "part": "tensors of a model under a common name, like encoder or projector; --send "
    "names the parts to send",
    "partition": "file with the assignment of images to clients",
    "preset": "TOML file with the options of a paper, for --preset",
    "private file": "file that a client keeps between rounds and never sends",
    "probe": "linear classifier trained on h to score h; --probes trains several probes, "
    "since a single probe is noisy",
    "projector": "head from h to z",
    "public images": "images for the server and every client",
    "rank": "effective rank: number of dimensions in use, from 1 (collapsed) to the width "
    "of z or h",
    "rankme": "like rank, of rows that are neither centred nor of length 1; higher is "
    "better",
    "recipe": "TOML file with the command lines of a whole system, for furlkit plan",
    "round": "clients train and upload, then the server aggregates",
    "spread": "variety of the outputs' directions: 0 (collapsed) to 1 (isotropic)",
    "target": "slowly moving copy of the model, or values for a model to learn",
    "uniformity": "evenness of outputs on the sphere; more negative is more even",
    "upload": "checkpoint sent by a client to the server",
    "view": "randomly augmented copy of an image",
    "z": "output of the projector, which contrastive losses compare",
}

# Names of options in papers and other programs, and furlkit's names for them.
OTHER_NAMES = {
    "algorithm": ("rule", "objective"),
    "alg": ("rule", "objective"),
    "alpha": ("concentration",),
    "arch": ("encoder",),
    "backbone": ("encoder",),
    "beta": ("concentration",),
    "bs": ("batch-size",),
    "data-dir": ("data-root", "data"),
    "datadir": ("data-root", "data"),
    "dataset": ("data",),
    "dirichlet-alpha": ("concentration",),
    "eta": ("lr",),
    "gpu": ("device",),
    "learning-rate": ("lr",),
    "local-epochs": ("epochs",),
    "loss": ("objective",),
    "method": ("objective",),
    "model": ("encoder",),
    "mu": ("proximal",),
    "n-clients": ("clients",),
    "n-parties": ("clients",),
    "num-clients": ("clients",),
    "optimizer": ("optimiser",),
    "out": ("output",),
    "out-dir": ("output",),
    "random-state": ("seed",),
    "tau": ("temperature",),
    "temp": ("temperature",),
    "wd": ("weight-decay",),
    "workers": ("threads",),
}


def our_name(word: str, known: Collection[str]) -> str:
    """Option among `known` for a name of other programs, with - or _; or empty."""
    names = OTHER_NAMES.get(word.replace("_", "-"), ())
    return next((name for name in names if name in known), "")
