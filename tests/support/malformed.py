"""Messages that no provider can act on, and how each must be answered.

`CASES` is a list of (bytes, id): an `error bad_request` that carries the id where the
message has a usable one.
"""

from __future__ import annotations

import json
from typing import Any

LIMIT = 1024 * 1024


def _text(value: Any) -> bytes:
    return json.dumps(value).encode()


def _not_json() -> list[bytes]:
    return [
        b"x", b"{", b"}", b"[", b"]", b'"', b"{]", b"[}", b"nul", b"tru", b"True", b"None",
        b"undefined", b"'single'", b"{'type':'query'}", b'{"type"}', b'{"type":}', b'{"type":1,}',
        b'{"type":"query" "id":"q"}', b'{"type":"query","id":"q"', b'{"type":"query","id":"q"}}',
        b'{"type":"query","id":"q"}{"type":"query","id":"r"}', b'{"type":"query","id":"q}',
        b'{"type":"query",,"id":"q"}', b'{type:"query"}', b"01", b"1.", b".5", b"+1", b"1e", b"--1",
        b"0x10", b"1_000", b'"\\x41"', b'"\\u12"', b'{"a":"tab\there"}', b"// comment",
        b'{"type":"query"} trailing', b"\x00", b'{"type":"query","id":"\x00"}', b"\x01\x02",
        b"GET / HTTP/1.1", b"<xml/>", b"\x16\x03\x01\x02\x00",
    ]  # fmt: skip


def _not_text() -> list[bytes]:
    good = '{"type":"query","id":"é"}'
    return [
        b"\xff", b"\xfe\xff", b"\x80", b"\xc3", b"\xc3\x28", b"\xe2\x28\xa1", b"\xf0\x28\x8c\xbc",
        b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80",
        b'{"type":"query","id":"\xff"}', b'{"type":"query","id":"q","path":"\xed\xa0\x80"}',
        good.encode("latin-1"), good.encode("utf-16-le"), good.encode("utf-16-be"),
        good.encode("utf-32-le"),
    ]  # fmt: skip


def _not_objects() -> list[Any]:
    return [None, True, False, 0, -1, 1.5, 1e300, "", "query", "{}", [], [1], [[]], [{}],
            [{"type": "query", "id": "q"}], ["query", "q"], [None], ["type"]]  # fmt: skip


def _wrong_types() -> list[dict[str, Any]]:
    return [
        {}, {"id": "q"}, {"Type": "query"}, {"type": None}, {"type": 1}, {"type": True},
        {"type": []}, {"type": {}}, {"type": ["query"]},
        *({"type": kind} for kind in (
            "", "Query", "QUERY", "query ", " query", "subscribe\n", "hello", "snapshot", "patch",
            "result", "event", "error", "batch", "close", "ping", "unknown", "__proto__",
            "q" * 1000, "é", "\u202equery",
        )),
    ]  # fmt: skip


_BAD: dict[str, list[Any]] = {
    "id": [None, 1, 1.5, True, [], {}, "", "x" * 257],
    "path": [None, 1, True, [], {}, ["inbox"], "/" + "x" * 70_000],
    "depth": [None, "1", 1.5, -2, -(2**40), [], {}, "all"],
    "max_nodes": ["1", 0, -1, 1.5, True, [], {}],
    "filter": [1, "types", True, [], {"types": "item"}, {"types": [1]}, {"types": [None]},
               {"min_salience": "0.5"}, {"min_salience": -0.1}, {"min_salience": 1.1},
               {"min_salience": []}, {"retain_ancestors": "yes"}],
    "resume": [1, "x", [], {}, {"epoch": "1"}, {"epoch": 1, "version": 1, "seq": 1},
               {"epoch": "1", "version": -1, "seq": 0}, {"epoch": "1", "version": 1, "seq": "0"}],
    "window": [1, "0,1", {}, [], [0], [0, 1, 2], [-1, 1], [0, -1], [0.5, 1], ["0", "1"],
               [None, None], True],
    "action": [None, 1, True, [], {}],
    "params": [1, "x", True, [], [1]],
}  # fmt: skip
_SOUND: dict[str, dict[str, Any]] = {
    "subscribe": {"type": "subscribe", "id": "q"},
    "query": {"type": "query", "id": "q"},
    "invoke": {"type": "invoke", "id": "q", "path": "/", "action": "count"},
    "unsubscribe": {"type": "unsubscribe", "id": "q"},
}
_FIELDS = {
    "subscribe": ["id", "path", "depth", "max_nodes", "filter", "resume"],
    "query": ["id", "path", "depth", "max_nodes", "filter", "window"],
    "invoke": ["id", "path", "action", "params"],
    "unsubscribe": ["id"],
}
_REQUIRED = {"invoke": ["id", "path", "action"]}


def _wrong_fields() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = []
    for kind, names in _FIELDS.items():
        sound = _SOUND[kind]
        for name in names:
            cases.extend({**sound, name: bad} for bad in _BAD[name])
        cases.extend(
            {key: value for key, value in sound.items() if key != name}
            for name in _REQUIRED.get(kind, ["id"])
        )
    return cases


def _too_much() -> list[tuple[bytes, str | None]]:
    deep = 15_000  # more than any interpreter reads
    without_id = [
        b'{"type":"query","id":"q","path":"' + b"x" * LIMIT + b'"}',
        b" " * (LIMIT + 1),
        b"[" * deep + b"]" * deep,
        b"[" * deep,
        b'{"a":' * deep + b"1" + b"}" * deep,
    ]  # fmt: skip
    with_id = [
        b'{"type":"invoke","id":"q","path":"/","action":"echo","params":'
        + b'{"a":' * deep + b"1" + b"}" * deep + b"}",
        b'{"type":"query","id":"q","depth":' + b"9" * 5000 + b"}",
        b'{"type":"query","id":"q","depth":1e999}',
    ]  # fmt: skip
    return [*((data, None) for data in without_id), *((data, "q") for data in with_id)]


def _usable_id(message: dict[str, Any]) -> str | None:
    own = message.get("id")
    return own if isinstance(own, str) and len(own) <= 256 else None


def _cut_short() -> list[bytes]:
    """Every beginning of a sound message: none is a message itself."""
    return [text[:end] for text in map(_text, _SOUND.values()) for end in range(1, len(text))]


def _gnawed() -> list[bytes]:
    """Sound messages without one of their brackets, quotes, colons or commas, or with one twice."""
    texts = list(map(_text, _SOUND.values()))
    marks = [(text, at) for text in texts for at, byte in enumerate(text) if byte in b'{}":,']
    return [
        *(text[:at] + text[at + 1 :] for text, at in marks),
        *(text[: at + 1] + text[at:] for text, at in marks),
        *(text + more for text in texts for more in (b"}", b"]", b",", b'"', b":", b"0", b"{}")),
    ]


CASES: list[tuple[bytes, str | None]] = [
    *((data, None) for data in (*_not_json(), *_not_text())),
    *((_text(value), None) for value in _not_objects()),
    *((_text(value), _usable_id(value)) for value in (*_wrong_types(), *_wrong_fields())),
    *_too_much(),
]
# Those, and more than as many again, for who has the time; each of them once.
MANY: list[tuple[bytes, str | None]] = list(
    dict([*CASES, *((data, None) for data in (*_cut_short(), *_gnawed()))]).items()
)
