"""What the chat needs of a host beside what its commands do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from sightline.cli.commands.host import Host
from sightline.context.parts import File
from sightline.events import HostEvent

__all__ = ["ChatHost"]


class ChatHost(Host, Protocol):
    """A host that can be talked to."""

    def ask(self, text: str, files: Sequence[File] = ()) -> AsyncIterator[HostEvent]: ...
    def answer(self, call_id: str, approved: bool, remember: bool = False) -> None: ...
    def cancel(self) -> None: ...
    def events(self) -> AsyncIterator[HostEvent]: ...
