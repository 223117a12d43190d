"""plot updates on runs of a few bytes: what it reads, says and refuses."""

import json

import numpy as np
import pytest

from furlkit.files.container import write as container
from furlkit.files.container.header import Header
from furlkit.files.journal import Journal


def client(folder, round_, number, own, distance=None, update="dum", **options):
    """A client's checkpoint of a round, with what it decided in the journal beside it."""
    path = folder / f"r{round_:03}" / f"client_{number}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"client": number, "round": round_, "role": "client"}
    options = {"update": update, **options}
    header = Header("checkpoint", "local-train", options, None, {}, facts)
    container.write(path, {"w": np.full(2, number, "f4")}, header)
    Journal(path).write({"event": "start"})
    Journal(path).write({"event": "update", "own": own, "distance": distance})
    return path


@pytest.fixture
def folder(tmp_path):
    """Three rounds of DUM; client 4 is far away in round 3, client 2 sits it out."""
    place, how = tmp_path / "run", {"mu": 0.4, "xi": 0.5}
    for number in (4, 2):
        client(place, 1, number, 0.0, **how)
        client(place, 2, number, 0.0, 0.125 * number / 2, **how)
    client(place, 3, 4, 0.5, 0.75, **how)
    return place


def test_rows_of_clients_by_round(folder, run, tmp_path):
    output = tmp_path / "u.png"
    done = run("plot", "updates", folder, "-o", output, "--json")
    assert done.code == 0 and done.err == ""
    assert json.loads(done.out) == {
        "output": str(output),
        "update": "dum",
        "mu": 0.4,
        "clients": [
            {"client": 2, "rounds": [1, 2], "own": [0.0, 0.0],
             "distances": [None, 0.125], "decisions": ["took", "took"]},
            {"client": 4, "rounds": [1, 2, 3], "own": [0.0, 0.0, 0.5],
             "distances": [None, 0.25, 0.75], "decisions": ["took", "took", "mixed"]},
        ],
    }  # fmt: skip
    assert output.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_result_line(folder, run, tmp_path):
    done = run("plot", "updates", folder, "-o", tmp_path / "u.png", "--dry-run")
    assert done.out == (
        f"would draw {tmp_path}/u.png: dum of 2 clients in 3 rounds: took 4, mixed 1, "
        "kept 0; distances 0.125 to 0.75, mu 0.4\n"
    )
    assert not (tmp_path / "u.png").exists()


def test_what_is_drawn(folder, run, tmp_path, drawn):
    assert run("plot", "updates", folder, "-o", tmp_path / "u.png").code == 0
    shares, distances, _ = drawn[-1].axes
    (image,) = shares.images
    found = np.ma.filled(image.get_array().astype(float), np.nan)
    np.testing.assert_array_equal(found, [[0, 0, np.nan], [0, 0, 0.5]])
    assert image.get_extent() == [0.5, 3.5, 1.5, -0.5]  # a round in each column
    assert [text.get_text() for text in shares.get_yticklabels()] == ["2", "4"]
    lines = [line.get_xydata().tolist() for line in distances.lines]
    assert lines[:2] == [[[2, 0.125]], [[2, 0.25], [3, 0.75]]]
    assert lines[2] == [[0, 0.4], [1, 0.4]]  # mu, across the axes


def test_a_threshold_far_away_does_not_hide_the_distances(tmp_path, run, drawn):
    for round_, gap in ((1, None), (2, 0.1)):
        client(tmp_path / "run", round_, 0, 0.0, gap, mu=1e30)
    assert run("plot", "updates", tmp_path / "run", "-o", tmp_path / "u.png").code == 0
    distances = drawn[-1].axes[1]
    assert distances.get_ylim()[1] < 0.2
    assert "1e+30" in distances.texts[0].get_text()


def test_an_update_without_distances_has_the_map_alone(tmp_path, run, drawn):
    for round_, own in ((1, 0.0), (2, 1.0)):
        client(tmp_path / "run", round_, 0, own, update="astw")
    done = run("plot", "updates", tmp_path / "run", "-o", tmp_path / "u.png")
    assert done.out.endswith("astw of 1 client in 2 rounds: took 1, mixed 0, kept 1\n")
    assert len(drawn[-1].axes) == 2  # the map and its scale


def test_phases_in_which_nothing_is_decided_are_left_out(folder, run, tmp_path):
    """A run of FedUSC has its pretext phase in the same folder; rounds begin at 1 again."""
    line = ("plot", "updates", folder, "-o", tmp_path / "u.png", "--dry-run")
    before = run(*line).out
    client(folder / "pretext", 1, 4, 0.0, update="replace", objective="simclr")
    done = run(*line)
    assert done.code == 0 and done.out == before
    client(folder / "pretext", 2, 4, 0.0, objective="simclr", mu=0.4)
    done = run(*line)
    assert done.code == 65 and f"{folder}: has phases" in done.err
    done = run(*line, "--objective", "simclr")
    assert done.code == 65 and "dum and replace" in done.err


def test_runs_that_have_nothing_to_draw(folder, tmp_path, refused):
    plain, empty = tmp_path / "plain", tmp_path / "empty"
    client(plain, 1, 0, 0.0, update="replace")
    client(tmp_path / "own", 1, 0, 0.0, update="own")
    empty.mkdir()
    both = tmp_path / "both"
    client(both, 1, 0, 0.0)
    client(both, 1, 1, 0.0, update="fedema")
    journal = folder / "r001/client_2.log.jsonl"
    lost = journal.read_text()
    for place, text, *words in (
        (plain, lost, plain, "replace", "fedema, fedu, dum, astw"),
        (tmp_path / "own", lost, "--update own", "decides nothing"),
        (empty, lost, empty, "no checkpoint of local-train"),
        (both, lost, both, "dum and fedema"),
        (tmp_path / "no", lost, "no such file"),
        (folder, "", journal, "has no update in it"),
        (folder, lost.replace('"own": 0.0', '"own": 7'), journal, "share 7"),
        (folder, lost.replace("null", '"far"'), journal, "'far'"),
    ):
        journal.write_text(text)
        line = ("plot", "updates", place, "-o", tmp_path / "u.png")
        refused(tmp_path, 65, words, *line)
