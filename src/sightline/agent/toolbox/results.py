"""What a tool call came to, as a text that is safe to show to a model and to store.

Whatever a result is made of (an app's data, a file, rows of the history) passes here
once: context blocks are taken out, keys are blanked, the rest is escaped, and its length
is bounded. So a stored result never contains a tail, and what is sent is what is stored.
How much of it a prompt replays is `context.truncate`'s; the ledger keeps it all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sightline.context.messages.gate import shown_json, shown_text
from sightline.context.messages.graphemes import cut_at_or_before
from sightline.context.projection.escape import escape_text

RESULT_CHARS: Final = 200_000
# Control characters and halves of characters: no terminal obeys them, and a ledger takes the text.
_UNSHOWN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_SENTENCE_CHARS: Final = 2_500
_CUT: Final = "\n[cut here: {left:,} more characters; ask for a smaller part]"
_encoder: Final = msgspec.json.Encoder(decimal_format="number")


class Ran(msgspec.Struct, frozen=True):
    """The answer to a tool call. `ok` is False where the model must do something about it.

    `data` is what the app answered, as safe as the content; `accepted` says that it runs still.
    """

    content: str
    ok: bool = True
    data: Any = None
    accepted: bool = False

    @classmethod
    def of(cls, text: str, *, ok: bool = True) -> Ran:
        """Make a result of any text, wherever it comes from."""
        # SLOP, context injection: history has no state tails, and no text can pass for one.
        plain = _UNSHOWN.sub(_visible, text)
        safe = escape_text(shown_text(plain))
        if len(safe) > RESULT_CHARS:
            end = cut_at_or_before(safe, RESULT_CHARS)
            safe = safe[:end] + _CUT.format(left=len(safe) - end)
        return cls(safe, ok)

    @classmethod
    def failed(cls, *sentences: str) -> Ran:
        """Say what went wrong, and what to do about it. Each is cut to a few lines' length."""
        whole = (_sentence(text) for text in ("Not done", *sentences) if text)
        return cls.of(" ".join(whole), ok=False)


def safe_json(value: Any) -> Any:
    """Make a JSON value safe to show as a text is: no keys, nothing that passes for ours."""
    match shown_json(value):
        case str() as text:
            return escape_text(shown_text(_UNSHOWN.sub(_visible, text)))
        case list() | tuple() as items:
            return [safe_json(item) for item in items]
        case dict() as fields:
            return {safe_json(str(key)): safe_json(item) for key, item in fields.items()}
        case plain:
            return plain


def rendered(data: Any) -> str:
    """Write an action's data to be read: JSON, with texts of several lines as they are."""
    if isinstance(data, str):
        return data
    if not isinstance(data, Mapping):
        return _json(data)
    texts = {key: value for key, value in data.items() if _has_lines(value)}
    rest = {key: value for key, value in data.items() if key not in texts}
    blocks = [_json(rest)] if rest else []
    blocks += [f"{key}:\n{text}" for key, text in texts.items()]
    return "\n".join(blocks) or "{}"


def _visible(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _sentence(text: str) -> str:
    if len(text) > _SENTENCE_CHARS:
        return f"{text[:_SENTENCE_CHARS]}…"
    return text if text.endswith((".", "?", "!", "}")) else f"{text}."


def _has_lines(value: object) -> bool:
    return isinstance(value, str) and "\n" in value


def _json(value: object) -> str:
    return _encoder.encode(value).decode()
