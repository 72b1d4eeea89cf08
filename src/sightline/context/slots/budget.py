"""How many tokens a prompt may have.

    remaining_input_tokens = max_input_tokens - reserved_tokens

`Budget.for_window` derives the first from a model's window, which most vendors
share between input and output:

    max_input_tokens = min(input limit, window - max_output_tokens)

A model may list an output limit as large as its window; unless the caller asks
for that much output, a quarter of the window is set aside for it at most, so
that small windows keep a usable input.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sightline._keywords import NamesKeywords
from sightline.errors import DoesNotFit, InvalidInput

OUTPUT_SHARE: Final = 4  # an output nobody asked for gets one part in this many, at most


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=NamesKeywords):
    """The room of one request. `reserved_tokens` are spoken for outside the slots."""

    max_input_tokens: int
    max_output_tokens: int = 0
    reserved_tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("max_input_tokens", "max_output_tokens", "reserved_tokens"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise InvalidInput(f"budget, {name}: {value!r} is not a whole number")
            if value < 0:
                raise InvalidInput(f"budget, {name}: {value} is negative")
        if self.reserved_tokens > self.max_input_tokens:
            raise DoesNotFit(
                f"no room for a prompt: {self.max_input_tokens} input tokens"
                f" - {self.reserved_tokens} reserved = {self.remaining_input_tokens}"
            )

    @property
    def remaining_input_tokens(self) -> int:
        """What the slots share; ratios are of this."""
        return self.max_input_tokens - self.reserved_tokens

    @classmethod
    def for_window(
        cls,
        window_tokens: int,
        max_output_tokens: int,
        *,
        max_input_tokens: int | None = None,
        output_tokens: int | None = None,
        reserved_tokens: int = 0,
    ) -> Budget:
        """Make the budget of a model from its limits.

        `output_tokens` asks for that much output. Raise `DoesNotFit`, with the
        arithmetic, when nothing is left for the input.
        """
        if output_tokens is None:
            output_tokens = min(max_output_tokens, window_tokens // OUTPUT_SHARE)
        elif output_tokens > max_output_tokens:
            raise DoesNotFit(
                f"{output_tokens} output tokens asked for, the model gives {max_output_tokens}"
            )
        room = window_tokens - output_tokens
        if max_input_tokens is not None:
            room = min(room, max_input_tokens)
        if room - reserved_tokens <= 0:
            limit = "" if max_input_tokens is None else f" (input limit {max_input_tokens})"
            raise DoesNotFit(
                f"no room for a prompt: window {window_tokens} - output {output_tokens}{limit}"
                f" - {reserved_tokens} reserved = {room - reserved_tokens}"
            )
        return cls(room, output_tokens, reserved_tokens)
