"""ledger on files of a few bytes: what it prints, writes, warns of and refuses."""

import ast
import json
import subprocess
import sys

import numpy as np
import pytest

from furlkit.catalogue import defaults
from furlkit.files.container import write as container
from furlkit.files.container.header import Header
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.files.metrics import read_metrics
from furlkit.files.progress import ProgressFile
from furlkit.stages import ledger

LOADED = """
import sys
from furlkit.cli.program import _outcome
code = _outcome(sys.argv[1:])
heavy = ("torch", "torchvision", "sklearn", "scipy", "matplotlib", "rich")
print([code, *(m for m in heavy if m in sys.modules)], file=sys.stderr)
"""


def write(path, kind, stage, inputs=None, size=10, options=None, **facts):
    """A file with `size` numbers; gives its content hash."""
    header = Header(kind, stage, options or {}, None, inputs or {}, facts)
    tensors = {"w": np.full(size, 0.5, "f4")}
    return container.write(path, tensors, header)


@pytest.fixture
def folder(tmp_path):
    """One round of two clients, which average their models."""
    place = tmp_path / "run"
    first = write(
        place / "r0.safetensors", "checkpoint", "init", role="global", round=0
    )
    sent = {}
    for k in (0, 1):
        path, facts = place / f"c{k}.safetensors", {"client": k, "round": 1}
        inputs = {"global": first, "partition": "f" * 64}
        sent[f"client {k}"] = write(
            path, "checkpoint", "local-train", inputs, 20, role="client", **facts
        )
    path = place / "r1.safetensors"
    write(path, "checkpoint", "aggregate", sent, role="global", round=1)
    return place


def sizes(folder):
    return {path.stem: path.stat().st_size for path in folder.glob("*.safetensors")}


def test_the_tables_for_people(folder, run):
    size = sizes(folder)
    up, down = size["c0"] + size["c1"], 2 * size["r0"]
    done = run("ledger", folder)
    assert done.code == 0 and done.err == ""
    lines = [line.split() for line in done.out.splitlines()]
    heading = "round  clients  sent checkpoint  received checkpoint  total"
    assert lines[0] == heading.split()
    numbers = [f"{number:,}" for number in (2, up, down, up + down)]
    assert lines[1:3] == [["1", *numbers], ["all", *numbers]]
    assert lines[4] == ["client", "rounds", "sent", "received", "total"]
    each = size["c1"], size["r0"], size["c1"] + size["r0"]
    assert lines[6] == ["1", "1", *(f"{number:,}" for number in each)]
    headers = up + down - 4 * (2 * 20 + 2 * 10)
    assert done.out.splitlines()[-1] == (
        f"2 clients, 1 round: {up:,} bytes sent, {down:,} received; {up + down:,} in all "
        f"({(up + down) / 1000:.1f} kB), {headers:,} of them headers"
    )


def test_json_and_the_file_say_the_same_and_inspect_explains_it(folder, run, tmp_path):
    output, size = tmp_path / "ledger.json", sizes(folder)
    done = run("ledger", folder, "--json", "-o", output)
    found = json.loads(done.out)
    written = read_metrics(output)
    assert written == {
        **found,
        **{k: written[k] for k in ("kind", "version", "content")},
    }
    assert str(folder) not in output.read_text()
    files = {"files": 1, "bytes": size["c0"], "payload": 80}
    assert found["cells"][0]["sent"] == {"kinds": {"checkpoint": files}, **files}
    assert found["total"]["clients"] == 2 and found["total"]["rounds"] == 1
    up, down = size["c0"] + size["c1"], 2 * size["r0"]
    assert json.loads(run("inspect", output, "--json").out)["summary"] == (
        f"{up:,} bytes sent and {down:,} received by 2 clients, in 1 rounds"
    )


def test_a_quiet_ledger_that_is_written_is_one_line(folder, run, tmp_path):
    whole = run("ledger", folder).out.splitlines()
    output = tmp_path / "ledger.json"
    done = run("ledger", folder, "-q", "-o", output)
    assert done.out == f"{output}: {whole[-1]}\n"
    assert run("ledger", folder, "-q").out.splitlines() == whole


