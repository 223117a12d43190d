"""The options of local-train."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit import catalogue
from furlkit.catalogue import GivenFile, divided
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.source import Source
from furlkit.files.clients import ClientId
from furlkit.inputs.settings import Computing
from furlkit.inputs.settings import fill as fill_options
from furlkit.inputs.sites import chosen_clients, parse_tell
from furlkit.training.plan import Execution, Plan, parse_phases


@dataclass(frozen=True, kw_only=True)
class LocalTrainOptions(Computing):
    """`output`, `private` and `private_out` may contain `{client}`.

    `settings` are the options of the objective, `update_settings` the options of the
    update, and `terms` the options of the active terms by name. `values` are the options
    by key, for exchanges, and `files` the files on the command line. `send` names the
    parts of the model to send; None means the encoder and the heads. `tell` names the
    facts about the client's images in the upload. Without a partition there is a single
    client, a site with every image. `signers` must have signed the received files.
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
    values: dict[str, Any]
    files: tuple[GivenFile, ...]
    send: tuple[str, ...] | None
    tell: tuple[str, ...]
    augmentation: Augmentation
    plan: Plan
    private: str | None
    private_out: str | None
    signers: Path | None
    execution: Execution
    seed: int

    @property
    def keeps_last(self) -> bool:
        """Return whether the next round needs the weights at the end of this round."""
        needed = [catalogue.terms()[name].inputs for name in self.terms]
        return self.update.own or any("last" in inputs for inputs in needed)

    @property
    def written(self) -> list[GivenFile]:
        """Files to write besides the upload."""
        return [each for each in self.files if each.file.written and each.flag != "-o"]

    @property
    def chooses(self) -> bool:
        """Return whether an exchange computes which of the files to use."""
        return any(each.file.chosen for each in self.files)


def options_of(values: dict[str, Any]) -> LocalTrainOptions:
    """The options of local-train from flat values."""
    recorded = catalogue.recorded("local-train", values)
    clients = chosen_clients(values["clients"], values["partition"])
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
        "values": {**values, "clients": clients},
        "files": tuple(catalogue.given_files("local-train", values)),
        "send": tuple(rest["send"].split(",")) if rest["send"] else None,
        "tell": parse_tell(rest["tell"]),
        "phases": parse_phases(rest["phases"]) if rest["phases"] else (),
        "clients": clients,
        "recorded": recorded,
    }
    if known["phases"]:
        known["epochs"] = sum(phase.epochs for phase in known["phases"])
        recorded["epochs"] = known["epochs"]
    return fill_options(LocalTrainOptions, {**rest, **known})
