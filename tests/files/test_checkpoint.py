import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.checkpoint import (
    CheckpointFacts,
    check_finite,
    open_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance

FACTS = CheckpointFacts(
    "client", 3, {"encoder": "toy"}, [0.5], [0.25], client=2, examples=7, loss=1.5
)
PROVENANCE = Provenance("local-train", {"lr": 0.1}, 4, {"global": "a" * 64})
TENSORS = {"w": np.array([1, 2], np.float32), "n": np.array(5)}


def test_checkpoint_is_read_as_it_was_written(tmp_path):
    content = write_checkpoint(tmp_path / "c", TENSORS, FACTS, PROVENANCE)
    read = read_checkpoint(tmp_path / "c")
    assert read.facts == FACTS
    assert read.content == content
    assert read.header.options == {"lr": 0.1} and read.header.seed == 4
    assert read.header.inputs == {"global": "a" * 64}
    assert {k: v.tolist() for k, v in read.tensors.items()} == {"w": [1, 2], "n": 5}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_values_that_are_not_finite_are_neither_written_nor_read(
    tmp_path, value, dtype
):
    tensors = {"encoder.w": np.array([1, value, 2], dtype)}
    message = "c: encoder.w has 1 values that are NaN or infinite"
    with pytest.raises(InputError, match=message):
        write_checkpoint(tmp_path / "c", tensors, FACTS, PROVENANCE)
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "c", tensors, PROVENANCE.header("checkpoint", FACTS))
    with pytest.raises(InputError, match=message):
        read_checkpoint(tmp_path / "c")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_large_finite_values_are_fine(dtype):
    most = np.finfo(dtype).max
    check_finite("c", "w", np.full((3, 4), most, dtype))
    check_finite("c", "w", np.array(-most, dtype))
    check_finite("c", "w", np.empty((0, 4), dtype))
    check_finite("c", "n", np.array([2**62]))


@pytest.mark.parametrize(
    "facts, message",
    [
        ({"role": "spy"}, "is a checkpoint of the unknown role 'spy'"),
        ({"role": None}, "header fact 'role' is None"),
        ({"round": -1}, "header fact 'round' is -1"),
        ({"round": 1.5}, "header fact 'round' is 1.5"),
        ({"client": True}, "header fact 'client' is True"),
        ({"examples": "9"}, "header fact 'examples' is '9'"),
        ({"architecture": ["cnn5"]}, "header fact 'architecture' is ['cnn5']"),
        ({"mean": 0.5}, "header fact 'mean' is 0.5"),
        ({"std": ["1"]}, "header fact 'std' is ['1']"),
        ({"parent": 3}, "header fact 'parent' is 3"),
        ({"loss": "low"}, "header fact 'loss' is 'low'"),
        ({"mean": []}, "mean is []"),
        ({"std": []}, "and std is []"),
        ({"std": [0]}, "and std is [0]"),
        ({"std": [0.5, 0.5]}, "and std is [0.5, 0.5]"),
        ({"architecture": {"channels": 3}}, "expected 3 of each"),
        ({"invented": 1}, "facts do not fit a checkpoint file"),
    ],
)
def test_facts_that_make_no_sense(tmp_path, forge, facts, message):
    write_checkpoint(tmp_path / "c", TENSORS, FACTS, PROVENANCE)
    forge(tmp_path / "c", facts=facts)
    with pytest.raises(InputError) as caught:
        open_checkpoint(tmp_path / "c")
    assert str(caught.value).startswith(f"{tmp_path / 'c'}: ")
    assert message in str(caught.value)


def test_missing_fact(tmp_path):
    header = PROVENANCE.header("checkpoint", FACTS)
    del header.facts["architecture"]
    write(tmp_path / "c", TENSORS, header)
    with pytest.raises(InputError, match="c: facts do not fit.*architecture"):
        open_checkpoint(tmp_path / "c")


def test_whole_numbers_are_floats_too(tmp_path, forge):
    write_checkpoint(tmp_path / "c", TENSORS, FACTS, PROVENANCE)
    forge(tmp_path / "c", facts={"mean": [0], "loss": 2})
    assert open_checkpoint(tmp_path / "c")[1].mean == [0]
