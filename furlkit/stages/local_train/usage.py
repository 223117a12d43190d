"""Checks of local-train's options before any file is opened."""

from furlkit import catalogue
from furlkit.errors import UsageError
from furlkit.inputs.declared import check_files
from furlkit.inputs.sites import check_one_site
from furlkit.stages.local_train.options import LocalTrainOptions


def check_usage(options: LocalTrainOptions) -> None:
    """Raise for contradictory options; exchanges have checked the exchanges' options."""
    if options.partition is None:
        check_one_site(options.clients)
    if options.starts_from_own and len(options.clients) > 1:
        raise UsageError(
            f"--update {options.update.name}: {len(options.clients)} clients start from "
            "different models; train one at a time"
        )
    _check_update(options)
    for name in options.terms:
        _check_term(catalogue.terms()[name], options)
    check_files(
        options.files, options.clients, [options.data.name, *_more_data(options)]
    )


def _more_data(options: LocalTrainOptions) -> list[str]:
    """Names of further images, such as public images."""
    declared = catalogue.COMMANDS["local-train"].options.items()
    keys = [key for key, option in declared if isinstance(option.kind, catalogue.Data)]
    return [options.values[key] for key in keys if options.values.get(key)]


def _check_update(options: LocalTrainOptions) -> None:
    update, objective = options.update, options.objective
    for head in update.heads:
        if head not in objective.head_names:
            raise UsageError(
                f"--update {update.name}: needs the {head}, which --objective "
                f"{objective.name} does not train; use --update replace"
            )
    if options.private_out:
        return
    kept = "weights of the last round" if update.own else "heads between exchanges"
    if update.own or update.sends:
        raise UsageError(
            f"--update {update.name}: needs the client's {kept} in a private file; give "
            "--private-out"
        )


def _check_term(term: catalogue.Term, options: LocalTrainOptions) -> None:
    objective = options.objective
    for head in term.heads:
        if head not in objective.head_names:
            raise UsageError(
                f"--{term.switch}: needs the {head}, which --objective {objective.name} "
                "does not train; omit either"
            )
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
