"""Presets: every value is one the program accepts, and its origin is stated."""

import re
from importlib import resources
from typing import Any

import click
import pytest
from click.core import ParameterSource

from furlkit import presets
from furlkit.catalogue import COMMANDS
from furlkit.cli.program import furlkit

FEDCA = ("fedca", "fedca-align", "fedca-dictionary", "fedca-ensemble")
FLESD = (
    "flesd", "flesd-cc", "flesd-fedavg", "flesd-fedprox", "flesd-nonfl",
    "flesd-code", "flesd-supervised",
)  # fmt: skip
SYSTEMS = tuple(n for n in presets.names() if "local-train" in presets.tables(n))
SCORES = tuple(name for name in presets.names() if name not in SYSTEMS)
# Stages that not every system has.
OPTIONAL = {
    "pretrain-align", "pretrain-style", "embed", "distill",
    "evaluate.personal", "evaluate.semi", "evaluate.finetune",
}  # fmt: skip
# What a stage cannot be called without.
NEEDED = {
    "partition": ("--data", "digits"),
    "init": (),
    "pretrain-align": ("g.st", "--data", "digits", "--targets-out", "t.st"),
    "pretrain-style": ("p.st", "g.st", "--data", "digits", "--client", "0"),
    "local-train": ("p.st", "g.st", "--data", "digits", "--client", "0"),
    "embed": ("c.st", "--data", "digits"),
    "aggregate": ("c.st",),
    "distill": ("e.st", "g.st", "--data", "digits"),
    "evaluate.linear": ("g.st", "--data", "digits"),
    "evaluate.knn": ("g.st", "--data", "digits"),
    "evaluate.personal": ("p.st", "g.st", "--data", "digits"),
    "evaluate.semi": ("g.st", "--data", "digits", "--fraction", "0.1"),
    "evaluate.finetune": ("g.st", "--data", "digits", "--partition", "p.st"),
}


def text_of(name: str) -> str:
    return (resources.files("furlkit.presets") / f"{name}.toml").read_text()


def tables_of(name: str) -> dict[str, dict[str, Any]]:
    tables = presets.tables(name)
    stages = [stage for stage in tables if stage != "evaluate"]
    stages += [f"evaluate.{protocol}" for protocol in tables.get("evaluate", {})]
    found = {stage: presets.table(tables, stage.replace(".", " ")) for stage in stages}
    return {stage: table for stage, table in found.items() if table is not None}


ALL_TABLES = [(name, stage) for name in presets.names() for stage in tables_of(name)]


def resolved(stage: str, *arguments: str) -> click.Context:
    """The stage's context after its command line was read; nothing is run."""
    context = click.Context(furlkit, info_name="furlkit")
    command: click.Command = furlkit
    for word in stage.split("."):
        assert isinstance(command, click.Group)
        command = command.get_command(context, word)
        if isinstance(command, click.Group):
            context = click.Context(command, parent=context, info_name=word)
    words = [*NEEDED[stage], *arguments, "-o", "out"]
    return command.make_context(word, words, parent=context)


def values_of(stage: str, *arguments: str) -> dict[str, Any]:
    """The resolved options, by the names people type."""
    context = resolved(stage, *arguments)
    options = COMMANDS[stage.replace(".", " ")].options.values()
    return {option.name: context.params.get(option.key) for option in options}


def test_there_are_systems_and_scores():
    assert {"fedsimclr", "fedca", "flesd", "digits"} <= set(SYSTEMS)
    assert set(SCORES) == {"moco"}


@pytest.mark.parametrize("name, stage", ALL_TABLES)
def test_every_value_reaches_its_option(name, stage):
    context = resolved(stage, "--preset", name)
    values = values_of(stage, "--preset", name)
    for key, expected in tables_of(name)[stage].items():
        found = values[key]
        assert found == (tuple(expected) if isinstance(expected, list) else expected)
    sources = map(context.get_parameter_source, context.params)
    from_preset = [
        source for source in sources if source is ParameterSource.DEFAULT_MAP
    ]
    assert len(from_preset) == len(tables_of(name)[stage])


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_can_be_named_on_every_stage(name):
    assert set(tables_of(name)) - OPTIONAL == set(NEEDED) - OPTIONAL


