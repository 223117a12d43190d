"""The program `furlkit`: commands and exit codes."""

import os
import resource
import signal
import sys
from typing import NoReturn

import click
from click.shell_completion import shell_complete

from furlkit import __version__, catalogue, console, runtime
from furlkit.cli import INTERRUPTED
from furlkit.cli.shared import CLICKS, Commands
from furlkit.errors import FurlkitError, Stopped
from furlkit.files import bugs
from furlkit.training import signals as stopping

DISK = 74
COMPLETE = "_FURLKIT_COMPLETE"  # Set by a shell that asks for a completion.
HELP = """Federated unsupervised representation learning, a command for every stage.

\b
A round by hand:
  furlkit partition --data digits --clients 5 -o p.safetensors
  furlkit init --data digits --width 0.25 -o r0.safetensors
  furlkit local-train p.safetensors r0.safetensors --data digits --client 0-4 \\
      -o 'r1_client_{client}.safetensors'
  furlkit aggregate r1_client_*.safetensors -o r1.safetensors
  furlkit evaluate knn r1.safetensors --data digits -o r1.json

`furlkit COMMAND --help` shows the options of a command; if a command has many options,
--help shows the most used options and --help-all shows every option. `furlkit inspect`
explains a file. `furlkit --help-words` explains words like h, probe and upload.
"""
furlkit = Commands(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
click.version_option(__version__, prog_name="furlkit")(furlkit)


def _show_words(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        formatter = context.make_formatter()
        formatter.write_dl([*catalogue.GLOSSARY.items()])
        click.echo(formatter.getvalue(), nl=False)
        context.exit()


click.option(
    "--help-words", is_flag=True, is_eager=True, expose_value=False,
    callback=_show_words, help="Explain words like h, z, probe and spread, and exit.",
)(furlkit)  # fmt: skip


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the program and exit with the code of the outcome."""
    if runtime.is_helper():
        _help_first_process()
    console.open_missing_streams()
    console.escape_unprintable()
    try:
        code = _outcome(arguments)
        # From here on Ctrl-C ends the process without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except Stopped as stopped:
        # A second signal, while the first one or an error was being reported.
        code = stopped.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    if runtime.processes() > 1:
        from furlkit.training import processes

        processes.stop()
    console.release_streams()
    sys.exit(code)


def _help_first_process() -> NoReturn:
    runtime.set_isa("auto")
    from furlkit.training import processes

    try:
        processes.help_first_process()
    except processes.LostProcessError as error:
        console.error(str(error))
        sys.exit(error.exit_code)
    sys.exit(0)


def _outcome(arguments: list[str] | None) -> int:
    try:
        stopping.install()
        with bugs.kept(expected=CLICKS):
            if request := os.environ.get(COMPLETE):
                return shell_complete(furlkit, {}, "furlkit", COMPLETE, request)
            _run_command(arguments)
    except (FurlkitError, Stopped) as error:
        console.error(str(error))
        return error.exit_code
    except click.ClickException as error:
        if not isinstance(error, click.exceptions.NoArgsIsHelpError):
            # It may quote a preset; a help text quotes nothing and has many lines.
            error.message = console.one_line(error.message)  # type: ignore[misc]
        with console.unwritable_ignored:
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        console.error("interrupted; run the same command again to resume")
        return INTERRUPTED
    except MemoryError:
        console.error(f"out of memory; {_memory_remedy()}")
        return FurlkitError.exit_code
    except OSError as error:
        cause = error.strerror or error
        console.error(f"{error.filename or 'input or output'}: {cause}{_remedy(error)}")
        return DISK
    finally:
        console.settings.reset()
    return 0


def _run_command(arguments: list[str] | None) -> None:
    """Run a command; a reader of --help that ends early, like `head`, is no failure."""
    stdout = sys.stdout
    try:
        furlkit.main(arguments, prog_name="furlkit", standalone_mode=False)
    except SystemExit:
        # After a broken pipe click replaces stdout and exits with 1.
        if sys.stdout is stdout:
            raise


def _memory_remedy() -> str:
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    if allowed == resource.RLIM_INFINITY:
        return "smaller batches, images or parts would need less"
    return (
        f"this process may use {allowed // 2**20:,} MB (ulimit -v), and PyTorch alone "
        "maps about 3,000 MB; raise the limit"
    )


def _remedy(error: OSError) -> str:
    # The message of Python's tempfile, which has no class for this error.
    missing = "No usable temporary directory" in str(error)
    return "; set TMPDIR to a folder that you can write" if missing else ""
