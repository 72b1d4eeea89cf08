"""What a gateway finds out about the traffic that it passes on, and keeps.

All of it happens beside the traffic, in a thread: a body that cannot be read or a ledger that
cannot be written costs a line on the screen, and no request.

An agent runs several conversations at once: its main one, sub-agents, titles. A request belongs
to the earlier one with the longest common beginning, of the same session; among equals to the
latest. What shares no message with any of them begins a conversation of its own.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, cast

import msgspec

from sightline.context.dialects import DIALECTS
from sightline.context.dialects.bedrock import InvokeDecoder
from sightline.context.dialects.decoder import read_error
from sightline.context.dialects.drift import Loss, extra_price, lifetime_s
from sightline.context.dialects.events import Stopped, Usage, UsageArrived, cost
from sightline.context.dialects.profile import Layer, Profile
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger
from sightline.context.ledger.exchanges import Exchange, NewExchange
from sightline.context.ledger.usage import StoredUsage
from sightline.context.messages.gate import guarded_text, storable
from sightline.errors import InvalidInput, NotFound, SightlineError
from sightline.gateway.bodies import (
    Api,
    RequestBody,
    Unit,
    pieces_of,
    read_body,
    remember,
    replied_units,
)
from sightline.gateway.losses import Comparison, common_units, compare, is_summary, verdict

NANO: Final = 1_000_000_000
MILLION: Final = 1_000_000
READ_BYTES: Final = 64 * 1024 * 1024  # of one reply, or one request, that are read
ERROR_CHARS: Final = 2_000
TITLE_CHARS: Final = 60
TITLE_READ: Final = 4_000
HELD: Final = 64  # replies that a request can go on from by their id alone
BASES: Final = 16  # requests of a session of which the next can be kept as what is new
RECALLED: Final = 8  # requests of a session that the first one after a restart is compared with
# Anthropic, "Prompt caching": five minutes unless a mark asks for an hour.
ANTHROPIC_S: Final = 300.0
KEPT: Final = 64  # requests of a session that the next is compared with
SESSIONS: Final = 64
SAME_MESSAGES: Final = 4  # that two requests share only if they are of one conversation
# Claude Code and Codex name their sessions in headers; others leave it to the body.
_HEADERS: Final = ("x-claude-code-session-id", "session-id", "session_id", "thread-id")


class Passed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request that went through, and what is known of it.

    `trouble` is why less is known, or kept, than there could be. `tail` says what was put into
    it, and `leaves` counts the bytes of that which the next one will not have. One of a transcript
    has a `source`: then status, size and times are not known.
    """

    session: str
    api: str
    model: str
    status: int
    bytes: int
    first_ms: int
    total_ms: int
    usage: Usage | None = None
    cost_usd: float | None = None
    loss: Loss | None = None
    stop: str = ""
    error: str = ""
    exchange: int | None = None
    trouble: str = ""
    source: str = ""
    tail: str = ""
    leaves: int = 0


def passed_of(kept: Exchange, prices: Sequence[Layer] = ()) -> Passed:
    """Return the details of an exchange from a ledger. `prices` of its model replace its cost."""
    row = {"session": "", "api": kept.api, "model": kept.model, "bytes": kept.bytes}
    passed = msgspec.convert({**kept.about, **row, "exchange": kept.id}, Passed)
    if (usage := passed.usage) is None or not any(one.matches(kept.model) for one in prices):
        return passed
    now = profile_for(kept.api, kept.model, prices).prices
    if (loss := passed.loss) is not None:
        extra = extra_price(now, usage.cache_write_tokens) or 0.0
        loss = msgspec.structs.replace(loss, cost=loss.tokens * extra / MILLION)
    return msgspec.structs.replace(passed, cost_usd=cost(usage, now), loss=loss)


def about_of(passed: Passed) -> dict[str, Any]:
    """What is kept of it besides what its row has."""
    about: dict[str, Any] = msgspec.to_builtins(passed)
    for name in ("session", "api", "model", "bytes"):
        del about[name]
    if "usage" in about:
        about["usage"] = {name: count for name, count in about["usage"].items() if count}
    return about


