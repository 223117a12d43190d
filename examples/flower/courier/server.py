"""The server: send the global files, collect the answers, and run the server's step."""

import time
from dataclasses import dataclass, field
from logging import INFO, WARNING
from math import inf
from pathlib import Path
from subprocess import CalledProcessError

from cryptography.hazmat.primitives import serialization
from flwr.app import Context, Message, MessageType
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from courier.parcels import pack, run_step, unpack

app = ServerApp()
PAUSE = 2.0  # seconds between two looks at the replies
RETRY = 60.0  # seconds after a failure until a site gets the message again
Start = tuple[str, str]  # a site, and the time at which the site's node connected


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry out the rounds that are not on disk yet."""
    config = context.run_config
    folder = Path(str(config["folder"]))
    for round_ in range(int(config["rounds"]) + 1):
        closed = folder / "got" / str(round_)
        if round_ > 0 and not closed.exists():
            collect(grid, folder, round_, config)
            closed.parent.mkdir(exist_ok=True)
            (folder / "new" / str(round_)).rename(closed)  # later answers are ignored
        combine(str(config["steps"]), folder, round_)


def combine(steps: str, folder: Path, round_: int) -> None:
    """Run the server's step; a round with too few valid uploads opens again."""
    try:
        run_step(steps, folder, "server", round_)
    except CalledProcessError as error:
        if error.returncode == 75:
            closed = folder / "got" / str(round_)
            closed.rename(folder / "new" / str(round_))
        raise


def collect(grid: Grid, folder: Path, round_: int, config: dict) -> None:
    """Wait for the answers of the expected sites, or for a quorum at the deadline."""
    sites = read_sites(Path(str(config["keys"])))
    post = Post(grid, folder / "new" / str(round_))
    post.arrived.mkdir(parents=True, exist_ok=True)
    parcel = pack(folder / "put" / str(round_ - 1), round_)
    end = time.time() + float(config["wait"])
    missing = set(sites.values())
    while len(sites) - len(missing) < (int(config["expect"]) or len(sites)):
        if time.time() > end:
            break
        time.sleep(PAUSE)
        post.receive()
        missing = {name for name in missing if not (post.arrived / name).exists()}
        for node in grid.get_nodes():
            name = sites.get(node.public_key, "")
            if name in missing:
                start = name, node.last_activated_at
                post.send(start, Message(parcel, node.node_id, MessageType.TRAIN))
    log(INFO, "round %d: no upload of %s", round_, ", ".join(sorted(missing)) or "none")
    if len(sites) - len(missing) < int(config["at-least"]):
        raise TimeoutError(f"round {round_}: too few uploads; run again to wait again")


def read_sites(keys: Path) -> dict[bytes, str]:
    """Return the sites by the public keys of the nodes, from files SITE.pub."""
    pem = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    read = serialization.load_ssh_public_key
    return {read(p.read_bytes()).public_bytes(*pem): p.stem for p in keys.glob("*.pub")}


@dataclass
class Post:
    """Messages of one round; the files of answers go to `arrived`/SITE."""

    grid: Grid
    arrived: Path
    sent: dict[str, Start] = field(default_factory=dict)  # by the id of the message
    next_time: dict[Start, float] = field(default_factory=dict)

    def send(self, start: Start, message: Message) -> None:
        """Send a message to a node, once; after a failure or a restart again."""
        if self.next_time.get(start, 0) <= time.time():
            self.next_time[start] = inf
            self.sent |= dict.fromkeys(self.grid.push_messages([message]), start)

    def receive(self) -> None:
        """Write the files of the answers that have arrived."""
        for reply in self.grid.pull_messages(list(self.sent)) if self.sent else ():
            start = self.sent.pop(reply.metadata.reply_to_message_id)
            try:
                if reply.has_error():
                    raise ValueError(reply.error.reason)
                if not (self.arrived / start[0]).exists():
                    unpack(reply.content, self.arrived / start[0], start[0])
            except (ValueError, KeyError) as error:  # a stranger's answer stops nobody
                log(WARNING, "%s: %s", start[0], error)
                self.next_time[start] = time.time() + RETRY
