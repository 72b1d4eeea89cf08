"""`sightline.js` is to a consumer what our `App` is: the same messages, the same text."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner
from slop_ai import SlopConsumer

from sightline.cli.main import cli
from sightline.slop.app.app import App
from sightline.slop.app.javascript import javascript
from sightline.slop.protocol.codec import decode, from_value
from sightline.slop.protocol.text import format_tree
from sightline.slop.transports.stdio import spawn_stdio
from support import web
from support.convergence import World
from support.node_app import ROOT, NodeApps, as_descriptor, mailbox_command, node_program
from support.share import WHOLE
from support.trees import Tree, edited, every_node, touched, tree
from support.wire import PATIENCE_S

VIEWS: list[dict[str, Any]] = [
    {}, {"depth": 0}, {"depth": 1}, {"depth": 2}, {"max_nodes": 3}, {"max_nodes": 8},
    {"filter": {"min_salience": 0.3}}, {"filter": {"min_salience": 0.5, "retain_ancestors": True}},
    {"filter": {"types": ["item", "view"]}, "depth": 2, "max_nodes": 4},
]  # fmt: skip
SHIPPED_BYTES = {"gzip": 10_000, "brotli": 9_500}  # of the shrunk module
BROTLI = "process.stdout.write(zlib.brotliCompressSync(fs.readFileSync(0)))"
# What short names could confuse: names within names, words that are member and variable at once.
NESTED = """
export class Kept {
  _hidden = 3;
  constructor(outer) { this.ids = outer }
  get _sum() { return this._hidden }
}
export let given = ({ ids, more = ids.length, ...rest }, ...others) => {
  let outer = [1, 2];
  for (let outer of others) {
    let inner = ids.map((ids) => ids * outer);
    outer = inner;
    rest.last = JSON.stringify(outer);
  }
  return [...outer, rest.last];
};
let first = ({ id, more }) => ({ id, more });
let inner = (outer) => { let first = (inner) => -inner - outer; return first(3) };
let kept = new Kept([3]);
let fails = () => { try { throw "caught" } catch (reason) { let outer = reason; return outer } };
let made = [given({ ids: [3, 10] }, 1), first({ id: 7, more: 8 })];
console.log(Kept.name, kept._sum, ...made.map((one) => JSON.stringify(one)), inner(1), fails());
export let _named = () => 5;
let words = { given, JSON, _named };
console.log(words.given === given, words.JSON === JSON, words._named());
"""
CASES = 400 if WHOLE else 8
WORLDS = 2_000 if WHOLE else 200
TOGETHER = 200


@pytest.fixture(scope="module")
def node() -> Iterator[NodeApps]:
    with NodeApps() as apps:
        yield apps


def holdable(value: Any) -> Any:
    """A value that JavaScript holds as it is: it has one kind of number, and sorts digits first."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return int(value) if float(value).is_integer() and abs(value) < 2**53 else 0.25
    if isinstance(value, dict):
        named = {f"n{key}" if key.isdigit() else key: item for key, item in value.items()}
        return {key: holdable(item) for key, item in named.items()}
    return [holdable(item) for item in value] if isinstance(value, list) else value


def called(descriptor: dict[str, Any]) -> dict[str, Any]:
    """A descriptor with something to call for each of its actions."""
    made = dict(descriptor)
    actions = descriptor.get("actions", {})
    made["actions"] = {name: {**item, "handler": _nothing} for name, item in actions.items()}
    if descriptor.get("items"):
        made["items"] = [called(item) for item in descriptor["items"]]
    return made


def _nothing(**_: Any) -> None:
    """Take anything and do nothing."""


class Both:
    """The same app in both languages, and what each said to the same requests."""

    def __init__(self, node: NodeApps, name: str, most: tuple[int, int] | None = None) -> None:
        self.node = node
        self.name = name
        depth, nodes = most or (None, None)
        self.app = App("root", "Root", max_depth=depth, max_nodes=nodes)
        node.do("open", app=name, options={"maxDepth": depth, "maxNodes": nodes} if most else {})
        self.ours: list[Any] = []
        self.theirs: list[Any] = []

    def show(self, value: Tree) -> None:
        given = holdable(as_descriptor(value))
        del given["id"]
        self.app.register("/", called(given))
        self.node.do("register", app=self.name, path="/", descriptor=given)
        self.app._provider.publish(self.app.tree())

    def connect(self) -> None:
        self.connection = self.app._provider.connect()
        self.connection.frames_to_send()
        self.node.do("connect", app=self.name, line="a")

    def ask(self, message: dict[str, Any]) -> None:
        text = json.dumps(message)
        self.connection.receive(text)
        self._note(self.node.do("receive", app=self.name, line="a", text=text))

    def flush(self) -> None:
        self.app._provider.flush()
        self._note(self.node.do("flush", app=self.name))

    def _note(self, answer: Any) -> None:
        self.ours += map(json.loads, self.connection.frames_to_send(1 << 30))
        self.theirs += [json.loads(text) for _, text in answer["said"]]


