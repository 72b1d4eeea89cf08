"""Apps whose ids and names try to take the seat, the rules or the trust of one of our own."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from proof.claim import Claim, Trial
from sightline.agent.policy import Facts, decide
from sightline.config import PolicyRule
from sightline.errors import SightlineError
from sightline.slop.app.app import App
from sightline.slop.app.local import local_dial
from sightline.slop.discovery.directory import Discovery
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.world import World
from sightline.slop.transports.unix import serve_unix
from support.impostors import IDS, NAMES, OWN, Impostor, is_misleading, serves

SETTLE_S = 20.0
RULES = (PolicyRule(app=OWN, action="*", decision="approve"),)


def impostors(trial: Trial) -> None:
    """Let every impostor announce itself and be connected to, beside our own workspace."""
    everyone = [Impostor(text, "Mail") for _, text in IDS]
    everyone += [Impostor("mail", text) for _, text in NAMES]
    chosen = trial.random.sample(everyone, trial.times(len(everyone), least=20))
    for impostor in chosen:
        found = asyncio.run(_attempt(trial.directory("seat"), impostor))
        trial.check(not found, f"{impostor.id!a} {impostor.name!a}: {', '.join(found)}")
    with _unchecked():
        tried = chosen[:100]
        fooled = sum(bool(asyncio.run(_attempt(trial.directory("bare"), one))) for one in tried)
    trial.control(
        fooled > len(tried) // 2,
        f"{fooled} of {len(tried)} get something from a hub without checks",
    )
    trial.note("ids", f"{len(IDS)}")
    trial.note("names", f"{len(NAMES)}")


async def _attempt(place: Path, impostor: Impostor) -> list[str]:
    """Do all that an app can do to be seated; returns what it got that it must not get."""
    ours, read = App(OWN, "Here"), []
    ours.action("/", "read")(lambda: read.append("ours"))
    socket = place / "app.sock"
    got: list[str] = []
    _announce(place / "providers", impostor, socket)
    async with serve_unix(serves(impostor), socket), Hub(Discovery([place / "providers"])) as hub:
        try:
            hub.add(OWN, local_dial(ours), own=True)
        except SightlineError:
            got.append("our seat")
        with contextlib.suppress(SightlineError):
            async with Client(dial_address(f"unix:{socket}"), reconnect=False) as probe:
                said = await probe.ready()
            hub.add(said.id, dial_address(f"unix:{socket}"), name=said.name)
        await _settled(hub)
        with contextlib.suppress(SightlineError):
            await hub.invoke(OWN, "/", "read")
        got += _gains(hub, hub.world)
    if not read or impostor.invoked:
        got.append("what was asked of ours")
    return got


def _gains(hub: Hub, world: World) -> Iterator[str]:
    """What others than our own app have that is its alone, to somebody who is easily fooled."""
    for app in world.apps:
        origin = hub.origin(app.id)
        if origin is not None and origin.kind == "own":
            continue
        if is_misleading(app.id, longest=128):
            yield "a seat that reads as ours"
        if is_misleading(app.name) and app.name != app.id:
            yield "a name that misleads"
        if origin is not None and "our own" in str(origin):
            yield "our origin on a card"
        facts = Facts(app=app.id, path="/", action="read")
        if decide(facts, "ask", RULES).verdict == "approve":
            yield "a rule for ours"
    for item in world.available:
        if is_misleading(item.id, longest=128) or is_misleading(item.name):
            yield "a line among the apps that mislead"


async def _settled(hub: Hub) -> None:
    """Wait until every app is connected, or known not to be."""
    async with asyncio.timeout(SETTLE_S):
        async for world in hub.changes():
            if all(app.status != "awaiting" for app in world.apps):
                return


def _announce(directory: Path, impostor: Impostor, socket: Path) -> None:
    directory.mkdir()
    said = {
        "id": impostor.id, "name": impostor.name, "slop_version": "0.1",
        "transport": {"type": "unix", "path": str(socket)},
    }  # fmt: skip
    with contextlib.suppress(OSError, ValueError):  # no file can have every name
        note = directory / f"{impostor.id}.json"
        note.touch(0o600)
        note.write_text(json.dumps(said))


@contextlib.contextmanager
def _unchecked() -> Iterator[None]:
    """A hub that believes what it is told, as one would be without these rules."""
    with contextlib.ExitStack() as stack:
        for module in ("slop.hub.hub", "slop.hub.client", "slop.discovery.descriptor"):
            stack.enter_context(patch(f"sightline.{module}.app_id_problem", lambda _: None))
        for module in ("slop.hub.client", "slop.discovery.descriptor"):
            stack.enter_context(patch(f"sightline.{module}.app_name_problem", lambda _: None))
        for module in ("slop.hub.hub", "slop.discovery.descriptor"):
            stack.enter_context(patch(f"sightline.{module}.reads_as_own", lambda _: False))
        yield


CLAIMS = (
    Claim("impostors", "ids and names that pass for our own apps': no seat, rule, card or call "
          "is theirs", impostors),
)  # fmt: skip
