"""1,000 turns and 50,000 nodes: all can be reached, little of it is in the document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import Inspector, view
from browser.long import FOLDERS, NODES, THREADS, TURNS

MOST_ROWS = 100
MOST_ELEMENTS = 2_500


@pytest.fixture(scope="module")
def long_inspector(long_ledger: Path) -> Iterator[Inspector]:
    started = Inspector(long_ledger)
    yield started
    started.stop()


@pytest.fixture
def long_page(visit: Callable[..., Page], long_inspector: Inspector) -> Page:
    """A page that is ready for keys: the newest turn is chosen."""
    page: Page = visit(long_inspector.address)
    chosen = page.get_by_role("listbox", name="Turns").get_by_role("option", selected=True)
    expect(chosen).to_have_attribute("aria-posinset", str(TURNS))
    return page


def scroll_height(list_: Locator) -> int:
    return int(list_.evaluate("(list) => list.scrollHeight"))


def assert_in_view(row: Locator, list_: Locator) -> None:
    """The chosen row lies within what its list shows of itself, as soon as all is laid out."""
    expect(row).to_be_visible()
    list_.page.wait_for_function(
        """(list) => {
            const row = list.querySelector("[aria-selected='true']")?.getBoundingClientRect();
            const frame = list.getBoundingClientRect();
            return row && frame.top - 1 <= row.top && row.bottom <= frame.bottom + 1;
        }""",
        arg=list_.element_handle(),
    )


def row_of(tree: Locator, text: str) -> Locator:
    return tree.get_by_role("row").filter(has_text=re.compile(rf"\] {re.escape(text)}[: (]"))


def test_a_thousand_turns_are_listed_by_a_few_rows_and_the_keys_reach_them_all(
    long_page: Page,
) -> None:
    turns = long_page.get_by_role("listbox", name="Turns")
    rows = turns.get_by_role("option")
    chosen = turns.get_by_role("option", selected=True)
    expect(chosen).to_contain_text(f"Question {TURNS}, after a change")
    assert_in_view(chosen, turns)
    long_page.set_viewport_size({"width": 1280, "height": 620})
    assert_in_view(chosen, turns)
    assert rows.first.get_attribute("aria-setsize") == str(TURNS)
    assert scroll_height(turns) >= TURNS * 40
    for key, turn in (("g", 1), ("j", 2), ("j", 3), ("k", 2), ("G", TURNS), ("k", TURNS - 1)):
        long_page.keyboard.press(key)
        expect(chosen).to_have_attribute("aria-posinset", str(turn))
        expect(chosen).to_contain_text(f"Question {turn}")
        assert_in_view(chosen, turns)
        assert rows.count() < MOST_ROWS
    turns.focus()
    for key, at in (("Home", "1"), ("PageDown", ""), ("ArrowDown", ""), ("End", f"{TURNS}")):
        long_page.keyboard.press(key)
        expect(chosen).to_have_attribute("aria-posinset", re.compile(f"^{at}"))
        assert_in_view(chosen, turns)
    turns.evaluate("(list) => (list.scrollTop = list.scrollHeight / 2)")
    middle = rows.filter(has_text=f"Question {TURNS // 2}")
    middle.first.click()
    expect(chosen).to_contain_text(f"Question {TURNS // 2}")
    assert f"/t/{TURNS // 2}/" in long_page.url
    expect(long_page.get_by_role("region", name="Picture")).to_be_visible()
    assert long_page.locator("*").count() < MOST_ELEMENTS


def test_a_tree_of_fifty_thousand_nodes_is_folded_opened_and_walked(long_page: Page) -> None:
    view(long_page, "State")
    state = long_page.get_by_role("region", name="State")
    expect(state).to_contain_text(f"of {NODES:,} nodes shown")
    expect(state).to_contain_text("/f7/properties/unread")
    tree = state.get_by_role("treegrid", name="Nodes of Mail")
    rows = tree.get_by_role("row")
    chosen = tree.get_by_role("row", selected=True)
    expect(tree).to_have_attribute("aria-rowcount", str(FOLDERS + 2))
    expect(row_of(tree, "f7")).to_contain_text(f"{THREADS * 17:,} below")

    tree.focus()
    long_page.keyboard.press("End")
    expect(chosen).to_contain_text("] notes")
    assert_in_view(chosen, tree)
    long_page.keyboard.press("ArrowUp")
    expect(chosen).to_contain_text("] f96")
    long_page.keyboard.press("ArrowRight")
    expect(chosen).to_have_attribute("aria-expanded", "true")
    expect(tree).to_have_attribute("aria-rowcount", str(FOLDERS + 2 + THREADS))
    for _ in range(THREADS):
        long_page.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("Thread 29 of folder 96")
    expect(chosen).to_have_attribute("aria-level", "3")
    long_page.keyboard.press("ArrowRight")
    expect(chosen).to_have_attribute("aria-expanded", "true")
    long_page.keyboard.press("ArrowRight")
    expect(chosen).to_contain_text("Message 96.29.0")
    expect(state.get_by_text("/f96/t29/m0", exact=True)).to_be_visible()
    assert_in_view(chosen, tree)
    long_page.keyboard.press("ArrowLeft")
    expect(chosen).to_contain_text("Thread 29 of folder 96")
    long_page.keyboard.press("ArrowLeft")
    expect(chosen).to_have_attribute("aria-expanded", "false")

    state.get_by_role("button", name="Unfold all").click()
    expect(tree).to_have_attribute("aria-rowcount", str(NODES))
    assert scroll_height(tree) >= NODES * 20
    tree.focus()
    long_page.keyboard.press("End")
    expect(chosen).to_have_attribute("aria-rowindex", str(NODES))
    expect(chosen).to_contain_text("Note ")
    assert_in_view(chosen, tree)
    assert rows.count() < MOST_ROWS
    assert long_page.locator("*").count() < MOST_ELEMENTS


def test_a_node_is_found_in_a_large_tree_and_the_address_keeps_it(long_page: Page) -> None:
    view(long_page, "State")
    tree = long_page.get_by_role("treegrid", name="Nodes of Mail")
    chosen = tree.get_by_role("row", selected=True)
    expect(row_of(tree, "f7")).to_be_visible()
    search = long_page.get_by_role("region", name="State").get_by_role("search")
    search.get_by_role("searchbox").fill("message 42.7.1")
    search.get_by_role("searchbox").press("Enter")
    expect(search.get_by_role("status")).to_have_text("1 of 7")  # .1 and .10 to .15
    expect(chosen).to_contain_text("Message 42.7.1")
    assert_in_view(chosen, tree)
    search.get_by_role("button", name="Next").click()
    expect(chosen).to_contain_text("Message 42.7.10")
    search.get_by_role("button", name="Previous").click()
    search.get_by_role("button", name="Previous").click()
    expect(chosen).to_contain_text("Message 42.7.15")
    expect(chosen).to_contain_text("cut: budget")
    long_page.reload()
    expect(chosen).to_contain_text("Message 42.7.15")
    assert_in_view(chosen, tree)


def test_every_other_view_of_a_long_session_stays_small(long_page: Page) -> None:
    slots = long_page.get_by_role("table", name="Slots in prompt order")
    bar = long_page.get_by_role("group", name="The context window, in prompt order")
    bar.get_by_role("button", name=re.compile("^history:")).click()
    expect(slots.get_by_role("button", name="history")).to_have_attribute("aria-pressed", "true")
    messages = long_page.get_by_role("listbox", name="Messages of the chosen slot")
    expect(messages.get_by_role("option", selected=True)).to_contain_text("assistant")
    slots.get_by_role("button", name="input").click()
    expect(long_page.get_by_role("region", name="The chosen message")).to_contain_text(
        f"Question {TURNS}"
    )
    assert long_page.locator("*").count() < MOST_ELEMENTS
    view(long_page, "Ledger")
    ledger = long_page.get_by_role("region", name="Ledger")
    groups = ledger.get_by_role("listbox", name="Groups")
    assert groups.get_by_role("option").first.get_attribute("aria-setsize") == str(TURNS)
    groups.focus()
    long_page.keyboard.press("End")
    expect(ledger.get_by_role("list", name=re.compile("^Messages of group"))).to_contain_text(
        "Looked again."
    )
    assert long_page.locator("*").count() < MOST_ELEMENTS
    view(long_page, "Prompt")
    section = long_page.get_by_role("region", name="Prompt")
    expect(section).to_contain_text("byte for byte as sent")
    section.get_by_label("turn.request").select_option(f"{TURNS // 2}.1")
    expect(section.get_by_role("region", name=f"From {TURNS // 2}.1")).to_be_visible()
