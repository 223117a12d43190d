"""DUM: equation 4 on a few numbers, its scope and its limits."""

import numpy as np
import pytest

from furlkit.updates.dum import DISTANCES, dum


def model(encoder, clusters=0.0, projector=0.0, mean=0.0, count=1):
    return {
        "encoder.conv.weight": np.full((1, 1, 2, 2), encoder, np.float32),
        "encoder.bn.running_mean": np.array([mean], np.float32),
        "encoder.bn.num_batches_tracked": np.array(count),
        "clusters.weight": np.array([[clusters]], np.float32),
        "projector.fc1.weight": np.array([[projector]], np.float32),
    }


def values(w):
    return {name.split(".")[0]: float(w[name].ravel()[0]) for name in w if "w" in name}


USUAL = {"xi": 0.5, "mu": 0.4, "distance": "mean-conv"}


def test_first_round_takes_the_global_model():
    w_g = model(1.0)
    w, memory, decision = dum(w_g, None, {}, **USUAL)
    assert w is w_g and memory == {} and decision == (0.0, None)


@pytest.mark.parametrize("distance", DISTANCES)
def test_it_takes_the_global_model_up_to_mu_and_mixes_beyond(distance):
    """Of 4 weights, 3 and 1: the squares sum to 16, and the norms are 6 and 4."""
    w_g, w_k = model(3.0), model(1.0)
    gap = {"mean-conv": 4.0, "sum-squares": 16.0, "relative": 4 / 6}[distance]
    w, _, decision = dum(w_g, w_k, {}, xi=0.25, mu=gap, distance=distance)
    assert w is w_g and decision == (0.0, pytest.approx(gap))
    below = {"mu": gap * (1 - 1e-6), "distance": distance}
    w, _, decision = dum(w_g, w_k, {}, xi=0.25, **below)
    assert values(w)["encoder"] == 0.25 * 1 + 0.75 * 3
    assert decision == (0.25, pytest.approx(gap)) and decision.word == "mixed"


def test_backbone_and_clusters_are_mixed_and_the_projector_follows_the_server():
    w_g, w_k = model(4.0, 8.0, 2.0, 6.0, 3), model(0.0, 4.0, 9.0, 2.0, 7)
    w, _, _ = dum(w_g, w_k, {}, **USUAL)
    assert values(w) == {"encoder": 2.0, "clusters": 6.0, "projector": 2.0}
    assert float(w["encoder.bn.running_mean"][0]) == 4.0
    assert int(w["encoder.bn.num_batches_tracked"]) == 7
    assert w["encoder.conv.weight"].dtype == np.float32


def test_the_projector_is_no_reason_to_mix():
    w_g, w_k = model(1.0, projector=50.0), model(1.0)
    for distance in DISTANCES:
        assert dum(w_g, w_k, {}, xi=0.5, mu=0.0, distance=distance)[0] is w_g


def test_the_cluster_head_is_a_reason_to_mix_where_all_weights_count():
    w_g, w_k = model(1.0, clusters=3.0), model(1.0)
    far = {d: dum(w_g, w_k, {}, xi=0.5, mu=0.1, distance=d)[0] for d in DISTANCES}
    clusters = {distance: values(w)["clusters"] for distance, w in far.items()}
    assert clusters == {"mean-conv": 3.0, "sum-squares": 1.5, "relative": 1.5}


def test_a_client_that_has_no_clusters_yet_takes_those_of_the_server():
    w_k = {k: v for k, v in model(0.0).items() if "clusters" not in k}
    w, _, decision = dum(model(4.0, 8.0), w_k, {}, **USUAL)
    assert values(w)["encoder"] == 2.0 and values(w)["clusters"] == 8.0
    assert decision.own == 0.5


def test_xi_0_is_the_global_model_and_xi_1_the_client_s_own():
    w_g, w_k = model(-0.0, 3.0, count=2), model(5.0, 4.0, count=9)
    w, _, decision = dum(w_g, w_k, {}, **{**USUAL, "xi": 0.0})
    assert w is w_g and decision.word == "took" and decision.distance == 10.0
    w, _, decision = dum(w_g, w_k, {}, **{**USUAL, "xi": 1.0})
    assert values(w) == {"encoder": 5.0, "clusters": 4.0, "projector": 0.0}
    assert decision.word == "kept"
