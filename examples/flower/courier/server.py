"""The server: send the global files, collect the answers, and run the server's step."""

import time
from logging import INFO, WARNING
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from flwr.app import Context, Message, MessageType
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from courier.parcels import pack, run_step, unpack

app = ServerApp()
PAUSE = 2.0  # seconds between two looks at the replies


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Carry out the rounds that are not on disk yet."""
    config = context.run_config
    folder = Path(str(config["folder"])).absolute()
    for round_ in range(int(config["rounds"]) + 1):
        closed = folder / "got" / str(round_)
        if round_ > 0 and not closed.exists():
            collect(grid, folder, round_, config)
            closed.parent.mkdir(exist_ok=True)
            (folder / "new" / str(round_)).rename(closed)  # later answers are ignored
        run_step(str(config["steps"]), folder, "server", round_)


def collect(grid: Grid, folder: Path, round_: int, config: dict) -> None:
    """Wait for the answers of all sites, or for a quorum at the deadline."""
    sites = read_sites(Path(str(config["keys"])))
    arrived = folder / "new" / str(round_)
    arrived.mkdir(parents=True, exist_ok=True)
    parcel = pack(folder / "put" / str(round_ - 1), round_)
    sent: dict[str, tuple[str, str]] = {}  # id of a message: site, start of the node
    expected = int(config["expect"]) or len(sites)
    end = time.time() + float(config["wait"])
    while True:
        receive(grid, sent, arrived)
        missing = {name for name in sites.values() if not (arrived / name).exists()}
        if len(sites) - len(missing) >= expected or time.time() > end:
            break
        for node in grid.get_nodes():
            name = sites.get(node.public_key, "")
            start = (name, node.last_activated_at)
            if name in missing and start not in sent.values():
                message = Message(
                    parcel, dst_node_id=node.node_id, message_type=MessageType.TRAIN
                )
                sent |= dict.fromkeys(grid.push_messages([message]), start)
        time.sleep(PAUSE)
    log(
        INFO,
        "round %d: %d sites, without %s",
        round_,
        len(sites) - len(missing),
        missing,
    )
    if len(sites) - len(missing) < int(config["at-least"]):
        raise TimeoutError(f"round {round_}: too few uploads; run again")


def read_sites(keys: Path) -> dict[bytes, str]:
    """Return the sites by the public keys of their nodes, from files NAME.pub."""
    pem = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    read = serialization.load_ssh_public_key
    return {read(p.read_bytes()).public_bytes(*pem): p.stem for p in keys.glob("*.pub")}


def receive(grid: Grid, sent: dict[str, tuple[str, str]], arrived: Path) -> None:
    """Write the files of answers; after a failure a site gets the message again."""
    for reply in grid.pull_messages(sent) if sent else ():
        name, _ = sent.pop(reply.metadata.reply_to_message_id)
        if reply.has_error():
            log(WARNING, "%s: %s", name, reply.error)
        elif not (arrived / name).exists():
            unpack(reply.content, arrived / name)
