"""What an open page says when its ledger or its server goes, and of more than it can list.

Where answers are errors the page is in a context of its own: a browser complains of them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from browser.chatting import HOSTILE
from browser.conftest import LINES, TIMEOUT_MS, Inspector, view
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Message

MOST_LISTED = 200
OVER = 3
ODD = "txt.\u202eexe\u2069"
SHOWN = "txt.⟨U+202E⟩exe⟨U+2069⟩"


@pytest.fixture
def own(ledger: Path, tmp_path: Path) -> Path:
    """A copy of the recorded ledger, to be spoiled."""
    for file in ledger.parent.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / ledger.name


@pytest.fixture
def patient(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(TIMEOUT_MS)
    yield context.new_page()
    context.close()


def turns(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Turns").get_by_role("option")


def connection(page: Page) -> Locator:
    return page.get_by_role("banner").get_by_role("status")


def test_a_ledger_that_is_deleted_is_said_to_be_and_what_is_left_of_it_is_shown(
    patient: Page, inspect: Callable[..., Inspector], own: Path
) -> None:
    page = patient
    page.goto(inspect(own).address)
    expect(connection(page)).to_have_text("live")
    for file in own.parent.iterdir():
        file.unlink()
    expect(connection(page)).to_contain_text("the ledger was deleted or replaced")
    turns(page).first.click()
    view(page, "Conversation")
    expect(page.get_by_role("region", name="Conversation")).to_contain_text(LINES[0])
    page.reload()
    expect(turns(page)).to_have_count(len(LINES))
    expect(connection(page)).to_contain_text("this is what is left of it")


def test_a_ledger_that_cannot_be_read_is_said_to_be_damaged_until_it_is_whole_again(
    patient: Page, inspect: Callable[..., Inspector], own: Path
) -> None:
    patient.goto(inspect(own).address)
    expect(connection(patient)).to_have_text("live")
    whole = own.read_bytes()
    os.truncate(own, 5_000)
    expect(connection(patient)).to_contain_text("malformed")
    turns(patient).first.click()
    expect(patient.get_by_role("alert").first).to_contain_text("malformed")
    own.write_bytes(whole)
    expect(connection(patient)).to_have_text("live")
    patient.get_by_role("button", name="Try again").first.click()
    expect(patient.get_by_role("article", name="outcome")).to_be_visible()


def test_a_page_whose_server_stopped_says_so_and_what_to_do_when_another_is_in_its_place(
    patient: Page, inspect: Callable[..., Inspector], own: Path
) -> None:
    first = inspect(own)
    patient.goto(first.address)
    expect(connection(patient)).to_have_text("live")
    expect(patient.get_by_role("article", name="outcome")).to_be_visible()
    first.stop()
    expect(connection(patient)).to_contain_text("is sightline inspect still running?")
    turns(patient).first.click()
    view(patient, "State")
    problem = patient.get_by_role("alert").filter(has_text="The inspector does not answer")
    expect(problem.last).to_be_visible()
    inspect(own, "--port", first.netloc.rpartition(":")[2])
    expect(connection(patient)).to_contain_text("open the address that it prints")
    patient.reload()
    expect(patient.get_by_role("heading", name="Not let in")).to_be_visible()
    expect(patient.locator("body")).to_contain_text("Enter in its terminal prints another")


def test_the_newest_sessions_are_listed_and_the_palette_finds_the_others(
    visit: Callable[..., Page], inspect: Callable[..., Inspector], tmp_path: Path
) -> None:
    with Ledger(tmp_path / "work.db") as ledger:
        for number in range(1, MOST_LISTED + OVER + 1):
            ledger.sessions.create(title=f"About {HOSTILE if number == 1 else number}")
    page = visit(inspect(tmp_path / "work.db").address)
    expect(page.get_by_text("No turn yet")).to_be_visible()
    options = page.get_by_role("combobox", name="session").get_by_role("option")
    expect(options).to_have_count(MOST_LISTED + 1)
    expect(options.last).to_have_text(re.compile(rf"^{OVER} more: \S+ finds them$"))
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to or do").fill("about onerror")
    found = page.get_by_role("option").filter(has_text="1 · About <img src=x")
    expect(found).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/s/1/"))
    expect(page.get_by_role("combobox", name="session")).to_have_value("1")


def test_characters_that_turn_text_round_are_shown_wherever_it_is(
    visit: Callable[..., Page], inspect: Callable[..., Inspector], own: Path
) -> None:
    with Ledger(own) as ledger:
        session = ledger.sessions.create().id
        ledger.append(session, [Message.of("user", f"Open {ODD}, please. مرحبا")])
    page = visit(inspect(own).address)
    expect(turns(page)).to_contain_text([f"Open {SHOWN}, please."])
    expect(page).to_have_title(re.compile(re.escape(f"1 · Open {SHOWN}, please. مرحبا")))
    expect(page.get_by_role("heading", name=f"Open {SHOWN}")).to_be_visible()
    expect(page.get_by_role("combobox", name="session")).to_contain_text(f"Open {SHOWN}")
    view(page, "Conversation")
    expect(page.get_by_role("region", name="Conversation")).to_contain_text(SHOWN)
    expect(page.locator("body")).not_to_contain_text("\u202e")


@pytest.mark.parametrize(
    ("address", "lands"),
    [
        ("#/s/99999999999999999999999/picture", "#/s/1/t/4/1/picture"),
        ("#/s/1/t/99999999999999999999/1/prompt", "#/s/1/t/4/1/prompt"),
        ("#/s/1/t/2/1/<script>", "#/s/1/t/2/1/"),
        ("#/s/1/t/2/999/trace", "#/s/1/t/2/2/trace"),
        ("#/s/1/t/2/0/trace", "#/s/1/t/2/2/trace"),
        ("#/s/__proto__/t/%00", "#/s/1/t/4/1/picture"),
    ],
)
def test_an_address_that_cannot_be_meant_leads_to_what_is_there(
    visit: Callable[..., Page], inspector: Inspector, address: str, lands: str
) -> None:
    page = visit(inspector.address)
    expect(turns(page)).to_have_count(len(LINES))
    page.goto("about:blank")
    page.goto(f"{inspector.origin}{inspector.ticket[1]}{address}")
    expect(page).to_have_url(re.compile(re.escape(lands)))
    expect(page.get_by_role("article", name="outcome")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(connection(page)).to_have_text("live")
