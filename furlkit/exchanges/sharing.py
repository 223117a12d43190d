"""Options of shared rows, for the exchange `dictionary`; without torch."""

from dataclasses import dataclass
from functools import partial

from furlkit import catalogue
from furlkit.aggregators.dictionary import rows_to_share
from furlkit.errors import UsageError
from furlkit.exchanges.usage import Values, active_terms, draws, secret_pattern
from furlkit.inputs.settings import fill

# Reasons why a flag needs an objective with an input.
WHY = {
    "z_dict": "the flag needs a loss with negatives from other clients",
    "z": "rows contain z, the output of a projector",
    "z_own": "the flag needs a loss with positives from outside the batch",
}


@dataclass(frozen=True)
class Sharing:
    """The options of the exchange, by key.

    `dictionary` has the received rows, and `negatives` the use of these rows. `share_rows`
    chooses the shared rows, and `rows_statistics` the BatchNorm statistics for these rows;
    `row_noise` is sigma, the noise of a shared number.
    `participants` is m, the number of sharing clients; None means every client of the
    partition. `dictionary_from` chooses the model for z, and `dictionary_positive` the
    positive against the dictionary.
    """

    dictionary: str | None
    leave_own_out: bool
    negatives: str
    features_out: str | None
    secret: str | None
    share_rows: str
    rows_statistics: str
    row_noise: float
    alpha: float
    dictionary_size: int
    participants: int | None
    dictionary_from: str
    dictionary_positive: str

    @property
    def own_rows(self) -> bool:
        """Return whether the image's row is the positive against a dictionary."""
        given = self.dictionary is not None and self.negatives != "local"
        return self.dictionary_positive == "own" and given

    @property
    def averaged(self) -> bool:
        """Return whether the client shares rows of Z, not rows of this round alone."""
        return self.share_rows == "averaged"

    @property
    def mixes(self) -> bool:
        """Return whether the client shares rows of mixed images."""
        return bool(self.features_out) and self.share_rows in ("instahide", "mixup")

    @property
    def needs_own(self) -> bool:
        """Return whether rows Z of the client's last round are positives."""
        return self.dictionary_positive == "own" and self.dictionary_from == "client"

    @property
    def keeps_rows(self) -> bool:
        """Return whether the client needs the rows Z in the next round."""
        return self.averaged and (bool(self.alpha) or self.needs_own)

    def rows(self, clients: int) -> int:
        """Number of rows that a client shares."""
        return rows_to_share(self.dictionary_size, self.participants or clients)


def sharing_of(values: Values) -> Sharing:
    """The options of the exchange from the values of a command line."""
    options = catalogue.EXCHANGES["dictionary"].options
    return fill(Sharing, catalogue.divided(values, options)[0])


def check(values: Values) -> None:
    """Raise for options that contradict the objective or further options."""
    sharing = sharing_of(values)
    _check_objective(sharing, values)
    if sharing.secret and not draws(values):
        raise UsageError(
            "--secret: the command draws nothing by the secret; give --features-out, or "
            "--correlations-noise"
        )
    if sharing.features_out and not (values["partition"] or sharing.participants):
        raise UsageError(
            "--features-out: without a PARTITION, give --participants, the number of "
            "clients that share rows"
        )
    used = sharing.features_out or sharing.dictionary_positive == "own"
    if sharing.dictionary_from == "global" and not used:
        raise UsageError(
            "--dictionary-from global: applies only to shared rows; give --features-out"
        )
    if sharing.features_out and sharing.needs_own and not sharing.averaged:
        raise UsageError(
            f"--share-rows {sharing.share_rows}: the client keeps no rows of images for "
            "--dictionary-positive own; add --dictionary-from global"
        )
    if sharing.features_out and sharing.keeps_rows and not values["private_out"]:
        _refuse_to_lose_rows(sharing)
    if sharing.features_out:
        secret_pattern(values, "--features-out")


def _refuse_to_lose_rows(sharing: Sharing) -> None:
    if sharing.alpha:
        raise UsageError(
            f"--alpha {sharing.alpha:g}: features averaged over rounds are kept in a "
            "private file; give --private-out, or --alpha 0 to share only this round's z"
        )
    raise UsageError(
        "--dictionary-positive own: the rows of a client's images are kept in a private "
        "file; give --private-out, or --dictionary-from global"
    )


def _check_objective(sharing: Sharing, values: Values) -> None:
    objective = catalogue.objectives()[values["objective"]]
    terms = [term for term in active_terms(values) if "rows" in term.inputs]
    matching = [f"--{term.switch}" for term in terms]
    # A term may use rows although the loss of the objective does not.
    rows, own = "z" if matching else "z_dict", sharing.dictionary_positive == "own"
    for flag, given, needed in (
        ("--dictionary", sharing.dictionary, rows),
        ("--features-out", sharing.features_out, rows),
        ("--negatives", sharing.negatives != "fused", "z_dict"),
        ("--dictionary-positive own", own, "z_own"),
        *((flag, True, "z") for flag in matching),
    ):
        if given and not _takes(needed, objective):
            able = catalogue.objectives_that(partial(_takes, needed))
            raise UsageError(
                f"{flag} does not apply to --objective {objective.name}: {WHY[needed]}, "
                f"as {able} does"
            )


def _takes(needed: str, objective: catalogue.Objective) -> bool:
    """Return whether an objective has z, or takes this input."""
    if needed == "z":
        return "projector" in objective.head_names
    return needed in objective.inputs
