"""What a ledger in PostgreSQL has to keep that a file need not: tenants, other hosts, a network."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.ledger.helpers import fill, prompts, said
from sightline.context.ledger import Ledger, StoredUsage, codec
from sightline.context.ledger.attachments import NOWHERE, fetching
from sightline.context.ledger.groups import kept_by
from sightline.context.ledger.history import HistoryReader
from sightline.context.ledger.paths import address_of
from sightline.context.ledger.postgres import steps, store
from sightline.context.ledger.postgres.appends import CALL
from sightline.context.ledger.postgres.calls import (
    BIGINT,
    BIGINTS,
    BOOLEAN,
    BYTEA,
    BYTEAS,
    TEXT,
    TEXTS,
    FunctionCall,
    LedgerConnection,
    bound,
)
from sightline.context.ledger.postgres.connect import connect
from sightline.context.ledger.postgres.steps import FORMAT
from sightline.context.ledger.postgres.store import PostgresStore
from sightline.context.ledger.postgres.wake import Listener
from sightline.context.ledger.work import Owner, hold_on
from sightline.context.messages.parts import Message, Role
from sightline.context.messages.window import TokenWindow, Window
from sightline.errors import (
    InvalidInput,
    LedgerDamaged,
    LedgerUnavailable,
    LedgerUnusable,
    NotFound,
    SessionBusy,
)
from support import postgres
from support.share import share
from support.shell import Run


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    if reason := postgres.lacks():
        pytest.skip(reason)
    with postgres.server() as running:
        yield running


@pytest.fixture
def url(server: postgres.Server) -> str:
    return server.url(uuid4().hex)


def test_a_url_is_libpqs_with_a_tenant_and_shows_no_password() -> None:
    address = address_of("postgresql://me:secret@h:1/db?sslmode=off&tenant=a&password=secret")
    assert address.url == "postgresql://me:secret@h:1/db?sslmode=off&password=secret"
    assert address.tenant == "a"
    assert address.name == "postgresql://me@h:1/db?sslmode=off&tenant=a"
    assert address_of("postgresql://me@h/db").tenant == "default"
    with pytest.raises(InvalidInput, match="tenant"):
        address_of("postgresql://me@h/db?tenant=")


def test_a_path_that_is_a_url_is_the_same_ledger(url: str) -> None:
    with Ledger(url) as ledger, Ledger(Path(url)) as same:
        session = ledger.sessions.create("here")
        assert same.sessions.get(session.id) == session
        assert same.name == ledger.name == url
        assert not ledger.path.exists()


@pytest.mark.parametrize(
    "query",
    [
        "tenant=evil&tenant=acme",
        "tenant=acme&tenant=acme",
        "%74enant=evil&tenant=acme",
        "tenant=&tenant=acme",
        "sslmode=require&tenant=acme&sslmode=disable",
        "host=a&host=b",
    ],
)
def test_url_is_rejected_when_a_parameter_is_repeated(
    server: postgres.Server, query: str, sightline: Run
) -> None:
    url = server.dsn("sightline", "ledgers")
    url += f"&{query}"
    with pytest.raises(InvalidInput, match="more than once"):
        Ledger(url)
    ran = sightline("ledger", "sessions", "--db", url)
    assert ran.returncode == 2
    assert b"more than once" in ran.stderr


def test_where_nobody_is_the_ledger_is_unavailable_and_says_so_without_a_password() -> None:
    with pytest.raises(LedgerUnavailable, match="postgresql://me@/db") as caught:
        Ledger("postgresql://me:secret@/db?host=/nowhere")
    assert "secret" not in str(caught.value)


def test_a_role_that_no_policy_binds_is_refused(server: postgres.Server) -> None:
    with pytest.raises(LedgerUnusable, match="every tenant"):
        Ledger(server.url("a").replace("sightline@", "postgres@"))


def test_a_newer_format_is_refused_and_a_reader_makes_no_tables(server: postgres.Server) -> None:
    with psycopg.connect(server.dsn("postgres", "postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE fresh OWNER sightline")
    fresh = server.url("a").replace("/ledgers?", "/fresh?")
    with pytest.raises(LedgerUnusable, match="open it once for writing"):
        Ledger(fresh, mode="read")
    with ThreadPoolExecutor(4) as pool:  # who comes second finds it done
        for opened in pool.map(Ledger, [fresh] * 4):
            opened.close()
    with connect(address_of(fresh)) as connection:
        connection.execute("UPDATE sightline.format SET version = %s", (FORMAT + 1,))
    with pytest.raises(LedgerUnusable, match="reads up to"):
        Ledger(fresh)


@pytest.mark.parametrize("version", range(2, FORMAT))
def test_an_older_format_becomes_the_newest_and_who_writes_to_it_goes_on(
    server: postgres.Server, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    with psycopg.connect(server.dsn("postgres", "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE older_{version} OWNER sightline")
    url = server.url("a").replace("/ledgers?", f"/older_{version}?")
    with monkeypatch.context() as then:
        then.setattr(store, "migrate", partial(steps.migrate, upto=version))
        older = Ledger(url)
    with older:
        session = older.sessions.create("s").id
        fill(older, session, 1)
        with monkeypatch.context() as then:
            then.setattr(codec, "_LARGE", 10**9)  # a file was in its message
            older.append(session, [said(1)])
        with pytest.raises(LedgerUnusable, match=f"has format {version}"):
            Ledger(url, mode="read")
        with Ledger(url) as newer:
            for ledger in (newer, older, newer):
                fill(ledger, session, 2)
            newer.append(session, [said(1)])
            assert newer.verify().ok
            assert older.window(session) == newer.window(session)
            assert len(prompts(newer, session)) == 9
            pictures = [one.message for one in newer.messages(session) if one.message == said(1)]
            assert len(pictures) == 2


TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'sightline' AND tablename <> 'format'"
TRIES = (
    "SELECT * FROM sightline.{table}",
    "SELECT 1 FROM sightline.{table} FOR UPDATE",
    "UPDATE sightline.{table} SET tenant = tenant",
    "DELETE FROM sightline.{table}",
)


def attempts(connection: psycopg.Connection[Any], mine: str, other: str) -> Iterator[int]:
    """Try to read and to write another tenant's rows in every table; what each gave."""
    for tenant in (mine, "", other.upper(), f"{other}%"):
        for (table,) in connection.execute(TABLES).fetchall():
            for statement in TRIES:
                with connection.transaction(force_rollback=True):
                    connection.execute("SELECT set_config('sightline.tenant', %s, true)", (tenant,))
                    yield connection.execute(statement.format(table=table)).rowcount


