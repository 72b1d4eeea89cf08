"""`sightline doctor`: what works here, what does not, and what to do about it.

Every check is a function that looks and changes nothing: no ledger is made, no directory,
nobody is asked over a network, and of a key only whether it is there is told. The one
exception is asked for by name, and asks first.

`--cache MODEL` tells whether a vendor or a runtime really reuses a prefix. Two requests that
differ in their tail alone, laid out as every request is: prefix, cache mark, tail. The first lines
of the prefix are new each time, so that nothing earlier can be reused. What the second one's usage
says is the answer; a runtime that reports what it evaluated, and nothing else, is judged by how
much less that was.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import aclosing, suppress
from secrets import token_hex
from typing import Any, Final, Literal, NamedTuple

import click
import msgspec

from sightline._amounts import dollars
from sightline._distribution import install, installer
from sightline.agent.models.base import Model, address_of
from sightline.agent.models.choose import chosen as chosen_model
from sightline.agent.models.choose import examine, open_model
from sightline.agent.models.keys import find_key
from sightline.agent.models.local import why_not
from sightline.agent.models.vendors import EXTRAS, VENDORS, is_installed
from sightline.cli.options import configured_path, examples
from sightline.cli.out import Progress, confirm, say, tell, write_json_lines
from sightline.config import Settings, load
from sightline.context.dialects import Options, encode
from sightline.context.dialects.events import Stopped, Usage, UsageArrived, cost
from sightline.context.dialects.profile import Profile
from sightline.context.ledger.paths import database_url
from sightline.context.messages.parts import Message
from sightline.context.slots.prompt import Prompt, Receipt, digest_of
from sightline.context.tokens.estimate import estimate
from sightline.errors import ApprovalNeeded, InvalidInput, ModelFailed, SightlineError
from sightline.slop.discovery.directory import Discovery, standard_directories

NEWEST_FAULTY_SQLITE: Final = (3, 51, 2)
_LEAST_TOKENS: Final = 256
_MAX_OUTPUT_TOKENS: Final = 256  # of one word, and of whatever a model thinks before it
_QUESTION: Final = "Answer with the one word yes."
# What vendors call the tokens that they reused.
_REUSED: Final = frozenset({
    "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens",
    "cachedContentTokenCount", "cacheReadInputTokens",
})  # fmt: skip
# Google leaves a count of zero out of its replies, as protocol buffers do.
_LEAVES_ZERO_OUT: Final = frozenset({"gemini"})
# Ollama reports what it evaluated, and not what it reused.
_TELLS_EVALUATED: Final = frozenset({"ollama"})


class Finding(msgspec.Struct, frozen=True):
    """What one check found. `remedy` is what to do; `exit_code` counts if it failed."""

    check: str
    level: Literal["ok", "warn", "fail"]
    found: str
    remedy: str = ""
    exit_code: int = 0


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

    Every line is ok, warn or fail. A warning concerns a feature that you chose and that does
    not work here. Nothing is changed, nobody is asked over a network.

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
    findings = list(_examine(verify=verify)) if cache is None else _check_cache(cache, yes=yes)
    if as_json:
        write_json_lines(findings)
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            remedy = f"; {finding.remedy}" if finding.remedy else ""
            say(f"{finding.level:4}  {finding.check:{width}}  {finding.found}{remedy}")
    return next((f.exit_code for f in findings if f.level == "fail"), 0)


def _examine(*, verify: bool) -> Iterator[Finding]:
    # An older Python could not have read this far.
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield Finding("python", "ok", python)
    yield _sqlite()
    settings, findings = _configuration()
    yield from findings
    yield from _extras(settings)
    yield _keys()
    yield _local()
    yield _model(settings)
    yield _ledger(settings, verify=verify)
    yield _sandbox(settings)
    yield from _discovery()
    yield _terminal()


def _sqlite() -> Finding:
    from sightline.context.ledger.sqlite.connect import sqlite_version

    version = sqlite_version()
    if tuple(map(int, version.split("."))) > NEWEST_FAULTY_SQLITE:
        return Finding("sqlite", "ok", version)
    return Finding("sqlite", "fail", f"{version} may lose data", f"{installer()} -U apsw", 2)


def _configuration() -> tuple[Settings, list[Finding]]:
    try:
        loaded = load(None, os.environ, {})
    except SightlineError as error:
        broken = Finding("config", "fail", str(error), "mend the file", error.exit_code)
        return Settings(), [broken]
    sources = sorted({source for source in loaded.sources.values() if source != "default"})
    findings = [Finding("config", "ok", ", ".join(sources) or "defaults")]
    return loaded.settings, findings + [Finding("config", "warn", line) for line in loaded.refused]


def _extras(settings: Settings) -> Iterator[Finding]:
    """Look for the packages of each extra. A feature is chosen by a setting or a variable."""
    apps = [*settings.apps.connect, *settings.apps.brokers]
    chosen = {
        "attachments": bool(settings.ledger.attachments),
        "mcp": bool(settings.apps.mcp_files) or any(app.startswith("mcp") for app in apps),
        "nats": any(app.startswith("nats") for app in apps),
        "otel": any(re.fullmatch("OTEL_EXPORTER_OTLP_.*ENDPOINT", name) for name in os.environ),
        "postgres": database_url(configured_path(settings)) is not None,
    }
    with suppress(SightlineError, KeyError):  # the model's own check reports it
        chosen[VENDORS[chosen_model(settings, os.environ).partition(":")[0]].api] = True
    for name, extra in EXTRAS.items():
        if is_installed(name):
            yield Finding(f"extra {name}", "ok", "installed")
        elif chosen.get(name):
            yield Finding(f"extra {name}", "warn", extra.without, install(name))
        else:
            yield Finding(f"extra {name}", "ok", f"not installed, not chosen: {extra.without}")


def _keys() -> Finding:
    names = [name for vendor in VENDORS.values() for name in vendor.keys if not vendor.keyless]
    there = [name for name in dict.fromkeys(names) if find_key([name], os.environ)]
    if there:
        return Finding("keys", "ok", f"present: {', '.join(there)}")
    return Finding("keys", "ok", "no vendor's key is present")


def _local() -> Finding:
    return Finding("local model", "ok", why_not("") or "runtime and weights are installed")


def _model(settings: Settings) -> Finding:
    try:
        return Finding("model", "ok", examine(settings, os.environ))
    except SightlineError as error:
        return Finding("model", "fail", str(error), exit_code=error.exit_code)


def _ledger(settings: Settings, *, verify: bool) -> Finding:
    from sightline.context.ledger import Ledger

    path = configured_path(settings)
    is_file = database_url(path) is None
    if is_file and not os.path.exists(path):
        above = next(parent for parent in path.parents if os.path.exists(parent))
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
        return Finding("sandbox", "ok", "commands run without one: workspace.sandbox is off")
    if not (why_not_here := why_no_sandbox()):
        return Finding("sandbox", "ok", "commands run in bubblewrap")
    if settings.workspace.sandbox == "require":
        return Finding("sandbox", "fail", why_not_here, "no workspace opens without it", 2)
    return Finding("sandbox", "ok", f"commands run without one: {why_not_here}")


def _discovery() -> Iterator[Finding]:
    present = [str(path) for path in standard_directories() if os.path.isdir(path)]
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


class _Reuse(NamedTuple):
    """How many tokens of how many the second request did not have to be read for."""

    tokens: int
    of: int


def _check_cache(reference: str, *, yes: bool) -> list[Finding]:
    """Send two requests to a model, if a person agrees, and say what became of their prefix.

    Raises `ApprovalNeeded` where nobody can be asked, and what opening or asking a model raises.
    """
    loaded = load(None, os.environ, {"model": reference})
    tell(*loaded.refused)
    model = open_model(reference, loaded.settings, os.environ)
    prefix = _prefix(model.profile, token_hex(8))
    if not yes:
        _agree(model, estimate(prefix))
    first, second = asyncio.run(_ask_twice(model, prefix))
    return [_reuse_finding(model, first, second), _cost_finding(model.profile, first, second)]


def _prefix(profile: Profile, nonce: str) -> str:
    """Write a text that is just long enough for the cache of this model, and like no other."""
    target = max(_LEAST_TOKENS, profile.cache.min_tokens * 5 // 4)
    lines = [f"This is a check of the prompt cache, number {nonce}. The lines below mean nothing."]
    tokens = estimate(lines[0])
    while tokens < target:
        lines.append(f"Line {len(lines)}: the quick brown fox jumps over the lazy dog.")
        tokens += estimate(lines[-1])
    return "\n".join(lines)


def _agree(model: Model, tokens: int) -> None:
    price = cost(Usage(2 * tokens, 2 * _MAX_OUTPUT_TOKENS), model.profile.prices)
    priced = "at no known price" if price is None else f"for about {dollars(price)} at most"
    where = f" at {address}" if (address := address_of(model)) else ""
    question = f"Send two requests of {tokens:,} tokens to {model.label}{where}, {priced}?"
    if not sys.stdin.isatty():
        raise ApprovalNeeded(f"{question[:-1]}: nobody can be asked here; --yes agrees")
    if not confirm(question):
        raise click.Abort


async def _ask_twice(model: Model, prefix: str) -> list[UsageArrived | None]:
    try:
        return [await _ask(model, prefix, f"This is request {n}.") for n in ("one", "two")]
    finally:
        await model.close()


async def _ask(model: Model, prefix: str, tail: str) -> UsageArrived | None:
    stable = [Message.of("system", prefix), Message.of("user", _QUESTION)]
    receipt = Receipt(0, "", "estimated", 0, 0, 0, 0, len(stable), digest_of((), stable), ())
    prompt = Prompt((*stable, Message.of("user", tail)), len(stable), receipt, ())
    options = Options(conversation=digest_of((), stable)[:32], max_output_tokens=_MAX_OUTPUT_TOKENS)
    used = None
    async with aclosing(model.stream(encode(prompt, model.profile, options))) as events:
        async for event in events:
            if isinstance(event, UsageArrived):
                used = event
            elif isinstance(event, Stopped) and event.reason in ("incomplete", "error"):
                raise ModelFailed(f"{model.label}: {event.detail or 'the reply broke off'}")
    return used


def _reuse_finding(
    model: Model, first: UsageArrived | None, second: UsageArrived | None
) -> Finding:
    found = _reuse(model.profile.dialect, first, second)
    if found is None:
        return Finding("cache", "warn", f"not told: {model.label} reports nothing of reuse")
    share = f"{found.tokens:,} of {found.of:,} tokens"
    if 2 * found.tokens >= found.of:
        return Finding("cache", "ok", f"{model.label} reused {share} of the second request")
    return Finding(
        "cache",
        "warn",
        f"{model.label} reused {share} of the second request, whose prefix was the first one's",
        "ask again: a cache may take a while; of a runtime of your own see its slots and memory",
    )


def _reuse(dialect: str, first: UsageArrived | None, second: UsageArrived | None) -> _Reuse | None:
    """Tell how much the second request reused; None where that was not told."""
    if first is None or second is None or first.usage.unusable or second.usage.unusable:
        return None
    if dialect in _TELLS_EVALUATED:
        read = first.usage.evaluated_tokens
        return _Reuse(max(0, read - second.usage.evaluated_tokens), read) if read else None
    if dialect not in _LEAVES_ZERO_OUT and not _REUSED.intersection(_names(second.reported)):
        return None
    return _Reuse(second.usage.cache_read_tokens, second.usage.input_tokens)


def _names(reported: Any) -> Iterator[str]:
    """Name every field of a vendor's account that says something, at any depth."""
    if isinstance(reported, Mapping):
        for name, value in reported.items():
            if value is not None:
                yield name
                yield from _names(value)


def _cost_finding(
    profile: Profile, first: UsageArrived | None, second: UsageArrived | None
) -> Finding:
    usages = [event.usage for event in (first, second) if event]
    prices = [cost(usage, profile.prices) for usage in usages]
    known = [price for price in prices if price is not None]
    if len(known) < 2:
        return Finding("cost", "ok", "not told: no usage" if not usages else "no price is known")
    tokens = sum(usage.input_tokens for usage in usages)
    return Finding("cost", "ok", f"{dollars(sum(known))} for {tokens:,} tokens in two requests")
