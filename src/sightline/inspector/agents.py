"""Another agent's request as the views of a turn take it: slots, messages, parts (pure).

    tools · system · history · input · rounds · state

`input` is the newest message of the user's that is no result, `rounds` what followed it, `state`
what the gateway put behind all. A request weighs what its vendor counted, each part of it as much
as its bytes; so the figures are estimates, and add up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Any, Final

import msgspec

from sightline.context.dialects.drift import CAUSES, common_start, extra_price
from sightline.context.dialects.profile import Profile
from sightline.context.messages.parts import Role
from sightline.context.slots.prompt import MessageLine, Notice, Receipt, SlotLine
from sightline.gateway.bodies import CALLS, IMAGES, REASONING, RESULTS, RequestBody, Unit
from sightline.gateway.losses import common_units, compare
from sightline.gateway.observer import Passed
from sightline.gateway.tail import is_state, is_whole_state
from sightline.inspector.records import picture, preview
from sightline.inspector.unseen import Unseen
from sightline.inspector.verdicts import TurnVerdict, counted_changes, tool_changes
from sightline.inspector.wires import PromptPiece, excerpts, key_of, tokens_as_before

BYTES_PER_TOKEN: Final = 4  # where no vendor counted
SHARED_BYTES: Final = 200
HELD: Final = "held by the vendor"
_MILLION: Final = 1_000_000
_BROKEN: Final = ("cut", "incomplete", "error", "refused")
_ITEM: Final = re.compile(r"\w+\[\d+\]")
_INDEX: Final = re.compile(r"\[(\d+)\]")
_ROLES: Final[dict[str, Role]] = {
    "assistant": "assistant", "model": "assistant", "system": "system", "developer": "system",
    "tool": "tool", "function": "tool",
}  # fmt: skip
# Anthropic, OpenAI (both APIs), Gemini: what a request asks to be left for the answer.
_ANSWER: Final = ("max_tokens", "max_output_tokens", "max_completion_tokens", "maxOutputTokens")


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A request of another agent's: its number in the session, what was found out, what was sent.

    `body` is None where nobody knows what was sent; `spliced` is what the gateway put into it.
    """

    turn: int
    passed: Passed
    data: bytes = b""
    body: RequestBody | None = None
    spliced: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """How the page calls it."""
        return f"{self.turn}.1"


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """One tool, block of instructions or message of a request, in its slot."""

    slot: str
    role: Role
    units: tuple[Unit, ...]
    path: str

    @property
    def size(self) -> int:
        """Its weight in bytes."""
        return sum(unit.size for unit in self.units)

    @property
    def digests(self) -> tuple[bytes, ...]:
        """What it is compared by."""
        # What the gateway put in is known as text only.
        return tuple(unit.digest or unit.text.encode() for unit in self.units)


def status_of_passed(passed: Passed) -> str:
    """What became of a request, in the words that turns are called by."""
    if passed.source:
        return "answered"
    if not passed.status or passed.status >= 400 or passed.stop in _BROKEN:
        return "failed"
    return "limit" if passed.stop == "length" else "answered"


# Slots.


def messages_of(body: RequestBody, spliced: Sequence[str] = ()) -> list[AgentMessage]:
    """Return everything in a request in the vendors' order, and the state that was put behind."""
    ahead = len(body.tools), len(body.tools) + len(body.system)
    tools = zip(body.paths, body.tools, strict=False)
    system = zip(body.paths[ahead[0] : ahead[1]], body.system, strict=True)
    rest = zip(body.paths[ahead[1] :], body.messages, strict=True)
    found = [AgentMessage("tools", "tool", (unit,), path) for path, unit in tools]
    found += [AgentMessage("system", "system", (unit,), path) for path, unit in system]
    found += _in_slots(
        [
            AgentMessage("history", _role(units := tuple(unit for _, unit in some)), units, item)
            for item, some in groupby(rest, key=_item)
        ]
    )
    states = (Unit(b"", "text", text=text, size=len(text)) for text in spliced)
    return found + [AgentMessage("state", "user", (unit,), "state") for unit in states]


def _item(placed: tuple[str, Unit]) -> str:
    found = _ITEM.match(placed[0])
    return found[0] if found else placed[0]


