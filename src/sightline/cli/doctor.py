"""`sightline doctor`: what works here, what does not, and what to do about it.

Every check is a function that looks and changes nothing: no ledger is made, no directory,
nobody is asked over a network, and of a key only whether it is there is told. The one
exception is asked for by name, and asks first: `--cache` (`cli.cache_check`).
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import click
import msgspec

from sightline._distribution import install
from sightline.agent.models.choose import examine
from sightline.agent.models.extras import EXTRAS, is_installed
from sightline.agent.models.keys import find_key
from sightline.agent.models.local import why_not
from sightline.agent.models.vendors import VENDORS
from sightline.cli.options import configured_path, examples
from sightline.cli.out import Progress, say, write_json_lines
from sightline.config import Settings, load
from sightline.errors import InvalidInput, SightlineError
from sightline.slop.discovery.directory import Discovery, standard_directories

Level: TypeAlias = Literal["ok", "warn", "fail"]


class Finding(msgspec.Struct, frozen=True):
    """What one check found. `remedy` is what to do; `exit_code` counts if it failed."""

    check: str
    level: Level
    found: str
    remedy: str = ""
    exit_code: int = 0


NEWEST_FAULTY_SQLITE: Final = (3, 51, 2)


@examples(
    "sightline doctor", "sightline doctor --json", "sightline doctor --cache claude-opus-5-5 --yes"
)
@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object per check and line.")
@click.option("--verify", is_flag=True, help="Also check every row of the ledger; takes longer.")
@click.option(
    "--cache", metavar="MODEL", help="Only ask this model twice, to see whether it reuses a prefix."
)
@click.option("--yes", is_flag=True, help="With --cache: send the two requests without asking.")
def doctor(*, as_json: bool, verify: bool, cache: str | None, yes: bool) -> int:
    """Check what is installed, configured and reachable, and say what to do.

    Every line is ok, warn or fail. Nothing is changed, nobody is asked over a network.

    --cache sends two small requests to a model, after asking you, and says how much of the
    first one the vendor or runtime reused for the second, and what both cost.

    \b
    Exits with 0 if nothing failed, warnings or not; else with the code of the first failure:
      2  SQLite, the configuration, the model's name or the ledger's file cannot be used
      3  there is no model to ask, or no key for the one that is chosen
      4  nobody listens where the model should be, or the ledger cannot be read now
      7  --cache, and nobody there to ask
      8  the ledger is damaged
    """
    if yes and cache is None:
        raise InvalidInput("--yes agrees to the requests of --cache, which is not given")
    if cache is None:
        findings = list(_examine(verify=verify))
    else:
        # Imported here: it brings what a turn needs, and the other checks do not.
        from sightline.cli.cache_check import check_cache

        findings = check_cache(cache, yes=yes)
    if as_json:
        write_json_lines(findings)
    else:
        width = max(len(finding.check) for finding in findings)
        say(*(_line(finding, width) for finding in findings))
    return next((f.exit_code for f in findings if f.level == "fail"), 0)


def _line(finding: Finding, width: int) -> str:
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return f"{finding.level:4}  {finding.check:{width}}  {finding.found}{remedy}"


def _examine(*, verify: bool) -> Iterator[Finding]:
    yield _python()
    yield _sqlite()
    settings, findings = _configuration()
    yield from findings
    yield from _extras()
    yield _keys()
    yield _local()
    yield _model(settings)
    yield _ledger(settings, verify=verify)
    yield _sandbox(settings)
    yield from _discovery()
    yield _terminal()


def _python() -> Finding:
    # An older one could not have read this far.
    return Finding(
        "python", "ok", f"{platform.python_implementation()} {platform.python_version()}"
    )


def _sqlite() -> Finding:
    from sightline.context.ledger.sqlite.connect import sqlite_version

    version = sqlite_version()
    if tuple(map(int, version.split("."))) > NEWEST_FAULTY_SQLITE:
        return Finding("sqlite", "ok", version)
    return Finding("sqlite", "fail", f"{version} may lose data", "pip install -U apsw", 2)


def _configuration() -> tuple[Settings, list[Finding]]:
    try:
        loaded = load(None, os.environ, {})
    except SightlineError as error:
        broken = Finding("config", "fail", str(error), "mend the file", error.exit_code)
        return Settings(), [broken]
    sources = sorted({source for source in loaded.sources.values() if source != "default"})
    findings = [Finding("config", "ok", ", ".join(sources) or "defaults")]
    return loaded.settings, findings + [Finding("config", "warn", line) for line in loaded.refused]


def _extras() -> Iterator[Finding]:
    for name, extra in EXTRAS.items():
        if is_installed(name):
            yield Finding(f"extra {name}", "ok", "installed")
        else:
            yield Finding(f"extra {name}", "warn", extra.without, install(name))


def _keys() -> Finding:
    names = [name for vendor in VENDORS.values() for name in vendor.keys if not vendor.keyless]
    there = [name for name in dict.fromkeys(names) if find_key([name], os.environ)]
    if there:
        return Finding("keys", "ok", f"present: {', '.join(there)}")
    return Finding("keys", "warn", "no vendor's key is present", "set one, such as OPENAI_API_KEY")


def _local() -> Finding:
    obstacle = why_not("")
    if not obstacle:
        return Finding("local model", "ok", "runtime and weights are installed")
    return Finding("local model", "warn", obstacle)


def _model(settings: Settings) -> Finding:
    try:
        return Finding("model", "ok", examine(settings, os.environ))
    except SightlineError as error:
        return Finding("model", "fail", str(error), exit_code=error.exit_code)


def _ledger(settings: Settings, *, verify: bool) -> Finding:
    from sightline.context.ledger import Ledger
    from sightline.context.ledger.paths import database_url

    path = configured_path(settings)
    is_file = database_url(path) is None
    if is_file and not path.exists():
        above = next(parent for parent in path.parents if parent.exists())
        if os.access(above, os.W_OK):
            return Finding("ledger", "ok", f"none yet; it will be made at {path}")
        return Finding("ledger", "fail", f"cannot be made at {path}", "set SIGHTLINE_LEDGER", 2)
    try:
        with (
            Ledger(path, mode="read", attachments=settings.ledger.attachments) as ledger,
            Progress("messages verified") as progress,
        ):
            if verify:
                ledger.verify(progress).raise_if_damaged()
    except SightlineError as error:
        return Finding("ledger", "fail", str(error), "see docs/ledger.md", error.exit_code)
    if is_file and path.stat().st_mode & 0o077:
        return Finding("ledger", "warn", f"others may read {path}", f"chmod 600 {path}")
    return Finding("ledger", "ok", f"{ledger.name}{', every row verified' if verify else ''}")


def _sandbox(settings: Settings) -> Finding:
    from sightline.agent.workspace.sandbox import why_no_sandbox

    if settings.workspace.sandbox == "off":
        return Finding("sandbox", "warn", "commands run without one: workspace.sandbox is off")
    if not (why_not_here := why_no_sandbox()):
        return Finding("sandbox", "ok", "commands run in bubblewrap")
    if settings.workspace.sandbox == "require":
        return Finding("sandbox", "fail", why_not_here, "no workspace opens without it", 2)
    return Finding("sandbox", "warn", f"commands run without one: {why_not_here}")


def _discovery() -> Iterator[Finding]:
    present = [str(path) for path in standard_directories() if path.is_dir()]
    found = Discovery().look()
    count = len(found.descriptors)
    where = ", ".join(present) or "no directory yet; the first app makes it"
    yield Finding("discovery", "ok", f"{where} ({count} {'app' if count == 1 else 'apps'})")
    for ignored in found.ignored:
        yield Finding("discovery", "warn", f"{ignored.path}: {ignored.reason}")


def _terminal() -> Finding:
    columns, lines = shutil.get_terminal_size()
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    colour = "no colour (NO_COLOR)" if os.environ.get("NO_COLOR") else os.environ.get("TERM", "")
    kind = "a terminal" if sys.stdout.isatty() else "not a terminal"
    if encoding != "utf8":
        return Finding("terminal", "warn", f"writes {encoding}", "set PYTHONIOENCODING=utf-8")
    return Finding("terminal", "ok", f"{kind}, {columns}x{lines}, {colour or 'TERM is not set'}")
