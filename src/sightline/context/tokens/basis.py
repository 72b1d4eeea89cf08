"""By which rules a model's tokens are counted. Data, each row with its source.

A basis is a tokenizer (or none), the tokens that a vendor's message format adds
around the content, and its rule for images. Where the tokenizer is public the
text counts are exact; everything else starts as an estimate times a cautious
factor that reported usage corrects (see `estimate`).
"""

from __future__ import annotations

import math
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Final

import msgspec

from sightline.context.messages.attach import image_head
from sightline.context.messages.parts import File

# Encodings whose vocabulary is inside the wheel of the `tokens` extra.
ENCODINGS: Final = ("o200k_base", "cl100k_base", "o200k_harmony")


class Overhead(msgspec.Struct, frozen=True):
    """Tokens that a vendor's format adds around what was said."""

    per_request: int = 0
    per_message: int = 0
    per_tool_call: int = 0
    per_tool_result: int = 0


class Basis(msgspec.Struct, frozen=True):
    """How one family of models counts. `encoding` is None where no tokenizer is public."""

    encoding: str | None
    overhead: Overhead = Overhead()
    image_rule: str = "openai_tiles"
    start_factor: float = 1.0
    exact: bool = True


PLAIN: Final = Overhead()

# OpenAI cookbook, "How to count tokens with tiktoken": every message is framed by 3
# tokens and every reply is primed with 3. Frames of tool calls are not documented: an
# allowance.
OPENAI_FRAME: Final = Overhead(per_request=3, per_message=3, per_tool_call=4, per_tool_result=2)
# The others publish no frame: an allowance, absorbed by the factor once usage is reported.
OTHER_FRAME: Final = Overhead(per_request=4, per_message=4, per_tool_call=8, per_tool_result=8)

O200K: Final = Basis("o200k_base", OPENAI_FRAME)
# Later OpenAI models are not in tiktoken's table: same basis, but marked as an estimate.
O200K_ASSUMED: Final = Basis("o200k_base", OPENAI_FRAME, exact=False)
CL100K: Final = Basis("cl100k_base", OPENAI_FRAME)
HARMONY: Final = Basis("o200k_harmony", OPENAI_FRAME)
CLAUDE: Final = Basis(None, OTHER_FRAME, "anthropic", 1.2, exact=False)
GEMINI: Final = Basis(None, OTHER_FRAME, "gemini", 1.05, exact=False)
UNKNOWN: Final = Basis(None, OTHER_FRAME, "openai_tiles", 1.1, exact=False)

# The longest prefix that matches wins. The OpenAI rows are tiktoken 0.14's model table.
MODEL_PREFIXES: Final[dict[str, Basis]] = {
    "gpt-3.5": CL100K,
    "gpt-35-turbo": CL100K,
    "gpt-4": CL100K,
    "text-embedding-3": CL100K,
    "text-embedding-ada-002": CL100K,
    "gpt-4o": O200K,
    "chatgpt-4o": O200K,
    "gpt-4.1": O200K,
    "gpt-4.5": O200K,
    "gpt-5": O200K,
    "o1": O200K,
    "o3": O200K,
    "o4-mini": O200K,
    "gpt-oss": HARMONY,
    "gpt-6": O200K_ASSUMED,
    "claude": CLAUDE,
    "gemini": GEMINI,
}


def basis_of(model: str) -> Basis:
    """Return the basis of a model id; routing prefixes (`openai/…`, `ft:…`) are ignored."""
    name = model.rsplit("/", 1)[-1].removeprefix("ft:").lower()
    matching = [prefix for prefix in MODEL_PREFIXES if name.startswith(prefix)]
    return MODEL_PREFIXES[max(matching, key=len)] if matching else UNKNOWN


BYTES_PER_TOKEN: Final = 4
# RFC 2397; the first bytes of an image, of which four characters hold three, say its size.
_BASE64: Final = re.compile(r"data:[^,]{0,200};base64,")
_HEAD: Final = 128 * 1024
UNKNOWN_FILE_TOKENS: Final = 3000  # the upper end of what Anthropic states for a PDF page


def file_tokens(file: File, image_rule: str) -> int:
    """Weigh a file by its declared cost, its vendor's image rule, or its size.

    What is not declared is read in the file itself, where a `data:` address has it.
    """
    if file.tokens is not None:
        return file.tokens
    content = _BASE64.match(file.uri)
    if file.mime.startswith("image/"):
        width, height = file.width or 0, file.height or 0
        if content and not (width and height):
            width, height = _image_size(file.uri[content.end() : content.end() + _HEAD])
        return IMAGE_RULES[image_rule](width, height)
    size = file.size
    if size is None and content:
        size = (len(file.uri) - content.end()) * 3 // 4
    return UNKNOWN_FILE_TOKENS if size is None else math.ceil(size / BYTES_PER_TOKEN)


def _image_size(data: str) -> tuple[int, int]:
    try:
        head = image_head(b64decode(data))
    except ValueError:
        return 0, 0
    return (0, 0) if head is None else (head.width or 0, head.height or 0)


def _openai_tiles(width: int, height: int) -> int:
    """OpenAI, "Images and vision", high detail: fit 2048², short side 768, 170 per 512² + 85."""
    if not (width and height):
        width = height = 1024
    shrink = min(1.0, 2048 / max(width, height))
    shrink = min(shrink, 768 / min(width, height))
    tiles = math.ceil(width * shrink / 512) * math.ceil(height * shrink / 512)
    return 85 + 170 * tiles


def _anthropic(width: int, height: int) -> int:
    """Anthropic, "Vision": at most 1568 on the long side, then width x height / 750."""
    if not (width and height):
        return 1600
    shrink = min(1.0, 1568 / max(width, height))
    return min(1600, math.ceil(width * shrink * height * shrink / 750))


def _gemini(width: int, height: int) -> int:
    """Gemini, "Understand and count tokens": 258 up to 384², else 258 per 768² tile."""
    if not (width and height) or (width <= 384 and height <= 384):
        return 258
    return 258 * math.ceil(width / 768) * math.ceil(height / 768)


IMAGE_RULES: Final[dict[str, Callable[[int, int], int]]] = {
    "openai_tiles": _openai_tiles,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
