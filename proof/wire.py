"""Messages that are malformed, too deep, too wide or too many."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from itertools import islice

from proof.claim import Claim, Trial
from sightline.cli.io import read_json
from sightline.cli.slots import read_slots
from sightline.cli.strategy import read_session
from sightline.context.projection.world_json import read_world
from sightline.errors import SightlineError
from sightline.slop.discovery.descriptor import Descriptor
from sightline.slop.protocol.codec import decode, encode
from sightline.slop.protocol.consumer import Consumer
from sightline.slop.protocol.limits import WIRE
from sightline.slop.protocol.patch import apply, decode_ops
from sightline.slop.protocol.text import format_blocks
from sightline.testing import connect
from support import real
from support.live import TRANSPORTS, TREE, LiveApp, served
from support.malformed import MANY
from support.wire import Wire


def malformed(trial: Trial) -> None:
    """Send what no provider can act on, over every transport, and then something sound."""
    count = min(len(MANY), trial.times(len(MANY), least=50))
    for transport in TRANSPORTS:
        asyncio.run(_misuse(trial, transport, count))
    trial.note("of them", f"{count} over each of {TRANSPORTS}")


async def _misuse(trial: Trial, transport: str, count: int) -> None:
    app = real.Mailbox().app
    chosen = trial.random.sample(MANY, count)
    async with served(transport, trial.directory(transport), app, real.command()) as dial:
        link = await dial()
        wire = Wire(link)
        await wire.expect("hello")
        await wire.send({"type": "query", "id": "before"})
        before = (await wire.receive())["tree"]
        for data, own in chosen:
            await wire.send(data)
            error = await wire.receive()
            refused = (error["type"], error.get("id"), error.get("error", {}).get("code"))
            right = refused == ("error", own, "bad_request")
            trial.check(right, f"{transport}: {data[:60]!r} → {refused}")
        await wire.send({"type": "query", "id": "after"})
        trial.check((await wire.receive())["tree"] == before, f"{transport}: something changed")
        await link.close()
    await app.close()


DEEP = 100_000
WIDE = 200_000
# What a bomb may cost whoever gets it, in seconds of CPU: some five times what it does, on a
# busy machine. Brackets by the hundred thousand are dear and small, hence the first.
FREE_S = 8.0
PER_MB_S = 15.0


def _bombs(size: float) -> dict[str, bytes]:
    """Every kind of bomb; `size` 1 is the whole charge."""
    deep, wide = round(DEEP * size), round(WIDE * size)
    node = b'{"id":"a","type":"t","children":['
    inner = b",".join(b'{"id":"n%d","type":"t"}' % n for n in range(wide))
    keys = b",".join(b'"k%d":1' % n for n in range(wide))
    same = b",".join([b'{"id":"twin","type":"t"}'] * (wide // 20))
    return {
        "deep arrays": b"[" * deep + b"]" * deep,
        "unclosed arrays": b"[" * deep,
        "deep objects": b'{"a":' * deep + b"1" + b"}" * deep,
        "deep nodes": node * deep + b"]}" * deep,
        "deep properties": b'{"id":"a","type":"t","properties":{"p":' + b"[" * deep + b"]" * deep
        + b"}}",
        "wide nodes": node + inner + b"]}",
        "wide properties": b'{"id":"a","type":"t","properties":{' + keys + b"}}",
        "twins": node + same + b"]}",
        "one long string": b'"' + b"x" * (wide * 20) + b'"',
        "one long number": b"9" * (wide * 5),
        "escapes": b'"' + b"\\u003c" * wide + b'"',
        "one long id": b'{"id":"' + b"i" * (wide * 5) + b'","type":"t"}',
        "wide list": b"[" + b"{}," * wide + b"{}]",
        "deep batches": b'{"type":"batch","messages":[' * (deep // 10) + b"]}" * (deep // 10),
        "a wide batch": b'{"type":"batch","messages":[' + b"{}," * wide + b"{}]}",
        "ops": b"[" + b",".join([b'{"op":"remove","path":"/a"}'] * (wide // 4)) + b"]",
    }  # fmt: skip


def _takers() -> dict[str, Callable[[bytes], object]]:
    """Everything that takes JSON from somebody else; each may refuse with an error of ours."""
    app = LiveApp()
    connection = app.provider.connect()
    consumer = Consumer()
    consumer.subscribe("/", subscription_id="s")
    consumer.receive(b'{"type":"hello","provider":{"id":"a","name":"A","slop_version":"0.1"}}')
    consumer.receive(b'{"type":"snapshot","id":"s","version":1,"seq":0,"tree":%s}' % encode(TREE))

    def provider(data: bytes) -> None:
        connection.receive(data)
        head = b'{"type":"invoke","id":"i","path":"/","action":"echo","params":'
        connection.receive(head + data + b"}")
        connection.frames_to_send(1 << 30)

    def consume(data: bytes) -> None:
        consumer.receive(data)
        consumer.receive(b'{"type":"event","name":"e","data":' + data + b"}")
        consumer.receive(b'{"type":"snapshot","id":"s","version":2,"seq":0,"tree":' + data + b"}")
        head = b'{"type":"patch","subscription":"s","version":3,"seq":1,"ops":'
        consumer.receive(head + data + b"}")
        value = b'[{"op":"add","path":"/x","value":' + data + b"}]"
        consumer.receive(head + value + b"}")
        consumer.frames_to_send()

    return {
        "a provider": provider,
        "a consumer": consume,
        "a tree": decode,
        "canonical text": lambda data: deque(islice(format_blocks(decode(data)), 500), maxlen=0),
        "a tree on the wire": lambda data: decode(data, WIRE),
        "a patch": lambda data: apply(TREE, decode_ops(data)),
        "a descriptor": Descriptor.read,
        "a world": lambda data: read_world(b'{"apps":[{"id":"a","name":"A","tree":%s}]}' % data),
        "slots": lambda data: read_slots(read_json(data)),
        "a session": read_session,
    }


def bombs(trial: Trial) -> None:
    """Give what is too deep or too wide to everything that takes JSON."""
    slowest = (0.0, "")
    for name, bomb in _bombs(min(1.0, max(0.05, trial.scale))).items():
        allowed = FREE_S + PER_MB_S * len(bomb) / 1e6
        for taker, take in _takers().items():
            began = time.process_time()
            try:
                take(bomb)
            except SightlineError as error:
                trial.check(len(str(error)) < 10_000, f"{taker}, {name}: an endless error")
            except Exception as error:  # noqa: BLE001 - this is what must not happen
                trial.check(False, f"{taker}, {name}: {type(error).__name__}: {str(error)[:200]}")
            else:
                trial.check(True, "taken")
            took = time.process_time() - began
            if took > allowed:
                trial.fail(f"{taker}, {name}: {took:.1f} s of CPU, {allowed:.1f} s are allowed")
            slowest = max(slowest, (took, f"{taker}, {name}"))
    trial.note("slowest", f"{slowest[0]:.1f} s of CPU ({slowest[1]})")
    trial.note("allowed", f"{FREE_S:g} s and {PER_MB_S:g} s for each megabyte")


def subscriptions(trial: Trial) -> None:
    """Subscribe without end on one connection."""
    app = LiveApp()
    limit = app.provider.limits.subscriptions
    connection = app.provider.connect()
    answers: list[str] = []
    count = trial.times(10_000, least=200)
    for number in range(count):
        ask = {
            "type": "subscribe",
            "id": f"s{number}",
            "depth": number % 7,
            "max_nodes": number + 1,
        }
        connection.receive(json.dumps(ask))
        answers.extend(json.loads(frame)["type"] for frame in connection.frames_to_send())
    trial.tried += count
    trial.check(answers.count("snapshot") == limit, f"{answers.count('snapshot')} were granted")
    trial.check(answers.count("error") == count - limit, "not every other one was refused")
    app.publish(TREE.with_property("n", 1))
    app.provider.flush()
    told = [json.loads(frame) for frame in connection.frames_to_send(1 << 30)]
    trial.check(0 < len(told) <= limit, f"a change is told {len(told)} times")
    connection.receive(b'{"type":"unsubscribe","id":"s0"}')
    connection.receive(b'{"type":"subscribe","id":"late"}')
    [late] = [json.loads(frame) for frame in connection.frames_to_send()]
    trial.check(late["type"] == "snapshot", "a place that was given back is not given away")
    asyncio.run(_others_are_served(trial))


async def _others_are_served(trial: Trial) -> None:
    """Somebody who bombs a real app does not keep others from using it."""
    app = real.Mailbox().app
    async with connect(app) as bomber, connect(app) as other:
        for number in range(trial.times(2000, least=100)):
            bomber.consumer.subscribe("/", max_nodes=number + 1)
        await bomber.invoke("/", "count")
        await other.invoke("/", "count")
        trial.check(other.tree.properties["n"] == 2, "another consumer does not see the change")
    await app.close()


CLAIMS = (
    Claim("malformed", "malformed messages: answered, the connection lives on", malformed),
    Claim("bombs", "deep and wide bombs: refused or taken, never a crash", bombs),
    Claim("subscriptions", "a subscription bomb: bounded, and others are served", subscriptions),
)
