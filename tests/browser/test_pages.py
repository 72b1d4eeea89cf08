"""Pages as apps, in a real browser: by the extension, once their site is allowed, and by dialling.

One browser for all tests; each has a site of its own, for which no network is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import (
    BrowserContext,
    CDPSession,
    Locator,
    Page,
    Route,
    async_playwright,
    expect,
)
from slop_ai import SlopConsumer
from slop_ai.discovery.bridge import BridgeServer
from slop_ai.discovery.relay_transport import BridgeRelayTransport

from agent.host.helpers import ALONE, invoke, turn
from browser.board import dialling, served
from browser.conftest import FLAGS, ROOT, TIMEOUT_MS, chromium
from browser.test_accessible import AXE, FOUND
from sightline.agent.host import Host
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import Settings
from sightline.errors import ActionFailed
from sightline.slop.hub.browser import BrowserBridge
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from support.loopback import reserved_port
from support.share import WHOLE
from support.wire import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")
whole = pytest.mark.skipif(not WHOLE, reason="LAWS=whole")

EXTENSION = ROOT / "js" / "extension"
HOSTILE = "Counter \u202e<img src=x onerror='window.hacked=1'>"
DOCUMENTED = (ROOT / "docs" / "javascript.md").read_text("utf-8")
PAGES = {
    "": f"""<meta charset="utf-8"><title>{HOSTILE}</title>"""
    """<script type="module">
      import { App } from "/sightline.js";
      const app = new App("counter", "Counter");
      let count = 0;
      app.node("count", () => ({ type: "status", props: { count } }));
      app.action("count", "add", ({ by }) => set(count + by), { params: { by: "integer" } });
      const set = (value) => {
        count = value;
        app.refresh();
        return count;
      };
      window.set = set;
      window.heard = [];
      window.addEventListener("message", ({ data }) => heard.push(data));
      app.post();
    </script>""",
    "empty": "<title>Empty</title>",
    "elsewhere": """<title>Elsewhere</title>
      <meta name="slop" content="ws://127.0.0.1:1/slop">
      <meta name="slop" content="ws://user@sockets.example/slop">
      <meta name="slop" content="javascript:alert(1)">""",
    "docs": """<title>Todos</title><script>
      const todos = [{ id: "a", title: "Read", done: false }];
      const addTodo = (title) => void todos.push({ id: "b", title, done: false });
      const finish = (own) => { todos.find(({ id }) => id === own).done = true; };
    </script><script type="module">"""
    + re.findall(r"^```js\n(.*?)^```$", DOCUMENTED, re.MULTILINE | re.DOTALL)[0]
    + "</script>",
}


async def answer(route: Route) -> None:
    """Give the library, or a page by its path."""
    path = route.request.url.split("/", 3)[3]
    if path == "sightline.js":
        script = (ROOT / "js" / "sightline.js").read_text("utf-8")
        await route.fulfill(body=script, content_type="text/javascript")
    else:
        await route.fulfill(body=f"<!doctype html>{PAGES[path]}", content_type="text/html")


class Browser:
    """A browser with the extension, and its popup in a tab."""

    def __init__(self, context: BrowserContext, popup: Page) -> None:
        self.context = context
        self.popup = popup
        self.sessions: dict[Page, CDPSession] = {}

    def entry(self, site: str) -> Locator:
        """What the popup shows of a site."""
        return self.popup.locator("#pages > li").filter(has_text=site)

    async def open(self, site: str, path: str = "", *, allow: bool = True) -> Page:
        """Open a page, and allow its site."""
        page = await self.context.new_page()
        await self.look_at(page)
        await page.goto(f"http://{site}/{path}")
        if allow:
            await self.press(site, "Allow this site")
        return page

    async def press(self, site: str, button: str) -> None:
        """Press a button of a site."""
        await self.entry(site).get_by_role("button", name=button).click()

    async def pair(self, port: int, token: str = "") -> None:
        """Type port and token into the popup."""
        await self.popup.get_by_label("Pairing token").fill(token)
        await self.popup.get_by_label("Port").fill(str(port))
        await self.popup.get_by_role("button", name="Pair").click()

    async def end_worker(self) -> None:
        """End the extension's worker, as the browser does when it sees fit."""
        session = await self.context.new_cdp_session(self.popup)
        await session.send("ServiceWorker.enable")
        await session.send("ServiceWorker.stopAllWorkers")
        await session.detach()

    async def look_at(self, page: Page) -> None:
        """Have a page count as looked at, whichever is in front."""
        session = await self.context.new_cdp_session(page)
        await session.send("Emulation.setFocusEmulationEnabled", {"enabled": True})
        self.sessions[page] = session

    @asynccontextmanager
    async def frozen(self, page: Page) -> AsyncIterator[None]:
        """A page that the browser has frozen, as one that nobody looks at; then it runs again."""
        session = self.sessions[page]
        await session.send("Emulation.setFocusEmulationEnabled", {"enabled": False})
        await session.send("Page.setWebLifecycleState", {"state": "frozen"})
        yield
        await session.send("Page.setWebLifecycleState", {"state": "active"})
        await session.send("Emulation.setFocusEmulationEnabled", {"enabled": True})

    async def other_tab(self, verb: str) -> None:
        """Do something to the tab that is not in front, as the browser itself might."""
        worker = self.context.service_workers[-1]
        tabs = "chrome.tabs.query({active: false})"
        await worker.evaluate(f"{tabs}.then(([tab]) => chrome.tabs.{verb}(tab.id)).then(() => 0)")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    path = chromium()
    if path is None or Path(path).is_relative_to(ROOT):
        pytest.skip("no Chromium here that loads extensions: one that is unpacked has no windows")
    loads = [f"--disable-extensions-except={EXTENSION}", f"--load-extension={EXTENSION}"]
    # Started by us: one that is started by the library counts every page as looked at, always.
    process = await asyncio.create_subprocess_exec(
        path,
        "--headless=new",
        "--no-first-run",
        "--remote-debugging-port=0",
        f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
        "--window-size=1280,800",
        *FLAGS,
        *loads,
        "about:blank",
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    while not (said := (await process.stderr.readline()).decode()).startswith("DevTools listening"):
        assert said, "the browser ended"
    rest = asyncio.create_task(process.stderr.read())
    async with async_playwright() as playwright:
        connected = await playwright.chromium.connect_over_cdp(said.split()[-1], no_defaults=True)
        [context] = connected.contexts
        context.set_default_timeout(TIMEOUT_MS)
        await context.route("http://*.example/**", answer)
        if not context.service_workers:
            await context.wait_for_event("serviceworker")
        popup = context.pages[0]
        await popup.goto(context.service_workers[0].url.replace("worker.js", "popup.html"))
        opened = Browser(context, popup)
        await opened.look_at(popup)
        yield opened
        await connected.close()
    process.terminate()
    await process.wait()
    await rest


@asynccontextmanager
async def bridged(path: Path, port: int = 0) -> AsyncIterator[Hub]:
    """A hub with a bridge, or one that finds a bridge at its port."""
    async with Hub(bridge=BrowserBridge(path, port=port)) as hub:
        assert hub.bridge is not None
        await hub.bridge.settled()
        yield hub


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    """A hub that the extension is paired with."""
    async with bridged(tmp_path_factory.mktemp("state") / "browser.json") as hub:
        assert hub.bridge is not None
        await browser.pair(hub.bridge.port, hub.bridge.token)
        yield hub


def count_of(tree: Node) -> Any:
    return tree.at("/count").properties["count"]


async def until(
    hub: Hub, test: Callable[[dict[str, Any]], bool], look: Callable[[Node], Any] = count_of
) -> None:
    """Wait for what a hub shows: by app, what is seen in its tree, or why there is none."""
    shown: dict[str, Any] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            async for world in hub.changes():
                shown = {
                    app.id: look(app.tree) if app.tree and not app.reason else app.reason
                    for app in world.apps
                }
                if test(shown):
                    return
    raise AssertionError(shown)


async def barriers(page: Page) -> list[str]:
    """What keeps people out of a page, in light and dark, as axe-core says."""
    await page.evaluate(AXE.read_text("utf-8"))
    found: list[str] = []
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        found += await page.evaluate(FOUND)
    return found


@whole
async def test_nothing_is_shared_before_its_site_was_allowed_nor_after_it_was_stopped(
    browser: Browser, hub: Hub
) -> None:
    page = await browser.open("first.example", allow=False)
    entry = browser.entry("first.example")
    await expect(entry).to_contain_text("nothing is shared")
    await expect(entry).to_contain_text("Counter \\u{202e}<img")
    await expect(browser.popup.locator("#bridge")).to_contain_text("nothing is shared")
    assert hub.world.apps == ()
    assert await browser.popup.locator("img").count() == 0

    await browser.press("first.example", "Allow this site")
    await until(hub, lambda shown: shown == {"web-counter": 0})
    await expect(entry).to_contain_text("shared with one agent · sightline")
    assert (await hub.invoke("web-counter", "/count", "add", {"by": 2})).data == 2
    await expect(entry).to_contain_text("add on /count")
    assert await barriers(browser.popup) == []
    origin = hub.origin("web-counter")
    assert origin is not None
    assert "http://first.example" in str(origin)

    await browser.press("first.example", "Stop")
    await until(hub, lambda shown: shown == {})
    await expect(entry).to_contain_text("nothing is shared")
    heard = await page.evaluate("heard.length")
    await page.evaluate("set(7)")
    await expect(browser.popup.locator("#bridge")).to_contain_text("nothing is shared")
    assert await page.evaluate("heard.length") == heard
    await page.close()


async def test_two_agents_follow_a_storm_of_changes_and_act(browser: Browser, hub: Hub) -> None:
    assert hub.bridge is not None
    page = await browser.open("storm.example")
    await until(hub, lambda shown: shown == {"web-counter": 0})
    async with bridged(hub.bridge.path, hub.bridge.port) as second:
        assert second.bridge is not None
        assert second.bridge.role == "client"
        await until(second, lambda shown: shown == {"web-counter": 0})
        await expect(browser.entry("storm.example")).to_contain_text("shared with 2 agents")
        await page.evaluate("async () => { for (let n = 1; n <= 400; n++) set(await n); }")
        both = (hub, second)
        outcomes = await asyncio.gather(
            *(one.invoke("web-counter", "/count", "add", {"by": 100}) for one in both)
        )
        assert {outcome.data for outcome in outcomes} == {500, 600}
        for one in both:
            await until(one, lambda shown: shown == {"web-counter": 600})
    await expect(browser.entry("storm.example")).to_contain_text("shared with one agent")
    await page.close()
    await until(hub, lambda shown: shown == {})


@whole
async def test_a_tab_is_followed_through_reload_sleep_and_its_end(
    browser: Browser, hub: Hub
) -> None:
    page = await browser.open("tabs.example")
    await until(hub, lambda shown: shown == {"web-counter": 0})
    await page.evaluate("set(3)")
    await until(hub, lambda shown: shown == {"web-counter": 3})
    await page.reload()
    await until(hub, lambda shown: shown == {"web-counter": 0})

    await browser.end_worker()
    await until(hub, lambda shown: "not connected" in str(shown.get("web-counter")))
    await until(hub, lambda shown: shown == {"web-counter": 0})

    async with browser.frozen(page):
        await until(hub, lambda shown: "asleep" in str(shown.get("web-counter")))
    await until(hub, lambda shown: shown == {"web-counter": 0})

    await browser.popup.bring_to_front()
    await browser.other_tab("discard")
    await until(hub, lambda shown: "asleep" in str(shown.get("web-counter")))
    await expect(browser.entry("tabs.example")).to_contain_text("the tab sleeps")
    await browser.other_tab("reload")
    await until(hub, lambda shown: shown == {"web-counter": 0})
    await browser.other_tab("remove")
    await until(hub, lambda shown: shown == {})


@whole
async def test_a_page_is_found_however_late_it_says_so_and_names_no_other_host(
    browser: Browser, hub: Hub
) -> None:
    late = await browser.open("late.example", "empty", allow=False)
    said = await browser.open("said.example", "empty", allow=False)
    await browser.open("elsewhere.example", "elsewhere", allow=False)
    sockets = await browser.open("sockets.example", "empty", allow=False)
    assert await browser.popup.locator("#pages button").count() == 0
    tag = """content => {
        const meta = document.createElement('meta');
        document.head.append(Object.assign(meta, {name: 'slop', content}));
    }"""
    await late.evaluate(tag, "postmessage")
    await sockets.evaluate(tag, "ws://sockets.example/slop")
    hello = {"type": "hello", "provider": {"id": "said", "name": "Said \u202e so"}}
    await said.evaluate("message => window.postMessage({slop: true, message}, '*')", hello)
    await expect(browser.entry("late.example")).to_contain_text("Empty")
    await expect(browser.entry("said.example")).to_contain_text("Said \\u{202e} so")
    await browser.press("sockets.example", "Allow this site")
    entry = browser.entry("sockets.example")
    await expect(entry).to_contain_text("agents connect to ws://sockets.example/slop")
    await expect(browser.popup.locator("#pages button")).to_have_count(3)
    await browser.press("sockets.example", "Stop")
    assert hub.world.app("web-said") is None
    for page in browser.context.pages[1:]:
        await page.close()


@whole
async def test_the_deployed_bridge_and_consumer_are_served(browser: Browser, hub: Hub) -> None:
    assert hub.bridge is not None
    with reserved_port() as port:
        bridge = BridgeServer(f"ws://127.0.0.1:{port}/slop-bridge")
        await bridge.start()
        announced = asyncio.Event()
        bridge.on_provider_change(announced.set)
        await browser.pair(port)
        page = await browser.open("deployed.example")
        async with asyncio.timeout(PATIENCE_S):
            await announced.wait()
        [provider] = bridge.providers()
        assert (provider.id, provider.name, provider.transport) == (
            "counter",
            "Counter",
            "postmessage",
        )
        consumer = SlopConsumer(BridgeRelayTransport(bridge, provider.provider_key))
        await consumer.connect()
        subscription = (await consumer.subscribe("/"))["id"]
        assert (await consumer.invoke("/count", "add", {"by": 5}))["status"] == "ok"
        tree = consumer.get_tree(subscription)
        assert tree is not None
        assert tree.children[0].properties == {"count": 5}
        await page.close()
        await browser.pair(hub.bridge.port, hub.bridge.token)
        await bridge.stop()


async def test_an_agent_and_a_person_move_cards_on_the_same_board(
    browser: Browser, hub: Hub, tmp_path: Path
) -> None:
    assert hub.bridge is not None
    page = await browser.context.new_page()
    await browser.look_at(page)
    await page.add_init_script(dialling(hub.bridge.port))
    move = invoke("m1", "/todo/c1", "move", app="web-kanban", to="done", position=0)
    model = ScriptedModel([["Done it is.", move], "The name is chosen.", "The oven, too."])
    with served() as address:
        await page.goto(address)
        await expect(page.get_by_text("An agent sees this board")).to_be_visible()
        await until(hub, lambda shown: shown == {"web-kanban": ["c4"]}, done_of)
        settings = Settings(apps=ALONE)
        async with Host.open(settings, model=model, ledger=tmp_path / "l.db", hub=hub) as host:
            await turn(host, "We have a name.", answer=lambda _: True)
            await expect(page.locator(".done #c1.changed")).to_be_visible()
            await expect(page.locator("#log")).to_contain_text("agent moved “Choose a name")
            await page.drag_and_drop("#c3", ".lane.done form")
            await until(hub, lambda shown: shown == {"web-kanban": ["c1", "c4", "c3"]}, done_of)
            await turn(host, "And what is done?")
        tail = json.loads(model.requests[-1].data)["messages"][-1]["content"]
        assert "[item] c3: Ask what the oven costs" in tail.partition("[collection] done")[2]
        app = hub.world.app("web-kanban")
        assert app is not None
        assert app.tree is not None
        assert await page.locator("#seen").inner_text() == format_tree(app.tree)
        assert await barriers(page) == []
    await page.close()


async def test_the_page_of_the_documentation_is_used_by_an_agent(
    browser: Browser, hub: Hub
) -> None:
    assert hub.bridge is not None
    page = await browser.context.new_page()
    await page.add_init_script(dialling(hub.bridge.port))
    await page.goto("http://docs.example/docs")
    await browser.press("docs.example", "Allow this site")
    await until(hub, lambda shown: shown.get("web-todos") == [("a", False)], todos_of)
    assert (await hub.invoke("web-todos", "/list", "add", {"title": "Write"})).status == "ok"
    assert (await hub.invoke("web-todos", "/list/a", "finish", {})).status == "ok"
    both = [("a", True), ("b", False)]
    await until(hub, lambda shown: shown["web-todos"] == both, todos_of)
    with pytest.raises(ActionFailed, match="does not offer 'finish'"):
        await hub.invoke("web-todos", "/list/a", "finish", {})
    await page.close()
    await until(hub, lambda shown: "web-todos" not in shown, todos_of)


def todos_of(tree: Node) -> list[tuple[str, Any]]:
    return [(todo.id, todo.properties["done"]) for todo in tree.at("/list").children]


def done_of(tree: Node) -> list[str]:
    return [card.id for card in tree.at("/done").children]
