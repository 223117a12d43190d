"""aggregate --noise: the header, the history of rounds, and refusals."""

import json

import numpy as np
import pytest

from furlkit.aggregators.accountant import Rounds, epsilon_of
from furlkit.files.checkpoint import CheckpointFacts, read_checkpoint, write_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.stages.aggregate.privacy import rounded_up
from tests.stages.aggregate.conftest import model, words

NOISE = ("--noise", 1, "--clip", 2, "--delta", 1e-5, "--cohort", 7)


@pytest.fixture
def private(folder, run):
    """Run aggregate with noise in the folder; more options replace the first ones."""

    def call(*more):
        return run(*words(folder, "clip", *NOISE, *more))

    return call


def next_round(folder, tensors: dict, uploads: int = 7) -> None:
    """Replace the uploads by uploads of the next round, and the parent by the output."""
    (folder / "out").replace(folder / "g")
    parent = read_checkpoint(folder / "g")
    for k in range(uploads):
        facts = CheckpointFacts(
            role="client", round=parent.facts.round + 1, client=k, examples=10,
            parent=parent.content, architecture=parent.facts.architecture, mean=[0.5],
            std=[0.5], parts=parent.facts.parts,
        )  # fmt: skip
        write_checkpoint(folder / f"c{k}", tensors, facts, Provenance("local-train"))


def test_the_header_has_the_guarantee_and_nothing_about_single_clients(folder, private):
    done = private()
    assert done.code == 0, done.err
    assert "epsilon 4.377 at delta 1e-05 for each client" in done.out
    opened = Container(folder / "out")
    header, facts = opened.header, opened.header.facts
    epsilon = epsilon_of([Rounds(1, 1, 1)], 1e-5)
    assert facts["privacy"]["epsilon"] == pytest.approx(epsilon, rel=1e-5)
    assert facts["privacy"]["delta"] == 1e-5
    assert facts["privacy"]["history"] == [
        {"noise": 1, "sampling_rate": 1, "rounds": 1}
    ]
    assert header.options["drawn-by"] == "operating system"
    assert header.inputs == {"parent": Container(folder / "g").content}
    assert not {"examples", "classes", "loss", "cluster_losses"} & facts.keys()
    text = json.dumps(vars(header))
    for k in range(7):
        assert Container(folder / f"c{k}").content not in text
    assert "shares" not in text and "client 0" not in text


def test_equal_commands_give_different_models_with_equal_headers(folder, private):
    assert private().code == 0
    first = read_checkpoint(folder / "out")
    (folder / "out").unlink()
    (folder / "out.record").unlink()
    assert private().code == 0
    second = read_checkpoint(folder / "out")
    assert second.facts == first.facts and second.content != first.content
    one, other = (each.tensors["encoder.w"] for each in (first, second))
    assert not np.any(one == other)
    # The difference of two noisy means of 2,100 numbers: sqrt(2) z C / M.
    assert np.std(one - other) == pytest.approx(np.sqrt(2) * 2 / 7, rel=0.1)
    counter = "encoder.bn.num_batches_tracked"
    assert second.tensors[counter] == read_checkpoint(folder / "g").tensors[counter]


def test_a_round_is_released_once(folder, private):
    assert private().code == 0
    raw = (folder / "out").read_bytes()
    assert "already there" in private().out
    for more in (("--force",), ("--noise", 2)):
        done = private(*more)
        assert done.code == 65 and "second sum" in done.err and "out" in done.err
    assert (folder / "out").read_bytes() == raw


def test_no_other_sum_of_the_round_replaces_or_joins_a_noisy_sum(folder, private, run):
    first = folder / "first.safetensors"
    assert private("-o", first).code == 0
    raw = first.read_bytes()
    for rule in (("mean",), ("clip", "--clip", 2)):
        for output in (first, folder / "second.safetensors"):
            done = run(*words(folder, *rule), "--force", "-o", output)
            assert (
                done.code == 65 and "noisy sum" in done.err and str(first) in done.err
            )
    done = private("-o", folder / "second.safetensors")
    assert done.code == 65 and "noisy sum" in done.err and str(first) in done.err
    assert first.read_bytes() == raw
    assert not (folder / "second.safetensors").exists()


