"""One pure composer: `compose(inputs) -> Composed`, whoever asks and whenever.

    entries ─ window ─ tiers ─ isolation ─ state blocks out ─▶ history │ input │ rounds
    anchor, scratchpad, memos ─┐
    safe world ─ selection ────┴▶ layers ─▶ strategy ─▶ prompt ─▶ dialect ─▶ request

`Inputs` is all that was true when a request was made; nothing else is looked at, so the same
inputs make the same bytes. The host gathers them from the ledger and the apps (`stage`), the
inspector from what was recorded, with what somebody wants to be different changed (`whatif`).

Counting and encoding happen in threads: one hop before the strategy, one after it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from sightline.agent.host.sight import FRAME_TOKENS, Sight, SightRules, look
from sightline.agent.plugins.run import StrategyRunner
from sightline.context.dialects import encode
from sightline.context.dialects.drift import Drift, Wire, drift
from sightline.context.dialects.events import Usage
from sightline.context.dialects.observations import GROWING, SentTail
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import Options, Request, no_tools
from sightline.context.messages.parts import Entry, File, Input, Message
from sightline.context.messages.replay import Tiers, isolate, replay
from sightline.context.messages.state import strip_states
from sightline.context.messages.window import Window
from sightline.context.projection.select import Selection
from sightline.context.projection.tools import ToolSet
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.slots import Budget
from sightline.context.slots.strategy import (
    Capabilities,
    Layers,
    Llm,
    Memory,
    NoLlm,
    NoMemory,
    Turn,
)
from sightline.context.tokens.tokens import Counter
from sightline.slop.protocol.world import World

if TYPE_CHECKING:
    from fractions import Fraction


SMALL_WINDOW: Final = 16_384  # models with less get the shorter standing texts
REMINDER_CHARS: Final = 300

_NO_TARGETS: Final = ToolSet(())

Steps: TypeAlias = tuple[tuple[str, int], ...]


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What was said, as the ledger has it, and by what rules it is said again.

    `entries` are the newest groups of `total`; those before `first_group` are folded away.
    Without `tiers` they are what a request said again, and are taken as they are.
    """

    entries: Sequence[Entry]
    total: int
    window: Window
    tiers: Tiers | None
    loose: Mapping[int, int] = msgspec.field(default_factory=dict)
    first_group: int = 0
    translate: bool = False

    def replayed(self, dialect: str, draft: Input | None = None) -> list[Entry]:
        """Return what of it is said to a model, now or once a draft is said."""
        if self.tiers is None:
            return list(self.entries)
        stored, total = list(self.entries), self.total
        if draft is not None:
            # It will be a group, which counts for the window and ends the turn before it.
            stored.append(_as_entry(draft))
            total += 1
        shown = replay(stored, self.window, self.tiers, total=total, loose=self.loose)
        shown = [e for e in shown if e.group_id >= self.first_group and e.group_id != _DRAFT_GROUP]
        return strip_states(isolate(shown, dialect, translate=self.translate))


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a request is made of.

    conversation   what was said; the last thing the user said is the input …
    draft          … unless this is, with the `rounds` that followed it
    layers         the texts that stand in every prompt; a state in them is shown as it is
    world          what the apps show, with nothing in it that must not be sent
    at             when: what the state is dated, and a strategy's clock
    sight          how of the world is chosen; the state's budget is `share` of the input
    tools          as the prompt has them; `targets` is where calls of them lead
    budget         the room; what kept tails take is set aside in it
    options        what the request asks for; `input_at` is where the input stood when its
                   kept tails were placed, None if it stands there still
    before         the last request to the same model, as its cache has it
    state          what the strategy left; `begins` if it has not run in this session
    overruled      options of slots, by name, that hold whatever the strategy says
    memory, llm    what a strategy, which is user code, may ask beyond its turn
    """

    conversation: Conversation
    draft: Input | None = None
    rounds: tuple[Entry, ...] = ()
    layers: Layers
    world: World
    at: datetime
    sight: SightRules
    share: float | Fraction
    tools: Sequence[dict[str, Any]]
    targets: ToolSet = _NO_TARGETS
    profile: Profile
    counter: Counter
    budget: Budget
    options: Options
    input_at: int | None = None
    before: Wire | None = None
    strategy: str = ""
    state: Mapping[str, Any] = msgspec.field(default_factory=dict)
    begins: bool = False
    overruled: Mapping[str, Mapping[str, float]] = msgspec.field(default_factory=dict)
    memory: Memory = msgspec.field(default_factory=NoMemory)
    llm: Llm = msgspec.field(default_factory=NoLlm)


class Composed(msgspec.Struct, frozen=True):
    """A request as it would be sent, or as it was sent, and how it was made.

    `state` is what the strategy left, and `failures` what went wrong with it; `warnings` is
    all that a user should know; `steps` how many milliseconds each part of the making took;
    `loose` is the first message of the turn behind a kept tail, 0 if there is none;
    `expected_tokens` are what the vendor should count, and `usage` what it did count.
    """

    inputs: Inputs
    prompt: Prompt
    request: Request
    options: Options
    drift: Drift | None
    sight: Sight
    turn: Turn
    state: dict[str, Any]
    failures: tuple[str, ...]
    warnings: tuple[str, ...]
    steps: Steps
    loose: int
    expected_tokens: int
    usage: Usage | None = None

    @property
    def kept_tokens(self) -> int:
        """What was set aside for the turn's earlier tails."""
        return self.turn.budget.reserved_tokens

    @property
    def selection(self) -> Selection:
        """What of the apps it shows, and why not the rest."""
        return self.sight.selection

    @property
    def world(self) -> World:
        """What `selection` was chosen from."""
        return self.sight.world


