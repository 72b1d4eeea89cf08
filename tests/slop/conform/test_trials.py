"""Every clause can be kept, and every one can be seen to be broken."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from sightline.slop.conform.consumers import CONSUMER_TRIALS, following
from sightline.slop.conform.providers import PROVIDER_TRIALS
from sightline.slop.conform.requirements import REQUIREMENTS
from sightline.slop.conform.trial import Message, Say, TrialTarget, Verdict
from sightline.slop.hub.client import Dial
from sightline.slop.hub.trying import TrialBounds, try_consumer, try_provider
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.connection import Connection, InvokeRequested
from sightline.slop.transports.link import Link, Outgoing
from sightline.slop.transports.memory import memory_pair
from support.live import Handles, LiveApp
from support.real import Mailbox
from support.wire import PATIENCE_S

QUICK = TrialBounds(step_s=0.05, settle_s=0.05, messages=50)
PATIENT = TrialBounds(step_s=PATIENCE_S, settle_s=PATIENCE_S, messages=50)
TARGET = TrialTarget(act=("/", "count"))
Alter = Callable[[Message], list[Message]]


class Altered:
    """The provider's end of a link, on which what it says becomes something else."""

    def __init__(self, link: Link, alter: Alter) -> None:
        self.peer = link.peer
        self.receive = link.receive
        self.close = link.close
        self._link = link
        self._alter = alter

    async def send(self, messages: Sequence[Outgoing]) -> None:
        for message in messages:
            assert isinstance(message, bytes)
            altered = self._alter(json.loads(message))
            await self._link.send([json.dumps(item).encode() for item in altered])


@contextlib.asynccontextmanager
async def dialled(handles: Callable[[Link], Any]) -> AsyncIterator[Dial]:
    """How to get to whoever handles links, in this process."""
    tasks: list[asyncio.Task[None]] = []

    async def dial() -> Link:
        ours, theirs = memory_pair()
        tasks.append(asyncio.create_task(handles(theirs)))
        return ours

    try:
        async with asyncio.timeout(PATIENCE_S):
            yield dial
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def found(
    app: Handles, target: TrialTarget = TARGET, alter: Alter = lambda message: [message]
) -> dict[str, Verdict]:
    """What is found of an app, clause by clause."""
    async with dialled(lambda link: app.handle(Altered(link, alter))) as dial:
        bounds = TrialBounds(step_s=PATIENCE_S)
        results = [tried.verdict async for tried in try_provider(dial, target, bounds)]
    assert len({verdict.clause for verdict in results}) == len(results)
    return {verdict.clause: verdict for verdict in results}


def test_every_clause_of_a_trial_is_in_the_manifest() -> None:
    for kind in (*PROVIDER_TRIALS, *CONSUMER_TRIALS):
        assert set(kind.clauses) <= REQUIREMENTS.keys(), kind.name


def provider(**fields: Any) -> Alter:
    def alter(message: Message) -> list[Message]:
        if message["type"] == "hello":
            message["provider"].update(fields)
        return [message]

    return alter


def for_id(own: str, **fields: Any) -> Alter:
    """Say something else in answer to one request."""
    return lambda message: [{**message, **fields} if message.get("id") == own else message]


def twice(own: str) -> Alter:
    return lambda message: [message] * (2 if message.get("id") == own else 1)


def unrefused(message: Message) -> list[Message]:
    """Leave out what is said to rubbish."""
    return [] if message.get("error", {}).get("code") == "bad_request" else [message]


def with_reply(message: Message) -> list[Message]:
    """Reply to the end of a subscription, too."""
    reply = {"type": "result", "id": "a", "status": "ok"}
    return [reply, message] if message.get("id") == "then" else [message]


def child(**fields: Any) -> Callable[[Message], None]:
    """Add a child to the root."""
    return lambda tree: tree["children"].append({"type": "item", **fields})


def bare_letters(tree: Message) -> None:
    """Take the properties from what was collapsed."""
    for letter in tree["children"][1]["children"]:
        letter.pop("properties")


def without_summaries(tree: Message) -> None:
    for one in tree["children"]:
        one.get("meta", {}).pop("summary", None)


def result_first() -> Alter:
    """Keep a patch back until the result was sent."""
    kept: list[Message] = []

    def alter(message: Message) -> list[Message]:
        if message.get("subscription") == "s":
            kept.append(message)
            return []
        late = list(kept) if message["type"] == "result" else []
        del kept[: len(late)]
        return [message, *late]

    return alter


def patched(**fields: Any) -> Alter:
    """Say something else in the patches of the subscription that is followed."""
    return lambda m: [{**m, **fields} if m.get("subscription") == "s" else m]


LEAF = {"id": "extra", "type": "item"}


def in_tree(own: str, change: Callable[[Message], None]) -> Alter:
    """Change the root of the tree that answers one query."""

    def alter(message: Message) -> list[Message]:
        if message.get("id") == own and "tree" in message:
            change(message["tree"])
        return [message]

    return alter


