"""What the agents' own transcripts tell: requests once each, causes that stand there, no others."""

from __future__ import annotations

import json
import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from benchmarks.faults import session
from hypothesis import given
from hypothesis import strategies as st

from gateway.test_observer import passing
from sightline.context.ledger import Ledger
from sightline.gateway import imports
from sightline.gateway.imports import Imported, import_transcripts
from sightline.gateway.observer import Observer, passed_of
from sightline.gateway.transcripts import Reader

BEGAN = datetime(2026, 11, 16, 8, tzinfo=UTC)
Line = dict[str, Any]


def moment(at: float) -> str:
    return (BEGAN + timedelta(seconds=at)).isoformat().replace("+00:00", "Z")


class Claude:
    """A transcript of Claude Code, line by line; each line goes on from the last."""

    def __init__(self, name: str = "one") -> None:
        self.name = name
        self.lines: list[Line] = []
        self.at = 0.0
        self.last: str | None = None

    def add(self, kind: str, **fields: Any) -> None:
        uuid = f"{self.name}-{len(self.lines)}"
        self.lines.append({
            "type": kind, "uuid": uuid, "parentUuid": self.last, "sessionId": self.name,
            "cwd": "/home/somebody/work", "timestamp": moment(self.at), **fields,
        })  # fmt: skip
        self.last = uuid

    def turn(
        self, read: int, write: int, *, after: float = 10.0, model: str = "claude-opus-5-5",
        request: str = "", long: int = 0, out: int = 9, blocks: int = 1, **more: Any,
    ) -> None:  # fmt: skip
        self.at += after
        self.add("user", message={"role": "user", "content": "What is it?"})
        usage = {
            "input_tokens": 100, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": write,
            "cache_creation": {"ephemeral_1h_input_tokens": long},
        }  # fmt: skip
        for block in range(blocks):
            self.at += 1
            self.add(
                "assistant", requestId=request or f"req_{self.name}_{len(self.lines) - block}",
                message={
                    "id": "msg_1", "role": "assistant", "model": model,
                    "content": [{"type": "text", "text": "So and so."}],
                    "stop_reason": "end_turn" if block == blocks - 1 else None,
                    "usage": {**usage, "output_tokens": out * (block + 1)},
                }, **more,
            )  # fmt: skip

    def asked(self, name: str, tools: list[str], effort: str = "high") -> str:
        """What newer versions write down of a request; gives its name."""
        shape = {"tools": [{"name": tool} for tool in tools], "system": "You help."}
        self.lines += [
            {"type": "api-request-shape", "sessionId": self.name, "shapeHash": str(tools),
             "shape": shape},
            {"type": "api-request", "sessionId": self.name, "id": name, "shapeHash": str(tools),
             "timestamp": moment(self.at + 10), "params": {
                 "model": "claude-opus-5-5", "output_config": {"effort": effort}}},
        ]  # fmt: skip
        return name

    def write(self, folder: Path) -> Path:
        return written(folder / f"{self.name}.jsonl", self.lines)


class Codex:
    """A rollout of Codex, line by line."""

    def __init__(self, name: str = "two", **meta: Any) -> None:
        self.name = name
        self.lines: list[Line] = []
        self.at = 0.0
        self.totals = [0, 0]
        self.add("session_meta", id=name, cwd="/home/somebody/work", **meta)

    def add(self, kind: str, **payload: Any) -> None:
        self.lines.append({"timestamp": moment(self.at), "type": kind, "payload": payload})

    def turn(
        self, everything: int, read: int, *, after: float = 10.0, model: str = "gpt-5.5",
        effort: str = "low", took: float = 2.0,
    ) -> None:  # fmt: skip
        self.at += after
        self.add("turn_context", model=model, effort=effort)
        content = [{"type": "input_text", "text": "What is it?"}]
        self.add("response_item", type="message", role="user", content=content)
        self.at += took
        self.totals = [self.totals[0] + everything, self.totals[1] + read]
        self.count(everything, read)

    def count(self, everything: int, read: int) -> None:
        def counts(whole: int, cached: int) -> Line:
            return {"input_tokens": whole, "cached_input_tokens": cached, "output_tokens": 9}

        info = {
            "total_token_usage": counts(*self.totals),
            "last_token_usage": counts(everything, read),
        }
        self.add("event_msg", type="token_count", info=info)

    def write(self, folder: Path) -> Path:
        return written(folder / f"rollout-{self.name}.jsonl", self.lines)