def test_a_sum_is_remembered_after_the_model_was_removed(folder, private, run):
    assert private().code == 0
    (folder / "out").unlink()
    for more in ((), ("--record", folder / "other.record"), ("-o", folder / "second")):
        done = private(*more)
        assert done.code == 65 and "out.record" in done.err and "noisy sum" in done.err
    done = run(*words(folder, "mean"))
    assert done.code == 65 and "out.record" in done.err


def test_a_sum_beside_the_parent_is_seen_from_another_folder(folder, private):
    assert private().code == 0
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    done = private("-o", elsewhere / "out")
    assert done.code == 65 and str(folder / "out") in done.err


@pytest.mark.parametrize("name", ["out", "mean.safetensors"])
def test_noise_does_not_replace_or_join_an_exact_mean(folder, private, run, name):
    mean = folder / name
    assert run(*words(folder, "mean"), "-o", mean).code == 0
    done = private()
    assert done.code == 65 and "without noise" in done.err and str(mean) in done.err


def test_sums_of_other_rounds_and_models_without_a_sum_join_a_noisy_sum(
    folder, private, run
):
    assert private("-o", folder / "first.safetensors").code == 0
    start = folder / "start.safetensors"
    given = ("--data", "digits", "--client", "st-mary", "--epochs", 1)
    assert run("init", "--data", "digits", "--width", 0.02, "-o", start).code == 0
    upload = folder / "upload.safetensors"
    assert run("local-train", start, *given, "-o", upload).code == 0
    other = ("aggregate", upload, "--parent", start, "-o", folder / "mean.safetensors")
    assert run(*other).code == 0


FORGED = {"epsilon": 0.01, "delta": 1e-5, "history": []}


@pytest.mark.parametrize("fact", [{"privacy": FORGED}, {"next_clip": 2.0}])
def test_a_client_cannot_claim_a_guarantee(folder, run, forge, fact):
    forge(folder / "c0", facts=fact)
    done = run(*words(folder, "mean"))
    assert done.code == 65 and "c0" in done.err and "guarantee" in done.err
    (folder / "inbox").mkdir()
    for path in folder.glob("c*"):
        path.replace(folder / "inbox" / path.name)
    line = ("aggregate", folder / "inbox", "--parent", folder / "g")
    done = run(*line, "-o", folder / "out")
    assert done.code == 0 and "c0" in done.err and "6 clients" in done.out
    facts = read_checkpoint(folder / "out").facts
    assert facts.privacy is None and facts.next_clip is None


def test_a_client_decides_neither_about_the_state_nor_about_the_seed(
    folder, run, forge
):
    forge(folder / "c0", facts={"state": "f" * 64, "init_seed": 666})
    line = words(folder, "mean", "--parent", folder / "g")
    assert run(*line).code == 0
    facts = read_checkpoint(folder / "out").facts
    assert facts.state is None and facts.init_seed is None


def test_the_record_of_a_noisy_model_is_not_replaced(folder, private):
    """The same command draws other noise: nobody can make the first model again."""
    record = folder / "kept" / "r.record"
    assert private("--record", record).code == 0
    before = record.read_bytes()
    moved = folder / "elsewhere"
    moved.mkdir()
    (folder / "out").rename(moved / "out")
    done = private("--record", record)
    assert done.code == 65 and str(record) in done.err and "another file" in done.err
    assert record.read_bytes() == before


def test_epsilon_is_rounded_up():
    assert rounded_up(4.37712341) == 4.37713
    assert rounded_up(0.5) == 0.5 and rounded_up(123456789.0) == 123457000.0
    for epsilon in np.random.default_rng(0).exponential(5, 200):
        assert epsilon <= rounded_up(float(epsilon)) <= epsilon * (1 + 1e-5)


def test_epsilon_adds_up_over_rounds(folder, private, run):
    epsilons = []
    for number in (1, 2, 3):
        assert private("--noise", 2 if number == 3 else 1).code == 0
        facts = read_checkpoint(folder / "out").facts
        assert facts.privacy and facts.round == number
        epsilons.append(facts.privacy["epsilon"])
        next_round(folder, model(number))
    expected = [Rounds(1, 1, 2), Rounds(2, 1, 1)]
    assert facts.privacy["history"] == [each._asdict() for each in expected]
    assert epsilons == sorted(epsilons)
    assert epsilons[2] == pytest.approx(epsilon_of(expected, 1e-5), rel=1e-5)
    line = run("inspect", folder / "g").out
    assert "noise 1, rounds 2, sampling_rate 1; noise 2, rounds 1" in line
    assert f"epsilon {epsilons[2]:.4g} at delta 1e-05 for each client" in " ".join(
        line.split()
    )


