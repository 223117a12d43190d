"""What local-train was told, as its command line has it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit import catalogue
from furlkit.aggregators.dictionary import rows_to_share
from furlkit.catalogue import divided
from furlkit.data.augment import Augmentation
from furlkit.data.sets.source import Source
from furlkit.errors import UsageError
from furlkit.files.clients import ClientId
from furlkit.inputs.settings import Computing
from furlkit.inputs.settings import fill as fill_options
from furlkit.inputs.sites import chosen_clients
from furlkit.stages.local_train.helpers import Helpers
from furlkit.training.plan import Phase, Plan
from furlkit.training.run import Execution


@dataclass(frozen=True)
class Sharing:
    """The dictionary that is given, and the client's part of the next: FedCA's, FCL's.

    `negatives` says whether the given one is used, and whether anything else is.
    `share_rows` says how the rows of the next part are made, and `rows_statistics` by
    which statistics BatchNorm normalises for them. `participants` m, the
    clients that share rows, are all of the partition's if None. `dictionary_from` says
    which model computes z of the client's images, and `dictionary_positive` what is the
    positive against a dictionary.
    """

    dictionary: str | None
    leave_own_out: bool
    negatives: str
    features_out: str | None
    share_rows: str
    rows_statistics: str
    alpha: float
    dictionary_size: int
    participants: int | None
    dictionary_from: str
    dictionary_positive: str

    @property
    def own_rows(self) -> bool:
        """Whether an image's own row is the positive against a dictionary."""
        given = self.dictionary is not None and self.negatives != "local"
        return self.dictionary_positive == "own" and given

    @property
    def averaged(self) -> bool:
        """Whether rows are those of Z; all others are made for each round."""
        return self.share_rows == "averaged"

    @property
    def mixes(self) -> bool:
        """Whether rows are shared that are of mixtures of images."""
        return bool(self.features_out) and self.share_rows in ("instahide", "mixup")

    @property
    def needs_own(self) -> bool:
        """Whether images are drawn to the rows Z of the client's last round."""
        return self.dictionary_positive == "own" and self.dictionary_from == "client"

    @property
    def keeps_rows(self) -> bool:
        """Whether the client needs its rows Z in its next round."""
        return self.averaged and (bool(self.alpha) or self.needs_own)

    def rows(self, clients: int) -> int:
        """How many rows a client shares, where there are so many clients."""
        return rows_to_share(self.dictionary_size, self.participants or clients)


@dataclass(frozen=True)
class Mining:
    """How many neighbours of each image an objective wants, and where they come from.

    They are those of the file `neighbours_from`, or those that the client kept, or the
    nearest by `mine_layer`, h or z, of the model that the client starts from. After
    `mine_every` rounds, if that is not 0, kept ones are mined again.
    """

    nearest: int
    mine_layer: str
    mine_every: int
    neighbours_from: str | None


@dataclass(frozen=True, kw_only=True)
class Options(Computing):
    """`output`, `private`, `private_out` and the dictionary may hold `{client}`.

    `settings` are the objective's own options, `update_settings` the update's,
    `personal_settings` those of the client's own model, and `terms` those of each term
    that is switched on. `sent_model` is copy or own, the model that leaves the client. Only an objective that compares images with their neighbours has
    `mining`. `send` names the parts of the model that leave the client; None stands for
    the net and its heads. `tell` are the facts about its images that an upload has.
    Without a partition there is one client, a site, and all images are its own.
    """

    partition: Path | None
    model: Path
    clients: tuple[ClientId, ...]
    output: str
    data: Source
    objective: catalogue.Objective
    settings: dict[str, Any]
    update: catalogue.Update
    update_settings: dict[str, Any]
    personal: catalogue.Personal
    personal_settings: dict[str, Any]
    sent_model: str
    terms: dict[str, dict[str, Any]]
    align: Path | None
    align_data: Source | None
    sharing: Sharing
    mining: Mining | None
    helpers: Helpers | None
    send: tuple[str, ...] | None
    tell: tuple[str, ...]
    augmentation: Augmentation
    plan: Plan
    private: str | None
    private_out: str | None
    execution: Execution
    seed: int

    @property
    def continues_round(self) -> bool:
        """Whether the client trains its model of this round once more."""
        return self.update.name == "continue"

    @property
    def starts_from_own(self) -> bool:
        """Whether the client's own model is given in place of the global one."""
        return self.update.name == "keep" or self.continues_round

    @property
    def has_own_model(self) -> bool:
        """Whether a client trains a model besides the one that it sends."""
        return self.personal.name != "none"

    @property
    def sends_own(self) -> bool:
        """Whether the client sends the model that it trains for itself."""
        return self.has_own_model and self.sent_model == "own"

    @property
    def infuses(self) -> bool:
        """Whether the client's style model and a generator take part."""
        return any(catalogue.terms()[name].infuses for name in self.terms)


