"""Checks of local-train's options before any file is opened."""

from collections.abc import Iterable

from furlkit import catalogue
from furlkit.errors import UsageError
from furlkit.exchanges.usage import check_exchanges
from furlkit.inputs.declared import check_files
from furlkit.inputs.sites import check_one_site
from furlkit.stages.local_train.options import LocalTrainOptions


def check_usage(options: LocalTrainOptions) -> None:
    """Raise for contradictory options, also of exchanges; torch is not imported."""
    if options.partition is None:
        check_one_site(options.clients)
    if options.update.starts_from_own and len(options.clients) > 1:
        raise UsageError(
            f"--update {options.update.name}: {len(options.clients)} clients start from "
            "different models; train one at a time"
        )
    _check_update(options)
    for name in options.terms:
        _check_term(catalogue.terms()[name], options)
    images = catalogue.given_data("local-train", options.values)
    check_files(options.files, options.clients, images)
    check_exchanges(options.values)


def _check_update(options: LocalTrainOptions) -> None:
    update = options.update
    _check_heads(f"--update {update.name}", update.heads, options)
    if (update.own or update.sends) and not options.private_out:
        kept = "weights of the last round" if update.own else "heads between exchanges"
        raise UsageError(
            f"--update {update.name}: needs the client's {kept} in a private file; give "
            "--private-out"
        )


def _check_heads(flag: str, heads: Iterable[str], options: LocalTrainOptions) -> None:
    objective = options.objective
    for head in heads:
        if head not in objective.head_names:
            raise UsageError(
                f"{flag}: needs the {head}, which --objective {objective.name} does not "
                "train; omit either"
            )


def _check_term(term: catalogue.Term, options: LocalTrainOptions) -> None:
    objective = options.objective
    _check_heads(f"--{term.switch}", term.heads, options)
    if term.pairs and not objective.pairs:
        able = catalogue.objectives_that(lambda o: o.pairs)
        raise UsageError(
            f"--{term.switch}: needs z of two views of every image, which --objective "
            f"{objective.name} does not have; use {able}"
        )
    if "last" in term.inputs and not options.private_out:
        raise UsageError(
            f"--{term.switch}: needs the client's weights of the last round in a private "
            "file; give --private-out"
        )