@dataclass(slots=True)
class Passing:
    """A request on its way: what is copied of it while it passes.

    `sent`, `first` and `ended` are moments of one clock; `at` is the time of day, in seconds.
    `unreached` says why it never came to the vendor: then its status is what the agent got of us.
    """

    api: Api
    path: str
    headers: Mapping[str, str]
    data: bytes
    sent: float
    at: float
    first: float = 0.0
    ended: float = 0.0
    status: int = 0
    reply_headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    unreached: str = ""
    tail: str = ""
    leaves: int = 0
    _chunks: list[bytes] = field(default_factory=list)
    _size: int = 0

    def feed(self, chunk: bytes) -> None:
        """Copy more of the reply."""
        self._size += len(chunk)
        if self._size <= READ_BYTES:
            self._chunks.append(chunk)

    @property
    def reply(self) -> bytes | None:
        """The reply as far as it came, unpacked; None if it cannot be read."""
        if self._size > READ_BYTES:
            return None
        return unpacked(b"".join(self._chunks), self.reply_headers.get("content-encoding", ""))


@dataclass(frozen=True, slots=True)
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


@dataclass(slots=True)
class Traffic:
    """The requests of one gateway, by session; the oldest are forgotten."""

    _sessions: OrderedDict[str, list[Earlier]] = field(default_factory=OrderedDict)

    def match(self, session: str, body: RequestBody) -> tuple[Earlier, Comparison] | None:
        """Find the request that this one goes on with, and compare the two."""
        best: tuple[tuple[int, int], Earlier] | None = None
        for earlier in reversed(self._sessions.get(session, ())):
            if not _same_conversation(earlier.body, body):
                continue
            alike = _shared_messages(earlier.body, body)
            common = common_units(earlier.body.units, body.units), alike
            if best is None or common > best[0]:
                best = common, earlier
        return None if best is None else (best[1], compare(best[1].body, body))

    def add(self, session: str, earlier: Earlier) -> None:
        """Remember a request, and how it was answered."""
        known = [*self._sessions.get(session, ()), earlier]
        remember(self._sessions, session, known[-KEPT:], SESSIONS)


