"""The provider's side, message by message: literal messages in, literal messages out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.connection import (
    Connection,
    InvokeRequested,
    QueryRequested,
    event_body,
)
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.protocol.messages import ErrorInfo, ProviderInfo
from sightline.slop.protocol.patch import apply, ops_from_value
from sightline.slop.protocol.provider import CAPABILITIES, Provider, Showing
from sightline.slop.protocol.tree import Node

Json = dict[str, Any]

ITEMS = [
    Node.of(f"m{i}", "item", properties={"n": i}, affordances=[{"action": "open"}])
    for i in range(3)
]
TREE = Node.of(
    "mail", "root", properties={"label": "Mail"},
    children=[
        Node.of("inbox", "collection", properties={"count": 3}, children=ITEMS),
        Node.of("log", "collection", meta={"salience": 0.1}, children=[]),
    ],
)  # fmt: skip
PLAIN = tuple(name for name in CAPABILITIES if name not in ("x-actions-hint", "x-base"))


def provider(capabilities: tuple[str, ...] = PLAIN, tree: Node = TREE, **limits: int) -> Provider:
    info = ProviderInfo("mail", "Mail", capabilities=capabilities, epoch="life-1")
    return Provider(info, tree, ProviderLimits(**limits))


def say(connection: Connection, **message: Any) -> list[Json]:
    """Send one message and return all that comes back; queries are answered from the tree."""
    for request in connection.receive(json.dumps(message)):
        if isinstance(request, QueryRequested):
            connection.answer_query(request.query)
    return heard(connection)


def heard(connection: Connection) -> list[Json]:
    """Everything the connection has to send, without the bookkeeping of `base`."""
    messages: list[Json] = []
    while frames := connection.frames_to_send():
        messages.extend(json.loads(frame) for frame in frames)
    for message in messages:
        message.pop("base", None)
    return messages


def connect(to: Provider, audience: str | None = None) -> Connection:
    connection = to.connect(audience)
    [hello] = heard(connection)
    assert hello["type"] == "hello"
    return connection


def read(path: str, number: int | str, tree: Node = TREE) -> Node:
    return tree.change(path, lambda node: node.with_property("n", number))


def test_hello_comes_first_and_once() -> None:
    connection = provider().connect()
    connection.receive('{"type":"query","id":"q"}')
    [hello, *rest] = heard(connection)
    assert hello == {
        "type": "hello",
        "provider": {
            "id": "mail", "name": "Mail", "slop_version": "0.1",
            "capabilities": list(PLAIN), "epoch": "life-1",
        },
    }  # fmt: skip
    assert "hello" not in {message["type"] for message in rest}


def test_a_subscription_begins_with_a_snapshot_at_seq_0() -> None:
    connection = connect(provider())
    [snapshot] = say(connection, type="subscribe", id="s", path="/inbox", depth=0)
    assert snapshot == {
        "type": "snapshot", "id": "s", "version": 0, "seq": 0,
        "tree": {"id": "inbox", "type": "collection", "meta": {"total_children": 3}},
    }  # fmt: skip


def test_patches_count_seq_and_version_up_by_one() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s")
    for n in (1, 2):
        app.publish(read("/inbox/m0", 10 + n))
        app.flush()
        assert heard(connection) == [
            {
                "type": "patch", "subscription": "s", "version": n, "seq": n,
                "ops": [{"op": "replace", "path": "/inbox/m0/properties/n", "value": 10 + n}],
            }
        ]  # fmt: skip


def test_patch_paths_are_relative_to_the_subscription() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s", path="/inbox/m0")
    app.publish(read("/inbox/m0", 7))
    app.flush()
    [patch] = heard(connection)
    assert patch["ops"] == [{"op": "replace", "path": "/properties/n", "value": 7}]


def test_many_changes_become_one_patch() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s")
    for n in range(5):
        app.publish(read("/inbox/m0", n))
    app.publish(read("/inbox/m1", 9, read("/inbox/m0", 9)))
    app.flush()
    [patch] = heard(connection)
    assert len(patch["ops"]) == 2
    assert patch["seq"] == 1


def test_with_nothing_changed_nothing_is_sent() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s")
    app.publish(TREE)
    app.flush()
    app.publish(read("/inbox/m0", 0))  # another object that says the same
    app.flush()
    assert heard(connection) == []


def test_what_a_subscriber_does_not_see_does_not_reach_him() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s", filter={"min_salience": 0.3})
    app.publish(TREE.change("/log", lambda node: node.with_property("lines", 5)))
    app.flush()
    assert heard(connection) == []


def test_a_node_that_crosses_the_threshold_arrives_and_leaves() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s", filter={"min_salience": 0.3})
    app.publish(TREE.change("/log", lambda node: node.with_field("meta", {"salience": 1})))
    app.flush()
    [arrival] = heard(connection)
    assert [(op["op"], op["path"], op["index"]) for op in arrival["ops"]] == [("add", "/log", 1)]
    app.publish(TREE)
    app.flush()
    [leaving] = heard(connection)
    assert leaving["ops"] == [{"op": "remove", "path": "/log"}]


def test_the_node_budget_holds_on_every_patch() -> None:
    nest = TREE.change("/inbox/m0", lambda node: node.with_children(ITEMS))
    app = provider(tree=nest)
    connection = connect(app)
    [snapshot] = say(connection, type="subscribe", id="s", max_nodes=6)
    assert json.dumps(snapshot).count('"id"') - 1 <= 6
    app.publish(nest.change("/inbox/m1", lambda node: node.with_children(ITEMS)))
    app.flush()
    assert all("add" not in op["op"] for message in heard(connection) for op in message["ops"])


def test_a_change_of_the_root_that_mirrors_cannot_follow_is_a_snapshot() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s")
    app.publish(TREE.with_field("meta", {"focus": True}))
    app.flush()
    [snapshot] = heard(connection)
    assert (snapshot["type"], snapshot["seq"], snapshot["version"]) == ("snapshot", 0, 1)


def test_too_many_operations_become_a_snapshot() -> None:
    app = provider(patch_ops=2)
    connection = connect(app)
    say(connection, type="subscribe", id="s")
    changed = TREE
    for i in range(3):
        changed = read(f"/inbox/m{i}", 100, changed)
    app.publish(changed)
    app.flush()
    [snapshot] = heard(connection)
    assert (snapshot["type"], snapshot["seq"]) == ("snapshot", 0)


def test_a_second_subscription_with_the_same_id_is_refused_and_the_first_lives_on() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s")
    [error] = say(connection, type="subscribe", id="s", depth=0)
    assert (error["type"], error["id"], error["error"]["code"]) == ("error", "s", "bad_request")
    app.publish(read("/inbox/m0", 5))
    app.flush()
    assert [message["type"] for message in heard(connection)] == ["patch"]


def test_after_unsubscribing_nothing_comes_and_the_id_is_free() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s")
    assert say(connection, type="unsubscribe", id="s") == []
    app.publish(read("/inbox/m0", 5))
    app.flush()
    assert heard(connection) == []
    assert [m["type"] for m in say(connection, type="subscribe", id="s")] == ["snapshot"]


def test_unsubscribing_from_nothing_is_not_answered() -> None:
    assert say(connect(provider()), type="unsubscribe", id="nothing") == []


def test_a_connection_has_a_limit_of_subscriptions() -> None:
    connection = connect(provider(subscriptions=2))
    say(connection, type="subscribe", id="a")
    say(connection, type="subscribe", id="b")
    [error] = say(connection, type="subscribe", id="c")
    assert error["error"] == {
        "code": "bad_request", "message": "a connection has at most 2 subscriptions"
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["subscribe", "query"])
def test_a_path_to_nothing_is_not_found(kind: str) -> None:
    [error] = say(connect(provider()), type=kind, id="x", path="/inbox/m9")
    assert (error["id"], error["error"]["code"]) == ("x", "not_found")


def test_a_query_is_answered_once_and_without_seq() -> None:
    app = provider()
    connection = connect(app)
    [answer] = say(connection, type="query", id="q", path="/inbox", window=[1, 1])
    assert "seq" not in answer
    assert answer["tree"]["meta"] == {"window": [1, 1], "total_children": 3}
    assert [child["id"] for child in answer["tree"]["children"]] == ["m1"]
    app.publish(read("/inbox/m1", 5))
    app.flush()
    assert heard(connection) == []


def test_a_subscription_whose_node_goes_is_told_and_hears_when_it_is_back() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s", path="/inbox/m1")
    app.publish(TREE.change("/inbox", lambda node: node.without_child("m1")))
    app.flush()
    [gone] = heard(connection)
    assert (gone["type"], gone["id"], gone["error"]["code"]) == ("error", "s", "not_found")
    app.publish(TREE)
    app.flush()
    [back] = heard(connection)
    assert (back["type"], back["seq"]) == ("snapshot", 0)


class TestSharing:
    def test_equal_subscriptions_are_projected_and_encoded_once(self) -> None:
        app = provider()
        connections = [connect(app) for _ in range(5)]
        for connection in connections:
            say(connection, type="subscribe", id="s")
        app.publish(read("/inbox/m0", 5))
        app.flush()
        assert len({id(body(connection)) for connection in connections}) == 1
        assert len({json.dumps(heard(connection)) for connection in connections}) == 1

    @pytest.mark.parametrize("view", [{}, {"depth": 2, "filter": {"min_salience": 0.1}}])
    def test_sessions_that_show_the_same_tree_share_the_work(self, view: dict[str, Any]) -> None:
        app, connections = two_sessions(**view)
        app.publish(changed := read("/inbox/m0", 5), "ana")
        app.publish(changed, "bob")
        app.flush()
        ana, bob = connections
        assert body(ana) is body(bob)
        assert heard(ana) == heard(bob)
        showings = {id(showing_of(connection)) for connection in connections}
        assert len(showings) == 1

    @pytest.mark.parametrize("view", [{}, {"depth": 2, "filter": {"min_salience": 0.1}}])
    def test_a_session_that_goes_its_own_way_is_told_of_nothing_else(
        self, view: dict[str, Any]
    ) -> None:
        app, [ana, bob] = two_sessions(**view)
        for turn in range(1, 4):
            app.publish(read("/inbox/m0", f"ana {turn}"), "ana")
            app.flush()
            [patch] = heard(ana)
            assert (patch["seq"], patch["ops"][0]["value"]) == (turn, f"ana {turn}")
            assert heard(bob) == []
        app.publish(read("/inbox/m0", "bob"), "bob")
        app.publish(together := read("/inbox/m1", "both"), "ana")
        app.flush()
        assert "bob" not in json.dumps(heard(ana))
        [patch] = heard(bob)
        assert (patch["seq"], patch["ops"][0]["value"]) == (1, "bob")
        app.publish(together, "bob")
        app.flush()
        assert heard(ana) == []
        assert "ana" not in json.dumps(heard(bob))
        assert showing_of(ana).shown == showing_of(bob).shown

    def test_a_part_that_two_different_trees_share_is_shown_once(self) -> None:
        app = provider()
        app.publish(TREE.with_property("user", "bob"), "bob")
        ana, bob = connect(app), connect(app, "bob")
        for connection in (ana, bob):
            say(connection, type="subscribe", id="s", path="/inbox")
        assert showing_of(ana) is showing_of(bob)


def body(connection: Connection) -> object:
    """What is queued last, as an object."""
    return connection._outbox._queue[-2]  # before its owner


def showing_of(connection: Connection) -> Showing:
    [subscription] = connection._subscriptions.values()
    assert subscription.group.showing is not None
    return subscription.group.showing


def two_sessions(**view: Any) -> tuple[Provider, list[Connection]]:
    app = provider()
    connections = []
    for session in ("ana", "bob"):
        app.publish(TREE, session)
        connections.append(connect(app, session))
        say(connections[-1], type="subscribe", id="s", **view)
    return app, connections


class TestInvoke:
    def test_the_app_is_asked_only_for_what_a_node_offers(self) -> None:
        connection = connect(provider())
        [request] = connection.receive(
            '{"type":"invoke","id":"i","path":"/inbox/m0","action":"open","params":{"a":1}}'
        )
        assert isinstance(request, InvokeRequested)
        assert (request.path, request.action, request.params) == ("/inbox/m0", "open", {"a": 1})
        assert request.node is TREE.at("/inbox/m0")

    @pytest.mark.parametrize(
        ("path", "action"), [("/inbox/m9", "open"), ("/inbox/m0", "burn"), ("/inbox", "open")]
    )
    def test_a_stale_node_or_a_hidden_action_is_not_found(self, path: str, action: str) -> None:
        [result] = say(connect(provider()), type="invoke", id="i", path=path, action=action)
        assert (result["type"], result["id"]) == ("result", "i")
        assert (result["status"], result["error"]["code"]) == ("error", "not_found")

    @pytest.mark.parametrize("trace", [None, 7, ["00"], {"id": "x"}, "anything"])
    def test_a_trace_of_whatever_kind_is_no_reason_to_refuse(self, trace: object) -> None:
        asked = {"type": "invoke", "id": "i", "path": "/inbox/m0", "action": "open"}
        [request] = connect(provider()).receive(json.dumps({**asked, "x-trace": trace}))
        assert isinstance(request, InvokeRequested)
        assert request.trace == (trace if isinstance(trace, str) else "")

    def test_patches_of_the_handler_come_before_the_result(self) -> None:
        app = provider()
        connection = connect(app)
        say(connection, type="subscribe", id="s")
        connection.receive('{"type":"invoke","id":"i","path":"/inbox/m0","action":"open"}')
        app.publish(read("/inbox/m0", 5))
        connection.send_result("i", {"opened": True})
        assert [message["type"] for message in heard(connection)] == ["patch", "result"]

    def test_even_a_fresh_snapshot_comes_before_the_result(self) -> None:
        app = provider()
        connection = connect(app)
        say(connection, type="subscribe", id="s")
        connection.receive('{"type":"invoke","id":"i","path":"/inbox/m0","action":"open"}')
        app.publish(TREE.with_field("meta", {"focus": True}))
        connection.send_result("i")
        assert [message["type"] for message in heard(connection)] == ["snapshot", "result"]

    def test_there_is_exactly_one_result(self) -> None:
        connection = connect(provider())
        connection.receive('{"type":"invoke","id":"i","path":"/inbox/m0","action":"open"}')
        connection.send_result("i", 1)
        connection.send_result("i", 2)
        connection.send_result("never asked", 3)
        assert heard(connection) == [{"type": "result", "id": "i", "status": "ok", "data": 1}]

    def test_errors_and_acceptance_are_said_in_the_protocols_words(self) -> None:
        connection = connect(provider())
        for request in ("i", "j"):
            connection.receive(
                f'{{"type":"invoke","id":"{request}","path":"/inbox/m0","action":"open"}}'
            )
        connection.send_result("i", error=ErrorInfo("conflict", "already open"))
        connection.send_result("j", {"taskId": "t"}, accepted=True)
        assert heard(connection) == [
            {
                "type": "result", "id": "i", "status": "error",
                "error": {"code": "conflict", "message": "already open"},
            },
            {"type": "result", "id": "j", "status": "accepted", "data": {"taskId": "t"}},
        ]  # fmt: skip

    def test_an_id_that_is_still_running_is_refused(self) -> None:
        connection = connect(provider())
        connection.receive('{"type":"invoke","id":"i","path":"/inbox/m0","action":"open"}')
        [error] = say(connection, type="invoke", id="i", path="/inbox/m0", action="open")
        assert error["error"]["code"] == "bad_request"

    def test_actions_that_pile_up_stop_the_reading(self) -> None:
        connection = connect(provider(invocations=2))
        for n in range(2):
            assert connection.wants_input
            connection.receive(f'{{"type":"invoke","id":"{n}","path":"/inbox/m0","action":"open"}}')
        assert not connection.wants_input
        connection.send_result("0")
        assert connection.wants_input


class TestHonesty:
    @pytest.mark.parametrize(
        ("missing", "message"),
        [
            ("patches", {"type": "subscribe", "id": "x"}),
            ("affordances", {"type": "invoke", "id": "x", "path": "/inbox/m0", "action": "open"}),
            ("windowing", {"type": "query", "id": "x", "window": [0, 1]}),
            ("attention", {"type": "subscribe", "id": "x", "filter": {"min_salience": 0.5}}),
            ("attention", {"type": "query", "id": "x", "filter": {"min_salience": 0.5}}),
        ],
    )
    def test_what_is_not_declared_is_not_supported(self, missing: str, message: Json) -> None:
        connection = connect(provider(tuple(name for name in PLAIN if name != missing)))
        [error] = say(connection, **message)
        assert (error["type"], error["id"]) == ("error", "x")
        assert error["error"]["code"] == "not_supported"
        assert missing in error["error"]["message"]

    def test_the_projects_own_additions_stay_off_unless_declared(self) -> None:
        bare = connect(provider(("state", "patches")))
        [snapshot] = say(
            bare, type="subscribe", id="s", depth=1,
            filter={"types": ["item"], "retain_ancestors": True},
        )  # fmt: skip
        assert snapshot["tree"].get("children") == []

    def test_stubs_list_their_actions_where_declared(self) -> None:
        connection = connect(provider((*PLAIN, "x-actions-hint")))
        [answer] = say(connection, type="query", id="q", path="/inbox", depth=0)
        assert "available_actions" not in answer["tree"]["meta"]
        nested = TREE.change(
            "/inbox", lambda node: node.with_field("affordances", [{"action": "sort"}])
        )
        connection = connect(provider((*PLAIN, "x-actions-hint"), nested))
        [answer] = say(connection, type="query", id="q", path="/inbox", depth=0)
        assert answer["tree"]["meta"]["available_actions"] == ["sort"]


class TestSlowReaders:
    def test_one_too_slow_gets_a_snapshot_for_all_he_missed(self) -> None:
        app = provider(queue_bytes=200)
        slow, quick = connect(app), connect(app)
        for connection in (slow, quick):
            say(connection, type="subscribe", id="s")
        for n in range(1, 20):
            app.publish(read("/inbox/m0", n))
            app.flush()
            assert [message["seq"] for message in heard(quick)] == [n]
        [snapshot] = heard(slow)
        assert (snapshot["type"], snapshot["seq"], snapshot["version"]) == ("snapshot", 0, 19)
        app.publish(read("/inbox/m0", 99))
        app.flush()
        assert [message["seq"] for message in heard(slow)] == [1]

    def test_what_is_kept_for_him_is_bounded(self) -> None:
        app = provider(queue_bytes=1000)
        slow = connect(app)
        say(slow, type="subscribe", id="s")
        for n in range(1000):
            app.publish(read("/inbox/m0", n))
            app.flush()
            assert slow._outbox.size <= 1200

    def test_events_do_not_pile_up_for_him(self) -> None:
        app = provider(queue_bytes=1000)
        slow, quick = connect(app), connect(app)
        for n in range(1000):
            event = event_body("tick", n)
            slow.send_event(event)
            quick.send_event(event)
            assert [message["data"] for message in heard(quick)] == [n]
        assert slow._outbox.size <= 1000
        assert {message["type"] for message in heard(slow)} == {"event"}
        slow.send_event(event_body("tick", "late"))
        assert [message["data"] for message in heard(slow)] == ["late"]

    def test_a_root_that_comes_and_goes_does_not_pile_up_for_him(self) -> None:
        app = provider()
        slow = connect(app)
        say(slow, type="subscribe", id="s", path="/inbox/m1")
        for _ in range(100):
            app.publish(TREE.change("/inbox", lambda node: node.without_child("m1")))
            app.flush()
            app.publish(TREE)
            app.flush()
        assert len(heard(slow)) <= 2

    def test_answers_that_are_not_read_stop_the_reading(self) -> None:
        connection = connect(provider(queue_bytes=500))
        while connection.wants_input:
            connection.receive('{"type":"dance"}')
        assert len(connection._outbox) < 10
        heard(connection)
        assert connection.wants_input

    def test_output_comes_in_portions(self) -> None:
        app = provider()
        connection = connect(app)
        for n in range(4):
            connection.receive(f'{{"type":"subscribe","id":"s{n}"}}')
        portions = []
        while frames := connection.frames_to_send(max_bytes=1):
            portions.append(len(frames))
        assert portions == [1, 1, 1, 1]
        assert not connection.has_output


class TestResume:
    def point(self, version: int, seq: int, epoch: str = "life-1") -> Json:
        return {"epoch": epoch, "version": version, "seq": seq}

    def test_missed_patches_continue_at_the_next_seq(self) -> None:
        app = provider()
        for n in (1, 2, 3):
            app.publish(read("/inbox/m0", n))
            app.flush()
        [patch] = say(connect(app), type="subscribe", id="s", resume=self.point(1, 5))
        assert (patch["type"], patch["version"], patch["seq"]) == ("patch", 3, 6)
        assert patch["ops"] == [{"op": "replace", "path": "/inbox/m0/properties/n", "value": 3}]

    def test_with_nothing_missed_the_patch_is_empty(self) -> None:
        [patch] = say(connect(provider()), type="subscribe", id="s", resume=self.point(0, 5))
        assert (patch["type"], patch["seq"], patch["ops"]) == ("patch", 6, [])

    @pytest.mark.parametrize(
        ("version", "epoch"), [(0, "life-0"), (9, "life-1")], ids=["another life", "the future"]
    )
    def test_a_point_nobody_knows_gets_a_snapshot(self, version: int, epoch: str) -> None:
        connection = connect(provider())
        [snapshot] = say(connection, type="subscribe", id="s", resume=self.point(version, 5, epoch))
        assert (snapshot["type"], snapshot["seq"]) == ("snapshot", 0)

    def test_an_audience_that_was_forgotten_resumes_with_a_snapshot(self) -> None:
        app = provider()
        app.publish(read("/inbox/m0", 1), "ann")
        known = app.version
        app.drop_audience("ann")
        app.publish(read("/inbox/m0", 2), "ann")
        connection = app.connect("ann")
        heard(connection)
        [snapshot] = say(connection, type="subscribe", id="s", resume=self.point(known, 0))
        assert snapshot["type"] == "snapshot"

    def test_a_version_too_old_gets_a_snapshot(self) -> None:
        app = provider(kept_versions=2)
        for n in range(1, 6):
            app.publish(read("/inbox/m0", n))
            app.flush()
        [snapshot] = say(connect(app), type="subscribe", id="s", resume=self.point(1, 1))
        assert snapshot["type"] == "snapshot"
        [patch] = say(connect(app), type="subscribe", id="s", resume=self.point(4, 1))
        assert patch["type"] == "patch"


class TestSize:
    def test_a_view_too_large_is_refused_with_advice(self) -> None:
        connection = connect(provider(snapshot_bytes=100))
        [error] = say(connection, type="subscribe", id="s")
        assert error["error"]["code"] == "bad_request"
        assert "ask for less depth" in error["error"]["message"]
        [error] = say(connection, type="query", id="q")
        assert (error["id"], error["error"]["code"]) == ("q", "bad_request")
        assert [m["type"] for m in say(connection, type="query", id="q", depth=0)] == ["snapshot"]

    def test_too_many_nodes_are_collapsed_and_it_says_so(self) -> None:
        nest = TREE.change("/inbox/m0", lambda node: node.with_children(ITEMS))
        connection = connect(provider(tree=nest, snapshot_nodes=6))
        [snapshot] = say(connection, type="subscribe", id="s")
        assert snapshot["served"] == {"depth": -1, "max_nodes": 6}

    def test_a_query_is_bounded_like_a_subscription(self) -> None:
        nest = TREE.change("/inbox/m0", lambda node: node.with_children(ITEMS))
        connection = connect(provider(tree=nest, snapshot_nodes=6))
        [answer] = say(connection, type="query", id="q")
        assert answer["served"] == {"depth": -1, "max_nodes": 6}
        assert "seq" not in answer
        tight = connect(provider(snapshot_nodes=2))
        [error] = say(tight, type="query", id="q")
        assert (error["id"], error["error"]["code"]) == ("q", "bad_request")

    def test_a_tree_that_outgrows_the_limit_is_collapsed_for_all_who_watch(self) -> None:
        app = provider(snapshot_nodes=8)
        first = connect(app)
        say(first, type="subscribe", id="s")
        grown = TREE.change("/inbox/m0", lambda node: node.with_child(Node.of("a", "item")))
        app.publish(grown)
        app.flush()
        assert [message["type"] for message in heard(first)] == ["patch"]
        over = grown.change("/inbox/m1", lambda node: node.with_children(ITEMS))
        app.publish(over)
        app.flush()
        [snapshot] = heard(first)
        assert snapshot["served"] == {"depth": -1, "max_nodes": 8}
        second = connect(app)
        [other] = say(second, type="subscribe", id="s")
        assert other["tree"] == snapshot["tree"]
        app.publish(read("/inbox/m2", 7, over))
        app.flush()
        assert heard(first)[0]["ops"] == heard(second)[0]["ops"]

    def test_who_comes_back_after_a_cut_goes_on_from_what_it_saw(self) -> None:
        nest = TREE.change("/inbox/m0", lambda node: node.with_children(ITEMS))
        app = provider(tree=nest, snapshot_nodes=6)
        connection = connect(app)
        [seen] = say(connection, type="subscribe", id="s")
        connection.close()
        app.publish(TREE)
        app.flush()
        point = {"epoch": "life-1", "version": seen["version"], "seq": 0}
        [missed] = say(connect(app), type="subscribe", id="s", resume=point)
        mirror = apply(from_value(seen["tree"]), ops_from_value(missed["ops"]))
        assert mirror == TREE

    def test_what_cannot_be_collapsed_is_refused(self) -> None:
        connection = connect(provider(snapshot_nodes=2))
        [error] = say(connection, type="subscribe", id="s")
        assert "no rule allows to collapse" in error["error"]["message"]


def test_audiences_see_their_own_tree_and_nothing_of_others() -> None:
    app = provider()
    app.publish(read("/inbox/m0", 41), "ann")
    app.publish(read("/inbox/m0", 42), "bob")
    ann, bob = app.connect("ann"), app.connect("bob")
    for connection in (ann, bob):
        connection.receive('{"type":"subscribe","id":"s","path":"/inbox/m0"}')
    assert heard(ann)[1]["tree"]["properties"] == {"n": 41}
    assert heard(bob)[1]["tree"]["properties"] == {"n": 42}
    app.publish(read("/inbox/m0", 43), "bob")
    app.flush()
    assert heard(ann) == []
    assert heard(bob)[0]["ops"][0]["value"] == 43


def test_an_audience_is_forgotten_when_nobody_watches() -> None:
    app = provider()
    app.publish(TREE, "ann")
    connection = app.connect("ann")
    connection.receive('{"type":"subscribe","id":"s"}')
    app.drop_audience("ann")
    app.publish(read("/inbox/m0", 1), "ann")
    app.flush()
    assert len(heard(connection)) == 2
    connection.close()
    app.drop_audience("ann")
    with pytest.raises(KeyError):
        app.connect("ann")


def test_a_closed_connection_hears_and_says_nothing() -> None:
    app = provider()
    connection = connect(app)
    say(connection, type="subscribe", id="s")
    connection.receive('{"type":"invoke","id":"i","path":"/inbox/m0","action":"open"}')
    connection.close()
    connection.send_result("i")
    connection.send_event(event_body("tick"))
    assert connection.receive('{"type":"query","id":"q"}') == []
    app.publish(read("/inbox/m0", 5))
    app.flush()
    assert heard(connection) == []


def test_events_are_passed_on() -> None:
    connection = connect(provider())
    connection.send_event(event_body("tick"))
    connection.send_event(event_body("tock", {"n": 1}))
    assert heard(connection) == [
        {"type": "event", "name": "tick"},
        {"type": "event", "name": "tock", "data": {"n": 1}},
    ]
