"""SCAN's loss in loops, by property and by hand; drawn neighbours; what an epoch tells."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.models.heads import Clusters
from furlkit.objectives.cluster import consistency, entropy, learner, scan_loss


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def logits_of(*shape, seed=0, scale=1.0):
    return scale * torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def log_q_of(*shape, **how):
    return logits_of(*shape, **how).log_softmax(dim=-1)


def one_hot(clusters, H):
    """log q of images that are certain of these clusters."""
    return (1e4 * torch.eye(H, dtype=torch.float64)[clusters]).log_softmax(dim=-1)


def one_near(log_q, log_near, weight):
    """SCAN's loss: each image has one neighbour."""
    return scan_loss(log_q, log_near[:, None], weight)


# --- the loss -------------------------------------------------------------------------


def test_loss_matches_loops():
    N, H, weight = 6, 4, 5.0
    a, b = logits_of(N, H, scale=2), logits_of(N, H, seed=1, scale=2)

    def softmax(row):
        total = sum(math.exp(v) for v in row)
        return [math.exp(v) / total for v in row]

    q, near = (list(map(softmax, logits.tolist())) for logits in (a, b))
    expected = 0.0
    for n in range(N):
        expected -= math.log(sum(q[n][h] * near[n][h] for h in range(H))) / N
    for h in range(H):
        p = sum(q[n][h] for n in range(N)) / N
        expected += weight * p * math.log(p)
    found = one_near(a.log_softmax(dim=-1), b.log_softmax(dim=-1), weight)
    assert float(found) == pytest.approx(expected, abs=1e-12)


def test_the_sum_over_neighbours_matches_loops():
    """FedUSC Eq. 3 as printed, of two heads."""
    N, k, heads, H, weight = 5, 3, 2, 4, 5.0
    q = logits_of(N, heads, H, scale=2).softmax(dim=-1)
    near = logits_of(N, k, heads, H, seed=1, scale=2).softmax(dim=-1)
    found = scan_loss(q.log(), near.log(), weight)
    for head in range(heads):
        expected = 0.0
        for x in range(N):
            for j in range(k):
                product = 0.0
                for h in range(H):
                    product += float(q[x, head, h] * near[x, j, head, h])
                expected -= math.log(product) / N
        for h in range(H):
            p = sum(float(q[x, head, h]) for x in range(N)) / N
            expected += weight * p * math.log(p)
        assert float(found[head]) == pytest.approx(expected, abs=1e-12)


def test_neighbours_add_up_and_leave_the_entropy_alone():
    """Of k neighbours the first term is k times the mean; k equal ones weigh k times."""
    q, near = log_q_of(6, 4), log_q_of(6, 3, 4, seed=1)
    terms = [one_near(q, near[:, j], 0.0) for j in range(3)]
    torch.testing.assert_close(scan_loss(q, near, 0.0), sum(terms))
    torch.testing.assert_close(scan_loss(q, near, 5.0), sum(terms) - 5.0 * entropy(q))
    alike = near[:, :1].expand(-1, 20, -1)
    torch.testing.assert_close(
        scan_loss(q, alike, 5.0), 20 * one_near(q, near[:, 0], 5.0 / 20)
    )


def test_undecided_neighbours_cost_ln_h_each():
    """Certain and even: -lambda ln H still. Undecided: (k - lambda) ln H."""
    H, k, weight = 10, 20, 5.0
    even = one_hot(torch.arange(3 * H) % H, H)
    alike = even[:, None].expand(-1, k, -1)
    assert float(scan_loss(even, alike, weight)) == pytest.approx(-weight * math.log(H))
    undecided = torch.full((3 * H, H), -math.log(H), dtype=torch.float64)
    found = scan_loss(undecided, undecided[:, None].expand(-1, k, -1), weight)
    assert float(found) == pytest.approx((k - weight) * math.log(H))


@pytest.mark.parametrize("H", [2, 10])
@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_limits_by_hand(H, weight):
    """Even and certain: -lambda ln H. Collapsed: 0. Undecided: (1 - lambda) ln H."""
    even = one_hot(torch.arange(3 * H) % H, H)
    assert float(one_near(even, even, weight)) == pytest.approx(-weight * math.log(H))
    collapsed = one_hot(torch.zeros(3 * H, dtype=torch.long), H)
    assert float(one_near(collapsed, collapsed, weight)) == 0
    assert float(entropy(collapsed)) == 0
    undecided = torch.full((3 * H, H), -math.log(H), dtype=torch.float64)
    expected = (1 - weight) * math.log(H)
    assert float(one_near(undecided, undecided, weight)) == pytest.approx(expected)
    # Neighbours that are certain of two different clusters: in each of them one has
    # q = exp(-1e4).
    apart = consistency(even, even.roll(1, dims=0))
    assert float(apart) == pytest.approx(1e4 - math.log(2))


