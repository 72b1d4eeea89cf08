"""Who gets in at the browser bridge, decided from what a request says and whose it is. Pure.

Every user of the machine can connect to loopback, and so can every page in a browser. So

- another user is rejected unless the gate `admits_others`. Then, and where the kernel has no
  answer, a token is needed, unless the user has said `open`;
- a `Host` must be this port by a loopback name: a name that was pointed at this machine is none;
- `/slop-bridge` is for extensions (by their `Origin`, which no page can forge) and for programs
  with the token; no page gets in, whatever it shows;
- an extension shows the token, once for all, or was agreed to; a wrong token is never overlooked;
- `/slop` is for programs of the user, for pages on the list, and for pages that a program of the
  user serves on loopback.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Literal, TypeAlias

from sightline.slop.transports.door import Refusal, Visitor, is_same_secret

APP_PATH: Final = "/slop"
BRIDGE_PATH: Final = "/slop-bridge"
_EXTENSION: Final = re.compile(r"(?:chrome|moz|safari-web)-extension://[A-Za-z0-9-]{1,64}")
_LOCAL_PAGE: Final = re.compile(r"(https?)://(?:localhost|127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?")
_NEEDS_TOKEN: Final = "this connection is not known to be yours: show the token"
_PORTS: Final = {"http": 80, "https": 443}

Guest: TypeAlias = Literal["app", "extension", "consumer"]


def is_extension(origin: str) -> bool:
    """Tell whether an origin is that of a browser's extension."""
    return _EXTENSION.fullmatch(origin) is not None


@dataclass(slots=True)
class BridgeGate:
    """What is asked of whoever connects. `agreed` are extensions that the user said yes to."""

    token: str
    uid: int
    origins: frozenset[str] = frozenset()
    agreed: set[str] = field(default_factory=set)
    is_open: bool = False
    admits_others: bool = False

    def judge(
        self,
        path: str,
        port: int,
        visitor: Visitor,
        owner: int | None,
        listener: Callable[[int], int | None],
    ) -> Guest | Refusal:
        """Return the role of a visitor, or why it is rejected.

        `owner` is the answer of `connection_owner`. `listener` returns the user that serves a port
        of loopback.
        """
        hosts, origins = visitor.values("host"), visitor.values("origin")
        # RFC 9112 §3.2: a request has exactly one Host.
        if len(hosts) != 1 or hosts[0].lower() not in {f"127.0.0.1:{port}", f"localhost:{port}"}:
            return _refused("this Host is not allowed")
        if path not in {APP_PATH, BRIDGE_PATH}:
            return Refusal(HTTPStatus.NOT_FOUND, f"{APP_PATH} is for apps")
        if len(origins) > 1:
            return _refused("this Origin is not allowed")
        is_own = owner in {0, self.uid}
        if not is_own and owner is not None and not self.admits_others:
            return _refused("another user's connection")
        token = visitor.token
        has_token = token is not None and is_same_secret(token, self.token)
        if token is not None and not has_token:
            return Refusal(HTTPStatus.UNAUTHORIZED, "that is not the token")
        is_known = is_own or has_token or self.is_open
        origin = origins[0] if origins else None
        if path == BRIDGE_PATH:
            return self._bridge(origin, has_token=has_token, is_known=is_known)
        if not is_known:
            return Refusal(HTTPStatus.UNAUTHORIZED, _NEEDS_TOKEN)
        if origin is None or origin in self.origins or self._serves(origin, port, listener):
            return "app"
        return _refused("this Origin is not allowed")

    def may_ask(self, origin: str, owner: int | None) -> bool:
        """Tell whether the user may be asked about an extension that was refused."""
        return is_extension(origin) and (owner == self.uid or (owner is None and self.is_open))

    def _bridge(self, origin: str | None, *, has_token: bool, is_known: bool) -> Guest | Refusal:
        if origin is None:
            if has_token:
                return "consumer"
            return Refusal(HTTPStatus.UNAUTHORIZED, "a consumer shows the token")
        if not is_extension(origin):
            return _refused("no page gets in here")
        if not is_known:
            return Refusal(HTTPStatus.UNAUTHORIZED, _NEEDS_TOKEN)
        if has_token or origin in self.origins or origin in self.agreed:
            return "extension"
        return _refused("this extension is not known yet")

    def _serves(self, origin: str, own_port: int, listener: Callable[[int], int | None]) -> bool:
        """Tell whether a page is served on loopback, by another program of the same user."""
        local = _LOCAL_PAGE.fullmatch(origin)
        if local is None:
            return False
        port = int(local[2] or _PORTS[local[1]])
        return 0 < port < 1 << 16 and port != own_port and listener(port) == self.uid


def _refused(reason: str) -> Refusal:
    return Refusal(HTTPStatus.FORBIDDEN, reason)
