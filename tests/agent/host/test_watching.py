"""Everybody who watches gets what happens; one that is too slow is told what it missed."""

from __future__ import annotations

from sightline.agent.host.watching import Line, Watching
from sightline.events import HostEvent, Noticed, TextDelta


def text(number: int) -> TextDelta:
    return TextDelta(text=str(number))


async def read(line: Line) -> list[HostEvent]:
    return [event async for event in line]


async def test_all_lines_get_everything_in_order() -> None:
    watching = Watching()
    lines = [watching.open(), watching.open(limit=0)]
    for number in range(3):
        watching.tell(text(number))
    watching.close()
    for line in lines:
        assert await read(line) == [text(0), text(1), text(2)]


async def test_what_is_noticed_before_anybody_reads_is_for_the_first_who_does() -> None:
    watching, early = Watching(), Noticed(code="not_connected", message="mail")
    watching.tell(early)
    watching.tell(text(0))
    lines = [watching.open(), watching.open()]
    watching.close()
    assert [await read(line) for line in lines] == [[early], []]


async def test_a_slow_reader_loses_the_oldest_and_is_told() -> None:
    line = Line(limit=2)
    for number in range(5):
        line.put(text(number))
    line.close()
    line.put(text(9))
    lost, *rest = await read(line)
    assert isinstance(lost, Noticed)
    assert "3 events" in lost.message
    assert rest == [text(3), text(4)]


async def test_who_left_gets_nothing_more() -> None:
    watching = Watching()
    line = watching.open()
    watching.leave(line)
    watching.leave(line)
    watching.tell(text(1))
    assert await read(line) == []