def test_the_same_change_is_the_same_patch_in_both_languages(node: NodeApps) -> None:
    patches: list[Any] = []

    def compare(seed: int) -> None:
        rng = random.Random(seed)
        value = tree(rng, rng.choice([2, 3, 3, 4]))
        both = Both(node, f"both {seed}", most=(2, 6) if seed % 4 == 3 else None)
        both.show(value)
        both.connect()
        for at, view in enumerate(VIEWS):
            both.ask({"type": "subscribe", "id": f"s{at}", "fields": seed % 2 == 1, **view})
        for _ in range(6):
            value = (edited if rng.random() < 0.4 else touched)(rng, value)
            both.show(value)
            both.flush()
        assert _sorted(both.theirs) == _sorted(both.ours), f"seed {seed}"
        patches.extend(message for message in both.ours if message["type"] == "patch")

    node.together(partial(compare, seed) for seed in range(CASES))
    assert len(patches) > 5 * CASES


def _sorted(messages: list[Any]) -> list[str]:
    """Whole messages with the order of members, which shows; in the order of who gets them."""
    messages = sorted(messages, key=lambda m: (m["version"], m.get("id") or m["subscription"]))
    return [json.dumps(_in_order(message)) for message in messages]


def _in_order(value: Any, name: str = "") -> Any:
    """The members of a message and of a node in one order; those of their fields stay."""
    if isinstance(value, list):
        return [_in_order(item, name) for item in value]
    if not isinstance(value, dict) or name in {"properties", "meta", "affordances", "content_ref"}:
        return value
    return {key: _in_order(value[key], key) for key in sorted(value)}


class NodeConnection:
    """A connection to an app in Node, as the protocol's machine has it."""

    def __init__(self, provider: NodeProvider, line: int) -> None:
        self._provider = provider
        self._line = line
        self._frames: list[bytes] = []
        self._do("connect")

    def frames_to_send(self) -> list[bytes]:
        frames, self._frames = self._frames, []
        return frames

    def receive(self, data: bytes) -> list[Any]:
        self._do("receive", text=data.decode())
        return []

    def close(self) -> None:
        self._do("close")

    def take(self, said: list[tuple[int, str]]) -> None:
        self._frames += [text.encode() for line, text in said if line == self._line]

    def _do(self, command: str, **given: Any) -> None:
        self._provider.connections[self._line] = self
        self._provider.do(command, line=self._line, **given)


class NodeProvider:
    """An app in Node, as the protocol's machine has it."""

    def __init__(self, node: NodeApps, name: str, value: Tree, **given: Any) -> None:
        self._node = node
        self._name = name
        self.version = 0
        self.connections: dict[int, NodeConnection] = {}
        self.do("open", **given)
        self.show(value)
        self.do("flush")

    def do(self, command: str, **given: Any) -> Any:
        answer = self._node.do(command, app=self._name, **given)
        self.version = answer["version"]
        for connection in self.connections.values():
            connection.take(answer["said"])
        return answer

    def show(self, value: Tree) -> None:
        given = as_descriptor(value)
        del given["id"]
        answer = self.do("register", path="/", descriptor=given)
        # As it is written there: another spelling of a number would be another text.
        self.tree = decode(answer["text"].encode())

    def flush(self) -> None:
        self.do("flush")

    def connect(self) -> NodeConnection:
        return NodeConnection(self, len(self.connections))