async def compose(
    inputs: Inputs, runner: StrategyRunner, lap: Callable[[], int] = lambda: 0
) -> Composed:
    """Make the request that these inputs make; `lap` tells the milliseconds since its last call.

    Raises `DoesNotFit` if not even the standing texts have room.
    """
    turn, sight, rounds = await asyncio.to_thread(_offer, inputs)
    selecting, state, failures = lap(), inputs.state, []
    if inputs.begins:
        left = await runner.start(turn, state)
        state = left.state
        failures.append(left.failure)
    built = await runner.build(turn, state)
    failures.append(built.failure)
    assembling = lap()
    failed = tuple(str(failure) for failure in failures if failure is not None)

    def finish() -> Composed:
        profile, prompt = inputs.profile, built.prompt
        options = _showing(_moved(inputs, prompt), inputs, prompt, sight)
        request = encode(prompt, profile, options)
        notices = [notice.message for notice in request.receipt_of(prompt).warnings]
        notices += _cut_input(prompt)
        if not profile.tools.calls:
            notices.append(no_tools(profile))
        steps = (("select", selecting), ("assemble", assembling), ("encode", lap()))
        return Composed(
            inputs, prompt, request, options, _drift(inputs.before, request), sight, turn,
            built.state, failed, (*failed, *notices), steps, _loose(request, prompt, rounds),
            _expected(request, prompt, inputs.counter),
        )  # fmt: skip

    return await asyncio.to_thread(finish)


def _cut_input(prompt: Prompt) -> list[str]:
    """Say that the user's own words are not all there."""
    return [
        f"your message is too long for the model: {line.kept:,} of its {line.offered:,} tokens are "
        "sent, its middle is left out"
        for line in prompt.receipt.slots
        if line.name == "input" and line.cut
    ]


def _offer(inputs: Inputs) -> tuple[Turn, Sight, Sequence[Entry]]:
    """Prepare what the strategy gets: history, input, rounds, budget, layers, tools.

    Gives the turn, what it shows of the apps, and its tool rounds.
    """
    profile, counter = inputs.profile, inputs.counter
    entries = inputs.conversation.replayed(profile.dialect, inputs.draft)
    history, question, rounds = _split(entries, inputs)
    kept = kept_tokens(inputs.options, profile, counter)
    budget = replace(inputs.budget, reserved_tokens=kept)
    room = int(budget.remaining_input_tokens * inputs.share)
    rules = replace(inputs.sight, budget=max(0, room - FRAME_TOKENS))
    # SLOP, context injection, conformance 2 and 6: rendered on every request, filtered by salience.
    sight = look(inputs.world, inputs.at.replace(microsecond=0), rules, counter.count)
    layers = inputs.layers
    if not layers.state:
        small = profile.window_tokens < SMALL_WINDOW
        state = _reminded(sight.tail.state, question.text) if small else sight.tail.state
        layers = replace(layers, apps=sight.tail.available, state=state)
    turn = Turn(
        input=question,
        history=history,
        rounds=[entry.message for entry in rounds],
        budget=budget,
        counter=counter,
        layers=layers,
        # What is not sent is not counted, or estimates would be corrected by it.
        tools=inputs.tools if profile.tools.calls else (),
        capabilities=Capabilities(vision=profile.messages.images),
        memory=inputs.memory,
        llm=inputs.llm,
        clock=_StandingClock(inputs.at),
        overruled=inputs.overruled,
    )
    return turn, sight, rounds


