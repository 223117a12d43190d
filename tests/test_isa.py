"""--isa avx2 gives the same bytes on every x86 CPU that has AVX2."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from furlkit import runtime
from furlkit.files.checkpoint import read_checkpoint

# sha256 of the tensors that `trained` makes, by version of torch: other versions may
# round differently. A CPU that disproves one of these has found a fault of --isa.
TENSORS = {
    "2.15": "55ea232773328508c4999d7d6a06f945a896b0d1101c242e687fb08d76bfd5dc",
}
VERSION = ".".join(torch.__version__.split(".")[:2])
PINNED = ("--isa", "avx2")
# Each of them alone may change the bytes of a training that is not pinned.
OTHERS = {
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
}
FLAGS = runtime.own_flags()
pytestmark = pytest.mark.skipif(
    not set(runtime.FLAGS["avx2"]) <= FLAGS, reason="the CPU has no AVX2"
)


@pytest.fixture
def furlkit(environment):
    """Call the program in a process with these of the three variables."""
    unset = {k: v for k, v in environment.items() if k not in OTHERS}

    def call(*words: object, **variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "furlkit", *map(str, words)],
            capture_output=True, text=True, env={**unset, **variables},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stderr

    return call


@pytest.fixture
def trained(tmp_path, furlkit):
    """Make a model and train a client, in processes with these variables."""

    def call(name: str, *isa: str, **variables: str) -> tuple[Path, Path, str]:
        folder = tmp_path / name
        p, g, c = (folder / f"{kind}.safetensors" for kind in "pgc")
        net = ("--width", "0.05", "--projector", "16,8")
        how = ("--client", "0", "--epochs", "1", "--batch-size", "64")
        where = ("--device", "cpu", "--threads", "1")
        stages = (
            ("partition", "--data", "digits", "--clients", "3", "-o", p),
            ("init", "--data", "digits", *net, *isa, "-o", g),
            ("local-train", p, g, "--data", "digits", *how, *where, *isa, "-q", "-o", c),
        )  # fmt: skip
        said = [furlkit(*stage, **variables) for stage in stages]
        return g, c, said[-1]

    return call


def digest(path: Path) -> str:
    """sha256 of a checkpoint's tensors, whatever its header says."""
    whole = hashlib.sha256()
    for name, array in sorted(read_checkpoint(path).tensors.items()):
        whole.update(f"{name} {array.dtype} {array.shape}".encode())
        whole.update(array.tobytes())
    return whole.hexdigest()


def test_a_pinned_training_is_recorded_and_the_environment_does_not_matter(trained):
    g, c, said = trained("a", *PINNED)
    assert said == ""
    for path in (g, c):
        assert read_checkpoint(path).header.options["isa"] == "avx2"
    others = {**OTHERS, "MKL_CBWR": "AUTO"}
    g_other, c_other, said = trained("b", *PINNED, **others)
    assert said.count("warning: --isa avx2: sets ") == 3
    assert g.read_bytes() == g_other.read_bytes()
    assert c.read_bytes() == c_other.read_bytes()


def test_resized_images_are_pinned_too(furlkit, tmp_path):
    def packed(*isa: str, **variables: str) -> bytes:
        path = tmp_path / "d.safetensors"
        furlkit("pack", "digits", "--image-size", 29, *isa, "-o", path, **variables)
        return path.read_bytes()

    default = {"ATEN_CPU_CAPABILITY": "default"}
    pinned = packed(*PINNED)
    assert pinned == packed(*PINNED, **default)
    assert b"avx2" in pinned and b"avx2" not in packed()


@pytest.mark.skipif(VERSION not in TENSORS, reason=f"no digest for torch {VERSION}")
def test_the_promise_same_bytes_on_every_cpu_with_avx2(trained):
    assert digest(trained("a", *PINNED)[1]) == TENSORS[VERSION]


def test_the_set_of_another_cpu_is_refused_before_torch_is_imported(
    run, tmp_path, monkeypatch
):
    without = tmp_path / "cpuinfo"
    without.write_text("flags : sse2 avx\n")
    monkeypatch.setattr(runtime, "CPUINFO", without)
    before = dict(os.environ)
    done = run("init", "--data", "digits", *PINNED, "-o", tmp_path / "g")
    said = f"error: --isa avx2: this CPU has no avx2 ({without}); use --isa auto\n"
    assert done == (2, "", said)
    assert os.environ == before and not (tmp_path / "g").exists()


def test_in_a_process_that_has_torch_it_is_refused(run, tmp_path):
    done = run("init", "--data", "digits", *PINNED, "-o", tmp_path / "g")
    assert done.code == 2 and "use a new process" in done.err
