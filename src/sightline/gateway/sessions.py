"""Which conversation a request belongs to, and which session (pure).

    assign(request) -> Placement     where a request belongs, and what it is compared with
    add(placement, answer)          what the vendor said to it, by which later ones are found

An agent need not name its sessions. A request belongs to the conversation whose answers it
repeats: answers are unique, and they have passed here. A cache is lost where instructions or tools
change, so neither joins anything. They only keep apart what another speaker says: a title, a
sub-agent, the next agent of a group.

A lane holds the conversations that a request is searched in: those of one upstream, API, credential
and weak id, or those of one session that its agent names. The lanes that differ in the weak id
alone are searched behind it.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Final, Literal, TypeAlias

import msgspec

from sightline.context.dialects.drift import common_start
from sightline.context.dialects.events import Usage
from sightline.gateway.bodies import CALLS, MODEL, RESULTS, RequestBody, Unit, remember
from sightline.gateway.losses import common_units, is_grown, is_summary, nearly

Role: TypeAlias = Literal["main", "sub_agent", "side", "warm"]
LANES: Final = 256  # a session that its agent names has one of its own
CONVERSATIONS: Final = 256  # of a lane
ANCHORS: Final = 16_384  # of a lane
RECENT: Final = 64  # answers of a lane that a start may quote
FIRST_PARTS, LAST_PARTS = 16, 96  # of a request's messages that are looked up
QUOTE, MOST_QUOTED = 24, 1_000  # characters
LONG, MIDDLE = 200, 96  # a long answer, and how much of it is looked for
BEGINNING: Final = 64  # of a first question that a title request may cut
KEPT: Final = 16  # requests of a conversation that the next is compared with
NEWEST: Final = 8  # anchors of a conversation that are stored
ANCHOR_BYTES: Final = 12
SAME_MESSAGES: Final = 4  # that two requests share only if they are of one conversation
CHAINS: Final = 1_024
BETWEEN: Final = 16  # requests of a program that the first of a conversation is compared with
_SAMPLE: Final = 32
_TEXT: Final = 4_000  # characters of a text that are read
# In this order: the first that a request has is its session.
SESSION_HEADERS: Final = (
    "x-claude-code-session-id", "session-id", "session_id", "thread-id", "x-session-id",
    "x-session-affinity", "x-opencode-session", "x-conversation-id", "x-grok-conv-id",
    "x-litellm-session-id", "helicone-session-id",
)  # fmt: skip
_ABOVE: Final = frozenset({"system", "developer", "tool"})


def strong_id(headers: Mapping[str, str], body: RequestBody) -> str:
    """Find the id that is the session, empty if an agent names none."""
    return next(filter(None, map(headers.get, SESSION_HEADERS)), "") or body.session


def key_of(name: str) -> str:
    """Shorten what names a session to what a ledger can keep."""
    return blake2b(name.encode(errors="surrogatepass"), digest_size=8).hexdigest()


@dataclass(frozen=True, eq=False, slots=True)
class Earlier:
    """A request that a later one can be held against; `at` is when it was sent, in seconds.

    `usage` is without what `left` it: state of apps that the next request does not have. `ready`
    is when its answer began: before that nothing of it is in a cache.
    """

    body: RequestBody
    at: float
    usage: Usage | None = None
    left: bool = False
    ready: float = 0.0


@dataclass(frozen=True, slots=True)
class TalkRequest:
    """A request to place. `home` is the upstream and the credential, `digest` of its bytes."""

    body: RequestBody
    at: float
    home: tuple[str, str] = ("", "")
    session: str = ""
    connection: str = ""
    digest: bytes = b""


@dataclass(slots=True)
class TalkAnswer:
    """What the vendor said, None for nothing. `number` is its exchange's, once it has one."""

    text: str | None
    calls: tuple[tuple[str, str, str], ...] = ()  # id, name, arguments as JSON
    response_id: str = ""
    earlier: Earlier | None = None
    number: int | None = None


