"""Apps on a broker, found by who looks for them: each says now and then that it is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import msgspec

from sightline.slop.transports.nats import Assembler
from sightline.slop.transports.nats_link import TICK_S, WELCOME_BYTES, shared_at
from sightline.slop.transports.nats_url import NatsUrl

# Ticks, not seconds: who was too busy to listen has missed nothing.
_FOUND_TICKS: Final = 20
_FOUND: Final = 1_000


class FoundOnBroker(msgspec.Struct, frozen=True):
    """An app's word that it is there, not believed yet."""

    id: str
    name: str


_found: Final = msgspec.json.Decoder(FoundOnBroker)


async def apps_on(address: str) -> AsyncIterator[tuple[FoundOnBroker, ...]]:
    """Give the apps that say they are on a broker, and again whenever that changes.

    Raises what `connect_nats` does; a broker that goes away takes its apps along.
    """
    url = NatsUrl.read(address)
    heard: dict[str, tuple[FoundOnBroker, int]] = {}
    news = asyncio.Event()
    shared = shared_at(url)
    tick, shown = 0, None

    def take(_: str, __: str, payload: bytes | None) -> None:
        try:
            message = None if payload is None else Assembler(WELCOME_BYTES).take(payload)
            found = None if message is None else _found.decode(message)
        except (ValueError, msgspec.DecodeError):
            return
        if found is not None and (found.id in heard or len(heard) < _FOUND):
            heard[found.id] = (found, tick)
            news.set()

    async with shared.used():
        broker = shared.broker
        inbox = broker.new_inbox()
        numbers = [await broker.hear(subject, take) for subject in ("slop.here", inbox)]
        try:
            await broker.say("slop.apps", b"{}", inbox)
            while True:
                stale = [one for one, (_, at) in heard.items() if at < tick - _FOUND_TICKS]
                for app_id in stale:
                    del heard[app_id]
                now = tuple(heard[app_id][0] for app_id in sorted(heard))
                if now != shown:
                    shown = now
                    yield now
                news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await news.wait()
                        continue
                tick += 1
        finally:
            for number in numbers:
                await broker.ignore(number)