def test_no_tenant_reads_or_writes_a_row_of_another(server: postgres.Server) -> None:
    mine, other = server.url(uuid4().hex), server.url(uuid4().hex)
    with Ledger(other) as ledger:
        session = ledger.sessions.create("secret").id
        fill(ledger, session, 1)
        ledger.append(session, [said(1)])
        with ledger._store.read() as db:
            [name] = kept_by(db, session)
        memo = ledger.memos.save("secret", ["secret"]).id
    with Ledger(mine) as ledger:
        for look in (
            lambda: ledger.sessions.get(session),
            lambda: ledger.window(session),
            lambda: ledger.append(session, [Message("user", "mine")]),
            lambda: ledger.memos.delete(memo),
        ):
            with pytest.raises(NotFound):
                look()
        assert ledger.search("question") == []
        assert ledger.query("SELECT * FROM messages", session_id=None).rows == ()
        assert ledger.verify().sessions == 0
        with ledger._store.read() as db, pytest.raises(LedgerDamaged, match="not in the ledger"):
            fetching(db, NOWHERE, [name])(name)
    with connect(address_of(mine)) as connection:
        tried = list(attempts(connection, address_of(mine).tenant, address_of(other).tenant))
        assert len(tried) >= 200
        assert set(tried) == {0}
        forged = "INSERT INTO sightline.calibrations (tenant, model, body) VALUES "
        with connection.transaction(force_rollback=True):
            connection.execute("SELECT set_config('sightline.tenant', 'mine', true)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"{forged} ('another', 'm', '')")
        for (table,) in connection.execute(TABLES).fetchall():
            with connection.transaction(force_rollback=True):
                connection.execute("SELECT set_config('sightline.tenant', '', true)")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):  # nobody's row
                    connection.execute(f"INSERT INTO sightline.{table} DEFAULT VALUES")
    with Ledger(other) as ledger:
        assert ledger.verify().ok
        assert len(prompts(ledger, session)) == 2


