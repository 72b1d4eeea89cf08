"""`sightline tree …`: filters over state trees, for pipes and scripts."""

from __future__ import annotations

from typing import Any

import click

from sightline.cli.io import (
    STDIN,
    max_bytes_option,
    naming,
    read_as,
    read_bytes,
    read_window,
    source_argument,
)
from sightline.cli.options import examples
from sightline.cli.out import write_json, write_text
from sightline.errors import InvalidInput, InvalidTree
from sightline.slop.protocol.codec import decode, encode
from sightline.slop.protocol.diff import diff as diff_trees
from sightline.slop.protocol.limits import WIRE, Limits
from sightline.slop.protocol.patch import apply, decode_ops, encode_ops
from sightline.slop.protocol.text import format_blocks
from sightline.slop.protocol.view import View
from sightline.slop.protocol.view import project as project_tree


@click.group()
def tree() -> None:
    """Check, format, project, diff and patch state trees.

    Every command reads JSON from a file, or from stdin where the file is left out
    or is `-`, and writes to stdout.
    """


@examples("sightline tree format state.json", "sightline demo --json | sightline tree format")
@tree.command("format")
@source_argument
@max_bytes_option
def format_(source: str, max_bytes: int) -> None:
    """Write a tree as canonical text, one line per node, as a model reads it."""
    write_text(format_blocks(read_as(decode, source, max_bytes)))


@examples(
    "sightline tree check state.json",
    "sightline demo --json | sightline tree check --max-nodes 100",
)
@tree.command()
@source_argument
@click.option("--max-levels", type=click.IntRange(min=1), default=WIRE.levels, show_default=True)
@click.option("--max-nodes", type=click.IntRange(min=1), default=WIRE.nodes, show_default=True)
@max_bytes_option
@click.pass_context
def check(ctx: click.Context, source: str, max_levels: int, max_nodes: int, max_bytes: int) -> None:
    """Check a tree against every rule and the limits of the wire.

    Writes {"valid": true, …} with the tree's size, or {"valid": false, "violations":
    […]} with the path and the rule of each, and exits with 2.
    """
    with naming(source):
        data = read_bytes(source, max_bytes)
        try:
            root = decode(data, Limits(levels=max_levels, nodes=max_nodes))
        except InvalidTree as error:
            found = [{"path": item.path, "rule": item.rule} for item in error.violations]
            write_json({"valid": False, "violations": found})
            ctx.exit(error.exit_code)
    write_json({"valid": True, "nodes": sum(1 for _ in root.walk())})


@examples(
    "sightline tree project --depth 1 state.json",
    "sightline tree project --path /inbox --window 0,2 state.json",
    "sightline demo --json | sightline tree project --min-salience 0.8 | sightline tree format",
)
@tree.command()
@source_argument
@click.option("--path", default="/", show_default=True, help="The node to start from.")
@click.option("--depth", type=int, default=-1, help="Levels below it to resolve; -1 is all.")
@click.option("--max-nodes", type=int, help="Collapse the least relevant subtrees beyond this.")
@click.option("--min-salience", type=float, help="Drop what is less salient, with all below it.")
@click.option("--types", metavar="A,B", help="Keep only these types.")
@click.option("--window", metavar="OFFSET,COUNT", help="A slice of the node's children.")
@click.option("--retain-ancestors", is_flag=True, help="Keep what leads to a node that is kept.")
@click.option("--available-actions", is_flag=True, help="List the actions of depth stubs.")
@max_bytes_option
def project(
    *, source: str, path: str, types: str | None, window: str | None, max_bytes: int, **given: Any
) -> None:
    """Show what a subscriber sees: filter, then depth, then node budget, then window."""
    view = View(
        types=None if types is None else frozenset(types.split(",")),
        window=None if window is None else read_window(window),
        **given,
    )
    root = read_as(decode, source, max_bytes)
    write_json(encode(project_tree(root.at(path), view)))


@examples(
    "sightline tree diff old.json new.json",
    "sightline demo --json | sightline tree diff old.json -",
)
@tree.command()
@click.argument("old")
@click.argument("new")
@max_bytes_option
def diff(old: str, new: str, max_bytes: int) -> None:
    """Write the operations that turn OLD into NEW, as a JSON list."""
    _check_one_stdin(old, new)
    before = read_as(decode, old, max_bytes)
    after = read_as(decode, new, max_bytes)
    write_json(encode_ops(diff_trees(before, after)))


@examples(
    "sightline tree patch old.json ops.json",
    "sightline tree diff old.json new.json | sightline tree patch old.json -",
)
@tree.command()
@click.argument("source", metavar="TREE")
@click.argument("ops")
@max_bytes_option
def patch(source: str, ops: str, max_bytes: int) -> None:
    """Apply the operations in OPS to TREE and write the new tree."""
    _check_one_stdin(source, ops)
    root = read_as(decode, source, max_bytes)
    write_json(read_as(lambda data: encode(apply(root, decode_ops(data))), ops, max_bytes))


def _check_one_stdin(first: str, second: str) -> None:
    if first == second == STDIN:
        raise InvalidInput("only one of the two can be stdin")
