import json

import numpy as np
import pytest
import torch

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.features import read_features
from furlkit.models.loading import load_net, tensors_of
from tests.helpers import furlkit


@pytest.fixture
def init(tmp_path):
    def run(name, *more):
        path = tmp_path / f"{name}.st"
        return furlkit("init", "--width", 0.02, *more, "-o", path), path

    return run


def test_round_0_is_a_global_model_of_the_datas_size(init, capsys):
    code, path = init("g", "--data", "digits", "--json")
    assert code == 0
    model = read_checkpoint(path)
    facts = model.facts
    assert (facts.role, facts.round, facts.client) == ("global", 0, None)
    assert facts.architecture["image_size"] == 8 and facts.architecture["channels"] == 1
    assert facts.architecture["heads"] == {"projector": [512, 128]}
    assert facts.mean == [0.3053] and facts.std == [0.3759]
    data = json.loads(capsys.readouterr().out)
    net = load_net(model, torch.device("cpu"))
    assert data["parameters"] == sum(p.numel() for p in net.parameters())
    assert data["content"] == model.content


def test_options_given_by_hand_win_over_the_data(init):
    by_hand = ("--image-size", 16, "--channels", 3, "--mean", "0.1,0.2,0.3")
    code, path = init("g", "--data", "digits", *by_hand)
    facts = read_checkpoint(path).facts
    assert code == 0 and facts.mean == [0.1, 0.2, 0.3]
    assert (
        facts.architecture["image_size"] == 16 and facts.architecture["channels"] == 3
    )


def test_no_data_is_needed_where_size_and_channels_are_given(init):
    code, path = init("g", "--image-size", 32, "--channels", 3)
    assert code == 0
    assert read_checkpoint(path).facts.mean == [0.485, 0.456, 0.406]


