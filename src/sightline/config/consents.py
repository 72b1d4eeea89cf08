"""Consent that lasts: what the user agreed to, with the content that the user saw.

    instructions:DIRECTORY     the files of a directory that a model follows
    mcp:FILE#NAME              an MCP server that a file of a directory names

One JSON file in the user's state directory, 0600. Each part of a consent has the digest of its
content: for other content the user is asked again. The text of a part serves to show the
difference and decides nothing. Keys are blanked in it. The file is written whole, under a lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import unified_diff
from functools import lru_cache
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec
from platformdirs import user_state_path

from sightline.context.messages.redact import redact
from sightline.errors import InvalidInput
from sightline.slop.transports.owned import open_owned, open_regular, write_private

TEXT_CHARS: Final = 32_000


class ConsentPart(msgspec.Struct, frozen=True):
    """The digest of one content, and its beginning without keys."""

    digest: str = ""
    text: str = ""


Parts: TypeAlias = dict[str, ConsentPart]


class StoredConsent(msgspec.Struct, frozen=True):
    """An answer of the user to these parts, by name. `agreed` is None if there is no answer."""

    agreed: bool | None = None
    parts: Parts = {}


_consents: Final = msgspec.json.Decoder(dict[str, StoredConsent])


def get_consent(key: str) -> StoredConsent:
    """Read a consent from the user's file.

    Raises InvalidInput for a file that is damaged or that another user could have written.
    """
    with _open_consents() as consents:
        return consents.get(key, StoredConsent())


def store_consent(key: str, *, agreed: bool, parts: Parts) -> None:
    """Store a consent in place of the one before it. Blocks while another process stores one.

    Raises InvalidInput as `get_consent` does.
    """
    with _open_consents(write=True) as consents:
        consents[key] = StoredConsent(agreed, parts)


@contextmanager
def _open_consents(*, write: bool = False) -> Iterator[dict[str, StoredConsent]]:
    path, name = user_state_path("sightline", appauthor=False), "consent.json"
    consents = dict[str, StoredConsent]()
    try:
        with open_owned(path, create=True) as directory:
            if write:
                fcntl.flock(directory, fcntl.LOCK_EX)
            with suppress(FileNotFoundError), open_regular(name, within=directory) as (file, about):
                if about.st_uid != os.geteuid() or about.st_mode & 0o077:
                    raise InvalidInput("another user can write or read it")  # noqa: TRY301 - named
                consents = _consents.decode(file.read())
            yield consents
            if write:
                write_private(directory, name, msgspec.json.encode(consents))
    except (OSError, InvalidInput, msgspec.DecodeError, ValueError, RecursionError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        advice = "No consent in this file counts. If it is damaged, delete it to be asked again"
        raise InvalidInput(f"{path / name}: {why}. {advice}") from error


def parts_of(texts: Mapping[str, str]) -> Parts:
    """Digest contents by name."""
    return {name: _part(text) for name, text in texts.items()}


@lru_cache(maxsize=256)  # files are compared before each turn, and searched for keys once
def _part(text: str) -> ConsentPart:
    return ConsentPart(sha256(text.encode()).hexdigest(), redact(text)[:TEXT_CHARS])


def differences(before: StoredConsent, now: Parts) -> dict[str, str]:
    """Return a unified diff for each part that differs, empty if all digests are equal."""
    found: dict[str, str] = {}
    for name in sorted(before.parts.keys() | now.keys()):
        old, new = before.parts.get(name, ConsentPart()), now.get(name, ConsentPart())
        if old.digest != new.digest:
            was, became = (one.text.split("\n") if one.text else [] for one in (old, new))
            lines = unified_diff(was, became, name, name, lineterm="")
            found[name] = "\n".join(lines) or f"{name}: it changed where it is not shown"
    return found
