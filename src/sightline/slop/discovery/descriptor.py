"""Descriptors: the small files by which apps say where they are.

A descriptor is written by anyone who can write to the directory, so nothing in it is
believed before it is checked: its size, every field's type and length, that its id is a
file name and nothing more, and that its transport stays on this machine.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from sightline.errors import InvalidInput
from sightline.slop.protocol.ids import app_id_problem, app_name_problem, reads_as_own
from sightline.slop.protocol.jsontext import NESTING, nests_deeper, text_from_bytes
from sightline.slop.protocol.messages import SLOP_VERSION
from sightline.slop.transports.door import is_loopback
from sightline.slop.transports.nats_url import NatsUrl

DESCRIPTOR_BYTES: Final = 64 * 1024
_SOCKET_PATH_BYTES: Final = 107  # what the kernel's address structure holds
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=1024)]
# RFC 6750 §2.1: what can stand behind `Bearer`, here any printable ASCII without blanks.
_Token: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[!-~]{1,512}\Z")]


class Unix(msgspec.Struct, frozen=True, tag="unix"):
    """How to reach an app that listens at a Unix socket."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=_SOCKET_PATH_BYTES)]


class Ws(msgspec.Struct, frozen=True, omit_defaults=True, tag="ws"):
    """How to reach an app at a WebSocket, with the bearer token that it asks for, if it does."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2048)]
    token: _Token | None = None

    def __repr__(self) -> str:
        """Leave the token out: what is printed or logged is read by others."""
        return f"Ws({self.url!r})"


class Stdio(msgspec.Struct, frozen=True, tag="stdio"):
    """How to reach an app on the pipes of a command, which is run with the user's consent only."""

    command: Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1, max_length=64)]


class Nats(msgspec.Struct, frozen=True, tag="nats"):
    """How to reach an app on a broker. No file says so: a broker is named by the user."""

    url: str

    @property
    def shown(self) -> str:
        """The URL without what is secret."""
        return NatsUrl.read(self.url).shown

    def __repr__(self) -> str:
        """Leave out what is secret: what is printed or logged is read by others."""
        return f"Nats({self.shown!r})"


Transport: TypeAlias = Unix | Ws | Stdio | Nats


class _Wire(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    name: str
    slop_version: str
    transport: Unix | Ws | Stdio
    capabilities: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=64)] = ()
    version: _Text | None = None
    pid: Annotated[int, msgspec.Meta(gt=0, lt=2**31)] | None = None
    description: _Text | None = None


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_wires: Final = msgspec.json.Decoder(_Wire)


class Descriptor(msgspec.Struct, frozen=True):
    """One app that can be connected to. `Descriptor.read` never returns an unsafe one."""

    id: str
    name: str
    transport: Transport
    capabilities: tuple[str, ...] = ("state",)
    pid: int | None = None
    version: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        problem = app_id_problem(self.id) or app_name_problem(self.name)
        if problem is not None:
            raise InvalidInput(problem)
        if reads_as_own(self.id):
            raise InvalidInput(f"the id {self.id!r} is kept for an app of the host's own")
        # It is printed in lists of one line each, where a control character could fake a line.
        if _CONTROL.search(self.description or ""):
            raise InvalidInput("an app's description must not contain control characters")
        match self.transport:
            case Unix(path):
                if not path.startswith("/") or "\0" in path or "/../" in f"{path}/":
                    raise InvalidInput(f"not an absolute socket path: {path[:80]!r}")
                if len(path.encode()) > _SOCKET_PATH_BYTES:
                    raise InvalidInput(f"a socket path has at most {_SOCKET_PATH_BYTES} bytes")
            case Ws(url=url):
                _check_url(url)
            case Nats(url=url):
                NatsUrl.read(url)
            case Stdio(command):
                if not command[0] or any("\0" in word for word in command):
                    raise InvalidInput("a command must be words, the first of them not empty")

    @classmethod
    def read(cls, data: bytes) -> Descriptor:
        """Read a descriptor file's content. Raises InvalidInput naming what is wrong with it."""
        if len(data) > DESCRIPTOR_BYTES:
            raise InvalidInput(f"a descriptor has at most {DESCRIPTOR_BYTES} bytes")
        if nests_deeper(data, NESTING):
            raise InvalidInput(f"not a descriptor: nested deeper than {NESTING} levels")
        try:
            wire = _wires.decode(text_from_bytes(data))
        except msgspec.DecodeError as error:
            raise InvalidInput(f"not a descriptor: {error}") from None
        if wire.slop_version.split(".")[0] != SLOP_VERSION.split(".")[0]:
            raise InvalidInput(f"speaks SLOP {wire.slop_version[:20]}, not {SLOP_VERSION}")
        return cls(
            wire.id, wire.name, wire.transport, wire.capabilities,
            wire.pid, wire.version, wire.description,
        )  # fmt: skip

    def write(self) -> bytes:
        """Write the content of its file."""
        assert not isinstance(self.transport, Nats)  # noqa: S101 - see there
        wire = _Wire(
            self.id, self.name, SLOP_VERSION, self.transport, self.capabilities,
            self.version, self.pid, self.description,
        )  # fmt: skip
        return msgspec.json.format(msgspec.json.encode(wire)) + b"\n"

    @property
    def address(self) -> str:
        """Where it is, as the command line spells addresses."""
        match self.transport:
            case Unix(path):
                return f"unix:{path}"
            case Ws(url=url):
                return url
            case Stdio(command):
                return f"stdio:{command[0]}"
            case Nats():
                return self.transport.shown


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)  # raises where a bracket is not closed
        local = parts.scheme in {"ws", "wss"} and is_loopback(parts.hostname or "")
        _ = parts.port  # raises where it is no number
        local = local and parts.username is None and parts.password is None
    except ValueError:
        local = False
    if not local:
        raise InvalidInput(f"not a WebSocket on this machine: {url[:80]!r}")
