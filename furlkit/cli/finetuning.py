"""Commands of evaluate that train the encoder on: semi, transfer, finetune."""

import click

COMMANDS: tuple[click.Command, ...] = ()
