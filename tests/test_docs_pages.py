"""The pages of docs/ agree with the code and with each other."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from proof.__main__ import claims
from setup.site import arrows, bars, fences, loaded, lost, unread

from proof import conformance, reference
from sightline.cli.io import MAX_BYTES
from sightline.context.ledger import LedgerLimits as LedgerLimits
from sightline.context.ledger.retrieval import QueryLimits
from sightline.context.ledger.sqlite.connect import BUSY_TIMEOUT_MS
from sightline.slop.app import app as app_module
from sightline.slop.app.serving import PATIENCE
from sightline.slop.discovery.descriptor import DESCRIPTOR_BYTES
from sightline.slop.hub import client
from sightline.slop.protocol.consumer import MESSAGE_BYTES
from sightline.slop.protocol.limits import WIRE, ProviderLimits
from sightline.slop.protocol.patience import Patience
from sightline.slop.protocol.provider import CAPABILITIES
from support.page import Page
from support.share import WHOLE

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ROOT = DOCS.parent
SITE = [*PAGES, *ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("examples/*.md")]


def text(page: Path) -> str:
    return page.read_text("utf-8")


def read(name: str) -> str:
    return text(DOCS / name)


@pytest.mark.skipif(not WHOLE, reason="it waits half a minute: LAWS=whole")
def test_the_report_of_conformance_is_what_is_found() -> None:
    assert read("conformance.md") == conformance.page(), "run: python -m proof.conformance > docs/…"


async def test_the_commands_of_the_conformance_page_print_what_it_shows(tmp_path: Path) -> None:
    assert await Page(DOCS / "conformance.md", tmp_path).run() == 2


def test_the_reference_is_what_the_code_says() -> None:
    assert read("reference.md") == reference.page(), "run: python -m proof.reference > docs/…"


@pytest.mark.parametrize("page", SITE, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        assert found.is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w-]", "", h.lower().replace(" ", "-")) for h in headings}


def test_the_first_page_links_every_other() -> None:
    linked = set(re.findall(r"\]\((\w[\w./-]+\.md)\)", read("README.md")))
    others = {str(page.relative_to(DOCS)) for page in PAGES} - {"README.md"}
    assert linked == others


async def test_the_page_of_names_does_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert await Page(DOCS / "by-example.md", tmp_path).run() >= 12


@pytest.mark.parametrize("facade", reference.FACADES)
def test_every_public_name_is_imported_by_an_example(facade: str) -> None:
    blocks = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    code = [block for page in [*PAGES, ROOT / "README.md"] for block in blocks.findall(text(page))]
    code += map(text, ROOT.glob("examples/**/*.py"))
    shown = {
        alias.name
        for one in code
        for node in ast.walk(ast.parse(one))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sightline")
        for alias in node.names
    }
    # The errors are shown as a table, which its example prints.
    shown |= set(re.findall(r"^(\w+) +\w+ +\d$", read("by-example.md"), re.MULTILINE))
    assert set(importlib.import_module(facade).__all__) - shown == set()


def test_the_site_has_every_page_once() -> None:
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    pages = {str(page.relative_to(ROOT)) for page in SITE}
    assert len(listed) == len(set(listed))
    assert pages ^ set(listed) == set(), "the list of pages is in mkdocs.yml"


def test_what_a_page_of_the_site_loads_from_elsewhere_or_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="https://b.example">b</a><img src="c.png">')
    assert list(loaded(tmp_path)) == []
    assert list(lost(tmp_path)) == ["a.html links c.png, which is not there"]
    (tmp_path / "a.html").write_text('<link rel="stylesheet" href="//fonts.example/a.css">')
    (tmp_path / "b.css").write_text("@font-face { src: url(https://fonts.example/b) }")
    assert list(loaded(tmp_path)) == [
        "a.html loads //fonts.example/a.css", "b.css loads https://fonts.example/b",
    ]  # fmt: skip


def test_a_block_that_the_site_does_not_understand_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>```python file=a.py print()</p>")
    assert list(unread(tmp_path)) == ["a.html has a block of code as text"]


def test_a_drawing_of_arrows_is_a_table_on_the_site() -> None:
    drawing = "```mermaid\nflowchart LR\n  a[a]\n  a --> b\n  b --> c\n  a --> c\n```\n"
    rows = ["| used | | by |", "| --- | --- | --- |", "| `a` | → | b, c |", "| `b` | → | c |"]
    assert arrows(f"before\n\n{drawing}after") == "\n".join(["before\n", *rows, "after"])


def test_a_bar_in_the_code_of_a_table_stands_without_its_escape_on_the_site() -> None:
    assert bars("| `a \\| b` | c \\| d |\n\n`e \\| f`") == "| `a | b` | c \\| d |\n\n`e \\| f`"


@pytest.mark.parametrize("page", SITE, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_of_a_page_begins_as_the_site_reads_it(page: Path) -> None:
    begins = re.findall(r"^```.*$", fences(arrows(text(page))), re.MULTILINE)
    assert [line for line in begins if not re.fullmatch(r'```(\w+( title="[\w.]+")?)?', line)] == []


@pytest.mark.parametrize("page", SITE, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_list_stands_apart_from_the_words_before_it_or_the_site_takes_it_for_text(
    page: Path,
) -> None:
    prose = re.sub(r"^```.*?^```$", "", text(page), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^(?![-#| ]).+\n- .*$", prose, re.MULTILINE) == []


def in_binary(size: int) -> str:
    unit, name = (1024 * 1024, "MiB") if size >= 1024 * 1024 else (1024, "KiB")
    assert size % unit == 0
    return f"{size // unit} {name}"


def test_the_limits_are_the_real_ones() -> None:
    table = read("operations.md").partition("## Limits")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    shown = {row[0].strip(): row[1].strip() for row in rows[2:]}
    provider, ledger, query = ProviderLimits(), LedgerLimits(), QueryLimits()
    patience = Patience()
    assert app_module.INVOKE_S == client.INVOKE_S
    assert ledger.memo == ledger.scratchpad
    assert shown == {
        "a message to an app": in_binary(provider.message_bytes),
        "a message to a consumer": in_binary(MESSAGE_BYTES),
        "a snapshot": in_binary(provider.snapshot_bytes),
        "nodes of a tree on the wire": f"{provider.snapshot_nodes:,}",
        "levels of a tree on the wire": str(WIRE.levels),
        "levels of a message's JSON": str(WIRE.message_levels),
        "a node on the wire, its children not counted": in_binary(WIRE.node_bytes or 0),
        "a string in a tree": in_binary(WIRE.string_bytes),
        "an id": f"{WIRE.id_bytes} bytes",
        "subscriptions of a connection": str(provider.subscriptions),
        "actions under way of a connection": str(provider.invocations),
        "operations of a patch": f"{provider.patch_ops:,}",
        "queued for a slow reader": in_binary(provider.queue_bytes),
        "connections of an app": f"{provider.connections:,}",
        "nothing taken by a reader while something is sent to it": f"{patience.unread_s:g} s",
        "versions kept for resuming": str(provider.kept_versions),
        "work on what one connection sends": (
            f"{patience.busy_share * 100:g} % of the time, {patience.busy_s:g} s at once"
        ),
        "held back for too much work": f"{patience.held_s:g} s",
        "messages of an app that cannot be read, or do not follow": (
            f"{patience.faults} in {patience.faults_s:g} s"
        ),
        "unreadable messages of a consumer": f"{PATIENCE.faults:,} in {PATIENCE.faults_s:g} s",
        "before an app that was let go is tried again": f"{patience.rest_s:g} s",
        "an action": f"{client.INVOKE_S:g} s",
        "a connected app that says nothing": (
            f"asked after {client.SILENT_S / 2:g} s, {client.SILENT_S:g} s in all"
        ),
        "connecting and hello": f"{client.HANDSHAKE_S:g} s",
        "a descriptor file": in_binary(DESCRIPTOR_BYTES),
        "a stored message": in_binary(ledger.message),
        "a memo, the scratchpad": in_binary(ledger.memo),
        "a state block": in_binary(ledger.state),
        "a model's SQL": f"{query.seconds:g} s",
        "rows of its answer": str(query.rows),
        "waiting for a locked ledger": f"{BUSY_TIMEOUT_MS // 1000} s",
        "input of a command": in_binary(MAX_BYTES),
    }


def test_the_additions_are_those_that_a_provider_announces() -> None:
    listed = re.findall(r"^\| `(x-[\w-]+)` \|", read("protocol-additions.md"), re.MULTILINE)
    assert sorted(listed) == sorted(name for name in CAPABILITIES if name.startswith("x-"))


async def test_the_commands_of_the_operations_page_print_what_it_shows(tmp_path: Path) -> None:
    assert await Page(DOCS / "operations.md", tmp_path).run() == 3


def test_every_boundary_of_the_security_page_names_tests_that_exist() -> None:
    page = (DOCS / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!boundary|---)(.*) \|$", page, re.MULTILINE)
    assert len(rows) >= 25
    for row in rows:
        *_, tests = cells = row.split(" | ")
        assert len(cells) == 5, row
        files = re.findall(r"`(tests/[\w/]+\.py)`", tests)
        assert files, row
        assert all((DOCS.parent / name).is_file() for name in files), row
        named = re.findall(r"`([a-z]+)`", tests.partition("claim")[2])
        assert set(named) <= set(claims()), row
