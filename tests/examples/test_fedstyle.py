"""examples/fedstyle: recipes, tables, pages, and the files that leave a client."""

import csv
import re
import tomllib
from itertools import product
from pathlib import Path
from statistics import fmean

import pytest
from safetensors.numpy import load_file

from furlkit.files.metrics import write_metrics
from furlkit.files.partition import read_partition
from furlkit.weights import parts_of
from tests.examples.conftest import EXAMPLES, blocks, needs_make, of, values

FEDSTYLE = EXAMPLES / "fedstyle"
PAPER = FEDSTYLE / "paper.toml"
ROWS = (
    "fedstyle", "fedavg", "fedper", "fedrep", "fedprox", "apfl", "ditto", "apfl_copy",
    "ditto_copy",
)  # fmt: skip
# The styles of each dataset, and lambda by clients of each style.
STYLES = {"digit": 3, "officehome": 4, "adaptiope": 3, "digit32": 3, "pacs32": 4}
LAMBDA = {"digit": 1, "officehome": 0.5, "adaptiope": 0.5, "digit32": 1, "pacs32": 0.5}
LAMBDAS = {5: 0.1, 10: 0.5}


# --- the recipes ----------------------------------------------------------------------


def test_the_recipe_has_25_lines_at_most():
    assert len((FEDSTYLE / "recipe.toml").read_text().splitlines()) <= 25


def test_style_models_are_trained_once_and_kept_through_all_rounds(plan):
    steps = plan(FEDSTYLE / "recipe.toml", "rounds=2", "each=2", "clients=6",
                 "fraction=0.5", "seed=1")  # fmt: skip
    assert [step["clients"] for step in of(steps, "style")] == [[c] for c in range(6)]
    last: dict[int, int] = {}
    for step in of(steps, "train"):
        (client,), own = step["clients"], []
        if client in last:
            own = [f"exp/r{last[client]:03}/private_{client}.safetensors"]
        style = f"exp/r000/style_{client}.safetensors"
        assert values(step["command"], "--private") == [style, *own]
        last[client] = step["round"]
    (personal,) = of(steps, "personal")
    kinds = ("private", "client")
    files = {f"exp/r{n:03}/{k}_{c}.safetensors" for c, n in last.items() for k in kinds}
    before = {"exp/partition.safetensors", "exp/r002/global.safetensors"}
    assert len(last) < 6  # One that never took part has no score.
    assert set(personal["reads"]) == files | before


