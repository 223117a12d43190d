"""plot uploads on reports of a few numbers: what it reads, draws and refuses."""

import json

import pytest

from furlkit.files.metrics import write_metrics


def client(number, norm=1.0, angle=60.0, moved=0.1, reasons=()):
    known = {"client": number, "norm": norm, "angle": angle, "moved": moved}
    return {**known, "share": 0.5, "reasons": list(reasons)}


@pytest.fixture
def reports(tmp_path):
    """Two rounds of clients 2 and 5; 5 stands out in the second."""
    for number, last in ((1, client(5)), (2, client(5, 100.0, 95.0, 9.0, ["norm"]))):
        document = {
            "protocol": "uploads",
            "round": number,
            "clients": [client(2), last],
        }
        write_metrics(tmp_path / f"{number}.json", document)
    return tmp_path / "1.json", tmp_path / "2.json"


def test_the_result(reports, run, tmp_path):
    output = tmp_path / "u.png"
    done = run("plot", "uploads", *reversed(reports), "-o", output)
    assert done.out == f"{output}: 4 uploads in 2 reports, standing out: 5\n"
    assert output.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    data = json.loads(run("plot", "uploads", *reports, "-o", output, "--json").out)
    assert data["stands_out"] == [5]
    assert [(u["client"], u["round"]) for u in data["uploads"]] == [
        (2, 1), (2, 2), (5, 1), (5, 2),
    ]  # fmt: skip


def test_what_is_drawn(reports, run, tmp_path, drawn):
    assert run("plot", "uploads", *reports, "-o", tmp_path / "u.png").code == 0
    norms, angles, moved = drawn[-1].axes
    usual, odd = (each.get_offsets().tolist() for each in norms.collections)
    assert usual == [[0, 1], [0, 1], [1, 1]] and odd == [[1, 100]]
    assert norms.get_yscale() == moved.get_yscale() == "log"
    assert angles.get_yscale() == "linear"
    drawn[-1].draw_without_rendering()
    assert "100" in [text.get_text() for text in norms.get_yticklabels(which="both")]
    assert angles.collections[1].get_offsets().tolist() == [[1, 95]]
    assert [text.get_text() for text in moved.get_xticklabels()] == ["2", "5"]


def test_sites_have_names(run, tmp_path, drawn):
    clients = [client("st-mary"), client(7), client("north", 100.0, reasons=["norm"])]
    document = {"protocol": "uploads", "round": 1, "clients": clients}
    write_metrics(tmp_path / "r.json", document)
    done = run("plot", "uploads", tmp_path / "r.json", "-o", tmp_path / "u.png")
    assert done.code == 0 and "standing out: north" in done.out
    last = drawn[-1].axes[-1]
    shown = [text.get_text() for text in last.get_xticklabels()]
    assert shown == ["7", "north", "st-mary"]


def test_a_report_without_angles_has_two_panels(run, tmp_path, drawn):
    clients = [client(0, 0.0, None, None), client(1, 2.0, None)]
    document = {"protocol": "uploads", "round": 1, "clients": clients}
    write_metrics(tmp_path / "r.json", document)
    assert (
        run("plot", "uploads", tmp_path / "r.json", "-o", tmp_path / "u.png").code == 0
    )
    norms, _ = drawn[-1].axes
    assert (
        norms.get_yscale() == "linear"
    )  # A norm of 0 has no place on a logarithmic axis


def test_files_that_are_no_reports(tmp_path, refused, metrics):
    other = metrics(tmp_path, "m")
    broken = tmp_path / "b.json"
    write_metrics(
        broken, {"protocol": "uploads", "round": 1, "clients": [{"norm": "x"}]}
    )
    for path, word in ((other, "linear"), (broken, "re-create")):
        line = ("plot", "uploads", path, "-o", tmp_path / "u.png")
        refused(tmp_path, 65, (path, word), *line)


def test_a_small_picture_cuts_no_dot(reports, run, tmp_path, drawn):
    output = tmp_path / "u.png"
    run("plot", "uploads", *reports, "--size", "3.3,2.5", "-o", output)
    figure = drawn[-1]
    figure.draw_without_rendering()
    for axes in figure.axes:
        area = axes.get_window_extent()
        for dots in axes.collections:
            radius = dots.get_sizes()[0] ** 0.5 / 2 * figure.dpi / 72
            heights = axes.transData.transform(dots.get_offsets())[:, 1]
            assert area.y0 <= min(heights) - radius
            assert max(heights) + radius <= area.y1
