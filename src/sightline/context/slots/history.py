"""The conversation so far, as a strategy asks for it.

Every question is answered in whole units: a tool call never comes without its
results. A unit that an answer would have to split is left out of it, so an answer
may be shorter than asked for, and is never longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import index as as_index

from sightline.context.messages.parts import Message, Role, units_of
from sightline.context.tokens.tokens import Counter
from sightline.errors import InvalidInput


class History:
    """Messages in the order they were said, without the input of this turn.

    It has a length, can be walked and indexed, and is not sliced: that would split units.
    """

    def __init__(self, messages: Sequence[Message], counter: Counter) -> None:
        self._messages = tuple(messages)
        self._counter = counter

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: int) -> Message:
        return self._messages[as_index(index)]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @property
    def last_user(self) -> Message | None:
        """The latest message of the user."""
        return self._last("user")

    @property
    def last_assistant(self) -> Message | None:
        """The latest message of the model."""
        return self._last("assistant")

    def range(self, from_end: int, to_end: int = 0) -> list[Message]:
        """Return the messages from the `from_end`-th last up to the `to_end`-th last.

        Both count from the end and the second is not included: `range(10, 0)` are the
        last ten, `range(10, 4)` the six before the last four.
        """
        _check_count("from_end", from_end)
        _check_count("to_end", to_end)
        start = max(0, len(self) - from_end)
        stop = max(0, len(self) - to_end)
        inside = (u for u in self._units if start <= u[0] and u[-1] < stop)
        return [self._messages[index] for index in sorted(i for unit in inside for i in unit)]

    def recent(self, count: int) -> list[Message]:
        """Return the last so many messages."""
        return self.range(count, 0)

    def groups(self, count: int) -> list[Message]:
        """Return the last so many groups, each a user's message and what followed; 0 is all."""
        _check_count("count", count)
        starts = [index for index, message in enumerate(self) if message.role == "user"]
        if count == 0 or count >= len(starts):
            return list(self._messages)
        return self.range(len(self) - starts[-count], 0)

    def by_tokens(self, tokens: int) -> list[Message]:
        """Return the newest messages that weigh so many tokens at most."""
        _check_count("tokens", tokens)
        weights = self._counter.weigh(self._messages)
        kept: list[int] = []
        for unit in reversed(self._units):
            tokens -= sum(weights[index] for index in unit)
            if tokens < 0:
                break
            kept += unit
        return [self._messages[index] for index in sorted(kept)]

    def recent_text(self, count: int) -> str:
        """Return what was said in the last so many messages, one `role: text` per line."""
        return "\n".join(
            f"{message.role}: {message.text}" for message in self.recent(count) if message.text
        )

    @cached_property
    def _units(self) -> list[tuple[int, ...]]:
        return units_of(self._messages)

    def _last(self, role: Role) -> Message | None:
        return next((m for m in reversed(self._messages) if m.role == role), None)


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or value < 0:
        raise InvalidInput(f"history, {name}: {value!r} is not a count")
