"""The examples run, as their first lines say, and are short enough to read."""

from __future__ import annotations

import asyncio
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from textual.widgets import Input, OptionList

from examples import shop, todo
from sightline.errors import ActionFailed, SightlineError
from sightline.slop.hub.client import Client
from sightline.slop.hub.watch import Watch
from sightline.slop.transports.stdio import spawn_stdio
from sightline.slop.transports.unix import connect_unix
from sightline.slop.transports.websocket import connect_websocket
from support import notebook
from support.web import served
from support.wire import PATIENCE_S

EXAMPLES = Path(shop.__file__).parent


async def until(watch: Watch, path: str, **wanted: object) -> None:
    """Wait until a node shows these properties."""
    async with asyncio.timeout(PATIENCE_S):
        async for tree in watch.changes():
            found = tree.at(path).properties
            if all(found.get(key) == value for key, value in wanted.items()):
                return


def test_every_example_is_shorter_than_150_lines_as_docs_say() -> None:
    assert "each shorter than 150 lines" in (EXAMPLES.parent / "docs/README.md").read_text("utf-8")
    programs = [path for path in EXAMPLES.rglob("*") if path.suffix in {".py", ".ipynb", ".js"}]
    for path in programs:
        assert len(path.read_text("utf-8").splitlines()) < 150, path
    listed = re.findall(r"\]\(([\w./]+)\)", (EXAMPLES / "README.md").read_text("utf-8"))
    started = {path.relative_to(EXAMPLES).as_posix() for path in programs if path.suffix != ".js"}
    assert sorted(listed) == sorted(started)


def post(url: str, token: str) -> bytes:
    request = urllib.request.Request(  # noqa: S310 - our own server
        url, method="POST", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own server
        body: bytes = answer.read()
    return body


async def test_the_shop_shows_every_user_their_own_cart() -> None:
    async with served(shop.api) as at:
        url = f"ws://{at}/agents/slop"
        async with (
            Client(lambda: connect_websocket(url, "ana-secret")) as ana,
            Client(lambda: connect_websocket(url, "bob-secret")) as bob,
        ):
            carts = ana.subscribe("/cart"), bob.subscribe("/cart")
            for cart in carts:
                await cart.first(PATIENCE_S)
            outcome = await ana.invoke("/catalog/duck", "add_to_cart", {"count": 2})
            assert outcome.data == 9.98
            await asyncio.to_thread(post, f"http://{at}/cart/mug", "ana-secret")
            await until(carts[0], "/", total=17.48)
            assert carts[1].tree is not None
            assert carts[1].tree.properties["total"] == 0
            with pytest.raises(ActionFailed, match="the cart is empty"):
                await bob.invoke("/cart", "check_out")
            assert (await ana.invoke("/cart", "check_out")).data == "paid 17.48"
        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(post, f"http://{at}/cart/mug", "nobody")
        refused.value.close()
        async with Client(lambda: connect_websocket(url, "nobody"), reconnect=False) as nobody:
            with pytest.raises(SightlineError):
                await nobody.query()


async def test_the_todo_program_is_used_by_a_person_and_a_model_at_once(tmp_path: Path) -> None:
    path = tmp_path / "todo.sock"
    screen = todo.TodoScreen(unix=path, port=None, discoverable=False)
    async with screen.run_test() as pilot:
        assert screen.addresses == (f"unix:{path}",)
        async with Client(lambda: connect_unix(path)) as client:
            watch = client.subscribe()
            await watch.first(PATIENCE_S)
            screen.query_one(Input).focus()
            await pilot.press(*"tea", "enter")
            await until(watch, "/list/t1", title="tea", done=False)
            assert (await client.invoke("/list", "add", {"title": "bread"})).data == "t2"
            await client.invoke("/list/t1", "toggle")
            await pilot.pause()
            shown = screen.query_one(OptionList)
            prompts = [str(shown.get_option_at_index(at).prompt) for at in range(2)]
            assert prompts == ["✔ tea", "· bread"]
            await client.invoke("/list/t1", "remove")
            assert [item.title for item in screen.todos] == ["bread"]
    assert not path.exists()


async def test_the_log_watcher_tells_what_is_written(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("INFO started\nWARNING low on ducks\n", "utf-8")
    command = [sys.executable, str(EXAMPLES / "logwatch.py"), str(log)]
    async with Client(lambda: spawn_stdio(command)) as client:
        watch = client.subscribe()
        tree = await watch.first(PATIENCE_S)
        assert tree.at("/log/line-2").properties["level"] == "WARNING"
        with log.open("a", encoding="utf-8") as file:
            file.write("ERROR out of ducks\n")
        await until(watch, "/log", errors=1)
        assert (await client.invoke("/", "search", {"text": "ducks", "limit": 1})).data == [
            "ERROR out of ducks"
        ]
        await client.invoke("/", "mark_seen")
        await until(watch, "/log", errors=0)


async def test_the_notebook_prints_what_it_shows() -> None:
    async for cell, printed in notebook.executed(EXAMPLES / "notebook.ipynb"):
        assert printed == notebook.shown(cell), cell["id"]