def test_without_noise_the_guarantee_ends_with_a_warning(folder, private, run):
    assert private().code == 0
    next_round(folder, model(1))
    done = run(*words(folder, "clip", "--clip", 2))
    assert done.code == 0 and "epsilon 4.377" in done.err and "no guarantee" in done.err
    assert read_checkpoint(folder / "out").facts.privacy is None
    next_round(folder, model(2))
    done = private()
    assert done.code == 65 and "without --noise" in done.err and "g:" in done.err


@pytest.mark.parametrize(
    "history",
    [
        [], [{"noise": 1}], [{"noise": 0, "sampling_rate": 1, "rounds": 1}], ["a"], 3,
        [{"noise": 1, "sampling_rate": 1, "rounds": 10**400}],
        [{"noise": 1e-300, "sampling_rate": 1, "rounds": 1}],
        [{"noise": 1, "sampling_rate": 1, "rounds": 1.5}],
    ],
)  # fmt: skip
def test_a_broken_history_is_refused(folder, private, forge, history):
    assert private().code == 0
    next_round(folder, model(1))
    forge(folder / "g", facts={"privacy": {"epsilon": 1.0, "history": history}})
    content = Container(folder / "g").content
    for k in range(7):
        forge(folder / f"c{k}", facts={"parent": content})
    done = private()
    assert done.code == 65 and "history" in done.err and "g:" in done.err


@pytest.mark.parametrize(
    ("changed", "code", "key"),
    [
        (("--weights", "examples"), 2, "equal weights"),
        (("--max-share", 0.5), 2, "--max-share"),
        (("--named",), 2, "--named"),
        (("--cohort", 8), 75, "promises 8"),
        (("--cohort", 6), 65, "--cohort 6"),
        (("--clip-quantile", 0.5, "--count-noise", 0.4), 2, "--count-noise"),
        (("--clip-statistics", 2, "--bn", "keep"), 2, "--clip-statistics"),
        (("--noise", 1e30, "--clip", 1e30), 2, "--noise"),
        (("--clip", 1e30), 2, "--clip"),
        (("--clip-quantile", 0.5, "--clip-rate", 1e30), 2, "--clip-rate"),
        (("--clip-quantile", 0.5, "--count-noise", 1e30), 2, "--count-noise"),
    ],
)
def test_options_that_break_the_guarantee_are_refused(
    folder, private, changed, code, key
):
    done = private(*changed)
    assert done.code == code and key in done.err
    assert not (folder / "out").exists()


@pytest.mark.parametrize("missing", ["--clip", "--delta", "--cohort"])
def test_the_numbers_of_a_guarantee_are_required(folder, run, missing):
    place = NOISE.index(missing)
    line = words(folder, "clip", *NOISE[:place], *NOISE[place + 2 :])
    done = run(*line)
    assert done.code == 2 and missing in done.err


# --- no upload decides about another upload ---------------------------------------------


def test_numbers_of_cluster_losses_do_not_exchange_uploads(folder, private, forge):
    for k in range(4):
        forge(folder / f"c{k}", facts={"cluster_losses": [1.0]})
    done = private()
    assert done.code == 0 and "left out" not in done.err, done.err
    assert "7 clients" in done.out
    assert read_checkpoint(folder / "out").facts.cluster_losses is None


@pytest.mark.parametrize("strangers", [1, 4, 6])
def test_a_vote_about_tensors_ends_the_round(folder, run, forge, strangers):
    """Before the first sum, no model tells which parts clients send."""
    inbox = folder / "inbox"
    inbox.mkdir()
    for k in range(7):
        (folder / f"c{k}").rename(inbox / f"c{k}")
    for k in range(strangers):
        forge(inbox / f"c{k}", {"projector.w": np.zeros(3, np.float32)})
    line = ("aggregate", inbox, "--rule", "clip", *NOISE, "--cohort", 7 - strangers)

    done = run(*line, "--parent", folder / "g", "-o", folder / "out")
    assert done.code == 65 and "different tensors" in done.err, done.err
    assert not (folder / "out").exists()


