"""Published files of a round between three sites: nothing about single sites.

Every file that leaves a site or the server is searched, byte by byte, for names, numbers
of images, seeds and hashes of files. A site's files may name the site, and contain what
--tell allows. Sites have names, or numbers without a partition.
"""

import os
import re
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from furlkit.aggregators.dictionary import drawn_places, mixed_order, unit_rows
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.clients import client_of
from furlkit.files.container.read import Container
from furlkit.files.container.write import write
from furlkit.files.features import read_features
from furlkit.files.private import read_private
from furlkit.files.secret import fingerprint_of, read_secret
from furlkit.inputs.images import open_images
from furlkit.models.embedding import embed_mixed
from furlkit.models.loading import load_net, view_of
from furlkit.randomness import numpy_generator, torch_generator
from tests.helpers import furlkit, tensor_bytes, whole_header
from tests.rounds.test_sites import folder_of_digits

# Names, numbers of images and seeds that occur nowhere else in a header.
SITES = {"st-mary": (0, 29), "north": (40, 37), "eastgate": (80, 43)}
NUMBERED = {"90417": (0, 29), "60352": (40, 37), "81264": (80, 43)}
SEEDS = dict(zip([*SITES, *NUMBERED], [48151, 62342, 77777] * 2, strict=True))
NET = ("--image-size", 8, "--channels", 3, "--width", 0.02, "--projector", "8,4")
BRIEF = ("--epochs", 1, "--batch-size", 8)
ROWS = ("--participants", 3, "--dictionary-size", 18)
METHODS = ("fedsimclr", "fedca", "fcl", "flesd", "fedsc", "orchestra", "heterossfl")


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    for name, place in {**SITES, **NUMBERED}.items():
        folder_of_digits(folder / name, *place)
    folder_of_digits(folder / "public", 140, 12)
    return folder


