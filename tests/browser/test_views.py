"""Every view of the inspector in a real browser, by role and label."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from browser.chatting import HOSTILE
from browser.conftest import LINES, VIEWS, Chat, Inspector, picture_and_changes, view
from sightline.context.ledger import Ledger
from sightline.context.ledger.work import Owner
from sightline.context.messages.parts import Draft, Message, ToolCall
from support.live import LiveApp, announced_app

BRIEF = """
def on_context_build(ctx):
    if ctx.budget.remaining_input_tokens < 5_000:
        raise ValueError("too brief for brief")
    ctx.slots.add("rule", "Be brief.", role="system")
    ctx.slots.add("input", ctx.input)
"""


def choose(page: Page, line: str) -> None:
    page.get_by_role("listbox", name="Turns").get_by_role("option").filter(has_text=line).click()


def test_turns_are_listed_with_their_figures_and_the_newest_is_open(page: Page) -> None:
    turns = page.get_by_role("listbox", name="Turns").get_by_role("option")
    expect(turns).to_have_count(len(LINES))
    expect(turns.nth(1)).to_contain_text("do count")
    expect(turns.nth(1)).to_contain_text("2 requests")
    expect(turns.last).to_have_attribute("aria-selected", "true")
    expect(turns.last).to_contain_text("reused")
    expect(turns.last).to_contain_text("<b>bold</b> & plain")


def test_an_address_is_kept_whatever_the_page_does_before_it_is_told(page: Page) -> None:
    """HTML tells of a link's address later than it changes; a key or a turn may come between."""
    expect(page).to_have_url(re.compile("t/4/1/picture$"))
    page.evaluate(
        """() => {
            location.hash = location.hash.replace("picture", "prompt");
            dispatchEvent(new KeyboardEvent("keydown", { key: "k" }));
        }"""
    )
    expect(page.get_by_role("region", name="Prompt")).to_be_visible()
    expect(page).to_have_url(re.compile("t/3/1/prompt$"))


def test_an_address_without_a_turn_shows_the_newest(page: Page) -> None:
    expect(page).to_have_url(re.compile("t/4/1/picture$"))
    page.evaluate("() => { location.hash = '#/s/1/prompt' }")
    expect(page.get_by_role("region", name="Prompt")).to_be_visible()
    expect(page).to_have_url(re.compile("t/4/1/prompt$"))


def test_a_key_goes_on_from_what_the_key_before_it_left(page: Page) -> None:
    """The second comes when the page has the first turn's row, and before it is painted."""
    expect(page).to_have_url(re.compile("t/4/1/picture$"))
    page.evaluate(
        """async () => {
            for (const key of "kk") {
                dispatchEvent(new KeyboardEvent("keydown", { key }));
                for (let turn = 0; turn < 20; turn += 1) await null;
            }
        }"""
    )
    expect(page).to_have_url(re.compile("t/2/1/picture$"))


