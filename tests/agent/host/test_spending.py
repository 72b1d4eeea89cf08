"""Money is asked about before it is spent over a limit: in a turn, a session, a day."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.host.helpers import NOW, check_ledger, ended, hosted, of_kind
from sightline.agent.host import Host
from sightline.agent.host.spending import Spending
from sightline.agent.models.scripted import Reply, ScriptedModel
from sightline.config import LimitSettings
from sightline.context.dialects.events import Usage
from sightline.context.dialects.profile import Prices
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger, StoredUsage
from sightline.context.messages.parts import ToolCall
from sightline.errors import NotFound, OverBudget
from sightline.events import HostEvent, Noticed, RequestBuilt, SpendingAsked

# A dollar for each token of output; what a prompt costs is next to nothing.
PRICED = replace(
    profile_for("openai-chat", "scripted"), prices=Prices(input=1e-6, output=1_000_000.0)
)
LOOK = ToolCall("c1", "query_db", {"sql": "SELECT 1"})


def costing(dollars: int, *calls: ToolCall) -> Reply:
    return Reply(text="Well.", calls=calls, usage=Usage(10, dollars))


def priced(*script: Any) -> ScriptedModel:
    return ScriptedModel(script, profile=PRICED)


async def asked(
    host: Host, agree: Callable[[SpendingAsked], bool] = lambda _: False
) -> list[HostEvent]:
    events: list[HostEvent] = []
    async for event in host.ask("hi"):
        events.append(event)
        if isinstance(event, SpendingAsked):
            host.spend_more(agree(event))
    return events


def scopes(events: Sequence[HostEvent]) -> list[tuple[str, float, float]]:
    questions = of_kind(list(events), SpendingAsked)
    return [(one.scope, round(one.spent_usd), one.raised_usd) for one in questions]


async def test_a_turn_asks_before_its_next_request_and_ends_with_a_no(tmp_path: Path) -> None:
    script = priced(costing(3, LOOK), "never")
    async with hosted(tmp_path, script, limits=LimitSettings(turn_usd=3)) as (host, model):
        events = await asked(host)
        assert scopes(events) == [("turn", 3, 6)]
        end = ended(events)
        assert (end.outcome, end.code) == ("limit", "over_budget")
        assert end.detail.startswith("$3 of $3 (limits.turn_usd) spent in this turn")
        assert len(model.requests) == len(of_kind(events, RequestBuilt)) == 1
        model.add("Once more.")
        assert ended(await asked(host)).outcome == "answered"  # the next turn has its own
        with pytest.raises(NotFound):
            host.spend_more(True)
    check_ledger(tmp_path)


async def test_a_yes_is_good_up_to_the_next_multiple_of_the_limit(tmp_path: Path) -> None:
    script = priced(*(costing(2, replace(LOOK, id=f"c{n}")) for n in range(4)), "Done.")
    async with hosted(tmp_path, script, limits=LimitSettings(turn_usd=3)) as (host, _):
        events = await asked(host, lambda _: True)
    assert scopes(events) == [("turn", 4, 6), ("turn", 6, 9)]
    assert ended(events).outcome == "answered"
    assert [built.request for built in of_kind(events, RequestBuilt)] == [1, 2, 3, 4, 5]
    check_ledger(tmp_path)


async def test_a_session_counts_what_it_cost_before_it_was_opened_again(tmp_path: Path) -> None:
    limits = LimitSettings(session_usd=5)
    async with hosted(tmp_path, priced(costing(6)), limits=limits) as (host, _):
        assert scopes(await asked(host)) == []
    async with hosted(tmp_path, priced("never"), limits=limits, session=1) as (host, _):
        assert scopes(await asked(host)) == [("session", 6, 10)]
        await host.new_session()
        assert scopes(await asked(host)) == []


async def test_a_turn_that_waits_for_money_can_be_cancelled(tmp_path: Path) -> None:
    script = priced(costing(3, LOOK), "never")
    async with hosted(tmp_path, script, limits=LimitSettings(turn_usd=3)) as (host, _):
        events: list[HostEvent] = []
        async for event in host.ask("hi"):
            events.append(event)
            if isinstance(event, SpendingAsked):
                host.cancel()
    assert ended(events).outcome == "cancelled"
    check_ledger(tmp_path)


async def test_a_model_without_a_price_is_told_of_and_never_taken_for_free(tmp_path: Path) -> None:
    limits = LimitSettings(session_usd=5)
    async with hosted(tmp_path, ["One.", "Two."], limits=limits) as (host, _):
        told = of_kind([*await asked(host), *await asked(host)], Noticed)
        assert [(one.code, "is not known" in one.message) for one in told] == [("unpriced", True)]
        await host.use_model(priced(costing(7), "never"))
        await asked(host)
        [question] = of_kind(await asked(host), SpendingAsked)
    assert question.unpriced == 2
    assert "$7 + 2 requests of unknown price" in str(question)


async def test_a_question_beside_the_conversation_passes_no_limit(tmp_path: Path) -> None:
    limits = LimitSettings(session_usd=5)
    async with hosted(tmp_path, priced(costing(6), "never"), limits=limits) as (host, model):
        await asked(host)
        with pytest.raises(OverBudget):
            await host.rebuild_state()
        assert len(model.requests) == 1


def test_a_day_is_what_all_sessions_spent_since_midnight(tmp_path: Path) -> None:
    now = [datetime(2026, 4, 28, 10, 30).astimezone()]
    with Ledger(tmp_path / "l.db", clock=lambda: now[0]) as ledger:

        def spend(dollars: int) -> None:
            session = ledger.sessions.create().id
            usage = StoredUsage("m", 1, 1, cost_nanousd=dollars * 10**9)
            ledger.accounts.record(session, usage)

        def spent() -> float:
            question = spending.overrun(1e6)
            assert question is not None
            return question.spent_usd

        spending = Spending(ledger, LimitSettings(day_usd=1), lambda: now[0])
        now[0] -= timedelta(days=1)
        spend(64)
        now[0] += timedelta(days=1)
        spend(1)
        spend(2)
        assert spent() == 3
        spend(4)
        assert spent() == 7
        assert Spending(ledger, LimitSettings(day_usd=1), lambda: now[0]).overrun(0) is not None
        now[0] = now[0].replace(hour=0, minute=0) + timedelta(days=1)
        assert spent() == 0
        spend(8)
        assert spent() == 8


def test_only_what_is_new_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(tmp_path / "l.db", clock=lambda: NOW) as ledger:
        session = ledger.sessions.create().id
        for _ in range(3):
            ledger.accounts.record(session, StoredUsage("m", 1, 1, cost_nanousd=1))
        spending = Spending(ledger, LimitSettings(day_usd=1), lambda: NOW.astimezone(UTC))
        read: list[int] = []
        charges = ledger.accounts.charges

        def counted(**chosen: Any) -> Any:
            found = charges(**chosen)
            read.append(len(found))
            return found

        monkeypatch.setattr(ledger.accounts, "charges", counted)
        spending.overrun(0)
        spending.overrun(0)
        ledger.accounts.record(session, StoredUsage("m", 1, 1, cost_nanousd=1))
        spending.overrun(0)
    assert read == [3, 0, 1]
