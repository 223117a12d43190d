"""The pages of results: how to reproduce them is planned as it is written."""

import pytest

from tests.examples.conftest import EXAMPLES, blocks, needs_make


@needs_make
@pytest.mark.parametrize("name", ["fcl", "fedstyle", "fedusc", "hostile"])
def test_every_command_is_accepted(recorded, check_all, name):
    page = blocks(EXAMPLES / name / "RESULTS.md")
    commands = [command for block in page for command in recorded(block)]
    assert sum(command[0] == "plan" for command in commands) >= 1
    check_all([command for command in commands if command[0] in ("pack", "plan")])
