"""Untrusted text, made unable to pass for the host's own.

    escape_text(escape_text(x)) == escape_text(x)
    nothing in escape_text(x) reads as a context tag, a line, a heading or an action
    for the patterns of the substitution table a reader sees the table's result;
    everything else is still there, as itself or as a visible `\\uXXXX`

*Theory of operation.* Escaping happens per string, before strings are put together,
so that what begins in one field can never end in another. But a string may still
have to pass through an encoder (JSON, the canonical text) that would escape our
escapes. So it has two halves: `mark` puts a sentinel, a code point that is no
character, where an escape belongs; encoders let it pass; `reveal` turns sentinels
into what the reader sees, in the finished text. A sentinel that an app sends is
itself escaped.

Inside a JSON string `\\u003c` and `<\\/slop-state>` are JSON's own escapes, so a
program that parses a JSON body gets the app's text back.

*What is escaped.* (1) The table's patterns, as a whole. (2) What cannot be seen:
zero-width and control characters, bidi overrides, tag characters, non-characters.
Joiners and variation selectors, which scripts and emoji need, only where three
come in a row. (3) Whatever looks like `<` before whatever looks like the name of a
context block, however spelt, accented, spaced or interrupted, and before the
control tokens of chat templates; an underscore is as good as a hyphen. The same where
it shows only after entities or percent codes are decoded, once or several times: then
every code of the text gets its escape. A backslash code (`\\u003c`) is left alone: it is
how we ourselves show a character that opens nothing. (4) In canonical text, the
punctuation without which a line's markers (`actions: {`, `salience=`, `— "`) are just words.

*Cost.* Every pattern consumes what it scans or fails at the next `<`, and what may
follow a repeat is never in the class that it repeats, so that giving a character back
never helps: linear in the text, whatever the text. Text with nothing to escape is only
searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import msgspec

from sightline._lazy import lazy_pattern
from sightline.context.projection.lookalikes import LATER_LETTERS, LOOKALIKES

BLOCK_NAMES: Final = ("slop-state", "slop-apps-available")

# Sentinels: code points that Unicode guarantees never to be characters.
_ESCAPE: Final = "\ufdd0"
_SHOWN: Final = {
    _ESCAPE: "\\u",
    "\ufdd1": "<slop-state-escaped>",
    "\ufdd2": "<\\/slop-state>",
    "\ufdd3": "<slop-apps-available-escaped>",
    "\ufdd4": "<\\/slop-apps-available>",
}
_OPENED: Final = {"slop-state": "\ufdd1", "slop-apps-available": "\ufdd3"}
_CLOSED: Final = {"slop-state": "\ufdd2", "slop-apps-available": "\ufdd4"}
_SENTINELS: Final = lazy_pattern("[\ufdd0-\ufdef]")

_BEYOND_ASCII: Final = lazy_pattern("-?[^\x00-\x7f](?:-[^\x00-\x7f])?")


def ascii_only(source: Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """Return a pattern for ASCII text alone: it finds the same there, several times as fast.

    Without the characters beyond ASCII each class is one bitmap instead of a list of ranges.
    """
    return lazy_pattern(lambda: _BEYOND_ASCII.sub("", source()), flags)


# SLOP, context injection, security model: the substitutions that are the minimum bar.
# The beginning of a pattern of the substitution table; what follows is `[^>]*>`.
_TABLE_HEAD: Final = lazy_pattern(
    rf"<\s*(?!\s)(/?)\s*(slop-state|slop-apps-available)(?![\w{LATER_LETTERS}])", re.IGNORECASE
)
_ASCII_TABLE_HEAD: Final = ascii_only(lambda: _TABLE_HEAD.pattern, re.IGNORECASE)

_UNSEEN: Final = (
    "\x7f-\x9f\xad\u115f\u1160\u17b4\u17b5\u180e\u200b\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff0-\uffff\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff"
)
_JOINERS: Final = "\u034f\u061c\u180b-\u180d\u180f\u200c-\u200f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_INVISIBLE: Final = lazy_pattern(f"[{_UNSEEN}]+|[{_JOINERS}]{{3,}}")
_HALVES: Final = lazy_pattern(f"{_ESCAPE}(d[89ab][0-9a-f]{{2}}){_ESCAPE}(d[c-f][0-9a-f]{{2}})")
_CONTROLS: Final = lazy_pattern("[\x00-\x1f]")
_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def _alike(char: str) -> str:
    """The inside of a character class: this character and all that look like it."""
    return re.escape(char + LOOKALIKES[char])


_LESS: Final = _alike("<")
# What may stand between `<` and the name, and between its letters: anything but letters, digits,
# what looks like one of the letters, and the beginning or end of a tag.
_SYMBOLS: Final = "".join(
    char for letter in "slopta" for char in LOOKALIKES[letter] if not char.isalnum()
)
_GAP: Final = f"[^\\w>{_LESS}{re.escape(_SYMBOLS)}{LATER_LETTERS}]*"
# Where text becomes one line, a tab is shown as `\t`, and brings a letter of the name with it.
_TAB: Final = f"[^\\w>\t{_LESS}{re.escape(_SYMBOLS)}{LATER_LETTERS}]*\t"
_S, _L, _O, _P, _T, _A = (f"[{_alike(char)}]" for char in "slopta")
_NAME: Final = (
    f"{_GAP}{_S}{_GAP}{_L}{_GAP}{_O}{_GAP}{_P}{_GAP}"
    f"(?:\\Z|{_S}(?:{_TAB}|{_GAP}(?:\\Z|{_T}))|{_A}{_GAP}(?:\\Z|{_P}))"
)
# What local runtimes may read as the end of a message or the beginning of another.
_TEMPLATE_TOKEN: Final = (
    r"[|\uff5c]|[be]os>|<SYS>|/?(?:s>|(?:start|end)_of_turn>|tool_(?:call|response)>|think>)"
)
_NEUTRAL: Final = r"(?!\\/slop-(?:state|apps-available)>)"
_LESS_NAMED: Final = f"{_NEUTRAL}(?={_NAME})"
_ENTITY_NAMED: Final = f"(?=(?:[lL][tT]|#0*60|#[xX]0*3[cC]);?{_NAME})"
_ASCII_TAG_LIKE: Final = ascii_only(lambda: f"<{_LESS_NAMED}|&{_ENTITY_NAMED}")


# One character, then only conditions on it: what begins with a class is searched fast.
_TAG_LIKE: Final = lazy_pattern(f"[&{_LESS}](?:(?<!&){_LESS_NAMED}|(?<=&){_ENTITY_NAMED})")


@cache
def _squeezed() -> dict[int, str | None]:
    """A table by which every name of a block in ASCII text, however spelt, begins with `slop`."""
    alike = {letter: re.compile(f"[{_alike(letter)}]") for letter in "slop"}
    gap = re.compile(f"_|{_GAP.removesuffix('*')}")
    table: dict[int, str | None] = {}
    for char in map(chr, range(0x80)):
        letter = next((letter for letter in alike if alike[letter].match(char)), char)
        table[ord(char)] = None if gap.match(char) else letter
    return table


# The same in a finished text, where fields of a line have the host's own punctuation between them:
# only space, slashes and what cannot be seen may stand before the name.
_HIDDEN: Final = f"\x00-\x08\x0e-\x1f\u0300-\u036f\u20d0-\u20f0\ufdd0-\ufdef{_JOINERS}{_UNSEEN}"
_WITHIN: Final = f"[{_HIDDEN}]*"
_BEFORE: Final = f"[\\s/\u2044\u2215\u2571\u29f8\uff0f{_HIDDEN}]*"
_LOW_LINES: Final = "_\u203f\u2040\u2054\ufe33\ufe34\ufe4d-\ufe4f\uff3f"
_HYPHEN: Final = f"[-{_LOW_LINES}\\s\u2010-\u2015\u2212\ufe58\ufe63\uff0d{_HIDDEN}]*"
_KIND: Final = f"(?:{_S}{_WITHIN}{_T}|{_A}{_WITHIN}{_P})"
_TAG: Final = lazy_pattern(
    f"[&{_LESS}](?:(?<!&)|(?<=&)(?:[lL][tT]|#0*60|#[xX]0*3[cC]);?)"
    f"(?!(?:slop-state|slop-apps-available)-escaped>){_BEFORE}"
    + _WITHIN.join((_S, _L, _O, _P))
    + _HYPHEN
    + _KIND
)
_ASCII_TAG: Final = ascii_only(lambda: _TAG.pattern)
# What begins a character's code, in HTML or in an address, and may stand for a `<`.
_CODES: Final = lazy_pattern("[&\uff06\ufe60%\uff05\ufe6a]")
# What can stand behind one in the code of a `<`, or of the beginning of a deeper code.
_CODED_LESS: Final = lazy_pattern(
    f"[&\uff06\ufe60](?:[#\uff03\ufe5f]|[lLaA\uff4c\uff2c\uff41\uff21{_HIDDEN}]|percnt|nvlt|num;)"
    "|[%\uff05\ufe6a]"
)
# The same in ASCII text, where controls are all that has no width.
_ASCII_ENTITY: Final = lazy_pattern("&(?:[#lLaA\x00-\x08\x0e-\x1f]|percnt|nvlt|num;)")
_ASCII_PERCENT: Final = lazy_pattern("%[0-7\x00-\x08\x0e-\x1f][0-9a-fA-F\x00-\x08\x0e-\x1f]")
# The codes that most texts have, and no others; they are decoded in no time.
_USUAL_CODES: Final = (
    ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"),
    ("&#x27;", "'"), ("%20", " "),
)  # fmt: skip
_PERCENT: Final = lazy_pattern("%([0-7][0-9a-fA-F])")
# What an address spells a tag with first: `<`, the `%` or `&` of a deeper layer, or a control,
# which has no width and so may stand in the middle of another code.
_PERCENT_LESS: Final = lazy_pattern("%(?:3[Cc]|2[56]|[01]|7[fF])")
_NO_WIDTH: Final = lazy_pattern(f"[{_HIDDEN}]+")
_ASCII_NO_WIDTH: Final = ascii_only(lambda: _NO_WIDTH.pattern)
_LAYERS: Final = 8
# Full-width and small forms of what codes are written with.
_NARROW: Final = {0xFEE0 + code: chr(code) for code in range(0x21, 0x7F)} | dict(
    zip((0xFE54, 0xFE5F, 0xFE60, 0xFE6A), ";#&%", strict=True)
)
_TOKEN_LIKE: Final = lazy_pattern(f"<(?={_TEMPLATE_TOKEN})|\\[(?=/?INST\\])")

_BETWEEN: Final = f"[\\s{_JOINERS}]*"


def _word(letters: str) -> str:
    # Marks and joiners may sit on any letter; spaces inside make it another word, and so does a
    # letter before it.
    first, *others = (f"[{_alike(letter)}]" for letter in letters)
    return f"[\u0300-\u036f{_JOINERS}]*".join((f"{first}(?<![{LATER_LETTERS}].)", *others))


_MARKER: Final = lazy_pattern(
    lambda: (
        f"(?<![^\\W_])(?:{_word('actions')}{_BETWEEN}[{_alike(':')}]{_BETWEEN}(?=[{_alike('{')}])"
        f"|{_word('salience')}{_BETWEEN}(?=[{_alike('=')}]))(.)"
        f"|([{_alike('—')}])(?={_BETWEEN}[{_alike(chr(34))}])"
    )
)
# Every marker in ASCII text ends in one of these; nothing sits on its letters.
_ASCII_MARKER_END: Final = lazy_pattern(r"[{=](?<=[:eE3\s].)")
_ASCII_MARKER: Final = lazy_pattern(
    "(?<![^\\W_])(?:[aA4@][cC][tT+7][iI!1l|][oO0][nN][sS$5]\\s*:\\s*(?=\\{)"
    "|[sS$5][aA4@][lL!1I|][iI!1l|][eE3][nN][cC][eE3]\\s*(?==))(.)"
)
_WORD_PUNCTUATION: Final = lazy_pattern(
    lambda: f"[{re.escape(''.join(LOOKALIKES[char] for char in '{}()[],:'))}]"
)
_LINE_PUNCTUATION: Final = lazy_pattern(lambda: f"[{''.join(_alike(char) for char in '()`')}]")

# Is there anything to do? Searched first, in text that is mostly innocent. Classes with many ranges
# beyond the first 65,536 characters are slow to search, so all of those count as suspect.
_FAR: Final = "\U00010000-\U0010ffff"
_NEAR: Final = lazy_pattern("(?:.-)?[\U00010000-\U0010ffff]")
_SUSPECT: Final = lazy_pattern(
    lambda: (
        f"[&\uff06\ufe60\uff05\ufe6a{_NEAR.sub('', _LESS + _UNSEEN + _JOINERS)}\ufdd0-\ufdef{_FAR}]"
    )
)
_SUSPECT_MARKER: Final = lazy_pattern(
    lambda: (
        f"[{_alike(':')}{_alike('=')}{_alike('—')}](?:(?<=[{_alike('=')}])"
        f"|(?<=[{_alike('—')}])[\\\\\\s{_JOINERS}]*[{_alike(chr(34))}]"
        f'|(?<=[{_alike(":")}])(?<!".){_BETWEEN}[{_alike("{")}])'
    )
)
_ACTIONS: Final = lazy_pattern(r"actions\s*:\s*\{")
_SALIENCE: Final = lazy_pattern(r"salience\s*=")
# A string of a JSON document in which the two escapes that matter for its end are hidden, behind
# controls that no JSON text has. A repeated group would remember every escape that it passed.
_JSON_STRING: Final = lazy_pattern(r'"([^"]*)"(:?)')
# Whose values stand between the brackets of a line's actions.
_WORD_KEYS: Final = ("type", "action", "format", "enum", "const", "default")
_HIDDEN_BACKSLASH: Final = "\x00"
_HIDDEN_QUOTE: Final = "\x01"


def escape_text(text: str) -> str:
    """Escape text that may have line breaks: no part of it can open or close a block."""
    marked = mark(text, lines=False)
    return text if marked is text else reveal(marked)


def escape_line(text: str) -> str:
    """Escape text that must stay one line: a description, a value, a moment."""
    marked = mark(text, lines=True)
    return _on_one_line(text if marked is text else reveal(marked))


def escape_name(text: str) -> str:
    """Escape a name or an id that stands between parentheses or backticks, or before them."""
    return _on_one_line(reveal(_LINE_PUNCTUATION.sub(_escaped, mark(text, lines=True))))


def _on_one_line(text: str) -> str:
    # No control is printable; most texts are, and that is told faster than what is not.
    return text if text.isprintable() else _CONTROLS.sub(_visible, text)


def mark(text: str, *, lines: bool) -> str:
    """Put sentinels into one string; `lines` also guards the markers of canonical text."""
    if _is_innocent(text, lines=lines):
        return text
    is_ascii = text.isascii() and "\x7f" not in text
    text = text if is_ascii else _SENTINELS.sub(_escaped, text)
    if "<" in text and not (is_ascii and "slop-" not in text.lower()):
        text = "".join(_substituted(text, is_ascii=is_ascii))
    text = text if is_ascii else _INVISIBLE.sub(_escaped, text)
    text = _without_codes(_without_tags(text, is_ascii=is_ascii), is_ascii=is_ascii)
    if "<" in text or "[" in text:
        text = _TOKEN_LIKE.sub(_escaped, text)
    return _without_markers(text, is_ascii=is_ascii) if lines else text


def mark_json(document: str, *, lines: bool, names: bool = False) -> str:
    """Mark every string of a JSON document, keys included.

    With `names` the document's keys, types and actions end up between a line's own
    brackets: what looks like those brackets is marked in them too.
    """
    if is_innocent_json(document, lines=lines) and (document.isascii() or not names):
        return document
    hidden = document.replace("\\\\", _HIDDEN_BACKSLASH).replace('\\"', _HIDDEN_QUOTE)
    return _shown_escapes(_JSON_STRING.sub(_string_marker(lines=lines, names=names), hidden))


def mark_word(text: str) -> str:
    """Like `mark`, for a type, an action or a parameter in a line of canonical text."""
    marked = mark(text, lines=True)
    return marked if marked.isascii() else _WORD_PUNCTUATION.sub(_escaped, marked)


def is_innocent_json(document: str, *, lines: bool) -> bool:
    """Vouch that no string of a JSON document needs a mark; False means "look closer"."""
    return "\\u" not in document and _is_innocent(document, lines=lines)


def reveal(text: str, *, far: bool = False) -> str:
    """Turn sentinels into what a reader sees.

    A character beyond the first 65,536 is written as JSON does, in two halves; with
    `far` as YAML does, in one.
    """
    if text.isascii():
        return text
    if far and _ESCAPE in text:
        text = _HALVES.sub(_whole, text)
    for sentinel, shown in _SHOWN.items():
        if sentinel in text:
            text = text.replace(sentinel, shown)
    return text


def tag_like(text: str) -> Iterator[int]:
    """Find where something in a finished text could be read as a context tag."""
    if not text.isascii():
        return (match.start() for match in _TAG.finditer(text))
    # What can begin one is rare in most texts, and one character is found faster than a class.
    positions = sorted((*_positions_of("<", text), *_positions_of("&", text)))
    return (at for at in positions if _ASCII_TAG.match(text, at))


def _positions_of(char: str, text: str) -> Iterator[int]:
    at = text.find(char)
    while at >= 0:
        yield at
        at = text.find(char, at + 1)


def has_tag(text: str) -> bool:
    """Tell whether something could be read as a context tag, as it stands or once it is decoded."""
    if any(True for _ in tag_like(text)):
        return True
    return bool(_CODED_LESS.search(text)) and any(True for _ in tag_like(_decoded(text)))


def _is_innocent(text: str, *, lines: bool) -> bool:
    is_ascii = text.isascii()
    if is_ascii and ("<" in text or "&" in text or "\x7f" in text):
        return False
    if "INST]" in text or ("%" in text and _PERCENT_LESS.search(text)):
        return False
    if is_ascii:
        if not lines or ("=" not in text and "{" not in text):
            return True
        return not _has_marker(text.lower())
    return not _SUSPECT.search(text) and not (lines and _SUSPECT_MARKER.search(text))


def _has_marker(lowered: str) -> bool:
    return bool(
        ("actions" in lowered and _ACTIONS.search(lowered))
        or ("salience" in lowered and _SALIENCE.search(lowered))
    )


def _substituted(text: str, *, is_ascii: bool) -> Iterator[str]:
    """Apply the table. A pattern ends at the next `>`; where there is none, none can match."""
    at = 0
    last = text.rfind(">")
    pattern = _ASCII_TABLE_HEAD if is_ascii else _TABLE_HEAD
    while (head := pattern.search(text, at)) and head.end() <= last:
        yield text[at : head.start()]
        yield (_CLOSED if head[1] else _OPENED)[_block_name(head[2])]
        at = text.index(">", head.end()) + 1
    yield text[at:]


def _without_tags(text: str, *, is_ascii: bool) -> str:
    """Escape the first character of whatever looks like a tag."""
    if is_ascii and not _may_name_block(text):
        return text
    pattern = _ASCII_TAG_LIKE if is_ascii else _TAG_LIKE
    positions = [match.start() for match in pattern.finditer(text.replace("_", "-"))]
    if not positions:
        return text
    pieces = [text[: positions[0]]]
    for here, following in zip(positions, [*positions[1:], len(text)], strict=True):
        pieces += (_escape_char(text[here]), text[here + 1 : following])
    return "".join(pieces)


def _may_name_block(text: str) -> bool:
    """Whether ASCII text has what could be the name of a block, with or without a `<` before it."""
    return "slop" in text.translate(_squeezed())


def _without_markers(text: str, *, is_ascii: bool) -> str:
    """Escape the punctuation of whatever reads as a marker of canonical text."""
    if not is_ascii:
        return _MARKER.sub(_escaped_marker, text)
    return _ASCII_MARKER.sub(_escaped_marker, text) if _ASCII_MARKER_END.search(text) else text


def _without_codes(text: str, *, is_ascii: bool) -> str:
    """Escape the codes of a text in which something looks like a tag once they are decoded."""
    if not _has_code(text, is_ascii=is_ascii):
        return text
    plain = text
    for code, char in _USUAL_CODES:
        plain = plain.replace(code, char)
    if _has_code(plain, is_ascii=is_ascii):
        plain = _decoded(plain)
        is_ascii = plain.isascii()
    if is_ascii and not _may_name_block(plain):
        return text
    pattern = _ASCII_TAG_LIKE if is_ascii else _TAG_LIKE
    plain = plain.replace("_", "-")
    return _CODES.sub(_escaped, text) if pattern.search(plain) else text


def _has_code(text: str, *, is_ascii: bool) -> bool:
    if not is_ascii:
        return _CODED_LESS.search(text) is not None
    return bool(_ASCII_ENTITY.search(text) or _ASCII_PERCENT.search(text))


def _decoded(text: str) -> str:
    from html import unescape  # its table of 2,231 names is rarely needed

    text = text.lower()  # a careless reader minds no case, in the names of entities either
    for _ in range(_LAYERS):
        plain = unescape(text if text.isascii() else text.translate(_NARROW))
        plain = _PERCENT.sub(_percent_char, plain)
        plain = (_ASCII_NO_WIDTH if plain.isascii() else _NO_WIDTH).sub("", plain)
        if plain == text:
            break
        text = plain
    return text


def _percent_char(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def _block_name(spelt: str) -> str:
    # Ignoring case lets a few non-ASCII letters through (the long s), so only the length is sure.
    return BLOCK_NAMES[len(spelt) > len(BLOCK_NAMES[0])]


def _string_marker(*, lines: bool, names: bool) -> Callable[[re.Match[str]], str]:
    key = ""

    def marked(match: re.Match[str]) -> str:
        nonlocal key
        inner, colon = _shown_escapes(match[1]), match[2]
        text = msgspec.json.decode(f'"{inner}"', type=str) if "\\" in inner else inner
        if colon:
            key = text
        is_word = names and (colon or key in _WORD_KEYS)
        result = mark_word(text) if is_word else mark(text, lines=lines)
        return match[0] if result is inner else msgspec.json.encode(result).decode() + colon

    return marked


def _shown_escapes(text: str) -> str:
    return text.replace(_HIDDEN_BACKSLASH, "\\\\").replace(_HIDDEN_QUOTE, '\\"')


def _escaped(match: re.Match[str]) -> str:
    return "".join(map(_escape_char, match[0]))


def _escaped_marker(match: re.Match[str]) -> str:
    char = match[match.lastindex or 0]
    return match[0][: -len(char)] + _escape_char(char)


def _escape_char(char: str) -> str:
    """Write a character as JSON would: one UTF-16 unit, or two."""
    code = ord(char)
    if code < 0x10000:
        return f"{_ESCAPE}{code:04x}"
    code -= 0x10000
    return f"{_ESCAPE}{0xD800 + (code >> 10):04x}{_ESCAPE}{0xDC00 + (code & 0x3FF):04x}"


def _whole(match: re.Match[str]) -> str:
    code = 0x10000 + ((int(match[1], 16) - 0xD800) << 10) + int(match[2], 16) - 0xDC00
    return f"\\U{code:08x}"


def _visible(match: re.Match[str]) -> str:
    return _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"
