"""The report of a session as a page: all of it there, no word of a stranger's is markup."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from sightline.context.dialects.drift import CAUSES, Loss
from sightline.context.dialects.events import Usage
from sightline.gateway.observer import Passed
from sightline.gateway.report import report_page

HOSTILE = "</pre></title><script>alert(1)</script>'\"&\x00\x1b[31m\u202e\u2066"
_WORDS = st.text(min_size=1, max_size=20) | st.just(HOSTILE)


class Tags(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(f"{tag} {' '.join(sorted(name for name, _ in attrs))}")

    def handle_data(self, data: str) -> None:
        self.text += data


def page(words: str, cause: str = "edited", cost: float | None = 0.5) -> Tags:
    loss = Loss(cause, 15_000, cost, words, words, f"was {words}", f"now {words}")
    usage = Usage(20_000, 9, 5_000, 14_000)
    passed = [
        Passed("", "anthropic", words, 200, 1, 1, 1, usage, cost),
        Passed("", "anthropic", words, 200, 1, 1, 1, usage, cost, loss),
        Passed("", "anthropic", "m", 429, 1, 1, 1, error=words),
    ]
    sent = [(f"2026-11-16T08:0{at}:00.000Z", one) for at, one in enumerate(passed)]
    return Tags("".join(report_page(words, words, sent)))


def test_a_page_says_what_was_sent_what_was_lost_and_what_to_do() -> None:
    for cause, (words, advice) in CAUSES.items():
        told = page("m-1", cause).text
        assert words in told
        assert advice in told
    shown = page("m-1").text
    for said in ("3 requests, 1 failed", "What cost most", "15,000 tokens, $0.50", "5,000 reused",
                 "2026-11-16 08:01:00", "was m-1", "now m-1"):  # fmt: skip
        assert said in shown
    assert "unknown" in page("m-1", cost=None).text


@given(words=_WORDS)
def test_no_word_of_a_stranger_s_is_markup(words: str) -> None:
    hostile, plain = page(words), page("plain")
    assert [tag for tag in hostile.tags if tag != "bdi "] == plain.tags
    assert "script " not in hostile.tags
    assert all(c.isprintable() or c == "\n" for c in hostile.text)
