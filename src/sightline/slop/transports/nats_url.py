"""Addresses of brokers, and of apps on them; read without the library that connects to one.

nats://127.0.0.1:4222/mail              an app on a broker; without /mail the broker itself
nats+tls://ana:secret@broker.example/mail    encrypted, with a name and a password
nats+tls://broker.example/mail?creds=/run/secrets/ana.creds    with a file of NATS's own
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

import msgspec
from msgspec.structs import replace

from sightline.errors import InvalidInput, MissingExtra
from sightline.slop.protocol.ids import app_id_problem
from sightline.slop.transports.door import is_loopback

_PORT: Final = 4222
# What we call them, and what the library does.
_SCHEMES: Final = {"nats": "nats", "nats+tls": "tls"}
_FORM: Final = "nats://HOST:PORT/APP or nats+tls://HOST:PORT/APP?creds=FILE"
_IN_CLEAR: Final = "a password or token goes over nats+tls:// only, or to this machine"


def nats_module(name: str) -> Any:
    """Load what speaks to brokers. Raises MissingExtra without the library that it takes."""
    if importlib.util.find_spec("nats") is None:
        from sightline._distribution import install

        raise MissingExtra(f"a broker takes a package: {install('nats')}")
    return importlib.import_module(f"sightline.slop.transports.{name}")


def is_nats(address: str) -> bool:
    """Tell whether an address is that of a broker or of an app on one."""
    return address.partition("://")[0] in _SCHEMES


class NatsUrl(msgspec.Struct, frozen=True):
    """The address of a broker, and perhaps of an app there, with what it takes to get in."""

    server: str
    app: str = ""
    user: str | None = None
    password: str | None = None
    token: str | None = None
    credentials: str | None = None

    @classmethod
    def read(cls, address: str, token: str | None = None) -> NatsUrl:
        """Read `nats[+tls]://[USER:PASSWORD@|TOKEN@]HOST[:PORT][/APP][?creds=FILE]`.

        Raises InvalidInput, without what may be secret in it.
        """
        try:
            parts = urlsplit(address)
            host, port = parts.hostname, parts.port or _PORT
            query = parse_qs(parts.query, strict_parsing=bool(parts.query))
            [credentials] = query.get("creds", [None])  # A second name is a ValueError, too.
        except ValueError:
            raise InvalidInput(f"not the address of a broker: {_FORM}") from None
        app = parts.path.strip("/")
        if parts.scheme not in _SCHEMES or not host or query.keys() - {"creds"} or parts.fragment:
            raise InvalidInput(f"not the address of a broker: {_FORM}")
        problem = app_id_problem(app) if app else None
        if problem is not None:
            raise InvalidInput(f"nats://{host}: {problem}")
        user = None if parts.username is None else unquote(parts.username)
        password = None if parts.password is None else unquote(parts.password)
        if user is not None and password is None:
            user, token = None, user if token is None else token
        is_clear = parts.scheme == "nats" and not is_loopback(host)
        if is_clear and (password is not None or token is not None):
            raise InvalidInput(f"nats://{host}: {_IN_CLEAR}")
        named = f"[{host}]" if ":" in host else host
        server = f"{_SCHEMES[parts.scheme]}://{named}:{port}"
        return cls(server, app, user, password, token, credentials)

    def of_app(self, app_id: str) -> NatsUrl:
        """The address of an app on this broker; of the broker itself if the id is empty."""
        return replace(self, app=app_id)

    @property
    def whole(self) -> str:
        """The address with everything in it, as `read` takes it."""
        secret = "" if self.token is None else f"{quote(self.token, safe='')}@"
        if self.user is not None:
            secret = f"{quote(self.user, safe='')}:{quote(self.password or '', safe='')}@"
        query = "" if self.credentials is None else f"?creds={quote(self.credentials)}"
        scheme, _, rest = self.shown.partition("://")
        return f"{scheme}://{secret}{rest}{query}"

    @property
    def shown(self) -> str:
        """The address for people and rules, without what is secret."""
        scheme, _, rest = self.server.partition("://")
        return f"{'nats+tls' if scheme == 'tls' else scheme}://{rest}/{self.app}"

    def __repr__(self) -> str:
        """Leave out what is secret: what is printed or logged is read by others."""
        return f"NatsUrl({self.shown!r})"