@dataclass(eq=False, slots=True)
class Talk:
    """Requests that continue each other."""

    session: str
    number: int
    role: Role = "main"
    parent: int | None = None
    aside_of: Talk | None = None
    body: RequestBody | None = None
    bases: deque[Earlier] = field(default_factory=lambda: deque(maxlen=KEPT))
    given: frozenset[bytes] = frozenset()  # anchors that it began with: nobody said them here
    newest: deque[bytes] = field(default_factory=lambda: deque(maxlen=NEWEST))
    answered: str | None = None  # None while its last request is not answered
    digest: bytes = b""
    connection: str = ""
    attempt: int = 0
    requests: int = 0
    order: int = 0
    ending: int = 0
    first: str = ""
    questions: str = ""
    is_gone: bool = False

    @property
    def last(self) -> tuple[Unit, ...]:
        """The messages of its last request."""
        return () if self.body is None else self.body.messages

    def take_up(self, earlier: Earlier) -> None:
        """Take an answered request of before as the last one."""
        self.bases.append(earlier)
        self.body, self.ending = earlier.body, _endings(earlier.body)[-1]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a request belongs. `base` is what it is compared with, if there is something.

    `between` says that the base is of another conversation. `is_alike` says that another
    conversation fits as well.
    """

    conversation: Talk
    joined_by: str
    role: Role
    attempt: int = 0
    base: Earlier | None = None
    between: bool = False
    is_alike: bool = False


@dataclass(slots=True)
class _Lane:
    conversations: OrderedDict[int, Talk] = field(default_factory=OrderedDict)
    anchors: OrderedDict[bytes, list[Talk]] = field(default_factory=OrderedDict)
    answers: deque[tuple[TalkAnswer, Talk]] = field(default_factory=lambda: deque(maxlen=RECENT))


@dataclass(frozen=True, slots=True)
class _Found:
    """A conversation to go on with, or the one whose session a new conversation belongs to."""

    conversation: Talk
    joined_by: str
    role: Role | None = None  # of a new conversation
    parent: int | None = None
    is_alike: bool = False


class TalkSessions:
    """The conversations of one gateway. The oldest are forgotten."""

    def __init__(self) -> None:
        self._lanes: OrderedDict[tuple[str, ...], _Lane] = OrderedDict()
        self._chains: OrderedDict[str, Talk] = OrderedDict()
        self._recent: OrderedDict[tuple[str, ...], deque[Earlier]] = OrderedDict()
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._order = 0

    def assign(self, request: TalkRequest) -> Placement:
        """Find the conversation that a request goes on with, or begin one."""
        self._order += 1
        look = _Look(request)
        lane, *others = self._near(request)
        lanes = [lane], others
        found = self._chained(look)
        steps = (_by_answers, _extended, _retried, _quoted, _called, _beside, _begun_beside)
        for step, some in ((step, some) for step in steps for some in lanes if some):
            found = found or step(look, some)
        if found is None and request.session:
            bases = {e: c for c in lane.conversations.values() for e in c.bases}
            base = nearest((one for one in bases if goes_on(one.body, look.body)), look.body)
            found = None if base is None else _Found(bases[base], "id")
        if found is None or found.role is not None:
            return self._begun(look, lane, found)
        joined = found.conversation
        remember(lane.conversations, id(joined), joined, CONVERSATIONS)
        is_retry = joined.answered is None and joined.digest == request.digest
        role: Role = "warm" if look.body.warms or look.body.brief else joined.role
        return Placement(
            joined,
            found.joined_by,
            role,
            joined.attempt + 1 if is_retry else 0,
            nearest(joined.bases, look.body),
            is_alike=found.is_alike,
        )

    def add(self, request: TalkRequest, placed: Placement, answer: TalkAnswer) -> bytes:
        """Remember a request and its answer; return the newest anchors of the conversation."""
        one, look = placed.conversation, _Look(request)
        lane = self._near(request)[0]
        one.order, one.connection, one.digest = self._order, request.connection, request.digest
        one.attempt, one.requests = placed.attempt, one.requests + 1
        if not look.body.warms:
            one.body, one.ending = look.body, look.prefix[-1]
        if one.requests == 1:
            one.given, one.first, one.questions = frozenset(look.marks), look.first, look.questions
        one.answered = None if answer.text is None else _squeezed(answer.text)
        if answer.earlier is not None and not look.body.warms:
            one.bases.append(answer.earlier)
            recent = self._recent.get(_program(request)) or deque(maxlen=BETWEEN)
            recent.append(answer.earlier)
            remember(self._recent, _program(request), recent, CHAINS)
        new = _marks_of_answer(answer)
        if new:
            lane.answers.append((answer, one))
        one.newest += [mark for mark in new if mark not in one.newest]
        for mark in chain(look.marks - one.given, new):
            known = lane.anchors.get(mark, [])
            if one not in known:
                remember(lane.anchors, mark, [*known, one], ANCHORS)
        for name in filter(None, (answer.response_id, request.body.session)):
            remember(self._chains, name, one, CHAINS)
        return b"".join(one.newest)

    def restore(self, request: TalkRequest, one: Talk, anchors: bytes) -> None:
        """Take up a conversation that an earlier gateway kept."""
        lane = self._near(request)[0]
        remember(lane.conversations, id(one), one, CONVERSATIONS)
        for at in range(0, len(anchors), ANCHOR_BYTES):
            mark = anchors[at : at + ANCHOR_BYTES]
            remember(lane.anchors, mark, [*lane.anchors.get(mark, []), one], ANCHORS)
        number = max(one.number, self._numbers.get(one.session, 0))
        remember(self._numbers, one.session, number, LANES * CONVERSATIONS)

    def _near(self, request: TalkRequest) -> list[_Lane]:
        """Return the lane of a request, and those that it is searched in behind that."""
        home = _home(request)
        key = ("id", request.session) if request.session else (*home, request.body.weak)
        lane = self._lanes.get(key) or _Lane()
        remember(self._lanes, key, lane, LANES)
        if request.session:
            return [lane]
        stored = (home[0], "", home[2])  # whose credential nobody knows
        others = [k for k in self._lanes if k != key and k[:3] in (home, stored)]
        return [lane, *(self._lanes[k] for k in reversed(others))]

    def _chained(self, look: _Look) -> _Found | None:
        known = self._chains.get(look.body.follows)
        return None if known is None else _Found(known, "chain")

    def _begun(self, look: _Look, lane: _Lane, found: _Found | None) -> Placement:
        """Begin a conversation, in the session of another one or in one of its lane."""
        request = look.request
        of = found.conversation if found is not None else None
        if found is not None:
            session, role, joined_by = found.conversation.session, found.role, found.joined_by
        else:
            known = request.session and lane.conversations
            session = key_of(
                request.session or f"{_home(request)}{look.start}{request.at} {self._order}"
            )
            role = "main" if not known else "sub_agent" if look.body.tools else "side"
            joined_by = "id" if known else "unknown" if look.has_model else "first"
        number = self._numbers.get(session, 0) + 1
        remember(self._numbers, session, number, LANES * CONVERSATIONS)
        parent = found.parent if found is not None else None
        one = Talk(session, number, role or "main", parent, of)
        if one.role == "main" and of is not None:
            of.role, of.aside_of = "side", one
            one.aside_of = None
        remember(lane.conversations, id(one), one, CONVERSATIONS + 1)
        if len(lane.conversations) > CONVERSATIONS:
            lane.conversations.popitem(last=False)[1].is_gone = True
        base = None
        if of is None:
            recent = self._recent.get(_program(request), ())
            near = [one for one in recent if _is_like(one.body, look.body)]
            base = near[-1] if near else None
        return Placement(one, joined_by, one.role, base=base, between=base is not None)


class _Look:
    """What of a request is looked up."""

    def __init__(self, request: TalkRequest) -> None:
        units = request.body.messages
        self.request, self.body = request, request.body
        far = len(units) > FIRST_PARTS + LAST_PARTS
        parts = units[:FIRST_PARTS] + units[-LAST_PARTS:] if far else units
        self.marks = frozenset(chain.from_iterable(map(_marks_of, parts)))
        self.prefix = _endings(request.body)
        self.has_model = any(unit.role in MODEL or unit.kind in CALLS for unit in parts)
        texts = [u.text for u in parts if u.kind in _TEXTS and u.role not in MODEL | _ABOVE]
        self.questions = "\n".join(texts)
        plain = (text for text in texts if not text.lstrip().startswith("<"))
        first = next(plain, texts[0] if texts else "")
        self.first = first[:MOST_QUOTED].strip()
        self.start = [unit.digest.hex() for unit in units[:2]]


_TEXTS: Final = frozenset({"text", "value"})


def _endings(body: RequestBody) -> list[int]:
    """Name every beginning of a request's messages, from none to all of them."""
    found = [0]
    for unit in body.messages:
        found.append(hash((found[-1], unit.digest)))
    return found


