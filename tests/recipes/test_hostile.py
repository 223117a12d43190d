"""Recipes of strangers: they write below the run's folder, and run planned commands only."""

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from furlkit.files.lock import holding
from tests.conftest import MAKES_OWN
from tests.recipes.conftest import AVERAGING, FILES, STAGES

# --- places -------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["../..", "/tmp/elsewhere", "a/../../b"])
def test_a_recipe_writes_below_the_current_folder_only(recipe, run, folder):
    path = recipe(AVERAGING.replace("[settings]", f'[settings]\nout = "{folder}"'))
    done = run("plan", path, "--dry-run")
    assert (done.code, done.out) == (65, "")
    assert "recipe.toml" in done.err and "--allow-outside" in done.err
    assert run("plan", path, "--dry-run", "--allow-outside").code == 0
    assert run("plan", path, f"out={folder}", "--dry-run").code == 0


@pytest.mark.parametrize("name", ["../x.json", "/tmp/x.json", "r{round}/../../x.json"])
def test_a_file_of_a_recipe_is_below_the_run(recipe, run, name):
    path = recipe(AVERAGING.replace("r{round}/knn.json", f"{name}{{round}}"))
    done = run("plan", path, "--dry-run")
    assert (done.code, done.out) == (65, "")
    assert "[files] knn" in done.err and "--allow-outside" in done.err
    assert run("plan", path, "--dry-run", "--allow-outside").code == 0


def test_a_setting_cannot_lead_a_file_out_of_the_run(recipe, run):
    path = recipe(AVERAGING.replace("r{round}/knn", "{data}/r{round}/knn"))
    done = run("plan", path, "data=../digits", "--dry-run")
    assert done.code == 65 and "[files] knn" in done.err


@pytest.mark.parametrize(
    "words", ["--private-out=/tmp/x", "--private-out=../x", "--features-out=/tmp/f"]
)
def test_a_command_writes_planned_files_only(recipe, run, words):
    done = run(
        "plan", recipe(AVERAGING.replace("-o {upload}", f"-o {{upload}} {words}"))
    )
    assert (done.code, done.out) == (65, "")
    assert "[stages] train" in done.err and words.partition("=")[0] in done.err
    joined = AVERAGING.replace("-o {upload}", "-o {upload} -o/tmp/other")
    done = run("plan", recipe(joined), "--allow-outside")
    assert done.code == 65 and "/tmp/other" in done.err


@pytest.mark.parametrize("key", ["private-out", "features-out", "output"])
def test_a_preset_names_no_file_that_is_written(recipe, run, world, tmp_path, key):
    written = tmp_path / "outside"
    Path("theirs.toml").write_text(f'[local-train]\n{key} = "{written}"\n')
    done = run("plan", recipe(), "preset=theirs.toml")
    assert (done.code, done.out) == (65, "")
    assert "theirs.toml" in done.err and key in done.err
    words = ("--data", "digits", "--client", 0, "--preset", "theirs.toml")
    done = run("local-train", world.partition, world.model, *words, "-o", "x.st")
    assert done.code == 2 and key in done.err and not written.exists()


def test_a_recipe_or_preset_cannot_choose_where_caches_are(recipe, run):
    text = AVERAGING.replace("[settings]", '[settings]\ncache = "/tmp/cache"')
    done = run("plan", recipe(text), "--dry-run")
    assert done.code == 65 and "/tmp/cache" in done.err
    assert run("plan", "recipe.toml", "cache=/tmp/cache", "--dry-run").code == 0
    assert run("plan", "recipe.toml", "--allow-outside", "--dry-run").code == 0
    Path("theirs.toml").write_text('[partition]\ncache = "/tmp/cache"\n')
    done = run("plan", recipe(), "preset=theirs.toml", "--dry-run")
    assert done.code == 65 and "/tmp/cache" in done.err
    download = "[settings]\ndownload = true\ndata_root = '/tmp/data'"
    done = run("plan", recipe(AVERAGING.replace("[settings]", download)), "--dry-run")
    assert done.code == 65 and "/tmp/data" in done.err


def test_leave_own_out_is_no_file(recipe, plan):
    more = "--dictionary-size 5 --leave-own-out --features-out {rows} -o {upload}"
    text = AVERAGING.replace("-o {upload}", more.replace("--dictionary-size 5 ", ""))
    text = text.replace(
        "[files]", '[files]\nrows = "r{round}/rows_{client}.safetensors"'
    )
    path = recipe(text)
    steps = plan(
        path, "train=--objective moco --dictionary d.safetensors --participants 3"
    )
    assert sum("--leave-own-out" in step["command"] for step in steps) == 6


# --- values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["1" * 5000, "0x" + "f" * 5000, "1e999", "nan", "-inf"]
)
def test_a_number_that_no_option_takes_is_refused(recipe, run, value):
    for key in ("seed", "clients"):
        text = AVERAGING.replace("clients = 3", f"{key} = {value}")
        done = run("plan", recipe(text))
        assert (done.code, done.out) == (65, "") and "recipe.toml" in done.err
    Path("mine.toml").write_text(f"[local-train]\nepochs = {value}\n")
    done = run("plan", recipe(), "preset=mine.toml")
    assert done.code == 65 and "bug" not in done.err


