"""JSON as text: read strictly, write canonically, compare by what it says.

Two texts are the *same* when they say the same thing in the same order: spacing,
escapes and the spelling of a number do not count; `1` and `1.0`, `true` and `1`,
a `null` and nothing at all are different things. `canonical` is the one spelling
(no spaces, non-ASCII kept), so that same(a, b) ⇔ canonical(a) == canonical(b).

Numbers keep their value: one that no double can hold (`1e999`) is read as a
Decimal and written back with its digits.

`loads` is lenient on purpose where validation wants to *report* (NaN and lone
surrogates come back as values), exact about where text stops being JSON, in the same
words on every interpreter, and never recurses, however deep the text nests. Who has to
be bounded asks `nests_deeper` first: how deep a native parser goes before it gives up
is between 1,000 and 200,000 levels, depending on the interpreter.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Generator, Iterator, Mapping
from decimal import MAX_EMAX, Decimal, InvalidOperation
from itertools import accumulate
from json import decoder as json_decoder
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sightline.errors import InvalidJson

# A field's JSON text, or UNSET where the field is absent.
JsonText: TypeAlias = Raw | UnsetType

_CONTROL_FREE: Final = bytes({*range(0x20, 0x100), 0x09, 0x0A} - {0x7F, 0xC2})
_CONTROLS: Final = re.compile(rb"[\r\x7f]|\xc2[\x80-\x9f]")


def escape_controls(data: bytes) -> bytes:
    """Spell JSON so that no character of it controls a terminal; it says the same.

    RFC 8259 has C0 escaped in strings, but leaves DEL and C1 as they are, and a carriage
    return between tokens.
    """
    if not data.translate(None, _CONTROL_FREE):
        return data
    return _CONTROLS.sub(_escaped, data)


def _escaped(match: re.Match[bytes]) -> bytes:
    return b" " if match[0] == b"\r" else b"\\u%04x" % ord(match[0].decode())


def _plain(value: object) -> object:
    """Stand in for what the native encoder does not take: other mappings, and subclasses."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


_encoder: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=_plain)
_any: Final = msgspec.json.Decoder()
_members: Final = msgspec.json.Decoder(dict[str, Raw])

# What may be nested where nothing smaller is said: well below what any supported interpreter
# reads natively (3.11: 1,000 levels less its own stack), and more than two values of the depth
# that `Limits` allows inside the deepest tree of the wire.
NESTING: Final = 640

_INT_DIGITS: Final = 4300
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NO_BRACKET_OR_QUOTE: Final = bytes(set(range(256)) - set(b'[]{}"'))
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_CONSTANTS: Final[dict[str, Any]] = {
    "null": None,
    "true": True,
    "false": False,
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}
# The standard library's own string scanner, native where it can be; typeshed does not list it.
_scan_string: Final[Callable[[str, int, bool], tuple[str, int]]] = json_decoder.scanstring  # type: ignore[attr-defined]
_CONSTANT: Final = re.compile("|".join(_CONSTANTS))
_CLOSERS: Final = {"[": "]", "{": "}"}


def text_of(value: object) -> Raw:
    """Write a JSON value, already known to be one, as its canonical text."""
    try:
        return Raw(_encoder.encode(value))
    except RecursionError:
        return Raw(b"".join(_pieces(value)))


def read(text: Raw) -> Any:
    """Read a JSON text as a Python value. Raises InvalidJson if it is none."""
    try:
        return _any.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # In text that is known to be JSON: a number out of range, or deep nesting.
        plain = text_from_bytes(bytes(text))
    try:
        return _loads(plain)
    except _NoNumber:
        # It stands in a tree that was let in: whoever looks gets the largest number there is.
        return json.loads(plain, parse_float=_nearest, parse_int=_int)


def members(text: JsonText) -> dict[str, Raw]:
    """Read the outermost level of an object; absent and `null` have no members."""
    if text is UNSET or text == _NULL:
        return {}
    return _members.decode(text)


def canonical(text: Raw) -> bytes:
    """Rewrite a JSON text in its one canonical spelling; a number that nothing can hold stays."""
    if _EXPONENT.search(text):
        return bytes(text)
    return _encoder.encode(read(text))


def same(a: JsonText, b: JsonText) -> bool:
    """Tell whether two texts say the same thing, member order included."""
    if a is b or a == b:
        return True
    if isinstance(a, UnsetType) or isinstance(b, UnsetType):
        return False
    return canonical(a) == canonical(b)


_NULL: Final = Raw(b"null")
# An exponent that no Decimal has; looked for in single values only.
_EXPONENT: Final = re.compile(rb"[eE][+-]?[0-9]{18}")


_BRACKET: Final = re.compile(rb"[][{}]")
NO_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))
# One level down or up, as signed bytes.
UP_AND_DOWN: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_STRUCTURE: Final = bytes.maketrans(b"[{]},", b"_____")
_WINDOW_BYTES: Final = 16 * 1024
_INNERMOST_TIMES: Final = 4
# A text with so many bytes for each level that it may have is likely to have fewer brackets.
_FEW_BYTES: Final = 16