def _home(request: TalkRequest) -> tuple[str, str, str]:
    return request.home[0], request.home[1], request.body.api


def _program(request: TalkRequest) -> tuple[str, ...]:
    """Name what requests of one program have in common: the model and its tools."""
    tools = sorted(unit.name for unit in request.body.tools)
    return (*_home(request), request.body.model, *tools)


# The steps, in their order.


def _all(lanes: Sequence[_Lane]) -> Iterator[Talk]:
    """List conversations, the latest last."""
    found = (one for lane in lanes for one in lane.conversations.values())
    return iter(sorted(found, key=lambda one: one.order))


def _by_answers(look: _Look, lanes: Sequence[_Lane]) -> _Found | None:
    """Let the answers that a request repeats vote for the conversation that they were given in."""
    votes: dict[Talk, float] = {}
    sure: set[Talk] = set()
    for mark in look.marks:
        known = [c for lane in lanes for c in lane.anchors.get(mark, ()) if not c.is_gone]
        for one in known:
            votes[one] = votes.get(one, 0.0) + 1 / len(known)
        sure |= set(known if len({one.session for one in known}) == 1 else ())
    like = {one: count for one, count in votes.items() if _is_speaker(look, one)}
    most = max((like or votes).values(), default=0.0)
    ranks = {
        one: (_is_whole(look, one), common_units(one.last, look.body.messages))
        for one, count in (like or votes).items()
        if count > most - 1e-6
    }
    found = _latest(look, ranks)
    if found is None:
        return None
    one, is_alike = found
    if not like:
        return _aside(look, one, lanes)
    # Canned words alone are no sign: others began with them, too.
    if one not in sure and not ranks[one][0] and one.body is not None:
        return None
    return _Found(one, "answers", is_alike=is_alike)


