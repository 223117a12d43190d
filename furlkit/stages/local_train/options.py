"""The options of local-train."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit import catalogue
from furlkit.catalogue import divided
from furlkit.data.augment import Augmentation
from furlkit.data.sets.source import Source
from furlkit.errors import UsageError
from furlkit.exchanges.exchange import Exchange, make_exchanges
from furlkit.files.clients import ClientId
from furlkit.inputs.settings import Computing
from furlkit.inputs.settings import fill as fill_options
from furlkit.inputs.sites import chosen_clients
from furlkit.training.plan import Plan, parse_phases
from furlkit.training.run import Execution


@dataclass(frozen=True, kw_only=True)
class LocalTrainOptions(Computing):
    """`output`, `private` and `private_out` may contain `{client}`.

    `settings` are the options of the objective, `update_settings` the options of the
    update, and `terms` the options of the active terms by name. `exchanges` are the
    exchanges of the catalogue; this command uses the `active` exchanges. `send` names the
    parts of the model to send; None means the encoder and the heads. `tell` names the
    facts about the client's images in the upload. Without a partition there is a single
    client, a site with every image. `signers` must have signed the `received` files.
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
    terms: dict[str, dict[str, Any]]
    exchanges: dict[str, Exchange]
    send: tuple[str, ...] | None
    tell: tuple[str, ...]
    augmentation: Augmentation
    plan: Plan
    private: str | None
    private_out: str | None
    signers: Path | None
    received: tuple[str, ...]
    execution: Execution
    seed: int

    @property
    def continues_round(self) -> bool:
        """Return whether the client trains the model of this round again."""
        return self.update.continues

    @property
    def starts_from_own(self) -> bool:
        """Return whether GLOBAL is the client's model."""
        return self.update.starts_from_own

    @property
    def keeps_last(self) -> bool:
        """Return whether the next round needs the weights at the end of this round."""
        needed = [catalogue.terms()[name].inputs for name in self.terms]
        return self.update.own or any("last" in inputs for inputs in needed)

    @property
    def active(self) -> list[Exchange]:
        """Exchanges in use by this command."""
        return [exchange for exchange in self.exchanges.values() if exchange.active]


def options_of(values: dict[str, Any]) -> LocalTrainOptions:
    """The options of local-train from flat values."""
    recorded = catalogue.recorded("local-train", values)
    clients = chosen_clients(values["clients"], values["partition"])
    exchanges = make_exchanges({**values, "clients": clients})
    objective = catalogue.objectives()[values["objective"]]
    update = catalogue.updates()[values["update"]]
    entries = catalogue.exchanges().values()
    theirs = [option for entry in entries for option in entry.all_options]
    _, rest = divided(values, theirs)
    settings, rest = divided(rest, objective.options)
    update_settings, rest = divided(rest, update.options)
    terms = {}
    for term in catalogue.terms().values():
        chosen, rest = divided(rest, term.options)
        if values[catalogue.key_of(term.switch)]:
            terms[term.name] = chosen
    known: dict[str, Any] = {
        "objective": objective,
        "settings": settings,
        "update": update,
        "update_settings": update_settings,
        "terms": terms,
        "exchanges": exchanges,
        "send": tuple(rest["send"].split(",")) if rest["send"] else None,
        "tell": parse_tell(rest["tell"]),
        "phases": parse_phases(rest["phases"]) if rest["phases"] else (),
        "clients": clients,
        "received": _received(values, update),
        "recorded": recorded,
    }
    if known["phases"]:
        known["epochs"] = sum(phase.epochs for phase in known["phases"])
        recorded["epochs"] = known["epochs"]
    return fill_options(LocalTrainOptions, {**rest, **known})


def _received(values: dict[str, Any], update: catalogue.Update) -> tuple[str, ...]:
    """Paths of received files; GLOBAL may be the client's model, which nobody signs."""
    own = str(values["model"]) if update.starts_from_own else None
    paths = catalogue.received_paths("local-train", values)
    return tuple(path for path in paths if path != own)


TELLABLE = ("examples", "classes", "loss")


def parse_tell(text: str | None) -> tuple[str, ...]:
    """Parse --tell, the facts for the server; the default is examples,loss."""
    if text is None:
        return ("examples", "loss")
    words = () if text == "nothing" else tuple(text.split(","))
    for word in words:
        if word not in TELLABLE:
            raise UsageError(
                f"--tell {text}: expected nothing, or some of {', '.join(TELLABLE)}"
            )
    return words
