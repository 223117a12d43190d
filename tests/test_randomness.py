import itertools
import random

import numpy as np
import torch

from furlkit.randomness import derive, numpy_generator, torch_generator


def test_derive_is_the_first_63_bits_of_a_sha256():
    # printf 0 | sha256sum; printf 7/sample/3 | sha256sum
    assert derive(0) == 0x5FECEB66FFC86F38 >> 1
    assert derive(7, "sample", 3) == 0xE1FE09287A0C5A84 >> 1


def test_every_part_of_the_purpose_matters():
    purposes = list(itertools.product((0, 1, 2), ("init", "order"), (1, 2), (0, 1, 11)))
    numbers = {derive(*purpose) for purpose in purposes}
    assert len(numbers) == len(purposes)
    assert all(0 <= number < 2**63 for number in numbers)


def test_neighbouring_words_do_not_run_together():
    assert derive(1, 23) != derive(12, 3)
    assert derive(0, "a", "b") != derive(0, "ab")


def test_generators_repeat_and_differ_by_purpose():
    def draws(*purpose):
        return torch.rand(4, generator=torch_generator(*purpose)).tolist()

    assert draws(0, "order", 1) == draws(0, "order", 1)
    assert draws(0, "order", 1) != draws(0, "order", 2)
    one, two = numpy_generator(0, "order"), numpy_generator(0, "order")
    assert one.random(4).tolist() == two.random(4).tolist()


def test_no_global_state_is_touched():
    numpys = np.random.get_state()[1].copy()  # noqa: NPY002
    before = torch.get_rng_state(), random.getstate()
    torch.rand(9, generator=torch_generator(3, "x"))
    numpy_generator(3, "x").random(9)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == numpys).all()  # noqa: NPY002
