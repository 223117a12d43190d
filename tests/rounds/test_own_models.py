"""Ditto and APFL on the command line: limit cases to the bit, what leaves, restarts."""

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.private import read_private
from furlkit.stages.local_train import results
from furlkit.training import loop
from furlkit.weights import OWN, below, part_of
from tests.helpers import digest, epoch_losses, epochs, furlkit, tensor_bytes

NET = ("--width", 0.02, "--projector", "8,4", "--predictor", "8,4")
OBJECTIVES = ("simclr", "moco", "simsiam", "byol")
OTHERS = ("swav", "deepcluster", "rotation", "autoencoder", "supervised")
FAST = ("--batch-size", 10)
DITTO, APFL = ("--personal", "ditto"), ("--personal", "apfl")
FORMS = {
    "ditto": DITTO,
    "fedstyle-ditto": (*DITTO, "--pull", 2, "--pull-to", "trained"),
    "apfl": APFL,
    "fedstyle-apfl": (*APFL, "--mix", "views"),
}
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)


@pytest.fixture(scope="module")
def small_start(tmp_path_factory):
    """A few small images, three clients, and a start for each objective."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (60, 8, 8, 1), dtype=np.uint8)
    np.savez(folder / "d.npz", images=pixels, labels=np.arange(60) % 4)
    data = ("--data", folder / "d.npz")
    assert furlkit("partition", *data, "--clients", 3, "-o", folder / "p") == 0
    for name in (*OBJECTIVES, *OTHERS):
        words = ("init", *data, *NET, "--objective", name, "-o", folder / name)
        assert furlkit(*words, *(("--prototypes", 5) if name == "swav" else ())) == 0
    rows = ("embed", folder / "moco", *data, "--layer", "z", "-o", folder / "rows")
    assert furlkit(*rows) == 0
    return folder


@pytest.fixture(scope="module")
def rounds(small_start):
    """Two rounds of some clients, each kind of run once; gives their folder."""
    done = {}

    def run(objective, *more, clients="0-1"):
        key = (objective, more, clients)
        if key not in done:
            folder = done[key] = small_start / f"run{len(done)}"
            for number in (1, 2):
                one_round(small_start, folder, objective, more, clients, number)
        return done[key]

    return run


def one_round(small_start, folder, objective, more, clients, number):
    model = small_start / objective if number == 1 else folder / f"g{number - 1}"
    kept = ("--private-out", folder / f"k{number}_{{client}}")
    if number > 1:
        kept += ("--private", folder / f"k{number - 1}_{{client}}")
    length = () if "--phases" in more else ("--epochs", 1)
    words = ("local-train", small_start / "p", model, *FAST, *length, *more, *kept)
    words += ("--data", small_start / "d.npz", "--objective", objective)
    out = folder / f"c{number}_{{client}}"
    assert furlkit(*words, "--client", clients, "-q", "-o", out) == 0
    uploads = sorted(folder.glob(f"c{number}_?"))
    assert furlkit("aggregate", *uploads, "-q", "-o", folder / f"g{number}") == 0


def own_bytes(folder, number, client=0):
    return below(OWN, tensor_bytes(folder / f"k{number}_{client}"))


def trained_alone(rounds, objective, *more):
    """What client 0 makes of the start when no one else takes part."""
    folder = rounds(objective, *more, clients="0")
    return {**tensor_bytes(folder / "c2_0"), **carried(folder / "k2_0")}


def carried(path):
    """What a learner carries besides its net: a target, a queue."""
    found = tensor_bytes(path)
    return {k: v for k, v in found.items() if part_of(k) in CARRIED}


CARRIED = ("target.encoder", "target.projector", "queue")
ALONE = {"ditto": (*DITTO, "--pull", 0), "apfl": (*APFL, "--own-share", 1)}
alone = pytest.mark.parametrize("alone", ALONE.values(), ids=ALONE)


@every_objective
@pytest.mark.parametrize("form", FORMS)
def test_the_upload_is_that_of_fedavg_to_the_bit_and_holds_nothing_of_ones_own(
    rounds, objective, form
):
    plain, personal = rounds(objective), rounds(objective, *FORMS[form])
    for name in ("c1_0", "c1_1", "c2_0", "c2_1", "g2"):
        assert tensor_bytes(plain / name) == tensor_bytes(personal / name)
    upload = read_checkpoint(personal / "c2_0")
    assert not [name for name in upload.tensors if name.startswith(OWN)]
    assert upload.facts.loss == read_checkpoint(plain / "c2_0").facts.loss
    # The other parts of the private files are those of FedAvg too.
    own = tensor_bytes(personal / "k2_0")
    rest = {
        k: v for k, v in own.items() if k.partition(".")[0] not in ("own", "memory")
    }
    assert rest == tensor_bytes(plain / "k2_0") and len(own) > len(rest)


@pytest.mark.parametrize("objective", ["simclr", "byol"])
@pytest.mark.parametrize("form", ["fedstyle-ditto", "fedstyle-apfl", "apfl"])
def test_with_sent_model_own_the_server_averages_the_clients_own_models(
    rounds, objective, form
):
    """FedStyle's Algorithm 1, line 10."""
    folder = rounds(objective, *FORMS[form], "--sent-model", "own")
    sent = [read_checkpoint(folder / f"c2_{client}").tensors for client in (0, 1)]
    for client, upload in enumerate(sent):
        own = own_bytes(folder, 2, client)
        assert tensor_bytes(folder / f"c2_{client}").items() <= own.items()
        assert {part_of(name) for name in upload} >= {"encoder", "projector"}
    name = next(iter(sent[0]))
    mean = read_checkpoint(folder / "g2").tensors[name]
    np.testing.assert_allclose(mean, (sent[0][name] + sent[1][name]) / 2, rtol=1e-6)
    # Up to the first upload both readings train the same models.
    other = rounds(objective, *FORMS[form])
    assert own_bytes(folder, 1) == own_bytes(other, 1)
    assert own_bytes(folder, 2) != own_bytes(other, 2)


