"""Random trees that change as apps change them: node by node, everything else shared."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from sightline.slop.protocol.path import join
from sightline.slop.protocol.siblings import WIDE
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, AvailableApp, World

# Few different ones, so that many subtrees score the same.
SALIENCES = [None, None, 0.5, 0.49, 0.3, 1, 0]


def grown(rng: random.Random, tree: Node, more: int) -> Node:
    for _ in range(more):
        tree = with_new_child(rng, tree, any_path(rng, tree))
    return tree


def with_long_list(rng: random.Random, tree: Node) -> Node:
    """A tree with a list that is long enough to be kept in chunks, with some subtrees in it."""
    kids = [Node.of(f"k{at}", "item", meta=hints(rng), children=few(rng)) for at in range(2 * WIDE)]
    return tree.with_child(Node.of("long", "group", children=kids), 0)


def few(rng: random.Random) -> list[Node]:
    return [Node.of(f"f{at}", "item") for at in range(rng.choice([0, 0, 1, 3]))]


def hints(rng: random.Random) -> dict[str, object]:
    salience = rng.choice(SALIENCES)
    made: dict[str, object] = {} if salience is None else {"salience": salience}
    if rng.random() < 0.04:
        made["pinned"] = rng.random() < 0.8
    if rng.random() < 0.04:
        made["focus"] = rng.random() < 0.8
    return made


def any_path(rng: random.Random, tree: Node) -> str:
    path, node = "/", tree
    while node.children and rng.random() < 0.75:
        node = node.children[rng.randrange(len(node.children))]
        path = join(path, node.id)
    return path


def edited(rng: random.Random, tree: Node) -> Node:
    edits: list[Callable[[random.Random, Node, str], Node]] = [
        with_new_child, with_new_child, with_other_hints, with_other_hints, with_property,
        without_a_child, with_a_move, with_another_list, with_copy,
    ]  # fmt: skip
    return rng.choice(edits)(rng, tree, any_path(rng, tree))


def with_new_child(rng: random.Random, tree: Node, path: str) -> Node:
    new = Node.of(f"n{rng.randrange(10**9)}", "item", meta=hints(rng), children=few(rng))
    return tree.change(
        path, lambda node: node.with_child(new, rng.randrange(len(node.children) + 1))
    )


def with_other_hints(rng: random.Random, tree: Node, path: str) -> Node:
    return tree.change(path, lambda node: node.with_field("meta", hints(rng)))


def with_property(rng: random.Random, tree: Node, path: str) -> Node:
    return tree.change(path, lambda node: node.with_property("n", rng.random()))


def without_a_child(rng: random.Random, tree: Node, path: str) -> Node:
    def how(node: Node) -> Node:
        return node.without_child(rng.choice(node.children).id) if node.children else node

    return tree.change(path, how)


def with_a_move(rng: random.Random, tree: Node, path: str) -> Node:
    def how(node: Node) -> Node:
        if not node.children:
            return node
        return node.with_child_moved(
            rng.choice(node.children).id, rng.randrange(len(node.children))
        )

    return tree.change(path, how)


def with_another_list(rng: random.Random, tree: Node, path: str) -> Node:
    """The same children in a list of their own, or in another order."""

    def how(node: Node) -> Node:
        kids = list(node.children)
        if rng.random() < 0.5:
            rng.shuffle(kids)
        return node.with_children(kids)

    return tree.change(path, how)


def with_copy(rng: random.Random, tree: Node, path: str) -> Node:
    """One object in two places, at two distances from the root."""
    inner = tree.at(path).with_child_list(tree.at(any_path(rng, tree)).child_list)
    return tree.change(path, lambda _: inner)


def next_world(rng: random.Random, world: World, catalogue: int) -> World:
    """Apps change their trees, come, go, disconnect, and are called otherwise."""
    apps: list[AppState] = []
    for app in world.apps:
        chance = rng.random()
        if chance < 0.08:
            continue
        if chance < 0.16:
            other = rng.choice(["connected", "awaiting", "disconnected"])
            app = replace(app, status=other, last_seen=f"{rng.randrange(9)}")  # type: ignore[arg-type]  # a status
        elif chance < 0.2:
            app = replace(app, name=f"{app.name}!")
        for _ in range(rng.choice([0, 0, 1, 2, 5])):
            if app.tree is not None:
                app = replace(app, tree=edited(rng, app.tree))
        apps.append(app)
    if rng.random() < 0.15:
        name = f"app{rng.randrange(10**6)}"
        danger = [{"action": "wipe", "dangerous": rng.random() < 0.5}]
        tree = grown(rng, Node.of(name, "root", affordances=danger), 8)
        apps.append(AppState(name, name, tree=tree))
    rng.shuffle(apps)
    available = tuple(AvailableApp(f"c{at}", f"C{at}") for at in range(catalogue))
    return World(tuple(apps), available)
