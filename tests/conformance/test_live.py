"""The conversation, over every transport."""

from __future__ import annotations

from typing import Any

import pytest

from support.malformed import CASES
from support.wire import Wire


def subscribe(own: str, **options: Any) -> dict[str, Any]:
    return {"type": "subscribe", "id": own, **options}


@pytest.mark.proves("hello.first", "subscribe.snapshot", "subscribe.id-unique", "seq.counts")
@pytest.mark.proves("version.monotonic", "order.patches-before-result", "invoke.result")
@pytest.mark.proves("unsubscribe.silent", "path.root", "scaling.scopes", "change.none")
@pytest.mark.proves("base.said", "hello.fields", "order.within")
async def test_subscriptions_follow_what_changes(wire: Wire) -> None:
    hello = await wire.expect("hello")
    assert hello["provider"]["slop_version"] == "0.1"
    assert hello["provider"]["id"] in {"app", "live"}
    assert hello["provider"]["name"] == "Live"
    assert "state" in hello["provider"]["capabilities"]
    await wire.send(subscribe("all", path=""), subscribe("detail", path="/inbox", depth=1))
    both = [await wire.expect("snapshot"), await wire.expect("snapshot")]
    snapshots = {snapshot["id"]: snapshot for snapshot in both}
    assert snapshots["all"]["tree"]["id"] == "app"
    assert snapshots["detail"]["tree"]["id"] == "inbox"
    assert {snapshot["seq"] for snapshot in snapshots.values()} == {0}
    await wire.send(subscribe("all", path="/inbox"))
    error = await wire.expect("error")
    assert (error["id"], error["error"]["code"]) == ("all", "bad_request")
    versions = [snapshots["all"]["version"]]
    for seq in (1, 2):
        patch, result = await wire.invoke("count")
        assert (patch["subscription"], patch["seq"]) == ("all", seq)
        assert (result["id"], result["status"]) == ("invoked", "ok")
        assert patch["base"] == versions[-1]
        versions.append(patch["version"])
    assert versions == sorted(set(versions))
    assert [message["type"] for message in await wire.invoke("echo")] == ["result"]
    await wire.send({"type": "unsubscribe", "id": "all"})
    assert [message["type"] for message in await wire.invoke("count")] == ["result"]


@pytest.mark.proves("path.patch-relative", "node.id-stable", "path.pointer", "ops.null")
@pytest.mark.proves("view.crossing", "scaling.patch-navigation", "ops.exact")
async def test_patches_say_what_changed_and_no_more(wire: Wire) -> None:
    await wire.expect("hello")
    await wire.send(subscribe("s", path="/inbox", filter={"min_salience": 0.4}))
    tree = (await wire.expect("snapshot"))["tree"]
    assert [child["id"] for child in tree["children"]] == ["msg-1", "msg-2"]
    patch, _ = await wire.invoke("set", path="/inbox/msg-1", key="subject", value=None)
    assert patch["ops"] == [{"op": "replace", "path": "/msg-1/properties/subject", "value": None}]
    patch, _ = await wire.invoke("set", path="/inbox/msg-1", key="a/b", value=1)
    assert patch["ops"] == [{"op": "add", "path": "/msg-1/properties/a~1b", "value": 1}]
    node = {"id": "msg-0", "type": "item", "meta": {"salience": 0.7}}
    patch, _ = await wire.invoke("add", path="/inbox", node=node, index=0)
    assert patch["ops"] == [{"op": "add", "path": "/msg-0", "value": node, "index": 0}]
    patch, _ = await wire.invoke("remove", path="/inbox/msg-2")
    assert patch["ops"] == [{"op": "remove", "path": "/msg-2"}]
    unseen = await wire.invoke("set", path="/inbox/msg-3", key="subject", value="quiet")
    assert [message["type"] for message in unseen] == ["result"]


