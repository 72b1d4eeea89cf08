"""Sightline, the context engine: see and act on live apps, remember, and keep the prompt warm.

The names below are the public surface; each is loaded when it is first used, so
that `import sightline` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.agent.host import Host
    from sightline.context.ledger import Ledger
    from sightline.context.messages.parts import Message
    from sightline.context.slots.budget import Budget
    from sightline.context.slots.prompt import Prompt
    from sightline.context.slots.slots import Slots
    from sightline.errors import ActionError, InvalidTree, SightlineError, Violation
    from sightline.slop.app.app import App
    from sightline.slop.app.call import Call
    from sightline.slop.hub.client import Client
    from sightline.slop.hub.hub import Hub
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
    "Meta",
    "Node",
    "Op",
    "Projector",
    "Prompt",
    "SightlineError",
    "Slots",
    "View",
    "Violation",
    "World",
    "apply",
    "decode_tree",
    "diff",
    "encode_tree",
    "format_tree",
    "legal_id",
    "project",
    "tree_from_value",
]

# Public name → where it lives, and its name there if it differs.
_HOMES = {
    "ActionError": "errors",
    "Affordance": "protocol.tree",
    "App": "app.app",
    "Client": "hub.client",
    "Budget": "context.budget",
    "Call": "app.call",
    "ContentRef": "protocol.tree",
    "Host": "host",
    "Hub": "hub.hub",
    "InvalidTree": "errors",
    "Ledger": "ledger",
    "Message": "context.parts",
    "Meta": "protocol.tree",
    "Node": "protocol.tree",
    "Op": "protocol.patch",
    "Projector": "protocol.view",
    "Prompt": "context.prompt",
    "SightlineError": "errors",
    "Slots": "context.slots",
    "View": "protocol.view",
    "Violation": "errors",
    "World": "protocol.world",
    "apply": "protocol.patch",
    "decode_tree": "protocol.codec:decode",
    "diff": "protocol.diff",
    "encode_tree": "protocol.codec:encode",
    "format_tree": "protocol.text",
    "legal_id": "protocol.ids",
    "project": "protocol.view",
    "tree_from_value": "protocol.codec:from_value",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'sightline' has no attribute {name!r}")
    module, _, inner = home.partition(":")
    value = getattr(import_module(f"sightline.{module}"), inner or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
