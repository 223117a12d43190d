"""mask key: a pair of keys for a site and a run."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit.errors import FurlkitError, InputError, UsageError
from furlkit.files.checkpoint import open_checkpoint
from furlkit.files.clients import EXPECTED, client_of
from furlkit.files.container.read import Container
from furlkit.files.keys import (
    PUBLIC,
    SECRET,
    KeyFacts,
    new_secret,
    public_of,
    read_key,
    write_key,
)
from furlkit.files.lock import holding
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.stages.mask.used import start_list, used_of


@dataclass(frozen=True)
class KeyOptions:
    """Owner of the keys, and the files."""

    model: Path
    client: str
    secret_out: Path
    output: Path
    dry_run: bool
    renew: bool


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Write a secret key and a public key; an existing secret key is kept."""
    options = fill(KeyOptions, values)
    used = used_of(options.secret_out)
    check_output(options.secret_out, [options.model, options.output], "--secret-out")
    check_output(options.output, [options.model, used])
    facts = _facts(options)
    line = f"{options.output}: public key of client {facts.client} for run {facts.run}"
    data: dict[str, Any] = {"client": facts.client, "run": facts.run}
    with nullcontext() if options.dry_run else holding(used):
        existing = _existing(options, facts)
        _check_public(options, existing)
        if options.dry_run:
            return line, data
        secret = existing or new_secret()
        if existing is None:
            # After a crash in between, the list is of another key, which is refused.
            start_list(options.secret_out, secret, facts, options.renew)
            write_key(options.secret_out, SECRET, secret, facts)
        data["key"] = public_of(secret).hex()
        data["content"] = write_key(options.output, PUBLIC, public_of(secret), facts)
    return line, data


def _facts(options: KeyOptions) -> KeyFacts:
    client, (_, model) = client_of(options.client), open_checkpoint(options.model)
    if client is None:
        raise UsageError(f"--client {options.client}: expected a number, or {EXPECTED}")
    if model.run is None:
        raise InputError(
            f"{options.model}: has no id of a run; keys are valid for one run: make the "
            "first model with a newer furlkit init"
        )
    return KeyFacts(client, model.run)


def _existing(options: KeyOptions, facts: KeyFacts) -> bytes | None:
    """Existing secret key of the site; None for a new key."""
    path = options.secret_out
    if options.renew or not path.exists():
        return None
    existing = read_key(path, SECRET)
    if existing.facts != facts:
        raise InputError(
            f"{path}: is the secret key of client {existing.facts.client} for run "
            f"{existing.facts.run}, expected client {facts.client} and run "
            f"{facts.run}; choose another --secret-out"
        )
    return existing.key


def _check_public(options: KeyOptions, secret: bytes | None) -> None:
    """Refuse to replace the public key of another secret key."""
    path = options.output
    if options.renew or not _is_public_key(path):
        return
    if secret is None or read_key(path, PUBLIC).key != public_of(secret):
        raise InputError(
            f"{path}: is the public key of another secret key than "
            f"{options.secret_out}; give that secret key, or choose another -o; --renew "
            "replaces the key, and all sites must mask again"
        )


def _is_public_key(path: Path) -> bool:
    try:
        return path.exists() and Container(path).header.kind == PUBLIC
    except FurlkitError:
        return False