def test_the_loss_is_bounded_and_does_not_depend_on_orders():
    H, weight = 5, 5.0
    for seed in range(5):
        q, near = log_q_of(8, H, seed=seed, scale=3), log_q_of(8, H, seed=seed + 9)
        loss = one_near(q, near, weight)
        assert -weight * math.log(H) <= float(loss)
        assert 0 <= float(entropy(q)) <= math.log(H) + 1e-12
        images, clusters = (
            torch.randperm(8, generator=seeded()),
            torch.arange(H).flip(0),
        )
        again = one_near(q[images][:, clusters], near[images][:, clusters], weight)
        torch.testing.assert_close(again, loss)
        torch.testing.assert_close(consistency(q, near), consistency(near, q))


def test_a_step_down_the_gradient_evens_clusters_and_brings_neighbours_together():
    """The sign of each term: entropy rises, and so does the agreement."""
    fixed = log_q_of(16, 4, seed=1)
    for weight, better in ((5.0, entropy), (0.0, lambda q: -consistency(q, fixed))):
        logits = (logits_of(16, 4) + torch.tensor([2.0, 0, 0, 0])).requires_grad_()
        one_near(logits.log_softmax(dim=-1), fixed, weight).backward()
        before = logits.detach().log_softmax(dim=-1)
        after = (logits - 0.5 * logits.grad).detach().log_softmax(dim=-1)
        assert better(after) > better(before)


def test_heads_have_losses_of_their_own():
    q, near = log_q_of(7, 3, 4), log_q_of(7, 3, 4, seed=1)
    alone = [one_near(q[:, k], near[:, k], 5.0) for k in range(3)]
    torch.testing.assert_close(one_near(q, near, 5.0), torch.stack(alone))


def test_extreme_logits_have_a_finite_loss_and_gradient():
    """Clusters whose probability is below the smallest float, for all images."""
    logits = torch.tensor([[500.0, -500.0, 0.0], [400.0, -600.0, 3.0]])
    logits.requires_grad_()
    log_q = logits.log_softmax(dim=-1)
    assert log_q.exp()[:, 1].eq(0).all()
    loss = one_near(log_q, log_q.flip(1), 5.0)
    loss.backward()
    assert loss.isfinite() and logits.grad.isfinite().all()


# --- the learner ----------------------------------------------------------------------


class Tiny(nn.Module):
    """A net of flat images with two heads of three clusters."""

    def __init__(self, heads=2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
        self.clusters = Clusters(6, 3, heads)


STILL = Augmentation(
    crop_scale=(1, 1), crop_ratio=(1, 1), flip=0, jitter_probability=0, grey=0
)


def images_of(count):
    pixels = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 1), np.uint8)
    view = View(STILL, 8, 1, (0.5,), (0.5,))
    return Images(pixels, None, np.arange(count), view, torch.device("cpu"))


NEIGHBOURS = torch.tensor([[1, 2], [2, 0], [0, 1], [4, 0], [3, 1]])


def test_a_step_compares_images_with_one_of_their_own_neighbours():
    images, seen = images_of(5), [set() for _ in range(5)]
    method = learner(net := Tiny(), entropy_weight=5.0, neighbours=NEIGHBOURS)
    plain = images.batch(torch.arange(5), seeded()).plain()
    method.begin_epoch(images, 0, seeded())
    index = torch.tensor([4, 0, 3])
    for seed in range(12):
        forward = method.step(images.batch(index, seeded(seed)))
        torch.testing.assert_close(forward.views[:3], plain[index])
        for image, view in zip(index.tolist(), forward.views[3:], strict=True):
            (near,) = [i for i in range(5) if torch.allclose(view, plain[i])]
            seen[image].add(near)
    assert [seen[i] for i in (4, 0, 3)] == [{3, 1}, {1, 2}, {4, 0}]
    log_q = net.clusters(net.encoder(forward.views)).log_softmax(dim=-1)
    expected = one_near(*log_q.chunk(2), 5.0)
    assert list(forward.losses) == ["cluster.0", "cluster.1"]
    torch.testing.assert_close(torch.stack([*forward.losses.values()]), expected)
    sum(forward.losses.values()).backward()
    assert net.encoder[1].weight.grad.abs().sum() > 0
    # The same step draws the same neighbours.
    again = method.step(images.batch(index, seeded(11)))
    assert torch.equal(again.views, forward.views)


