"""Messages survive the wire, and what is not a message is named."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from sightline.slop.protocol.jsontext import NESTING
from sightline.slop.protocol.messages import (
    BadMessage,
    Batch,
    ConsumerMessage,
    ErrorInfo,
    ErrorMessage,
    Event,
    Filter,
    Hello,
    Invoke,
    Patch,
    ProviderInfo,
    ProviderMessage,
    Query,
    Result,
    ResumePoint,
    Snapshot,
    Subscribe,
    Unsubscribe,
    parse_consumer_message,
    parse_provider_message,
    serialize,
)
from sightline.slop.protocol.view import View

LIMIT = 1024 * 1024

FROM_CONSUMER: list[ConsumerMessage] = [
    Subscribe("s1"),
    Subscribe(
        "s1", "/inbox", 2, 50, Filter(("item",), 0.5, retain_ancestors=True), ResumePoint("e", 7, 3)
    ),
    Unsubscribe("s1"),
    Query("q1", "/inbox", 1, None, None, (100, 25)),
    Invoke("i1", "/inbox", "archive", {"ids": ["a", "b"], "deep": {"x": None}}),
    Invoke("i2", "/", "logout"),
]
FROM_PROVIDER: list[ProviderMessage] = [
    Hello(ProviderInfo("mail", "Mail", capabilities=("state", "x-resume"), epoch="e1")),
    Snapshot("s1", 3, Raw(b'{"id":"a","type":"root"}'), 0),
    Snapshot("q1", 3, Raw(b'{"id":"a","type":"root"}')),
    Patch("s1", 4, Raw(b'[{"op":"remove","path":"/a"}]'), 1, 3),
    Patch("s1", 4, Raw(b"[]"), 1),
    Patch("s1", 4, Raw(b"[]")),
    Result("i1", "ok", Raw(b"null")),
    Result("i1", "accepted", Raw(b'{"taskId":"t1"}')),
    Result("i1", "error", error=ErrorInfo("conflict", "already archived")),
    Event("tick"),
    Event("tick", Raw(b'{"n":1}')),
    ErrorMessage(ErrorInfo("bad_request", "no"), "s9"),
    ErrorMessage(ErrorInfo("bad_request", "no")),
    Batch((Raw(b'{"type":"event","name":"a"}'),)),
]


@pytest.mark.parametrize("message", FROM_CONSUMER, ids=lambda m: type(m).__name__)
def test_what_a_consumer_says_survives_the_wire(message: ConsumerMessage) -> None:
    assert parse_consumer_message(serialize(message)) == message


@pytest.mark.parametrize("message", FROM_PROVIDER, ids=lambda m: type(m).__name__)
def test_what_a_provider_says_survives_the_wire(message: ProviderMessage) -> None:
    assert parse_provider_message(serialize(message), LIMIT) == message


def test_a_message_is_one_line() -> None:
    for message in [*FROM_CONSUMER, *FROM_PROVIDER]:
        assert b"\n" not in serialize(message)


def test_hello_always_names_the_protocol_version_and_capabilities() -> None:
    said = json.loads(serialize(Hello(ProviderInfo("a", "A"))))
    assert said == {
        "type": "hello",
        "provider": {"id": "a", "name": "A", "slop_version": "0.1", "capabilities": []},
    }


def test_defaults_are_those_of_the_protocol() -> None:
    message = parse_consumer_message('{"type":"subscribe","id":"s"}')
    assert message == Subscribe("s", "/", -1)
    assert message.view() == View()


def test_a_filter_becomes_a_view() -> None:
    message = parse_consumer_message(
        '{"type":"query","id":"q","depth":2,"max_nodes":9,"window":[5,10],'
        '"filter":{"types":["item"],"min_salience":0.3,"retain_ancestors":true}}'
    )
    assert isinstance(message, Query)
    assert message.view() == View(2, 9, 0.3, frozenset({"item"}), (5, 10), retain_ancestors=True)


def test_fields_nobody_knows_are_ignored() -> None:
    message = parse_consumer_message('{"type":"unsubscribe","id":"s","trace":{"a":[1]}}')
    assert message == Unsubscribe("s")


@pytest.mark.parametrize(
    ("text", "reason", "request_id"),
    [
        ("", "not JSON: line 1, column 1", None),
        ("{", "not JSON: line 1, column 2", None),
        ('{"type":"subscribe","id":"s"} x', "not JSON: line 1, column 31: extra data", None),
        ("NaN", "a message must be an object", None),
        ("[]", "a message must be an object", None),
        ("null", "a message must be an object", None),
        ('"subscribe"', "a message must be an object", None),
        ("{}", "a message must have a 'type', a string", None),
        ('{"type":7,"id":"s"}', "a message must have a 'type', a string", "s"),
        ('{"type":"dance","id":"s"}', "unknown message type 'dance'", "s"),
        ('{"type":"subscribe"}', "missing required field `id`", None),
        ('{"type":"subscribe","id":7}', "Expected `str`, got `int` - at `$.id`", None),
        ('{"type":"subscribe","id":""}', "at `$.id`", ""),
        ('{"type":"subscribe","id":"s","depth":"2"}', "at `$.depth`", "s"),
        ('{"type":"subscribe","id":"s","depth":-2}', "at `$.depth`", "s"),
        ('{"type":"subscribe","id":"s","max_nodes":0}', "at `$.max_nodes`", "s"),
        ('{"type":"subscribe","id":"s","path":null}', "at `$.path`", "s"),
        ('{"type":"subscribe","id":"s","filter":[]}', "at `$.filter`", "s"),
        ('{"type":"subscribe","id":"s","filter":{"min_salience":2}}', "min_salience", "s"),
        ('{"type":"subscribe","id":"s","filter":{"types":"item"}}', "types", "s"),
        ('{"type":"subscribe","id":"s","resume":{"epoch":"e"}}', "at `$.resume`", "s"),
        ('{"type":"query","id":"q","window":[1]}', "at `$.window`", "q"),
        ('{"type":"query","id":"q","window":[1,-1]}', "at `$.window[1]`", "q"),
        ('{"type":"invoke","id":"i","path":"/"}', "missing required field `action`", "i"),
        ('{"type":"invoke","id":"i","path":"/","action":"a","params":[]}', "$.params", "i"),
        ('{"type":"invoke","id":"i","path":"/","action":"a","params":{"x":NaN}}', "invoke:", "i"),
        ('{"type":"unsubscribe"}', "missing required field `id`", None),
        ('{"type":"hello","provider":{}}', "unknown message type 'hello'", None),
    ],
)
def test_what_is_not_a_message_is_named(text: str, reason: str, request_id: str | None) -> None:
    with pytest.raises(BadMessage) as caught:
        parse_consumer_message(text)
    assert reason in caught.value.reason
    assert caught.value.request == request_id


def test_bytes_that_are_not_text_are_named() -> None:
    with pytest.raises(BadMessage, match="not UTF-8"):
        parse_consumer_message(b'{"type":"subscribe","id":"\xff"}')


def test_nesting_is_refused_not_followed() -> None:
    depth = 100_000
    deep = '{"a":' * depth + "1" + "}" * depth
    text = '{"type":"invoke","id":"i","path":"/","action":"a","params":' + deep + "}"
    with pytest.raises(BadMessage, match=f"must not nest deeper than {NESTING} levels") as caught:
        parse_consumer_message(text)
    assert caught.value.request == "i"


def test_size_is_checked_before_anything_is_read() -> None:
    with pytest.raises(BadMessage, match="longer than 10 bytes"):
        parse_consumer_message("x" * 11, max_bytes=10)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(BadMessage):
        parse_consumer_message('{"type":"subscribe","id":"\\ud800"}')
    with pytest.raises(BadMessage, match="surrogate"):
        parse_consumer_message('{"type":"subscribe","id":"\ud800"}')


def test_a_type_from_the_future_is_marked_as_such() -> None:
    with pytest.raises(BadMessage) as caught:
        parse_provider_message('{"type":"telepathy","id":"x"}', LIMIT)
    assert caught.value.unknown_type == "telepathy"
