"""aggregate: what uploads claim of themselves is not believed where it can be checked."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from furlkit.aggregators.mean import dominant, limited
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.container.seal import with_digits
from furlkit.files.published import lacks_record
from furlkit.stages.aggregate.claims import limit_of
from tests.helpers import whole_header

WEIGHT, VARIANCE = "encoder.conv1.weight", "encoder.bn1.running_var"


@pytest.fixture
def mean(world, run):
    """The outcome of aggregate without its plain lines, and the result."""

    def call(*more, files=world.clients):
        output = world.folder / "g1"
        done = run("aggregate", *files, *more, "--force", "-q", "-o", output)
        assert done.code == 0, done.err
        return done, read_checkpoint(output)

    return call


def shares_in(model) -> list[float]:
    hidden = lacks_record(model.header)
    header = whole_header(model.path) if hidden else model.header
    return header.options["shares"]


def resealed(path: Path, **hashes: str) -> None:
    """Other hashes in a header, with a checksum that fits."""
    from furlkit.files.container import seal

    opened, raw = Container(path), path.read_bytes()
    start = opened.body_start
    head, body = raw[:start], raw[start:]
    crcs = [
        crc
        for e in opened.entries
        for crc in seal.crcs_of(np.frombuffer(body[e.start : e.end], np.uint8))
    ]
    for name, digits in hashes.items():
        head = with_digits(head, name, getattr(opened.header, name), digits)
    zeroed = with_digits(head, "check", opened.header.check, seal.UNSEALED)
    check = seal.checksum(zeroed, crcs)
    path.write_bytes(with_digits(zeroed, "check", seal.UNSEALED, check) + body)


# --- how much a client counts -----------------------------------------------------------


def test_an_honest_round_says_nothing_and_keeps_its_bytes(world, mean):
    plain = mean()
    for more in (("--trust-headers",), ()):
        done, found = mean(*more)
        assert done.err == "" and found.content == plain[1].content
    done, found = mean("--partition", world.partition)
    assert done.err == "" and shares_in(found) == shares_in(plain[1])


def test_examples_are_capped_by_the_partition(world, mean, forge):
    honest = mean()[1]
    forge(world.clients[1], facts={"examples": 10**9})
    done, found = mean("--partition", world.partition)
    assert done.err.count("\n") == 1 and "client 1 claims 1,000,000,000" in done.err
    assert shares_in(found) == shares_in(honest)
    assert found.facts.examples == honest.facts.examples
    assert found.header.inputs["partition"] == Container(world.partition).content


def test_who_is_not_in_the_partition_is_refused(world, forge, refused):
    line = ("aggregate", *world.clients, "--partition", world.partition)
    end = ("-o", world.output)
    forge(world.clients[1], facts={"partition": "0" * 64})
    refused(world.folder, 65, [world.clients[1], "partition"], *line, *end)
    forge(world.clients[1], facts={"client": 3})
    refused(world.folder, 65, [world.clients[1], "client 3"], *line, *end)


def test_a_dominant_claim_is_named_and_cut(world, mean, forge):
    forge(world.clients[2], facts={"examples": 10**9})
    done, found = mean()
    assert "client 2 counts 100.0%" in done.err and str(world.clients[2]) in done.err
    assert max(shares_in(found)) > 0.99
    done, found = mean("--max-share", 0.4)
    assert done.err.count("\n") == 1 and "cut client 2 (1)" in done.err
    assert shares_in(found)[2] == 0.4 and sum(shares_in(found)) == pytest.approx(1)
    assert found.header.options["max-share"] == 0.4
    weights = {k: read_checkpoint(world.clients[k]).tensors[WEIGHT] for k in range(3)}
    total = sum(p * weights[k].astype(float) for k, p in enumerate(shares_in(found)))
    np.testing.assert_allclose(found.tensors[WEIGHT], total, rtol=1e-6)


@pytest.fixture
def sites(world, forge):
    """The uploads as if of sites, without a partition; site 2 claims 10^9 examples."""
    for path in world.clients:
        forge(path, facts={"partition": None}, inputs={})
    return forge(world.clients[2], facts={"examples": 10**9})


def test_a_site_has_at_most_half_of_the_mean(world, sites, mean):
    done, found = mean()
    line = "--max-share 0.5, the default without a partition (--max-share 1: no limit)"
    assert done.err == f"warning: {line}: cut client 2 (1)\n"
    assert shares_in(found)[2] == 0.5 and sum(shares_in(found)) == pytest.approx(1)
    assert "max-share" not in found.header.options
    assert shares_in(mean("--weights", "uniform")[1]) == pytest.approx([1 / 3] * 3)


def test_the_default_limit_is_turned_off_by_an_option(world, sites, mean, tmp_path):
    assert shares_in(mean("--max-share", 1)[1])[2] > 0.99
    chosen = tmp_path / "weights.json"
    chosen.write_text('{"0": 1, "1": 1, "2": 8}')
    done, found = mean("--weights", chosen)
    assert done.err == "" and shares_in(found) == [0.1, 0.1, 0.8]


def test_two_sites_have_no_default_limit(world, sites, mean):
    done, found = mean(files=world.clients[1:])
    assert "client 2 counts 100.0%" in done.err and max(shares_in(found)) > 0.99


def test_a_claimed_partition_does_not_turn_the_limit_off(world, sites, mean, forge):
    forge(sites, facts={"partition": "0" * 64})
    assert shares_in(mean()[1])[2] == 0.5


def test_a_claimed_partition_of_another_type_does_not_end_the_round():
    claimed: list = ["a", ["b"], "a"]
    assert limit_of(None, claimed).most == 0.5
    assert limit_of(None, ["a"] * 3).most is None


@pytest.mark.parametrize(
    "shares, most, expected",
    [
        ([0.5, 0.3, 0.2], 0.5, [0.5, 0.3, 0.2]),
        ([0.8, 0.1, 0.1], 0.5, [0.5, 0.25, 0.25]),
        (
            [0.6, 0.3, 0.1],
            0.4,
            [0.4, 0.4, 0.2],
        ),  # The second reaches the limit in turn.
        ([0.9, 0.1], 0.1, [0.5, 0.5]),
        ([1.0], 0.1, [1.0]),
        ([0.75, 0.25, 0.0], 0.6, [0.6, 0.4, 0.0]),
        ([1.0, 0.0], 0.6, [1.0, 0.0]),
    ],
)
def test_limited_shares(shares, most, expected):
    assert limited(shares, most) == pytest.approx(expected)


def test_limited_shares_sum_to_one_and_keep_their_order():
    rng = np.random.default_rng(0)
    for _ in range(50):
        shares = rng.dirichlet(np.full(7, 0.3)).tolist()
        most = rng.uniform(0.15, 0.9)
        found = limited(shares, most)
        assert sum(found) == pytest.approx(1) and max(found) <= most + 1e-9
        order = np.argsort(shares)
        assert (np.diff(np.array(found)[order]) >= -1e-12).all()


def test_dominant_shares():
    assert dominant([1.0]) is None and dominant([0.7, 0.3]) is None
    assert dominant([0.2, 0.8]) == 1 and dominant([0.05, 0.55, 0.4]) is None


# --- hashes, duplicates and copies --------------------------------------------------------


def test_content_is_verified(world, refused, run):
    resealed(world.clients[1], content="0" * 64)
    line = ("aggregate", *world.clients, "-o", world.output)
    refused(world.folder, 65, [world.clients[1], "content hash"], *line)
    assert run(*line, "--trust-headers").code == 0


@pytest.mark.parametrize("trust", [(), ("--trust-headers",)])
def test_a_claimed_hash_pushes_nobody_out(world, mean, refused, trust):
    """Client 2 claims to be the very file of client 0."""
    honest = mean()[1]
    resealed(world.clients[2], content=Container(world.clients[0]).content)
    files = (world.clients[2], *world.clients[:2])
    if not trust:
        line = ("aggregate", *files, "-o", world.output)
        refused(world.folder, 65, [world.clients[2], "content hash"], *line)
        return
    found = mean(*trust, files=files)[1]
    assert found.tensors[WEIGHT].tobytes() == honest.tensors[WEIGHT].tobytes()


def test_the_same_file_under_two_names_is_named_and_counts_once(world, mean):
    honest = mean()[1]
    again = Path(shutil.copy(world.clients[1], world.folder / "again"))
    done, found = mean(files=(*world.clients, again, world.clients[0]))
    assert done.err.count("\n") == 2 and f"{again}: is the same file" in done.err
    assert f"{world.clients[0]}: is given twice" in done.err
    assert found.content == honest.content


def test_two_forged_files_of_a_client_do_not_replace_its_own(world, run, forge):
    """Were only two of the three left out, the last one would count."""
    inbox = world.folder / "inbox"
    inbox.mkdir()
    for upload in world.clients:
        shutil.copy(upload, inbox)
    forged = forge(
        Path(shutil.copy(world.clients[0], inbox / "x")), facts={"loss": 1.0}
    )
    shutil.copy(forged, inbox / "y")
    line = ("aggregate", inbox, "--parent", world.model, "-o", world.folder / "g1")
    done = run(*line)
    assert done.code == 0 and "both of client 0" in done.err
    found = read_checkpoint(world.folder / "g1")
    assert found.header.inputs.keys() == {"client 1", "client 2"}


def test_a_copy_under_another_number_is_named(world, run, mean):
    copied = world.folder / "copied"
    line = ("attack", world.clients[0], "--kind", "copy", "--of", world.clients[2])
    assert run(*line, "-o", copied).code == 0
    done, _ = mean(files=(copied, *world.clients[1:]))
    assert done.err.count("\n") == 1
    assert "client 2 sent the same numbers as client 0" in done.err
    assert str(copied) in done.err and str(world.clients[2]) in done.err


def test_a_copy_is_one_whatever_its_statistics_are(world, forge, mean):
    changed = read_checkpoint(world.clients[2]).tensors
    changed[VARIANCE] = changed[VARIANCE] + 1
    forge(world.clients[0], changed)
    assert "client 2 sent the same numbers" in mean()[0].err
    changed[WEIGHT] = np.nextafter(changed[WEIGHT], np.float32(1))
    forge(world.clients[0], changed)
    assert mean()[0].err == ""


# --- uploads that were made differently ---------------------------------------------------


def test_other_options_and_partitions_are_named(world, forge, mean):
    options = Container(world.clients[1]).header.options
    forge(world.clients[1], options={**options, "lr": 0.5, "device": "cuda"})
    forge(world.clients[2], facts={"partition": "0" * 64})
    done, _ = mean()
    options, partition = done.err.splitlines()
    assert str(world.clients[1]) in options and "lr (0.5, not 0.001)" in options
    assert "device" not in options
    assert str(world.clients[2]) in partition and "partition" in partition


def test_models_of_several_rounds_may_have_other_options(world, forge, mean):
    options = Container(world.clients[1]).header.options
    facts = {"round": 2, "parent": "0" * 64}
    forge(world.clients[1], facts=facts, options={**options, "lr": 0.5})
    assert mean("--staleness", 1.4)[0].err == ""


# --- numbers that no training gives -------------------------------------------------------


def counter(value: int):
    return lambda array: np.full_like(array, value)


def far(array: np.ndarray) -> np.ndarray:
    """One number out of many."""
    changed = array.copy()
    changed.flat[3] = -2e4 * np.abs(array).max()
    return changed


BAD = {
    VARIANCE: lambda array: -array - 1,
    "encoder.bn1.num_batches_tracked": counter(-1),
    "encoder.bn2.num_batches_tracked": counter(2**63 - 1),
    # The largest that could be one: the next batch would be beyond the limit.
    "encoder.bn3.num_batches_tracked": counter(2**62 - 1),
    WEIGHT: far,
    "encoder.bn1.running_mean": lambda array: array + 1e9,
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("trust", [(), ("--trust-headers",), ("--dry-run",)])
def test_the_tensor_is_named(world, forge, refused, name, trust):
    array = read_checkpoint(world.clients[1]).tensors[name]
    forge(world.clients[1], {name: BAD[name](array)})
    line = ("aggregate", *world.clients, *trust, "-o", world.output)
    refused(world.folder, 65, [world.clients[1], name], *line)


@pytest.mark.parametrize("name", BAD)
def test_in_an_inbox_it_is_left_out(world, forge, run, name):
    array = read_checkpoint(world.clients[1]).tensors[name]
    forge(world.clients[1], {name: BAD[name](array)})
    inbox = world.folder / "inbox"
    inbox.mkdir()
    for upload in world.clients:
        shutil.copy(upload, inbox)
    line = ("aggregate", inbox, "--parent", world.model, "-o", world.folder / "g1")
    done = run(*line)
    assert done.code == 0 and done.err.count("\n") == 1
    assert name in done.err and done.err.endswith("left out\n")
    found = read_checkpoint(world.folder / "g1")
    assert found.header.inputs.keys() == {"client 0", "client 2"}


def test_statistics_that_do_not_count_may_be_far(world, forge, mean):
    array = read_checkpoint(world.clients[1]).tensors[VARIANCE]
    forge(world.clients[1], {VARIANCE: array + 1e9})
    assert mean("--bn", "keep")[0].err == ""
    assert mean("--rule", "median")[0].err == ""


def test_statistics_that_l_dawa_averages_count(world, forge, refused):
    array = read_checkpoint(world.clients[1]).tensors[VARIANCE]
    forge(world.clients[1], {VARIANCE: array + 1e9})
    line = ("aggregate", "--rule", "l-dawa", *world.clients, "--parent", world.model)
    words = [world.clients[1], VARIANCE]
    refused(world.folder, 65, words, *line, "-o", world.output)


def test_counters_that_the_others_have_at_zero_may_move(world, forge, mean):
    for k, upload in enumerate(world.clients):
        tensors = read_checkpoint(upload).tensors
        names = [name for name in tensors if name.endswith("num_batches_tracked")]
        forge(upload, {n: counter((0, 0, 9000)[k])(tensors[n]) for n in names})
    assert mean()[0].err == ""


def test_a_weight_that_the_others_have_at_zero_may_move(world, forge, mean):
    """A bias that has only just begun to move is no attack, however small it was."""
    for k, upload in enumerate(world.clients):
        array = read_checkpoint(upload).tensors["encoder.bn1.bias"]
        forge(upload, {"encoder.bn1.bias": np.full_like(array, (0, 1e-9, 3e-3)[k])})
    assert mean()[0].err == ""


def test_an_attack_that_is_scaled_far_enough_is_refused(world, run, refused):
    line = ("attack", world.clients[0], "--kind", "scale", "--parent", world.model)
    assert run(*line, "--factor", 1e9, "-o", world.folder / "x").code == 0
    files = (world.folder / "x", *world.clients[1:])
    words = [world.folder / "x", "encoder."]
    refused(world.folder, 65, words, "aggregate", *files, "-o", world.output)
