"""The device of tests/device.py finds the mistakes that a GPU would: each is planted."""

import pytest
import torch

from furlkit.data.transfer import constant, send
from furlkit.runtime import Runtime, start
from tests.device import NAME, device
from tests.exchanged import FAST

CLIENT = ("local-train", "p", "g0", *FAST, "--client", 0, "-o", "OUT/model")
STEPS = 2  # Full batches of an epoch.


def test_tensors_of_any_type_are_sent_in_one_copy(here):
    sent = [
        torch.arange(3), torch.tensor([True, False, True]), torch.zeros(0),
        torch.linspace(0, 1, 5).view(5, 1), torch.arange(6).view(2, 3).T,
    ]  # fmt: skip
    arrived = send(sent, device())
    for a, b in zip(sent, arrived, strict=True):
        assert b.device == device() and b.dtype == a.dtype
        assert torch.equal(a, b.cpu())
    assert send(sent, torch.device("cpu"))[0] is sent[0]


def test_a_part_of_its_memory_can_be_asked_for(here):
    start(Runtime(device=NAME, gpu_memory=0.25))
    module = torch.get_device_module(NAME)
    assert module.fraction == 0.25
    start(Runtime(device=NAME))
    assert module.fraction == 0.25
    module.fraction = 1.0


def test_a_constant_is_sent_once(here):
    like = torch.zeros(1).to(device())
    assert constant((1.0, 2.0), like) is constant((1.0, 2.0), like)
    assert constant((1.0, 2.0), like).cpu().tolist() == [1, 2]


def test_a_tensor_of_the_cpu_among_those_of_the_device_is_found(here):
    x = torch.ones(3).to(device())
    for mistake in (
        lambda: x + torch.ones(3),
        lambda: x[torch.tensor([0, 2])],
        lambda: torch.nn.functional.linear(x, torch.ones(2, 3)),
        lambda: x.index_select(0, torch.tensor([0])),
    ):
        with pytest.raises(RuntimeError, match="cpu"):
            mistake()
    assert (x + 1).cpu().tolist() == [2, 2, 2]


def test_a_generator_of_the_cpu_is_found(here):
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, generator=torch.Generator(), device=device())


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_mixed_precision_casts_products_alone(here, kind):
    x, w = (torch.full((2, 2), 1 / 3).to(device()) for _ in range(2))
    w.requires_grad_()
    with torch.autocast(NAME, kind):
        y = torch.nn.functional.linear(x, w)
        assert y.dtype is kind and y.softmax(dim=1).dtype is torch.float32
        assert torch.cat([y, x]).dtype is torch.float32 and (x + x).dtype is x.dtype
    y.float().sum().backward()
    third = torch.tensor(1 / 3, dtype=kind).float()
    assert w.grad.cpu().tolist() == [[(third + third).to(kind).item()] * 2] * 2
    assert torch.nn.functional.linear(x, w).dtype is torch.float32


@pytest.mark.parametrize("look", [
    lambda x: x.sum().item(), lambda x: float(x[0, 0]), lambda x: bool((x > 0).any()),
    lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: x.cpu(), lambda x: x.tolist(),
])  # fmt: skip
def test_a_step_that_waits_is_counted(both, monkeypatch, look):
    from furlkit.objectives import simclr

    plain = simclr.normalise

    def normalise(z):
        look(z.detach())
        return plain(z)

    monkeypatch.setattr(simclr, "normalise", normalise)
    assert sum(both(*CLIENT).reads.values()) >= STEPS


def test_a_constant_that_every_step_sends_is_counted(both, monkeypatch):
    from furlkit.objectives import simclr

    plain = simclr.normalise

    def normalise(z):
        return plain(z) * torch.ones(1).to(z.device)

    monkeypatch.setattr(simclr, "normalise", normalise)
    assert sum(both(*CLIENT).copies.values()) >= 2 * STEPS


def test_the_clock_waits_for_the_device(both, monkeypatch):
    """A device that computes behind the program's back is waited for, once an epoch."""
    waits = []
    module = torch.get_device_module(NAME)
    monkeypatch.setattr(module, "synchronize", lambda: waits.append(1))
    both(*CLIENT)
    assert len(waits) == 1
