"""What is fuzzed: everything that reads bytes from somebody else, and what must hold of it.

A check takes any bytes. It may find that the reader refuses them with an error of the
project; it fails if anything else is raised, or if what was read is not what was said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from sightline.cli.io import read_json
from sightline.cli.slots import message_to_json, read_slots
from sightline.cli.strategy import read_session
from sightline.context.dialects import DIALECTS, STRATEGIES, decode, parse
from sightline.context.dialects.framing import (
    BrokenStream,
    EventStreamReader,
    Frame,
    FrameReader,
    LineReader,
    SseReader,
)
from sightline.context.messages.parts import Message
from sightline.context.messages.state import HEADING, extract_state, strip_state
from sightline.context.projection.bridge import decode_bridge, encode_bridge
from sightline.context.projection.escape import escape_line, escape_name, escape_text
from sightline.context.projection.moment import parse_moment
from sightline.context.projection.strip import strip_blocks
from sightline.context.projection.tail import render_tail
from sightline.context.projection.world_json import read_world
from sightline.errors import SightlineError
from sightline.slop.discovery.descriptor import Descriptor
from sightline.slop.protocol import codec
from sightline.slop.protocol.limits import WIRE
from sightline.slop.protocol.messages import (
    parse_consumer_message,
    parse_provider_message,
    serialize,
)
from sightline.slop.protocol.patch import apply, decode_ops, encode_ops
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from support import lenient
from support.live import TREE

__all__ = ["TARGETS", "Target"]

LIMIT = 1 << 20
AT = parse_moment("2026-01-02T03:04:05Z")


@dataclass(frozen=True, slots=True)
class Target:
    """One reader: its check, and words that its inputs are made of."""

    check: Callable[[bytes], None]
    words: tuple[bytes, ...]


def _tree(data: bytes) -> None:
    tree = codec.decode(data, WIRE)
    assert codec.decode(codec.encode(tree), WIRE) == tree
    nodes = sum(1 for _ in tree.walk())
    notes = sum(1 for node in tree.walk() if node.meta.total_children)
    assert nodes <= len(format_tree(tree).split("\n")) <= nodes + notes


def _messages(data: bytes) -> None:
    for read in (parse_consumer_message, parse_provider_message):
        try:
            message = read(data, LIMIT)
        except SightlineError:
            continue
        assert read(serialize(message), LIMIT * 8) == message


def _parser(data: bytes) -> None:
    strategy = sorted(STRATEGIES)[data[0] % len(STRATEGIES)] if data else ""
    message = parse(strategy, read_json(data[1:]))
    assert msgspec.convert(msgspec.to_builtins(message), Message) == message


def _patch(data: bytes) -> None:
    ops = decode_ops(data)
    assert decode_ops(encode_ops(ops)) == ops
    after = apply(TREE, ops, WIRE)
    assert codec.decode(codec.encode(after), WIRE) == after


def _text(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for escape in (escape_text, escape_line, escape_name):
        once = escape(text)
        assert escape(once) == once
        assert not lenient.tags(once)
    node = Node.of("n", "item", properties={"label": text, "k": text}, meta={"summary": text})
    assert "\n" not in format_tree(node)
    assert not lenient.tags(strip_blocks(strip_blocks(text))) or "<" in text


def _descriptor(data: bytes) -> None:
    found = Descriptor.read(data)
    assert Descriptor.read(found.write()) == found


def _frames(reader: FrameReader, chunks: list[bytes]) -> tuple[list[Frame], bool]:
    frames: list[Frame] = []
    try:
        for chunk in chunks:
            frames.extend(reader.feed(chunk))
        frames.extend(reader.close())
    except BrokenStream:
        return frames, False
    return frames, True


def _framing(make: Callable[[], FrameReader]) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        whole = _frames(make(), [data])
        bytewise = _frames(make(), [data[at : at + 1] for at in range(len(data))])
        assert whole == bytewise

    return check


def _decoders(data: bytes) -> None:
    for dialect in DIALECTS.values():
        whole = list(decode(dialect.decoder({}), [data]))
        half = len(data) // 2
        assert list(decode(dialect.decoder({}), [data[:half], data[half:]])) == whole


def _state(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    block, rest = extract_state(text), strip_state(text)
    if block is None:
        assert rest == text
    else:
        assert block.startswith(HEADING)
        assert block in text
        assert extract_state(block) == block
        assert extract_state(rest) is None


def _slots(data: bytes) -> None:
    prompt = read_slots(read_json(data)).render()
    assert prompt.receipt.total <= prompt.receipt.budget
    for line in prompt.receipt.slots:
        assert line.offered == line.kept + line.cut


def _session(data: bytes) -> None:
    for message in read_session(data):
        message_to_json(message)


def _world(data: bytes) -> None:
    tail = render_tail(read_world(data), AT)
    assert lenient.tags(tail.text)[-1:] in ([], ["/slop-state"], ["/slop-apps-available"])


def _bridge(data: bytes) -> None:
    record = decode_bridge(data)
    assert decode_bridge(encode_bridge(record)).tail == record.tail


_JSON = (
    b"{", b"}", b"[", b"]", b":", b",", b'"', b"null", b"true", b"0", b"-1", b"1e999", b"1.5",
    b"9" * 30, b"1e" + b"9" * 20, b'"\\ud800"', b'"\\u0000"', b'"a"', b"\xff", b"\xc3\xa9",
)  # fmt: skip
_NODE = (
    b'"id":', b'"type":', b'"properties":', b'"children":', b'"affordances":', b'"meta":',
    b'"content_ref":', b'"n":', b'{"id":"a","type":"t"}', b'"total_children":', b'"window":[0,1]',
    b'"salience":', b'"action":', b'"params":', b'"summary":',
)  # fmt: skip
_LINES = (b"data:", b"data: ", b"event: ", b"\n", b"\r", b"\r\n", b"\n\n", b":", b"\xef\xbb\xbf")

TARGETS: dict[str, Target] = {
    "tree": Target(_tree, (*_JSON, *_NODE)),
    "messages": Target(
        _messages,
        (*_JSON, b'"type":"subscribe"', b'"type":"patch"', b'"type":"snapshot"', b'"type":"batch"',
         b'"messages":', b'"id":"s"', b'"version":', b'"seq":', b'"ops":', b'"tree":', b'"path":',
         b'"filter":', b'"resume":', b'"type":"invoke"', b'"action":"a"', b'"error":'),
    ),
    "patch": Target(
        _patch,
        (*_JSON, *_NODE, b'{"op":"add","path":"/inbox/', b'{"op":"remove","path":"',
         b'{"op":"replace","path":"/', b'{"op":"move","path":"/inbox/msg-1","index":',
         b'"value":', b'"index":', b"/properties/", b"~1", b"~0", b"/-", b"/meta"),
    ),
    "text": Target(
        _text,
        (b"<", b"</", b">", b"slop-state", b"SLOP-STATE", b"slop-apps-available", b"&lt;", b"\n",
         b"\xe2\x80\x8b", b"\xef\xbc\x9c", b"actions: {", b"[item] ", b"### ", b"\\u003c", b"\x00",
         b"\xf3\xa0\x81\x93", b"<|im_start|>", b" generated_at=", b"-escaped"),
    ),
    "descriptor": Target(
        _descriptor,
        (*_JSON, b'"id":"a"', b'"name":"A"', b'"slop_version":"0.1"', b'"transport":',
         b'{"type":"unix","path":"/x"}', b'{"type":"ws","url":"ws://', b"127.0.0.1", b"[", b"]",
         b"::1", b"%", b"@", b'{"type":"stdio","command":["x"]}', b'"pid":', b'"capabilities":'),
    ),
    "sse": Target(_framing(SseReader), _LINES),
    "lines": Target(_framing(LineReader), (*_LINES, *_JSON)),
    "aws": Target(_framing(EventStreamReader), (b"\x00", b"\x00\x00\x00\x10", b":event-type",
                                                b"\x07", b"\xff\xff")),
    "decoders": Target(
        _decoders,
        (*_LINES, *_JSON, b'data: {"choices":[{"delta":', b'"content":', b'"tool_calls":',
         b'"index":0', b'"function":', b'"type":"content_block_delta"', b'"candidates":',
         b'"usage":', b'"message":', b"[DONE]", b'"finish_reason":', b'"parts":',
         b'"type":"response.'),
    ),
    "parser": Target(
        _parser,
        (*_JSON, b'"role":"assistant"', b'"role":"tool"', b'"content":', b'"parts":', b'"name":',
         b'"tool_call_id":"c"', b'"tool_calls":[', b'"function":', b'"arguments":"{}"', b'"input":',
         b'"functionCall":', b'"toolUse":', b'"type":"function_call"', b'"call_id":"c"',
         b'"thinking":', b'"output":', b'"text":"x"', b"[1]", b"0"),
    ),
    "state": Target(
        _state,
        (b"### STATE", b"\n", b"```", b"~~~", b"# ", b"## ", b"### ", b" ", b"\r", b"\xe2\x80\xa8",
         b"Goal: x", b"\t", b"    "),
    ),
    "slots": Target(
        _slots,
        (*_JSON, b'"budget":', b'"counter":"chars/4"', b'"slots":', b'"name":"x"', b'"content":',
         b'"options":', b'"priority":', b'"maxRatio":', b'"min_tokens":', b'"trim_behavior":"char"',
         b'"role":"tool"', b'"parts":', b'{"kind":"text","text":"hi"}', b'"position":',
         b'"slack":'),
    ),
    "session": Target(
        _session,
        (*_JSON, b'"kind":"session"', b'"kind":"message"', b'"role":"user"', b'"content":', b"\n",
         b'"parts":', b'{"kind":"tool_call"', b'"raw":', b'"parsing_strategy":"openai"'),
    ),
    "world": Target(_world, (*_JSON, *_NODE, b'"apps":', b'"available":', b'"name":', b'"status":',
                             b'"tree":', b'"last_seen":', b'"transport":')),
    "bridge": Target(_bridge, (*_JSON, b'"format":', b'"tail":', b'"written_at":', b'"pid":',
                               b'"started":', b'"window_s":', b'"2026-01-02T03:04:05Z"')),
}  # fmt: skip
