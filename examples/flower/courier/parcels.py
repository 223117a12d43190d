"""Files of one round as a Flower message, byte for byte, and the commands of a round."""

import re
import subprocess
from pathlib import Path
from shutil import rmtree

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from furlkit.errors import FurlkitError
from furlkit.files.container.read import Container

# A stranger's names must not leave the folder.
NAME = re.compile(r"([a-z]+/)?\w[\w-]*\.safetensors(\.sig)?", re.ASCII)


def pack(folder: Path, round_: int) -> RecordDict:
    """Return the safetensors files below a folder, and signatures of the files."""
    names = (str(path.relative_to(folder)) for path in sorted(folder.rglob("*.*")))
    files = {
        name: (folder / name).read_bytes() for name in names if NAME.fullmatch(name)
    }
    arrays = {name: Array("uint8", (len(b),), "file", b) for name, b in files.items()}
    content = {"files": ArrayRecord(arrays), "round": ConfigRecord({"round": round_})}
    return RecordDict(content)


def unpack(content: RecordDict, folder: Path, site: str | None = None) -> None:
    """Write the files of a message; the folder appears once every file is complete.

    With a site, files that name another site are refused.
    """
    files = content.array_records["files"]
    for name in files:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a file to exchange")
    part = folder.with_name(folder.name + ".part")
    rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name, array in files.items():
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        (part / name).write_bytes(array.data)
        if site is not None and name.endswith(".safetensors"):
            check_client(part / name, site)
    part.rename(folder)


def check_client(path: Path, site: str) -> None:
    """Refuse a file if the header names another client."""
    try:
        client = Container(path).header.facts.get("client")
    except FurlkitError as error:
        raise ValueError(str(error)) from error
    if client != site:
        raise ValueError(f"{path.name} names client {client}, not {site}")


def run_step(steps: str, folder: Path, *words: object) -> None:
    """Run the commands of a round in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["sh", str(Path(steps).absolute()), *map(str, words)]
    subprocess.run(command, cwd=folder, check=True)