class Observer:
    """Compares every request with those before it, and keeps both in a ledger if there is one."""

    def __init__(
        self, ledger: Ledger | None = None, *, project: str = "", agent: str = "",
        prices: Sequence[Layer] = (),
    ) -> None:  # fmt: skip
        self._prices = prices
        self._ledger = ledger
        self._file = None if ledger is None else _file_of(ledger)
        self._project = project
        self._agent = agent
        self._traffic = Traffic()
        self._sessions: dict[str, int] = {}
        self._held: OrderedDict[str, tuple[Unit, ...]] = OrderedDict()
        self._bases: dict[str, OrderedDict[int, dict[int, int]]] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the ledger, which need not be the one that was given."""
        if self._ledger is not None:
            self._ledger.close()

    def look(self) -> None:
        """Raise what keeps the ledger from being read, if there is one; call it in a thread."""
        if self._ledger is not None:
            self._ledger.revision()

    def observe(self, passing: Passing) -> Passed:
        """Find out what a request and its reply were, and keep them; call it in a thread."""
        known = Passed(
            "",
            passing.api,
            "",
            passing.status,
            len(passing.data),
            _ms(passing.sent, passing.first),
            _ms(passing.sent, passing.ended),
            tail=passing.tail,
            leaves=passing.leaves,
        )
        with self._lock:
            try:
                return self._observe(passing, known)
            except Exception as error:  # noqa: BLE001 - the next one is looked at all the same
                why = f"it could not be looked at: {type(error).__name__}: {error}"
                return msgspec.structs.replace(known, trouble=why)

    def _observe(self, passing: Passing, known: Passed) -> Passed:
        data = unpacked(passing.data, passing.headers.get("content-encoding", ""))
        body = None if data is None else read_body(passing.api, data, passing.path)
        if body is None or data is None:
            return msgspec.structs.replace(known, trouble="the request could not be read")
        gone = self._begin_again()
        session = session_key(passing.headers, body)
        self._recall(session)
        stopped, usage = _answer(passing, body)
        profile = profile_of(body, self._prices)
        whole = self._whole(body)
        matched = None if whole is None else self._traffic.match(session, whole)
        loss = None
        if matched is not None and not body.warms:
            loss = _loss(*matched, whole or body, usage, passing, profile)
        known = msgspec.structs.replace(
            known,
            session=session,
            model=body.model,
            usage=usage,
            cost_usd=None if usage is None else cost(usage, profile.prices),
            loss=loss,
            stop=_stop(passing, stopped),
            error=_error(passing),
        )
        number, trouble = self._keep(known, body, data, stopped)
        if passing.status < 400 and whole is not None:
            if not body.warms:
                self._traffic.add(session, _earlier(whole, passing.at, known))
            self._hold(passing, whole, stopped)
        return msgspec.structs.replace(known, exchange=number, trouble=gone or trouble)

    def _begin_again(self) -> str:
        """Take another file where the ledger's was deleted or replaced; say so, once."""
        if self._ledger is None or _file_of(self._ledger) == self._file:
            return ""
        path = self._ledger.path
        self._ledger.close()
        self._ledger = None
        self._sessions.clear()
        self._bases.clear()
        try:
            self._ledger = Ledger(path)
        except SightlineError as error:
            return f"the ledger is gone, and nothing is recorded any more: {error}"
        self._file = _file_of(self._ledger)
        return f"the ledger was deleted or replaced; what follows is recorded in a new {path}"

    def _whole(self, body: RequestBody) -> RequestBody | None:
        """Put what the vendor holds before what is new; None where we have not seen it."""
        if not body.follows:
            return body
        held = self._held.get(body.follows)
        return None if held is None else body.behind(held)

    def _hold(self, passing: Passing, body: RequestBody, stopped: Stopped | None) -> None:
        if body.api == "openai-responses" and stopped is not None and stopped.response_id:
            units = body.messages + replied_units(passing.reply or b"")
            remember(self._held, stopped.response_id, units, HELD)

    def _keep(
        self, known: Passed, body: RequestBody, data: bytes, stopped: Stopped | None
    ) -> tuple[int | None, str]:
        if self._ledger is None:
            return None, ""
        session = known.session
        pieces = pieces_of(data)
        new = NewExchange(
            body.api,
            body.model,
            pieces,
            {} if stopped is None else msgspec.to_builtins(stopped),
            about_of(known),
            self._base(session, pieces),
            stored_usage(known),
        )
        exchanges = self._ledger.exchanges
        try:
            try:
                number = exchanges.add(self._session(session, body), new)
            except (NotFound, InvalidInput):  # forgotten meanwhile, or begun by another gateway
                self._sessions.pop(session, None)
                number = exchanges.add(self._session(session, body), new)
        except SightlineError as error:
            return None, f"not kept: {error}"
        self._add_base(session, number, pieces)
        return number, ""

    def _base(self, key: str, pieces: Sequence[bytes]) -> int | None:
        """Find the kept request of a session with most of these pieces, of equals the latest."""
        sizes = _sizes(pieces)
        found = {
            number: sum(known[piece] for piece in known.keys() & sizes.keys())
            for number, known in self._bases.get(key, {}).items()
        }
        return max(found, key=lambda number: (found[number], number), default=None)

    def _add_base(self, key: str, number: int, pieces: Sequence[bytes]) -> None:
        remember(self._bases.setdefault(key, OrderedDict()), number, _sizes(pieces), BASES)

    def _session(self, key: str, body: RequestBody) -> int:
        """Find the ledger's session of an agent's session, or begin one."""
        assert self._ledger is not None  # noqa: S101 - its only caller has asked
        if key not in self._sessions:
            texts = [u.text for u in body.messages if u.role == "user" and u.text]
            # Agents put texts of their own, in tags, before what a person asked.
            question = next((text for text in texts if not text.lstrip().startswith("<")), "")
            session = self._ledger.sessions.find(name_of(key)) or self._ledger.sessions.create(
                name_of(key),
                project=storable(self._project),
                title=short_line(question),
                kind=short_line(f"gateway {self._agent}"),
            )
            self._sessions[key] = session.id
        return self._sessions[key]

    def _recall(self, key: str) -> None:
        """Take up a session that an earlier gateway kept, so that its next request goes on."""
        if self._ledger is None or key in self._sessions:
            return
        try:
            session = self._ledger.sessions.resolve(name_of(key))
            kept = self._ledger.exchanges.list(session.id)[-RECALLED:]
            self._sessions[key] = session.id
            for one in kept:
                api = cast(Api, one.api)
                data = self._ledger.exchanges.request(one.id)
                self._add_base(key, one.id, pieces_of(data))
                body = read_body(api, data, f"/models/{one.model}")
                whole = None if body is None else self._whole(body)
                known = passed_of(one)
                at = datetime.fromisoformat(one.sent_at).timestamp()
                if whole is not None and known.status < 400:
                    self._traffic.add(key, _earlier(whole, at, known))
        except (SightlineError, msgspec.ValidationError):
            return


