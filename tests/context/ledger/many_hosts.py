"""Many hosts append to shared sessions; some are killed with SIGKILL, and so is the server.

`killed` runs it as a program of its own and kills the server when that says `server`. Arguments of
the program: the ledger's URL, how many hosts, how many appends in all, how many kills of hosts and
of the server, a seed, and `early` for hosts that lie: they tell before they have stored, so that
losses must be found. Half of the hosts share a session with another, the others have one of their
own: both ways to append are tried. A host tells through a pipe each number that was acknowledged;
one that was killed is followed by another that begins with the first that was not, with the same
keys. The last line is a JSON summary.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sightline.context.ledger import Ledger
from sightline.errors import LedgerUnavailable

if TYPE_CHECKING:
    from support.postgres import Server

HOSTS = 16
_AGAIN_S = 0.02  # until a server that was killed is asked again


def killed(
    server: Server,
    appends: int,
    *,
    hosts: int,
    servers: int = 0,
    seed: int = 7,
    early: bool = False,
) -> dict[str, Any]:
    """Let hosts append so many messages, kill so many of them and the server; what was found."""
    arguments = (server.url(uuid4().hex), HOSTS, appends, hosts, servers, seed)
    command = [sys.executable, __file__, *map(str, arguments), *(["early"] if early else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        last = "{}"
        for line in running.stdout:
            last = line
            if line == "server\n":
                server.kill()
                server.start()
    assert running.returncode == 0
    summary: dict[str, Any] = json.loads(last)
    return summary


def host(
    url: str, session: int, name: int, first: int, count: int, pipe: int, *, early: bool
) -> None:
    """Append numbers, and tell each one only after it was acknowledged."""
    number = first
    while number < count:
        try:
            with Ledger(url) as ledger:
                while number < count:
                    if early:
                        os.write(pipe, b".")
                    role, said = "user" if number % 3 == 0 else "assistant", f"{name} {number}"
                    message = {"role": role, "content": said}
                    ledger.append(session, [message], key=f"{name}-{number}")
                    if not early:
                        os.write(pipe, b".")
                    number += 1
        except LedgerUnavailable:
            select.select([], [], [], _AGAIN_S)


class Fleet:
    """The hosts, and how far each of them is by its own word."""

    def __init__(
        self, url: str, sessions: list[int], hosts: int, each: int, *, early: bool
    ) -> None:
        self._url = url
        self._sessions = sessions
        self._each = each
        self._early = early
        self._told = [0] * hosts
        self._running: dict[int, tuple[int, int]] = {}  # by the end of its pipe: name, process
        for name in range(hosts):
            self._start(name)

    def _start(self, name: int) -> None:
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reader)
            session = self._sessions[name % len(self._sessions)]
            first = self._told[name]
            host(self._url, session, name, first, self._each, writer, early=self._early)
            os._exit(0)
        os.close(writer)
        self._running[reader] = (name, process)

    def watch(self, until: int) -> bool:
        """Listen until so many were acknowledged; say whether anybody still works."""
        while self._running and sum(self._told) < until:
            for reader in select.select(list(self._running), [], [])[0]:
                self._hear(reader)
        return bool(self._running)

    def _hear(self, reader: int) -> None:
        said = os.read(reader, 4096)
        name, process = self._running[reader]
        self._told[name] += len(said)
        if not said:
            os.close(reader)
            del self._running[reader]
            _, status = os.waitpid(process, 0)
            if status:
                raise SystemExit(f"host {name} ended with {status}")

    def kill(self, chance: random.Random) -> None:
        """Kill one host in the middle of whatever it does, and start its follower."""
        reader = chance.choice(list(self._running))
        name, process = self._running.pop(reader)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        while said := os.read(reader, 4096):
            self._told[name] += len(said)
        os.close(reader)
        self._start(name)


def main() -> None:
    url, numbers, early = sys.argv[1], map(int, sys.argv[2:7]), sys.argv[7:] == ["early"]
    hosts, appends, kills, servers, seed = numbers
    chance = random.Random(seed)
    each = appends // hosts
    with Ledger(url) as ledger:
        names = [f"session {number}" for number in range(hosts * 3 // 4)]
        sessions = [ledger.sessions.create(name).id for name in names]
    fleet = Fleet(url, sessions, hosts, each, early=early)
    victims = ["host"] * kills + ["server"] * servers
    chance.shuffle(victims)
    done = 0
    for number, victim in enumerate(victims, 1):
        if fleet.watch(hosts * each * number // (len(victims) + 2)):
            done += 1
            if victim == "host":
                fleet.kill(chance)
            else:
                sys.stdout.write("server\n")
                sys.stdout.flush()
    fleet.watch(sys.maxsize)
    sys.stdout.write(json.dumps({"kills": done, **found(url, sessions, hosts, each)}))


def found(url: str, sessions: list[int], hosts: int, each: int) -> dict[str, Any]:
    """Read every session: what is missing, there twice or out of order, and what verify finds."""
    messages = doubled = disordered = 0
    numbers: dict[int, set[int]] = {name: set() for name in range(hosts)}
    with Ledger(url, mode="read") as ledger:
        for session in sessions:
            last = dict.fromkeys(numbers, -1)
            for place, entry in enumerate(ledger.messages(session)):
                name, number = map(int, entry.message.text.split())
                messages += 1
                doubled += number in numbers[name]
                disordered += entry.seq != place or number < last[name]
                last[name] = number
                numbers[name].add(number)
        findings = list(ledger.verify().findings)
    lost = sum(each - len(those) for those in numbers.values())
    return {
        "messages": messages, "lost": lost, "doubled": doubled, "disordered": disordered,
        "findings": findings,
    }  # fmt: skip


if __name__ == "__main__":
    main()
