"""FedU: whose predictor a client starts from."""

import numpy as np
import pytest

from furlkit.updates.fedu import fedu


def model(encoder, predictor, projector=0.0):
    return {
        "encoder.a.weight": np.full((1, 1, 2, 2), encoder, np.float32),
        "encoder.b.weight": np.zeros((1, 1, 1, 1), np.float32),
        "projector.fc1.weight": np.array([[projector]], np.float32),
        "predictor.fc1.weight": np.array([[predictor]], np.float32),
    }


def test_first_round_takes_the_global_model():
    w_g = model(1.0, 1.0)
    assert fedu(w_g, None, {}, mu=0.4) == (w_g, {}, (0.0, None))


def test_the_predictor_is_the_server_s_below_mu_and_the_client_s_own_from_mu_on():
    """Convolutions at distances 4 and 0: the mean is 2."""
    w_g, w_k = model(3.0, 7.0, 5.0), model(1.0, 8.0, 6.0)
    w, _, decision = fedu(w_g, w_k, {}, mu=2.0)
    assert decision == (1.0, 2.0) and decision.word == "kept"
    found = {name.split(".")[0]: float(v.ravel()[-1]) for name, v in w.items()}
    assert found == {"encoder": 0.0, "projector": 5.0, "predictor": 8.0}
    assert float(w["encoder.a.weight"].max()) == 3.0  # the server's, always
    w, _, decision = fedu(w_g, w_k, {}, mu=2.0001)
    assert w is w_g and decision == (0.0, pytest.approx(2.0))
