"""Neighbourhood matching with objectives that have z and no negatives."""

import pytest

from furlkit import catalogue
from tests.helpers import epoch_losses, furlkit, tensor_bytes

DIGITS = ("--data", "digits")
WITH_Z = [
    name
    for name, objective in catalogue.OBJECTIVES.items()
    if "projector" in objective.head_names and "z_dict" not in objective.inputs
]
MORE = {"swav": ("--queue", 50), "deepcluster": ("--clusters", "5,5")}


@pytest.mark.parametrize("name", WITH_Z)
def test_images_are_drawn_to_the_rows_of_a_bank(tmp_path, name):
    """The bank is the only source of rows: without it the term is 0."""
    net = ("--objective", name, "--width", 0.02, "--projector", "16,8")
    if "predictor" in catalogue.OBJECTIVES[name].head_names:
        net += ("--predictor", "8,8")
    assert furlkit("partition", *DIGITS, "--clients", 3, "-o", tmp_path / "p") == 0
    assert furlkit("init", *DIGITS, *net, "-o", tmp_path / "g") == 0
    rows = ("--partition", tmp_path / "p", "--part", 1, "--layer", "z", "-q")
    words = ("embed", tmp_path / "g", *DIGITS, *rows, "-o", tmp_path / "rows")
    assert furlkit(*words) == 0
    words = ("local-train", tmp_path / "p", tmp_path / "g", *DIGITS, "--client", 0)
    words += ("--objective", name, "--epochs", 1, "--batch-size", 240, "-q")
    words += (*MORE.get(name, ()), "--private-out", tmp_path / "k")
    match = ("--neighbours", 3, "--neighbour-candidates", 40)
    bank = ("--dictionary", tmp_path / "rows")
    found = {}
    for kind, more in {"plain": (), "alone": match, "bank": (*match, *bank)}.items():
        assert furlkit(*words, *more, "-o", tmp_path / kind) == 0
        found[kind] = epoch_losses(tmp_path / kind)[0]
    assert found["alone"] == {**found["plain"], "neighbours": 0}
    assert found["bank"]["neighbours"] > 0
    same = [tensor_bytes(tmp_path / kind) for kind in ("plain", "alone", "bank")]
    assert same[0] == same[1] != same[2]


def test_byol_shares_rows_and_is_matched_with_those_of_others(tmp_path):
    """Two rounds: rows of encrypted images, pooled, without the client's own."""
    net = ("--objective", "byol", "--width", 0.02, "--projector", "16,8")
    net += ("--predictor", "8,8")
    assert furlkit("partition", *DIGITS, "--clients", 2, "-o", tmp_path / "p") == 0
    assert furlkit("init", *DIGITS, *net, "-o", tmp_path / "g0") == 0
    bank = ()
    for number in (1, 2):
        words = ("local-train", tmp_path / "p", tmp_path / f"g{number - 1}", *DIGITS)
        words += ("--client", "0-1", "--objective", "byol", "--epochs", 1, "-q")
        words += ("--batch-size", 240, "--neighbours", 3, "--dictionary-size", 40)
        shared = tmp_path / f"f{number}{{client}}"
        words += ("--features-out", shared, "--share-rows", "instahide")
        assert furlkit(*words, *bank, "-o", tmp_path / f"c{number}{{client}}") == 0
        uploads = [tmp_path / f"c{number}{client}" for client in (0, 1)]
        assert furlkit("aggregate", *uploads, "-o", tmp_path / f"g{number}") == 0
        files = [tmp_path / f"f{number}{client}" for client in (0, 1)]
        rows = ("--dictionary-size", 40, *files)
        out = ("-o", tmp_path / f"d{number}")
        assert furlkit("aggregate", "--rule", "dictionary", *rows, *out) == 0
        bank = ("--dictionary", tmp_path / f"d{number}", "--leave-own-out")
    assert epoch_losses(tmp_path / "c10")[0]["neighbours"] == 0
    assert epoch_losses(tmp_path / "c20")[0]["neighbours"] > 0


@pytest.mark.parametrize(
    "more, words",
    [
        (("--objective", "rotation", "--neighbours", 5), ("--neighbours", "projector")),
        (("--objective", "byol", "--dictionary", "d"), ("--dictionary", "negatives")),
        (
            ("--objective", "byol", "--features-out", "f"),
            ("--features-out", "negatives"),
        ),
    ],
)
def test_rows_without_a_use_are_refused_with_the_reason(world, refused, more, words):
    given = ("local-train", world.partition, world.model, *DIGITS, "--client", 0)
    refused(world.folder, 2, words, *given, *more, "-o", world.output)
