"""The agent itself: models, policies, tools and the host that drives a turn with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline._lazy import lazily

if TYPE_CHECKING:
    from sightline.agent.bridge import BridgeWriter, read_bridge
    from sightline.agent.host import Host
    from sightline.agent.models.choose import open_model
    from sightline.agent.workspace import Workspace

__all__ = [
    "BridgeWriter",
    "Host",
    "Workspace",
    "open_model",
    "read_bridge",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "sightline.agent.bridge": "BridgeWriter read_bridge",
        "sightline.agent.host": "Host",
        "sightline.agent.models.choose": "open_model",
        "sightline.agent.workspace": "Workspace",
    },
)
