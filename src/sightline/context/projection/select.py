"""Choose what of a world a model is shown, within a budget of tokens, and say what was left out.

    the same world, budget and counter give the same selection
    a node is shown whole, as a stub, or not at all; never a part of one
    every node that is not shown is counted by exactly one cut, which says why
    the block weighs what the selection says, by whatever counter, and fits unless it says not

*Theory of operation.* A selection grows from the roots. A shown node offers its
children; of all that is on offer the first by claim (pinned, focus, rest), then
relevance, then document order is taken next, as long as it fits. What no longer
fits is offered as a stub (id, type, summary), then left out. The roots and what is
pinned are shown even where the budget does not hold them; `over_budget` says so.

Lines are counted one by one, and a tokenizer may find more in a text than in its
lines. So the finished block is weighed, and while it is too much, what was taken
last is given back: the share of it that is over, and at least twice as much each time.

With several apps, `even_share` of the budget is divided evenly first, so that a
loud app cannot silence the others; the rest goes where relevance wants it.

*Cost.* One pass over each tree when it is first seen, later over what changed of it, then
work for what is shown: only nodes that are taken or refused are written and counted, those
of the last choice not again, and after a run of refusals it stops. The block is weighed
once; where it is over, a few times more, the logarithm of the budget at most.

*Folding.* An app may mark a node below its root as `meta.folded`: a catalogue, say, of which
one entry is wanted at a time. A model is shown that it is there, and its summary (`fold`); the
host knows all of it, so that an action there is decided on as anywhere. What a model focuses on
is shown below it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from heapq import heappop, heappush, heapreplace
from operator import is_
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from sightline.context.projection.escape import reveal
from sightline.context.projection.outline import Key, Outline, Ranked, size_of
from sightline.context.projection.tail import Format, app_frame, render_state, tree_body
from sightline.errors import InvalidInput
from sightline.slop.protocol.jsontext import members, text_of
from sightline.slop.protocol.path import parse_path
from sightline.slop.protocol.shapes import depth_stub
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

Reason: TypeAlias = Literal["budget", "stub", "salience", "disconnected", "awaiting"]
Counter: TypeAlias = Callable[[str], int]
_Weights: TypeAlias = dict[tuple[int, int, bool], tuple[Node, int]]

# After this many refusals in a row nothing that is worth showing is likely to fit.
_REFUSALS: Final = 32
# So many apps' costs are kept from one choice to the next.
_REMEMBERED: Final = 16
# No line of a node is shorter; a tree with more nodes than fit so need not be written out to know.
_LEAST_TOKENS: Final = 2
# What actions do may take one part in so many of the budget.
_ABOUT_PART: Final = 8
_FOLDED: Final = b'"folded"'
_TOO_LARGE: Final = "too large to show here; slop_query reads parts of it"
# A tokenizer sees the same figures in every moment that has no fraction of a second.
_ANY_SECOND: Final = datetime(2000, 1, 1, tzinfo=UTC)


# What each reason for leaving something out means to a reader.
WHY_CUT: Final[dict[str, str]] = {
    "budget": "there is no room for it in the state's share of the budget",
    "stub": "there is only room for its summary",
    "salience": "it is less salient than the threshold",
    "disconnected": "its app is not connected",
    "awaiting": "its app has shown nothing yet",
}


class Omission(msgspec.Struct, frozen=True):
    """What is not shown below one node: how many nodes, and why.

    `budget`: no room. `stub`: the node itself is shown as a stub. `salience`: below
    the threshold. `disconnected`, `awaiting`: the app has no current state.
    """

    app_id: str
    path: str
    reason: Reason
    nodes: int


class Selection(msgspec.Struct, frozen=True):
    """What is shown: a world with smaller trees, what its block weighs, and all that was cut."""

    world: World
    cuts: tuple[Omission, ...]
    tokens: int
    budget: int
    # Whether the block has room for what actions do; its tokens are those of the block with it.
    described: bool = False

    @property
    def over_budget(self) -> bool:
        """Whether what must be shown is already too much."""
        return self.tokens > self.budget


def fold(world: World, pins: Mapping[str, Collection[str]]) -> World:
    """Return the world as it is shown: `pins` are the paths in focus, by the ids of their apps."""
    apps = tuple(_folded(app, pins.get(app.id, ())) for app in world.apps)
    same = all(one is other for one, other in zip(apps, world.apps, strict=True))
    return world if same else replace(world, apps=apps)


def _folded(app: AppState, pins: Collection[str]) -> AppState:
    if app.tree is None or not any(map(_is_folded, app.tree.children)):
        return app
    focused = [ids for path in pins if (ids := parse_path(path))]
    children = tuple(
        _stub(node, {ids[1:2] for ids in focused if ids[0] == node.id})
        if _is_folded(node)
        else node
        for node in app.tree.children
    )
    return replace(app, tree=app.tree.with_child_list(children))


def _stub(node: Node, focused: set[tuple[str, ...]]) -> Node:
    """The node without its children, but for those in focus; all of it if it is so itself."""
    if () in focused:
        return node
    stub = depth_stub(node)
    shown = tuple(child for child in node.children if (child.id,) in focused)
    return stub.with_child_list(shown) if shown else stub


def _is_folded(node: Node) -> bool:
    meta = node.meta_json
    if isinstance(meta, UnsetType) or _FOLDED not in bytes(meta):
        return False
    return members(meta).get("folded") == text_of(True)


def quarter_chars(text: str) -> int:
    """Estimate tokens as a quarter of the characters, rounded up."""
    return -(-len(text) // 4)


def select(
    world: World,
    budget: int,
    count: Counter = quarter_chars,
    *,
    form: Format = "text",
    min_salience: float | None = None,
    even_share: float = 0.5,
    pins: Mapping[str, Collection[str]] | None = None,
    at: datetime = _ANY_SECOND,
) -> Selection:
    """Choose what of the state fits into `budget` tokens, the block's own framing included.

    `count` counts the tokens of a text; `pins` names, by app id, paths that are
    always shown; `at` is what the block will be dated, to be given where that has
    fractions of a second, which take room. Raises InvalidInput on a share or
    threshold that is not from 0 to 1.
    """
    if not 0 <= even_share <= 1:
        raise InvalidInput(f"even_share must be from 0 to 1, not {even_share}")
    if min_salience is not None and not 0 <= min_salience <= 1:
        raise InvalidInput(f"min_salience must be from 0 to 1, not {min_salience}")

    def weigh(shown: World) -> int:
        return count(render_state(shown, at, form))

    whole = _whole(world, budget, weigh) if min_salience is None else None
    if whole is not None:
        return _described(whole, count, at) if form == "text" else whole
    framing = weigh(World())
    purse = _Purse(budget, framing)
    growths: list[_Growth] = []
    costs: list[_Costs] = []
    for app in world.apps:
        purse.spent += count(app_frame(app, form))
        if app.live_tree is not None:
            outline = Outline(app.live_tree, (pins or {}).get(app.id, ()))
            costs.append(_CHOICES.costs(app.id, form, count))
            growths.append(_Growth(app, outline, costs[-1], min_salience))
    for growth in growths:
        growth.show_what_must_be(purse)
    if growths:
        share = int((budget - framing) * even_share / len(growths))
        for growth in growths:
            growth.grow_to(share, purse)
    _grow_together(growths, purse)
    shown, tokens = _weighed(world, growths, purse, weigh)
    _CHOICES.keep(costs)
    live = {growth.app.id for growth in growths}
    cuts = [cut for growth in growths for cut in growth.cuts()]
    cuts.extend(_no_state(app) for app in world.apps if app.id not in live)
    return Selection(shown, tuple(cuts), tokens, budget)


def select_bounded(
    world: World,
    budget: int,
    count: Counter = quarter_chars,
    *,
    form: Format = "text",
    pins: Mapping[str, Collection[str]] | None = None,
) -> Selection:
    """Select, and where even what must be shown is too much, shorten that.

    An app whose root alone is more than its share is shown as a bare root, so that it
    cannot keep the others out.
    """
    selection = select(world, budget, count, form=form, pins=pins)
    if not selection.over_budget:
        return selection
    share = budget // max(1, len(world.apps))
    apps = tuple(_with_small_root(app, share, count, form) for app in world.apps)
    return select(replace(world, apps=apps), budget, count, form=form)


def _with_small_root(app: AppState, share: int, count: Counter, form: Format) -> AppState:
    if app.tree is None:
        return app
    root = app.tree.with_child_list(UNSET)
    alone = select(World((replace(app, tree=root),)), share, count, form=form)
    if not alone.over_budget:
        return app
    return replace(app, tree=Node.of(root.id, root.type, meta={"summary": _TOO_LARGE}))


def _weighed(
    world: World, growths: list[_Growth], purse: _Purse, weigh: Callable[[World], int]
) -> tuple[World, int]:
    """What is shown and what it weighs, after giving back what turns out to be too much."""
    least = 1
    while True:
        trees = {growth.app.id: growth.tree() for growth in growths}
        apps = tuple(replace(app, tree=trees.get(app.id)) for app in world.apps)
        shown = replace(world, apps=apps)
        tokens = weigh(shown)
        if tokens <= purse.budget or not purse.taken:
            return shown, tokens
        aim = min(purse.spent * purse.budget // tokens, purse.spent - least)
        while purse.taken and purse.spent > aim:
            growth, at = purse.taken.pop()
            growth.give_back(at, purse)
        least *= 2


def _whole(world: World, budget: int, weigh: Callable[[World], int]) -> Selection | None:
    """Everything, if all of it fits: the estimates node by node round up."""
    trees = {app.id: app.live_tree for app in world.apps if app.live_tree is not None}
    if sum(map(size_of, trees.values())) > max(0, budget) // _LEAST_TOKENS:
        return None
    tokens = weigh(world)
    if tokens > budget:
        return None
    apps = tuple(app if app.id in trees else replace(app, tree=None) for app in world.apps)
    cuts = tuple(_no_state(app) for app in world.apps if app.id not in trees)
    return Selection(replace(world, apps=apps), cuts, tokens, budget)


def _described(whole: Selection, count: Counter, at: datetime) -> Selection:
    """Say what actions do, where everything else is shown and the room for it is small."""
    tokens = count(render_state(whole.world, at, described=True))
    room = min(whole.budget, whole.tokens + whole.budget // _ABOUT_PART)
    if not whole.tokens < tokens <= room:
        return whole
    return msgspec.structs.replace(whole, tokens=tokens, described=True)


def _no_state(app: AppState) -> Omission:
    reason: Reason = "disconnected" if app.status == "disconnected" else "awaiting"
    return Omission(app.id, "/", reason, 0 if app.tree is None else size_of(app.tree))


class _Purse(msgspec.Struct):
    budget: int
    spent: int
    # Whose node it is and where, in the order of taking: the last has nothing shown below it.
    taken: list[tuple[_Growth, int]] = msgspec.field(default_factory=list)

    @property
    def left(self) -> int:
        return self.budget - self.spent


# What is on offer next of a run of siblings, and its rank among them.
_Offer: TypeAlias = tuple[Key, Ranked, int]


class _Growth:
    """One app's tree, as far as it is shown by now."""

    def __init__(
        self, app: AppState, outline: Outline, costs: _Costs, min_salience: float | None
    ) -> None:
        self.app = app
        self.spent = 0
        self._outline = outline
        self._count = costs.count
        self._form = costs.form
        self._min_salience = min_salience
        self._offers: list[_Offer] = []
        self._shown: dict[int, bool] = {}  # position → whether it is whole, not a stub
        self._missing: dict[int, int] = {}  # position → children that could still be shown
        self._notes: dict[int, int] = {}  # position → tokens set aside for "(showing N of M)"
        self._note_costs: dict[tuple[int, int], int] = {}  # level and total → the same
        self._too_faint: dict[int, int] = {}  # position → nodes of children that are too faint
        self._costs: dict[tuple[int, bool], int] = {}
        self._known_costs = costs

    def show_what_must_be(self, purse: _Purse) -> None:
        for at in sorted(self._outline.always):
            self._show(at, self._cost(at, whole=True), purse, whole=True)

    def grow_to(self, share: int, purse: _Purse) -> None:
        """Take what is first on offer until the next would exceed this app's share."""
        while (best := self.best()) is not None:
            cost = self._cost(best, whole=True)
            if self.spent + cost > share or cost > purse.left:
                return
            self._next_offer()
            self._show(best, cost, purse, whole=True)
            purse.taken.append((self, best))

    def best(self) -> int | None:
        """The position that is first on offer."""
        offers = self._offers
        while offers:
            at = offers[0][0][2]
            if at not in self._shown:
                return at
            self._next_offer()
        return None

    def best_key(self) -> Key | None:
        """The sort key of what is first on offer, to compare it with other apps' first."""
        return None if self.best() is None else self._offers[0][0]

    def take(self, purse: _Purse) -> bool:
        """Take the first on offer: whole, else as a stub; say whether it fitted."""
        at = self.best()
        self._next_offer()
        if at is None:
            return False
        cost, whole = self._cost(at, whole=True), True
        if cost > purse.left and self._outline.below[at]:
            cost, whole = self._cost(at, whole=False), False
        if cost > purse.left:
            return False
        self._show(at, cost, purse, whole=whole)
        purse.taken.append((self, at))
        return True

    def give_back(self, at: int, purse: _Purse) -> None:
        """Undo the taking of a node below which nothing is shown any more."""
        whole = self._shown.pop(at)
        self._spend(-self._costs[at, whole], purse)
        for known in (self._missing, self._notes, self._too_faint):
            known.pop(at, None)
        parent = self._outline.parents[at]
        self._missing[parent] += 1
        if parent not in self._notes:
            self._notes[parent] = self._note_cost(parent)
            self._spend(self._notes[parent], purse)

    def _next_offer(self) -> None:
        if self._offers:
            _, ranked, rank = self._offers[0]
            if rank + 1 < ranked.end:
                heapreplace(self._offers, (ranked.key(rank + 1), ranked, rank + 1))
            else:
                heappop(self._offers)

    def _show(self, at: int, cost: int, purse: _Purse, *, whole: bool) -> None:
        self._shown[at] = whole
        self.spent += cost
        purse.spent += cost
        parent = self._outline.parents[at]
        if parent >= 0:
            self._missing[parent] -= 1
            if not self._missing[parent] and parent in self._notes:
                self._spend(-self._notes.pop(parent), purse)
        if whole and self._outline.below[at]:
            self._open(at)

    def _open(self, at: int) -> None:
        self._missing[at] = len(self._outline.nodes[at].children)
        self._notes[at] = self._note_cost(at)
        for ranked in self._outline.offers(at):
            if self._min_salience is not None:
                faint = ranked.leave_out(self._min_salience)
                self._too_faint[at] = self._too_faint.get(at, 0) + faint
            if ranked.end:
                heappush(self._offers, (ranked.key(0), ranked, 0))

    def _spend(self, tokens: int, purse: _Purse) -> None:
        self.spent += tokens
        purse.spent += tokens

    def _cost(self, at: int, *, whole: bool) -> int:
        """Count one node as it will be written, and the note on the children it may not show."""
        known = self._costs.get((at, whole))
        if known is not None:
            return known
        outline, costs = self._outline, self._known_costs
        node, level = outline.nodes[at], outline.levels[at]
        is_parent = whole and outline.below[at] > 0
        weighed = costs.known.get((id(node), level, whole))
        if weighed is None:
            alone = node if whole else depth_stub(node)
            if is_parent:
                alone = node.with_child_list(UNSET)
            weighed = (node, self._count(self._written(alone, level, is_parent=is_parent)))
        costs.used[id(node), level, whole] = weighed
        cost = weighed[1] + self._note_cost(at) if is_parent else weighed[1]
        self._costs[at, whole] = cost
        return cost

    def _written(self, node: Node, level: int, *, is_parent: bool) -> str:
        """One node as it will stand in the block, and what its children's list takes."""
        if self._form == "json":
            return reveal(tree_body(node, "json")) + (',"children":[],' if is_parent else ",")
        if self._form == "yaml":
            indent = "  " * (level + 3)
            text = reveal(tree_body(node, "yaml", indent), far=True)
            if level:
                text = f"{indent[2:]}- {text[len(indent) :]}"
            return f"{text}\n{indent}children:\n" if is_parent else f"{text}\n"
        indent = "  " * level
        lines = reveal(tree_body(node, "text")).split("\n")
        return "".join(f"{indent}{line}\n" for line in lines)

    def _note_cost(self, at: int) -> int:
        """Count what says that children are missing, in the longest form it may take."""
        level, total = self._outline.levels[at], self._outline.nodes[at].total_children
        cost = self._note_costs.get((level, total))
        if cost is None:
            cost = max(map(self._count, self._notes_written("  " * (level + 1), total)))
            self._note_costs[level, total] = cost
        return cost

    def _notes_written(self, indent: str, total: int) -> tuple[str, ...]:
        if self._form == "text":
            shown = f"{indent}(showing {total} of {total})\n"
            return shown, f"{indent}({total} {'child' if total == 1 else 'children'} not loaded)\n"
        note = f'"meta": {{"window":[{total},{total}],"total_children":{total}}},\n'
        return (f"    {indent}{note}",)

    def tree(self) -> Node:
        """The tree as shown; whatever lost nothing is the app's own object."""
        outline = self._outline
        built: dict[int, Node] = {}
        below = self._shown_below()
        for at in sorted(self._shown, reverse=True):
            node = outline.nodes[at]
            if self._shown[at] and not outline.below[at]:
                built[at] = node
                continue
            children = below.get(at, [])
            indexes = [outline.indexes[child] for child in children] if self._shown[at] else None
            shown = tuple([built[child] for child in children])
            built[at] = self._known_costs.part(node, indexes, shown)
        return built[0]

    def cuts(self) -> list[Omission]:
        """What is not shown, by the node below which it would stand."""
        found: list[Omission] = []
        outline = self._outline
        below = self._shown_below()
        for at in sorted(self._shown):
            if not self._shown[at]:
                found.append(Omission(self.app.id, outline.path(at), "stub", outline.below[at]))
            elif self._missing.get(at):
                shown = sum(1 + outline.below[child] for child in below.get(at, ()))
                faint = self._too_faint.get(at, 0)
                reasons: tuple[tuple[Reason, int], ...] = (
                    ("budget", outline.below[at] - shown - faint),
                    ("salience", faint),
                )
                for reason, nodes in reasons:
                    if nodes:
                        found.append(Omission(self.app.id, outline.path(at), reason, nodes))
        return found

    def _shown_below(self) -> dict[int, list[int]]:
        """The shown children of each node, in document order."""
        below: dict[int, list[int]] = {}
        for at in sorted(self._shown):
            below.setdefault(self._outline.parents[at], []).append(at)
        return below