def test_the_parent_decides_about_tensors_after_the_first_sum(folder, private, forge):
    assert private().code == 0
    next_round(folder, model(1))
    for k in range(6):
        forge(folder / f"c{k}", {"projector.w": np.zeros(3, np.float32)})
    done = private()
    assert done.code == 65 and "c0" in done.err and "parent" in done.err


def test_more_uploads_than_sampling_draws_have_a_warning(folder, private):
    sampled = ("--sampling-rate", 0.01, "--cohort", 1)
    done = private(*sampled)
    assert done.code == 0 and "7 uploads" in done.err and "--cohort 1" in done.err
    assert private(*sampled, "--strict", "--force").code == 65


def test_noise_is_compared_with_the_clip_norm(folder, private):
    done = private("--dry-run")
    assert done.code == 0 and "noise on the mean has length" in done.err
    done = private("--noise", 100, "--dry-run")
    assert "will be noise" in done.err
    # z C sqrt(2,100 numbers and a few) / 7, for updates of at most C = 2.
    assert "length 1.31e+03" in done.err and "at most 2:" in done.err


def test_init_from_a_noisy_model_keeps_the_history(folder, private, run, tmp_path):
    start, upload = tmp_path / "g0.safetensors", tmp_path / "u.safetensors"
    net = ("--data", "digits", "--width", 0.02)
    train = ("--data", "digits", "--client", "st-mary", "--epochs", 1)
    noise = ("--rule", "clip", *NOISE[:-1], 1)
    assert run("init", *net, "-o", start).code == 0

    def noisy_round(name):
        upload.unlink(missing_ok=True)
        assert run("local-train", start, *train, "-o", upload).code == 0
        output = tmp_path / name / "g1.safetensors"
        done = run("aggregate", upload, "--parent", start, *noise, "-o", output)
        assert done.code == 0, done.err
        return output

    first = noisy_round("one")
    history = read_checkpoint(first).facts.privacy
    exported = tmp_path / "exported"
    assert run("export", first, "-o", exported).code == 0
    for source in (first, exported):
        assert run("init", *net, "--from", source, "-o", start, "--force").code == 0
        assert read_checkpoint(start).facts.privacy == history
    second = read_checkpoint(noisy_round("two")).facts.privacy
    assert second["history"] == [{"noise": 1, "sampling_rate": 1, "rounds": 2}]


def test_weights_of_members_are_refused(folder, private):
    members = folder / "members.txt"
    members.write_text("".join(f"{k} weight=1\n" for k in range(7)))
    done = private("--members", members)
    assert done.code == 2 and "members.txt" in done.err and "weight=" in done.err
    members.write_text("".join(f"{k}\n" for k in range(7)))
    assert private("--members", members).code == 0


def test_a_report_warns_and_describes_the_rule_without_noise(folder, private):
    done = private("--report", folder / "report.json")
    assert done.code == 0 and "outside the guarantee" in done.err
    effects = json.loads((folder / "report.json").read_text())
    assert effects["clients"]
    assert private("--report", folder / "report.json", "--strict").code == 65


def test_noise_does_not_apply_to_other_rules(folder, run):
    done = run(*words(folder, "median", "--noise", 1))
    assert done.code == 2 and "--noise does not apply" in done.err
    done = run(*words(folder, "clip", "--delta", 1e-5))
    assert done.code == 2 and "--delta does not apply" in done.err


def test_statistics_are_left_out_or_clipped_with_the_weights(folder, private):
    assert private("--bn", "keep").code == 0
    found = read_checkpoint(folder / "out")
    assert list(found.tensors) == ["encoder.w"] and not found.facts.statistics
    (folder / "out").unlink()
    (folder / "out.record").unlink()
    assert private("--clip-statistics", 0.001).code == 0
    found, parent = (read_checkpoint(folder / name) for name in ("out", "g"))
    name = "encoder.bn.running_var"
    assert found.facts.statistics
    moved = np.abs(found.tensors[name] - parent.tensors[name]).max()
    assert 0 < moved < 0.005  # Noise of 0.001 / 7, and changes of at most 0.001.


