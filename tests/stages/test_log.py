"""log: points of runs in trackers, once each, also after a kill."""

import csv
import json
import os
import shutil
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from furlkit.files.metrics import read_metrics, write_metrics
from furlkit.reports.trackers.points import Point, points
from furlkit.reports.trackers.tensorboard import checksum, read_events
from tests.reports.page.made_up import make_run

EVENTS = "events.out.tfevents.0.furlkit"
MEASURES = ("effective_rank", "loss.simclr", "samples_per_second", "spread")
COLUMNS = ("run", "seed", "round", "client", "epoch", "name", "value", "time")
# Two clients with two epochs in each of two rounds; five scores.
COUNT = 2 * 2 * 2 * len(MEASURES) + 5


@pytest.fixture(scope="module")
def _made(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("log") / "exp", clients=2, rounds=2)


@pytest.fixture
def made(_made, tmp_path, monkeypatch) -> Path:
    """A finished run in the current folder, called exp."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(_made, "exp")
    return Path("exp")


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def loss_of(folder: Path, client: int, number: int, epoch: int) -> float:
    journal = folder / f"r{number:03d}" / f"client_{client}.log.jsonl"
    return json.loads(journal.read_text().splitlines()[epoch])["losses"]["simclr"]


def test_csv_has_a_row_for_each_number(run, made):
    assert run("log", made, "--to", "csv").out == f"csv: {COUNT} new points of 1 run\n"
    rows = rows_of(Path("csv/points.csv"))
    assert len(rows) == COUNT
    assert [*rows[0]] == [*COLUMNS]
    (loss,) = (
        r for r in rows
        if (r["round"], r["client"], r["epoch"], r["name"]) == ("2", "1", "1", "loss.simclr")
    )  # fmt: skip
    assert float(loss["value"]) == loss_of(made, 1, 2, 1)
    assert (loss["run"], loss["seed"]) == ("exp", "0")
    assert loss["time"] == "2026-01-02T02:00:01.100+00:00"
    scores = {(r["round"], r["name"]): r for r in rows if not r["epoch"]}
    assert float(scores["0", "linear/accuracy"]["value"]) == 0.6
    assert scores["2", "linear/accuracy"]["client"] == ""


def test_scores_of_aggregated_models_have_the_seed_of_the_run(tmp_path):
    folder = make_run(tmp_path / "exp", clients=1, rounds=1, seed=3)
    path = folder / "r001" / "knn.json"
    document = read_metrics(path)
    document["checkpoint"]["seed"] = None  # aggregate draws no random numbers.
    del document["content"]
    write_metrics(path, document)
    assert {point.seed for point in points(folder, "exp")} == {3}


def test_steps_count_epochs_over_the_rounds(made):
    steps = [p.step for p in points(made, "exp") if p.tag == "loss.simclr/client_1"]
    assert steps == [1, 2, 3, 4]
    assert [p.step for p in points(made, "exp") if p.tag == "knn/accuracy"] == [0, 1, 2]


def test_phases_and_personal_models_have_separate_curves(made):
    (made / "warm").mkdir()
    shutil.copytree(made / "r001", made / "warm" / "r001")
    journal = made / "r001" / "client_0.log.jsonl"
    lines = journal.read_text().replace(
        '"event": "epoch"', '"event": "epoch", "own": 1'
    )
    journal.write_text(lines)
    tags = [(p.tag, p.step) for p in points(made, "exp")]
    assert len(set(tags)) == len(tags)
    assert ("warm/loss.simclr/client_0", 1) in tags
    assert ("own/loss.simclr/client_0", 1) in tags
    assert ("loss.simclr/client_0", 3) in tags and (
        "loss.simclr/client_0",
        1,
    ) not in tags


@pytest.mark.parametrize("to, file", [("csv", "points.csv"), ("tensorboard", EVENTS)])
def test_a_file_cut_anywhere_by_a_kill_is_completed(run, made, to, file):
    assert run("log", made, "--to", to).code == 0
    (path,) = Path(to).rglob(file)
    whole = path.read_bytes()
    for end in (0, 1, 11, 40, 100, len(whole) // 2, len(whole) - 3, len(whole)):
        path.write_bytes(whole[:end])
        outcome = run("log", made, "--to", to)
        assert outcome.code == 0, outcome.err
        assert path.read_bytes() == whole
    assert outcome.out == f"{to}: 0 new points of 1 run\n"


def test_a_kill_within_a_letter_of_two_bytes(run, made):
    made.rename("\u00e9tude")
    line = ("log", "\u00e9tude", "--to", "csv")
    assert run(*line).code == 0
    path = Path("csv/points.csv")
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rfind(b"\xc3") + 1])
    assert run(*line).out == "csv: 1 new point of 1 run\n"
    assert path.read_bytes() == whole


def test_tensorboard_has_the_values_of_the_journals(run, made):
    assert run("log", made, "--to", "tensorboard").code == 0
    raw = Path("tensorboard", "exp", EVENTS).read_bytes()
    events, end = read_events(raw)
    assert end == len(raw) and len(events) == COUNT
    known = {(tag, step): value for tag, step, value in events}
    expected = struct.unpack("f", struct.pack("f", loss_of(made, 0, 2, 2)))[0]
    assert known["loss.simclr/client_0", 4] == expected


def test_checksum_is_the_masked_crc32c():
    # RFC 3720: 32 zero bytes have the CRC 8a9136aa.
    crc = 0x8A9136AA
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert checksum(bytes(32)) == struct.pack("<I", masked)


def test_bytes_of_an_event_file(run, made):
    """The first record, as TensorFlow writes it: only the version of the format."""
    assert run("log", made, "--to", "tensorboard").code == 0
    raw = Path("tensorboard", "exp", EVENTS).read_bytes()
    assert raw[:8] == struct.pack("<Q", 15)
    assert raw[12:27] == b"\x1a\x0dbrain.Event:2"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs tensorboard")
def test_tensorboard_reads_the_events(run, made):
    from tensorboard.backend.event_processing import event_accumulator

    assert run("log", made, "--to", "tensorboard").code == 0
    read = event_accumulator.EventAccumulator("tensorboard/exp")
    read.Reload()
    assert sum(len(read.Scalars(tag)) for tag in read.Tags()["scalars"]) == COUNT
    last = read.Scalars("loss.simclr/client_0")[-1]
    assert last.step == 4 and last.value == pytest.approx(loss_of(made, 0, 2, 2))


def test_new_points_are_added_and_old_points_stay(run, made):
    last = made / "r002" / "knn.json"
    hidden = last.rename("knn.json")
    assert run("log", made, "--to", "csv").out.startswith(f"csv: {COUNT - 1} new")
    before = Path("csv/points.csv").read_text()
    hidden.rename(last)
    assert run("log", made, "--to", "csv").out == "csv: 1 new point of 1 run\n"
    after = Path("csv/points.csv").read_text()
    assert after.startswith(before) and "knn/accuracy" in after.removeprefix(before)


def test_a_changed_value_is_kept_and_reported(run, made):
    assert run("log", made, "--to", "csv").code == 0
    journal = made / "r001" / "client_0.log.jsonl"
    text = journal.read_text().replace('"spread": 0.8', '"spread": 0.7')
    journal.write_text(text.replace("2000.0", "1000.0"))  # Speed is no result.
    outcome = run("log", made, "--to", "csv")
    assert outcome.out == "csv: 0 new points of 1 run\n"
    assert "exp: 2 points" in outcome.err and "spread/client_0" in outcome.err


def test_follow_adds_points_until_the_run_is_done(run, made, monkeypatch):
    last = made / "r002" / "linear.json"
    hidden = last.rename("linear.json")
    seen = []

    def finish_the_last_step(_seconds):
        seen.append(len(rows_of(Path("csv/points.csv"))))
        hidden.rename(last)
        with open(made / "plan" / "made.jsonl", "a") as stream:
            stream.write("\n")

    clock = SimpleNamespace(sleep=finish_the_last_step)
    monkeypatch.setattr("furlkit.stages.log.time", clock)
    outcome = run("log", made, "--to", "csv", "--follow")
    assert outcome.code == 0, outcome.err
    assert seen == [COUNT - 1]
    assert len(rows_of(Path("csv/points.csv"))) == COUNT


def test_an_interrupted_follow_keeps_the_points(run, made, monkeypatch):
    (made / "r002" / "linear.json").rename("linear.json")

    def interrupt(_seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("furlkit.stages.log.time", SimpleNamespace(sleep=interrupt))
    assert run("log", made, "--to", "tensorboard", "--follow").code == 130
    events, _ = read_events(Path("tensorboard", "exp", EVENTS).read_bytes())
    assert len(events) == COUNT - 1


def test_names_of_runs_do_not_depend_on_the_current_folder(run, made, monkeypatch):
    assert run("log", "exp", "--to", "csv").code == 0
    monkeypatch.chdir("exp")
    outcome = run("log", "../exp", ".", "--to", "csv", "-o", "../csv")
    assert outcome.out == "../csv: 0 new points of 2 runs\n"


def test_log_does_not_load_torch(made, python):
    code = (
        "import sys; from furlkit.cli.program import _outcome; "
        "code = _outcome(['log', 'exp', '--to', 'tensorboard', '-q']); "
        "print([code, 'torch' in sys.modules, 'sklearn' in sys.modules])"
    )
    assert python(code).splitlines()[-1] == "[0, False, False]"


# --- refusals -------------------------------------------------------------------------


def test_follow_needs_a_plan(run, made):
    shutil.rmtree(made / "plan")
    outcome = run("log", made, "--to", "csv", "--follow")
    assert outcome.code == 2 and "exp has no plan" in outcome.err


def test_a_folder_without_points_is_refused(run, made):
    Path("empty").mkdir()
    outcome = run("log", "empty", "--to", "csv")
    assert outcome.code == 65 and "empty: has no journal" in outcome.err


@pytest.mark.parametrize("text", ["a,b\n1,2\n", f"{','.join(COLUMNS)}\n1,2\n"])
def test_another_table_is_not_overwritten(run, made, text):
    Path("csv").mkdir()
    Path("csv/points.csv").write_text(text)
    outcome = run("log", made, "--to", "csv")
    assert outcome.code == 65 and "csv/points.csv" in outcome.err
    assert "table of furlkit log" in outcome.err
    assert Path("csv/points.csv").read_text() == text


@pytest.mark.parametrize("to", ["mlflow", "wandb", "trackio"])
def test_a_missing_package_is_named_with_its_extra(run, made, monkeypatch, to):
    monkeypatch.setattr("furlkit.reports.trackers.find_spec", lambda name: None)
    outcome = run("log", made, "--to", to)
    assert outcome.code == 1 and f"furlkit[{to}]" in outcome.err
    assert not Path(to).exists()


# --- other packages -------------------------------------------------------------------

# Small packages with the functions that furlkit calls; rows.jsonl has the calls.
WANDB = """
import json, os
from types import SimpleNamespace as Settings

