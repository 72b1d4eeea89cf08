"""What must not be kept: planted secrets, looked for wherever anything is left behind.

A secret is planted on every way into a ledger; then a host works with it against a real
vendor's client, with everything logged, and things go wrong: the vendor refuses and repeats
it, a stream breaks in the middle of it, an app fails with it, a turn is cancelled while it
is written. It is looked for in every file beside the ledger, in the log, in every answer and
page of the inspector, and in an exported page. Another agent says it to its vendor through a
gateway, in headers, addresses and bodies: the vendor gets it, and nothing keeps it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import string
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import httpx
import keyring
from keyring.backends import null

from agent.host.helpers import ALONE
from context.ledger.planted import WAYS, bytes_of
from proof.claim import Claim, Trial
from sightline.agent.host import Host
from sightline.config import LimitSettings, Settings
from sightline.context.ledger import Ledger
from sightline.errors import InvalidInput
from sightline.events import TextDelta
from sightline.inspector.door import COOKIE, PageDoor
from sightline.inspector.reader import RecordReader
from sightline.inspector.server import inspector_app
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.connection import Connection, InvokeRequested
from sightline.slop.protocol.messages import ErrorInfo
from sightline.slop.transports.link import Link
from support.live import TREE, LiveApp, served
from support.vendors.answers import Answer, Call, Fails, Refuses, Says, Sends, says
from support.vendors.server import KEY, Vendor

MODEL = "openai-chat:gpt-6.1-sol"
PORT = 8123

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


def _of(alphabet: str, length: int) -> Callable[[random.Random], str]:
    return lambda rng: "".join(rng.choices(alphabet, k=length))


# How a key looks where people paste it; `{}` is what must not be kept.
SHAPES: tuple[tuple[str, Callable[[random.Random], str]], ...] = (
    ("sk-ant-api03-{}", _of(ALNUM, 40)),
    ("sk-or-v1-{}", _of(HEX, 64)),
    ("sk-proj-{}", _of(ALNUM, 48)),
    ("AIza{}", _of(ALNUM, 35)),
    ("ya29.{}", _of(ALNUM, 60)),
    ("AKIA{}", _of(UPPER, 16)),
    ("ASIA{}", _of(UPPER, 16)),
    ("ghp_{}", _of(ALNUM, 36)),
    ("github_pat_{}", _of(ALNUM, 60)),
    ("glpat-{}", _of(ALNUM, 20)),
    ("xoxb-{}", _of(string.digits, 24)),
    ("https://hooks.slack.com/services/{}", _of(UPPER, 30)),
    ("sk_live_{}", _of(ALNUM, 24)),
    ("npm_{}", _of(ALNUM, 36)),
    ("pypi-{}", _of(ALNUM, 80)),
    ("hf_{}", _of(ALNUM, 34)),
    ("SG.abcdefghijklmnop.{}", _of(ALNUM, 43)),
    ("gsk_{}", _of(ALNUM, 52)),
    ("dop_v1_{}", _of(HEX, 64)),
    ("AGE-SECRET-KEY-1{}", _of(UPPER, 58)),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{}", _of(ALNUM, 43)),
    ("Authorization: Bearer {}", _of(ALNUM, 40)),
    ("postgres://admin:{}@db.example/prod", _of(ALNUM, 16)),
    ("password = {}", _of(ALNUM, 20)),
    ("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", _of(ALNUM, 64)),
)


def secrets(trial: Trial) -> None:
    """Plant keys, let things go wrong, and look for them everywhere."""
    planted: dict[str, str] = {}
    for number in range(trial.times(50, least=len(SHAPES))):
        shape, make = SHAPES[number % len(SHAPES)]
        secret = make(trial.random)
        planted[secret] = shape.format(secret)
        stored = _plant(trial, planted[secret], redact=True)
        trial.check(secret.encode() not in stored, f"{shape} is in a ledger's files")
    handled = dict(islice(planted.items(), trial.times(50, least=len(_TROUBLES))))
    left = asyncio.run(_left_behind(trial, handled, redact=True))
    for secret, text in {**handled, KEY: "the vendor's key"}.items():
        for place, content in left.items():
            trial.check(secret.encode() not in content, f"{text[:20]!r}… is in {place}")
    for place, content in _passed_on(trial, handled).items():
        for secret, text in handled.items():
            trial.check(secret.encode() not in content, f"{text[:20]!r}… is in {place}")
    trial.note("ways in", f"{len(WAYS)}, and {len(_TROUBLES)} kinds of trouble")
    trial.note("looked through", ", ".join(f"{p} {len(c):,} bytes" for p, c in left.items()))
    _control(trial)


def _control(trial: Trial) -> None:
    shape, make = SHAPES[0]
    secret = make(trial.random)
    left = asyncio.run(_left_behind(trial, {secret: shape.format(secret)}, redact=False))
    seen = [place for place, content in left.items() if secret.encode() in content]
    trial.control(
        set(seen) == set(left), f"with redaction off and a careless line in the log: {seen}"
    )


def _plant(trial: Trial, text: str, *, redact: bool) -> bytes:
    with Ledger(trial.directory("planted") / "l.db", redact=redact) as ledger:
        for way in WAYS:
            session = ledger.sessions.create().id
            try:
                way(ledger, session, text)
            except InvalidInput:
                continue  # a name has one line: refused, so not stored either
        trial.check(ledger.verify().ok, "a redacted ledger does not verify")
        return bytes_of(ledger)


class _Leaky(LiveApp):
    """An app that shows a secret, returns it, and fails with it."""

    text = ""

    def show(self, text: str) -> None:
        self.text = text
        self.publish(TREE.with_property("note", f"use {text} for it").with_property("key", text))

    async def invoke(self, connection: Connection, request: InvokeRequested) -> None:
        if request.action == "fail":
            connection.send_result(request.id, error=ErrorInfo("conflict", f"{self.text} is wrong"))
        else:
            await super().invoke(connection, request)

    async def handle(self, link: Link) -> None:
        tree = {"id": self.text, "type": 7, "properties": {self.text: self.text}}
        await link.send(
            [
                f"no message: {self.text}".encode(),
                json.dumps({"type": self.text, "id": self.text}).encode(),
                json.dumps({"type": "snapshot", "id": "s1", "version": 1, "tree": tree}).encode(),
            ]
        )
        await super().handle(link)


def _call(action: str, text: str) -> Call:
    params = {"text": text, "header": {"x-api-key": text}}
    arguments = {"app": "live", "path": "/", "action": action, "params": params}
    return Call("slop_invoke", arguments)


# What the vendor answers in one turn; what is behind the last word of a text breaks off in it.
_TROUBLES: tuple[Callable[[str], list[Answer]], ...] = (
    lambda text: [says("Let me try.", _call("echo", text)), says(f"It is {text} as you see.")],
    lambda text: [says(f"Using {text}.", _call("fail", text)), says(f"No, {text} is wrong.")],
    lambda text: [Refuses("key", saying=f"Incorrect API key: {text}")],
    lambda text: [Sends(f"<h1>500 for {text}</h1>".encode(), 500)],
    lambda text: [Fails((f"I had {text} and ", text))],
    lambda text: [says(f"I was going to use {text} for it and then", cut=8)],
    lambda text: [Says((f"It is {text[:-9]}", text[-9:], " and more"), stall=4)],
    lambda text: [says("", Call(f"tool {text}", {text: text})), says(f"There is no {text}.")],
    lambda text: [Sends(f'data: {{"choices": [{text}'.encode(), 200, "text/event-stream")],
)


async def _left_behind(trial: Trial, planted: dict[str, str], *, redact: bool) -> dict[str, bytes]:
    """Let a host work with the secrets; everything that can be read afterwards, by its place."""
    place = trial.directory("host")
    log = trial.directory("log") / "host.log"
    passing: list[bytes] = []
    with _everything_logged(log), Vendor() as vendor, _no_keyring():
        with Ledger(place / "work.db", redact=redact) as ledger:
            app = _Leaky()
            app.show(next(iter(planted.values())))
            async with _at_work(ledger, vendor, app) as host:
                for number, (secret, text) in enumerate(planted.items()):
                    await _one_turn(host, app, vendor, text, number)
                    if secret.encode() in _files(place):  # which a later write may hide
                        passing.append(secret.encode())
                session = host.session.id
        if not redact:
            logging.getLogger("careless").debug("%s", list(planted))
        with Ledger(place / "work.db", mode="read") as ledger:
            pages, exported = await _shown(ledger, session)
    return {
        "the files": b"".join([_files(place), *passing]),
        "the log": log.read_bytes(),
        "the inspector": pages,
        "an exported page": exported,
    }


# An agent that asks for each line of JSON that it is given: a path, headers and a body.
_AGENT = """
import json, os, sys, urllib.error, urllib.request
for line in open(sys.argv[1]):
    variable, path, headers, body = json.loads(line)
    request = urllib.request.Request(os.environ[variable] + path, body.encode(), headers)
    try:
        urllib.request.urlopen(request).read()
    except Exception as error:
        assert not isinstance(error, (urllib.error.URLError, TypeError)) or "HTTP" in str(error)
