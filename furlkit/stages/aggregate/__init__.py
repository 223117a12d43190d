"""aggregate: one module for each kind of upload."""

from typing import Any

from furlkit.catalogue import RULES, load

# The module that opens, checks and combines the uploads that a rule reads.
MODULES = {
    "checkpoint": "checkpoints",
    "rows": "rows",
    "similarity": "similarities",
    "probabilities": "probabilities",
}


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Combine uploads by the rule that was chosen."""
    module = MODULES[RULES[values["rule"]].reads]
    return load(f"furlkit.stages.aggregate.{module}:run")(values)
