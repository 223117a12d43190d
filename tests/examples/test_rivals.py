"""The recipe of the rivals: all rows of the table train on equal terms."""

from itertools import pairwise

import pytest

from tests.examples.conftest import EXAMPLES, of

RECIPE = EXAMPLES / "rivals" / "recipe.toml"
EQUAL = (
    "--epochs",
    "--lr",
    "--optimiser",
    "--batch-size",
    "--schedule",
    "--crop-scale",
)


@pytest.mark.parametrize("dataset", ["digits", "images"])
def test_all_rows_train_with_equal_options(plan, dataset):
    steps = plan(
        RECIPE, "table=linear", "split=classes", "seed=0", f"dataset={dataset}"
    )
    trained, scored = of(steps, "train"), of(steps, "linear")
    terms = {
        tuple(b for a, b in pairwise(step["command"]) if a in EQUAL) for step in trained
    }
    rows = {step["outputs"][0].split("/")[-4] for step in trained}
    assert len(terms) == 1 and len(rows) == 22
    assert len(trained) == 22 * 5 * 5
    assert len(scored) == 23  # The untrained network of FedSimCLR is scored too.
