"""The page's files: vendored ones unchanged, ours reachable, an export that stands alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files

import pytest

from sightline.inspector.pages import (
    Export,
    importmap_hash,
    served_page,
    static_file,
)
from support.exports import recorded

STATIC = files("sightline.inspector").joinpath("static")


def import_map(page: str) -> dict[str, str]:
    found = re.search(r'<script type="importmap">(.*?)</script>', page)
    assert found is not None
    imports: dict[str, str] = json.loads(found[1])["imports"]
    return imports


def test_vendored_files_are_the_published_ones_byte_for_byte() -> None:
    table = STATIC.joinpath("vendor/VENDOR.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \|.*\| `([0-9a-f]{64})` \|$", table, re.MULTILINE)
    listed = {name for name, _ in rows}
    present = {e.name for e in STATIC.joinpath("vendor").iterdir() if e.name.endswith(".mjs")}
    assert listed == present
    for name, digest in rows:
        content = STATIC.joinpath("vendor", name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, name


def test_every_import_of_every_module_is_in_the_map_and_every_address_is_served() -> None:
    imports = import_map(served_page())
    for address in imports.values():
        name = address.removeprefix("./static/")
        found = static_file(name)
        assert found is not None, name
        wanted = re.findall(r'from\s*"([^"]+)"', found[0].decode())
        assert set(wanted) <= set(imports), name


@pytest.mark.parametrize(
    "name",
    ["../door.py", "vendor/../../door.py", "/etc/passwd", "app/none.js", "", "vendor/VENDOR.md"],
)
def test_nothing_but_the_pages_files_is_served(name: str) -> None:
    assert static_file(name) is None


def test_the_policy_names_the_import_map_as_it_is_in_the_page() -> None:
    found = re.search(r'<script type="importmap">(.*?)</script>', served_page())
    assert found is not None
    digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
    assert importmap_hash() == f"sha256-{digest}"


def test_an_export_asks_nobody_for_anything_and_its_data_cannot_leave_its_element() -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)> <!-- &lt; },{"
    export = Export()
    export.add("/api/sessions", {"name": hostile, "more": [{"a": 1}, {"b": hostile}]})
    page = "".join(export.parts(hostile))
    assert not re.search(r'(?:src|href)="', page)
    assert hostile not in page
    assert page.count("<script") == 3
    assert recorded(page) == {
        "/api/sessions": {"name": hostile, "more": [{"a": 1}, {"b": hostile}]}
    }
    assert all(url.startswith("data:text/javascript;base64,") for url in import_map(page).values())


def test_an_export_of_nothing_and_one_of_very_much_are_whole() -> None:
    assert recorded("".join(Export().parts(""))) == {}
    export = Export()
    answers = {f"/{n}": {"items": [{"n": n}, {"of": "all"}]} for n in range(2_000)}
    for address, answer in answers.items():
        export.add(address, answer)
    assert recorded("".join(export.parts(""))) == answers


def test_an_export_keeps_what_is_said_again_once() -> None:
    said = [{"text": f"message {n} " + "x" * 1_000} for n in range(50)]
    once, often = Export(), Export()
    once.add("/0", {"said": said})
    for turn in range(50):
        often.add(f"/{turn}", {"said": said[: turn + 1]})
    assert len("".join(often.parts(""))) < 1.5 * len("".join(once.parts("")))
    assert recorded("".join(often.parts("")))["/49"] == {"said": said}
