"""Files in what a user says: found, quoted, recognised."""

from __future__ import annotations

import struct

import pytest

from sightline.context.dialects.names import inline
from sightline.context.messages.attach import image_of, mentions, quoted

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 20, 10)
JPEG = (
    b"\xff\xd8"
    + struct.pack(">BBH", 0xFF, 0xE0, 4) + b"ab"
    + struct.pack(">BBHBHH", 0xFF, 0xC0, 11, 8, 30, 40) + b"rest"
)  # fmt: skip
WEBP = b"RIFF\x10\0\0\0WEBPVP8 "


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("read @notes.txt", [("notes.txt",)]),
        ("@a and @b, and @a", [("a",), ("b,", "b")]),
        ("see (@docs/a.md).", [("docs/a.md).", "docs/a.md)", "docs/a.md")]),
        ('two words: @"my notes.txt".', [("my notes.txt",)]),
        ("write to ada@example.org", []),
        ("the package `@types/node`", []),
        ("@ home, @", []),
        ("", []),
    ],
)
def test_a_mark_at_the_beginning_of_a_word_names_a_file(
    text: str, names: list[tuple[str, ...]]
) -> None:
    assert list(mentions(text)) == names


@pytest.mark.parametrize("text", ["plain", "with\n", "```\ncode\n```", "`````", ""])
def test_nothing_in_a_text_closes_its_fence(text: str) -> None:
    lines = quoted("notes.txt", text).split("\n")
    fence = lines[-1]
    assert set(fence) == {"`"}
    assert lines.index(fence) == 2
    inner = lines[3:-1]
    assert not any(line.startswith(fence) for line in inner)
    assert "\n".join(inner) == text.removesuffix("\n")
    assert "notes.txt" in lines[0]


@pytest.mark.parametrize(
    ("data", "mime", "size"),
    [
        (PNG, "image/png", (640, 480)),
        (GIF, "image/gif", (20, 10)),
        (JPEG, "image/jpeg", (40, 30)),
        (JPEG[:12], "image/jpeg", (None, None)),
        (WEBP, "image/webp", (None, None)),
    ],
)
def test_an_image_is_known_by_its_first_bytes(
    data: bytes, mime: str, size: tuple[int | None, int | None]
) -> None:
    file = image_of("shot", data)
    assert file is not None
    assert (file.mime, file.size, (file.width, file.height)) == (mime, len(data), size)
    assert (found := inline(file)) is not None
    assert found.mime == mime


@pytest.mark.parametrize(
    "data", [b"", b"text", PNG[:20], GIF[:8], b"RIFF\0\0\0\0WAVE", b"%PDF-1.7"]
)
def test_anything_else_is_no_image(data: bytes) -> None:
    assert image_of("x", data) is None
