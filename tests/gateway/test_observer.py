"""What a gateway keeps of an agent's session, and says of it."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest
from benchmarks.faults import LAYOUTS, Layout, session
from proof.planting import SHAPES

from sightline.context.dialects.events import Usage
from sightline.context.ledger import Ledger
from sightline.gateway.observer import Observer, Passing, passed_of
from sightline.gateway.report import line_of, summarise, summary_lines, trace_passed
from support.vendors.answers import says
from support.vendors.apis import APIS as WIRES

WIRE = {"anthropic": "anthropic", "openai-responses": "responses"}


def passing(layout: Layout, body: object, *, read: int = 0, at: float = 0.0) -> Passing:
    """A request that went through, answered as its vendor does."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = Passing(layout, "/v1/x", {"session-id": "one"}, data, 0.0, at)
    found.status, found.first, found.ended = 200, 0.1, 0.5
    found.reply_headers = {"content-type": "text/event-stream"}
    used = Usage(20_000, 9, read, 20_000 - read)
    for frame in WIRES[WIRE[layout]].frames(says("well then", usage=used)):
        found.feed(frame)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_session_is_kept_as_it_was_sent_and_costs_what_is_new(
    tmp_path: Path, layout: Layout
) -> None:
    bodies = [json.dumps(body).encode() for body in session(random.Random(1), layout, 40)]
    path = tmp_path / "l.db"
    with Ledger(path):
        pass
    empty = path.stat().st_size
    with Ledger(path) as ledger:
        observer = Observer(ledger, project="/p", agent="agent")
        passed = [observer.observe(passing(layout, body)) for body in bodies]
        [kept] = ledger.sessions.recent()
        exchanges = ledger.exchanges.list(kept.id)
        for exchange, body in zip(exchanges, bodies, strict=True):
            assert ledger.exchanges.request(exchange.id) == body
        assert [msgspec.structs.replace(passed_of(e), session="one") for e in exchanges] == passed
        assert ledger.exchanges.reply(exchanges[0].id)["message"]["parts"][0]["text"] == "well then"
        assert ledger.accounts.totals(kept.id).requests == len(bodies)
        assert kept.kind == "gateway agent"
        assert kept.title
        assert ledger.verify().ok
    new = len(bodies[-1])  # a conversation only grows: what is new in all of it
    assert path.stat().st_size - empty <= 1.2 * new


def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    first, second = session(random.Random(2), "anthropic", 2)[:2]
    second["tools"].reverse()
    with Ledger(tmp_path / "l.db") as ledger:
        Observer(ledger).observe(passing("anthropic", first, read=15_000))
        passed = Observer(ledger).observe(passing("anthropic", second))
        assert passed.loss is not None
        assert passed.loss.cause == "tools_reordered"
        assert len(ledger.sessions.recent()) == 1


def test_conversations_that_run_at_once_are_told_apart() -> None:
    observer = Observer()
    one = session(random.Random(3), "anthropic", 3)
    other = session(random.Random(4), "anthropic", 3)
    for mine, theirs in zip(one, other, strict=True):
        for body in (mine, theirs):
            passed = observer.observe(passing("anthropic", body, read=19_000))
            assert passed.loss is None


def test_a_conversation_is_the_same_without_its_tools_or_with_other_instructions() -> None:
    first, then = session(random.Random(4), "openai-responses", 3)[-2:]
    for change, cause in (({"tools": []}, "tool_removed"), ({"instructions": "x"}, "instructions")):
        observer = Observer()
        observer.observe(passing("openai-responses", first))
        loss = observer.observe(passing("openai-responses", then | change, at=1.0)).loss
        assert loss is not None
        assert loss.cause == cause


@pytest.mark.parametrize(("at", "cause"), [(0.05, None), (1.0, "lost")])
def test_of_requests_at_once_the_later_could_find_nothing(at: float, cause: str | None) -> None:
    observer, body = Observer(), session(random.Random(5), "openai-responses", 2)[-1]
    observer.observe(passing("openai-responses", body))
    loss = observer.observe(passing("openai-responses", body, at=at)).loss
    assert (loss.cause if loss else None) == cause


