"""Completion of a command line by bash, zsh and fish."""

import pytest

BASH, ZSH, FISH = "bash_complete", "zsh_complete", "fish_complete"


@pytest.fixture
def ask(program, environment, monkeypatch, tmp_path):
    """Ask for completions of the last of some words, like a shell at TAB."""

    def call(request, line=""):
        words = line.split(" ")
        # fish gives the incomplete word itself, and the other shells give the number.
        last = words[-1] if request == FISH else str(len(words) - 1)
        asked = {"_FURLKIT_COMPLETE": request, "COMP_WORDS": line, "COMP_CWORD": last}
        for name, value in {**asked, "TMPDIR": str(tmp_path)}.items():
            monkeypatch.setitem(environment, name, value)
        done = program()
        assert (done.returncode, done.stderr) == (0, "")
        assert not [*tmp_path.iterdir()]
        return done.stdout.splitlines()

    return call


@pytest.mark.parametrize(
    "line, lines",
    [
        ("furlkit loc", ["plain,local-train"]),
        ("furlkit evaluate k", ["plain,knn"]),
        ("furlkit local-train --preset fedca --epo", ["plain,--epochs"]),
        ("furlkit local-train --preset nope --epo", ["plain,--epochs"]),
        ("furlkit local-train --nope --epo", ["plain,--epochs"]),
        ("furlkit evaluate linear --data-r", ["plain,--data-root"]),
        ("furlkit aggregate a.st -o ", ["file,"]),
        ("furlkit nope x", []),
        ("furlkit evaluate nope x", []),
    ],
)
def test_bash_gets_plain_completions(ask, line, lines):
    assert [line for line in ask(BASH, line) if line] == lines


def test_zsh_and_fish_get_completions_with_help(ask):
    name, word, *_ = ask(ZSH, "furlkit loc")
    assert (name, word) == ("plain", "local-train")
    assert "plain\tlocal-train" in ask(FISH, "furlkit loc")[0].replace(",", "\t")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(ask, shell):
    assert "_FURLKIT_COMPLETE" in "\n".join(ask(f"{shell}_source"))
