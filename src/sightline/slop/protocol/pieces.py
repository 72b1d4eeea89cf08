"""Large JSON texts opened piece by piece, so that none holds its reader in a single go.

*Theory of operation.* What does work by the piece is a generator: it yields after each
piece, and returns its result. A shell resumes it when everybody else had a turn (`pace`);
`finish` runs it through for who has nothing else to do. The result is the same.

`cut` looks at brackets, quotes and commas only, some kilobytes at a time, before anything
is parsed. It refuses what nests too deep, and makes a large text a `Part`: a container that
is opened into runs of members, each short enough for the native parser, and further parts.
A container that is no longer than a piece is never opened. What `cut` lets pass may still
be no JSON; the parser that reads the runs finds out.

`fields` and `items` open a text by one level, whether it was cut or is short enough to be
opened natively.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from sightline.errors import InvalidJson
from sightline.slop.protocol.jsontext import NO_BRACKET, UP_AND_DOWN, masked, read

# What the native parser may be given in one go: some 10 ms, whatever is in it.
WHOLE_BYTES: Final = 1024 * 1024
# How long a container may be before it is opened, and a run of members before it ends.
PIECE_BYTES: Final = 64 * 1024
# How long a node's own fields may be to be read exactly, with every rule that they break.
GROUP_BYTES: Final = 32 * 1024
# How much of a list is handled in one go by what looks at each value in turn: some 5 ms.
EXACT_BYTES: Final = 8 * 1024
_WINDOW_BYTES: Final = 32 * 1024
# Values that are read into Python objects, at some hundred bytes of memory each.
_VALUES: Final = 250_000
# So many of them are read in some milliseconds.
VALUES_AT_ONCE: Final = 40_000
# Containers also cost the collector of garbage some hundred nanoseconds each, in one go.
_CONTAINERS: Final = 100_000
_NO_VALUE: Final = bytes(set(range(256)) - set(b",[{"))
_NO_VALUE_OR_QUOTE: Final = bytes(set(range(256)) - set(b',[{"'))
_BRACKET: Final = re.compile(rb"[][{}]")
_BRACKETS: Final = (b"[", b"]", b"{", b"}")
_ONE_BRACKET: Final = bytes.maketrans(b"]{}", b"[[[")
_FEW_BRACKETS: Final = 200
_CLOSING: Final = {0x5B: 0x5D, 0x7B: 0x7D}
_OBJECT: Final = 0x7B

_T = TypeVar("_T")
Steps: TypeAlias = Generator[None, None, _T]

_list: Final = msgspec.json.Decoder(list[Raw])
_dict: Final = msgspec.json.Decoder(dict[str, Raw])
_key: Final = msgspec.json.Decoder(str)


class Part:
    """A container that is too long to be parsed in one go: its runs of members, and its parts."""

    __slots__ = ("entries", "is_object")

    def __init__(self, *, is_object: bool) -> None:
        self.is_object = is_object
        # A run is the text of a container of its own; a part has its key, "" in a list.
        self.entries: list[Raw | tuple[str, Part]] = []


# A JSON text, as it came or cut.
Text: TypeAlias = Raw | Part


class _Open:
    """A container whose end was not seen yet."""

    __slots__ = ("after_part", "comma", "kind", "part", "run", "start")

    def __init__(self, kind: int, start: int) -> None:
        self.kind = kind
        self.start = start
        self.run = start + 1
        self.comma = start
        self.part = Part(is_object=kind == _OBJECT)
        self.after_part = False

    def end_run(self, text: bytes, end: int, max_bytes: int, *, closes: bool = False) -> None:
        """Keep the members from the end of the last run to a comma or to the closing bracket."""
        if end - self.run > max_bytes:
            raise InvalidJson("a string or number that is too long", 1, self.run + 1)
        run = text[self.run : end].strip()
        if self.after_part:
            self.after_part = False
            if run and run[:1] != b",":
                raise InvalidJson("expecting ',' delimiter", 1, self.run + 1)
            is_missing = run == b","
            run = run[1:]
        else:
            is_missing = not run and (not closes or bool(self.part.entries))
        if is_missing:
            raise InvalidJson("expecting value", 1, end + 1)
        if run:
            whole = b"{%b}" % run if self.part.is_object else b"[%b]" % run
            self.part.entries.append(Raw(_compact(whole)))
        self.run = end + 1

    def note_comma(self, text: bytes, at: int, comma: int, max_bytes: int) -> None:
        """Note the last comma between members that was seen, if any; end a run that is long."""
        if comma >= 0:
            self.comma = at + comma
            if self.comma - self.run > PIECE_BYTES:
                self.end_run(text, self.comma, max_bytes)

    def add_part(self, text: bytes, part: Part, start: int, end: int, max_bytes: int) -> None:
        """Keep a member that was opened itself."""
        if self.comma >= self.run:
            self.end_run(text, self.comma, max_bytes)
        elif self.after_part:
            raise InvalidJson("expecting ',' delimiter", 1, start + 1)
        head = text[self.comma + 1 : start].strip()
        self.part.entries.append((_name(head, start) if self.part.is_object else "", part))
        if head and not self.part.is_object:
            raise InvalidJson("expecting ',' delimiter", 1, start + 1)
        self.run, self.after_part = end + 1, True


def finish(steps: Steps[_T]) -> _T:
    """Run steps to their end at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: _T = stop.value
            return result