BREACHES: dict[str, Alter] = {
    "hello.first": lambda m: [{"type": "event", "name": "first"}, m] if "provider" in m else [m],
    "hello.fields": provider(name=7),
    "capability.state": provider(capabilities=["patches", "own-words"]),
    "subscribe.snapshot": for_id("a", seq=1),
    "subscribe.defaults": in_tree("a", lambda tree: tree.pop("children")),
    "path.root": in_tree("b", lambda tree: tree.update(id="another")),
    "subscribe.id-unique": for_id("twin", type="snapshot", error=None),
    "unsubscribe.silent": with_reply,
    "query.answer": twice("q"),
    "error.anything-else": for_id("lost", error={"code": "internal", "message": "no"}),
    "invoke.node-exists": for_id("node", status="ok", error=None),
    "invoke.still-exposed": for_id("action", error={"code": "conflict", "message": "no"}),
    "invoke.result": twice("action"),
    "invoke.params": for_id("wrong", status="ok", error=None),
    "malformed.answered": unrefused,
    "node.id-unique": in_tree("whole", child(id="me")),
    "node.id-reserved": in_tree("whole", child(id="meta")),
    "node.id-characters": in_tree("whole", child(id="a/b")),
    "node.id-present": in_tree("whole", child()),
    "node.meta-rules": in_tree("whole", lambda tree: tree.update(meta={"salience": 2})),
    "node.values": in_tree("whole", lambda tree: tree.update(properties=[])),
    "affordance.rules": in_tree("whole", lambda t: t.update(affordances=[{"label": "x"}])),
    "affordance.unique": in_tree("whole", lambda t: t.update(affordances=[{"action": "a"}] * 2)),
    "content.ref": in_tree("whole", lambda tree: tree.update(content_ref={"type": "text"})),
    "scaling.scopes": in_tree("into", lambda tree: tree.update(id="another")),
    "resume.epoch": provider(epoch=""),
    "resume.empty": lambda m: [{**m, "seq": 1} if m["type"] == "patch" else m],
    "resume.snapshot": for_id("other", seq=3),
    "order.patches-before-result": result_first(),
    "order.within": patched(seq=0),
    "seq.counts": patched(seq=7),
    "version.monotonic": patched(version=0),
    "ops.exact": patched(ops=[{"op": "remove", "path": "/me"}]),
    "base.said": patched(base=None),
    "change.none": patched(ops=[]),
    "view.depth": in_tree("d1", lambda tree: tree["children"].pop()),
    "view.depth-leaf": in_tree("d1", lambda tree: tree["children"][0].pop("properties")),
    "view.stub": in_tree("d0", lambda tree: tree.update(properties={"n": 1})),
    "scaling.summary": in_tree("d1", without_summaries),
    "scaling.actions-on-stubs": in_tree("in inbox", lambda tree: tree.pop("affordances")),
    "view.compacted": in_tree("least", bare_letters),
    "view.not-blurred": in_tree("least", bare_letters),
    "view.compact-spares": in_tree("least", lambda tree: tree["children"].pop()),
    "view.compact-score": in_tree("between", lambda tree: tree["children"].pop()),
    "view.filter": in_tree("s2", lambda tree: tree["children"].append(LEAF)),
    "view.filter-default": in_tree("s6", lambda tree: tree["children"].append(LEAF)),
    "view.filter-root": lambda m: [{**m, "tree": None} if m.get("id") == "s10" else m],
    "view.window": in_tree("w", lambda tree: tree["meta"].pop("window")),
    "retain.ancestors": in_tree("r", lambda tree: tree.pop("children", None)),
    "hint.actions": in_tree("h", lambda tree: tree["meta"].pop("available_actions")),
}  # fmt: skip


async def test_our_app_keeps_every_clause() -> None:
    verdicts = await found(Mailbox().app)
    assert {own for own, verdict in verdicts.items() if verdict.held is False} == set()
    # An app that declares everything gives no occasion to be asked for what it does not.
    assert {own for own in verdicts if verdicts[own].held is None} == {"capability.honest"}
    assert BREACHES.keys() | {"capability.honest"} == verdicts.keys()


@pytest.mark.parametrize("clause", BREACHES)
async def test_a_breach_is_seen(clause: str) -> None:
    assert (await found(Mailbox().app, alter=BREACHES[clause]))[clause].held is False


@pytest.mark.parametrize("missing", ["patches", "attention", "windowing", "affordances"])
async def test_what_is_not_declared_must_be_refused(missing: str) -> None:
    names = ["state", "patches", "attention", "windowing", "affordances"]
    names.remove(missing)
    honest = LiveApp(capabilities=names)
    assert (await found(honest, TrialTarget()))["capability.honest"].held is True
    # The provider can do it, and says that it cannot.
    lying = await found(LiveApp(), TrialTarget(), provider(capabilities=names))
    assert lying["capability.honest"].held is False


SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}


class Careless(LiveApp):
    """A provider that checks no params, and what it was made to do."""

    def __init__(self, *actions: dict[str, Any]) -> None:
        super().__init__(from_value({"id": "app", "type": "root", "affordances": list(actions)}))
        self.done: list[tuple[str, dict[str, Any]]] = []

    async def invoke(self, connection: Connection, request: InvokeRequested) -> None:
        self.done.append((request.action, request.params))
        connection.send_result(request.id)


