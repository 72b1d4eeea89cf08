"""The messages of the protocol: read strictly, answered politely, written compactly.

`parse(serialize(m)) == m`. Reading never raises anything but `BadMessage`, which
says what is wrong and, where it can be known, to which request the complaint
belongs: a provider answers it with `error bad_request` and goes on. Fields that
the protocol does not name are ignored; a type that it does not name is a
BadMessage with `unknown_type` set, which a consumer skips.

Trees and ops stay JSON text (`Raw`) until somebody needs them, so that a message
can be forwarded, queued or dropped for the price of its bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sightline.errors import InvalidJson, SightlineError
from sightline.slop.protocol import jsontext, pieces
from sightline.slop.protocol.limits import Limits
from sightline.slop.protocol.view import View

SLOP_VERSION: Final = "0.1"
MESSAGE_BYTES: Final = 1024 * 1024

_ID_CHARS: Final = 256
_Id: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=_ID_CHARS)]
_Path: TypeAlias = Annotated[str, msgspec.Meta(max_length=65_536)]
_Depth: TypeAlias = Annotated[int, msgspec.Meta(ge=-1)]
_Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Share: TypeAlias = (
    Annotated[int, msgspec.Meta(ge=0, le=1)] | Annotated[float, msgspec.Meta(ge=0, le=1)]
)


class BadMessage(SightlineError):
    """A message that cannot be acted on.

    Where they can be made out, `kind` is its type, and `request` the id it carries, of a patch
    the subscription's.
    """

    code = "bad_request"
    exit_code = 4

    def __init__(
        self,
        reason: str,
        request: str | None = None,
        *,
        kind: str | None = None,
        unknown_type: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.request = request
        self.kind = kind
        self.unknown_type = unknown_type


class Filter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which nodes a subscriber wants."""

    types: tuple[str, ...] | None = None
    min_salience: _Share | None = None
    retain_ancestors: bool = False


class ResumePoint(msgspec.Struct, frozen=True):
    """Where a subscription was when its connection was lost."""

    epoch: str
    version: _Count
    seq: _Count


class ErrorInfo(msgspec.Struct, frozen=True):
    """What went wrong, for a program and for a person."""

    code: str
    message: str = ""


class ProviderInfo(msgspec.Struct, frozen=True):
    """Who the provider is and what it can do. `epoch` names this life of its journal."""

    id: str
    name: str
    slop_version: str = SLOP_VERSION
    capabilities: tuple[str, ...] = ()
    epoch: str | UnsetType = UNSET


class _Look(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a subscription and a query have in common: which view of which node is wanted."""

    id: _Id
    path: _Path = "/"
    depth: _Depth = -1
    max_nodes: _Positive | None = None
    filter: Filter | None = None

    def view(self) -> View:
        """What the answer will show."""
        wanted = self.filter or Filter()
        return View(
            depth=self.depth,
            max_nodes=self.max_nodes,
            min_salience=wanted.min_salience,
            types=None if wanted.types is None else frozenset(wanted.types),
            retain_ancestors=wanted.retain_ancestors,
        )


class Subscribe(_Look, frozen=True, omit_defaults=True, tag="subscribe"):
    """Ask for a snapshot of a subtree, and patches from then on.

    `fields` (`x-fields`): the mirror takes every operation on a field that the protocol allows.
    """

    resume: ResumePoint | None = None
    fields: bool = False


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe"):
    """End a subscription; there is no reply."""

    id: _Id


class Query(_Look, frozen=True, omit_defaults=True, tag="query"):
    """Ask for one snapshot."""

    window: tuple[_Count, _Count] | None = None

    def view(self) -> View:
        """What the answer will show."""
        return replace(super().view(), window=self.window)


class Invoke(msgspec.Struct, frozen=True, omit_defaults=True, tag="invoke"):
    """Ask for an action on a node; there is exactly one result."""

    id: _Id
    path: _Path
    action: str
    params: dict[str, Any] | None = None
    trace: Any = msgspec.field(default=UNSET, name="x-trace")  # whatever it is, no reason to refuse


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The provider's first message: who it is."""

    provider: ProviderInfo


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True, tag="snapshot"):
    """The whole tree that a subscription or a query shows. Only the former has a `seq`."""

    id: str
    version: _Count
    tree: Raw
    seq: _Count | UnsetType = UNSET
    served: Raw | UnsetType = UNSET


