import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit.files.container.read import Container
from furlkit.files.container.write import write
from furlkit.files.ensemble import read_ensemble
from furlkit.training import loop
from tests.helpers import epoch_losses, epochs, furlkit, tensor_bytes

DIGITS = ("--data", "digits")
CLIENTS, IMAGES = (1, 2, 3), 60
FAST = ("--epochs", 2, "--batch-size", 20, "--anchors", 40, "-q")


def ensemble_of(folder, name, embedding=(), more=()):
    """The ensemble of the clients' models on 60 public images."""
    part = ("--partition", folder / "p", "--part", "public", "--layer", "z")
    files = [folder / f"{name}_{client}" for client in CLIENTS]
    for client, path in zip(CLIENTS, files, strict=True):
        words = ("embed", folder / f"c{client}", *DIGITS, *part, *embedding)
        assert furlkit(*words, "--force", "-o", path) == 0
    words = ("aggregate", "--rule", "ensemble", *files, *more)
    assert furlkit(*words, "--force", "-o", folder / name) == 0
    return folder / name


@pytest.fixture(scope="module")
def three_models(tmp_path_factory, forge):
    """Three clients' models, untrained, and a model to start from."""
    folder = tmp_path_factory.mktemp("three_models")
    split = ("--public-count", IMAGES, "-o", folder / "p")
    assert furlkit("partition", *DIGITS, *split) == 0
    for seed in (0, *CLIENTS):
        net = ("--width", 0.02, "--projector", f"8,{4 + seed}", "--head", "rotation")
        path, run = folder / f"c{seed}", ("--run-name", "distillation")
        assert furlkit("init", *DIGITS, *net, "--seed", seed, *run, "-o", path) == 0
        if seed:
            forge(path, facts={"role": "client", "client": seed, "round": 3})
    (folder / "c0").rename(folder / "start")
    ensemble_of(folder, "e")
    return folder


@pytest.fixture
def distill(three_models, tmp_path):
    """Distil in a folder of the test's own; returns exit code and output."""

    def run(*more, name="g", ensemble="e", start="start"):
        words = [
            "distill",
            three_models / ensemble,
            three_models / start,
            *DIGITS,
            *FAST,
            *more,
        ]
        return furlkit(*words, "-o", tmp_path / name), tmp_path / name

    return run


def losses(path):
    return [epoch["distillation"] for epoch in epoch_losses(path)]


