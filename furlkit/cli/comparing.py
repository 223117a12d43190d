"""Commands of evaluate that compare models without labels: angles, drift."""

import click

COMMANDS: tuple[click.Command, ...] = ()
