"""Draws that protect the files of a site: the site's secret decides; without torch.

A repeated or resumed command must draw by the secret of the earlier run.
"""

from collections.abc import Sequence
from pathlib import Path

from furlkit.exchanges.usage import Values, draws, secret_pattern
from furlkit.files.clients import ClientId
from furlkit.files.published import Withheld
from furlkit.inputs.paths import fill
from furlkit.inputs.publishing import withheld_by_site
from furlkit.inputs.secrets import check_secret, open_secret


def withheld_with_draws(command: str, values: Values, client: ClientId) -> Withheld:
    """Entries for the site only; records get the fingerprint of an existing secret."""
    return withheld_by_site(command, _secret(values, client))


def check_draws(values: Values, client: ClientId, outputs: Sequence[Path]) -> None:
    """Raise if an earlier run drew one of the outputs by another secret."""
    if secret := _secret(values, client):
        check_secret(secret, outputs)


def begin_draws(values: Values, client: ClientId, outputs: Sequence[Path]) -> None:
    """Write a missing secret before the training, because later files name the secret."""
    if secret := _secret(values, client):
        open_secret(secret, outputs)


def _secret(values: Values, client: ClientId) -> Path | None:
    """Path of a site's secret; None in a simulation, and without protected draws."""
    if values["partition"] or not draws(values):
        return None
    pattern = secret_pattern(values, "--secret")
    return fill(pattern, client) if pattern else None