def test_sampling_lowers_epsilon_and_frees_the_number_of_uploads(folder, private):
    assert private("--sampling-rate", 0.1, "--cohort", 9).code == 0
    facts = read_checkpoint(folder / "out").facts
    assert facts.privacy
    expected = epsilon_of([Rounds(1, 0.1, 1)], 1e-5)
    assert facts.privacy["epsilon"] == pytest.approx(expected, rel=1e-5)
    assert expected < epsilon_of([Rounds(1, 1, 1)], 1e-5)


def test_a_large_delta_has_a_warning(folder, private):
    done = private("--delta", 0.2)
    assert done.code == 0 and "--delta 0.2" in done.err


def test_the_adaptive_clip_norm_of_the_parent_is_used(folder, private):
    more = ("--clip-quantile", 0.5, "--clip", 1e-3, "--count-noise", 0.55)
    assert private(*more).code == 0
    first = read_checkpoint(folder / "out").facts
    assert first.privacy and first.privacy["clip"] == 1e-3
    # All updates are longer, so b is near 0 and the norm grows by about exp(0.1). Noise
    # of 0.55 / 7 on b keeps the factor above 1: 0.1 is six deviations of the exponent.
    assert first.next_clip is not None and 1e-3 < first.next_clip < 1.3e-3
    assert first.privacy["noise"] == pytest.approx((1 - 1 / 1.1**2) ** -0.5)
    assert first.privacy["history"][0]["noise"] == 1
    next_round(folder, model(1))
    assert private(*more).code == 0
    second = read_checkpoint(folder / "out").facts
    assert second.privacy and second.privacy["clip"] == first.next_clip


def test_much_noise_of_the_count_keeps_the_clip_norm_above_0(folder, private):
    more = ("--clip-quantile", 0.5, "--count-noise", 1e6, "--clip", 2)
    assert private(*more).code == 0
    found = read_checkpoint(folder / "out").facts.next_clip
    assert found is not None and 2 / 2.72 < found < 2 * 2.72


def test_a_clip_norm_of_0_is_refused_and_not_replaced(folder, private, forge):
    more = ("--clip-quantile", 0.5)
    assert private(*more).code == 0
    next_round(folder, model(1))
    forge(folder / "g", facts={"next_clip": 0.0})
    content = Container(folder / "g").content
    for k in range(7):
        forge(folder / f"c{k}", facts={"parent": content})
    done = private(*more)
    assert done.code == 65 and "clip norm 0" in done.err and "g:" in done.err


def test_replay_says_that_the_noise_is_not_recorded(folder, private, run):
    assert private().code == 0
    done = run("replay", folder / "out", "--depth", 1)
    assert done.code == 65 and "operating system" in done.err


def test_a_dry_run_writes_nothing(folder, private):
    done = private("--dry-run")
    assert done.code == 0 and "epsilon" in done.out
    assert not (folder / "out").exists()


def test_the_page_and_the_scores_show_epsilon(world, run):
    line = ("aggregate", *world.clients, "--rule", "clip", "--parent", world.model)
    more = ("--noise", 1, "--clip", 1, "--delta", 1e-5, "--cohort", 3)
    model, scores = world.folder / "r1" / "private", world.folder / "r1" / "knn.json"
    model.parent.mkdir()
    assert run(*line, *more, "-o", model).code == 0
    assert run("evaluate", "knn", model, "--data", "digits", "-o", scores).code == 0
    found = json.loads(scores.read_text())["checkpoint"]["facts"]["privacy"]
    assert found["epsilon"] == pytest.approx(4.377, abs=1e-3)
    assert "epsilon 4.377" in run("inspect", scores).out.replace("\n    ", " ")
    assert run("report", model.parent, "-o", world.folder / "page.html").code == 0
    assert "4.377" in (world.folder / "page.html").read_text()


def test_the_record_of_the_server_has_the_uploads(folder, private):
    assert private("--record", folder / "kept.record").code == 0
    record = Container(folder / "kept.record").header
    uploads = {Container(folder / f"c{k}").content for k in range(7)}
    assert uploads <= set(record.inputs.values())
