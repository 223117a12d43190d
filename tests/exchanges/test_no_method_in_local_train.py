"""local-train iterates over exchanges and mentions no method."""

import re
from pathlib import Path

import pytest

from furlkit import catalogue
from furlkit.stages import local_train

SOURCES = sorted(Path(local_train.__file__).parent.glob("*.py"))
# Names of methods that are words of Python or of plain English.
WORDS = {"replace", "keep", "continue", "own", "none"}
# ASTW's option --exchanges, and the folder of exchanges.
SHARED = {"exchanges"}


def forbidden():
    """Names of methods, and the flags and keys of their options."""
    families = (
        *(catalogue.OBJECTIVES, catalogue.TERMS, catalogue.UPDATES),
        *(catalogue.PERSONAL, catalogue.EXCHANGES),
    )
    entries = [entry for family in families for entry in family.values()]
    options = [option for entry in entries for option in entry.options]
    names = {entry.name for entry in entries} | {option.name for option in options}
    return (names | {option.key for option in options}) - WORDS - SHARED


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_local_train_mentions_no_method(path):
    words = set(re.findall(r"[a-z][a-z0-9_-]*", path.read_text().lower()))
    assert words & forbidden() == set()


def test_the_list_of_names_is_the_catalogue_s():
    assert {"simclr", "dictionary", "apfl", "dum", "infusion"} <= forbidden()
    assert {"features-out", "features_out", "mine_layer", "align"} <= forbidden()
