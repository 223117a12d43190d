"""Containers and clusters: no user, no home, little memory, no temporary folder."""

import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from furlkit.files.cache import default_cache, open_cache

STRANGER = ("unshare", "--user", "--map-user=54321", "--map-group=54321")
SEALED = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
# The clone and its environment may be below /tmp, so /tmp is locked and not hidden.
WITHOUT_TEMPORARY = """
for folder in /tmp /var/tmp; do
    mount --rbind $folder $folder || exit 1
    mount -o remount,bind,ro,nosuid,nodev $folder || exit 1
done
cd /proc && exec "$@"
"""


def allows(*command) -> bool:
    if not shutil.which(command[0]):
        return False
    return subprocess.run([*command, "true"], capture_output=True).returncode == 0


needs_users = pytest.mark.skipif(
    not allows(*STRANGER), reason="no user namespaces here"
)


def call(environment, *words, before=(), **how):
    command = [*before, sys.executable, "-m", "furlkit", *map(str, words)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, **how
    )


@pytest.fixture
def homeless(environment):
    return {k: v for k, v in environment.items() if k not in ("HOME", "XDG_CACHE_HOME")}


def test_without_home_and_entry_in_passwd_there_is_no_cache(monkeypatch):
    def missing(user):
        raise KeyError(f"getpwuid(): uid not found: {user}")

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", missing)
    assert default_cache() is None and open_cache(None) is None
    monkeypatch.setenv("HOME", "relative")
    assert default_cache() is None


@pytest.fixture
def pictures(tmp_path):
    (tmp_path / "d/c").mkdir(parents=True)
    for number in range(8):
        pixels = np.full((8, 8), number, np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"d/c/{number}.png")
    return tmp_path / "d"


@needs_users
def test_a_user_without_home_and_name_can_check_a_folder(pictures, homeless):
    done = call(homeless, "check", pictures, before=STRANGER)
    assert done.returncode == 0, done.stderr
    assert "--cache" in done.stdout


@needs_users
@pytest.mark.slow
def test_a_user_without_home_and_name_can_train(pictures, world, homeless):
    train = ("local-train", world.model, "--data", pictures, "--client", "a")
    output = world.folder / "c.safetensors"
    words = (*train, "--epochs", 1, "--batch-size", 4, "-o", output)
    done = call(homeless, *words, before=STRANGER)
    assert done.returncode == 0, done.stderr
    assert output.exists()


def test_too_little_memory_for_pytorch_is_no_bug(world, environment):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (300 * 2**20, 300 * 2**20))

    train = ("local-train", world.partition, world.model, "--data", "digits")
    words = (*train, "--client", 0, "--epochs", 1, "-o", world.folder / "c")
    done = call(environment, *words, preexec_fn=limit)
    assert done.returncode == 1 and "bug" not in done.stderr
    assert "out of memory" in done.stderr and "300 MB (ulimit -v)" in done.stderr


@pytest.mark.skipif(
    not allows(*SEALED, WITHOUT_TEMPORARY, "sh"), reason="no mount namespaces here"
)
def test_without_a_temporary_folder_the_remedy_is_named(environment):
    before = (*SEALED, WITHOUT_TEMPORARY, "sh")
    chosen = ("TMPDIR", "TEMP", "TMP")
    silent = {k: v for k, v in environment.items() if k not in chosen}
    done = call(silent, "replay", "x", "--run", before=before)
    assert done.returncode == 74 and "TMPDIR" in done.stderr


def test_names_of_folders_do_not_depend_on_the_locale(tmp_path, environment):
    """Under the locale C, Python reads bytes beyond ASCII as lone surrogates."""
    for name in ("猫", "dog"):
        (tmp_path / "d" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "d" / name / "ü.png")
    (tmp_path / "t.csv").write_text("file,group\n猫/ü.png,1\ndog/ü.png,2\n", "utf-8")
    line = ("partition", "--data", tmp_path / "d", "--groups", tmp_path / "t.csv")
    made = []
    for locale, utf8 in (("C", "0"), ("C.UTF-8", "1")):
        own = {"LC_ALL": locale, "PYTHONUTF8": utf8, "PYTHONCOERCECLOCALE": "0"}
        out = tmp_path / locale
        done = call({**environment, **own}, *line, "--clients", 2, "-o", out)
        assert done.returncode == 0, done.stderr
        made.append(out.read_bytes())
    assert made[0] == made[1]
