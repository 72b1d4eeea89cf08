"""A prefix that Gemini holds by name: made where it pays, used, kept, deleted; never a failure."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import ALONE, NOW, ended, turn
from agent.models.conftest import opened
from sightline.agent.host import Host
from sightline.agent.host.held import LATE_S, TTL_S, HeldPrefix
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import CacheSettings, Settings, ToolSettings
from sightline.context.dialects import encode, profile_for
from sightline.context.dialects.events import Usage
from sightline.context.dialects.gemini import pays
from sightline.slop.hub.hub import Hub
from support.live import LiveApp, served
from support.vendors.answers import Says
from support.vendors.asking import prompt_for
from support.vendors.server import Vendor

MISSED = Says(("Yes.",), usage=Usage(input_tokens=5_000, output_tokens=1))
HIT = Says(("Yes.",), usage=Usage(input_tokens=5_000, output_tokens=1, cache_read_tokens=4_500))
HEAD = {"tools", "systemInstruction"}


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with Vendor(MISSED) as serving:
        yield serving


def settings(named: Any, **more: Any) -> Settings:
    profiles = {"gemini:*": {"cache": {"min_tokens": 500}}}
    return Settings(apps=ALONE, cache=CacheSettings(named=named), profiles=profiles, **more)


@asynccontextmanager
async def talking(directory: Path, vendor: Vendor, given: Settings) -> AsyncIterator[Host]:
    model = opened(vendor, "gemini", given)
    async with Hub() as hub:
        place = directory / "work.db"
        async with Host.open(given, model=model, ledger=place, hub=hub, clock=lambda: NOW) as host:
            yield host
    await model.close()


def asked(vendor: Vendor) -> list[dict[str, Any]]:
    """The requests for an answer, as they arrived."""
    return [json.loads(seen.body) for seen in vendor.requests if "Content?" in seen.path]


async def test_it_is_made_where_the_automatic_cache_misses_and_deleted_at_the_end(
    tmp_path: Path, vendor: Vendor
) -> None:
    kinds = []
    async with talking(tmp_path, vendor, settings("auto")) as host:
        for number in range(6):
            await turn(host, f"question {number}?")
            assert host.last is not None
            kinds.append(host.last.drift.kind if host.last.drift else "")
            assert len(vendor.named) == (number >= 4)
    *plain, first, second = asked(vendor)
    assert all(body.keys() >= HEAD for body in plain)
    for body in (first, second):
        assert body["cachedContent"] == "cachedContents/n1"
        assert not body.keys() & HEAD
        assert body["contents"][: len(plain[-1]["contents"]) - 1]
    [made] = vendor.created
    assert {key: made[key] for key in HEAD} == {key: plain[0][key] for key in HEAD}
    assert (made["model"], made["ttl"]) == ("models/gemini-3.8-flash", f"{TTL_S}s")
    assert kinds == ["", "appended", "appended", "appended", "named", "appended"]
    assert vendor.named == set()
    assert vendor.requests[-1].method == "DELETE"


@pytest.mark.parametrize(("named", "answer"), [("auto", HIT), ("off", MISSED)])
async def test_it_is_not_made_where_it_does_not_pay_or_is_not_wanted(
    tmp_path: Path, vendor: Vendor, named: str, answer: Says
) -> None:
    vendor.add(answer)
    async with talking(tmp_path, vendor, settings(named)) as host:
        for number in range(6):
            await turn(host, f"question {number}?")
    assert len(asked(vendor)) == len(vendor.requests) == 6


async def test_a_vendor_that_refuses_it_is_asked_once_and_the_turns_go_on(
    tmp_path: Path, vendor: Vendor
) -> None:
    vendor.refuses_names = True
    async with talking(tmp_path, vendor, settings("always")) as host:
        for number in range(4):
            assert ended(await turn(host, f"question {number}?")).outcome == "answered"
    assert len(vendor.requests) - len(asked(vendor)) == 1
    assert all(body.keys() >= HEAD for body in asked(vendor))


async def test_one_that_is_gone_costs_a_request_and_no_turn(tmp_path: Path, vendor: Vendor) -> None:
    async with talking(tmp_path, vendor, settings("always")) as host:
        await turn(host, "make it")
        await turn(host, "use it")
        vendor.named.clear()
        assert ended(await turn(host, "it is gone")).outcome == "answered"
    *_, refused, answered = asked(vendor)
    assert "cachedContent" in refused
    assert answered.keys() >= HEAD
    assert refused["contents"] == answered["contents"]


async def test_other_tools_make_another_one(tmp_path: Path, vendor: Vendor) -> None:
    given = settings("always", tools=ToolSettings(style="dynamic"))
    async with talking(tmp_path, vendor, given) as host:
        await turn(host, "make it")
        await turn(host, "use it")
        async with served("memory", tmp_path, LiveApp()) as dial:
            host.hub.add("live", dial)
            async for world in host.hub.changes():
                if world.apps and world.apps[0].status == "connected":
                    break
            await turn(host, "other tools")
            assert vendor.named == {"cachedContents/n1"}
            await turn(host, "make another")
            assert vendor.named == {"cachedContents/n2"}
    used = [body.get("cachedContent", "") for body in asked(vendor)]
    assert used == ["", "cachedContents/n1", "", "cachedContents/n2"]
    assert vendor.created[0]["tools"] != vendor.created[1]["tools"]
    assert vendor.named == set()


async def test_another_model_and_another_session_let_go_of_it(
    tmp_path: Path, vendor: Vendor
) -> None:
    given = settings("always")
    async with talking(tmp_path, vendor, given) as host:
        for _ in range(2):
            await turn(host, "make it")
            await turn(host, "use it")
            assert len(vendor.named) == 1
            await host.new_session()
            assert vendor.named == set()
        await turn(host, "make it")
        await turn(host, "use it")
        await host.use_model(ScriptedModel(["Hello."]))
        await turn(host, "hello")
        assert vendor.named == set()


async def test_it_is_kept_while_requests_come_and_not_used_when_it_may_be_gone(
    vendor: Vendor,
) -> None:
    given = settings("always")
    model, now = opened(vendor, "gemini", given), 0.0
    held = HeldPrefix("always", clock=lambda: now)
    tools = [{"name": f"tool_{n}", "description": "Does one thing. " * 20} for n in range(20)]
    prompt = prompt_for("hello", tools=tools)
    request = encode(prompt, model.profile)
    held.learn(model, prompt, request, MISSED.usage)
    await held.prepare(model)
    assert held.offered(model) is not None
    now = LATE_S + 1
    await held.prepare(model)
    assert vendor.requests[-1].method == "PATCH"
    assert json.loads(vendor.requests[-1].body) == {"ttl": f"{TTL_S}s"}
    now += TTL_S - 1
    assert held.offered(model) is not None
    now += 1
    assert held.offered(model) is None
    await held.leave()
    assert vendor.named == set()
    await model.close()


def test_it_pays_by_what_was_missed_how_often_and_what_storage_costs() -> None:
    flash = profile_for("gemini")
    often, seldom = 60, 7_200
    assert pays(flash, 5_000, [0] * 4, often, TTL_S)
    assert not pays(flash, 5_000, [0] * 4, seldom, TTL_S), "it would be gone before it is read"
    assert not pays(flash, 5_000, [5_000] * 4, often, TTL_S), "the automatic cache has it"
    assert not pays(flash, 5_000, [40_000, 0, 40_000, 0], often, TTL_S), "and the history, too"
    assert not pays(flash, 3_000, [0] * 4, often, TTL_S), "below the minimum"
    dear = profile_for("gemini", "", {"prices.cache_storage": 1_000.0})
    assert not pays(dear, 5_000, [0] * 4, often, TTL_S)
    assert not pays(profile_for("openai-chat"), 5_000, [0] * 4, often, TTL_S)
