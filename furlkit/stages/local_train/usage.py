"""What local-train can refuse before any file is opened."""

from pathlib import Path

from furlkit import catalogue
from furlkit.errors import UsageError
from furlkit.inputs.paths import check_patterns, fill
from furlkit.inputs.sites import check_one_site
from furlkit.stages.local_train.options import Mining, Options, Sharing

# Why a flag needs an objective of this kind.
WHY = {
    "negatives": "rows of other clients are negatives, for a loss that has some",
    "z": "rows are those of z, the output of a projector",
    "own_rows": "a client's own rows are positives, for a loss that takes them from "
    "outside the batch",
    "again": "views are infused for a loss that compares the h of two views of an image",
}


def check_usage(options: Options) -> None:
    """What can be refused before any file is opened."""
    sharing = options.sharing
    if options.partition is None:
        _check_site(options)
    objective, own = options.objective, sharing.dictionary_positive == "own"
    matching = _terms_with_rows(options)
    # Rows that a loss has no use for, images may still be drawn to.
    rows = "z" if matching else "negatives"
    for flag, given, takes in (
        ("--dictionary", sharing.dictionary, rows),
        ("--features-out", sharing.features_out, rows),
        ("--negatives", sharing.negatives != "fused", "negatives"),
        ("--dictionary-positive own", own, "own_rows"),
        *((flag, True, "z") for flag in matching),
    ):
        if given and not _takes(objective, takes):
            raise UsageError(
                f"{flag} does not apply to --objective {objective.name}: {WHY[takes]}, "
                f"as {_that(takes)} does"
            )
    if options.infuses:
        _check_infusion(options)
    _check_sharing(sharing, options.private_out)
    if options.has_own_model:
        _check_personal(options)
    if options.starts_from_own and len(options.clients) > 1:
        raise UsageError(
            f"--update {options.update.name}: {len(options.clients)} clients have as many models to start "
            "from; train one at a time"
        )
    _check_update(options)
    public = options.align_data.name if options.align_data else None
    known = (options.model, options.partition, options.data.name, public)
    helpers = options.helpers.helper_files if options.helpers else ()
    inputs = (*known, options.align, *helpers, *_dictionaries(options))
    writes = {
        "-o": options.output,
        "--private-out": options.private_out,
        "--features-out": options.sharing.features_out,
    }
    reads = {"--private": options.private}
    if options.mining:
        _check_mining(options.mining, options.private_out)
        reads["--neighbours-from"] = options.mining.neighbours_from
    check_patterns(options.clients, reads, writes, inputs)


def _dictionaries(options: Options) -> set[Path]:
    """The dictionaries of the clients: one file, or one for each client."""
    pattern = options.sharing.dictionary
    return {fill(pattern, client) for client in options.clients} if pattern else set()


def _check_site(options: Options) -> None:
    check_one_site(options.clients)
    if options.sharing.features_out and options.sharing.participants is None:
        raise UsageError(
            "--features-out: without a PARTITION, give --participants, the number of "
            "clients that share rows"
        )


def _terms_with_rows(options: Options) -> list[str]:
    """The flags of terms that draw images to rows."""
    terms = (catalogue.terms()[name] for name in options.terms)
    return [f"--{term.switch}" for term in terms if term.matches_rows]


def _takes(objective: catalogue.Objective, kind: str) -> bool:
    """Whether an objective has z, or the field of this name."""
    if kind == "z":
        return "projector" in objective.head_names
    return bool(getattr(objective, kind))


def _that(kind: str) -> str:
    """The objectives of a kind: "simclr or moco"."""
    known = [o.name for o in catalogue.objectives().values() if _takes(o, kind)]
    return " or ".join(filter(None, (", ".join(known[:-1]), known[-1])))


def _check_update(options: Options) -> None:
    update, objective = options.update, options.objective
    for head in update.heads:
        if head not in objective.head_names:
            raise UsageError(
                f"--update {update.name}: decides about the {head}, which --objective "
                f"{objective.name} does not train; use --update replace"
            )
    cycle, exchanges = (options.update_settings.get(k) for k in ("cycle", "exchanges"))
    if cycle and exchanges and exchanges > cycle:
        raise UsageError(
            f"--exchanges {exchanges}: are the last of the {cycle} rounds of --cycle, so "
            "there cannot be more of them; lower it"
        )
    if options.private_out:
        return
    kept = "weights of its last round" if update.own else "heads between exchanges"
    if update.own or update.sends:
        raise UsageError(
            f"--update {update.name}: needs the client's {kept}, which it keeps in a "
            "private file; give --private-out"
        )


def _check_mining(mining: Mining, private_out: str | None) -> None:
    if mining.mine_every > 1 and not private_out:
        raise UsageError(
            f"--mine-every {mining.mine_every}: neighbours are kept in a private file "
            "until then; give --private-out"
        )


def _check_personal(options: Options) -> None:
    flag = f"--personal {options.personal.name}"
    objective, settings = options.objective, options.personal_settings
    if not options.private_out:
        raise UsageError(
            f"{flag}: a client keeps its own model in a private file; give --private-out"
        )
    if options.starts_from_own:
        raise UsageError(
            f"{flag}: is about the global model, and with --update {options.update.name} "
            "a client is not given one; leave one of them out"
        )
    if settings.get("mix") == "weights" and not objective.mixes:
        raise UsageError(
            f"--mix weights does not apply to --objective {objective.name}, which sets "
            "weights itself that a mixture would not have; use --mix views"
        )
    if settings.get("mix") == "views" and "projector" not in objective.head_names:
        raise UsageError(
            f"--mix views does not apply to --objective {objective.name}, which has no z "
            "of two views; use --mix weights"
        )
    if settings.get("own_share_rate") and options.plan.precision == "float16":
        raise UsageError(
            "--own-share-rate: the loss of --precision float16 is scaled, and alpha's "
            "gradient with it; use bfloat16"
        )


def _check_infusion(options: Options) -> None:
    objective = options.objective
    if not objective.again:
        raise UsageError(
            f"--infusion does not apply to --objective {objective.name}: {WHY['again']}, "
            f"as {_that('again')} does"
        )
    if not options.private:
        raise UsageError(
            "--infusion: needs the client's style model; give --private, a file that "
            "pretrain-style or the client's last round has written"
        )
    if not options.private_out:
        raise UsageError(
            "--infusion: the client's generator would be lost; give --private-out, "
            "where it keeps its style"
        )
    if options.has_own_model:
        raise UsageError(
            f"--infusion does not apply with --personal {options.personal.name}: the "
            "generator is trained with the model that is sent, and makes it personal; "
            "leave one of them out"
        )


def _check_sharing(sharing: Sharing, private_out: str | None) -> None:
    used = sharing.features_out or sharing.dictionary_positive == "own"
    if sharing.dictionary_from == "global" and not used:
        raise UsageError(
            "--dictionary-from global: says whose rows are shared, and none are; give "
            "--features-out"
        )
    if sharing.features_out and sharing.needs_own and not sharing.averaged:
        raise UsageError(
            f"--share-rows {sharing.share_rows}: with it a client keeps no rows of its "
            "images for --dictionary-positive own; add --dictionary-from global"
        )
    if not sharing.features_out or private_out or not sharing.keeps_rows:
        return
    if sharing.alpha:
        raise UsageError(
            f"--alpha {sharing.alpha:g}: features averaged over rounds are kept in a "
            "private file; give --private-out, or --alpha 0 to share this round's alone"
        )
    raise UsageError(
        "--dictionary-positive own: the rows of a client's images are kept in a private "
        "file; give --private-out, or --dictionary-from global"
    )
