"""The wire journal: requests as differences, bounded, private, and never in the way."""

from __future__ import annotations

import random
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host.helpers import ended, hosted, of_kind, turn
from sightline.agent.host.deltas import apply_messages, apply_world, message_delta, world_delta
from sightline.agent.host.journal import CHAIN, Journal, Retention, Sent
from sightline.agent.models.scripted import Reply
from sightline.context.dialects import encode
from sightline.context.dialects.events import Usage
from sightline.context.dialects.profiles import profile_for
from sightline.context.dialects.request import Options
from sightline.context.messages.parts import Message
from sightline.context.slots.prompt import Prompt, Receipt
from sightline.errors import LedgerUnavailable, NotFound
from sightline.events import Noticed, RequestBuilt
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, AvailableApp, World
from support import trees
from support.live import TREE

PROFILE = profile_for("openai-chat", "gpt-5.5")
RECEIPT = Receipt(0, "", "estimated", 0, 0, 0, 0, 0, "", ())


def said(*texts: str) -> tuple[Message, ...]:
    return tuple(Message.of("user", text) for text in texts)


def sent(number: int, messages: tuple[Message, ...], world: World | None = None) -> Sent:
    prompt = Prompt(messages, len(messages), RECEIPT, ({"name": "look"},))
    options = Options(conversation="c")
    data = encode(prompt, PROFILE, options).data
    return Sent(
        session_id=1, group_id=number, turn=number, number=1, model="m", sent_at="now",
        prompt=prompt, profile=PROFILE, options=options, world=world or World(), data=data,
    )  # fmt: skip


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    journal = Journal(tmp_path / "work.db")
    yield journal
    journal.close()


messages_of = st.lists(st.sampled_from("abcdefgh"), max_size=12).map(lambda t: said(*t))


@given(messages_of, messages_of)
def test_messages_come_back_from_their_difference(
    base: tuple[Message, ...], new: tuple[Message, ...]
) -> None:
    assert apply_messages(base, message_delta(base, new)) == new


@pytest.mark.parametrize(
    ("base", "new", "runs"),
    [
        ("abcT", "abcdU", 2),  # said more: the tail is new
        ("sabcdT", "scdeU", 3),  # folded
        ("", "abc", 1),
    ],
)
def test_what_stood_before_is_not_written_again(base: str, new: str, runs: int) -> None:
    delta = msgspec.json.decode(message_delta(said(*base), said(*new)))
    assert len(delta) == runs
    written = [text for run in delta if run["type"] == "new" for text in run["messages"]]
    assert len(written) == len(set(new) - set(base))


def world(tree: Node | None, **changes: Any) -> World:
    return World((AppState("a", "A", tree=tree, **changes),), (AvailableApp("n", "N", "unix"),))


@pytest.mark.parametrize("seed", range(40))
def test_worlds_come_back_from_their_difference(seed: int) -> None:
    rng = random.Random(seed)
    one, other = from_value(trees.tree(rng)), from_value(trees.tree(rng))
    empty = World()
    first = apply_world(empty, world_delta(empty, world(one)))
    assert first == world(one)
    assert apply_world(first, world_delta(first, world(other))) == world(other)
    gone = world(None, status="disconnected", last_seen="2026-01-01T00:00:00Z", reason="r")
    assert apply_world(first, world_delta(first, gone)) == gone


def test_a_small_change_is_a_small_record(journal: Journal) -> None:
    history = [f"message {n} {'x' * 500}" for n in range(200)]
    journal.record(sent(1, said(*history, "tail 1"), world(TREE)))
    changed = TREE.change("/inbox/msg-1", lambda node: node.with_property("subject", "new"))
    journal.record(sent(2, said(*history, "more", "tail 2"), world(changed)))
    sizes = [row[0] for row in journal._connection.execute("SELECT size FROM requests ORDER BY id")]
    assert sizes[0] > 100_000
    assert sizes[1] < 1_000
    recorded = journal.request(1, 2)
    assert recorded.prompt.messages == said(*history, "more", "tail 2")
    assert recorded.world == world(changed)


