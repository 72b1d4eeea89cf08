"""JSON values and their many spellings, for properties."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

STRINGS = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | STRINGS
)
SPACES = st.sampled_from(["", "", " ", "\n", "\t\r\n  "])


def json_values() -> st.SearchStrategy[Any]:
    return st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
        max_leaves=8,
    )


@st.composite
def spellings(draw: st.DrawFn, value: Any) -> str:
    """One of the texts that say this value: other spacing, other escapes."""
    space = draw(SPACES)
    if isinstance(value, dict):
        pairs = (
            f"{space}{draw(spellings(key))}{space}:{draw(spellings(member))}"
            for key, member in value.items()
        )
        return f"{space}{{{','.join(pairs)}{space}}}{space}"
    if isinstance(value, list):
        return f"{space}[{','.join(draw(spellings(item)) for item in value)}{space}]{space}"
    if isinstance(value, str):
        return space + json.dumps(value, ensure_ascii=draw(st.booleans())) + space
    return space + json.dumps(value) + space
