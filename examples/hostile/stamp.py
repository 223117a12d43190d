"""Write test images with the trigger of a backdoor, to measure the attack's success.

    python examples/hostile/stamp.py TRAIN TEST OUTPUT.npz --target 0 --trigger 2

TRAIN and TEST are datasets or files with labels; --target is the position of the target
image in TRAIN, as in `furlkit attack --kind backdoor`. The output has the images of TEST
of other classes, each with the trigger and the label of the target. The accuracy of
`furlkit evaluate linear --test-data OUTPUT.npz` is the success of the attack.
"""

import argparse
from pathlib import Path

import numpy as np

from furlkit.attacks.backdoor import stamped
from furlkit.data.sets.source import Source


def main() -> None:
    """Read, stamp, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("output", type=Path)
    parser.add_argument("--target", type=int, default=0)
    parser.add_argument("--trigger", type=int, default=2)
    given = parser.parse_args()
    label = int(Source(given.train).labels().labels[given.target])
    test = Source(given.test, split="test").images()
    others = np.flatnonzero(np.asarray(test.labels) != label)
    images = stamped(np.asarray(test.images[others]), given.trigger)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    np.savez(given.output, images=images, labels=np.full(len(others), label))


if __name__ == "__main__":
    main()