@pytest.mark.parametrize("name", presets.names())
def test_every_value_states_its_origin(name):
    lines = re.findall(r"^(?!extends)[a-z-]+ = .*$", text_of(name), re.MULTILINE)
    assert lines
    assert [line for line in lines if not re.search(r"# \([PCO]\)", line)] == []


@pytest.mark.parametrize("name", presets.names())
def test_a_summary_is_a_whole_sentence_without_its_papers(name):
    text = presets.summary(name)
    assert text.count("(") == text.count(")") and text.count('"') % 2 == 0
    assert text[-1] not in ".,:;" and not re.search(r"\(.*\d{4}", text)


def test_a_summary_known_by_hand():
    assert presets.summary("fedavg") == (
        "FedAvg: supervised training on every client, averaged by data size, the "
        "result with labels"
    )


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_trains_the_head_it_makes(name):
    tables = tables_of(name)
    assert tables["init"]["objective"] == tables["local-train"]["objective"]


@pytest.mark.parametrize("name", ["fedsimclr", "fedae", "fedpr", "fedavg", *FEDCA])
def test_numbers_that_fedca_prints(name):
    tables = tables_of(name)
    training = {"epochs": 5, "batch-size": 128, "optimiser": "adam", "lr": 1e-3,
                "weight-decay": 1e-6}  # fmt: skip
    assert training.items() <= tables["local-train"].items()
    assert tables["partition"]["clients"] == 5
    assert tables["evaluate.linear"] == tables_of("fedca")["evaluate.linear"]


ALIGNMENT = {"beta": 0.01, "align-reduction": "sum", "align-batch-size": 128}
DICTIONARY = {"form": "oneway", "dictionary-size": 1024, "alpha": 0.5}


@pytest.mark.parametrize(
    "name, own",
    [
        ("fedca-align", ALIGNMENT),
        ("fedca-dictionary", {**DICTIONARY, "alpha": 0.0}),
        ("fedca-ensemble", DICTIONARY),
        ("fedca", {**ALIGNMENT, **DICTIONARY}),
    ],
)
def test_a_row_of_the_ablation_is_fedsimclr_and_its_parts(name, own):
    """A row has no options of the parts that it lacks."""
    tables, base = tables_of(name), tables_of("fedsimclr")
    assert tables["local-train"] == {**base["local-train"], **own}
    size = {"dictionary-size": 1024} if "alpha" in own else {}
    assert tables["aggregate"] == {**base["aggregate"], **size}
    for stage in base.keys() - {"local-train", "aggregate"}:
        assert tables[stage] == base[stage]
    aligned = {"pretrain-align"} if "beta" in own else set()
    assert tables.keys() - base.keys() == aligned


def test_the_stable_reading_is_fedca_with_choices_of_ours():
    tables, base = tables_of("fedca-stable"), tables_of("fedca")
    own = tables["local-train"].items()
    assert {k: v for k, v in own if base["local-train"].get(k) != v} == {
        "temperature": 0.1, "dictionary-positive": "own",
        "beta": 1e-3, "align-reduction": "mean",
    }  # fmt: skip
    assert {k: v for k, v in tables.items() if k != "local-train"} == {
        k: v for k, v in base.items() if k != "local-train"
    }
    origins = re.findall(r"^[a-z-]+ = .*# \((.)\)", text_of("fedca-stable"), re.M)
    assert origins == ["O"] * 4


@pytest.mark.parametrize("name", ["fedca", "fedca-align"])
def test_the_alignment_model_is_trained_as_simclr_on_3200_images(name):
    training = dict(tables_of(name)["pretrain-align"])
    assert training.pop("images") == 3200 and training.pop("epochs") == 100
    clients = tables_of("fedsimclr")["local-train"]
    assert training.items() <= clients.items() and training["batch-size"] == 128


