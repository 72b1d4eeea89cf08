"""How large a tree may be, and how much a provider takes and keeps.

A string, an id and the nesting of one value are always bounded: what is within
them can be handled without surprises. How many levels and nodes a tree may have
matters where it crosses a wire, so those two are open until `WIRE` sets them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from sightline.slop.protocol.ids import ID_BYTES
from sightline.slop.protocol.jsontext import NESTING

# The shortest node, as JSON. So a text has at most one node for each so many bytes.
NODE_BYTES: Final = len('{"id":"a","type":"b"}')


class Limits(msgspec.Struct, frozen=True):
    """Upper bounds, all settable. None is no bound.

    `node_bytes` is for all of a node but its children; `message_levels` for the nesting of
    the JSON in which a tree travels.
    """

    levels: int | None = None
    nodes: int | None = None
    node_bytes: int | None = None
    id_bytes: int = ID_BYTES
    string_bytes: int = 256 * 1024
    value_levels: int = 64
    message_levels: int = NESTING


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """What a provider takes from one connection and keeps for it, and how many it serves.

    `queue_bytes` bounds what waits for a reader, as it will be sent; `own_bytes` what of it
    is in memory for this reader alone. A patch is kept once for all who get it, so a reader
    in company may be far behind before it costs anything, and one alone gets a snapshot
    sooner: with what the transport holds, a stalled reader costs less than 128 KiB beyond
    the snapshot of its version, which all its readers share.
    """

    message_bytes: int = 1024 * 1024
    message_levels: int = NESTING
    snapshot_bytes: int = 16 * 1024 * 1024
    snapshot_nodes: int = 50_000
    subscriptions: int = 64
    invocations: int = 64
    patch_ops: int = 1024
    queue_bytes: int = 256 * 1024
    own_bytes: int = 64 * 1024
    kept_versions: int = 256
    connections: int = 10_000


DEFAULT: Final = Limits()
WIRE: Final = Limits(levels=64, nodes=50_000, node_bytes=1024 * 1024)