def test_time_adds_up_the_cpu_seconds_of_all_trainings(folder, run):
    write(folder / "rows.safetensors", "features", "local-train", client=0, round=1)
    epochs = [{"event": "epoch", "cpu_seconds": s} for s in (1.25, 2.5)]
    lines = [{"event": "start", "cpu_seconds": 9}, *epochs]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "c0.log.jsonl").write_text(text)
    (folder / "r1.log.jsonl").write_text(text)  # No training of a client.
    half = run("ledger", folder, "--time", "--json")
    assert "c1.safetensors: no journal with CPU seconds" in half.err
    assert json.loads(half.out)["total"]["cpu_seconds"] is None
    (folder / "c1.log.jsonl").write_text(text)
    done = run("ledger", folder, "--time")
    assert done.out.endswith("; 7.5 CPU seconds of local-train in 2 journals\n")
    plain = json.loads(run("ledger", folder, "--json").out)
    assert "cpu_seconds" not in plain["total"]


def test_ledgers_of_two_seeds_can_be_compared(folder, run, forge, tmp_path):
    """Their bytes may all be the same, so the seed tells them apart."""
    for seed in (3, 4):
        for k in (0, 1):
            forge(folder / f"c{k}.safetensors", seed=seed)
        assert run("ledger", folder, "-o", tmp_path / f"{seed}.json").code == 0
        assert read_metrics(tmp_path / f"{seed}.json")["seed"] == seed
    done = run("compare", "--series", f"a={tmp_path}/3.json,{tmp_path}/4.json",
               "--value", "total.received.bytes", "--json")  # fmt: skip
    (row,) = json.loads(done.out)["rows"]
    assert (row["n"], row["std"]) == (2, 0)
    forge(folder / "c0.safetensors", seed=3)
    assert json.loads(run("ledger", folder, "--json").out)["seed"] is None


def test_csv_has_a_row_for_each_round_client_direction_and_kind(folder, run):
    size = sizes(folder)
    (folder / "c1.safetensors").unlink()
    done = run("ledger", folder, "--format", "csv")
    assert done.out.splitlines() == [
        "round,client,direction,kind,files,bytes,payload",
        f"1,0,sent,checkpoint,1,{size['c0']},80",
        f"1,0,received,checkpoint,1,{size['r0']},40",
        "1,1,received,unknown,1,,",
        "1,1,sent,unknown,1,,",
    ]


@pytest.mark.parametrize("form, rows", [("markdown", (2, 7)), ("latex", (5, 15))])
def test_tables_for_papers_hold_what_the_text_does(folder, run, tmp_path, form, rows):
    text = run("ledger", folder).out.splitlines()
    words = ("ledger", folder, "--format", form, "-o", tmp_path / "ledger.json")
    lines = run(*words).out.splitlines()
    assert (tmp_path / "ledger.json").exists()
    for place, row in zip((1, 5), rows, strict=True):
        cells = [cell for cell in lines[row].split() if cell not in "|&\\\\"]
        assert cells == text[place].split()


def test_every_client_is_in_the_table_of_a_paper(tmp_path, run):
    first = write(tmp_path / "r0.safetensors", "checkpoint", "init", round=0)
    for k in range(25):
        path, facts = tmp_path / f"{k}.safetensors", {"client": k, "round": 1}
        write(path, "checkpoint", "local-train", {"global": first}, **facts)
    assert "\n| 24 |" in run("ledger", tmp_path, "--format", "markdown").out


def test_a_plan_as_csv_and_as_latex(run):
    csv = run("ledger", *PLAN, "--format", "csv").out.splitlines()
    assert csv == [
        "method,rounds,up,down,sent,received,total",
        "FLESD,1,240,36,240,36,276",
        "weight averaging,1,36,36,36,36,72",
    ]
    latex = run("ledger", *PLAN, "--format", "latex").out
    assert "FLESD & 1 & 240 & 36 & 240 & 36 & 276" in latex and "Eq. 11" not in latex


@pytest.mark.parametrize(
    "total", [None, 3, {}, {"sent": 1, "received": {"bytes": "x"}}]
)
def test_inspect_accepts_a_ledger_without_numbers(run, tmp_path, total):
    document = {"kind": "metrics", "version": 1, "protocol": "ledger", "total": total}
    (tmp_path / "x.json").write_text(json.dumps(document))
    assert run("inspect", tmp_path / "x.json").code == 0


def test_broken_and_foreign_files_of_a_folder_are_named_and_left_out(folder, run):
    before = run("ledger", folder).out
    whole = (folder / "c0.safetensors").read_bytes()
    (folder / "cut.safetensors").write_bytes(whole[:-1])
    (folder / "alien.safetensors").write_bytes(b"PK not one of ours at all")
    write(folder / "odd.safetensors", "checkpoint", "aggregate", round="one")
    write(folder / "number.safetensors", "checkpoint", "init", {"global": 3}, round=0)
    done = run("ledger", folder)
    assert done.code == 0 and done.out == before
    warnings = done.err.splitlines()
    assert len(warnings) == 4
    for name, line in zip(("alien", "cut", "number", "odd"), warnings, strict=True):
        assert line.startswith(f"warning: {folder / name}.safetensors: ")
        assert line.endswith("; left out")


