"""Make an app visible; see apps and act on them, over the SLOP protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline._lazy import lazily

if TYPE_CHECKING:
    from sightline.slop.app.app import App
    from sightline.slop.app.descriptor import NodeDescriptor
    from sightline.slop.app.parameters import Call
    from sightline.slop.hub.browser import BrowserBridge
    from sightline.slop.hub.client import Client
    from sightline.slop.hub.hub import Hub, WantedApp
    from sightline.slop.protocol.codec import decode as decode_tree
    from sightline.slop.protocol.codec import encode as encode_tree
    from sightline.slop.protocol.codec import from_value as tree_from_value
    from sightline.slop.protocol.diff import diff
    from sightline.slop.protocol.ids import legal_id
    from sightline.slop.protocol.limits import ProviderLimits
    from sightline.slop.protocol.patch import Op, apply
    from sightline.slop.protocol.patience import Patience
    from sightline.slop.protocol.text import LiveText, format_tree
    from sightline.slop.protocol.tree import Affordance, ContentRef, Meta, Node
    from sightline.slop.protocol.view import Projector, View, project
    from sightline.slop.protocol.world import AppState, AvailableApp, World
    from sightline.slop.transports.stdio import serve_stdio

__all__ = [
    "Affordance",
    "App",
    "AppState",
    "AvailableApp",
    "BrowserBridge",
    "Call",
    "Client",
    "ContentRef",
    "Hub",
    "LiveText",
    "Meta",
    "Node",
    "NodeDescriptor",
    "Op",
    "Patience",
    "Projector",
    "ProviderLimits",
    "View",
    "WantedApp",
    "World",
    "apply",
    "decode_tree",
    "diff",
    "encode_tree",
    "format_tree",
    "legal_id",
    "project",
    "serve_stdio",
    "tree_from_value",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "sightline.slop.app.app": "App",
        "sightline.slop.app.parameters": "Call",
        "sightline.slop.app.descriptor": "NodeDescriptor",
        "sightline.slop.hub.browser": "BrowserBridge",
        "sightline.slop.hub.client": "Client",
        "sightline.slop.hub.hub": "Hub WantedApp",
        "sightline.slop.protocol.codec": (
            "decode:decode_tree encode:encode_tree from_value:tree_from_value"
        ),
        "sightline.slop.protocol.diff": "diff",
        "sightline.slop.protocol.ids": "legal_id",
        "sightline.slop.protocol.limits": "ProviderLimits",
        "sightline.slop.protocol.patch": "Op apply",
        "sightline.slop.protocol.patience": "Patience",
        "sightline.slop.protocol.text": "LiveText format_tree",
        "sightline.slop.protocol.tree": "Affordance ContentRef Meta Node",
        "sightline.slop.protocol.view": "Projector View project",
        "sightline.slop.protocol.world": "AppState AvailableApp World",
        "sightline.slop.transports.stdio": "serve_stdio",
    },
)
