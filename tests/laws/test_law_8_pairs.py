"""Law 8: tool calls and their results enter or leave a prompt together."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from context.messages.entry_values import entry
from laws.messages import messages
from sightline.context.messages.parts import ToolCall, ToolResult
from sightline.context.messages.replay import compatible, isolate

histories = st.lists(
    st.tuples(messages, st.sampled_from(["openai", "gemini", "gemini_gca"])), max_size=12
).map(lambda rows: [entry(seq, m, strategy=s) for seq, (m, s) in enumerate(rows)])


@settings(deadline=None)
@given(histories, st.sampled_from(["openai", "gemini"]), st.booleans())
def test_every_call_has_its_result_after_it_and_every_result_its_call(
    history: list[object], strategy: str, translate: bool
) -> None:
    shown = isolate(history, strategy, translate=translate)  # type: ignore[arg-type]  # entries
    open_calls: list[str] = []
    for shown_entry in shown:
        for part in shown_entry.message.parts:
            if isinstance(part, ToolCall):
                open_calls.append(part.id)
            elif isinstance(part, ToolResult):
                assert part.call_id in open_calls
                open_calls.remove(part.call_id)
    assert open_calls == []
    assert all(translate or not e.is_tool_traffic or compatible(e.parsing_strategy, strategy)
               for e in shown)  # fmt: skip


@settings(deadline=None)
@given(histories, st.sampled_from(["openai", "gemini"]))
def test_what_carries_no_tools_is_never_touched(history: list[object], strategy: str) -> None:
    plain = [e for e in history if not e.is_tool_traffic]  # type: ignore[attr-defined]  # entries
    shown = isolate(history, strategy)  # type: ignore[arg-type]  # entries
    assert [e for e in shown if e in plain] == plain
