"""A site: train in the site's folder, and answer with the files to send."""

from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from courier.parcels import pack, run_step, unpack

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Carry out a round; a repeated round answers with the files on disk."""
    site = context.node_config  # the site decides about commands, folder and images
    folder = Path(str(site["folder"]))
    round_ = int(message.content.config_records["round"]["round"])
    received = folder / "got" / str(round_ - 1)
    if not received.exists():
        unpack(message.content, received)
    run_step(str(site["steps"]), folder, "site", round_, site["name"], site["images"])
    return Message(pack(folder / "put" / str(round_), round_), reply_to=message)
