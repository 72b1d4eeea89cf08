"""What reaches each vendor, byte for byte, and whether the vendor's own types accept it."""

from __future__ import annotations

import json
from typing import Any

import botocore.loaders
import botocore.model
import botocore.validate
import pytest
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from google.genai import types as google
from ollama._types import ChatRequest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from context.dialects.cases import CASES
from context.dialects.golden import as_seen, file_of, request
from sightline.context.dialects import Options, encode, endpoints, profile_for
from sightline.context.messages.parts import File, Message, Text
from sightline.errors import InvalidInput
from support.vendor_rules import OWN_FIELDS, converse, without
from support.vendor_types import faults

OWN = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock", "ollama")
COMPATIBLE = tuple(name for name in endpoints() if name not in OWN)
every_case = pytest.mark.parametrize("case", CASES)


@pytest.mark.parametrize("endpoint", endpoints())
@every_case
def test_the_request_is_the_one_on_file(endpoint: str, case: str) -> None:
    on_file = json.loads(file_of(endpoint).read_text("utf-8"))
    assert as_seen(request(endpoint, case)) == on_file[case]


@every_case
def test_openai_chat_accepts_the_request(case: str) -> None:
    body = request("openai-chat", case).body
    assert faults(body, CompletionCreateParamsStreaming) == []


@pytest.mark.parametrize("endpoint", COMPATIBLE)
@every_case
def test_a_compatible_endpoint_gets_what_openai_would_and_its_own_fields(
    endpoint: str, case: str
) -> None:
    body = without(request(endpoint, case).body, OWN_FIELDS.get(endpoint, set()))
    assert faults(body, CompletionCreateParamsStreaming) == []


@every_case
def test_openai_responses_accepts_the_request(case: str) -> None:
    body = request("openai-responses", case).body
    assert faults(body, ResponseCreateParamsStreaming) == []


@every_case
def test_anthropic_accepts_the_request(case: str) -> None:
    assert faults(request("anthropic", case).body, MessageCreateParamsStreaming) == []


@every_case
def test_gemini_accepts_the_request(case: str) -> None:
    body = dict(request("gemini", case).body)
    for content in body.pop("contents"):
        google.Content.model_validate(content)
    for tool in body.pop("tools"):
        google.Tool.model_validate(tool)
    google.Content.model_validate(body.pop("systemInstruction"))
    google.GenerationConfig.model_validate(body.pop("generationConfig"))
    assert body == {}


def named(body: dict[str, Any]) -> dict[str, Any]:
    """As its SDK is called: the model beside the body, which its path names."""
    return {"modelId": "m", **body}


@every_case
def test_bedrock_accepts_the_request(case: str) -> None:
    body = named(request("bedrock", case).body)
    report = botocore.validate.ParamValidator().validate(body, converse())
    assert report.generate_report() == ""


@every_case
def test_ollama_accepts_the_request(case: str) -> None:
    body = request("ollama", case).body
    read = ChatRequest.model_validate(body).model_dump(exclude_none=True)
    assert read["messages"] == body["messages"]
    assert set(body) <= set(read)


def test_the_check_finds_faults() -> None:
    body = request("anthropic", "tool_loop").body
    wrong = {**body, "max_token": 3, "messages": [{"role": "user", "content": [{"type": "txt"}]}]}
    found = "\n".join(faults(wrong, MessageCreateParamsStreaming))
    assert "there is no 'max_token'" in found
    assert "$.messages[0].content" in found


PICTURE = File("data:image/png;base64,aGk=", "image/png", "cat.png")
PAPER = File("data:application/pdf;base64,aGk=", "application/pdf", "paper.pdf")
ODD = File("ftp://somewhere/x.bin", "application/x-odd", "x.bin")


@pytest.mark.parametrize("endpoint", endpoints())
def test_a_file_is_sent_or_spoken_of_but_never_lost(endpoint: str) -> None:
    from context.dialects.cases import prompt

    said = Message("user", (Text("what is this?"), PICTURE, PAPER, ODD))
    made = encode(prompt([said]), profile_for(endpoint))
    written = made.data.decode()
    assert "aGk=" in written or not made.profile.messages.images
    assert "[file cat.png" in written or made.profile.messages.images
    assert "[file x.bin (application/x-odd) at ftp://somewhere/x.bin, not shown]" in written
    assert "file_as_text" in {note.code for note in made.notes}
    if endpoint == "openai-chat":
        assert faults(made.body, CompletionCreateParamsStreaming) == []
    elif endpoint == "openai-responses":
        assert faults(made.body, ResponseCreateParamsStreaming) == []
    elif endpoint == "anthropic":
        assert faults(made.body, MessageCreateParamsStreaming) == []
    elif endpoint == "bedrock":
        report = botocore.validate.ParamValidator().validate(named(made.body), converse())
        assert report.generate_report() == ""


def test_extra_fields_stand_before_the_messages() -> None:
    made = encode(CASES["plain"](), profile_for("openai-chat"), Options(extra={"temperature": 0.2}))
    assert made.body["temperature"] == 0.2
    assert list(made.body)[-1] == "messages"


def test_a_profile_may_have_fields_of_its_own_and_a_request_overrides_them() -> None:
    profile = profile_for("openai-chat", overrides={"extra": {"temperature": 0, "top_p": 0.5}})
    made = encode(CASES["plain"](), profile, Options(extra={"temperature": 0.2}))
    assert (made.body["temperature"], made.body["top_p"]) == (0.2, 0.5)
    wrong = profile_for("openai-chat", overrides={"extra": {"messages": []}})
    with pytest.raises(InvalidInput, match="'messages' is written from the prompt"):
        encode(CASES["plain"](), wrong)


def test_a_model_that_cannot_call_is_offered_no_tools_and_the_request_says_so() -> None:
    profile = profile_for("openai-chat", overrides={"tools.calls": False})
    made = encode(CASES["tool_loop"](), profile)
    assert "tools" not in made.body
    assert "no_tools" in {note.code for note in made.notes}
