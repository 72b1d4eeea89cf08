"""`sightline render`, as a shell sees it."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from click.testing import CliRunner

from sightline.cli.main import run
from support.shell import Run

PROMPT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief. " * 600},
        {"role": "user", "content": "find alice's mail"},
    ],
    "tools": [{"name": "mail.search", "description": "Search.", "parameters": {}}],
    "tail": "<slop-state>1</slop-state>",
}


@pytest.fixture
def sightline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command line, in an empty directory and in this process."""
    monkeypatch.chdir(tmp_path)

    def call(*args: str, stdin: bytes | str = b"") -> CompletedProcess[bytes]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        with CliRunner().isolation(input=data) as streams:
            code = run(list(args))
            out, err = streams[0].getvalue(), streams[1].getvalue()
        return CompletedProcess(args, code, out, err)

    return call


def rendered(sightline: Run, *args: str, prompt: object = PROMPT) -> Any:
    done = sightline("render", *args, stdin=json.dumps(prompt))
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)


def test_the_body_is_what_the_vendor_wants(sightline: Run) -> None:
    body = rendered(sightline, "--dialect", "anthropic")
    asked, tail = body["messages"][-1]["content"]
    assert asked == {
        "type": "text", "text": "find alice's mail", "cache_control": {"type": "ephemeral"},
    }  # fmt: skip
    assert tail == {"type": "text", "text": "<slop-state>1</slop-state>"}
    assert list(body)[-1] == "messages"


def test_full_tells_what_is_not_in_the_body(sightline: Run) -> None:
    full = rendered(sightline, "--dialect", "anthropic", "--format", "full")
    assert full["path"] == "/v1/messages"
    assert full["headers"]["anthropic-beta"].startswith("thinking-binding-controls")
    assert (full["marks"], full["thinking"]) == (2, "drop")
    assert list(full["names"].values()) == ["mail.search"]
    assert 0 < full["boundary"] < full["bytes"]
    assert full["notes"][0]["code"] == "thinking"


def test_what_slots_writes_can_be_piped_in(sightline: Run, tmp_path: Path) -> None:
    slots = {
        "budget": 1000,
        "counter": "chars/4",
        "slots": [
            {"name": "system", "content": "Be brief.", "options": {"role": "system"}},
            {"name": "input", "content": "hi"},
            {"name": "state", "content": "<slop-state>", "options": {"stability": "volatile"}},
        ],
    }
    made = sightline("slots", stdin=json.dumps(slots)).stdout
    full = rendered(
        sightline, "--dialect", "openai-chat", "--format", "full", prompt=json.loads(made)
    )
    assert [m["role"] for m in full["body"]["messages"]] == ["developer", "user", "user"]
    (tmp_path / "tail.txt").write_text("<slop-state>2")
    (tmp_path / "tools.json").write_text('{"tools": [{"name": "run"}], "resolve": {}}')
    body = rendered(
        sightline, "--dialect", "gemini", "--tools", "tools.json", "--tail", "tail.txt",
        prompt=json.loads(made),
    )  # fmt: skip
    # The receipt's boundary puts the state of the slots and the file's text into one tail.
    assert body["contents"][-1]["parts"] == [
        {"text": "hi"}, {"text": "<slop-state>"}, {"text": "<slop-state>2"},
    ]  # fmt: skip
    assert body["tools"][0]["functionDeclarations"][0]["name"] == "run"


def test_options_reach_the_request(sightline: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"cache": {"min_tokens": 9999999}}')
    body = rendered(
        sightline, "--dialect", "openai-responses", "--model", "gpt-6-luna", "--no-stream",
        "--conversation", "c7", "--cache-ttl", "12h", "--max-output-tokens", "77",
        "--profile", "mine.json",
    )  # fmt: skip
    assert (body["model"], body["stream"], body["max_output_tokens"]) == ("gpt-6-luna", False, 77)
    assert body["prompt_cache_key"] == "c7"
    assert body["prompt_cache_options"] == {"mode": "explicit", "ttl": "12h"}
    assert "prompt_cache_breakpoint" not in json.dumps(body)
    prepended = rendered(sightline, "--dialect", "anthropic", "--prepend", "--format", "full")
    assert "prepend_regression" in [note["code"] for note in prepended["notes"]]


def test_against_says_what_two_requests_share(sightline: Run, tmp_path: Path) -> None:
    (tmp_path / "before.json").write_text(json.dumps(PROMPT))
    more = [*PROMPT["messages"], {"role": "assistant", "content": "found"}]
    args = ("--dialect", "anthropic", "--against", "before.json")
    found = rendered(sightline, *args, prompt={**PROMPT, "messages": more})
    assert (found["kind"], found["expected"], found["lost_tokens"]) == ("appended", True, 0)
    found = rendered(sightline, *args, prompt={**PROMPT, "tools": []})
    assert (found["kind"], found["expected"]) == ("regression", False)
    assert found["lost_cost"] > 0


WRONG: list[tuple[list[str], object, str]] = [
    (["--dialect", "antropic"], PROMPT, "no dialect 'antropic'; did you mean 'anthropic'?"),
    (["--dialect", "gemini"], [], "stdin: a prompt is an object with messages"),
    (["--dialect", "gemini"], {"mesages": []}, "a prompt has no 'mesages'; it has boundary"),
    (["--dialect", "gemini"], {"messages": 3}, "messages: not a list"),
    (["--dialect", "gemini"], {"messages": [3]}, "messages[0]: 3 is not a message"),
    (["--dialect", "gemini"], {"messages": [], "boundary": 2}, "boundary: 2, and there are 0"),
    (["--dialect", "gemini"], {"messages": [], "boundary": "x"}, "'x' is not a number of"),
    (["--dialect", "gemini"], {"messages": [], "tail": 3}, "tail: neither text nor a list"),
    (["--dialect", "gemini"], {"messages": [], "tools": 3}, "tools: not a list of tool"),
    (["--dialect", "gemini"], {"messages": [], "tools": [{}]}, "tools[0]: a tool needs a name"),
    (["--dialect", "gemini"], {"messages": [], "receipt": 3}, "receipt: Expected `object`"),
    (["--dialect", "gemini", "--cache-ttl", "1h"], PROMPT, "does not have a cache lifetime"),
    (["--dialect", "gemini", "--tools", "no.json"], PROMPT, "no.json: No such file"),
    (["--dialect", "gemini", "--profile", "list.json"], PROMPT, "list.json: not an object"),
    (["--dialect", "gemini", "--tail", "latin.txt"], PROMPT, "latin.txt: byte 0: not UTF-8"),
    ([], PROMPT, "Missing option '--dialect'"),
]


@pytest.mark.parametrize(("args", "prompt", "message"), WRONG)
def test_what_is_wrong_is_said_in_one_line(
    sightline: Run, tmp_path: Path, args: list[str], prompt: object, message: str
) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    done = sightline("render", *args, stdin=json.dumps(prompt))
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""
