"""Mistyped words: the message proposes the word that was probably meant."""

import pytest

from furlkit import catalogue

TRAIN = "local-train p g --data digits --client 0 -o x"
MISTYPED = {
    "partiton": "did you mean partition?",
    "local-trian": "did you mean local-train?",
    "train": "did you mean local-train?",
    "evaluate liner": "did you mean linear?",
    "knn": "did you mean evaluate knn?",
    "evaluate --data digits g": "neighbours, negatives",
    "evaluate .": "a command comes first: furlkit evaluate linear .",
    "plot tnse": "did you mean tsne?",
    f"{TRAIN} --objectve simclr": "did you mean --objective?",
    f"{TRAIN} --objective simclrr": "did you mean simclr?",
    f"{TRAIN} --preset fedsimlr": "did you mean fedsimclr?",
    f"{TRAIN} --update fedemma": "did you mean fedema?",
    f"{TRAIN} --learning-rate 0.1": "did you mean --lr?",
    "pretrain-style p g --data digits --client 0 -o x --tau 0.1": "did you mean --temperature?",
    "partition --data digits --scheme dirichlett -o p": "did you mean dirichlet?",
    "partition --data digits --scheme dirichlet --alpha 1 -o p":
        "did you mean --concentration?",
    "partition --data digits --n_parties 3 -o p": "did you mean --clients?",
    f"{TRAIN} --mu 0.1": "did you mean --proximal?",
    "compare --series a=x.json --series b=y.json --protocol liner": "did you mean linear?",
    "plot curve x.json --protocol knnn -o c.png": "did you mean knn?",
    "partition --data digts -o p": "did you mean digits?",
    "partition --dataset digits -o p": "did you mean --data?",
    "aggregate x --rule medan -o y": "did you mean median?",
    "init --encoder resnet19 --data digits -o g": "did you mean resnet18?",
    "presets fedcaa": "did you mean fedca?",
    "plan recipe.toml --rounds 2": "rounds=VALUE",
}  # fmt: skip


@pytest.mark.parametrize("line", MISTYPED)
def test_a_mistyped_word_is_suggested(run, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*line.split())
    assert (code, out) == (2, "")
    assert err.rstrip().endswith(MISTYPED[line])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["frobnicate", "inspect --frobnicate x"])
def test_a_word_like_no_other_has_no_suggestion(run, line):
    assert "did you mean" not in run(*line.split()).err


def test_a_recipe_s_mistyped_words_are_suggested(run, tmp_path):
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        '[settings]\nrounds = 1\n[files]\nglobal = "g{round}.safetensors"\n'
        '[stages]\ninit = "int --data digits -o {global}"\n'
    )
    outcome = run("plan", recipe)
    assert outcome.code == 65 and "did you mean init?" in outcome.err


def test_other_people_s_names_stand_for_options_that_exist():
    options = {
        option.name
        for command in catalogue.COMMANDS.values()
        for option in command.options.values()
    }
    for name, ours in catalogue.OTHER_NAMES.items():
        assert options.issuperset(ours), name
