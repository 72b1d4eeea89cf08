"""System prompt, as much history as fits, the input; the mode where one is told. Nothing else."""

from __future__ import annotations

from sightline.context.slots.prompt import Prompt
from sightline.context.slots.strategy import Context

name = "minimal"


def on_context_build(ctx: Context) -> Prompt:
    """Add the slots of one turn: system prompt, history, input."""
    ctx.slots.add("system", ctx.layers.system, role="system", priority=100)
    ctx.slots.add("history", list(ctx.history))
    ctx.slots.add("input", ctx.input, priority=90, trim_behavior="char", keep="middle-out")
    if ctx.layers.mode:
        ctx.slots.add("mode", ctx.layers.mode, priority=90, stability="volatile")
    return ctx.slots.render()