def _earlier(body: RequestBody, at: float, known: Passed) -> Earlier:
    """Remember a request as far as the next one can be like it."""
    usage = known.usage
    if usage is not None and known.leaves:
        stays = known.bytes / (known.bytes + known.leaves)
        usage = msgspec.structs.replace(usage, input_tokens=round(usage.input_tokens * stays))
    return Earlier(body, at, usage, bool(known.leaves), at + known.first_ms / 1_000)


def _file_of(ledger: Ledger) -> tuple[int, int] | None:
    """Tell which file has the ledger's name now; None if none has."""
    try:
        found = ledger.path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _sizes(pieces: Sequence[bytes]) -> dict[int, int]:
    return {hash(piece): len(piece) for piece in pieces}


def name_of(key: str) -> str:
    """Call a session after its agent's name for it, which need not be one that we can keep."""
    return f"gateway {blake2b(key.encode(), digest_size=8).hexdigest()}"


def short_line(text: str) -> str:
    """Make a short line of a text, such as a ledger takes for a title."""
    words = " ".join(guarded_text(text[:TITLE_READ]).split())
    return "".join(filter(str.isprintable, words))[:TITLE_CHARS].strip()


def _answer(passing: Passing, body: RequestBody) -> tuple[Stopped | None, Usage | None]:
    reply = passing.reply
    if reply is None or passing.status >= 400 or not passing.status:
        return None, None
    kind = passing.reply_headers.get("content-type", "")
    decoder = DIALECTS[profile_for(body.api).dialect].decoder()
    if is_bedrock := "amazon.eventstream" in kind:
        decoder = InvokeDecoder()
    is_stream = is_bedrock or "event-stream" in kind
    events = [*decoder.feed(reply), *decoder.close()] if is_stream else decoder.whole(reply)
    stopped = usage = None
    for event in events:
        if isinstance(event, UsageArrived):
            usage = event.usage
        elif isinstance(event, Stopped):
            stopped = event
    return stopped, usage


def _loss(
    earlier: Earlier,
    compared: Comparison,
    body: RequestBody,
    usage: Usage | None,
    passing: Passing,
    profile: Profile,
) -> Loss | None:
    loss = verdict(
        compared,
        was=earlier.usage,
        usage=usage,
        now=body,
        idle_s=passing.at - earlier.at,
        lifetime_s=lifetime_of(body, profile),
        least_tokens=profile.cache.min_tokens,
        extra_price=extra_price(profile.prices, usage.cache_write_tokens if usage else None),
    )
    if loss is None or loss.cause != "lost":
        return loss
    if earlier.left:
        return msgspec.structs.replace(loss, cause="tail")
    # Anthropic, "Prompt caching": of requests at once the later finds nothing of the earlier.
    return None if passing.at < earlier.ready else loss


def lifetime_of(body: RequestBody, profile: Profile) -> float:
    """How long a cache lives by what a request says, else its model's, in seconds; 0 if unsaid."""
    if body.api == "anthropic":
        # What lies behind the last mark lives as long as that one says.
        ttl = next((unit.ttl for unit in reversed(body.units) if unit.marked), "")
        return lifetime_s(ttl) or ANTHROPIC_S
    options = msgspec.json.decode(body.settings.get("prompt_cache_options", "null"))
    ttl_field = options.get("ttl") if isinstance(options, dict) else None
    kept = msgspec.json.decode(body.settings.get("prompt_cache_retention", "null"))
    spans = (str(ttl_field or ""), str(kept or ""), profile.cache.ttl)
    return next(filter(None, map(lifetime_s, spans)), 0.0)