@pytest.mark.parametrize("row", [*ROWS, "centralised"])
@pytest.mark.parametrize("dataset", STYLES)
def test_every_row_is_planned_on_every_dataset(plan, row, dataset):
    alone = row == "centralised"
    for each, loss in [(1, "simclr")] if alone else [(1, "simclr"), (5, "simsiam")]:
        words = (f"row={row}", f"dataset={dataset}", f"each={each}", f"loss={loss}")
        steps = plan(PAPER, *words, "rounds=2")
        trained = [step["command"] for step in of(steps, "train")]
        count = 1 if alone else STYLES[dataset] * each
        assert len(trained) == 2 * (count if each == 1 else count // 2)
        styled = row == "fedstyle"
        assert len(of(steps, "style")) == len(of(steps, "features")) == count * styled
        weight = f"{LAMBDAS.get(each, LAMBDA[dataset]):g}"
        for command in trained:
            assert values(command, "--infusion") == [weight] * styled
            assert values(command, "--objective") == [loss]
            encoder = row in ("fedper", "fedrep")
            assert values(command, "--send") == ["encoder"] * encoder
            kept = row not in ("fedavg", "centralised")
            assert ("--private-out" in command) == kept
        assert len(of(steps, "linear")) == 1
        assert len(of(steps, "personal")) == (not alone)
        assert len(of(steps, "content")) == styled
        assert len(of(steps, "untrained_linear")) == (not styled)


def test_the_projector_of_fedrep_is_trained_first_and_simsiam_s_predictor_with_it(plan):
    for loss, heads in {
        "simclr": "projector",
        "simsiam": "projector+predictor",
    }.items():
        steps = plan(PAPER, "row=fedrep", f"loss={loss}", "rounds=1")
        command = of(steps, "train")[0]["command"]
        assert values(command, "--phases") == [f"{heads}:5,encoder:5"]
        assert "--epochs" not in command


def test_data_without_a_test_set_are_divided_by_the_seed(plan):
    for dataset, name in {"officehome": "officehome-2015", "digit": "digit"}.items():
        steps = plan(PAPER, f"dataset={dataset}", "seed=2015",
                     "folder=/d", "rounds=1")  # fmt: skip
        command = of(steps, "personal")[0]["command"]
        assert values(command, "--data") == [f"/d/{name}-train.safetensors"]
        assert values(command, "--test-data") == [f"/d/{name}-test.safetensors"]


def test_the_row_fedstyle_is_the_recipe(plan):
    recipe = plan(FEDSTYLE / "recipe.toml", "data=a", "test=b", "rounds=2")
    more = ("content", "features")
    row = plan(PAPER, "data=a", "test=b", "rounds=2", "out=exp")
    row = [step for step in row if step["stage"] not in more]
    # The row repeats values of the preset.
    same = {
        "init": ["--encoder", "resnet18", "--objective", "simclr"],
        "style": ["--epochs", "10"],
        "train": ["--objective", "simclr", "--epochs", "5", "--infusion", "1"],
    }
    for step in row:
        for word in same.get(step["stage"], []):
            step["command"].remove(word)
    assert [sorted(s["command"]) for s in row] == [sorted(s["command"]) for s in recipe]


# --- the tables and the page ----------------------------------------------------------


def shown(steps: list[dict]) -> list[list[str]]:
    """Commands that compare or draw runs."""
    commands = (step["command"] for step in steps)
    return [words for words in commands if words[0] in ("compare", "plot")]


@pytest.mark.slow
@needs_make
def test_every_command_of_the_page_is_accepted(recorded, check_all):
    # Both losses have equal plans, as have datasets of the same scale.
    page = "\n".join(blocks(FEDSTYLE / "README.md"))
    page = re.sub("^furlkit .*dataset=(officehome|adaptiope).*$", "", page, flags=re.M)
    commands = recorded(re.sub(r"(table=\S+)( loss=\w+)?", r"\1 loss=simclr", page))
    assert sum(command[0] == "plan" for command in commands) >= 7
    check_all(commands)


def test_the_page_plans_every_table():
    page = (FEDSTYLE / "README.md").read_text()
    names = tomllib.loads(PAPER.read_text())["table"].values()
    parts = {part for table in names for part in table.get("tables", ())}
    whole = {*tomllib.loads(PAPER.read_text())["table"]} - parts
    assert len(whole) == 11 and all(f"| `{name}` |" in page for name in whole)
    text = " ".join(blocks(FEDSTYLE / "README.md"))
    planned = re.findall(r"table=(\S+)", text)
    assert {name for words in planned for name in words.split(",")} == whole


@pytest.fixture
def styles(recorded, run):
    """The page's three styles of digits, of which few images are left, packed."""
    page = (FEDSTYLE / "README.md").read_text()
    (script,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    few = script.replace("(0, 1400)", "(0, 150)").replace("(1400,", "(1700,")
    exec(few, {})
    (block,) = (b for b in blocks(FEDSTYLE / "README.md") if "styles_$split.npz" in b)
    packs = [c for c in recorded(block.partition("furlkit plan")[0]) if c[0] == "pack"]
    Path("data").mkdir()
    for command in packs:
        assert run(*command, "-q").code == 0


TINY = (
    *("rounds=1", "epochs=1", "init=--width 0.02 --projector 8,4", "seed=0"),
    *("train=--batch-size 50", "style=--projector 8,4 --batch-size 50"),
    *(f"{name}=--epochs 1" for name in ("linear", "personal", "content")),
    *(f"untrained_{name}=--epochs 1" for name in ("linear", "personal")),
)


def test_tables_compare_all_rows_for_each_style(plan, run, styles):
    words = ("dataset=images", "loss=simclr", *TINY)
    steps = plan(PAPER, "table=1,content-one", *words)
    steps += plan(PAPER, "table=extraction", "style_epochs=0,1", *words)
    tables = []
    for step in steps:
        done = run(*step["command"])
        assert done.code == 0, done.err
        tables += [done.out] if step["command"][0] == "compare" else []
    labels = [[line.split("  ")[0] for line in t.splitlines()[3:]] for t in tables]
    shared = ["untrained", "Centralised", "FedAvg", "FedPer", "FedStyle"]
    own = ["untrained", "FedAvg", "FedPer", "FedRep", "FedProx", "APFL", "Ditto",
           "FedStyle"]  # fmt: skip
    assert labels == [
        *[shared] * 4, *[own] * 4, ["FedAvg", "FedStyle", "FedStyle, h_c alone"],
        *[["E_s 0", "E_s 1"]] * 2,
    ]  # fmt: skip
    assert Path("exp/images/tables/fedstyle/extraction-picture-personal.png").exists()
    heads = [table.splitlines()[2] for table in tables]
    assert "noisy" in heads[3] and "noisy" in heads[7] and "noisy" not in heads[0]
    for path in Path("exp/images/1/iid").glob(
        "*/fedstyle/seed0/r001/client_*.safetensors"
    ):
        assert parts_of(load_file(path)) == ["encoder", "projector"]
    partition = next(Path("exp").rglob("fedstyle/seed0/partition.safetensors"))
    assert read_partition(partition).domain_of(2) == "noisy"


def test_the_experiment_is_of_both_datasets_with_one_and_five_clients(plan):
    steps = plan(PAPER, "table=experiment", "seed=0", "rounds=1")
    runs: dict[str, set[int]] = {}
    for step in of(steps, "train"):
        folder, _, _ = step["outputs"][0].partition("/r0")
        runs.setdefault(folder, set()).update(step["clients"])
    assert len(runs) == 2 * 2 * (4 + 2)
    for folder, clients in runs.items():
        _, dataset, each, *_ = folder.split("/")
        assert max(clients) < STYLES[dataset] * int(each)
    # By the mean of the styles, and by each: two scores, two losses, one and five.
    compared = shown(steps)
    assert len(compared) == (1 + 3 + 1 + 4) * 2 * 2 * 2
    assert all(values(c, "--reference") == ["FedAvg"] for c in compared)


def test_claims_are_about_lines_of_the_experiment(plan):
    (command,) = shown(plan(PAPER, "table=claims", "seed=0"))
    assert values(command, "--claims") == [str(PAPER)]
    labels = {text.partition("=")[0] for text in values(command, "--series")}
    claims = tomllib.loads(PAPER.read_text())["claims"]
    named = {c[side] for c in claims.values() for side in ("higher", "lower")}
    assert len(labels) == 4 * (4 + 5 + 3 + 3) and named <= labels


def test_a_table_has_the_paper_s_numbers_beside_ours(plan, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("table=1-personal", "loss=simclr", "seed=2011", "rounds=1")
    commands = shown(plan(PAPER, *words))
    (command,) = (c for c in commands if "domains.svhn.accuracy" in c)
    for number, text in enumerate(values(command, "--series")):
        path = Path(text.partition("=")[2])
        path.parent.mkdir(parents=True, exist_ok=True)
        facts = {"round": 100, "role": "global"}
        found = {"protocol": "personal", "seed": 2011, "options": {"by-domain": True}}
        found["domains"] = {"svhn": {"accuracy": 0.5 + number / 100}}
        found["checkpoint"] = {"seed": None, "facts": facts}
        write_metrics(path, found)
    _, title, head, *rows = run(*command).out.splitlines()
    assert "Table 1" in title and "published" in head and "svhn" in head
    found = {line.split()[0]: line.split()[2:4] for line in rows}
    assert found["FedAvg"] == ["51.00", "87.00"]
    assert found["FedStyle"] == ["57.00", "89.80"]


def score(path, accuracy, seed):
    """A personal score, as evaluate writes it."""
    facts = {"round": 100, "role": "global"}
    found = {"protocol": "personal", "seed": seed, "options": {"by-domain": True}}
    found |= {"accuracy": accuracy, "checkpoint": {"seed": None, "facts": facts}}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_metrics(path, found)


def test_the_mean_of_all_splits_is_compared_and_drawn(plan, run, tmp_path, monkeypatch):
    """Tables 2 and 3 have the mean as "Avg."; the figure on content as bars."""
    monkeypatch.chdir(tmp_path)
    words = ("dataset=officehome", "loss=simclr", "seed=0,1", "rounds=1")
    table, bars = shown(plan(PAPER, "table=content-mean,content-bars", *words))
    by_split = {"1/iid": 0.5, "5/iid": 0.3, "5/0.2": 0.1, "5/0.8": 0.2}
    for (where, accuracy), seed in product(by_split.items(), (0, 1)):
        runs = Path(f"exp/officehome/{where}/simclr")
        score(runs / f"fedavg/seed{seed}/personal.json", accuracy + seed / 100, seed)
        ours = accuracy + 0.06 + seed / 100
        score(runs / f"fedstyle/seed{seed}/personal.json", ours, seed)
        score(runs / f"fedstyle/seed{seed}/content.json", ours - 0.03, seed)
    _, _, head, *rows = run(*table).out.splitlines()
    assert "published" in head
    found = {line.split("  ")[0]: line for line in rows}
    assert " 20.50 " in found["FedAvg"] and found["FedAvg"].endswith(" 23.70")
    assert " 26.50 " in found["FedStyle"] and " 25.10 " in found["FedStyle"]
    assert " +3.00 " in found["FedStyle, h_c alone"]
    assert run(*bars).code == 0
    picture = Path("exp/officehome/tables/fedstyle/content-bars-5-personal.png")
    assert picture.stat().st_size


# --- the paper's numbers --------------------------------------------------------------


def paper():
    with open(FEDSTYLE / "paper.csv", newline="") as file:
        return {tuple(row[:-1]): float(row[-1]) for row in [*csv.reader(file)][1:]}


def test_the_paper_s_numbers_are_all_there_and_agree_with_its_text():
    found = paper()
    # Tables 1 to 4.
    assert len(found) == 2 * 10 * 13 + 2 * 9 * 23 + 2 * 9 * 10 + 6 * 4
    digit = "digit", "1", "iid", "simclr", "personal", "domains.svhn.accuracy"
    best = {m: found[*digit, m] for m in ("FedStyle", "Ditto", "APFL")}
    assert best == {"FedStyle": 89.8, "Ditto": 87.6, "APFL": 61.1}
    assert found["adaptiope", "5", "0.8", "simsiam", "personal",
                 "domains.real_life.accuracy", "FedStyle"] == 28.0  # fmt: skip
    assert found["digit", "10", "all", "simsiam", "linear", "accuracy", "FedStyle"
                 ] == 92.4  # fmt: skip
    large = "officehome", "1", "iid", "simclr", "personal", "accuracy", "lambda 10"
    assert found[large] == 2.1


def datasets():
    with open(FEDSTYLE / "datasets.csv", newline="") as file:
        return {
            tuple(row[:2]): tuple(map(int, row[2:])) for row in [*csv.reader(file)][1:]
        }


def style_of(value: str) -> str:
    """Style of a number like domains.mnist.accuracy; "mean" of accuracy."""
    return value.split(".")[1] if "." in value else "mean"


def test_table_5_has_the_styles_of_every_dataset():
    found = datasets()
    assert len(found) == 3 + 4 + 3
    assert found["digit", "mnist"] == (10, 70_000)
    assert found["officehome", "art"] == (65, 24_000)
    assert found["adaptiope", "real_life"] == (123, 12_300)
    styles = {(key[0], style_of(key[5])) for key in paper() if key[5] != "accuracy"}
    assert styles == found.keys()


@pytest.mark.slow
def test_every_number_of_the_paper_is_shown_by_a_table(plan):
    """The key of a number from the files that the number is compared with."""
    tables = {"digit": "1,3", "officehome": "1,2,4", "adaptiope": "1,2,4"}
    found = {}
    for dataset, names in tables.items():
        words = (f"table={names}", f"dataset={dataset}", "seed=2011", "rounds=1")
        for command in shown(plan(PAPER, *words)):
            found |= published_by(command)
    assert found == paper()


def published_by(command):
    files = dict(text.split("=", 1) for text in values(command, "--series"))
    (value,) = values(command, "--value") or ["accuracy"]
    found = {}
    for text in values(command, "--published"):
        label, number = text.split("=")
        paths = [Path(path).parts for path in files[label].split(",")]
        splits = {parts[3] for parts in paths}
        split = splits.pop() if len(splits) == 1 else "all"
        _, dataset, each, _, loss, *_, name = paths[0]
        score = name.removesuffix(".json")
        found[dataset, each, split, loss, score, value, label] = float(number)
    return found


def test_means_of_the_paper_are_those_of_its_styles_up_to_rounding():
    """All but two: the paper's own means of FedStyle and Ditto on Office-Home differ."""
    found, groups = paper(), {}
    for (dataset, each, _, loss, score, kind, method), value in found.items():
        if "lambda" not in method:
            group = groups.setdefault((dataset, each, loss, score, method), {})
            group.setdefault(kind == "accuracy", []).append(value)
    off = [
        key for key, group in groups.items()
        if abs(fmean(group[False]) - group[True][0]) > 0.15
    ]  # fmt: skip
    assert off == [
        ("officehome", "1", "simsiam", "linear", "FedStyle"),
        ("officehome", "5", "simsiam", "personal", "Ditto"),
    ]


def test_the_claims_have_the_paper_s_differences():
    found, datasets = paper(), {"digit32": "digit", "pacs32": "officehome"}
    claims = tomllib.loads(PAPER.read_text())["claims"]
    for claim in (c for c in claims.values() if "paper" in c):
        where, loss, score, higher = claim["higher"].split()
        ours, each = where.split("-")
        dataset, lower = datasets[ours], claim["lower"].split()[-1]
        each = "10" if (dataset, each) == ("digit", "5") else each
        mine = [k for k in found if k[:5] == (dataset, each, "iid", loss, score)]
        kept = {k[5] for k in mine if k[5] != "accuracy"}
        if "value" in claim:
            kept = {claim["value"]}
        high, low = (
            fmean(found[k] for k in mine if k[5] in kept and k[6] == method)
            for method in (higher, lower)
        )
        assert claim["paper"] == pytest.approx(high - low, abs=0.006)
