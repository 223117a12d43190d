"""Receipts: fingerprints of commands, and the file that keeps them."""

import json
from pathlib import Path

import pytest

from furlkit.files import receipts
from furlkit.files.contents import Contents, content_of
from furlkit.files.receipts import Receipt, call_of


def fingerprint(*words, client=None, folder="exp"):
    call = call_of(words, client, {"--private-out"})
    return call.fingerprint(folder, content_of, lambda name: None)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("one")
    Path("b").write_text("two")
    Path("exp/plan").mkdir(parents=True)
    return tmp_path


def test_a_fingerprint_has_contents_in_place_of_names(here):
    first = fingerprint("x", "a", "--data", "b", "-o", "out")
    Path("a").rename("c")
    assert fingerprint("x", "c", "--data", "b", "-o", "elsewhere") == first
    assert fingerprint("x", "c", "--data=b", "-o", "out") == first
    assert fingerprint("x", "b", "--data", "c", "-o", "out") != first
    Path("b").write_text("three")
    assert fingerprint("x", "c", "--data", "b", "-o", "out") != first


def test_words_that_decide_no_byte_are_left_out(here):
    plain = fingerprint("x", "--k", "3", "-o", "out")
    silent = ("--cache", "c", "--data-root=d", "--download", "-q", "--json")
    assert fingerprint("x", "--k", "3", *silent, "-o", "out") == plain
    assert fingerprint("x", "--private-out", "p", "--k", "3", "-o", "out") != plain
    assert fingerprint("x", "--k", "4", "-o", "out") != plain


def test_one_client_of_several_has_the_fingerprint_of_its_own_command(here):
    Path("p_1").write_text("private")
    alone = ("--client", "1", "--private", "p_1", "-o", "u_1")
    together = ("--client", "0,1", "--private", "p_{client}", "-o", "u_{client}")
    assert fingerprint(*together, client=1) == fingerprint(*alone)
    assert call_of(together, 1, ()).output == "u_1"
    assert fingerprint(*together, client=0) != fingerprint(*alone)


def test_files_in_a_word_count_by_content(here):
    first = fingerprint("plot", "--series", "label=a,b")
    Path("a").write_text("other")
    assert fingerprint("plot", "--series", "label=a,b") != first


def test_the_folder_of_a_run_has_no_name(here):
    assert fingerprint("x", "exp/r1") == fingerprint("x", "new/r1", folder="new")


def test_the_last_receipt_counts_and_broken_lines_do_not(here):
    receipts.append("exp", {"exp/r1/a": Receipt("1", ["x"]), "exp/b": Receipt("2")})
    made = Path("exp", receipts.MADE)
    with open(made, "a") as stream:
        stream.write('["r1/a", "3"')  # A process was killed here.
    receipts.append("exp", {"exp/b": Receipt("4", ["y", None])})
    for line in ("[]", "{}", "3", '["b"]', '["b", "5", 3]', '["b", "5", [], "", ""]'):
        with open(made, "a") as stream:
            stream.write(f"\n{line}\n")
    assert receipts.read("exp") == {
        "r1/a": Receipt("1", ["x"]), "b": Receipt("4", ["y", None])
    }  # fmt: skip


def test_receipts_do_not_follow_links(here):
    Path("exp", receipts.MADE).symlink_to(here / "a")
    receipts.append("exp", {"exp/b": Receipt("1")})
    assert Path("a").read_text() == "one"


def test_contents_are_kept_until_a_file_changes(here):
    cache = Path("exp/plan/contents.json")
    contents = Contents(cache)
    first = contents.of("a")
    contents.save()
    assert first == content_of("a") and contents.of("none") is None
    saved = json.loads(cache.read_text())
    saved["a"][-1] = "kept"  # Nobody opens the file again.
    cache.write_text(json.dumps(saved))
    assert Contents(cache).of("a") == "kept"
    Path("a").write_text("changed")
    assert Contents(cache).of("a") == content_of("a")
    for text in ("", "[]", '{"a": 3}', '{"a": [1]}', "\xff"):
        cache.write_text(text, "latin-1")
        assert Contents(cache).of("a") == content_of("a")


def test_the_content_of_a_furlkit_file_is_in_its_header(world):
    from furlkit.files.container.read import Container

    assert content_of(str(world.model)) == Container(world.model).content


def test_receipts_keep_the_warnings_of_a_command(tmp_path):
    (tmp_path / "plan").mkdir()
    call = receipts.call_of(["init", "-o", str(tmp_path / "a")], None, ())
    warned = {"odd"}
    with receipts.noting(str(tmp_path), [call], lambda name: None, warned):
        warned.add("b" * 600)
    (found,) = receipts.read(str(tmp_path)).values()
    assert found.warnings == ["b" * 500, "odd"]


def test_a_failed_command_leaves_error_and_warnings(tmp_path):
    (tmp_path / "plan").mkdir()
    call = receipts.call_of(["init", "-o", str(tmp_path / "a")], None, ())
    with (
        pytest.raises(ValueError, match="broken"),
        receipts.noting(str(tmp_path), [call], lambda name: None, ["odd"]),
    ):
        raise ValueError("broken")
    (found,) = receipts.read(str(tmp_path)).values()
    assert (found.error, found.warnings) == ("broken", ["odd"])
