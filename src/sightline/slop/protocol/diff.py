"""What changed between two trees, as operations.

    apply(old, diff(old, new)) == new        order, nulls and unknown fields included
    diff(tree, tree) == []

*Cost.* The walk stops where both trees hold the same object, and skips shared
chunks of long child lists unseen: after a change through `Node.change` it looks
at the path to the change and at nothing else.

*Order of children.* First removals, then the fewest moves that put what stays
into its new order (everything outside a longest increasing run of old positions
moves once), then additions from left to right, each at its final index.

*Order of members.* Members of `properties` and `meta` keep their order too, for
it shows in the canonical text. A field op appends; what must come after a new
member is removed and added again.

*Deployed mirrors.* Mirrors of the 0.2 era mishandle some field ops (see
`_FieldChanges.risky`). Such a change is a replacement of the whole child, which they
all apply. With `fields` the ops are for a mirror that takes those field ops too, and
the child is replaced only where that takes fewer bytes. A change of the root itself
has no such way out: `needs_snapshot` tells the caller to send a snapshot instead.
SLOP's patch paths have no field `type`: another type is another child.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sightline.slop.protocol import codec
from sightline.slop.protocol.jsontext import JsonText, members, same, text_of
from sightline.slop.protocol.patch import Op
from sightline.slop.protocol.path import PatchPath, escape, parse_patch_path
from sightline.slop.protocol.siblings import Chunk, Siblings
from sightline.slop.protocol.tree import TEXT_FIELDS, Node, same_extra, same_presence

# What an operation takes beside its path and its value.
_OP_BYTES: Final = len('{"op":"replace","path":"","value":},')
_NULL: Final = Raw(b"null")


def diff(old: Node, new: Node, *, fields: bool = False) -> list[Op]:
    """Return the operations that turn `old` into `new`; see above for `fields`."""
    ops: list[Op] = []
    stack: list[tuple[Node, Node, str]] = [] if old is new else [(old, new, "")]
    while stack:
        before, after, path = stack.pop()
        changes = _field_changes(before, after, path)
        whole = changes.whole or (path and changes.risky and not (fields and changes.pay(after)))
        if whole:
            ops.append(Op("replace", path or "/", Raw(codec.encode(after))))
            continue
        ops.extend(changes.ops)
        if isinstance(after.child_list, (tuple, Siblings)):
            kept = _child_ops(before.children, after.children, path, ops)
            stack.extend((a, b, f"{path}/{b.id}") for a, b in reversed(kept))
    return ops


def needs_snapshot(before: Node, ops: Iterable[Op], *, fields: bool = False) -> bool:
    """Tell whether ops change this root in a way that such a mirror cannot follow."""
    return any(_is_beyond_mirrors(before, parse_patch_path(op.path), fields) for op in ops)


def _is_beyond_mirrors(root: Node, path: PatchPath, fields: bool) -> bool:
    if path.ids or (fields and path.field is not None):
        return False
    if not path.tokens or "" in path.tokens:
        return True
    # The first member of a field that is there and empty is as bad as the field itself.
    return path.field in ("properties", "meta") and not members(root.text(path.field))


class _FieldChanges(msgspec.Struct):
    """How one node's own fields changed.

    `risky` ops are those that deployed mirrors mishandle: a field gained, lost or
    replaced as a whole, and the empty member name. `whole` is a change that no
    field op can carry: another id or type, or a field that the protocol does not name.
    """

    ops: list[Op]
    risky: bool = False
    whole: bool = False

    def pay(self, after: Node) -> bool:
        """Whether these ops take fewer bytes than the node; it is looked at until that is known."""
        left = sum(_OP_BYTES + len(op.path) + len(op.value or b"") for op in self.ops)
        for node in after.walk():
            left -= node.own_bytes
            if left < 0:
                return True
        return False


_NO_CHANGES: Final = _FieldChanges([])


def _field_changes(before: Node, after: Node, path: str) -> _FieldChanges:
    gains_or_loses_list = not after.child_list and not same_presence(
        before.child_list, after.child_list
    )
    if not gains_or_loses_list and before.same_fields(after):
        return _NO_CHANGES
    if before.id != after.id or before.type != after.type or not same_extra(before, after):
        return _FieldChanges([], whole=True)
    changes = _FieldChanges([])
    for name in TEXT_FIELDS:
        _text_changes(name, before.text(name), after.text(name), path, changes)
    if gains_or_loses_list:
        children = UNSET if after.child_list is UNSET else text_of(after.child_list)
        current = UNSET if before.child_list is UNSET else _NULL
        changes.ops.append(_whole_field_op(current, children, f"{path}/children"))
        changes.risky = True
    return changes


def _text_changes(
    name: str, before: JsonText, after: JsonText, path: str, changes: _FieldChanges
) -> None:
    if same(before, after):
        return
    where = f"{path}/{name}"
    if name in ("properties", "meta") and _is_object(before) and _is_object(after):
        old, new = members(before), members(after)
        changes.ops.extend(_member_ops(old, new, where))
        changes.risky |= not old or not same(old.get("", UNSET), new.get("", UNSET))
    else:
        changes.ops.append(_whole_field_op(before, after, where))
        changes.risky = True


def _whole_field_op(before: JsonText, after: JsonText, where: str) -> Op:
    if isinstance(after, UnsetType):
        return Op("remove", where)
    return Op("add" if isinstance(before, UnsetType) else "replace", where, after)


def _is_object(text: JsonText) -> bool:
    return not isinstance(text, UnsetType) and text != _NULL


def _member_ops(old: dict[str, Raw], new: dict[str, Raw], where: str) -> list[Op]:
    """Change members so that their order comes out right, when an add goes to the end."""
    positions = {key: position for position, key in enumerate(old)}
    staying: list[str] = []
    last = -1
    for key in new:
        position = positions.get(key, -1)
        if position <= last:
            break
        staying.append(key)
        last = position
    kept = set(staying)
    ops = [Op("remove", f"{where}/{escape(key)}") for key in old if key not in kept]
    ops.extend(
        Op("replace", f"{where}/{escape(key)}", new[key])
        for key in staying
        if not same(old[key], new[key])
    )
    ops.extend(
        Op("add", f"{where}/{escape(key)}", text) for key, text in new.items() if key not in kept
    )
    return ops


def _child_ops(
    before: Sequence[Node], after: Sequence[Node], path: str, ops: list[Op]
) -> list[tuple[Node, Node]]:
    """Append the ops that add, remove and reorder children; return the pairs left to compare."""
    old, new, skipped = _without_shared_ends(before, after)
    pairs: list[tuple[Node, Node]] = []
    start, stop = 0, min(len(old), len(new))
    while start < stop and (old[start] is new[start] or old[start].id == new[start].id):
        start += 1
    tail = 0
    while tail < stop - start and old[-1 - tail].id == new[-1 - tail].id:
        tail += 1
    head_pairs = zip(old[:start], new[:start], strict=True)
    pairs.extend((a, b) for a, b in head_pairs if a is not b)
    middle_old, middle_new = old[start : len(old) - tail], new[start : len(new) - tail]
    if middle_old or middle_new:
        pairs.extend(_rearrange(middle_old, middle_new, path, skipped + start, ops))
    tail_pairs = zip(old[len(old) - tail :], new[len(new) - tail :], strict=True)
    pairs.extend((a, b) for a, b in tail_pairs if a is not b)
    return pairs


def _without_shared_ends(
    before: Sequence[Node], after: Sequence[Node]
) -> tuple[Sequence[Node], Sequence[Node], int]:
    """Drop the chunks that two long lists share at either end; say how many nodes came before."""
    if not (isinstance(before, Siblings) and isinstance(after, Siblings)):
        return tuple(before), tuple(after), 0
    old, new = before.chunks, after.chunks
    stop = min(len(old), len(new))
    start = 0
    while start < stop and old[start] is new[start]:
        start += 1
    tail = 0
    while tail < stop - start and old[-1 - tail] is new[-1 - tail]:
        tail += 1
    skipped = sum(len(chunk.nodes) for chunk in old[:start])
    return _flat(old[start : len(old) - tail]), _flat(new[start : len(new) - tail]), skipped


def _flat(chunks: Iterable[Chunk]) -> tuple[Node, ...]:
    return tuple(chain.from_iterable(chunk.nodes for chunk in chunks))


def _rearrange(
    old: Sequence[Node], new: Sequence[Node], path: str, first: int, ops: list[Op]
) -> list[tuple[Node, Node]]:
    """Remove, move and add, in this order; `first` is the index at which both lists begin."""
    wanted = {node.id for node in new}
    stays: dict[str, tuple[int, Node]] = {}
    for node in old:
        if node.id in wanted:
            stays[node.id] = (len(stays), node)
        else:
            ops.append(Op("remove", f"{path}/{node.id}"))
    kept = [node for node in new if node.id in stays]
    ranks = [stays[node.id][0] for node in kept]
    for position, index in _moves(ranks):
        ops.append(Op("move", f"{path}/{kept[position].id}", index=first + index))
    for index, node in enumerate(new):
        if node.id not in stays:
            value = Raw(codec.encode(node))
            ops.append(Op("add", f"{path}/{node.id}", value, first + index))
    pairs = ((stays[node.id][1], node) for node in kept)
    return [(a, b) for a, b in pairs if a is not b]


def _moves(ranks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Sort a list by the fewest moves.

    `ranks[i]` is where the item that belongs at `i` stands now. Yields (i, index): the
    item that belongs at `i` goes to `index`, counted after it has been taken out.
    """
    fixed = _longest_increasing(ranks)
    if len(fixed) == len(ranks):
        return
    # Items that still wait for their move stand between the fixed ones, where they always stood.
    waiting = sorted(set(ranks) - fixed)
    anchor = -1
    for position, rank in enumerate(ranks):
        if rank in fixed:
            anchor = rank
            continue
        del waiting[bisect_left(waiting, rank)]
        # Before it: as many items as its position says, in order already, and whoever still waits
        # left of the last fixed one.
        yield position, position + bisect_left(waiting, anchor)


def _longest_increasing(ranks: Sequence[int]) -> set[int]:
    """Return the values of a longest increasing subsequence of distinct numbers."""
    tails: list[int] = []
    before: dict[int, int] = {}
    for rank in ranks:
        at = bisect_left(tails, rank)
        if at:
            before[rank] = tails[at - 1]
        tails[at : at + 1] = [rank]
    chosen: set[int] = set()
    rank = tails[-1] if tails else -1
    while rank >= 0:
        chosen.add(rank)
        rank = before.get(rank, -1)
    return chosen