@pytest.mark.proves("query.answer", "error.anything-else", "scaling.other-window")
@pytest.mark.proves("invoke.node-exists", "invoke.still-exposed", "event.out-of-band")
async def test_requests_are_answered_each_in_its_own_way(wire: Wire) -> None:
    await wire.expect("hello")
    await wire.send(subscribe("s", path="/inbox"))
    before = (await wire.expect("snapshot"))["tree"]
    await wire.send({"type": "query", "id": "q", "path": "/inbox", "depth": 1, "window": [1, 1]})
    answer = await wire.expect("snapshot")
    assert (answer["id"], "seq" in answer) == ("q", False)
    assert [child["id"] for child in answer["tree"]["children"]] == ["msg-2"]
    assert answer["tree"]["meta"]["window"] == [1, 1]
    assert answer["tree"]["meta"]["total_children"] == 3
    await wire.send({"type": "query", "id": "gone", "path": "/inbox/msg-9"})
    error = await wire.expect("error")
    assert (error["id"], error["error"]["code"]) == ("gone", "not_found")
    for path, action in (("/inbox/msg-9", "archive"), ("/inbox/msg-1", "explode")):
        [result] = await wire.invoke(action, path)
        assert (result["status"], result["error"]["code"]) == ("error", "not_found")
    event, _ = await wire.invoke("notify", n=1)
    assert event == {"type": "event", "name": "ping", "data": {"n": 1}}
    patch, _ = await wire.invoke("set", path="/inbox", key="label", value="Post")
    assert patch["seq"] == 1
    assert [child["id"] for child in before["children"]] == ["msg-1", "msg-2", "msg-3"]


@pytest.mark.proves("subscribe.defaults", "scaling.actions-on-stubs")
async def test_what_is_left_out_means_the_whole_tree(wire: Wire) -> None:
    await wire.expect("hello")
    said_in_full = subscribe("s", path="/", depth=-1, filter={})
    await wire.send({"type": "query", "id": "q"}, said_in_full, subscribe("t"))
    one, *others = [(await wire.expect("snapshot"))["tree"] for _ in "qst"]
    assert others == [one, one]
    await wire.send({"type": "query", "id": "r", "path": "/inbox", "depth": 1})
    [stub, *_] = (await wire.expect("snapshot"))["tree"]["children"]
    assert "affordances" not in stub
    await wire.send({"type": "query", "id": "u", "path": f"/inbox/{stub['id']}"})
    node = (await wire.expect("snapshot"))["tree"]
    assert [action["action"] for action in node["affordances"]] == ["archive"]


@pytest.mark.proves("malformed.answered")
async def test_what_is_malformed_is_refused_and_nothing_else_happens(wire: Wire) -> None:
    assert len(CASES) >= 200
    await wire.expect("hello")
    for data, own in CASES:
        await wire.send(data)
        error = await wire.receive()
        assert error["type"] == "error", (data[:100], error)
        assert (error.get("id"), error["error"]["code"]) == (own, "bad_request"), data[:100]
        assert error["error"]["message"]
    await wire.send({"type": "query", "id": "alive", "depth": 0})
    assert (await wire.expect("snapshot"))["id"] == "alive"


@pytest.mark.proves("resume.continues", "resume.empty", "resume.snapshot")
async def test_a_subscription_can_end_and_come_back(wire: Wire) -> None:
    hello = await wire.expect("hello")
    epoch = hello["provider"]["epoch"]
    await wire.send(subscribe("s"))
    version = (await wire.expect("snapshot"))["version"]
    await wire.send({"type": "unsubscribe", "id": "s"})
    assert [message["type"] for message in await wire.invoke("count")] == ["result"]
    point = {"epoch": epoch, "version": version, "seq": 4}
    await wire.send(subscribe("s", resume=point))
    missed = await wire.expect("patch")
    assert missed["seq"] == 5
    assert missed["ops"] == [{"op": "replace", "path": "/properties/n", "value": 1}]
    current = {"epoch": epoch, "version": missed["version"], "seq": 9}
    await wire.send(subscribe("t", resume=current))
    nothing = await wire.expect("patch")
    assert (nothing["subscription"], nothing["seq"], nothing["ops"]) == ("t", 10, [])
    await wire.send(subscribe("u", resume={**current, "epoch": "another life"}))
    assert (await wire.expect("snapshot"))["seq"] == 0
