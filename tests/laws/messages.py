"""Messages of any kind that the ledger takes, for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from sightline.context.messages.parts import (
    File,
    Message,
    Part,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)

texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=60)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | texts
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
raws = st.none() | st.builds(Raw, st.sampled_from(["openai", "anthropic"]), json_values)
call_ids = st.sampled_from(["a", "b", "c", "d"])
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, texts, raws),
    st.builds(ToolCall, call_ids, texts, st.dictionaries(texts, json_values, max_size=3), raws),
    st.builds(ToolResult, call_ids, texts, texts, st.booleans(), raws),
    st.builds(Reasoning, texts, raws),
    st.builds(File, texts, texts, texts, st.none() | st.integers(0, 2**53), raws),
)
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(parts, max_size=5).map(tuple),
)