def test_fedsimclr_is_simclr_as_its_paper_has_it():
    training = tables_of("fedsimclr")["local-train"]
    assert training["form"] == "full" and training["temperature"] == 0.5
    assert training["jitter"] == [0.4, 0.4, 0.4, 0.1]
    assert training["jitter-probability"] == 0.8 and training["grey"] == 0.2
    assert training["blur"] == 0.5 and training["flip"] == 0.5
    assert tables_of("fedsimclr")["init"]["projector"] == [512, 128]


def test_numbers_of_fedmatch():
    tables = tables_of("fedmatch")
    assert {
        "confidence": 0.75, "helpers": 2, "consistency-weight": 0.01,
        "agreement-weight": 0.01, "l1": 1e-5, "l2": 10, "psi-share": 0.2,
    }.items() <= tables["local-train"].items()  # fmt: skip
    server = {"teacher": "labels", "label-weight": 10}
    assert server.items() <= tables["distill"].items()
    assert tables["aggregate"]["rule"] == "mean"


def test_numbers_of_fedusc():
    pretext, tables = tables_of("fedusc-pretext"), tables_of("fedusc")
    assert pretext["local-train"]["temperature"] == 0.1
    assert pretext["partition"] == {
        "clients": 10, "scheme": "volume", "even-share": 0.1, "decay": 0.9,
        "public-fraction": 0.1,
    }  # fmt: skip
    assert {
        "objective": "cluster", "entropy-weight": 5, "nearest": 20, "lr": 1e-4,
        "weight-decay": 1e-4, "batch-size": 128, "update": "dum", "mu": 0.4, "xi": 0.5,
        "distance": "mean-conv",
    }.items() <= tables["local-train"].items()  # fmt: skip
    assert not {"temperature", "form"} & tables["local-train"].keys()
    server = {
        "teacher": "self",
        "confidence": 0.99,
        "form": "weak-strong",
        "cutout": 16,
    }
    assert server.items() <= tables["distill"].items()


def test_fedusc_s_slides_differ_in_what_they_print():
    for name, own in {
        "fedusc-slides-pretext": {"local-train": {"epochs": 200}},
        "fedusc-slides": {
            "local-train": {
                "epochs": 200, "distance": "sum-squares", "nearest-used": "all",
            },
            "distill": {"form": "same", "class-weights": False, "mean-over": "all"},
        },
    }.items():  # fmt: skip
        base = tables_of(name.replace("-slides", ""))
        assert tables_of(name) == {
            **base, **{stage: {**base[stage], **own[stage]} for stage in own}
        }  # fmt: skip


def test_ds_fl_s_clients_send_probabilities_that_are_sharpened():
    tables = tables_of("dsfl")
    assert tables["local-train"]["objective"] == "supervised"
    assert tables["local-train"]["update"] == "keep"
    assert tables["embed"]["layer"] == "probabilities"
    rule = {"rule": "probabilities", "temperature": 0.1}
    assert rule.items() <= tables["aggregate"].items()
    assert tables["distill"]["teacher"] == "probabilities"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("fedca", {"optimiser": "adam", "lr": 1e-3, "weight-decay": 1e-6,
                   "epochs": 100, "batch-size": 512}),
        ("moco", {"optimiser": "sgd", "lr": 30, "momentum": 0.9, "epochs": 100,
                  "milestones": [60, 80], "batch-size": 256, "weight-decay": 0}),
        ("flesd", {"optimiser": "sgd", "lr": 0.03, "epochs": 60,
                   "milestones": [30, 50]}),
        ("fedu", {"optimiser": "adam", "lr": 3e-3, "epochs": 200}),
    ],
)  # fmt: skip
def test_numbers_of_linear_evaluation(name, expected):
    assert expected.items() <= tables_of(name)["evaluate.linear"].items()


