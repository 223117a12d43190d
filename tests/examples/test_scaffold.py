"""The recipe of SCAFFOLD: private files of clients that skip rounds."""

from itertools import pairwise

from tests.examples.conftest import EXAMPLES, of

RECIPE = EXAMPLES / "scaffold" / "recipe.toml"


def value(step, flag):
    return next((b for a, b in pairwise(step["command"]) if a == flag), None)


def test_a_client_reads_its_newest_private_file_and_the_server_knows_n(plan):
    steps, newest = plan(RECIPE, "out=exp"), {}
    for step in of(steps, "train"):
        client = value(step, "--client")
        assert value(step, "--private") == newest.get(client)
        newest[client] = value(step, "--private-out")
    assert len(of(steps, "train")) == 5 * 3 and len(newest) > 3
    for number, step in enumerate(of(steps, "average")):
        assert value(step, "--clients") == "5"
        assert value(step, "--parent") == f"exp/r{number:03}/global.safetensors"
