"""A client's own model from the global one and its private file."""

import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint, CheckpointFacts
from furlkit.files.facts import Provenance
from furlkit.files.private import Private, PrivateFacts
from furlkit.inputs.own import own_model
from furlkit.models.architecture import Architecture, build
from furlkit.models.loading import load_net, tensors_of
from furlkit.randomness import torch_generator
from furlkit.weights import divide, is_batchnorm_statistic

NET = Architecture("cnn5", 8, 1, 0.02, heads={"projector": (8, 4)})


def weights(seed):
    """All tensors of a net, BatchNorm statistics drawn too."""
    rng = np.random.default_rng(seed)
    net = tensors_of(build(NET, torch_generator(seed)))
    drawn = {
        k: rng.random(v.shape).astype(v.dtype) if v.dtype.kind == "f" else v
        for k, v in net.items()
    }
    return {k: drawn[k] if is_batchnorm_statistic(k) else net[k] for k in net}


def global_model(tensors=None, round_=3, **facts):
    known = CheckpointFacts("global", round_, NET.to_dict(), [0.5], [0.5], **facts)
    header = Provenance("aggregate").header("checkpoint", known)
    return Checkpoint(
        "g", known, "a" * 64, weights(0) if tensors is None else tensors, header
    )


def kept(tensors, memory=None, round_=3, **options):
    facts = PrivateFacts(7, round_, [], [])
    return Private("k", facts, "b" * 64, tensors, memory or {}, options)


def prefixed(word, tensors):
    return {f"{word}.{name}": array for name, array in tensors.items()}


def same(one, other):
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name]) for name in one)


def test_a_client_that_keeps_statistics_alone_has_the_global_model():
    """So it is of FedAvg; what a learner carries, or an update keeps, is no model."""
    own = {k: v for k, v in weights(1).items() if is_batchnorm_statistic(k)}
    own |= prefixed("last", weights(2)) | prefixed("target", weights(3))
    found = own_model(global_model(), kept(own, update="fedema"))
    assert same(found.tensors, weights(0))
    assert (found.facts.role, found.facts.client, found.facts.round) == ("client", 7, 3)


def test_parts_that_are_not_sent_are_the_clients_own():
    encoder, projector = (
        divide(weights(0), ["encoder"])[0],
        divide(weights(1), ["encoder"])[1],
    )
    model = global_model(encoder, parts=["encoder"])
    found = own_model(model, kept(projector))
    assert same(found.tensors, {**encoder, **projector})
    assert found.facts.parts == ["encoder", "projector"]
    assert same(tensors_of(load_net(found, "cpu")), found.tensors)


def test_statistics_that_the_server_left_out_are_the_clients_own():
    trained = {k: v for k, v in weights(0).items() if not is_batchnorm_statistic(k)}
    own = {k: v for k, v in weights(1).items() if is_batchnorm_statistic(k)}
    found = own_model(global_model(trained, statistics=False), kept(own))
    assert same(found.tensors, {**trained, **own}) and found.facts.statistics


@pytest.mark.parametrize(
    "word, options", [("own", {"personal": "ditto"}), ("last", {"update": "own"})]
)
def test_a_model_of_its_own_is_taken_whole(word, options):
    own = prefixed(word, weights(1)) | prefixed("own.target", weights(2))
    if word == "last":
        own = prefixed(word, weights(1))
    found = own_model(global_model(), kept(own, **options))
    assert same(found.tensors, weights(1))


@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_apfl_mixes_it_with_the_global_model(alpha):
    private = kept(prefixed("own", weights(1)), {"apfl.alpha": np.array(alpha)})
    found, w, v = own_model(global_model(), private).tensors, weights(0), weights(1)
    for name, array in found.items():
        if array.dtype.kind == "f":
            expected = alpha * v[name].astype(float) + (1 - alpha) * w[name].astype(
                float
            )
            assert np.array_equal(array, expected.astype(np.float32)), name
    assert alpha or same(found, w)
    assert alpha < 1 or same(found, v)


def test_what_does_not_fit_is_refused():
    late = kept(prefixed("own", weights(1)), round_=4)
    with pytest.raises(InputError, match="k: is of round 4, g of round 3"):
        own_model(global_model(), late)
    other = {"own.projector.fc1.weight": np.zeros((2, 2), np.float32)}
    with pytest.raises(
        InputError, match=r"k: projector.fc1.weight is float32 \(2, 2\), g"
    ):
        own_model(global_model(), kept(other))
    wild = kept(prefixed("own", weights(1)), {"apfl.alpha": np.array(1.5)})
    with pytest.raises(InputError, match="k: apfl.alpha is 1.5"):
        own_model(global_model(), wild)
