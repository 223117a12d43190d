"""presets: the settings of papers in furlkit."""

from typing import Any

from furlkit import console
from furlkit.catalogue.entries import Argument, Text, command, group
from furlkit.catalogue.groups import VERBOSITY

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("presets", "List the presets, or print a preset with comments.",
    """NAME is a built-in preset, or the path of a TOML file. A comment beside each value
    gives the origin: (P) printed in the paper, (C) the paper's code, (O) our choice.
    `extends` names another preset, which supplies the missing values.

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
    """Print a preset, or list the presets."""
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