class Round:
    """A round of three sites; `sent` and `published` list the files that travel."""

    def __init__(self, images: Path, folder: Path, tell: str, sites=SITES):
        self.images, self.folder, self.tell, self.sites = images, folder, tell, sites
        self.sent: dict[str, list[Path]] = {name: [] for name in sites}
        self.published: list[Path] = []
        self.public = ("--data", images / "public")
        self.do("init", *NET, "--seed", 5, "-o", self("global_0"))

    def __call__(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def do(self, *words) -> None:
        assert furlkit(*words, "-q") == 0, words

    def train(self, name: str, *more, number: int = 1, send: bool = True) -> None:
        """Train a site; {} in the options stands for the name."""
        words = [str(word).replace("{}", name) for word in more]
        given = ("--data", self.images / name, "--client", name, "--seed", SEEDS[name])
        output = self(f"upload_{name}_{number}")
        self.do("local-train", self(f"global_{number - 1}"), *given, *BRIEF, *words,
                "--tell", self.tell, "--private-out", self(f"private_{name}_{number}"),
                "-o", output)  # fmt: skip
        if send:
            self.sent[name].append(output)

    def share(self, flag: str, number: int = 1) -> tuple:
        """Option for a further file that every site sends."""
        kind = flag.removeprefix("--")
        for name, files in self.sent.items():
            files.append(self(f"{kind}_{name}_{number}"))
        return flag, self(f"{kind}_{{}}_{number}")

    def embed(self, *more) -> list[Path]:
        """Every site sends outputs for public images."""
        rows = [self(f"rows_{name}") for name in self.sites]
        for (name, files), output in zip(self.sent.items(), rows, strict=True):
            model = self(f"upload_{name}_1")
            self.do("embed", model, *self.public, *more, "-o", output)
            files.append(output)
        return rows

    def aggregate(self, name: str, *words) -> Path:
        self.do("aggregate", *words, "-o", self(name))
        self.published.append(self(name))
        return self(name)

    def files(self, kind: str, number: int = 1) -> list[Path]:
        return [self(f"{kind}_{name}_{number}") for name in self.sites]

    def run(self, method: str) -> None:
        more: tuple = ()
        if method in ("fedca", "fcl"):
            more = (*ROWS, *self.share("--features-out"))
        if method == "fcl":
            more += ("--objective", "moco", "--share-rows", "instahide")
        if method == "fedsc":
            more = ("--objective", "spectral", "--correlations-noise", 0.1)
            more += self.share("--correlations-out")
        if method == "orchestra":
            more = ("--local-centroids", 4, *self.share("--centroids-out"))
        for name in self.sites:
            self.train(name, *more, send=method != "flesd")
        if method == "flesd":
            pooled = ("--rule", "ensemble", *self.embed("--layer", "z"))
            ensemble = self.aggregate("ensemble", *pooled)
            given = (ensemble, self("global_0"), *self.public, *BRIEF, "--anchors", 12)
            self.do("distill", *given, "-o", self("global_1"))
            self.published.append(self("global_1"))
            return
        parent = ("--parent", self("global_0"))
        self.aggregate("global_1", *self.files("upload"), *parent)
        if method in ("fedca", "fcl"):
            rows = self.files("features-out")
            self.aggregate("dictionary", "--rule", "dictionary", *rows)
        if method == "fedsc":
            matrices = self.files("correlations-out")
            self.aggregate("correlations", "--rule", "correlations", *matrices)
        if method == "orchestra":
            rows = self.files("centroids-out")
            self.aggregate("centroids", "--rule", "centroids", "--centroids", 4, *rows)
        if method == "heterossfl":
            rows = self.embed("--layer", "z", "--similarity")
            self.aggregate("kernel", "--rule", "kernels", *rows)

    def facts(self, tellers: set[str]) -> dict[str, str]:
        """Patterns of forbidden text, by description, except of the `tellers`."""
        others = self.sites.keys() - tellers
        found = {f"name {name}": mention(name) for name in others}
        for name, (_, count) in self.sites.items():
            found[f"seed of {name}"] = rf"\b{SEEDS[name]}\b"
            if name not in tellers or "examples" not in self.tell:
                found[f"images of {name}"] = rf"(?<![\w.]){count}(?![\w.])"
        total = sum(count for _, count in self.sites.values())
        found["images of all sites"] = rf"\b{total}\b"
        for name in self.sites:
            images = Container(self(f"private_{name}_1")).header.facts["dataset"]
            hashes = {k: v for k, v in images.items() if k != "examples" and v}
            assert hashes
            found |= {f"hash of the {k} of {name}": v for k, v in hashes.items()}
        for secret in self.folder.glob("*.secret"):
            found[f"fingerprint of {secret.name}"] = fingerprint_of(secret)
        for path in self.folder.glob("*.safetensors"):
            if path not in self.published and path != self("global_0"):
                found[f"hash of {path.name}"] = Container(path).content
        return found


def mention(name: str) -> str:
    """Pattern of a name, or of a number that is no part of a hash or a loss."""
    return rf"(?<![0-9a-f.]){name}(?![0-9a-f])" if name.isdecimal() else name


def head(path: Path) -> str:
    """Text of the header's metadata; sizes and offsets of tensors are no counts."""
    raw = path.read_bytes()
    text = raw[8 : 8 + int.from_bytes(raw[:8], "little")].decode()
    return re.sub(r'"(shape|data_offsets)":\[[\d,]*\]', "", text)


PLAYS = [(m, "examples,loss") for m in METHODS] + [("fedca", "nothing")]


@pytest.fixture(
    scope="module",
    params=[(*play, sites) for sites in (SITES, NUMBERED) for play in PLAYS],
    ids=lambda play: f"{play[0]} {play[1]} {'numbers' if play[2] is NUMBERED else ''}",
)
def played(request, images, tmp_path_factory) -> Round:
    method, tell, sites = request.param
    played = Round(images, tmp_path_factory.mktemp("played"), tell, sites)
    played.run(method)
    return played


def test_no_published_file_tells_about_single_sites(played):
    assert played.published and all(played.sent.values())
    texts = {path: (head(path), set()) for path in played.published}
    for name, files in played.sent.items():
        # The hash of the site's file is in the header as the name of the file.
        texts |= {path: (head(path), {name}) for path in files}
    for path, (text, tellers) in texts.items():
        own = Container(path).content
        for what, pattern in played.facts(tellers).items():
            if pattern != own:
                assert not re.search(pattern, text), f"{path.name} has the {what}"
    for path in played.published:
        header = Container(path).header
        assert header.seed in (None, 0)  # Of the server's distill.
        assert "shares" not in header.options
        assert header.facts["round"] == 1 and header.facts["run"]


def test_tensors_of_published_models_have_no_counts(played):
    """BatchNorm counts batches: the largest number is of the largest site."""
    before = read_checkpoint(played("global_0")).tensors
    for path in played.published:
        for name, array in Container(path).tensors().items():
            combined = Container(path).header.stage == "aggregate"
            if name.endswith("num_batches_tracked") and combined:
                online = name.removeprefix("target.")
                np.testing.assert_array_equal(array, before[online])
        assert "counts" not in Container(path)


def test_records_have_the_whole_header_and_stay(played, run):
    for path in played.published:
        if Container(path).header.stage != "aggregate":
            continue
        record = path.with_suffix(".record")
        assert stat.S_IMODE(record.stat().st_mode) == 0o600
        clients = {f"client {n}" for n in played.sites}
        assert whole_header(path).inputs.keys() >= clients
        done = run("inspect", "--outgoing", record)
        assert done.code == 65 and str(record) in done.err
    name = [*played.sites][1]
    upload = played(f"upload_{name}_1")
    for secret in played.folder.glob(f"{name}.secret"):  # Of fedca, fcl and fedsc.
        for path in (upload.with_suffix(".record"), played(f"private_{name}_1")):
            assert Container(path).header.facts["secret"] == fingerprint_of(secret)
    images = Container(played(f"private_{name}_1")).header.facts["dataset"]
    assert Container(upload.with_suffix(".record")).header.facts["dataset"] == images
    assert whole_header(upload).seed == SEEDS[name]
    assert stat.S_IMODE(upload.with_suffix(".record").stat().st_mode) == 0o600


# --- records --------------------------------------------------------------------------


@pytest.fixture
def fedca(images, tmp_path) -> Round:
    played = Round(images, tmp_path, "examples,loss")
    played.run("fedca")
    return played


def test_replay_ledger_and_report_need_the_record(fedca, run):
    model, record = fedca("global_1"), fedca.folder / "global_1.record"
    done = run("replay", model, "--run", "--depth", 1)
    assert done.code == 0 and "same bytes" in done.out, done.err
    done = run("ledger", fedca.folder)
    assert done.code == 0 and "eastgate" in done.out and "record" not in done.err
    files = sorted(fedca.folder.glob("*.safetensors"))  # Records lie beside them.
    assert run("ledger", *files).out == done.out
    done = run("report", fedca.folder, "-o", fedca.folder / "page.html")
    assert done.code == 0
    assert "eastgate" in (fedca.folder / "page.html").read_text()
    moved = fedca.folder.parent / "elsewhere" / "global_1.record"
    moved.parent.mkdir()
    record.rename(moved)
    done = run("replay", model, "--run", "--depth", 1)
    assert done.code == 65 and str(model) in done.err and "record" in done.err
    done = run("replay", model, "--run", "--depth", 1, "--among", moved.parent)
    assert done.code == 0 and "same bytes" in done.out, done.err
    done = run("ledger", fedca.folder)
    assert str(model) in done.err and "--record" in done.err
    assert "record" not in run("ledger", fedca.folder, moved.parent).err
    assert run("report", fedca.folder, "-o", fedca.folder / "page.html").code == 0
    assert "give the folder of --record" in (fedca.folder / "page.html").read_text()
    for kept in (moved.parent, moved):
        done = run("report", fedca.folder, kept, "-o", fedca.folder / "page.html")
        assert done.code == 0 and "1 run" in done.out, done.err
        page = (fedca.folder / "page.html").read_text()
        assert "eastgate" in page and "give the folder of --record" not in page
        done = run("report", kept, "-o", fedca.folder / "page.html")
        assert done.code == 65 and str(kept) in done.err
        assert "the folder of" in done.err


def test_replay_repeats_the_files_of_a_site(fedca, run):
    name = next(iter(fedca.sites))
    secret = fedca.folder / f"{name}.secret"
    given = ("--data", fedca.images / name, "--secret", secret, "--depth", 1)
    for kind in ("upload", "features-out"):
        path = fedca(f"{kind}_{name}_1")
        done = run("replay", path, *given, "--run")
        assert done.code == 0 and "same bytes" in done.out, done.out + done.err
    done = run("replay", path, "--run", "--secret", secret, "--depth", 1)
    assert done.code == 65 and str(path) in done.out and "29 images" in done.out
    record = path.with_suffix(".record")
    facts = dict(Container(record).header.facts)
    del facts["dataset"]
    header = replace(Container(record).header.unsealed(), facts=facts)
    write(record, {}, header)
    done = run("replay", path, *given)
    assert done.code == 65 and "older" in done.out and "DATASET" in done.out


def test_replay_uses_a_secret_for_the_files_of_the_site(fedca, run, refused):
    name, other, _ = fedca.sites
    path, missing = fedca(f"features-out_{name}_1"), fedca.folder / "none.secret"
    given = ("replay", path, "--data", fedca.images / name, "--depth", 1)
    refused(fedca.folder, 65, [missing, "no such file"], *given, "--secret", missing)
    wrong = fedca.folder / f"{other}.secret"
    words = [wrong, path.with_suffix(".record"), "fingerprint"]
    refused(fedca.folder, 65, words, *given, "--secret", wrong)
    pairs = (("--data", fedca.images / each) for each in fedca.sites)
    data = [word for pair in pairs for word in pair]
    done = run("replay", fedca("dictionary"), *data, "--secret", wrong, "--run")
    assert done.code == 0, done.out + done.err
    lines = {line.split(":")[0]: line for line in done.out.splitlines()}
    assert "same bytes" in lines[str(fedca(f"features-out_{other}_1"))]
    assert "not known as the secret" in lines[str(path)]


def test_replay_refuses_a_record(fedca, refused):
    record = fedca.folder / "global_1.record"
    refused(fedca.folder, 65, [record, "is a record"], "replay", record)


def test_a_repeated_command_changes_nothing(fedca, run):
    words = ("aggregate", *fedca.files("upload"), "--parent", fedca("global_0"))
    files = [fedca("global_1"), fedca.folder / "global_1.record"]
    before = [path.read_bytes() for path in files]
    done = run(*words, "-o", files[0])
    assert done.code == 0 and "already there" in done.out
    for path in files:
        path.unlink()
        done = run(*words, "-o", files[0])
        assert done.code == 0 and "already there" not in done.out
        assert [path.read_bytes() for path in files] == before
    done = run(*words, "--named", "-o", files[0])
    assert done.code == 0 and "already there" not in done.out
    assert "client north" in Container(files[0]).header.inputs
    done = run(*words, "-o", files[0])
    assert [path.read_bytes() for path in files] == before


def test_a_record_has_a_place_of_its_own(fedca, run, refused):
    words = ("aggregate", *fedca.files("upload"))
    record, output = fedca.folder / "kept" / "r.record", fedca("g")
    assert run(*words, "--record", record, "-o", output).code == 0
    assert record.exists() and not (fedca.folder / "g.record").exists()
    command = (*words, "--named", "--record", record, "-o", output)
    refused(fedca.folder, 2, ["--record", "--named"], *command)
    taken = fedca.files("upload")[0]
    refused(fedca.folder, 2, [taken], *words, "--record", taken, "-o", output)


def test_a_record_replaces_no_file_and_no_record_of_another_output(fedca, run, refused):
    words = ("aggregate", *fedca.files("upload"))
    first, second = fedca("g1"), fedca("g2")
    record, text = fedca.folder / "kept.record", fedca.folder / "notes.txt"
    text.write_text("notes")
    assert run(*words, "--record", record, "-o", first).code == 0
    for taken in (first, text, fedca("global_0")):
        command = (*words, "--record", taken, "-o", second)
        refused(fedca.folder, 65, [taken, "no record"], *command)
        refused(fedca.folder, 65, [taken, "no record"], *command, "--force")
    text.write_text("")
    assert run(*words, "--record", text, "-o", second).code == 0
    second.unlink()
    other = ("aggregate", *fedca.files("upload")[:2], "--record", record)
    refused(fedca.folder, 65, [record, "another file"], *other, "-o", second)
    assert run(*other, "-o", first).code == 0
    assert run(*other, "-o", first, "--force").code == 0
    first.unlink()
    assert run(*other, "-o", first).code == 0
    of_first = second.with_suffix(".record")
    first.unlink()
    assert run(*words, "--record", of_first, "-o", first).code == 0
    refused(fedca.folder, 65, [of_first, "another file"], *words, "-o", second)
    of_first.unlink()
    rows = (*fedca.public, "--layer", "z", "-o", fedca("rows"))
    foreign = fedca.folder / "rows.record"
    foreign.write_text("notes")
    model = fedca.files("upload")[0]
    refused(fedca.folder, 65, [foreign, "no record"], "embed", model, *rows)
    second.with_suffix(".record").write_text("notes")
    taken = [second.with_suffix(".record"), "no record"]
    refused(fedca.folder, 65, taken, *words, "-o", second)


def test_the_records_of_a_site_replace_no_file(fedca, refused):
    name, foreign = next(iter(fedca.sites)), fedca.folder / "new.record"
    words = ("local-train", fedca("global_0"), "--data", fedca.images / name,
             "--client", name, *BRIEF, *ROWS, "--secret", fedca.folder / "s",
             "--private-out", fedca("kept"), "-o", fedca("new"))  # fmt: skip
    rows = ("--features-out", fedca.folder / "new")
    refused(fedca.folder, 2, [foreign, "twice"], *words, *rows)
    foreign.write_text("notes")
    rows = ("--features-out", fedca("other"))
    refused(fedca.folder, 65, [foreign, "no record"], *words, *rows)
    refused(fedca.folder, 65, [foreign, "no record"], *words, *rows, "--force")


def test_the_record_of_distill_replaces_no_input(fedca, refused):
    taken = fedca.files("upload")[0]
    words = (
        "distill",
        *fedca.files("upload"),
        fedca("global_0"),
        *fedca.public,
        *BRIEF,
    )
    words += ("--teacher", "models", "-o", fedca("taught"))
    before = taken.read_bytes()
    for path in (taken, fedca("global_0"), fedca("taught")):
        refused(fedca.folder, 2, ["--record", path], *words, "--record", path)
    model = fedca("global_1")
    refused(fedca.folder, 65, [model, "no record"], *words, "--record", model)
    assert taken.read_bytes() == before


@pytest.mark.parametrize("more", [("--record", "r"), ("--named",), ("--anonymous",)])
def test_options_of_the_server_do_not_apply_to_the_model_of_a_site(
    fedca, refused, more
):
    words = (
        "distill",
        fedca.files("upload")[1],
        *fedca.public,
        "--teacher",
        "contrast",
    )
    words += (*BRIEF, "-o", fedca("taught"))
    refused(fedca.folder, 2, [more[0], "north"], *words, *more)


def test_the_memory_of_the_server_is_for_the_owner(fedca, run):
    words = ("aggregate", "--rule", "fedavgm", *fedca.files("upload"))
    words += ("--parent", fedca("global_0"), "--state-out", fedca("state"))
    assert run(*words, "-o", fedca("g")).code == 0
    assert stat.S_IMODE(fedca("state").stat().st_mode) == 0o600


def test_rows_of_a_small_site_are_a_warning(fedca, run, forge):
    rows = fedca.files("features-out")
    words = ("aggregate", "--rule", "dictionary", *rows)
    assert "number of images" not in run(*words, "-o", fedca("d")).err
    own = Container(rows[1])
    some = {name: array[:4] for name, array in own.tensors().items()}
    forge(rows[1], tensors=some, facts={"examples": 4})
    done = run(*words, "-o", fedca("d"))
    assert done.code == 0 and str(rows[1]) in done.err
    assert "4 rows" in done.err and "number of images" in done.err
    done = run(*words, "--named", "-o", fedca("d"))
    assert done.code == 0 and "number of images" not in done.err


def test_an_inbox_leaves_a_record_out_and_passes_over_signatures(fedca, run):
    inbox = fedca.folder / "inbox"
    inbox.mkdir()
    for path in fedca.files("upload"):
        (inbox / path.name).write_bytes(path.read_bytes())
        (inbox / f"{path.name}.sig").write_text("-----BEGIN SSH SIGNATURE-----\n")
    record = inbox / "x.record"
    record.write_bytes(fedca.files("upload")[0].with_suffix(".record").read_bytes())
    words = ("aggregate", inbox, "--parent", fedca("global_0"), "-o", fedca("g"))
    done = run(*words)
    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if "left out" in line]
    assert str(record) in line and "must not be sent" in line
    assert fedca("g").read_bytes() == fedca("global_1").read_bytes()