def _latest(look: _Look, ranks: Mapping[Talk, tuple[int, ...]]) -> tuple[Talk, bool] | None:
    """Choose the best; of equals that of the same connection. Another choice is a guess."""
    if not ranks:
        return None
    full = {c: (rank, c.connection == look.request.connection) for c, rank in ranks.items()}
    best = max(full, key=lambda one: (full[one], one.order))
    as_good = [one for one in full if full[one] == full[best] and one.session != best.session]
    # Of agents that run at once, the one that waits longest asks next.
    near = [one for one in as_good if best.order - one.order < RECENT]
    return min([best, *near], key=lambda one: one.order), bool(as_good)


def _extended(look: _Look, lanes: Sequence[_Lane]) -> _Found | None:
    """Find the longest last request that begins this one, or grows into it."""
    units, ranks = look.body.messages, dict[Talk, tuple[int, ...]]()
    grown = False
    for one in _all(lanes):
        length = len(one.last)
        if 0 < length < len(units) and look.prefix[length] == one.ending:
            ranks[one] = (length, _repeats(one, units[length]))
    if not ranks:
        for one in _all(lanes):
            length = len(one.last)
            repeats = 0 < length < len(units) and _repeats(one, units[length])
            if repeats and nearly(one.last, units):
                ranks[one] = (common_units(one.last, units), length)
    if not ranks:
        grown = True
        ranks = {one: (len(one.last),) for one in _all(lanes) if _is_grown(one.last, units)}
    like = {one: rank for one, rank in ranks.items() if _is_speaker(look, one)}
    found = _latest(look, like or ranks)
    if found is None or not (like or look.has_model):
        return None
    if not like:
        return _aside(look, found[0], lanes)
    return _Found(found[0], "text" if grown else "extends", is_alike=found[1])


