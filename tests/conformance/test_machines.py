"""The two machines, message by message, without a transport between them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sightline.slop.protocol.connection import Connection, QueryRequested
from sightline.slop.protocol.consumer import Consumer, ConsumerEvent, EventArrived, MirrorChanged
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.protocol.provider import CAPABILITIES
from sightline.slop.protocol.tree import Node
from support.live import TREE, LiveApp


def opened(app: LiveApp) -> Connection:
    connection = app.provider.connect()
    assert [message["type"] for message in sent(connection)] == ["hello"]
    return connection


def sent(connection: Connection) -> list[dict[str, Any]]:
    return [json.loads(frame) for frame in connection.frames_to_send()]


def tell(connection: Connection, **message: Any) -> list[dict[str, Any]]:
    for request in connection.receive(json.dumps(message)):
        connection.answer_query(request.query)  # type: ignore[union-attr] # only queries here
    return sent(connection)


def publish(app: LiveApp, tree: Node) -> None:
    app.tree = tree
    app.provider.publish(tree)
    app.provider.flush()


def hear(consumer: Consumer, *messages: dict[str, Any]) -> list[ConsumerEvent]:
    return [event for item in messages for event in consumer.receive(json.dumps(item))]


def asked(consumer: Consumer) -> list[str]:
    return [json.loads(frame)["type"] for frame in consumer.frames_to_send()]


HELLO = {"type": "hello", "provider": {"id": "a", "name": "A", "slop_version": "0.1"}}


def snapshot(own: str, version: int, n: int) -> dict[str, Any]:
    tree = {"id": "a", "type": "root", "properties": {"n": n}}
    return {"type": "snapshot", "id": own, "version": version, "seq": 0, "tree": tree}


def patch(own: str, version: int, seq: int, n: int) -> dict[str, Any]:
    ops = [{"op": "replace", "path": "/properties/n", "value": n}]
    return {"type": "patch", "subscription": own, "version": version, "seq": seq, "ops": ops}


def shown(consumer: Consumer, own: str) -> object:
    tree = consumer.mirrors[own].tree
    return None if tree is None else tree.properties["n"]


@pytest.mark.proves("gap.resubscribe", "gap.drop-old")
def test_a_gap_is_healed_by_subscribing_again() -> None:
    consumer = Consumer()
    own = consumer.subscribe("/")
    hear(consumer, HELLO, snapshot(own, 1, 0), patch(own, 2, 1, 1))
    assert asked(consumer) == ["subscribe"]
    hear(consumer, patch(own, 4, 3, 3))
    assert asked(consumer) == ["unsubscribe", "subscribe"]
    hear(consumer, patch(own, 5, 4, 4), snapshot(own, 6, 6))
    hear(consumer, patch(own, 5, 1, 5), patch(own, 6, 1, 5))
    assert shown(consumer, own) == 6
    hear(consumer, patch(own, 7, 1, 7))
    assert shown(consumer, own) == 7
    assert asked(consumer) == []


@pytest.mark.proves("gap.unreadable")
@pytest.mark.parametrize(
    "broken",
    [{"version": None}, {"seq": 1.5}, {"ops": float("nan")}, {"ops": 7}, {"subscription": 7}],
    ids=str,
)
def test_what_cannot_be_read_is_a_gap(broken: dict[str, Any]) -> None:
    consumer = Consumer()
    own = consumer.subscribe("/")
    hear(consumer, HELLO, snapshot(own, 1, 0))
    assert asked(consumer) == ["subscribe"]
    hear(consumer, patch(own, 2, 1, 1) | broken)
    assert not consumer.mirrors[own].is_current
    assert asked(consumer) == ["unsubscribe", "subscribe"]
    hear(consumer, snapshot(own, 3, 3))
    assert shown(consumer, own) == 3


@pytest.mark.proves("seq.optional")
def test_a_patch_without_a_seq_is_followed() -> None:
    consumer = Consumer()
    own = consumer.subscribe("/")
    hear(consumer, HELLO, snapshot(own, 1, 0))
    for version in (2, 4):
        said = patch(own, version, 0, version)
        del said["seq"]
        hear(consumer, said)
    assert shown(consumer, own) == 4
    assert asked(consumer) == ["subscribe"]


@pytest.mark.proves("batch.order", "consumer.unknown-type", "event.out-of-band")
def test_a_consumer_unwraps_batches_and_skips_what_it_does_not_know() -> None:
    consumer = Consumer()
    own = consumer.subscribe("/")
    hear(consumer, HELLO)
    inner = {"type": "batch", "messages": [patch(own, 2, 1, 1), patch(own, 3, 2, 2)]}
    news = {"type": "event", "name": "ping"}
    unknown = {"type": "weather", "sunny": True}
    events = hear(
        consumer,
        {"type": "batch", "messages": [snapshot(own, 1, 0), unknown, inner, news]},
        unknown,
    )
    assert [type(event) for event in events] == [MirrorChanged] * 3 + [EventArrived]
    assert shown(consumer, own) == 2


@pytest.mark.proves("rebase.taken")
def test_a_consumer_takes_a_snapshot_between_patches_as_its_new_base() -> None:
    consumer = Consumer()
    own = consumer.subscribe("/")
    hear(consumer, HELLO, snapshot(own, 1, 0), patch(own, 2, 1, 1), snapshot(own, 9, 8))
    hear(consumer, patch(own, 3, 2, 2), patch(own, 10, 1, 10))
    assert shown(consumer, own) == 10
    assert asked(consumer) == ["subscribe"]


@pytest.mark.proves("ops.deployed-root")
@pytest.mark.parametrize(
    "after",
    [
        {"type": "view"},
        {"properties": {"n": 1}},
        {"affordances": [{"action": "go"}]},
        {"meta": {"focus": True}},
    ],
)
def test_a_root_that_changes_as_old_mirrors_mishandle_is_told_by_a_snapshot(
    after: dict[str, Any],
) -> None:
    bare = {"id": "app", "type": "root", "properties": {}}
    app = LiveApp(Node.of(**bare))  # type: ignore[arg-type] # as an app would write it
    connection = opened(app)
    tell(connection, type="subscribe", id="s")
    publish(app, Node.of(**(bare | after)))
    [told] = sent(connection)
    assert (told["type"], told["seq"]) == ("snapshot", 0)
    assert told["tree"] == bare | after


@pytest.mark.proves("fields.asked")
def test_operations_on_whole_fields_go_only_to_who_asked_for_them() -> None:
    items = [Node.of(f"k{n}", "item") for n in range(20)]
    app = LiveApp(Node.of("app", "root").with_children([Node.of("x", "group", children=items)]))
    connection = opened(app)
    tell(connection, type="subscribe", id="peer")
    tell(connection, type="subscribe", id="ours", fields=True)
    go = [{"action": "go"}]
    publish(app, app.tree.change("/x", lambda node: node.with_field("affordances", go)))
    told = {message["subscription"]: message["ops"] for message in sent(connection)}
    assert told["ours"] == [{"op": "add", "path": "/x/affordances", "value": go}]
    [whole] = told["peer"]
    assert (whole["op"], whole["path"], len(whole["value"]["children"])) == ("replace", "/x", 20)
    publish(app, app.tree.with_field("meta", {"focus": True}))
    for message in sent(connection):
        if message["type"] == "snapshot":
            assert message["id"] == "peer"
        else:
            assert message["subscription"] == "ours"
            assert message["ops"] == [{"op": "add", "path": "/meta", "value": {"focus": True}}]


@pytest.mark.proves("rebase.snapshot", "subscribe.snapshot", "order.within")
def test_a_slow_reader_gets_one_fresh_snapshot() -> None:
    app = LiveApp(limits=ProviderLimits(queue_bytes=2000))
    connection = opened(app)
    tell(connection, type="subscribe", id="s")
    for n in range(1, 1001):
        publish(app, TREE.with_property("n", n))
    messages = sent(connection)
    assert [message["type"] for message in messages] == ["snapshot"]
    assert (messages[0]["seq"], messages[0]["tree"]["properties"]["n"]) == (0, 1000)
    publish(app, TREE.with_property("n", 1001))
    [after] = sent(connection)
    assert (after["type"], after["seq"]) == ("patch", 1)


@pytest.mark.proves("change.coalesced", "change.none")
def test_rapid_changes_are_one_patch_and_none_is_none() -> None:
    app = LiveApp()
    connection = opened(app)
    tell(connection, type="subscribe", id="s")
    for n in (1, 2, 3):
        app.provider.publish(TREE.with_property("n", n))
    app.provider.flush()
    [only] = sent(connection)
    assert only["ops"] == [{"op": "replace", "path": "/properties/n", "value": 3}]
    app.provider.flush()
    publish(app, TREE.with_property("n", 3))
    assert sent(connection) == []


@pytest.mark.proves("view.max-nodes-live", "served.said")
def test_a_budget_of_nodes_holds_on_every_patch_and_is_said() -> None:
    app = LiveApp(limits=ProviderLimits(snapshot_nodes=8))
    connection = opened(app)
    [budgeted] = tell(connection, type="subscribe", id="s", max_nodes=7)
    assert count(budgeted["tree"]) == 7
    publish(app, TREE.change("/inbox", lambda node: node.with_child(Node.of("new", "item"))))
    [change] = sent(connection)
    assert change["type"] == "patch"
    [again] = tell(connection, type="subscribe", id="t", max_nodes=7)
    assert count(again["tree"]) <= 8
    [bounded] = tell(connection, type="subscribe", id="u")
    assert bounded["served"] == {"depth": -1, "max_nodes": 8}


def count(tree: dict[str, Any]) -> int:
    return 1 + sum(count(child) for child in tree.get("children") or ())


@pytest.mark.proves("capability.honest")
@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("patches", {"type": "subscribe", "id": "x"}),
        ("attention", {"type": "query", "id": "x", "filter": {"min_salience": 0.5}}),
        ("windowing", {"type": "query", "id": "x", "window": [0, 1]}),
        ("affordances", {"type": "invoke", "id": "x", "path": "/", "action": "count"}),
    ],
)
def test_what_is_not_declared_is_not_supported(missing: str, message: dict[str, Any]) -> None:
    app = LiveApp(capabilities=[name for name in CAPABILITIES if name != missing])
    connection = opened(app)
    [error] = tell(connection, **message)
    assert (error["type"], error["id"]) == ("error", "x")
    assert error["error"]["code"] == "not_supported"


@pytest.mark.proves("scaling.patch-navigation", "view.crossing")
def test_navigation_is_told_by_patches() -> None:
    stub = {"id": "b", "type": "view", "meta": {"summary": "2 things"}}
    full = Node.of("b", "view", properties={"label": "B"}, children=[Node.of("x", "item")])
    a = Node.of("a", "view", meta={"focus": True}, children=[Node.of("y", "item")])
    app = LiveApp(Node.of("app", "root", children=[a, Node.of(**stub)]))  # type: ignore[arg-type]
    connection = opened(app)
    tell(connection, type="subscribe", id="s")
    folded = Node.of("a", "view", meta={"summary": "1 thing"})
    publish(app, Node.of("app", "root", children=[folded, full]))
    [change] = sent(connection)
    assert change["type"] == "patch"
    assert {op["path"].split("/")[1] for op in change["ops"]} == {"a", "b"}


@pytest.mark.proves("scaling.lazy-query")
def test_a_lazy_subtree_is_loaded_by_a_query_of_its_path() -> None:
    connection = opened(LiveApp())
    [stub] = tell(connection, type="query", id="q", path="/notes")
    assert "children" not in stub["tree"]
    assert stub["tree"]["meta"]["total_children"] == 7
    notes = [Node.of(f"note-{n}", "item") for n in range(7)]
    resolved = TREE.change("/notes", lambda node: node.with_children(notes))
    message = {"type": "query", "id": "r", "path": "/notes"}
    [request] = connection.receive(json.dumps(message))
    assert isinstance(request, QueryRequested)
    connection.answer_query(request.query, resolved)
    [full] = sent(connection)
    assert len(full["tree"]["children"]) == 7
