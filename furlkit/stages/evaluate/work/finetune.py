"""Train encoder and classifier on labelled images, and predict the test images."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from furlkit import runtime
from furlkit.files.facts import Provenance
from furlkit.models.architecture import Net, build
from furlkit.models.embedding import predict
from furlkit.models.heads import give_classifier
from furlkit.models.loading import load_net, load_tensors, view_of
from furlkit.randomness import torch_generator
from furlkit.reports.scores import scores
from furlkit.stages.evaluate.finetune import Inputs
from furlkit.training import rounds
from furlkit.training import run as training
from furlkit.training.plan import Execution


def score(inputs: Inputs, provenance: Provenance) -> dict[str, Any]:
    """Finetune, and score on the test images; `provenance` is of the progress file."""
    options, jobs = inputs.options, _jobs(inputs)
    training.run_jobs(jobs, options.output, provenance, options.save_every)
    predictions, losses = jobs.results()
    labels = torch.from_numpy(np.asarray(inputs.test.labels))
    trained = [torch.from_numpy(each) for each in predictions]
    return {
        **scores(trained, labels, inputs.classes, "repeats"),
        "train_loss": sum(losses) / len(losses),
    }


def _jobs(inputs: Inputs) -> rounds.Repeats:
    """Build the repeats; every repeat draws from a separate seed."""
    options, train, test = inputs.options, inputs.train, inputs.test
    execution = Execution()
    view = replace(
        view_of(inputs.model, options.augmentation, execution.channels_last),
        size=inputs.architecture.image_size,
    )

    def make(number: int) -> rounds.Finetuning:
        own = inputs.repeat(number)
        net = open_net(own)
        training.prepare(net, execution)
        return rounds.Finetuning(
            net, train.images, np.asarray(train.labels), view, own.parts, options.plan,
            options.rounds, (own.options.seed, "finetune"),
        )  # fmt: skip

    def classes_of(done: rounds.Finetuning) -> np.ndarray:
        load_tensors(done.net, done.weights)
        return predict(done.net, test.images, view).numpy()

    return rounds.Repeats(make, classes_of, options.repeats)


def open_net(inputs: Inputs) -> Net:
    """Build the encoder, of the model or with new weights, and a new classifier."""
    device = runtime.start(inputs.options.runtime)
    options, architecture = inputs.options, inputs.architecture
    if options.random_init:
        drawn = torch_generator(options.seed, "finetune", "encoder")
        net = build(architecture, drawn).to(device)
    else:
        net = load_net(inputs.model, device)
    return give_classifier(
        net, architecture.feature_dim, options.hidden, inputs.classes,
        torch_generator(options.seed, "finetune", "classifier"),
    )  # fmt: skip
