"""Every method that trains runs on the device; its steps never wait for it.

The lists are the catalogue's: a method without a case fails here.
"""

import numpy as np
import pytest
import torch

from furlkit import catalogue
from furlkit.catalogue import Choice, Flag
from furlkit.catalogue.registry import COMMANDS
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images
from furlkit.files.checkpoint import read_checkpoint
from furlkit.models.loading import load_net, view_of
from furlkit.objectives.similarity import Distiller
from tests.device import device
from tests.devices.conftest import words_of
from tests.exchanged import DATA, FAST, model_of, term_words
from tests.helpers import furlkit

CLIENT = ("local-train", "p", "g0", *FAST, "--client", 0)
SECOND = ("local-train", "p", "g1", *FAST, "--client", 0)  # Its second round.
KEPT = ("--private-out", "OUT/private")


def alternatives(entry):
    """An entry as it is by default, and with each other choice of its options."""
    yield pytest.param(entry.name, (), id=entry.name)
    for option in entry.options:
        for words in _other_words(option):
            yield pytest.param(entry.name, words, id="".join((entry.name, *words)))


def _other_words(option):
    name = f"--{option.name}"
    if isinstance(option.kind, Choice):
        others = (word for word in option.kind.words if word != option.default)
        return [(name, word) for word in others]
    if isinstance(option.kind, Flag):
        return [(name.replace("--", "--no-") if option.default else name,)]
    return []


def cases(entries):
    return [case for entry in entries.values() for case in alternatives(entry)]


@pytest.mark.parametrize(("name", "more"), cases(catalogue.OBJECTIVES))
def test_an_objective_never_waits_for_the_device(trained, name, more):
    counter = trained(*CLIENT, "--objective", name, *more, *KEPT)
    assert counter.copies, "nothing was counted"


def test_a_vision_transformer_hides_patches_on_the_device(trained, tmp_path):
    pytest.importorskip("timm")
    net = ("--encoder", "timm:test_vit", "--image-size", 32, "--patches", "16,16")
    choice, model = ("--objective", "mae"), tmp_path / "vit"
    assert furlkit("init", *DATA, *net, *choice, "-o", model) == 0
    trained("local-train", "p", model, *FAST, "--client", 0, *choice)


@pytest.mark.parametrize(("name", "more"), cases(catalogue.TERMS))
def test_a_term_never_waits_for_the_device(trained, name, more):
    trained(*_client_of(name), *_words_of(name), *more)


def _client_of(term):
    return ("local-train", "p", model_of(term), *FAST, "--client", 0)


def _words_of(term):
    rows = ("--centroids-out", "OUT/rows") if term == "centroids" else ()
    return (*term_words(term), *rows, *KEPT)


@pytest.mark.parametrize("objective", ["moco", "byol"])
def test_neighbours_of_a_queue_or_of_other_clients_alone(trained, objective):
    rows = ("--objective", objective, *term_words("neighbours"))
    trained(*SECOND, *rows)


UPDATES = {
    "keep": ("local-train", "p", "c_0", *FAST, "--client", 0),
    "continue": ("local-train", "p", "c_0", *FAST, "--client", 0, "--private", "k_0"),
}


@pytest.mark.parametrize(("name", "more"), cases(catalogue.UPDATES))
def test_an_update_never_waits_for_the_device(trained, name, more):
    objective = ("--objective", "byol") if catalogue.UPDATES[name].heads else ()
    words = UPDATES.get(name, (*SECOND, "--private", "k_0"))
    trained(*words, "--update", name, *objective, *more, *KEPT)


@pytest.mark.parametrize(
    ("name", "more"),
    cases({k: p for k, p in catalogue.PERSONAL.items() if p.function}),
)
def test_an_own_model_never_waits_for_the_device(trained, name, more):
    trained(*CLIENT, "--personal", name, *more, *KEPT)


@pytest.mark.parametrize("personal", ["apfl", "ditto"])
def test_other_images_of_a_batch_are_sent_once_for_both_models(trained, personal):
    trained(*CLIENT, "--personal", personal, "--objective", "cluster", *KEPT)


def test_an_alpha_that_learns_never_waits_for_the_device(trained):
    trained(*CLIENT, "--personal", "apfl", "--own-share-rate", 0.1, *KEPT)


@pytest.mark.parametrize("more", [
    ("--randaugment", "2,9", "--cutout", 2), ("--blur", 0.5, "--solarise", 0.2),
])  # fmt: skip
def test_augmentation_sends_its_draws_at_once(trained, more):
    trained(*CLIENT, *more)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["simclr", "moco", "byol", "swav"])
def test_mixed_precision_never_waits_for_the_device(trained, name, precision):
    trained(*CLIENT, "--objective", name, "--precision", precision)