@pytest.mark.parametrize("count", [100, 101, 1200])
def test_an_append_of_many_messages_is_stored_whole_and_in_order(url: str, count: int) -> None:
    said = [Message("user", "count"), *(Message("assistant", f"{n}") for n in range(1, count))]
    with Ledger(url) as ledger, Ledger(url) as other:
        session = ledger.sessions.create("s").id
        for key in ("first", "then"):  # the second goes on from what is known
            ledger.append(session, said, key=key)
            other.append(session, said, key=key)  # the same once more
        assert [entry.message for entry in other.messages(session)] == said * 2
        assert ledger.verify().ok


def test_many_hosts_append_to_one_session_in_one_order(url: str) -> None:
    with Ledger(url) as ledger:
        session = ledger.sessions.create("shared").id

    def work(name: int) -> None:
        with Ledger(url) as ledger:
            for number in range(10):
                for _ in range(2):  # each twice, as after a reply that was lost
                    said = Message("user", f"{name} {number}")
                    ledger.append(session, [said], key=f"{name}-{number}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    with Ledger(url) as ledger:
        entries = ledger.window(session)
        assert [entry.seq for entry in entries] == list(range(60))
        assert [entry.id for entry in entries] == sorted(entry.id for entry in entries)
        said = [tuple(map(int, entry.message.text.split())) for entry in entries]
        for name in range(6):
            assert [number for who, number in said if who == name] == list(range(10))
        assert ledger.verify().findings == ()


def test_a_session_is_found_by_its_number_before_the_server_has_counted_any(url: str) -> None:
    with Ledger(url) as ledger:
        for _ in range(40):
            ledger.sessions.create()
    with connect(address_of(url)) as connection, connection.transaction():
        tenant = address_of(url).tenant
        connection.execute("SELECT set_config('sightline.tenant', %s, true)", (tenant,))
        plan = "EXPLAIN UPDATE sightline.sessions SET tokens = 1 WHERE id = 1 AND digest = ''"
        lines = [line for (line,) in connection.execute(plan).fetchall()]
        assert any("sessions_pkey" in line for line in lines), lines


def test_who_asks_for_a_name_at_once_gets_the_same_session(url: str) -> None:
    def ask(_: int) -> int:
        with Ledger(url) as ledger:
            return ledger.sessions.named("thread").id

    Ledger(url).close()
    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(ask, range(12)))) == 1


def test_of_many_who_claim_a_session_one_gets_it(url: str) -> None:
    with Ledger(url) as ledger:
        session = ledger.sessions.create("s").id

    def claim(_: int) -> bool:
        with Ledger(url) as ledger:
            owner = Owner(ledger.work)
            try:
                owner.claim(session)
            except SessionBusy:
                owner.close()
                return False
            return True  # and it ends without a word: its lease goes on

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(claim, range(8))) == 1
    with Ledger(url) as ledger:
        assert hold_on(ledger.work, session) == "alive"
        expire(url)
        assert hold_on(ledger.work, session) == "dead"
        owner = Owner(ledger.work)
        assert owner.claim(session)
        owner.release(session)
        owner.close()
        assert hold_on(ledger.work, session) == "none"


