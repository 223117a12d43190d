"""doctor: versions, devices, precisions and instruction sets of this machine."""

import os
from typing import Any

import torch

from furlkit import runtime
from furlkit.errors import FurlkitError
from furlkit.reports.text import byte_size, columns

PRECISIONS = ("float32", "bfloat16", "float16")


def run(_values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Describe the machine in lines for people and in facts for programs."""
    facts = {
        "versions": runtime.machine(),
        "threads": os.cpu_count() or 1,
        "isa": [name for name in runtime.FLAGS if _can_pin(name)],
        "devices": [_cpu(), *_accelerators()],
    }
    return "\n".join(columns(list(_rows(facts)))), facts


def _can_pin(isa: str) -> bool:
    try:
        runtime.isa_variables(isa, runtime.own_flags())
    except FurlkitError:
        return False
    return True


def _cpu() -> dict[str, Any]:
    precisions = [p for p in PRECISIONS if _computes(p)]
    return {
        "device": "cpu",
        "name": "CPU",
        **_main_memory(),
        "deterministic": "always",
        "precisions": precisions,
    }


def _main_memory() -> dict[str, int]:
    """Bytes of the machine's memory; empty where the system does not tell."""
    try:
        return {"memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}
    except (AttributeError, ValueError, OSError):
        return {}


def _computes(precision: str) -> bool:
    """Return whether the CPU runs a small convolution in this precision."""
    try:
        runtime.check_precision(precision, torch.device("cpu"))
    except FurlkitError:
        return False
    return True


def _accelerators() -> list[dict[str, Any]]:
    found = []
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        has_bfloat16 = about.major >= 8  # NVIDIA Ampere, or AMD's CDNA and later.
        precisions = [p for p in PRECISIONS if p != "bfloat16" or has_bfloat16]
        found.append(
            {
                "device": f"cuda:{number}",
                "name": about.name,
                "memory": about.total_memory,
                "deterministic": "unless --fast",
                "precisions": precisions,
            }
        )
    if torch.backends.mps.is_available():
        found.append(
            {
                "device": "mps",
                "name": "Apple GPU",
                "deterministic": "untested",
                "precisions": ["float32"],
            }
        )
    return found


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [(name, str(value)) for name, value in facts["versions"].items()]
    rows.append(("CPUs", str(facts["threads"])))
    rows.append(("--isa", ", ".join(["auto", "native", *facts["isa"]])))
    for each in facts["devices"]:
        memory = f", {byte_size(each['memory'])}" if "memory" in each else ""
        precisions = ", ".join(each["precisions"])
        same = f"deterministic: {each['deterministic']}"
        text = f"{each['name']}{memory}; {same}; --precision {precisions}"
        rows.append((f"--device {each['device']}", text))
    if len(facts["devices"]) == 1:
        rows.append(("", "PyTorch sees no GPU here"))
    return rows
