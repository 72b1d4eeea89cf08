"""The program that drives a model: apps, ledger, prompt and model, put together."""

from __future__ import annotations

from sightline.agent.host.host import Host
from sightline.agent.host.session import Preview

__all__ = ["Host", "Preview"]