def test_requests_are_found_again_and_made_again(journal: Journal, tmp_path: Path) -> None:
    wanted = [sent(n, said(*"abcdefghij"[: n % 10], f"t{n}")) for n in range(1, CHAIN * 2 + 5)]
    for item in wanted:
        journal.record(item)
    other = Journal(tmp_path / "work.db", read_only=True)
    assert len(other.requests(1)) == len(wanted)
    for item in wanted:
        recorded = other.request(1, item.turn)
        again = encode(recorded.prompt, recorded.profile, recorded.options).data
        assert again == item.data
        assert recorded.digest == recorded.line.digest
    latest = other.latest(1)
    assert latest is not None
    assert latest.line.turn == wanted[-1].turn
    assert other.latest(2) is None
    with pytest.raises(NotFound):
        other.request(1, 10_000)
    other.close()


def test_a_journal_that_is_opened_again_goes_on_where_it_was(tmp_path: Path) -> None:
    first = Journal(tmp_path / "work.db")
    first.record(sent(1, said(*"abc")))
    first.close()
    second = Journal(tmp_path / "work.db")
    second.record(sent(2, said(*"abcd")))
    rows = list(second._connection.execute("SELECT base, segment FROM requests ORDER BY id"))
    assert rows == [(None, 1), (1, 1)]
    second.close()


def test_it_forgets_the_oldest_a_chain_at_a_time(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "work.db", retention=Retention(requests=CHAIN * 2))
    total = CHAIN * 6
    for n in range(1, total):
        journal.record(sent(n, said(f"m{n}")))
    lines = journal.requests(1)
    assert len(lines) <= CHAIN * 3 + 2
    assert lines[-1].turn == total - 1
    for line in lines:
        journal.request(1, line.turn)
    journal.close()


def test_how_an_answer_came_is_kept(journal: Journal) -> None:
    row = journal.record(sent(1, said("a")))
    journal.finish(row, "end", {"first_ms": 12})
    [line] = journal.requests(1)
    assert (line.outcome, line.timings) == ("end", {"first_ms": 12})


def test_the_file_is_its_owners_alone(journal: Journal) -> None:
    assert journal.path.name == "work.wire.db"
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to be read" * 99, b""]
)
def test_a_file_that_is_no_good_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "work.wire.db").write_bytes(content)
    journal = Journal(tmp_path / "work.db")
    journal.record(sent(1, said("a")))
    assert len(journal.requests(1)) == 1
    journal.close()


def test_a_file_of_another_format_is_begun_anew(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "work.db")
    journal.record(sent(1, said("a")))
    journal._connection.execute("PRAGMA user_version = 99")
    journal.close()
    again = Journal(tmp_path / "work.db")
    assert again.requests(1) == []
    again.close()


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable):
        Journal(tmp_path / "work.db", read_only=True)
    (tmp_path / "work.wire.db").mkdir()
    with pytest.raises(LedgerUnavailable):
        Journal(tmp_path / "work.db")


async def test_a_turn_goes_on_without_it_and_the_user_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "work.wire.db").mkdir()
    async with hosted(tmp_path, ["one", "two"]) as (host, _):
        first, second = await turn(host), await turn(host)
        assert ended(first).text == "one"
        assert ended(second).text == "two"
        assert [notice.code for notice in of_kind(first + second, Noticed)] == ["journal"]
    assert (tmp_path / "work.db").exists()


async def test_it_can_be_deleted_at_any_time(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["one"]) as (host, _):
        await turn(host, "first")
        number = host.session.id
    for path in tmp_path.glob("work.wire*"):
        path.unlink()
    async with hosted(tmp_path, ["two"], session=number) as (host, model):
        assert ended(await turn(host, "second")).text == "two"
        assert "first" in model.requests[0].data.decode()


async def test_no_lock_is_left_behind(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["one"]) as (host, _):
        await turn(host)
    assert list(tmp_path.glob("*.lock")) == []


async def test_a_request_is_compared_with_the_last_one_of_an_earlier_program(
    tmp_path: Path,
) -> None:
    async with hosted(tmp_path, ["one"]) as (host, _):
        await turn(host, "first")
        number = host.session.id
    async with hosted(tmp_path, ["two"], session=number) as (host, _):
        [built] = of_kind(await turn(host, "second"), RequestBuilt)
        assert built.reused_tokens > 0
        assert not built.regression


async def test_what_vendors_count_is_learnt_and_kept(tmp_path: Path) -> None:
    reply = Reply(text="one", usage=Usage(input_tokens=5_000, output_tokens=1))
    async with hosted(tmp_path, [reply]) as (host, model):
        await turn(host, "first")
        learnt = host._stage.calibrations.models
        assert list(learnt) == [model.profile.model]
    async with hosted(tmp_path, []) as (host, _):
        assert host._stage.calibrations.models == learnt
