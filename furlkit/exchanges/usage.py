"""Checks of the options of exchanges, before files are opened; without torch.

An entry of the catalogue names the check of an exchange. A check raises a UsageError if
options contradict each other; without options of the exchange, a check does nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from furlkit import catalogue
from furlkit.errors import UsageError

Values = Mapping[str, Any]  # Values of a command line, by the keys of the options.


def check_exchanges(values: Values) -> None:
    """Check the options of every exchange of the catalogue."""
    for entry in catalogue.exchanges().values():
        if entry.check:
            catalogue.load(entry.check)(values)


def active_terms(values: Values) -> list[catalogue.Term]:
    """Terms that the command line turns on."""
    terms = catalogue.terms().values()
    return [term for term in terms if values[catalogue.key_of(term.switch)]]


def is_asked_for(exchange: str, values: Values) -> bool:
    """Return whether the objective or an active term lists an exchange."""
    objective = catalogue.objectives()[values["objective"]]
    asked = [objective.exchanges, *(term.exchanges for term in active_terms(values))]
    return any(exchange in names for names in asked)


def draws(values: Values) -> bool:
    """Return whether draws protect a file that the client shares."""
    return bool(values["features_out"] or values["correlations_noise"])


def secret_pattern(values: Values, flag: str) -> str | None:
    """Path of the secret for the draws of `flag`, with {client}.

    None in a simulation, which draws by the seed.
    """
    if values["secret"] or values["partition"]:
        return values["secret"]
    if not values["private_out"]:
        raise UsageError(
            f"{flag}: without a PARTITION, a secret of the site decides the draws; give "
            "--private-out, and the secret is beside the private file, or --secret FILE"
        )
    return str(Path(values["private_out"]).with_name("{client}.secret"))


def _check_kept(values: Values, flag: str, why: str) -> None:
    """Raise without a private file for data that a client keeps between rounds."""
    if not values["private_out"]:
        raise UsageError(f"{flag}: {why}; give --private-out")


def _first_flag(values: Values, *names: str) -> str:
    """The first of the options on the command line; empty without any."""
    given = (name for name in names if values[catalogue.key_of(name)])
    return next((f"--{name}" for name in given), "")


def check_control(values: Values) -> None:
    """Control variates need plain steps, all parts of the model, and a memory."""
    if not is_asked_for("control", values):
        return
    if values["optimiser"] != "sgd" or values["momentum"]:
        raise UsageError(
            "--scaffold: a client's mean gradient follows from start and end weights only "
            "without momentum; give --optimiser sgd --momentum 0"
        )
    why = "a client keeps the control variate in a private file"
    _check_kept(values, "--scaffold", why)
    for flag, given in (
        ("--phases", values["phases"]),
        ("--personal", values["personal"] != "none"),
        ("--send", values["send"]),
        ("--keep-norms", values["keep_norms"]),
    ):
        if given:
            raise UsageError(f"--scaffold does not apply with {flag}; omit either")


def check_personal(values: Values) -> None:
    """A personal model needs a file, the global model, and a fitting objective."""
    if values["personal"] == "none":
        return
    flag, objective = f"--personal {values['personal']}", values["objective"]
    entry = catalogue.objectives()[objective]
    _check_kept(values, flag, "the personal model stays in a private file")
    if catalogue.updates()[values["update"]].starts_from_own:
        raise UsageError(
            f"{flag}: needs the global model, but with --update {values['update']} the "
            "client starts from the client's model; omit either"
        )
    if values.get("mix") == "weights" and not entry.mixes:
        raise UsageError(
            f"--mix weights does not apply to --objective {objective}, which constrains "
            "weights; a mixture would violate the constraint; use --mix views"
        )
    if values.get("mix") == "views" and "projector" not in entry.head_names:
        raise UsageError(
            f"--mix views does not apply to --objective {objective}, which has no z "
            "of two views; use --mix weights"
        )
    if values.get("own_share_rate") and values["precision"] == "float16":
        raise UsageError(
            "--own-share-rate: --precision float16 scales the loss and alpha's gradient; "
            "use bfloat16"
        )


def check_style(values: Values) -> None:
    """Infusion needs an objective of two views, and the client's private files."""
    if not is_asked_for("style", values):
        return
    objective = catalogue.objectives()[values["objective"]]
    if not objective.again:
        raise UsageError(
            f"--infusion does not apply to --objective {objective.name}: infusion needs a "
            "loss that compares h of two views of an image, like "
            f"{catalogue.objectives_that(lambda o: o.again)}"
        )
    if not values["private"]:
        raise UsageError(
            "--infusion: needs the client's style model; give --private, a file that "
            "pretrain-style or the client's last round has written"
        )
    if not values["private_out"]:
        raise UsageError(
            "--infusion: the client's generator would be lost; give --private-out, the "
            "file for style model and generator"
        )
    if values["personal"] != "none":
        raise UsageError(
            f"--infusion does not apply with --personal {values['personal']}: the "
            "generator is trained with the sent model, and personalises this model; omit "
            "either"
        )