async def test_nothing_dangerous_and_nothing_that_could_be_meant_is_invoked() -> None:
    bomb = {"action": "bomb", "params": SCHEMA, "dangerous": True}
    careless = Careless(bomb, {"action": "reset"}, {"action": "mail", "params": {"type": "object"}})
    verdicts = await found(careless, TrialTarget())
    assert careless.done == []
    assert verdicts["invoke.params"].held is None
    other = Careless(bomb, {"action": "send", "params": SCHEMA})
    assert (await found(other, TrialTarget()))["invoke.params"].held is False
    assert other.done == [("send", {"to": ["sightline-conform"]})]
    looked_at = Careless({"action": "send", "params": SCHEMA})
    verdicts = await found(looked_at, TrialTarget(look_only=True))
    assert looked_at.done == []
    assert verdicts["invoke.node-exists"].held is None


async def hold(_: Link) -> None:
    await asyncio.Event().wait()


async def hang_up(link: Link) -> None:
    await link.close()


async def flood(link: Link) -> None:
    while True:
        await link.send([b'{"type":"event","name":"again"}'])


async def rubbish(link: Link) -> None:
    await link.send([b"\xff", b"[" * 100_000, b'{"type":NaN}', b"7"])
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("peer", "bounds", "why"),
    [
        (hold, QUICK, "no answer within 0.05 s"),
        (hang_up, PATIENT, "it closed the connection"),
        (flood, PATIENT, "it sends without end"),
        (rubbish, QUICK, "no answer within 0.05 s"),
    ],
)
async def test_a_hostile_or_silent_peer_is_survived_and_described(
    peer: Callable[[Link], Any], bounds: TrialBounds, why: str
) -> None:
    async with dialled(peer) as dial:
        results = [tried async for tried in try_provider(dial, TrialTarget(), bounds)]
    first = results[0].verdict
    assert (first.clause, first.held, first.why) == ("hello.first", False, why)
    assert not any(tried.verdict.held for tried in results)
    assert all(len(message.text) < 600 for tried in results for message in tried.messages)


def consumer(answer: Callable[[Message, list[Message]], list[Message]]) -> dict[str, bool | None]:
    """Drive the script against a consumer that is a function; gives the verdicts."""
    trial = following()
    state: list[Message] = []
    say: Say = next(trial)
    try:
        while True:
            heard = [said for message in say.messages for said in answer(_plain(message), state)]
            say = trial.send(heard)
    except StopIteration as stop:
        return {verdict.clause: verdict.held for verdict in stop.value}


def _plain(message: Message | bytes) -> Message:
    assert isinstance(message, dict)
    return message


ASK: Message = {"type": "subscribe", "id": "s", "path": "/"}


def follow(message: Message, state: list[Message]) -> list[Message]:
    """A consumer that keeps every clause; its state is the last message that it took."""
    match message["type"]:
        case "hello":
            return [ASK]
        case "snapshot":
            state[:] = [message]
        case "batch":
            return [said for inner in message["messages"] for said in follow(inner, state)]
        case "patch" if state and message["version"] > state[0]["version"]:
            following_seq = state[0]["seq"] + 1
            if message.setdefault("seq", following_seq) != following_seq or not message["ops"]:
                state.clear()
                return [{"type": "unsubscribe", "id": "s"}, ASK]
            state[:] = [message]
    return []


def test_a_consumer_that_keeps_every_clause_is_seen_to() -> None:
    verdicts = consumer(follow)
    assert verdicts == dict.fromkeys(CONSUMER_TRIALS[0].clauses, True)


@pytest.mark.parametrize(
    ("clause", "careless"),
    [
        ("gap.resubscribe", lambda m, _: [ASK] if m["type"] == "hello" else []),
        ("batch.order", lambda m, s: [] if m["type"] == "batch" else follow(m, s)),
        (
            "consumer.unknown-type",
            lambda m, s: [ASK] if "no-such-type" in m["type"] else follow(m, s),
        ),
        (
            "rebase.taken",
            lambda m, s: [] if m["type"] == "snapshot" and s else follow(m, s),
        ),
        (
            "gap.drop-old",
            lambda m, s: follow(m, _unaged(s)),
        ),
        ("seq.optional", lambda m, s: follow({"seq": None, **m}, s)),
        ("gap.unreadable", lambda m, s: [] if m.get("ops", 1) is None else follow(m, s)),
    ],
)
def test_a_consumer_that_breaks_a_clause_is_seen_to(
    clause: str, careless: Callable[[Message, list[Message]], list[Message]]
) -> None:
    assert consumer(careless)[clause] is False


def _unaged(state: list[Message]) -> list[Message]:
    """Forget which version was taken last: every patch is then a new one."""
    for message in state:
        message["version"] = 0
    return state


async def test_a_consumer_that_says_nothing_is_survived() -> None:
    ours, _ = memory_pair()
    results = [tried.verdict async for tried in try_consumer(ours, QUICK)]
    assert results[0] == Verdict("gap.resubscribe", False, "no answer within 0.05 s")
    assert {verdict.held for verdict in results[1:]} == {None}
