"""Keys: where they are found, and how they are kept from being seen.

    flag > environment > keyring

The flag is `--key-file` of `ask` and `chat`, and for a program the `key` of `open_model`. A
`Key` shows where it came from and never what it is: not when it is printed, logged,
compared, copied into a message or written to disk. `reveal` is called where the connection
is given it, and where a flag takes the place of a variable.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Final, NoReturn

from sightline._lazy import lazy_pattern
from sightline.context.messages.redact import SHORTEST, know, redact

SERVICE: Final = "sightline"
_SECRET_NAME: Final = lazy_pattern(
    r"(?i)api_?key|secret|passw|token|credential|webhook|_dsn$|(?:^|_)(?:key|pat|auth|pwd)$"
    r"|(?:database|db|redis|mongo\w*|amqp|postgres\w*|mysql)_ur[il]$"
)


class Key:
    """The key of a vendor's API, which shows where it was found and never what it is."""

    __slots__ = ("_secret", "source")

    def __init__(self, secret: str, source: str) -> None:
        self._secret = secret
        self.source = source
        know(secret)

    def reveal(self) -> str:
        """Give the secret to somebody who must have it."""
        return self._secret

    def __repr__(self) -> str:
        return f"Key(from {self.source})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written anywhere")


def find_key(
    variables: Sequence[str], env: Mapping[str, str], flag: str | Key | None = None
) -> Key | None:
    """Look for a key: as given, in these variables, then in the user's keyring.

    The keyring is asked if the package `keyring` is there; an entry is that of the
    service `sightline`, with the variable's name as its user.
    """
    if isinstance(flag, Key):
        return flag
    if flag:
        return Key(flag, "the command line")
    for name in variables:
        if secret := env.get(name, "").strip():
            return Key(secret, name)
    for name in variables:
        if kept := _from_keyring(name):
            return Key(kept, f"the keyring ({name})")
    return None


def know_secrets(env: Mapping[str, str], names: Iterable[str] = ()) -> None:
    """Have the values of these variables redacted, and of all that are named like a secret.

    The name of a file is none, whatever the variable is called.
    """
    chosen = {*names, *(name for name in env if _SECRET_NAME.search(name))}
    values = (env.get(name, "").strip() for name in chosen)
    know(*(value for value in values if not (value.startswith("/") and os.path.exists(value))))


def scrub(text: str, key: Key | None) -> str:
    """Take a key out of a text that came back from outside, and whatever looks like one."""
    if key is not None and len(key.reveal()) >= SHORTEST:
        text = text.replace(key.reveal(), "[key]")
    return redact(text)


def _from_keyring(name: str) -> str | None:
    if find_spec("keyring") is None:
        return None
    import keyring
    from keyring.errors import KeyringError

    try:
        return keyring.get_password(SERVICE, name)
    except KeyringError:
        # A locked or missing store is the same as an empty one: other places may have the key.
        return None
