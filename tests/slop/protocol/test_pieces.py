"""A large text, opened piece by piece, says what it says when it is read in one go."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sightline.errors import InvalidInput, InvalidJson, InvalidTree
from sightline.slop.protocol import pieces
from sightline.slop.protocol.codec import decode, decode_steps, encode
from sightline.slop.protocol.consumer import Consumer, EventArrived, Garbled, MirrorChanged
from sightline.slop.protocol.jsontext import nests_deeper, shallow_steps
from sightline.slop.protocol.limits import WIRE
from sightline.slop.protocol.messages import BadMessage, parse_consumer_message
from sightline.slop.protocol.patch import apply, apply_steps, decode_ops
from sightline.slop.protocol.pieces import Part, cut, finish, joined, value

_ALPHABET = 'ab"\\[]{},:é\n '
_DAMAGE = b'[]{},:"x1\\ '


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few bytes, so that a short text has many."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 20)
    monkeypatch.setattr(pieces, "_WINDOW_BYTES", 7)


def some_value(chance: random.Random, level: int = 0) -> Any:
    kind = chance.randrange(7 if level < 5 else 4)
    if kind == 0:
        return chance.choice([None, True, 1.5, -3, 10**6])
    if kind < 4:
        return "".join(chance.choices(_ALPHABET, k=chance.randrange(12)))
    if kind < 6 or level == 0:
        return [some_value(chance, level + 1) for _ in range(chance.randrange(6))]
    keys = ("".join(chance.choices('ab"\\[],', k=chance.randrange(5))) for _ in range(4))
    return {key: some_value(chance, level + 1) for key in keys}


def depth_of(item: Any) -> int:
    inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@pytest.mark.usefixtures("tiny")
def test_a_text_that_was_cut_says_the_same_and_damage_is_seen() -> None:
    chance = random.Random(1)
    cut_texts = refused = 0
    for _ in range(1_500):
        expected = [some_value(chance)]
        layout: dict[str, Any] = chance.choice([{}, {"indent": 1}, {"separators": (" , ", " : ")}])
        text = json.dumps(expected, ensure_ascii=chance.random() < 0.5, **layout).encode()
        opened = finish(cut(text, 100, 1_000))
        cut_texts += isinstance(opened, Part)
        assert finish(value(opened)) == expected
        assert json.loads(bytes(joined(opened))) == expected
        damaged = bytearray(text)
        damaged[chance.randrange(len(text))] = chance.choice(_DAMAGE)
        try:
            meant = json.loads(bytes(damaged))
        except ValueError:
            refused += 1
            with pytest.raises(InvalidJson):
                finish(value(finish(cut(bytes(damaged), 100, 1_000))))
        else:
            assert finish(value(finish(cut(bytes(damaged), 100, 1_000)))) == meant
    assert cut_texts > 500
    assert refused > 500


def test_depth_is_judged_by_the_text_alone() -> None:
    chance = random.Random(2)
    for _ in range(1_000):
        item = [some_value(chance)]
        text, depth = json.dumps(item).encode(), depth_of(item)
        assert not nests_deeper(text, depth)
        assert nests_deeper(text, depth - 1)


def test_a_deep_message_is_refused_before_it_is_parsed_and_its_sender_is_told() -> None:
    deep = b'{"a":' * 640 + b"1" + b"}" * 640
    head = b'{"type":"invoke","id":"i1","path":"/","action":"a","params":'
    with pytest.raises(BadMessage, match="must not nest deeper than 640 levels") as caught:
        parse_consumer_message(head + deep + b"}")
    assert caught.value.request == "i1"
    parse_consumer_message(head + deep[5 * 3 : -3] + b"}")


def test_the_outermost_level_is_seen_whatever_is_inside() -> None:
    text = b'{"a":[{"id":"no"}],"id":"i\\"[","params":{"x":' + b"[" * 5
    assert json.loads(pieces.finish(shallow_steps(text))) == {
        "a": None,
        "id": 'i"[',
        "params": None,
    }


def large_tree(nodes: int = 3_000, **fields: Any) -> bytes:
    items = [{"id": f"n{n}", "type": "t", **fields} for n in range(nodes)]
    inner = {"id": "in", "type": "t", "properties": {"p": "x" * 40_000}, "children": items}
    return json.dumps({"id": "r", "type": "t", "children": [inner, *items]}, indent=1).encode()


@pytest.mark.parametrize("fields", [{}, {"unknown": [1]}, {"properties": {"t": "é"}}])
def test_a_tree_read_in_steps_is_the_tree(fields: dict[str, Any]) -> None:
    text = large_tree(**fields)
    whole = decode(text, WIRE)
    opened = finish(cut(text, 256, 1_000))
    assert len(list(decode_steps(opened, WIRE))) > 5
    tree = finish(decode_steps(opened, WIRE))
    assert tree == whole
    assert encode(tree) == encode(whole)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((b'"n2999"', b'"n2998"'), "unique among siblings"),
        ((b'"n2999"', b'"a/b"'), "/children/"),
        ((b'"n1"', b"7"), "/in/children/1/id"),
        ((b'"type": "t"', b'"type": ""'), "must be a name"),
    ],
)
def test_a_large_tree_that_breaks_a_rule_is_refused_with_its_place(
    change: tuple[bytes, bytes], reason: str
) -> None:
    text = large_tree().replace(*change)
    with pytest.raises(InvalidTree):
        decode(text, WIRE)
    with pytest.raises(InvalidTree, match=reason):
        finish(decode_steps(finish(cut(text, 256, 1_000)), WIRE))


def test_too_many_nodes_and_too_long_a_node_are_refused() -> None:
    text = b'{"id":"r","type":"t","children":[%b]}' % b",".join(
        b'{"id":"%d","type":"t"}' % n for n in range(60_000)
    )
    with pytest.raises(InvalidTree, match="more than 50000 nodes"):
        finish(decode_steps(finish(cut(text, 256, 1_000)), WIRE))
    long = {"id": "r", "type": "t", "properties": {"p": ["x" * 200_000] * 6}}
    text = json.dumps(long).encode()
    with pytest.raises(InvalidTree, match="more than 1048576 bytes beside its children"):
        finish(decode_steps(finish(cut(text, 256, 200_000)), WIRE))


def test_ops_applied_in_steps_give_the_same_tree() -> None:
    before = decode(large_tree())
    subtree = json.loads(large_tree(2_000, properties={"t": 1}))
    ops = [
        {"op": "replace", "path": "/n1/properties", "value": {"a": 1}},
        {"op": "add", "path": "/r", "value": subtree, "index": 0},
        {"op": "replace", "path": "/in", "value": {**subtree, "id": "in"}},
        {"op": "add", "path": "/n2/children", "value": subtree["children"]},
        {"op": "add", "path": "/n3/properties", "value": {"long": "x" * 50_000}},
        {"op": "add", "path": "/n3/properties/more", "value": ["y" * 50_000]},
        {"op": "remove", "path": "/n4"},
    ]
    ops[0]["op"] = "add"
    text = json.dumps(ops).encode()
    after = finish(apply_steps(before, finish(cut(text, 256, 200_000)), WIRE))
    assert after == apply(before, decode_ops(text), WIRE)
    for bad in (
        {"op": "replace", "path": "/no", "value": subtree},
        {"path": "/", "value": subtree},
    ):
        text = json.dumps([bad]).encode()
        with pytest.raises(InvalidInput):
            finish(apply_steps(before, finish(cut(text, 256, 200_000)), WIRE))


def greeted() -> Consumer:
    consumer = Consumer()
    consumer.subscribe("/", subscription_id="s")
    consumer.receive(b'{"type":"hello","provider":{"id":"a","name":"A","slop_version":"0.1"}}')
    return consumer


def test_a_message_beyond_a_mebibyte_is_read_like_any_other() -> None:
    consumer = greeted()
    tree = large_tree(20_000)
    snapshot = b'{"type":"snapshot","id":"s","version":1,"seq":0,"tree":%b}' % tree
    event = b'{"type":"event","name":"e","data":%b}' % json.dumps(["x" * 90] * 20_000).encode()
    batch = b'{"type":"batch","messages":[%b,%b]}' % (snapshot, event)
    assert len(snapshot) > pieces.WHOLE_BYTES < len(event)
    changed, arrived = consumer.receive(batch)
    assert isinstance(changed, MirrorChanged)
    assert changed.tree == decode(tree, WIRE)
    assert arrived == EventArrived("e", ["x" * 90] * 20_000)


@pytest.mark.parametrize(
    ("item", "times", "reason"),
    [
        (b"1,", 600_000, "more than 250000 values"),
        (b"1,", 260_000, "more than 250000 values"),
        (b"{},", 600_000, "more than 100000 lists and objects"),
        (b"[],", 110_000, "more than 100000 lists and objects"),
    ],
)
def test_what_would_fill_the_memory_is_skipped(item: bytes, times: int, reason: str) -> None:
    event = b'{"type":"event","name":"e","data":[' + item * times + b"0]}"
    assert greeted().receive(event) == [Garbled(f"event 'e': line 1, column 1: {reason}")]


def test_what_is_in_strings_fills_no_memory() -> None:
    data: list[object] = ['[{,"\\' * 25_000] * 3 + [[]] * 50_000
    event = b'{"type":"event","name":"e","data":%b}' % json.dumps(data).encode()
    assert greeted().receive(event) == [EventArrived("e", data)]


@pytest.mark.parametrize(
    "snapshot",
    [
        b'{"type":"snapshot","id":"s","version":1,"seq":0,"tree":%b}',
        b'{ "type" : "snapshot", "id": "s", "version": 1,\r "seq": 0, "tree": %b }',
        b'{"tree":%b,"seq":0,"version":1,"id":"s","type":"snapshot"}',
        b'{"type":"snapshot","id":"s","version":1,"seq":0,"unknown":[{}],"tree":%b}',
        b'{"type":"snapshot","id":"s","version":1,"seq":0,"unknown":'
        + b"[" * 600
        + b"]" * 600
        + b',"tree":%b}',
    ],
)
@pytest.mark.parametrize(
    "tree",
    [
        large_tree(5),
        large_tree(5_000),
        '{"id":"ä","type":"t","properties":{"p":"“"}}'.encode(),
        b'{"id":"a","type":"t","x":1,"children":[{"id":"b","type":"t","y":[1, 2]}]}',
        b'{"id":"a","type":"t","properties":{"p":%b}}' % (b"[" * 63 + b"]" * 63),
    ],
)
def test_a_snapshot_shows_its_tree_however_its_message_is_written(
    snapshot: bytes, tree: bytes
) -> None:
    [changed] = greeted().receive(snapshot % tree)
    assert changed == MirrorChanged("s", decode(tree, WIRE), 1, patched=False)
    assert isinstance(changed, MirrorChanged)
    assert encode(changed.tree) == encode(decode(tree, WIRE))


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (b'{"id":"a","type":"t","properties":{"p":%b}}' % (b"[" * 65 + b"]" * 65), "nest"),
        (b'{"id":"a","type":"t","properties":[]}', "object"),
        (b'{"id":"a","type":"t","properties":{"p":"\xff"}}', "UTF-8"),
        (b'{"id":"a","type":"t","children":[{"id":"b","type":"t"},{"id":"b","type":"t"}]}', "uniq"),
        (b'{"id":"a","type":"t","meta":{"salience":2}}', "0 to 1"),
    ],
)
def test_a_snapshot_of_an_illegal_tree_is_skipped(tree: bytes, reason: str) -> None:
    [garbled] = greeted().receive(b'{"type":"snapshot","id":"s","version":1,"tree":%b}' % tree)
    assert isinstance(garbled, Garbled)
    assert reason in garbled.reason


def test_a_value_of_very_many_parts_is_not_opened_for_a_patch() -> None:
    consumer = greeted()
    many = b'{"id":"a","type":"t","properties":{"p":[' + b'[],"",' * 50_000 + b"0]}}"
    consumer.receive(b'{"type":"snapshot","id":"s","version":1,"seq":0,"tree":%b}' % many)
    head = b'{"type":"patch","subscription":"s","version":2,"seq":1,"ops":['
    [garbled] = consumer.receive(head + b'{"op":"replace","path":"/properties/p/0","value":1}]}')
    assert isinstance(garbled, Garbled)
    assert "replaced as a whole" in garbled.reason
    assert not consumer.mirrors["s"].is_current
    consumer.receive(b'{"type":"snapshot","id":"s","version":1,"seq":0,"tree":%b}' % many)
    [changed] = consumer.receive(head + b'{"op":"replace","path":"/properties","value":{}}]}')
    assert isinstance(changed, MirrorChanged)


def test_a_request_with_a_lone_surrogate_is_refused_and_not_waited_for() -> None:
    consumer = greeted()
    with pytest.raises(InvalidInput, match="lone surrogate"):
        consumer.invoke("/", "a", {"x": "\ud800"})
    assert consumer.connection_lost() == []
