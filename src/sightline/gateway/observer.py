"""What a gateway finds out about the traffic that it passes on, and keeps.

All of it happens beside the traffic, in a thread: a body that cannot be read or a ledger that
cannot be written costs a line on the screen, and no request.

Which conversation a request belongs to, and so what it is compared with, `sessions` decides.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, cast

import msgspec

from sightline.context.dialects import DIALECTS
from sightline.context.dialects.bedrock import InvokeDecoder
from sightline.context.dialects.decoder import read_error
from sightline.context.dialects.drift import Loss, extra_price, lifetime_s
from sightline.context.dialects.events import Stopped, Usage, UsageArrived, cost
from sightline.context.dialects.prices import price_list
from sightline.context.dialects.profile import Layer, Profile
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger, Session
from sightline.context.ledger.exchanges import Exchange, NewExchange
from sightline.context.ledger.usage import StoredUsage
from sightline.context.messages.gate import guarded_text, storable
from sightline.errors import InvalidInput, NotFound, SightlineError
from sightline.gateway.bodies import (
    DIGEST_BYTES,
    Api,
    RequestBody,
    Unit,
    pieces_of,
    read_body,
    remember,
    replied_units,
)
from sightline.gateway.losses import Comparison, between, compare, verdict
from sightline.gateway.sessions import (
    CHAINS,
    Earlier,
    Placement,
    Role,
    Talk,
    TalkAnswer,
    TalkRequest,
    TalkSessions,
    key_of,
    strong_id,
)

NANO: Final = 1_000_000_000
MILLION: Final = 1_000_000
READ_BYTES: Final = 64 * 1024 * 1024  # of one reply, or one request, that are read
ERROR_CHARS: Final = 2_000
TITLE_CHARS: Final = 60
NAMED: Final = "gateway "  # how the ledger's name of a session begins
SESSIONS: Final = 256  # of a project that are looked at after a restart
# What a difference is called where nothing says that a summary stands there.
_FOLDS: Final = frozenset({"cleared", "rewound", "edited", "inserted", "dropped", "window"})
TITLE_READ: Final = 4_000
BASES: Final = 16  # requests of a session of which the next can be kept as what is new
RECALLED: Final = 8  # requests of a session that the first one after a restart is compared with
# Anthropic, "Prompt caching": five minutes unless a mark asks for an hour.
ANTHROPIC_S: Final = 300.0
RESTORED: Final = timedelta(hours=24)  # in which a conversation may go on without an id
ALIKE: Final = "two conversations are alike: which of them goes on is a guess"


class Passed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request that went through, and what is known of it.

    `trouble` is why less is known, or kept, than there could be. `tail` says what was put into
    it, and `leaves` counts the bytes of that which the next one will not have. One of a transcript
    has a `source`: then status, size and times are not known. `conversation` counts from 1 in its
    session, `joined_by` says how it was found, `parent` is the exchange whose call started a
    sub-agent, and `anchors` are what a later request is found by. `tail_key` names what the live
    tail keeps for it.
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
    tail_key: str = ""
    conversation: int = 0
    role: str = ""
    parent: int | None = None
    joined_by: str = ""
    attempt: int = 0
    agent: str = ""
    agent_version: str = ""
    upstream: str = ""
    path: str = ""
    anchors: str = ""
    price_source: str = ""


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
    `credential` is a keyed hash of the key that it was sent with.
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
    tail_key: str = ""
    upstream: str = ""
    credential: str = ""
    connection: str = ""
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
        self._talks = TalkSessions()
        self._least: dict[str, int] = {}
        self._sessions: dict[str, int] = {}
        self._stored: dict[Talk, int] = {}
        self._has_restored = ledger is None
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
        whole = self._whole(body)
        stopped, usage = _answer(passing, body)
        request = _request(passing, whole or body)
        self._restore(passing, request)
        placed = self._talks.assign(request)
        if placed.base is None and placed.conversation in self._stored:
            self._recall(placed.conversation)
            placed = self._talks.assign(request)
        profile = profile_of(body, self._prices)
        loss = None
        if whole is not None and not body.warms and not placed.is_alike:
            loss = self._loss(placed, whole, usage, passing, profile)
        price = None if usage is None else cost(usage, profile.prices)
        product, _, version = passing.headers.get("user-agent", "").partition(" ")[0].partition("/")
        one = placed.conversation
        known = msgspec.structs.replace(
            known,
            session=strong_id(passing.headers, body) or one.session,
            model=body.model,
            usage=usage,
            cost_usd=price,
            loss=loss,
            stop=_stop(passing, stopped),
            error=_error(passing),
            tail_key=passing.tail_key,
            conversation=one.number,
            role=placed.role,
            parent=one.parent,
            joined_by=placed.joined_by,
            attempt=placed.attempt,
            agent=short_line(self._agent or product),
            agent_version=short_line(version),
            upstream=passing.upstream,
            path=passing.path,
            price_source="unknown" if price is None else self._price_source(body.model),
            trouble=ALIKE if placed.is_alike else "",
        )
        answer = TalkAnswer(None)
        if passing.status < 400:
            earlier = None if whole is None else _earlier(whole, passing.at, known)
            answer = _answer_of(None if passing.cut else stopped, earlier)
            self._hold(passing, request.body, answer.response_id)
        known = msgspec.structs.replace(
            known, anchors=self._talks.add(request, placed, answer).hex()
        )
        answer.number, trouble = self._keep(one.session, known, body, data, stopped)
        trouble = gone or trouble or known.trouble
        return msgspec.structs.replace(known, exchange=answer.number, trouble=trouble)

    def _price_source(self, model: str) -> str:
        if any(one.matches(model) for one in self._prices):
            return "the user's own prices"
        return f"{price_list().source} {price_list().as_of}"

    def _loss(
        self,
        placed: Placement,
        body: RequestBody,
        usage: Usage | None,
        passing: Passing,
        profile: Profile,
    ) -> Loss | None:
        base = placed.base
        if base is None:
            return None
        least = min(profile.cache.min_tokens, self._least.get(body.model, MILLION))
        if usage is not None and usage.cache_read_tokens:
            # A vendor that read so few tokens keeps so few, whatever its documents say.
            self._least[body.model] = min(least, usage.cache_read_tokens)
        compared = between(base.body, body) if placed.between else compare(base.body, body)
        lifetime = lifetime_of(body, profile)
        if compared is None or (
            placed.between and passing.at - base.at > (lifetime or ANTHROPIC_S)
        ):
            return None
        if placed.joined_by == "summary" and compared.cause in _FOLDS:
            compared = msgspec.structs.replace(compared, cause="compaction", detail="")
        return _loss(base, compared, body, usage, passing, profile, least, lifetime)

    def _begin_again(self) -> str:
        """Take another file where the ledger's was deleted or replaced; say so, once."""
        if self._ledger is None or _file_of(self._ledger) == self._file:
            return ""
        path = self._ledger.path
        self._ledger.close()
        self._ledger = None
        self._sessions.clear()
        self._bases.clear()
        self._stored.clear()
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

    def _hold(self, passing: Passing, body: RequestBody, response_id: str) -> None:
        if body.api != "openai-responses":
            return
        units = body.messages + replied_units(passing.reply or b"")
        for name in filter(None, (response_id, body.session)):
            remember(self._held, name, units, CHAINS)

    def _keep(
        self, session: str, known: Passed, body: RequestBody, data: bytes, stopped: Stopped | None
    ) -> tuple[int | None, str]:
        if self._ledger is None:
            return None, ""
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
            name = f"{NAMED}{key}"
            session = self._ledger.sessions.find(name) or self._ledger.sessions.create(
                name,
                project=storable(self._project),
                title=short_line(question),
                kind=short_line(f"gateway {self._agent}"),
            )
            self._sessions[key] = session.id
        return self._sessions[key]

    def _restore(self, passing: Passing, request: TalkRequest) -> None:
        """Take up the conversations that an earlier gateway kept: by their anchors, or by an id."""
        if self._ledger is None:
            return
        found: list[Session] = []
        with suppress(SightlineError, msgspec.ValidationError):
            if not self._has_restored:
                self._has_restored = True
                project, since = storable(self._project), datetime.now(UTC) - RESTORED
                recent = self._ledger.sessions.recent(project=project, limit=SESSIONS)
                found = [one for one in recent if datetime.fromisoformat(one.updated_at) > since]
            if request.session and key_of(request.session) not in self._sessions:
                found += filter(None, [self._ledger.sessions.find(name_of(request.session))])
            for session in found:
                key = session.name.removeprefix(NAMED)
                if not session.name.startswith(NAMED) or key in self._sessions:
                    continue
                self._sessions[key] = session.id
                is_named = bool(request.session) and key_of(request.session) == key
                self._restore_session(session, key, request if is_named else None)

    def _restore_session(self, session: Session, key: str, request: TalkRequest | None) -> None:
        assert self._ledger is not None  # noqa: S101 - its only caller has asked
        latest: dict[int, Exchange] = {}
        for one in self._ledger.exchanges.list(session.id):
            latest[one.about.get("conversation", 0)] = one
        for number, one in latest.items():
            known = passed_of(one)
            talk = Talk(key, number, cast(Role, known.role or "main"), known.parent)
            talk.answered, talk.requests = "", 1
            self._stored[talk] = session.id
            like = RequestBody(cast(Api, one.api), one.model, {})
            home = TalkRequest(like, 0.0, (known.upstream, ""))
            self._talks.restore(request or home, talk, bytes.fromhex(known.anchors))
            if request is not None:
                self._recall(talk)

    def _recall(self, talk: Talk) -> None:
        """Read the last requests of a conversation that an earlier gateway kept."""
        assert self._ledger is not None  # noqa: S101 - it is from a ledger
        kept = self._ledger.exchanges.list(self._stored.pop(talk))
        mine = [one for one in kept if one.about.get("conversation", 0) == talk.number]
        for one in mine[-RECALLED:]:
            data = self._ledger.exchanges.request(one.id)
            self._add_base(talk.session, one.id, pieces_of(data))
            body = read_body(cast(Api, one.api), data, f"/models/{one.model}")
            whole, known = None if body is None else self._whole(body), passed_of(one)
            at = datetime.fromisoformat(one.sent_at).timestamp()
            if whole is not None and known.status < 400:
                talk.take_up(_earlier(whole, at, known))


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


def name_of(name: str) -> str:
    """Call a session after its agent's name for it, which need not be one that we can keep."""
    return NAMED + key_of(name)


def _request(passing: Passing, body: RequestBody) -> TalkRequest:
    return TalkRequest(
        body,
        passing.at,
        (passing.upstream, passing.credential),
        strong_id(passing.headers, body),
        passing.connection,
        blake2b(passing.data, digest_size=DIGEST_BYTES).digest(),
    )


def _answer_of(stopped: Stopped | None, earlier: Earlier | None) -> TalkAnswer:
    """Read what a later request repeats of a reply."""
    if stopped is None:
        return TalkAnswer(None, earlier=earlier)
    calls = [
        (call.id, call.name, msgspec.json.encode(call.arguments).decode())
        for call in stopped.message.tool_calls
    ]
    return TalkAnswer(stopped.message.text, tuple(calls), stopped.response_id, earlier)


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
    least: int,
    lifetime: float,
) -> Loss | None:
    loss = verdict(
        compared,
        was=earlier.usage,
        usage=usage,
        now=body,
        idle_s=passing.at - earlier.at,
        lifetime_s=lifetime,
        least_tokens=least,
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
