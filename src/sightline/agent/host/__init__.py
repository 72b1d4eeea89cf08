"""The program that drives a model: apps, ledger, prompt and model, put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline._lazy import lazily

if TYPE_CHECKING:
    from sightline.agent.host.compose import Composed
    from sightline.agent.host.host import Host

__all__ = ["Composed", "Host"]

# What a loop of one's own uses of the host's modules costs no import of the host.
__getattr__, __dir__ = lazily(
    __name__, {"sightline.agent.host.compose": "Composed", "sightline.agent.host.host": "Host"}
)