def test_a_folder_gives_its_classes_and_not_its_size(init, tmp_path):
    from PIL import Image

    for name in ("cat", "dog", "eel"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(tmp_path / "pictures" / name / "1.png")
    folder = ("--data", tmp_path / "pictures", "--objective", "supervised")
    assert init("g", *folder)[0] == 2
    code, path = init("g", *folder, "--image-size", 8)
    assert code == 0
    heads = read_checkpoint(path).facts.architecture["heads"]
    assert heads == {"classifier": [3]}


def test_a_folder_called_digits_does_not_hide_the_dataset(init, tmp_path, monkeypatch):
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert init("g", "--data", "digits")[0] == 0


def test_the_seed_draws_the_weights(init):
    paths = {
        name: init(name, "--data", "digits", "--seed", seed)[1]
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    }
    one, same, _ = (path.read_bytes() for path in paths.values())
    assert one == same
    tensors = [read_checkpoint(paths[name]).tensors for name in "ac"]
    name = "encoder.conv3.weight"
    assert not np.array_equal(tensors[0][name], tensors[1][name])


def test_the_encoder_does_not_depend_on_the_heads(init):
    one = read_checkpoint(init("a", "--data", "digits")[1]).tensors
    other = read_checkpoint(init("b", "--data", "digits", "--objective", "rotation")[1])
    shared = [name for name in one if name.startswith("encoder.")]
    assert all(np.array_equal(one[name], other.tensors[name]) for name in shared)
    assert not any(name.startswith("projector.") for name in other.tensors)


def test_from_takes_over_the_encoder_and_heads_of_the_same_name(init):
    heads = ("--objective", "rotation", "--head", "classifier")
    source = read_checkpoint(init("a", "--data", "digits", *heads, "--seed", 1)[1])
    taken = ("--from", source.path, "--objective", "rotation", "--head", "decoder")
    code, path = init("b", "--data", "digits", *taken, "--seed", 2)
    assert code == 0
    model = read_checkpoint(path)
    for name, array in model.tensors.items():
        same = name in source.tensors and np.array_equal(array, source.tensors[name])
        # Fresh heads are the seed's; BatchNorm starts the same everywhere.
        assert same or name.startswith("decoder.")
    assert model.header.inputs == {"source": source.content}
    assert model.facts.round == 0 and model.facts.partition is None


def test_from_another_width_is_refused(init, tmp_path, capsys):
    source = init("a", "--data", "digits")[1]
    command = ("init", "--data", "digits", "--width", 0.1, "--from", source)
    assert furlkit(*command, "-o", tmp_path / "b.st") == 65
    assert "--width" in capsys.readouterr().err
    assert not (tmp_path / "b.st").exists()


@pytest.mark.parametrize(
    "wrong, message",
    [
        ((), "--data"),
        (("--data", "digits", "--mean", "1,2"), "--mean"),
        (("--data", "digits", "--std", "0"), "--std"),
        (
            ("--image-size", 8, "--channels", 1, "--objective", "supervised"),
            "--classes",
        ),
        (("--data", "digits", "--width", "nan"), "--width"),
        (("--data", "digits", "--stem", "small"), "--stem"),
        (("--data", "digitz"), "digits?"),
        (
            ("--data", "digits", "--objective", "rotation", "--projector-norm", "all"),
            "--projector-norm",
        ),
        (("--data", "digits", "--clusters", 10), "give --head clusters"),
        (("--data", "digits", "--prototypes", 9), "give --head prototypes"),
        (("--data", "digits", "--head", "clusters", "--clusters", 1), "--clusters 1:"),
        (
            ("--data", "digits", "--objective", "byol", "--predictor", "9,5"),
            "--predictor 9,5:",
        ),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(init, tmp_path, capsys, wrong, message):
    assert init("g", *wrong)[0] == 2
    assert message in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_a_dry_run_writes_nothing(init, tmp_path, capsys):
    assert init("g", "--data", "digits", "--dry-run")[0] == 0
    assert list(tmp_path.iterdir()) == []
    assert "cnn5 for 8 x 8 x 1" in capsys.readouterr().out


def test_a_net_goes_through_a_file_unchanged(init):
    model = read_checkpoint(init("g", "--data", "digits")[1])
    again = tensors_of(load_net(model, torch.device("cpu")))
    assert again.keys() == model.tensors.keys()
    assert all(np.array_equal(again[name], model.tensors[name]) for name in again)


def test_a_round_with_simclr_s_official_head(init, tmp_path):
    """Train, average, embed, export; h is 41 wide."""
    data, path = ("--data", "digits"), tmp_path / "p"
    code, official = init("a", *data, "--projector", "41,4", "--projector-norm", "all")
    usual = init("b", *data, "--projector", "41,4", "--projector-norm", "hidden")[1]
    assert code == 0
    assert usual.read_bytes() == init("c", *data, "--projector", "41,4")[1].read_bytes()
    train = ("--epochs", 1, "--batch-size", 240, "-q")
    clients = [tmp_path / f"client_{k}" for k in range(3)]
    commands = [
        ("partition", *data, "--clients", 3, "-o", path),
        ("local-train", path, official, *data, "--client", "0-2", *train,
         "-o", tmp_path / "client_{client}"),
        ("aggregate", *clients, "-o", tmp_path / "g"),
        ("embed", tmp_path / "g", *data, "--layer", "z", "-o", tmp_path / "z"),
        ("export", tmp_path / "g", "-o", tmp_path / "exported"),
    ]  # fmt: skip
    assert [furlkit(*command) for command in commands] == [0] * 5
    found = read_checkpoint(tmp_path / "g")
    assert found.facts.architecture["projector_norm"] == "all"
    assert found.tensors["projector.bn2.weight"].shape == (4,)
    assert "projector.bn2.bias" not in found.tensors
    assert read_features(tmp_path / "z").rows.shape == (1438, 4)


def test_targets_of_another_norm_are_refused(init, tmp_path, capsys):
    data, net = ("--data", "digits"), ("--projector", "8,4")
    official = init("a", *data, *net, "--projector-norm", "all")[1]
    usual = init("b", *data, *net)[1]
    short = ("--epochs", 1, "--batch-size", 60, "--images", 60, "-q")
    targets = ("--targets-out", tmp_path / "t", "-o", tmp_path / "align")
    assert furlkit("pretrain-align", usual, *data, *short, *targets) == 0
    assert furlkit("partition", *data, "-o", tmp_path / "p") == 0
    capsys.readouterr()
    aligned = ("--align", tmp_path / "t", "--align-data", "digits")
    words = ("local-train", tmp_path / "p", official, *data, "--client", 0, *aligned)
    assert furlkit(*words, "-o", tmp_path / "c") == 65
    err = capsys.readouterr().err
    assert str(tmp_path / "t") in err and "projector norm" in err
