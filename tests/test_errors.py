"""Errors of other programs that mean a lack of memory."""

import errno

import pytest

from furlkit.errors import InputError, is_out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OSError("libcublas.so: failed to map segment from shared object"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_a_lack_of_memory_is_recognised(error):
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        ImportError("No module named 'timm'"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        InputError("x: out of memory is a word in a file name"),
        ValueError("out of memory"),
    ],
)
def test_other_errors_are_not(error):
    assert not is_out_of_memory(error)
