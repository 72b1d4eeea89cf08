"""The report and every quoted figure come from the committed results, and from nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from benchmarks.harness import Row
from benchmarks.plot import Bar, Series, draw_bars, draw_growth, draw_lines, svg
from benchmarks.results import MODULES, Part, load

from benchmarks import quotes, report

PARTS = load()
README = (report.ROOT / "README.md").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"
TIMES = "\N{MULTIPLICATION SIGN}"
RUN = {
    "date": "2026-11-15 12:00", "commit": "abc1234", "python": "CPython 3.11.7",
    "system": "Linux x86_64", "cores": 2, "load": 0.1, "seconds": 3, "quick": False,
}  # fmt: skip
# Figures with a unit that were not measured: each with what it is.
NOT_MEASURED = {
    "98 MB": "the size of a file that somebody else made",
    "277 MB": "the size of packages, most of them somebody else's",
}


def part(*rows: Row) -> Part:
    return Part(RUN, rows)


def test_the_committed_report_and_its_pictures_are_what_the_results_say() -> None:
    for path, text in report.files(PARTS).items():
        assert path.read_text(encoding="utf-8") == text, "run: python -m benchmarks.report"
    made = {path.name for path in report.files(PARTS) if path.suffix == ".svg"}
    assert {path.name for path in (report.HERE / "plots").iterdir()} == made


def test_every_quoted_figure_is_the_measured_one() -> None:
    for path, text in report.documents(PARTS).items():
        assert path.read_text(encoding="utf-8") == text, "run: python -m benchmarks.report"


def test_the_committed_results_have_every_module_at_full_size() -> None:
    assert tuple(PARTS) == MODULES
    assert not any(part.run["quick"] for part in PARTS.values())


def unmarked(text: str) -> list[str]:
    """Figures with a unit, outside of code, that do not say where they come from."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = quotes.QUOTED.sub("", quotes.TABLE.sub("", text))
    unit = rf"(?:{TIMES}|%|µs|ms|s|kB|MB|GB|MB/s|times|tokens|prompt tokens|seconds)"
    return re.findall(rf"\d[\d,.]*\d? ?{unit}(?!\w)", text)


def test_the_readme_quotes_no_figure_without_saying_which() -> None:
    assert sorted(unmarked(README)) == sorted(NOT_MEASURED)
    assert len(quotes.QUOTED.findall(README)) + len(quotes.TABLE.findall(README)) >= 3


@pytest.mark.parametrize(
    "text", ["costs 80.3 µs", "26,336 times less", f"is 18{TIMES} faster", "| 7,215 tokens |"]
)
def test_an_unmarked_figure_is_found(text: str) -> None:
    assert unmarked(f"{text} and `x`\n```sh\nsleep 5 s\n```\n")
    assert not unmarked("five of them in 2026, 3.11 or newer\n```sh\nsleep 5 s\n```\n")


@pytest.mark.parametrize(
    ("mark", "figure"),
    [
        ("trees/x/ours", "80.3 µs"),
        ("trees/x/ours to 1 digit", "80 µs"),
        ("trees/x/peer", "2.12 s"),
        ("trees/x/ratio", f"26,336{TIMES}"),
        ("trees/x/ratio to 2 digits", "26,000"),
        ("trees/x/size", "100,000"),
        ("trees/x/pace", "98.6"),
        ("trees/x/share in percent", "77 %"),
    ],
)
def test_a_quoted_figure_is_written_anew(mark: str, figure: str) -> None:
    more = {"pace": 98.6142, "share": 0.771}
    row = Row("x", "work", 100_000, 8.0317e-05, 8.0317e-05 * 26_336.2, more=more)
    text = "It is {}<!-- bench: " + mark + " -->, (so) it is said."
    found = quotes.renewed(text.format("9.99 ms"), {"trees": part(row)})
    assert found == text.format(figure)
    assert quotes.renewed(found, {"trees": part(row)}) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("5 s<!-- bench: trees/y/ours -->", "trees/y/ours: there is no 'y'"),
        ("5 s<!-- bench: birds/x/ours -->", "birds/x/ours: there is no 'birds'"),
        ("5 s<!-- bench: trees/x/colour -->", "trees/x/colour: there is no 'colour'"),
        ("5 s<!-- bench: trees/x/peer -->", "trees/x/peer: the peer was not run"),
        ("5 s<!-- bench: trees/x/ours in red -->", "no way to write a figure: 'in red'"),
        ("soon<!-- bench: trees/x/ours -->", "1 marks of figures stand behind no figure"),
        ("<!-- bench: table y -->\n<!-- bench: end -->", "there is no table 'y'"),
    ],
)
def test_a_quote_of_what_was_not_measured_is_refused(text: str, why: str) -> None:
    with pytest.raises(quotes.UnknownFigure, match=re.escape(why)):
        quotes.renewed(text, {"trees": part(Row("x", "work", 1, 1.0))})


