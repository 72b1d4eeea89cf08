"""The documentation as a site, from the Markdown of the repository as it is.

    python setup/site.py TOOLS      what `make docs` runs; TOOLS has zensical

The pages lie side by side as in the repository, so that a link that leads somewhere there does so
here. Built strictly: a link or an anchor that leads nowhere ends it. What is built in `dist/site`
must load nothing from elsewhere (no font, no script, no picture), link no file that is not there,
and have no block of code that was taken for text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent
PAGES = ROOT / ".artefacts" / "pages"
SITE = ROOT / "dist" / "site"
ALONE = (
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
)
FOLDERS = ("docs", "examples", "benchmarks", "deploy")
# What a browser loads without being asked; a link that somebody follows is none.
LOADS = re.compile(
    r"""<(?:script|img|iframe|source|embed)\b[^>]*\bsrc=["']?((?:https?:)?//[^"' >]+)
    | <link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon))
        [^>]*\bhref=["']?((?:https?:)?//[^"' >]+)
    | url\(["']?((?:https?:)?//[^"')]+)
    | @import\s+["']((?:https?:)?//[^"']+)
    | class=["'](mermaid)["']  # its script would come from elsewhere""",
    re.VERBOSE,
)


def lay_out() -> None:
    """Copy the pages, and what they link, to where they are built from."""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for name in ALONE:
        shutil.copy(ROOT / name, PAGES)
    for name in FOLDERS:
        ignore = shutil.ignore_patterns("__pycache__", "secrets")
        shutil.copytree(ROOT / name, PAGES / name, ignore=ignore)
    shutil.copy(ROOT / "setup" / "site.css", PAGES)
    for page in PAGES.rglob("*.md"):
        page.write_text(bars(fences(arrows(page.read_text("utf-8")))), "utf-8")


def arrows(text: str) -> str:
    """Write a drawing of arrows as a table: what would draw it comes from elsewhere."""
    return re.sub(r"^```mermaid\n(.*?)^```$", _table, text, flags=re.MULTILINE | re.DOTALL)


def _table(drawing: re.Match[str]) -> str:
    users: dict[str, list[str]] = {}
    for used, user in re.findall(r"^ *(\w+) --> (\w+)$", drawing[1], re.MULTILINE):
        users.setdefault(used, []).append(user)
    rows = [f"| `{used}` | → | {', '.join(users[used])} |" for used in users]
    return "\n".join(["| used | | by |", "| --- | --- | --- |", *rows])


def fences(text: str) -> str:
    """Say what our tests are told of a block in the words of the site: a file is its title."""
    text = re.sub(r"^(```\w+) file=(\S+)$", r'\1 title="\2"', text, flags=re.MULTILINE)
    return re.sub(r"^(```\w+) background$", r"\1", text, flags=re.MULTILINE)


def bars(text: str) -> str:
    """Write a bar in the code of a table as it is: it ends no cell here, its escape would show."""
    rows = re.compile(r"^\|.*\|$", re.MULTILINE)
    plain = re.compile(r"`[^`]+`")
    return rows.sub(lambda row: plain.sub(lambda code: code[0].replace("\\|", "|"), row[0]), text)


def loaded(site: Path) -> Iterator[str]:
    """Name what the pages of a site load from elsewhere."""
    for path in sorted(site.rglob("*")):
        if path.suffix in {".html", ".css"}:
            for found in LOADS.finditer(path.read_text("utf-8")):
                yield f"{path.relative_to(site)} loads {next(filter(None, found.groups()))}"


def lost(site: Path) -> Iterator[str]:
    """Name what pages link and a site does not have: of pages zensical says so, of files not."""
    links = re.compile(r"""(?:href|src|srcset)=["']([^"'#?]+)""")
    for path in sorted(set(site.rglob("*.html")) - {site / "404.html"}):
        for target in links.findall(path.read_text("utf-8")):
            parts = urlsplit(target)
            is_here = not parts.scheme and not parts.netloc
            if is_here and not (path.parent / unquote(parts.path)).exists():
                yield f"{path.relative_to(site)} links {target}, which is not there"


def unread(site: Path) -> Iterator[str]:
    """Name the pages on which a block of code was not understood, and stands as text."""
    for path in sorted(site.rglob("*.html")):
        if "```" in path.read_text("utf-8"):
            yield f"{path.relative_to(site)} has a block of code as text"


def main(tools: str) -> int:
    lay_out()
    shutil.rmtree(SITE, ignore_errors=True)
    build = [f"{tools}/zensical", "build", "--clean", "--strict", "--config-file", "mkdocs.yml"]
    done = subprocess.run(build, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, check=False)
    faults = [*loaded(SITE), *lost(SITE), *unread(SITE)]
    print("\n".join(faults) or f"{SITE.relative_to(ROOT)}/index.html")
    return 1 if done.returncode or faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
