"""The file of what this user typed at the chat's prompt, in all sessions."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from platformdirs import user_state_path

from sightline.context.messages.gate import guarded_text


def history_path() -> Path:
    """Say where it is."""
    return user_state_path("sightline", appauthor=False) / "history"


def typed_lines(messages: Collection[str]) -> int:
    """Count the entries that became one of these messages."""
    return len(_blocks()) - len(_others(messages))


def forget_typed_lines(messages: Collection[str]) -> None:
    """Take the entries out that became one of these messages. Raises OSError."""
    kept = _others(messages)
    if len(kept) == len(_blocks()):
        return
    path = history_path()
    draft = path.with_name(f"{path.name}.tmp")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"".join(kept))
    draft.replace(path)


def _blocks() -> list[bytes]:
    """Take the file apart, as prompt_toolkit writes it: `# when`, and a `+` before each line."""
    try:
        lines = history_path().read_bytes().splitlines(keepends=True)
    except OSError:
        return []
    blocks: list[bytes] = []
    for line in lines:
        if line.startswith(b"#") or not blocks:
            blocks.append(b"")
        blocks[-1] += line
    return blocks


def _others(messages: Collection[str]) -> list[bytes]:
    # What was attached stands behind the words, after an empty line.
    words = {text for message in messages for text in (message, *_beginnings(message))}
    return [block for block in _blocks() if _typed(block) not in words]


def _beginnings(message: str) -> list[str]:
    paragraphs = message.split("\n\n")
    return ["\n\n".join(paragraphs[:end]) for end in range(1, min(len(paragraphs), 50))]


def _typed(block: bytes) -> str:
    lines = block.decode(errors="replace").splitlines()
    return guarded_text("\n".join(line[1:] for line in lines if line.startswith("+")))
