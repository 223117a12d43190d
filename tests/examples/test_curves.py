"""The recipe of the learning curves: equal lengths, and a score at each point."""

import pytest

from tests.examples.conftest import EXAMPLES, of

RECIPE = EXAMPLES / "curves" / "recipe.toml"


@pytest.mark.parametrize("dataset", ["digits", "images"])
def test_every_baseline_trains_100_epochs_and_is_scored_at_each_point(plan, dataset):
    steps = plan(RECIPE, "table=curves", "seed=0", f"dataset={dataset}")
    trained = [step["outputs"][0].split("/")[-4] for step in of(steps, "train")]
    epochs = {"--epochs 5" in " ".join(step["command"]) for step in of(steps, "train")}
    assert epochs == {True}
    baselines = ("fedsimclr", "fedmoco", "fedbyol")
    assert {row: trained.count(row) for row in baselines} == dict.fromkeys(
        baselines, 100
    )
    assert trained.count("central") == 20  # One client has all images.
    rounds = [step["outputs"][0].split("/")[-2] for step in of(steps, "linear")]
    points = {"r000", "r001", "r002", "r005", "r010", "r015", "r020"}
    assert {*rounds} == points and len(rounds) == 4 * len(points)