def _grow_together(growths: list[_Growth], purse: _Purse) -> None:
    refusals = 0
    # (key of the best on offer, whose it is): keys end in a position, apps break what ties remain.
    race = [(key, at) for at, growth in enumerate(growths) if (key := growth.best_key())]
    race.sort()
    while race and refusals < _REFUSALS:
        winner = race[0][1]
        refusals = 0 if growths[winner].take(purse) else refusals + 1
        key = growths[winner].best_key()
        if key is None:
            heappop(race)
        else:
            heapreplace(race, (key, winner))


def _with_some(node: Node, indexes: list[int], shown: tuple[Node, ...]) -> Node:
    """A node with some of its children, whose indexes among all of them are given."""
    if len(shown) == len(node.children):
        same = all(new is old for new, old in zip(shown, node.children, strict=True))
        return node if same else node.with_child_list(shown)
    meta = members(node.meta_json)
    meta["total_children"] = text_of(node.total_children)
    if shown:
        window = node.meta.window
        first = (window[0] if window else 0) + indexes[0]
        meta["window"] = text_of([first, len(shown)])
    else:
        meta.pop("window", None)
    return node.with_text("meta", text_of(meta)).with_child_list(shown or UNSET)


class _Part(NamedTuple):
    """A node that lost some of its children, those it shows, and what stands for it."""

    node: Node
    indexes: list[int] | None
    children: tuple[Node, ...]
    shown: Node


