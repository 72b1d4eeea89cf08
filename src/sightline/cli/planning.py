"""The question behind a plan: carry it out, change it, or not."""

from __future__ import annotations

from typing import Final

from sightline.agent.host import Host
from sightline.cli.approval import Asker
from sightline.cli.commands.lines import line_of
from sightline.errors import SightlineError

_QUESTION: Final = "carry out this plan? [y]es [n]o:"
_ANSWERS: Final = {"y": "yes", "yes": "yes", "n": "no", "no": "no"}
_WRITER_QUESTION: Final = "carry out this plan? [y]es [n]o [e]dit:"
_WRITER_ANSWERS: Final = {**_ANSWERS, "e": "edit"}
_INSTEAD: Final = "what should be different? The model is told; Enter for nothing:"


async def answer_plan(host: Host, asker: Asker, *, writes: bool = False) -> str | None:
    """Ask about the plan that waits; give what to say to the model next, None for nothing.

    Who `writes` can change the plan, or say behind a no what should be different.
    """
    question = _WRITER_QUESTION if writes else _QUESTION
    answers = _WRITER_ANSWERS if writes else _ANSWERS
    while host.mode == "plan" and host.plan:
        match await asker.choose(question, answers):
            case "yes":
                return _accepted(host, asker)
            case "edit" if writes:
                if edited := await _edited(host.plan, asker):
                    return _accepted(host, asker, edited)
            case "no" if writes and (words := (await asker.enter(_INSTEAD)).strip()):
                return words
            case _:
                asker.draw([line_of("◦ not carried out; /plan accept does it after all", "dim")])
                break
    return None


def _accepted(host: Host, asker: Asker, changed: str = "") -> str:
    words = host.accept_plan(changed)
    asker.draw([line_of(f"◦ mode {host.mode}", "dim")])
    return words


async def _edited(plan: str, asker: Asker) -> str:
    try:
        return (await asker.edit(plan) or "").strip()
    except SightlineError as error:  # there is no editor, or it cannot be started
        asker.draw([line_of(f"✗ {error}", "error")])
        return ""