@pytest.mark.parametrize("form", ["fedstyle-ditto", "fedstyle-apfl"])
def test_an_upload_tells_the_loss_of_the_model_that_is_sent(rounds, form):
    folder = rounds("simclr", *FORMS[form], "--sent-model", "own")
    losses = epoch_losses(folder / "c2_0")
    names = ("simclr", "ditto") if "ditto" in form else ("own.simclr",)
    told = read_checkpoint(folder / "c2_0").facts.loss
    assert told == pytest.approx(sum(losses[-1][name] for name in names))
    assert told != pytest.approx(losses[0]["simclr"])


@every_objective
@alone
def test_without_a_pull_and_with_all_of_its_own_the_client_trains_alone_to_the_bit(
    rounds, objective, alone
):
    folder = rounds(objective, *alone)
    assert own_bytes(folder, 2) == trained_alone(rounds, objective)
    # It did not get there by the global model, which others have moved.
    assert own_bytes(folder, 2) != tensor_bytes(folder / "c2_0")


@every_objective
def test_with_nothing_of_its_own_the_mixture_is_the_model_of_fedavg_to_the_bit(
    rounds, objective
):
    folder = rounds(objective, *APFL, "--own-share", 0)
    own, sent = read_private(folder / "k2_0", 0).tensors, tensor_bytes(folder / "c2_0")
    # Its weights do not count, and its statistics are those of the model that is sent.
    for name, array in below(OWN, own).items():
        if "running" in name and name in sent:
            assert array.tobytes() == sent[name]
    assert carried(folder / "k2_0") == {
        k: v for k, v in own_bytes(folder, 2).items() if part_of(k) in CARRIED
    }
    losses = epoch_losses(folder / "c2_0")[-1]
    assert losses[f"own.{objective}"] == losses[objective]