def test_the_picture_shows_slots_in_prompt_order_and_the_boundary(page: Page) -> None:
    bar = page.get_by_role("group", name="The context window, in prompt order")
    expect(bar.get_by_role("separator", name=re.compile("boundary"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("reserve for the answer"))).to_be_visible()
    expect(page.get_by_role("region", name="Picture")).to_contain_text("reported")
    slots = page.get_by_role("table", name="Slots in prompt order")
    names = slots.get_by_role("rowheader").all_inner_texts()
    order = [name.split("\n")[0].removesuffix("tail").strip() for name in names]
    assert order.index("system") < order.index("history") < order.index("input")
    assert order.index("input") < order.index("state")
    bar.get_by_role("button", name=re.compile("^state:")).click()
    expect(slots.get_by_role("button", name="state")).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile("slot=state"))
    slots.get_by_role("button", name="history").hover()
    messages = page.get_by_role("listbox", name="Messages of the chosen slot")
    expect(messages).to_contain_text("user")
    expect(page.get_by_role("region", name="The chosen message")).to_contain_text("<slop-state")


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_the_figures_of_the_prompt_add_up_to_those_above_them(page: Page) -> None:
    picture = page.get_by_role("region", name="Picture")
    words = r"([\d,]+) of ([\d,]+) tokens, ([\d,]+) free .*; ([\d,]+) of a window of ([\d,]+) are"
    lead = re.search(words, picture.locator(".lead").inner_text())
    assert lead is not None
    total, budget, free, reserve, window = map(number, lead.groups())
    assert (total + free, budget + reserve) == (budget, window)
    same, reusable, evaluated = map(
        number, re.findall(r"(?:before|begin with it|evaluated): ([\d,]+)", picture.inner_text())
    )
    assert reusable + evaluated == total
    table = picture.get_by_role("table", name="Slots in prompt order")
    *rows, last = [
        [number(cell) for cell in row.get_by_role("cell").all_inner_texts()[:5]]
        for row in table.get_by_role("row").all()[1:]
    ]
    assert last == [sum(column) for column in zip(*rows, strict=True)]
    assert (last[1], last[3], last[4]) == (total, same, reusable)
    assert all(offered == kept + cut for offered, kept, cut, *_ in rows)
    blocks = picture.get_by_role("group", name=re.compile("^The context window")).locator("small")
    assert sum(map(number, blocks.all_inner_texts())) == total


def test_picture_agrees_with_changes_for_each_turn_of_the_host(page: Page) -> None:
    found = []
    for line in LINES[1:]:
        choose(page, line)
        same, changed = picture_and_changes(page)
        assert {"tools", "system", "guidelines"} <= same
        found.append("state" in changed)
    assert any(found), "an action changed the state"


def test_the_conversation_has_words_calls_and_results_in_order(page: Page) -> None:
    choose(page, "do count")
    view(page, "Conversation")
    steps = page.get_by_role("region", name="Conversation").get_by_role("listitem")
    expect(steps).to_have_count(4)
    expect(steps.nth(0)).to_contain_text("do count")
    expect(steps.nth(1)).to_contain_text("Counting.")
    expect(steps.nth(2).get_by_label("Parameters of slop_invoke")).to_contain_text('"count"')
    expect(steps.nth(2).get_by_label("Result of slop_invoke")).not_to_be_empty()
    expect(steps.nth(3)).to_contain_text(HOSTILE)
    page.get_by_role("listbox", name="Turns").get_by_role("option").last.click()
    expect(steps.first).to_contain_text("<b>bold</b> & plain")


@pytest.mark.parametrize("width", [1280, 800, 390])
@pytest.mark.parametrize("late", ["**/verdicts", "**/app/views*"])
def test_the_views_stay_in_their_place_while_what_is_above_them_comes(
    visit: Callable[..., Page], inspector: Inspector, width: int, late: str
) -> None:
    page = visit(inspector.address, viewport={"width": width, "height": 800})
    verdict = page.get_by_role("article", name="outcome")
    verdict.wait_for()
    held: list[Route] = []
    page.route(late, lambda route: held.append(route))
    with page.expect_request(late):
        page.reload(wait_until="commit")
    views = page.get_by_role("navigation", name="Views")
    views.wait_for()
    expect(page.get_by_role("listbox", name="Turns").get_by_role("option")).to_have_count(4)
    before = views.bounding_box()
    expect(verdict).to_have_count(0)
    [waiting] = held
    waiting.continue_()
    verdict.wait_for()
    assert views.bounding_box() == before