def test_a_step_may_compare_images_with_all_of_their_neighbours():
    """Images 4, 0 and 3 have the neighbours 3 and 1, 1 and 2, 4 and 0: five images."""
    images, index = images_of(5), torch.tensor([4, 0, 3])
    how = {"entropy_weight": 5.0, "nearest_used": "all", "neighbours": NEIGHBOURS}
    method = learner(net := Tiny(), **how)
    method.begin_epoch(images, 0, seeded())
    plain = images.batch(torch.arange(5), seeded()).plain()
    forward = method.step(images.batch(index, seeded()))
    torch.testing.assert_close(forward.views, plain)
    log_q = net.clusters(net.encoder(plain)).log_softmax(dim=-1)  # (5, heads, H)
    expected = scan_loss(log_q[index], log_q[NEIGHBOURS[index]], 5.0)
    torch.testing.assert_close(torch.stack([*forward.losses.values()]), expected)
    assert sum(method.end_epoch({"cluster.0": 0, "cluster.1": 1})["occupancy"]) == 3
    sum(forward.losses.values()).backward()
    assert net.encoder[1].weight.grad.abs().sum() > 0


def test_an_epoch_tells_how_images_are_spread_over_the_head_of_lowest_loss():
    images = images_of(5)
    method = learner(net := Tiny(), entropy_weight=5.0, neighbours=NEIGHBOURS)
    method.begin_epoch(images, 0, seeded())
    qs = []
    for index in (torch.tensor([0, 1]), torch.tensor([2, 3])):
        method.step(images.batch(index, seeded()))
        x = images.batch(index, seeded()).plain()
        qs.append(net.clusters(net.encoder(x)).softmax(dim=-1).detach())
    q = torch.cat(qs)  # (4, 2, 3)
    for losses, head in (((1.0, 2.0), 0), ((2.0, 1.0), 1), ((1.0, 1.0), 0)):
        named = {"cluster.0": losses[0], "cluster.1": losses[1], "proximal": -9.0}
        told, own = method.end_epoch(named), q[:, head]
        members = [own.argmax(dim=1).tolist().count(c) for c in range(3)]
        assert told["head"] == head
        assert told["occupancy"] == members
        assert told["largest_cluster"] == max(members) / 4
        assert told["used_clusters"] == sum(m > 0 for m in members)
        p = own.mean(dim=0).tolist()
        expected = -sum(v * math.log(v) for v in p)
        assert told["cluster_entropy"] == pytest.approx(expected, abs=1e-6)
        assert told["confident"] == 0
    # The next epoch counts from 0; certain images are confident.
    method.begin_epoch(images, 1, seeded())
    with torch.no_grad():
        net.clusters.weight.zero_()
        net.clusters.bias.copy_(torch.tensor([0, 9, 0, 0, 0, 0]))
    method.step(images.batch(torch.tensor([0, 1, 4]), seeded()))
    told = method.end_epoch({"cluster.0": 0.0, "cluster.1": 1.0})
    assert (told["largest_cluster"], told["used_clusters"]) == (1, 1)
    assert told["occupancy"] == [0, 3, 0]
    assert told["confident"] == 1 and told["cluster_entropy"] < 0.01
    told = method.end_epoch({"cluster.0": 1.0, "cluster.1": 0.0})
    assert told["confident"] == 0
    assert told["cluster_entropy"] == pytest.approx(math.log(3), abs=1e-6)


@pytest.mark.parametrize("q, confident", [(0.985, 0), (0.991, 1)])
def test_an_image_is_confident_from_99_percent(q, confident):
    images = images_of(5)
    method = learner(net := Tiny(1), entropy_weight=5.0, neighbours=NEIGHBOURS)
    with torch.no_grad():
        net.clusters.weight.zero_()
        net.clusters.bias.copy_(torch.tensor([q, (1 - q) / 2, (1 - q) / 2]).log())
    method.begin_epoch(images, 0, seeded())
    method.step(images.batch(torch.tensor([0, 1]), seeded()))
    assert method.end_epoch({"cluster": 0.0})["confident"] == confident


def test_one_head_has_one_loss_and_counts_are_no_part_of_the_model():
    method = learner(Tiny(heads=1), entropy_weight=5.0, neighbours=NEIGHBOURS)
    names = set(method.state_dict())
    method.begin_epoch(images_of(5), 0, seeded())
    assert set(method.state_dict()) - names == {"mass", "members", "confident"}
    forward = method.step(images_of(5).batch(torch.tensor([0, 1]), seeded()))
    assert list(forward.losses) == ["cluster"]
    with pytest.raises(ValueError, match="neighbours"):
        learner(Tiny(), entropy_weight=5.0).step(
            images_of(5).batch(torch.tensor([0]), seeded())
        )
