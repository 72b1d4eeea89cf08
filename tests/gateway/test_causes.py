"""The table of causes: each example reaches its own row, and docs/causes.md adds a row."""

from __future__ import annotations

import ast
import functools
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.faults import Case, session
from benchmarks.gateway import judge

from sightline.context.dialects.drift import CAUSES
from sightline.gateway import authors, causes
from sightline.gateway.authors import TESTS, find_row
from sightline.gateway.causes import ROWS, Row, rows

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "causes.md").read_text("utf-8")
CHANGE = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")
LOCATIONS = {"instructions", "message", "reminder", "model", "result", "part", "summary"}


def texts_of(example: str) -> tuple[str, str]:
    """Return the text before and after a change. A text without a change is new."""
    return CHANGE.sub(r"\1", example) if CHANGE.search(example) else "", CHANGE.sub(r"\2", example)


def label_of(row: Row | None) -> str:
    return f"{row.cause or 'no cause'} ({row.test} {row.pattern[:60]})" if row else "no row"


def problems_of(row: Row, table: Sequence[Row]) -> list[str]:
    """Return one sentence for each fault of a row."""
    if row.cause and row.cause not in CAUSES:
        return [f"The cause {row.cause!r} has no words in CAUSES."]
    if not row.locations or set(row.locations) - LOCATIONS or row.test not in TESTS:
        return [f"{row.test!r} or {row.locations} is unknown: see the tables in causes.py."]
    found = []
    for location in row.locations:
        for example in row.fits:
            reached = find_row(location, *texts_of(example), rows=table)
            if reached is not row:
                found.append(f"{example!r} in {location} reaches {label_of(reached)}.")
        if find_row(location, *texts_of(row.unlike), rows=table) is row:
            found.append(f"{row.unlike!r} in {location} must not reach this row.")
    return found


@pytest.mark.parametrize("row", ROWS, ids=label_of)
def test_examples_of_a_row_reach_it_in_each_place(row: Row) -> None:
    assert problems_of(row, ROWS) == []


@pytest.mark.parametrize("text", [causes.__doc__ or "", PAGE], ids=["module", "page"])
def test_every_test_and_place_of_the_table_is_described(text: str) -> None:
    first_columns = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(first_columns))) == {*TESTS, *LOCATIONS}
    assert {row.test for row in ROWS} == set(TESTS)
    assert {location for row in ROWS for location in row.locations} == LOCATIONS


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (("mood", "line", "message", ("a", "{a|b}", "{a|c}", "{d|e}")), "has no words"),
        (("date", "lines", "message", ("a", "{a|b}", "{a|c}", "{d|e}")), "is unknown"),
        (("date", "line", "messages", ("a", "{a|b}", "{a|c}", "{d|e}")), "is unknown"),
        (("date", "line", "", ("a", "{a|b}", "{a|c}", "{d|e}")), "is unknown"),
        (("date", "line", "message", ("a", "{a|b}", "{f|c}", "{d|e}")), "reaches no row"),
        (("date", "line", "message", ("a", "{a|b}", "{a|c}", "{d|a}")), "must not reach"),
        (("date", "line", "message", ("a", "{a|b}", "{9:14|9:15} a", "{d|e}")), "reaches date"),
    ],
)
def test_a_faulty_row_is_reported(row: tuple[str, str, str, Any], problem: str) -> None:
    [added] = rows(*row)
    [found] = problems_of(added, (*ROWS, added))
    assert problem in found


def test_first_row_that_fits_names_the_cause() -> None:
    one, other = (
        next(rows(cause, "line", "result", ("a", "{a|b}", "{a|c}", "b"))) for cause in "xy"
    )
    assert find_row("result", "a", "b", rows=(one, other)) is one
    assert find_row("result", "a", "b", rows=(other, one)) is other
    assert find_row("message", "a", "b", rows=(one, other)) is None
    assert find_row("result", "c", "d", rows=(one, other)) is None