def test_numbers_that_flesd_prints():
    whole, once = tables_of("flesd"), tables_of("flesd-cc")
    mean, near = tables_of("flesd-fedavg"), tables_of("flesd-fedprox")
    assert whole["partition"]["clients"] == 6
    assert whole["partition"]["public-client"] == 0
    assert "public-client" not in mean["partition"]
    epochs = [tables["local-train"]["epochs"] for tables in (once, whole, mean, near)]
    assert [epochs[0], 2 * epochs[1], 10 * epochs[2], 10 * epochs[3]] == [200] * 4
    expected = {"epochs": 200, "batch-size": 128, "optimiser": "adam", "lr": 1e-3,
              "temperature": 0.1, "ema": 0.999, "anchors": 2048}  # fmt: skip
    assert expected.items() <= whole["distill"].items()
    assert whole["aggregate"]["temperature"] == 0.1
    assert near["local-train"]["proximal"] in (0.001, 0.01, 0.1, 1)
    alone, labelled = tables_of("flesd-nonfl"), tables_of("flesd-supervised")
    assert alone["partition"]["clients"] == 1 and alone["local-train"]["epochs"] == 200
    expected = {"objective": "supervised", "epochs": 100, "batch-size": 128, "lr": 1e-3}
    assert expected.items() <= labelled["local-train"].items()


def test_the_text_of_flesd_differs_from_its_code_in_the_layer_alone():
    text, code = tables_of("flesd"), tables_of("flesd-code")
    assert (text["embed"].pop("layer"), text["distill"].pop("layer")) == ("h", "h")
    assert (code["embed"].pop("layer"), code["distill"].pop("layer")) == ("z", "z")
    assert text == code


def test_fedmoco_averages_both_networks_and_keeps_the_queue():
    training = tables_of("fedmoco")["local-train"]
    assert training["send"] == "encoder,projector,target"
    expected = {"temperature": 0.1, "ema": 0.99, "queue": 4096, "optimiser": "sgd",
                "lr": 0.015, "momentum": 0.9, "weight-decay": 5e-4}  # fmt: skip
    assert expected.items() <= training.items() and "form" not in training
    assert (
        tables_of("fedmoco")["evaluate.linear"] == tables_of("moco")["evaluate.linear"]
    )


def test_fcl_finetunes_on_few_labels_as_swav_does():
    values = values_of("evaluate.semi", "--preset", "fcl")
    expected = {"mode": "central", "epochs": 20, "optimiser": "sgd", "lr": 0.01,
                "head-lr": 0.2, "momentum": 0.9, "weight-decay": 0, "batch-size": 256,
                "milestones": (12, 16), "milestone-factor": 0.2,
                "hidden": 0}  # fmt: skip
    assert expected.items() <= values.items()
    fewer = ("--fraction", "0.01", "--lr", "0.02", "--head-lr", "5")
    values = values_of("evaluate.semi", "--preset", "fcl", *fewer)
    assert (values["lr"], values["head-lr"], values["epochs"]) == (0.02, 5, 20)
    federated = tables_of("fcl")["evaluate.finetune"]
    assert (federated["rounds"], federated["hidden"]) == (20, 0)


@pytest.mark.parametrize("name", ["fedswav", "feddc"])
def test_what_is_compared_with_fedmoco_is_trained_as_long_and_as_fast(name):
    tables, base = tables_of(name), tables_of("fedmoco")
    for key in ("epochs", "batch-size", "optimiser", "lr", "schedule", "blur"):
        assert tables["local-train"][key] == base["local-train"][key]
    assert "target" not in tables["local-train"]["send"]
    assert "ema" not in tables["local-train"]
    for stage in base.keys() - {"local-train", "init"}:
        assert tables[stage] == base[stage]


def test_fedu_is_fedbyol_with_an_update_and_a_probe_of_its_own():
    tables, base = tables_of("fedu"), tables_of("fedbyol")
    own = {"update": "fedu", "mu": 0.4}
    assert tables["local-train"] == {**base["local-train"], **own}
    for stage in base.keys() - {"local-train", "evaluate.linear"}:
        assert tables[stage] == base[stage]


def test_astw_is_fedsimclr_with_fewer_exchanges_and_weights_of_old_models():
    tables, base = tables_of("astw"), tables_of("fedsimclr")
    own = {"update": "astw", "cycle": 15, "exchanges": 5}
    assert tables["local-train"] == {**base["local-train"], **own}
    assert tables["aggregate"] == {**base["aggregate"], "staleness": 1.35914}


