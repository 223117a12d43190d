"""aggregate --noise: differential privacy for each client.

This module refuses options that break the guarantee, continues the history of the parent,
and decides which facts about the clients a header may have: none but public options.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, Context
from math import inf, prod, sqrt
from pathlib import Path
from typing import Any, NamedTuple

from furlkit import console
from furlkit.aggregators.accountant import Rounds, epsilon_of
from furlkit.aggregators.private_mean import next_clip, noise_of_sum, update_lengths
from furlkit.aggregators.uploads import Uploads
from furlkit.errors import FurlkitError, InputError, TooEarlyError, UsageError
from furlkit.files.checkpoint import CheckpointFacts, open_checkpoint
from furlkit.files.container.layout import Entry
from furlkit.files.container.read import Container, read_head
from furlkit.files.container.write import RECORD_ENDING, record_of
from furlkit.files.facts import Provenance
from furlkit.files.published import KIND
from furlkit.files.secret import DRAWN_BY, SYSTEM
from furlkit.inputs.members import read_members
from furlkit.inputs.uploads import Upload, UploadOptions, provenance_of
from furlkit.weights import is_batchnorm_statistic

# Options of --noise, by key; the function of the rule gets APPLIED.
APPLIED = ("clip", "clip_statistics", "noise", "cohort")
OPTIONS = (
    *APPLIED[1:],
    *("delta", "sampling_rate", "clip_quantile", "count_noise", "clip_rate"),
)
NEEDED = {
    "clip": "C; the median length is a fact about the clients",
    "delta": "D, the accepted probability of a larger loss: far below 1 / clients",
    "cohort": "M, the number of clients of a round: the divisor of the noisy sum",
}
# Facts of a mean that single clients change, without noise.
UNTOLD = ("examples", "classes", "loss", "cluster_head", "cluster_losses")
DIGITS = 6  # Of epsilon in a header.
SEARCHED = 500  # Files of a folder in which to look for another sum of the round.
MOST_ROUNDS = 10**9  # Of a history; longer numbers overflow.
MOST_NOISE = 10  # Times the longest mean of updates; more noise has a warning.
_COST = (
    "a second sum doubles the cost, which no header would count, and a sum without noise "
    "has no guarantee. Keep the file, or remove the file if nobody has read the model"
)


class Privacy(NamedTuple):
    """Options of --noise after the parent is known; `clip` may be of the last round.

    `history` includes this round. `noise`: noise multiplier of the sum, which is larger
    than --noise if the count of an adaptive clip norm costs privacy too.
    """

    options: dict[str, Any]
    history: tuple[Rounds, ...]
    clip: float
    noise: float
    count_noise: float | None

    @property
    def applied(self) -> dict[str, Any]:
        """Options for the function of the rule."""
        own = {"clip": self.clip, "noise": self.noise}
        return {name: self.options[name] for name in APPLIED} | own

    @property
    def fact(self) -> dict[str, Any]:
        """Entry `privacy` of the header."""
        delta = self.options["delta"]
        epsilon = rounded_up(epsilon_of(self.history, delta))
        history = [each._asdict() for each in self.history]
        return {
            "epsilon": epsilon, "delta": delta, "unit": "client", "clip": self.clip,
            "noise": self.noise, "history": history,
        }  # fmt: skip

    def facts(self, facts: CheckpointFacts) -> CheckpointFacts:
        """Facts of the result: the guarantee, and nothing else about the clients."""
        nothing: dict[str, Any] = dict.fromkeys(UNTOLD)
        return replace(facts, privacy=self.fact, **nothing)

    def provenance(
        self, options: UploadOptions, clients: Sequence[Upload]
    ) -> Provenance:
        """Provenance that publishes no upload: hashes are facts about clients."""
        hidden = replace(options, anonymous=True)
        return provenance_of(hidden, clients, **{DRAWN_BY: SYSTEM})

    def compare_noise(self, entries: Sequence[Entry]) -> None:
        """Print the length of the noise beside the longest mean of clipped updates.

        Both follow from public options; lengths of updates are facts about clients.
        """
        weights = (each for each in entries if not is_batchnorm_statistic(each.name))
        count = sum(prod(each.shape) for each in weights if each.dtype.kind == "f")
        length = self.noise * self.clip * sqrt(count) / self.options["cohort"]
        text = (
            f"the noise on the mean has length {length:.3g}, the mean of the clipped "
            f"updates at most {self.clip:.3g}"
        )
        if length <= MOST_NOISE * self.clip:
            console.info(text)
        else:
            console.warn(
                f"{text}: the model will be noise; a larger --cohort, a smaller --noise "
                "or a smaller model helps, a smaller --clip does not"
            )

    def next_clip(self, uploads: Uploads) -> float | None:
        """Clip norm of the next round, with --clip-quantile."""
        if self.count_noise is None:
            return None
        own = {name: self.options[name] for name in ("clip_quantile", "clip_rate")}
        scale = self.clip / (self.options["clip_statistics"] or self.clip)
        return next_clip(
            update_lengths(uploads, scale), clip=self.clip, **own,
            count_noise=self.count_noise, cohort=self.options["cohort"],
        )  # fmt: skip


def rounded_up(epsilon: float) -> float:
    """Six digits, never below epsilon: a smaller number would promise too much."""
    return float(Context(DIGITS, ROUND_CEILING).create_decimal_from_float(epsilon))


def check_usage(values: Mapping[str, Any]) -> None:
    """Refuse options that break the guarantee, before opening uploads."""
    if not values.get("noise"):
        return
    for name, words in NEEDED.items():
        if values[name] is None:
            raise UsageError(f"--noise: give --{name} {words}")
    if values["weights"] != "uniform":
        raise UsageError(
            f"--weights {values['weights']} does not apply beside --noise: clients have "
            "equal weights, because a weight is a further fact about a client"
        )
    if values["max_share"] is not None:
        raise UsageError(
            "--max-share does not apply beside --noise: shares are equal, and the divisor "
            "is --cohort"
        )
    if values["clip_statistics"] is not None and values["bn"] != "average":
        raise UsageError(
            f"--clip-statistics {values['clip_statistics']:g} does not apply beside --bn "
            f"{values['bn']}: the result has no BatchNorm statistics"
        )
    if values["anonymous"] is False:
        raise UsageError(
            "--named does not apply beside --noise: names and hashes of uploads are facts "
            "about clients; the record has them"
        )
    if values["members"] and read_members(values["members"]).weights:
        raise UsageError(
            f"--members {values['members']}: has weights; beside --noise, clients have "
            "equal weights; remove weight="
        )
    _count_noise(values)
    _warn(values)


def _warn(values: Mapping[str, Any]) -> None:
    clients = values["cohort"] / values["sampling_rate"]
    if values["delta"] * clients >= 1:
        console.warn(
            f"--delta {values['delta']:g}: with {clients:,.0f} clients, such a delta allows "
            f"to publish a client; choose far below {1 / clients:.1g}"
        )
    if values["report"]:
        console.warn(
            f"{values['report']}: a report has exact numbers of single clients, outside "
            "the guarantee; keep the report at the server"
        )
    if values["sampling_rate"] < 1:
        console.info(
            f"--sampling-rate {values['sampling_rate']:g}: epsilon holds if each client "
            "joins a round by a separate, secret draw; draws of a recipe come from the "
            "recorded seed, good for experiments only"
        )


def _count_noise(options: Mapping[str, Any]) -> float | None:
    """sigma_b, noise of the count of unclipped updates; None for a fixed clip norm."""
    if options["clip_quantile"] is None:
        return None
    least, given = options["noise"], options["count_noise"]
    found = max(least, options["cohort"] / 20) if given is None else given
    if 2 * found <= least:
        raise UsageError(
            f"--count-noise {found:g}: the count alone costs more privacy than --noise "
            f"{least:g} allows; give more than {least / 2:g}"
        )
    return found


def take(
    options: UploadOptions, settings: dict[str, Any], clients: Sequence[Upload]
) -> Privacy | None:
    """Remove the options of --noise from the settings; None without noise."""
    own = {name: settings.pop(name) for name in OPTIONS if name in settings}
    parent = open_checkpoint(options.parent)[1] if options.parent else None
    if not own.get("noise") or options.parent is None or parent is None:
        _name_end(options.parent, parent)
        return None
    own["clip"] = settings.pop("clip")
    _check_number(own, clients)
    history = _extended(_history(options.parent, parent), own)
    clip = _clip(options.parent, parent, own)
    count_noise = _count_noise(own)
    z = noise_of_sum(own["noise"], count_noise)
    return Privacy(own, history, clip, z, count_noise)


def _clip(path: Path, parent: CheckpointFacts, options: dict[str, Any]) -> float:
    """Clip norm of this round; with --clip-quantile, the norm that the parent gives."""
    if options["clip_quantile"] is None or parent.next_clip is None:
        return options["clip"]
    if not 0 < parent.next_clip < inf:
        raise InputError(
            f"{path}: gives the clip norm {parent.next_clip:g} for this round, expected a "
            "number above 0; leave out --clip-quantile for a fixed --clip"
        )
    return parent.next_clip


def _name_end(path: Path | None, parent: CheckpointFacts | None) -> None:
    """Warn if a round without noise follows rounds with noise."""
    if parent and parent.privacy:
        console.warn(
            f"{path}: was made with epsilon {parent.privacy.get('epsilon')}; without "
            "--noise, the result has no guarantee"
        )


def _check_number(options: dict[str, Any], clients: Sequence[Upload]) -> None:
    """Without sampling, the number of uploads must be the promised number."""
    count, cohort = len(clients), options["cohort"]
    if options["sampling_rate"] < 1:
        if count > cohort + 4 * sqrt(cohort):
            console.warn(
                f"{count} uploads, --cohort {cohort} promises about {cohort}: draws with "
                f"--sampling-rate {options['sampling_rate']:g} nearly never give so many, "
                "so epsilon is too small; check --cohort and --sampling-rate"
            )
        return
    if count == cohort:
        return
    if count < cohort:
        found = "1 client has" if count == 1 else f"{count} clients have"
        raise TooEarlyError(
            f"{found} reported, --cohort promises {cohort}; run this command again after "
            "more uploads"
        )
    raise InputError(
        f"{clients[-1].path}: is upload {count} of a round of --cohort {cohort}; a larger "
        "cohort needs a larger --cohort from the first round"
    )


def _history(path: Path, parent: CheckpointFacts) -> tuple[Rounds, ...]:
    """Rounds with noise before this round; refuse a parent with unprotected rounds."""
    if parent.privacy is None and parent.round > 0:
        raise InputError(
            f"{path}: is the model of round {parent.round}, made without --noise: its "
            "clients have no guarantee. Start from a model of init, or from a model made "
            "with --noise"
        )
    entries = (parent.privacy or {}).get("history", [])
    try:
        known = tuple(Rounds(**entry) for entry in entries)
        valid = all(
            1e-9 < each.noise < 1e9
            and 0 < each.sampling_rate <= 1
            and type(each.rounds) is int
            and 0 < each.rounds <= MOST_ROUNDS
            for each in known
        )
    except TypeError:
        valid = False
    if not valid or sum(each.rounds for each in known) < parent.round:
        raise InputError(
            f"{path}: the history of noise is incomplete; re-create the model"
        )
    return known


def _extended(
    history: tuple[Rounds, ...], options: dict[str, Any]
) -> tuple[Rounds, ...]:
    """The history with one more round; equal rounds are counted together."""
    noise, rate = options["noise"], options["sampling_rate"]
    if history and history[-1][:2] == (noise, rate):
        return (*history[:-1], Rounds(noise, rate, history[-1].rounds + 1))
    return (*history, Rounds(noise, rate, 1))


def check_release(options: UploadOptions, facts: CheckpointFacts) -> None:
    """Refuse a second sum of a round, if either sum is noisy.

    A header counts one sum per round, and the exact mean beside a noisy sum reveals the
    noise; so a command without --noise searches, too. Models and records beside the
    output and beside the parent tell of a sum; the record remains if the model was moved
    or removed.
    """
    near = [options.output, *([options.parent] if options.parent else [])]
    records = [options.record] if options.record else []
    paths = [options.output, record_of(options.output), *records]
    for path in dict.fromkeys([*paths, *(each for p in near for each in _newest(p))]):
        known = _sum_in(path, facts.parent)
        if known is None or known.parent != facts.parent:
            continue
        if facts.privacy or known.privacy:
            noisy = "a noisy sum" if known.privacy else "a model without noise"
            raise InputError(f"{path}: already has {noisy} of this round; {_COST}")


def _sum_in(path: Path, parent: str | None) -> "_Sum | None":
    """Sum of aggregate in a model or a record, by header; None for any other file."""
    try:
        # Few of the files mention the parent, and the others need no parsing.
        if not path.is_file() or (parent or "").encode() not in read_head(path)[0]:
            return None
        header = Container(path).header
    except (FurlkitError, OSError):
        return None
    facts = header.facts.get("facts") if header.kind == KIND else header.facts
    is_sum = header.stage == "aggregate" and header.kind in (KIND, "checkpoint")
    if not is_sum or not isinstance(facts, dict):
        return None
    return _Sum(facts.get("parent"), bool(facts.get("privacy")))


class _Sum(NamedTuple):
    """Parent of a sum, and True if the sum is noisy."""

    parent: str | None
    privacy: bool


def _newest(output: Path) -> list[Path]:
    """Newest models and records in the folder of a file."""
    found = []
    for ending in ("*.safetensors", f"*{RECORD_ENDING}"):
        for path in output.parent.glob(ending):
            try:
                found.append((path.stat().st_mtime, path))
            except OSError:
                continue  # A broken link, or a file that has just been removed.
    return [path for _, path in sorted(found, reverse=True)][:SEARCHED]


def summary(facts: CheckpointFacts) -> str:
    """Words about the guarantee for the line of aggregate."""
    known = facts.privacy or {}
    return f"epsilon {known['epsilon']:.4g} at delta {known['delta']:g} for each client"
