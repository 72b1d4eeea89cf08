"""Laws of window, truncation, state and redaction."""

from __future__ import annotations

import re
from itertools import pairwise

import apsw.unicode
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context.messages.entry_values import entry, result_entry
from laws.messages import texts
from sightline.context.ledger.sqlite.process import one_statement
from sightline.context.messages.gate import check_text, storable
from sightline.context.messages.memos import content_stems, keywords, normal_tags
from sightline.context.messages.parts import Entry, Message, Raw, Text
from sightline.context.messages.redact import redact
from sightline.context.messages.replay import Tiers, hint_for, truncate
from sightline.context.messages.state import HEADING, extract_state, strip_state, strip_states
from sightline.context.messages.window import TokenWindow, Window
from sightline.errors import QueryRefused


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(0, 20), st.integers(0, 300))
def test_a_window_moves_its_start_only_at_fold_points(size: int, slack: int, total: int) -> None:
    window = Window(size, slack)
    starts = [n - window.shown(n) for n in range(total + 1)]
    assert starts == sorted(starts)
    moved = [n for n in range(1, total + 1) if starts[n] != starts[n - 1]]
    assert all(later - earlier == slack + 1 for earlier, later in pairwise(moved))
    assert all(min(n, size) <= window.shown(n) <= size + slack for n in range(total + 1))


@settings(deadline=None)
@given(st.integers(1, 1000), st.floats(0, 1), st.integers(0, 5000))
def test_a_token_cut_is_enough_and_at_most_one_step_too_much(
    budget: int, step: float, total: int
) -> None:
    left_out = TokenWindow(budget, step).left_out(total)
    assert total - left_out <= budget
    if total > budget:
        assert left_out - (total - budget) < max(1, int(budget * step))
    else:
        assert left_out == 0


@settings(deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 6))
def test_a_settled_result_changes_its_form_once_at_most(
    groups: list[int], batch: int, recent: int
) -> None:
    tiers = Tiers(settle=True, batch=batch, recent=recent)
    history: list[Entry] = []
    seen: dict[int, list[str]] = {}
    for group, count in enumerate(groups):
        for _ in range(count):
            history.append(result_entry(len(history), "0123456789" * 600, group=group))
            for shown in truncate(history, tiers, active_group=group):
                forms = seen.setdefault(shown.id, [])
                form = shown.message.tool_results[0].content
                if not forms or forms[-1] != form:
                    forms.append(form)
    assert all(len(forms) <= 2 for forms in seen.values())


# What this Python knows by name; a later Unicode may join what is still unassigned here.
known_text = st.text(st.characters(exclude_categories=["Cn", "Cs"]), max_size=400)


@settings(deadline=None)
@given(known_text, st.integers(0, 300), st.floats(0, 0.9))
@example("🇩🇪" * 50, 101, 0.5)
@example("e\u0301" * 100, 51, 0.3)
@example("각" * 10 + "\u1100\u1161\u11a8" * 40, 50, 0.25)
@example("क्षि" * 60, 61, 0.25)
def test_a_cut_keeps_to_its_limit_and_to_whole_graphemes(
    text: str, limit: int, share: float
) -> None:
    tiers = Tiers(recent_chars=limit, tail_share=share)
    (shown,) = truncate([result_entry(0, text)], tiers)
    content = shown.message.tool_results[0].content
    if len(text) <= limit:
        assert content == text
        return
    kept = content.removesuffix(hint_for(100))
    head, _, tail = kept.partition("\n[…]\n") if "\n[…]\n" in kept else (kept, "", "")
    assert len(kept) <= limit
    boundaries = [0]
    while boundaries[-1] < len(text):
        boundaries.append(apsw.unicode.grapheme_next_break(text, boundaries[-1]))
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) in boundaries
    assert len(text) - len(tail) in boundaries


@settings(deadline=None)
@given(texts, texts)
def test_a_state_that_is_written_is_found_and_taken_out(before: str, block: str) -> None:
    block = re.sub(r"(?m)^[ #`~]+", "", block).strip()
    before = re.sub(r"[`~]", "", before).rstrip()
    text = f"{before}\n{HEADING}\n{block}"
    assert extract_state(text) == f"{HEADING}\n{block}".strip()
    assert strip_state(text) == before