def shallow_steps(text: bytes) -> Generator[None, None, bytes]:
    """Make an object's text with `null` for every container in it; its end may be missing.

    Enough to see what an object that cannot be read was meant to be.
    """
    kept: list[bytes] = []
    level = 0
    for at, window in masked(text, _WINDOW_BYTES):
        steps = array("b", window.translate(UP_AND_DOWN, NO_BRACKET))
        levels = list(accumulate(steps, initial=level))
        start = 0
        for number, match in enumerate(_BRACKET.finditer(window) if _stays(levels) else ()):
            here, before, after = match.start(), levels[number], levels[number + 1]
            if (before, after) == (1, 2):
                kept += (text[at + start : at + here], b"null")
            elif (before, after) in {(0, 1), (1, 0)}:
                kept.append(text[at + start : at + here + 1])
            start = here + 1
        level = levels[-1]
        if level < 2:
            kept.append(text[at + start : at + len(window)])
        yield
    return b"".join(kept) if level < 1 else b"".join(kept) + b"}"


def _stays(levels: list[int]) -> bool:
    """Whether the outermost level is seen at all."""
    return min(levels) < 2


def masked(text: bytes, window_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Go through a text by windows, each with its offset, without what strings have of brackets.

    Nor of commas; everything else stands where it stood.
    """
    at, inside = 0, False
    while at < len(text):
        window = text[at : at + window_bytes]
        if (len(window) - len(window.rstrip(b"\\"))) % 2:
            window = text[at : at + window_bytes + 1]  # not between a backslash and what it escapes
        plain = window
        if b"\\" in window:
            plain = window.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        pieces = plain.split(b'"')
        first = 0 if inside else 1
        if len(pieces) > first:
            strings = b'"'.join(pieces[first::2])
            pieces[first::2] = strings.translate(_NO_STRUCTURE).split(b'"')
        inside ^= len(pieces) % 2 == 0
        yield at, b'"'.join(pieces)
        at += len(window)


def text_from_bytes(data: bytes) -> str:
    """Read bytes as UTF-8. Raises InvalidJson at the first byte that is not."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line_start = data.rfind(b"\n", 0, error.start) + 1
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidJson("not UTF-8", line, error.start - line_start + 1) from None


def sendable(text: str) -> str:
    """Return a text that can be sent: a lone surrogate, which no UTF-8 can hold, becomes `?`."""
    return text.encode(errors="replace").decode()


def nests_deeper(data: bytes | str, levels: int) -> bool:
    """Tell whether a JSON text nests deeper than so many levels, without reading it.

    Of a text that is no JSON it tells what a parser meets before it finds out.
    """
    return any(depth_steps(data, levels))


def depth_steps(data: bytes | str, levels: int) -> Iterator[bool]:
    """Like `nests_deeper`, bracket by bracket; after some of them, tell whether it does so far."""
    if len(data) <= levels:
        return
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    if len(data) <= _FEW_BYTES * levels and data.count(b"{") + data.count(b"[") <= levels:
        return
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Without escaped quotes every second piece between quotes is a string.
    marks = data.translate(None, _NO_BRACKET_OR_QUOTE)
    outside = b"".join(marks.replace(b'""', b"").split(b'"')[::2])
    # Few texts are deep: without the innermost containers, two levels at most, little is left.
    rest = outside
    for times in range(1, _INNERMOST_TIMES + 1):
        rest = rest.replace(b"{}", b"").replace(b"[]", b"")
        if len(rest) <= levels - 2 * times:
            return
    level = 0
    for at in range(0, len(outside), _WINDOW_BYTES):
        steps = array("b", outside[at : at + _WINDOW_BYTES].translate(UP_AND_DOWN))
        passed = list(accumulate(steps, initial=level))
        level = passed[-1]
        yield max(passed) > levels


def clip(text: bytes, levels: int) -> bytes:
    """Empty whatever a JSON text nests deeper than `levels`; the same object if nothing is.

    For a text of which all but the deep is wanted; see `nests_deeper`.
    """
    if not nests_deeper(text, levels):
        return text
    kept: list[bytes] = []
    at = depth = 0
    quoted = False
    for found in _BRACKET_OR_QUOTE.finditer(text):
        mark = found[0]
        if mark == b'"':
            quoted = not quoted
        elif quoted or mark[0] == _BACKSLASH:
            continue
        elif mark in b"[{":
            depth += 1
            if depth == levels + 1:
                kept.append(text[at : found.end()])
                at = len(text)
        else:
            if depth == levels + 1:
                at = found.start()
            depth -= 1
    return b"".join((*kept, text[at:]))


# A backslash takes the character behind it along, a quote for one.
_BRACKET_OR_QUOTE: Final = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)
_BACKSLASH: Final = ord("\\")


def loads(text: str) -> Any:
    """Read JSON text of any depth; NaN and lone surrogates come back as values.

    Raises InvalidJson with line and column.
    """
    try:
        return _loads(text)
    except _NoNumber as error:
        where = json.JSONDecodeError("", text, text.find(error.digits))
        raise InvalidJson(str(error), where.lineno, where.colno) from None


