"""Why a cache was missed: every cause in words, and what to do about it. Data."""

from __future__ import annotations

from typing import Final

# cause → (in words, what to do about it)
CAUSES: Final[dict[str, tuple[str, str]]] = {
    "model": (
        "the model was switched",
        "a cache belongs to one model: switch between tasks, not within one",
    ),
    "effort": (
        "the effort was changed",
        "choose the effort before the conversation, or at its compaction",
    ),
    "thinking": (
        "thinking was switched or its budget changed",
        "leave thinking as it is within a conversation",
    ),
    "tool_choice": (
        "tool_choice was changed",
        "leave the tool choice alone; say in the message which tool to use",
    ),
    "output": ("the format of the answer was changed", "keep one schema for a conversation"),
    "routing": ("prompt_cache_key was changed", "keep one key for a conversation"),
    "setting": ("a setting of the request was changed", "keep it within a conversation"),
    "tool_added": (
        "a tool was added",
        "connect servers before the first question, or let tools be searched for",
    ),
    "tool_removed": ("a tool was removed", "disconnect servers between conversations"),
    "tools_replaced": (
        "tools were added and others removed",
        "connect servers before the first question",
    ),
    "tools_reordered": (
        "the tools came in another order",
        "sort the tools: the order of a set differs from run to run",
    ),
    "tool_reworded": (
        "a tool's description was reworded",
        "take what changes out of a tool's description",
    ),
    "tool_schema": ("a tool's schema was changed", "take what changes out of a tool's schema"),
    "date": (
        "a date or a time stands in the prefix",
        "say the time behind the history, or by the day",
    ),
    "billing": (
        "the billing line changed",
        "the agent writes it: newer versions keep it, or switch the header off",
    ),
    "environment": (
        "the environment or the git status was written anew",
        "state that changes belongs behind the history",
    ),
    "random": (
        "an id or a counter stands in the prefix",
        "take what is new each time out of the instructions",
    ),
    "memory": (
        "a file of instructions was changed",
        "it costs the prefix once; change it between conversations",
    ),
    "instructions": ("the instructions were reworded", "what changes belongs behind the history"),
    "reminder": (
        "a reminder was changed, added or taken out",
        "the agent moves it; nothing to do but a newer version",
    ),
    "hook": (
        "the output of a hook was changed, added or taken out",
        "let the hook say only what changed, or use the live tail",
    ),
    "compaction": (
        "the conversation was compacted",
        "planned: everything before the summary is paid once more",
    ),
    "cleared": ("the conversation began anew", "planned"),
    "rewound": (
        "the conversation went back and took another way",
        "planned: what is still shared is reused",
    ),
    "edited": ("an earlier message was edited", "say it again instead of changing what was said"),
    "spaced": ("an earlier message has other white space", "send what was received, byte for byte"),
    "reserialized": (
        "the arguments of an earlier call were written in another order",
        "replay arguments as they came, as text",
    ),
    "inserted": ("something was put between earlier messages", "put what is new at the end"),
    "dropped": ("an earlier message was dropped", "drop from the history at compaction only"),
    "window": ("the oldest messages were dropped", "let the window grow and fold in large steps"),
    "reordered": ("earlier messages came in another order", "keep the order in which results came"),
    "result_cut": ("an earlier tool result was cut or cleared", "clear many at once, seldom"),
    "reasoning": ("reasoning was dropped or changed", "replay reasoning as it came, or never"),
    "image": (
        "an image was changed, added or dropped",
        "an image is part of the prefix: leave it where it was",
    ),
    "expired": ("the cache's lifetime ran out", "go on sooner, or ask for the longer lifetime"),
    "unmarked": ("nothing was marked for the cache", "mark the last block that stays"),
    "lookback": (
        "more than 20 blocks came since the last mark",
        "mark more often in long tool loops",
    ),
    "lost": ("the vendor lost it", "nothing to do: the request was the same"),
    "tail": (
        "the state of apps that stood there has left",
        "let the gateway's tail stay: `--tail session`",
    ),
    "unknown": (
        "the transcript does not tell why",
        "run the agent through `sightline gateway`: it sees the requests",
    ),
    # Of conversations of our own, in which more is known than two requests can tell.
    "folded": (
        "the window folded: the oldest turns left the prompt",
        "planned: with more slack it happens less often",
    ),
    "undone": (
        "a turn was taken back",
        "planned: what stood before it is reused",
    ),
    "tools": ("the tools were changed", "keep one set of tools for a conversation"),
    "named": (
        "tools and instructions went to a named resource at the vendor's, or came back",
        "planned",
    ),
}