@pytest.mark.usefixtures("server")  # which says if there can be none
def test_a_server_that_was_killed_is_found_again_with_all_that_was_acknowledged() -> None:
    # A server of its own: what a test starts ends with it.
    with postgres.server() as server, Ledger(server.url("a")) as ledger:
        session = ledger.sessions.create("s").id
        for number in range(20):
            ledger.append(session, [Message("user", f"{number}")], key=f"k{number}")
        server.kill()
        with pytest.raises(LedgerUnavailable):
            ledger.append(session, [Message("user", "20")], key="k20")
        server.start()
        ledger.append(session, [Message("user", "20")], key="k20")
        said = [entry.message.text for entry in ledger.window(session)]
        assert said == [str(number) for number in range(21)]
        assert ledger.verify().findings == ()


def test_a_query_sees_what_was_just_stored_dropped_and_removed(url: str) -> None:
    with Ledger(url) as ledger:
        session = ledger.sessions.create("s").id
        asked = "SELECT content FROM messages WHERE role = 'user' ORDER BY id"

        def seen() -> list[str]:
            return [content for (content,) in ledger.query(asked, session_id=session).rows]

        fill(ledger, session, 3)
        assert seen() == ["question 1", "question 2", "question 3"]
        first, second, third = [group.id for group in ledger.groups.recent(session)]
        ledger.groups.drop(session, first)
        ledger.groups.remove(session, second)
        ledger.append(session, [Message("user", "more")])
        assert seen() == ["question 3", "more"]
        ledger.groups.restore(session, first)
        assert seen() == ["question 1", "question 3", "more"]
        assert ledger.find(session, "QUESTION 3", limit=5, chars=20)[0][1] == "question 3"
        assert third


class Trips:
    """Counts what a ledger waits for: one for each time that it asks the server."""

    def __init__(self, ledger: Ledger, patch: pytest.MonkeyPatch) -> None:
        self.made = 0
        store = ledger._store
        assert isinstance(store, PostgresStore)
        store._next_word = math.inf  # whoever watches is woken as time passes, which is no append's
        connection = store._connected()
        wait = connection.wait

        def counted(*args: Any, **named: Any) -> Any:
            self.made += 1
            return wait(*args, **named)

        patch.setattr(connection, "wait", counted)

    def of(self, work: Callable[[], object]) -> int:
        before = self.made
        work()
        return self.made - before