def test_numbered_clients_have_whole_headers_and_no_record(world, run):
    output = world.output
    output.unlink()
    assert run("aggregate", *world.clients, "-o", output).code == 0
    header = Container(output).header
    assert header.inputs.keys() == {"client 0", "client 1", "client 2"}
    assert len(header.options["shares"]) == 3 and "anonymous" not in header.options
    assert Container(world.clients[0]).header.seed == 0
    assert not list(world.folder.glob("*.record"))
    whole = output.read_bytes()
    assert run("aggregate", *world.clients, "--anonymous", "-o", output).code == 0
    assert not Container(output).header.inputs
    assert run("aggregate", *world.clients, "-o", output).code == 0
    assert output.read_bytes() == whole


def test_a_model_taught_by_sites_does_not_name_the_sites(fedca):
    net = (*NET, "--objective", "byol", "--predictor", "8,4")
    fedca.do("init", *net, "-o", fedca("student"))
    given = (*fedca.files("upload"), fedca("student"), "--teacher", "models")
    fedca.do("distill", *given, *fedca.public, *BRIEF, "-o", fedca("taught"))
    assert not any(name in head(fedca("taught")) for name in SITES)
    assert whole_header(fedca("taught")).inputs.keys() > {f"client {n}" for n in SITES}


# --- numbers without a partition ------------------------------------------------------


