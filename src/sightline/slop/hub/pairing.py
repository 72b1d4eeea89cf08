"""The token of the browser bridge, and the extensions that were agreed to: a file of the user's.

It is made at the first start, 0600 in a directory that nobody else can change, and stays: an
extension is paired once, and every program of the user's that shows the token is a consumer.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sightline.errors import InvalidInput
from sightline.slop.transports.link import why
from sightline.slop.transports.owned import open_owned, open_regular, write_private

_TOKEN_BYTES: Final = 32
_FILE_BYTES: Final = 64 * 1024
_ORIGINS: Final = 100


class Pairing(msgspec.Struct, frozen=True):
    """What the file has."""

    token: Annotated[str, Meta(min_length=43, max_length=200, pattern="^[A-Za-z0-9_-]+$")]
    origins: tuple[str, ...] = ()


_pairings: Final = msgspec.json.Decoder(Pairing)


class PairingFile:
    """The file at a path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Pairing:
        """Read the file, or make it. Raises InvalidInput where it cannot be kept safely."""
        try:
            with open_owned(self.path.parent, create=True) as directory:
                found = self._found(directory)
                while found is None:
                    first = msgspec.json.encode(Pairing(secrets.token_urlsafe(_TOKEN_BYTES)))
                    write_private(directory, self.path.name, first, is_first=True)
                    found = self._found(directory)
                return found
        except OSError as error:
            raise InvalidInput(f"{self.path}: {why(error)}") from error

    def agree(self, origin: str) -> None:
        """Keep that the user agreed to an extension. Raises InvalidInput as `read` does."""
        pairing = self.read()
        if origin in pairing.origins:
            return
        kept = Pairing(pairing.token, (*pairing.origins, origin)[-_ORIGINS:])
        try:
            with open_owned(self.path.parent) as directory:
                write_private(directory, self.path.name, msgspec.json.encode(kept))
        except OSError as error:
            raise InvalidInput(f"{self.path}: {why(error)}") from error

    def _found(self, directory: int) -> Pairing | None:
        """Read what is there, None for nothing; what others may have written or read is removed."""
        try:
            with open_regular(self.path.name, within=directory) as (file, about):
                is_private = about.st_uid == os.getuid() and not about.st_mode & 0o077
                data = file.read(_FILE_BYTES) if is_private else b""
            return _pairings.decode(data)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            os.unlink(self.path.name, dir_fd=directory)
            return None