def _loads(text: str) -> Any:
    try:
        try:
            return json.loads(text, parse_float=_float, parse_int=_int)
        except RecursionError:
            return _loads_deep(text)
    except json.JSONDecodeError as original:
        error = _as_everywhere(original)
        raise InvalidJson(_reason(error), error.lineno, error.colno) from None


def _as_everywhere(error: json.JSONDecodeError) -> json.JSONDecodeError:
    """Tell of a comma too many as interpreters before 3.13 do: at what stands behind it."""
    if not error.msg.startswith("Illegal trailing comma"):
        return error
    at = _skip(error.doc, error.pos + 1)
    closes_object = error.doc.startswith("}", at)
    return json.JSONDecodeError(_NO_NAME if closes_object else _NO_VALUE, error.doc, at)


_NO_NAME: Final = "Expecting property name enclosed in double quotes"
_NO_VALUE: Final = "Expecting value"


class _NoNumber(Exception):
    """A number is so large or so small that nothing here can hold it."""

    def __init__(self, digits: str) -> None:
        super().__init__(f"a number that nothing can hold: {digits[:40]}")
        self.digits = digits


def _float(digits: str) -> float | Decimal:
    number = float(digits)
    if math.isfinite(number):
        return number
    try:
        return Decimal(digits)
    except InvalidOperation:  # an exponent of more than eighteen digits
        raise _NoNumber(digits) from None


def _nearest(digits: str) -> float | Decimal:
    try:
        return _float(digits)
    except _NoNumber:
        return Decimal((digits.startswith("-"), (1,), MAX_EMAX))


def _int(digits: str) -> int | Decimal:
    # The interpreter refuses to convert more; see sys.get_int_max_str_digits.
    return int(digits) if len(digits) <= _INT_DIGITS else Decimal(digits)


def _reason(error: json.JSONDecodeError) -> str:
    reason = error.msg[0].lower() + error.msg[1:]
    if error.pos >= len(error.doc.rstrip()):
        return f"{reason}, but the text ends here"
    return reason


def _pieces(value: object) -> Iterator[bytes]:
    """Write with a stack of what is still to be written; its bytes are written as they are."""
    stack: list[object] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, bytes):
            yield item
        elif isinstance(item, Mapping):
            stack.append(b"}")
            for at, (key, member) in reversed(list(enumerate(item.items()))):
                comma = b"," if at else b""
                stack += (member, comma + _encoder.encode(key) + b":")
            stack.append(b"{")
        elif isinstance(item, (list, tuple)):
            stack.append(b"]")
            for at in range(len(item) - 1, -1, -1):
                stack += (item[at], b"," if at else b"")
            stack.append(b"[")
        else:
            yield _encoder.encode(item)


def _loads_deep(text: str) -> Any:
    """Parse with a stack of our own. Slower than the native parser, and unimpressed by depth."""
    stack = [_parse(text, 0)]
    inner: Any = None
    while True:
        try:
            at = stack[-1].send(inner)
        except StopIteration as stop:
            stack.pop()
            inner = stop.value
            if not stack:
                break
        else:
            stack.append(_parse(text, at))
            inner = None
    value, at = inner
    at = _skip(text, at)
    if at != len(text):
        raise json.JSONDecodeError("Extra data", text, at)
    return value


def _parse(text: str, at: int) -> Generator[int, tuple[Any, int], tuple[Any, int]]:
    """Read one value and say where it ends; yields where a value in it begins, is sent that."""
    at = _skip(text, at)
    closer = _CLOSERS.get(text[at : at + 1])
    if closer is None:
        return _scalar(text, at)
    found: list[tuple[str, Any]] = []
    at = _skip(text, at + 1)
    is_open = not text.startswith(closer, at)
    while is_open:
        key, at = _next_key(text, at) if closer == "}" else ("", at)
        value, at = yield at
        found.append((key, value))
        at = _skip(text, at)
        is_open = text.startswith(",", at)
        if is_open:
            at = _skip(text, at + 1)
        elif not text.startswith(closer, at):
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
    return (dict(found) if closer == "}" else [value for _, value in found]), at + 1


def _scalar(text: str, at: int) -> tuple[Any, int]:
    if text.startswith('"', at):
        return _scan_string(text, at + 1, True)
    constant = _CONSTANT.match(text, at)
    if constant:
        return _CONSTANTS[constant[0]], constant.end()
    number = _NUMBER.match(text, at)
    if number:
        is_float = number[1] or number[2]
        return (_float if is_float else _int)(number[0]), number.end()
    raise json.JSONDecodeError(_NO_VALUE, text, at)


def _next_key(text: str, at: int) -> tuple[str, int]:
    at = _skip(text, at)
    if not text.startswith('"', at):
        raise json.JSONDecodeError(_NO_NAME, text, at)
    key, at = _scan_string(text, at + 1, True)
    at = _skip(text, at)
    if not text.startswith(":", at):
        raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
    return key, at + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
