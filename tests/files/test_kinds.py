"""Kinds of files of other packages."""

from importlib.metadata import EntryPoint

import pytest

from furlkit import catalogue
from furlkit.errors import InputError, UsageError
from furlkit.files.kinds import FileKind, is_kind, kind_of

GOOD = FileKind("histogram", "a histogram")
SAME = FileKind("histogram", "another histogram")
TAKEN = FileKind("features", "features of another package")
NUMBER = 7


@pytest.fixture
def install(monkeypatch):
    """A function that installs the objects of these names as kinds."""

    def points(*names):
        found = [EntryPoint(n, f"{__name__}:{n}", "furlkit.kinds") for n in names]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found)
        catalogue.plugins.cache_clear()

    yield points
    catalogue.plugins.cache_clear()


@pytest.mark.parametrize("broken", ["MISSING", "NUMBER"])
def test_a_broken_package_disables_no_other_package(install, capsys, broken):
    install(broken, "GOOD")
    assert kind_of("histogram") is GOOD and not is_kind("other")
    assert capsys.readouterr().err.count("cannot load this furlkit.kinds entry") == 1


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("GOOD", "SAME"), "two installed packages"),
        (("TAKEN",), "furlkit uses the name"),
    ],
)
def test_a_kind_with_a_name_in_use_is_an_error(install, names, message):
    install(*names)
    with pytest.raises(UsageError, match=message):
        is_kind("histogram")
    assert kind_of("features").per_image == "rows"


def test_an_unknown_kind_is_named_with_the_place_to_add_kinds(install):
    install("GOOD")
    with pytest.raises(InputError, match="'checkpoints' is no kind .* furlkit.kinds"):
        kind_of("checkpoints")
