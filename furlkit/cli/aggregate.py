"""aggregate: what the server makes of the clients' uploads."""

from furlkit.cli.shared import arguments, stage


@stage("aggregate", arguments("inputs", "UPLOAD..."))
def aggregate() -> None:
    """Checked first: architecture, shapes, types, finite values, round, parent model, and
    that no client counts twice; for an ensemble and for probabilities also that all are
    of the same images, in the same order. The order of the files does not matter. With
    --staleness there may be models of earlier rounds; the result has the parts of the
    newest ones, and each tensor is the mean over those that have it.

    An UPLOAD may be a folder, the inbox of a server. What is no upload of this round is
    left out there with a warning (a private file, a broken one, a link), and the round
    goes on with the others if there are --at-least so many. Hidden names are skipped. Once
    the output is there, the round is closed, whatever arrives later.

    \b
    Examples:
      furlkit aggregate exp/r001/client_*.safetensors -o exp/r001/global.safetensors
      furlkit aggregate --rule dictionary exp/r001/features_*.safetensors \\
          -o exp/r001/dictionary.safetensors
      furlkit aggregate --rule ensemble exp/r001/public_*.safetensors \\
          -o exp/r001/ensemble.safetensors
      furlkit aggregate --rule probabilities exp/r001/public_*.safetensors \\
          -o exp/r001/probabilities.safetensors
      furlkit aggregate inbox --parent global_0.safetensors --at-least 3 --wait 30m \\
          -o global_1.safetensors
    """
