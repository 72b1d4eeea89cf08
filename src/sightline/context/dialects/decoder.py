"""The common half of all decoders: bytes in, events out, one end whatever happens.

A dialect's decoder says how one frame of its stream changes the reply; this holds the
reply. The promises: any chunking gives the same events; nothing the vendor sends makes
it raise; after `close` there has been exactly one `Stopped`; a reply that broke off has
no tool calls. A reply that was not streamed gives the same events, with each text in
one piece.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, ClassVar, Final

import msgspec

import sightline.context.dialects.events as replies
import sightline.context.messages.gate as gate
import sightline.context.messages.parts as talk
from sightline.context.dialects.framing import BrokenStream, Frame, FrameReader, SseReader
from sightline.errors import InvalidJson, NotStorable, TooLarge
from sightline.slop.protocol.jsontext import clip, loads, nests_deeper, text_from_bytes, text_of

# What stands in a frame around the arguments of a call is some ten levels in every API. So what is
# left of something too deep is no problem for a parser, and still too deep to be stored.
FRAME_DEPTH: Final = 2 * gate.MAX_DEPTH
# Longer than the longest message that an app takes, and than any model's longest reply.
MAX_ARGUMENTS: Final = 1024 * 1024
# A value of a few bytes of JSON takes up to 230 bytes of memory.
MAX_VALUES: Final = 500_000
GOOGLE_DELAY: Final = re.compile(r"(\d+(?:\.\d+)?)s")


class Open(msgspec.Struct):
    """A part of the reply that is still arriving. `raw` is what must be replayed with it."""

    kind: str
    text: str = ""
    call_id: str = ""
    name: str = ""
    raw: Any = None


class Decoder:
    """Feed it the bytes of a response; `names` leads from the vendor's tool names to ours."""

    dialect: ClassVar[str]
    reader: ClassVar[Callable[[], FrameReader]] = SseReader

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self._reader = type(self).reader()
        self._names = names or {}
        self._open: dict[Any, Open] = {}
        self._stop: tuple[replies.StopReason, str] | None = None
        self._usage: Any = None  # as it came
        self._cache_miss: replies.CacheMiss | None = None
        self._response_id = ""
        self._code = ""
        self._ended = False

    # What a dialect provides.

    def _receive(self, event: str, value: Any) -> Iterator[replies.Event]:
        """Take the JSON of one frame of the stream."""
        raise NotImplementedError

    def _whole(self, value: Any) -> Iterator[replies.Event]:
        """Take the JSON of a reply that was not streamed; by default it is like one frame."""
        return self._receive("", value)

    @staticmethod
    def _read_usage(fields: replies.UsageFields) -> replies.Usage:
        """Read the usage object of a response."""
        raise NotImplementedError

    # What a caller uses.

    @classmethod
    def read_usage(cls, reported: Any) -> replies.Usage:
        """Read the usage object of a response. What is not reported is 0.

        What makes no sense is 0 as well, and named in `Usage.unusable`.
        """
        fields = replies.UsageFields(reported)
        usage = cls._read_usage(fields)
        return msgspec.structs.replace(usage, unusable=tuple(fields.unusable))

    def feed(self, data: bytes) -> list[replies.Event]:
        """Take more bytes; return the events they complete. Nothing comes after `Stopped`."""
        return self._guarded(self._reader.feed(data)) if not self._ended else []

    def receive(self, value: Mapping[str, Any], event: str = "") -> list[replies.Event]:
        """Take one event that somebody else has unpacked already, a vendor's SDK for one."""
        if self._ended:
            return []
        return self._tried(lambda: self._receive(event, self._parse(Frame(event, _sent(value)))))

    def whole(self, body: bytes | Mapping[str, Any]) -> list[replies.Event]:
        """Take the body of a response that was not streamed; the last event is `Stopped`.

        From an SDK hand over its response as a mapping. Nothing else may have been fed.
        """
        if self._ended:
            return []

        def read() -> Iterator[replies.Event]:
            return self._whole(read_frame(body if isinstance(body, bytes) else _sent(body)))

        return [*self._tried(read), *self.close()]

    def close(self) -> list[replies.Event]:
        """Take the end of the stream; the last event is `Stopped` if it has not been."""
        if self._ended:
            return []
        events = self._guarded(self._reader.close())
        return events + self._end_as_stopped("the stream ended before the reply did")

    def abandon(self, code: str, why: str) -> list[replies.Event]:
        """End a stream that stalls: with its stop reason if that came, else as incomplete."""
        self._code = "" if self._stop else code
        return self._end_as_stopped(why)

    @property
    def progress(self) -> int:
        """How much of the reply there is, in characters and parts: pings add nothing to it."""
        return len(self._open) + sum(len(part.text) for part in self._open.values())

    def _guarded(self, frames: Iterator[Frame]) -> list[replies.Event]:
        events: list[replies.Event] = []
        try:
            for frame in frames:
                events += self._step(frame)
                if self._ended:
                    break
        except BrokenStream as error:
            # After the vendor's last word a torn trailer takes nothing away.
            events += self._end_as_stopped(str(error))
        if any(map(_is_too_long, self._open.values())):
            events += self._end("incomplete")
        return events

    def _step(self, frame: Frame) -> list[replies.Event]:
        return self._tried(lambda: self._receive(frame.event, self._parse(frame)))

    def _tried(self, work: Callable[[], Iterator[replies.Event]]) -> list[replies.Event]:
        try:
            return list(work())
        except TooLarge as error:
            self._code = error.code
            return self._end("incomplete", str(error))
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
            return self._end("incomplete", f"not understood: {error}"[:200])

    def _parse(self, frame: Frame) -> Any:
        return read_frame(frame.data)

    # What a dialect's `_receive` calls.

    def _say(self, key: Any, text: str) -> Iterator[replies.Event]:
        if text:
            self._part(key, "text").text += text
            yield replies.TextArrived(text)

    def _think(self, key: Any, text: str) -> Iterator[replies.Event]:
        if text:
            self._part(key, "reasoning").text += text
            yield replies.ReasoningArrived(text)

    def _part(self, key: Any, kind: str) -> Open:
        return self._open.setdefault(key, Open(kind))

    def _end_as_stopped(self, otherwise: str) -> list[replies.Event]:
        """End the reply for the reason that came; without one it is incomplete, as it is said."""
        return self._end(*(self._stop or ("incomplete", otherwise)))

    def _end(self, reason: replies.StopReason, detail: str = "") -> list[replies.Event]:
        """End the reply: return its tool calls, its usage and `Stopped`."""
        if self._ended:
            return []
        self._ended = True
        if any(map(_is_too_long, self._open.values())):
            reason, self._code = "incomplete", "too_large"
            detail = f"the arguments of a call have more than {MAX_ARGUMENTS:,} characters"
        parts: list[talk.Part] = []
        calls: list[talk.ToolCall] = []
        repeated: list[str] = []
        for part in self._open.values():
            if part.kind != "tool_call":
                finished = self._finished(part)
                if finished is not None:
                    parts.append(finished)
            elif reason not in ("incomplete", "error"):
                call = self._call(part, {call.id for call in calls}, whole=reason != "length")
                if call is None:
                    reason, detail = "incomplete", f"the arguments of {part.name!r} are cut off"
                else:
                    calls.append(call)
                    parts.append(call)
                    repeated += [call.id] if part.call_id not in ("", call.id) else []
        if reason in ("incomplete", "error"):
            parts = [part for part in parts if not isinstance(part, talk.ToolCall)]
            calls = []
        elif calls and reason == "end":
            reason = "tool_calls"
        events: list[replies.Event] = [replies.ToolCalled(call) for call in calls]
        if self._usage is not None:
            usage = self.read_usage(self._usage)
            events.append(replies.UsageArrived(usage, self._cache_miss, _reported(self._usage)))
        message = talk.Message("assistant", tuple(parts))
        about = detail, self._response_id, self._code, tuple(repeated)
        return [*events, replies.Stopped(reason, message, *about)]

    def _finished(self, part: Open) -> talk.Part | None:
        raw = None if part.raw is None else talk.Raw(self.dialect, part.raw)
        if part.kind == "text":
            return talk.Text(part.text, raw) if part.text else None
        return talk.Reasoning(part.text, raw) if part.text or raw is not None else None

    def _call(self, part: Open, taken: Container[str], *, whole: bool) -> talk.ToolCall | None:
        """Make a tool call; whole arguments that are no object go on under `UNREADABLE`."""
        if not part.name:
            return None
        arguments = _arguments(part.text)
        if arguments is None:
            if not whole:
                return None
            arguments = {talk.UNREADABLE: part.text[: gate.UNREADABLE_CHARS]}
        raw = None if part.raw is None else talk.Raw(self.dialect, part.raw)
        # Two calls of one reply that share an id could not be answered one by one.
        known = part.call_id and part.call_id not in taken
        call_id = part.call_id if known else self._derived_id(part)
        return talk.ToolCall(call_id, self._names.get(part.name, part.name), arguments, raw)

    def _derived_id(self, part: Open) -> str:
        """Make an id for a call that came without one, of its index in the reply and its text."""
        index = [other is part for other in self._open.values()].index(True)
        identity = f"{self._response_id}/{index}/{part.name}/{part.text}"
        return f"call_{sha256(identity.encode()).hexdigest()[:16]}"


