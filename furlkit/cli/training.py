"""From the words of `local-train` to the options of its stage."""

from pathlib import Path
from typing import Any

from furlkit.cli.augmentation import build_augmentation
from furlkit.data.source import Source
from furlkit.loop import Plan
from furlkit.runtime import Runtime
from furlkit.stages.local_train import Options
from furlkit.training import Handling


def build_options(
    partition: Path,
    model: Path,
    clients: tuple[int, ...],
    output: str,
    values: dict[str, Any],
) -> Options:
    """Group what belongs together; every value is taken exactly once."""
    take = values.pop
    augmentation = build_augmentation(values)
    source = Source(take("data"), take("data_root"), take("download"))
    settings = {"temperature": take("temperature"), "form": take("form")}
    plan = Plan(
        epochs=take("epochs"),
        batch_size=take("batch_size"),
        optimiser=take("optimiser"),
        lr=take("lr"),
        weight_decay=take("weight_decay"),
        momentum=take("momentum"),
        schedule=take("schedule"),
        warmup=take("warmup"),
        rounds=take("schedule_rounds"),
        precision=take("precision"),
    )
    handling = Handling(take("channels_last"), take("compiled"), take("save_every"))
    runtime = Runtime(take("device"), take("threads"))
    return Options(
        partition, model, clients, output, source, augmentation=augmentation,
        settings=settings, plan=plan, handling=handling, runtime=runtime, **values,
    )  # fmt: skip
