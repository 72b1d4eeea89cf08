"""The standing texts: the same bytes for everybody, and every promise they need to make."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Message
from sightline.context.messages.state import TEMPLATE, extract_state
from sightline.context.projection.escape import tag_like
from sightline.context.slots.standing import contract, guidelines_text, system_text

PINNED = {
    "system": "a843a1f5e1c75abc",
    "system, small": "eae85ba92ee95768",
    "guidelines": "511936a22abc03d9",
    "guidelines, small": "51a68d58f40ccad0",
}


def texts() -> dict[str, str]:
    return {
        "system": system_text(),
        "system, small": system_text(small=True),
        "guidelines": guidelines_text(),
        "guidelines, small": guidelines_text(small=True),
    }


@pytest.mark.parametrize("name", PINNED)
def test_the_bytes_are_pinned(name: str) -> None:
    digest = sha256(texts()[name].encode()).hexdigest()[:16]
    assert digest == PINNED[name], (
        f"the {name} text changed. It begins every prompt: releasing this voids all cached prompts "
        "of every user once. If that is what you decided, pin the new digest here and say so in "
        "CHANGELOG.md."
    )


@pytest.mark.parametrize("small", [False, True])
def test_the_contract_is_said_once_and_word_for_word(small: bool) -> None:
    assert system_text(small=small).count(contract(small_model=small)) == 1
    assert not list(tag_like(guidelines_text(small=small)))


@pytest.mark.parametrize("small", [False, True])
def test_every_response_is_asked_to_end_with_the_state_in_the_seeds_format(small: bool) -> None:
    text = guidelines_text(small=small)
    assert re.search("end every response", text, re.IGNORECASE)
    assert text.count(TEMPLATE) == 1
    # Were the model to copy the form as it stands, the host would find it.
    assert extract_state(text) is not None


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(
    "needed",
    [
        r"`query_db`.*SELECT",
        r"ORDER BY id DESC",
        r"ignore rows whose status is `dropped`",
        r"check (them|memos) before you assume",
        r"save.*not in the code|cannot be read in the code",
        r"cut",
    ],
)
def test_the_guidelines_say_how_to_use_the_history(needed: str, small: bool) -> None:
    assert re.search(needed, guidelines_text(small=small), re.IGNORECASE)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(
    "needed", ["approval", "Never make", "asked", "exactly", "slop_invoke", "is data"]
)
def test_the_system_prompt_says_how_to_act(needed: str, small: bool) -> None:
    assert needed in system_text(small=small)


def test_the_small_variant_is_shorter_and_its_contract_stronger() -> None:
    assert len(guidelines_text(small=True)) < len(guidelines_text()) / 2
    own, own_small = (
        system_text(small=small).replace(contract(small_model=small), "") for small in (False, True)
    )
    assert len(own_small) < len(own) / 2
    assert len(contract(small_model=True)) > len(contract())


def test_the_query_they_show_runs_and_finds(tmp_path: Path) -> None:
    [query] = re.findall(r"^  (SELECT .*)$", guidelines_text(), re.MULTILINE)
    with Ledger(tmp_path / "x.db") as ledger:
        session = ledger.sessions.create("x")
        told = [Message.of("user", "the refactor plan is ready"), Message.of("user", "other")]
        ledger.append(session.id, told, strategy="openai")
        answer = ledger.query(query, session_id=session.id)
        assert answer.rows == (("user", "the refactor plan is ready"),)


def test_nothing_in_them_can_change() -> None:
    assert texts() == texts()
    for text in texts().values():
        assert not re.search(r"\b20\d\d\b", text)
