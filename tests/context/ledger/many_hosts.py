"""Run as a program: many hosts append to shared sessions, and some are killed with SIGKILL.

Arguments: the ledger's URL, how many hosts, how many appends in all, how many kills, a seed. Two
hosts share a session. A host tells through a pipe each number that was acknowledged; one that was
killed is followed by another that begins with the first that was not, with the same keys. Prints
a JSON summary.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys

from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Message


def host(url: str, session: int, name: int, first: int, count: int, pipe: int) -> None:
    """Append numbers, and tell each one only after it was acknowledged."""
    with Ledger(url) as ledger:
        for number in range(first, count):
            said = Message("user" if number % 3 == 0 else "assistant", f"{name} {number}")
            ledger.append(session, [said], key=f"{name}-{number}")
            os.write(pipe, b".")


class Fleet:
    """The hosts, and how far each of them is by its own word."""

    def __init__(self, url: str, sessions: list[int], hosts: int, each: int) -> None:
        self._url = url
        self._sessions = sessions
        self._each = each
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
            host(self._url, session, name, self._told[name], self._each, writer)
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
    url, hosts, appends, kills = sys.argv[1], *map(int, sys.argv[2:5])
    chance = random.Random(int(sys.argv[5]))
    each = appends // hosts
    with Ledger(url) as ledger:
        sessions = [ledger.sessions.create(f"shared {number}").id for number in range(hosts // 2)]
    fleet = Fleet(url, sessions, hosts, each)
    done = 0
    for kill in range(kills):
        if fleet.watch(hosts * each * (kill + 1) // (kills + 2)):
            fleet.kill(chance)
            done += 1
    fleet.watch(sys.maxsize)
    lost = doubled = disordered = 0
    with Ledger(url, mode="read") as ledger:
        for session in sessions:
            entries = list(ledger.messages(session))
            disordered += [entry.seq for entry in entries] != list(range(len(entries)))
            said = [tuple(map(int, entry.message.text.split())) for entry in entries]
            for name in {name for name, _ in said}:
                numbers = [number for who, number in said if who == name]
                lost += len(set(range(each)) - set(numbers))
                doubled += len(numbers) - len(set(numbers))
                disordered += numbers != sorted(numbers)
        findings = list(ledger.verify().findings)
        messages = sum(len(list(ledger.messages(session))) for session in sessions)
    summary = {
        "kills": done, "messages": messages, "lost": lost, "doubled": doubled,
        "disordered": disordered, "findings": findings,
    }  # fmt: skip
    sys.stdout.write(json.dumps(summary))


if __name__ == "__main__":
    main()
