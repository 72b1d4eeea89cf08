"""The program that drives a model: apps, ledger, prompt and model, put together."""

from __future__ import annotations

from sightline.host.host import Host
from sightline.host.session import Preview

__all__ = ["Host", "Preview"]
