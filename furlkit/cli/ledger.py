"""ledger: the bytes that clients sent and received."""

from typing import Any

from furlkit.cli.shared import command, tell


@command("ledger")
def ledger(values: dict[str, Any]) -> None:
    """RUN is the folder of a run, searched for *.safetensors, or single files of it. All
    is read from the files' headers. A file was sent if it was given to aggregate: so
    FLESD's models, which stay with the clients, cost nothing. A client that trains
    receives the global model and the dictionary in every round, and targets once.
    Bytes are those of whole files. The public images are not counted, nor is what a
    client knows by itself: its partition, private files, a model of its own. (The first
    model was given to it, and counts, whichever architecture it has.)

    --plan is the paper's Eq. 11, w |D_pub| d_k <= w' |f_k|, in bytes: representations
    up and the model down in every round of FLESD, against the model up and down in
    every round of weight averaging. It counts tensors; a header adds some kB to a file.

    \b
    Examples:
      furlkit ledger exp/flesd
      furlkit ledger --plan --images 8333 --width 128 --encoding float16 \\
          --parameters 11500000 --clients 5 --rounds 2 --rounds-averaging 10
    """
    from furlkit.stages.ledger import run

    tell(run(values))
