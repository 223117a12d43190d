"""The page of report: values, escaping, size."""

import json
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from furlkit.catalogue import papers
from furlkit.catalogue.entries import Paper
from furlkit.files.journal import Journal
from furlkit.files.metrics import write_metrics
from furlkit.reports.differences import wilson
from furlkit.reports.page.methods import bibtex
from furlkit.reports.page.page import common_name
from furlkit.reports.page.svg import Series, heat_map, line_chart, nice_ticks
from tests.reports.page.made_up import make_run
from tests.reports.page.reader import Reader

EVIL = "<script>alert(1)</script>"
SCRIPT = files("furlkit.reports.page").joinpath("page.js").read_text()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "exp", clients=3, rounds=2)


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return shutil.copytree(made, tmp_path / "exp")


@pytest.fixture
def report(run, tmp_path):
    """Write a page, and read it."""

    def call(*words) -> Reader:
        outcome = run("report", *words, "-o", tmp_path / "report.html")
        assert outcome.code == 0, outcome.err
        return Reader((tmp_path / "report.html").read_text())

    return call


def test_sections_come_in_the_order_of_a_reader(report, folder):
    page = report(folder)
    order = [
        "problems",
        "runs",
        "curves",
        "clients",
        "outgoing",
        "provenance",
        "methods",
    ]
    assert [each["id"] for each in page.named("section")] == order


def test_scores_bytes_and_hash_of_a_run(report, folder):
    page = report(folder)
    assert "90.00 (86.5 to 92.7)" in page.sections["runs"]  # Wilson, 359 images.
    model = folder / "r002" / "global.safetensors"
    assert f"furlkit replay {model}\n" in page.sections["provenance"]
    assert "torch 2.15.0" in page.sections["provenance"]


def test_a_section_without_data_says_how_to_get_the_data(report, folder):
    page = report(folder)
    assert "furlkit aggregate --report" in page.sections["clients"]
    assert "images" not in page.sections


