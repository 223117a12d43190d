"""ASTW: in which rounds which parts travel."""

from furlkit.updates.astw import sent_parts

PARTS = ("encoder", "projector", "clusters")


def deep_rounds(rounds, **how):
    sent = {r: sent_parts(PARTS, r, **how) for r in range(1, rounds + 1)}
    assert set(sent.values()) <= {PARTS, ("encoder",)}
    return [r for r, parts in sent.items() if parts == PARTS]


def test_all_parts_travel_in_the_last_rounds_of_each_cycle():
    found = deep_rounds(31, cycle=15, exchanges=5)
    assert found == [*range(11, 16), *range(26, 31)]


def test_with_as_many_exchanges_as_rounds_everything_always_travels():
    assert deep_rounds(7, cycle=3, exchanges=3) == list(range(1, 8))
    assert deep_rounds(4, cycle=1, exchanges=1) == [1, 2, 3, 4]
