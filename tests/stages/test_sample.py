import json
import subprocess
import sys

import pytest

from furlkit.errors import UsageError
from furlkit.stages.sample import draw, run
from tests.helpers import furlkit


def drawn(clients, fraction, rounds, seed):
    names = ("clients", "fraction", "rounds", "seed", "rounding")
    values = zip(names, (clients, fraction, rounds, seed, "nearest"), strict=True)
    return run(dict(values))[1]["rounds"]


def test_a_rounds_draw_depends_on_no_other_round():
    one = drawn(tuple(range(10)), 0.4, (1, 2, 3, 4, 5), 7)
    other = drawn(tuple(range(10)), 0.4, (3,), 7)
    assert one[3] == other[3]
    assert len({tuple(clients) for clients in one.values()}) > 1


def test_a_draw_is_sorted_distinct_and_of_the_right_size():
    for number in range(1, 30):
        drawn = draw(tuple(range(3, 23)), 0.25, 0, number)
        assert drawn == sorted(set(drawn)) and len(drawn) == 5
        assert set(drawn) <= set(range(3, 23))


def test_every_client_is_drawn_about_as_often():
    counts = [0] * 10
    for number in range(1000):
        for client in draw(tuple(range(10)), 0.3, 1, number):
            counts[client] += 1
    # 300 are expected; the spread of a count is sqrt(1000 * 0.3 * 0.7) = 14.5.
    assert min(counts) > 300 - 5 * 14.5 and max(counts) < 300 + 5 * 14.5


def test_one_client_takes_part_at_least_and_all_at_most():
    assert len(draw((4, 5, 6), 0.01, 0, 1)) == 1
    assert draw((4, 5, 6), 1.0, 0, 1) == [4, 5, 6]


@pytest.mark.parametrize(
    "clients, fraction, nearest, down",
    [(15, 0.5, 8, 7), (3, 0.5, 2, 1), (100, 0.29, 29, 29), (20, 0.5, 10, 10), (9, 0.1, 1, 1)],
)  # fmt: skip
def test_fedstyle_rounds_the_number_of_clients_down(clients, fraction, nearest, down):
    """Algorithm 1, line 3: K = floor(alpha N)."""
    known = tuple(range(clients)), fraction, 0, 1
    assert len(draw(*known)) == nearest
    assert len(draw(*known, rounding="down")) == down


def test_a_single_number_is_a_client_and_no_count(capsys):
    assert furlkit("sample", "--clients", "10") == 0
    said = capsys.readouterr()
    assert said.out == "1/10\n" and "0-9" in said.err
    assert furlkit("sample", "--clients", "0-9") == 0
    assert capsys.readouterr().err == ""


def test_the_rounding_is_an_option(capsys):
    words = ("sample", "--clients", "0-14", "--fraction", 0.5, "--rounding", "down")
    assert furlkit(*words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"1/{k}" for k in draw(range(15), 0.5, 0, 1, "", "down")]
    assert len(lines) == 7


def test_the_seed_is_read():
    draws = {tuple(draw(tuple(range(50)), 0.2, seed, 1)) for seed in range(5)}
    assert len(draws) == 5


@pytest.mark.parametrize("fraction", [0, -1, 1.5])
def test_a_fraction_is_above_0_and_at_most_1(fraction):
    with pytest.raises(UsageError, match=f"--fraction {fraction}"):
        drawn((0, 1), fraction, (1,), 0)


def test_lines_are_round_and_client(capsys):
    command = ["sample", "--clients", "0-4", "--fraction", "0.4", "--rounds", "2-3"]
    assert furlkit(*command) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = [f"{r}/{k}" for r in (2, 3) for k in draw((0, 1, 2, 3, 4), 0.4, 0, r)]
    assert lines == expected and len(lines) == 4
    assert furlkit(*command, "--json") == 0
    rounds = json.loads(capsys.readouterr().out)["rounds"]
    assert [f"{r}/{k}" for r, clients in rounds.items() for k in clients] == expected


def test_a_closed_pipe_is_not_a_failure():
    arguments = ["sample", "--clients", "0-9", "--rounds", "1-20000"]
    program = subprocess.Popen(
        [sys.executable, "-m", "furlkit", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout.readline() == b"1/0\n"
    program.stdout.close()
    assert program.stderr.read() == b"" and program.wait() == 0
