"""Ask, once for each repository, whether its files may tell the model how to work there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sightline.cli.approval import Asker
from sightline.cli.commands.lines import line_of
from sightline.cli.visible import visible

if TYPE_CHECKING:
    from sightline.agent.host import Host
    from sightline.agent.workspace.guidance import Guidance


_QUESTION: Final = "follow them, now and later? [y]es [n]o [v]iew all:"
_ANSWERS: Final = {
    "y": "yes", "yes": "yes", "n": "no", "no": "no", "v": "view", "view": "view",
}  # fmt: skip
_NAMED: Final = 6


async def ask_to_follow(host: Host, asker: Asker) -> None:
    """Ask if nobody was asked yet; who turns away is asked again the next time."""
    offered = host.offered_guidance
    if offered is None or host.follows is not None:
        return
    asker.draw([
        line_of(f"? {visible(str(offered.root))} has instructions for the model:", "ask"),
        line_of(f"  {visible(_listed(offered))}"),
    ])  # fmt: skip
    while (answer := await asker.choose(_QUESTION, _ANSWERS)) == "view":
        files = (*offered.instructions, *offered.commands, *offered.skills)
        await asker.page("\n\n".join(f"{one.path}\n\n{one.text}" for one in files))
    if answer:
        await asyncio.to_thread(host.follow, answer == "yes")


def unasked(host: Host) -> str:
    """Say what is not followed because nobody was asked; empty if there is no such thing."""
    offered = host.offered_guidance
    if offered is None or host.follows is not None:
        return ""
    return (
        f"{_listed(offered)}: not followed, for nobody has agreed to it; "
        "`sightline chat` asks, `sightline ask '/instructions on'` agrees"
    )


def _listed(offered: Guidance) -> str:
    paths = offered.paths
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more
