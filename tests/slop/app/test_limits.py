"""An app that shows only so much at once, and gives the rest to who asks for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import InvalidInput
from sightline.slop.app.app import App
from sightline.slop.hub.client import Client as HubClient
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.text import format_tree
from sightline.testing import connect
from support.live import served
from support.wire import Wire


def forum(**limits: Any) -> App:
    app = App("forum", "Forum", coalesce_s=0, **limits)
    replies = ["first"]

    @app.node("threads")
    def threads() -> dict[str, Any]:
        shown = [{"id": f"r{n}", "props": {"text": text}} for n, text in enumerate(replies)]
        thread = {"id": "t1", "props": {"title": "Ducks"}, "summary": "replies", "items": shown}
        return {"type": "collection", "items": [thread]}

    def reply(text: str) -> None:
        replies.append(text)

    app.action("threads/{own}", "reply")(reply)
    app.action("threads/{own}/{reply}", "like")(lambda own, reply: f"{reply} of {own}")
    return app


async def test_beyond_its_depth_an_app_shows_stubs_that_a_query_opens() -> None:
    async with connect(forum(max_depth=2)) as client:
        assert json.loads(encode(client.tree.at("/threads/t1"))) == {
            "id": "t1", "type": "item",
            "meta": {"summary": "replies", "total_children": 1, "available_actions": ["reply"]},
        }  # fmt: skip
        whole = await client.query("/threads/t1")
        assert whole.properties == {"title": "Ducks"}
        assert [child.id for child in whole.children] == ["r0"]
        assert [child.id for child in (await client.query("/threads/t1/r0")).children] == []


async def test_what_a_query_showed_can_be_done_and_shows_in_the_stub() -> None:
    async with connect(forum(max_depth=2)) as client:
        await client.invoke("/threads/t1", "reply", text="second")
        assert client.tree.at("/threads/t1").meta.total_children == 2
        assert await client.invoke("/threads/t1/r1", "like") == "r1 of t1"


async def test_a_part_can_be_subscribed_to_and_a_snapshot_says_what_was_served(
    tmp_path: Any,
) -> None:
    app = forum(max_depth=2, max_nodes=50)
    async with served("memory", tmp_path, app) as dial, HubClient(dial) as client:
        overview, detail = client.subscribe(), client.subscribe("/threads/t1", depth=-1)
        await overview.first(20)
        shown = await detail.first(20)
        assert [child.id for child in shown.children] == ["r0"]
        await client.invoke("/threads/t1", "reply", {"text": "second"})
        assert detail.tree is not None
        assert [child.id for child in detail.tree.children] == ["r0", "r1"]
        assert overview.tree is not None
        assert overview.tree.at("/threads/t1").children == ()


async def test_a_snapshot_says_what_was_really_served(tmp_path: Path) -> None:
    async with served("memory", tmp_path, forum(max_depth=2, max_nodes=50)) as dial:
        wire = Wire(await dial())
        await wire.expect("hello")
        for depth, told in (
            (-1, {"depth": 2, "max_nodes": 50}),
            (1, {"depth": 1, "max_nodes": 50}),
        ):
            await wire.send({"type": "subscribe", "id": str(depth), "depth": depth})
            assert (await wire.expect("snapshot"))["served"] == told
        await wire.send({"type": "query", "id": "q"})
        assert "served" not in await wire.expect("snapshot")


async def test_a_view_has_limits_of_its_own() -> None:
    app = App("a", "A", coalesce_s=0, max_depth=1)
    deep = {"items": [{"id": "x", "items": [{"id": "y", "items": [{"id": "z"}]}]}]}
    app.view("near", max_depth=1)(lambda: deep)
    app.view("far", max_depth=2)(lambda: deep)
    app.view("plain")(lambda: deep)

    async with connect(app) as client:

        async def lines(view: str) -> list[str]:
            app.focus(view)
            await client.until(lambda: bool(client.tree.at(f"/{view}").meta.focus))
            return [
                line.strip() for line in format_tree(client.tree).splitlines() if "[item" in line
            ]

        assert await lines("far") == ["[item] x", "[item] y"]
        assert await lines("near") == ["[item] x"]
        assert await lines("plain") == []


async def test_sessions_that_see_the_same_share_what_is_shown() -> None:
    app = forum(max_depth=2)
    app.authenticate(lambda peer: peer.token)
    async with connect(app, token="ana") as ana, connect(app, token="bob") as bob:
        await ana.invoke("/threads/t1", "reply", text="second")
        await bob.until(lambda: bob.tree == ana.tree)
        watched = [
            group.showing
            for audience in app._provider._audiences.values()
            for group in audience.groups.values()
        ]
        assert len(watched) == 2
        assert watched[0] is watched[1]


async def test_the_least_salient_go_first_when_an_app_has_too_many_nodes() -> None:
    app = App("a", "A", coalesce_s=0, max_nodes=6)
    kept = {"id": "kept", "meta": {"salience": 0.9}, "items": [{"id": "k1"}, {"id": "k2"}]}
    gone = {"id": "gone", "props": {"n": 1}, "items": [{"id": "g1"}, {"id": "g2"}]}
    app.node("list")(lambda: {"items": [kept, gone]})
    async with connect(app) as client:
        assert [node.id for node in client.tree.walk()] == ["a", "list", "kept", "k1", "k2", "gone"]
        assert client.tree.at("/list/gone").properties == {"n": 1}
        assert len((await client.query("/list/gone")).children) == 2


@pytest.mark.parametrize("limits", [{"max_depth": -2}, {"max_nodes": 0}])
def test_a_limit_that_means_nothing_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        forum(**limits)
    with pytest.raises(InvalidInput):
        App("a", "A").view("x", **limits)  # type: ignore[arg-type] # test input
