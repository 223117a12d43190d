"""Fixtures for the tests of protocols; many modules have an `evaluate` of their own."""

import json

import pytest

from tests.helpers import furlkit, round_0


@pytest.fixture
def score(evaluate):
    """The document of a command that must succeed."""

    def run(name, *more, **how):
        code, output = evaluate(name, *more, **how)
        assert code == 0
        return json.loads(output.read_text())

    return run


@pytest.fixture(scope="session")
def divided_digits(tmp_path_factory):
    """Partitions of digits for three clients and for one, and a model; never changed."""
    net = ("--width", 0.02, "--projector", "8,4")
    folder = round_0(tmp_path_factory.mktemp("divided_digits"), ("--clients", 3), net)
    one = ("--data", "digits", "--clients", 1)
    assert furlkit("partition", *one, "-o", folder / "p1.st") == 0
    return folder


@pytest.fixture
def settings():
    """Options of every finetuning in a module."""
    return ("--batch-size", 64)


@pytest.fixture
def evaluate(divided_digits, settings, tmp_path):
    def run(name, protocol, *more, model=divided_digits / "g.st", data="digits"):
        output = tmp_path / f"{name}.json"
        more = ("--data", data, *settings, *more, "-q", "-o", output)
        return furlkit("evaluate", protocol, model, *more), output

    return run


def federated(divided_digits, fraction, *more, partition="p.st"):
    """Words of a finetuning of clients with a fraction of the labels."""
    part = ("--partition", divided_digits / partition)
    return ("semi", *part, "--fraction", fraction, *more)