def _is_too_long(part: Open) -> bool:
    return part.kind == "tool_call" and len(part.text) > MAX_ARGUMENTS


def _sent(value: Mapping[str, Any]) -> bytes:
    """Write what an SDK has decoded as JSON again; a lone surrogate becomes U+FFFD."""
    # Bytes in an SDK's mapping are base64 text in the JSON it came from.
    try:
        return bytes(text_of(value))
    except UnicodeEncodeError:
        return bytes(text_of(gate.storable_json(value)))


def read_frame(data: bytes) -> Any:
    """Decode a vendor's JSON of up to `MAX_VALUES`, without what nests deeper than `FRAME_DEPTH`.

    A number that is out of range, or half of a character, is that value's fault alone.
    """
    shallow = clip(data, FRAME_DEPTH)
    if sum(map(shallow.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise TooLarge(f"an event of the reply has more than {MAX_VALUES:,} values")
    try:
        return msgspec.json.decode(shallow)
    except msgspec.DecodeError as error:
        try:
            return gate.storable_json(loads(text_from_bytes(shallow)))
        except InvalidJson:
            raise error from None


class VendorError(msgspec.Struct, frozen=True):
    """A vendor's error: its message, and the seconds to wait before the next try, if it says."""

    message: str = ""
    wait_s: float | None = None


def read_error(body: bytes) -> VendorError:
    """Read the body of an error response; a page of HTML has no message."""
    try:
        value = read_frame(body)
    except msgspec.DecodeError:
        html = body.lstrip().startswith(b"<")
        return VendorError("" if html else body.decode("utf-8", "replace"))
    wait_s = _google_wait(value)
    while isinstance(value, list) and value:
        value = value[0]
    inner = value.get("error", value) if isinstance(value, dict) else value
    if isinstance(inner, dict):
        inner = inner.get("message") or inner.get("Message") or inner.get("type") or ""
    return VendorError(str(inner), wait_s)


def _google_wait(value: Any) -> float | None:
    """Read `google.rpc.RetryInfo`, which Gemini sends through its compatible endpoints, too."""
    try:
        for detail in value["error"]["details"]:
            if match := GOOGLE_DELAY.fullmatch(detail.get("retryDelay", "")):
                return float(match[1])
    except (KeyError, TypeError, AttributeError):
        return None
    return None


def written(arguments: Any) -> str:
    """Write arguments that came as a value as JSON text; NaN stays, and is refused when read."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"), default=float)


def _arguments(text: str) -> dict[str, Any] | None:
    """Read the arguments of a call; None if they are no object, or none that can be stored."""
    if nests_deeper(text, gate.MAX_DEPTH):
        return None
    try:
        arguments = msgspec.json.decode(text) if text.strip() else {}
        gate.check_json(gate.storable_json(arguments), "the arguments")
    except (msgspec.DecodeError, NotStorable):
        return None
    return arguments if isinstance(arguments, dict) else None


def _reported(usage: Any) -> dict[str, Any] | None:
    """The usage as reported; Ollama's is the whole reply, so message and context are left out."""
    if not isinstance(usage, dict):
        return None
    return {name: value for name, value in usage.items() if name not in ("message", "context")}


def decode(decoder: Decoder, chunks: Iterable[bytes]) -> Iterator[replies.Event]:
    """Run a whole stream through a decoder."""
    for chunk in chunks:
        yield from decoder.feed(chunk)
    yield from decoder.close()
