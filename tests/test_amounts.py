"""No share is above 100 % or below 0, and no price that is unknown is written as zero."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sightline._amounts import dollars, percent
from sightline.cli.chat.cards import Status, after, status_line
from sightline.cli.commands.console import text_of
from sightline.cli.commands.picture import Picture, PictureShare, draw
from sightline.cli.main import run
from sightline.context.dialects import profile_for
from sightline.context.dialects.events import Usage, cost
from sightline.context.ledger import Ledger, StoredUsage, Totals
from sightline.events import RequestBuilt, SpendingAsked, UsageReported
from sightline.gateway.observer import Passed
from sightline.gateway.report import line_of, report_page, summarise, summary_lines
from sightline.inspector.verdicts import cost_verdict, reuse_verdict

MORE_READ_THAN_SENT = Usage(1_000, 9, 1_500)


def passed(cost_usd: float | None, usage: Usage = MORE_READ_THAN_SENT) -> Passed:
    return Passed("", "anthropic", "m", 200, 1, 1, 2, usage=usage, cost_usd=cost_usd)


@pytest.mark.parametrize(
    ("usd", "unpriced", "text"),
    [
        (None, 0, "unknown"),
        (None, 3, "unknown"),
        (0, 0, "$0"),
        (0, 2, "unknown"),
        (0.96, 3, "$0.96 + 3 requests of unknown price"),
        (0.0042, 1, "$0.0042 + 1 request of unknown price"),
        (0.00001, 0, "under $0.0001"),
        (0.99999, 0, "$1"),
        (12.301, 0, "$12.30"),
    ],
)
def test_dollars_writes_a_price_and_names_what_is_unknown(
    usd: float | None, unpriced: int, text: str
) -> None:
    assert dollars(usd, unpriced) == text


def test_percent_stays_between_0_and_100() -> None:
    chance = random.Random(20)
    for _ in range(2_000):
        part, whole = chance.uniform(-10, 10), chance.uniform(-10, 10)
        assert 0 <= int(percent(part, whole).removesuffix(" %")) <= 100


def test_gateway_lines_keep_shares_below_100_and_name_unknown_prices() -> None:
    assert summary_lines(summarise([passed(None)]))[0].endswith(
        "100 % reused, 9 out, price unknown"
    )
    mixed = [passed(0.96), *[passed(None)] * 3]
    [first, *_] = summary_lines(summarise(mixed))
    assert first.endswith("$0.96 + 3 requests of unknown price")
    assert summary_lines(summarise([passed(0.0)]))[0].endswith("9 out, price $0")
    assert "price unknown" in line_of(passed(None))[0]
    page = "".join(report_page("t", "", [("2026-11-19T00:00:00Z", one) for one in mixed]))
    assert "data-name='cost'>unknown<" in page
    assert "100 % of 1,000 tokens reused" in page
    assert "$0.0000" not in page


def test_status_line_keeps_shares_below_100_and_names_unknown_prices() -> None:
    built = RequestBuilt(
        turn=1, request=1, model="m", prompt_tokens=100, budget_tokens=50, tail_tokens=0,
        basis="counted", reused_tokens=300,
    )  # fmt: skip
    before = after(Status(), built)
    assert text_of(status_line(before, 200)).count("100 %") == 2
    used = UsageReported(model="m", input_tokens=100, output_tokens=1, cache_read_tokens=150)
    later = after(before, used)
    assert "cache 100 %" in text_of(status_line(later, 200))
    assert "price unknown" in text_of(status_line(later, 200))
    free = msgspec.structs.replace(used, cost_usd=0.0)
    assert "price unknown" in text_of(status_line(after(later, free), 200))


def test_picture_in_the_terminal_keeps_shares_below_100() -> None:
    share = PictureShare("state", "S", 900, volatile=True)
    text = "\n".join(text_of(line) for line in draw(Picture(100, 900, (share,), "counted"), 60))
    assert "900 %" not in text
    assert "100 %" in text


def test_spending_question_names_unknown_prices() -> None:
    asked = SpendingAsked(
        scope="turn", spent_usd=0, limit_usd=3, next_usd=1, raised_usd=6, unpriced=2
    )
    assert str(asked).startswith("unknown of $3")


def test_inspector_verdicts_keep_shares_below_100_and_name_unknown_prices() -> None:
    assert reuse_verdict(1_000, 1_500, None, None).title == "100 % from cache"
    used = StoredUsage("m", 1_000, 9, 1_500)
    verdict = cost_verdict(used, [used], Totals(1, 1_000, 9, 1_500, 0, 1))
    assert verdict.title == "Price unknown"
    assert "the session: unknown" in verdict.lines
    assert ", 0 of them fresh" in verdict.lines[0]
    known = Totals(4, 1, 1, 1, 960_000_000, 3)
    assert cost_verdict(None, [], known).lines[-1].endswith("$0.96 + 3 requests of unknown price")


def test_embedded_model_costs_nothing_and_is_known() -> None:
    assert dollars(cost(Usage(1_000, 100), profile_for("local", "m").prices)) == "$0"


def listed(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    assert run([*arguments]) == 0
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_sessions_as_json_have_null_for_an_unknown_price(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "work.db"
    with Ledger(path) as ledger:
        for name, price in (("unknown", None), ("free", 0), ("priced", 960_000_000)):
            session = ledger.sessions.create(name)
            ledger.accounts.record(session.id, StoredUsage("m", 10, 5, 0, price))
    rows = listed(capfd, "ledger", "sessions", "--all", "--json", "--db", str(path))
    assert {row["name"]: row["cost_nanousd"] for row in rows} == {
        "unknown": None, "free": 0, "priced": 960_000_000,
    }  # fmt: skip
