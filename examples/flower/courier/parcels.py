"""Files of one round as a Flower message, byte for byte, and the commands of a round."""

import re
import subprocess
from pathlib import Path
from shutil import rmtree

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

# A stranger's names must not leave the folder.
NAME = re.compile(r"([a-z]+/)?\w[\w-]*\.safetensors(\.sig)?", re.ASCII)


def pack(folder: Path, round_: int) -> RecordDict:
    """Return the safetensors files below a folder, and their signatures."""
    names = (str(path.relative_to(folder)) for path in sorted(folder.rglob("*.*")))
    files = {
        name: (folder / name).read_bytes() for name in names if NAME.fullmatch(name)
    }
    arrays = {name: Array("uint8", (len(b),), "file", b) for name, b in files.items()}
    content = {"files": ArrayRecord(arrays), "round": ConfigRecord({"round": round_})}
    return RecordDict(content)


def unpack(content: RecordDict, folder: Path) -> None:
    """Write the files of a message; the folder appears once every file is complete."""
    part = folder.with_name(folder.name + ".part")
    rmtree(part, ignore_errors=True)
    for name, array in content.array_records["files"].items():
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a file to exchange")
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        (part / name).write_bytes(array.data)
    part.rename(folder)


def run_step(steps: str, folder: Path, *words: object) -> None:
    """Run the commands of a round in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["sh", str(Path(steps).absolute()), *map(str, words)]
    subprocess.run(command, cwd=folder, check=True)