def written(path: Path, lines: list[Line]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def imported(tmp_path: Path, *paths: Path) -> Imported:
    with Ledger(tmp_path / "l.db") as ledger:
        return import_transcripts(ledger, paths)


def causes(done: Imported) -> list[str]:
    return ["" if one.loss is None else one.loss.cause for one in done.passed]


def test_causes_of_claude_code_are_those_that_stand_in_its_transcript(tmp_path: Path) -> None:
    talk = Claude()
    talk.turn(0, 20_000)
    talk.turn(20_000, 500)
    talk.turn(0, 21_000, after=400)
    talk.turn(0, 21_500, model="claude-haiku-5")
    talk.add("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=talk.last)
    talk.turn(0, 9_000, model="claude-haiku-5", long=9_000)
    talk.turn(0, 9_500, model="claude-haiku-5", after=400)
    talk.turn(0, 9_600, model="claude-haiku-5", after=4_000)
    talk.turn(0, 9_700, request="a", requestRef=talk.asked("a", ["Bash", "Read"]))
    talk.turn(9_700, 100, request="b", requestRef=talk.asked("b", ["Bash", "Read"]))
    talk.turn(0, 9_900, request="c", requestRef=talk.asked("c", ["Bash", "Edit", "Read"]))
    effort = talk.asked("d", ["Bash", "Edit", "Read"], effort="low")
    talk.turn(0, 9_900, request="d", requestRef=effort)
    done = imported(tmp_path, talk.write(tmp_path))
    assert causes(done) == [
        "", "", "expired", "model", "compaction", "unknown", "expired", "model", "",
        "tool_added", "effort",
    ]  # fmt: skip
    lost = done.passed[2].loss
    assert lost is not None
    assert lost.tokens == 20_500
    assert lost.cost
    assert "6 min" in lost.words
    assert done.passed[1].cost_usd


def test_causes_of_codex_are_those_that_stand_in_its_rollout(tmp_path: Path) -> None:
    talk = Codex()
    talk.turn(20_000, 0)
    talk.turn(21_000, 19_500)
    talk.count(21_000, 19_500)
    talk.turn(22_000, 0)
    talk.turn(23_000, 0, effort="high")
    talk.turn(24_000, 0, effort="high", model="gpt-5.6")
    talk.add("compacted", message="It was about this and that.")
    talk.turn(9_000, 0, effort="high", model="gpt-5.6")
    talk.turn(9_500, 0, effort="high", model="gpt-5.6", after=3_600)
    done = imported(tmp_path, talk.write(tmp_path))
    assert causes(done) == ["", "", "unknown", "effort", "model", "compaction", "expired"]


def test_a_reply_counts_once_as_it_was_at_its_end(tmp_path: Path) -> None:
    talk = Claude()
    talk.turn(0, 20_000, out=5, blocks=3)
    for line in talk.lines:
        line.pop("requestId", None)
    talk.turn(20_000, 300, request="")
    talk.lines[-1].pop("requestId")  # a relay: all replies have the same id
    done = imported(tmp_path, talk.write(tmp_path))
    assert [one.usage and one.usage.output_tokens for one in done.passed] == [15, 9]


def test_a_request_is_held_against_the_one_that_it_goes_on_from(tmp_path: Path) -> None:
    talk = Claude()
    talk.turn(0, 20_000)
    back = talk.last
    talk.turn(20_000, 30_000)
    talk.last = back  # gone back
    talk.turn(20_000, 400)
    talk.last = None  # a sub-agent of its own
    talk.turn(0, 8_000, isSidechain=True)
    assert causes(imported(tmp_path, talk.write(tmp_path))) == ["", "", "", ""]


def test_a_file_adds_only_what_is_new_in_it_whoever_has_copied_it(tmp_path: Path) -> None:
    talk = Claude()
    talk.turn(0, 20_000)
    talk.turn(20_000, 400)
    path = talk.write(tmp_path / "in")
    first = imported(tmp_path, path)
    assert (first.new, first.known, first.sessions) == (2, 0, [1])
    again = imported(tmp_path, path, path.parent)
    assert (again.files, again.new, again.known) == (1, 0, 2)
    talk.turn(20_400, 100)
    talk.write(tmp_path / "in")
    fork = Claude("fork")
    fork.lines = [{**line, "sessionId": "fork"} for line in talk.lines]
    fork.last = talk.last
    fork.turn(0, 20_500)
    fork.write(tmp_path / "in")
    os.utime(path, (1, 1))
    grown = imported(tmp_path, tmp_path / "in")
    assert (grown.new, grown.known, grown.sessions) == (2, 5, [1, 2])
    assert causes(grown) == ["", "unknown"]
    with Ledger(tmp_path / "l.db") as ledger:
        one = ledger.sessions.get(1)
        kept = ledger.exchanges.list(1)
        assert (one.title, one.project) == ("What is it?", "/home/somebody/work")
        assert (one.kind, one.is_foreign) == ("gateway import claude", True)
        assert [passed_of(each).usage for each in kept[:2]] == [each.usage for each in first.passed]
        assert kept[0].sent_at == moment(10.0).replace("Z", ".000Z")
        assert ledger.accounts.totals().cost_nanousd == 0  # nothing of it was spent here
        assert ledger.verify().ok


def test_what_a_fork_of_codex_copied_is_counted_with_its_parent(tmp_path: Path) -> None:
    fork = Codex("child", forked_from_id="parent")
    for turn in range(5):
        fork.turn(20_000 + turn, 0, after=0.0, took=0.0)
    fork.turn(20_100, 20_000)
    done = imported(tmp_path, fork.write(tmp_path))
    assert (done.new, done.skipped["requests that a fork copied"]) == (1, 5)


def test_a_reply_that_is_being_written_waits_for_the_next_import(tmp_path: Path) -> None:
    talk = Claude()
    talk.turn(0, 20_000)
    talk.lines[-1]["message"]["stop_reason"] = None
    path = talk.write(tmp_path)
    with path.open("a") as file:
        file.write('{"type": "assist')
    done = imported(tmp_path, path)
    assert (done.new, done.skipped["replies that are under way"]) == (0, 1)
    assert done.skipped["lines that cannot be read"] == 0
    os.utime(path, (1, 1))
    assert imported(tmp_path, path).new == 1


def test_a_session_that_a_gateway_recorded_is_left_to_it(tmp_path: Path) -> None:
    talk = Claude("one")
    talk.turn(0, 20_000)
    with Ledger(tmp_path / "l.db") as ledger:
        body = session(random.Random(1), "anthropic", 1)[0]
        Observer(ledger).observe(passing("anthropic", body))
        done = import_transcripts(ledger, [talk.write(tmp_path)])
        assert (done.new, len(ledger.sessions.recent())) == (0, 1)
    assert done.skipped["files of sessions that a gateway recorded, which knows more"] == 1


def test_what_is_not_one_s_own_file_is_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    talk = Claude()
    talk.turn(0, 20_000)
    outside = talk.write(tmp_path)
    folder.mkdir()
    (folder / "link.jsonl").symlink_to(outside)
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "other.jsonl").write_text('{"a": 1}\nno JSON\n')
    done = imported(tmp_path, folder)
    assert (done.files, done.new, +done.skipped) == (0, 0, {
        imports.UNREADABLE: 2, "files that are no regular ones or another user's": 1,
        "files that are no transcripts": 1,
    })  # fmt: skip
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert imported(tmp_path, outside).skipped["files that are no regular ones or another user's"]
    monkeypatch.undo()
    monkeypatch.setattr(imports, "LINE_BYTES", 2_000)
    with outside.open("a") as file:
        file.write("x" * 9_000 + "\n\nno JSON\n[[\n")
    done = imported(tmp_path, outside)
    assert (done.new, done.skipped["lines that are too long"]) == (1, 1)
    assert done.skipped["lines that cannot be read"] == 2


def test_no_key_in_a_transcript_is_in_the_ledger(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "xY7" * 30
    talk = Claude()
    talk.turn(0, 20_000)
    talk.lines[0]["message"]["content"] = f"{key} is my key"
    talk.lines[0]["cwd"] = f"/home/{key}"
    imported(tmp_path, talk.write(tmp_path / "in"))
    assert all(key.encode() not in file.read_bytes() for file in tmp_path.glob("l.db*"))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(moment(3)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"user","sessionId":"x","uuid":"u","message":' + b"[" * 9**5 + b"]" * 9**5 + b"}",
        b'{"type":"user","sessionId":"x","uuid":"u","timestamp":"9999-12-31T23:59:59-23:59"}',
        b'{"type":"assistant","sessionId":"x","uuid":"u","message":{"id":"\\ud800"}}',
    ],
)
def test_a_line_that_no_agent_writes_is_counted(line: bytes) -> None:
    reader = Reader()
    reader.feed(line)
    assert (reader.unread, reader.requests) == (1, [])


@given(st.data())
def test_nothing_in_a_line_makes_reading_fail(data: st.DataObject) -> None:
    talk = data.draw(st.sampled_from([Claude, Codex]))()
    for _ in range(2):
        talk.turn(10_000, 5_000)
    for line in talk.lines:
        spot: Any = line
        while data.draw(st.booleans()) and isinstance(spot, dict) and spot:
            name = data.draw(st.sampled_from(sorted(spot)))
            if data.draw(st.booleans()):
                spot[name] = data.draw(_VALUES)
            spot = spot[name]
    reader = Reader()
    for line in talk.lines:
        reader.feed(json.dumps(line).encode()[: data.draw(st.integers(1, 2_000))])
    for one in reader.requests:
        imports._passed(one)