def test_half_a_sign_in_a_record_is_refused(recipe, run):
    assert run("plan", recipe(), "-o", "run.mk").code == 0
    path = Path("exp/plan/recipe.json")
    noted = json.loads(path.read_text())
    noted["files"]["knn"] = "\ud800{round}"
    path.write_text(json.dumps(noted))
    done = run("status", "exp")
    assert done.code == 65 and "recipe.json" in done.err
    noted["files"]["knn"] = "\U0001f600{round}"
    path.write_text(json.dumps(noted))
    assert run("status", "exp").code == 0


def test_two_plans_of_a_folder_do_not_mix(recipe, run, snapshot):
    assert run("plan", recipe(), "train=--epochs 2", "-o", "run.mk").code == 0
    with holding(Path("exp/plan/recipe.json")):
        before = snapshot(Path())
        done = run("plan", "recipe.toml", "train=--epochs 3", "-o", "other.mk")
        assert done.code == 75 and "exp/plan/recipe.json" in done.err
        assert snapshot(Path()) == before


def test_the_rules_are_none_of_the_files_they_make(recipe, run):
    """make would carry out a rule for its own file at once, even with -n."""
    path = recipe(AVERAGING.replace("r{round}/knn.json", "knn{round}.mk"))
    done = run("plan", path, "out=.", "-o", "./knn001.mk")
    assert done.code == 2 and "knn001.mk" in done.err


@pytest.mark.parametrize(
    "name",
    [
        *(".SECONDEXPANSION", "./.ONESHELL", "-include", "include", "define", "all"),
        *("$(shell touch canary)", "${shell touch canary}"),
    ],
)
def test_names_that_make_reads_as_its_own_words_are_refused(recipe, run, name):
    path = recipe(f'{AVERAGING}\n[files]\npartition = "{name}"'.replace(FILES, ""))
    path.write_text(path.read_text() + FILES.replace("[files]", ""))
    done = run("plan", path, "out=.", "-o", "run.mk")
    assert done.code in (2, 65) and name in done.err
    assert not Path("run.mk").exists()


def test_a_plan_as_json_is_json(recipe, run):
    names = [f"a{sign}b" for sign in "\x7f\x9b\u2028\u202e\u3000\U000e0001é語😀"]
    for name in names:
        done = run("plan", recipe(), f"data={name}", "--as", "json", "--dry-run")
        assert json.loads(done.out)[0]["settings"]["data"] == name
        assert (
            run("plan", "recipe.toml", f"data={name}", "--as", "json", "-o", "x").code
            == 0
        )
        assert json.loads(Path("x").read_text())[0]["settings"]["data"] == name


def test_a_script_on_stdout_has_every_word_as_it_is(recipe, run):
    for form in ("make", "sh"):
        done = run("plan", recipe(), "data=a\x9bb", "--as", form)
        assert (done.code, done.out) == (2, "") and "-o" in done.err


# --- random recipes -----------------------------------------------------------------------

# Notes the number of its words and the words, and writes what it is told to write.
RECORDER = r"""
calls=$1
shift
printf '%s\0' "$#" "$@" >> "$calls"
while test $# -gt 0; do
    case $1 in
    -o)
        case $2 in */*) mkdir -p "${2%/*}" || exit 1 ;; esac
        : > "$2" || exit 1 ;;
    esac
    shift
done
"""
SIGNS = "!\"#$%&'()+,-.:;<=>@^_`{|}~ *?\\\t\n\r\x7f\x9b\u202e\u3000é語😀aAzZ019"
HOSTILE = [
    *(".SECONDEXPANSION", ".PHONY", ".DEFAULT", ".ONESHELL", ".POSIX", ".WAIT"),
    *(
        "-include",
        "include",
        "sinclude",
        "define",
        "export",
        "ifdef",
        "override",
        "load",
    ),
    *("$(shell touch canary)", "${shell touch canary}", "$$(shell touch canary)"),
    *("`touch canary`", "$(touch canary)", "';touch canary;'", '";touch canary;"'),
    *(
        "a\n\ttouch canary",
        "a\nall: ; touch canary",
        "x; touch canary",
        "x|touch canary",
    ),
    *(
        "x:=$(shell touch canary)",
        "--help",
        "-n",
        "-o",
        "--output=canary",
        "~",
        "%",
        "%.o",
    ),
    *(
        "all",
        "run.mk",
        "Makefile",
        "a b",
        "..",
        ".",
        "&",
        "a&",
        "(x)",
        "x(y)",
        "#",
        "=",
    ),
    *("!=touch canary", "x != touch canary", "-f", ".c.o", "a\\", "\\", "'", '"', "\0"),
]


def hostile_name(draw):
    """A word of a recipe: a known trick, or some signs."""
    if draw.random() < 0.5:
        name = draw.choice(HOSTILE)
    else:
        name = "".join(draw.choice(SIGNS) for _ in range(draw.randint(1, 8)))
    return draw.choice(["", "", "", "./", "r{round}/", "x/"]) + name


