"""The layers of std::slop, in its order: state and scratchpad stand before the history.

std::slop, context management §3, the context layers approach:

    system (with memos) · guidelines · instructions · anchor · scratchpad
    · history (last N groups) · input

Simple to read, and the prefix ends where the state begins: every change of state
voids the cache of the whole history behind it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from sightline.context.slots.prompt import Prompt
from sightline.context.slots.strategy import Context


class ClassicWindow(msgspec.Struct, frozen=True):
    """How many groups are shown; 0 is all."""

    window: Annotated[int, Meta(ge=0)] = 0


name = "classic"
config = ClassicWindow


def on_context_build(ctx: Context) -> Prompt:
    """Add the slots of one turn, in the order of std::slop's layers."""
    add, layers = ctx.slots.add, ctx.layers
    instructions = "\n\n".join(filter(None, (layers.system, layers.memos)))
    add("system", instructions, role="system", priority=100)
    add("guidelines", layers.guidelines, role="system", priority=90)
    if layers.instructions:
        add("instructions", layers.instructions, role="system", priority=85)
    add("anchor", layers.anchor, role="system", priority=80)
    add("scratchpad", layers.scratchpad, role="system", priority=70)
    if layers.mode:
        add("mode", layers.mode, role="system", priority=85)
    add("apps", layers.apps, role="user", priority=60)
    add("state", layers.state, role="user", priority=60)
    if layers.hooks:
        add("hooks", layers.hooks, role="user", priority=60)
    add("history", ctx.history.groups(ctx.config.window))
    add("input", ctx.input, priority=95, trim_behavior="char", keep="middle-out")
    return ctx.slots.render()
