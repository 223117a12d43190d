"""SwAV: codes and loss in loops, by property and by hand, lightly; its two clocks."""

import math

import numpy as np
import pytest
import torch

from furlkit.files.checkpoint import read_checkpoint
from furlkit.objectives.simclr import normalise
from furlkit.objectives.swav import code_loss, learner, sinkhorn, swav_loss
from tests.helpers import furlkit, round_0
from tests.objectives.tiny import PrototypeNet, descend, rows


def scores_of(n, count, seed=0):
    """Cosines of n features and `count` prototypes."""
    return normalise(rows(n, 4, seed=seed)) @ normalise(rows(count, 4, seed=9)).T


# --- codes and loss -------------------------------------------------------------------


def test_codes_match_loops():
    scores, N, K = scores_of(5, 3), 5, 3
    q = [[math.exp(float(s) / 0.05) for s in row] for row in scores]
    for _ in range(3):
        for k in range(K):
            total = sum(q[n][k] for n in range(N))
            for n in range(N):
                q[n][k] /= total * K
        for n in range(N):
            total = sum(q[n])
            q[n] = [value / total / N for value in q[n]]
    expected = torch.tensor(q, dtype=torch.float64) * N
    torch.testing.assert_close(sinkhorn(scores, 0.05, 3), expected)


def test_codes_are_distributions_and_use_all_prototypes_alike():
    q = sinkhorn(scores_of(24, 6), 0.5, 200)
    torch.testing.assert_close(q.sum(dim=1), torch.ones(24, dtype=torch.float64))
    torch.testing.assert_close(q.sum(dim=0), torch.full((6,), 4.0, dtype=torch.float64))


def test_codes_by_hand():
    # Both images prefer the first prototype; the balance gives it to the surer one.
    scores = torch.tensor([[1.0, 0.0], [0.6, 0.0]], dtype=torch.float64)
    q = sinkhorn(scores, 0.01, 50)
    assert q.argmax(dim=1).tolist() == [0, 1]
    # Scores that are all the same leave nothing to choose; however large they are.
    assert sinkhorn(torch.full((4, 2), 1e4), 0.05, 3).tolist() == [[0.5, 0.5]] * 4


def test_loss_matches_loops():
    s_1, s_2 = scores_of(5, 3), scores_of(5, 3, seed=1)
    q_1, q_2 = sinkhorn(s_1, 0.05, 3), sinkhorn(s_2, 0.05, 3)
    total = 0.0
    for s, q in ((s_1, q_2), (s_2, q_1)):
        for n in range(5):
            below = sum(math.exp(float(s[n, k]) / 0.1) for k in range(3))
            for k in range(3):
                total -= float(q[n, k]) * (float(s[n, k]) / 0.1 - math.log(below))
    found = float(swav_loss((s_1, s_2), (q_1, q_2), 0.1))
    assert found == pytest.approx(total / 5 / 2, abs=1e-12)


def test_loss_by_hand_and_its_bound():
    # Equal scores predict each of three prototypes with 1/3, whatever the codes.
    codes = torch.eye(3, dtype=torch.float64)
    assert float(code_loss(0 * codes, codes, 0.1)) == pytest.approx(math.log(3))
    assert float(code_loss(codes, codes, 0.1)) == pytest.approx(
        math.log(1 + 2 * math.e**-10)
    )
    q = sinkhorn(scores_of(5, 3), 0.05, 3)
    entropy = -(q * q.log()).sum(dim=1).mean()
    assert code_loss(scores_of(5, 3, seed=1), q, 0.1) >= entropy


@pytest.mark.parametrize("queue", [0, 11])
def test_agrees_with_lightly(queue):
    lightly = pytest.importorskip("lightly.loss.swav_loss")
    s_1, s_2 = scores_of(7, 5).float(), scores_of(7, 5, seed=1).float()
    more = (
        [scores_of(queue, 5, seed=seed).float() for seed in (2, 3)] if queue else None
    )
    torch.testing.assert_close(sinkhorn(s_1, 0.05, 3), lightly.sinkhorn(s_1))
    whole = [
        torch.cat([s, m])
        for s, m in zip((s_1, s_2), more or (s_1[:0],) * 2, strict=True)
    ]
    q_1, q_2 = (sinkhorn(s, 0.05, 3)[:7] for s in whole)
    theirs = lightly.SwaVLoss()([s_1, s_2], [], more)
    torch.testing.assert_close(swav_loss((s_1, s_2), (q_1, q_2), 0.1), theirs[0])