def test_a_turn_is_seen_while_it_runs(
    visit: Callable[..., Page], inspect: Callable[..., Inspector], tmp_path: Path
) -> None:
    call = ToolCall("c1", "deploy", {"where": HOSTILE})
    with Ledger(tmp_path / "work.db") as ledger:
        session = ledger.sessions.create("live").id
        [asked] = ledger.append(session, [Draft(Message.of("user", "Ship it."), 3)])
        owner = Owner(ledger.work)
        owner.claim(session)
        ledger.work.begin_reply(session, asked.group_id, asked.seq, "openai-chat")
        page = visit(inspect(tmp_path / "work.db").address)
        view(page, "Conversation")
        section = page.get_by_role("region", name="Conversation")
        expect(section.get_by_role("status")).to_contain_text("waiting for the model")
        asked_for: list[str] = []
        page.on("request", lambda request: asked_for.append(request.url))
        for words in range(4):
            ledger.work.note_words(session, f"On my way {words} {HOSTILE}", "First I think.")
            expect(section.get_by_role("listitem").last).to_contain_text(f"On my way {words}")
        assert asked_for == []  # the words came by themselves
        expect(section.get_by_role("listitem").last).to_contain_text("<img src=x onerror=")
        expect(section).to_contain_text("First I")
        expect(section.get_by_role("status")).to_contain_text("answering")
        ledger.append(session, [Draft(Message("assistant", (call,)), 5)])
        ledger.work.note_call(session, asked.group_id, "c1", "asked")
        expect(section.get_by_role("status")).to_contain_text("waiting for your approval")
        expect(section.get_by_label("Parameters of deploy")).to_contain_text("onerror")
        owner.close()


def test_where_the_time_goes_is_seen_while_it_does(
    visit: Callable[..., Page], inspect: Callable[..., Inspector], tmp_path: Path
) -> None:
    chat = Chat(tmp_path / "work.db")
    chat.say("first")
    page = visit(inspect(tmp_path / "work.db").address)
    expect(page.get_by_role("article", name="outcome")).to_be_visible()
    page.get_by_label("follow").check()
    view(page, "Trace")
    trace = page.get_by_role("region", name="Trace")
    chat.begin("wait for me")
    expect(trace.get_by_role("status")).to_contain_text("waiting for your approval")
    running = page.get_by_role("listbox", name="Turns").get_by_role("option").last
    expect(running).to_contain_text("…")
    chat.say("go on")
    expect(trace.get_by_role("status")).to_have_count(0)
    expect(trace.get_by_role("rowheader", name="slop_invoke")).to_be_visible()
    expect(running).to_contain_text("answered")
    chat.leave()


def test_the_prompt_is_the_request_byte_for_byte_with_its_difference(page: Page) -> None:
    view(page, "Prompt")
    section = page.get_by_role("region", name="Prompt")
    expect(section).to_contain_text("byte for byte as sent")
    expect(section.get_by_label("Request body")).to_contain_text("what now?")
    expect(section.get_by_role("region", name="Against the request before it")).to_contain_text(
        "appended"
    )
    section.get_by_label("turn.request").select_option("1.1")
    against = section.get_by_role("region", name="From 1.1 to 4.1")
    expect(against).to_contain_text("in common")
    expect(page).to_have_url(re.compile("with=1.1"))


def test_changes_are_told_by_slot_path_and_word_against_any_request(page: Page) -> None:
    view(page, "Changes")
    section = page.get_by_role("region", name="Changes", exact=True)
    expect(section.get_by_label("against request")).to_have_value("3.1")
    history = section.get_by_role("region", name="Changes of history")
    expect(history.locator("ins").last).to_contain_text(HOSTILE)
    state = section.get_by_role("region", name="Changes of state")
    expect(state.locator("code").first).to_have_text("/")
    assert "4" in state.locator("ins").all_inner_texts()
    assert "3" in state.locator("del").all_inner_texts()
    section.get_by_label("against request").fill("1.1")
    section.get_by_label("against request").press("Enter")
    expect(state.locator("del").filter(has_text=re.compile("^1$"))).to_be_visible()
    expect(page).to_have_url(re.compile("with=1.1"))


