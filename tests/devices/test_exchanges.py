"""Every exchange runs on the device; a training step never waits for the device.

The list is the catalogue's: an exchange without a case fails here, and so does an
exchange with a file that no case has.
"""

import pytest

from furlkit import catalogue
from furlkit.catalogue import File
from furlkit.catalogue.exchanges import SHARE_ROWS
from tests.devices.conftest import words_of
from tests.exchanged import FAST, model_of, term_words

KEPT = ("--private-out", "OUT/private")


def client(model, *words):
    return ("local-train", "p", model, *FAST, "--client", 0, *words)


def with_term(name):
    return client(model_of(name), *term_words(name), *KEPT)


SHARED = ("--features-out", "OUT/rows", "--dictionary-size", 32)
RECEIVED = ("--dictionary", "dictionary")
WITH_ROWS = [name for name, o in catalogue.OBJECTIVES.items() if "z_dict" in o.inputs]
CASES = {
    "dictionary": [
        client("g0", *SHARED, *KEPT, "--secret", "secret"),
        *[client("g0", *SHARED, "--share-rows", rows, "--rows-statistics", kind, *KEPT)
          for rows in [*SHARE_ROWS][1:] for kind in ("running", "batch")],
        *[client("g1", "--objective", name, *RECEIVED, "--negatives", kind,
                 "--leave-own-out")
          for name in WITH_ROWS for kind in ("fused", "remote")],
        *[client("g1", *RECEIVED, "--dictionary-positive", "own", "--dictionary-from",
                 source, *SHARED, "--private", "k_0", *KEPT)
          for source in ("client", "global")],
    ],
    "targets": [with_term("alignment")],
    "neighbours": [
        client("g0", "--objective", "cluster", *KEPT),
        client("g0", "--objective", "cluster", "--neighbours-from", "near_0",
               "--nearest", 3),
    ],
    "helpers": [
        client("f", "--objective", "fedmatch", "--helper", "f_0", "--helper", "f_1",
               "--confidence", 0),
    ],
    "bank": [client("g0", "--objective", "instance", *KEPT)],
    "style": [with_term("infusion")],
    "personal": [client("g0", "--personal", name, *KEPT)
                 for name, entry in catalogue.PERSONAL.items() if entry.function],
    "control": [with_term("scaffold")],
    "norms": [client("g0", "--keep-norms", *KEPT)],
    "layers": [client("g0", "--train-layers", "conv3,bn3", "--objective", "byol", *KEPT)],
    "centroids": [
        client("g1", "--objective", "orchestra", "--centroids", "z", "--centroids-out",
               "OUT/rows", *KEPT),
        (*with_term("centroids"), "--centroids-out", "OUT/rows"),
    ],
    "correlations": [
        client("g1", "--objective", "spectral", "--correlations", "R", "--private",
               "s_0", "--correlations-out", "OUT/R", *KEPT),
    ],
    "kernel": [with_term("cka")],
}  # fmt: skip


def every_case():
    for name in catalogue.EXCHANGES:
        for place in range(len(CASES.get(name, [()]))):
            yield pytest.param(name, place, id=f"{name}{place}")


@pytest.mark.parametrize(("name", "place"), [*every_case()])
def test_an_exchange_never_waits_for_the_device(trained, name, place):
    counter = trained(*words_of(CASES, name, "this exchange")[place])
    assert counter.copies, "nothing was counted"


@pytest.mark.parametrize("name", catalogue.EXCHANGES)
def test_the_cases_of_an_exchange_have_all_files(name):
    cases = words_of(CASES, name, "this exchange")
    words = {word for case in cases for word in case}
    options = catalogue.EXCHANGES[name].options
    files = {f"--{option.name}" for option in options if isinstance(option.kind, File)}
    assert files <= words, f"{name}: no case on the device has {files - words}"


def test_an_exchange_without_a_case_fails_by_name():
    with pytest.raises(pytest.fail.Exception, match="pigeons: this exchange is new"):
        words_of(CASES, "pigeons", "this exchange")
