"""aggregate of an inbox that strangers write to: signatures, members, run and round."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.inputs import inbox as inbox_module
from tests.helpers import furlkit, whole_header

SITES = ("st-mary", "north")


@pytest.fixture
def inbox(world, forge, keys) -> Path:
    """An inbox with the signed uploads of two sites."""
    folder = world.folder / "inbox"
    folder.mkdir()
    world.output.unlink()
    for upload, name in zip(world.clients, SITES, strict=False):
        sent = shutil.copy(upload, folder / name)
        forge(sent, facts={"client": name, "partition": None})
        assert furlkit("sign", sent, "--key", keys(name)) == 0
    return folder


@pytest.fixture
def expected(world, inbox) -> bytes:
    """The mean of the two sites."""
    output = world.folder / "expected"
    assert furlkit("aggregate", *(inbox / name for name in SITES), "-o", output) == 0
    return output.read_bytes()


def fake(world, forge, inbox: Path, file: str, client: str, **facts) -> Path:
    """Put an upload of a stranger into the inbox, in the name of `client`."""
    path = Path(shutil.copy(world.clients[2], inbox / file))
    return forge(path, facts={"client": client, "partition": None, **facts})


def command(world, inbox, *more) -> tuple:
    output = world.folder / "g1"
    return ("aggregate", inbox, "--parent", world.model, *more, "-o", output)


def reasons(err: str) -> list[str]:
    return [line for line in err.splitlines() if "left out" in line]


@pytest.mark.parametrize("file", ["a-before-st-mary", "z-after-st-mary"])
@pytest.mark.parametrize("signer", [None, "mallory", "north"])
def test_an_upload_in_the_name_of_a_site_never_blocks_the_site(
    world, inbox, run, forge, keys, allowed, expected, file, signer
):
    signers = allowed(*SITES)
    path = fake(world, forge, inbox, file, "st-mary")
    if signer:
        assert furlkit("sign", path, "--key", keys(signer)) == 0
    done = run(*command(world, inbox, "--signers", signers, "--at-least", 2))
    assert done.code == 0, done.err
    assert (world.folder / "g1").read_bytes() == expected
    (line,) = reasons(done.err)
    assert str(path) in line and "signature" in line


def test_a_stranger_who_is_early_waits_for_nobody(
    world, inbox, run, forge, allowed, expected, monkeypatch
):
    """The upload of st-mary arrives while the server waits, then the signature."""
    late = [inbox / "st-mary", inbox / "st-mary.sig"]
    aside = {path: world.folder / f"aside{path.suffix}" for path in late}
    for path in late:
        shutil.move(path, aside[path])
    fake(world, forge, inbox, "early", "st-mary")
    fake(world, forge, inbox, "other", "mallory")

    def arrive(_: float) -> None:
        path = late.pop(0)
        shutil.move(aside[path], path)

    monkeypatch.setattr(inbox_module.time, "sleep", arrive)
    waits = ("--at-least", 2, "--wait", "2m", "--signers", allowed(*SITES))
    done = run(*command(world, inbox, *waits))
    assert done.code == 0, done.err
    assert "1 of 2 clients have reported; waiting for st-mary\n" in done.err
    assert (world.folder / "g1").read_bytes() == expected


@pytest.mark.parametrize("list_", ["--signers", "--members"])
def test_two_files_of_one_stranger_close_no_round(
    world, inbox, run, refused, forge, allowed, list_
):
    for name in SITES:
        (inbox / name).unlink()
    for name in ("mallory", "mallory-too"):
        fake(world, forge, inbox, name, name)
    listed = allowed(*SITES)
    if list_ == "--members":
        listed.write_text("\n".join(SITES))
    words = command(world, inbox, list_, listed, "--at-least", 2)
    refused(world.folder, 75, ["0 clients", "--at-least", "mallory"], *words)


def test_three_strangers_do_not_outvote_two_members(
    world, inbox, run, forge, allowed, expected
):
    """The strangers leave a tensor out, and claim the network of the parent."""
    for k in range(3):
        path = fake(world, forge, inbox, f"m{k}", f"mallory-{k}")
        forge(path, {"encoder.conv1.weight": None})
    members = allowed(*SITES)
    members.write_text("\n".join(SITES))
    words = ("--members", members, "--at-least", 2)
    done = run(*command(world, inbox, *words))
    assert done.code == 0, done.err
    assert (world.folder / "g1").read_bytes() == expected
    (line,) = reasons(done.err)
    assert "mallory" in line and "2 more" in line


def test_three_strangers_with_another_network_do_not_outvote_two_sites(
    world, inbox, run, forge, expected
):
    """The parent decides about the network, without any list of members."""
    wide = world.folder / "wide"
    words = ("--data", "digits", "--width", 0.05, "--projector", "8,4")
    assert furlkit("init", *words, "-o", wide) == 0
    model = read_checkpoint(wide)
    for k in range(3):
        path = fake(world, forge, inbox, f"m{k}", f"mallory-{k}")
        about = {"architecture": model.facts.architecture}
        forge(path, dict.fromkeys(Container(path).tensors()), facts=about)
        forge(path, model.tensors)
    done = run(*command(world, inbox, "--at-least", 2))
    assert done.code == 0, done.err
    assert (world.folder / "g1").read_bytes() == expected
    (line,) = reasons(done.err)
    assert "architecture" in line and "2 more" in line


def without_a_layer(tensors: dict) -> dict:
    return {"encoder.conv1.weight": None}


def without_statistics_of_a_layer(tensors: dict) -> dict:
    return {k: None for k in tensors if k.startswith("encoder.bn1.running")}


def with_another_layer(tensors: dict) -> dict:
    return {"encoder.conv9.weight": np.ones(3, np.float32)}


def with_statistics_of_a_convolution(tensors: dict) -> dict:
    width = len(tensors["encoder.conv1.weight"])
    return {"encoder.conv1.running_mean": np.ones(width, np.float32)}


def with_half_a_target_network(tensors: dict) -> dict:
    name = "encoder.conv1.weight"
    return {f"target.{name}": tensors[name]}


def with_wide_numbers(tensors: dict) -> dict:
    name = "encoder.conv1.weight"
    return {name: tensors[name].astype(np.float64)}


@pytest.mark.parametrize(
    "change, word",
    [
        (without_a_layer, "lacks encoder.conv1.weight"),
        (without_statistics_of_a_layer, "lacks encoder.bn1.running_mean"),
        (with_another_layer, "has encoder.conv9.weight"),
        (with_statistics_of_a_convolution, "has encoder.conv1.running_mean"),
        (with_half_a_target_network, "lacks encoder."),
        (with_wide_numbers, "is float64"),
    ],
)
def test_three_strangers_with_other_tensors_do_not_outvote_two_sites(
    world, inbox, run, forge, expected, change, word
):
    """The strangers claim the network of the parent; the parent decides about tensors."""
    for k in range(3):
        path = fake(world, forge, inbox, f"m{k}", f"mallory-{k}")
        forge(path, change(Container(path).tensors()))
    done = run(*command(world, inbox, "--at-least", 2))
    assert done.code == 0, done.err
    assert (world.folder / "g1").read_bytes() == expected
    (line,) = reasons(done.err)
    assert word in line and "2 more" in line


@pytest.mark.parametrize("part", ["projector", "target.encoder", "control.encoder"])
def test_three_strangers_with_other_parts_do_not_outvote_two_sites(
    world, inbox, run, forge, part
):
    """From round 2 on: the parent has the parts that sites sent in the last round."""
    first, second = world.folder / "g1", world.folder / "g2"
    assert run(*command(world, inbox, "--at-least", 2)).code == 0
    facts = {"round": 2, "parent": Container(first).content}
    for name in SITES:
        forge(inbox / name, facts=facts)
    for k in range(3):
        path = fake(world, forge, inbox, f"m{k}", f"mallory-{k}", **facts)
        tensors = Container(path).tensors()
        encoder = {n: v for n, v in tensors.items() if n.startswith("encoder.")}
        outer = part.removesuffix("encoder")
        lost = dict.fromkeys(tensors.keys() - encoder.keys())
        more = {outer + name: value for name, value in encoder.items()}
        forge(path, lost if part == "projector" else more)
    words = ("aggregate", inbox, "--parent", first, "--at-least", 2, "-o", second)
    done = run(*words)
    assert done.code == 0, done.err
    assert whole_header(second).inputs.keys() == {f"client {n}" for n in SITES}
    (line,) = reasons(done.err)
    assert "mallory" not in line and part in line and "2 more" in line


def test_three_strangers_with_parts_of_another_rule_stop_no_round(
    world, inbox, run, forge, expected
):
    """Control variates in round 1, which only --rule scaffold combines."""
    for k in range(3):
        path = fake(world, forge, inbox, f"m{k}", f"mallory-{k}")
        tensors = Container(path).tensors()
        forge(path, {f"control.{name}": value for name, value in tensors.items()})
    done = run(*command(world, inbox, "--at-least", 2))
    assert done.code == 0, done.err
    assert (world.folder / "g1").read_bytes() == expected
    (line,) = reasons(done.err)
    assert "control." in line and "2 more" in line


@pytest.mark.parametrize("parent", [None, "0" * 64])
def test_an_old_upload_with_an_edited_round(world, inbox, run, forge, parent):
    """Models of another run or round name another parent, or none."""
    old = fake(world, forge, inbox, "old", "west", parent=parent)
    done = run(*command(world, inbox, "--at-least", 2))
    assert done.code == 0
    (line,) = reasons(done.err)
    assert str(old) in line and "another model" in line


def test_a_signature_covers_the_round(world, inbox, run, forge, allowed):
    """An edited header has another content hash than the signed one."""
    second = world.folder / "g1"
    signers = allowed(*SITES)
    words = ("--signers", signers, "--at-least", 2)
    assert run(*command(world, inbox, *words)).code == 0
    content = Container(second).content
    forge(inbox / "north", facts={"round": 2, "parent": content})
    again = ("aggregate", inbox, "--parent", second, "--signers", signers)
    done = run(*again, "-o", world.folder / "g2")
    assert done.code == 75 and str(inbox / "north") in done.err
    (line,) = reasons(done.err)
    assert "signature" in line


def test_bytes_other_than_the_signed_bytes(world, inbox, run, allowed, expected):
    """A signed header in front of other tensors."""
    whole = bytearray((inbox / "north").read_bytes())
    whole[-4:] = bytes(4)
    (inbox / "bad").write_bytes(whole)
    shutil.copy(inbox / "north.sig", inbox / "bad.sig")
    done = run(*command(world, inbox, "--signers", allowed(*SITES), "--at-least", 2))
    assert done.code == 0, done.err
    assert (world.folder / "g1").read_bytes() == expected
    (line,) = reasons(done.err)
    assert str(inbox / "bad") in line and "bytes" in line


@pytest.mark.parametrize(
    "options, word",
    [
        ('valid-before="20200101"', "expired"),
        ('valid-after="29990101"', "not yet valid"),
        ('namespaces="git"', "namespace"),
    ],
)
def test_keys_that_must_not_sign(world, inbox, refused, allowed, options, word):
    signers = allowed(*SITES, options=options)
    words = command(world, inbox, "--signers", signers)
    refused(world.folder, 75, [inbox / "north", word, "1 more"], *words)


def test_options_of_allowed_signers(world, inbox, run, allowed, expected):
    signers = allowed(*SITES, options='namespaces="furlkit",valid-after="20200101"')
    assert run(*command(world, inbox, "--signers", signers)).code == 0
    assert (world.folder / "g1").read_bytes() == expected


def test_a_pattern_of_the_server_stays_a_pattern(world, inbox, run, keys, allowed):
    """st-* is the choice of the server; the name of an upload is no pattern."""
    signers = allowed("st-mary")
    signers.write_text(f"st-* {keys('st-mary').with_suffix('.pub').read_text()}")
    done = run(*command(world, inbox, "--signers", signers))
    assert done.code == 0
    (line,) = reasons(done.err)
    assert str(inbox / "north") in line and "signature" in line


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.mkdir()


def a_large_file(path: Path) -> None:
    path.write_bytes(b"x" * 10**6)


def noise(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(500))


@pytest.mark.parametrize("put", [a_pipe, a_folder, a_large_file, noise])
def test_what_is_no_signature(world, inbox, run, allowed, put):
    signature = inbox / "north.sig"
    signature.unlink()
    put(signature)
    done = run(*command(world, inbox, "--signers", allowed(*SITES)))
    assert done.code == 0, done.err
    (line,) = reasons(done.err)
    assert str(inbox / "north") in line and "signature" in line


def test_signatures_are_no_uploads(world, inbox, run, expected):
    (inbox / "alone.sig").write_text("no file")
    done = run(*command(world, inbox, "--at-least", 2))
    assert done.code == 0 and reasons(done.err) == []
    assert (world.folder / "g1").read_bytes() == expected


def test_named_files_of_strangers_are_refused(world, inbox, refused, forge, allowed):
    path = fake(world, forge, inbox, "north", "north")
    named = (*(inbox / name for name in SITES), "-o", world.folder / "g1")
    words = ("aggregate", *named, "--signers", allowed(*SITES))
    refused(world.folder, 65, [path, "signature"], *words)
    refused(world.folder, 2, ["--trust-headers"], *words, "--trust-headers")


def test_rows_are_signed_too(world, inbox, run, forge, keys, allowed):
    """A dictionary of FedCA takes the rows of members only."""
    given = (world.partition, world.model, "--data", "digits", "--client", "0-2")
    more = ("--epochs", 1, "--batch-size", 240, "--alpha", 0)
    rows = ("--features-out", inbox / "rows_{client}", "-o", world.folder / "u{client}")
    assert furlkit("local-train", *given, *more, *rows) == 0
    for k, name in enumerate((*SITES, "st-mary")):
        path = forge(inbox / f"rows_{k}", facts={"client": name, "part": name})
        key = keys("mallory" if k == 2 else name)
        assert furlkit("sign", path, "--key", key) == 0
    words = ("--rule", "dictionary", "--parent", world.model, "--at-least", 2)
    signers, output = allowed(*SITES), world.folder / "d"
    done = run("aggregate", inbox, *words, "--signers", signers, "-o", output)
    assert done.code == 0, done.err
    owners = whole_header(output).facts["owners"]
    assert [name for name, _ in owners] == ["north", "st-mary"]
    (line,) = reasons(done.err)
    assert "rows_2" in line


def test_rows_without_a_round_are_left_out(world, inbox, run, forge):
    given = (world.partition, world.model, "--data", "digits", "--client", "0-1")
    more = ("--epochs", 1, "--batch-size", 240, "--alpha", 0)
    rows = ("--features-out", inbox / "rows_{client}", "-o", world.folder / "u{client}")
    assert furlkit("local-train", *given, *more, *rows) == 0
    forge(inbox / "rows_1", facts={"round": None})
    words = ("--rule", "dictionary", "--parent", world.model, "-o", world.folder / "d")
    done = run("aggregate", inbox, *words)
    assert done.code == 0, done.err
    (line,) = reasons(done.err)
    assert "rows_1" in line and "round" in line


def test_uploads_of_another_run_are_left_out(world, run, forge):
    """Two runs with equal options differ in the name alone."""
    words = ("--data", "digits", "--width", 0.02, "--projector", "8,4")
    given = ("--data", "digits", "--epochs", 1, "--batch-size", 240)
    inbox = world.folder / "inbox"
    for name in ("spring", "autumn"):
        model = world.folder / name
        assert furlkit("init", *words, "--run-name", name, "-o", model) == 0
        upload = world.folder / f"u-{name}"
        more = ("--client", 0 if name == "spring" else 1, "-o", upload)
        rows = ("--alpha", 0, "--features-out", inbox / f"rows-{name}")
        train = (world.partition, model, *given, *more, *rows)
        assert furlkit("local-train", *train) == 0
        shutil.copy(upload, inbox)
    output = world.folder / "g1"
    for rule in ("mean", "dictionary"):
        rules = ("--rule", rule, "--parent", world.folder / "spring", "--force")
        done = run("aggregate", inbox, *rules, "-o", output)
        assert done.code == 0, done.err
        (line,) = reasons(done.err)
        assert "is of run autumn" in line and "spring" in line
        assert Container(output).header.facts["run"] == "spring"
    tensors = [read_checkpoint(world.folder / n).tensors for n in ("spring", "autumn")]
    assert all(np.array_equal(v, tensors[1][k]) for k, v in tensors[0].items())


@pytest.fixture
def two_runs(world, inbox) -> Path:
    """Rows of the public images by a client of each of two runs, with equal rounds."""
    for path in inbox.iterdir():
        path.unlink()
    words = ("--data", "digits", "--width", 0.02, "--projector", "8,4", "--seed", 1)
    other, upload = world.folder / "other", world.folder / "u"
    train = ("--data", "digits", "--client", 1, "--epochs", 1, "--batch-size", 240)
    assert furlkit("init", *words, "-o", other) == 0
    assert furlkit("local-train", world.partition, other, *train, "-o", upload) == 0
    for name, model in (("ours", world.clients[0]), ("theirs", upload)):
        assert furlkit("embed", model, "--data", "digits", "-o", inbox / name) == 0
    return inbox


def test_rows_of_another_run_are_left_out_without_names(world, two_runs, run):
    """Rows of embed record no parent; the id that init writes tells the runs apart."""
    words = ("--rule", "ensemble", "--parent", world.model, "-o", world.folder / "e")
    done = run("aggregate", two_runs, *words)
    assert done.code == 0, done.err
    (line,) = reasons(done.err)
    assert str(two_runs / "theirs") in line and "is of run" in line


def test_files_of_two_runs_are_refused_without_a_parent(world, two_runs, refused):
    rows = (two_runs / "ours", two_runs / "theirs", "-o", world.folder / "e")
    words = ("aggregate", "--rule", "ensemble", *rows)
    refused(world.folder, 65, [two_runs / "theirs", "run"], *words)
    models = (world.clients[0], world.folder / "u", "-o", world.folder / "g1")
    refused(world.folder, 65, [world.folder / "u", "run"], "aggregate", *models)


def test_members_have_weights_and_limits(world, inbox, run, refused, tmp_path):
    members, output = tmp_path / "members", world.folder / "g1"
    words = command(world, inbox, "--members", members, "--force")
    members.write_text("# two sites\nst-mary weight=3\n\nnorth weight=1 # small\n")
    assert run(*words).code == 0
    assert whole_header(output).options["shares"] == [0.25, 0.75]
    assert Container(output).header.options["weights"] == "given"
    members.write_text("st-mary examples=100\nnorth examples=300\nwest\n")
    done = run(*words)
    assert done.code == 0 and "claims" in done.err
    assert whole_header(output).options["shares"] == [0.75, 0.25]
    assert "no upload in this round from west\n" in done.err


@pytest.mark.parametrize(
    "text, word",
    [
        ("", "no member"),
        ("st-mary\nnorth\nst-mary\n", "twice"),
        ("st*\n", "no client"),
        ("st-mary weight=0\n", "weight=NUMBER"),
        ("st-mary weight=nan\n", "weight=NUMBER"),
        ("st-mary 3\n", "weight=NUMBER"),
        ("st-mary weight=1 weight=2\n", "weight=NUMBER"),
        ("\x00\x1b[31m\n", "no client"),
        ("st-mary weight=1\nnorth\n", "every member"),
    ],
)
def test_members_that_cannot_be_read(world, inbox, refused, tmp_path, text, word):
    members = tmp_path / "members"
    members.write_text(text)
    words = command(world, inbox, "--members", members)
    refused(world.folder, 65, [members, word], *words)


def test_weights_in_a_file_are_a_list_of_members(world, inbox, run, forge, expected):
    """A stranger is left out, and the round is closed for later uploads."""
    fake(world, forge, inbox, "mallory", "mallory")
    weights = world.folder / "weights.json"
    weights.write_text('{"st-mary": 1, "north": 3}')
    words = command(world, inbox, "--weights", weights, "--at-least", 2)
    done = run(*words)
    assert done.code == 0, done.err
    (line,) = reasons(done.err)
    assert str(inbox / "mallory") in line and "no weight" in line
    assert whole_header(world.folder / "g1").options["shares"] == [0.75, 0.25]
    (inbox / "north").unlink()
    assert "closed" in run(*words).out


def test_a_thousand_files_of_strangers_print_one_line(
    world, inbox, run, forge, allowed
):
    """Members sign; the rest costs no process and no reading of tensors."""
    for word in ("a", "b", "c"):
        fake(world, forge, inbox, word, f"mallory-{word}")
    for k in range(997):
        os.link(inbox / "a", inbox / f"m{k}")
    for k in range(1000):
        (inbox / f"junk{k}").write_bytes(b"junk")
    done = run(*command(world, inbox, "--signers", allowed(*SITES), "--at-least", 2))
    assert done.code == 0
    lines = reasons(done.err)
    assert len(lines) == 2 and all("999 more files" in line for line in lines)
