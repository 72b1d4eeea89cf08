"""The live demo starts as its picture, and every action of it works."""

from __future__ import annotations

import json

import pytest

from sightline.demo import demo_tree
from sightline.demo.app import Desk, demo_app
from sightline.errors import ActionError
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.text import format_tree
from sightline.testing import connect


def test_it_starts_as_its_picture() -> None:
    tree = demo_app().tree()
    assert json.loads(encode(tree)) == json.loads(encode(demo_tree()))
    assert format_tree(tree) == format_tree(demo_tree())


async def test_a_reply_is_sent_and_the_message_read() -> None:
    desk = Desk()
    async with connect(demo_app(desk)) as client:
        answer = await client.invoke("/inbox/msg-103", "reply", body="Yes!")
        assert answer == {"sent_to": "Jonas Berg", "subject": "Re: Lunch at 12:30?"}
        assert client.tree.at("/inbox/msg-103").properties["unread"] is False
        assert client.tree.at("/inbox").properties["unread"] == 1
        assert client.tree.at("/inbox").meta.summary == "38 messages, 1 unread"
        await client.invoke("/inbox", "compose", to="a@b.example", subject="Hi", body="…")
    assert [message["to"] for message in desk.sent] == ["Jonas Berg", "a@b.example"]


async def test_what_is_archived_or_deleted_makes_room_for_older_messages() -> None:
    async with connect(demo_app()) as client:
        await client.invoke("/inbox/msg-101", "archive")
        await client.invoke("/inbox/msg-104", "delete")
        assert [child.id for child in client.tree.at("/inbox").children] == [
            "msg-103", "msg-102", "msg-100", "msg-99",
        ]  # fmt: skip
        assert client.tree.at("/inbox").meta.total_children == 36
        older = await client.query("/inbox", window=(30, 10))
        assert len(older.children) == 6
        await client.invoke(f"/inbox/{older.children[-1].id}", "archive")
        assert client.tree.at("/inbox").meta.total_children == 35


async def test_the_calendar_can_be_planned() -> None:
    async with connect(demo_app()) as client:
        added = await client.invoke("/calendar", "add_event", title="Call", start="15:00")
        assert added == {"id": "evt-9"}
        with pytest.raises(ActionError, match="something at 15:00 already") as caught:
            await client.invoke("/calendar", "add_event", title="Call", start="15:00")
        assert caught.value.code == "conflict"
        await client.invoke("/calendar/evt-7", "move", start="17:00")
        await client.invoke("/calendar/evt-8", "cancel")
        assert [child.id for child in client.tree.at("/calendar").children] == ["evt-9", "evt-7"]
        assert client.tree.at("/calendar").meta.summary == "2 events today, next at 15:00"


async def test_each_appointment_has_an_id_of_its_own_however_many_there_are() -> None:
    async with connect(demo_app()) as client:
        for hour in range(10, 13):
            await client.invoke("/calendar", "add_event", title="Call", start=f"{hour}:00")
        found = [child.id for child in client.tree.at("/calendar").children]
        assert found == ["evt-9", "evt-10", "evt-11", "evt-7", "evt-8"]


async def test_one_can_find_things_and_go_there() -> None:
    async with connect(demo_app()) as client:
        found = await client.invoke("/", "search", query="launch")
        assert [hit["path"] for hit in found] == ["/inbox/msg-104", "/calendar/evt-7"]
        assert client.tree.at("/drafts").is_lazy
        assert (await client.query("/drafts")).children[0].properties["title"] == "Offer to Nordlys"
        await client.invoke("/", "navigate", to="drafts")
        assert client.tree.at("/drafts").meta.focus
        assert client.tree.at("/inbox").meta.focus is None
        assert client.tree.at("/drafts/draft-1").type == "document"
        with pytest.raises(ActionError, match=r"/to: .* is not one of"):
            await client.invoke("/", "navigate", to="attic")
