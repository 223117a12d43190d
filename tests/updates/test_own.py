"""A client that continues with its own model."""

import numpy as np

from furlkit.updates.own import own


def test_the_first_round_starts_from_the_global_model_and_later_ones_from_its_own():
    w_g = {"encoder.a": np.array([1.0]), "target.encoder.a": np.array([5.0])}
    w_k = {"encoder.a": np.array([3.0])}
    memory = {"x": np.array(1)}
    assert own(w_g, None, memory) == (w_g, memory, None)
    w, kept, _ = own(w_g, w_k, memory)
    assert w == {"encoder.a": w_k["encoder.a"], "target.encoder.a": np.array([5.0])}
    assert kept is memory