@pytest.fixture
def numbered(images, tmp_path) -> Round:
    played = Round(images, tmp_path, "examples,loss", NUMBERED)
    played.run("fedca")
    return played


def test_commands_recognise_the_model_of_a_site_with_a_number(numbered, run, refused):
    upload = numbered("upload_60352_1")
    noise = ("embed", upload, *numbered.public, "--layer", "z", "--noise", 0.1)
    words = (*noise, "-o", numbered("noisy"))
    refused(numbered.folder, 2, [upload, "60352", "--secret"], *words)
    secret = ("--secret", numbered.folder / "60352.secret")
    assert run(*words, *secret).code == 0
    assert numbered("noisy").with_suffix(".record").exists()
    teach = ("distill", upload, *numbered.public, "--teacher", "contrast", *BRIEF)
    teach += ("-o", numbered("taught"))
    refused(numbered.folder, 2, ["--named", "60352"], *teach, "--named")
    assert run(*teach).code == 0
    assert Container(numbered("taught")).header.seed is None
    net = (*NET, "--objective", "byol", "--predictor", "8,4")
    numbered.do("init", *net, "-o", numbered("student"))
    given = (*numbered.files("upload"), numbered("student"), "--teacher", "models")
    numbered.do("distill", *given, *numbered.public, *BRIEF, "-o", numbered("pupil"))
    text = head(numbered("pupil"))
    assert not any(re.search(mention(name), text) for name in NUMBERED)


