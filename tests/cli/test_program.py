"""The command line: its help, its streams, its exit codes."""

import json
import re
import shlex

import click
import pytest

from furlkit import __version__, catalogue, console
from furlkit.cli.program import furlkit as program
from furlkit.errors import (
    DiskError,
    FurlkitError,
    InputError,
    Stopped,
    TooEarlyError,
    UsageError,
)
from furlkit.files.journal import Journal


def commands(group=program, path=()):
    """Every command that does something, by its words."""
    for name in group.list_commands():
        words, command = (*path, name), group.get_command(None, name)
        if isinstance(command, click.Group):
            yield from commands(command, words)
        else:
            yield words, command


COMMANDS = dict(commands())
each = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def options(command) -> list[click.Option]:
    return [p for p in command.params if isinstance(p, click.Option)]


def examples(command) -> list[list[str]]:
    """The command lines in a help text, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", command.help or "")
    lines = (line.strip() for line in text.splitlines())
    return [shlex.split(line)[1:] for line in lines if line.startswith("furlkit ")]


def test_all_stages_are_there():
    names = {words[0] for words in COMMANDS}
    assert names >= {
        "partition", "init", "local-train", "aggregate", "embed", "evaluate", "inspect",
        "pack", "export", "plot",
    }  # fmt: skip


@each
def test_every_option_has_help(words):
    for option in options(COMMANDS[words]):
        assert option.help and option.help[0].strip(), option.name


@each
def test_every_command_says_what_it_does_and_shows_an_example(words):
    command = COMMANDS[words]
    first = command.help.splitlines()[0]
    assert first.endswith(".") and len(first) < 80
    assert re.search(r"^ *Examples?:$", command.help, re.MULTILINE)
    assert any(tuple(line[: len(words)]) == words for line in examples(command))


@each
@pytest.mark.parametrize("option", ["--help", "--help-all"])
def test_help_is_shown_and_fits_a_terminal(run, words, option):
    code, out, err = run(*words, option)
    assert code == 0 and err == ""
    assert out.startswith(f"Usage: furlkit {' '.join(words)}")
    assert max(map(len, out.splitlines())) <= 90


EXAMPLES = [line for c in (program, *COMMANDS.values()) for line in examples(c)]


@pytest.mark.parametrize("line", EXAMPLES, ids=" ".join)
def test_examples_in_the_help_parse(run, monkeypatch, line):
    called = []
    for command in COMMANDS.values():
        monkeypatch.setattr(command, "callback", lambda **given: called.append(given))
    outcome = run(*line)
    assert outcome.code == 0, outcome.err
    assert len(called) == 1


@each
def test_output_and_verbosity_options_are_the_same_everywhere(words):
    known = {name for option in options(COMMANDS[words]) for name in option.opts}
    assert {"--json", "-q", "--quiet", "-v", "--verbose", "--strict"} <= known
    printing = ("check", "inspect", "sample", "compare", "presets", "status", "replay",
                "doctor", "sign")  # fmt: skip
    if words[0] not in printing:
        assert {"-o", "--output"} <= known
        assert "--dry-run" in known or words[0] in ("plot", "ledger", "report", "log")


def test_version(run):
    assert run("--version") == (0, f"furlkit, version {__version__}\n", "")


@pytest.mark.parametrize("group", [(), ("plot",), ("evaluate",)], ids=str)
def test_a_group_without_a_command_prints_its_help(run, group):
    shown = run(*group, "--help").out
    assert run(*group) == (2, "", shown)
    assert len(shown.splitlines()) > 10 and "\\n" not in shown


@pytest.mark.parametrize(
    "line, words",
    [
        ("frobnicate", "No such command 'frobnicate'"),
        ("aggregate x --nope -o y", "No such option"),
        ("aggregate -o y", "Missing argument 'UPLOAD...'"),
        ("aggregate x", "Missing option '-o'"),
        ("aggregate x -o y --bn maybe", "Invalid value for '--bn'"),
        ("aggregate x -o y --at-least 0", "Invalid value for '--at-least'"),
        ("local-train p g --data digits --client 3x -o y", "--client"),
        ("local-train p q g --data digits --client 3 -o y", "PARTITION"),
        ("local-train p g --data digits --client -o y", "--client"),
        ("local-train p g --data digits --client 0 -o y --lr 0", "'--lr'"),
        ("local-train p g --data digits --client 0 -o y --lr nan", "'--lr'"),
        (
            "local-train p g --data digits --client 0 -o y --crop-scale 1",
            "--crop-scale",
        ),
        (
            "local-train p g --data digits --client 0 -o y --preset nope",
            "--preset nope",
        ),
        ("local-train p g --data digits --client 0-1 -o y", "pattern"),
        (
            "local-train p g --data digits --client 0 -o y --momentum 0.5",
            "--momentum",
        ),
        ("evaluate knn g -o y", "Missing option '--data'"),
        ("inspect", "Missing argument 'FILE...'"),
        ("sample --clients 0-9 --fraction 0", "--fraction 0"),
        ("plot curve -o x.png", "--series"),
    ],
)
def test_wrong_usage(run, tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*line.split())
    assert code == 2 and out == ""
    assert words in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["partition", "init", "embed {model}",
                                  "local-train {partition} {model} --client 0"])  # fmt: skip
def test_unknown_dataset_gives_a_hint(world, refused, line):
    places = {"model": world.model, "partition": world.partition}
    arguments = line.format(**places).split()
    words = ("cifar1O", "cifar10")
    rest = ("--data", "cifar1O", "-o", world.output)
    refused(world.folder, 2, words, *arguments, *rest)


def test_json_is_one_object_for_each_result(world, run):
    code, out, _ = run("aggregate", *world.clients, "--json", "-o", world.output)
    assert code == 0
    assert json.loads(out)["shares"].keys() == {"0", "1", "2"}
    code, out, _ = run("inspect", "--json", world.model, world.partition)
    kinds = [json.loads(line)["kind"] for line in out.splitlines()]
    assert code == 0 and kinds == ["checkpoint", "partition"]
    code, out, _ = run("sample", "--clients", "0-9", "--json")
    assert code == 0 and json.loads(out)


def test_result_on_stdout_and_the_rest_on_stderr(world, run):
    arguments = ("local-train", world.partition, world.model, "--data", "digits")
    rest = ("--client", "0,1", "--epochs", 1, "--batch-size", 400)
    pattern = ("-o", world.folder / "new_{client}.safetensors")
    loud = run(*arguments, *rest, *pattern)
    assert loud.code == 0
    assert len(loud.out.splitlines()) == 2 and "client 0 epoch 1/1" in loud.err
    quiet = run(*arguments, *rest, *pattern, "-q", "--force")
    assert quiet == (0, loud.out, "")
    dry = run(*arguments, *rest, *pattern, "--dry-run", "--json")
    assert [json.loads(line)["client"] for line in dry.out.splitlines()] == [0, 1]


def test_one_call_does_not_set_the_verbosity_of_the_next(world, run):
    assert run("inspect", world.model, "--json", "-q").code == 0
    assert not run("inspect", world.model).out.startswith("{")
    assert (console.settings.verbosity, console.settings.json) == (0, False)


COLOUR = ("init", "--image-size", 8, "--channels", 3)
COLOUR += ("--width", 0.02, "--projector", "8,4")


def test_strict_makes_a_warning_an_error_and_the_next_call_is_not_strict(
    world, run, refused
):
    """Grey weights are adapted to colour with a warning."""
    adapted = (*COLOUR, "--from", world.model, "-o", world.folder / "colour")
    words = [world.model, "adapted", "--strict"]
    refused(world.folder, 65, words, *adapted, "--strict")
    done = run(*adapted)
    assert done.code == 0 and done.err.count("warning: ") == 1
    assert run("inspect", world.model, "--strict").code == 0


def test_a_preset_may_be_strict(world, refused):
    preset = world.folder / "strict.toml"
    preset.write_text("[init]\nstrict = true\n")
    adapted = (*COLOUR, "--from", world.model, "-o", world.folder / "colour")
    refused(world.folder, 65, ["adapted"], *adapted, "--preset", preset)


def test_a_plan_checks_strict_commands_and_is_not_strict_itself(tmp_path, run):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[settings]\ndata = "digits"\nrounds = 1\n'
        '[files]\npartition = "p.st"\n[stages]\n'
        'partition = "partition --data {data} --strict -o {partition}"\n'
    )
    for data in ("digits", "mnist"):  # The second is a change, which warns.
        settings = (f"out={tmp_path / 'exp'}", f"data={data}")
        done = run("plan", recipe, *settings, "-o", tmp_path / "run.mk")
        assert done.code == 0, done.err
    assert "partition changes" in done.err


@pytest.mark.parametrize("no_color", ["1", ""])
def test_colour_only_on_a_terminal_that_wants_it(capsys, monkeypatch, no_color):
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    console.error("broken")
    err = capsys.readouterr().err
    assert "error: " in err and "broken" in err
    assert ("\033[" in err) == (no_color == "")


def test_no_escape_codes_in_redirected_output(world, program):
    done = program("inspect", world.model, world.folder / "nowhere")
    assert done.returncode == 65
    assert "\033" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "error, code",
    [
        (FurlkitError("so it is"), 1),
        (UsageError("so it is"), 2),
        (InputError("so it is"), 65),
        (DiskError("so it is"), 74),
        (TooEarlyError("so it is"), 75),
        (Stopped("so it is", 15), 75),
        (PermissionError(13, "so it is", "somewhere"), 74),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(run, monkeypatch, error, code):
    def fail(**_):
        raise error

    monkeypatch.setattr(COMMANDS[("inspect",)], "callback", fail)
    outcome = run("inspect", "x")
    assert outcome.code == code and outcome.out == ""
    assert "Traceback" not in outcome.err
    assert ("so it is" in outcome.err) or code == 130


def fail_in(monkeypatch, error):
    def fail(_values):
        raise error

    monkeypatch.setattr("furlkit.stages.inspect.run", fail)
    monkeypatch.setattr("furlkit.stages.partition.run", fail)


def test_an_error_that_nobody_expected_is_one_line_and_its_traceback_is_kept(
    run, monkeypatch, tmp_path
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fail_in(monkeypatch, KeyError("a\x1b[31m\nb"))
    outcome = run("inspect", "x")
    (kept,) = tmp_path.iterdir()
    assert outcome.code == 1 and outcome.out == ""
    assert outcome.err.startswith("error: KeyError: ") and outcome.err.count("\n") == 1
    assert f"the traceback is in {kept}; please report it" in outcome.err
    assert "\x1b" not in outcome.err and "line " in outcome.err
    assert kept.read_text().startswith("Traceback") and "in fail" in kept.read_text()


@pytest.mark.parametrize("begun", [True, False])
def test_the_traceback_goes_to_the_journal_that_was_begun(
    run, monkeypatch, tmp_path, begun
):
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    fail_in(monkeypatch, RuntimeError("odd"))
    journal = Journal(tmp_path / "p.st")
    if begun:
        journal.write({"event": "start"})
    outcome = run("partition", "--data", "digits", "-o", tmp_path / "p.st")
    assert outcome.code == 1
    assert (str(journal.path) in outcome.err) == begun == (not any(temporary.iterdir()))
    texts = [line.get("traceback", "") for line in journal.read()]
    assert ("RuntimeError: odd" in "".join(texts)) == begun


def test_messages_are_one_bounded_line_without_control_characters(capsys):
    console.warn("a\x1b[2J\r\nb\u202ec\x85" + "x" * 10_000 + "end")
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and len(err) < 2100
    assert err.startswith("warning: a\\x1b[2J\\r\\nb\\u202ec\\x85x")
    assert err.endswith("xend\n")


@pytest.mark.parametrize("as_json", [True, False])
def test_results_have_lines_and_tabs_and_no_other_control_characters(
    capsys, monkeypatch, as_json
):
    monkeypatch.setattr(console.settings, "json", as_json)
    text = "a\tb\nc\x7f\x1b[m\x9b\ud800é"
    console.result(text, {"text": text})
    out = capsys.readouterr().out
    if as_json:
        assert json.loads(out) == {"text": text} and out[:-1].isprintable()
    else:
        assert out == "a\tb\nc\\x7f\\x1b[m\\x9b\\ud800é\n"


# An option of local-train for each kind of value, and a value other than its default.
ONE_OF_EACH_KIND = {
    "--client": "3", "--data": "mnist", "--private": "x", "--send": "encoder",
    "--epochs": "7", "--lr": "0.5", "--crop-scale": "0.5,1", "--optimiser": "sgd",
    "--force": None, "--no-channels-last": None,
}  # fmt: skip


def built(run, monkeypatch, *more):
    """The options a command line of local-train makes."""
    from furlkit.stages import local_train

    seen = []
    monkeypatch.setattr(local_train, "run", lambda given: seen.append(given) or [])
    given = {"--data": "digits", "--client": "0", "--output": "o"}
    words = [word for name, value in given.items() for word in (name, value)]
    assert run("local-train", "p", "g", *words, *more).code == 0
    return seen[0]


def test_values_of_every_kind_reach_local_train(run, monkeypatch):
    declared = catalogue.COMMANDS["local-train"].options.values()
    tried = {f"--{o.name}": type(o.kind) for o in declared}
    kinds = {tried[name.replace("--no-", "--")] for name in ONE_OF_EACH_KIND}
    assert kinds == set(tried.values())
    usual = built(run, monkeypatch)
    for name, value in ONE_OF_EACH_KIND.items():
        words = [name] if value is None else [name, value]
        changed = built(run, monkeypatch, *words)
        assert [key for key in usual if usual[key] != changed[key]], name


PATHS = [
    (name, option)
    for name, entry in catalogue.COMMANDS.items()
    for option in entry.options.values()
    if isinstance(option.kind, catalogue.File | catalogue.Data)
]


@pytest.mark.parametrize(
    "name, option", PATHS, ids=[f"{name} --{o.name}" for name, o in PATHS]
)
def test_an_empty_path_is_wrong_usage(run, tmp_path, monkeypatch, name, option):
    monkeypatch.chdir(tmp_path)
    words = catalogue.COMMANDS[name].arguments
    outcome = run(*name.split(), f"--{option.name}", "", *["x" for _ in words])
    assert outcome.code == 2 and outcome.out == ""
    assert f"--{option.name}" in outcome.err and "is empty" in outcome.err
    assert not [*tmp_path.iterdir()]


def test_an_empty_argument_is_wrong_usage(refused, tmp_path):
    words = ("CHECKPOINT", "is empty")
    refused(tmp_path, 2, words, "evaluate", "knn", "", "--data", "digits", "-o", "s")
