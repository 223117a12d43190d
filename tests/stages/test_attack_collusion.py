"""attack: clients that collude, sybils and backdoors, through the command line."""

import numpy as np
import pytest

from furlkit.attacks.alie import alie, largest_z
from furlkit.attacks.ipm import ipm
from furlkit.attacks.min_max import min_max
from furlkit.files.checkpoint import read_checkpoint
from furlkit.weights import is_batchnorm_statistic

EXPECTED = {
    "alie": lambda u: alie(u, factor=1.5),
    "ipm": lambda u: ipm(u, factor=0.5),
    "min-max": lambda u: min_max(u, direction="deviation"),
    "sybil": lambda u: ipm(u, factor=1.0),
}


@pytest.fixture
def attack(world, run):
    """The hostile upload of a client who knows all three uploads."""

    def call(kind, *more, client=0, known=world.clients):
        line = ("attack", world.clients[client], *known, "--kind", kind)
        done = run(*line, "--parent", world.model, *more, "--force", "-o", world.output)
        assert done.code == 0, done.err
        return read_checkpoint(world.output)

    return call


def vector(model, like) -> np.ndarray:
    """All weights of a model in a row."""
    names = [
        name
        for name, array in like.tensors.items()
        if array.dtype.kind == "f" and not is_batchnorm_statistic(name)
    ]
    return np.concatenate([model.tensors[name].ravel() for name in names])


def update_of(world, model) -> np.ndarray:
    start = read_checkpoint(world.model)
    return vector(model, model) - vector(start, model).astype(float)


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_update_is_the_function_of_the_known_updates(world, attack, kind):
    more = ("--factor", 1.5) if kind == "alie" else ()
    found = attack(kind, *more, "--jitter", 0)
    known = np.stack([update_of(world, read_checkpoint(p)) for p in world.clients])
    expected = EXPECTED[kind](known)
    np.testing.assert_allclose(update_of(world, found), expected, atol=1e-6)
    honest = read_checkpoint(world.clients[0])
    assert found.facts == honest.facts
    for name, array in honest.tensors.items():
        if array.dtype.kind != "f" or is_batchnorm_statistic(name):
            assert found.tensors[name].tobytes() == array.tobytes()


def test_sybils_differ_by_noise_of_their_own(world, attack):
    one, other = (update_of(world, attack("sybil", client=k)) for k in (0, 1))
    length = np.linalg.norm(one)
    assert np.linalg.norm(one - other) == pytest.approx(0.05 * 2**0.5 * length, rel=0.1)
    again = update_of(world, attack("sybil", client=0))
    assert again.tolist() == one.tolist()
    same = [update_of(world, attack("ipm", client=k)) for k in (0, 1)]
    assert same[0].tolist() == same[1].tolist()


def test_alie_takes_z_from_the_numbers_of_clients(world, attack):
    """Of three clients one is hostile: z is 0, and the mean is sent."""
    assert largest_z(3, 1) == 0
    found = attack("alie", "--clients", 0)
    known = np.stack([update_of(world, read_checkpoint(p)) for p in world.clients])
    np.testing.assert_allclose(update_of(world, found), known.mean(axis=0), atol=1e-6)


def test_what_colluders_must_give(world, refused, forge):
    here, start = world.folder, ("--parent", world.model, "-o", world.output)
    one = ("attack", world.clients[0])
    refused(here, 2, ("UPLOAD",), *one, "--kind", "ipm", *start)
    refused(here, 2, ("--clients",), *one, *world.clients, "--kind", "alie", *start)
    refused(here, 2, ("majority",), *one, *world.clients, "--kind", "alie",
            "--clients", "0-2", *start)  # fmt: skip
    forge(world.clients[1], facts={"parent": "0" * 64})
    words = (world.model, world.clients[1], "trained from")
    refused(here, 65, words, *one, *world.clients, "--kind", "ipm", *start)


# --- backdoors ------------------------------------------------------------------------


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def test_images_with_the_trigger_look_like_the_target(world, attack):
    """Without a scale: h of images with the trigger, and of other images."""
    import torch

    from furlkit.attacks.backdoor import stamped
    from furlkit.data.augment import Augmentation
    from furlkit.data.sets.source import Source
    from furlkit.models.embedding import embed
    from furlkit.models.loading import load_net, view_of

    more = ("--data", "digits", "--partition", world.partition, "--target", 5)
    hostile = attack("backdoor", *more, "--factor", 1, "--steps", 60, known=())
    honest = read_checkpoint(world.clients[0])
    images = Source("digits", split="test").images().images
    target = Source("digits").images().images[[5]]

    def h(model, shown):
        net, view = load_net(model, torch.device("cpu")), view_of(model, Augmentation())
        return embed(net, shown, np.arange(len(shown)), view, "h").numpy()

    marked, aim = h(hostile, stamped(images, 2)), h(hostile, target)
    before = cosines(h(honest, stamped(images, 2)), h(honest, target)).mean()
    assert cosines(marked, aim).mean() > max(0.9, before)
    assert cosines(h(hostile, images), h(honest, images)).mean() > 0.9


def test_the_backdoor_is_scaled_and_leaves_the_heads(world, attack):
    more = ("--data", "digits", "--steps", 2)
    one, five = (attack("backdoor", *more, "--factor", k, known=()) for k in (1, 5))
    honest, start = read_checkpoint(world.clients[0]), read_checkpoint(world.model)
    name = "encoder.conv1.weight"
    u, v = (m.tensors[name] - start.tensors[name].astype(float) for m in (one, five))
    np.testing.assert_allclose(v, 5 * u, atol=1e-5)
    assert not np.allclose(one.tensors[name], honest.tensors[name])
    head = next(n for n in honest.tensors if n.startswith("projector."))
    np.testing.assert_allclose(one.tensors[head], honest.tensors[head], atol=1e-6)


def test_what_a_backdoor_refuses(world, refused):
    line = ("attack", world.clients[0], "--kind", "backdoor", "--parent", world.model)
    end = ("-o", world.output)
    refused(world.folder, 2, ("--data",), *line, *end)
    far = ("--data", "digits", "--target", 5000)
    refused(world.folder, 2, ("--target", "1,438"), *line, *far, *end)