def test_the_record_completes_the_header_of_a_site_with_a_number(numbered, run):
    done = run("replay", numbered("global_1"), "--run", "--depth", 1)
    assert done.code == 0 and "same bytes" in done.out, done.err
    done = run("ledger", numbered.folder)
    assert done.code == 0 and "60352" in done.out and "record" not in done.err


def test_rows_of_earlier_versions_with_a_number_are_of_a_simulation(numbered, forge):
    """Only the short header tells the site; earlier versions wrote whole headers."""
    rows = numbered.files("features-out")
    for path in rows:
        forge(path, options={}, seed=0)
    words = ("aggregate", "--rule", "dictionary", *rows)
    numbered.do(*words, "-o", numbered("simulated"))
    assert read_features(numbered("simulated")).facts.owners is not None
    uploads = numbered.files("upload")  # Without a partition in every version.
    for path in uploads:
        forge(path, options={}, seed=0)
    numbered.do("aggregate", *uploads, "-o", numbered("g"))
    assert not Container(numbered("g")).header.inputs


# --- rows -----------------------------------------------------------------------------


def test_the_order_of_a_dictionary_depends_on_the_rows_alone():
    rows = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    mixed = mixed_order(rows)
    assert {row.tobytes() for row in mixed} == {row.tobytes() for row in rows}
    for seed in range(3):
        other = np.random.default_rng(seed).permutation(50)
        np.testing.assert_array_equal(mixed_order(rows[other]), mixed)
    assert not np.array_equal(mixed, rows)


