"""What the host mends before it is stored; see `context.messages.gate`."""

from __future__ import annotations

from sightline.context.messages.gate import guarded, guarded_text

__all__ = ["guarded", "guarded_text"]
