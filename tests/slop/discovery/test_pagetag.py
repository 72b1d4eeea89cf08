"""What a page says of its app is read from its head, and believed about the page's own place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.errors import InvalidInput
from sightline.slop.discovery.wellknown import PAGE_BYTES, page_websocket
from support.share import share

PAGE = "https://board.example/today"
HERE = "http://localhost:3000/"
OWN = "wss://board.example/slop"
TAG = f'<meta name="slop" content="{OWN}">'


@pytest.mark.parametrize(
    "page",
    [
        TAG,
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>B</title>{TAG}</head>",
        f"<HEAD><META CONTENT={OWN} NAME=SLOP></HEAD>",
        f"<meta content='{OWN}' name = 'slop' />",
        '<meta name="slop" content="wss:&#47;/board.example/slop">',
        f'<meta name="slop" content=" {OWN} ">',
        f'<meta name=other content=x><link href=a.css><base href=/><script src=x></script>{TAG}',
        f'<script>"<meta name=slop content=ws://a>"</script><style><</style>{TAG}',
        f"<!-- <meta name=slop content=ws://a> --><title><meta name=slop content=ws://a></title>{TAG}",
        f"<template><meta name=slop content=ws://a></template>{TAG}",
        f'<meta name="description" content="a > b and <title>">{TAG}',
        f'<meta name="slop" content="postmessage">{TAG}',
        f"text < 3 {TAG}",
        f"{TAG}<meta name=slop content=wss://evil.example/slop>",
    ],
)  # fmt: skip
def test_a_tag_in_the_head_is_found(page: str) -> None:
    assert page_websocket(page.encode(), PAGE) == OWN


@pytest.mark.parametrize(
    "page",
    [
        "", "<html>", f"<body>{TAG}", f"<head></head>{TAG}", f"<div>{TAG}</div>", f"<p>{TAG}",
        f"<!-- {TAG}", f"<title>{TAG}", f"<script>{TAG}", f"<!{TAG[:-1]}",
        '<meta name="slop">', '<meta name="slop" content="">', '<meta name="slop2" content="ws://a">',
        f'<meta property="slop" content="{OWN}">', f"<meta name='slop content=\"{OWN}\">",
        f'<meta name="slop" x="{"x" * 3000}" content="{OWN}">', " " * PAGE_BYTES + TAG,
        *(
            part * (PAGE_BYTES // len(part))
            for part in ("<!--", '<a b="', "<title", "</", "<", "<!")
        ),
    ],
)  # fmt: skip
def test_what_is_no_tag_of_the_head_is_not(page: str) -> None:
    assert page_websocket(page.encode(), PAGE) is None


@pytest.mark.parametrize(
    ("page", "named"),
    [
        (PAGE, "wss://evil.example/slop"), (PAGE, "wss://board.example:8443/slop"),
        (PAGE, "wss://board.example.evil.example/slop"), (PAGE, "wss://board.example@evil.example/"),
        (PAGE, "wss://a.board.example/slop"), (PAGE, "ws://127.0.0.1:9339/slop"),
        (PAGE, "ws://localhost/slop"), (PAGE, "ws://[::1]:443/slop"), (PAGE, "ws://10.0.0.1/slop"),
        (PAGE, "ws://192.168.1.1/slop"), (PAGE, "ws://[fd00::1]/slop"), (PAGE, "ws://[::ffff:7f00:1]/"),
        (PAGE, "ws://169.254.169.254/slop"), (PAGE, "https://board.example/slop"),
        (PAGE, "unix:/run/app.sock"), (PAGE, "stdio:rm -rf /"), (PAGE, "/slop"), (PAGE, "wss://["),
        (PAGE, "wss://board.example/\u200bslop"), (PAGE, "wss://board.example/slop#a"),
        (HERE, "ws://localhost:3737/slop"), (HERE, "wss://board.example/slop"),
        (HERE, "ws://192.168.1.1:3000/slop"), (PAGE, "postmessage"),
    ],
)  # fmt: skip
def test_a_page_names_its_own_place_or_is_refused(page: str, named: str) -> None:
    with pytest.raises(InvalidInput):
        page_websocket(f'<meta name="slop" content="{named}">'.encode(), page)


def test_a_page_on_this_machine_names_its_own_port() -> None:
    named = page_websocket(b'<meta name="slop" content="ws://127.0.0.1:3000/slop">', HERE)
    assert named == "ws://localhost:3000/slop"


words = [
    "<",
    "</",
    "<!--",
    "-->",
    ">",
    '"',
    "'",
    "=",
    " ",
    "meta",
    "title",
    "script",
    "a",
    TAG,
    "/",
]


@settings(max_examples=share(5000), deadline=None)
@given(st.lists(st.sampled_from(words), max_size=60))
def test_whatever_is_there_only_its_own_place_is_found(parts: list[str]) -> None:
    assert page_websocket("".join(parts).encode(), PAGE) in {None, OWN}
