"""What a cache could have given is held against what it gave, and the cause is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.context.dialects.drift import (
    CAUSES,
    Drift,
    DriftKind,
    cause_of,
    extra_price,
    lifetime_s,
    missed,
)
from sightline.context.dialects.events import Usage, cost
from sightline.context.dialects.profile import Prices

tokens = st.integers(0, 100_000)


@given(
    could=tokens,
    read=tokens,
    kept=tokens,
    share=st.floats(0, 1),
    cause=st.sampled_from(["", "model", "folded"]),
    reason=st.sampled_from(["", "tools_changed"]),
    idle=tokens,
    most=tokens,
)
def test_no_more_is_missed_than_there_was_or_was_paid_and_nothing_where_all_was_read(
    could: int, read: int, kept: int, share: float, cause: str, reason: str, idle: int, most: int
) -> None:
    kept, read, whole = min(kept, could), min(read, could), 1_000
    shared = int(share * whole)
    loss = missed(
        could, read, shared=shared, whole=whole, kept=kept, cause=cause, reason=reason,
        idle_s=idle, lifetime_s=300, slack_tokens=256, extra_price=2.0, most=most,
    )  # fmt: skip
    if loss is None:
        assert not most or cause or kept * shared // whole - read < max(256, 0.05 * kept) + 1
        return
    assert 0 < loss.tokens <= min(could - read, most)
    assert loss.cost == loss.tokens * 2.0 / 1_000_000
    assert loss.cause in CAUSES
    assert (loss.cause == "expired") == (loss.cause not in (cause, "lost"))
    assert loss.words.startswith(CAUSES[loss.cause][0])
    assert reason in loss.words or loss.cause != "lost"


def test_what_the_vendor_does_not_reuse_though_nothing_changed_is_lost_and_said() -> None:
    loss = missed(2_296, 0, shared=10, whole=10, kept=2_296, slack_tokens=256, reason="evicted")
    assert loss is not None
    assert loss.words == "the vendor lost it (0 of 2,296 read; the vendor says evicted)"


price = st.none() | st.floats(0, 100)


@given(
    prompt=tokens, input_price=st.floats(0, 100), read=price, write=price, is_written=st.booleans()
)
def test_what_is_read_again_costs_the_difference_to_a_request_that_reuses_it(
    prompt: int, input_price: float, read: float | None, write: float | None, is_written: bool
) -> None:
    prices = Prices(input=input_price, output=0.0, cache_read=read, cache_write=write)
    written = prompt if is_written else 0
    paid, reused = (
        cost(Usage(prompt, 0, 0, written), prices),
        cost(Usage(prompt, 0, prompt), prices),
    )
    more = extra_price(prices, written)
    assert paid is not None
    assert reused is not None
    assert more is not None
    assert prompt * more / 1_000_000 == pytest.approx(paid - reused, abs=1e-9)


def test_a_change_of_our_own_conversation_is_called_by_what_was_done() -> None:
    def change(kind: DriftKind, label: str = "message 3", slot: str = "history") -> Drift:
        return Drift(kind, 100, 20, 0.5, 100, label, slot, 3, 30)

    assert cause_of(None, "a:m", "b:n") == ("model", "a:m → b:n")
    assert cause_of(change("appended"), "m", "m", is_taken_back=True) == ("", "")
    assert cause_of(change("regression"), "m", "m", is_taken_back=True) == ("undone", "")
    assert cause_of(change("fold"), "m", "m") == ("folded", "")
    assert cause_of(change("tier"), "m", "m") == ("result_cut", "")
    assert cause_of(change("regression", "tools", ""), "m", "m") == ("tools", "")
    assert cause_of(change("regression", "system", "system"), "m", "m") == ("instructions", "")
    assert cause_of(change("regression"), "m", "m") == ("edited", "in history")


def test_lifetimes_are_read_as_vendors_write_them() -> None:
    assert [lifetime_s(span) for span in ("5m", "1h", "30s", "", "m", "soon")] == [
        300, 3_600, 30, 0, 0, 0,
    ]  # fmt: skip