def test_an_append_is_one_round_trip_for_whoever_appended_last(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(url) as ledger, Ledger(url) as other:
        session = ledger.sessions.create("s").id
        trips = Trips(ledger, monkeypatch)
        numbers = iter(range(99))

        def say(role: Role, by: Ledger = ledger) -> None:
            said = [Message(role, "x"), *[Message("assistant", "y")] * 3]
            by.append(session, said, key=f"k{next(numbers)}")

        for _ in range(3):
            say("user")  # from the third on the numbers of many are reserved
        assert [trips.of(lambda: say("user")) for _ in range(3)] == [1, 1, 1]
        assert trips.of(lambda: say("assistant")) == 1
        say("user", by=other)
        say("assistant", by=other)
        say("assistant")
        say("user")
        entries = ledger.window(session)
        assert [entry.seq for entry in entries] == list(range(44))
        assert [entry.id for entry in entries] == sorted(entry.id for entry in entries)
        assert ledger.verify().findings == ()
        assert other.verify().findings == ()


def test_numbers_of_groups_are_not_taken_for_messages_that_begin_none(url: str) -> None:
    with Ledger(url) as ledger, connect(address_of(url)) as connection:
        taken = partial(connection.execute, "SELECT last_value FROM sightline.groups_ids")
        session = ledger.sessions.create("s").id
        ledger.append(session, [Message("user", "count")])
        [(before,)] = taken()
        for _ in range(100):
            ledger.append(session, [Message("assistant", "x")] * 50)
        [(after,)] = taken()
        assert after - before < 200  # of 5,000 messages
        assert ledger.verify().ok


def test_a_picture_is_stored_in_the_trip_of_its_message_and_read_in_one_more(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(url) as ledger:
        session = ledger.sessions.create("s").id
        for _ in range(3):
            ledger.append(session, [said(1)])
        trips = Trips(ledger, monkeypatch)
        assert [trips.of(lambda: ledger.append(session, [said(2, 3)])) for _ in range(3)] == [1] * 3
        asked = questions(monkeypatch)
        with Ledger(url, mode="read") as cold:
            assert len(cold.window(session)) == 6
        assert len(asked) == 2


WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
KINDS = {
    "text": (TEXT, WORDS), "bigint": (BIGINT, NUMBERS), "bytea": (BYTEA, st.binary(max_size=20)),
    "boolean": (BOOLEAN, st.booleans()), "text[]": (TEXTS, st.lists(st.none() | WORDS, min_size=1)),
    "bigint[]": (BIGINTS, st.lists(st.none() | NUMBERS, min_size=1)),
    "bytea[]": (BYTEAS, st.lists(st.none() | st.binary(max_size=20), min_size=1)),
}  # fmt: skip


PLAIN = ("text", "bigint", "bytea")  # what a ledger's own statements have


@settings(max_examples=share(500))
@given(st.tuples(*(st.none() | values for _, values in KINDS.values())))
def test_a_call_sends_what_the_client_library_would(
    server: postgres.Server, values: tuple[Any, ...]
) -> None:
    with LedgerConnection.connect(
        server.dsn("sightline", "ledgers"), autocommit=True
    ) as connection:
        casts = ", ".join(f"%s::{kind}" for kind in KINDS)
        theirs = connection.execute(f"SELECT ROW({casts})::text", values).fetchone()
        call = FunctionCall("ROW", [kind for kind, _ in KINDS.values()]).bound(values)
        plain = bound(f"SELECT {', '.join(f'?::{kind}' for kind in PLAIN)}", values[: len(PLAIN)])
        for _ in range(3):  # as it is, then by a name
            ours, same = connection.exchange(
                [call._replace(sql=call.sql + b"::text"), plain], begins=True
            )
            assert [*ours.rows(), *same.rows()] == [theirs, values[: len(PLAIN)]]
        for wrong, kind in ((2**63, BIGINT), ("\0", TEXT)):
            with pytest.raises(psycopg.DataError):
                connection.exchange([FunctionCall("ROW", [kind]).bound([wrong])])


def test_a_statement_is_sent_by_its_name_and_whole_where_the_server_knows_another(url: str) -> None:
    with Ledger(url) as ledger:
        session = ledger.sessions.create("s").id
        store = ledger._store
        assert isinstance(store, PostgresStore)

        def go_on(count: int) -> int:
            before = len(ledger.window(session))
            for _ in range(count):
                ledger.append(session, [Message("user", "x")])
                ledger.sessions.get(session)
            assert len(ledger.window(session)) == before + count
            known = "SELECT count(*) FROM pg_prepared_statements"
            [(found,)] = store._connected().execute(known).fetchall()
            return int(found)

        names = go_on(5)
        assert names == go_on(3) > 2
        store._connected()._names.clear()  # as if another had given them
        assert names == go_on(3)
        store._connected().execute("DEALLOCATE ALL")  # as if they were another server's
        assert go_on(3) == 0
        assert ledger.verify().findings == ()


def test_an_append_whose_call_another_server_does_not_know_is_stored_once(url: str) -> None:
    with Ledger(url) as ledger, Ledger(url) as other:
        session = ledger.sessions.create("s").id
        for number in range(4):
            for each in (ledger, other):
                each.append(session, [Message("user", "x")], key=f"{each is other}-{number}")
        store = ledger._store
        assert isinstance(store, PostgresStore)
        connection = store._connected()
        name = connection._names[CALL.sql.encode()]
        connection.execute(b"DEALLOCATE " + name)
        ledger.append(session, [Message("user", "x")], key="last")
        assert len(ledger.window(session)) == 9
        assert ledger.verify().findings == ()


def questions(patch: pytest.MonkeyPatch) -> list[object]:
    """A list that grows by one with every round trip in which something is asked or stored."""
    made: list[object] = []
    exchange = LedgerConnection._exchange

    def counted(*given: Any, **named: Any) -> Any:
        made.append(given)
        return exchange(*given, **named)

    patch.setattr(LedgerConnection, "_exchange", counted)
    return made


def test_who_appends_after_another_holds_the_session_for_two_round_trips(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(url) as ledger, Ledger(url) as other:
        session = ledger.sessions.create("s").id
        asked = questions(monkeypatch)
        for number, by in enumerate((ledger, other, ledger)):
            by.append(session, [Message("user", f"{number}")], key=f"k{number}")
        assert len(asked) == 3 * 2 + 1  # the last one tried what it knew first
        stored = other.append(session, [Message("user", "0")], key="k0")
        assert [entry.seq for entry in stored] == [0]


def test_a_window_that_was_read_is_one_trip_and_none_while_the_session_is_ones_own(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(url) as ledger, Ledger(url) as other:
        session = ledger.sessions.create("s").id
        fill(ledger, session, 3)
        asked = questions(monkeypatch)
        for window in (None, Window(2, slack=1)):
            with Ledger(url, mode="read") as cold:
                assert len(cold.window(session, window))
                assert len(asked) == 1
            asked.clear()

        def trips(times: int) -> list[int]:
            found = []
            for _ in range(times):
                before = len(asked)
                assert ledger.window(session)
                found.append(len(asked) - before)
            return found

        assert trips(3) == [2, 1, 1]  # what it wrote itself it knows
        fill(other, session, 1)
        assert len(prompts(ledger, session)) == 4
        owner = Owner(ledger.work)
        owner.claim(session)
        fill(ledger, session, 1)
        trips(1)
        assert trips(2) == [0, 0]
        ledger.groups.drop(session, ledger.groups.recent(session)[-1].id)
        assert len(prompts(ledger, session)) == 4
        fill(ledger, session, 1)
        assert trips(1) == [0]
        owner.release(session)
        fill(other, session, 1)
        assert len(prompts(ledger, session)) == 6
        owner.claim(session)
        fill(ledger, session, 1)
        owner.close()
        fill(other, session, 1)
        assert len(prompts(ledger, session)) == 8


@settings(max_examples=share(200))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["user", "assistant", "state", "used", "undo", "drop", "retry", "receipt"]
            ),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_whoever_appends_the_ledger_is_what_one_file_would_be(
    server: postgres.Server, steps: list[tuple[str, bool]]
) -> None:
    """Two hosts in turn leave what one process leaves in a file, and it verifies."""
    url = server.url(uuid4().hex)
    with Ledger(url) as one, Ledger(url) as two, Ledger(":memory:") as file:
        here, there = one.sessions.create("s").id, file.sessions.create("s").id
        for number, (step, by_two) in enumerate(steps):
            for ledger, session in ((two if by_two else one, here), (file, there)):
                take_step(ledger, session, step, number)
        seen = [[(e.seq, e.message, e.status) for e in ledger.messages(number)]
                for ledger, number in ((one, here), (two, here), (file, there))]  # fmt: skip
        assert seen[0] == seen[1] == seen[2]
        for window in (None, Window(1), Window(2, slack=2), TokenWindow(9)):
            anew = HistoryReader(two._store).window(here, window)
            assert anew == two.window(here, window)
            assert [e.seq for e in anew] == [e.seq for e in file.window(there, window)]
        assert one.states.current(here) == file.states.current(there)
        assert one.accounts.totals(here) == file.accounts.totals(there)
        assert one.verify().findings == two.verify().findings == ()


def take_step(ledger: Ledger, session: int, step: str, number: int) -> None:
    """Do one thing that a host does; what cannot be done is not done."""
    live = [group.id for group in ledger.groups.recent(session) if group.status == "live"]
    match step:
        case "user" | "assistant":
            ledger.append(session, [Message(step, f"{number}")])
        case "state":
            said = [Message("assistant", f"### STATE\nGoal: {number}")] * 2
            ledger.append(session, [Message("user", "q"), *said] if number % 2 else said)
        case "used":
            used = StoredUsage("m", number, 1)
            ledger.append(session, [Message("assistant", "used")], usage=used)
        case "retry":
            for _ in range(2):
                ledger.append(session, [Message("user", f"{number}")], key=f"{number}")
        case "receipt":
            ledger.accounts.add_receipt(session, {}, prefix_digest="00")
            ledger.scratchpad.replace(session, f"{number}")
        case "undo" if live:
            ledger.groups.undo(session)
        case "drop" if live:
            ledger.groups.drop(session, live[0])


def test_who_watches_is_woken_by_a_change_and_looks_for_a_while_and_now_and_then(url: str) -> None:
    with Ledger(url) as ledger, Ledger(url) as another:
        session = ledger.sessions.create("s").id
        ledger.sessions.get(session)  # answered behind the word about the new one
        assert another.may_have_changed()
        listener = Listener(address_of(url))
        assert [listener.heard(now) for now in (0, 0.9)] == [True, True]  # it has just begun
        assert [listener.heard(now) for now in (2, 3, 6.9, 7, 8)] == [
            True,
            False,
            False,
            True,
            False,
        ]
        fill(another, session, 1)  # which has not said a word yet
        deadline = time.monotonic() + 30
        while not listener.heard(9):  # what was sent is on its way
            assert time.monotonic() < deadline
        assert [listener.heard(now) for now in (9.9, 10.1)] == [True, False]
        listener.close()


def test_who_watches_a_server_that_is_gone_looks_and_finds_out() -> None:
    assert Listener(address_of("postgresql://me@/db?host=/nowhere")).heard(9)


def test_a_host_that_lost_its_lease_cannot_write(url: str) -> None:
    with Ledger(url) as slow, Ledger(url) as quick:
        session = slow.sessions.create("s").id
        first, second = Owner(slow.work), Owner(quick.work)
        first.claim(session)
        slow.append(session, [Message("user", "before")])
        expire(url)
        assert second.claim(session)
        quick.append(session, [Message("user", "after")])
        group = quick.groups.recent(session)[0].id
        for write in (
            lambda: slow.append(session, [Message("assistant", "late")]),
            lambda: slow.append(session, [Message("user", "late")], usage=None, key="k"),
            lambda: slow.groups.drop(session, group),
            lambda: slow.scratchpad.replace(session, "late"),
            lambda: slow.work.note_call(session, group, "c", "running"),
            lambda: slow.work.begin_reply(session, group, 1, "s"),
            lambda: slow.sessions.delete(session, confirm="s"),
        ):
            with pytest.raises(SessionBusy):
                write()
        assert [entry.message.text for entry in quick.window(session)] == ["before", "after"]
        second.release(session)
        assert not first.claim(session)  # nobody died over it
        slow.append(session, [Message("user", "mine again")])
        assert quick.verify().findings == ()
        for owner in (first, second):
            owner.close()


def expire(url: str) -> None:
    """Let the time of every lease be over."""
    with connect(address_of(url)) as connection, connection.transaction():
        tenant = address_of(url).tenant
        connection.execute("SELECT set_config('sightline.tenant', %s, true)", (tenant,))
        connection.execute("UPDATE sightline.hosts SET until = now()")