def second(fedca: Round, name: str, dictionary: Path, output: str) -> bytes:
    """Train a second round without the site's rows; return the tensors."""
    more = ("--dictionary", dictionary, "--leave-own-out", "--objective", "simclr")
    given = ("--data", fedca.images / name, "--client", name, *BRIEF)
    private = ("--private", fedca(f"private_{name}_1"))
    fedca.do("local-train", fedca("global_1"), *given, *more, *private,
             "-o", fedca(output))  # fmt: skip
    return tensor_bytes(fedca(output))


@pytest.mark.parametrize("sites", [SITES, NUMBERED], ids=["names", "numbers"])
def test_own_rows_are_found_by_content_as_by_owners(images, tmp_path, forge, sites):
    fedca = Round(images, tmp_path, "examples,loss", sites)
    fedca.run("fedca")
    rows = fedca.files("features-out")
    words = ("aggregate", "--rule", "dictionary", *rows, "--named")
    fedca.do(*words, "-o", fedca("owned"))
    owned = read_features(fedca("owned"))
    assert owned.facts.owners == [[client_of(name), 6] for name in sorted(sites)]
    free = fedca.folder / "free.safetensors"
    free.write_bytes(fedca("owned").read_bytes())
    forge(free, facts={"owners": None})
    assert read_features(free).facts.owners is None
    for name in [*sites][1:]:
        by_owner = second(fedca, name, fedca("owned"), f"by_owner_{name}")
        assert second(fedca, name, free, f"by_content_{name}") == by_owner
    private = fedca(f"private_{[*sites][1]}_1")
    kept = read_private(private).memory["shared_rows.rows"]
    np.testing.assert_array_equal(kept, read_features(rows[1]).rows)