def check_kernel(values: Values) -> None:
    """A kernel needs the public images, and a term that reads the kernel."""
    path = values["kernel"]
    if not path:
        return
    if not values["kernel_data"]:
        raise UsageError(
            f"--kernel {path}: give --kernel-data too, the public images of the kernel"
        )
    if not is_asked_for("kernel", values):
        raise UsageError(f"--kernel {path}: nothing uses the kernel; give --cka")


def check_centroids(values: Values) -> None:
    """Centroids are rows of a projector; something must use received centroids."""
    objective = catalogue.objectives()[values["objective"]]
    flag = _first_flag(values, "centroids", "centroids-out")
    if flag and "projector" not in objective.head_names:
        raise UsageError(
            f"{flag}: centroids are rows of z, the output of a projector, which "
            f"--objective {objective.name} does not train"
        )
    if values["centroids"] and not is_asked_for("centroids", values):
        raise UsageError(
            f"--centroids {values['centroids']}: nothing uses the centroids; give "
            "--centroid-weight or --objective orchestra"
        )


def check_correlations(values: Values) -> None:
    """Only some objectives use correlations, and the client's matrix needs a file."""
    objective = catalogue.objectives()[values["objective"]]
    flag = _first_flag(values, "correlations", "correlations-out")
    if flag and "correlations" not in objective.exchanges:
        raise UsageError(
            f"{flag}: correlations belong to the spectral loss; give --objective spectral "
            f"instead of {objective.name}"
        )
    if values["correlations_out"]:
        why = "a client subtracts its matrix from the next mean and keeps the matrix in a "
        _check_kept(values, "--correlations-out", f"{why}private file")


def check_norms(values: Values) -> None:
    """Layers that stay at the client need a file."""
    if values["keep_norms"]:
        why = "a client keeps its BatchNorm layers in a private file"
        _check_kept(values, "--keep-norms", why)


def check_neighbours(values: Values) -> None:
    """Neighbours of several rounds need a file."""
    every = values.get("mine_every") or 0
    if is_asked_for("neighbours", values) and every > 1:
        why = "neighbours are kept in a private file until then"
        _check_kept(values, f"--mine-every {every}", why)


def check_layers(values: Values) -> None:
    """Methods that send the whole net exclude layer-wise training."""
    for flag in ("personal", "scaffold"):
        if values["train_layers"] and values[flag] not in (False, "none"):
            raise UsageError(
                f"--train-layers does not apply with --{flag}, which trains and sends "
                "all layers; omit either"
            )


def check_targets(values: Values) -> None:
    """Targets need the public images."""
    if values["align"] and not values["align_data"]:
        raise UsageError(
            f"--align {values['align']}: give --align-data too, the public images of the "
            "targets"
        )
