"""Where a request's stable prefix ends, by definition and slowly.

A request with its tails and the same request without them are one and the same up to there; and
where there is no tail, a request with one. What dialects know from the pieces they write must
agree with this, but for bytes that are the same behind the boundary by chance.
"""

from __future__ import annotations

import msgspec

from sightline.context.dialects import Options, Profile, encode
from sightline.context.dialects.drift import common_start
from sightline.context.messages.parts import Message
from sightline.context.slots.prompt import Prompt
from sightline.errors import InvalidInput

__all__ = ["found_boundary", "with_tail"]


def with_tail(prompt: Prompt, *tail: Message) -> Prompt:
    """Return the prompt with another tail."""
    return msgspec.structs.replace(prompt, messages=(*prompt.prefix, *tail))


def found_boundary(prompt: Prompt, profile: Profile, options: Options) -> int | None:
    """Find the boundary by comparing; None where the other request would say nothing."""
    made = encode(prompt, profile, options).wire.data
    alone = msgspec.structs.replace(options, sent=())
    try:
        bare = encode(with_tail(prompt), profile, alone).wire.data
    except InvalidInput:
        return None
    if bare == made:
        bare = encode(with_tail(prompt, Message.of("user", "x")), profile, alone).wire.data
    return common_start(made, bare)