def test_fcl_is_fedmoco_with_the_rows_of_others_and_then_neighbours():
    moco, fused, remote, whole = (
        tables_of(name) for name in ("fedmoco", "fcl-fusion", "fcl-remote", "fcl")
    )
    training = [tables["local-train"] for tables in (moco, fused, remote, whole)]
    shared = {"negatives": "fused", "leave-own-out": True, "share-rows": "instahide",
              "rows-statistics": "batch", "dictionary-size": 5 * training[0]["queue"]}  # fmt: skip
    assert training[1] == {**training[0], **shared}
    assert training[2] == {**training[1], "negatives": "remote"}
    matching = {"neighbours": 5, "neighbour-candidates": 4096,
                "neighbour-temperature": 0.1, "neighbour-weight": 0.1}  # fmt: skip
    assert training[3] == {**training[1], **matching}
    for tables in (fused, remote, whole):
        assert tables["aggregate"].pop("dictionary-size") == 20480
        for stage in moco.keys() - {"local-train"}:
            assert tables[stage] == moco[stage]


@pytest.mark.parametrize(
    "name, base, own",
    [
        ("ditto", "fedsimclr", {"personal": "ditto", "pull": 1, "pull-to": "received"}),
        ("apfl", "fedsimclr",
         {"personal": "apfl", "own-share": 0.5, "mix": "weights", "own-share-rate": 0}),
        ("fedstyle-ditto", "fedstyle-fedavg",
         {"personal": "ditto", "pull": 2, "pull-to": "trained", "sent-model": "own",
          "restart-optimiser": True}),
        ("fedstyle-apfl", "fedstyle-fedavg",
         {"personal": "apfl", "own-share": 0.5, "mix": "views", "sent-model": "own"}),
        ("fedstyle-fedrep", "fedstyle-fedavg",
         {"send": "encoder", "phases": "projector:5,encoder:5",
          "restart-optimiser": True}),
        ("fedstyle-fedprox", "fedstyle-fedavg", {"update": "own", "proximal": 0.2}),
    ],
)  # fmt: skip
def test_personal_methods_are_what_they_are_compared_with_and_their_own(
    name, base, own
):
    tables, others = tables_of(name), tables_of(base)
    assert tables["local-train"] == {**others["local-train"], **own}
    for stage in others.keys() - {"local-train"}:
        assert tables[stage] == others[stage]


def test_numbers_that_fedstyle_prints_of_its_baselines():
    tables = tables_of("fedstyle-fedavg")
    training = {"epochs": 5, "batch-size": 64, "optimiser": "sgd", "lr": 0.1,
                "temperature": 0.07}  # fmt: skip
    assert training.items() <= tables["local-train"].items()
    assert tables["init"]["encoder"] == "resnet18"
    assert tables["init"]["projector"] == tables["init"]["predictor"] == [256, 128]
    assert tables["evaluate.linear"]["lr"] == tables_of("fedu")["evaluate.linear"]["lr"]


def test_numbers_that_fedstyle_prints():
    tables = tables_of("fedstyle")
    shared = {"batch-size": 64, "optimiser": "sgd", "lr": 0.1, "temperature": 0.07,
              "momentum": 0.9, "weight-decay": 1e-4, "schedule": "constant"}  # fmt: skip
    own = {"local-train": {"epochs": 5, "infusion": 1.0},
           "pretrain-style": {"epochs": 10, "projector": [256, 128]}}  # fmt: skip
    for stage, more in own.items():
        assert {**shared, **more}.items() <= tables[stage].items()
    assert (
        tables["partition"].items()
        >= {"scheme": "domains", "clients-per-domain": 1}.items()
    )
    assert tables["init"]["encoder"] == "resnet18"
    assert tables["init"]["projector"] == tables["init"]["predictor"] == [256, 128]
    assert tables["evaluate.linear"] == tables_of("fedu")["evaluate.linear"]