def test_all_rows_without_a_private_file_are_a_warning(fedca, run):
    given = ("--data", fedca.images / "north", "--client", "north", *BRIEF)
    more = ("--dictionary", fedca("dictionary"), "--leave-own-out")
    words = ("local-train", fedca("global_1"), *given, *more, "-o", fedca("u"))
    done = run(*words)
    assert done.code == 0 and "--leave-own-out" in done.err
    assert str(fedca("dictionary")) in done.err


def test_dictionaries_for_single_sites_are_a_warning(fedca, run):
    rows = fedca.files("features-out")
    words = ("aggregate", "--rule", "dictionary", *rows, "--for", "north")
    done = run(*words, "-o", fedca("d"))
    assert done.code == 0 and "--for north" in done.err
    assert not any(name in head(fedca("d")) for name in ("st-mary", "eastgate"))


def remade(fedca: Round, images: Path, key: int, number: int) -> np.ndarray:
    """InstaHide's rows of north by a key of the draws, from the upload and the images."""
    model = read_checkpoint(fedca("upload_north_1"))
    found = open_images(Source(str(images / "north")), model)
    facts = read_features(fedca("features-out_north_1")).facts
    purpose = (key, "share", number, "north", facts.run, facts.parent)
    places = drawn_places(37, 6, numpy_generator(*purpose))
    net = load_net(model, torch.device("cpu"))
    view = view_of(model, Augmentation())
    rng, index = torch_generator(*purpose, "mix"), np.arange(37)
    z = embed_mixed(net, found.images, index, places, view, rng, True).numpy()
    return unit_rows(z[drawn_places(6, 6, numpy_generator(*purpose))])