class NodeWorld(World):
    """A world whose provider is an app in Node: a small one, as many of them find more."""

    def __init__(self, node: NodeApps, seed: int, *, forgetful: bool = False) -> None:
        self.process = node
        self.name = f"world {seed % TOGETHER}"
        self.forgetful = forgetful
        super().__init__(seed, steps=(2, 10) if seed % 20 else (10, 60), levels=(2,))

    def new_provider(self) -> Any:
        self.lives += 1
        provider = NodeProvider(
            self.process, self.name, self.value, unknown=self.unknown, forgetful=self.forgetful
        )
        self.node = provider.tree
        self.shown = {provider.version: self.node}
        return provider

    def subscribe(self) -> None:
        super().subscribe()
        own, (path, view) = list(self.asked.items())[-1]
        self.asked[own] = path, replace(view, available_actions=True)

    def show(self) -> None:
        provider: Any = self.provider
        provider.show(self.value)
        self.node = provider.tree


def wrong_worlds(node: NodeApps, seeds: range, **given: Any) -> dict[int, list[str]]:
    """What was wrong in which of some worlds, which run side by side."""
    found: dict[int, list[str]] = {}

    def run(seed: int) -> None:
        world = NodeWorld(node, seed, **given)
        world.run()
        if wrong := world.differences():
            found[seed] = wrong

    for first in range(seeds.start, seeds.stop, TOGETHER):
        some = range(first, min(first + TOGETHER, seeds.stop))
        node.together(partial(run, seed) for seed in some)
    return found


def test_every_mirror_of_an_app_in_node_ends_equal_to_what_it_shows(node: NodeApps) -> None:
    assert wrong_worlds(node, range(WORLDS)) == {}


def test_an_app_in_node_that_leaves_something_out_is_seen_to(node: NodeApps) -> None:
    assert len(wrong_worlds(node, range(20), forgetful=True)) >= 15


def test_both_write_the_same_text(node: NodeApps) -> None:
    """Of a tree that came from there: it is what a page shows of itself, and a host of the page."""
    seen = 0
    for seed in range(CASES * 5):
        value = tree(random.Random(seed), 3)
        node.do("open", app="text")
        given = as_descriptor(value)
        del given["id"]
        answer = node.do("register", app="text", path="/", descriptor=given)
        shown = json.loads(answer["text"])
        assert node.do("text", app="text", tree=shown)["text"] == format_tree(from_value(shown))
        seen += len(every_node(value))
    assert seen > 20 * CASES
    example = json.loads((ROOT / "src/sightline/demo/state.json").read_bytes())
    assert node.do("text", app="text", tree=example)["text"] == format_tree(from_value(example))


def test_what_is_shipped_is_small_and_is_printed() -> None:
    printed = CliRunner().invoke(cli, ["js"]).output_bytes
    assert b"export class App" in printed
    assert b"export declare" not in printed
    assert b"export class App" in CliRunner().invoke(cli, ["js", "--types"]).output_bytes
    if (ROOT / "src/sightline/js/sightline.js").exists():  # made by `python setup/page.py`
        by_brotli = subprocess.run(
            [node_program(), "--eval", BROTLI], input=printed, capture_output=True, check=True
        )
        sizes = {"gzip": len(gzip.compress(printed, 9)), "brotli": len(by_brotli.stdout)}
        assert all(sizes[name] <= most for name, most in SHIPPED_BYTES.items()), sizes
        said = (ROOT / "docs/javascript.md").read_text("utf-8")
        for name, size in sizes.items():
            assert f"{size / 1000:.1f} kB by {name}" in said


def test_a_module_with_short_names_does_what_it_did(tmp_path: Path) -> None:
    if not (ROOT / "node_modules/eslint-scope").exists():
        pytest.skip("made by `python setup/page.py`")
    module, found = tmp_path / "module.mjs", tmp_path / "found.json"
    module.write_text(NESTED, "utf-8")
    said = _node(str(module))
    _node("setup/scopes.js", str(module), "^(_.*|ids)$", str(found))
    names = [sys.executable, "setup/names.py", str(found), str(module)]
    subprocess.run(names, cwd=ROOT, check=True)
    short = module.read_text("utf-8")
    told = 'Kept 3 [1,2,"[3,10]"] {"id":7,"more":8} -4 caught\ntrue true 5\n'
    assert _node(str(module)) == said == told
    assert "export class Kept" in short
    assert "export let given" in short
    assert not re.search(r"\b(outer|inner|ids|_hidden|reason|first)\b", short)