def test_the_state_shows_nodes_changes_and_the_tail(page: Page) -> None:
    view(page, "State")
    nodes = page.get_by_role("treegrid", name=re.compile("^Nodes of"))
    expect(nodes.get_by_role("row").first).to_contain_text("n=4")
    expect(page.get_by_text(re.compile("changes? since the request before"))).to_be_visible()
    page.get_by_text("The tail, as the model read it").click()
    expect(page.get_by_role("region", name="State")).to_contain_text("<slop-state")
    expect(page.get_by_role("button", name="Invoke")).to_have_count(0)


def test_the_trace_is_a_waterfall_of_the_turn(page: Page) -> None:
    choose(page, "do count")
    view(page, "Trace")
    rows = page.get_by_role("table", name="Waterfall of the turn").get_by_role("rowheader")
    # Until its own is there, that of the turn before is shown.
    expect(rows.filter(has_text="slop_invoke")).to_be_visible()
    names = rows.all_inner_texts()
    for step in ("select", "assemble", "first token", "stream", "slop_invoke"):
        assert any(name.startswith(step) for name in names), (step, names)


def test_what_if_assembles_the_turn_under_other_rules(page: Page) -> None:
    view(page, "What if")
    form = page.get_by_role("form", name="Change the rules")
    form.get_by_label("budget").fill("3000")
    form.get_by_label("window").fill("1")
    form.get_by_label("slack").fill("0")
    changed = page.get_by_role("table", name="What would change")
    expect(changed.get_by_role("row", name=re.compile("prompt tokens"))).to_be_visible()
    expect(page.get_by_label("Configuration")).to_contain_text("size = 1")
    # Once it is there, at one moment: the answer to the last rule may still replace the one before.
    rows = changed.evaluate(
        "table => [...table.rows].map(row => [...row.children].map(cell => cell.innerText))"
    )
    totals = next(at for at, row in enumerate(rows) if row[0] == "prompt tokens")
    for column in (1, 2):
        assert sum(number(row[column]) for row in rows[1:totals]) == number(rows[totals][column])
    assert {"budget=3000", "window=1"} <= set(page.url.split("?")[1].split("&"))
    page.reload()
    expect(page.get_by_label("Configuration")).to_contain_text("size = 1")
    form.get_by_label("over").select_option("all turns")
    every = page.get_by_role("table", name="What would change in all turns")
    expect(every.get_by_role("row", name=re.compile("tokens of history"))).to_be_visible()
    expect(page.get_by_text("lose history")).to_be_visible()
    form.get_by_label("over").select_option("this turn")
    form.get_by_label("budget").fill("1")
    expect(page.get_by_role("alert")).to_contain_text("tokens")


def test_what_is_typed_stays_while_the_page_is_drawn_anew(page: Page) -> None:
    view(page, "What if")
    form = page.get_by_role("form", name="Change the rules")
    expect(form).to_be_visible()
    page.clock.install(time=0)
    page.clock.pause_at(1_000)  # the page takes what was typed a while after the last key
    form.get_by_label("budget").fill("3000")
    page.clock.run_for(200)
    form.get_by_label("window").press_sequentially("1")
    page.clock.run_for(200)
    expect(page).to_have_url(re.compile("budget=3000$"))
    form.get_by_label("window").press_sequentially("2")
    page.clock.run_for(1_000)
    expect(page).to_have_url(re.compile("window=12$"))
    expect(form.get_by_label("window")).to_have_value("12")


def test_what_if_offers_the_configured_strategy_and_runs_it(
    visit: Callable[..., Page], inspect: Callable[..., Inspector], ledger: Path, tmp_path: Path
) -> None:
    file = tmp_path / "brief.py"
    file.write_text(BRIEF, encoding="utf-8")
    page = visit(inspect(ledger, strategy=str(file)).address)
    view(page, "What if")
    form = page.get_by_role("form", name="Change the rules")
    offered = form.get_by_label("strategy").get_by_role("option")
    expect(offered).to_have_text(["as it was", "brief.py", "classic", "minimal", "sightline"])
    form.get_by_label("strategy").select_option("brief.py")
    section = page.get_by_role("region", name="What if")
    expect(section).to_contain_text("laid out by brief.py")
    expect(section.get_by_role("rowheader", name="rule")).to_be_visible()
    form.get_by_label("budget").fill("4000")
    notes = section.get_by_role("list", name="What to know about this")
    expect(notes).to_contain_text("brief")