def cut(text: bytes, levels: int, string_bytes: int) -> Steps[Text]:
    """Open a text as far as it is large. Raises InvalidJson where it cannot be JSON."""
    # An escape takes at most six bytes for one.
    max_bytes = 6 * string_bytes + 2 * PIECE_BYTES
    stripped = text.strip()
    if len(stripped) <= PIECE_BYTES:
        return Raw(_compact(stripped))
    stack: list[_Open] = []
    result: Part | None = None
    after = len(text)
    for at, window in masked(text, _WINDOW_BYTES):
        for before, here in _crossing(window, levels - len(stack)):
            if stack:
                stack[-1].note_comma(text, at, window.rfind(b",", before, here), max_bytes)
            kind, position = window[here], at + here
            if kind in _CLOSING:
                stack.append(_Open(kind, position))
                continue
            if not stack or _CLOSING[stack[-1].kind] != kind:
                raise InvalidJson("a bracket that closes nothing", 1, position + 1)
            ended = stack.pop()
            if stack and not ended.part.entries and position - ended.start <= PIECE_BYTES:
                continue
            ended.end_run(text, position, max_bytes, closes=True)
            if stack:
                stack[-1].add_part(text, ended.part, ended.start, position, max_bytes)
            elif result is not None or text[: ended.start].strip():
                raise InvalidJson("expecting value", 1, 1)
            else:
                result, after = ended.part, position + 1
        if stack:
            bare = max(map(window.rfind, _BRACKETS)) + 1
            stack[-1].note_comma(text, at, window.rfind(b",", bare), max_bytes)
        yield
    if text[after:].strip():
        raise InvalidJson("extra data", 1, after + 1)
    if result is None:
        raise InvalidJson("the text ends too early, or holds one value that is too long", 1, 1)
    return result


def _crossing(window: bytes, levels: int) -> Iterator[tuple[int, int]]:
    """Find the brackets that have no partner in a window, each with the end of the one before.

    A container within a window is short, so these are the only ones that matter. Raises
    InvalidJson where the window goes down more than so many levels.
    """
    steps = array("b", window.translate(UP_AND_DOWN, NO_BRACKET))
    if not steps:
        return
    level = list(accumulate(steps))
    if max(level) > levels:
        raise InvalidJson("nested too deep", 1, 1)
    found: list[int] = []
    for closed in range(-1, min(level) - 1, -1):
        found.append(level.index(closed, found[-1] + 1 if found else 0))
    lowest, last = min(0, *level), len(level) - 1
    opened: list[int] = []
    level.reverse()
    start = 0
    for still in range(level[0] - 1, lowest - 1, -1):
        # Before the first bracket the level is 0.
        start = level.index(still, start) if still in level else last + 1
        opened.append(last + 1 - start)
    found += reversed(opened)
    if found:
        positions = _bracket_positions(window, last, found)
        for number in found:
            yield positions[number - 1] + 1 if number else 0, positions[number]