def _repeats(one: Talk, unit: Unit) -> bool:
    """Whether a part is the answer to the last request of a conversation."""
    is_text = unit.role in MODEL and unit.kind == "text"
    return bool(is_text and one.answered and _squeezed(unit.text) == one.answered)


def _is_grown(old: Sequence[Unit], new: Sequence[Unit]) -> bool:
    """Whether one text of all that was said has only grown."""
    if not old or len(old) != len(new) or common_units(old, new) != len(old) - 1:
        return False
    return is_grown(old[-1:], new[-1:])


def _retried(look: _Look, lanes: Sequence[_Lane]) -> _Found | None:
    """Find an unanswered request with the same messages."""
    is_same = {
        one: (one.digest == look.request.digest,)
        for one in _all(lanes)
        if one.body is not None and one.answered is None and one.ending == look.prefix[-1]
    }
    found = _latest(look, is_same)
    return None if found is None else _Found(found[0], "retry", is_alike=found[1])


def _quoted(look: _Look, lanes: Sequence[_Lane]) -> _Found | None:
    """Find an answer that is quoted: a summary, a history as text, the next agent's task."""
    for answer, by in reversed([both for lane in lanes for both in lane.answers]):
        text = (answer.text or "").strip()
        middle = len(text) // 2 - MIDDLE // 2
        is_long = len(text) >= LONG
        quote = text[middle : middle + MIDDLE] if is_long else text
        if by.is_gone or len(text) < QUOTE or quote not in look.questions:
            continue
        one = by.aside_of if by.role == "side" and by.aside_of is not None else by
        if not _is_speaker(look, one):
            return _aside(look, one, lanes)
        if one.first[:QUOTE] == look.first[:QUOTE]:
            return _Found(one, "text")
        bare = not (look.body.system or look.body.tools)
        if is_summary(look.body.messages) or (is_long and not bare):
            return _Found(one, "summary")
        return _Found(one, "sub_agent", "sub_agent" if look.body.tools else "side")
    if not is_summary(look.body.messages):
        return None
    # A summary that nobody saw being written: of the one conversation that it can stand for.
    mine = {unit.digest for unit in look.body.tools + look.body.system}
    ranks = {
        one: (sum(unit.digest in mine for unit in one.body.tools + one.body.system),)
        for one in _all(lanes)
        if one.body is not None and one.requests > 1 and _is_speaker(look, one)
    }
    found = _latest(look, ranks)
    return None if found is None or found[1] else _Found(found[0], "summary")


def _called(look: _Look, lanes: Sequence[_Lane]) -> _Found | None:
    """Find the call that started a sub-agent: its arguments hold the first question."""
    if len(look.first) < QUOTE:
        return None
    for answer, one in reversed([both for lane in lanes for both in lane.answers]):
        if one.is_gone or one.first == look.first:
            continue
        words = [text for _, _, arguments in answer.calls for text in _words(arguments)]
        # An agent may put words of its own around the task.
        tasks = [text for text in words if len(text) >= BEGINNING and " " in text]
        if any(look.first in text for text in words) or any(t in look.questions for t in tasks):
            return _Found(one, "sub_agent", "sub_agent", answer.number)
    return None


def _beside(look: _Look, lanes: Sequence[_Lane]) -> _Found | None:
    """Find the conversation whose first question a title request or a check quotes."""
    if look.body.tools:
        return None
    quotes: dict[Talk, int] = {}
    for one in _all(lanes):
        if one.body is None or one.first == look.questions.strip():
            continue
        if one.role == "main" and (one.body.tools or not _is_speaker(look, one)):
            quotes[one] = _quote(one.first, look.questions)
    longest = max(quotes.values(), default=0)
    found = {one.session: one for one, size in quotes.items() if size == longest > 0}
    if len(found) != 1:
        return None
    [one] = found.values()
    return _Found(one, "side", "side")


