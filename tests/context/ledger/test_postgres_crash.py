"""Whatever dies or is cut: what was acknowledged is there, once, in order, and it verifies."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from uuid import uuid4

import pytest

from context.ledger import many_hosts
from sightline.context.ledger import Ledger, StoredUsage
from sightline.context.messages.parts import Message
from sightline.errors import LedgerUnavailable
from support import postgres
from support.cutting import CuttingProxy

APPENDS = 20_000


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    if reason := postgres.lacks():
        pytest.skip(reason)
    with postgres.server() as running:
        yield running


@pytest.mark.usefixtures("server")  # which says if there can be none
def test_hosts_and_a_server_that_are_killed_lose_nothing_and_store_nothing_twice() -> None:
    with postgres.server() as server:  # what a test starts ends with it
        found = many_hosts.killed(server, APPENDS, hosts=8, servers=2)
        assert found == {
            "kills": 10, "messages": APPENDS, "lost": 0, "doubled": 0, "disordered": 0,
            "findings": [],
        }  # fmt: skip


@pytest.fixture
def proxy(server: postgres.Server) -> Iterator[CuttingProxy]:
    with tempfile.TemporaryDirectory(prefix="cut", dir="/tmp") as directory:
        between = CuttingProxy(Path(directory), server.directory / "sock")
        yield between
        between.close()


@pytest.mark.parametrize("loses", ["request", "answer"])
@pytest.mark.parametrize("kind", ["known", "read", "used"])
def test_an_append_whose_connection_is_cut_anywhere_is_stored_once(
    server: postgres.Server,
    proxy: CuttingProxy,
    loses: Literal["request", "answer"],
    kind: str,
) -> None:
    url = server.url(uuid4().hex)
    through = url.replace(str(server.directory / "sock"), str(proxy.directory))
    usage = StoredUsage("m", 1, 1) if kind == "used" else None
    with Ledger(through) as ledger, Ledger(url) as other:
        session = ledger.sessions.create("s").id
        cuts = 0
        for number in range(30):
            said = [Message("user", f"{number}"), Message("assistant", "a")]
            if kind == "read":
                other.sessions.set_title(session, f"{number}")  # the end has to be read again
            proxy.cut_after(number // 2, loses)
            try:
                ledger.append(session, said, key=f"k{number}", usage=usage)
            except LedgerUnavailable:
                cuts += 1
            if not proxy.has_cut:
                break
            proxy.heal()
            ledger.append(session, said, key=f"k{number}", usage=usage)
        proxy.heal()
        assert cuts >= 2
        prompts = [e.message.text for e in ledger.window(session) if e.role == "user"]
        assert prompts == [str(number) for number in range(number + 1)]
        assert ledger.accounts.totals(session).requests == (number + 1 if usage else 0)
        assert ledger.verify().findings == ()