# Lines that a block begins at, ends at, or goes on over, and some that only look like it.
state_lines = st.sampled_from(
    [HEADING, f"{HEADING}\r", f"{HEADING} ", f" {HEADING}", f"{HEADING}:", "### State : ",
     f"    {HEADING}", f"{HEADING} x", f"{HEADING}\u2028", "## Next", "#", "###", "##\u2028",
     "#### Detail", "```", "````", "~~~", "```not a fence```", "", " ", "\r", "Goal: x", "b \t"]
)  # fmt: skip
state_texts = st.lists(st.lists(state_lines, max_size=6).map("\n".join), min_size=1, max_size=4)


def written(text: str) -> list[str]:
    """The lines that are not blank, without their ends."""
    return [line.rstrip("\r") for line in text.split("\n") if line.strip()]


def outside_states(text: str) -> list[str]:
    """The lines in no state block, told line by line."""
    outside: list[str] = []
    fence, inside = "", False
    lines = written(text)
    for at, line in enumerate(lines):
        mark = line if line in ("```", "````", "~~~") else ""
        if not fence and re.match(r" {0,3}#{1,3}( |$)", line):
            inside = line.lower().replace(" ", "").rstrip(":") == "###state"
        if not inside:
            outside.append(line)
        if fence:
            fence = "" if mark.startswith(fence) else fence
        elif mark and any(
            later.startswith(mark) for later in lines[at + 1 :] if set(later) <= set(mark)
        ):
            fence = mark
    return outside


@settings(deadline=None)
@given(state_texts)
@example(["### STATE\nGoal: x", "```\n## Next", "```\n## Last"])
@example(["a", "### STATE", "## Next\n### STATE\nGoal: x"])
def test_no_state_stays_and_nothing_else_goes_however_a_reply_is_divided(texts: list[str]) -> None:
    raw = Raw("openai_responses", {"phase": "commentary"})
    message = Message("assistant", tuple(Text(text, raw) for text in texts))
    (shown,) = strip_states([entry(0, message)])
    assert extract_state(shown.message.text) is None
    assert written(shown.message.text) == outside_states(message.text)
    assert written(strip_state(message.text)) == outside_states(message.text)
    assert all(isinstance(part, Text) and part.raw == raw for part in shown.message.parts)
    assert strip_states([shown])[0] is shown


@settings(deadline=None)
@given(st.lists(state_lines | texts, max_size=8).map("\n".join))
def test_a_text_without_its_states_has_none_and_stays_as_it_is(text: str) -> None:
    rest = strip_state(text)
    assert extract_state(rest) is None
    assert strip_state(rest) is rest
    assert (rest is text) == (extract_state(text) is None)


secretish = st.lists(
    st.sampled_from(
        ["sk-ant-", "sk-", "ghp_", "Authorization: Bearer ", "password=", "://a:", "@", "eyJ", ".",
         "a1B2" * 10, " ", '"', "-----BEGIN PRIVATE KEY-----", "[redacted:jwt]", "AKIA"]
    ) | texts,
    max_size=12,
).map("".join)  # fmt: skip


@settings(deadline=None)
@given(secretish)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@settings(deadline=None)
@given(st.text(max_size=100))
def test_a_text_made_storable_is_and_stays_so(text: str) -> None:
    made = storable(text)
    assert check_text(made, "text") == made == storable(made)
    assert len(made) == len(text)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_keywords_are_tags_already(prompt: str) -> None:
    for word in keywords(prompt):
        assert '"' not in word
        assert "\x00" not in word
    assert normal_tags(normal_tags(["a"])) == ("a",)


@settings(deadline=None)
@given(st.text(max_size=200), st.text(max_size=60))
def test_a_text_is_found_by_each_of_its_words(before: str, after: str) -> None:
    found = content_stems(f"{before} {after}")
    assert found.issuperset(keywords(after))


sql = st.lists(
    st.sampled_from(
        ["SELECT ", "1", "'a;b'", '"c--d"', "--x\n", "/*y*/", "/*", ";", "-", "/", "\n"]
    ),
    max_size=12,
).map("".join)


@settings(deadline=None)
@given(sql)
def test_a_bare_statement_stays_as_it_is_and_fits_into_parentheses(text: str) -> None:
    try:
        bare = one_statement(text, 1000)
    except QueryRefused:
        return
    assert one_statement(bare, 1000) == bare
    assert one_statement(f"SELECT * FROM ({bare}) LIMIT 1", 1000).endswith(") LIMIT 1")
