"""A thread prepares the views of the next step; the bytes are those without a thread."""

import ctypes
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from furlkit.data import batches
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.objectives.learner import Forward, Stateless
from furlkit.runtime import has_free_core
from furlkit.training.loop import Job, NoProgress, train
from furlkit.training.plan import Plan

VIEW = View(Augmentation(), 8, 1, (0.5,), (0.5,))
WEAK = Augmentation(jitter_probability=0.0)
STEPS = 10  # Two epochs of five steps.


def draws_first(batch):
    noise = torch.rand(4, 1, 1, 1, generator=batch.generator)
    return batch.one_view() + noise


def changes(batch):
    return batch.two_views() if batch.step % 3 else batch.one_view(WEAK)


def passes_twice(batch):
    return torch.cat([one.two_views() for one in batch.twice()])


def asks_again(batch):
    return torch.cat([batch.two_views(), batch.two_views(), batch.one_view(WEAK)])


def chooses_others(batch):
    others = batch.at(torch.randint(20, (4,), generator=batch.generator))
    return torch.cat([others.two_views(), batch.two_views()])


# The views of a step; the number of steps with views that the thread has prepared.
WAYS = {
    "two views": (lambda batch: batch.two_views(), STEPS - 2),
    "one view": (lambda batch: batch.one_view(), STEPS - 2),
    "a weak view": (lambda batch: batch.one_view(WEAK), STEPS - 2),
    "separate views": (lambda batch: torch.cat(batch.separate_views(None, WEAK)[0]), 0),
    "plain images, then views": (lambda b: b.plain() + b.one_view(), STEPS - 2),
    "draws first": (draws_first, 0),
    "changing requests": (changes, None),
    "two passes": (passes_twice, STEPS - 2),
    "several requests": (asks_again, STEPS - 2),
    "other images first": (chooses_others, 0),
}


@pytest.fixture(params=["resident", "mapped"])
def images(request, monkeypatch):
    if request.param == "mapped":
        monkeypatch.setattr(batches, "RESIDENT_LIMIT", 0)
    return some_images()


def some_images():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 1), dtype=np.uint8)
    return Images(pixels, None, np.arange(20), VIEW, torch.device("cpu"))


def job_of(images, views):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))

    def step(net, batch):
        x = views(batch)
        z = net(x)
        # The generator's next number tells whether it drew as without a thread.
        last = torch.rand((), generator=batch.generator)
        return Forward({"loss": last * (z - 0.5).square().mean()}, x, z)

    plan = Plan(epochs=2, batch_size=4, optimiser="sgd", lr=0.1)
    return Job("test", Stateless(net, step), images, plan, (0, "test"))


def weights_of(job):
    return torch.cat([p.detach().flatten() for p in job.learner.parameters()])


@pytest.fixture
def drawing(monkeypatch):
    """The threads that draw views, in the order of the draws."""
    threads, draw = [], batches.draw_views

    def draw_and_note(*arguments):
        threads.append(threading.current_thread())
        return draw(*arguments)

    monkeypatch.setattr(batches, "draw_views", draw_and_note)
    return threads


@pytest.mark.parametrize("way", WAYS)
def test_prepared_views_give_the_bytes_of_a_training_without_a_thread(
    images, drawing, way
):
    views, expected = WAYS[way]
    jobs, draws = [job_of(images, views) for _ in range(2)], []
    for job, ahead in zip(jobs, (False, True), strict=True):
        assert [step.number for step in train(job, NoProgress(), ahead)][-1] == STEPS
        draws.append([thread is threading.current_thread() for thread in drawing])
        drawing.clear()
    assert torch.equal(*map(weights_of, jobs))
    assert all(draws[0])
    if expected is not None:
        assert draws[1].count(False) == expected


def test_the_thread_prepares_no_views_in_vain(drawing):
    for _ in train(job_of(some_images(), WAYS["two views"][0]), NoProgress(), True):
        pass
    assert len(drawing) == STEPS


def openmp():
    """The OpenMP library of torch; torch's function would repair a wrong number."""
    for path in (Path(torch.__file__).parent / "lib").glob("libgomp*"):
        return ctypes.CDLL(str(path))
    pytest.skip("this torch has no libgomp")


def test_the_thread_keeps_the_number_of_threads(monkeypatch):
    limit, numbers, draw = openmp().omp_get_max_threads, {}, batches.draw_views

    def draw_and_note(*arguments):
        numbers.setdefault(threading.current_thread(), limit())
        return draw(*arguments)

    monkeypatch.setattr(batches, "draw_views", draw_and_note)
    before = torch.get_num_threads()
    torch.set_num_threads(3)  # The variable OMP_NUM_THREADS of the tests is 1.
    try:
        list(train(job_of(some_images(), WAYS["one view"][0]), NoProgress(), True))
    finally:
        torch.set_num_threads(before)
    assert list(numbers.values()) == [3, 3]


@pytest.mark.parametrize("steps", [1, 2, 3, STEPS])
def test_no_thread_survives_the_training(steps):
    before = threading.enumerate()
    training = train(job_of(some_images(), WAYS["one view"][0]), NoProgress(), True)
    for _ in range(steps):
        next(training)
    training.close()
    assert threading.enumerate() == before


def test_an_error_in_the_thread_is_an_error_of_the_step(monkeypatch):
    before, calls, draw = threading.enumerate(), [], batches.draw_views

    def draw_or_fail(*arguments):
        calls.append(threading.current_thread())
        if len(calls) == 5:
            raise RuntimeError("not enough memory: you tried to allocate 9 bytes")
        return draw(*arguments)

    monkeypatch.setattr(batches, "draw_views", draw_or_fail)
    training = train(job_of(some_images(), WAYS["one view"][0]), NoProgress(), True)
    with pytest.raises(RuntimeError, match="allocate 9 bytes"):
        list(training)
    assert calls[4] is not threading.current_thread()
    assert threading.enumerate() == before


def test_time_of_the_thread_is_not_time_that_steps_have_waited(monkeypatch):
    images, stored = some_images(), Images.stored
    computing, gathered = threading.Event(), threading.Event()
    clock = [0]  # Reading images takes a second, in the thread 100 seconds at first.

    def store_slowly(self, index):
        if threading.current_thread() is threading.main_thread():
            clock[0] += 1
        elif not gathered.is_set():
            assert computing.wait(timeout=60)
            clock[0] += 100
            gathered.set()
        return stored(self, index)

    def views(batch):
        x = batch.one_view()
        if batch.step == 1:  # While the thread prepares step 2.
            computing.set()
            assert gathered.wait(timeout=60)
        return x

    monkeypatch.setattr(Images, "stored", store_slowly)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    for _ in train(job_of(images, views), NoProgress(), True):
        pass
    assert 0 < images.seconds < 100 < clock[0]


@pytest.mark.parametrize(
    ("cores", "threads", "processes", "free"),
    [(1, 1, 1, False), (2, 1, 1, True), (2, 2, 1, False), (2, 1, 2, False),
     (4, 2, 1, True), (4, 1, 2, True)],
)  # fmt: skip
def test_a_thread_prepares_views_if_cores_are_free(
    monkeypatch, cores, threads, processes, free
):
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda _pid: range(cores), raising=False
    )
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    assert has_free_core() is free
