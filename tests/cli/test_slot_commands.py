"""`sightline slots`, `tokens` and `strategy`, as a script uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sightline.cli.main import run


@pytest.fixture
def shell() -> Any:
    """Run a command line in this process: arguments and stdin in; code, stdout, stderr out."""

    def call(*args: str, stdin: str | bytes = b"") -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        runner = CliRunner()
        with runner.isolation(input=data) as streams:
            code = run(list(args))
            out, err = streams[0].getvalue(), streams[1].getvalue()
        return code, out.decode(), err.decode()

    return call


def request(budget: Any = 100, counter: str = "chars/4", **slots: Any) -> str:
    listed = [
        {"name": name, "content": content, "options": options}
        for name, (content, options) in slots.items()
    ]
    return json.dumps({"budget": budget, "counter": counter, "slots": listed})


def test_slots_turns_a_request_into_messages_and_a_receipt(shell: Any) -> None:
    given = request(
        7,
        system=("Be kind.", {"role": "system", "priority": 9}),
        history=(
            [{"role": "user", "content": "x" * 40}, {"role": "assistant", "content": "ok"}],
            {},
        ),
        nothing=(None, {}),
        input=({"role": "user", "content": "Hello!"}, {"maxRatio": 0.5}),
    )
    code, out, err = shell("slots", stdin=given)
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "Hello!"},
    ]
    receipt = answer["receipt"]
    assert (receipt["budget"], receipt["total"], receipt["free"]) == (7, 5, 2)
    assert receipt["slots"][1]["messages"][0] == {
        "role": "user",
        "offered": 10,
        "kept": 0,
        "cut": 10,
        "rule": "budget",
        "provenance": "counted",
    }


def test_parts_are_shown_where_a_message_is_more_than_text(shell: Any) -> None:
    call = {"kind": "tool_call", "id": "1", "name": "find", "arguments": {"q": "x"}}
    result = {"kind": "tool_result", "call_id": "1", "content": "found"}
    history = [{"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}]
    _, out, _ = shell("slots", stdin=request(history=(history, {})))
    assert json.loads(out)["messages"] == [
        {"role": "assistant", "content": "", "parts": [call]},
        {"role": "tool", "content": "found", "parts": [result]},
    ]


def test_an_input_with_files_is_content_too(shell: Any) -> None:
    photo = {"kind": "file", "uri": "file:///a.png", "mime": "image/png", "tokens": 5}
    _, out, _ = shell("slots", stdin=request(input=({"text": "see", "files": [photo]}, {})))
    answer = json.loads(out)
    assert answer["receipt"]["total"] == 6
    assert answer["messages"][0]["parts"][1] == photo
    _, again, _ = shell("slots", stdin=request(input=({"text": "see", "attachments": [photo]}, {})))
    assert again == out


def test_messages_may_be_written_as_chat_apis_do(shell: Any) -> None:
    function = {"name": "find", "arguments": '{"q": "x"}'}
    history = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Where?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "found"},
    ]
    code, out, _ = shell("slots", stdin=request(history=(history, {})))
    assert code == 0
    call = {"kind": "tool_call", "id": "1", "name": "find", "arguments": {"q": "x"}}
    result = {"kind": "tool_result", "call_id": "1", "content": "found"}
    assert json.loads(out)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "", "parts": [call]},
        {"role": "tool", "content": "found", "parts": [result]},
    ]


def test_the_receipt_may_be_a_table_and_the_request_a_file(shell: Any, tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(request(input=("Hello!", {})))
    code, out, _ = shell("slots", "--format", "table", str(path))
    assert code == 0
    assert "2 of 100 tokens (chars/4), 98 free" in out


@pytest.mark.parametrize("counter", ["o200k_base", "gpt-4o", "claude-opus-5-5", "estimate"])
def test_a_counter_is_an_encoding_or_a_model(shell: Any, counter: str) -> None:
    code, out, _ = shell("slots", stdin=request(counter=counter, input=("Hello!", {})))
    assert code == 0
    assert json.loads(out)["receipt"]["counter"] == counter


def test_without_a_counter_the_default_is_used_and_named(shell: Any) -> None:
    _, out, _ = shell("slots", stdin='{"budget": 9, "slots": []}')
    assert json.loads(out)["receipt"]["counter"] == "o200k_base"


def test_a_budget_may_be_an_object_and_tools_are_counted(shell: Any) -> None:
    given = {
        "budget": {"max_input_tokens": 50, "reserved_tokens": 10},
        "counter": "chars/4",
        "tools": [{"name": "find"}],
        "slots": [],
    }
    _, out, _ = shell("slots", stdin=json.dumps(given))
    receipt = json.loads(out)["receipt"]
    assert (receipt["budget"], receipt["tools"]) == (40, 4)


def test_what_does_not_fit_exits_with_6_and_the_arithmetic_in_one_line(shell: Any) -> None:
    code, out, err = shell("slots", stdin=request(2, system=("Be very kind.", {"role": "system"})))
    assert (code, out) == (6, "")
    assert err == (
        "sightline: 4 (system messages of 'system') = 4 tokens, which must stay,"
        " and the budget is 2\n"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (request(h=("x", {"maxRatio": 1.5})), "slot 'h', max_ratio: 1.5"),
        (request(h=("x", {"maxRatio": float("nan")})), "slot 'h', max_ratio: nan"),
        (request(h=("x", {"min_tokens": -1})), "slot 'h', min_tokens: -1"),
        (request(h=("x", {"role": "robot"})), "slot 'h', role: 'robot'"),
        (request(h=("x", {"colour": 1})), "slot 'h', colour: there is no such option"),
        (request(h=("x", [1])), "slot 'h', options: not an object"),
        (request(h=(5, {})), "slot 'h', content: 5 is not a message"),
        (request(h=({"role": "robot", "content": "x"}, {})), "slot 'h', content: not a message"),
        (request(h=({"role": "user", "content": 5}, {})), "slot 'h', content: a message has"),
        (request(h=([{"role": "user", "says": "x"}], {})), "slot 'h', content: not a message"),
        (request(h=({"text": 5}, {})), "slot 'h', content"),
        (request(h=({"text": "x", "files": [], "attachments": []}, {})), "not both"),
        (request(h=({"role": "tool", "content": "x"}, {})), "needs the tool_call_id"),
        (request(h=({"role": "assistant", "tool_calls": [{"id": 1}]}, {})), "no tool call with"),
        (request(h=({"role": "user", "content": [{"type": "video"}]}, {})), "no part of a"),
        (request(h=({"role": "user"}, {})), "neither content nor parts"),
        (request(-5), "budget, max_input_tokens: -5"),
        (request("many"), "budget, max_input_tokens: 'many'"),
        (request({"tokens": 5}), "budget: "),
        (request(counter=" "), "a counter needs a name"),
        ('{"budget": 5}', "the request: slots is missing"),
        ('{"slots": []}', "the request: budget is missing"),
        ('{"budget": 5, "slots": [], "colour": 1}', "there is no 'colour'"),
        ('{"budget": 5, "slots": [5]}', "slots[0]: not an object"),
        ('{"budget": 5, "slots": [{}]}', "slots[0]: name is missing"),
        ('{"budget": 5, "slots": [{"name": 5}]}', "slots[0]: the name 5"),
        ('{"budget": 5, "slots": 5}', "slots: not a list"),
        ('{"budget": 5, "slots": [], "counter": 5}', "counter: 5 is not a name"),
        ('{"budget": 5, "slots": [], "tools": [5]}', "tools: not a list of objects"),
        ("[]", "the request is not an object"),
        ('{"budget": 5,\n "slots": [}', "line 2, column 12"),
        ('{"budget": 5, "slots": "\\ud800"}', "lone surrogate"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        (b"\xff{}", "line 1, column 1: not UTF-8"),
    ],
)
def test_bad_input_exits_with_2_and_says_where(shell: Any, given: str | bytes, said: str) -> None:
    code, out, err = shell("slots", stdin=given)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_tokens_prints_the_count_of_a_text(shell: Any, tmp_path: Path) -> None:
    assert shell("tokens", stdin="hello world") == (0, "2\n", "")
    path = tmp_path / "text"
    path.write_text("x" * 9)
    assert shell("tokens", "--model", "chars/4", str(path)) == (0, "3\n", "")


def test_tokens_marks_an_estimate(shell: Any) -> None:
    code, out, err = shell("tokens", "--model", "claude-opus-5-5", stdin="hello world")
    assert (code, err) == (0, "estimated (claude-opus-5-5)\n")
    assert int(out) > 1
    _, out, _ = shell("tokens", "--json", stdin="hello world")
    assert json.loads(out) == {"tokens": 2, "counter": "o200k_base", "provenance": "counted"}


def test_tokens_refuses_what_is_not_text(shell: Any) -> None:
    assert shell("tokens", stdin=b"\xff\xfe")[0] == 2


SESSION = "\n".join(
    [
        '{"kind":"session","id":"s1","title":"Mail"}',
        '{"kind":"message","role":"user","parts":[{"kind":"text","text":"one"}],"group_id":"g1"}',
        '{"kind":"message","role":"assistant","group_id":"g1","tokens":9,"parts":'
        '[{"kind":"tool_call","id":"c","name":"find","arguments":{},"later_key":1}]}',
        '{"kind":"message","role":"tool","parts":[{"kind":"tool_result","call_id":"c","content":"x"}]}',
        '{"kind":"message","role":"user","parts":[{"kind":"text","text":"gone"}],"status":"dropped"}',
        "",
        '{"kind":"memo","text":"from a later version"}',
        '{"kind":"message","role":"user","parts":[{"kind":"text","text":"two"}],"group_id":"g2"}',
        '{"kind":"message","role":"assistant","parts":[{"kind":"text","text":"ok"}]}',
    ]
)

STRATEGY = """
def on_context_build(ctx):
    ctx.slots.add("talk", ctx.history.recent(9))
    ctx.slots.add("ask", ctx.input)
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    session, strategy = tmp_path / "session.jsonl", tmp_path / "mine.py"
    session.write_text(SESSION)
    strategy.write_text(STRATEGY)
    return str(strategy), str(session)


