"""Dialects: pure translation between a prompt and one vendor API's JSON.

request = encode(prompt, profile_for("anthropic", "claude-sonnet-5-5"))
decoder = decoder_for(request)
for chunk in response:
    for event in decoder.feed(chunk):
        …

or, of a reply that is not streamed (`Options(stream=False)`), `decoder.whole(body)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from sightline.context.dialects import (
    anthropic,
    bedrock,
    gemini,
    ollama,
    openai_chat,
    openai_responses,
)
from sightline.context.dialects.decoder import Decoder, decode
from sightline.context.dialects.events import Usage
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.profiles import endpoints, profile_for
from sightline.context.dialects.request import Options, Request, RequestDraft, Thinking, assemble
from sightline.context.dialects.stored import Stored
from sightline.context.messages.parts import Message
from sightline.context.slots.prompt import Prompt
from sightline.errors import InvalidInput

__all__ = [
    "DIALECTS",
    "STRATEGIES",
    "Decoder",
    "Options",
    "Profile",
    "Request",
    "decode",
    "decoder_for",
    "encode",
    "endpoints",
    "parse",
    "profile_for",
    "usage_from",
]


class Dialect(NamedTuple):
    """One vendor API, both ways; `bound` is the default for reasoning bound to its prefix."""

    write: Callable[[RequestDraft], None]
    decoder: type[Decoder]
    read_stored: Callable[[Stored], Message]
    bound: Thinking | None = None


DIALECTS: Final[dict[str, Dialect]] = {
    openai_chat.NAME: Dialect(openai_chat.write, openai_chat.ChatDecoder, openai_chat.read_stored),
    openai_responses.NAME: Dialect(
        openai_responses.write, openai_responses.ResponsesDecoder, openai_responses.read_stored
    ),
    anthropic.NAME: Dialect(
        anthropic.write, anthropic.AnthropicDecoder, anthropic.read_stored, anthropic.BOUND
    ),
    gemini.NAME: Dialect(gemini.write, gemini.GeminiDecoder, gemini.read_stored),
    bedrock.NAME: Dialect(
        bedrock.write, bedrock.BedrockDecoder, bedrock.read_stored, bedrock.BOUND
    ),
    ollama.NAME: Dialect(ollama.write, ollama.OllamaDecoder, ollama.read_stored),
}
# Every dialect's name is a strategy, since hosts store by it; the others are what others say.
STRATEGIES: Final[dict[str, Callable[[Stored], Message]]] = {
    "openai": openai_chat.read_stored,
    **{name: dialect.read_stored for name, dialect in DIALECTS.items()},
    "gemini_gca": gemini.read_stored_gca,
}


def encode(prompt: Prompt, profile: Profile, options: Options | None = None) -> Request:
    """Write a prompt in the profile's dialect. Raises `InvalidInput` if it says nothing."""
    dialect = DIALECTS[profile.dialect]
    request = assemble(prompt, profile, options or Options(), dialect.write, dialect.bound)
    if request.wire.data.endswith(b":[]}"):
        raise InvalidInput(f"{profile.endpoint}: the prompt has no message that says anything")
    return request


def decoder_for(request: Request) -> Decoder:
    """Make the decoder for the response to a request; it knows the tools' own names."""
    return DIALECTS[request.profile.dialect].decoder(request.names)


def usage_from(dialect: str, reported: Any) -> Usage:
    """Read the usage object of a dialect's response; see `Decoder.read_usage`."""
    return DIALECTS[dialect].decoder.read_usage(reported)


def parse(strategy: str, data: object) -> Message:
    """Read one stored message of that strategy.

    Raise `InvalidInput` for a strategy nobody here knows and for JSON that is not
    a message of it.
    """
    reader = STRATEGIES.get(strategy)
    if reader is None:
        known = ", ".join(STRATEGIES)
        raise InvalidInput(f"no parser for the strategy {strategy!r}; there are {known}")
    if not isinstance(data, Mapping):
        raise InvalidInput(f"a message of {strategy} is an object, not {type(data).__name__}")
    try:
        message = reader(data)
        # Whatever stood in an odd place: what leaves here is a legal message.
        return msgspec.convert(msgspec.to_builtins(message), Message)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"not a message of {strategy}: {error!r}") from error
