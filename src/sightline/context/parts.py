"""Messages and their parts, in no vendor's format.

A message is a role and a tuple of parts. Parts say what was meant (text, a tool
call, its result, reasoning, a file); a dialect turns them into a vendor's JSON
and back. Where a vendor demands that its own bytes come back unchanged (signed
reasoning, for example), the part carries them in `raw`, tagged with the
strategy that wrote them; every other reader ignores it.

Values are frozen, compare by content, and survive `encode` → `decode`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

__all__ = [
    "File",
    "Message",
    "Part",
    "Raw",
    "Reasoning",
    "Role",
    "Text",
    "ToolCall",
    "ToolResult",
]

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Raw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A vendor's own form of a part, to be replayed to that strategy and to nobody else."""

    strategy: str
    data: Any


class _Part(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind"
):
    pass


class Text(_Part, frozen=True, tag="text"):
    """Plain text, as said or as shown."""

    text: str
    raw: Raw | None = None


class ToolCall(_Part, frozen=True, tag="tool_call"):
    """The model asks for a tool. `id` is ours; dialects map it to what their vendor accepts."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    raw: Raw | None = None


class ToolResult(_Part, frozen=True, tag="tool_result"):
    """What a tool answered to the call with this id."""

    call_id: str
    content: str
    name: str = ""
    is_error: bool = False
    raw: Raw | None = None


class Reasoning(_Part, frozen=True, tag="reasoning"):
    """The model's own thinking, where the vendor shows it."""

    text: str
    raw: Raw | None = None


class File(_Part, frozen=True, tag="file"):
    """A reference to an image or file; its bytes live elsewhere."""

    uri: str
    mime: str
    name: str = ""
    size: int | None = None
    raw: Raw | None = None


Part: TypeAlias = Text | ToolCall | ToolResult | Reasoning | File


class Message(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of a conversation."""

    role: Role
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, role: Role, text: str) -> Message:
        """Make a message of one text."""
        return cls(role, (Text(text),))

    @property
    def text(self) -> str:
        """The text parts, joined by blank lines."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResult))
