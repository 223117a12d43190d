"""Values of a command's options: resolve, record and divide the values."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from furlkit.catalogue.entries import Option, Teacher, entry_of, key_of
from furlkit.catalogue.installed import objectives, plugin_options, terms
from furlkit.catalogue.registry import COMMANDS
from furlkit.catalogue.words import our_name
from furlkit.errors import UsageError

# Keys of options that may name a plugin's entry, with the entry-point group.
USED = {
    "objective": "furlkit.objectives",
    "update": "furlkit.updates",
    "rule": "furlkit.rules",
    "encoder": "furlkit.encoders",
    "data": "furlkit.datasets",
    "test_data": "furlkit.datasets",
    "align_data": "furlkit.datasets",
}


def defaults(command: str) -> dict[str, Any]:
    """Default values of a command's options by key."""
    options = COMMANDS[command].options
    given = {key: option.default for key, option in options.items()}
    return resolved(command, given, (), ())


def resolved(
    command: str,
    given: Mapping[str, Any],
    by_hand: Collection[str],
    from_preset: Collection[str],
) -> dict[str, Any]:
    """Values of a command by key, with the defaults of the chosen entries.

    Options of entries not chosen are left out. An option that does not apply is refused
    if typed, or if a preset contradicts itself; a preset's option is ignored if the user
    typed the choice that excludes the option.
    """
    entry, options = COMMANDS[command], _chosen_options(command, given)
    values = dict(given)

    def refuse(option: Option, choice: str, why: str, mixed: bool = False) -> None:
        overruled = mixed or choice in by_hand
        if option.key in by_hand or (option.key in from_preset and not overruled):
            why += _other_option(option.name, options)
            raise UsageError(f"--{option.name} does not apply {why}")

    for family in entry.families:
        name, choice = values[family.choice.key], family.choice
        chosen = entry_of(family.entries(), name)
        if isinstance(chosen, Teacher) and "sources" in values:
            _check_sources(chosen, values["sources"])
        own = {option.key: option for option in chosen.options}
        for option in family.options:
            if option.key not in own:
                why = f"to --{choice.name} {name}"
                refuse(option, choice.key, why, family.mixed)
                values.pop(option.key, None)
            elif values.get(option.key) is None:
                values[option.key] = own[option.key].default
    for option in options.values():
        for other in option.replaces.split() if values.get(option.key) else ():
            if key_of(other) in by_hand:
                raise UsageError(f"--{other} does not apply beside --{option.name}")
        if option.key in values and (unmet := _unmet(option, options, values)):
            refuse(option, *unmet)
            values[option.key] = option.default
    return values


def _chosen_options(command: str, values: Mapping[str, Any]) -> dict[str, Option]:
    """Options of a command by key; an option of several entries is the chosen entry's."""
    found = dict(COMMANDS[command].options)
    for family in COMMANDS[command].families:
        chosen = entry_of(family.entries(), values[family.choice.key])
        found |= {option.key: option for option in chosen.options}
    return found


def _other_option(word: str, options: Mapping[str, Option]) -> str:
    """End of a message: the option that papers call `word`, or an empty text."""
    name = our_name(word, {option.name for option in options.values()})
    return f"; did you mean --{name}?" if name else ""


def _check_sources(teacher: Teacher, sources: Collection[Any]) -> None:
    """Raise unless the teacher's file, or files, precede START."""
    several = teacher.file.endswith("...") and sources
    if len(sources) != bool(teacher.file) and not several:
        form = f"{teacher.file} START".strip()
        given = " ".join([*map(str, sources), "START"])
        raise UsageError(f"--teacher {teacher.name}: expected {form}, found {given}")


def _unmet(
    option: Option, options: Mapping[str, Option], values: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Key and description of an unmet need; None if the option applies.

    The needed option must apply too.
    """
    while option.needs:
        needed, _, value = option.needs.partition("=")
        key = key_of(needed)
        if needed == "head":
            return _without_head(value, values)
        found = values.get(key)
        if value and found not in value.split("|"):
            return key, f"to --{needed} {found}"
        if not found:
            return key, f"without --{needed}"
        option = options[key]
    return None


def _without_head(head: str, values: Mapping[str, Any]) -> tuple[str, str] | None:
    """Like `_unmet`, for options that need a head init did not create."""
    name = values["objective"]
    if head in (*objectives()[name].head_names, *values["more_heads"]):
        return None
    why = f"to --objective {name}, which trains no {head}; give --head {head}"
    return "objective", why


def recorded(command: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Options that affect the bytes of the output, by flag, for the header.

    `values` must be resolved. Options that do not apply are left out, and options with a
    default that depends on the inputs: the stage adds these values. For plugins of a
    chosen method, encoder or dataset the result has version and hash.
    """
    options, chosen = COMMANDS[command].options, _chosen_options(command, values)
    used = [(USED[key], values.get(key)) for key in USED]
    used += [
        ("furlkit.terms", term.name)
        for term in terms().values()
        if values.get(key_of(term.switch))
    ]
    found: dict[str, Any] = {}
    for group, name in used:
        found |= plugin_options(group, name)
    return found | {
        option.name: list(values[key]) if type(values[key]) is tuple else values[key]
        for key, option in options.items()
        if option.recorded and values.get(key) is not None
        if not _unmet(chosen[key], chosen, values)
        if not (option.newer and values[key] == option.default)
    }


def divided(
    values: Mapping[str, Any], options: Iterable[Option]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values of the options, and the remaining values."""
    keys = {option.key for option in options}
    own = {key: value for key, value in values.items() if key in keys}
    return own, {key: value for key, value in values.items() if key not in keys}
