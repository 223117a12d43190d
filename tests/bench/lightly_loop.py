"""Two clients in parallel on two cores, compared with one lightly loop on both cores.

The lightly loop is the documented one: PIL images, SimCLRTransform, a DataLoader with
two workers, NTXentLoss; both use our net. It runs with one and with two threads, and
the faster one counts.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.world import BATCH, random_images
from tests.helpers import epochs

SECONDS = 20
IMAGES = 4096
WIDTH = {"0.1M": "0.1", "1M": "0.3"}


def run() -> Iterator[str]:
    """The ratio for each size of net."""
    try:
        import lightly  # noqa: F401
    except ImportError:
        yield "skipped: pip install 'furlkit[bench]' first"
        return
    for size in WIDTH:
        theirs = max(lightly_rate(size, threads) for threads in (1, 2))
        ours = two_clients_rate(size)
        bar = " (bar: 3.5)" if size == "0.1M" else ""
        yield (
            f"cnn5 of {size}: lightly {theirs:.0f} images/s, two clients {ours:.0f}, "
            f"ratio {ours / theirs:.2f}{bar}"
        )


def lightly_rate(size: str, threads: int) -> float:
    """Images per second of the lightly loop, in a new process."""
    command = [sys.executable, "-m", "tests.bench.lightly_loop", size, str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def two_clients_rate(size: str) -> float:
    """Images per second of two parallel `furlkit local-train`."""
    import numpy as np

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "images.npz", images=random_images(2 * IMAGES))
        data = ["--data", str(folder / "images.npz")]
        partition, model = str(folder / "p.safetensors"), str(folder / "g.safetensors")
        _furlkit("partition", *data, "--clients", "2", "-o", partition)
        _furlkit(
            "init", *data, "--width", WIDTH[size], "--projector", "128,64", "-o", model
        )
        outputs = [folder / f"c{k}.safetensors" for k in (0, 1)]
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "furlkit", "local-train", partition, model,
                 *data, "--client", str(k), "--epochs", "8" if size == "0.1M" else "3",
                 "--blur", "0.5", "-q", "-o", str(output)],
                stdout=subprocess.DEVNULL,
            )
            for k, output in enumerate(outputs)
        ]  # fmt: skip
        for process in running:
            process.wait()
        return sum(_last_rates(output) for output in outputs)


def _last_rates(output: Path) -> float:
    rates = [line["samples_per_second"] for line in epochs(output)]
    return sum(rates[1:]) / len(rates[1:])


def _furlkit(*arguments: str) -> None:
    command = [sys.executable, "-m", "furlkit", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _lightly(size: str, threads: int) -> None:
    import torch
    from lightly.loss import NTXentLoss
    from lightly.transforms import SimCLRTransform
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    from furlkit.runtime import Runtime, start
    from tests.bench.world import fresh_net

    class Pictures(Dataset):
        def __init__(self):
            self.pictures = [Image.fromarray(x) for x in random_images(IMAGES)]
            self.transform = SimCLRTransform(input_size=32, cj_strength=0.5)

        def __len__(self):
            return IMAGES

        def __getitem__(self, i):
            return self.transform(self.pictures[i])

    start(Runtime("cpu", threads))
    net = fresh_net(size).train()
    criterion = NTXentLoss(temperature=0.5)
    optimiser = torch.optim.Adam(net.parameters(), 1e-3, weight_decay=1e-6)
    loader = DataLoader(
        Pictures(),
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
    )
    done, began = 0, 0.0
    while began == 0.0 or time.perf_counter() - began < SECONDS:
        for x_1, x_2 in loader:
            z_1 = net.projector(net.encoder(x_1))  # type: ignore[misc]
            z_2 = net.projector(net.encoder(x_2))  # type: ignore[misc]
            loss = criterion(z_1, z_2)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            done += BATCH
        if began == 0.0:  # The first epoch is a warm-up.
            done, began = 0, time.perf_counter()
    print(done / (time.perf_counter() - began))


if __name__ == "__main__":
    _lightly(sys.argv[1], int(sys.argv[2]))
