"""Every view of a session that a gateway recorded: as of our own, and what is not known is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from browser.conftest import VIEWS, Inspector, picture_and_changes, view
from browser.eventful import HOSTILE
from inspector.test_exchanges import agents_ledger
from sightline.context.ledger import Ledger
from sightline.inspector.reader import RecordReader

FIRST, REORDERED, REFUSED, WENT_ON = range(4)


def choose(page: Page, number: int) -> None:
    page.get_by_role("listbox", name="Turns").get_by_role("option").nth(number).click()
    heading = page.get_by_role("region", name="The turn").get_by_role("heading").first
    expect(heading).to_have_text(re.compile(rf"^{number + 1} · "))


def shown(page: Page, name: str) -> Locator:
    view(page, name)
    return page.get_by_role("region", name=name, exact=True)


def test_picture_agrees_with_changes_for_each_request_of_an_agent(
    visit: Callable[..., Page], agents: Inspector
) -> None:
    page = visit(agents.address)
    choose(page, REORDERED)
    same, changed = picture_and_changes(page)
    assert "system" in same
    assert "tools" in changed, "their order is new"
    choose(page, WENT_ON)
    same, _ = picture_and_changes(page)
    assert {"system", "state"} <= same


def test_every_view_of_a_recorded_request_answers_as_one_of_our_own(
    visit: Callable[..., Page], agents: Inspector
) -> None:
    page = visit(agents.address)
    turns = page.get_by_role("listbox", name="Turns").get_by_role("option")
    expect(turns).to_have_count(4)
    expect(turns.nth(FIRST)).to_contain_text(f"well then {HOSTILE[:20]}")
    expect(turns.nth(REORDERED)).to_contain_text("the tools came in another order")
    expect(turns.nth(REFUSED)).to_contain_text("failed")
    expect(page.get_by_text("A session of another agent's: claude.")).to_be_visible()
    choose(page, REFUSED)
    expect(page.get_by_role("article", name="outcome")).to_contain_text(HOSTILE)
    expect(page.get_by_role("article", name="cache")).to_contain_text("Not known")
    choose(page, REORDERED)
    cache = page.get_by_role("article", name="cache")
    expect(cache).to_contain_text("0 of 20,000 prompt tokens reused")
    expect(cache).to_contain_text("sort the tools")
    expect(page.get_by_role("article", name="cost")).to_contain_text("the session: $")
    expect(page.get_by_role("article", name="changed")).to_contain_text("since request 1.1")
    picture = shown(page, "Picture")
    lead = re.sub(",", "", picture.locator(".lead").inner_text())
    total, budget, free = map(int, re.findall(r"\d+", lead)[:3])
    assert (total, total + free) == (20_000, budget)
    rows = page.get_by_role("table", name="Slots in prompt order").locator("tbody tr")
    kept = [int(row.locator("td").nth(1).inner_text().replace(",", "")) for row in rows.all()]
    assert sum(kept) == total
    page.get_by_role("button", name="tools", exact=True).click()
    messages = page.get_by_role("listbox", name="Messages of the chosen slot")
    messages.get_by_role("option").filter(has_text="Read").click()
    expect(page.get_by_role("region", name="The chosen message")).to_contain_text("onerror")
    steps = shown(page, "Conversation").get_by_role("listitem")
    expect(steps.filter(has_text="Read").first.get_by_label("Result of Read")).not_to_be_empty()
    expect(steps.last).to_contain_text("again")
    changes = shown(page, "Changes")
    expect(changes.get_by_label("against request")).to_have_value("1.1")
    expect(changes.get_by_role("region", name="Changes of tools")).to_contain_text("Task")
    expect(changes).to_contain_text("onerror=")
    prompt = shown(page, "Prompt")
    expect(prompt).to_contain_text("as it passed, keys blanked")
    expect(prompt.get_by_label("Request body")).to_contain_text("<img src=x onerror=")
    expect(prompt.get_by_role("region", name="Against the request")).to_contain_text("tools[0]")
    nodes = shown(page, "State").get_by_role("treegrid", name="Nodes of Board")
    expect(nodes.get_by_role("row").nth(1)).to_contain_text("img src=x onerror=")
    expect(shown(page, "Trace").get_by_role("rowheader", name="first byte")).to_be_visible()
    choose(page, WENT_ON)
    expect(shown(page, "Not seen")).to_contain_text("Held against request")
    expect(page.get_by_role("row", name="tools[8]")).to_contain_text("a tool was removed")
    expect(page.get_by_role("row", name="tools[8]")).to_contain_text(HOSTILE)
    changes = shown(page, "Changes")
    changes.get_by_label("against request").fill("1.1")
    changes.get_by_label("against request").press("Enter")
    expect(changes.locator("ins").first).to_be_visible()
    form = shown(page, "What if").get_by_role("form", name="Change the requests")
    form.get_by_label("tools").select_option("sorted")
    table = page.get_by_role("table", name="What would change in 1 request")
    expect(table.get_by_role("row", name="prompt tokens")).to_contain_text("same")
    expect(page.get_by_label("How")).to_contain_text("sorted by name")
    choose(page, REFUSED)
    for name in ("Trace", "What if"):
        expect(shown(page, name)).to_be_visible()
        expect(page.get_by_role("region", name="The turn")).to_contain_text(HOSTILE)
    page.keyboard.press("/")
    page.get_by_role("searchbox", name="Search everything said").fill("well then onerror")
    found = page.get_by_role("list", name="Found").get_by_role("link")
    expect(found).to_contain_text([f"session 1, turn 1 assistant well then {HOSTILE}"])
    page.get_by_role("dialog", name="Search").get_by_role("button", name="Close").click()
    expect(shown(page, "Ledger")).to_contain_text("Another agent's session has no groups")
    page.get_by_role("searchbox", name="Filter turns").fill("status:failed")
    expect(turns).to_have_count(1)


def test_an_export_has_the_same_views_and_hostile_text_is_text_in_it(
    visit: Callable[..., Page], agents: Inspector, tmp_path: Path
) -> None:
    page = visit(agents.address)
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    download.value.save_as(tmp_path / "session.html")
    saved = visit((tmp_path / "session.html").as_uri(), offline=True)
    choose(saved, FIRST)
    for name in VIEWS:
        expect(shown(saved, name)).to_be_visible()
        expect(saved.get_by_role("alert")).to_have_count(0)
    for name in ("Picture", "Conversation", "Prompt", "State"):
        expect(shown(saved, name)).to_contain_text("onerror=")
    choose(saved, WENT_ON)
    for name in ("Changes", "Not seen"):
        expect(shown(saved, name)).to_contain_text("onerror=")
    choose(saved, REFUSED)  # whose own words stand above the views that have none of others'
    for name in ("Trace", "What if"):
        expect(shown(saved, name)).to_be_visible()
        expect(saved.get_by_role("region", name="The turn")).to_contain_text(HOSTILE)


def test_what_a_transcript_does_not_tell_is_said_in_every_view(
    visit: Callable[..., Page], tmp_path: Path
) -> None:
    with Ledger(agents_ledger(tmp_path), mode="read") as ledger:
        text = "".join(RecordReader(ledger).export(3))
    (tmp_path / "imported.html").write_text(text, encoding="utf-8")
    page = visit((tmp_path / "imported.html").as_uri(), offline=True)
    expect(page.get_by_role("article", name="cache")).to_contain_text("lifetime ran out")
    for name in VIEWS[:-1]:
        expect(shown(page, name)).to_contain_text("A transcript does not hold what was sent")
