"""The recipe of LW-FedSSL: stages of rounds, each with a block of the encoder."""

from itertools import pairwise

from tests.examples.conftest import EXAMPLES, of

RECIPE = EXAMPLES / "lw-fedssl" / "recipe.toml"


def value(step, flag):
    return next((b for a, b in pairwise(step["command"]) if a == flag), None)


def test_every_stage_trains_a_block_and_completes_the_model(plan):
    steps = plan(RECIPE, "out=exp")
    blocks = {}
    for stage in ("low_", "middle_", ""):
        trained = of(steps, f"{stage}train")
        assert len(trained) == 5 * 2
        (blocks[stage],) = {value(step, "--train-layers") for step in trained}
        for average, start in zip(
            of(steps, f"{stage}average"), trained[::5], strict=True
        ):
            assert "--complete" in average["command"]
            assert value(average, "--parent") in start["command"]
    layers = [layer for block in blocks.values() for layer in block.split(",")]
    assert len(layers) == len({*layers}) == 11 and "fc" in layers


def test_the_server_calibrates_after_every_round(plan):
    steps = plan(RECIPE, "out=exp")
    for stage in ("low_", "middle_", ""):
        for average, calibrate in zip(
            of(steps, f"{stage}average"), of(steps, f"{stage}calibrate"), strict=True
        ):
            assert value(calibrate, "--teacher") == "contrast"
            assert value(average, "-o") in calibrate["command"]
            assert value(calibrate, "--part") == "public"