FORMS = {
    "a matrix": ((), ("--matrix",), "matrix"),
    "whole similarities": (("--similarity",), (), "matrix"),
    "all of the largest": (("--similarity", "--top", 100), (), "top"),
    "all of the largest, a matrix": (("--similarity", "--top", 100), ("--matrix",), "matrix"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_however_similarities_come_the_losses_are_the_same(three_models, distill, name):
    """Rows computed on the fly against matrices: equal to rounding."""
    embedding, more, form = FORMS[name]
    path = ensemble_of(three_models, name, embedding, more)
    assert read_ensemble(path).facts.form == form
    for precision in ("float32", "bfloat16"):
        how = ("--precision", precision)
        expected = losses(distill(*how, name="rows")[1])
        found = losses(distill(*how, name="other", ensemble=name)[1])
        assert found == pytest.approx(expected, rel=1e-3) and len(found) == 2


@pytest.mark.parametrize(
    "embedding, apart",
    [
        (("--encoding", "float16"), 0.02),
        (("--encoding", "int8"), 0.2),
        (("--similarity", "--encoding", "float16"), 0.02),
        (("--similarity", "--encoding", "int8"), 0.2),
    ],
)
def test_fewer_bytes_teach_nearly_the_same(three_models, distill, embedding, apart):
    ensemble_of(three_models, "few", embedding)
    expected = losses(distill(name="exact")[1])
    found = losses(distill(name="few", ensemble="few")[1])
    assert found != expected and found == pytest.approx(expected, rel=apart)


@pytest.mark.parametrize("percent", [0.1, 5])
@pytest.mark.parametrize("more", [(), ("--matrix",)])
def test_of_the_largest_alone_every_image_still_has_a_target(
    three_models, distill, percent, more
):
    """0.1 % of 60 is one: an image keeps only itself, which is in the queue."""
    ensemble_of(three_models, "top", ("--similarity", "--top", percent), more)
    code, path = distill(ensemble="top")
    assert code == 0 and np.isfinite(losses(path)).all()


def test_it_says_how_it_was_made(three_models, distill):
    _, path = distill("--ema", 0.9, "--seed", 5)
    header = Container(path).header
    assert (header.stage, header.seed) == ("distill", 5)
    contents = {k: Container(three_models / k).content for k in ("e", "start")}
    assert header.inputs == {"ensemble": contents["e"], "start": contents["start"]}
    expected = {"layer": "z", "temperature": 0.1, "ema": 0.9, "anchors": 40}
    assert expected.items() <= header.options.items()
    assert header.facts["examples"] == IMAGES and header.facts["round"] == 3
    assert header.facts["loss"] == pytest.approx(losses(path)[-1])


def test_one_line_for_people_and_json_for_programs(three_models, run, tmp_path):
    words = ("distill", three_models / "e", three_models / "start", *DIGITS, *FAST)
    done = run(*words, "-o", tmp_path / "g")
    line = "round 3, distilled from 3 clients on 60 public images\n"
    assert done == (0, f"{tmp_path / 'g'}: {line}", "")
    again = (*words, "--json", "-o", tmp_path / "g")
    result = json.loads(run(*again, "--force").out)
    assert json.loads(run(*again).out) == {**result, "unchanged": True}
    assert (result["round"], result["images"], result["epoch"]) == (3, IMAGES, 2)
    assert result["content"] == Container(tmp_path / "g").content
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g", "g.log.jsonl"]


def test_an_ensemble_older_than_the_student_is_a_warning(
    three_models, run, forge, tmp_path
):
    start = tmp_path / "start"
    shutil.copy(three_models / "start", start)
    words = ("distill", three_models / "e", start, *DIGITS, *FAST, "--dry-run")
    words += ("-o", tmp_path / "g")
    forge(start, facts={"round": 3})  # The round of the ensemble.
    assert run(*words).err == ""
    forge(start, facts={"round": 4})
    done = run(*words)
    assert done.code == 0 and done.err.count("warning: ") == 1
    assert f"{three_models / 'e'}: is of round 3" in done.err
    assert f"{start} is a model of round 4" in done.err


def test_a_dry_run_checks_and_writes_nothing(three_models, distill, tmp_path, capsys):
    code, path = distill("--dry-run")
    assert code == 0 and list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out.startswith(f"would write {path}: round 3, ")


def test_the_student_s_temperature_is_the_ensemble_s_unless_given(
    three_models, distill
):
    ensemble_of(three_models, "warm", more=("--temperature", 0.4))
    silent, given, other = (
        distill(*more, name=name, ensemble="warm")[1]
        for name, more in (
            ("a", ()),
            ("b", ("--temperature", 0.4)),
            ("c", ("--temperature", 0.1)),
        )
    )
    assert silent.read_bytes() == given.read_bytes() != other.read_bytes()


@pytest.mark.parametrize("layer", ["h", "z"])
def test_heads_that_are_not_compared_stay(three_models, distill, layer):
    _, path = distill("--layer", layer)
    found, start = load_file(path), load_file(three_models / "start")
    assert found.keys() == start.keys()
    stay = {k for k in found if found[k].tobytes() == start[k].tobytes()}
    heads = ("rotation.",) if layer == "z" else ("rotation.", "projector.")
    assert stay == {k for k in found if k.startswith(heads)}


@pytest.mark.parametrize(
    "name, value",
    [("--seed", 1), ("--ema", 0.5), ("--anchors", 60), ("--lr", 0.01), ("--flip", 0)],
)
def test_every_option_counts(distill, name, value):
    assert distill()[1].read_bytes() != distill(name, value, name="o")[1].read_bytes()


@pytest.mark.parametrize(
    "batch, anchors", [(20, 20), (20, 33), (20, 60), (20, 150), (7, 40), (500, 60), (500, 130)]
)  # fmt: skip
def test_any_number_of_anchors_from_a_batch_on(distill, batch, anchors):
    """Fewer and more than images; a batch that divides nothing, or is more than all."""
    code, path = distill("--batch-size", batch, "--anchors", anchors)
    assert code == 0 and np.isfinite(losses(path)).all() and min(losses(path)) > 0


def in_steps(three_models, tmp_path, name, count, *more):
    """Distil for some steps, 3 of which are an epoch, from a preset that has epochs."""
    words = [
        "distill",
        three_models / "e",
        three_models / "start",
        *DIGITS,
        "--preset",
        "flesd-code",
    ]
    words += ["--steps", count, "--batch-size", 20, "--anchors", 40, "-q", *more]
    return [*words, "-o", tmp_path / name]


@pytest.mark.parametrize("more", [(), ("--schedule", "cosine", "--warmup", 1)])
def test_as_many_steps_as_the_epochs_have_are_the_same(three_models, tmp_path, more):
    whole = in_steps(three_models, tmp_path, "steps", 6, *more)
    place = whole.index("--steps")
    epochs = [
        *whole[:place],
        "--epochs",
        2,
        *whole[place + 2 : -1],
        tmp_path / "epochs",
    ]
    assert [furlkit(*whole), furlkit(*epochs)] == [0, 0]
    assert tensor_bytes(tmp_path / "steps") == tensor_bytes(tmp_path / "epochs")
    assert losses(tmp_path / "steps") == losses(tmp_path / "epochs")
    options = [Container(tmp_path / k).header.options for k in ("steps", "epochs")]
    assert options[0].pop("steps") == 6 and options[1].pop("epochs") == 2
    assert options[0] == options[1]


def test_steps_that_end_within_an_epoch(three_models, tmp_path, monkeypatch):
    """The journal has a line for the part, whose loss is the mean over its steps."""
    seen, step = [], loop.Trainer.step

    def noting(*given):
        losses, z = step(*given)
        seen.append(losses["distillation"].item())
        return losses, z

    monkeypatch.setattr(loop.Trainer, "step", noting)
    assert furlkit(*in_steps(three_models, tmp_path, "g", 5)) == 0
    lines = epochs(tmp_path / "g")
    assert [(line["epoch"], line["step"]) for line in lines] == [(1, 3), (2, 5)]
    assert losses(tmp_path / "g") == pytest.approx(
        [np.mean(seen[:3]), np.mean(seen[3:])]
    )
    loss = Container(tmp_path / "g").header.facts["loss"]
    assert len(seen) == 5 and loss == pytest.approx(np.mean(seen[3:]))


def test_fewer_steps_than_an_epoch_has(three_models, tmp_path):
    """The cosine ends where the training does: half of the way down after one of 2."""
    more = ("--schedule", "cosine", "--lr", 0.1)
    assert furlkit(*in_steps(three_models, tmp_path, "g", 2, *more)) == 0
    (line,) = epochs(tmp_path / "g")
    assert (line["epoch"], line["step"], line["lr"]) == (1, 2, pytest.approx(0.05))


@pytest.mark.parametrize("count", [2, 4, 5])
def test_killed_within_an_epoch_steps_end_with_the_same_bytes(
    three_models, tmp_path, until_done, count
):
    more = ("--save-every", 0)
    assert furlkit(*in_steps(three_models, tmp_path, "whole", count, *more)) == 0
    words = in_steps(three_models, tmp_path, "parts", count, *more)
    assert until_done(loop.Trainer, "step", *words) >= 2
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    kept = [(line["step"], line["losses"]) for line in epochs(tmp_path / "parts")]
    assert kept == [(e["step"], e["losses"]) for e in epochs(tmp_path / "whole")]


def test_steps_and_epochs_are_not_given_together(three_models, refused, tmp_path):
    words = in_steps(three_models, tmp_path, "g", 5, "--epochs", 2)
    refused(tmp_path, 2, ("--epochs", "--steps"), *words)
    refused(tmp_path, 2, ("--steps",), *in_steps(three_models, tmp_path, "g", 0))


def test_any_model_can_be_the_start_even_a_client_s(distill):
    code, path = distill(start="c2")
    facts = Container(path).header.facts
    assert code == 0 and facts["role"] == "global" and "client" not in facts


@pytest.mark.parametrize(
    "more",
    [
        ("--optimiser", "sgd", "--schedule", "cosine"),
        ("--precision", "float16", "--anchors", 33),
        ("--no-channels-last", "--layer", "h", "--warmup", 1),
    ],
)
@pytest.mark.parametrize("form", ["e", "matrix"])
def test_every_way_of_distilling_can_be_resumed(
    three_models, distill, dies_at, more, form
):
    if form == "matrix":
        ensemble_of(three_models, "matrix", more=("--matrix",))
    more = (*more, "--save-every", 0)
    expected = distill(*more, name="whole", ensemble=form)[1].read_bytes()
    for number in (3, 2):
        with dies_at(loop.Trainer, "step", number):
            distill(*more, name="parts", ensemble=form)
    code, path = distill(*more, name="parts", ensemble=form)
    assert code == 0 and path.read_bytes() == expected
    assert not path.with_name("parts.progress").exists()


def test_progress_of_another_command_is_not_resumed(
    three_models, distill, capsys, tmp_path
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("furlkit.stages.distill.train.write_checkpoint", None)
        patch.setattr("furlkit.training.run._Keeper.due", lambda *_: True)
        assert distill("--anchors", 50)[0] == 1
    assert (tmp_path / "g.progress").exists()
    capsys.readouterr()
    expected = distill(name="other")[1].read_bytes()
    shutil.move(tmp_path / "g.progress", tmp_path / "h.progress")
    assert distill(name="h")[1].read_bytes() == expected
    assert "h.progress" in capsys.readouterr().err


def test_the_layer_is_the_one_the_clients_were_asked_for(three_models, distill, run):
    ensemble_of(three_models, "of_h", ("--layer", "h"))
    usual, asked = distill(ensemble="of_h")[1], distill("--layer", "h", name="h",
                                                        ensemble="of_h")[1]  # fmt: skip
    assert read_ensemble(three_models / "of_h").facts.layer == "h"
    assert Container(usual).header.options["layer"] == "h"
    assert load_file(usual).keys() == load_file(asked).keys()
    assert losses(usual) == losses(asked)


@pytest.mark.parametrize(
    "embedding",
    [(), ("--encoding", "int8"), ("--similarity",), ("--similarity", "--top", 10)],
)
def test_the_text_s_h_goes_through_every_stage(three_models, tmp_path, embedding):
    """embed, aggregate and distill by the preset alone: the projector is not trained."""
    preset = ("--preset", "flesd")
    part = ("--partition", three_models / "p", "--part", "public")
    files = [tmp_path / f"h{client}" for client in CLIENTS]
    for client, path in zip(CLIENTS, files, strict=True):
        words = (
            "embed",
            three_models / f"c{client}",
            *DIGITS,
            *part,
            *preset,
            *embedding,
        )
        assert furlkit(*words, "--force", "-o", path) == 0
    ensemble, model = tmp_path / "e", tmp_path / "g"
    words = (
        "distill",
        ensemble,
        three_models / "start",
        *DIGITS,
        *preset,
        "--steps",
        2,
    )
    words += ("--batch-size", 20, "--anchors", 40, "-q", "-o", model)
    assert furlkit("aggregate", *files, *preset, "-o", ensemble) == furlkit(*words) == 0
    assert read_ensemble(ensemble).facts.layer == "h"
    assert Container(model).header.options["layer"] == "h"
    found, start = load_file(model), load_file(three_models / "start")
    stay = {k for k in found if found[k].tobytes() == start[k].tobytes()}
    assert stay == {k for k in found if k.startswith(("rotation.", "projector."))}


def test_a_matrix_with_a_flipped_bit_is_refused(three_models, tmp_path, run):
    path = ensemble_of(three_models, "flipped", more=("--matrix",))
    content = path.read_bytes()
    path.write_bytes(content[:-9000] + bytes([content[-9000] ^ 1]) + content[-8999:])
    done = run(
        "distill", path, three_models / "start", *DIGITS, *FAST, "-o", tmp_path / "g"
    )
    assert done.code == 65 and f"{path}: " in done.err
    assert not (tmp_path / "g").exists()


def test_a_row_that_does_not_hold_its_own_image_is_refused(three_models, tmp_path, run):
    folder = tmp_path / "own"
    shutil.copytree(three_models, folder)
    ensemble_of(folder, "t", ("--similarity", "--top", 10))
    opened = Container(folder / "t_1")
    tensors = opened.tensors()
    tensors["columns"] = (tensors["columns"] + 1) % IMAGES
    write(folder / "t_1", tensors, opened.header.unsealed())
    words = ("aggregate", "--rule", "ensemble", folder / "t_1", folder / "t_2")
    done = run(*words, "-o", tmp_path / "e")
    assert done.code == 65 and f"{folder / 't_1'}: row 0" in done.err