class Run:
    def __init__(self, name, dir, **more):
        assert more["mode"] == "offline"
        sessions = os.path.join(dir, "wandb")
        number = len(os.listdir(sessions)) if os.path.isdir(sessions) else 0
        place = os.path.join(sessions, f"offline-run-{number}-{os.getpid()}")
        self.dir = os.path.join(place, "files")
        os.makedirs(self.dir)
        self.rows = open(os.path.join(place, "rows.jsonl"), "a", buffering=1)
    def define_metric(self, name, step_metric):
        pass
    def log(self, values, step):
        self.rows.write(json.dumps([step, values]) + "\\n")
        if step == int(os.environ.get("DIE_AT", -1)):
            os._exit(9)
    def finish(self):
        self.rows.close()

def init(**more):
    return Run(**more)
"""
TRACKIO = """
import json, os
from pathlib import Path

class SQLiteStorage:
    path = Path(os.environ["TRACKIO_DIR"], "rows.jsonl")
    @classmethod
    def get_logs(cls, project, run):
        text = cls.path.read_text() if cls.path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]
    @classmethod
    def bulk_log(cls, project, run, logs, steps, timestamps):
        pairs = zip(logs, steps, strict=True)
        rows = [json.dumps({**log, "step": step}) + "\\n" for log, step in pairs]
        with open(cls.path, "a") as stream:
            stream.writelines(rows)