def test_the_ledger_shows_groups_states_search_sql_and_verifies(page: Page) -> None:
    view(page, "Ledger")
    ledger = page.get_by_role("region", name="Ledger")
    ledger.get_by_role("button", name="Verify the ledger").click()
    expect(ledger.get_by_role("status").first).to_contain_text("as they were written")
    ledger.get_by_role("listbox", name="Groups").get_by_role("option").first.click()
    expect(ledger.get_by_role("list", name=re.compile("^Messages of group"))).to_contain_text(
        "hello"
    )
    states = ledger.get_by_role("listbox", name="STATE through time")
    expect(states.get_by_role("option")).to_have_count(len(LINES))
    expect(ledger.get_by_label("The chosen state")).to_contain_text("Goal: turn 4")
    states.get_by_role("option").first.click()
    expect(ledger.get_by_label("The chosen state")).to_contain_text("Goal: turn 1")
    ledger.get_by_role("searchbox").fill("what now")
    ledger.get_by_role("searchbox").press("Enter")
    expect(ledger.get_by_role("list", name="Found")).to_contain_text("what now?")
    ledger.get_by_role("textbox", name="One read-only statement").fill(
        "SELECT count(*) AS n FROM messages"
    )
    ledger.get_by_role("button", name="Run").click()
    expect(ledger.get_by_role("table", name="1 row")).to_contain_text("n")
    ledger.get_by_role("textbox", name="One read-only statement").fill("DELETE FROM messages")
    ledger.get_by_role("button", name="Run").click()
    expect(ledger.get_by_role("alert")).to_be_visible()


def test_the_keyboard_goes_everywhere_and_the_address_holds_the_view(page: Page) -> None:
    selected = page.get_by_role("listbox", name="Turns").get_by_role("option", selected=True)
    expect(selected).to_contain_text("bold")
    page.keyboard.press("g")
    expect(selected).to_contain_text("hello")
    page.keyboard.press("j")
    expect(selected).to_contain_text("do count")
    page.keyboard.press("k")
    page.keyboard.press("G")
    expect(selected).to_contain_text("bold")
    page.keyboard.press("7")
    expect(page.get_by_role("region", name="Trace")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("region", name="Trace")).to_be_visible()
    page.go_back()