MAPPED = [
    (*CLIENT, "--objective", "cluster", "--nearest-used", "all"),
    (*CLIENT, "--personal", "apfl", "--objective", "cluster", *KEPT),
    (*CLIENT, "--personal", "ditto", "--objective", "cluster", *KEPT),
    ("distill", "matrix", "g0", *FAST, "--anchors", 64),
    ("distill", "g1", "--teacher", "self", *FAST, "--confidence", 0.12),
]  # fmt: skip


@pytest.mark.parametrize("words", MAPPED, ids=lambda words: "".join(map(str, words)))
def test_mapped_images_are_sent_in_one_copy(trained, monkeypatch, words):
    from furlkit.data import batches

    monkeypatch.setattr(batches, "RESIDENT_LIMIT", 0)
    trained(*words)


@pytest.mark.parametrize("more", [(), term_words("alignment")])
def test_mapped_images_and_draws_travel_in_one_copy(trained, monkeypatch, more):
    from furlkit.data import batches

    monkeypatch.setattr(batches, "RESIDENT_LIMIT", 0)
    trained(*CLIENT, *more, copies=1)


ALIGNED = [
    *[(*CLIENT, "--objective", name) for name in catalogue.OBJECTIVES],
    *[(*_client_of(name), *_words_of(name)) for name in catalogue.TERMS
      if name != "alignment"],
    (*CLIENT, "--personal", "apfl", *KEPT), (*CLIENT, "--personal", "ditto", *KEPT),
]  # fmt: skip


@pytest.mark.parametrize("words", ALIGNED, ids=lambda words: "".join(map(str, words)))
def test_mapped_public_images_travel_with_those_of_the_client(
    trained, monkeypatch, words
):
    from furlkit.data import batches

    monkeypatch.setattr(batches, "RESIDENT_LIMIT", 0)
    trained(*words, *term_words("alignment"))


TEACHERS = {
    "ensemble": ("rows", "g0"), "self": ("g1", "--confidence", 0.12),
    "probabilities": ("probabilities", "g0"), "labels": ("g0",),
    "models": ("c_0", "c_1", "g0"), "anchor": ("g1", "c_0"), "contrast": ("g0",),
}  # fmt: skip
ANCHORS = ("--anchors", 64)


@pytest.mark.parametrize(("name", "more"), cases(catalogue.TEACHERS))
def test_a_teacher_never_waits_for_the_device(trained, name, more):
    queue = ANCHORS if name == "ensemble" else ()
    files = words_of(TEACHERS, name, "this teacher")
    trained("distill", *files, "--teacher", name, *FAST, *queue, *more)


@pytest.mark.parametrize("form", ["top", "matrix"])
def test_an_ensemble_of_another_form_never_waits_for_the_device(trained, form):
    trained("distill", form, "g0", *FAST, *ANCHORS)


def test_a_resumed_student_reads_the_right_rows_of_a_matrix(here, round_of_files):
    """The places of the anchors that are kept on the CPU follow those that are loaded."""
    asked = []

    class Matrix:
        device = torch.device("cpu")

        def __call__(self, images, anchors):
            asked.append(anchors.clone())
            return torch.ones(len(images), len(anchors))

    net = load_net(read_checkpoint(round_of_files / "g0"), device())
    how = {"layer": "h", "width": 102, "anchors": 8, "temperature": 0.1, "ema": 0.9}
    view = view_of(read_checkpoint(round_of_files / "g0"), Augmentation())
    pixels = np.load("d.npz")["images"]
    images = Images(pixels, None, np.arange(20), view, device())
    first, second = (Distiller(net, Matrix(), **how) for _ in range(2))

    def step(distiller, number):
        index = torch.arange(4 * number, 4 * number + 4)
        distiller.step(images.batch(index, torch.Generator(), number))

    step(first, 0)
    step(first, 1)
    second.load_state_dict(first.state_dict())
    step(second, 2)
    assert asked[-1].tolist() == [8, 9, 10, 11, 4, 5, 6, 7]
    assert asked[-1].tolist() == second.anchors.tolist()


STYLE = ("pretrain-style", "p", "g0", *FAST, "--client", 0, "--projector", "16,8")
PRETRAINED = {
    "pretrain-align": [
        ("pretrain-align", "g0", *FAST, "--objective", name, "--targets-out",
         "OUT/targets") for name in ("simclr", "byol")
    ],
    "pretrain-style": [
        (*STYLE, "--lr", 1e-5, *more)
        for more in ((), ("--reduction", "paper"), ("--no-normalise",))
    ],
}  # fmt: skip


def pretrainings():
    for name in (name for name in COMMANDS if name.startswith("pretrain-")):
        for place in range(len(PRETRAINED.get(name, [()]))):
            yield pytest.param(name, place, id=f"{name}{place}")


@pytest.mark.parametrize(("name", "place"), [*pretrainings()])
def test_a_model_is_pretrained_on_the_device(trained, name, place):
    trained(*words_of(PRETRAINED, name, "this command")[place])
