"""audit: inputs that contradict the headers are refused, or named in a warning."""

import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.helpers import furlkit, write_alone

NET = ("--width", 0.02, "--projector", "8,4")
BRIEF = ("--epochs", 1, "--batch-size", 64)


@pytest.fixture(scope="module")
def _made(tmp_path_factory) -> Path:
    """Two rounds of two clients of p, a site, another partition q."""
    folder = tmp_path_factory.mktemp("wrong")
    digits = ("--data", "digits")

    def train(round_: int, start: str):
        files = ("--features-out", folder / f"r{round_}_{{client}}",
                 "--private-out", folder / f"k{round_}_{{client}}")  # fmt: skip
        return ("local-train", folder / "p", folder / start, *digits, "--client", "0-1",
                *BRIEF, "--dictionary-size", 60, *files,
                "-o", folder / f"u{round_}_{{client}}")  # fmt: skip

    commands = (
        ("init", *digits, *NET, "-o", folder / "g0"),
        ("partition", *digits, "--clients", 2, "-o", folder / "p"),
        ("partition", *digits, "--clients", 2, "--seed", 5, "-o", folder / "q"),
        train(1, "g0"),
        ("aggregate", folder / "u1_0", folder / "u1_1", "--parent", folder / "g0",
         "-o", folder / "g1"),
        train(2, "g1"),
        ("local-train", folder / "g0", *digits, "--client", "st-mary", *BRIEF,
         "--participants", 2, "--dictionary-size", 60, "--features-out",
         folder / "site_rows", "--private-out", folder / "kept/p", "-o", folder / "site"),
        ("pack", "digits", "--split", "test", "-o", folder / "test.safetensors"),
    )  # fmt: skip
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        codes = [furlkit(*command) for command in commands]
    assert not any(codes), said.getvalue()
    return folder


