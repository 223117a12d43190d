"""Names with any sign in them: right in make rules and scripts, or refused; never run."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import MAKES_OWN

# Stands in for furlkit: notes its words, one on each line, and writes what it is told to.
FAKE = r"""
test "$1" = status && exit
for word; do printf '%s\n' "$word"; done >> "$HERE/words"
echo . >> "$HERE/calls"
clients=
while test $# -gt 0; do
    case $1 in
    --client) clients=$(echo "$2" | tr , ' ') ;;
    -o)
        mkdir -p "$(dirname "$2")"
        case $2 in
        *'{client}'*) for c in $clients; do echo > "${2%{client\}*}$c${2##*{client\}}"; done ;;
        *) echo > "$2" ;;
        esac ;;
    esac
    shift
done
"""
SIGNS = "!\"#$%&'()+-.:;<=>@^_`{|}~ *?[]\\"
WORDS = [
    *(f"{sign}a{sign}b{sign}" for sign in SIGNS),
    "$(touch run_by_a_shell)",
    "`touch run_by_a_shell`",
    "';touch run_by_a_shell;'",
    "$(shell touch run_by_a_shell)",
    "a\nall: ; touch run_by_a_shell",
    "a\n\ttouch run_by_a_shell",
    "a\rb",
    "a\tb",
    "--help",
    "-n",
    "~root",
    "a=b:c%d#e$f g",
    "日本 語é",
    "a\u3000b\u00a0c",
    "include x",
    "a\\ b",
]
CONTROL = set("\n\r\t")
# In the names of files that make makes; also ~ at the start, and $(.
IMPOSSIBLE = set("*?[]|;\\")


STEPS = ["partition", "init", "knn", "train", "average", "knn"]


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """The environment in which a plan calls the stand-in."""
    Path("fake.sh").write_text(FAKE)
    theirs = {k: v for k, v in os.environ.items() if k not in MAKES_OWN}
    return {**theirs, "FURLKIT": f"sh {tmp_path}/fake.sh", "HERE": str(tmp_path)}


def carried_out(form, environment):
    """Run a plan twice; the second time there is nothing to do."""
    words = ["sh", "run"] if form == "sh" else ["make", "-f", "run"]
    for _ in range(2):
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert len(Path("calls").read_text()) == 2 * len(STEPS)
    assert not list(Path().rglob("run_by_a_shell"))


@pytest.mark.parametrize("form", ["make", "sh"])
@pytest.mark.parametrize("folder", WORDS)
def test_a_folder_can_have_any_name(recipe, run, fake, form, folder):
    words = (f"out={folder}", "rounds=1", "clients=2", "--group", 2)
    done = run("plan", recipe(), *words, "--as", form, "-o", "run")
    impossible = IMPOSSIBLE & set(folder) or folder.startswith("~") or "$(" in folder
    if CONTROL & set(folder) or (form == "make" and impossible):
        assert done.code == 2 and "cannot" in done.err
        assert not Path("run").exists() and not Path(folder).exists()
        return
    assert done.code == 0, done.err
    carried_out(form, fake)
    for name in ("r001/client_0", "r001/client_1", "r001/global"):
        assert (Path(folder) / f"{name}.safetensors").is_file()
    assert run("status", f"./{folder}").code == 0


@pytest.mark.parametrize("form", ["make", "sh"])
@pytest.mark.parametrize("data", WORDS)
def test_data_can_have_any_name(recipe, run, fake, form, data):
    if data not in ("~root", "--help"):
        Path(data).write_text("")  # It is there, so the steps depend on it.
    words = (f"data={data}", "rounds=1", "clients=2", "--group", 2)
    done = run("plan", recipe(), *words, "--as", form, "-o", "run")
    if form == "make" and {"\n", "\r"} & set(data):
        assert done.code == 2 and "line break" in done.err
        return
    assert done.code == 0, done.err
    carried_out(form, fake)
    assert f"--data\n{data}\n".encode() in Path("words").read_bytes()


def test_a_name_that_is_not_utf_8_is_refused(recipe, run):
    done = run("plan", recipe(), "data=a\udcffb", "-o", "run")
    assert done.code == 2 and "UTF-8" in done.err
