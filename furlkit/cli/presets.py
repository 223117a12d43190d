"""presets: the settings of papers that come with furlkit."""

from typing import Any

from furlkit import console
from furlkit.catalogue.entries import Argument, Text, command, group
from furlkit.catalogue.groups import VERBOSITY

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("presets", "List the presets, or print one with its comments.",
    """NAME is a preset that comes with furlkit, or the path of a TOML file. Each value
    has its origin beside it: (P) printed in the paper, (C) the original's code, (O) our
    choice. `extends` names the preset whose values hold where it sets none.

    \b
    Examples:
      furlkit presets
      furlkit presets fedca
    """,
    Argument("name", Text("[NAME]"), "[NAME]", required=False),
    group("General", *VERBOSITY),
    run="furlkit.cli.presets:run",
)


def run(values: dict[str, Any]) -> None:
    """Print one preset, or list all of them."""
    from furlkit.presets import by_system, names, summary, text_of

    if values["name"] is not None:
        text = text_of(values["name"])
        console.result(text.rstrip(), {"name": values["name"], "text": text})
        return
    found = {name: summary(name) for name in names()}
    width = max(map(len, found))
    lines: list[str] = []
    for system, members in by_system(found).items():
        lines += ["", system] if lines else [system]
        lines += [f"  {name:{width}}  {found[name]}" for name in members]
    console.result("\n".join(lines), found)