def _role(units: Sequence[Unit]) -> Role:
    if any(_is_result(unit) for unit in units):
        return "tool"
    return _ROLES.get(units[0].role, "user")


def _in_slots(messages: list[AgentMessage]) -> list[AgentMessage]:
    """Say of each message in which slot it stands."""
    last = len(messages)
    while last and _is_state(messages[last - 1]):
        last -= 1
    asked_at = next((at for at in range(last - 1, -1, -1) if _is_question(messages[at])), last)
    first = next((at for at, one in enumerate(messages) if one.role != "system"), len(messages))

    def slot(at: int) -> str:
        if at < min(first, asked_at):
            return "system"
        if at >= last:
            return "state"
        return "history" if at < asked_at else "input" if at == asked_at else "rounds"

    return [
        AgentMessage(slot(at), one.role, one.units, one.path) for at, one in enumerate(messages)
    ]


def _is_state(message: AgentMessage) -> bool:
    return all(is_state(unit) for unit in message.units)


def _is_question(message: AgentMessage) -> bool:
    return message.role == "user" and not _is_state(message)


def _is_call(unit: Unit) -> bool:
    return unit.kind in CALLS or unit.kind.endswith("_call")


def _is_result(unit: Unit) -> bool:
    return unit.kind in RESULTS or unit.kind.endswith("_output")


def parts_of_units(units: Sequence[Unit]) -> list[dict[str, Any]]:
    """Show the parts of a message as texts; calls and results with the id they share."""
    # OpenAI, Chat Completions: the id of the call stands beside the words of its result.
    beside = next((unit.call for unit in units if unit.kind == "more"), "")
    parts = []
    for unit in units:
        if unit.kind == "more":
            continue
        if _is_result(unit) or beside:
            about = {"id": unit.call or beside, "error": False}
            parts.append({"kind": "result", "text": unit.text, **about})
        elif _is_call(unit) and _is_json(unit.text):
            call = f"{unit.name}({unit.text})"
            parts.append({"kind": "call", "text": call, "id": unit.call, "name": unit.name})
        elif unit.kind in IMAGES:
            parts.append({"kind": "file", "text": f"{unit.kind}, {unit.size:,} bytes"})
        else:
            kind = "reasoning" if unit.kind in REASONING else "text"
            text = f"{unit.name}({unit.text})" if _is_call(unit) else unit.text
            parts.append({"kind": kind, "text": text or f"({unit.kind})"})
    return parts


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


# The picture: who has the tokens.


def picture_of(sent: AgentRequest, body: RequestBody, profile: Profile) -> dict[str, Any]:
    """Lay a request out in its window: slots, each with its messages, that add up to it."""
    messages = messages_of(body, sent.spliced)
    total, weights = _weighed(sent, body, messages)
    window = max(profile.window_tokens, total)
    budget = max(total, window - _answer_tokens(sent.data))
    tools = _tool_texts(sent.data, [one.path for one in messages if one.slot == "tools"])
    lines = [
        MessageLine(one.role, weight, weight, 0, "kept", "estimated")
        for one, weight in zip(messages, weights, strict=True)
    ]
    slots = []
    for slot in dict.fromkeys(one.slot for one in messages):
        some = [line for line, one in zip(lines, messages, strict=True) if one.slot == slot]
        leaves = slot == "state" and sent.passed.leaves
        kept = sum(line.kept for line in some)
        slots.append(
            SlotLine(
                slot, 0, "volatile" if leaves else "append", kept, kept, 0, budget, 0, tuple(some)
            )
        )
    if held := total - sum(weights):
        at = sum(slot.name in ("tools", "system") for slot in slots)
        slots.insert(at, SlotLine(HELD, 0, "append", held, held, 0, budget, 0, ()))
    order = [slot.name for slot in slots]
    counted = "the vendor's count, by bytes" if _counted(sent) else "its bytes, four to a token"
    receipt = Receipt(
        budget, counted, "estimated", 0, 0, total, budget - total, len(messages), "",
        tuple(slots), tuple(_notices(sent, body, profile)),
    )  # fmt: skip
    rows = [
        _message(at, one, weight, order, tools.get(one.path))
        for at, (one, weight) in enumerate(zip(messages, weights, strict=True))
    ]
    return picture(receipt, profile, rows)


