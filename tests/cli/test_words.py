"""The glossary of --help-words explains every word that furlkit shows to people."""

import json
import re

import pytest

from furlkit.catalogue import GLOSSARY


def explained(name: str) -> bool:
    """Whether a word of the glossary is in the name of a number."""
    words = name.replace("_", " ").lower()
    known = (word.lower().removeprefix("linear ") for word in GLOSSARY)
    return any(re.search(rf"\b{re.escape(word)}\b", words) for word in known)


def test_it_is_printed(run):
    code, out, err = run("--help-words")
    assert (code, err) == (0, "")
    shown = re.findall(r"^(\S.*?)  +\S", out, re.M)
    assert shown == sorted(GLOSSARY, key=str.lower) == list(GLOSSARY)
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("words", [(), ("local-train",), ("evaluate", "drift")])
def test_help_texts_link_to_it(run, words):
    assert "--help-words" in run(*words, "--help").out


def test_words_that_newcomers_asked_for_are_in_it():
    asked = "h, z, probe, spread, rank, part, head, round, upload, private file"
    more = "dictionary, neighbours, target, partition, projector, recipe, preset"
    assert {*asked.split(", "), *more.split(", ")} <= GLOSSARY.keys()


def test_numbers_of_the_training_log_are_in_it(world, run):
    words = ("local-train", world.partition, world.model, "--data", "digits")
    rest = ("--client", 0, "--epochs", 1, "--batch-size", 256, "--force")
    said = run(*words, *rest, "-o", world.folder / "new.safetensors").err
    (line,) = (line for line in said.splitlines() if "epoch 1/1" in line)
    names = re.findall(r"([a-z]+) [\d.]+", line.partition("epoch 1/1")[2])
    assert {"loss", "spread", "rank"} <= {*names}
    assert all(map(explained, names))


def test_numbers_of_drift_are_in_it(world, run):
    drift, output = ("evaluate", "drift", *world.clients), world.folder / "drift.json"
    some = ("--data", "digits", "--images", 20, "-o", output)
    assert run(*drift, *some).code == 0
    found = json.loads(output.read_text())
    numbers = [key for key, value in found.items() if type(value) is float]
    assert {"spread", "effective_rank", "alignment", "uniformity"} <= {*numbers}
    assert [key for key in numbers if not explained(key)] == []
