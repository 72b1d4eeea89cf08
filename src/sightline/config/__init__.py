"""What a user has decided: one frozen value, and where each part of it came from."""

from __future__ import annotations

from sightline.config.load import Loaded, load, user_file
from sightline.config.settings import (
    AppSettings,
    BridgeSettings,
    CacheSettings,
    ChatSettings,
    DelegateSettings,
    EndpointSettings,
    HookSettings,
    LedgerSettings,
    LimitSettings,
    PolicyRule,
    ReplySettings,
    Settings,
    TailSettings,
    ToolSettings,
    TruncationSettings,
    WindowSettings,
)

__all__ = [
    "AppSettings",
    "BridgeSettings",
    "CacheSettings",
    "ChatSettings",
    "DelegateSettings",
    "EndpointSettings",
    "HookSettings",
    "LedgerSettings",
    "LimitSettings",
    "Loaded",
    "PolicyRule",
    "ReplySettings",
    "Settings",
    "TailSettings",
    "ToolSettings",
    "TruncationSettings",
    "WindowSettings",
    "load",
    "user_file",
]