def test_light_and_dark_and_a_narrow_screen_are_usable(page: Page) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(colour) != light
    page.set_viewport_size({"width": 420, "height": 800})
    view(page, "Prompt")
    expect(page.get_by_role("region", name="Prompt")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_with_consent_an_app_is_asked_from_the_page(
    visit: Callable[..., Page], inspect: Callable[..., Inspector], ledger: Path, tmp_path: Path
) -> None:
    with announced_app(tmp_path, LiveApp(app_id="live")):
        page = visit(inspect(ledger, "--allow-invoke", directory=tmp_path).address)
        view(page, "State")
        form = page.get_by_role("form", name=re.compile("^Invoke an action of"))
        form.get_by_label("action").fill("count")
        form.get_by_role("button", name="Invoke").click()
        expect(form.get_by_role("status")).to_contain_text("result")
        form.get_by_label("action").fill("nonsense")
        form.get_by_role("button", name="Invoke").click()
        expect(form.get_by_role("status")).to_contain_text("not_found")


def test_a_running_chat_is_followed_live(
    visit: Callable[..., Page], inspect: Callable[..., Inspector], tmp_path: Path
) -> None:
    chat = Chat(tmp_path / "work.db")
    chat.say("first")
    page = visit(inspect(tmp_path / "work.db").address)
    turns = page.get_by_role("listbox", name="Turns").get_by_role("option")
    expect(turns).to_have_count(1)
    page.get_by_label("follow").check()
    chat.say("second")
    expect(turns).to_have_count(2)
    expect(turns.last).to_have_attribute("aria-selected", "true")
    chat.say("do third")
    expect(page).to_have_url(re.compile("/t/3/2/"))  # the newest request of the newest turn
    page.get_by_role("link", name="request 1").click()
    view(page, "Prompt")
    expect(page).to_have_url(re.compile("/t/3/1/"))  # who follows may look back
    chat.say("do fourth")
    expect(page).to_have_url(re.compile("/t/4/2/"))
    chat.leave()
    view(page, "Ledger")
    first = page.get_by_role("listbox", name="Groups").get_by_role("option").first
    expect(first).to_contain_text("live")
    with Ledger(tmp_path / "work.db") as ledger:
        ledger.memos.save("The door is painted blue.", ["door"])
        expect(page.get_by_role("list", name="Memos")).to_contain_text("painted blue")
        ledger.groups.drop(1, ledger.groups.recent(1)[0].id)
        expect(first).to_contain_text("dropped")


def test_an_export_opens_from_disk_and_shows_the_same_hostile_text_as_text(
    visit: Callable[..., Page], page: Page, tmp_path: Path
) -> None:
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    target = tmp_path / "session.html"
    download.value.save_as(target)
    saved = visit(target.as_uri(), offline=True)
    turns = saved.get_by_role("listbox", name="Turns").get_by_role("option")
    expect(turns).to_have_count(len(LINES))
    for name in VIEWS:
        view(saved, name)
        expect(saved.get_by_role("region", name=name).first).to_be_visible()
    expect(saved.get_by_role("region", name="Ledger")).to_contain_text("Only those that stood in")
    view(saved, "State")
    nodes = saved.get_by_role("treegrid", name=re.compile("^Nodes of"))
    expect(nodes.get_by_role("row").first).to_contain_text(HOSTILE)
    view(saved, "Prompt")
    body = saved.get_by_label("Request body")
    expect(body).to_contain_text("onerror")
    assert saved.locator("script").count() == 3  # the map, the answers, what begins
    expect(saved.get_by_role("region", name="Prompt")).to_contain_text("byte for byte as sent")
    box = saved.get_by_role("searchbox", name="Filter turns")
    for wanted, left in (
        ("tool:count", ["do count"]),
        ("onerror bold", ["<b>bold</b>"]),
        ("x:", []),
    ):
        box.fill(wanted)
        expect(turns).to_contain_text(left)
    expect(saved.get_by_role("alert")).to_contain_text("is no filter")


def test_what_a_page_shows_first_is_asked_for_once(
    visit: Callable[..., Page], inspector: Inspector
) -> None:
    page = visit(inspector.address)
    expect(page.get_by_role("article", name="outcome")).to_be_visible()
    expect(page.get_by_role("region", name="Picture")).to_be_visible()
    asked_for: list[str] = []
    page.on("request", lambda request: asked_for.append(urlsplit(request.url).path))
    page.add_init_script(
        """window.EventSource = class extends EventSource {
            constructor(url) {
                super(url);
                this.addEventListener("changed", () => setTimeout(() => (window.heard = 1), 0));
            }
        }"""
    )
    page.goto(page.url.partition("#")[0])
    page.wait_for_function("() => window.heard")
    expect(page.get_by_role("listbox", name="Turns").get_by_role("option")).to_have_count(4)
    view(page, "Ledger")
    expect(page.get_by_role("listbox", name="Groups").get_by_role("option")).to_have_count(4)
    lists = Counter(path.partition("/api/")[2] for path in asked_for if "/api/" in path)
    assert lists["sessions"] == lists["events"] == 1
    assert set(lists.values()) == {1}, lists
