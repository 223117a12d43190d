"""examples/bucket: a server and three sites that share a bucket and nothing else."""

import os
import shlex
import shutil
import signal
import stat
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.conftest import ROOT
from tests.examples.couriers import (
    METHODS,
    ROUNDS,
    SITES,
    Network,
    Plain,
    make_images,
    may_make_networks,
    signing_steps,
    steps,
)  # fmt: skip
from tests.helpers import furlkit
from tests.slurm.daemons import free_port

SCRIPTS = ROOT / "examples" / "bucket"
pytestmark = pytest.mark.skipif(shutil.which("seq") is None, reason="needs sh and seq")


class Sides:
    """The server and the sites, each in a folder, and a bucket."""

    def __init__(self, folder: Path, method: str, environment: dict[str, str]):
        self.folder, self.method = folder, method
        self.bucket, self.steps = str(folder / "bucket"), steps(method)
        self.processes: list[subprocess.Popen] = []
        self.environment = {**environment, **METHODS[method], **make_images(folder)}
        for name in ("server", *SITES):
            (folder / name).mkdir()
            (folder / "bucket" / name).mkdir(parents=True)

    def start(self, name: str, rounds: int, **options: str) -> subprocess.Popen:
        """Start the script of a side, for rounds up to a number."""
        images = str(self.folder / "images" / name)
        words = ["site.sh", self.steps, name, images, self.bucket, str(rounds)]
        if name == "server":
            words = ["server.sh", self.steps, self.bucket, str(rounds), *SITES]
        process = subprocess.Popen(
            [*self.enter(name), "sh", str(SCRIPTS / words[0]), *words[1:]],
            cwd=self.folder / name, env={**self.environment, **options},
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def stop(self) -> None:
        """End the processes that still run."""
        kill(*(process for process in self.processes if process.poll() is None))

    def enter(self, name: str) -> list[str]:
        """Return the words that start a program at the place of a side."""
        return []

    def run(self, rounds: int, *names: str, **options: str) -> None:
        """Start sides and wait until all are done."""
        for process in [self.start(name, rounds, **options) for name in names]:
            ended(process)

    def object(self, name: str, round_: int) -> Path:
        return self.folder / "bucket" / name / f"{round_}.tar"

    def result(self, round_: int) -> bytes:
        path = self.folder / "server" / "put" / str(round_) / "global.safetensors"
        return path.read_bytes()

    def plain(self, rounds: tuple[tuple[str, ...], ...] = ROUNDS) -> bytes:
        (self.folder / "plain").mkdir()
        return Plain(self.folder / "plain", self.method).run(rounds)


def ended(process: subprocess.Popen) -> None:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said.decode()


def wait_for(path: Path, *processes: subprocess.Popen) -> None:
    while not path.exists():
        assert all(process.poll() is None for process in processes)
        time.sleep(0.02)


def kill(*processes: subprocess.Popen) -> None:
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def by_copies(fast_furlkit, environment) -> dict[str, str]:
    """The environment of scripts that copy with cp."""
    more = {"FURLKIT": shlex.join(fast_furlkit), "PAUSE": "0.1", "WAIT": "120"}
    return {**environment, **more, "COPY": "cp", "MOVE": "mv -n"}


@pytest.fixture
def sides(tmp_path, by_copies) -> Iterator[Callable[[str], Sides]]:
    """Make the sides of a method's rounds: sides("fedca")."""
    made: list[Sides] = []

    def make(method: str) -> Sides:
        made.append(Sides(tmp_path, method, by_copies))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def three_rounds(sides: Sides) -> None:
    """East is late in the first round, north misses the second."""
    server = sides.start("server", 1)
    others = [sides.start(name, 1) for name in ("st-mary", "north")]
    wait_for(sides.object("st-mary", 1), server)
    for process in (*others, sides.start("east", 1), server):
        ended(process)
    sides.run(2, "server", "st-mary", "east", EXPECT="2")
    sides.run(3, "server", *SITES)
    assert not sides.object("north", 2).exists()


def test_killed_sides_resume_and_a_missing_site_is_left_out(sides):
    sides = sides("fedca")
    server, site = sides.start("server", 1), sides.start("north", 1)
    wait_for(sides.object("north", 1), server)
    kill(server, site)
    sides.run(1, "server", *SITES)
    sides.run(2, "server", "st-mary", "east", EXPECT="2")
    sides.run(2, "north")  # finds the round closed
    assert not sides.object("north", 2).exists()
    assert sides.result(2) == sides.plain(ROUNDS[:2])
    with tarfile.open(sides.object("st-mary", 2)) as parcel:
        sent = {m.name: (m.uname, m.mtime) for m in parcel.getmembers()}
    names = ("./model/st-mary.safetensors", "./rows/st-mary.safetensors")
    assert sent == dict.fromkeys(names, ("root", 0))


def write_parcel(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Write an object by hand, as a stranger would; return the bytes."""
    with tarfile.open(path, "w") as parcel:
        for member, content in members:
            member.size = len(content)
            parcel.addfile(member, BytesIO(content))
    return path.read_bytes()


def test_below_the_quorum_the_server_waits(sides):
    sides = sides("fedsimclr")
    server = sides.start("server", 1, WAIT="0")
    sides.start("st-mary", 1)
    wait_for(sides.folder / "server" / "got" / "1" / "st-mary", server)
    ended(sides.start("north", 1))
    ended(server)
    assert sides.result(1) == sides.plain((("st-mary", "north"),))


def test_a_round_with_too_few_valid_uploads_opens_again(sides):
    sides = sides("fedsimclr")
    fake = tarfile.TarInfo("./model/east.safetensors")
    write_parcel(sides.object("east", 1), (fake, b"no model"))
    server, north = (sides.start(name, 1, EXPECT="2") for name in ("server", "north"))
    ended(north)
    _, said = server.communicate(timeout=120)
    assert server.returncode == 75 and b"east.safetensors" in said
    sides.run(1, "server", "st-mary")
    assert sides.result(1) == sides.plain((("st-mary", "north"),))


def test_an_object_is_never_replaced(sides):
    sides = sides("fedsimclr")
    before = write_parcel(sides.object("north", 1), (tarfile.TarInfo("./a.sig"), b"a"))
    sides.run(0, "server")
    for _ in range(2):
        north = sides.start("north", 1)
        north.communicate(timeout=120)
        assert north.returncode == 65
    assert sides.object("north", 1).read_bytes() == before


def odd_members() -> list[tuple[tarfile.TarInfo, bytes]]:
    """Members that are no plain file, or have no plain name."""
    kinds = (
        ("model/link.safetensors", tarfile.SYMTYPE, "../../../../kept/private"),
        ("model/inner.safetensors", tarfile.SYMTYPE, "good.safetensors"),
        ("folder.s", tarfile.SYMTYPE, "../../north"),
        ("pipe.safetensors", tarfile.FIFOTYPE, ""),
        ("locked.s", tarfile.DIRTYPE, ""),
    )
    members = []
    for name, kind, target in kinds:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.mode = kind, target, 0
        members.append((member, b""))
    names = ("model/.hidden.safetensors", "n$(touch PWNED);.safetensors", "-x.sig")
    names += ("model/a\nb.safetensors", "x.s/program", "a b/c.safetensors")
    return members + [(tarfile.TarInfo(name), b"x") for name in names]


def test_only_plain_files_of_a_parcel_are_unpacked(sides):
    """East tries to send the upload of north a second time, and worse."""
    sides = sides("fedsimclr")
    good = tarfile.TarInfo("model/good.safetensors")
    good.mode = 0o4777
    write_parcel(sides.object("east", 1), (good, b"no model"), *odd_members())
    sides.run(1, "server", "st-mary", "north")
    got = sides.folder / "server" / "got" / "1" / "east"
    unpacked = {str(path.relative_to(got)): path for path in got.rglob("*")}
    assert {name for name, path in unpacked.items() if not path.is_dir()} == {
        "model/good.safetensors"
    }
    assert stat.S_IMODE(unpacked["model/good.safetensors"].stat().st_mode) < 0o1000
    assert not [*sides.folder.rglob("PWNED")]
    assert sides.result(1) == sides.plain((("st-mary", "north"),))


def test_a_link_beside_the_uploads_is_no_parcel(sides):
    sides = sides("fedsimclr")
    link = tarfile.TarInfo("model")
    link.type, link.linkname = tarfile.SYMTYPE, "../north/model"
    write_parcel(sides.object("east", 1), (link, b""))
    sides.run(1, "server", "st-mary", "north", EXPECT="2")
    assert not (sides.folder / "server" / "got" / "1" / "east").exists()
    assert sides.result(1) == sides.plain((("st-mary", "north"),))


def test_a_site_unpacks_no_links_of_a_courier(tmp_path):
    """The courier points dictionary.safetensors at the site's private file."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "private").write_text("secret")
    good = tarfile.TarInfo("global.safetensors")
    write_parcel(tmp_path / "parcel", (good, b"model"), *odd_members())
    assert unpack(tmp_path) == 0
    names = {p.name for p in (tmp_path / "got" / "0").rglob("*") if not p.is_dir()}
    assert names == {"global.safetensors"}
    assert (tmp_path / "kept" / "private").read_text() == "secret"


@pytest.mark.parametrize("name", ["../kept/private", "/etc/passwd"])
def test_hard_links_to_files_of_the_site(tmp_path, name):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "private").write_text("secret")
    link = tarfile.TarInfo("dictionary.safetensors")
    link.type, link.linkname = tarfile.LNKTYPE, name
    write_parcel(tmp_path / "parcel", (link, b""))
    assert unpack(tmp_path) != 0
    assert not (tmp_path / "got" / "0").exists()


def test_a_file_with_holes_of_200_gb_does_not_arrive(sides):
    sides = sides("fedsimclr")
    holes = sides.folder / "model.safetensors"
    with open(holes, "wb") as stream:
        stream.truncate(200 * 2**30)
    parcel = sides.object("east", 1)
    words = ["tar", "-cSf", parcel, "-C", sides.folder, holes.name]
    subprocess.run(words, check=True)
    assert parcel.stat().st_size < 2**20
    sides.run(1, "server", "st-mary", "north", EXPECT="2")
    assert not (sides.folder / "server" / "got" / "1" / "east").exists()


def unpack(folder: Path) -> int:
    """Unpack a parcel as a site does."""
    words = ["sh", str(SCRIPTS / "unpack.sh"), "parcel", "got/0"]
    return subprocess.run(words, cwd=folder, capture_output=True).returncode


@pytest.mark.skipif(shutil.which("age") is None, reason="needs age")
def test_age_encrypts_parcels_for_the_other_side(sides):
    sides = sides("fedsimclr")
    keys = {}
    for name in ("server", "north"):
        made = subprocess.run(
            ["age-keygen"], capture_output=True, text=True, check=True
        )
        (sides.folder / name / "key").write_text(made.stdout)
        keys[name] = made.stdout.split("public key: ")[1].split()[0]
    both = {"OPEN": "age -d -i key", "AT_LEAST": "1", "EXPECT": "1"}
    server = sides.start("server", 1, **both, SEAL=f"age -r {keys['north']}")
    ended(sides.start("north", 1, **both, SEAL=f"age -r {keys['server']}"))
    ended(server)
    for path in (sides.object("server", 0), sides.object("north", 1)):
        assert path.read_bytes().startswith(b"age-encryption.org")
        assert b"safetensors" not in path.read_bytes()
    assert sides.result(1) == sides.plain((("north",),))


def test_the_server_takes_signed_uploads_and_sites_take_signed_models(
    sides, keys, allowed
):
    """North has a stranger's key, east no key."""
    sides = sides("fedca")
    signers = {"SIGNERS": str(allowed("server", *SITES)), "AT_LEAST": "1"}
    signing = {name: keys(name) for name in ("server", "st-mary")}
    signing["north"] = keys("mallory")
    sides.steps = signing_steps(sides.folder, sides.method, signing)
    server, *sites = [sides.start(name, 1, **signers) for name in ("server", *SITES)]
    for process in sites:
        ended(process)
    _, said = server.communicate(timeout=300)
    assert server.returncode == 0, said.decode()
    assert b"north.safetensors.sig is no valid signature of client north" in said
    assert b"east.safetensors: has no signature of client east" in said
    assert sides.result(1) == sides.plain((("st-mary",),))
    # A model of a stranger in place of the server's.
    second = sides.folder / "east" / "got" / "1"
    shutil.copytree(sides.folder / "server" / "put" / "1", second)
    for path in second.glob("*.safetensors"):
        assert furlkit("sign", path, "--key", keys("mallory")) == 0
    east = sides.start("east", 2, **signers)
    _, said = east.communicate(timeout=300)
    assert east.returncode == 65 and b"no valid signature of the server" in said


def test_scripts_are_short_and_clean():
    """A side runs one script, unpack.sh, and the commands of the method."""
    scripts = sorted([*SCRIPTS.glob("*.sh"), *SCRIPTS.parent.glob("rounds/*.sh")])
    assert len(scripts) == 6
    for script in SCRIPTS.glob("*.sh"):
        lines = script.read_text().splitlines()
        assert sum(not line.lstrip().startswith("#") for line in lines) <= 15
        assert max(map(len, lines)) <= 120
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", *map(str, scripts)], check=True)


class Remote(Sides):
    """Sides that reach the bucket by rclone, each in a network namespace if permitted.

    As with accounts of sftp, each side has a user, who owns a part of the bucket.
    """

    def __init__(self, kind: str, network: Network | None, *words):
        super().__init__(*words)
        self.kind, self.network = kind, network
        self.address = "10.77.0.1" if network else "127.0.0.1"
        self.store = Path(mkdtemp(prefix="furlkit-bucket-"))  # other users can reach it
        self.store.chmod(0o755)
        self.home = Path(mkdtemp(prefix="furlkit-home-"))
        self.home.chmod(0o777)
        self.bucket = "bucket:"
        for user, name in enumerate(("server", *SITES), start=60001):
            self.serve(name, user if os.geteuid() == 0 else os.geteuid())

    def object(self, name: str, round_: int) -> Path:
        return self.store / name / f"{round_}.tar"

    def enter(self, name: str) -> list[str]:
        return self.network.enter(name) if self.network else []

    def serve(self, name: str, user: int) -> None:
        """Serve the bucket to a side, and write rclone's configuration of the side."""
        (self.store / name).mkdir()
        os.chown(self.store / name, user, -1)
        port = free_port()
        words = [
            "rclone",
            "--config=",
            "serve",
            self.kind,
            str(self.store),
            "--user",
            "u",
        ]
        words += ["--pass", "p", "--addr", f"{self.address}:{port}"]
        words += ["--dir-cache-time", "0s"]  # other users write too
        become = ["setpriv", f"--reuid={user}"] if os.geteuid() == 0 else []
        with open(self.folder / "serve.log", "a") as log:
            command = [*self.enter("server"), *become, *words]
            environment = {**os.environ, "HOME": str(self.home)}
            environment["XDG_CACHE_HOME"] = str(self.home / name)
            served = subprocess.Popen(
                command, stderr=log, start_new_session=True, env=environment
            )
        self.processes.append(served)
        place = f"host = {self.address}\nport = {port}"
        if self.kind == "webdav":
            place = f"url = http://{self.address}:{port}\nvendor = other"
        password = subprocess.check_output(["rclone", "obscure", "p"], text=True)
        text = f"[bucket]\ntype = {self.kind}\n{place}\nuser = u\npass = {password}"
        (self.folder / name / "rclone.conf").write_text(text)
        while self.rclone(name, "lsf", "bucket:") != 0:
            assert served.poll() is None, (self.folder / "serve.log").read_text()
            time.sleep(0.1)

    def rclone(self, name: str, *words: str) -> int:
        """Call rclone at a side."""
        command = [*self.enter(name), "rclone", "--config", "rclone.conf", *words]
        where = self.folder / name
        return subprocess.run(command, cwd=where, capture_output=True).returncode

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.store)
        shutil.rmtree(self.home)


