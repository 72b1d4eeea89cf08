"""What can be tried of a provider's views, by holding them against its whole tree. Pure.

A view and the tree are of one state where the tree is the same before and after it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sightline.errors import InvalidInput
from sightline.slop.conform.asking import (
    Part,
    SeenNode,
    TrialTarget,
    ask,
    code_of,
    is_count,
    paths_of,
    query,
    tries,
    walk_answer,
    whole_tree,
)
from sightline.slop.conform.trial import Message, NotShown, Trial, Verdict
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import View, project

_TRIES: Final = 3


def _view_of(views: Mapping[str, Message], tree: Node) -> Part[dict[str, list[SeenNode]] | None]:
    """Ask for views of a tree; None if they are of another version of it."""
    found: dict[str, list[SeenNode]] = {}
    for name, options in views.items():
        answer = yield from ask(query(name, **options))
        if answer.get("type") != "snapshot":
            raise NotShown(f"a query is refused: {code_of(answer)}")
        found[name] = list(walk_answer(answer.get("tree")))
    again = yield from whole_tree()
    return found if again == tree else None


def _views(
    choose: Callable[[Node], Mapping[str, Message]],
) -> Part[tuple[Node, dict[str, list[SeenNode]]]]:
    """Ask for views of one state of the app: between two equal answers it did not change."""
    for _ in range(_TRIES):
        tree = yield from whole_tree()
        found = yield from _view_of(choose(tree), tree)
        if found is not None:
            return tree, found
    raise NotShown("the state changes faster than it can be asked for")


def _shown_paths(tree: Node, view: View) -> list[str]:
    return [path for path, _ in paths_of(project(tree, view))]


def _filled(value: Message) -> set[str]:
    """The fields of a node that say something; deployed peers send empty ones."""
    return {name for name, member in value.items() if member not in (None, [], {})}


def _meta(value: Message) -> Message:
    meta = value.get("meta")
    return meta if isinstance(meta, dict) else {}


@tries("view.depth", "view.depth-leaf", "view.stub", "scaling.summary", "scaling.actions-on-stubs")
def asking_for_depth(_: TrialTarget) -> Trial:
    """Compare what is shown at some depths with the whole."""

    def choose(tree: Node) -> dict[str, Message]:
        if not any(child.children for child in tree.children):
            raise NotShown("the tree has fewer than three levels")
        rich = [child.id for child in tree.children if child.children and child.affordances]
        inner = {f"in {child_id}": {"path": f"/{child_id}"} for child_id in rich[:1]}
        return {**{f"d{depth}": {"depth": depth} for depth in range(3)}, **inner}

    tree, found = yield from _views(choose)
    deep = all(
        [seen.path for seen in found[f"d{depth}"]] == _shown_paths(tree, View(depth=depth))
        for depth in range(3)
    )
    nodes = dict(paths_of(tree))
    stubs: list[SeenNode] = []
    leaves: list[SeenNode] = []
    for depth in range(3):
        for seen in found[f"d{depth}"]:
            if seen.distance == depth and seen.path in nodes:
                (stubs if nodes[seen.path].children else leaves).append(seen)
    bare = all(
        _filled(seen.value) <= {"id", "type", "meta"}
        and _meta(seen.value).get("total_children") is not None
        for seen in stubs
    )
    kept = [seen for seen in stubs if nodes[seen.path].meta.summary]
    summarized = all(_meta(s.value).get("summary") == nodes[s.path].meta.summary for s in kept)
    whole = all(_is_whole(seen.value, nodes[seen.path]) for seen in leaves)
    opened = [shown[0].value for name, shown in found.items() if name.startswith("in ") and shown]
    open_again = bool(opened) and all(value.get("affordances") for value in opened)
    quiet = not any(seen.value.get("affordances") for seen in stubs)
    lookup = quiet and open_again if opened else None
    return [
        Verdict("view.depth", deep),
        Verdict("view.depth-leaf", whole if leaves else None, "" if leaves else "no leaf there"),
        Verdict("view.stub", bare),
        Verdict(
            "scaling.summary", summarized if kept else None, "" if kept else "no stub had a summary"
        ),
        Verdict("scaling.actions-on-stubs", lookup, "" if opened else "no stub has actions"),
    ]


def _is_whole(value: Message, node: Node) -> bool:
    try:
        shown = from_value(value)
    except InvalidInput:
        return False
    actions = [item.action for item in node.affordances]
    return shown.properties == node.properties and actions == [i.action for i in shown.affordances]


@tries("view.compacted", "view.compact-spares", "view.compact-score", "view.not-blurred")
def asking_for_few_nodes(_: TrialTarget) -> Trial:
    """Ask for fewer nodes than there are."""
    budgets: dict[str, int] = {}

    def choose(tree: Node) -> dict[str, Message]:
        count = sum(1 for _ in tree.walk())
        least = len(_shown_paths(tree, View(max_nodes=1)))
        if least == count:
            raise NotShown("nothing in the tree may be collapsed")
        budgets.update(least=least, between=(least + count) // 2)
        return {name: {"max_nodes": budget} for name, budget in budgets.items()}

    tree, found = yield from _views(choose)
    nodes = dict(paths_of(tree))
    collapsed = [
        seen
        for seen in found["least"]
        if seen.path in nodes and nodes[seen.path].children and not seen.value.get("children")
    ]
    shapes = [_is_compacted(seen.value, nodes[seen.path]) for seen in collapsed]
    shown = {seen.path for seen in found["least"]}
    spared = all(f"/{child.id}" in shown for child in tree.children)
    pinned = all(path in shown for path, node in nodes.items() if node.meta.pinned)
    scored = all(
        [seen.path for seen in found[name]] == _shown_paths(tree, View(max_nodes=budget))
        for name, budget in budgets.items()
    )
    originals = [nodes[seen.path] for seen in collapsed]
    rich = [node for node in originals if node.properties or node.affordances]
    blurred = None if not rich else all(shapes)
    return [
        Verdict("view.compacted", bool(shapes) and all(shapes)),
        Verdict("view.compact-spares", spared and pinned),
        Verdict("view.compact-score", scored),
        Verdict("view.not-blurred", blurred, "" if rich else "what is collapsed has no properties"),
    ]


def _is_compacted(value: Message, node: Node) -> bool:
    meta = _meta(value)
    counted = is_count(meta.get("total_children")) and isinstance(meta.get("summary"), str)
    return counted and _is_whole(value, node) and "content_ref" not in _filled(value)


@tries("view.filter", "view.filter-default", "view.filter-root")
def filtering(target: TrialTarget) -> Trial:
    """Ask for what is salient, and for some types."""
    target.must_offer("attention")

    def choose(tree: Node) -> dict[str, Message]:
        if not tree.children:
            raise NotShown("the tree is one node")
        levels = {f"s{n}": {"min_salience": n / 10} for n in (2, 5, 6, 10)}
        types: Message = {"types": [tree.children[0].type]}
        return {name: {"filter": wanted} for name, wanted in {**levels, "types": types}.items()}

    tree, found = yield from _views(choose)
    paths = {name: [seen.path for seen in shown] for name, shown in found.items()}
    right = {
        name: paths[name] == _shown_paths(tree, View(min_salience=level / 10))
        for name, level in (("s2", 2), ("s5", 5), ("s6", 6), ("s10", 10))
    }
    kinds = frozenset({tree.children[0].type})
    right["types"] = paths["types"] == _shown_paths(tree, View(types=kinds))
    plain = any(child.meta.salience is None for child in tree.children)
    default = right["s5"] and right["s6"] if plain else None
    return [
        Verdict("view.filter", all(right.values())),
        Verdict("view.filter-default", default, "" if plain else "every node has its salience"),
        Verdict("view.filter-root", all("/" in shown for shown in paths.values())),
    ]


@tries("view.window")
def asking_for_a_window(target: TrialTarget) -> Trial:
    """Ask for the second child of a node that has two."""
    target.must_offer("windowing")
    chosen = ["/"]

    def choose(tree: Node) -> dict[str, Message]:
        wide = [path for path, node in paths_of(tree) if _can_be_cut(node)]
        if not wide:
            raise NotShown("no node has two children")
        chosen[0] = wide[-1]
        return {"w": {"path": wide[-1], "window": [1, 1]}}

    tree, found = yield from _views(choose)
    node = tree.at(chosen[0])
    [root, *below] = found["w"]
    meta = _meta(root.value)
    near = [seen.value.get("id") for seen in below if seen.distance == 1]
    cut = (near, meta.get("window"), meta.get("total_children"))
    held = cut == ([node.children[1].id], [1, 1], node.total_children)
    return [Verdict("view.window", held)]


def _can_be_cut(node: Node) -> bool:
    return len(node.children) > 1 and node.meta.window is None


@tries("retain.ancestors")
def retaining(target: TrialTarget) -> Trial:
    """Filter with and without the ancestors of what passes."""
    target.must_offer("x-retain")
    wanted = {"level": 0.0}

    def choose(tree: Node) -> dict[str, Message]:
        for level in sorted({node.meta.salience or 0.0 for node in tree.walk()}):
            kept = [View(min_salience=level, retain_ancestors=r) for r in (True, False)]
            if _shown_paths(tree, kept[0]) != _shown_paths(tree, kept[1]):
                wanted["level"] = level
                return {"r": {"filter": {"min_salience": level, "retain_ancestors": True}}}
        raise NotShown("no node is more salient than its parent")

    tree, found = yield from _views(choose)
    view = View(min_salience=wanted["level"], retain_ancestors=True)
    return [Verdict("retain.ancestors", [s.path for s in found["r"]] == _shown_paths(tree, view))]


@tries("hint.actions")
def looking_for_hints(target: TrialTarget) -> Trial:
    """Ask for the stub of a node that has actions."""
    target.must_offer("x-actions-hint")
    chosen = ["/"]

    def choose(tree: Node) -> dict[str, Message]:
        rich = [path for path, node in paths_of(tree) if node.children and node.affordances]
        if not rich:
            raise NotShown("no node has both children and actions")
        chosen[0] = rich[0]
        return {"h": {"path": rich[0], "depth": 0}}

    tree, found = yield from _views(choose)
    names = [item.action for item in tree.at(chosen[0]).affordances]
    hinted = _meta(found["h"][0].value).get("available_actions")
    return [Verdict("hint.actions", hinted == names)]


VIEWS: Final = (
    asking_for_depth,
    asking_for_few_nodes,
    filtering,
    asking_for_a_window,
    retaining,
    looking_for_hints,
)