class _Costs:
    """The tokens of an app's nodes, by level and whether whole: counted before, and used this time.

    Known by the nodes themselves, which never change and are held: those of one choice.
    """

    def __init__(
        self, app_id: str, form: Format, count: Counter, last: _Costs | None = None
    ) -> None:
        self.app_id = app_id
        self.form = form
        self.count = count
        self.known: _Weights = last.used if last else {}
        self.used: _Weights = {}
        self._known_parts: dict[int, _Part] = last._parts if last else {}
        self._parts: dict[int, _Part] = {}

    def part(self, node: Node, indexes: list[int] | None, children: tuple[Node, ...]) -> Node:
        """A node with some of its children, a stub without indexes; the object of last time."""
        part = self._known_parts.get(id(node))
        if (
            part is None
            or part.indexes != indexes
            or len(part.children) != len(children)
            or not all(map(is_, part.children, children))
        ):
            shown = depth_stub(node) if indexes is None else _with_some(node, indexes, children)
            part = _Part(node, indexes, children, shown)
        self._parts[id(node)] = part
        return part.shown


class _Choices:
    """The costs of the apps that were chosen from last."""

    def __init__(self) -> None:
        self._last: tuple[_Costs, ...] = ()

    def costs(self, app_id: str, form: Format, count: Counter) -> _Costs:
        for known in self._last:
            if known.app_id == app_id and known.form == form and known.count == count:
                return _Costs(app_id, form, count, known)
        return _Costs(app_id, form, count)

    def keep(self, latest: list[_Costs]) -> None:
        new = {(costs.app_id, costs.form) for costs in latest}
        kept = [old for old in self._last if (old.app_id, old.form) not in new]
        self._last = (*latest, *kept)[:_REMEMBERED]


_CHOICES: Final = _Choices()
