"""The strategies that come with Sightline. Each is an ordinary strategy, and short."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from sightline.context.slots.prompt import Prompt
from sightline.context.slots.strategy import Context, Strategy


class LayoutShares(msgspec.Struct, frozen=True):
    """Shares of the budget; `slack` is the share by which history folds more than it must."""

    history_share: Annotated[float, Meta(ge=0.1, le=0.9)] = 0.6
    slack: Annotated[float, Meta(ge=0, le=0.5)] = 0.09
    state_share: Annotated[float, Meta(ge=0, le=1)] = 0.15


class StableLayout:
    """The default layout: everything that changes every turn stands behind the boundary.

        system · guidelines · instructions · history · input
        ║ memos · anchor · scratchpad · hooks · mode · apps · state

    The shares of history and tail add up to nine tenths of the budget. So a tail that
    grows takes nothing from the history while the other slots stay within the last
    tenth, what hooks have to say included, and the history is cut on a grid: between two
    folds the prefix is the same bytes, turn after turn, and a fold leaves at least 85 % of it.
    """

    name = "sightline"
    config = LayoutShares

    def on_context_build(self, ctx: Context) -> Prompt:
        """Add the slots of one turn, those that change every turn as volatile ones."""
        add, layers = ctx.slots.add, ctx.layers
        add("system", layers.system, role="system", priority=100, stability="frozen")
        add("guidelines", layers.guidelines, role="system", priority=90, stability="frozen")
        if layers.instructions:
            add(
                "instructions", layers.instructions, role="system", priority=85,
                stability="frozen", max_ratio=0.25, trim_behavior="char", keep="head",
            )  # fmt: skip
        share, slack = ctx.config.history_share, ctx.config.slack
        add("history", list(ctx.history), max_ratio=share, slack=slack)
        add("input", ctx.input, priority=80, trim_behavior="char", keep="middle-out")
        for slot, content, priority, share in (
            ("memos", layers.memos, 20, 0.03),
            ("anchor", layers.anchor, 60, 0.04),
            ("scratchpad", layers.scratchpad, 30, 0.04),
            *([("hooks", layers.hooks, 50, 0.04)] if layers.hooks else ()),
        ):
            add(
                slot, content, priority=priority, max_ratio=share,
                stability="volatile", trim_behavior="char", keep="head",
            )  # fmt: skip
        if layers.mode:
            add("mode", layers.mode, priority=75, stability="volatile")
        # Blocks with an opening and a closing tag: there whole, or not at all.
        add("apps", layers.apps, priority=40, max_ratio=0.04, stability="volatile")
        state_share = min(ctx.config.state_share, 0.9)
        add("state", layers.state, priority=70, max_ratio=state_share, stability="volatile")
        return ctx.slots.render()


class ClassicWindow(msgspec.Struct, frozen=True):
    """How many groups are shown; 0 is all."""

    window: Annotated[int, Meta(ge=0)] = 0


class ClassicLayout:
    """The layers of std::slop, in its order: state and scratchpad stand before the history.

    std::slop, context management §3, the context layers approach:

        system (with memos) · guidelines · instructions · anchor · scratchpad
        · history (last N groups) · input

    Simple to read, and the prefix ends where the state begins: every change of state
    voids the cache of the whole history behind it.
    """

    name = "classic"
    config = ClassicWindow

    def on_context_build(self, ctx: Context) -> Prompt:
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


class MinimalLayout:
    """System prompt, as much history as fits, the input; the mode where one is told."""

    name = "minimal"

    def on_context_build(self, ctx: Context) -> Prompt:
        """Add the slots of one turn: system prompt, history, input."""
        ctx.slots.add("system", ctx.layers.system, role="system", priority=100)
        ctx.slots.add("history", list(ctx.history))
        ctx.slots.add("input", ctx.input, priority=90, trim_behavior="char", keep="middle-out")
        if ctx.layers.mode:
            ctx.slots.add("mode", ctx.layers.mode, priority=90, stability="volatile")
        return ctx.slots.render()


BUILT_IN: Final = {
    layout.name: Strategy.of(layout, origin="built in")
    for layout in (StableLayout, ClassicLayout, MinimalLayout)
}
DEFAULT: Final = BUILT_IN["sightline"]