def test_fedstyle_has_the_printed_z_and_fedstyle_stable_unit_rows():
    printed, stable = tables_of("fedstyle"), tables_of("fedstyle-stable")
    equation_2 = {"normalise": False, "reduction": "paper"}
    assert equation_2.items() <= printed["pretrain-style"].items()
    assert stable == {
        **printed, "pretrain-style": {**printed["pretrain-style"], "normalise": True}
    }  # fmt: skip
    assert "(P)" in line_of("fedstyle", "normalise")
    assert "(O)" in line_of("fedstyle-stable", "normalise")


def line_of(preset, option):
    """The line of a preset's file that sets an option."""
    (line,) = re.findall(rf"^{option} = .*$", text_of(preset), re.M)
    return line


def test_a_flag_wins_over_a_preset():
    values = values_of("evaluate.linear", "--preset", "moco", "--lr", "3")
    assert values["lr"] == 3 and values["epochs"] == 100
    values = values_of("local-train", "--jitter", "0,0,0,0", "--preset", "fedsimclr")
    assert values["jitter"] == (0, 0, 0, 0) and values["blur"] == 0.5


def test_a_choice_by_hand_takes_no_numbers_of_the_preset_s_own(run, tmp_path):
    """The preset's --concentration is for its own --scheme and is dropped with another."""
    words = ("partition", "--preset", "flesd", "--data", "digits", "--scheme", "iid")
    assert run(*words, "-o", tmp_path / "p.safetensors").code == 0
    done = run(*words, "--concentration", "1", "-o", tmp_path / "q.safetensors")
    assert done.code == 2
    assert "--concentration" in done.err and "--scheme iid" in done.err


def test_an_objective_by_hand_takes_no_settings_of_the_preset_s_own(run, tmp_path):
    model, partition = tmp_path / "g.safetensors", tmp_path / "p.safetensors"
    data = ("--data", "digits")
    assert run("partition", *data, "-o", partition).code == 0
    rotation = (*data, "--objective", "rotation")
    assert run("init", *rotation, "--width", "0.1", "-o", model).code == 0
    words = ("local-train", partition, model, "--preset", "flesd-fedavg", *rotation)
    words = (*words, "--client", "0", "--dry-run", "-o", tmp_path / "c.safetensors")
    assert run(*words).code == 0
    done = run(*words, "--temperature", "1")
    assert done.code == 2
    assert "--temperature" in done.err and "--objective rotation" in done.err


