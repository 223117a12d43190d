"""Three sites with digits and the plain commands of three methods, for tests of couriers."""

import os
import shlex
import subprocess
from pathlib import Path

from tests.conftest import ROOT
from tests.helpers import furlkit
from tests.rounds.test_sites import folder_of_digits

# First digit and number of digits.
SITES = {"st-mary": (0, 20), "north": (20, 12), "east": (40, 16)}
# In three rounds north misses the second.
ROUNDS = (
    ("st-mary", "north", "east"),
    ("st-mary", "east"),
    ("st-mary", "north", "east"),
)
BRIEF = "--epochs 1 --batch-size 8"
OPTIONS = {
    "INIT": "--image-size 8 --width 0.02 --projector 8,4", "TRAIN": BRIEF,
    "ALIGN": BRIEF, "POOL": "--dictionary-size 8", "EMBED": "--layer z",
    "DISTILL": f"{BRIEF} --anchors 8",
}  # fmt: skip
METHODS = {
    "fedsimclr": OPTIONS,
    "fedca": {**OPTIONS, "TRAIN": f"{BRIEF} --form oneway --dictionary-size 8"},
    "flesd": OPTIONS,
}


def steps(method: str) -> str:
    """Return the script with the commands of a method's round."""
    return str(ROOT / "examples" / "rounds" / f"{method}.sh")


def make_images(folder: Path) -> dict[str, str]:
    """Write images of all sites and public images; return the options of the public ones."""
    for name, (first, count) in SITES.items():
        folder_of_digits(folder / "images" / name, first, count)
    public = folder_of_digits(folder / "images" / "public", 100, 24)
    return {"PUBLIC": str(public)}


def signing_steps(folder: Path, method: str, keys: dict[str, Path]) -> str:
    """Write a script that gives each side a key, if the side has one; return the path."""
    sides = "".join(f"{name}) KEY={path} ;;\n" for name, path in keys.items())
    script = f'case ${{3:-server}} in\n{sides}esac\nexport KEY\nexec sh {steps(method)} "$@"\n'
    path = folder / "signing.sh"
    path.write_text(f"KEY=\n{script}")
    return str(path)


class Plain:
    """Rounds by plain commands in this process; nothing is copied."""

    def __init__(self, folder: Path, method: str):
        self.folder, self.method = folder, method
        self.images = folder.parent / "images"
        self.public = ("--data", self.images / "public")
        self.private: dict[str, Path] = {}
        self.call("init", "--image-size", 64, "--channels", 3, self.file("global", 0))
        if method == "fedca":
            more = ("--targets-out", folder / "targets", folder / "align")
            self.call("pretrain-align", self.file("global", 0), *self.public, *more)

    def file(self, kind: str, round_: int, site: str = "") -> Path:
        return self.folder / f"{kind}{site}_{round_}"

    def call(self, command: str, *words: object) -> None:
        """Run a command with the options of its kind; the last word is the output."""
        names = {"local-train": "TRAIN", "pretrain-align": "ALIGN"}
        options = METHODS[self.method].get(names.get(command, command.upper()), "")
        more = (*shlex.split(options), "-o", words[-1])
        assert furlkit(command, *words[:-1], *more, "-q") == 0

    def run(self, rounds: tuple[tuple[str, ...], ...] = ROUNDS) -> bytes:
        """Carry out the rounds of these sites; return the last global model."""
        for round_, sites in enumerate(rounds, start=1):
            for site in sites:
                self.train(round_, site)
            self.combine(round_, sites)
        return self.file("global", len(rounds)).read_bytes()

    def train(self, round_: int, site: str) -> None:
        model = self.file("model", round_, site)
        last = self.file("global", round_ - 1)
        words = [last, "--data", self.images / site, "--client", site]
        if self.method == "fedca":
            words += self.fedca_files(round_, site)
        self.call("local-train", *words, model)
        if self.method == "flesd":
            self.call("embed", model, *self.public, self.file("rows", round_, site))

    def fedca_files(self, round_: int, site: str) -> list[object]:
        before = self.private.get(site)
        self.private[site] = self.file("private", round_, site)
        words = ["--align", self.folder / "targets", "--align-data", self.public[1]]
        # The site's secret decides which rows the site shares.
        kept = [*self.folder.parent.rglob(f"kept/{site}.secret")]
        words += ["--secret", kept[0]] if kept else []
        words += ["--dictionary", self.file("dictionary", round_ - 1)] * (round_ > 1)
        words += ["--private", before] if before else []
        words += ["--participants", 3, "--private-out", self.private[site]]
        return [*words, "--features-out", self.file("rows", round_, site)]

    def combine(self, round_: int, sites: tuple[str, ...]) -> None:
        models = [self.file("model", round_, site) for site in sites]
        rows = [self.file("rows", round_, site) for site in sites]
        last, result = self.file("global", round_ - 1), self.file("global", round_)
        if self.method != "flesd":
            self.call("aggregate", *models, result)
        if self.method == "fedca":
            pool = shlex.split(OPTIONS["POOL"])
            target = self.file("dictionary", round_)
            self.call("aggregate", "--rule", "dictionary", *rows, *pool, target)
        if self.method == "flesd":
            ensemble = self.file("ensemble", round_)
            self.call("aggregate", "--rule", "ensemble", *rows, ensemble)
            self.call("distill", ensemble, last, *self.public, result)


class Network:
    """A network namespace for each side, joined by a bridge in the server's namespace."""

    def __init__(self) -> None:
        self.prefix = f"fk{os.getpid()}"
        for name in ("server", *SITES):
            self.ip("netns", "add", f"{self.prefix}-{name}")
            self.ip("-n", f"{self.prefix}-{name}", "link", "set", "lo", "up")
        self.at("server", "link", "add", "bridge", "type", "bridge")
        self.at("server", "addr", "add", "10.77.0.1/24", "dev", "bridge")
        self.at("server", "link", "set", "bridge", "up")
        for number, name in enumerate(SITES, start=2):
            self.join(name, f"port{number}", f"10.77.0.{number}/24")

    def join(self, name: str, port: str, address: str) -> None:
        peer = ("peer", "name", "eth0", "netns", f"{self.prefix}-{name}")
        self.at("server", "link", "add", port, "type", "veth", *peer)
        self.at("server", "link", "set", port, "master", "bridge", "up")
        self.at(name, "addr", "add", address, "dev", "eth0")
        self.at(name, "link", "set", "eth0", "up")

    def at(self, name: str, *words: str) -> None:
        self.ip("-n", f"{self.prefix}-{name}", *words)

    def ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def enter(self, name: str) -> list[str]:
        return ["ip", "netns", "exec", f"{self.prefix}-{name}"]

    def remove(self) -> None:
        for name in ("server", *SITES):
            subprocess.run(["ip", "netns", "del", f"{self.prefix}-{name}"])


def may_make_networks() -> bool:
    """Tell whether this user may make network namespaces."""
    try:
        Network().remove()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