@pytest.fixture
def remote(tmp_path, by_copies) -> Iterator[Callable[[str, str], Remote]]:
    """Start a bucket: remote("webdav", "fedca")."""
    if shutil.which("rclone") is None:
        pytest.skip("rclone not found; apt-get install rclone")
    network = Network() if may_make_networks() else None
    started = []
    more = {"COPY": "rclone copyto --ignore-times --config rclone.conf"}
    more["MOVE"] = "rclone moveto --ignore-existing --config rclone.conf"

    def start(kind: str, method: str) -> Remote:
        found = Remote(kind, network, tmp_path, method, {**by_copies, **more})
        started.append(found)
        return found

    yield start
    for sides in started:
        sides.stop()
    if network:
        network.remove()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, method",
    [
        ("webdav", "fedsimclr"),
        ("webdav", "fedca"),
        ("sftp", "flesd"),
        ("sftp", "fedca"),
    ],
)
def test_three_rounds_through_rclone_give_the_bytes_of_plain_commands(
    remote, kind, method
):
    sides = remote(kind, method)
    three_rounds(sides)
    assert sides.result(3) == sides.plain()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["webdav", "sftp"])
def test_rclone_never_replaces_an_object(remote, kind):
    sides = remote(kind, "fedsimclr")
    before = b"first" * 10_000
    (sides.folder / "east" / "first").write_bytes(before)
    assert sides.rclone("east", "copyto", "first", "bucket:/east/1.tar") == 0
    sides.run(0, "server")
    east = sides.start("east", 1)
    _, said = east.communicate(timeout=120)
    assert east.returncode == 65, said
    assert sides.object("east", 1).read_bytes() == before


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for several users")
@pytest.mark.parametrize("kind", ["webdav", "sftp"])
def test_a_site_writes_only_below_its_name(remote, kind):
    sides = remote(kind, "fedsimclr")
    (sides.folder / "east" / "fake").write_text("fake")
    assert sides.rclone("east", "copyto", "fake", "bucket:server/0.tar") != 0
    assert sides.rclone("east", "copyto", "fake", "bucket:north/1.tar") != 0
    assert sides.rclone("east", "copyto", "fake", "bucket:east/1.tar") == 0
    parts = {name: [*(sides.store / name).iterdir()] for name in SITES}
    assert parts == {"st-mary": [], "north": [], "east": [sides.object("east", 1)]}
    assert sides.object("east", 1).read_text() == "fake"
