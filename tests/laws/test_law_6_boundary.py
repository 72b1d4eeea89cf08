"""Law 6, the line itself: the boundary is where comparing would find it, whatever the tail.

The slow definition is in `support.boundary`. It may go on by chance: behind a tail that is not
the last thing, or that is kept, the same comma, brace and role may follow with and without it.
Those bytes promise nothing, and are not counted.
"""

from __future__ import annotations

import random

import pytest

from context.dialects.test_any_prompt import MODELS, Author
from laws.test_law_6_dialects import requests
from sightline.context.dialects import Options, Profile, Request, encode, profile_for
from sightline.context.dialects.observations import SentTail
from sightline.context.dialects.request import CachedContent
from sightline.context.messages.parts import File, Message
from sightline.context.slots.prompt import Prompt, Receipt
from sightline.errors import InvalidInput
from support.boundary import found_boundary, with_tail

PROMPTS = 4
RECEIPT = Receipt(1, "", "counted", 0, 0, 0, 1, 0, "", ())
TAILS = (
    (), (Message.of("user", "x"),), (Message.of("user", "☃ state"), Message.of("system", "hi")),
)  # fmt: skip
PLACEMENTS = [
    {},
    *(
        {"tail.plain": plain, "tail.after_tools": after}
        for plain in ("message", "into_user")
        for after in ("message", "into_user", "filler")
    ),
]
OPTIONS = (
    Options(conversation="c", previous_id="before"),
    Options(prepend=True),
    Options(thinking="strip", stream=False),
    Options(thinking="turn_append"),
    Options(cached_content=CachedContent("cachedContents/1", 1)),
)
every_model = pytest.mark.parametrize(("endpoint", "model"), MODELS)


def profiles(endpoint: str, model: str) -> list[Profile]:
    return [
        profile_for(endpoint, model, {"cache.min_tokens": 0, **placement})
        for placement in PLACEMENTS
    ]


def tried(prompt: Prompt, profile: Profile, options: Options) -> Request | None:
    try:
        return encode(prompt, profile, options)
    except InvalidInput:
        return None


def is_last(prompt: Prompt, profile: Profile, options: Options) -> bool:
    """Whether a tail is words at the very end, so that nothing can be the same behind it."""
    notes = encode(with_tail(prompt, Message.of("user", "x")), profile, options).notes
    moved = {"prepend_regression", "tail_before_tool_rounds"} & {note.code for note in notes}
    return not moved and not any(isinstance(p, File) for m in prompt.tail for p in m.parts)


@every_model
def test_the_boundary_is_where_comparing_finds_it(endpoint: str, model: str) -> None:
    exact = 0
    for number, profile in enumerate(profiles(endpoint, model)):
        author = Author(f"{endpoint} {model} {number}")
        for prompt in (author.prompt() for _ in range(PROMPTS)):
            for options in OPTIONS:
                request = tried(prompt, profile, options)
                found = None if request is None else found_boundary(prompt, profile, options)
                if request is None or found is None:
                    continue
                assert request.wire.boundary <= found
                if is_last(prompt, profile, options):
                    assert request.wire.boundary == found, request.wire.data
                    exact += 1
    assert exact > 5 * PROMPTS


@every_model
def test_the_prefix_is_the_same_with_any_words_in_the_tail_and_with_none(
    endpoint: str, model: str
) -> None:
    for number, profile in enumerate(profiles(endpoint, model)):
        author = Author(f"{model} {endpoint} {number}")
        for prompt in (author.prompt() for _ in range(PROMPTS)):
            for options in OPTIONS:
                made = [tried(with_tail(prompt, *tail), profile, options) for tail in TAILS]
                assert len({request.prefix for request in made if request is not None}) <= 1


@every_model
def test_kept_tails_are_behind_the_boundary(endpoint: str, model: str) -> None:
    kept = 0
    for number, profile in enumerate(profiles(endpoint, model)):
        chance = random.Random(number)
        sent: tuple[SentTail, ...] = ()
        for stored in requests(chance):
            prompt = Prompt((*stored, Message.of("user", "☃ now")), len(stored), RECEIPT)
            options = Options(thinking="turn_append", sent=sent)
            request = encode(prompt, profile, options)
            bare = encode(with_tail(prompt), profile, Options(thinking="turn_append"))
            found = found_boundary(prompt, profile, options)
            assert found is not None
            assert request.wire.boundary <= found
            assert bare.wire.data.startswith(request.prefix)
            kept += len(request.sent) > 1
            assert b"Observation" not in request.prefix
            sent = request.sent
    assert kept > 0
