"""A copied command goes where the request went, and nowhere that nobody named."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from agent.host.helpers import hosted, turn
from sightline.agent.models.access import public_url
from sightline.agent.models.choose import reach_of
from sightline.agent.models.scripted import ScriptedModel
from sightline.agent.models.vendors import VENDORS
from sightline.config import EndpointSettings, Settings
from sightline.context.dialects import encode
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger
from sightline.context.slots.slots import Budget, Slots
from sightline.context.tokens.tokens import counter_for
from sightline.inspector.reader import RecordReader
from sightline.inspector.wires import curl

SAID = 'it\'s $HOME, `id` and "quotes"'
OWN = Settings(
    endpoints={
        "work": EndpointSettings(base_url="https://models.work.example/v1", api_key_env="WORK_KEY"),
        "home": EndpointSettings(base_url="http://127.0.0.1:9/api", dialect="anthropic"),
        "odd": EndpointSettings(base_url="https://$(id).example", api_key_env="A B"),
        "secret": EndpointSettings(base_url="https://me:hunter2@work.example/v1"),
        "openai-responses": EndpointSettings(base_url="https://proxy.example/v1"),
    }
)


def command(label: str, row: str, settings: Settings | None = None, at: str | None = None) -> str:
    """The command for a request that went to an address, by default the settings' endpoint."""
    slots = Slots(Budget(10_000), counter_for("chars/4"))
    slots.add("input", SAID, role="user")
    request = encode(slots.render(), profile_for(row, label.partition(":")[2]))
    reach = reach_of(label, settings or Settings(), {})
    went = public_url(reach.base_url) if at is None and reach is not None else at or ""
    return curl(request, went, reach)


def given(text: str, **env: str) -> list[str]:
    """What a shell gives to curl: its arguments, none of which has a key, and its input."""
    takes_input = "case $* in *' @- '*) cat && printf '\\0' ;; esac"
    script = f"curl() {{ printf '%s\\0' \"$@\"; {takes_input}; }}\n{text}"
    ran = subprocess.run(["/bin/sh", "-c", script], env=env, capture_output=True, check=True)
    *found, last = ran.stdout.decode().split("\0")[:-1]
    assert not any(value in word for value in env.values() for word in found if "sesame" in value)
    return [*found, last]


AT_HOME = {"ollama", "llama.cpp", "vllm", "local"}


@pytest.mark.parametrize("name", VENDORS)
def test_a_built_in_endpoint_is_itself_with_its_own_key(name: str) -> None:
    vendor = VENDORS[name]
    text = command(f"{name}:m", name)
    key = vendor.keys[0] if vendor.keys else "NONE"
    arguments = given(text, **{key: "sesame", "AWS_REGION": "eu-west-9"})
    url, headers = arguments[0], arguments[1:]
    if name == "bedrock":
        assert url.startswith("https://bedrock-runtime.eu-west-9.amazonaws.com/model/m/")
        assert "signature" in text.splitlines()[0]
    elif name == "local":
        assert "no address" in text.splitlines()[0]
    else:
        assert url.startswith(vendor.base_url)
        assert "/v1/v1/" not in url
    opened = [header for header in headers if header.endswith("sesame")]
    wanted = {"anthropic": "x-api-key: ", "gemini": "x-goog-api-key: "}
    bearer = "Authorization: Bearer "
    keyless = name in AT_HOME or name == "bedrock"
    assert opened == ([] if keyless else [f"{wanted.get(name, bearer)}sesame"])
    body = arguments[arguments.index("--data-raw") + 1]
    assert SAID in json.dumps(json.loads(body)).replace('\\"', '"')


def test_an_endpoint_of_the_users_own_is_where_they_say_with_their_key_or_none() -> None:
    work = given(command("work:m", "openai-chat", OWN), WORK_KEY="sesame")
    assert work[0] == "https://models.work.example/v1/chat/completions"
    assert "Authorization: Bearer sesame" in work
    home = command("home:m", "anthropic", OWN)
    assert given(home)[0] == "http://127.0.0.1:9/api/v1/messages"
    assert "x-api-key" not in home
    moved = given(command("openai-responses:m", "openai-responses", OWN))
    assert moved[0] == "https://proxy.example/v1/responses"


def test_the_address_that_was_recorded_counts_whatever_the_settings_say_now() -> None:
    text = command("openai-chat:m", "openai-chat", at="http://127.0.0.1:9/v1")
    arguments = given(text, API_KEY="sesame", OPENAI_API_KEY="another")
    assert arguments[0] == "http://127.0.0.1:9/v1/chat/completions"
    assert "Authorization: Bearer sesame" in arguments
    assert "openai.com" not in text


@pytest.mark.parametrize(("label", "row"), [("openai-chat:m", "openai-chat"), ("work:m", "xai")])
def test_an_address_that_was_not_recorded_is_the_readers_to_name(label: str, row: str) -> None:
    text = command(label, row, OWN, at="")
    assert given(text, BASE_URL="http://127.0.0.1:9")[0].startswith("http://127.0.0.1:9/")
    assert "not recorded" in text.splitlines()[0]
    assert "example" not in text
    assert "$API_KEY" in text


@pytest.mark.parametrize("label", ["work:m", "gpt-proxy:m", "openai:m", "m"])
def test_an_endpoint_that_is_not_known_is_the_readers_to_name(label: str) -> None:
    text = command(label, "openai-chat")
    arguments = given(text, BASE_URL="http://127.0.0.1:9", API_KEY="sesame")
    assert arguments[0] == "http://127.0.0.1:9/v1/chat/completions"
    assert "Authorization: Bearer sesame" in arguments
    assert "openai.com" not in text
    assert "OPENAI" not in text


def test_nothing_of_the_settings_runs_or_tells_a_password() -> None:
    odd = given(command("odd:m", "openai-chat", OWN), API_KEY="sesame")
    assert odd[0] == "https://$(id).example/v1/chat/completions"
    assert "Authorization: Bearer sesame" in odd
    assert "hunter2" not in command("secret:m", "openai-chat", OWN)


class Labelled(ScriptedModel):
    address = "https://models.work.example/v1"

    @property
    def label(self) -> str:
        return "work:m"


async def test_the_page_names_the_endpoint_that_a_request_went_to(tmp_path: Path) -> None:
    async with hosted(tmp_path, Labelled(["One."])) as (host, _):
        await turn(host)
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        shown = RecordReader(ledger, OWN).request(1, 1, 1)["request"]
    assert shown["url"] == "work: /v1/chat/completions"
    assert "curl https://models.work.example/v1/chat/completions" in shown["curl"]
    assert '"Authorization: Bearer $WORK_KEY"' in shown["curl"]