def test_a_request_that_passed_is_a_span_of_its_agents_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    exporters = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    provider, kept = sdk.TracerProvider(), exporters.InMemorySpanExporter()
    provider.add_span_processor(sdk.export.SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    first, second = session(random.Random(2), "anthropic", 2)[:2]
    second["tools"].reverse()
    observer, agents = Observer(), f"00-{'a' * 32}-{'b' * 16}-01"
    for body, read in ((first, 15_000), (second, 0)):
        request = passing("anthropic", body, read=read, at=1_000.0)
        request.headers = {"session-id": "one", "traceparent": agents}
        trace_passed(observer.observe(request), request)
    before, after = kept.get_finished_spans()
    assert before.name == f"chat {first['model']}"
    assert (before.parent.span_id, before.parent.trace_id) == (int("b" * 16, 16), int("a" * 32, 16))
    assert before.end_time - before.start_time == 500_000_000
    assert before.attributes["gen_ai.usage.cache_read.input_tokens"] == 15_000
    assert "sightline.drift.cause" not in before.attributes
    assert after.attributes["sightline.drift.cause"] == "tools_reordered"
    assert after.attributes["sightline.drift.lost_tokens"] > 0


def test_no_key_in_a_request_or_a_reply_is_in_any_file(tmp_path: Path) -> None:
    body = session(random.Random(5), "anthropic", 1)[0]
    rng = random.Random(6)
    secrets = {make(rng): shape for shape, make in SHAPES}
    planted = "\n".join(shape.format(secret) for secret, shape in secrets.items())
    body["messages"][0]["content"].append({"type": "text", "text": planted})
    with Ledger(tmp_path / "l.db") as ledger:
        Observer(ledger).observe(passing("anthropic", body))
        [kept] = ledger.sessions.recent()
        stored = ledger.exchanges.request(ledger.exchanges.list(kept.id)[0].id)
    for secret in secrets:
        assert secret.encode() not in stored
        for file in tmp_path.iterdir():
            assert secret.encode() not in file.read_bytes()


def test_a_ledger_that_cannot_be_written_costs_a_line_and_no_request(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db"):
        pass
    with Ledger(tmp_path / "l.db", mode="read") as ledger:
        passed = Observer(ledger).observe(
            passing("anthropic", session(random.Random(7), "anthropic", 1)[0])
        )
    assert passed.usage is not None
    assert "not kept" in passed.trouble


@pytest.mark.parametrize(
    "words", ["\U0001f468\u200d\U0001f469 hi", "\ufeff", "\x1b[31mred\0", "\n"]
)
def test_no_word_of_an_agent_keeps_its_session_out_of_the_ledger(
    tmp_path: Path, words: str
) -> None:
    body = {"model": words * 200, "messages": [{"role": "user", "content": words}]}
    with Ledger(tmp_path / "l.db") as ledger:
        observer = Observer(ledger, project="/p\udcff", agent=words)
        passed = observer.observe(passing("anthropic", body))
        assert not passed.trouble
        assert passed.exchange is not None
        assert json.loads(ledger.exchanges.request(passed.exchange)) == body


def test_a_session_that_was_forgotten_or_begun_elsewhere_is_kept_on(tmp_path: Path) -> None:
    first, second, third = session(random.Random(9), "anthropic", 3)[:3]
    with Ledger(tmp_path / "l.db") as ledger, Ledger(tmp_path / "l.db") as same:
        observer, other = Observer(ledger), Observer(same)
        observer.observe(passing("anthropic", first))
        [kept] = ledger.sessions.recent()
        ledger.sessions.delete(kept.id, confirm=kept.name)
        for body in (second, first, third):
            for one in (observer, other):
                passed = one.observe(passing("anthropic", body))
                assert not passed.trouble
        [kept] = ledger.sessions.recent()
    with Ledger(tmp_path / "l.db", mode="read") as ledger:
        read = [json.loads(ledger.exchanges.request(e.id)) for e in ledger.exchanges.list(kept.id)]
    assert read == [second, second, first, first, third, third]


def test_a_ledger_that_was_deleted_is_said_once_and_another_begun(tmp_path: Path) -> None:
    first, second, third, fourth = session(random.Random(11), "anthropic", 4)[:4]
    path = tmp_path / "in" / "l.db"
    observer = Observer(Ledger(path))
    observer.observe(passing("anthropic", first))
    for file in path.parent.iterdir():
        file.unlink()
    troubles = [observer.observe(passing("anthropic", one)).trouble for one in (second, third)]
    assert "was deleted" in troubles[0]
    assert troubles[1] == ""
    with Ledger(path, mode="read") as ledger:
        [kept] = ledger.sessions.recent()
        read = [json.loads(ledger.exchanges.request(e.id)) for e in ledger.exchanges.list(kept.id)]
        assert ledger.verify().ok
    assert read == [second, third]
    shutil.rmtree(path.parent)
    path.parent.write_text("no directory any more")
    passed = observer.observe(passing("anthropic", fourth))
    assert "nothing is recorded any more" in passed.trouble
    assert passed.usage is not None
    assert observer.observe(passing("anthropic", fourth)).trouble == ""
    observer.close()


def test_a_row_that_cannot_be_read_costs_a_line_and_not_those_after_it(tmp_path: Path) -> None:
    first, second = session(random.Random(10), "anthropic", 2)[:2]
    path = tmp_path / "l.db"
    with Ledger(path) as ledger:
        Observer(ledger).observe(passing("anthropic", first))
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE exchanges SET request = x'0000000000000000ff'")
    with Ledger(path) as ledger:
        observer = Observer(ledger)
        assert "could not be looked at" in observer.observe(passing("anthropic", second)).trouble
        assert not observer.observe(passing("anthropic", second)).trouble


def test_what_cannot_be_read_is_said() -> None:
    passed = Observer().observe(passing("anthropic", b"\xff\xfe"))
    assert passed.trouble == "the request could not be read"


def test_lines_and_the_summary_say_what_was_lost_and_why() -> None:
    before, now = session(random.Random(8), "anthropic", 2)[:2]
    now["model"] = "claude-haiku-5"
    observer = Observer()
    passed = [
        observer.observe(passing("anthropic", body, read=read))
        for body, read in ((before, 15_000), (now, 0))
    ]
    said = line_of(passed[1])
    assert "0 reused · 20,000 evaluated" in said[0]
    assert "the model was switched (claude-opus-5-5 → claude-haiku-5)" in said[1]
    words = "\n".join(summary_lines(summarise(passed)))
    assert "2 requests" in words
    assert "the model was switched" in words