"""


def _agent_requests(secret: str, text: str) -> list[tuple[str, str, dict[str, str], str]]:
    """What an agent asks of three vendors with a key in its headers, its address and its words."""
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in text)
    call = {"type": "tool_use", "id": "c", "name": "curl", "input": {"x-api-key": text, text: 1}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": f"KEY={text}\n" * 99}
    said = [
        {"role": "user", "content": f"my key is {text}, keep it"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    system = [{"type": "text", "text": f"Use {text}."}]
    claude = {"model": text[:40].split()[0], "system": system, "messages": said}
    codex = {"model": "gpt-5.5", "instructions": text, "input": said[:1], "user": text}
    gemini = f'{{"contents": [{{"role": "user", "parts": [{{"text": "{spelled}"}}]}}]}}'
    key = {"x-api-key": secret, "authorization": f"Bearer {secret}", "session-id": "one"}
    address = f"/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse&key={secret}"
    return [
        ("ANTHROPIC_BASE_URL", "/v1/messages", key, json.dumps(claude)),
        ("OPENAI_BASE_URL", "/responses", key, json.dumps(codex)),
        (
            "GOOGLE_GEMINI_BASE_URL",
            address,
            {"x-goog-api-key": secret, "session-id": "one"},
            gemini,
        ),
    ]


def _passed_on(trial: Trial, planted: dict[str, str]) -> dict[str, bytes]:
    """Let an agent say the secrets through a gateway; what can be read afterwards, by its place."""
    place, page = trial.directory("gateway"), trial.directory("page") / "report.html"
    asks = trial.directory("agent") / "asks"
    asked = [one for planted_one in planted.items() for one in _agent_requests(*planted_one)]
    asks.write_text("".join(f"{json.dumps(one)}\n" for one in asked), encoding="utf-8")
    answers: list[Answer] = []
    for text in planted.values():
        answers += [
            says(f"It is {text} as you see.", _call("echo", text)),
            Refuses("key", saying=f"Incorrect API key: {text}"),
            says(f"I was going to use {text} for it and then", cut=4),
        ]
    sightline = [str(Path(sys.executable).with_name("sightline")), "gateway"]
    with Vendor(*answers) as vendor:
        environment = {**os.environ, **vendor.environment(), "SIGHTLINE_LEDGER": f"{place}/l.db"}
        environment["XDG_STATE_HOME"] = str(place)

        def run(*words: str) -> bytes:
            done = subprocess.run(
                [*sightline, *words], env=environment, capture_output=True, check=True
            )
            return done.stdout + done.stderr

        lines = run("--json", "--", sys.executable, "-c", _AGENT, str(asks))
    received = b"".join(
        f"{one.path} {one.headers} {json.loads(one.body)}".encode() for one in vendor.requests
    )
    for secret, text in planted.items():
        through = secret.encode() in received and json.dumps(text)[1:-1].encode() in received
        trial.check(through, f"{text[:20]!r}… did not reach the vendor")
    lines += run("report") + run("report", "--html", str(page))
    with Ledger(place / "l.db", mode="read") as ledger:
        [session] = ledger.sessions.recent()
        pages = b"".join([page.read_bytes(), *asyncio.run(_shown(ledger, session.id))])
        for exchange in ledger.exchanges.list(session.id):
            kept = ledger.exchanges.request(exchange.id)
            pages += kept + str(json.loads(kept)).encode()
            pages += str(ledger.exchanges.reply(exchange.id)).encode()
    found = [path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()]
    return {
        "a gateway's files": b"".join(found),
        "a gateway's lines": lines,
        "a page of what passed": pages,
    }


def _files(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(place.iterdir()))


@contextlib.contextmanager
def _everything_logged(path: Path) -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    handler = logging.FileHandler(path, encoding="utf-8")
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()


@contextlib.contextmanager
def _no_keyring() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(null.Keyring())  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        keyring.set_keyring(before)


@contextlib.asynccontextmanager
async def _at_work(ledger: Ledger, vendor: Vendor, app: _Leaky) -> AsyncIterator[Host]:
    async with (
        Hub() as hub,
        served("memory", ledger.path.parent, app) as dial,
        Host.open(
            Settings(apps=ALONE, mode="auto", limits=LimitSettings(retries=0)),
            model=MODEL, ledger=ledger, hub=hub, env=vendor.environment(),
        ) as host,
    ):  # fmt: skip
        hub.add("live", dial)
        yield host


async def _one_turn(host: Host, app: _Leaky, vendor: Vendor, text: str, number: int) -> None:
    app.show(text)
    async for world in host.hub.changes():
        live = world.app("live")
        if live and live.tree and live.tree.properties.get("key") == text:
            break
    vendor.add(*_TROUBLES[number % len(_TROUBLES)](text))
    stalls = number % len(_TROUBLES) == 6
    async for event in host.ask(f"my key is {text}, keep it"):
        if stalls and isinstance(event, TextDelta):
            host.cancel()


async def _shown(ledger: Ledger, session: int) -> tuple[bytes, bytes]:
    """Everything that the inspector serves of a session, and the page that it exports."""
    door = PageDoor("cookie-secret", "room", PORT)
    application = inspector_app(RecordReader(ledger), door)
    base = f"http://127.0.0.1:{PORT}"
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application),
        base_url=f"{base}/{door.room}",
        cookies={COOKIE: door.secret},
    ) as client:
        root = f"/api/sessions/{session}"
        turns = (await client.get(f"{root}/turns")).json()["turns"]
        described = [f"{root}/rows?of={','.join(map(str, turns))}"] if turns else []
        rows = [row for one in described for row in (await client.get(one)).json()["rows"]]
        groups = (await client.get(f"{root}/ledger")).json()["groups"]
        places = ["/", "/api/sessions", f"{root}/turns", f"{root}/ledger", "/api/search?q=key"]
        places += [*described, f"{root}/overview"]
        kept = [group["id"] for group in groups] or [row["group"] for row in rows]
        places += [f"{root}/groups/{group}" for group in kept]
        named = [(t["turn"], n) for t in rows for n in range(1, t["requests"] + 1)]
        requests = [f"{root}/turns/{turn}/{number}" for turn, number in named]
        for place in requests:
            places += [place, f"{place}/state", f"{place}/verdicts", f"{place}/unseen"]
            for at, _ in enumerate((await client.get(f"{place}/state")).json()["apps"]):
                tree = f"{place}/state/{at}"
                places += [f"{tree}/nodes/0", f"{tree}/folds/0", f"{tree}/find?q=use"]
        for (turn, number), (later, other) in pairwise(named):
            places.append(f"{root}/compare/{turn}.{number}/{later}.{other}")
        answers = [await client.get(address) for address in places]
        post: dict[str, Any] = {"headers": {"origin": base}}
        answers += [await client.post(f"{place}/whatif", json={}, **post) for place in requests[:3]]
        everything = {"sql": "SELECT * FROM messages", "session": session}
        answers.append(await client.post("/api/query", json=everything, **post))
        wrong = {"sql": "SELECT * FROM nothing", "session": session}
        answers.append(await client.post("/api/query", json=wrong, **post))
        answers.append(await client.post("/api/verify", json={}, **post))
        exported = await client.get(f"/export/{session}.html")
    for answer in (*answers, exported):
        answer.raise_for_status()
    return b"".join(answer.content for answer in answers), exported.content


CLAIMS = (
    Claim("secrets", "planted secrets are in no file, no log, no page of the inspector", secrets),
)
