"""A benchmark for any stack: the same work, your requests, one scorer. FIELD.md tells how.

    python -m benchmarks.field work      what happens, moment by moment, as JSON lines
    python -m benchmarks.field score     reads the requests of a system, and says what they cost
    python -m benchmarks.field faults    pairs of requests between which a cache may have been lost
    python -m benchmarks.field judge     reads what a system says to these, and counts what is right
    python -m benchmarks.field sessions  requests that real agents sent, in words of chance
    python -m benchmarks.field table     our own rows

All text is made by seeded chance, so that every run of it is the same.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from benchmarks import gateway
from benchmarks.cache import (
    BLOCK,
    FIXED,
    LAYOUTS,
    MARKED,
    VENDORS,
    WORKS,
    Asked,
    Layout,
    Moment,
    PrefixCache,
    Texts,
    conversation,
    price,
)  # fmt: skip
from benchmarks.faults import Case, cases, clean
from benchmarks.sessions import Session, expand, go_on, load
from sightline.context.dialects.sdk import Messages
from sightline.context.messages.parts import Message
from sightline.context.messages.replay import fresh_groups, truncate

__all__ = ["faults", "judged", "main", "requests", "scored", "sessions", "sessions_table", "work"]

Line = dict[str, Any]
TURNS = 30
SEED, EACH, CLEAN = 1, 5, 200
OURS = ("before", "layers", "users", "default")
# Those whose caches find a beginning by themselves: a request need not say where it ends.
AUTOMATIC = [name for name in VENDORS if name not in MARKED]


def work(turns: int = TURNS) -> Iterator[Line]:
    """Tell what happens: before each request what was said since the last one, notes and state."""
    for kind in WORKS:
        told = 0
        for number, moment in enumerate(conversation(kind, turns, "request")):
            said = [entry.message for group in moment.groups for entry in group]
            yield {
                "work": kind.name, "request": number,
                "instructions": [message.text for message in FIXED],
                "said": Messages(said[told:]).to_openai(),
                "notes": [note.text for note in moment.notes], "state": moment.state.text,
            }  # fmt: skip
            told = len(said)


def requests(layout: Layout, turns: int = TURNS) -> Iterator[Line]:
    """Write the requests of one of our layouts, as any system would."""
    for kind in WORKS:
        for moment in conversation(kind, turns, "request"):
            yield {"work": kind.name, "messages": Messages(_laid_out(layout, moment)).to_openai()}


def _laid_out(layout: Layout, moment: Moment) -> list[Message]:
    window, total = layout.window, len(moment.groups)
    running = fresh_groups(window, total) if layout.tiers.settle else 1
    history: list[Message] = []
    for at in range(total - window.shown(total), total):
        group = moment.groups[at]
        active = group[0].group_id if at >= total - running else -1
        said = [entry.message for entry in truncate(group, layout.tiers, active_group=active)]
        history += [said[0], moment.states[at], *said[1:]] if layout.place == "users" else said
    match layout.place:
        case "before":
            return [*FIXED, moment.state, *moment.notes, *history]
        case "layers":
            return [*FIXED, *moment.notes, moment.state, *history]
        case "users":
            return [*FIXED, *history, *moment.notes]
        case "tail":
            return [*FIXED, *history, *moment.notes, moment.state]


def scored(lines: Iterable[Line]) -> dict[str, float]:
    """Say what requests cost, in tokens: sent, evaluated, and at vendors' prices of new input.

    A message counts as its JSON, whatever its form; a cache keeps the last requests of each work
    and reads the longest beginning in blocks. Instructions of a system are messages, too.
    """
    texts = Texts()
    caches: dict[str, PrefixCache] = {}
    found = dict.fromkeys(("requests", "sent", "evaluated", *AUTOMATIC), 0.0)
    for line in lines:
        written = (Message.of("user", json.dumps(message)) for message in line["messages"])
        numbers = texts.numbers(written)
        ends, blocks = np.cumsum(texts.weights[numbers]), np.cumsum(texts.blocks[numbers])
        asked = Asked(numbers, ends, blocks, numbers.size, {name: [] for name in MARKED})
        reuse = caches.setdefault(line["work"], PrefixCache(texts)).reuse(asked)
        found["requests"] += 1
        found["sent"] += int(ends[-1])
        found["evaluated"] += int(ends[-1]) - (reuse.common - reuse.common % BLOCK)
        for name in AUTOMATIC:
            found[name] += price(name, asked, reuse)
    return found


def sessions() -> Iterator[Line]:
    """Write the requests of the recorded sessions, as any system would."""
    return chain.from_iterable(map(expand, load()))


def sessions_table() -> Iterator[str]:
    """Write a row for each recorded session; prices are shares of what no cache would cost."""
    names = " | ".join(AUTOMATIC)
    yield f"| agent | requests | go on from the last | sent | evaluated | reused | {names} |"
    yield f"| --- |{' ---: |' * (5 + len(AUTOMATIC))}"
    yield from map(_session_row, load())


def _session_row(session: Session) -> str:
    found = scored(expand(session))
    sent, evaluated = found["sent"], found["evaluated"]
    shares = (1 - evaluated / sent, *(found[name] / sent for name in AUTOMATIC))
    return (
        f"| {session.name} | {found['requests']:.0f} | {go_on(session)}"
        f" | {sent:,.0f} | {evaluated:,.0f} | {' | '.join(f'{share:.1%}' for share in shares)} |"
    )


def faults() -> Iterator[Line]:
    """Give the cases without their causes; among them some in which nothing happened."""
    for number, case in enumerate(_cases()):
        yield {
            "case": number, "api": case.layout, "before": case.before, "now": case.now,
            "idle_s": case.idle_s, "reported": case.reported,
        }  # fmt: skip


def judged(lines: Iterable[Line]) -> dict[str, float]:
    """Count the causes that a system named, and its alarms where nothing happened."""
    answers = {line["case"]: line.get("cause") or "" for line in lines}
    right = lost = alarms = quiet = 0
    for number, case in enumerate(_cases()):
        if case.cause:
            lost += 1
            right += answers.get(number, "") == case.cause
        else:
            quiet += 1
            alarms += bool(answers.get(number))
    return {"lost": lost, "named": right / lost, "nothing happened": quiet, "alarms": alarms}


def _cases() -> Iterator[Case]:
    rng = random.Random(SEED)
    yield from cases(rng, EACH)
    yield from clean(rng, CLEAN)


def _answers() -> Iterator[Line]:
    for number, case in enumerate(_cases()):
        loss = gateway.judge(case)
        yield {"case": number, "cause": loss.cause if loss else ""}


def table() -> Iterator[str]:
    """Write the rows of our own layouts, of the gateway, and of the recorded sessions."""
    yield f"| layout | sent | evaluated | {' | '.join(AUTOMATIC)} |"
    yield f"| --- |{' ---: |' * (2 + len(AUTOMATIC))}"
    for slug in OURS:
        found = scored(requests(LAYOUTS[slug]))
        figures = (found[name] / 1e6 for name in ("sent", "evaluated", *AUTOMATIC))
        yield f"| {LAYOUTS[slug].title} | {' | '.join(f'{figure:.2f}' for figure in figures)} |"
    yield ""
    ours = judged(_answers())
    yield "| system | causes named | alarms where nothing happened |"
    yield "| --- | ---: | ---: |"
    yield (
        f"| `sightline gateway` | {ours['named']:.1%} of {ours['lost']}"
        f" | {ours['alarms']} of {ours['nothing happened']} |"
    )
    yield ""
    yield from sessions_table()


def main(task: str) -> None:
    """Write lines, or read them from standard input and print what they come to."""
    given = (json.loads(line) for line in sys.stdin)
    match task:
        case "work" | "sessions" | "faults":
            for line in {"work": work, "sessions": sessions, "faults": faults}[task]():
                print(json.dumps(line))
        case "score" | "judge":
            print(json.dumps(scored(given) if task == "score" else judged(given), indent=2))
        case "table":
            print("\n".join(table()))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