def _node(*arguments: str) -> str:
    done = subprocess.run(
        [node_program(), *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_commands_of_the_page_print_what_they_are_redirected_to() -> None:
    page = (ROOT / "docs/javascript.md").read_text("utf-8")
    commands = re.findall(r"^sightline (js.*?) > ([\w]+)\.(\S+)", page, re.MULTILINE)
    for command, name, ending in commands:
        printed = CliRunner().invoke(cli, command.split()).output_bytes
        assert printed == javascript(name, ending)
    assert len(commands) == 5


async def test_an_app_served_over_http_has_it_for_its_pages() -> None:
    app = App("app", "App")
    async with web.served(app.asgi()) as at:
        mounted = await asyncio.to_thread(_get, f"http://{at}/.well-known/slop/sightline.js")
    async with app.serving(port=0, unix=False, discoverable=False, open=True) as [address]:
        at = address.removeprefix("ws://").partition("/")[0]
        own = await asyncio.to_thread(_get, f"http://{at}/.well-known/slop/sightline.js")
    for kind, headers, body in (mounted, own):
        assert (kind, body) == ("text/javascript", javascript("sightline"))
        assert (headers["Vary"], headers["Content-Encoding"]) == ("Accept-Encoding", None)


@pytest.mark.parametrize(
    ("said", "is_packed"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0", False), ("identity", False)],
)
async def test_a_browser_that_reads_gzip_gets_it_by_gzip(said: str, is_packed: bool) -> None:
    app = App("app", "App")
    async with web.served(app.asgi()) as at:
        mounted = await asyncio.to_thread(_get, f"http://{at}/.well-known/slop/sightline.js", said)
    async with app.serving(port=0, unix=False, discoverable=False, open=True) as [address]:
        at = address.removeprefix("ws://").partition("/")[0]
        own = await asyncio.to_thread(_get, f"http://{at}/.well-known/slop/sightline.js", said)
    for kind, headers, body in (mounted, own):
        assert (kind, headers["Vary"]) == ("text/javascript", "Accept-Encoding")
        assert headers["Content-Encoding"] == ("gzip" if is_packed else None)
        assert int(headers["Content-Length"]) == len(body)
        assert (gzip.decompress(body) if is_packed else body) == javascript("sightline")


def _get(url: str, coding: str = "identity") -> tuple[str, Message, bytes]:
    request = Request(url, headers={"Accept-Encoding": coding})  # noqa: S310 - our own server
    with urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - our own server
        return answer.headers.get_content_type(), answer.headers, answer.read()


async def test_the_deployed_consumer_uses_an_app_in_node() -> None:
    transport = StdioTransport()
    consumer = SlopConsumer(transport, timeout=PATIENCE_S)
    hello = await consumer.connect()
    assert (hello["provider"]["id"], hello["provider"]["slop_version"]) == ("app", "0.1")
    subscription = await consumer.subscribe("/", depth=-1)
    for path, action, params in (
        ("/", "count", {}),
        ("/", "set", {"path": "/inbox", "key": "a/b", "value": {"deep": [1]}}),
        ("/", "add", {"path": "/inbox", "index": 1, "node": {"id": "new", "type": "item"}}),
        ("/", "set", {"path": "/inbox/new", "key": "first", "value": 1}),
        ("/", "remove", {"path": "/inbox/msg-2"}),
        ("/inbox/msg-1", "archive", {}),
    ):
        result = await consumer.invoke(path, action, params)
        assert result["status"] == "ok", result
        mirror = consumer.get_tree(subscription["id"])
        assert mirror.to_dict() == (await consumer.query("/", depth=-1)).to_dict()
    refused = await consumer.invoke("/", "knock", {"times": "x"})
    assert refused["error"]["code"] == "invalid_params"
    await transport.close()


class StdioTransport:
    """The deployed consumer's way to a program on its standard streams; also its connection."""

    async def connect(self) -> StdioTransport:
        self._link = await spawn_stdio(list(mailbox_command()))
        self._reader: asyncio.Task[None] | None = None
        return self

    async def send(self, message: Any) -> None:
        await self._link.send([json.dumps(message).encode()])

    def on_message(self, listener: Callable[[Any], None]) -> None:
        self._listener = listener
        self._reader = self._reader or asyncio.create_task(self._read())

    def on_close(self, listener: Callable[[], None]) -> None:
        """Nobody closes before the test ends."""

    async def close(self) -> None:
        assert self._reader is not None
        self._reader.cancel()
        await self._link.close()

    async def _read(self) -> None:
        while (message := await self._link.receive()) is not None:
            self._listener(json.loads(message))