@pytest.mark.parametrize(
    ("location", "old", "new", "cause"),
    [
        # Two values of different forms in one line, and a number that changed with them.
        (
            "instructions",
            "On Sunday, 2026-11-15 (12 files)",
            "On Monday, 2026-11-16 (14 files)",
            "date",
        ),
        ("instructions", "On Sunday we rest.", "On Monday we work.", ""),
        # A counter below the heading of the environment, and in a file of instructions.
        ("instructions", "# Environment\n- Turn 3", "# Environment\n- Turn 4", "random"),
        ("instructions", "# From AGENTS.md\n- Turn 3", "# From AGENTS.md\n- Turn 4", "memory"),
        ("message", "# Environment\n- Turn 3", "# Environment\n- Turn 4", "environment"),
        # An id in a reminder is the reminder's. A date is a date.
        ("reminder", "Reminder:\nnonce: a1", "Reminder:\nnonce: b2", "reminder"),
        ("reminder", "Reminder:\nat 9:14", "Reminder:\nat 9:15", "date"),
        # A label with one word, and a label with more words.
        ("message", "session: one", "session: two", "random"),
        ("message", "session: one two", "session: two one", ""),
        ("instructions", "", "session: 3f9a1b2c4d5e", ""),
        ("instructions", "", "today: 2026-11-15", "date"),
        ("instructions", "", "today: rest", ""),
        # A tag of instructions that a later tag closes.
        ("message", "<rules>\nA\n</rules>\nB", "<rules>\nA\n</rules>\nC", ""),
        (
            "message",
            "See AGENTS.md:\n<x-file>\n</x-file>\nB",
            "See AGENTS.md:\n<x-file>\n</x-file>\nC",
            "",
        ),
        # A missing part, and the text that replaces it.
        ("result", "one two three four five", "one two [cut] five", "result_cut"),
        ("result", "one two three four", "one two 3 four", ""),
        ("result", "[41 files were removed]", "[42 files were removed]", ""),
        ("summary", "", "Write a summary.", ""),
    ],
)
def test_table_names_the_cause_of_mixed_changes(
    location: str, old: str, new: str, cause: str
) -> None:
    row = find_row(location, old, new)
    assert (row.cause if row else "") == cause


def test_worked_example_of_the_page_adds_a_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    [group] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    [words] = re.findall(r'^```text\n("mode": .*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    [below] = re.findall(r"above the comment\s+`(.*?)`", PAGE)
    before, now = (
        {**session(random.Random(1), "anthropic", 2)[3], "system": f"You work.\n\n{line}"}
        for line in texts_of(re.findall(r"`(Permission mode: \{.*?)`", PAGE)[0])
    )

    def cause_and_words(table: Sequence[Row]) -> tuple[str, str]:
        monkeypatch.setattr(authors, "find_row", functools.partial(find_row, rows=table))
        loss = judge(Case("anthropic", before, now, "mode"))
        assert loss is not None
        return loss.cause, loss.words

    # A reader may have followed the page already.
    plain = [row for row in ROWS if row.cause != "mode"]
    monkeypatch.delitem(CAUSES, "mode", raising=False)
    assert cause_and_words(plain) == ("instructions", "the instructions were reworded")

    above, comment, _ = Path(causes.__file__).read_text("utf-8").partition(f"    {below}\n")
    assert comment
    names: dict[str, Any] = {"__name__": causes.__name__}
    exec(f"{above})\nadded = tuple(({group}))", names)  # noqa: S102 - code of our own page
    [added] = names["added"]
    count = sum(row.cause != "mode" for row in names["ROWS"])
    table = [*plain[:count], added, *plain[count:]]
    assert problems_of(added, table) == ["The cause 'mode' has no words in CAUSES."]
    for cause, said in ast.literal_eval("{" + words + "}").items():
        monkeypatch.setitem(CAUSES, cause, said)
    assert [problem for row in table for problem in problems_of(row, table)] == []
    assert cause_and_words(table) == ("mode", "the agent's mode was switched")


def test_page_names_files_that_exist() -> None:
    paths = re.findall(r"(?:tests|src)/[\w/.]+\.py", PAGE)
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    assert len(paths) >= 4
