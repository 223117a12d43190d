"""The model card of export: README.md in the format of Hugging Face."""

import json

import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.metrics import write_metrics


@pytest.fixture
def aggregated(world, run):
    """Global model of three clients."""
    path = world.folder / "aggregated.safetensors"
    assert run("aggregate", *world.clients, "-o", path).code == 0
    return path


def metrics_of(model, path):
    inputs = {"model": read_checkpoint(model).content}
    values = {"protocol": "knn", "accuracy": 0.9, "test_examples": 100}
    write_metrics(path, {**values, "inputs": inputs})
    return path


def card_of(run, model, folder, *options):
    outcome = run("export", model, *options, "-o", folder)
    assert outcome.code == 0, outcome.err
    return (folder / "README.md").read_text()


def test_the_card_has_scores_with_intervals(world, run, aggregated):
    metrics = metrics_of(aggregated, world.folder / "knn.json")
    card = card_of(run, aggregated, world.folder / "e", "--metrics", metrics)
    assert "\n| knn | 90.00 | 82.6 to 94.5 | 100 |\n" in card


def test_the_card_has_rounds_clients_and_hashes(world, run, aggregated):
    card = card_of(run, aggregated, world.folder / "e")
    model = read_checkpoint(aggregated)
    assert card.count("\n- Rounds: 1\n- Clients in the last round: 3\n") == 1
    assert f"checkpoint: `{model.content}`" in card
    assert f"parent: `{model.facts.parent}`" in card
    assert f"Training images in the last round: {model.facts.examples:,}." in card
    assert "No score was given" in card


def test_the_upload_of_a_client_is_named_as_such(world, run, aggregated):
    outcome = run("export", world.clients[2], "-o", world.folder / "u")
    assert outcome.code == 0 and "the upload of client 2" in outcome.out
    assert "upload of a single client" in (world.folder / "u" / "README.md").read_text()
    outcome = run("export", aggregated, "-o", world.folder / "g")
    assert "the upload of" not in outcome.out
    assert "single client" not in (world.folder / "g" / "README.md").read_text()


def test_the_card_has_only_facts_that_clients_told(world, run):
    train = ("local-train", world.partition, world.model, "--data", "digits")
    fast = ("--epochs", 1, "--batch-size", 240)
    paths = []
    for client, tell in enumerate(("examples,classes", "nothing")):
        paths.append(world.folder / f"told_{client}.safetensors")
        command = (*train, "--client", client, *fast, "--tell", tell, "-o", paths[-1])
        assert run(*command).code == 0
    model = world.folder / "told.safetensors"
    assert run("aggregate", *paths, "--weights", "uniform", "-o", model).code == 0
    given = ("--upload", paths[0], "--upload", paths[1])
    card = card_of(run, model, world.folder / "e", *given)
    first = read_checkpoint(paths[0]).facts
    classes = ", ".join(f"{name}: {count}" for name, count in first.classes.items())
    assert f"\n| 0 | {first.examples} | {classes} |\n" in card
    assert "\n| 1 | not told | not told |\n" in card
    assert "Training images in the last round: not told." in card


def test_hugging_face_reads_the_card(world, run):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is missing")
    empty = card_of(run, world.model, world.folder / "e")
    data = hub.ModelCard(empty).data
    assert data.license is None
    assert (data.library_name, data.pipeline_tag) == (
        "furlkit", "image-feature-extraction",
    )  # fmt: skip
    assert "federated-learning" in data.tags
    chosen = card_of(run, world.model, world.folder / "f", "--license", "apache-2.0")
    assert hub.ModelCard(chosen).data.license == "apache-2.0"


def test_a_licence_is_an_identifier(world, refused):
    words = ("--license", "apache-2.0", "identifier")
    command = ("export", world.model, "-o", world.folder / "e")
    refused(world.folder, 2, words, *command, "--license", "mit\ntags: x")


def test_scores_of_another_model_are_refused(world, refused, aggregated):
    metrics = metrics_of(world.model, world.folder / "other.json")
    command = ("export", aggregated, "--metrics", metrics, "-o", world.folder / "e")
    refused(world.folder, 65, (metrics, "another model"), *command)


def test_uploads_of_another_model_are_refused(world, refused):
    command = ("export", world.model, "--upload", world.clients[0])
    words = (world.clients[0], "aggregated from")
    refused(world.folder, 65, words, *command, "-o", world.folder / "e")


def test_an_edited_card_is_not_replaced(world, run, refused):
    folder = world.folder / "e"
    card = card_of(run, world.model, folder)
    (folder / "README.md").write_text(card.replace("## Limits", "## Our limits"))
    words = (folder / "README.md", "edited")
    refused(world.folder, 2, words, "export", world.model, "-o", folder)


def test_the_lines_of_the_card_load_the_encoder(world, run):
    folder = world.folder / "e"
    card = card_of(run, world.model, folder)
    config = json.loads((folder / "config.json").read_text())
    assert "```python\n" + "\n".join(config["how_to_load"]) + "\n```" in card
