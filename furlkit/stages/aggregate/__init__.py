"""aggregate: `checkpoints` for models, `shared` for other files, and special rules."""

from typing import Any

from furlkit.catalogue import load, rules
from furlkit.inputs.inbox import closed_round
from furlkit.stages.aggregate import privacy
from furlkit.stages.aggregate.state import check_usage


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Combine uploads by the chosen rule, unless this round is closed."""
    rule = rules()[values["rule"]]
    check_usage(rule, values)
    privacy.check_usage(values)
    if closed := closed_round(values):
        path, content = closed
        line = f"{path}: already there, this round is closed (--force makes it again)"
        return line, {"content": content, "unchanged": True}
    return load(f"furlkit.stages.aggregate.{rule.stage}:run")(values)
