"""A request as the vendor's cache sees it: the same value is the same units, however spelled."""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote

import pytest
from benchmarks.faults import LAYOUTS, Layout, session
from hypothesis import given
from hypothesis import strategies as st

from sightline.gateway.bodies import APIS, Api, api_of, pieces_of, read_body

VERTEX = "/v1/projects/p/locations/us-east5/publishers/anthropic/models"
BEDROCK = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
PROFILE = f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/{BEDROCK}"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)
NAMES = st.sampled_from(
    [
        "messages",
        "input",
        "contents",
        "tools",
        "system",
        "instructions",
        "model",
        "systemInstruction",
    ]
)


def units(api: Api, body: Any) -> list[bytes]:
    read = read_body(api, json.dumps(body).encode())
    assert read is not None
    return [unit.digest for unit in read.units]


def test_a_string_is_a_text_block_and_a_mark_is_nothing() -> None:
    plain = {"messages": [{"role": "user", "content": "hello"}], "system": "be brief"}
    block = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}
    marked = {
        "messages": [{"role": "user", "content": [block]}],
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
    }
    assert units("anthropic", plain) == units("anthropic", marked)
    result = {"type": "tool_result", "tool_use_id": "a"}
    said = [{"type": "text", "text": "42"}]
    assert units(
        "anthropic", {"messages": [{"role": "user", "content": [result | {"content": "42"}]}]}
    ) == units(
        "anthropic", {"messages": [{"role": "user", "content": [result | {"content": said}]}]}
    )


def test_a_mark_of_the_whole_request_is_one_of_its_last_block() -> None:
    said = {"messages": [{"role": "user", "content": ["a", "b"]}]}
    marked = said | {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    read = read_body("anthropic", json.dumps(marked).encode())
    assert read is not None
    assert [(unit.marked, unit.ttl) for unit in read.units] == [(False, ""), (True, "1h")]
    assert units("anthropic", said) == units("anthropic", marked)


def test_a_tool_is_the_same_with_fields_in_another_order_or_empty() -> None:
    function = {"name": "read", "parameters": {}}
    one = {"type": "function", "function": function}
    other = {"strict": None, "function": dict(reversed(function.items())), "type": "function"}
    assert units("openai-chat", {"tools": [one]}) == units("openai-chat", {"tools": [other]})
    named = {"type": "namespace", "name": "db", "tools": [{"name": "ask"}, {"name": "tell"}]}
    read = read_body("openai-responses", json.dumps({"tools": [named]}).encode())
    assert read is not None
    assert [unit.name for unit in read.tools] == ["db", "db.ask", "db.tell"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_differs_in_value_differs_in_a_unit(layout: Layout) -> None:
    before, now = session(random.Random(1), layout, 2)[-2:]
    one, other = units(layout, before), units(layout, now)
    assert other[: len(one)] == one or layout == "anthropic"
    now["tools"][0]["description"] += "!"
    assert units(layout, now)[0] != one[0]


@given(st.sampled_from(APIS), st.dictionaries(NAMES, VALUES))
def test_nothing_that_an_agent_sends_makes_reading_raise(api: Api, value: Any) -> None:
    data = json.dumps(value).encode()
    read_body(api, data, "/v1/models/m:generateContent")
    assert b"".join(pieces_of(data)) == data


@given(st.lists(st.tuples(NAMES, VALUES), max_size=5))
def test_a_name_that_comes_twice_loses_nothing(fields: list[tuple[str, Any]]) -> None:
    data = b"{%s}" % ", ".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in fields).encode()
    assert b"".join(pieces_of(data)) == data


@given(st.binary(max_size=200))
def test_what_is_no_json_is_no_request(data: bytes) -> None:
    for api in APIS:
        read_body(api, data)
    assert b"".join(pieces_of(data)) == data


def test_what_is_nested_too_deep_is_no_request() -> None:
    deep = b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert read_body("anthropic", deep) is None
    assert b"".join(pieces_of(deep)) == deep


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_request_that_goes_on_shares_most_of_its_pieces(layout: Layout) -> None:
    before, now = (
        set(pieces_of(json.dumps(body).encode()))
        for body in session(random.Random(2), layout, 4)[-2:]
    )
    assert len(now - before) <= 6


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/messages?beta=true", ("anthropic", True)),
        ("/v1/messages/count_tokens", ("anthropic", False)),
        ("/v1/responses", ("openai-responses", True)),
        ("/v1/chat/completions", ("openai-chat", True)),
        ("/v1beta/models/g:streamGenerateContent?alt=sse", ("gemini", True)),
        ("/v1/models", None),
        (f"{VERTEX}/claude-opus-5-5:streamRawPredict", ("anthropic", True)),
        (f"{VERTEX}/claude-opus-5-5@20261001:rawPredict", ("anthropic", True)),
        (f"{VERTEX}/count-tokens:rawPredict", ("anthropic", False)),
        ("/model/us.anthropic.claude-opus-4-6-v1/invoke", ("anthropic", True)),
        ("/model/m%3A0/invoke-with-response-stream", ("anthropic", True)),
        ("/model/m/converse-stream", None),
        ("/chain/invoke", None),
    ],
)
def test_a_path_says_which_api_is_spoken(path: str, api: object) -> None:
    assert api_of(path) == api


@pytest.mark.parametrize(
    ("path", "model"),
    [
        (f"{VERTEX}/claude-opus-5-5:streamRawPredict", "claude-opus-5-5"),
        (f"{VERTEX}/claude-opus-4-5@20251101:rawPredict", "claude-opus-4-5@20251101"),
        (f"{VERTEX}/claude-opus-4-5%4020251101:rawPredict?a=b", "claude-opus-4-5@20251101"),
        ("/model/us.anthropic.claude-opus-5-5/invoke", "us.anthropic.claude-opus-5-5"),
        (f"/model/{BEDROCK}/invoke-with-response-stream", BEDROCK),
        (f"/model/{quote(BEDROCK, safe='')}/invoke-with-response-stream", BEDROCK),
        (f"/model/{quote(PROFILE, safe='')}/invoke", PROFILE),
        # As a ledger names the request that it stored.
        (f"/models/{BEDROCK}", BEDROCK),
        (f"/models/{BEDROCK}:", BEDROCK),
        (f"/models/{PROFILE}:", PROFILE),
    ],
)
def test_read_body_takes_the_model_from_the_path_when_the_body_has_none(
    path: str, model: str
) -> None:
    fields = {"anthropic_version": "vertex-2023-10-16", "messages": [{"role": "user"}]}
    found = read_body("anthropic", json.dumps(fields).encode(), path)
    assert found is not None
    assert found.model == model
    named = read_body("anthropic", json.dumps({**fields, "model": "m"}).encode(), path)
    assert named is not None
    assert named.model == "m"


@pytest.mark.parametrize("path", ["/model/meta.llama3/invoke", f"{VERTEX}/mistral:rawPredict"])
def test_read_body_rejects_a_body_of_a_different_vendor_at_the_same_path(path: str) -> None:
    assert read_body("anthropic", b'{"prompt": "hello", "max_gen_len": 9}', path) is None
