"""Run the lines of lines.txt in this folder, with the furlkit on Python's path.

python drive.py LINES: writes log.txt (output and exit code of every line) and sums.txt
(a hash of every file). Both are equal for versions of furlkit that do the same.
"""

import contextlib
import hashlib
import io
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

# Values that differ between equal runs: speed, times, versions, names of processes.
VARYING = (
    (r"[\d,.]+ images/s", "N images/s"),
    (r"[\d.]+ CPU seconds", "N CPU seconds"),
    (r'"(\w*_seconds|input_share|samples_per_second)": [\d.e-]+', r'"\1": N'),
    (r"/tmp/\w+\.replay", "REPLAY"),
    (r"disk: [\d,]+ bytes", "disk: N bytes"),
    (r"[\d.]+ kB", "N kB"),
)
RECIPE = """
[settings]
data = "d.npz"
clients = 3
rounds = 2
[files]
global = "r{round}/global.safetensors"
upload = "r{round}/client_{client}.safetensors"
knn = "r{round}/knn.json"
[stages]
partition = "partition --data {data} --clients {clients} -o {partition}"
init = "init --data {data} --width 0.02 -o {global@0}"
train = "local-train {partition} {global@last} --data {data} --client {client} -o {upload}"
average = "aggregate {upload*} --parent {global@last} -o {global}"
knn = "evaluate knn {global} --data {data} --test-data t.npz -o {knn}"
"""


def write_world() -> None:
    """Write the files that the lines read."""
    digits = load_digits()
    images = (digits.images * 255 / 16).astype(np.uint8)[..., None]
    for name, part in (("d.npz", slice(0, 80)), ("t.npz", slice(80, 120))):
        np.savez(name, images=images[part], labels=digits.target[part])
    noise = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 1), np.uint8)
    np.savez("plain.npz", images=noise)
    Path("recipe.toml").write_text(RECIPE)


def outcome(words: list[str]) -> tuple[int, str]:
    """Exit code and output of a command line; messages follow the results."""
    from furlkit.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as done:
            code = int(done.code or 0)
    text = f"{out.getvalue()}--\n{err.getvalue()}"
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return code, text.replace(str(Path.cwd()), "HERE")


def sum_of(path: Path) -> str:
    """Hash of a file; of sealed scores the content hash, which leaves out CPU seconds."""
    data = path.read_bytes()
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return json.loads(data)["content"]
    here = str(Path.cwd()).encode()
    return hashlib.sha256(data.replace(here, b"HERE")).hexdigest()


def main(lines: Path) -> None:
    """Run the lines, and record output, exit codes and hashes."""
    write_world()
    with open("log.txt", "w") as log:
        for line in lines.read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            refused = line.startswith("!")
            code, text = outcome(shlex.split(line.removeprefix("!")))
            odd = "" if refused == bool(code) else "  <-- unexpected"
            log.write(f"$ {line}\n[{code}]{odd}\n{text}\n")
            log.flush()
    files = sorted(path for path in Path().rglob("*") if path.is_file())
    # Journals, receipts, caches and pages have times.
    varying = (
        "log.jsonl",
        "made.jsonl",
        "contents.json",
        ".html",
        "log.txt",
        "sums.txt",
    )
    with open("sums.txt", "w") as sums:
        for path in files:
            if path.parts[0] not in (".cache", "tables", "points") and not (
                path.name.endswith(varying)
            ):
                sums.write(f"{sum_of(path)}  {path}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