def _split(
    entries: Sequence[Entry], inputs: Inputs
) -> tuple[list[Message], Input, Sequence[Entry]]:
    """Take a conversation apart: what was said before, the input, what followed it."""
    if inputs.draft is not None:
        return [entry.message for entry in entries], inputs.draft, inputs.rounds
    at = next((i for i in reversed(range(len(entries))) if entries[i].role == "user"), None)
    if at is None:
        return [entry.message for entry in entries], Input(""), ()
    question = input_of(entries[at].message)
    return [entry.message for entry in entries[:at]], question, entries[at + 1 :]


def input_of(message: Message) -> Input:
    """Return what a user said, as an input."""
    return Input(message.text, tuple(part for part in message.parts if isinstance(part, File)))


_DRAFT_GROUP: Final = sys.maxsize


def _as_entry(draft: Input) -> Entry:
    """Turn a draft into an entry of a group of its own, after all that is stored."""
    message = Message.of("user", draft.text)
    return Entry(0, 0, _DRAFT_GROUP, 0, message, "complete", "", 0, "estimated", "")


def _reminded(state: str, question: str) -> str:
    """End a block with the question: a tiny model goes on from what it read last.

    Measured with the embedded one: without this it talks about the last line of the state,
    with it it finds the answer in there. It is part of the tail, so it costs no cache.
    """
    return f"{state}\n\nAnswer the user: {question[:REMINDER_CHARS]}" if question else state


def _moved(inputs: Inputs, prompt: Prompt) -> Options:
    """Let the kept tails of the turn stand where they stood behind its input."""
    if inputs.input_at is None:
        return inputs.options
    by = input_at(prompt) - inputs.input_at
    sent = tuple(replace(one, after=one.after + by) for one in inputs.options.sent)
    return replace(inputs.options, sent=sent)


def _showing(options: Options, inputs: Inputs, prompt: Prompt, sight: Sight) -> Options:
    """Say what the tail shows of the apps, for one that grows, if all of it is in the tail."""
    if options.repeat not in GROWING or inputs.layers.state:
        return options
    texts = {message.text for message in prompt.tail}
    whole = texts.issuperset(filter(None, (sight.tail.state, sight.tail.available)))
    return replace(options, shown=sight.shown if whole else None)


def input_at(prompt: Prompt) -> int:
    """Find the input of a turn among the messages of its prompt."""
    users = (at for at, message in enumerate(prompt.prefix) if message.role == "user")
    return max(users, default=0)


def _drift(before: Wire | None, request: Request) -> Drift | None:
    if before is None:
        return None
    prices = request.profile.prices
    return drift(before, request.wire, input_price=prices.input, read_price=prices.cache_read)


def kept_tokens(options: Options, profile: Profile, counter: Counter) -> int:
    """What the earlier tails weigh that stay beside the newest.

    Where they do not grow and no reasoning is bound to them, of the whole ones there is one at a
    time.
    """
    all_stay = profile.reasoning.bound or options.repeat in GROWING
    return _weight([tail for tail in options.sent if all_stay or tail.repeats], counter)


def _expected(request: Request, prompt: Prompt, counter: Counter) -> int:
    """What the vendor should count: the tails as they are in the request, not as offered."""
    receipt = prompt.receipt
    if not request.sent:
        return receipt.total
    offered = sum(slot.kept for slot in receipt.slots if slot.stability == "volatile")
    return receipt.total - offered + _weight(request.sent, counter)


def _weight(tails: Sequence[SentTail], counter: Counter) -> int:
    messages = [Message("user", tail.parts) for tail in tails]
    return sum(counter.weigh(messages, remember=False))


def _loose(request: Request, prompt: Prompt, rounds: Sequence[Entry]) -> int:
    """The first message of the turn that stands behind a kept tail; 0 if none does.

    None, too, if the strategy has not put the rounds at the end of the prefix as they are.
    """
    count = prompt.boundary - request.sent[0].after if request.sent else 0
    if not 0 < count <= len(rounds):
        return 0
    behind = rounds[-count:]
    same = [entry.message for entry in behind] == list(prompt.prefix[-count:])
    return behind[0].id if same else 0


class _StandingClock(msgspec.Struct, frozen=True):
    """The moment of a request, as strategies know a clock."""

    at: datetime

    def now(self) -> datetime:
        return self.at