# SwAV's prototypes are unit rows, which a mixture of them is not.
MIXED = [(o, a) for o in OTHERS for a in ALONE if (o, a) != ("swav", "apfl")]


@pytest.mark.parametrize("objective, method", MIXED)
def test_clients_train_alone_with_other_objectives_too(rounds, objective, method):
    folder = rounds(objective, *ALONE[method])
    assert own_bytes(folder, 2) == trained_alone(rounds, objective)


@pytest.mark.parametrize(
    "more",
    [
        ("--phases", "projector:1,encoder:1"),
        ("--send", "encoder"),
        ("--optimiser", "sgd", "--schedule", "cosine", "--schedule-rounds", 2),
        ("--precision", "bfloat16"),
    ],
    ids=lambda more: more[0],
)
@alone
def test_what_else_a_client_does_is_done_for_both_models(rounds, alone, more):
    folder = rounds("simclr", *more, *alone)
    own, found = own_bytes(folder, 2), trained_alone(rounds, "simclr", *more)
    assert found.items() <= own.items()
    assert {part_of(name) for name in own} == {"encoder", "projector"}


@pytest.mark.parametrize("form", FORMS)
def test_both_models_train_with_rows_of_others_terms_and_an_update(
    small_start, rounds, form
):
    more = ("--dictionary", small_start / "rows", "--neighbours", 2, "--proximal", 0.1)
    more += ("--update", "fedema")
    plain, personal = rounds("moco", *more), rounds("moco", *more, *FORMS[form])
    assert tensor_bytes(plain / "c2_0") == tensor_bytes(personal / "c2_0")
    assert own_bytes(personal, 2) != own_bytes(rounds("moco", *FORMS[form]), 2)
    lines = epochs(personal / "c2_0")
    assert {"moco", "neighbours", "proximal"} <= lines[0]["losses"].keys()
    if "ditto" in form:
        assert {"moco", "neighbours", "proximal", "ditto"} <= lines[1]["losses"].keys()
        assert [line["step"] for line in lines] == [2, 4] and lines[1]["own"] == 1
    else:
        assert {"own.moco", "own.neighbours", "own.proximal"} <= lines[0][
            "losses"
        ].keys()


@pytest.mark.parametrize("form", FORMS)
def test_killed_at_any_step_it_ends_with_the_same_bytes(
    small_start, tmp_path, until_done, form
):
    def words(folder, every):
        given = (
            small_start / "p",
            small_start / "byol",
            "--data",
            small_start / "d.npz",
            "--client",
            0,
        )
        plan = (*FAST, "--epochs", 1, "--save-every", every, "--objective", "byol")
        out = ("--private-out", folder / "k", "-o", folder / "c")
        return ("local-train", *given, *plan, *FORMS[form], "-q", *out)

    assert furlkit(*words(tmp_path / "a", 1000)) == 0
    deaths = until_done(loop.Trainer, "step", *words(tmp_path / "b", 0))
    assert deaths > 1
    assert until_done(results, "write_private", *words(tmp_path / "c", 0)) == 1
    for name in ("k", "c"):
        assert len({digest(tmp_path / folder / name) for folder in "abc"}) == 1


def test_a_client_does_not_depend_on_those_before_it(small_start, rounds, tmp_path):
    for form, more in FORMS.items():
        given = (
            small_start / "p",
            small_start / "simclr",
            "--data",
            small_start / "d.npz",
            *FAST,
        )
        out = ("--private-out", tmp_path / f"{form}_k", "-o", tmp_path / form)
        words = ("local-train", *given, "--epochs", 1, *more, "--client", 1, *out)
        assert furlkit(*words, "-q") == 0
        together = rounds("simclr", *more)
        assert digest(tmp_path / f"{form}_k") == digest(together / "k1_1")


