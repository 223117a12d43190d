"""The text about methods names and cites every method of a run."""

from dataclasses import replace
from pathlib import Path

import pytest

from furlkit import catalogue, presets
from furlkit.catalogue import File, methods_used
from furlkit.reports.page.collect import Run, Stage
from furlkit.reports.page.methods import bibtex, methods_text
from tests.helpers import few_digits, furlkit

STAGES = ("pretrain-align", "local-train", "aggregate", "distill")
CHOICES = {
    "objective": catalogue.OBJECTIVES,
    "update": catalogue.UPDATES,
    "personal": catalogue.PERSONAL,
    "rule": catalogue.RULES,
    "teacher": catalogue.TEACHERS,
}


def switched_on(table):
    """Entries that a preset's table chooses, or gives an option that is not off."""
    chosen = [CHOICES[key][table[key]] for key in CHOICES if key in table]
    for term in catalogue.TERMS.values():
        (switch,) = (o for o in term.options if o.name == term.switch)
        own = {o.name for o in term.options} - {"align-data", "align-split"}
        is_file = isinstance(switch.kind, File)
        if own & table.keys() if is_file else table.get(term.switch):
            chosen.append(term)
    for exchange in catalogue.EXCHANGES.values():
        if {o.name for o in exchange.options if table.get(o.name)}:
            chosen.append(exchange)
    return chosen


def roles_of(entries):
    """Roles of the files that switch terms and exchanges on, as a recipe gives them."""
    options = (option for entry in entries for option in entry.options)
    return [o.kind.role for o in options if isinstance(o.kind, File) and o.kind.role]


def text_of(stages):
    run = Run(Path("exp"), "exp", None)
    return methods_text(replace(run, methods={"stages": stages}))


@pytest.mark.parametrize("name", presets.names())
def test_every_method_of_a_preset_is_named_and_cited(name):
    tables = presets.tables(name)
    expected, stages = [], []
    for command in STAGES:
        table = presets.table(tables, command) or {}
        entries = switched_on(table)
        expected += entries
        used = methods_used(command, table, roles_of(entries))
        pairs = tuple((family, entry.name) for family, entry in used)
        stages.append(Stage(command, table, pairs))
    found = text_of(stages)
    text = " ".join(found.sentences)
    for entry in expected:
        if entry.function and entry.name not in ("replace", "none"):
            assert f" {entry.name}" in text, entry.name
            if entry.paper:
                assert entry.paper in found.papers
                number = found.papers.index(entry.paper) + 1
                assert f"{entry.paper.name} [{number}]" in text
    assert (
        "none" not in text.split() and "unknown" not in text.split("objective ")[1][:8]
    )
    assert all(bibtex(paper).startswith("@misc{") for paper in found.papers)


def test_presets_of_systems_name_the_parts_of_the_system():
    assert {e.name for e in switched_on(presets.table(presets.tables("fedca"), "local-train"))} >= {"alignment", "dictionary"}  # fmt: skip


def test_plain_training_does_not_cite_systems_with_the_same_equation():
    options = {"objective": "simclr"}
    used = methods_used("local-train", options, ["global"])
    pairs = tuple((family, entry.name) for family, entry in used)
    found = text_of([Stage("local-train", options, pairs)])
    assert [paper.name for paper in found.papers] == ["SimCLR"]


@pytest.fixture
def fedca(tmp_path):
    """A round of FedCA by hand."""
    few_digits(tmp_path, 2)
    data, short = ("--data", tmp_path / "d.npz"), ("--epochs", 1, "--batch-size", 60)
    exp = tmp_path / "exp"
    align = ("--align", exp / "targets", "--align-data", tmp_path / "t.npz")
    commands = (
        ("pretrain-align", tmp_path / "g0", "--data", tmp_path / "t.npz", *short,
         "--images", 60, "--targets-out", exp / "targets", "-o", exp / "align"),
        ("local-train", tmp_path / "p", tmp_path / "g0", *data, *short, *align,
         "--client", "0-1", "--features-out", exp / "f{client}.safetensors",
         "--dictionary-size", 20, "--private-out", exp / "k{client}",
         "-o", exp / "u{client}.safetensors"),
        ("aggregate", exp / "u0.safetensors", exp / "u1.safetensors", "-o",
         exp / "g1.safetensors"),
        ("aggregate", "--rule", "dictionary", exp / "f0.safetensors",
         exp / "f1.safetensors", "-o", exp / "d1.safetensors"),
    )  # fmt: skip
    for words in commands:
        assert furlkit(*words) == 0, words
    return exp


def test_a_run_of_fedca_is_not_described_like_fedsimclr(fedca, run, tmp_path):
    page = tmp_path / "page.html"
    assert run("report", fedca, "-o", page).code == 0
    text = page.read_text()
    for words in (
        "the term alignment (FedCA",
        "the exchange dictionary (FedCA",
        "by the rule dictionary",
        "by the rule mean",
        "@misc{fedca2020,",
    ):
        assert words in text, words  # fmt: skip