class Patch(msgspec.Struct, frozen=True, tag="patch"):
    """What changed since the subscription's last message.

    Providers before 0.2 send no `seq`. `base` is that message's version (`x-base`): `seq`
    alone cannot tell that a snapshot between two patches was lost, for a snapshot starts it
    again at 0.
    """

    subscription: str
    version: _Count
    ops: Raw
    seq: _Count | UnsetType = UNSET
    base: _Count | UnsetType = UNSET


class Result(msgspec.Struct, frozen=True, omit_defaults=True, tag="result"):
    """The one answer to an invoke: done, accepted or failed."""

    id: str
    status: Literal["ok", "error", "accepted"]
    data: Raw | UnsetType = UNSET
    error: ErrorInfo | UnsetType = UNSET
    trace: Any = msgspec.field(default=UNSET, name="x-trace")  # whatever it is, no reason to refuse


class Event(msgspec.Struct, frozen=True, omit_defaults=True, tag="event"):
    """A provider's news of something that happened and is not part of its state."""

    name: str
    data: Raw | UnsetType = UNSET


class ErrorMessage(msgspec.Struct, frozen=True, omit_defaults=True, tag="error"):
    """Why a request other than an invoke failed; without an id, why nothing was understood."""

    error: ErrorInfo
    id: str | None = None


class Batch(msgspec.Struct, frozen=True, tag="batch"):
    """Several messages in one, to be unwrapped in order."""

    messages: tuple[Raw, ...]


ConsumerMessage: TypeAlias = Subscribe | Unsubscribe | Query | Invoke
ProviderMessage: TypeAlias = Hello | Snapshot | Patch | Result | Event | ErrorMessage | Batch

_from_consumer: Final[msgspec.json.Decoder[ConsumerMessage]] = msgspec.json.Decoder(ConsumerMessage)
_from_provider: Final[msgspec.json.Decoder[ProviderMessage]] = msgspec.json.Decoder(ProviderMessage)
_CONSUMER_TYPES: Final = frozenset({"subscribe", "unsubscribe", "query", "invoke"})
_PROVIDER_TYPES: Final = frozenset(
    {"hello", "snapshot", "patch", "result", "event", "error", "batch"}
)
_encoder: Final = msgspec.json.Encoder()
_T = TypeVar("_T")


def serialize(message: ConsumerMessage | ProviderMessage) -> bytes:
    """Write a message as one line of JSON."""
    return _encoder.encode(message)


def parse_consumer_message(
    data: bytes | str, max_bytes: int = MESSAGE_BYTES, levels: int = jsontext.NESTING
) -> ConsumerMessage:
    """Read what a consumer sent. Raises BadMessage."""
    return pieces.finish(consumer_message_steps(data, max_bytes, levels))


def parse_provider_message(
    data: bytes | str, max_bytes: int, levels: int = jsontext.NESTING
) -> ProviderMessage:
    """Read what a provider sent. Raises BadMessage."""
    return pieces.finish(_parse(_from_provider, data, max_bytes, levels, _PROVIDER_TYPES))


def consumer_message_steps(
    data: bytes | str, max_bytes: int, levels: int
) -> pieces.Steps[ConsumerMessage]:
    """Like `parse_consumer_message`, in steps; see `pieces`."""
    return _parse(_from_consumer, data, max_bytes, levels, _CONSUMER_TYPES)


