"""Train the alignment model, and compute h and z of the public images."""

from furlkit import runtime
from furlkit.catalogue import objectives
from furlkit.data.augmentation import Augmentation
from furlkit.data.batches import Images
from furlkit.files.checkpoint import CheckpointFacts, write_checkpoint
from furlkit.files.targets import TargetFacts, write_targets
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, tensors_of, view_of
from furlkit.stages.pretrain_align import Inputs
from furlkit.training import run as training
from furlkit.training.learners import learner_of
from furlkit.training.loop import Epoch


def open_net(inputs: Inputs) -> Net:
    """Load the untrained net."""
    return load_net(inputs.model, runtime.start(inputs.options.runtime))


def train_alignment(inputs: Inputs, net: Net) -> Epoch:
    """Train the net on the public images; return the last epoch."""
    options, device = inputs.options, runtime.device_of(inputs.options.runtime)
    training.prepare(net, options.execution)
    view = view_of(inputs.model, options.augmentation, options.execution.channels_last)
    objective = objectives()[options.objective]
    job = training.Job(
        title="alignment model",
        learner=learner_of(objective, net, options.settings),
        images=Images(inputs.images.images, None, inputs.index, view, device),
        plan=options.plan,
        purpose=(options.seed, "pretrain-align"),
        pairs=objective.pairs,
    )
    every = options.execution.save_every
    return training.run_jobs(
        job, options.output, inputs.provenance, every, save_last=True
    )


def write(inputs: Inputs, net: Net, last: Epoch) -> dict[str, str]:
    """Write the model before the targets: targets name the model, and make waits."""
    options, start, count = inputs.options, inputs.model.facts, len(inputs.index)
    facts = CheckpointFacts(
        "align", 0, start.architecture, start.mean, start.std, examples=count,
        parent=inputs.model.content, loss=sum(last.losses.values()),
        init_seed=start.init_seed, reading=start.reading, run=start.run,
    )  # fmt: skip
    tensors = tensors_of(net)
    model = write_checkpoint(options.output, tensors, facts, inputs.provenance)
    images, view = inputs.images, view_of(inputs.model, Augmentation())
    rows = {
        layer: embed(net, images.images, inputs.index, view, layer).numpy()
        for layer in ("h", "z")
    }
    described = TargetFacts(
        model, start.architecture, start.mean, start.std, images.fingerprint, count,
    )  # fmt: skip
    more = (inputs.index, described, inputs.provenance)
    targets = write_targets(options.targets_out, rows, *more)
    return {"content": model, "targets": targets}