def test_the_same_run_gives_the_same_bytes(run, folder, tmp_path):
    for name in ("a.html", "b.html"):
        assert run("report", folder, "-o", tmp_path / name).code == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_the_browser_loads_nothing(report, folder):
    page = report(folder)
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "base")
        assert attributes.get("src", "data:").startswith("data:")
        assert not any(name.startswith("on") for name in attributes)
        if tag != "a":
            assert "href" not in attributes
    policy = next(m["content"] for m in page.named("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none'")
    assert (
        "url(" not in page.texts["style"][0] and "@import" not in page.texts["style"][0]
    )


def test_texts_of_files_stay_texts(run, folder, tmp_path, forge):
    evil = folder.rename(tmp_path / EVIL.replace("/", "\u2215"))
    document = {"protocol": f"{EVIL}\x00", "accuracy": 0.5, "test_examples": 2,
                "checkpoint": {"facts": {"role": "global", "round": 1}}}  # fmt: skip
    write_metrics(evil / "r001" / "evil.json", document)
    forge(evil / "r001" / "client_0.safetensors", facts={"client": EVIL})
    (evil / "plan" / "made.jsonl").write_text(
        json.dumps(["r001/global.safetensors", "0", [], None, [f"{EVIL} warns"]])
    )
    output = tmp_path / "report.html"
    assert run("report", evil, "-o", output).code == 0
    page = Reader(output.read_text())
    assert page.texts["script"] == [SCRIPT]
    assert f"{EVIL} warns" in page.sections["problems"]
    assert f"{EVIL}\\x00" in page.sections["runs"]
    assert "is from local-train, but client is" in page.sections["problems"]


def test_seeds_are_one_line_with_a_band(report, made, tmp_path):
    for seed in (0, 1):
        make_run(tmp_path / "exp" / f"seed{seed}", clients=2, rounds=2, seed=seed)
    page = report(tmp_path / "exp")
    assert "exp: mean of 2 seeds" in page.sections["runs"]
    assert "90.00 ± 0.00" in page.sections["runs"]
    first = page.sections["curves"]
    assert "band: one standard deviation of the seeds" in first
    assert len(page.named("svg")) == 5  # accuracy, loss, rank, partition, clients


def test_above_fifty_clients_quantiles_replace_lines(report, tmp_path):
    folder = make_run(tmp_path / "exp", clients=51, rounds=2)
    page = report(folder)
    labels = [g.get("data-label") for g in page.named("g")]
    assert "median" in labels and "client 50" not in labels
    assert "quartiles, minimum and maximum of 51 clients" in page.sections["clients"]


def test_five_clients_and_twenty_rounds_take_300_kB(report, tmp_path):
    folder = make_run(tmp_path / "exp", clients=5, rounds=20)
    report(folder)
    assert (tmp_path / "report.html").stat().st_size < 300_000


# --- problems -------------------------------------------------------------------------


def test_a_finished_run_has_no_problem(report, folder):
    assert report(folder).sections["problems"].split() == ["Problems", "None", "found."]


def test_problems_come_first(report, folder):
    uploads = {"protocol": "uploads", "round": 2, "stands_out": [1], "clients": [
        {"client": 1, "norm": 3.5, "angle": 10.0, "moved": 0.1, "reasons": ["norm"]}
    ]}  # fmt: skip
    write_metrics(folder / "r002" / "uploads.json", uploads)
    journal = Journal(folder / "r001" / "client_2.safetensors").path
    journal.write_text(journal.read_text().replace('"spread": 0.8', '"spread": 0.01'))
    low = {"protocol": "knn", "accuracy": 0.25, "test_examples": 4,
           "checkpoint": {"facts": {"role": "global", "round": 2}}}  # fmt: skip
    write_metrics(folder / "r002" / "knn.json", low)
    (folder / "r002" / "broken.safetensors").write_bytes(b"nothing")
    found = report(folder).sections["problems"]
    assert "upload of client 1 stands out in round 2" in found
    assert (
        "representation of client 2 has collapsed in 1 round, first in round 1" in found
    )
    assert "knn accuracy 25.00 % in round 2 is below 60.00 %" in found
    assert "broken.safetensors" in found
    assert found.index("collapse") < found.index("outlier")  # Errors first.


def test_failed_and_stale_steps_and_warnings_are_problems(run, report, folder):
    options = ("--data", "digits", "--encoder", "none")
    model = folder / "r000" / "global.safetensors"
    assert run("init", *options, "-o", model).code != 0
    with open(folder / "plan" / "made.jsonl", "a") as stream:
        upload = [
            "r001/global.safetensors",
            "0",
            None,
            None,
            ["x.st: is odd; left out"],
        ]
        stream.write(f"\n{json.dumps(upload)}\n")
    found = report(folder).sections["problems"]
    assert (
        "refused upload" in found and "x.st: is odd; left out; for r001/global" in found
    )
    assert "stale" in found and "average, round 1" in found


# --- results --------------------------------------------------------------------------


def test_tables_and_claims_of_compare_are_shown(report, folder):
    rows = "value,label,n,mean\naccuracy,FedCA,3,0.8125\n"
    (folder / "table.csv").write_text(rows)
    (folder / "other.csv").write_text("a,b\nunrelated,2\n")
    claim = {
        "claim": "A beats B",
        "verdict": "confirmed",
        "difference": {"estimate": 2.5},
    }
    (folder / "claims.json").write_text(json.dumps({"claims": [claim]}))
    found = report(folder).sections["tables"]
    assert "FedCA" in found and "0.8125" in found
    assert "A beats B" in found and "confirmed" in found and "2.5" in found
    assert "unrelated" not in found


def test_tables_are_also_csv_files(report, folder, tmp_path):
    report(folder, "--tables", tmp_path / "csv")
    lines = (tmp_path / "csv" / "clients.csv").read_text().splitlines()
    assert lines[0].startswith("run,client,images,rounds,last loss")
    assert len(lines) == 4
    scores = (tmp_path / "csv" / "scores.csv").read_text().splitlines()
    assert "exp,linear,2,0.9" in scores


def test_methods_cite_the_papers_of_the_run(report, folder):
    page = report(folder)
    assert "3 clients train the encoder cnn5 of width 0.25" in page.sections["methods"]
    assert "A Simple Framework for Contrastive Learning" in page.sections["methods"]
    assert "@misc{simclr2020," in page.sections["methods"]


def test_every_paper_has_a_bibtex_entry():
    found = [each for each in vars(papers).values() if isinstance(each, Paper)]
    keys = {bibtex(each).split(",")[0] for each in found}
    assert len(keys) == len(found) > 30
    assert all(each.title and each.year > 2015 for each in found)


def test_bibtex_of_a_paper_has_the_arxiv_number():
    entry = bibtex(papers.FEDMATCH)
    assert "  eprint = {2006.12097},\n  archivePrefix = {arXiv}," in entry
    assert r"Inter-Client Consistency \& Disjoint Learning" in entry


def test_bibtex_of_a_paper_outside_arxiv_has_the_address_only():
    for paper in (papers.FEDMKD, papers.SHEJWALKAR):
        entry = bibtex(paper)
        assert "arXiv" not in entry and "eprint" not in entry
        assert f"  url = {{{paper.url}}}," in entry


# --- pieces ---------------------------------------------------------------------------


def test_wilson_interval_of_known_values():
    assert wilson(0.9, 100) == pytest.approx((0.82563, 0.94477), abs=1e-5)
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.27753), abs=1e-5)