def test_hidden_and_unfinished_files_are_passed_by_in_silence(folder, run):
    before = run("ledger", folder)
    inputs = {"global": "a" * 64}
    made = Provenance("local-train", {}, 0, inputs)
    unfinished = ProgressFile(folder / "c2.safetensors", made)
    unfinished.save(3, {"w": np.zeros(2, "f4")}, {})
    unfinished.path.rename(folder / "progress.safetensors")
    facts = {"client": 5, "round": 1}
    for hidden in (".part.safetensors", ".trash/c.safetensors"):
        write(folder / hidden, "checkpoint", "local-train", inputs, **facts)
    (folder / "folder.safetensors").mkdir()
    (folder / "notes.txt").write_text("nothing")
    assert run("ledger", folder) == before


def test_a_file_given_by_name_must_be_whole(folder, run, tmp_path):
    path = folder / "c0.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    done = run("ledger", *folder.glob("*.safetensors"))
    assert done.code == 65 and f"{path}: truncated" in done.err and done.out == ""
    done = run("ledger", tmp_path / "nowhere")
    assert done.code == 65 and "nowhere: no such file" in done.err


def test_a_folder_without_traffic_is_refused(tmp_path, run):
    write(tmp_path / "r0.safetensors", "checkpoint", "init", role="global", round=0)
    done = run("ledger", tmp_path)
    assert done.code == 65 and "no training of a client" in done.err


def test_two_runs_in_one_are_warned_of(folder, run):
    facts = {"client": 1, "round": 1, "role": "client"}
    inputs = {"global": "a" * 64}
    write(folder / "again.safetensors", "checkpoint", "local-train", inputs, **facts)
    done = run("ledger", folder)
    assert done.code == 0 and "are these files of several runs?" in done.err
    assert "aaaaaaaaaaaa: is not among the files" in done.err
    assert "1 transfer of unknown size" in done.out
    assert done.out.splitlines()[0].endswith("total  unknown")


def test_phases_of_a_run_are_not_taken_for_two_runs(folder, run):
    facts = {"client": 1, "round": 1, "role": "client"}
    path, other = folder / "phase.safetensors", {"objective": "another"}
    write(path, "checkpoint", "local-train", options=other, **facts)
    done = run("ledger", folder)
    assert done.code == 0 and "several runs" not in done.err
    assert "rounds with equal numbers are added up" in done.err


def test_an_upload_that_two_server_files_are_made_of_was_sent_once(folder, run):
    before = run("ledger", folder).out
    inputs = Container(folder / "r1.safetensors").header.inputs
    path = folder / "bn.safetensors"
    write(path, "checkpoint", "aggregate", inputs, 3, role="global", round=1)
    assert run("ledger", folder).out == before


def test_private_files_and_partitions_are_nobodys_traffic(folder, run):
    before = run("ledger", folder).out
    kept = write(
        folder / "kept.safetensors", "private", "local-train", client=0, round=1
    )
    inputs, path = {"private": kept, "partition": kept}, folder / "more.safetensors"
    write(path, "private", "local-train", inputs, client=1, round=1)
    assert run("ledger", folder).out == before


def test_many_clients_are_not_all_listed(tmp_path, run):
    first = write(tmp_path / "r0.safetensors", "checkpoint", "init", round=0)
    for k in range(25):
        path, facts = tmp_path / f"{k}.safetensors", {"client": k, "round": 1}
        write(path, "checkpoint", "local-train", {"global": first}, **facts)
    done = run("ledger", tmp_path)
    assert "... and 5 more (--json lists all)" in done.out
    assert len(json.loads(run("ledger", tmp_path, "--json").out)["clients"]) == 25


def test_output_may_be_no_file_of_the_run(folder, refused):
    path = folder / "r1.safetensors"
    refused(folder, 2, ("exists",), "ledger", folder, "-o", path)


def plan(images, **more):
    values = {"runs": (), "plan": True, "images": images, **more}
    return ledger.run({**defaults("ledger"), **values})


