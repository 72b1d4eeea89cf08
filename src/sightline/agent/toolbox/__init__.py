"""What a model can call: the apps' actions, its own history, its notes and memos."""

from __future__ import annotations

from sightline.agent.toolbox.bench import Attention, Bench, SessionRecords
from sightline.agent.toolbox.results import Ran
from sightline.agent.toolbox.toolbox import Style, Toolbox, definitions_of

__all__ = ["Attention", "Bench", "Ran", "SessionRecords", "Style", "Toolbox", "definitions_of"]