def test_strategy_list_names_what_is_built_in(shell: Any) -> None:
    code, out, _ = shell("strategy", "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()][:3] == ["sightline", "classic", "minimal"]
    _, out, _ = shell("strategy", "list", "--json")
    assert json.loads(out.splitlines()[0]) == {
        "name": "sightline",
        "origin": "built in",
        "usable": True,
        "problem": "",
    }


def test_strategy_check_runs_a_file_on_an_exported_session(
    shell: Any, files: tuple[str, str]
) -> None:
    args = ("strategy", "check", files[0], "--session", files[1], "--model", "chars/4")
    code, out, err = shell(*args)
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows[1][:6] == ["talk", "0", "4", "4", "0", "3/3"]
    assert rows[2][:6] == ["ask", "0", "1", "1", "0", "1/1"]
    _, out, _ = shell(*args, "--turn", "1", "--json")
    assert [slot["offered"] for slot in json.loads(out)["slots"]] == [0, 1]


def test_strategy_check_takes_a_name_a_config_and_a_plain_list(shell: Any) -> None:
    listed = json.dumps([{"role": "user", "content": "hello"}])
    code, out, _ = shell(
        "strategy", "check", "classic", "--session", "-", "--config", '{"window": 2}',
        "--system", "Be kind.", stdin=listed,
    )  # fmt: skip
    assert code == 0
    assert "system" in out


def test_strategy_check_exits_with_1_when_the_strategy_fails(
    shell: Any, files: tuple[str, str]
) -> None:
    Path(files[0]).write_text("def on_context_build(ctx):\n    raise ValueError('broken')\n")
    code, out, err = shell("strategy", "check", files[0], "--session", files[1])
    assert (code, out) == (1, "")
    assert "strategy 'mine', on_context_build: ValueError: broken" in err


@pytest.mark.parametrize(
    ("session", "more", "said"),
    [
        (SESSION, ["--turn", "9"], "--turn 9: the session has turns 1 to 2"),
        (SESSION, ["--turn", "0"], "--turn 0"),
        (SESSION, ["--config", "[]"], "--config: not a JSON object"),
        (SESSION, ["--budget", "-1"], "budget"),
        ('{"kind":"session"}', [], "no message of a user"),
        ('{"kind":"session"}\n{oops', [], "line 2, column 2"),
        ("5", [], "line 1: not a row"),
        ('{"kind":"message","role":"user"}', [], "line 1: a message without parts"),
        ('{"kind":"message","role":"user","parts":[5]}', [], "line 1: not a message"),
        ('{"kind":"message","role":"user","parts":[{"kind":"x"}]}', [], "line 1: not a message"),
        ("[5]", [], "5 is not a message"),
    ],
)
def test_strategy_check_refuses_bad_sessions_and_options(
    shell: Any, files: tuple[str, str], session: str, more: list[str], said: str
) -> None:
    Path(files[1]).write_text(session)
    code, _, err = shell("strategy", "check", files[0], "--session", files[1], *more)
    assert code == 2
    assert said in err


def test_the_real_program_speaks_the_contract() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sightline", "slots"],
        input=request(input=("Hello!", {})),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["messages"] == [{"role": "user", "content": "Hello!"}]