def _begun_beside(look: _Look, lanes: Sequence[_Lane]) -> _Found | None:
    """Find the title request that came before its conversation."""
    for one in reversed(list(_all(lanes))):
        is_lone = one.role == "main" and one.requests == 1 and one.number == 1
        if not is_lone or one.body is None or one.body.tools or len(look.first) < QUOTE:
            continue
        if look.first != one.first and look.body.tools and look.first in one.questions:
            return _Found(one, "first", "main")
    return None


def _quote(first: str, text: str) -> int:
    """Count the characters of a first question that are quoted: all, or up to the end."""
    if len(first) >= QUOTE and first in text:
        return len(first)
    at = text.find(first[:BEGINNING]) if len(first) >= BEGINNING else -1
    size = common_start(first, text[at:]) if at >= 0 else 0
    return size if size and at + size >= len(text.rstrip(" .…\n\"'")) else 0


def _aside(look: _Look, of: Talk, lanes: Sequence[_Lane]) -> _Found:
    """Find another speaker's conversation in a session, or begin it."""
    for one in reversed(list(_all(lanes))):
        is_other = one.session == of.session and one is not of
        if is_other and _is_whole(look, one) and _is_speaker(look, one):
            return _Found(one, "extends")
    role: Role = "sub_agent" if look.body.tools or of.role == "sub_agent" else "side"
    if of.body is not None and not of.body.tools and of.body.model == look.body.model:
        role = "sub_agent"
    main = of.aside_of if of.role == "side" and of.aside_of is not None else of
    return _Found(main, role, role)


def _is_whole(look: _Look, one: Talk) -> bool:
    """Whether a request goes on with all of a conversation's last one."""
    units, length = look.body.messages, len(one.last)
    if not 0 < length < len(units):
        return False
    return look.prefix[length] == one.ending or nearly(one.last, units)


# Who speaks.


def _is_speaker(look: _Look, one: Talk) -> bool:
    """Whether a request is by the one who speaks in a conversation, whatever changed."""
    return one.body is None or is_same_speaker(one.body, look.body)


def is_same_speaker(old: RequestBody, new: RequestBody) -> bool:
    """Whether two requests are of one agent: not of a title beside it, or the next in a group."""
    if old.system == new.system:
        return bool(new.tools or old.system) or not old.tools or old.model == new.model
    mine, theirs = _instructions(old), _instructions(new)
    names = _name(mine), _name(theirs)
    has_tools = bool({u.name for u in old.tools} & {u.name for u in new.tools})
    # With the same tools, only a name of one's own is another speaker's.
    if names[0].lower() != names[1].lower() and all(
        name.istitle() if has_tools else name for name in names
    ):
        return False
    if has_tools or _is_alike(mine, theirs):
        return True
    if old.tools or new.tools:
        return False
    return old.model == new.model and not (mine and theirs)


def _is_like(old: RequestBody, new: RequestBody) -> bool:
    """Whether instructions begin or end alike, or are none."""
    mine, theirs = _instructions(old), _instructions(new)
    ends = common_start(mine, theirs), common_start(mine[::-1], theirs[::-1])
    return max(ends) >= BEGINNING or mine == theirs


def _instructions(body: RequestBody) -> str:
    return "\n".join(unit.text for unit in body.system)


