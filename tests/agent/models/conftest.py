"""The ways to every vendor, on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import keyring
import pytest
from keyring.backends import null

from sightline.agent.models.base import Model
from sightline.agent.models.choose import open_model
from sightline.config import Settings
from support.vendors.server import Vendor

# One reference per client and API; the compatible ones share OpenAI's.
WAYS = {
    "chat": "openai-chat:gpt-6.1-sol",
    "responses": "openai-responses:gpt-6.1-sol",
    "anthropic": "anthropic:claude-sonnet-5-5",
    "gemini": "gemini:gemini-3.8-flash",
    "bedrock": "bedrock:us.anthropic.claude-sonnet-5-5-v1:0",
    "ollama": "ollama:qwen3.5:7b",
}


@pytest.fixture(autouse=True)
def empty_keyring() -> Iterator[None]:
    """No test sees the keyring of whoever runs it."""
    before = keyring.get_keyring()
    keyring.set_keyring(null.Keyring())  # type: ignore[no-untyped-call]
    yield
    keyring.set_keyring(before)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """Each API in turn."""
    name: str = request.param
    return name


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    """A vendor; boto3 reads the environment of the process itself."""
    with Vendor() as serving:
        for name, value in serving.environment().items():
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield serving


def opened(vendor: Vendor, way: str, settings: Settings | None = None) -> Model:
    """A client for this API, aimed at the server."""
    return open_model(WAYS[way], settings or Settings(), vendor.environment())
