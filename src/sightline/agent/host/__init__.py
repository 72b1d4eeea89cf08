"""The program that drives a model: apps, ledger, prompt and model, put together."""

from __future__ import annotations

from sightline.agent.host.compose import Composed
from sightline.agent.host.host import Host

__all__ = ["Composed", "Host"]