def test_mixtures_cannot_be_remade_from_public_facts(images, tmp_path):
    """An attacker with every image of the site, the model, the name and all headers."""
    played = Round(images, tmp_path, "examples,loss")
    rows = (*ROWS, "--share-rows", "instahide", *played.share("--features-out"))
    for name in SITES:
        played.train(name, *rows)
    shared = read_features(played("features-out_north_1")).rows
    secret = read_secret(tmp_path / "north.secret")
    np.testing.assert_allclose(remade(played, images, secret, 1), shared, atol=1e-5)
    texts = [head(path) for files in played.sent.values() for path in files]
    numbers = {int(n) for text in texts for n in re.findall(r"\b\d{1,15}\b", text)}
    hashes = {int(h, 16) for text in texts for h in re.findall("[0-9a-f]{16,64}", text)}
    public = {0, 1, 5, *numbers, *hashes, *SEEDS.values()}
    assert secret not in public
    for key in public:
        closest = np.abs(remade(played, images, key, 1) - shared).max(axis=1).min()
        # Rows of a small net lie close together; a remade row agrees to 1e-5.
        assert closest > 2e-5, key


def test_noise_on_correlations_comes_from_the_secret(images, tmp_path):
    """Equal seeds and images with another secret give other noise."""
    played = Round(images, tmp_path, "nothing")
    more = ("--objective", "spectral", "--correlations-noise", 0.1)
    more += ("--correlations-out", played("c_{}"))
    played.train("north", *more)
    first = played("c_north").read_bytes()
    assert Container(played("c_north")).header.options["drawn-by"] == "secret"
    played.train("north", *more, "--force")
    assert played("c_north").read_bytes() == first
    (tmp_path / "north.secret").write_bytes(os.urandom(32))
    played.train("north", *more, "--force")
    assert tensor_bytes(played("c_north")) != first
    R = Container(played("c_north")).tensors()["R"]
    assert torch.isfinite(torch.from_numpy(R)).all()


def test_two_noisy_correlations_of_one_round_have_different_noise(images, tmp_path):
    """Equal noise would cancel in the difference of two files."""
    played = Round(images, tmp_path, "nothing")
    share = ("--objective", "spectral", "--correlations-out", played("c_{}"))

    def matrix(*more):
        played.train("north", *share, *more, "--force")
        return Container(played("c_north")).tensors()["R"].astype(float)

    noise = []
    for sigma, lr in ((1, 0.01), (1, 0.5), (2, 0.01)):
        plain, noisy = (
            matrix("--lr", lr, "--correlations-noise", s) for s in (0, sigma)
        )
        noise.append((noisy - plain) / sigma)
    for one, other in ((0, 1), (0, 2)):
        assert np.abs(noise[one] - noise[other]).max() > 0.1
