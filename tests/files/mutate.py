"""Random mutations of files: of their bytes, or of what they say with fitting hashes."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.files.container.header import canonical
from furlkit.files.container.read import Container
from furlkit.files.container.write import write

ESCAPES = "\x1b[31m\x1b]0;x\x07\r\n\x9b2J\u202eabc\x7f\x00"
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**30, -0.5, 1e308, 1e-308, "", "a", ESCAPES,
    "x" * 100_000, ["a"] * 9, [], {}, [[]], [0] * 1000, {"": ""}, {ESCAPES: ESCAPES},
    "../../x", "/dev/zero", "a\0b", "0" * 64, "\ud7ff", [None], {"a": {"a": {"a": 1}}},
)  # fmt: skip
DTYPES = (
    np.float64,
    np.float32,
    np.float16,
    np.int64,
    np.int32,
    np.int8,
    np.uint8,
    bool,
)


def bytes_changed(raw: bytes, rng: random.Random, other: bytes) -> bytes:
    """Another sequence of bytes, made from these and those of another file."""
    start, stop = sorted(rng.randrange(len(raw) + 1) for _ in range(2))
    # Half of the changes are in the first kilobyte, where the header is.
    place = rng.randrange(min(len(raw), rng.choice((1024, len(raw)))))
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: raw[:place] + bytes([raw[place] ^ 1 << rng.randrange(8)]) + raw[place + 1 :],
        lambda: raw[:place] + rng.randbytes(rng.randrange(1, 9)) + raw[place + 1 :],
        lambda: raw[:start] + raw[stop:],
        lambda: raw[:place],
        lambda: raw + rng.randbytes(rng.randrange(1, 99)),
        lambda: raw[:place] + raw[place:stop] * 2 + raw[max(stop, place) :],
        lambda: raw[:start] + bytes(stop - start) + raw[stop:],
        lambda: rng.randrange(2 ** rng.choice((8, 16, 24, 40, 64))).to_bytes(8, "little")
        + raw[8:],
        lambda: raw[:place] + other[place:],
        lambda: raw[:place] + ESCAPES.encode() + raw[place:],
        lambda: rng.randbytes(rng.randrange(2000)),
    )  # fmt: skip
    while (found := rng.choice(kinds)()) == raw:
        continue
    return found


def resealed(path: Path, rng: random.Random, copy: Path) -> bytes:
    """The bytes of a file with another header or other tensors, and the hashes of these.

    Some cannot be written at all: then another one is drawn.
    """
    opened = Container(path)
    while True:
        header, tensors = opened.header.unsealed(), opened.tensors()
        for _ in range(rng.choice((1, 1, 2, 5))):
            if rng.random() < 0.6 or not tensors:
                name = rng.choice(("facts", "facts", "facts", "options", "inputs"))
                header = replace(
                    header, **{name: value_changed(getattr(header, name), rng)}
                )
            else:
                tensors = tensor_changed(tensors, rng)
        if rng.random() < 0.1:
            key = rng.choice(("kind", "stage", "seed", "version", "options", "facts"))
            header = replace(header, **{key: rng.choice(NASTY)})
        try:
            write(copy, tensors, header)
        except Exception:
            continue
        return copy.read_bytes()


def value_changed(value: Any, rng: random.Random) -> Any:
    """The same JSON with something else at one place, or something missing."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value, key=str))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if rng.random() < 0.05:
            return {**value, rng.choice(("new", ESCAPES)): rng.choice(NASTY)}
        return {**value, key: value_changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.6:
        place = rng.randrange(len(value))
        return [*value[:place], value_changed(value[place], rng), *value[place + 1 :]]
    if type(value) in (int, float) and rng.random() < 0.3:
        return value + rng.choice((-1, 1, 100, 10**9))
    return rng.choice(NASTY)


def tensor_changed(tensors: dict, rng: random.Random) -> dict:
    """One tensor lost, renamed, copied, reshaped, of another type or with odd values."""
    name = rng.choice(sorted(tensors))
    found, rest = tensors[name], {k: v for k, v in tensors.items() if k != name}
    kind = rng.randrange(7)
    if kind == 0:
        return rest
    if kind == 1:
        return {**rest, rng.choice((f"{name}x", "encoder", name[:-1] or "x")): found}
    if kind == 2:
        return {**tensors, f"{name}.copy": found}
    with np.errstate(all="ignore"):
        if kind == 3:
            return {**rest, name: found.astype(rng.choice(DTYPES))}
        if kind == 4:
            odd = rng.choice((np.nan, np.inf, -1, 3e38, 2**62, 0))
            changed = found.copy()
            if changed.size:
                changed.reshape(-1)[rng.randrange(changed.size)] = np.float64(
                    odd
                ).astype(changed.dtype)
            return {**rest, name: changed}
        if kind == 5:
            return {**rest, name: found[..., :-1] if found.ndim else found[None]}
        return {**rest, name: found.reshape(-1)[: rng.randrange(found.size + 1)]}


def json_changed(raw: bytes, rng: random.Random) -> bytes:
    """Another JSON document of nearly the same form."""
    return canonical(value_changed(json.loads(raw), rng)).encode()


TOML = (
    '"\\u001b[31m\\u0007"', '""', "-1", "0", "10000000000", "1e308", "nan", "inf", "true",
    "[]", "[[]]", "{}", '{a = "b"}', f'"{"x" * 50_000}"', '"a\\u0000b"', '"../../x"',
    '"/dev/zero.toml"', '["a", 1]', "1979-05-27", '"{x}"', '"partition -o {p}"', "'--x'",
)  # fmt: skip


def toml_changed(raw: bytes, rng: random.Random) -> bytes:
    """The same tables with another value, or one more."""
    lines = raw.decode().splitlines()
    place = rng.choice([i for i, line in enumerate(lines) if " = " in line])
    key = lines[place].partition(" = ")[0]
    lines[place] = f"{key} = {rng.choice(TOML)}"
    if rng.random() < 0.2:
        lines.insert(
            place, f"{rng.choice(('extends', 'new', 'out'))} = {rng.choice(TOML)}"
        )
    return "\n".join(lines).encode()