def test_a_quoted_table_keeps_its_place_in_a_list() -> None:
    more = {"reused": 28_853, "peer_prompt": 36_128, "peer_reused": 14_686}
    row = Row("all", "all", 36_068, 7_215, 21_442, unit="tokens", more=more)
    text = "- so:\n\n  <!-- bench: table local -->\n  old\n  <!-- bench: end -->\n- next"
    assert quotes.renewed(text, {"local": part(row)}).splitlines()[2:7] == [
        "  <!-- bench: table local -->",
        "  | state block | prompt tokens | evaluated | reused |",
        "  | --- | ---: | ---: | ---: |",
        "  | as a tail | 36,068 | 7,215 | 28,853 |",
        "  | before the history | 36,128 | 21,442 | 14,686 |",
    ]


def test_the_report_says_which_bars_are_missed_and_under_which_circumstances() -> None:
    met = Row("met", "a walk", 10, 0.001, 0.1, bar=100)
    missed = replace(met, slug="missed", work="a run", peer=0.05)
    unseen = replace(met, slug="unseen", work="a swim", peer=None)
    made = report.files({"startup": part(met, missed, unseen)})
    text = made[report.HERE / "REPORT.md"]
    assert "**3 bars, 1 met.**\nMissed: a run (startup).\nMissed: a swim (startup).\n" in text
    assert (
        "2026-11-15 12:00 UTC at abc1234, 3 s, CPython 3.11.7, Linux x86_64, 2 cores, load 0.1"
        in text
    )


def test_a_line_of_slope_one_lies_on_its_dashes() -> None:
    line = Series("linear & steady", ((10, 0.001), (100, 0.01), (1000, 0.1)))
    [axes] = draw_growth("work", "size", [line]).axes
    drawn, dashed = axes.lines
    assert (dashed.get_linestyle(), axes.get_xscale(), axes.get_yscale()) == ("--", "log", "log")
    first, _, last = np.asarray(drawn.get_xydata())
    assert np.allclose(np.asarray(dashed.get_xydata()), [first, last])


def test_lines_that_follow_each_other_have_even_axes_from_zero() -> None:
    line = Series("evaluated", ((1, 1000), (2, 320), (20, 1830)))
    figure = draw_lines("work", "turn", [line], "tokens")
    [axes] = figure.axes
    assert (axes.get_xlim()[0], axes.get_ylim()[0], axes.get_xscale()) == (0, 0, "linear")
    assert {"0", "18", "500", "1,830 tokens"} <= written_in(svg(figure))


def test_a_bar_is_as_long_as_its_figure() -> None:
    figure = draw_bars("work", [Bar("a", 200, "200"), Bar("b", 50, "50", peer=True)])
    [axes] = figure.axes
    long, short = axes.patches
    lengths = [bar.get_window_extent().width for bar in (long, short)]
    assert lengths[0] == pytest.approx(4 * lengths[1])
    assert long.get_facecolor() != short.get_facecolor()
    assert {"work", "a", "b", "200", "50"} <= written_in(svg(figure))


def test_a_picture_has_the_same_bytes_whenever_it_is_drawn() -> None:
    def drawn() -> str:
        return svg(draw_bars("work", [Bar("a", 200, "200")]))

    assert drawn() == drawn()
    assert "<dc:date>" not in drawn()


def written_in(text: str) -> set[str | None]:
    root = ElementTree.fromstring(text)  # noqa: S314 - made by us
    return {found.text for found in root.iter(f"{SVG}text")}


def test_the_results_say_when_and_with_what_but_not_on_whose_machine() -> None:
    for part in PARTS.values():
        assert set(part.run) == {*RUN, "msgspec"}
