"""report: the command, --watch and refusals."""

import os
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.reports.page.made_up import make_run
from tests.reports.page.reader import Reader


def test_report_names_page_runs_and_problems(run, tmp_path):
    make_run(tmp_path / "exp", clients=2, rounds=1)
    outcome = run("report", tmp_path / "exp", "-o", tmp_path / "report.html")
    assert outcome.code == 0
    assert outcome.out.startswith(f"{tmp_path / 'report.html'}: 1 run, 0 problems, ")


def test_report_refuses_a_folder_without_files_of_furlkit(run, tmp_path):
    (tmp_path / "empty").mkdir()
    outcome = run("report", tmp_path / "empty", "-o", tmp_path / "report.html")
    assert outcome.code == 65
    assert (
        str(tmp_path / "empty") in outcome.err and "no file of furlkit" in outcome.err
    )
    assert not (tmp_path / "report.html").exists()


def test_report_of_a_folder_without_a_plan(run, world, tmp_path):
    world.output.unlink()  # A broken file.
    outcome = run("report", world.folder, "-o", tmp_path / "report.html")
    assert outcome.code == 0, outcome.err
    page = Reader((tmp_path / "report.html").read_text())
    assert "the states of steps are unknown" in page.sections["problems"]
    assert "client" in page.sections["outgoing"]


def test_the_page_is_html(run, world, tmp_path):
    refused = run("report", world.folder, "-o", tmp_path / "report.pdf")
    assert refused.code == 2 and "report.pdf" in refused.err and ".html" in refused.err
    assert not (tmp_path / "report.pdf").exists()


def test_refresh_reloads_the_page(run, world, tmp_path):
    output = tmp_path / "report.html"
    assert run("report", world.folder, "-o", output, "--refresh", 7).code == 0
    metas = Reader(output.read_text()).named("meta")
    assert {"http-equiv": "refresh", "content": "7"} in metas


def test_watch_writes_the_page_after_each_finished_step(run, tmp_path, monkeypatch):
    folder = make_run(tmp_path / "exp", clients=2, rounds=1)
    output, hidden = tmp_path / "report.html", tmp_path / "linear.json"
    last = folder / "r001" / "linear.json"
    shutil.move(last, hidden)
    seen = []

    def finish_the_last_step(_seconds):
        seen.append(output.read_text())
        hidden.rename(last)
        with open(folder / "plan" / "made.jsonl", "a") as stream:
            stream.write("\n")

    clock = SimpleNamespace(sleep=finish_the_last_step)
    monkeypatch.setattr("furlkit.stages.report.time", clock)
    assert run("report", folder, "-o", output, "--watch").code == 0
    (first,) = seen
    assert "8 of 9 steps" in first
    assert "9 of 9 steps" in output.read_text()


def test_images_are_on_the_page_only_with_the_option(run, tmp_path):
    folder = make_run(tmp_path / "exp", clients=2, rounds=1)
    output = tmp_path / "report.html"
    assert run("report", folder, "-o", output).code == 0
    assert "data:image" not in output.read_text()
    assert run("report", folder, "-o", output, "--with-images").code == 0
    page = Reader(output.read_text())
    assert [each["alt"] for each in page.named("img")] == ["client 0", "client 1"]


@pytest.mark.slow
def test_a_hundred_clients_rounds_and_three_seeds(program, tmp_path):
    for seed in range(3):
        make_run(tmp_path / "exp" / f"seed{seed}", 100, 100, seed)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = program("report", tmp_path / "exp", "-o", tmp_path / "report.html")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert Path(tmp_path, "report.html").stat().st_size < 2_000_000
    # Seconds of the processor on two cores: other programs may delay the clock.
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent / min(2, os.cpu_count() or 1) < 10
