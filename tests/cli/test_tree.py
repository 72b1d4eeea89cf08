"""The tree filters: what goes in, what comes out, and what a mistake looks like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightline.demo import demo_tree
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.text import format_tree
from support.shell import Run

DEMO = encode(demo_tree())
SMALL = b'{"id":"a","type":"root","properties":{"n":1},"children":[{"id":"b","type":"item"}]}'


def test_format_writes_the_canonical_text(sightline: Run) -> None:
    done = sightline("tree", "format", stdin=DEMO)
    assert done.stdout.decode() == format_tree(demo_tree()) + "\n"
    assert done.stderr == b""
    assert done.returncode == 0


def test_format_reads_a_file(sightline: Run, tmp_path: Path) -> None:
    (tmp_path / "tree.json").write_bytes(SMALL)
    done = sightline("tree", "format", "tree.json")
    assert done.stdout == b"[root] a (n=1)\n  [item] b\n"


def test_check_counts_the_nodes_of_a_legal_tree(sightline: Run) -> None:
    done = sightline("tree", "check", stdin=DEMO)
    assert json.loads(done.stdout) == {"valid": True, "nodes": 11}
    assert done.returncode == 0


def test_check_lists_every_violation_and_exits_with_2(sightline: Run) -> None:
    bad = '{"id":"a/b","children":[{"id":"x","type":1},{"id":"x","type":"t"}]}'
    done = sightline("tree", "check", stdin=bad)
    report = json.loads(done.stdout)
    assert report["valid"] is False
    assert [item["path"] for item in report["violations"]] == [
        "/id",
        "/",
        "/children/1/id",
        "/x/type",
    ]
    assert done.returncode == 2


def test_check_knows_the_limits_of_the_wire(sightline: Run) -> None:
    deep = {"id": "x", "type": "t"}
    for _ in range(64):
        deep = {"id": "x", "type": "t", "children": [deep]}  # type: ignore[dict-item]
    done = sightline("tree", "check", stdin=json.dumps(deep))
    assert "more than 64 levels" in done.stdout.decode()
    assert sightline("tree", "check", "--max-levels", "65", stdin=json.dumps(deep)).returncode == 0


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--depth", "1"], ["desk", "account", "inbox", "calendar", "drafts"]),
        (["--path", "/calendar"], ["calendar", "evt-7", "evt-8"]),
        (["--path", "/inbox", "--window", "1,2"], ["inbox", "msg-103", "msg-102"]),
        (["--min-salience", "0.8"], ["desk", "inbox", "msg-104"]),
        (["--types", "view"], ["desk", "inbox", "calendar", "drafts"]),
        (
            ["--min-salience", "0.95", "--retain-ancestors"],
            ["desk", "inbox", "msg-104"],
        ),
        (["--path", "/calendar", "--max-nodes", "1"], ["calendar", "evt-7", "evt-8"]),
    ],
)
def test_project_shows_what_a_subscriber_sees(
    sightline: Run, options: list[str], ids: list[str]
) -> None:
    done = sightline("tree", "project", *options, stdin=DEMO)
    shown: list[str] = []
    stack = [json.loads(done.stdout)]
    while stack:
        node = stack.pop()
        shown.append(node["id"])
        stack.extend(reversed(node.get("children", [])))
    assert shown == ids


def test_project_lists_the_actions_of_stubs_on_request(sightline: Run) -> None:
    done = sightline("tree", "project", "--depth", "1", "--available-actions", stdin=DEMO)
    inbox = json.loads(done.stdout)["children"][1]
    assert inbox["meta"]["available_actions"] == ["compose"]
    assert "affordances" not in inbox


def test_patch_undoes_what_diff_saw(sightline: Run, tmp_path: Path) -> None:
    old = demo_tree()
    new = old.change("/inbox/msg-104", lambda node: node.with_property("unread", False))
    (tmp_path / "old.json").write_bytes(encode(old))
    ops = sightline("tree", "diff", "old.json", "-", stdin=encode(new))
    assert json.loads(ops.stdout) == [
        {"op": "replace", "path": "/inbox/msg-104/properties/unread", "value": False}
    ]
    patched = sightline("tree", "patch", "old.json", "-", stdin=ops.stdout)
    assert json.loads(patched.stdout) == json.loads(encode(new))


@pytest.mark.parametrize(
    ("args", "stdin", "message"),
    [
        (["format", "none.json"], b"", "none.json: No such file or directory"),
        (["format", "."], b"", ".: Is a directory"),
        (["format"], b"", "stdin: line 1, column 1: expecting value, but the text ends here"),
        (["format"], b'{"id":"a",\n "type": tru}', "stdin: line 2, column 10: expecting value"),
        (["format"], b'{"id":"\xff"}', "stdin: line 1, column 8: not UTF-8"),
        (["format"], b"[1]", "stdin: /: a node must be an object, not a list"),
        (["format"], b'{"id":"a"}', "stdin: /: a node must have a type"),
        (
            ["format", "--max-bytes", "9"],
            SMALL,
            "stdin: more than 9 bytes; --max-bytes raises the limit",
        ),
        (["project", "--path", "/zz"], SMALL, "/zz: / has no child 'zz'"),
        (["project", "--path", "//b"], SMALL, "//b: a path must not have empty segments"),
        (
            ["project", "--window", "1"],
            SMALL,
            "--window must be OFFSET,COUNT, two whole numbers: 1",
        ),
        (["project", "--window", "-1,2"], SMALL, "a window's offset and count must be 0 or more"),
        (["project", "--depth", "-2"], SMALL, "depth must be -1 (unlimited) or more, not -2"),
        (["project", "--max-nodes", "0"], SMALL, "max_nodes must be 1 or more, not 0"),
        (["project", "--min-salience", "nan"], SMALL, "min_salience must be from 0 to 1, not nan"),
        (["diff", "-", "-"], b"", "only one of the two can be stdin"),
    ],
)
def test_a_mistake_is_one_clear_line(
    sightline: Run, args: list[str], stdin: bytes, message: str
) -> None:
    done = sightline("tree", *args, stdin=stdin)
    assert done.stderr.decode() == f"sightline: {message}\n"
    assert done.stdout == b""
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ("{}", "a patch must be a list of operations"),
        (
            '[{"op":"jump","path":"/b"}]',
            "op 0 (jump /b): 'op' must be add, remove, replace or move",
        ),
        ('[{"op":"remove","path":"/zz"}]', "op 0 (remove /zz): there is no child 'zz'"),
        (
            '[{"op":"add","path":"/b/properties/x"}]',
            "op 0 (add /b/properties/x): add needs a value",
        ),
        ('[{"op":"move","path":"/b","index":7}]', "op 0 (move /b): index 7 is not from 0 to 0"),
    ],
)
def test_a_bad_patch_names_the_operation(
    sightline: Run, tmp_path: Path, ops: str, message: str
) -> None:
    (tmp_path / "tree.json").write_bytes(SMALL)
    done = sightline("tree", "patch", "tree.json", "-", stdin=ops)
    assert done.stderr.decode() == f"sightline: stdin: {message}\n"
    assert done.stdout == b""
    assert done.returncode == 2


def test_a_tree_of_ten_thousand_levels_passes_through_a_pipe(sightline: Run) -> None:
    deep = '{"id":"n","type":"t","children":[' * 10_000 + '{"id":"n","type":"t"}' + "]}" * 10_000
    done = sightline("tree", "project", "--path", "/n/n", "--depth", "3", stdin=deep)
    assert done.returncode == 0, done.stderr
    assert sightline("tree", "project", stdin=deep).stdout.decode().strip() == deep
