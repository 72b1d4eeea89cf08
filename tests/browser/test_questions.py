"""The questions that people bring to the inspector, each answered in two clicks or fewer.

One page of one session in which much went wrong (`browser.eventful`); what it says is text,
whatever is in it.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from browser.conftest import _PATH, ROOT, TIMEOUT_MS, Inspector, view
from browser.eventful import (
    ADDRESS,
    BROKEN,
    CALLS,
    DROPPED,
    FIRST,
    FOLDED,
    HOSTILE,
    LATE,
    LOST,
    OTHER_WAY,
    QUESTIONS,
    REFUSED,
    RETRIED,
    SWITCHED,
    TAKEN_BACK,
)
from browser.pictures import COLOURS, MOST_BYTES, SIZE, picture_of, show


@pytest.fixture(scope="module")
def eventful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspector]:
    ledger = Path(tmp_path_factory.mktemp("eventful")) / "work.db"
    run = [sys.executable, "-m", "browser.eventful", str(ledger)]
    subprocess.run(run, check=True, env={**os.environ, "PYTHONPATH": _PATH})
    started = Inspector(ledger)
    yield started
    started.stop()


@pytest.fixture
def page(visit: Callable[..., Page], eventful: Inspector) -> Page:
    opened: Page = visit(eventful.address)
    expect(turns(opened)).to_have_count(len(QUESTIONS))
    return opened


def turns(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Turns").get_by_role("option")


def turn(page: Page, number: int) -> Locator:
    return turns(page).filter(has=page.get_by_text(str(number), exact=True))


def test_the_list_says_what_became_of_every_turn_and_why(page: Page) -> None:
    expect(turn(page, REFUSED)).to_contain_text("failed unauthorized: Incorrect API key provided")
    expect(turn(page, REFUSED)).to_contain_text(HOSTILE)
    expect(turn(page, BROKEN)).to_contain_text("the stream ended before the reply did")
    expect(turn(page, RETRIED)).to_contain_text("3 requests after rate_limited: slow down")
    expect(turn(page, LOST)).to_contain_text("the vendor lost it (0 of")
    expect(turn(page, SWITCHED)).to_contain_text("the model was switched")
    expect(turn(page, OTHER_WAY)).not_to_contain_text("a turn was taken back")
    expect(turn(page, TAKEN_BACK)).to_contain_text(QUESTIONS[TAKEN_BACK])
    expect(turn(page, TAKEN_BACK)).to_contain_text("removed taken back")
    expect(turn(page, DROPPED)).to_contain_text("dropped you took it out")
    expect(turn(page, CALLS)).to_contain_text(re.compile(r"90\s% of 5,\d+ tokens reused"))
    expect(page).to_have_title(re.compile(rf"^{len(QUESTIONS)} · And now\?"))
    session = page.get_by_role("region", name="The session")
    expect(session).to_contain_text(f"{len(QUESTIONS)} turns")
    expect(session.get_by_role("img", name="Tokens, cache and cost")).to_be_visible()
    expect(page.get_by_role("combobox", name="session")).to_contain_text("Good morning. What is on")


def test_where_something_was_is_found_by_a_filter_or_by_words(page: Page) -> None:
    box = page.get_by_role("searchbox", name="Filter turns")
    for wanted, found in (
        ("status:failed", [REFUSED, BROKEN]),
        ("tool:count", [CALLS]),
        ("cache<50% model:luna cost>0", []),
        ("careful plan", [OTHER_WAY]),
    ):
        box.fill(wanted)
        expect(turns(page)).to_have_count(len(found))
        for number in found:
            expect(turn(page, number)).to_be_visible()
    page.reload()
    expect(turn(page, OTHER_WAY)).to_be_visible()
    expect(turns(page)).to_have_count(1)
    for wanted, said in (("statsu:failed", "did you mean 'status'?"), ("?", "needs a word")):
        box.fill(wanted)
        expect(page.get_by_role("alert")).to_contain_text(said)
    page.get_by_role("link", name="failed", exact=True).click()
    expect(turns(page)).to_have_count(2)
    turn(page, BROKEN).click()
    expect(page).to_have_url(re.compile(rf"/t/{BROKEN}/1/.*filter=status%3Afailed"))
    page.keyboard.press("/")
    page.get_by_role("dialog", name="Search").get_by_role("searchbox").fill("counted onerror")
    hit = page.get_by_role("list", name="Found").get_by_role("link")
    expect(hit).to_contain_text(f"Counted. {HOSTILE}")
    hit.click()
    expect(page).to_have_url(re.compile(rf"/t/{CALLS}/1/"))
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("dialog", name="Search")).to_be_visible()


def card(page: Page, number: int, name: str) -> Locator:
    """One of the verdicts on a turn, one click away."""
    turn(page, number).click()
    expect(page.get_by_role("region", name="The turn").get_by_role("heading").first).to_have_text(
        re.compile(rf"^{number} · ")
    )
    return page.get_by_role("article", name=name, exact=True)


def test_a_turn_says_in_words_how_it_ended_what_was_reused_what_it_cost_and_what_changed(
    page: Page,
) -> None:
    for number, name, said in (
        (REFUSED, "outcome", f"unauthorized: Incorrect API key provided {HOSTILE}"),
        (BROKEN, "outcome", "the stream ended before the reply did"),
        (BROKEN, "outcome", "The incident began at nine."),
        (CALLS, "outcome", f"Counted. {HOSTILE}"),
        (LOST, "cache", "0 % from cache: the vendor lost it"),
        (SWITCHED, "cache", "the model was switched"),
        (OTHER_WAY, "cache", "a turn was taken back; nothing was lost by it"),
        (LATE, "cache", "0 % from cache: the cache's lifetime ran out"),
        (FOLDED, "cache", "the window folded: the oldest turns left the prompt"),
        (RETRIED, "outcome", "after rate_limited: slow down, please"),
        (CALLS, "cost", re.compile(r"^cost\$0\.00\d+this request: 2,\d+ prompt tokens")),
        (CALLS, "cost", re.compile(r"the session: \$0\.0\d+ \+ 5 requests of unknown price")),
        (SWITCHED, "changed", "model: openai-chat:gpt-6.1-sol → openai-chat:gpt-6.1-luna"),
        (OTHER_WAY, "changed", "since request 7.1"),
    ):
        expect(card(page, number, name)).to_contain_text(said)
    expect(page.get_by_role("region", name="The turn")).to_contain_text(ADDRESS)


def dollars(text: str) -> float:
    return float(re.findall(r"\$([\d.]+)", text)[0])


def test_what_turns_cost_adds_up_to_what_the_session_did(page: Page) -> None:
    rows = [cost for cost in turns(page).locator(".figure").all_inner_texts() if "$" in cost]
    said = page.get_by_role("region", name="The session").inner_text()
    assert "+ 5 requests of unknown price" in said
    assert len(rows) == len(QUESTIONS) - 5
    assert sum(map(dollars, rows)) == pytest.approx(dollars(said), abs=0.0001 * len(rows))
    whole = card(page, CALLS, "cost").inner_text()
    assert f"the session: ${dollars(said)} + 5 requests of unknown price" in whole
    requests = page.get_by_role("navigation", name="Requests of the turn").get_by_role("link")
    parts = []
    for number in (1, 2):
        requests.nth(number - 1).click()
        cost = page.get_by_role("article", name="cost", exact=True)
        expect(page.get_by_role("region", name="The turn")).to_contain_text(f"request {number}")
        parts.append(dollars(cost.get_by_text("this request:").inner_text()))
    assert sum(parts) == pytest.approx(dollars(whole), abs=0.0001 * len(parts))


def test_what_was_lost_of_a_cache_costs_no_more_than_its_request(page: Page) -> None:
    lost = card(page, LOST, "cache").get_by_text("tokens read again").inner_text()
    assert 0 < dollars(lost) <= dollars(card(page, LOST, "cost").inner_text())


def test_a_turn_whose_words_are_gone_says_so_and_where_they_are(page: Page) -> None:
    turn(page, TAKEN_BACK).click()
    view(page, "Conversation")
    said = page.get_by_role("region", name="Conversation")
    expect(said).to_contain_text("What was said in this turn was removed; Prompt shows what")
    view(page, "Prompt")
    body = page.get_by_role("region", name="Prompt").get_by_label("Request body")
    expect(body).to_contain_text(QUESTIONS[TAKEN_BACK])


def test_the_chart_leads_to_the_turn_that_is_clicked_and_back_returns(page: Page) -> None:
    expect(page).to_have_url(re.compile(rf"/t/{len(QUESTIONS)}/"))
    page.get_by_role("img", name="Tokens, cache and cost").locator("g").nth(LOST - 1).click()
    expect(page).to_have_url(re.compile(rf"/t/{LOST}/1/"))
    expect(page).to_have_title(re.compile(rf"^{LOST} · "))
    page.go_back()
    expect(page).to_have_title(re.compile(rf"^{len(QUESTIONS)} · "))


def test_on_a_phone_a_turn_that_is_chosen_comes_into_view(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    turn(page, LATE).click()
    expect(page.get_by_role("heading", name=f"{LATE} · ")).to_be_in_viewport()
    expect(page.get_by_role("article", name="changed", exact=True)).to_be_in_viewport()


def test_what_was_not_seen_is_listed_with_the_rule_that_kept_it_out(page: Page) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("link", name="Not seen").click()
    table = page.get_by_role("table", name="not seen by the model")
    expect(table).to_contain_text("outside the window")
    expect(table).to_contain_text(f"it has 70,000 nodes, over the limit {HOSTILE}")
    turn(page, REFUSED).click()
    expect(table.get_by_role("row", name="describe_db")).to_contain_text("truncation")
    table.get_by_role("row", name="describe_db").get_by_role("link", name="results").click()
    expect(page.get_by_label("Configuration")).to_contain_text("[truncation]")
    expect(page.get_by_role("table", name="What would change")).to_contain_text("history")
    turn(page, CALLS).click()
    view(page, "Conversation")
    done = page.get_by_role("region", name="Conversation").get_by_role("listitem")
    expect(done.filter(has_text="count")).to_contain_text(["Please count.", "allowed: mode auto"])


def test_everything_is_reached_by_a_few_letters_and_the_keyboard_alone(page: Page) -> None:
    box = page.get_by_role("combobox", name="Go to or do")
    first = page.get_by_role("dialog", name="Command palette").get_by_role("option").first
    for wanted, name, address in (
        ("not seen", "Not seen", r"/unseen"),
        (str(BROKEN), f"{BROKEN} · ", rf"/t/{BROKEN}/1/unseen"),
        ("careful plan", f"{OTHER_WAY} · ", rf"/t/{OTHER_WAY}/"),
        ("filter fail", "Filter: failed", r"filter=status%3Afailed"),
        ("filter none", "Filter: none", rf"/t/{OTHER_WAY}/1/unseen$"),
        ("wrong onerror", f"{REFUSED} · {QUESTIONS[REFUSED]}", rf"/t/{REFUSED}/"),
        ("good morning session", "1 · Good morning.", rf"/s/1/t/{len(QUESTIONS)}/"),
    ):
        page.keyboard.press("Control+k")
        expect(box).to_be_focused()
        box.fill(wanted)
        expect(first).to_contain_text(name)
        expect(first).to_have_attribute("aria-selected", "true")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(address))
        expect(page.get_by_role("dialog")).to_have_count(0)
    turns(page).last.focus()
    page.keyboard.press("Control+k")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    chosen = page.get_by_role("option", selected=True).last
    expect(box).to_have_attribute(
        "aria-activedescendant", chosen.get_attribute("id") or "no option is chosen"
    )
    expect(chosen).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_whatever_is_not_there_is_said_in_the_place_where_it_would_stand(
    browser: Browser, eventful: Inspector
) -> None:
    """In a page of its own: a browser complains of answers that are errors."""
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    page.goto(eventful.address)
    expect(turns(page)).to_have_count(len(QUESTIONS))
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    def asked() -> Route:
        while not held:
            page.evaluate("0")  # whoever waits for the page hears of its requests
        return held.pop()

    for address, name, waits_for, empty in (
        ("**/groups/*", "Conversation", "the conversation", "Nothing was said in this turn"),
        ("**/state", "State", "the state of the apps", "No app was connected"),
        ("**/unseen", "Not seen", "what was not seen", "The model saw everything there was"),
    ):
        page.route(address, hold)
        turn(page, FIRST).click()
        view(page, name)
        waiting = page.get_by_role("status").filter(has_text=f"Loading {waits_for}…")
        expect(waiting).to_be_attached()
        asked().fulfill(status=503, json={"error": f"busy {HOSTILE}"})
        expect(page.get_by_role("alert")).to_contain_text(f"busy {HOSTILE}")
        page.get_by_role("button", name="Try again").click()
        expect(waiting).to_be_attached()
        asked().fulfill(json={"messages": [], "apps": [], "unseen": []})
        expect(page.get_by_text(empty)).to_be_visible()
        turn(page, CALLS).click()
        expect(page.get_by_text(empty)).to_have_count(0)  # it was of another turn
        expect(waiting).to_be_attached()
        asked().continue_()
        page.unroute(address)
    view(page, "What if")
    form = page.get_by_role("form", name="Change the rules")
    table = page.get_by_role("table", name="What would change")
    form.get_by_label("window").fill("2")
    expect(table).to_be_visible()
    page.route("**/whatif", hold)
    form.get_by_label("window").fill("1")
    expect(page.get_by_role("status").filter(has_text="Computing…")).to_be_attached()
    expect(table).to_have_count(0)
    asked().continue_()
    expect(table).to_be_visible()
    page.get_by_role("searchbox", name="Filter turns").fill("nobody-said-this")
    expect(page.get_by_text("No turn is like that")).to_be_visible()
    page.goto(page.url.replace(f"/t/{CALLS}/", "/t/99/"))
    expect(page.get_by_text("There is no turn 99")).to_be_visible()
    page.unroute_all()
    context.close()


def test_the_pictures_in_the_documents_are_of_this_page(page: Page) -> None:
    show(page)
    for colours in COLOURS:
        picture = picture_of(colours)
        data = picture.read_bytes()
        assert len(data) < MOST_BYTES
        # PNG, the header chunk: width and height come first.
        assert struct.unpack(">II", data[16:24]) == SIZE
        for document, name in (("README.md", f"docs/{PATH}"), ("docs/inspector.md", PATH)):
            assert name.format(colours) in (ROOT / document).read_text("utf-8")


PATH = "pictures/inspector-{}.png"
