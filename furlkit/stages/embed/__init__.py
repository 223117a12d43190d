"""embed: outputs of a model for images, or the cosines between the outputs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from furlkit.catalogue import recorded
from furlkit.data.sets.source import Source
from furlkit.errors import UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.features import PROBABILITIES, FeatureFacts
from furlkit.files.partition import PUBLIC
from furlkit.files.private import Private, read_private
from furlkit.files.published import Withheld
from furlkit.files.secret import DRAWN_BY, SECRET
from furlkit.inputs.declared import by_role
from furlkit.inputs.existing import existing_result
from furlkit.inputs.images import open_images
from furlkit.inputs.models import class_head, encoder_plugin, width_of
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.publishing import is_of_site, is_site, withheld_by_site
from furlkit.inputs.secrets import check_secret, open_secret
from furlkit.inputs.settings import Computing, fill
from furlkit.models.description import ClassHead


@dataclass(frozen=True, kw_only=True)
class EmbedOptions(Computing):
    """`part`: all, public, or the number of a client of the partition.

    `top`: percentage of each row of a similarity to keep, largest first. With the
    private file `personal`, h comes from the client's personal model, or `style` model.
    `noise` is sigma, drawn from the site's `secret`.
    """

    model: Path
    data: Source
    output: Path
    layer: str
    personal: Path | None
    style: bool
    similarity: bool
    top: float | None
    encoding: str
    noise: float
    secret: Path | None
    partition: Path | None
    part: str


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Write h, z or probabilities of images, or the cosines between images."""
    options = fill(EmbedOptions, {**values, "recorded": recorded("embed", values)})
    _check_usage(options)
    model = read_checkpoint(options.model)
    _check_secret(options, model)
    head, private = _head(model, options.layer), _private(options, model)
    images = open_images(options.data, model)
    index, contents = chosen_images(images, options.partition, options.part)
    contents |= by_role("embed", model=model, personal=private)
    facts = FeatureFacts(
        options.layer, images.fingerprint, options.part, model.facts.client,
        model.facts.round, len(index), run=model.facts.run,
    )  # fmt: skip
    if private:
        whose = "style" if options.style else "stylised"
        facts = replace(facts, client=private.facts.client, personal=whose)
    kind = "similarities" if options.similarity else options.layer
    line = f"{options.output}: {kind} of {len(index):,} images by {model.path}"
    line += f" and {private.path}" if private else ""
    data: dict[str, Any] = {"images": len(index), "layer": options.layer}
    resolved = {"head": head.name} if head else {}
    resolved = {**options.resolved, **encoder_plugin(model), **resolved}
    if options.noise and options.secret:
        resolved[DRAWN_BY] = SECRET
    site = _is_of_site(model, private)
    provenance = Provenance("embed", resolved, None, contents, _withheld(options, site))
    written = "similarity" if options.similarity else "features"
    if made := existing_result(options, written, provenance, facts, data):
        return made
    if site and not options.dry_run:
        provenance = _with_secret(options, provenance)
    from furlkit.stages.embed import work  # Imports torch.

    net = work.open_net(options, model, private)
    if not options.dry_run:
        rows = work.rows_of(net, model, images.images, index, head or options.layer)
        if options.noise:
            rows = work.with_noise(options, rows, model, {**contents, **facts.dataset})
        data["content"] = work.write(options, rows, index, facts, provenance)
    return line, data


def _check_usage(options: EmbedOptions) -> None:
    given = (options.model, options.partition, options.personal, options.secret)
    check_output(options.output, (*given, options.data.name))
    if options.similarity and options.layer == PROBABILITIES:
        raise UsageError(f"--similarity does not apply to --share {PROBABILITIES}")
    if options.noise and options.layer == PROBABILITIES:
        raise UsageError(
            f"--noise does not apply to --share {PROBABILITIES}: noisy rows are no "
            "probabilities; leave out --noise"
        )


def _check_secret(options: EmbedOptions, model: Checkpoint) -> None:
    """Noise needs a secret except for clients of a partition: the seed is in headers."""
    client, site = model.facts.client, is_of_site(model.header)
    if options.noise and not options.secret and (site or client in (None, PUBLIC)):
        whose = "names no client" if client is None else f"is of site {client}"
        raise UsageError(
            f"--noise {options.noise:g}: {model.path} {whose}, and noise by the seed "
            "hides nothing; give --secret FILE, which stays at the site"
        )


def _withheld(options: EmbedOptions, site: bool) -> Withheld | None:
    """Entries for the site only; raise if another secret drew the noise of the output."""
    if not site:
        return None
    secret = options.secret if options.noise else None
    if secret and not options.force:
        check_secret(secret, [options.output])
    return withheld_by_site("embed", secret)


def _with_secret(options: EmbedOptions, provenance: Provenance) -> Provenance:
    """Provenance with the secret of the noise; a missing secret is written first."""
    if options.noise and options.secret:
        open_secret(options.secret, [] if options.force else [options.output])
    return replace(provenance, withheld=_withheld(options, site=True))


def _is_of_site(model: Checkpoint, private: Private | None) -> bool:
    """Return whether the model, or the private file for a global model, is a site's."""
    if private:
        return is_site(private.facts.client, private.partition)
    return is_of_site(model.header)


def _head(model: Checkpoint, layer: str) -> ClassHead | None:
    """Return the head of the probabilities; None for h and z, which must exist."""
    if layer == PROBABILITIES:
        return class_head(model, f"--share {PROBABILITIES}")
    width_of(model, layer)
    return None


def _private(options: EmbedOptions, model: Checkpoint) -> Private | None:
    """Read --personal; for a client's model, it must be the client's file."""
    if options.personal is None:
        return None
    if options.layer != "h":
        raise UsageError(
            f"--layer {options.layer}: a personal model has only h (FedStyle Eq. 4); "
            "leave out --personal, or use --layer h"
        )
    return read_private(options.personal, model.facts.client)
