"""What was said is found by its words, in whatever session, and only while it is there."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.ledger.helpers import FakeClock
from sightline.context.ledger import Ledger, Session, StoredUsage
from sightline.context.messages.parts import Message
from sightline.errors import InvalidInput, NotFound

WORDS = ("alpha", "Beta", "gamma", "délta")
DOING = st.sampled_from(["say", "undo", "redo", "drop", "restore", "remove", "search"])


def say(ledger: Ledger, session: int, *texts: str) -> None:
    for text in texts:
        ledger.append(session, [Message.of("user", text)], strategy="s")


def found(ledger: Ledger, text: str, session: int | None = None) -> list[str]:
    return [hit.excerpt for hit in ledger.search(text, session_id=session)]


@pytest.mark.parametrize(
    "text", ["REFACTOR parser", "parser refac", "grosse", "foo_bar", "foo", '"parser" refactor"']
)
def test_all_words_are_found_in_any_case_and_the_last_by_its_beginning(
    ledger: Ledger, session: Session, text: str
) -> None:
    line = "Refactor the foo_bar parser, große grosse Tests"
    say(ledger, session.id, "another parser", line)
    assert line in found(ledger, text)
    assert found(ledger, "parser nothing") == []


@pytest.mark.parametrize("text", ["", " ", "*", '"', "( - )"])
def test_a_search_needs_a_word(ledger: Ledger, text: str) -> None:
    with pytest.raises(InvalidInput, match="needs a word"):
        ledger.search(text)


def test_a_search_is_no_query_language(ledger: Ledger, session: Session) -> None:
    say(ledger, session.id, "alpha", "beta")
    for text in ("alpha OR beta", "NEAR(alpha beta)", "content:alpha", "alpha NOT beta"):
        assert found(ledger, text) == []


@pytest.mark.parametrize("text", ["alpha\0", "\0alpha", "alp\ud800", "\udfff alpha"])
def test_characters_that_no_stored_text_has_are_left_out(
    ledger: Ledger, session: Session, text: str
) -> None:
    say(ledger, session.id, "alpha")
    assert found(ledger, text) == ["alpha"]


def test_a_search_is_bounded(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="at most 1,000 characters"):
        ledger.search("x " * 100_000)


def test_the_newest_come_first_of_all_sessions_or_of_one(ledger: Ledger, session: Session) -> None:
    other = ledger.sessions.create("other")
    say(ledger, session.id, "alpha one")
    say(ledger, other.id, "alpha two")
    say(ledger, session.id, "alpha three")
    assert found(ledger, "alpha") == ["alpha three", "alpha two", "alpha one"]
    assert found(ledger, "alpha", session.id) == ["alpha three", "alpha one"]
    assert [hit.session_id for hit in ledger.search("alpha", limit=2)] == [session.id, other.id]


def test_an_excerpt_is_one_line_around_the_word(ledger: Ledger, session: Session) -> None:
    say(ledger, session.id, f"{'before ' * 200}\nneedle\n{'after ' * 200}")
    [excerpt] = found(ledger, "needle")
    assert "before needle after" in excerpt
    assert len(excerpt) < 200
    assert excerpt.startswith("…")
    assert excerpt.endswith("…")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(DOING, st.integers(0, 3)), max_size=25))
def test_a_search_equals_reading_everything(
    tmp_path_factory: pytest.TempPathFactory, doings: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("search") / "l.db"
    with Ledger(path, clock=FakeClock()) as ledger:
        session = ledger.sessions.create().id
        say(ledger, session, WORDS[0])
        with Ledger(path, mode="read") as reader:
            for doing, number in doings:
                _do(ledger, session, doing, number)
            for word in WORDS:
                there = [
                    entry.id for entry in ledger.messages(session)
                    if word in entry.message.text and entry.status != "dropped"
                ]  # fmt: skip
                for looking in (reader, ledger, reader):
                    hits = [hit.id for hit in looking.search(word, limit=99)]
                    assert hits == sorted(there, reverse=True)


def _do(ledger: Ledger, session: int, doing: str, number: int) -> None:
    groups = [group.id for group in ledger.groups.recent(session)]
    try:
        match doing:
            case "say":
                say(ledger, session, f"{WORDS[number]} {WORDS[number - 1]}")
            case "undo":
                ledger.groups.undo(session)
            case "redo":
                ledger.groups.redo(session)
            case "search":
                ledger.search(WORDS[number])
            case _:
                getattr(ledger.groups, doing)(session, groups[number % len(groups)])
    except (NotFound, InvalidInput, ZeroDivisionError):
        pass


def test_nothing_of_a_deleted_session_stays_in_the_index(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db") as ledger:
        session = ledger.sessions.create()
        say(ledger, session.id, "xylophone")
        assert found(ledger, "xylo")
        assert b"xylophone" in (tmp_path / "l.db-wal").read_bytes()
        ledger.sessions.delete(session.id, confirm=session.uuid)
        assert found(ledger, "xylo") == []
        assert ledger.verify().findings == ()
    assert b"xylophone" not in (tmp_path / "l.db").read_bytes()


@pytest.mark.of_a_file
def test_appending_does_not_touch_the_index(ledger: Ledger, session: Session) -> None:
    say(ledger, session.id, "alpha")
    ledger.search("alpha")
    say(ledger, session.id, "alpha")
    connection = apsw.Connection(str(ledger.path))
    assert connection.execute("SELECT count(*) FROM message_text_docsize").get == 1
    connection.close()


def test_an_overview_says_what_a_session_is_about_and_cost(ledger: Ledger) -> None:
    here = ledger.sessions.create(project="/here").id
    there = ledger.sessions.create(project="/there", title="my own words").id
    long = "## Why does the   parser recurse, and how could it be written without that at all?"
    say(ledger, here, f"\n\n---\n{long}\nmore", "and then?")
    say(ledger, there, "something else")
    ledger.accounts.record(here, StoredUsage("m", 1, 1, cost_nanousd=5))
    ledger.accounts.record(here, StoredUsage("m", 1, 1))
    listed = ledger.sessions.overview(project="/here")
    assert [(one.session.id, one.title, one.cost_nanousd, one.unpriced) for one in listed] == [
        (here, "Why does the parser recurse, and how could it be written…", 5, 1),
        (there, "my own words", 0, 0),
    ]
    assert [one.session.id for one in ledger.sessions.overview()] == [there, here]


def test_single_questions_do_not_crowd_an_overview_until_somebody_goes_on(ledger: Ledger) -> None:
    asked = ledger.sessions.create(kind="ask").id
    parent = ledger.sessions.create()
    ledger.sessions.create(parent=parent.uuid)
    say(ledger, asked, "what is unread?")
    assert [one.session.id for one in ledger.sessions.overview()] == [parent.id]
    assert len(ledger.sessions.overview(single=True)) == 3
    seen = ledger.sessions.create(kind="gateway claude").id
    assert [one.session.id for one in ledger.sessions.overview()] == [parent.id]
    assert seen in [one.session.id for one in ledger.sessions.overview(single=True)]
    assert ledger.sessions.latest().id != seen
    say(ledger, asked, "and who wrote it?")
    assert [one.session.id for one in ledger.sessions.overview()] == [asked, parent.id]
