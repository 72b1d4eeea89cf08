"""Addresses of vendors: which one a program would use, and which path a vendor has."""

from __future__ import annotations

import pytest

from sightline.gateway.addresses import (
    bypass_words,
    default_addresses,
    gateway_variables,
    is_signed,
    repaired_address,
)

BASE = "http://127.0.0.1:9/secret"


def test_default_addresses_has_three_vendors_when_no_switch_is_on() -> None:
    off = {"CLAUDE_CODE_USE_BEDROCK": "0", "CLAUDE_CODE_USE_VERTEX": "", "AWS_REGION": "eu-west-1"}
    for environment in ({}, off):
        assert list(default_addresses(environment)) == ["anthropic", "openai", "gemini"]


@pytest.mark.parametrize(
    ("environment", "name", "url"),
    [
        ({"CLOUD_ML_REGION": "europe-west1"}, "vertex",
         "https://europe-west1-aiplatform.googleapis.com/v1"),
        ({}, "vertex", "https://us-east5-aiplatform.googleapis.com/v1"),
        ({"ANTHROPIC_VERTEX_BASE_URL": "http://proxy/v1/"}, "vertex", "http://proxy/v1"),
        ({"ANTHROPIC_FOUNDRY_RESOURCE": "r"}, "foundry",
         "https://r.services.ai.azure.com/anthropic"),
        ({"ANTHROPIC_FOUNDRY_BASE_URL": "http://proxy"}, "foundry", "http://proxy"),
        ({"AWS_BEARER_TOKEN_BEDROCK": "t", "AWS_REGION": "eu-west-1"}, "bedrock",
         "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ({"AWS_BEARER_TOKEN_BEDROCK": "t", "AWS_DEFAULT_REGION": "eu-west-3"}, "bedrock",
         "https://bedrock-runtime.eu-west-3.amazonaws.com"),
        ({"CLAUDE_CODE_SKIP_BEDROCK_AUTH": "1", "ANTHROPIC_BEDROCK_BASE_URL": "http://proxy"},
         "bedrock", "http://proxy"),
    ],
)  # fmt: skip
def test_default_addresses_has_a_cloud_when_its_switch_is_on(
    environment: dict[str, str], name: str, url: str
) -> None:
    switch = {f"CLAUDE_CODE_USE_{name.upper()}": "1"}
    assert default_addresses(environment | switch)[name] == url


def test_requests_are_signed_when_bedrock_has_no_token() -> None:
    keys = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    assert is_signed(keys)
    assert "bedrock" not in default_addresses(keys)
    assert not is_signed(keys | {"AWS_BEARER_TOKEN_BEDROCK": "t"})
    assert not is_signed(keys | {"CLAUDE_CODE_SKIP_BEDROCK_AUTH": "true"})
    assert not is_signed(keys | {"CLAUDE_CODE_USE_BEDROCK": "false"})


def test_gateway_variables_end_as_the_addresses_that_they_replace() -> None:
    ways = {"openai": "http://a/v1", "vertex": "http://b/v1", "bedrock": "http://c"}
    assert gateway_variables(BASE, ways) == {
        "OPENAI_BASE_URL": f"{BASE}/openai/v1",
        "ANTHROPIC_VERTEX_BASE_URL": f"{BASE}/vertex/v1",
        "ANTHROPIC_BEDROCK_BASE_URL": f"{BASE}/bedrock",
    }
    assert gateway_variables(BASE, {"foundry": "http://d", "vertex": "http://b"}) == {
        "ANTHROPIC_FOUNDRY_BASE_URL": f"{BASE}/foundry",
        "ANTHROPIC_FOUNDRY_RESOURCE": "",
        "ANTHROPIC_VERTEX_BASE_URL": f"{BASE}/vertex",
    }


GOOGLE = "https://us-east5-aiplatform.googleapis.com"
PATH = "/v1/projects/p/locations/{}/publishers/anthropic/models/m:rawPredict"


@pytest.mark.parametrize(
    ("upstream", "base", "path", "repaired"),
    [
        ("anthropic", "http://a", "/messages", "http://a/v1/messages"),
        ("anthropic", "http://a", "/messages/count_tokens", "http://a/v1/messages/count_tokens"),
        ("anthropic", "http://a", "/v1/messages", "http://a/v1/messages"),
        ("anthropic", "http://a/v1", "/messages", "http://a/v1/messages"),
        ("anthropic", "http://a", "/messagesx", "http://a/messagesx"),
        ("anthropic", "http://a", "/", "http://a/"),
        ("openai", "http://a", "/messages", "http://a/messages"),
        ("foundry", "http://a", "/messages", "http://a/messages"),
        ("bedrock", "https://bedrock-runtime.x.amazonaws.com", "/inference-profiles",
         "https://bedrock.x.amazonaws.com/inference-profiles"),
        ("bedrock", "https://bedrock-runtime.x.amazonaws.com", "/model/m/invoke",
         "https://bedrock-runtime.x.amazonaws.com/model/m/invoke"),
        ("bedrock", "http://proxy", "/inference-profiles", "http://proxy/inference-profiles"),
        ("vertex", GOOGLE, PATH.format("us-east5"), GOOGLE + PATH.format("us-east5")),
        ("vertex", GOOGLE, PATH.format("europe-west1"),
         "https://europe-west1-aiplatform.googleapis.com" + PATH.format("europe-west1")),
        ("vertex", "https://global-aiplatform.googleapis.com", PATH.format("global"),
         "https://aiplatform.googleapis.com" + PATH.format("global")),
        ("vertex", GOOGLE, PATH.format("eu"),
         "https://aiplatform.eu.rep.googleapis.com" + PATH.format("eu")),
        ("vertex", GOOGLE, PATH.format("a.b"), GOOGLE + PATH.format("a.b")),
        ("vertex", "http://proxy", PATH.format("eu"), "http://proxy" + PATH.format("eu")),
    ],
)  # fmt: skip
def test_repaired_address_changes_only_a_path_that_the_vendor_does_not_have(
    upstream: str, base: str, path: str, repaired: str
) -> None:
    assert "".join(repaired_address(upstream, base, path)) == repaired


def test_bypass_words_name_addresses_and_switches_and_nothing_else() -> None:
    named = [
        "ANTHROPIC_AWS_BASE_URL", "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
        "ANTHROPIC_GOOGLE_CLOUD_BASE_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        "AZURE_OPENAI_ENDPOINT", "CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_BEDROCK",
        "GOOGLE_GENAI_USE_VERTEXAI", "LITELLM_BASE_URL", "OLLAMA_HOST", "OPENAI_API_BASE",
    ]  # fmt: skip
    others = ["PATH", "HOME", "ANTHROPIC_API_KEY", "AWS_REGION", "HOSTNAME", "BASE_URL_X"]
    words = bypass_words("agent", [*others, *reversed(named)])
    assert words.startswith("agent sent no request")
    assert words.endswith(": " + ", ".join(named))
    assert bypass_words("agent", others).endswith(": none")