"""


MLFLOW = """
import json, os
from types import SimpleNamespace as Some

class MlflowClient:
    def __init__(self, tracking_uri):
        self.path = os.path.join(os.path.dirname(tracking_uri[10:]), "rows.jsonl")
    def _rows(self):
        return [json.loads(line) for line in open(self.path)]
    def get_experiment_by_name(self, name):
        return Some(experiment_id="1") if os.path.exists(self.path) else None
    def create_experiment(self, name, artifacts):
        open(self.path, "w").close()
        return "1"
    def search_runs(self, ids, max_results):
        tags = {tag: value for tag, value, step in self._rows()}
        return [Some(info=Some(run_name="exp", run_id="7"), data=Some(metrics=tags))]
    def get_metric_history(self, run_id, tag):
        return [Some(step=s, value=v) for name, v, s in self._rows() if name == tag]
    def log_batch(self, run_id, metrics):
        with open(self.path, "a") as stream:
            stream.writelines(json.dumps(row) + "\\n" for row in metrics)
    def set_terminated(self, run_id):
        pass

class entities:
    Metric = staticmethod(lambda tag, value, time, step: [tag, value, step])

import sys
sys.modules["mlflow.entities"] = entities
"""


@pytest.fixture
def log_to(made, environment):
    """Run `log` in a process that imports a small package instead of the real one."""

    def call(to: str, code: str, **more: str) -> subprocess.CompletedProcess:
        Path("packages").mkdir(exist_ok=True)
        Path("packages", f"{to}.py").write_text(code)
        paths = [str(Path("packages").absolute()), environment["PYTHONPATH"]]
        return subprocess.run(
            [sys.executable, "-m", "furlkit", "log", "exp", "--to", to],
            capture_output=True, text=True,
            env={**environment, "PYTHONPATH": os.pathsep.join(paths), **more},
        )  # fmt: skip

    return call


def sent() -> list:
    files = sorted(Path().glob("*/**/rows.jsonl"))
    return [json.loads(row) for f in files for row in f.read_text().splitlines()]


def test_wandb_has_every_point_once_after_a_kill(log_to):
    dead = log_to("wandb", WANDB, DIE_AT="7")
    assert dead.returncode == 9 and len(sent()) == 8
    for new in (COUNT, 0):
        done = log_to("wandb", WANDB)
        assert done.stdout == f"wandb: {new} new points of 1 run\n", done.stderr
        assert [row for row, _ in sent()] == list(range(COUNT))
    expected = [
        {p.tag: p.value, "round" if p.epoch is None else "epoch": p.step}
        for p in points(Path("exp"), "exp")
    ]
    assert [values for _, values in sent()] == expected


def test_trackio_gets_every_point_once(log_to):
    for new in (COUNT, 0):
        done = log_to("trackio", TRACKIO)
        assert done.stdout == f"trackio: {new} new points of 1 run\n", done.stderr
    assert sent() == [{p.tag: p.value, "step": p.step} for p in points(Path("exp"), "")]


def test_mlflow_gets_every_point_once(log_to):
    for new in (COUNT, 0):
        done = log_to("mlflow", MLFLOW)
        assert done.stdout == f"mlflow: {new} new points of 1 run\n", done.stderr
    assert sent() == [[p.tag, p.value, p.step] for p in points(Path("exp"), "")]


@pytest.mark.slow
@pytest.mark.parametrize("to", ["mlflow", "wandb", "trackio"])
def test_real_packages_resume(program, made, to):
    if find_spec(to) is None:
        pytest.skip(f"needs {to}")
    last = made / "r002" / "knn.json"
    hidden = last.rename("knn.json")
    for new in (f"{COUNT - 1} new points", "0 new points", "1 new point"):
        if new == "1 new point":
            hidden.rename(last)
        done = program("log", "exp", "--to", to)
        assert done.stdout == f"{to}: {new} of 1 run\n", done.stderr


def test_a_point_without_a_readable_time_has_time_0():
    assert Point("r", None, 1, None, None, "a", 1.0, "soon", 1).seconds == 0.0
