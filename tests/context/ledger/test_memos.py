"""Memos: found by what a prompt is about, in the project's ledger and the user's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sightline.context.ledger import Ledger, Memos, MemoShelf
from sightline.errors import InvalidInput, NotFound, TooLarge


@pytest.fixture
def memos(ledger: Ledger) -> Ledger:
    ledger.memos.save("Ports are allocated from 4100 upwards.", ["Arch Decision", "ports"])
    ledger.memos.save("The parser must not recurse: deep input killed it.", ["gotcha", "parser"])
    ledger.memos.save("Dates on the wire are UTC; the parser rejects others.", ["api-design"])
    return ledger


def ids(found: list[object]) -> list[int]:
    return [memo.id for memo in found]  # type: ignore[attr-defined]  # memos in, numbers out


def test_tags_have_one_spelling(ledger: Ledger) -> None:
    memo = ledger.memos.save("x", ["#Arch_Decision", "arch decision", "ARCH-DECISION", "b!"])
    assert memo.tags == ("arch-decision", "b")


@pytest.mark.parametrize("tags", [[], ["!!"], ["x" * 65], [f"t{n}" for n in range(33)]])
def test_a_memo_without_usable_tags_is_refused(ledger: Ledger, tags: list[str]) -> None:
    with pytest.raises(InvalidInput):
        ledger.memos.save("content", tags)
    assert ledger.memos.recent() == []


def test_a_memo_needs_content_and_has_a_limit(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="needs content"):
        ledger.memos.save("  \n", ["t"])
    with pytest.raises(TooLarge, match="the memo"):
        ledger.memos.save("x" * 70_000, ["t"])


def test_memos_are_found_by_tags_and_their_hyphenated_parts(memos: Ledger) -> None:
    assert ids([*memos.memos.tagged(["arch"])]) == [1]
    assert ids([*memos.memos.tagged(["Arch Decision", "ports"])]) == [1]
    assert ids([*memos.memos.tagged(["api", "gotcha"])]) == [3, 2]
    assert memos.memos.tagged(["absent"]) == []


def test_a_match_in_a_tag_comes_before_one_in_content(memos: Ledger) -> None:
    assert ids([*memos.memos.relevant("why does the PARSER, of all, fail?")]) == [2, 3]


def test_more_matches_come_first_then_the_newer(memos: Ledger) -> None:
    assert ids([*memos.memos.relevant("dates that the parser rejects, wire format")]) == [
        2,
        3,
    ]
    assert ids([*memos.memos.search("parser")]) == [3, 2]
    assert ids([*memos.memos.search("parser recurse")]) == [2, 3]


def test_memos_are_found_by_the_stems_of_their_words(ledger: Ledger) -> None:
    ledger.memos.save("Testing needs a database; caches are cleared before.", ["retry-policies"])
    for prompt in ("how do the tests run?", "TESTED?", "cache", "which retries?", "our policy"):
        assert ids([*ledger.memos.relevant(prompt)]) == [1], prompt
    assert ids([*ledger.memos.search("cached databases")]) == [1]
    assert ids([*ledger.memos.tagged(["Retry Policy"])]) == [1]
    assert ledger.memos.relevant("a contest for testaments") == []


@pytest.mark.parametrize(
    ("content", "prompt"),
    [
        ("Ares owns this", "who is Ares?"),
        ("call parse_args and HTTPServer2", "parse_args"),
        ("call parse_args and HTTPServer2", "httpserver2"),
        ("Die Größe der Straße", "GRÖSSE?"),
        ("Die Größe der Straße", "strasse"),
        ("Le café est fermé", "cafe"),
        ("Le cafe\u0301 est ferme\u0301", "Café"),
        ("日本語 を使う", "日本語"),
        ("the user\u2019s choice", "user's"),
        ("read-only mode", "read-only"),
        ("x" * 300, "x" * 300),
    ],
)
def test_a_word_of_any_kind_is_found_by_itself(ledger: Ledger, content: str, prompt: str) -> None:
    ledger.memos.save(content, ["t"])
    ledger.memos.save("there are others", ["t"])
    assert ids([*ledger.memos.relevant(prompt)]) == [1]
    assert ledger.verify().ok


def test_a_tag_with_an_accent_is_found_with_and_without_it(ledger: Ledger) -> None:
    ledger.memos.save("x", ["Größe", "cafés"])
    for prompt in ("die Größe", "grosse", "café", "cafe"):
        assert ids([*ledger.memos.relevant(prompt)]) == [1], prompt
    assert ids([*ledger.memos.tagged(["GRÖSSE"])]) == [1]


def test_who_has_no_memos_does_not_import_the_stemmer(tmp_path: Path) -> None:
    asked = "ledger.memos.relevant('how do the tests run?')"
    program = (
        "import sys; from sightline.context.ledger import Ledger\n"
        f"with Ledger({str(tmp_path / 'l.db')!r}) as ledger: print({asked})\n"
        "print('snowballstemmer' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"[]", b"False"]


@pytest.mark.parametrize("prompt", ["continue", "go on", "next, please!", "ok", "...", "", "don't"])
def test_phrases_that_mean_nothing_find_nothing(memos: Ledger, prompt: str) -> None:
    memos.memos.save("continue go on next please ok don t", ["noise"])
    assert memos.memos.relevant(prompt) == []


@pytest.mark.parametrize(
    "prompt", ['" OR 1', "NEAR(a b)", "a* -b ^c", "content:ports", "'; DROP", "ports\x00", "AND OR"]
)
def test_a_prompt_is_never_read_as_a_search_language(memos: Ledger, prompt: str) -> None:
    memos.memos.relevant(prompt)
    memos.memos.search(prompt)


@pytest.mark.of_a_file
def test_the_words_of_a_deleted_or_edited_memo_are_nowhere_in_the_file(memos: Ledger) -> None:
    memo = memos.memos.save("the xylophone is out of tune", ["quixotic"])
    edited = memos.memos.save("zeppelins are slow", ["transport"])
    memos._store.scrub()
    assert all(word in memos.path.read_bytes() for word in (b"ylophone", b"eppelins"))
    memos.memos.edit(edited.id, content="ships are slow")
    memos.memos.delete(memo.id)
    left = b"".join(path.read_bytes() for path in memos.path.parent.iterdir())
    for word in (b"ylophone", b"uixotic", b"eppelins"):
        assert word not in left
    assert memos.verify().ok


def test_a_memo_that_is_only_a_tail_has_no_content(memos: Ledger) -> None:
    for content in ("", "  \n", "<slop-state>\n[root] app\n</slop-state>"):
        with pytest.raises(InvalidInput, match="needs content"):
            memos.memos.save(content, ["tag"])


def test_five_at_most_come_by_themselves(ledger: Ledger) -> None:
    for number in range(9):
        ledger.memos.save(f"note {number}", ["deploy"])
    assert ids([*ledger.memos.relevant("how do we deploy?")]) == [9, 8, 7, 6, 5]


def test_an_edited_memo_is_found_by_its_new_words_and_is_the_newest(memos: Ledger) -> None:
    memo = memos.memos.edit(1, content="Sockets live under /run.", tags=["sockets"])
    assert memo.tags == ("sockets",)
    assert memos.memos.relevant("which ports?") == []
    assert ids([*memos.memos.relevant("sockets")]) == [1]
    assert ids([*memos.memos.recent()]) == [1, 3, 2]
    assert memos.memos.edit(1, content="Other.").tags == ("sockets",)
    assert memos.verify().ok


def test_a_deleted_memo_is_gone_from_indexes_and_file(memos: Ledger) -> None:
    memos.memos.save("XYZZYPLUGH", ["magic"])
    memos.memos.delete(4)
    for gone in (lambda: memos.memos.get(4), lambda: memos.memos.delete(4)):
        with pytest.raises(NotFound, match="no memo 4"):
            gone()
    assert memos.memos.relevant("magic xyzzyplugh") == []
    assert memos.verify().ok


def test_memos_belong_to_no_session(memos: Ledger) -> None:
    session = memos.sessions.create("s")
    memos.sessions.delete(session.id, confirm="s")
    assert len(memos.memos.recent()) == 3


def test_a_shelf_reads_a_projects_and_the_users_memos_as_one(tmp_path: Path) -> None:
    with Ledger(tmp_path / "project.db") as project, Ledger(tmp_path / "user.db") as user:
        shelf = MemoShelf({"project": project.memos, "user": user.memos})
        shelf.home("project").save("tabs here", ["style"])
        shelf.home("user").save("spaces everywhere, in style", ["style", "spaces"])
        found = shelf.relevant("style: tabs or spaces?")
        assert [(memo.home, memo.content) for memo in found] == [
            ("user", "spaces everywhere, in style"),
            ("project", "tabs here"),
        ]
        assert [memo.home for memo in shelf.tagged(["style"])] == ["project", "user"]
        assert len(shelf.relevant("style", limit=1)) == 1
        shelf.home("user").save("and tests, in style", ["style", "tests"])
        assert [memo.home for memo in shelf.tagged(["style", "tests"])] == [
            "user", "project", "user",
        ]  # fmt: skip
        with pytest.raises(NotFound, match="there are project, user"):
            shelf.home("team")
    with pytest.raises(InvalidInput, match="at least one ledger"):
        MemoShelf({})


def test_a_memo_is_called_by_its_shelf_and_number(tmp_path: Path) -> None:
    with Ledger(tmp_path / "project.db") as project, Ledger(tmp_path / "user.db") as user:
        shelf = MemoShelf({"project": project.memos, "user": user.memos})
        ours = shelf.save("tabs here", ["style"])
        mine = shelf.save("spaces elsewhere", ["style"], "user")
        assert (ours.home, mine.home) == ("project", "user")
        assert [shelf.reference(memo) for memo in shelf.recent()] == ["1", "u1"]
        home, found = shelf.find("u1")
        assert (found, home.get(1).content) == (mine, "spaces elsewhere")
        assert shelf.find("1")[1] == ours
        for gone in ("2", "u2"):
            with pytest.raises(NotFound, match=f"no memo {gone}$"):
                shelf.find(gone)
        for wrong in ("", "x1", "one", "u", "-1", "9" * 20):
            with pytest.raises(InvalidInput, match=r"by its number or u and its number \(user\)"):
                shelf.find(wrong)
        alone = MemoShelf({"user": user.memos})
        assert alone.reference(alone.recent()[0]) == "1"
        assert alone.find("1") == alone.find("u1")


def test_a_ledger_that_is_not_there_is_made_when_something_is_saved(tmp_path: Path) -> None:
    made: list[Ledger] = []

    def make() -> Memos:
        made.append(Ledger(tmp_path / "user.db"))
        return made[-1].memos

    with Ledger(tmp_path / "project.db") as project:
        shelf = MemoShelf({"project": project.memos, "user": make})
        shelf.save("tabs here", ["style"])
        assert len(shelf.relevant("style")) == len(shelf.recent()) == len(shelf.tagged(["style"]))
        with pytest.raises(NotFound, match="no memo u1"):
            shelf.find("u1")
        assert made == []
        shelf.save("spaces", ["style"], "user")
        shelf.save("more spaces", ["style"], "user")
        assert [shelf.reference(memo) for memo in shelf.recent()] == ["1", "u2", "u1"]
        [own] = made
        own.close()
