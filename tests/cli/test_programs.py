"""Programs on clouds, and programs that the gateway cannot see, with a strict vendor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sightline.context.ledger import Ledger
from support.shell import PROGRAM
from support.vendors.answers import Refuses, Sends, says
from support.vendors.server import KEY, Vendor

ASK = """
import contextlib, os, sys, urllib.error, urllib.request
variable, path, body, *headers = sys.argv[1:]
given = {"content-type": "application/json", **dict(one.split("=", 1) for one in headers)}
request = urllib.request.Request(os.environ[variable] + path, body.encode(), given)
with contextlib.suppress(urllib.error.HTTPError):
    sys.stdout.buffer.write(urllib.request.urlopen(request).read())
"""
MODELS = "/projects/p/locations/us-east5/publishers/anthropic/models"
BODY = {"anthropic_version": "any", "messages": [{"role": "user", "content": "well?"}]}
OPUS = "us.anthropic.claude-opus-5-5"
SWITCHES = {
    "vertex": {"CLAUDE_CODE_USE_VERTEX": "1"},
    "foundry": {"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_RESOURCE": "resource"},
    "bedrock": {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_BEARER_TOKEN_BEDROCK": KEY},
}
ENDS = {"vertex": "/v1", "foundry": "/anthropic"}


def run(
    vendor: Vendor, options: list[str], program: list[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """Run a program through a gateway, with an environment and the addresses of a vendor."""
    clouds = {
        f"ANTHROPIC_{name.upper()}_BASE_URL": vendor.url + ENDS.get(name, "")
        for name, switches in SWITCHES.items()
        if switches.keys() & environment.keys()
    }
    return subprocess.run(
        [PROGRAM, "gateway", *options, "--", *program],
        env={**os.environ, **vendor.environment(), **clouds, **environment},
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip


def asking(variable: str, path: str, body: object, *headers: str) -> list[str]:
    """Return a program that sends one request to the address in a variable."""
    text = body if isinstance(body, str) else json.dumps(body, indent=1)
    return [sys.executable, "-c", ASK, variable, path, text, *headers]


def recorded(db: Path) -> list[tuple[str, dict[str, Any], bytes]]:
    """Return the model, the details and the bytes of each request in a ledger."""
    with Ledger(db, mode="read") as ledger:
        kept = [one for s in ledger.sessions.recent() for one in ledger.exchanges.list(s.id)]
        return [(one.model, one.about, ledger.exchanges.request(one.id)) for one in kept]


@pytest.mark.parametrize(
    ("cloud", "path", "model"),
    [
        ("vertex", f"{MODELS}/claude-opus-5-5:streamRawPredict", "claude-opus-5-5"),
        ("vertex", f"{MODELS}/claude-opus-5-5@20261001:rawPredict", "claude-opus-5-5@20261001"),
        ("foundry", "/v1/messages?beta=true", "claude-opus-5-5"),
        ("bedrock", f"/model/{OPUS}/invoke-with-response-stream", OPUS),
        ("bedrock", f"/model/{OPUS}-v1%3A0/invoke-with-response-stream", f"{OPUS}-v1:0"),
    ],
)
def test_gateway_records_model_usage_and_price_when_claude_code_uses_a_cloud(
    tmp_path: Path, cloud: str, path: str, model: str
) -> None:
    body = BODY | ({"model": model} if cloud == "foundry" else {})
    variable = f"ANTHROPIC_{cloud.upper()}_BASE_URL"
    with Vendor(says("hello there")) as vendor:
        db = tmp_path / "l.db"
        done = run(vendor, ["--db", str(db)], asking(variable, path, body), SWITCHES[cloud])
    assert done.returncode == 0, done.stderr
    [seen] = vendor.requests
    assert seen.path == ENDS.get(cloud, "") + path
    assert seen.body == json.dumps(body, indent=1).encode()
    [(found, about, data)] = recorded(db)
    assert (found, data) == (model, seen.body)
    assert about["usage"] == {"input_tokens": 100, "output_tokens": 7, "cache_read_tokens": 80}
    # Opus 5.5: 4 dollars, 0.2 for tokens from the cache, 20 for tokens of the answer.
    assert about["cost_usd"] == pytest.approx((20 * 4 + 80 * 0.2 + 7 * 20) / 1_000_000)
    assert about["stop"] == "end"
    assert b"hello" in done.stdout or cloud == "bedrock"


@pytest.mark.parametrize(
    ("cloud", "path"),
    [
        ("vertex", f"{MODELS}/claude-opus-5-5:rawPredict"),
        ("bedrock", f"/model/{OPUS}/invoke-with-response-stream"),
    ],
)
def test_gateway_records_usage_when_the_reply_of_a_cloud_is_one_message(
    tmp_path: Path, cloud: str, path: str
) -> None:
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hello"}],
        "usage": {"input_tokens": 30, "output_tokens": 2},
    }  # fmt: skip
    reply = Sends(json.dumps(message).encode(), content_type="application/json")
    with Vendor(reply) as vendor:
        db = tmp_path / "l.db"
        program = asking(f"ANTHROPIC_{cloud.upper()}_BASE_URL", path, BODY)
        run(vendor, ["--db", str(db)], program, SWITCHES[cloud])
    [(_, about, _)] = recorded(db)
    assert about["usage"] == {"input_tokens": 30, "output_tokens": 2}


def test_gateway_reports_the_error_when_bedrock_rejects_a_request(tmp_path: Path) -> None:
    path = f"/model/{OPUS}/invoke-with-response-stream"
    with Vendor(Refuses("rate")) as vendor:
        db = tmp_path / "l.db"
        program = asking("ANTHROPIC_BEDROCK_BASE_URL", path, BODY)
        done = run(vendor, ["--db", str(db)], program, SWITCHES["bedrock"])
    assert b"Too many requests" in done.stderr
    [(_, about, _)] = recorded(db)
    assert about["status"] == 429


def test_gateway_adds_v1_when_a_program_of_the_ai_sdk_asks_a_strict_vendor(tmp_path: Path) -> None:
    body = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "well?"}]}
    with Vendor(says("hello there")) as vendor:
        db = tmp_path / "l.db"
        program = asking("ANTHROPIC_BASE_URL", "/messages", body)
        done = run(vendor, ["--db", str(db)], program, {})
        assert b"message_stop" in done.stdout
        again = run(vendor, ["--db", str(db)], program, {"ANTHROPIC_BASE_URL": f"{vendor.url}/v1"})
        assert b"message_stop" in again.stdout
    assert {one.path for one in vendor.requests} == {"/v1/messages"}
    assert len(recorded(db)) == 2


def test_gateway_names_the_token_and_the_program_runs_when_it_signs_with_aws_keys(
    tmp_path: Path,
) -> None:
    path = f"/model/{OPUS}/invoke-with-response-stream"
    switch = {"CLAUDE_CODE_USE_BEDROCK": "1"}
    with Vendor(says("hello there")) as vendor:
        program = asking("ANTHROPIC_BEDROCK_BASE_URL", path, BODY)
        done = run(vendor, ["--db", str(tmp_path / "l.db")], program, switch)
    [seen] = vendor.requests
    assert seen.headers["host"] == vendor.url.removeprefix("http://")
    first, last = done.stderr.splitlines()
    assert b"AWS keys" in first
    assert b"valid for one host" in first
    assert b"AWS_BEARER_TOKEN_BEDROCK" in first
    assert b"sent no request" in last
    assert b"ANTHROPIC_BEDROCK_BASE_URL" in last
    assert b"CLAUDE_CODE_USE_BEDROCK" in last


def test_gateway_names_variables_when_a_program_ends_without_a_request() -> None:
    away = {"ANTHROPIC_AWS_BASE_URL": "http://127.0.0.1:9/?key=secret-value"}
    with Vendor() as vendor:
        done = run(vendor, ["--record", "off"], ["true"], away)
    [last] = done.stderr.decode().splitlines()
    assert "true sent no request through the gateway" in last
    assert "ANTHROPIC_AWS_BASE_URL" in last
    assert "secret-value" not in last
    assert "ANTHROPIC_BASE_URL" not in last.replace("ANTHROPIC_AWS_BASE_URL", "")


def test_gateway_names_the_path_when_it_has_no_reader_for_the_only_requests() -> None:
    with Vendor(says("hello there")) as vendor:
        program = asking("ANTHROPIC_BEDROCK_BASE_URL", "/model/m/converse-stream", BODY)
        done = run(vendor, ["--record", "off"], program, SWITCHES["bedrock"])
    [last] = done.stderr.decode().splitlines()
    assert "POST /model/m/converse-stream passed unread" in last
    assert "sent no request" not in last


@pytest.mark.parametrize(
    ("body", "headers"),
    [('{"prompt": "hello"}', ()), (json.dumps(BODY), ("content-encoding=zstd",))],
)
def test_gateway_says_in_one_line_that_a_body_could_not_be_read(
    body: str, headers: tuple[str, ...]
) -> None:
    path = f"/model/{OPUS}/invoke-with-response-stream"
    with Vendor(says("hello there")) as vendor:
        program = asking("ANTHROPIC_BEDROCK_BASE_URL", path, body, *headers)
        done = run(vendor, ["--record", "off"], program, SWITCHES["bedrock"])
    assert done.stderr.count(b"the request could not be read") == 1
    assert vendor.requests[0].body == body.encode()


def test_gateway_prints_variables_of_a_cloud_when_it_runs_as_a_server() -> None:
    environment = {**os.environ, **SWITCHES["foundry"], **SWITCHES["bedrock"]}
    with subprocess.Popen(
        [PROGRAM, "gateway", "--record", "off", "--upstream", "vertex=http://127.0.0.1:9/v1"],
        env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        lines = [server.stdout.readline().strip() for _ in range(7)]
        server.terminate()
    exports = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    assert exports["ANTHROPIC_FOUNDRY_RESOURCE"] == "''"
    assert exports["ANTHROPIC_FOUNDRY_BASE_URL"].endswith("/foundry")
    assert exports["ANTHROPIC_BEDROCK_BASE_URL"].endswith("/bedrock")
    assert exports["ANTHROPIC_VERTEX_BASE_URL"].endswith("/vertex/v1")
