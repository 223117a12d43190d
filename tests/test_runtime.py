"""Instruction set, device and precision of a process."""

import os
import sys

import pytest
import torch
from threadpoolctl import threadpool_info

from furlkit import runtime
from furlkit.errors import FurlkitError, UsageError
from furlkit.runtime import Runtime, cpu_flags, set_isa, start
from furlkit.training.run import naming
from tests.helpers import furlkit

AVX2 = "fpu sse4_2 avx avx2 fma"
AVX512 = f"{AVX2} avx512f avx512dq avx512bw avx512vl"
AMX = f"{AVX512} avx512_bf16 amx_bf16 amx_tile amx_int8"
ONEDNN, ATEN, MKL = "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_CBWR"


def cpuinfo(flags: str, cpus: int = 2) -> str:
    lines = "processor\t: {}\nmodel name\t: Some CPU\nflags\t\t: {}\nbugs\t\t: none\n\n"
    return "".join(lines.format(number, flags) for number in range(cpus))


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A process that has not imported torch, on a CPU with these flags."""
    for name in (ONEDNN, ATEN, MKL, "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(runtime, "_replaced", {})

    def build(flags: str, imported: bool = False) -> None:
        path = tmp_path / "cpuinfo"
        path.write_text(cpuinfo(flags))
        monkeypatch.setattr(runtime, "CPUINFO", path)
        if not imported:
            monkeypatch.delitem(sys.modules, "torch")

    yield build
    for name in (ONEDNN, ATEN, MKL):  # monkeypatch forgets what was absent before.
        os.environ.pop(name, None)


def variables() -> dict[str, str]:
    return {
        name: os.environ[name] for name in (ONEDNN, ATEN, MKL) if name in os.environ
    }


def test_flags_are_those_of_the_first_cpu():
    assert cpu_flags(cpuinfo(AMX).splitlines()) == frozenset(AMX.split())
    arm = "processor\t: 0\nFeatures\t: fp asimd avx2\nCPU part\t: 0xd0c\n"
    assert cpu_flags(arm.splitlines()) == cpu_flags([]) == frozenset()


@pytest.mark.parametrize(
    "isa, flags, expected",
    [
        ("auto", "", {}),
        ("auto", AVX2, {}),
        ("auto", AVX512, {}),
        ("auto", AMX, {ONEDNN: "AVX512_CORE_BF16"}),
        ("native", "", {}),
        ("native", AMX, {}),
        ("avx2", AVX2, {ONEDNN: "AVX2", ATEN: "avx2", MKL: "COMPATIBLE"}),
        ("avx2", AMX, {ONEDNN: "AVX2", ATEN: "avx2", MKL: "COMPATIBLE"}),
        ("avx512", AMX, {ONEDNN: "AVX512_CORE", ATEN: "avx512", MKL: "COMPATIBLE"}),
    ],
)
def test_the_variables_of_each_choice(machine, isa, flags, expected):
    machine(flags)
    set_isa(isa)
    assert variables() == expected


@pytest.mark.parametrize(
    "isa, flags, missing",
    [
        ("avx2", "", "avx2"),
        ("avx2", "sse4_2 avx avx2", "fma"),
        ("avx512", AVX2, "avx512f"),
        ("avx512", f"{AVX2} avx512f avx512bw avx512dq", "avx512vl"),
        ("avx512", "", "avx2"),
    ],
)
def test_a_cpu_without_the_set_is_refused(machine, isa, flags, missing):
    machine(flags)
    with pytest.raises(UsageError, match=f"--isa {isa}: this CPU has no {missing} "):
        set_isa(isa)
    assert variables() == {}


def test_a_machine_without_cpuinfo_has_its_native_set_only(machine, monkeypatch):
    machine(AMX)
    monkeypatch.setattr(runtime, "CPUINFO", runtime.CPUINFO.with_name("missing"))
    set_isa("auto")
    assert variables() == {}
    with pytest.raises(UsageError, match="has no avx2"):
        set_isa("avx2")


@pytest.mark.parametrize("name", [ONEDNN, "DNNL_MAX_CPU_ISA"])
def test_auto_leaves_the_user_s_own_variable(machine, monkeypatch, capsys, name):
    machine(AMX)
    monkeypatch.setenv(name, "AVX512_CORE_AMX")
    set_isa("auto")
    assert variables() == ({ONEDNN: "AVX512_CORE_AMX"} if name == ONEDNN else {})
    assert capsys.readouterr().err == ""


def test_a_pinned_set_wins_over_the_environment_with_a_warning(
    machine, monkeypatch, capsys
):
    machine(AVX2)
    monkeypatch.setenv(ATEN, "default")
    monkeypatch.setenv(ONEDNN, "AVX2")
    set_isa("avx2")
    assert variables() == runtime.PINNED["avx2"]
    expected = f"warning: --isa avx2: sets {ATEN} to avx2, found default\n"
    assert capsys.readouterr().err == expected


def test_another_choice_before_torch_is_imported_undoes_the_first(machine, monkeypatch):
    machine(AVX512)
    monkeypatch.setenv(MKL, "AUTO")
    set_isa("avx2")
    set_isa("avx512")
    assert variables() == runtime.PINNED["avx512"]
    set_isa("native")
    assert variables() == {MKL: "AUTO"}


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_a_set_other_than_the_imported_one_is_refused(machine, isa):
    machine(AVX512, imported=True)
    with pytest.raises(UsageError, match="PyTorch was already imported") as caught:
        set_isa(isa)
    assert variables() == {} and caught.value.exit_code == 2
    with pytest.raises(UsageError, match="PyTorch was already imported"):
        runtime.start(Runtime("cpu", 1, isa))


def test_variables_set_after_the_import_are_noticed(machine, monkeypatch):
    machine(AVX512, imported=True)
    for name, value in runtime.PINNED["avx2"].items():
        monkeypatch.setenv(name, value)
    capability = torch.backends.cpu
    monkeypatch.setattr(capability, "get_cpu_capability", lambda: "AVX512")
    with pytest.raises(UsageError, match="PyTorch was already imported"):
        set_isa("avx2")
    monkeypatch.setattr(capability, "get_cpu_capability", lambda: "AVX2")
    set_isa("avx2")


def test_a_process_that_is_pinned_stays_pinned(machine, monkeypatch):
    machine(AVX512)
    set_isa("avx512")
    monkeypatch.setitem(sys.modules, "torch", torch)
    for isa in ("auto", "native", "avx2"):
        with pytest.raises(UsageError, match=f"--isa {isa}: PyTorch was already"):
            set_isa(isa)


@pytest.mark.parametrize("isa", ["auto", "native"])
def test_any_import_of_torch_will_do_without_a_pinned_set(machine, isa):
    machine(AMX, imported=True)
    set_isa(isa)
    assert variables() == {}


def test_resolved_options_have_the_set_only_if_it_is_pinned():
    plain = {"device": "cpu", "threads": 2}
    for isa in ("auto", "native"):
        assert Runtime("cpu", 2, isa).resolved_options() == plain
    assert Runtime("cpu", 2, "avx2").resolved_options() == {**plain, "isa": "avx2"}


def test_asking_for_the_device_sets_nothing():
    before = torch.get_num_threads()
    assert runtime.device_of(Runtime("cpu", before + 1)) == torch.device("cpu")
    assert torch.get_num_threads() == before


def test_importing_it_does_not_import_torch(python):
    lines = "import sys; import furlkit.runtime; print('torch' in sys.modules)"
    assert python(lines) == "False\n"


NO_PRIMITIVE = "could not create a primitive"


def failing(*_given):
    raise RuntimeError(NO_PRIMITIVE)


@pytest.mark.parametrize(
    "flags, message",
    [
        (
            AMX,
            "this CPU announces AMX but cannot run it; use --isa auto or --precision",
        ),
        (AVX2, "PyTorch could not create a primitive on this CPU; use --precision"),
    ],
)
@pytest.mark.parametrize("name", ["torch.nn.functional.conv2d", "torch.mm"])
def test_a_cpu_that_fails_in_bfloat16(machine, monkeypatch, name, flags, message):
    machine(flags, imported=True)
    monkeypatch.setattr(name, failing)
    cpu = torch.device("cpu")
    runtime.check_precision("float32", cpu)
    runtime.check_precision("bfloat16", torch.device("cuda"))
    for precision in ("bfloat16", "float16"):
        with pytest.raises(FurlkitError, match=message) as caught:
            runtime.check_precision(precision, cpu)
        assert caught.value.exit_code == 1


def test_other_failures_of_the_check_are_not_hidden(monkeypatch):
    def broken(*_given):
        raise RuntimeError("a bug")

    monkeypatch.setattr("torch.mm", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        runtime.check_precision("bfloat16", torch.device("cpu"))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_this_cpu_can_do_it(precision):
    runtime.check_precision(precision, torch.device("cpu"))
    torch.nn.functional.conv2d(torch.ones(1, 4, 8, 8), torch.ones(4, 4, 3, 3))


def test_a_training_on_such_a_cpu_ends_with_one_sentence(
    machine, world, refused, monkeypatch
):
    machine(AMX, imported=True)
    monkeypatch.setattr("torch.mm", failing)
    train = ("local-train", world.partition, world.model, "--data", "digits")
    words = ("--client", 0, "--device", "cpu", "--precision", "bfloat16", "-q")
    said = refused(
        world.folder, 1, ("announces AMX",), *train, *words, "-o", world.output
    )
    assert said.count("\n") == 1


def test_a_failure_during_training_is_named(machine):
    machine(AMX, imported=True)
    expected = pytest.raises(FurlkitError, match="client 3: this CPU announces AMX")
    with expected, naming("client 3"):
        failing()


def test_the_cpu_has_no_part_of_a_gpu_s_memory(world, refused):
    words = ("local-train", world.partition, world.model, "--data", "digits")
    cpu = ("--client", 0, "--device", "cpu", "--gpu-memory", 0.5, "-o", world.output)
    refused(world.folder, 2, ["--gpu-memory 0.5", "--device cuda"], *words, *cpu)


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU, on which nothing may be computed."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False


def algorithms():
    """Deterministic algorithms, the fastest of cuDNN, TF32."""
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        torch.backends.cuda.matmul.allow_tf32,
    )


def test_fast_chooses_other_algorithms_of_a_gpu_and_is_recorded(gpu):
    fast = Runtime("cuda", deterministic=False)
    runtime.start(fast)
    assert algorithms() == (False, True, True)
    assert fast.resolved_options()["deterministic"] is False
    runtime.start(Runtime("cuda"))
    assert algorithms() == (True, False, False)
    assert "deterministic" not in Runtime("cuda").resolved_options()


def test_fast_changes_no_byte_on_a_cpu(world):
    words = ("local-train", world.partition, world.model, "--data", "digits")
    short = ("--client", 0, "--epochs", 1, "--device", "cpu", "-q", "-o")
    before = algorithms()
    outputs = [world.folder / name for name in ("usual", "fast")]
    assert furlkit(*words, *short, outputs[0], "--deterministic") == 0
    assert furlkit(*words, *short, outputs[1], "--fast") == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert algorithms() == before


def test_numpy_has_as_many_threads_as_the_stage():
    start(Runtime("cpu", 1))
    pools = [one for one in threadpool_info() if one["user_api"] == "blas"]
    assert pools and {pool["num_threads"] for pool in pools} == {1}