@pytest.fixture
def here(_made, tmp_path, monkeypatch) -> Path:
    """The files in a folder that a test may change, and the current folder."""
    shutil.copytree(_made, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


def rows(name: str = "r1_0", model: str = "u1_0", *more):
    given = ("--model", model, "--candidates", "digits", "--k", 5, *more)
    return ("audit", "rows", name, *given, "-o", "out.json")


def membership(*more, model: str = "u1_0"):
    given = ("--members", "digits", "--images", 20, "--views", 2)
    return ("audit", "membership", model, *given, *more, "-o", "out.json")


def classes(*words):
    given = ("--public", "digits", "--images", 50)
    return ("audit", "classes", *words, *given, "-o", "out.json")


def inversion(*more):
    given = (
        "--model",
        "u1_0",
        "--candidates",
        "digits",
        "--public",
        "test.safetensors",
    )
    return (
        "audit",
        "inversion",
        "r1_0",
        *given,
        *more,
        "--epochs",
        1,
        "-o",
        "out.json",
    )


# --- rows and inversion ---------------------------------------------------------------


def test_rows_of_a_partition_need_the_partition(here, refused):
    refused(here, 65, ["r1_0", "give --partition"], *rows())
    refused(here, 65, ["r1_0", "give --partition"], *inversion())


def test_rows_of_another_partition_are_refused(here, refused):
    for command in (rows("r1_0", "u1_0", "--partition", "q"),
                    inversion("--partition", "q")):  # fmt: skip
        refused(here, 65, ["r1_0", "partition of the training"], *command)


def test_rows_of_a_site_have_no_partition(here, refused):
    command = rows("site_rows", "site", "--partition", "p")
    refused(here, 65, ["site_rows", "without a partition"], *command)


def test_the_model_of_another_round_is_named(here, run, refused):
    command = rows("r2_0", "u1_0", "--partition", "p")
    refused(here, 65, ["u1_0", "of round 1"], *command, "--strict")
    done = run(*command)
    assert done.code == 0 and "warning: u1_0: is of round 1" in done.err
    assert "r2_0 is of round 2" in done.err
    assert "another model: of the client after round 1" in done.out
    done = run(*rows("r2_0", "u2_0", "--partition", "p", "--force"))
    assert done.code == 0 and "the client's model, like the server" in done.out
    assert "warning" not in done.err


def test_the_model_of_another_client_is_named(here, run):
    done = run(*rows("r1_0", "u1_1", "--partition", "p"))
    assert done.code == 0 and "another model: of client 1 after round 1" in done.out


SECRET = ("--secret", "kept/st-mary.secret")


def recorded(forge, dataset) -> None:
    """Let the records of the site's files name a dataset, or none."""
    for path in Path().glob("site*.record"):
        forge(path, facts={"dataset": dataset})


def of_site(journal: str = "site.log.jsonl") -> dict:
    """Fingerprint of the site's images, from the journal."""
    lines = [json.loads(line) for line in Path(journal).read_text().splitlines()]
    return next(line["dataset"] for line in lines if line["event"] == "images")


def test_another_number_of_images_is_refused(here, refused, forge):
    recorded(forge, None)
    command = [*rows("site_rows", "site", *SECRET, "--others", "test.safetensors")]
    command[command.index("digits")] = "test.safetensors"
    words = ["test.safetensors", "359", "1,438", "--candidates"]
    refused(here, 65, words, *command)


def test_images_are_confirmed_by_the_record_of_the_rows(here, run, refused, forge):
    right = of_site()
    command = rows("site_rows", "site", *SECRET)
    recorded(forge, right)
    done = run(*command)
    assert done.code == 0 and "the candidates fit the record" in done.out
    recorded(forge, None)
    done = run(*command)
    assert done.code == 0 and "no record confirms the candidates" in done.out
    recorded(forge, {**right, "images": "0" * 64})
    words = ["site_rows.record", "other images", "images of the training"]
    refused(here, 65, words, *command)
    refused(
        here, 65, ["site.record", "other images"], *membership("--force", model="site")
    )


def test_other_images_of_the_same_number_are_named_by_the_journal(here, run, forge):
    recorded(forge, None)
    command = rows("site_rows", "site", *SECRET)
    assert "warning" not in run(*command).err
    journal = Path("site.log.jsonl")
    wrong = journal.read_text().replace(of_site()["images"], "0" * 64)
    journal.write_text(wrong)
    done = run(*command)
    assert done.code == 0 and "site.log.jsonl: names other images" in done.err


def test_images_that_nothing_confirms_are_not_checked(here, run):
    """A site's upload away from the record and the journal."""
    done = run(*membership(model="site"))
    assert done.code == 0 and "not checked" not in done.err
    for path in ("site.record", "site.log.jsonl"):
        Path(path).unlink()
    done = run(*membership(model="site"), "--force")
    assert done.code == 0 and "site: " in done.err and "not checked" in done.err


# --- membership -----------------------------------------------------------------------


def test_members_of_another_partition_are_refused(here, refused):
    command = membership("--partition", "q", "--part", 0)
    refused(here, 65, ["u1_0", "partition of the training"], *command)


@pytest.mark.parametrize(
    "model, more, words",
    [
        ("u1_0", (), "give --partition and --part"),
        ("u1_1", ("--partition", "p", "--part", 0), "the model of client 1"),
        ("u1_1", ("--partition", "p"), "the model of client 1"),
    ],
)
def test_members_of_others_are_named(here, run, refused, model, more, words):
    command = membership(*more, model=model)
    refused(here, 65, [words], *command, "--strict")
    done = run(*command)
    assert done.code == 0 and words in done.err


def test_another_number_of_members_is_named(here, run, forge):
    forge(here / "site", facts={"examples": 1000})
    done = run(*membership(model="site"))
    assert done.code == 0 and "trained on 1,000 images" in done.err
    forge(here / "g1", facts={"examples": 1000})
    done = run(*membership("--partition", "p", model="g1"))
    assert done.code == 0 and "trained on 1,000 images" in done.err


def test_fitting_members_give_no_warning(here, run):
    for model, part, parent in (("u1_0", 0, "g0"), ("g1", 0, "g0"), ("u2_1", 1, "g1")):
        more = (
            "--partition",
            "p",
            "--part",
            part,
            "--parent",
            parent,
            "--strict",
            "--force",
        )
        done = run(*membership(*more, model=model))
        assert done.code == 0, done.err
    assert run(*membership("--strict", "--force", model="site")).code == 0


@pytest.mark.parametrize("parent", ["u1_0", "g1", "u1_1"])
def test_another_parent_is_refused(here, refused, parent):
    of = ("--partition", "p", "--part", 0)
    words = [parent, "model before training"]
    refused(here, 65, words, *membership(*of, "--parent", parent))
    refused(here, 65, words, *classes("u1_0", "--parent", parent))


def test_an_unknown_parent_is_named(here, run, forge):
    forge(here / "u1_0", facts={"parent": None})
    done = run(*membership("--partition", "p", "--part", 0, "--parent", "g0"))
    assert done.code == 0 and "names no parent" in done.err


# --- classes --------------------------------------------------------------------------


@pytest.mark.parametrize("files", [("u1_0", "u2_0"), ("r1_1", "r2_1", "--model", "g1")])
def test_two_files_of_a_client_are_refused(here, refused, files):
    words = [Path(name) for name in files[:2]]
    refused(here, 65, [*words, "one file of each client"], *classes(*files))


def test_classes_of_another_partition_are_refused(here, refused):
    for files in (("u1_0", "u1_1"), ("r1_0", "r1_1", "--model", "g1")):
        command = classes(*files, "--partition", "q")
        refused(here, 65, [files[0], "partition of the training"], *command)


def test_rows_compared_by_a_model_of_another_client_or_round_are_named(here, run):
    done = run(*classes("r1_0", "r1_1", "--model", "u1_0"))
    assert done.code == 0 and "u1_0: is the model of client 0" in done.err
    models = ("--model", "u1_0", "--model", "u1_1", "--model", "u2_0")
    assert "warning" not in run(*classes("r1_0", "r1_1", *models)).err
    assert "of round 1" in run(*classes("r2_0", "r2_1", *models)).err
    assert "warning" not in run(*classes("r1_0", "r1_1", "--model", "g0")).err


def test_a_masked_upload_cannot_be_audited(here, refused):
    write_alone(here / "u1_0", here / "masked")
    refused(here, 65, ["masked", "only the sum"], *classes("masked", "u1_1"))
    refused(here, 65, ["p", "expected a checkpoint"], *classes("p", "u1_1"))


# --- another attacker -----------------------------------------------------------------


def test_a_changed_attacker_is_not_cut_before_the_difference(here, run):
    command = membership("--partition", "p", "--part", 0)
    assert run(*command).code == 0
    done = run(*command, "--parent", "g0")
    assert done.code == 0
    (line,) = [each for each in done.err.splitlines() if "making it again" in each]
    assert "another attacker" in line and "the attacker has" not in line
