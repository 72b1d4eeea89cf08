"""One question to the model beside the conversation: for strategies, and for a new state.

Nothing of it is stored but what it cost. It has no tools, so it can do nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from sightline.agent.host.spending import prompt_price
from sightline.agent.models.base import Model
from sightline.agent.turn.steps import Spent
from sightline.context.dialects import encode
from sightline.context.dialects.events import Event, Stopped, UsageArrived
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import Options, Request
from sightline.context.messages.parts import Message
from sightline.context.slots.slots import Budget, Slots
from sightline.context.tokens.tokens import Counter
from sightline.errors import ModelFailed, SightlineError


class SideModel(msgspec.Struct, frozen=True):
    """The model, for questions beside the conversation: a strategy's, or for a new state."""

    model: Callable[[], Awaitable[Model]]
    counter: Callable[[Profile], Counter]
    account: Callable[[Model, Spent], Awaitable[None]]
    check: Callable[[float], None]

    async def call(self, prompt: str, *, max_tokens: int = 1024) -> str:
        """Complete one prompt, without tools."""
        return (await self.run([Message.of("user", prompt)], max_tokens=max_tokens)).text

    async def run(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> Message:
        """Answer a conversation. Raises what the model raises, `ModelFailed` for half an answer.

        Raises `OverBudget` if the prompt alone would pass a limit in money.
        """
        model = await self.model()
        profile = model.profile
        output_tokens = min(max_tokens, profile.max_output_tokens)
        budget = Budget.for_window(
            profile.window_tokens, profile.max_output_tokens, output_tokens=output_tokens
        )
        slots = Slots(budget, self.counter(profile))
        slots.add("messages", list(messages))
        prompt = slots.render()
        price = prompt_price(profile.prices, prompt.receipt.total, 0)
        await asyncio.to_thread(self.check, price)
        request = encode(prompt, profile, Options(max_output_tokens=output_tokens))
        spent = Spent()
        try:
            async with aclosing(stream_of(model, request)) as events:
                async for event in events:
                    if isinstance(event, UsageArrived):
                        spent = Spent(event.usage, event.cache_miss, reported=event.reported)
                    elif isinstance(event, Stopped):
                        if event.incomplete:
                            raise ModelFailed(event.detail or "the reply broke off")
                        spent = replace(spent, outcome=event.reason)
                        return event.message
            raise ModelFailed("the model ended without an answer")
        except SightlineError as error:
            spent = replace(spent, outcome=error.code, error=str(error))
            raise
        finally:
            if spent.usage is not None or spent.error:
                await self.account(model, spent)


async def stream_of(model: Model, request: Request) -> AsyncGenerator[Event, None]:
    """Stream a reply; closing this closes the model's own stream."""
    events = model.stream(request)
    try:
        async for event in events:
            yield event
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
