"""Dialects: pure translation between a prompt and one vendor API's JSON.

request = encode(prompt, profile_for("anthropic", "claude-sonnet-5-5"))
decoder = decoder_for(request)
for chunk in response:
    for event in decoder.feed(chunk):
        …

or, of a reply that is not streamed (`Options(stream=False)`), `decoder.whole(body)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sightline.context.dialects import (
    anthropic,
    bedrock,
    gemini,
    ollama,
    openai_chat,
    openai_responses,
)
from sightline.context.dialects.decoder import Decoder, decode
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.profiles import endpoints, profile_for
from sightline.context.dialects.request import Options, Request
from sightline.context.slots.prompt import Prompt
from sightline.errors import InvalidInput

__all__ = [
    "DIALECTS",
    "Decoder",
    "Options",
    "Profile",
    "Request",
    "decode",
    "decoder_for",
    "encode",
    "endpoints",
    "profile_for",
]


class Dialect(NamedTuple):
    """One API, both ways."""

    encode: Callable[[Prompt, Profile, Options | None], Request]
    decoder: type[Decoder]


DIALECTS: Final[dict[str, Dialect]] = {
    module.NAME: Dialect(module.encode, decoder)
    for module, decoder in (
        (openai_chat, openai_chat.ChatDecoder),
        (openai_responses, openai_responses.ResponsesDecoder),
        (anthropic, anthropic.AnthropicDecoder),
        (gemini, gemini.GeminiDecoder),
        (bedrock, bedrock.BedrockDecoder),
        (ollama, ollama.OllamaDecoder),
    )
}


def encode(prompt: Prompt, profile: Profile, options: Options | None = None) -> Request:
    """Write a prompt in the profile's dialect. Raises `InvalidInput` if it says nothing."""
    request = DIALECTS[profile.dialect].encode(prompt, profile, options)
    if request.wire.data.endswith(b":[]}"):
        raise InvalidInput(f"{profile.endpoint}: the prompt has no message that says anything")
    return request


def decoder_for(request: Request) -> Decoder:
    """Make the decoder for the response to a request; it knows the tools' own names."""
    return DIALECTS[request.profile.dialect].decoder(request.names)