def test_an_alpha_that_learns_is_kept_with_the_model(rounds):
    folder = rounds("simclr", *APFL, "--own-share-rate", 50)
    found = [read_private(folder / f"k{number}_0", 0) for number in (1, 2)]
    shares = [float(private.memory["apfl.alpha"]) for private in found]
    assert found[0].facts.memory == ["apfl"]
    assert len({0.5, *shares}) == 3 and all(0 <= share <= 1 for share in shares)
    fixed = read_private(rounds("simclr", *APFL) / "k2_0", 0)
    assert float(fixed.memory["apfl.alpha"]) == 0.5


def test_a_pull_brings_the_own_model_nearer(rounds):
    """To the received model as Ditto has it, to the trained one as FedStyle has it."""

    def distance(folder, other):
        own = below(OWN, read_private(folder / "k1_0", 0).tensors)
        w = read_checkpoint(other).tensors
        weights = [name for name in w if name.endswith(".weight")]
        return sum(np.square(own[name] - w[name]).sum() for name in weights)

    free, pulled = (rounds("simclr", *DITTO, "--pull", mu) for mu in (0, 100))
    start = free.parent / "simclr"
    assert distance(pulled, start) < 0.9 * distance(free, start)
    trained = rounds("simclr", *DITTO, "--pull", 100, "--pull-to", "trained")
    assert distance(trained, trained / "c1_0") < distance(pulled, pulled / "c1_0")


def test_fedprox_of_fedstyle_pulls_what_is_the_clients_own(rounds):
    """--update own: without the term the client trains alone, with it it does not."""
    own = ("--update", "own")
    folder, alone = rounds("simclr", *own), rounds("simclr", clients="0")
    assert tensor_bytes(folder / "c2_0") == tensor_bytes(alone / "c2_0")
    assert tensor_bytes(folder / "g1") != tensor_bytes(alone / "g1")
    losses = [
        epoch_losses(rounds("simclr", *own, "--proximal", 0.2) / f"c{number}_0")[0]
        for number in (1, 2)
    ]
    # In round 2 it starts away from the global model, in round 1 it starts there.
    assert losses[1]["proximal"] > 2 * losses[0]["proximal"] > 0


@pytest.mark.parametrize(
    "more, words",
    [
        (DITTO, ("--personal ditto", "--private-out")),
        ((*APFL, "--update", "keep", "--private-out", "k"), ("--update keep",)),
        ((*APFL, "--objective", "swav", "--private-out", "k"), ("--mix views",)),
        (
            (*APFL, "--mix", "views", "--objective", "rotation", "--private-out", "k"),
            ("--mix weights",),
        ),
        (("--pull", 1), ("--pull does not apply",)),
        (("--sent-model", "own"), ("--sent-model does not apply",)),
        ((*APFL, "--mix", "views", "--own-share-rate", 1), ("--own-share-rate",)),
        (
            (*APFL, "--own-share-rate", 1, "--precision", "float16", "--private-out", "k"),
            ("--own-share-rate", "float16"),
        ),
        ((*DITTO, "--send", "encoder,own", "--private-out", "k"), ("--send own",)),
    ],
)  # fmt: skip
def test_what_does_not_fit_an_own_model_is_refused(
    small_start, tmp_path, refused, monkeypatch, more, words
):
    monkeypatch.chdir(tmp_path)
    given = (
        small_start / "p",
        small_start / "simclr",
        "--data",
        small_start / "d.npz",
        "--client",
        0,
    )
    refused(tmp_path, 2, words, "local-train", *given, *more, "-o", "c")


def test_a_private_file_with_an_own_model_is_not_for_a_client_without_one(
    small_start, rounds, tmp_path, refused
):
    folder = rounds("simclr", *DITTO)
    given = (
        small_start / "p",
        folder / "g1",
        "--data",
        small_start / "d.npz",
        "--client",
        0,
    )
    words = ("local-train", *given, "--private", folder / "k1_0", "-o", tmp_path / "c")
    refused(tmp_path, 65, [folder / "k1_0", "own."], *words)