def options_of(values: dict[str, Any]) -> Options:
    """The options of local-train from flat values."""
    rest, recorded = dict(values), catalogue.recorded("local-train", values)
    objective = catalogue.objectives()[rest.pop("objective")]
    update = catalogue.updates()[rest.pop("update")]
    personal = catalogue.PERSONAL[rest.pop("personal")]
    elsewhere = (*catalogue.MINING, *catalogue.HELPERS)
    own = [option for option in objective.options if option not in elsewhere]
    settings, rest = divided(rest, own)
    sent_model = rest.pop(catalogue.SENT_MODEL.key, catalogue.SENT_MODEL.default)
    personal_settings, rest = divided(rest, personal.options)
    update_settings, rest = divided(rest, update.options)
    terms = {}
    for term in catalogue.terms().values():
        # Options that are not recorded name files, which are opened here.
        chosen, rest = divided(rest, [o for o in term.options if o.recorded])
        if values[catalogue.key_of(term.switch)]:
            terms[term.name] = chosen
    known: dict[str, Any] = {
        "objective": objective,
        "settings": settings,
        "update": update,
        "update_settings": update_settings,
        "personal": personal,
        "personal_settings": personal_settings,
        "sent_model": sent_model,
        "terms": terms,
        "align_data": _align_source(rest),
        "send": tuple(rest["send"].split(",")) if rest["send"] else None,
        "tell": parse_tell(rest["tell"]),
        "phases": parse_phases(rest["phases"]) if rest["phases"] else (),
        "clients": chosen_clients(rest["clients"], rest["partition"]),
        "recorded": recorded,
    }
    if known["phases"]:
        known["epochs"] = sum(phase.epochs for phase in known["phases"])
        recorded["epochs"] = known["epochs"]
    return fill_options(Options, {**rest, **known})


def _align_source(values: dict[str, Any]) -> Source | None:
    """The public images of --align, which must be given with it."""
    data, split = values.pop("align_data"), values.pop("align_split")
    if values["align"] and not data:
        raise UsageError(
            f"--align {values['align']}: give --align-data too, the public images that "
            "the targets were made from"
        )
    place = {key: values[key] for key in ("data_root", "download", "cache")}
    return Source(data, **place, split=split) if data else None


TELLABLE = ("examples", "classes", "loss")


def parse_tell(text: str | None) -> tuple[str, ...]:
    """What the server is told of a client's images: examples,loss if nothing is said."""
    if text is None:
        return ("examples", "loss")
    words = () if text == "nothing" else tuple(text.split(","))
    for word in words:
        if word not in TELLABLE:
            raise UsageError(
                f"--tell {text}: expected nothing, or some of {', '.join(TELLABLE)}"
            )
    return words


def parse_phases(text: str) -> tuple[Phase, ...]:
    """projector:5,encoder:5 as phases; parts of one phase are joined by +."""
    phases = []
    for word in text.split(","):
        parts, _, epochs = word.partition(":")
        if not all(parts.split("+")) or not epochs.isdecimal() or int(epochs) < 1:
            raise UsageError(
                f"--phases {text}: expected parts and epochs, as projector:5,encoder:5"
            )
        phases.append(Phase(tuple(parts.split("+")), int(epochs)))
    return tuple(phases)
