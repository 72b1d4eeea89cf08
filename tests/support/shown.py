"""A reader of state blocks, whole ones and those that say what changed, by their text alone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from support.blocks import body_of

NODE = re.compile(r"( *)\[[^\]]*\] ([^ :]+)")


@dataclass
class Read:
    """A node as the reader knows it."""

    text: str
    children: dict[str, Read] = field(default_factory=dict)

    def at(self, path: str) -> Read:
        node = self
        for node_id in filter(None, path.split("/")):
            node = node.children[node_id]
        return node

    def put(self, node_id: str, node: Read, after: str | None) -> None:
        """Put a child in its place: where it was, last if it is new, or behind another."""
        known = self.children.pop(node_id, None) if after is not None else None
        known = known or self.children.get(node_id)
        node.children = node.children or (known.children if known else {})
        if after is None:
            self.children[node_id] = node
            return
        ids = list(self.children)
        ids.insert(ids.index(after) + 1 if after else 0, node_id)
        self.children = {one: node if one == node_id else self.children[one] for one in ids}


Apps = dict[str, tuple[Read | None, str]]


def read(apps: Apps, block: str) -> Apps:
    """Read a block of text: all of it is new, or it is what changed of the apps known so far."""
    lines = body_of(block).split("\n")
    if lines.pop(0) == "## SLOP Apps":
        apps = {}
    apps = dict(apps)
    sections = re.split(r"^### .*\((\S+)\)\n", "\n".join(lines), flags=re.MULTILINE)
    for app_id, body in zip(sections[1::2], sections[2::2], strict=True):
        lines_of_app = body.removesuffix("\n").split("\n")
        if lines_of_app == ["(gone)"]:
            del apps[app_id]
        elif app_id not in apps or lines_of_app[0] == "(as a whole)":
            apps[app_id] = section(lines_of_app[lines_of_app[0] == "(as a whole)" :], None, "")
        else:
            apps[app_id] = section(lines_of_app, *apps[app_id])
    return apps


def section(lines: list[str], root: Read | None, below: str) -> tuple[Read | None, str]:
    parent: Read | None = None
    after: str | None = None
    last: dict[int, Read] = {}
    for line in lines:
        node = NODE.match(line)
        if node is not None:
            level, found = len(node[1]) // 2, Read(line.strip())
            if level == 0:
                found.children = {} if root is None else root.children
                root = found
            elif level == 1 and parent is not None:
                parent.put(node[2], found, after)
                after = None
            else:
                last[level - 1].children[node[2]] = found
            last = {**last, level: found, -1: found}
        elif line.startswith("below "):
            assert root is not None
            parent = root.at(line.removeprefix("below ").removesuffix(":"))
        elif line.startswith("  gone: "):
            assert parent is not None
            del parent.children[line.removeprefix("  gone: ")]
        elif line == "  first:" or line.startswith("  after "):
            after = "" if line == "  first:" else line.removeprefix("  after ").removesuffix(":")
        elif line.startswith(" "):
            last[-1].text += line.strip()
        else:
            below = "" if line.endswith(": none") else line
    return root, below


def read_json(apps: Apps, block: str) -> Apps:
    """The same for a block of JSON, which is YAML where that holds changes."""
    body = json.loads(body_of(block))
    apps = {} if "apps" in body else dict(apps)
    for app in body.get("apps", body.get("changed")):
        if app.pop("gone", False):
            del apps[app["id"]]
            continue
        tree, gone, nodes = (app.pop(key, None) for key in ("tree", "gone_nodes", "nodes"))
        is_whole = app.pop("whole", False) or "apps" in body
        root = None if is_whole else apps[app["id"]][0]
        if tree is not None:
            root = from_json(tree)
        for path in gone or ():
            assert root is not None
            up, _, node_id = path.rpartition("/")
            del root.at(up).children[node_id]
        for node in nodes or ():
            root = put_json(root, node)
        apps[app["id"]] = root, json.dumps(app)
    return apps


def from_json(tree: dict[str, Any]) -> Read:
    children = tree.get("children")
    alone = {key: value for key, value in tree.items() if key != "children" or not value}
    return Read(json.dumps(alone), {child["id"]: from_json(child) for child in children or ()})


def put_json(root: Read | None, named: dict[str, Any]) -> Read:
    found = Read(json.dumps(named["node"]))
    up, _, node_id = named["path"].rpartition("/")
    if not node_id or root is None:
        found.children = {} if root is None else root.children
        return found
    after = (named["after"] or "") if "after" in named else None
    root.at(up).put(node_id, found, after)
    return root


def known(node: Read | None) -> Any:
    """All that the reader knows of a node, order included."""
    if node is None:
        return None
    return node.text, [(key, known(child)) for key, child in node.children.items()]
