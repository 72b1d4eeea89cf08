"""A message of a tab reaches whoever opened that tab, from who announced it; and nobody else."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import chain
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sightline.errors import InvalidInput
from sightline.slop.hub.relay import (
    TABS,
    Absence,
    BridgeConsumer,
    Relay,
    Tab,
    TabSource,
    message_type,
)
from support.share import share

KEYS = ("a", "b")
MEMBERS = range(2)


class Watcher:
    """Knows which tabs are there, as the hub does."""

    def __init__(self) -> None:
        self.tabs: set[str] = set()
        self.absences: list[Absence] = []

    def appeared(self, tab: Tab) -> None:
        self.tabs.add(tab.key)

    def vanished(self, tab: Tab, absence: Absence) -> None:
        self.tabs.discard(tab.key)
        self.absences.append(absence)


def frame(kind: str, key: str, **more: Any) -> bytes:
    return json.dumps({"type": kind, "providerKey": key, **more}).encode()


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["announce", "withdraw", "sleep", "lose", "open", "close", "ask", "answer", "to one"]
        ),
        st.sampled_from(MEMBERS),
        st.sampled_from(KEYS),
    ),
    max_size=40,
)


@settings(max_examples=share(2500), deadline=None)
@given(steps)
@example([("announce", 0, "b"), ("sleep", 0, "b"), ("announce", 1, "b"), ("announce", 0, "b")])
def test_who_is_told_what(moves: list[tuple[str, int, str]]) -> None:
    watcher = Watcher()
    relay = Relay(watcher)
    # What each side was told, as (our key or its own, message).
    to_sources: dict[int, list[dict[str, Any]]] = defaultdict(list)
    to_consumers: dict[int, list[dict[str, Any]]] = defaultdict(list)
    sources = [
        TabSource(f"extension {n}", lambda data, n=n: to_sources[n].append(json.loads(data)))  # type: ignore[misc]
        for n in MEMBERS
    ]
    consumers = [
        BridgeConsumer(f"c{n}", lambda data, n=n: to_consumers[n].append(json.loads(data)))  # type: ignore[misc]
        for n in MEMBERS
    ]
    for consumer in consumers:
        relay.join(consumer)
    for count, (move, n, key) in enumerate(moves):
        source, consumer = sources[n], consumers[n]
        to_sources.clear()
        to_consumers.clear()
        is_there, is_open = key in source.tabs, key in consumer.openings
        tab = source.tabs.get(key)
        try:
            match move:
                case "announce":
                    relay.hear_source(source, frame("provider-available", key))
                case "withdraw" | "sleep":
                    reason = {"reason": "asleep"} if move == "sleep" else {}
                    relay.hear_source(source, frame("provider-unavailable", key, **reason))
                case "lose":
                    relay.lose(source)
                    assert source.tabs == {}
                    sources[n] = TabSource(source.origin, source.send)
                case "open":
                    relay.hear_consumer(consumer, frame("relay-open", key))
                case "close":
                    relay.hear_consumer(consumer, frame("relay-close", key))
                case "ask":
                    relay.hear_consumer(consumer, frame("slop-relay", key, message=count))
                    assert is_open
                    opened = consumer.openings[key]
                    [[sent]] = to_sources.values()
                    assert (sent["providerKey"], sent["message"]) == (opened.tab.source_key, count)
                    assert to_sources.keys() == {sources.index(opened.tab.source)}
                case "answer" | "to one":
                    channel = next(iter(tab.openings), "none") if tab else "none"
                    more = {"channel": channel} if move == "to one" else {}
                    relay.hear_source(source, frame("slop-relay", key, message=count, **more))
                    assert is_there
                    assert tab is not None
                    heard = {
                        m
                        for m in MEMBERS
                        if any(f["type"] == "slop-relay" for f in to_consumers[m])
                    }
                    wanted = {
                        m
                        for m in MEMBERS
                        for opening in consumers[m].openings.values()
                        if opening.tab is tab
                        and ("channel" not in more or opening.channel == channel)
                    }
                    assert heard == wanted
        except InvalidInput:
            may = {"ask": is_open, "answer": is_there, "to one": is_there}
            assert not may.get(move, move != "open" or key in relay.tabs)
            heard_of = [*chain(*to_sources.values(), *to_consumers.values())]
            assert not any(one["type"] == "slop-relay" for one in heard_of)
        assert watcher.tabs == set(relay.tabs)
        assert set(relay.tabs.values()) == {one for s in sources for one in s.tabs.values()}
        for other in consumers:
            for opened_key, opening in other.openings.items():
                assert relay.tabs[opened_key].openings[opening.channel] is opening


@pytest.mark.parametrize("then", ["wakes", "changes", "closes", "is lost"])
def test_the_key_of_a_sleeping_tab_is_not_given_to_another(then: str) -> None:
    watcher = Watcher()
    relay = Relay(watcher)
    sleeper, other = (TabSource(name, lambda _: None) for name in ("e", "f"))
    relay.hear_source(sleeper, frame("provider-available", "k", provider={"id": "mail"}))
    relay.hear_source(sleeper, frame("provider-unavailable", "k", reason="asleep"))
    relay.hear_source(other, frame("provider-available", "k"))
    match then:
        case "wakes" | "changes":
            provider = {"id": "mail" if then == "wakes" else "news"}
            relay.hear_source(sleeper, frame("provider-available", "k", provider=provider))
        case "closes":
            relay.hear_source(sleeper, frame("provider-unavailable", "k"))
        case _:
            relay.lose(sleeper)
    is_back = then in {"wakes", "changes"}
    assert watcher.tabs == set(relay.tabs) == ({"k", "k-2"} if is_back else {"k-2"})
    assert relay.tabs["k-2"].source is other
    relay.hear_source(other, frame("provider-available", "k"))
    third = TabSource("g", lambda _: None)
    relay.hear_source(third, frame("provider-available", "k"))
    assert relay.tabs["k-3" if is_back else "k"].source is third


def test_an_extension_shows_only_so_many_tabs() -> None:
    watcher = Watcher()
    relay = Relay(watcher)
    source = TabSource("e", lambda _: None)
    for number in range(TABS):
        relay.hear_source(source, frame("provider-available", f"k{number}"))
    with pytest.raises(InvalidInput, match="at most"):
        relay.hear_source(source, frame("provider-available", "more"))
    relay.hear_source(source, frame("provider-unavailable", "k0", reason="asleep"))
    with pytest.raises(InvalidInput, match="at most"):
        relay.hear_source(source, frame("provider-available", "more"))
    relay.hear_source(source, frame("provider-unavailable", "k0"))
    relay.hear_source(source, frame("provider-available", "more"))
    relay.lose(source)
    assert watcher.absences == ["asleep", "closed", *["lost"] * TABS]


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff", b"[]", b"{}", b"null", b'{"type":"slop-relay"}',
        frame("relay-open", ""), frame("relay-open", "k" * 513), frame("nonsense", "k"),
        frame("provider-available", "k", provider={"name": "n" * 1025}),
        b'{"type":"slop-relay","providerKey":"k","message":' + b"[" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    relay = Relay(Watcher())
    with pytest.raises(InvalidInput):
        relay.hear_source(TabSource("e", lambda _: None), data)
    with pytest.raises(InvalidInput):
        relay.hear_consumer(BridgeConsumer("c", lambda _: None), data)


def test_a_message_of_no_known_type_has_none() -> None:
    assert (message_type(b'{"type":"hello"}'), message_type(b"[]"), message_type(b"")) == (
        "hello", "", "",
    )  # fmt: skip
