"""Sightline, the context engine: see and act on live apps, remember, and keep the prompt warm.

The names below are the public surface, and so are those of `slop`, `context`, `agent`, `config`,
`demo`, `errors`, `events`, `testing` and the three adapters below it. Each is loaded when it is
first used, so that `import sightline` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline._lazy import lazily

if TYPE_CHECKING:
    __version__: str
    from sightline.adapters.hub import AgentHub as Hub
    from sightline.adapters.tools import ActionQuestion
    from sightline.agent.host import Host
    from sightline.context.dialects.sdk import Messages, cached
    from sightline.context.ledger import Ledger
    from sightline.context.messages.parts import Message
    from sightline.context.slots.prompt import Prompt
    from sightline.context.slots.slots import Budget, Slots
    from sightline.errors import ActionError, InvalidTree, SightlineError, Violation
    from sightline.slop.app.app import App
    from sightline.slop.app.descriptor import NodeDescriptor
    from sightline.slop.app.parameters import Call
    from sightline.slop.hub.client import Client
    from sightline.slop.protocol.codec import decode as decode_tree
    from sightline.slop.protocol.codec import encode as encode_tree
    from sightline.slop.protocol.codec import from_value as tree_from_value
    from sightline.slop.protocol.diff import diff
    from sightline.slop.protocol.ids import legal_id
    from sightline.slop.protocol.patch import Op, apply
    from sightline.slop.protocol.text import format_tree
    from sightline.slop.protocol.tree import Affordance, ContentRef, Meta, Node
    from sightline.slop.protocol.view import Projector, View, project
    from sightline.slop.protocol.world import World

__all__ = [
    "ActionError",
    "ActionQuestion",
    "Affordance",
    "App",
    "Budget",
    "Call",
    "Client",
    "ContentRef",
    "Host",
    "Hub",
    "InvalidTree",
    "Ledger",
    "Message",
    "Messages",
    "Meta",
    "Node",
    "NodeDescriptor",
    "Op",
    "Projector",
    "Prompt",
    "SightlineError",
    "Slots",
    "View",
    "Violation",
    "World",
    "apply",
    "cached",
    "decode_tree",
    "diff",
    "encode_tree",
    "format_tree",
    "legal_id",
    "project",
    "tree_from_value",
]

_public, __dir__ = lazily(
    __name__,
    {
        "sightline.errors": "ActionError InvalidTree SightlineError Violation",
        "sightline.slop.app.app": "App",
        "sightline.slop.app.parameters": "Call",
        "sightline.slop.app.descriptor": "NodeDescriptor",
        "sightline.slop.hub.client": "Client",
        "sightline.agent.host": "Host",
        "sightline.adapters.hub": "AgentHub:Hub",
        "sightline.adapters.tools": "ActionQuestion",
        "sightline.context.dialects.sdk": "Messages cached",
        "sightline.context.ledger": "Ledger",
        "sightline.context.messages.parts": "Message",
        "sightline.context.slots.prompt": "Prompt",
        "sightline.context.slots.slots": "Budget Slots",
        "sightline.slop.protocol.codec": (
            "decode:decode_tree encode:encode_tree from_value:tree_from_value"
        ),
        "sightline.slop.protocol.diff": "diff",
        "sightline.slop.protocol.ids": "legal_id",
        "sightline.slop.protocol.patch": "Op apply",
        "sightline.slop.protocol.text": "format_tree",
        "sightline.slop.protocol.tree": "Affordance ContentRef Meta Node",
        "sightline.slop.protocol.view": "Projector View project",
        "sightline.slop.protocol.world": "World",
    },
)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from sightline._distribution import __version__

        return __version__
    return _public(name)