def _bracket_positions(
    window: bytes, last: int, found: list[int]
) -> Mapping[int, int] | Sequence[int]:
    """Find where some brackets of a window are, and the ones before them, by their numbers."""
    wanted = {number - before for number in found for before in (0, 1)}
    early = max((number for number in wanted if number <= last // 2), default=-1)
    late = min((number for number in wanted if number > last // 2), default=last + 1)
    if early + last - late > _FEW_BRACKETS:
        return [match.start() for match in _BRACKET.finditer(window)]
    # Most that cross a window's ends are near them.
    same, positions = window.translate(_ONE_BRACKET), {-1: -1}
    here = -1
    for number in range(early + 1):
        positions[number] = here = same.find(b"[", here + 1)
    here = len(same)
    for number in range(last, late - 1, -1):
        positions[number] = here = same.rfind(b"[", 0, here)
    return positions


def fields(text: Text) -> dict[str, Text]:
    """Open an object by one level; the last of two members with one name counts."""
    if not isinstance(text, Part):
        return dict(_dict.decode(text))
    opened: dict[str, Text] = {}
    for entry in text.entries:
        if isinstance(entry, tuple):
            opened[entry[0]] = entry[1]
        else:
            opened.update(_dict.decode(entry))
    return opened


def items(text: Text) -> Iterator[Text]:
    """Open a list by one level."""
    for entry in text.entries if isinstance(text, Part) else [text]:
        if isinstance(entry, tuple):
            yield entry[1]
        else:
            yield from _list.decode(entry)


def runs(text: Text) -> Iterator[Text]:
    """Open a list as far as it was cut: as lists of its items, one behind the other."""
    if not isinstance(text, Part):
        yield text
        return
    if text.is_object:
        raise msgspec.ValidationError("Expected `array`, got `object`")
    for entry in text.entries:
        if isinstance(entry, tuple):
            alone = Part(is_object=False)
            alone.entries.append(entry)
            yield alone
        else:
            yield entry


def groups(text: Text) -> Iterator[list[Raw] | Text]:
    """Open a list by one level: short items together, a long one alone."""
    group: list[Raw] = []
    length = 0
    for item in items(text):
        if isinstance(item, Part) or len(item) > EXACT_BYTES:
            if group:
                yield group
            group, length = [], 0
            yield item
            continue
        group.append(item)
        length += len(item)
        if length > EXACT_BYTES:
            yield group
            group, length = [], 0
    if group:
        yield group


def size(text: Text) -> int:
    """How many bytes a text has, about."""
    return sum(map(len, _chunks(text))) if isinstance(text, Part) else len(text)


def joined(text: Text) -> Raw:
    """Write a text that was cut as one again."""
    return Raw(b"".join(_chunks(text))) if isinstance(text, Part) else text


def value(text: Text) -> Steps[Any]:
    """Read a text as a Python value. Raises InvalidJson for one that is none, or too many."""
    if not isinstance(text, Part) and len(text) > PIECE_BYTES:
        many = most_values(text)
        if many > VALUES_AT_ONCE:
            text = yield from cut(bytes(text), len(text), len(text))
    return (yield from _value(text, _Room()))


class _Room:
    """How many values and containers may still be read."""

    def __init__(self) -> None:
        self._values, self._containers = _VALUES, _CONTAINERS

    def take(self, text: Raw) -> None:
        """Count those of a text. Raises InvalidJson where there are too many."""
        plain = bytes(text)
        if b"\\" in plain:
            plain = plain.replace(b"\\\\", b"").replace(b'\\"', b"")
        marks = plain.translate(None, _NO_VALUE_OR_QUOTE).replace(b'""', b"")
        outside = b"".join(marks.split(b'"')[::2])
        self._values -= len(outside) + 1
        self._containers -= len(outside) - outside.count(b",")
        if self._containers < 0:
            raise InvalidJson(f"more than {_CONTAINERS} lists and objects", 1, 1)
        if self._values < 0:
            raise InvalidJson(f"more than {_VALUES} values", 1, 1)


def _value(text: Text, left: _Room) -> Steps[Any]:
    if not isinstance(text, Part):
        left.take(text)
        return read(text)
    result: Any = {} if text.is_object else []
    for entry in text.entries:
        if isinstance(entry, tuple):
            inner = yield from _value(entry[1], left)
            if text.is_object:
                result[entry[0]] = inner
            else:
                result.append(inner)
        else:
            run = yield from _value(entry, left)
            if text.is_object:
                result.update(run)
            else:
                result.extend(run)
        yield
    return result


def most_values(text: Raw) -> int:
    """A bound on how many values a text holds."""
    return len(bytes(text).translate(None, _NO_VALUE)) + 1


def _chunks(text: Text) -> Iterator[bytes]:
    if not isinstance(text, Part):
        yield bytes(text)
        return
    yield b"{" if text.is_object else b"["
    for number, entry in enumerate(text.entries):
        if number:
            yield b","
        if isinstance(entry, tuple):
            if text.is_object:
                yield msgspec.json.encode(entry[0]) + b":"
            yield from _chunks(entry[1])
        else:
            yield bytes(entry)[1:-1]
    yield b"}" if text.is_object else b"]"


def _name(head: bytes, at: int) -> str:
    try:
        return _key.decode(head[:-1] if head[-1:] == b":" else b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidJson("expecting a name in double quotes", 1, at + 1) from None


def _compact(text: bytes) -> bytes:
    """Drop the spaces. Raises InvalidJson where it is not JSON, or not UTF-8."""
    try:
        if not text.isascii():
            text.decode()
        return msgspec.json.format(text, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidJson(f"not JSON: {error}", 1, 1) from None
