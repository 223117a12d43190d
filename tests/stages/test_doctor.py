import json

import numpy as np
import torch

from furlkit import runtime


def test_the_machine_is_described_in_lines(run):
    outcome = run("doctor")
    assert outcome.code == 0 and outcome.err == ""
    rows = dict(
        line.split(maxsplit=1) for line in outcome.out.splitlines() if line[0] != " "
    )
    assert rows["torch"] == torch.__version__ and rows["numpy"] == np.__version__
    assert "--device cpu" in outcome.out and "float32" in outcome.out


def test_a_pinned_instruction_set_is_named_if_the_cpu_has_it(run, monkeypatch):
    monkeypatch.setattr(runtime, "own_flags", lambda: frozenset({"avx2", "fma"}))
    assert json.loads(run("doctor", "--json").out)["isa"] == ["avx2"]
    monkeypatch.setattr(runtime, "own_flags", frozenset)
    assert json.loads(run("doctor", "--json").out)["isa"] == []


def test_a_gpu_is_listed_with_its_memory(run, monkeypatch):
    class Properties:
        name, major, total_memory = "Test GPU", 7, 16 * 10**9

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    line = next(x for x in run("doctor").out.splitlines() if "cuda:0" in x)
    assert "Test GPU, 16.0 GB" in line and line.endswith("float32, float16")
    assert "deterministic: unless --fast" in line
    cpu = json.loads(run("doctor", "--json").out)["devices"][0]
    assert cpu["deterministic"] == "always"


def test_the_memory_of_the_machine_is_told(run):
    cpu = json.loads(run("doctor", "--json").out)["devices"][0]
    with open("/proc/meminfo") as stream:
        kilobytes = int(stream.readline().split()[1])
    assert cpu["memory"] == 1024 * kilobytes