def _is_alike(one: str, other: str) -> bool:
    """Whether two texts have a passage in common."""
    if common_start(one, other) >= QUOTE or common_start(one[::-1], other[::-1]) >= QUOTE:
        return True
    step = max(_SAMPLE, len(one) // _SAMPLE)
    return any(one[at : at + _SAMPLE] in other for at in range(0, len(one) - _SAMPLE + 1, step))


_NAMED: Final = re.compile(
    r"(?i)(?:\b(?:you are|you're|your name is|act as)|^\W*(?:persona|speaker|role|name):)\s+"
    r"(?:an?\s+|the\s+)?((?:(?!(?:in|on|for|of|who|that|which|working|with|from|at|and|to|inside)\b)"
    r"[^\W\d_][\w'-]*[ ]?){1,6})"
)


def _name(instructions: str) -> str:
    """Read who instructions say that the model is: the last word of the name."""
    found = _NAMED.search(instructions[:300])
    words = [] if found is None else [word for word in found[1].split() if word.isalpha()]
    return words[-1] if words else ""


# Which request a request goes on with, by the two of them alone.


def nearest(bases: Iterable[Earlier], body: RequestBody) -> Earlier | None:
    """Choose the request with the longest common beginning, of equals the latest."""
    best: tuple[tuple[int, int], Earlier] | None = None
    for earlier in reversed(list(bases)):
        if earlier.body.api != body.api:
            continue
        common = common_units(earlier.body.units, body.units)
        if best is not None and (common, len(earlier.body.messages)) <= best[0]:
            continue
        rank = common, _shared_messages(earlier.body, body)
        if best is None or rank > best[0]:
            best = rank, earlier
    return None if best is None else best[1]


def goes_on(old: RequestBody, new: RequestBody) -> bool:
    """Whether a request can be a later one of a session's: by its speaker and messages."""
    shared = _shared_messages(old, new) if old.api == new.api else 0
    if shared >= SAME_MESSAGES:
        return True
    is_folded = len(old.messages) > len(new.messages) and is_summary(new.messages)
    return (shared > 0 or is_folded) and old.api == new.api and is_same_speaker(old, new)


def _shared_messages(old: RequestBody, new: RequestBody) -> int:
    """Count the parts of messages that two requests have in common, wherever."""
    known = {unit.digest for unit in old.messages}
    return sum(unit.digest in known for unit in new.messages)


# Anchors: what a later request repeats of an answer.

_NO_WORDS: Final = re.compile(r"[\W_]+")


def _squeezed(text: str) -> str:
    """Leave white space and marks of formatting out: a history that was reloaded may lose both."""
    return _NO_WORDS.sub("", text[:_TEXT])


def _mark(*parts: str) -> bytes:
    data = "\0".join(parts).encode(errors="surrogatepass")
    return blake2b(data, digest_size=ANCHOR_BYTES).digest()


@lru_cache(8_192)
def _marks_of(unit: Unit) -> tuple[bytes, ...]:
    """Read the anchors of one part of a request: a call, a result, a text of the model."""
    if unit.kind in CALLS:
        return (_mark("call", unit.call, unit.name, _sorted(unit.text)),)
    if unit.kind in RESULTS and unit.call:
        return (_mark("result", unit.call),)
    if unit.role in MODEL and unit.kind == "text" and len(unit.text.strip()) >= QUOTE:
        return (_mark("text", _squeezed(unit.text)),)
    return ()


def _marks_of_answer(answer: TalkAnswer) -> list[bytes]:
    text = answer.text or ""
    found = [_mark("text", _squeezed(text))] if len(text.strip()) >= QUOTE else []
    for call, name, arguments in answer.calls:
        given = _sorted(arguments)
        # Gemini need not give a call an id.
        found += [_mark("call", call, name, given), _mark("call", "", name, given)]
        found.append(_mark("result", call))
    return found


def _sorted(arguments: str) -> str:
    try:
        value = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return arguments
    return msgspec.json.encode(value, order="sorted").decode()


@lru_cache(RECENT)
def _words(arguments: str) -> tuple[str, ...]:
    """Read the texts of a call's arguments."""
    try:
        values = [msgspec.json.decode(arguments)]
    except msgspec.DecodeError:
        return (arguments,)
    found = []
    while values:
        value = values.pop()
        if isinstance(value, str):
            found.append(value.strip())
        elif isinstance(value, (dict, list)):
            values.extend(value.values() if isinstance(value, dict) else value)
    return tuple(found)
