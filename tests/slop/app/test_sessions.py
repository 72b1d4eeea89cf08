"""Each user has a tree of their own, and nothing of it reaches anybody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sightline.errors import ActionError
from sightline.slop.app.app import App
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.link import Peer
from sightline.testing import Client, connect

USERS = ("ana", "bob")


def notes_app() -> tuple[App, dict[str, list[str]]]:
    app = App("notes", "Notes", coalesce_s=0)
    notes: dict[str, list[str]] = {user: [f"secret of {user}"] for user in USERS}

    @app.authenticate
    def who(peer: Peer) -> str:
        if peer.token not in USERS:
            raise ActionError("unauthorized", "who are you?")
        return peer.token

    @app.node("mine")
    def mine(session: str) -> dict[str, Any]:
        own = notes[session]
        return {"items": [{"id": str(n), "props": {"text": text}} for n, text in enumerate(own)]}

    app.node("everyone")(lambda: {"props": {"notes": sum(map(len, notes.values()))}})

    @app.action("mine", "add")
    def add(text: str, session: str) -> None:
        notes[session].append(text)

    return app, notes


@asynccontextmanager
async def as_user(app: App, user: str | None) -> AsyncIterator[Client]:
    async with connect(app, token=user) as client:
        yield client


async def test_a_connection_sees_only_its_own_users_tree() -> None:
    app, notes = notes_app()
    seen: dict[str, bytes] = {}
    async with as_user(app, "ana") as ana, as_user(app, "bob") as bob, as_user(app, "bob") as again:
        for client in (ana, bob, again):
            received = client.consumer.receive

            def keep(data: bytes | str, own: Client = client, receive: Any = received) -> Any:
                key = str(id(own))
                seen[key] = seen.get(key, b"") + (data if isinstance(data, bytes) else b"")
                return receive(data)

            client.consumer = _Tapped(client.consumer, keep)  # type: ignore[assignment]  # for a tap
        for n in range(20):
            await ana.invoke("/mine", "add", text=f"ana's private {n}")
            await bob.invoke("/mine", "add", text=f"bob's private {n}")
            app.refresh()
        for client in (ana, bob, again):
            await client.query("/")
        assert encode(bob.tree) == encode(again.tree)
        assert b"ana" not in seen[str(id(bob))] + seen[str(id(again))] + encode(bob.tree)
        assert b"bob" not in seen[str(id(ana))] + encode(ana.tree)
        assert ana.tree.at("/everyone").properties == {"notes": 42}
        assert len(ana.tree.at("/mine").children) == len(notes["ana"]) == 21


class _Tapped:
    """A consumer whose input is kept."""

    def __init__(self, consumer: Any, receive: Any) -> None:
        self._consumer = consumer
        self.receive = receive

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)


async def test_who_is_refused_is_told_so_and_sees_nothing() -> None:
    app, _ = notes_app()
    with pytest.raises(ActionError, match=r"who are you\?"):
        async with as_user(app, "eve"):
            pytest.fail("let in")


async def test_a_hook_that_fails_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    app = App("a", "A")
    app.authenticate(lambda _: {"not": "hashable"})
    with pytest.raises(ActionError, match="could not be authenticated"):
        async with connect(app):
            pytest.fail("let in")
    assert "TypeError" in caplog.text


async def test_one_user_cannot_act_on_anothers_node() -> None:
    app, notes = notes_app()
    notes["ana"].append("second")

    @app.action("mine/{n}", "drop")
    def drop(n: str, session: str) -> None:
        del notes[session][int(n)]

    async with as_user(app, "ana") as ana, as_user(app, "bob") as bob:
        with pytest.raises(ActionError) as caught:
            await bob.invoke("/mine/1", "drop")
        assert caught.value.code == "not_found"
        await ana.invoke("/mine/1", "drop")
    assert notes["ana"] == ["secret of ana"]


async def test_a_refresh_may_be_limited_to_some_sessions() -> None:
    app, notes = notes_app()
    async with as_user(app, "ana") as ana, as_user(app, "bob") as bob:
        for user in USERS:
            notes[user].append("new")
        app.refresh("mine", where=lambda session: session == "ana")
        await ana.until(lambda: len(ana.tree.at("/mine").children) == 2)
        assert len((await bob.query("/mine")).children) == 1
        app.update("mine/0", props={"text": "edited"}, where=lambda session: session == "bob")
        await bob.until(lambda: bob.tree.at("/mine/0").properties == {"text": "edited"})
        assert ana.tree.at("/mine/0").properties == {"text": "secret of ana"}


async def test_events_may_be_limited_to_some_sessions() -> None:
    app, _ = notes_app()
    async with as_user(app, "ana") as ana, as_user(app, "bob") as bob:
        app.emit("ping", where=lambda session: session == "ana")
        app.emit("ping-all")
        await ana.until(lambda: len(ana.events) == 2)
        await bob.until(lambda: len(bob.events) == 1)
        assert [event.name for event in bob.events] == ["ping-all"]


async def test_what_is_the_same_for_two_sessions_is_one_object() -> None:
    app, notes = notes_app()
    notes["ana"], notes["bob"] = ["same"], ["same"]
    async with as_user(app, "ana"), as_user(app, "bob"):
        ana, bob = app.tree("ana"), app.tree("bob")
        assert ana.at("/mine/0") is bob.at("/mine/0")
        assert ana.at("/everyone") is bob.at("/everyone")


async def test_a_user_who_comes_back_after_changes_sees_the_new_state() -> None:
    app, notes = notes_app()
    async with as_user(app, "ana") as ana:
        consumer = ana.consumer
    notes["ana"].append("while away")
    async with as_user(app, "bob"):
        pass
    async with as_user(app, "ana") as ana:
        assert len(ana.tree.at("/mine").children) == 2
    registry = app.registry
    assert [*registry._renderings, *registry._alike, *registry._untaken] == []
    assert consumer is not ana.consumer


async def test_a_failing_function_fails_for_its_session_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, notes = notes_app()
    async with as_user(app, "ana") as ana, as_user(app, "bob") as bob:
        del notes["bob"]
        app.refresh()
        await bob.until(lambda: bob.tree.child("errors") is not None)
        assert ana.tree.child("errors") is None
        assert "KeyError" in caplog.text


async def test_sessions_that_are_shown_the_same_share_one_tree_until_they_differ() -> None:
    app = App("shop", "Shop", coalesce_s=0)
    carts: dict[str, list[str]] = {"ana": [], "bob": [], "eve": []}
    app.authenticate(lambda peer: peer.token)
    app.node("shelf/books")(lambda: {"items": [{"id": "b1"}, {"id": "b2"}]})
    app.node("cart")(lambda session: {"items": [{"id": item} for item in carts[session]]})
    app.action("shelf/books/{own}", "take")(lambda own, session: carts[session].append(own))

    def trees() -> dict[Any, Node]:
        return {session: app.registry.tree(session) for session in app.registry._renderings}

    async with as_user(app, "ana") as ana, as_user(app, "bob"), as_user(app, "eve") as eve:
        shown = trees()
        assert shown["ana"] is shown["bob"] is shown["eve"]
        await ana.invoke("/shelf/books/b1", "take")
        shown = trees()
        assert shown["bob"] is shown["eve"]
        assert [item.id for item in shown["ana"].at("/cart").children] == ["b1"]
        assert shown["bob"].at("/cart").children == ()
        assert shown["ana"].at("/shelf") is shown["bob"].at("/shelf")
        await eve.invoke("/shelf/books/b1", "take")
        shown = trees()
        assert shown["ana"] is shown["eve"]
        assert shown["ana"] is not shown["bob"]
    async with as_user(app, "bob"):
        assert list(trees()) == ["bob"]


async def test_only_the_trees_that_may_have_changed_are_made_again() -> None:
    app = App("a", "A", coalesce_s=0)
    state = {"all": 0, "ana": 0, "bob": 0}
    app.authenticate(lambda peer: peer.token)
    app.node("all")(lambda: {"props": {"n": state["all"]}})
    app.node("mine")(lambda session: {"props": {"n": state[session]}})

    def changed(*names: str, to: str | None = None) -> list[Any]:
        for name in names:
            state[name] += 1
        app.registry.refresh(where=None if to is None else lambda session: session == to)
        return [session for session, _ in app.registry.changed_trees()]

    async with as_user(app, "ana"), as_user(app, "bob"):
        assert changed() == []
        assert changed("bob") == ["bob"]
        assert changed("ana", "bob", to="ana") == ["ana"]
        assert sorted(changed("all")) == ["ana", "bob"]


async def test_a_tree_that_was_made_before_anybody_looked_is_shown_to_who_comes() -> None:
    app = App("a", "A", coalesce_s=0)
    app.authenticate(lambda peer: peer.token)
    app.node("here")(lambda: {"props": {"n": 1}})
    assert app.tree().at("/here").properties == {"n": 1}
    async with as_user(app, "ana"):
        pass
    async with as_user(app, None) as anyone:
        assert anyone.tree.at("/here").properties == {"n": 1}


async def test_twins_keep_their_own_handlers() -> None:
    app = App("a", "A", coalesce_s=0)
    app.authenticate(lambda peer: peer.token)

    @app.node("me")
    def me(session: str) -> dict[str, Any]:
        return {"actions": {"who": lambda: session}}

    async with as_user(app, "ana") as ana, as_user(app, "bob") as bob:
        assert app.registry.tree("ana") is app.registry.tree("bob")
        assert await ana.invoke("/me", "who") == "ana"
        assert await bob.invoke("/me", "who") == "bob"
