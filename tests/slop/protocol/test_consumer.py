"""The consumer's side, message by message: a mirror is right, or it asks again."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest

from sightline.errors import InvalidInput
from sightline.slop.protocol.consumer import (
    Connected,
    Consumer,
    ConsumerEvent,
    EventArrived,
    Garbled,
    InvokeAnswered,
    MirrorChanged,
    QueryAnswered,
    Refused,
    RequestFailed,
    Resumed,
)
from sightline.slop.protocol.limits import Limits
from sightline.slop.protocol.messages import ErrorInfo, Filter
from sightline.slop.protocol.pieces import finish

Json = dict[str, Any]

GONE: Json = {"op": "remove", "path": "/gone"}
LONG: Json = {"op": "add", "path": "/properties/long", "value": "x" * 1000}
TREE: Json = {"id": "a", "type": "root", "properties": {"n": 0}}


def hello(*capabilities: str, epoch: str | None = "e1") -> Json:
    provider: Json = {"id": "p", "name": "P", "slop_version": "0.1", "capabilities": capabilities}
    if epoch is not None:
        provider["epoch"] = epoch
    return {"type": "hello", "provider": provider}


def snapshot(version: int = 1, own: str = "s1", **more: Any) -> Json:
    return {"type": "snapshot", "id": own, "version": version, "seq": 0, "tree": TREE, **more}


def patch(version: int, seq: int, n: int, own: str = "s1", **more: Any) -> Json:
    ops = [{"op": "replace", "path": "/properties/n", "value": n}]
    return {
        "type": "patch",
        "subscription": own,
        "version": version,
        "seq": seq,
        "ops": ops,
        **more,
    }


def tell(consumer: Consumer, *messages: Json) -> list[ConsumerEvent]:
    return [event for message in messages for event in consumer.receive(json.dumps(message))]


def said(consumer: Consumer) -> list[Json]:
    return [json.loads(frame) for frame in consumer.frames_to_send()]


def mirrored() -> Consumer:
    """A consumer with one mirror that has seen its snapshot."""
    consumer = Consumer()
    consumer.subscribe("/")
    tell(consumer, hello("state", "patches"), snapshot())
    said(consumer)
    return consumer


def shown(consumer: Consumer, own: str = "s1") -> int:
    tree = consumer.mirrors[own].tree
    assert tree is not None
    number: int = tree.properties["n"]
    return number


AGAIN = [{"type": "unsubscribe", "id": "s1"}, {"type": "subscribe", "id": "s1"}]


def test_nothing_is_said_before_hello() -> None:
    consumer = Consumer()
    consumer.subscribe("/inbox", depth=2, filter=Filter(min_salience=0.5))
    consumer.query("/inbox", window=(5, 10))
    assert said(consumer) == []
    [connected] = tell(consumer, hello("state"))
    assert isinstance(connected, Connected)
    assert connected.provider.name == "P"
    assert said(consumer) == [
        {
            "type": "subscribe", "id": "s1", "path": "/inbox", "depth": 2,
            "filter": {"min_salience": 0.5},
        },
        {"type": "query", "id": "q2", "path": "/inbox", "window": [5, 10]},
    ]  # fmt: skip


def test_a_provider_that_knows_operations_on_fields_is_asked_for_them() -> None:
    consumer = Consumer()
    consumer.subscribe("/")
    tell(consumer, hello("state", "x-fields"))
    ask = {"type": "subscribe", "id": "s1", "fields": True}
    assert said(consumer) == [ask]
    consumer.subscribe_again("s1")
    assert said(consumer) == [{"type": "unsubscribe", "id": "s1"}, ask]
    consumer.subscribe("/", subscription_id="late")
    assert said(consumer) == [{**ask, "id": "late"}]


def test_a_second_hello_is_ignored() -> None:
    consumer = mirrored()
    assert tell(consumer, hello("state")) == []
    assert said(consumer) == []


def test_a_mirror_follows_its_patches() -> None:
    consumer = mirrored()
    [changed] = tell(consumer, patch(2, 1, 7))
    assert isinstance(changed, MirrorChanged)
    assert changed.patched
    assert changed.tree.properties == {"n": 7}
    assert shown(consumer) == 7


@pytest.mark.parametrize("seq", [3, 0, 1], ids=["a gap", "a step back", "a repetition"])
def test_a_seq_out_of_order_subscribes_again_with_the_same_parameters(seq: int) -> None:
    consumer = mirrored()
    tell(consumer, patch(2, 1, 7))
    [garbled] = tell(consumer, patch(3, seq, 8))
    assert garbled == Garbled(
        f"patch of 's1': version 3, seq {seq} does not follow version 2, seq 1"
    )
    assert said(consumer) == AGAIN
    assert shown(consumer) == 7


def test_patches_on_the_way_are_dropped_until_the_fresh_snapshot() -> None:
    consumer = mirrored()
    tell(consumer, patch(9, 5, 7), patch(10, 1, 8), patch(11, 6, 9))
    assert shown(consumer) == 0
    assert said(consumer) == AGAIN
    tell(consumer, snapshot(12))
    assert tell(consumer, patch(12, 7, 5)) == []
    tell(consumer, patch(13, 1, 4))
    assert shown(consumer) == 4
    assert said(consumer) == []


def test_a_patch_that_is_older_than_the_snapshot_and_comes_after_others_is_a_gap() -> None:
    consumer = mirrored()
    tell(consumer, patch(2, 1, 7))
    [garbled] = tell(consumer, patch(1, 2, 8))
    assert isinstance(garbled, Garbled)
    assert said(consumer) == AGAIN
    assert shown(consumer) == 7


def test_a_patch_that_follows_another_version_than_ours_is_a_gap() -> None:
    consumer = mirrored()
    tell(consumer, patch(9, 1, 7, base=8))
    assert shown(consumer) == 0
    assert said(consumer) == AGAIN


def test_a_version_that_goes_back_is_a_gap() -> None:
    consumer = mirrored()
    tell(consumer, patch(5, 1, 7), patch(4, 2, 8))
    assert shown(consumer) == 7
    assert said(consumer) == AGAIN


@pytest.mark.parametrize(
    "ops",
    [
        [{"op": "remove", "path": "/zz"}],
        [{"op": "fly", "path": "/"}],
        {"op": "remove"},
        [{"op": "replace", "path": "/meta/salience", "value": 7}],
    ],
)
def test_a_patch_that_does_not_fit_is_reported_and_asked_for_again(ops: Any) -> None:
    consumer = mirrored()
    [garbled] = tell(consumer, {**patch(2, 1, 0), "ops": ops})
    assert isinstance(garbled, Garbled)
    assert said(consumer) == AGAIN


def test_a_snapshot_in_between_starts_the_count_again() -> None:
    consumer = mirrored()
    tell(consumer, patch(2, 1, 7), snapshot(3))
    assert shown(consumer) == 0
    tell(consumer, patch(4, 1, 9))
    assert shown(consumer) == 9


def test_an_empty_patch_changes_nothing_and_counts() -> None:
    consumer = mirrored()
    assert tell(consumer, {**patch(2, 1, 0), "ops": []}) == []
    tell(consumer, patch(3, 2, 5))
    assert shown(consumer) == 5


def test_an_illegal_tree_is_not_shown() -> None:
    consumer = mirrored()
    bad = {"id": "a/b", "type": "root"}
    [garbled] = tell(consumer, snapshot(5, tree=bad))
    assert isinstance(garbled, Garbled)
    assert "must not contain" in garbled.reason
    assert shown(consumer) == 0
    request = consumer.query()
    [refused] = tell(consumer, snapshot(5, request, tree=bad))
    assert isinstance(refused, Refused)
    assert refused.code == "internal"


def test_a_query_is_answered_by_its_id() -> None:
    consumer = mirrored()
    request = consumer.query("/x")
    [answer] = tell(consumer, {"type": "snapshot", "id": request, "version": 4, "tree": TREE})
    assert isinstance(answer, QueryAnswered)
    assert (answer.request, answer.version, answer.tree.id) == (request, 4, "a")
    assert tell(consumer, {"type": "snapshot", "id": request, "version": 4, "tree": TREE}) == []


def test_an_invoke_is_answered_by_its_id_once() -> None:
    consumer = mirrored()
    request = consumer.invoke("/a", "open", {"x": 1})
    assert said(consumer) == [
        {"type": "invoke", "id": request, "path": "/a", "action": "open", "params": {"x": 1}}
    ]
    result = {"type": "result", "id": request, "status": "ok", "data": [1]}
    [answer] = tell(consumer, result)
    assert isinstance(answer, InvokeAnswered)
    assert bytes(answer.result.data) == b"[1]"  # type: ignore[arg-type]
    assert tell(consumer, result) == []


def test_an_error_ends_the_request_it_names() -> None:
    consumer = mirrored()
    query, invoke = consumer.query(), consumer.invoke("/", "go")
    error = {"code": "not_supported", "message": "no"}
    [refused] = tell(consumer, {"type": "error", "id": query, "error": error})
    assert refused == Refused(query, "not_supported", "no")
    [answer] = tell(consumer, {"type": "error", "id": invoke, "error": error})
    assert isinstance(answer, InvokeAnswered)
    assert answer.result.error == ErrorInfo("not_supported", "no")
    assert consumer.connection_lost() == []


def test_events_and_batches_are_unwrapped_in_order() -> None:
    consumer = mirrored()
    inner = {"type": "batch", "messages": [{"type": "event", "name": "in"}]}
    events = tell(
        consumer,
        {
            "type": "batch",
            "messages": [
                {"type": "event", "name": "one", "data": {"n": 1}}, inner,
                {"type": "telepathy"}, patch(2, 1, 3), {"type": "event", "name": "two"},
            ],
        },
    )  # fmt: skip
    assert [event.name for event in events if isinstance(event, EventArrived)] == [
        "one",
        "in",
        "two",
    ]
    assert shown(consumer) == 3


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "1e999"])
def test_an_event_may_carry_a_number_that_no_machine_has(number: str) -> None:
    events = Consumer().receive(f'{{"type":"event","name":"big","data":{number}}}')
    assert events == [EventArrived("big", Decimal(number))]


def test_a_batch_bomb_is_cut_short() -> None:
    consumer = mirrored()
    many = [{"type": "event", "name": "x"}] * 10_001
    events = tell(consumer, {"type": "batch", "messages": many})
    assert [type(event) for event in events] == [Garbled]
    assert said(consumer) == AGAIN


NAN = [{"op": "replace", "path": "/properties/n", "value": math.nan}]


def without(message: Json, field: str) -> Json:
    return {name: value for name, value in message.items() if name != field}


# By what is wrong with it: each may have been a change of the mirror s1.
UNREADABLE = {
    "an empty text": b"",
    "no object": b"[]",
    "no text": b'{"type":"event","name":"\xff"}',
    "no JSON": json.dumps(patch(2, 1, 7)).encode()[:-9],
    "too long": b'{"type":"patch",' + b" " * 200_000 + b"}",
    "no type": json.dumps(without(patch(2, 1, 7), "type")).encode(),
    "a type that is no text": json.dumps({**patch(2, 1, 7), "type": 7}).encode(),
    "a patch of nothing": b'{"type":"patch"}',
    "a patch of a number": json.dumps({**patch(2, 1, 7), "subscription": 1}).encode(),
    "no version": json.dumps(without(patch(2, 1, 7), "version")).encode(),
    "a seq that is null": json.dumps({**patch(2, 1, 7), "seq": None}).encode(),
    "a seq with a point": json.dumps({**patch(2, 1, 7), "seq": 1.0}).encode(),
    "no ops": json.dumps(without(patch(2, 1, 7), "ops")).encode(),
    "a NaN": json.dumps({**patch(2, 1, 7), "ops": NAN}).encode(),
    "a snapshot of nothing": b'{"type":"snapshot","id":1}',
    "a snapshot without a version": json.dumps(without(snapshot(2), "version")).encode(),
    "a tree with an illegal id": json.dumps(
        snapshot(2, tree={"id": "a", "type": "root", "children": [{"id": "b/c", "type": "item"}]})
    ).encode(),
    "a tree with a NaN": json.dumps(
        snapshot(2, tree={"id": "a", "type": "root", "properties": {"n": math.nan}})
    ).encode(),
    "a batch of no messages": b'{"type":"batch","messages":7}',
    "a batch with such a patch": b'{"type":"batch","messages":[{"type":"patch"}]}',
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_what_may_have_been_a_change_and_cannot_be_read_is_a_gap(text: bytes) -> None:
    consumer = mirrored()
    consumer.message_bytes = 100_000
    [garbled] = consumer.receive(text)
    assert isinstance(garbled, Garbled)
    assert not consumer.mirrors["s1"].is_current
    assert said(consumer) == AGAIN
    tell(consumer, snapshot(3), patch(4, 1, 9))
    assert shown(consumer) == 9
    assert consumer.mirrors["s1"].is_current


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_who_waits_for_a_snapshot_is_not_made_to_ask_once_more(text: bytes) -> None:
    """Else a provider that only talks rubbish would be asked for as long as it answers."""
    consumer = mirrored()
    consumer.message_bytes = 100_000
    for _ in range(3):
        consumer.receive(text)
    assert said(consumer) == AGAIN
    consumer.subscribe_again("s1")
    assert said(consumer) == AGAIN


def test_only_the_mirror_that_an_unreadable_message_names_is_in_doubt() -> None:
    consumer = mirrored()
    consumer.subscribe("/other")
    tell(consumer, snapshot(1, "s2"))
    said(consumer)
    tell(consumer, {**patch(2, 1, 7), "ops": NAN})
    assert said(consumer) == AGAIN
    assert consumer.mirrors["s2"].is_current
    tell(consumer, {**patch(2, 1, 7, "s9"), "ops": NAN})
    assert consumer.mirrors["s2"].is_current


@pytest.mark.parametrize(
    "message",
    [
        {"type": "hello", "provider": 1},
        {"type": "result", "id": "i1"},
        {"type": "event", "data": 1},
        {"type": "error", "id": "s1"},
    ],
    ids=lambda message: message["type"],
)
def test_what_cannot_have_been_a_change_is_skipped(message: Json) -> None:
    consumer = mirrored()
    [garbled] = tell(consumer, message)
    assert isinstance(garbled, Garbled)
    tell(consumer, patch(2, 1, 3))
    assert shown(consumer) == 3
    assert said(consumer) == []


def test_an_unreadable_answer_ends_its_query() -> None:
    consumer = mirrored()
    request = consumer.query()
    [refused] = tell(consumer, without(snapshot(2, request), "version"))
    assert isinstance(refused, Refused)
    assert (refused.request, refused.code) == (request, "internal")
    assert consumer.mirrors["s1"].is_current


def test_before_the_hello_nothing_is_in_doubt() -> None:
    consumer = mirrored()
    consumer.connection_lost()
    consumer.receive(b"rubbish")
    tell(consumer, hello())
    assert said(consumer) == [{"type": "subscribe", "id": "s1"}]


def test_a_mirror_that_was_given_up_is_not_asked_for_again() -> None:
    consumer = mirrored()
    steps = consumer.receive_steps(json.dumps(patch(2, 1, 7, ops=[LONG, GONE])))
    next(steps)
    consumer.unsubscribe("s1")
    finish(steps)
    assert said(consumer) == [{"type": "unsubscribe", "id": "s1"}]


def test_without_a_seq_no_gap_is_seen() -> None:
    """As deployed consumers do: providers before 0.2 have none."""
    consumer = mirrored()
    tell(consumer, without(patch(2, 0, 5), "seq"), without(patch(9, 0, 7), "seq"))
    assert shown(consumer) == 7
    assert said(consumer) == []
    tell(consumer, {**without(patch(11, 0, 8), "seq"), "base": 10})
    assert said(consumer) == AGAIN


def test_types_from_the_future_are_skipped_in_silence() -> None:
    assert tell(mirrored(), {"type": "telepathy", "id": "s1"}) == []


def test_messages_for_nobody_are_skipped() -> None:
    consumer = mirrored()
    assert tell(consumer, snapshot(2, "zz"), patch(2, 1, 3, "zz")) == []
    consumer.unsubscribe("s1")
    assert tell(consumer, patch(2, 1, 3), snapshot(3)) == []
    assert said(consumer) == [{"type": "unsubscribe", "id": "s1"}]


def test_one_id_is_one_subscription() -> None:
    consumer = Consumer()
    consumer.subscribe(subscription_id="mine")
    with pytest.raises(InvalidInput, match="'mine'"):
        consumer.subscribe(subscription_id="mine")


def test_when_the_connection_goes_every_waiting_request_fails_at_once() -> None:
    consumer = mirrored()
    query, invoke = consumer.query(), consumer.invoke("/", "go")
    assert consumer.connection_lost("gone") == [
        RequestFailed(invoke, "gone"),
        RequestFailed(query, "gone"),
    ]
    assert said(consumer) == []
    assert shown(consumer) == 0


class TestTheNextConnection:
    def again(self, consumer: Consumer, *capabilities: str, epoch: str | None = "e1") -> list[Json]:
        consumer.connection_lost()
        tell(consumer, hello(*capabilities, epoch=epoch))
        return said(consumer)

    def test_subscribes_again_under_the_old_ids(self) -> None:
        assert self.again(mirrored(), "state") == [{"type": "subscribe", "id": "s1"}]

    def test_asks_to_resume_where_it_can(self) -> None:
        consumer = mirrored()
        tell(consumer, patch(2, 1, 7))
        [ask] = self.again(consumer, "state", "x-resume")
        assert ask["resume"] == {"epoch": "e1", "version": 2, "seq": 1}
        tell(consumer, patch(5, 2, 9))
        assert shown(consumer) == 9

    def test_takes_an_empty_patch_as_nothing_missed(self) -> None:
        consumer = mirrored()
        self.again(consumer, "x-resume")
        assert tell(consumer, {**patch(1, 1, 0), "ops": []}) == [Resumed("s1")]
        tell(consumer, patch(2, 2, 5))
        assert shown(consumer) == 5
        assert said(consumer) == []

    def test_takes_a_snapshot_where_the_provider_could_not_resume(self) -> None:
        consumer = mirrored()
        tell(consumer, patch(7, 1, 7))
        self.again(consumer, "x-resume", epoch="e2")
        tell(consumer, snapshot(0))
        assert shown(consumer) == 0
        tell(consumer, patch(1, 1, 3))
        assert shown(consumer) == 3

    def test_never_mixes_the_lives_of_a_provider(self) -> None:
        consumer = mirrored()
        [ask] = self.again(consumer, "x-resume", epoch="e2")
        assert "resume" not in ask
        tell(consumer, patch(2, 1, 7))  # the numbers would fit, but the snapshot was lost
        assert shown(consumer) == 0
        tell(consumer, snapshot(1), patch(2, 1, 7))
        assert shown(consumer) == 7

    def test_does_not_resume_what_was_broken(self) -> None:
        consumer = mirrored()
        tell(consumer, patch(9, 9, 9))
        [ask] = self.again(consumer, "x-resume")
        assert "resume" not in ask


def grown(seq: int, op: Json) -> Json:
    return patch(seq + 1, seq, 0, ops=[op])


class TestGrowth:
    """Many small patches bring no more than a snapshot could."""

    def test_a_mirror_never_has_more_nodes_than_a_snapshot(self) -> None:
        consumer = Consumer(limits=Limits(nodes=50))
        consumer.subscribe("/")
        tell(consumer, hello(), snapshot())
        said(consumer)
        for seq in range(1, 50):
            node = {"id": f"n{seq}", "type": "item"}
            tell(consumer, grown(seq, {"op": "add", "path": f"/n{seq}", "value": node}))
        tree = consumer.mirrors["s1"].tree
        assert tree is not None
        assert len(tree.children) == 49
        assert said(consumer) == []
        one_more = {"op": "add", "path": "/last", "value": {"id": "last", "type": "item"}}
        [garbled] = tell(consumer, grown(50, one_more))
        assert isinstance(garbled, Garbled)
        assert "more than 50 nodes" in garbled.reason
        assert consumer.mirrors["s1"].tree is tree
        assert said(consumer) == AGAIN

    def test_what_comes_and_goes_does_not_add_up(self) -> None:
        consumer = Consumer(limits=Limits(nodes=3), message_bytes=1000)
        consumer.subscribe("/")
        tell(consumer, hello(), snapshot())
        said(consumer)
        for seq in range(1, 100, 2):
            node = {"id": "x", "type": "item"}
            tell(consumer, grown(seq, {"op": "add", "path": "/x", "value": node}))
            tell(consumer, grown(seq + 1, {"op": "remove", "path": "/x"}))
        assert said(consumer) == []
        assert consumer.mirrors["s1"].is_current

    def test_a_mirror_never_has_more_bytes_than_a_message(self) -> None:
        consumer = Consumer(message_bytes=2000)
        consumer.subscribe("/")
        tell(consumer, hello(), snapshot())
        said(consumer)
        seq = 0
        events: list[ConsumerEvent] = []
        while not (again := said(consumer)):
            seq += 1
            op = {"op": "add", "path": f"/properties/p{seq}", "value": "x" * 100}
            events = tell(consumer, grown(seq, op))
        assert again == AGAIN
        [garbled] = events
        assert isinstance(garbled, Garbled)
        assert "more than 2000 bytes" in garbled.reason
        assert 15 < seq < 20