def maybe(draw, usual, share=0.3):
    return hostile_name(draw) if draw.random() < share else usual


def toml(text):
    """Text as a string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def random_recipe(draw):
    """A recipe with hostile names of files, settings, stages and folders."""
    files = {
        "global": f"{maybe(draw, 'r{round}/g')}{{round}}",
        "upload": f"{maybe(draw, 'r{round}/c')}{{round}}_{{client}}",
        "knn": f"{maybe(draw, 'r{round}/')}knn{{round}}",
        "partition": maybe(draw, "p.st").replace("{round}", ""),
        "last": maybe(draw, "last.json", 0.6).replace("{round}", ""),
    }
    name = draw.choice(["last", "all", "define", "export"])
    stages = (
        STAGES + f'{name} = "evaluate knn {{global@final}} --data {{data}} -o {{last}}"'
    )
    given = ""
    if draw.random() < 0.3:
        stages = stages.replace("-o {global}", "--parent {given} -o {global}")
        given = f"[inputs]\ngiven = {toml(maybe(draw, 'g.st', 0.7))}"
    lines = [
        "[settings]", f"data = {toml(maybe(draw, 'digits'))}", "clients = 2", "rounds = 1",
        f"out = {toml(draw.choice(['.', '.', '.', 'exp', hostile_name(draw)]))}",
        f"train = {toml(maybe(draw, '', 0.1))}",
        f"keep = {toml(draw.choice(['all', 'last']))}", "[files]",
        *(f"{name} = {toml(path)}" for name, path in files.items()), given, stages,
    ]  # fmt: skip
    return "\n".join(lines)


def carried_out(folder, form, environment, *words):
    """Run a printed plan in a folder; the words of each call of the program."""
    calls = folder.parent / "calls"
    calls.unlink(missing_ok=True)
    command = ["sh", "run.mk"] if form == "sh" else ["make", "-f", "run.mk", *words]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace",
        env=environment, timeout=60,
    )  # fmt: skip
    return done, list(_calls(calls.read_bytes().decode() if calls.exists() else ""))


def _calls(text):
    """The words of each call."""
    words = iter(text.split("\0")[:-1])
    for count in words:
        yield [next(words) for _ in range(int(count))]


def check_random_recipes(first, count, run, tmp_path, monkeypatch):
    """Plan and run recipes; returns how many were accepted."""
    recorder = tmp_path / "recorder.sh"
    recorder.write_text(RECORDER)
    theirs = {k: v for k, v in os.environ.items() if k not in MAKES_OWN}
    program = f"sh {recorder} {tmp_path}/calls"
    environment = {**theirs, "FURLKIT": program}
    accepted = 0
    for seed in range(first, first + count):
        draw = random.Random(seed)
        text, form = random_recipe(draw), draw.choice(["make", "sh"])
        folder = tmp_path / f"r{seed}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("recipe.toml").write_text(text)
        accepted += _check_one(run, folder, form, environment)
        assert not list(tmp_path.rglob("canary")), text
        monkeypatch.chdir(tmp_path)
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    return accepted


def _check_one(run, folder, form, environment):
    listed = run("plan", "recipe.toml", "--as", "json", "--dry-run")
    done = run("plan", "recipe.toml", "--as", form, "-o", "run.mk")
    assert listed.code in (0, 2, 65) and "bug" not in listed.err + done.err
    if done.code or listed.code:
        assert done.code in (0, 2, 65, 74), done.err  # out may be run.mk.
        return 0
    steps = [step for one in json.loads(listed.out) for step in one["steps"]]
    planned = [[*step["command"], "-q"] for step in steps]
    written = {path for step in steps for path in step["writes"]}
    for path in {path for step in steps for path in step["reads"]} - written:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        if not Path(path).exists():
            Path(path).touch()
    if form == "make":
        shown, calls = carried_out(folder, form, environment, "-n")
        assert shown.returncode == 0, shown.stderr
        assert [call[:2] for call in calls] == [["status", "--settle"]]
    ended, (settled, *calls) = carried_out(folder, form, environment)
    assert settled[:3] == ["status", "--settle", "--by"] and len(settled) == 5
    assert Path(settled[4]) == Path(json.loads(listed.out)[0]["out"])
    assert all(call in planned for call in calls)
    if ended.returncode:  # One file is the folder of another one.
        assert "irectory" in ended.stderr, ended.stderr
        return 0
    assert sorted(calls) == sorted(planned)
    assert sum(Path(path).exists() for path in written) >= len(written) - 2
    return 1


def test_random_recipes_run_planned_commands_only(run, tmp_path, monkeypatch):
    assert check_random_recipes(0, 150, run, tmp_path, monkeypatch) > 15


@pytest.mark.slow
def test_5000_random_recipes_run_planned_commands_only(run, tmp_path, monkeypatch):
    assert check_random_recipes(1000, 5000, run, tmp_path, monkeypatch) > 500
