"""Sightline, the context engine: see and act on live apps, remember, and keep the prompt warm."""

from __future__ import annotations

__all__: list[str] = []
