"""Two hosts that work on one ledger at the same time."""

from __future__ import annotations

import json
import select
import signal
import subprocess
from hashlib import sha256
from typing import Any

from proof.claim import Claim, Trial
from sightline.agent.host.journal import Journal
from sightline.context.dialects import encode
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Entry
from support.live import command_of

# What a turn of `host.beside` leaves, in order.
TURN = ["user", "assistant", "tool", "assistant"]


class _Hosts:
    """A ledger with two sessions, and the programs that work on it."""

    def __init__(self, trial: Trial, turns: int, *how: str) -> None:
        self.trial, self.turns, self.how = trial, turns, how
        self.place = trial.directory("hosts")
        with Ledger(self.place / "work.db") as ledger:
            self.own = [ledger.sessions.create(name).id for name in ("one", "two")]
            self.shared = ledger.sessions.create("shared").id
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.told: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def start(self, name: str, sessions: list[int]) -> None:
        seed = self.trial.random.randrange(2**32)
        listed = ",".join(map(str, sessions))
        arguments = (str(self.place), name, str(self.turns), str(seed), listed, *self.how)
        self.running[name] = subprocess.Popen(
            command_of("agent.host.beside", *arguments),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def meet(self) -> None:
        """Wait until every host is in the middle of a turn, then let them go on."""
        for process in self.running.values():
            assert process.stdout is not None
            if process.stdout.readline() != "inside\n":
                self.problems.append("a host did not come into its turn")
        for process in self.running.values():
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def kill(self, name: str) -> None:
        """Kill a host with SIGKILL, at any moment of a turn."""
        process = self.running.pop(name)
        assert process.stdout is not None
        for _ in range(self.trial.random.randrange(1, self.turns)):
            self.told.append(json.loads(process.stdout.readline()))
        select.select([], [], [], self.trial.random.random() * 0.03)
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        self.told += [json.loads(line) for line in rest.splitlines() if line.endswith("}")]

    def end(self) -> None:
        """Wait for those that run."""
        for name, process in self.running.items():
            said, complaint = process.communicate()
            self.told += [json.loads(line) for line in said.splitlines()]
            if process.returncode:
                self.problems.append(f"host {name} failed: {complaint[-300:]}")
        self.running.clear()

    def look(self, killed: int = 0) -> list[str]:
        """Name everything that is not as if one host had done it all."""
        found = list(self.problems)
        with Ledger(self.place / "work.db") as ledger:
            if not ledger.verify().ok:
                found.append("the ledger does not verify")
            for session in (*self.own, self.shared):
                entries = list(ledger.messages(session))
                wanted = [told["text"] for told in self.told if told["session"] == session]
                found += _wrong_in(session, entries, wanted, killed)
                found += self._blind(session, entries)
        journal = Journal(self.place / "work.db")
        try:
            for session in (*self.own, self.shared):
                for line in journal.requests(session):
                    known = journal.request(session, line.turn, line.number)
                    data = encode(known.prompt, known.profile, known.options).data
                    if sha256(data).hexdigest() != known.digest:
                        found.append(f"request {line.turn}.{line.number} is not what was sent")
        finally:
            journal.close()
        return found

    def _blind(self, session: int, entries: list[Entry]) -> list[str]:
        """Turns whose request does not have what was said last before them."""
        texts = [entry.message.text for entry in entries if entry.role == "user"]
        before = dict(zip(texts[1:], texts, strict=False))
        return [
            f"{told['text']} did not see {before[asked]}"
            for told in self.told
            if told["session"] == session
            and (asked := f"question {told['text']}") in before
            and before[asked] not in told["sent"]
        ]


def _wrong_in(session: int, entries: list[Entry], wanted: list[str], killed: int) -> list[str]:
    found = []
    if [entry.seq for entry in entries] != list(range(len(entries))):
        found.append(f"session {session}: seq has gaps")
    groups: dict[int, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.group_id, []).append(entry)
    if [entry for group in groups.values() for entry in group] != entries:
        found.append(f"session {session}: turns are mixed up")
    open_calls: list[str] = []
    for entry in entries:
        open_calls += [call.id for call in entry.message.tool_calls]
        answered = [result.call_id for result in entry.message.tool_results]
        if not set(answered) <= set(open_calls):
            found.append(f"session {session}: {answered} answers nothing")
        open_calls = [call for call in open_calls if call not in answered]
    if open_calls:
        found.append(f"session {session}: no result of {open_calls}")
    whole = []
    for group in groups.values():
        asked = group[0].message.text.removeprefix("question ")
        if [entry.role for entry in group] == TURN and group[-1].message.text == f"answer {asked}":
            whole.append(asked)
    lost = set(wanted) - set(whole)
    if lost or len(whole) != len(set(whole)):
        found.append(f"session {session}: lost or twice: {sorted(lost)}")
    # A host that was killed may have stored one turn that it did not live to tell.
    if len(groups) > len(wanted) + killed:
        found.append(f"session {session}: {len(groups)} turns, {len(wanted)} acknowledged")
    return found


def _without_law(trial: Trial, turns: int) -> list[str]:
    """What is seen of two hosts in one session that do not mind each other."""
    hosts = _Hosts(trial, turns, "lawless")
    hosts.start("a", [hosts.shared])
    hosts.start("b", [hosts.shared])
    hosts.meet()
    hosts.end()
    return hosts.look()


def _round(trial: Trial, turns: int, *, kill: bool) -> tuple[_Hosts, list[str]]:
    """Two hosts, each in a session of its own and both in one; or one is killed and replaced."""
    hosts = _Hosts(trial, turns)
    hosts.start("a", [hosts.own[0], hosts.shared])
    hosts.start("b", [hosts.own[1], hosts.shared])
    if kill:
        hosts.kill("a")
        hosts.start("c", [hosts.own[0], hosts.shared])
    hosts.end()
    return hosts, hosts.look(killed=kill)


def two_hosts(trial: Trial) -> None:
    """Two programs on one file: each in a session of its own, and both in one; one is killed."""
    turns = trial.times(20, least=3)
    seen = _without_law(trial, turns)
    trial.control(seen, f"if hosts do not mind who owns a session: {'; '.join(seen)[:200]}")
    refused = 0
    for number in range(trial.times(20)):
        hosts, wrong = _round(trial, turns, kill=number % 2 == 0)
        trial.tried += len(hosts.told) - 1
        trial.check(not wrong, f"round {number}: {wrong}")
        refused += sum(told["refused"] for told in hosts.told)
    trial.note("refused", f"{refused:,} times while the other host had the session")


CLAIMS = (
    Claim("hosts", "two hosts on one ledger: nothing lost, no turns mixed, the dead one's closed",
          two_hosts),
)  # fmt: skip
