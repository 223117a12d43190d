"""A fixture for the tests of protocols, each of which has its own `evaluate`."""

import json

import pytest


@pytest.fixture
def score(evaluate):
    """The document of a command that must succeed."""

    def run(name, *more, **how):
        code, output = evaluate(name, *more, **how)
        assert code == 0
        return json.loads(output.read_text())

    return run