def test_a_plan_by_hand():
    """Rows of float16: 2 bytes a number, 8 for the index of each image."""
    settings = {"parameters": 1000, "clients": 5, "rounds": 2, "rounds_averaging": 10}
    text, found = plan(30, width=16, encoding="float16", **settings)
    assert found["flesd"] == {
        "rounds": 2, "up": 1200, "down": 4000, "sent": 12_000, "received": 40_000,
        "bytes": 52_000,
    }  # fmt: skip
    assert found["averaging"] == {
        "rounds": 10, "up": 4000, "down": 4000, "sent": 200_000, "received": 200_000,
        "bytes": 400_000,
    }  # fmt: skip
    assert found["equation_11"] == {"left": 960, "right": 10_000, "holds": True}
    # 2 * 40 n <= 10 * 4000, and 2 * (40 n + 4000) <= 2 * 10 * 4000.
    assert found["break_even"] == {"sent": 500, "both": 900}
    assert "FLESD costs less: 0.13 times the bytes of weight averaging" in text
    assert "Eq. 11 holds: 960 <= 10,000 numbers" in text
    assert text.endswith(": 900 for all bytes, 500 for the bytes sent")


@pytest.mark.parametrize("more", [{"width": 7}, {"similarity": True},
                                  {"similarity": True, "top": 3.0}])  # fmt: skip
@pytest.mark.parametrize("rounds", [(1, 1), (2, 10), (3, 2)])
def test_one_image_beyond_break_even_costs_more(more, rounds):
    T, T_averaging = rounds
    settings = {
        "parameters": 5001,
        "rounds": T,
        "rounds_averaging": T_averaging,
        **more,
    }
    found = plan(1, **settings)[1]["break_even"]
    for n, cheap in ((found["both"], True), (found["both"] + 1, False)):
        sides = plan(n, **settings)[1]
        assert (sides["flesd"]["bytes"] <= sides["averaging"]["bytes"]) == cheap
    for n, cheap in ((found["sent"], True), (found["sent"] + 1, False)):
        sides = plan(n, **settings)[1]
        assert (sides["flesd"]["sent"] <= sides["averaging"]["sent"]) == cheap


def test_no_number_of_images_makes_up_for_twice_the_rounds(run):
    words = ("--images", 10, "--width", 2, "--parameters", 100)
    done = run("ledger", "--plan", *words, "--rounds", 3, "--rounds-averaging", 1)
    assert "FLESD costs more: 2.1 times the bytes" in done.out
    last = "Break-even in public images: none for all bytes, 8 for the bytes sent"
    assert done.out.splitlines()[-1] == last


PLAN = ("--plan", "--images", 10, "--width", 4, "--parameters", 9)


@pytest.mark.parametrize(
    "words, message",
    [
        ((), "give the folder of a run, or --plan"),
        (("x", *PLAN), "leave out x"),
        ((*PLAN, "-o", "y"), "leave out y"),
        (("x", "--images", 3), "--images does not apply without --plan"),
        (("x", "--similarity"), "--similarity does not apply without --plan"),
        (
            ("x", "--rounds-averaging", 3),
            "--rounds-averaging does not apply without --plan",
        ),
        (("--plan", "--width", 3), "give --images"),
        (PLAN[:-2], "by either"),
        ((*PLAN, "--model", "m"), "by either"),
        ((*PLAN, "--top", 3), "--top"),
        ((*PLAN, "--similarity"), "--width NUMBERS"),
        (("--plan", "--images", 3, "--parameters", 9), "--width NUMBERS"),
        ((*PLAN, "--rounds", 0), "Invalid value for '--rounds'"),
    ],
)
def test_wrong_usage(run, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    done = run("ledger", *words)
    assert done.code == 2 and message in done.err and done.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_plan_for_a_model_that_is_none(folder, run):
    path = folder / "f.safetensors"
    write(path, "features", "embed", client=0, round=1)
    done = run("ledger", *PLAN[:-2], "--model", path)
    assert done.code == 65 and "checkpoint" in done.err
    write(path, "checkpoint", "init", size=0, round=0)
    done = run("ledger", *PLAN[:-2], "--model", path)
    assert done.code == 65 and "has no weights at all" in done.err


@pytest.mark.parametrize("words", [["{folder}"], [*PLAN[:-2], "--model", "{model}"]])
def test_nothing_heavy_is_loaded(folder, environment, words):
    places = {"folder": folder, "model": folder / "r0.safetensors"}
    line = ["ledger", *(str(word).format(**places) for word in words)]
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *line],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    assert ast.literal_eval(done.stderr.splitlines()[-1]) == [0]