def profile_of(body: RequestBody, prices: Sequence[Layer] = ()) -> Profile:
    """Return the profile of a request's model with the user's prices, or that of its API."""
    try:
        return profile_for(body.api, body.model, prices)
    except SightlineError:
        return profile_for(body.api)


def _stop(passing: Passing, stopped: Stopped | None) -> str:
    if passing.cut:
        return "cut"
    if stopped is not None:
        return stopped.reason
    return "" if passing.status < 400 else f"http {passing.status}"


def _error(passing: Passing) -> str:
    if passing.status < 400:
        return ""
    if passing.unreached:
        return passing.unreached[:ERROR_CHARS]
    reply = passing.reply
    return "" if reply is None else read_error(reply).message[:ERROR_CHARS]


def stored_usage(known: Passed) -> StoredUsage | None:
    """What a ledger's accounts keep of it; None where nothing is known."""
    usage = known.usage
    if usage is None or usage.unusable:
        return None
    return StoredUsage(
        known.model or "unknown",
        usage.input_tokens,
        usage.output_tokens,
        min(usage.cache_read_tokens, usage.input_tokens),
        None if known.cost_usd is None else round(known.cost_usd * NANO),
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_long_tokens=usage.cache_write_long_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cache_miss=None if known.loss is None else known.loss.cause,
        cache_missed_tokens=None if known.loss is None else known.loss.tokens,
        outcome=known.stop or None,
    )


def _ms(start: float, end: float) -> int:
    return max(0, round((end - start) * 1_000))


def unpacked(data: bytes, encoding: str) -> bytes | None:
    """Undo a content coding (RFC 9110 §8.4.1); None for what cannot be undone here."""
    if encoding in ("", "identity"):
        return data
    if encoding in ("gzip", "x-gzip", "deflate"):
        opener = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either header
        try:
            found = opener.decompress(data, READ_BYTES)
        except zlib.error:
            return None
        return None if opener.unconsumed_tail else found
    return None


# Which conversation a request goes on with (pure).


def _same_conversation(old: RequestBody, new: RequestBody) -> bool:
    """Whether a request can be a later one of a conversation: by its tools, words and messages."""
    if old.api != new.api:
        return False
    shared = _shared_messages(old, new)
    if shared >= SAME_MESSAGES:
        return True
    if not (_overlap(old.tools, new.tools) and _overlap(old.system, new.system)):
        return False
    if shared:
        return True
    return len(old.messages) > len(new.messages) and is_summary(new.messages)


def _shared_messages(old: RequestBody, new: RequestBody) -> int:
    """Count the parts of messages that two requests have in common, wherever."""
    known = {unit.digest for unit in old.messages}
    return sum(unit.digest in known for unit in new.messages)


def _overlap(old: tuple[Unit, ...], new: tuple[Unit, ...]) -> bool:
    """Whether two sections have something in common, by name or as they are; or are both empty."""
    if not old and not new:
        return True
    if bool(old) != bool(new):
        return False
    mine = {unit.name or unit.text[:40] for unit in old} | {unit.digest for unit in old}
    theirs = {unit.name or unit.text[:40] for unit in new} | {unit.digest for unit in new}
    return not mine.isdisjoint(theirs)


def session_key(headers: Mapping[str, str], body: RequestBody) -> str:
    """Name the session of a request: as the agent does, or by how its conversation begins."""
    for name in _HEADERS:
        if headers.get(name):
            return headers[name]
    for name in ("prompt_cache_key", "user"):
        if name in body.settings:
            return str(msgspec.json.decode(body.settings[name]))
    begun = [unit.digest for unit in (*body.system[:1], *body.messages[:1])]
    return blake2b(b"".join(begun), digest_size=8).hexdigest()
