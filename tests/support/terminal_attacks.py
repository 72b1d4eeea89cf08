"""Texts that do something to a terminal, or to its reader, when they are printed as they are."""

from __future__ import annotations

from typing import Final

ATTACKS: Final = {
    "colour": "\x1b[31mred\x1b[0m",
    "clear screen": "\x1b[2J\x1b[H",
    "cursor up": "safe\x1b[1A\x1b[2Kforged",
    "alternate screen": "\x1b[?1049h",
    "mouse reports": "\x1b[?1003h",
    "answer back": "\x1b[c\x1b[6n\x1b[5n",
    "hyperlink": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "title": "\x1b]0;root@prod\x07",
    "device control": "\x1bP$q\"p\x1b\\",
    "application command": "\x1b_Gf=100;AAAA\x1b\\",
    "privacy message": "\x1b^hidden\x1b\\",
    "C1 control sequence": "\x9b31mred",
    "C1 operating system command": "\x9d52;c;AAAA\x9c",
    "C1 device control": "\x90q\x9c",
    "backspaces": "rm -rf /\b\b\b\b\b\b\b\bls      ",
    "carriage return": "delete everything\rlist everything  ",
    "vertical tab and form feed": "a\x0bb\x0cc",
    "bell": "\x07",
    "shift out": "\x0e~~~\x0f",
    "NUL and DEL": "a\x00b\x7fc",
    "right to left override": "file\u202egnp.exe",
    "isolates": "\u2066a\u2067b\u2068c\u2069",
    "embeddings": "\u202aa\u202bb\u202c",
    "direction marks": "a\u200eb\u200fc\u061cd",
    "zero width": "pay\u200bpal\u2060.com\ufeff",
    "line and paragraph separators": "one\u2028two\u2029three",
    "tag characters": "x\U000e0041\U000e0042\U000e007f",
    "soft hyphen and fillers": "a\xadb\u3164c\uffa0d",
    "lone surrogate": "a\ud800b\udfffc",
    "interlinear annotation": "\ufff9a\ufffab\ufffb",
    "nested": "\x1b\x1b[\x1b[31m\x9b\x1b]0;x",
}  # fmt: skip

# No text on a screen has any of these: C0 but tab and line feed, DEL, C1, direction and
# isolation controls, separators that are not line feeds.
FORBIDDEN: Final = frozenset(
    {chr(code) for code in range(0x20)} - {"\t", "\n"}
    | {chr(code) for code in range(0x7F, 0xA0)}
    | set("\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\ufeff")
    | {chr(code) for code in range(0x2066, 0x206A)}
    | {chr(code) for code in range(0xD800, 0xE000)}
    | {chr(code) for code in range(0xE0000, 0xE0080)}
)