@pytest.mark.parametrize(
    "low, high, ticks",
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (71, 94, [70, 75, 80, 85, 90, 95]),
     (3, 3, [2.6, 2.8, 3, 3.2, 3.4]), (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1])],
)  # fmt: skip
def test_ticks_are_round_numbers(low, high, ticks):
    assert nice_ticks(low, high) == pytest.approx(ticks)


def test_a_chart_places_points_in_the_frame():
    chart = line_chart("loss", [Series("a", [0, 1], [0.0, 1.0])])
    assert 'points="46.0,216.0 426.0,10.0"' in chart


def test_labels_in_charts_are_escaped():
    assert EVIL not in line_chart(EVIL, [Series(EVIL, [0, 1], [0.0, 1.0])], EVIL)
    assert EVIL not in heat_map(EVIL, [EVIL], [EVIL], [[1]])


@pytest.mark.parametrize(
    "names, common",
    [(["exp/seed0", "exp/seed1"], "exp"), (["fedca-s0", "fedca-s1"], "fedca-s"),
     (["a", "b"], "2 runs"), (["x/exp", "x/ema"], "x"), (["demo"], "demo")],
)  # fmt: skip
def test_common_name_of_runs(names, common):
    assert common_name(names) == common


def test_epsilon_is_of_the_last_global_model(report, folder, forge):
    """A run without scores of the model, and a run that ended without noise."""
    for path in folder.rglob("*.json"):
        path.unlink()
    known = {"privacy": {"epsilon": 7.654, "delta": 1e-5}}
    forge(folder / "r001" / "global.safetensors", facts=known)
    assert "7.654" not in report(folder).sections["runs"]
    plain = folder / "r002" / "without_noise.safetensors"
    shutil.copy(folder / "r002" / "global.safetensors", plain)
    forge(folder / "r002" / "global.safetensors", facts=known)
    page = report(folder)
    assert "7.654" in page.sections["runs"]
    assert "without_noise.safetensors: has no noise" in page.sections["problems"]
    plain.unlink()
    page = report(folder)
    assert "7.654" in page.sections["runs"]
    assert "has no noise" not in page.sections["problems"]
