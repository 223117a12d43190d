"""A stderr that is closed, full, or read by nobody stops no training."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from io import StringIO

import pytest

from furlkit import console
from tests.helpers import furlkit


def words_of(world, output):
    data = ("--data", "digits", "--client", "0", "--epochs", "2", "--batch-size", "240")
    return ("local-train", world.partition, world.model, *data, "-o", output)


def train(world, output):
    return [sys.executable, "-m", "furlkit", *words_of(world, output)]


@pytest.fixture(scope="module")
def expected(_world, tmp_path_factory) -> bytes:
    """What a training writes when all streams are open."""
    output = tmp_path_factory.mktemp("expected") / "new.safetensors"
    assert furlkit(*words_of(_world, output)) == 0
    return output.read_bytes()


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "0<&- 2>&-", "1>&- 2>&-"])
def test_training_without_stderr(world, environment, expected, streams):
    output = world.folder / "new.safetensors"
    command = ["sh", "-c", f'"$@" {streams}', "sh", *train(world, output)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0
    assert output.read_bytes() == expected
    if "1>" not in streams:
        assert done.stdout.startswith(f"{output}: client 0")
    assert "epoch" not in done.stdout


def test_training_whose_log_nobody_reads(world, environment, expected):
    output = world.folder / "new.safetensors"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        train(world, output), env=environment, stdout=subprocess.PIPE, stderr=write
    )
    os.close(write)
    assert done.returncode == 0 and done.stdout
    assert output.read_bytes() == expected


def test_help_that_nobody_reads_is_no_bug(environment):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "furlkit", "--help"],
        env=environment, stdout=write, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(
    "arguments, code", [(("inspect", "nowhere"), 65), (("inspect", "--no-such"), 2)]
)
def test_exit_codes_do_not_depend_on_stderr(environment, streams, arguments, code):
    command = [sys.executable, "-m", "furlkit", *arguments]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {streams}', "sh", *command],
        env=environment, capture_output=True,
    )  # fmt: skip
    assert done.returncode == code
    assert done.stdout == b""


class Gone(StringIO):
    """A terminal whose window was closed."""

    def isatty(self) -> bool:
        return True

    def write(self, _: str) -> int:
        raise OSError(5, "Input/output error")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_terminal_that_has_gone_stops_no_progress_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Gone())
    steps = []
    with console.bar("client 0", 3) as bar:
        for step in range(3):
            bar.reach(step)
            console.warn("so it goes")
            steps.append(step)
    assert steps == [0, 1, 2]


def test_a_file_never_becomes_stderr(world, environment):
    """Without care the first file that is opened gets descriptor 2."""
    code = (
        "import os, sys\n"
        "from furlkit import console\n"
        "console.open_missing_streams()\n"
        "handles = [os.open(sys.argv[1], os.O_RDONLY) for _ in range(3)]\n"
        "print(min(handles) > 2, sys.stderr.fileno())\n"
    )
    command = ["sh", "-c", '"$@" 2>&- 0<&-', "sh", sys.executable, "-c", code]
    done = subprocess.run(
        [*command, world.model], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "True 2\n"


def test_a_result_that_cannot_be_written_is_an_error(world, environment):
    command = [sys.executable, "-m", "furlkit", "inspect", world.model]
    done = subprocess.run(
        ["sh", "-c", '"$@" >/dev/full', "sh", *command],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 74
    assert "stdout: cannot write the result: No space left" in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_a_reader_that_has_gone_is_no_error(world, environment):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "furlkit", "inspect", world.model]
    done = subprocess.run(
        command, env=environment, stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def cats(tmp_path, world, forge):
    """A partition of classes with Chinese names."""
    names = [f"\u732b{number}" for number in range(10)]
    return forge(world.partition, facts={"class_names": names})


def in_ascii(environment):
    return {**environment, "PYTHONIOENCODING": "ascii"}


def test_a_pipe_in_the_c_locale_gets_utf_8(cats, environment):
    command = [sys.executable, "-m", "furlkit", "inspect", str(cats)]
    done = subprocess.run(command, env=in_ascii(environment), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "\u732b3" in done.stdout.decode()


def test_a_terminal_in_the_c_locale_shows_escapes(cats, environment):
    command = [sys.executable, "-m", "furlkit", "inspect", str(cats)]
    read, write = pty.openpty()
    with subprocess.Popen(command, env=in_ascii(environment), stdout=write) as process:
        os.close(write)
        shown = b""
        with suppress(OSError):  # Linux ends a closed terminal with an error.
            while block := os.read(read, 4096):
                shown += block
    os.close(read)
    assert process.returncode == 0
    assert b"\\u732b3" in shown


def test_json_has_null_for_numbers_that_json_lacks(tmp_path, run):
    journal = tmp_path / "c.log.jsonl"
    text = '{"step": 1, "loss": NaN, "sums": [Infinity, 2.5, {"x": -1e999}]}'
    journal.write_text(text + "\n")
    outcome = run("inspect", journal, "--json")

    def refuse(word):
        raise AssertionError(word)

    last = json.loads(outcome.out, parse_constant=refuse)["last"]
    assert last == {"step": 1, "loss": None, "sums": [None, 2.5, {"x": None}]}


INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from furlkit.cli import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize("module", ["click", "furlkit.catalogue.methods", "numpy"])
def test_ctrl_c_during_an_import_prints_no_traceback(world, environment, module):
    command = [sys.executable, "-c", INTERRUPTED, module, "inspect", world.partition]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: interrupted")


def test_nothing_is_imported_before_ctrl_c_is_taken_over(environment):
    """Until then Ctrl-C prints a traceback."""
    code = "import sys; a = set(sys.modules); import furlkit.cli; print(*set(sys.modules) - a)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert set(done.stdout.split()) <= {"furlkit", "furlkit.cli", "os"}, done.stderr
