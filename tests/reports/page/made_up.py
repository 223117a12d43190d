"""Runs of any size in the layout of a planned run, with tiny models and made-up scores."""

import json
import os
from pathlib import Path
from unittest.mock import patch

import numpy as np

from furlkit.files.checkpoint import CheckpointFacts, write_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.journal import Journal
from furlkit.files.metrics import write_metrics
from tests.helpers import furlkit

ROOT = Path(__file__).resolve().parents[3]
NET = {"encoder": "cnn5", "channels": 1, "image_size": 8, "width": 0.25,
       "stem": "", "heads": {"projector": [512, 128]}}  # fmt: skip
OPTIONS = {"objective": "simclr", "update": "replace", "epochs": 2, "batch-size": 64,
           "lr": 0.0003, "optimiser": "adam", "temperature": 0.2}  # fmt: skip


def make_run(folder: Path, clients: int, rounds: int, seed: int = 0) -> Path:
    """Write a finished run of averaging.toml; accuracies rise with the rounds."""
    settings = {"clients": clients, "rounds": rounds, "seed": seed, "out": folder}
    given = [f"{name}={value}" for name, value in settings.items()]
    recipe = ROOT / "examples" / "averaging.toml"
    assert furlkit("plan", recipe, *given, "-o", folder / "run.mk", "-q") == 0
    # The words of the plan, in the same order: the step counts as done.
    split = ("--seed", seed, "--data", "digits", "--clients", clients)
    split = (*split, "-o", folder / "partition.safetensors", "-q")
    assert furlkit("partition", *split) == 0
    with patch.object(os, "fsync", lambda handle: None):  # 30,000 files take minutes.
        _write_rounds(folder, clients, rounds, seed)
    return folder


def _write_rounds(folder: Path, clients: int, rounds: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    parent = _global(folder, 0, "init", {}, None)
    for name in ("knn", "linear"):
        _scores(folder, 0, parent, name, 0.6, seed)
    for number in range(1, rounds + 1):
        uploads = {}
        for client in range(clients):
            loss = 4 + 2 / number + draw.normal(0, 0.1)
            content = _client(folder, number, client, parent, loss, seed)
            uploads[f"client {client}"] = content
        parent = _global(folder, number, "aggregate", uploads, parent)
        score = 0.95 - 0.3 / number + draw.normal(0, 0.005)
        _scores(folder, number, parent, "knn", score, seed)
    _scores(folder, rounds, parent, "linear", 0.9, seed)


def _facts(role: str, number: int, **more) -> CheckpointFacts:
    return CheckpointFacts(role, number, NET, [0.3], [0.4], **more)


def _tensors(number: int, client: int = -1) -> dict[str, np.ndarray]:
    return {"encoder.conv1.weight": np.full((2, 2), number + client / 1000, np.float32)}


def _global(folder, number, stage, inputs, parent) -> str:
    path = folder / f"r{number:03d}" / "global.safetensors"
    options = {"rule": "mean", "bn": "average", "weights": "examples"}
    told = Provenance(stage, options if inputs else {}, None, inputs)
    facts = _facts("global", number, examples=1438, parent=parent)
    return write_checkpoint(path, _tensors(number), facts, told)


def _client(folder, number, client, parent, loss, seed) -> str:
    path = folder / f"r{number:03d}" / f"client_{client}.safetensors"
    told = Provenance("local-train", OPTIONS, seed, {"global": parent})
    facts = _facts("client", number, client=client, examples=14, loss=loss)
    facts = CheckpointFacts(**{**vars(facts), "parent": parent})
    content = write_checkpoint(path, _tensors(number, client), facts, told)
    _journal(path, number, client, loss)
    return content


def _journal(path: Path, number: int, client: int, loss: float) -> None:
    time = f"2026-01-02T{number % 24:02d}:00:{client % 60:02d}"
    start = {"event": "start", "furlkit": "0.2.0", "torch": "2.15.0", "numpy": "2.4.6",
             "cpu": "AVX2", "time": f"{time}.000+00:00"}  # fmt: skip
    epochs = [
        {"event": "epoch", "epoch": k, "losses": {"simclr": loss + 0.2 * (2 - k)},
         "effective_rank": 40.0 + client % 7, "spread": 0.8, "step": 4 * k,
         "samples_per_second": 2000.0, "time": f"{time}.{k}00+00:00"}
        for k in (1, 2)
    ]  # fmt: skip
    lines = (json.dumps(line, sort_keys=True) for line in (start, *epochs))
    Journal(path).path.write_text("\n".join(lines) + "\n")


def _scores(
    folder: Path, number: int, model: str, name: str, value: float, seed: int
) -> None:
    facts = {"role": "global", "round": number, "architecture": NET}
    document = {"protocol": name, "accuracy": value, "seed": 0, "test_examples": 359,
                "options": {}, "inputs": {"model": model},
                "checkpoint": {"content": model, "seed": seed, "facts": facts}}  # fmt: skip
    write_metrics(folder / f"r{number:03d}" / f"{name}.json", document)
