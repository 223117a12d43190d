"""The vocabulary: words of furlkit explained, and options by other people's names.

`furlkit --help-words` prints the glossary. Help texts, log lines and metrics files use
its words without another explanation.
"""

GLOSSARY = {
    "accuracy": "share of the test images of which the class was found",
    "alignment": "mean squared distance between the outputs of two views of an image, of "
    "length 1; 0 is best",
    "checkpoint": "file with named parts of a model: the global model or an upload",
    "client": "one holder of images, by number in a partition or by name as a site; its "
    "images never leave it",
    "collapse": "failure of training: all images get nearly the same output; see spread "
    "and rank",
    "dictionary": "rows of z that clients share, negatives for the others (FedCA, FCL)",
    "encoder": "network from an image to h, the result of training",
    "false negative": "image of the same class that a contrastive loss pushes away",
    "global model": "model of the server, the start of every client's round",
    "h": "output of the encoder, the representation that is evaluated",
    "head": "small network on top of h for training: projector, predictor, classifier, "
    "clusters, ...",
    "linear CKA": "similarity of two models' outputs for the same images, 0 to 1",
    "loss": "number that training lowers, the mean over an epoch's batches",
    "metrics": "JSON file with the scores of one model",
    "neighbours": "images whose outputs are nearest to an image's",
    "part": "tensors of a model under one name, such as encoder or projector; --send "
    "names the parts that leave a client",
    "partition": "file that says which client holds which images",
    "preset": "TOML file with the options of a paper, for --preset",
    "private file": "file that a client keeps from round to round and never sends",
    "probe": "linear classifier trained on h to score it; --probes trains several, since "
    "one is noisy",
    "projector": "head from h to z",
    "public images": "images that the server and all clients may see",
    "rank": "effective rank: how many dimensions the outputs use, from 1 (collapsed) to "
    "the width of z or h",
    "recipe": "TOML file with the command lines of a whole system, for furlkit plan",
    "round": "one exchange: clients train, upload, and the server aggregates",
    "spread": "how different the outputs' directions are: 0 (collapsed) to 1 (isotropic)",
    "target": "slowly moving copy of the model, or the values that a model learns to "
    "give",
    "uniformity": "how evenly outputs fill the sphere; more negative is more even",
    "upload": "checkpoint that a client sends to the server",
    "view": "randomly augmented copy of an image",
    "z": "output of the projector, which contrastive losses compare",
}

# Names of options in papers and other programs, and furlkit's names for them.
OTHER_NAMES = {
    "algorithm": ("rule", "objective"),
    "alpha": ("concentration",),
    "arch": ("encoder",),
    "backbone": ("encoder",),
    "beta": ("concentration",),
    "bs": ("batch-size",),
    "data-dir": ("data-root", "data"),
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
    "num-clients": ("clients",),
    "optimizer": ("optimiser",),
    "out": ("output",),
    "out-dir": ("output",),
    "random-state": ("seed",),
    "tau": ("temperature",),
    "wd": ("weight-decay",),
    "workers": ("threads",),
}