# --- the learner ----------------------------------------------------------------------


OPTIONS = {"temperature": 0.1, "epsilon": 0.05, "sinkhorn_iterations": 3}


def swav_of(net, freeze_steps=0, queue=4, queue_after=0):
    clocks = {"freeze_steps": freeze_steps, "queue": queue, "queue_after": queue_after}
    return learner(net, **OPTIONS, **clocks)


def test_prototypes_rest_in_the_first_steps_of_a_run_and_stay_unit_rows():
    swav = swav_of(net := PrototypeNet(), freeze_steps=3)
    start = net.prototypes.weight.clone()
    for step in range(1, 5):
        descend(swav)
        assert torch.equal(net.prototypes.weight, start) == (step <= 3)
        assert int(net.prototypes.steps) == step
    torch.testing.assert_close(net.prototypes.weight.norm(dim=1), torch.ones(5))
    # The next round goes on counting.
    later = swav_of(net, freeze_steps=3)
    start = net.prototypes.weight.clone()
    descend(later)
    assert not torch.equal(net.prototypes.weight, start)


def test_an_epoch_begins_with_unit_prototypes():
    swav = swav_of(net := PrototypeNet())
    with torch.no_grad():
        net.prototypes.weight *= 0.3
    swav.begin_epoch(None, 0, torch.Generator())
    torch.testing.assert_close(net.prototypes.weight.norm(dim=1), torch.ones(5))


def test_codes_look_at_the_queue_of_their_view_late_and_only_when_it_is_full():
    swav = swav_of(net := PrototypeNet(), queue=4, queue_after=2)
    sizes = []
    for _ in range(6):
        sizes.append([len(queue.filled) for queue in swav.queue])
        C, full = net.prototypes.weight.detach().clone(), swav.queue[0].full
        before = [queue.rows.clone() for queue in swav.queue]
        forward = descend(swav)
        scores = (normalise(forward.z.detach()) @ C.T).chunk(2)
        whole = [
            torch.cat([s, b @ C.T]) if full else s
            for s, b in zip(scores, before, strict=True)
        ]
        codes = [sinkhorn(s, 0.05, 3)[:2] for s in whole]
        expected = swav_loss(scores, codes, 0.1)
        torch.testing.assert_close(forward.losses["swav"].detach(), expected)
    assert sizes == [[0, 0], [0, 0], [0, 0], [2, 2], [4, 4], [4, 4]]
    assert not torch.equal(swav.queue[0].rows, swav.queue[1].rows)


# --- rounds ---------------------------------------------------------------------------


def test_prototypes_are_averaged_their_steps_counted_on_and_queues_stay(tmp_path, run):
    net = (
        "--width",
        0.02,
        "--objective",
        "swav",
        "--projector",
        "8,4",
        "--prototypes",
        6,
    )
    world = round_0(
        tmp_path, ("--scheme", "volume", "--clients", 2, "--decay", 0.5), net
    )
    words = ("local-train", world / "p.st", "--data", "digits", "--client", "0-1")
    words += ("--objective", "swav", "--epochs", 1, "--batch-size", 64)
    words += ("--freeze-steps", 0, "-o", world / "c{client}")
    assert furlkit(*words[:2], world / "g.st", *words[2:]) == 0
    uploads = [read_checkpoint(world / f"c{k}") for k in (0, 1)]
    assert all(not any("queue" in name for name in u.tensors) for u in uploads)
    assert uploads[0].tensors["prototypes.weight"].shape == (6, 4)
    steps = [int(upload.tensors["prototypes.steps"]) for upload in uploads]
    assert steps == [upload.facts.examples // 64 for upload in uploads]
    assert furlkit("aggregate", world / "c0", world / "c1", "-o", world / "g1") == 0
    shared = read_checkpoint(world / "g1").tensors
    assert shared["prototypes.steps"] == max(steps) > min(steps)
    assert np.linalg.norm(shared["prototypes.weight"], axis=1).max() < 1
    assert furlkit(*words[:2], world / "g1", *words[2:], "--force") == 0
    again = read_checkpoint(world / "c1").tensors
    assert again["prototypes.steps"] == max(steps) + min(steps)
    lengths = np.linalg.norm(again["prototypes.weight"], axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-6)
    done = run(
        "init",
        "--data",
        "digits",
        "--objective",
        "swav",
        "--prototypes",
        "6,6",
        "-o",
        world / "x",
    )
    assert done.code == 2 and "prototypes" in done.err