def provider_message_steps(
    data: bytes | str | pieces.Text, max_bytes: int, limits: Limits
) -> pieces.Steps[tuple[ProviderMessage, dict[str, pieces.Part]]]:
    """Read what a provider sent, if it is large piece by piece. Raises BadMessage.

    Returns the message, and those of its fields that were cut: in the message itself they
    stand empty.
    """
    if isinstance(data, Raw):
        data = bytes(data)
    if not isinstance(data, pieces.Part):
        if len(data) <= pieces.WHOLE_BYTES or len(data) > max_bytes:
            levels = limits.message_levels
            message = yield from _parse(_from_provider, data, max_bytes, levels, _PROVIDER_TYPES)
            return message, {}
        try:
            cut_text = yield from pieces.cut(
                _plain(data), limits.message_levels, limits.string_bytes
            )
        except InvalidJson as error:
            raise BadMessage(f"not JSON: {error}") from None
        if not isinstance(cut_text, pieces.Part):
            return parse_provider_message(bytes(cut_text), max_bytes, limits.message_levels), {}
        data = cut_text
    if not data.is_object:
        raise BadMessage("a message must be an object")
    members = pieces.fields(data)
    large = {name: text for name, text in members.items() if isinstance(text, pieces.Part)}
    small = {name: text for name, text in members.items() if not isinstance(text, pieces.Part)}
    head = _encoder.encode({**small, **{name: _EMPTY.get(name, _NULL) for name in large}})
    return parse_provider_message(head, max_bytes, limits.message_levels), large


def short_provider_message(
    data: bytes | str, max_bytes: int, levels: int
) -> ProviderMessage | None:
    """Read what a provider sent in one go; None if it is long, or cannot be read."""
    return _short(_from_provider, data, max_bytes, levels)


def _short(
    decoder: msgspec.json.Decoder[_T], data: bytes | str, max_bytes: int, levels: int
) -> _T | None:
    """Read a message that is too short to nest too deep; None if it is not one."""
    if len(data) > levels or len(data) > max_bytes:
        return None
    try:
        return decoder.decode(data if isinstance(data, str) else data.decode())
    except (msgspec.DecodeError, UnicodeError):
        return None


_NULL: Final = Raw(b"null")
# What stands in the place of a field that was cut: `messages` must be a list.
_EMPTY: Final = {"messages": Raw(b"[]")}


def _parse(
    decoder: msgspec.json.Decoder[_T],
    data: bytes | str,
    max_bytes: int,
    levels: int,
    types: frozenset[str],
) -> pieces.Steps[_T]:
    message = _short(decoder, data, max_bytes, levels)
    if message is not None:
        return message
    if len(data) > max_bytes:
        raise BadMessage(f"a message must not be longer than {max_bytes} bytes")
    try:
        text = data if isinstance(data, str) else jsontext.text_from_bytes(data)
    except InvalidJson as error:
        raise BadMessage(str(error)) from None
    is_long = len(data) > pieces.GROUP_BYTES
    for is_deep in jsontext.depth_steps(data, levels):
        if is_deep:
            reason = f"a message must not nest deeper than {levels} levels"
            raise _complaint((yield from jsontext.shallow_steps(_plain(data))), types, reason)
        yield
    if is_long:
        yield
    try:
        return decoder.decode(text)
    except UnicodeEncodeError:
        raise BadMessage("a string must not contain a lone surrogate") from None
    except msgspec.DecodeError as error:
        reason = str(error)
    yield
    text_left = _plain(data)
    # A short one is read whole, to say exactly where it stops being JSON.
    if is_long:
        text_left = yield from jsontext.shallow_steps(text_left)
    raise _complaint(text_left, types, reason)


def _plain(data: bytes | str) -> bytes:
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data


def _complaint(text: bytes, types: frozenset[str], reason: str) -> BadMessage:
    """Find out what a message that cannot be read was meant to be."""
    try:
        value = jsontext.loads(text.decode("utf-8", "surrogatepass"))
    except InvalidJson as invalid:
        return BadMessage(f"not JSON: {invalid}")
    if not isinstance(value, dict):
        return BadMessage("a message must be an object")
    kind = value.get("type")
    is_patch = kind == "patch" and kind in types
    request = value.get("subscription" if is_patch else "id")
    request = request if isinstance(request, str) and _is_sendable(request) else None
    if not isinstance(kind, str):
        return BadMessage("a message must have a 'type', a string", request)
    if kind not in types:
        return BadMessage(f"unknown message type {kind[:80]!r}", request, unknown_type=kind)
    return BadMessage(f"{kind}: {reason}", request, kind=kind)


def _is_sendable(request: str) -> bool:
    """Whether an id can be given back: not if it is too long, or no text at all."""
    return len(request) <= _ID_CHARS and jsontext.sendable(request) == request
