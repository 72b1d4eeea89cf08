"""What a model can call: the apps' actions, its own history, its notes and memos."""

from __future__ import annotations

from sightline.toolbox.attention import Attention
from sightline.toolbox.bench import Bench
from sightline.toolbox.results import Ran
from sightline.toolbox.toolbox import Style, Toolbox, definitions_of

__all__ = ["Attention", "Bench", "Ran", "Style", "Toolbox", "definitions_of"]
