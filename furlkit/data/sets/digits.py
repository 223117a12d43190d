"""The embedded dataset: 1,797 handwritten digits of 8 x 8 grey pixels.

The digits are part of scikit-learn, and the packaged table is read directly: importing
scikit-learn takes a second, reading the table a hundredth of a second.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from furlkit.errors import InputError

MEAN: tuple[float, ...] = (0.3053,)
STD: tuple[float, ...] = (0.3759,)
CLASSES = tuple("0123456789")


def read_digits(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 8, 8, 1) uint8 and labels of `train` or `test`, in original order.

    Every fifth image is a test image: 1,438 to train, 359 to test.
    """
    table = _read_table()  # (1797, 65): 64 pixels of 0 to 16, and the label
    chosen = (np.arange(len(table)) % 5 == 4) == (split == "test")
    pixels = np.rint(table[chosen, :64] * (255 / 16)).astype(np.uint8)
    return pixels.reshape(-1, 8, 8, 1), table[chosen, 64].astype(np.int64)


def _read_table() -> np.ndarray:
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise InputError(
            "digits: scikit-learn, which contains this dataset, is not installed; "
            "run pip install scikit-learn"
        )
    path = Path(spec.origin).with_name("datasets") / "data" / "digits.csv.gz"
    return np.loadtxt(path, delimiter=",", dtype=np.uint8)
