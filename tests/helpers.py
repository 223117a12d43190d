"""Plain functions that many tests call; the fixtures are in conftest.py."""

import time
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

NET = ("--width", 0.02, "--projector", "16,8")
FLAT = ("--width", 0.05, "--projector", "8,4")


class Killed(BaseException):
    """Ends a stage in this process as a kill would: nothing is cleaned up."""


def killed(*_arguments: Any) -> NoReturn:
    """Stands in for a function at which a stage is to die."""
    raise Killed


def furlkit(*arguments: Any) -> int:
    """Call the program in this process; returns its exit code."""
    from furlkit.cli.program import _outcome

    return _outcome([str(argument) for argument in arguments])


def whole_header(path: Path) -> Any:
    """Header of a published file, completed by the record beside the file."""
    from furlkit.files.container.read import Container
    from furlkit.files.published import Withheld

    return Withheld().full_header(path, Container(path).header)


def save_digits(folder: Path, train: int, test: int) -> None:
    """Write the first digits (d.npz) and those after them (t.npz)."""
    import numpy as np

    from furlkit.data.sets.source import Source

    digits = Source("digits").images()
    parts = {"d.npz": slice(0, train), "t.npz": slice(train, train + test)}
    for name, part in parts.items():
        images, labels = digits.images[part], digits.labels[part]
        np.savez(folder / name, images=images, labels=labels)


def round_0(folder: Path, split: tuple = (), net: tuple = NET) -> Path:
    """Write a partition of digits (p.st) and a global model of round 0 (g.st)."""
    digits = ("--data", "digits")
    assert furlkit("partition", *digits, *split, "-o", folder / "p.st") == 0
    assert furlkit("init", *digits, *net, "-o", folder / "g.st") == 0
    return folder


def few_digits(folder: Path, clients: int, net: tuple = FLAT) -> Path:
    """Write 180 digits and 60 to test on, a partition (p) and a global model (g0)."""
    save_digits(folder, 180, 60)
    data = ("--data", folder / "d.npz")
    assert furlkit("partition", *data, "--clients", clients, "-o", folder / "p") == 0
    assert furlkit("init", *data, *net, "-o", folder / "g0") == 0
    return folder


def photographs(folder: Path, first: int, count: int) -> Path:
    """JPEG files of different sizes and shapes, cut from scikit-learn's pictures."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    folder.mkdir()
    pictures = load_sample_images().images
    for k in range(first, first + count):
        cut = pictures[k % 2][5 * k : 5 * k + 150 + k, 7 * k : 7 * k + 180]
        small = Image.fromarray(cut).resize((20 + 3 * k % 17, 24 + 5 * k % 19))
        (small.convert("L") if k % 5 == 4 else small).save(folder / f"{k}.jpg")
    return folder


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def progress_of(output: Path) -> Path:
    return output.with_name(output.name + ".progress")


def step_of(output: Path) -> int:
    """The step that an output's progress file has reached; 0 without a file."""
    from furlkit.errors import FurlkitError
    from furlkit.files.container.read import Container

    try:
        return Container(progress_of(output)).header.facts["step"]
    except FurlkitError:
        return 0


def hold_training(output: str, step: int, arguments: list[str]) -> NoReturn:
    """Run the program; at a step, an output's training waits for a signal.

    It waits as soon as the progress file, or an epoch in the journal, has reached the
    step: a test that watches both may be slow, and the training does not end before.
    """
    from furlkit.cli import main
    from furlkit.files.journal import Journal
    from furlkit.files.progress import ProgressFile
    from furlkit.training import signals

    save, write = ProgressFile.save, Journal.write
    progress, journal = progress_of(Path(output)), Journal(Path(output)).path

    def wait(reached: int) -> None:
        while reached >= step and not signals.requested():
            time.sleep(0.002)

    def save_and_wait(self: Any, reached: int, *state: Any) -> None:
        save(self, reached, *state)
        wait(reached if self.path == progress else 0)

    def write_and_wait(self: Any, entry: dict[str, Any]) -> None:
        write(self, entry)
        wait(entry.get("step", 0) if self.path == journal else 0)

    ProgressFile.save = save_and_wait  # type: ignore[method-assign]
    Journal.write = write_and_wait  # type: ignore[method-assign]
    main(arguments)


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of all files but the journals, which record throughput."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in paths
        if path.suffix != ".jsonl"
    }


def tensor_bytes(path: Path) -> dict[str, bytes]:
    """The bytes of each tensor of a file."""
    from safetensors.numpy import load_file

    return {name: array.tobytes() for name, array in load_file(path).items()}


def epochs(output: Path) -> list[dict[str, Any]]:
    """The lines of epochs in the journal beside an output; none before there is one."""
    from furlkit.files.journal import Journal

    return [line for line in Journal(output).read() if line["event"] == "epoch"]


def epoch_losses(path: Path) -> list[dict[str, float]]:
    """The losses of every epoch, from the journal beside an output."""
    return [line["losses"] for line in epochs(path)]


def decoded_or_reason(path: Path, channels: int, *reading: Any) -> Any:
    """Decode an image file; the reason if decoding failed."""
    from furlkit.data.sets.decode import decode_file, reason_of
    from furlkit.data.sets.window import NeedsWindow
    from furlkit.errors import InputError

    try:
        return decode_file(path, channels, *reading)
    except NeedsWindow as error:
        return str(error).removeprefix(f"{path}: ")
    except InputError as error:
        return reason_of(error.__cause__)


def write_alone(upload: Path, path: Path) -> None:
    """Write a masked upload for the sum of a single site, which has no masks."""
    import numpy as np

    from furlkit.aggregators.masked_sum import BITS, fixed_point
    from furlkit.files.checkpoint import read_checkpoint
    from furlkit.files.facts import Provenance
    from furlkit.files.masked import (
        WEIGHT,
        ZERO_WORDS,
        ZEROS,
        MaskedFacts,
        write_masked,
    )

    model, bits = read_checkpoint(upload), BITS["uniform"]
    client, about = model.facts.client, model.facts
    types = {name: array.dtype.name for name, array in model.tensors.items()}
    facts = MaskedFacts(
        client, about.round, about.run, about.parent, [client], "0" * 64, "uniform",
        bits, types, about.parts, about.statistics,
    )  # fmt: skip
    words = {**model.tensors, WEIGHT: np.ones(1), ZEROS: np.zeros(ZERO_WORDS)}
    tensors = {name: fixed_point(x, 1, bits) for name, x in words.items()}
    write_masked(path, tensors, facts, Provenance("mask upload"))
