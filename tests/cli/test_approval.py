"""The question before an action: everything can be seen, and nothing passes for something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host.helpers import hosted
from sightline.cli.approval import Consent, LineAsker, approval_card, consent_to
from sightline.cli.clean import visible
from sightline.cli.commands.console import Line, text_of, width_of
from sightline.events import ApprovalAsked
from sightline.slop.app.app import App
from sightline.slop.hub.hub import Hub
from support.person import Person
from support.terminal_attacks import ATTACKS, FORBIDDEN
from support.vendors.answers import Call, says
from support.vendors.server import Vendor

BAR = "    │ "


def asked(**changes: Any) -> ApprovalAsked:
    given: dict[str, Any] = {
        "call_id": "c1", "app": "desk", "path": "/inbox/msg-104", "action": "reply",
        "params": {"body": "Gladly"}, "dangerous": False, "reason": "mode ask", "name": "Desk",
        "origin": "unix:/run/desk.sock (user 1000)", "type": "message", "label": "Launch",
        "summary": "from Priya", "properties": {"unread": True}, "about": "Answers it",
    }  # fmt: skip
    return ApprovalAsked(**{**given, **changes})


def shown(lines: list[Line]) -> str:
    return "\n".join(text_of(line) for line in lines)


def test_a_card_shows_all_that_a_person_decides_by() -> None:
    event = asked(dangerous=True, changes=("Desk: /inbox unread 2 -> 1",))
    assert shown(approval_card(event, 80)).splitlines() == [
        "? reply on desk/inbox/msg-104",
        "  the app calls it dangerous",
        "  app: Desk, from unix:/run/desk.sock (user 1000)",
        '  node: "Launch", message: from Priya',
        '  it shows: {"unread":true}',
        "  the app says of the action: Answers it",
        '  body: "Gladly"',
        "  asked because: mode ask",
        "  changed since the model looked:",
        "    · Desk: /inbox unread 2 -> 1",
    ]  # fmt: skip


def test_approval_card_names_a_tool_of_the_host_without_an_app() -> None:
    event = asked(
        app="", path="/", action="query_db", params={"sql": "SELECT 1"}, origin="", type="",
        label="", summary="", properties={}, about="", name="", reason="the model made it 5 times",
    )  # fmt: skip
    assert shown(approval_card(event, 80)).splitlines() == [
        "? query_db", '  sql: "SELECT 1"', "  asked because: the model made it 5 times",
    ]  # fmt: skip


def test_a_card_says_nothing_twice() -> None:
    why = "the app calls it dangerous"
    ours = asked(dangerous=True, reason=why, origin="our own", properties={"label": "Launch"})
    text = shown(approval_card(ours, 80))
    assert text.count(why) == 1
    assert "app: Desk, our own" in text
    assert "it shows" not in text
    assert 'it shows: {"label":"Launch"}' in shown(approval_card(ours, 80, whole=True))
    assert f"asked because: {why}" in shown(approval_card(asked(reason=why), 80))


def test_a_card_shows_what_an_edit_does_and_folds_what_is_long() -> None:
    diff = (
        "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n-\tsay('hi \u200b')\n+\tsay('ho \u200b')\n -- \n"
    )
    card = approval_card(asked(params={"old": "hi", "new": "ho"}, diff=diff), 80)
    text = shown(card)
    assert f"{BAR}-⇥   say('hi ⟨U+200B⟩')\n{BAR}+⇥   say('ho ⟨U+200B⟩')\n{BAR} -- " in text
    assert 'old: "hi"' not in text
    marked = {piece for line in card for piece in line if piece[0].endswith(".word")}
    assert marked == {("diff.old.word", "hi"), ("diff.new.word", "ho")}
    long = asked(diff="--- a/x\n+++ b/x\n@@ -0,0 +1,99 @@\n" + "+line\n" * 99, params={"new": "l"})
    assert "… 62 more lines of the diff, [v] shows all" in shown(approval_card(long, 80))
    wide = asked(diff="--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+" + "x" * 9_999 + "\n")
    assert "… 9,400 more characters of the line, [v] shows all" in shown(approval_card(wide, 80))
    whole = shown(approval_card(long, 80, whole=True))
    assert whole.count("+line") == 99
    assert 'new: "l"' in whole


def test_a_card_says_in_which_context_the_node_stands() -> None:
    lines = shown(approval_card(asked(context={"user": "ana", "org": "acme"}), 80)).splitlines()
    assert '  in the context of: {"user":"ana","org":"acme"}' in lines


def test_a_card_says_what_is_not_known() -> None:
    text = shown(approval_card(asked(origin="", type="", params={}), 80))
    assert "from nobody knows where: it is not connected" in text
    assert "node: the app does not show it" in text
    assert "without parameters" in text


def test_a_card_shows_what_changed_since_the_question() -> None:
    text = shown(approval_card(asked(differences=('its "label": "a" → "b"',)), 80))
    assert '  it has changed since you were asked:\n    · its "label": "a" → "b"' in text


def test_what_is_too_long_is_counted_and_the_whole_card_has_it() -> None:
    command = "echo " + "x" * 5000 + "; rm -rf ~"
    event = asked(params={"command": command, **{f"p{n}": n for n in range(20)}})
    text = shown(approval_card(event, 80))
    assert "… 4,417 more characters, [v] shows all" in text
    assert "… 9 more parameters, [v] shows all" in text
    assert "rm -rf" not in text
    whole = shown(approval_card(event, 80, whole=True))
    assert f'command: "{command}"' in whole.replace(f"\n{BAR}", "")
    assert "more" not in whole
    assert "p19: 19" in whole


def test_what_has_too_many_lines_is_counted() -> None:
    event = asked(params={"command": "\n" * 30 + "rm"}, changes=tuple("abcdefghijklmnopq"))
    text = shown(approval_card(event, 80))
    assert "… 22 more characters, [v] shows all" in text
    assert "… 5 more, [v] shows all" in text


def test_no_text_can_pretend_to_be_another_line() -> None:
    forged = "ls\n  asked because: you said so\n? read on notes"
    card = approval_card(asked(params={"command": forged}, reason="mode ask"), 200)
    lines = [text_of(line) for line in card]
    assert '  command: "ls⏎' in lines
    assert f"{BAR}  asked because: you said so⏎" in lines
    assert f'{BAR}? read on notes"' in lines
    assert sum(line.startswith("?") for line in lines) == 1


INVISIBLE = {
    "zero width": "\u200b", "joiner": "\u200d", "bidi": "\u202e", "BOM": "\ufeff",
    "soft hyphen": "\xad", "isolate": "\u2066", "no-break": "\xa0", "em space": "\u2003",
    "ideographic": "\u3000",
    "braille blank": "\u2800", "hangul filler": "\u3164", "ESC": "\x1b", "CR": "\r", "NUL": "\x00",
    "C1": "\x9b", "DEL": "\x7f", "tab": "\t", "line": "\u2028", "tag": "\U000e0041",
    "selector": "\ufe0f", "grapheme joiner": "\u034f", "our own sign": "⏎", "our bracket": "⟨",
}  # fmt: skip


@pytest.mark.parametrize("char", INVISIBLE.values(), ids=INVISIBLE)
def test_a_character_that_cannot_be_seen_is_named(char: str) -> None:
    text = shown(approval_card(asked(params={"command": f"ls{char}-l"}), 80))
    assert f'command: "ls⟨U+{ord(char):04X}⟩-l"' in text


ALIKE = {
    "Cyrillic": ("rm \u0441ache", "rm ⟨U+0441⟩ache"), "Greek": ("l\u03bfg", "l⟨U+03BF⟩g"),
    "accent": ("e\u0301", "e⟨U+0301⟩"), "semicolon": ("a\u037e b", "a⟨U+037E⟩ b"),
    "slash": ("a\u2215b", "a⟨U+2215⟩b"), "one script": ("привет, δέλτα", "привет, δέλτα"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "seen"), ALIKE.values(), ids=ALIKE)
def test_a_character_that_is_taken_for_another_is_a_number(text: str, seen: str) -> None:
    assert visible(text) == seen


def test_a_card_tells_of_letters_that_run_the_other_way() -> None:
    turned = "some letters run from right to left"
    assert turned in shown(approval_card(asked(params={"command": "rm \u05d0/1 2"}), 80))
    assert turned not in shown(approval_card(asked(params={"command": "rm a/1 2"}), 80))


@given(st.text(), st.text())
def test_no_two_texts_look_the_same(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) is (one == other)
    assert not FORBIDDEN.intersection(visible(one))


@given(st.text(), st.integers(20, 200))
def test_a_whole_card_loses_no_character_and_keeps_to_its_width(text: str, width: int) -> None:
    lines = [text_of(line) for line in approval_card(asked(params={"x": text}), width, whole=True)]
    start = next(place for place, line in enumerate(lines) if line.startswith("  x: "))
    end = next(place for place, line in enumerate(lines) if line.startswith("  asked because: "))
    body = lines[start].removeprefix("  x: ") + "".join(
        line.removeprefix(BAR) for line in lines[start + 1 : end]
    )
    assert body == visible(f'"{text}"')
    assert all(width_of(line) <= width for line in lines[start:end])


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_card_lets_an_attack_through(attack: str) -> None:
    valid = attack.encode("utf-8", "replace").decode()  # events are UTF-8
    event = asked(
        app=valid, path=valid, action=valid, params={valid: [valid], "x": valid}, reason=valid,
        name=valid, origin=valid, type=valid, label=valid, summary=valid, about=valid,
        properties={valid: valid}, changes=(valid,), differences=(valid,), rules=(valid,),
    )  # fmt: skip
    for whole in (False, True):
        assert not FORBIDDEN.intersection(shown(approval_card(event, 40, whole=whole)))


class Answers:
    """Somebody who has answers ready, and a paper to read."""

    def __init__(self, tmp_path: Path, *answers: str) -> None:
        self.left = list(answers)
        self.file = tmp_path / "paper"

    async def gives(self, event: ApprovalAsked, hub: Hub | None = None) -> Consent:
        async def ask(_: str) -> str:
            return self.left.pop(0)

        with self.file.open("w", encoding="utf-8") as paper:
            return await consent_to(event, LineAsker(paper, ask, width=80), hub)

    @property
    def read(self) -> str:
        return self.file.read_text("utf-8")


@pytest.mark.parametrize(("dangerous", "seen"), [(False, True), (True, False)])
async def test_who_views_all_sees_the_content_of_the_node(
    tmp_path: Path, dangerous: bool, seen: bool
) -> None:
    app = App("desk", "Desk", coalesce_s=0)
    app.register("note", {"content_ref": {"type": "text", "mime": "text/plain", "summary": "s"}})
    read: list[int] = []

    @app.action("note", "read_content", dangerous=dangerous)
    def read_content(offset: int) -> dict[str, Any]:
        read.append(offset)
        return {"content": "Dear\nAda\u202e", "encoding": "utf-8", "size": 9}

    somebody = Answers(tmp_path, "v", "n")
    async with hosted(tmp_path, app=app, app_id="desk") as (host, _):
        await somebody.gives(asked(path="/note"), host.hub)
    assert bool(read) is seen
    assert ("its content: Dear⏎\n    │ Ada⟨U+202E⟩\n" in somebody.read) is seen


RULES = ("approve reply on /inbox/msg-104 of desk", "approve reply on /inbox/* of desk")


@pytest.mark.parametrize(
    ("answers", "given"),
    [
        (["y"], Consent(True)),
        (["n"], Consent(False)),
        ([""], Consent(False)),
        (["sure", "yes"], Consent(True)),
        (["a", "2"], Consent(True, 2)),
        (["a", "3", "1"], Consent(True, 1)),
        (["a", "n", "n"], Consent(False)),
        (["a", "y", "n", "y"], Consent(True)),  # a yes to no rule in particular is no rule
        (["v", "n"], Consent(False)),
    ],
)
async def test_what_is_answered(tmp_path: Path, answers: list[str], given: Consent) -> None:
    somebody = Answers(tmp_path, *answers)
    assert await somebody.gives(asked(rules=RULES)) == given
    assert somebody.left == []
    if "a" in answers:
        assert f"  1 {RULES[0]}\n  2 {RULES[1]}\n" in somebody.read
    if "v" in answers:
        assert "? reply on desk/inbox/msg-104" in somebody.read


async def test_what_no_rule_can_stand_for_is_not_always(tmp_path: Path) -> None:
    somebody = Answers(tmp_path, "always", "y")
    assert await somebody.gives(asked(rules=())) == Consent(True)
    assert "no rule can stand for this" in somebody.read


def test_ask_cuts_nothing_that_is_approved(tmp_path: Path) -> None:
    """The real program at a real terminal: what was cut is counted, seen with v, and not run."""
    command = f"true {'a' * 1000}; touch {tmp_path}/hidden"
    call = Call("slop_invoke", {"app": "workspace", "path": "/", "action": "run",
                                "params": {"command": command}})  # fmt: skip
    with Vendor(says("", call), says("As you like.")) as vendor:
        person = Person(tmp_path, vendor, "ask", "go", size=(50, 200))
        person.sees("? run on workspace")
        person.sees(", our own")
        person.sees("more characters, [v] shows all")
        person.sees("do it?")
        assert "hidden" not in person.seen
        person.types("v\r")
        person.sees("/hidden")
        person.sees("do it?")
        person.types("n\r")
        person.sees("As you like.")
        assert person.ends() == 0
    assert not (tmp_path / "hidden").exists()


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_what_was_typed_before_the_question_does_not_answer_it(
    tmp_path: Path, terminal: str
) -> None:
    call = Call("slop_invoke", {"app": "workspace", "path": "/", "action": "run",
                                "params": {"command": f"touch {tmp_path}/done"}})  # fmt: skip
    words = ["ask", "go"] if terminal == "xterm" else ["chat"]
    with Vendor(says("", call), says("As you like.")) as vendor:
        person = Person(tmp_path, vendor, *words, size=(50, 200), TERM=terminal)
        if terminal == "dumb":
            person.sees("> ")
        # In one go with what is asked: typed after it, the answer may come after the question.
        person.types("y\r" if terminal == "xterm" else "go\ry\r")
        person.sees("do it?")
        person.types("n\r")
        person.sees("As you like.")
        if terminal == "dumb":
            person.types("\x04")
        assert person.ends() == 0
    assert not (tmp_path / "done").exists()
