"""`sightline doctor --cache`: two requests, by consent, and what became of their prefix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.test_models_command import run
from sightline.context.dialects.events import Usage
from support.person import Person
from support.vendors.answers import Answer, Refuses, Sends, says
from support.vendors.apis import sse
from support.vendors.server import KEY, Vendor

MODELS = {
    "chat": "openai-chat:gpt-6.1-sol",
    "responses": "openai-responses:gpt-6.1-sol",
    "anthropic": "anthropic:claude-opus-5-5",
    "gemini": "gemini:gemini-3.8-flash",
    "bedrock": "bedrock:us.anthropic.claude-sonnet-5-5-v1:0",
}
COLD = says("yes", usage=Usage(1400, 2))
WARM = says("yes", usage=Usage(1402, 2, cache_read_tokens=1390))


def checked(home: Path, vendor: Vendor, model: str, *more: str) -> dict[str, dict[str, Any]]:
    done = run(home, "doctor", "--json", "--cache", model, "--yes", *more, **vendor.environment())
    assert (done.returncode, done.stderr) == (0, "")
    assert KEY not in done.stdout
    return {row["check"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_prefix_that_was_reused_is_told_with_its_cost(tmp_path: Path, model: str) -> None:
    with Vendor(COLD, WARM) as vendor:
        found = checked(tmp_path, vendor, model)
    assert found["cache"]["level"] == "ok"
    assert found["cache"]["found"].endswith("reused 1,390 of 1,402 tokens of the second request")
    assert found["cost"]["found"].startswith("$")
    assert found["cost"]["found"].endswith(" for 2,802 tokens in two requests")
    first, second = (request.body for request in vendor.requests)
    assert first.replace(b"request one", b"request two") == second
    assert len(first) > 2000


@pytest.mark.parametrize("model", [MODELS["anthropic"], MODELS["gemini"]])
def test_a_prefix_that_was_read_again_is_a_warning(tmp_path: Path, model: str) -> None:
    with Vendor(COLD) as vendor:
        found = checked(tmp_path, vendor, model)
    assert found["cache"]["level"] == "warn"
    assert "reused 0 of 1,400 tokens" in found["cache"]["found"]
    assert found["cache"]["remedy"]


@pytest.mark.parametrize(("second", "level"), [(14, "ok"), (390, "warn")])
def test_a_runtime_is_judged_by_what_it_evaluated(tmp_path: Path, second: int, level: str) -> None:
    with Vendor(says("yes", usage=Usage(400, 2)), says("yes", usage=Usage(second, 2))) as vendor:
        found = checked(tmp_path, vendor, "ollama:qwen3.5:7b")
    assert found["cache"]["level"] == level
    assert f"reused {400 - second} of 400 tokens" in found["cache"]["found"]
    assert found["cost"]["found"] == "no price is known"


def without_details(usage: dict[str, Any] | None) -> Sends:
    choice = {"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}
    frames = sse({"id": "1", "choices": [choice]})
    if usage is not None:
        frames += sse({"id": "1", "choices": [], "usage": usage})
    return Sends(frames + b"data: [DONE]\n\n", content_type="text/event-stream")


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 1400, "completion_tokens": 2}])
def test_what_a_server_does_not_report_is_not_told(
    tmp_path: Path, usage: dict[str, Any] | None
) -> None:
    with Vendor(without_details(usage)) as vendor:
        found = checked(tmp_path, vendor, MODELS["chat"])
    assert found["cache"]["found"].startswith("not told: ")
    assert found["cost"]["found"].startswith("$" if usage else "not told")


@pytest.mark.parametrize(("word", "code", "sent"), [("y", 0, 2), ("n", 130, 0), ("", 130, 0)])
def test_a_person_is_asked_first(tmp_path: Path, word: str, code: int, sent: int) -> None:
    with Vendor(COLD, WARM) as vendor:
        person = Person(tmp_path, vendor, "doctor", "--cache", MODELS["chat"], size=(24, 300))
        person.sees("Send two requests of ")
        person.sees(f"tokens to {MODELS['chat']} at {vendor.url}/v1, for about $")
        person.sees("[y/N]")
        assert vendor.requests == []
        person.types(f"{word}\r")
        assert (person.ends(), len(vendor.requests)) == (code, sent)


def test_the_embedded_model_reuses_what_it_has_read(tmp_path: Path) -> None:
    done = run(tmp_path, "doctor", "--cache", "local", "--yes")
    assert done.returncode == 0
    assert done.stdout.startswith("ok    cache  local:smollm2-135m-instruct reused ")


def test_nothing_is_sent_where_nobody_can_be_asked(tmp_path: Path) -> None:
    with Vendor(COLD) as vendor:
        done = run(tmp_path, "doctor", "--cache", MODELS["chat"], **vendor.environment())
        assert (done.returncode, done.stdout, vendor.requests) == (7, "", [])
    assert "nobody can be asked here; --yes agrees" in done.stderr


@pytest.mark.parametrize(
    ("answer", "code"), [(Refuses("key"), 3), (Refuses("rate"), 4), (Refuses("overflow"), 6)]
)
def test_a_refusal_ends_it_with_its_own_code(tmp_path: Path, answer: Answer, code: int) -> None:
    with Vendor(answer) as vendor:
        done = run(tmp_path, "doctor", "--cache", MODELS["chat"], "--yes", **vendor.environment())
        assert (done.returncode, len(vendor.requests)) == (code, 1)
    assert done.stdout == ""


def test_what_cannot_be_asked_at_all_is_said_before_anything_else(tmp_path: Path) -> None:
    assert run(tmp_path, "doctor", "--cache", MODELS["chat"]).returncode == 3
    assert run(tmp_path, "doctor", "--cache", "no-such-model").returncode == 2
    assert run(tmp_path, "doctor", "--yes").returncode == 2