def test_a_preset_s_own_choice_and_number_must_fit_each_other(run, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[partition]\nscheme = 'iid'\nconcentration = 1.0\n")
    words = ("partition", "--preset", path, "--data", "digits")
    done = run(*words, "-o", tmp_path / "p.safetensors")
    assert done.code == 2
    assert "--concentration" in done.err and "--scheme iid" in done.err


def test_the_last_of_two_presets_counts_alone():
    values = values_of("evaluate.linear", "--preset", "moco", "--preset", "fedu")
    assert values["lr"] == 3e-3 and values["milestones"] == ()


def test_a_preset_from_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[init]\nwidth = 0.5\nprojector = [64, 8]\n")
    values = values_of("init", "--preset", str(path))
    assert values["width"] == 0.5 and values["projector"] == (64, 8)


@pytest.mark.parametrize(
    "text, code, words",
    [
        ("[init]\nwidht = 1\n", 2, ("[init]", "'widht'")),
        ("[init]\noutput = 'x'\n", 2, ("[init]", "'output'")),
        ("[init]\nforce = true\n", 2, ("[init]", "type --force")),
        ("[partition]\nclients = 3\n", 2, ("[init]",)),
        ("[init]\nencoder = 'cnn6'\n", 2, ("--encoder", "cnn6")),
        ("[init]\nprojector = ['wide']\n", 2, ("--projector", "wide")),
        ("[init\n", 65, ("TOML",)),
    ],
)
def test_a_preset_that_does_not_fit_is_refused(run, tmp_path, text, code, words):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    outcome = run("init", "--data", "digits", "--preset", path, "-o", tmp_path / "g.st")
    assert outcome.code == code
    for word in words:
        assert word in outcome.err
    assert sorted(tmp_path.iterdir()) == [path]


def test_an_unknown_preset_is_refused_with_the_known_ones(run, tmp_path):
    outcome = run("init", "--preset", "fedfoo", "-o", tmp_path / "g.st")
    assert outcome.code == 2
    assert "--preset fedfoo" in outcome.err and "digits, ditto, dsfl, " in outcome.err
    outcome = run("init", "--preset", tmp_path / "no.toml", "-o", tmp_path / "g.st")
    assert outcome.code == 65 and "no.toml: no such file" in outcome.err


def test_a_file_extends_a_preset_and_changes_what_it_names(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('extends = "fedca"\n[local-train]\nalpha = 0.9\n')
    values = values_of("local-train", "--preset", str(path))
    assert values["alpha"] == 0.9 and values["beta"] == 0.01
    assert values["jitter"] == (0.4, 0.4, 0.4, 0.1)
    assert values_of("pretrain-align", "--preset", str(path))["images"] == 3200
    assert values_of("evaluate.linear", "--preset", str(path))["batch-size"] == 512


def test_a_file_extends_another_file(tmp_path):
    base, path = tmp_path / "base.toml", tmp_path / "mine.toml"
    base.write_text('extends = "digits"\n[init]\nwidth = 0.5\n')
    path.write_text(f'extends = "{base}"\n[evaluate.knn]\nk = 7\n')
    assert values_of("init", "--preset", str(path))["width"] == 0.5
    scores = values_of("evaluate.knn", "--preset", str(path))
    assert scores["k"] == 7 and scores["temperature"] == 0.1


@pytest.mark.parametrize(
    "base, code, words",
    [
        ('"fedfoo"', 2, ("fedfoo", "digits, ditto, dsfl, ", "mine.toml extends it")),
        (
            '"nowhere.toml"',
            65,
            ("nowhere.toml", "no such file", "mine.toml extends it"),
        ),
        ('"{own}"', 2, ("extend", "mine.toml")),
        ('"{other}"', 2, ("extend", "mine.toml")),
        ("7", 2, ("extend", "7")),
        ('["fedca"]', 2, ("extend", "['fedca']")),
    ],
)
def test_a_preset_that_extends_nothing_of_use(run, tmp_path, base, code, words):
    path, other = tmp_path / "mine.toml", tmp_path / "other.toml"
    other.write_text(f'extends = "{path}"\n')
    path.write_text(f"extends = {base.format(own=path, other=other)}\n[init]\n")
    outcome = run("init", *("--data", "digits"), "--preset", path, "-o", tmp_path / "g")
    assert outcome.code == code
    for word in words:
        assert word in outcome.err
    assert not (tmp_path / "g").exists()


def test_a_repeated_option_takes_a_list(tmp_path):
    path = tmp_path / "p.toml"
    for text, heads in (
        ('["predictor", "decoder"]', ("predictor", "decoder")),
        ('"decoder"', ("decoder",)),
    ):
        path.write_text(f"[init]\nhead = {text}\n")
        assert values_of("init", "--preset", str(path))["head"] == heads


def test_a_table_is_no_value(tmp_path, run):
    path = tmp_path / "p.toml"
    path.write_text("[init]\nwidth = {a = 1}\n")
    outcome = run("init", "--preset", path, "-o", tmp_path / "g")
    assert outcome.code == 2 and f"--preset {path}: 'width'" in outcome.err


def test_another_objective_leaves_out_the_options_of_the_one_it_extends(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('extends = "fedsimclr"\n[local-train]\nobjective = "rotation"\n')
    table = presets.tables(str(path))["local-train"]
    assert "temperature" not in table and "form" not in table
    assert table["batch-size"] == 128
    path.write_text('extends = "fedsimclr"\n[local-train]\nobjective = "simclr"\n')
    assert presets.tables(str(path))["local-train"]["temperature"] == 0.5


def test_the_list_has_a_heading_for_each_system_and_every_preset_once(run):
    lines = run("presets").out.splitlines()
    headings = [line for line in lines if line and not line.startswith(" ")]
    assert headings == ["FCL", "FedCA", "FedStyle", "FedUSC", "FLESD", "Others"]
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(listed) == presets.names()
    assert listed.index("fedca-align") == listed.index("fedca") + 1