def _message(
    index: int, one: AgentMessage, tokens: int, order: list[str], tool: str | None
) -> dict[str, Any]:
    parts = parts_of_units(one.units) if tool is None else [{"kind": "tool", "text": tool}]
    about = one.units[0].name if tool is not None else " ".join(part["text"] for part in parts)
    return {
        "index": index,
        "slot": one.slot,
        "slot_index": order.index(one.slot),
        "role": one.role,
        "tokens": tokens,
        "key": key_of(one.digests),
        "preview": preview(about),
        "parts": parts,
    }


def _counted(sent: AgentRequest) -> int:
    usage = sent.passed.usage
    return 0 if usage is None else usage.input_tokens


def _weighed(
    sent: AgentRequest, body: RequestBody, messages: Sequence[AgentMessage]
) -> tuple[int, list[int]]:
    """What a request weighs, and each message of it; the rest of it the vendor holds."""
    sizes = [one.size for one in messages]
    by_bytes = sum(sizes) // BYTES_PER_TOKEN
    total = _counted(sent) or by_bytes
    return total, shares(sizes, min(total, by_bytes) if body.follows else total)


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """Share a number out in proportion to some sizes; the shares add up to it."""
    whole = sum(sizes)
    ends = [0, *(total * size // whole for size in accumulate(sizes) if whole)]
    return [after - before for before, after in pairwise(ends)]


def _answer_tokens(data: bytes) -> int:
    """What a request asks to be left for its answer; 0 where it says nothing."""
    fields = msgspec.json.decode(data)
    config = fields.get("generationConfig")
    given = {**fields, **config} if isinstance(config, dict) else fields
    found = (given.get(name) for name in _ANSWER)
    return next((n for n in found if isinstance(n, int) and not isinstance(n, bool) and n > 0), 0)


def _tool_texts(data: bytes, paths: Sequence[str]) -> dict[str, str]:
    """The tools of a request as JSON, by their paths; Gemini's stand in lists of declarations."""
    given = msgspec.json.decode(data).get("tools") if paths else None
    texts = {}
    for path in paths:
        index, *inner = map(int, _INDEX.findall(path))
        tool = given[index] if isinstance(given, list) else given
        declared = tool.get("functionDeclarations") if isinstance(tool, dict) else None
        if isinstance(declared, list) and declared:
            tool = declared[inner[0] if inner else 0]
        texts[path] = msgspec.json.format(msgspec.json.encode(tool), indent=1).decode()
    return texts


def _notices(sent: AgentRequest, body: RequestBody, profile: Profile) -> Iterator[Notice]:
    if body.follows:
        words = f"the vendor holds what stands before, as {body.follows}: only what is new was sent"
        yield Notice("held", HELD, words)
    if not _counted(sent):
        yield Notice("uncounted", "", "the vendor counted nothing: this is by its bytes")
    if profile.source_of("window_tokens") == "default":
        yield Notice("window", "", f"the window of {body.model or 'its model'} is not known")


# What is different from another request.


def new_since(before: RequestBody | None, now: RequestBody) -> list[AgentMessage]:
    """The messages with which a request goes on from another one; all of them without one."""
    said_before = () if before is None else before.messages
    left = common_units(said_before, now.messages)
    found = []
    for one in messages_of(now)[len(now.tools) + len(now.system) :]:
        if left < len(one.units):
            found.append(one)
        left = max(0, left - len(one.units))
    return found


def departure(old: AgentRequest, new: AgentRequest, profile: Profile) -> dict[str, Any]:
    """Where a request departs from another one, and what that costs."""
    at = common_start(old.data, new.data)
    answer: dict[str, Any] = {
        "kind": "same" if old.data == new.data else "appended",
        "common_bytes": at,
        "as_before": {},
        "common_tokens": 0,
        "lost_tokens": 0,
        "cost_usd": None,
        "cause": "none: it goes on from there (marks for the cache are bytes, too)",
        **excerpts(old.data, new.data, at, SHARED_BYTES),
    }
    if old.body is None or new.body is None:
        return answer
    found = compare(old.body, new.body)
    was = _pieces(old, old.body, 0)
    as_before = tokens_as_before(was, _pieces(new, new.body, found.shared))
    answer["as_before"] = as_before
    answer["common_tokens"] = sum(reusable for _, reusable in as_before.values())
    if found.cause:
        whole = sum(piece.tokens for piece in was)
        lost = whole - whole * found.shared // max(1, found.whole)
        usage = new.passed.usage
        price = extra_price(profile.prices, usage.cache_write_tokens if usage else None)
        place_of_it = f" at {found.path}" if found.path else ""
        detail = f" ({found.detail})" if found.detail else ""
        answer |= {
            "kind": "regression",
            "lost_tokens": lost,
            "cost_usd": None if price is None else lost * price / _MILLION,
            # A vendor reads tools first, wherever an agent writes them.
            "cause": f"{CAUSES[found.cause][0]}{detail}{place_of_it}; "
            f"as it was sent, from byte {at:,} on",
        }
    return answer


def _pieces(sent: AgentRequest, body: RequestBody, shared: int) -> list[PromptPiece]:
    """Return the pieces of a request. Its first `shared` bytes are another one's, too."""
    messages = messages_of(body, sent.spliced)
    total, weights = _weighed(sent, body, messages)
    rows = zip(messages, weights, accumulate(one.size for one in messages), strict=True)
    held = total - sum(weights)
    return [PromptPiece(HELD, "", held, held)] * bool(held) + [
        PromptPiece(one.slot, key_of(one.digests), weight, weight if end <= shared else 0)
        for one, weight, end in rows
    ]


def changed_since(before: AgentRequest, now: AgentRequest) -> TurnVerdict:
    """Say what is different since the request that one goes on from."""
    old, new = before.body, now.body
    if old is None or new is None:
        return TurnVerdict("Not known", (WHY_UNKNOWN,))
    counts = [
        Counter(one.digests for one in messages_of(body)[len(body.tools) + len(body.system) :])
        for body in (old, new)
    ]
    title = counted_changes(*counts)
    lines = []
    if [unit.digest for unit in old.tools] != [unit.digest for unit in new.tools]:
        names = [{unit.name for unit in body.tools} for body in (old, new)]
        lines.append(tool_changes(*names))
    if [unit.digest for unit in old.system] != [unit.digest for unit in new.system]:
        lines.append("instructions: reworded")
    if old.model != new.model:
        lines.append(f"model: {old.model} → {new.model}")
    lines += [
        f"{name}: {old.settings.get(name, 'none')} → {new.settings.get(name, 'none')}"
        for name in sorted({*old.settings, *new.settings})
        if old.settings.get(name) != new.settings.get(name)
    ]
    if not title:
        title = "The same messages" if lines else "Nothing"
    return TurnVerdict(title, (f"since request {before.name}", *map(preview, lines)))


def gone_since(before: AgentRequest, now: AgentRequest) -> Iterator[Unseen]:
    """Name what stood in an earlier request and does not in this one, runs of it together."""
    if before.body is None or now.body is None:
        return
    messages = messages_of(before.body, before.spliced)
    _, weights = _weighed(before, before.body, messages)
    present = {one.digests for one in messages_of(now.body)}
    rule = compare(before.body, now.body).cause
    why = CAUSES[rule][0] if rule else "it is not in this request"
    numbered = [
        ((one.slot in ("tools", "system") and one.slot) or "message", one, weight)
        for one, weight in zip(messages, weights, strict=True)
        if one.path != "state"
    ]
    for (kind, is_gone), some in groupby(
        numbered, key=lambda item: (item[0], item[1].digests not in present)
    ):
        run = list(some)
        if is_gone:
            tokens = sum(weight for _, _, weight in run)
            what = f"{run[0][1].path} to {run[-1][1].path}" if len(run) > 1 else run[0][1].path
            names = ", ".join(filter(None, (one.units[0].name for _, one, _ in run[:3])))
            about = f" ({names})" if kind == "tools" and names else ""
            yield Unseen(
                kind, f"{what} of request {before.turn}{about}", f"{tokens:,} tokens", why,
                before.turn,
            )  # fmt: skip


def states_of(sent: AgentRequest) -> list[str]:
    """What a request was told of the apps: the last whole state, and what changed since."""
    units = () if sent.body is None else sent.body.messages
    texts = [*(unit.text for unit in units if is_state(unit)), *sent.spliced]
    first = max((at for at, text in enumerate(texts) if is_whole_state(text)), default=0)
    return texts[first:]


WHY_UNKNOWN: Final = "A transcript does not hold what was sent: the request is unknown."
