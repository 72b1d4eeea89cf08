"""`sightline gateway`: between an agent and its vendor; what every request cost, and why."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast
from urllib.parse import urlsplit

import click
import msgspec
from platformdirs import user_state_path

from sightline.cli.codex import codex_way, led_codex
from sightline.cli.inspect import LOOPBACK, listen, private, save_page
from sightline.cli.options import (
    current_directory,
    db_option,
    examples,
    ledger_path,
    loaded_config,
    needing,
    users_option,
)
from sightline.cli.out import Progress, counted, notice, say, tell, write_json_lines
from sightline.context.dialects.profile import Layer
from sightline.context.dialects.profiles import price_layer
from sightline.context.ledger import Ledger, Session
from sightline.context.ledger.exchanges import Exchange
from sightline.context.messages.gate import Gate, shown_text
from sightline.errors import InvalidInput, LedgerUnavailable, SightlineError
from sightline.gateway import addresses
from sightline.gateway.addresses import UPSTREAMS
from sightline.gateway.bodies import Api, read_body
from sightline.gateway.observer import Observer, Passed, Passing, passed_of
from sightline.gateway.report import (
    line_of,
    report_page,
    summarise,
    summary_lines,
    trace_passed,
)
from sightline.slop.protocol.jsontext import escape_controls

if TYPE_CHECKING:
    from sightline.gateway.tail import LiveTail, Mode
    from sightline.slop.transports.sockets import Users

_F = TypeVar("_F", bound=Callable[..., Any])
SECRET_BYTES: Final = 18
BATCH: Final = 1_000  # sessions among which the single requests of a program are looked for
TELLS: Final = "SIGHTLINE_GATEWAY"  # where it is set, the hook of `sightline mcp` is silent
FROM_TRANSCRIPT: Final = (
    "from a transcript: what requests held, their sizes and times, retries and requests beside "
    "the conversation are unknown"
)


class _WithProgram(click.Group):
    """A group whose unknown commands are programs to run."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None:
            return "run", _run, args
        return super().resolve_command(ctx, args)


def _json_option(command: _F, **settings: Any) -> _F:
    words = "Lines of JSON instead of words."
    return click.option("--json", "as_json", is_flag=True, help=words, **settings)(command)


def _price_option(command: _F, **settings: Any) -> _F:
    form, words = "MODEL=IN/OUT/READ/WRITE", "Prices of a model, in dollars per million tokens."
    option = click.option("--price", "prices", multiple=True, metavar=form, help=words, **settings)
    return option(command)


def _behind(command: _F) -> _F:
    """Take the group's `--db`, `--json` and `--price` behind a subcommand's name, too."""

    def take(context: click.Context, option: click.Parameter, value: object) -> None:
        if value:
            context.obj[option.name] = value

    for option in (db_option, _json_option, _price_option):
        command = option(command, expose_value=False, callback=take)
    return command


@click.group(
    cls=_WithProgram,
    invoke_without_command=True,
    context_settings={"allow_interspersed_args": False},
)
@db_option
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0,
    help="Default: any free one. With a port the address stays the same.",
)  # fmt: skip
@click.option(
    "--upstream", "upstreams", multiple=True, metavar="URL | API=URL",
    help=f"Address of the vendor, of all APIs or of one: {', '.join(UPSTREAMS)}.",
)  # fmt: skip
@click.option(
    "--record", type=click.Choice(["on", "off"]), default="on", help="Keep requests in the ledger."
)
@click.option(
    "--tail", type=click.Choice(["off", "whole", "session"]), default="off", show_default=True,
    help="Put the state of apps behind each request: all of it, or once and then what changed.",
)  # fmt: skip
@users_option
@_price_option
@_json_option
@click.pass_context
def gateway(context: click.Context, /, **options: Any) -> None:
    """See what an agent asks its vendor, what of it was cached, and why the rest was not.

    Runs PROGRAM with the addresses of its vendors led through here, on this machine only; without
    one it serves until interrupted. Nothing of a request or a reply is changed, but for --tail:
    then what apps show stands behind the last message. One line for each request goes to stderr;
    on a terminal that the program shares, when it has ended.

    \b
    sightline gateway -- claude
    sightline gateway --tail session -- claude
    sightline gateway --record off -- codex exec 'what does this do?'
    """
    context.obj = options
    if context.invoked_subcommand is None:
        context.exit(_start([], **context.obj))


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def _run(context: click.Context, program: tuple[str, ...]) -> None:
    context.exit(_start(program, **context.obj))


@examples(
    "sightline gateway report 1 --db talk.db",
    "sightline gateway report 1 --db talk.db --html report.html",
)
@gateway.command()
@click.argument("session", required=False)
@click.option(
    "--html", type=click.Path(path_type=Path), metavar="FILE",
    help="As one page that needs nothing else; - for stdout.",
)  # fmt: skip
@_behind
@click.pass_context
def report(context: click.Context, session: str | None, html: Path | None) -> None:
    """Say what a recorded session cost and lost, request by request; without one, the last."""
    with Ledger(ledger_path(context.obj["db"]), mode="read") as ledger:
        found, prices = _recorded(ledger, session), _price_layers(context.obj["prices"])
        kept = sorted(ledger.exchanges.list(found.id), key=lambda one: one.sent_at)
        title = found.title or found.name
        if session is None and len(kept) == 1 and len(batch := _batch(ledger, kept[0])) > 1:
            kept, title = batch, f"{len(batch):,} single requests"
        passed = [passed_of(one, prices) for one in kept]
    if html is not None:
        about = f"session {found.id}, {found.kind or 'no gateway'}, {found.project}"
        if any(one.source for one in passed):
            about += f"; {FROM_TRANSCRIPT}"
        sent = [(one.sent_at, each) for one, each in zip(kept, passed, strict=True)]
        save_page(report_page(title, about, sent), html)
        return
    if context.obj["as_json"]:
        write_json_lines(_plain(one) for one in passed)
        return
    is_batch = len({one.session_id for one in kept}) > 1
    say(*[title] * is_batch)
    for number, one in enumerate([] if is_batch else passed, 1):
        first, *rest = line_of(one)
        say(f"{number:>4}  {first}", *(f"      {line}" for line in rest))
    say(*summary_lines(summarise(passed)))
    if any(one.source for one in passed):
        say(FROM_TRANSCRIPT)


@examples("sightline gateway import talk.jsonl --db work.db")
@gateway.command(name="import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@_behind
@click.pass_context
def import_(context: click.Context, paths: tuple[Path, ...]) -> None:
    """Read what Claude Code and Codex wrote down of their sessions: files, or all in directories.

    For the part of a report that a transcript can support; what it cannot tell is unknown. A file
    may be imported again: only what is new in it is added.

    \b
    sightline gateway import ~/.claude/projects ~/.codex/sessions
    """
    from sightline.gateway.imports import import_transcripts

    prices = _price_layers(context.obj["prices"])
    with Ledger(ledger_path(context.obj["db"])) as ledger, Progress("files read") as progress:
        done = import_transcripts(ledger, paths, progress, prices)
    skipped = {why: count for why, count in done.skipped.items() if count}
    if context.obj["as_json"]:
        counts = {"files": done.files, "new": done.new, "known": done.known}
        write_json_lines([{**counts, "sessions": done.sessions, "skipped": skipped}])
        return
    new = counted(done.new, "request")
    say(f"{counted(done.files, 'file')}: {new} new, {done.known:,} known already")
    say(*(f"left out: {count} {why}" for why, count in skipped.items()))
    if done.new:
        say(*summary_lines(summarise(done.passed)))
        say(f"sessions {', '.join(map(str, done.sessions))}; see one: sightline gateway report ID")


def _batch(ledger: Ledger, last: Exchange) -> list[Exchange]:
    """List the single requests of a program: sessions of one request with the same tools."""

    def program(one: Exchange) -> tuple[object, ...]:
        body = read_body(cast(Api, one.api), ledger.exchanges.request(one.id))
        tools = () if body is None else tuple(sorted(unit.name for unit in body.tools))
        return one.api, one.about.get("agent"), one.about.get("upstream"), tools

    singles = []
    for session in ledger.sessions.recent(limit=BATCH):
        if session.kind.startswith("gateway") and ledger.exchanges.count(session.id) == 1:
            singles += ledger.exchanges.list(session.id)
    return sorted(
        (one for one in singles if program(one) == program(last)), key=lambda one: one.sent_at
    )


def _price_layers(options: Sequence[str]) -> list[Layer]:
    """Return the user's prices: those of the configuration, and of `--price`, which win."""
    from sightline.agent.models.choose import price_layers

    pairs = (option.partition("=") for option in options)
    given = [price_layer(model, price, "--price") for model, _, price in pairs]
    return price_layers(loaded_config().settings) + given


def _recorded(ledger: Ledger, reference: str | None) -> Session:
    if reference is not None:
        return ledger.sessions.resolve(reference)
    for session in ledger.sessions.recent():
        if session.kind.startswith("gateway"):
            return session
    raise InvalidInput("no session was recorded by a gateway here")


def _start(program: Sequence[str], **options: Any) -> int:
    with needing("gateway", "the gateway needs uvicorn and httpx2"):
        return asyncio.run(_serve(program, **options))


async def _serve(
    program: Sequence[str],
    *,
    db: Path | None,
    port: int,
    upstreams: tuple[str, ...],
    record: Literal["on", "off"],
    tail: Literal["off", "whole", "session"],
    users: Users,
    prices: tuple[str, ...],
    as_json: bool,
) -> int:
    """Pass requests on while a program runs, or until interrupted.

    It is never ready where it is to record, and has no ledger.
    """
    from sightline.gateway.proxy import Gateway, server_of

    ways = chosen(upstreams, {**os.environ, **codex_way(program)})
    if "bedrock" not in ways and addresses.is_signed(os.environ):
        notice(addresses.SIGNED)
    async with AsyncExitStack() as stack:
        ledger = _ledger(db) if record == "on" else None
        live = None if tail == "off" else await _live_tail(stack, tail, ledger)
        agent = Path(program[0]).name if program else ""
        project = str(current_directory())
        observer = Observer(ledger, project=project, agent=agent, prices=_price_layers(prices))
        shares_terminal = sys.stdout.isatty() and sys.stderr.isatty()
        screen = _Screen(as_json=as_json, held=bool(program) and shares_terminal)
        listening = listen(port)
        bound, secret = listening.getsockname()[1], _secret(port)
        base = f"http://{LOOPBACK}:{bound}/{secret}"
        variables = addresses.gateway_variables(base, ways) | ({TELLS: "1"} if live else {})
        seen: asyncio.Queue[Passing | None] = asyncio.Queue()
        starts = {name: url.removesuffix(UPSTREAMS[name][2]) for name, url in ways.items()}

        async def look() -> None:
            if record == "on" and ledger is None:
                raise LedgerUnavailable("nothing is recorded")
            await asyncio.to_thread(observer.look)

        application = Gateway(secret, bound, starts, seen.put_nowait, live, look)
        server = server_of(application, users=users)
        watching = asyncio.create_task(_watch(seen, observer, screen))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            if program:
                # The program decides about signals. uvicorn would end the server at the first one.
                server.capture_signals = nullcontext  # type: ignore[assignment, method-assign]
                code = await _child(program, variables)
            else:
                # The server raises a signal once more when it has ended: we would not see what
                # passed.
                loop = asyncio.get_running_loop()
                for number in (signal.SIGTERM, signal.SIGHUP):
                    loop.add_signal_handler(number, server.handle_exit, number, None)
                say(*(f"export {name}={shlex.quote(text)}" for name, text in variables.items()))
                await serving
                code = 0
        finally:
            server.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)
            await application.close()
            seen.put_nowait(None)
            await watching
            if screen.passed or not (program or application.unread):
                screen.end()
            observer.close()
        if not screen.passed and application.unread:
            notice(shown_text(f"POST {application.unread} passed unread. Its format is unknown."))
        elif not screen.passed and program:
            others = os.environ.keys() - variables.keys()
            notice(shown_text(addresses.bypass_words(agent, others)))
        return code


async def _live_tail(stack: AsyncExitStack, mode: Mode, ledger: Ledger | None) -> LiveTail:
    """Connect the apps that a chat would have, and remember in the wire file what is told."""
    from sightline.agent.host.journal import Journal
    from sightline.agent.host.sight import SightRules
    from sightline.cli.mcp import READY_S, WHOLE_TOKENS, open_hub
    from sightline.context.tokens.tokens import ESTIMATE, counter_for
    from sightline.gateway.tail import LiveTail

    settings = loaded_config().settings
    hub = await stack.enter_async_context(open_hub(settings))
    await hub.ready(READY_S)
    journal = None
    if ledger is not None:
        try:
            journal = Journal(ledger.path)
            stack.callback(journal.close)
        except SightlineError as error:
            notice(f"what is told is not kept: {error}")
    budget = settings.tail.max_tokens or WHOLE_TOKENS
    rules = SightRules(budget, settings.tail.format, {}, budget)
    return LiveTail(mode, lambda: hub.world, counter_for(ESTIMATE).count, rules, journal)


def _secret(port: int) -> str:
    """Make the unguessable part of an address; that of a chosen port stays the same."""
    fresh = secrets.token_urlsafe(SECRET_BYTES)
    if not port:
        return fresh
    path = user_state_path("sightline", appauthor=False) / f"gateway-{port}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a+", encoding="ascii", opener=private) as file:
            about = os.fstat(file.fileno())
            file.seek(0)
            kept = file.read().strip()
            if (
                len(kept) == len(fresh)
                and about.st_uid == os.getuid()
                and not about.st_mode & 0o077
            ):
                return kept
            os.fchmod(file.fileno(), 0o600)
            file.truncate(0)
            file.write(fresh)
    except (OSError, ValueError) as error:
        notice(f"the address is another one next time: {error}")
    return fresh


def _ledger(db: Path | None) -> Ledger | None:
    try:
        return Ledger(ledger_path(db))
    except SightlineError as error:
        notice(f"nothing is recorded: {error}")
        return None


async def _watch(seen: asyncio.Queue[Passing | None], observer: Observer, screen: _Screen) -> None:
    """Look at what has passed, one after the other, beside the traffic."""
    # Whoever looks gives way ten times as often: a request that passes must not wait for it.
    sys.setswitchinterval(0.0005)
    while (passing := await seen.get()) is not None:
        passed = await asyncio.to_thread(observer.observe, passing)
        trace_passed(passed, passing)
        screen.show(passed)


class _Screen:
    """One line for each request on stderr; kept to the end where a program has the terminal."""

    def __init__(self, *, as_json: bool, held: bool) -> None:
        self._as_json = as_json
        self._held = held
        self.passed: list[Passed] = []

    def show(self, passed: Passed) -> None:
        self.passed.append(passed)
        if not self._held:
            self._write(passed)

    def _write(self, passed: Passed) -> None:
        if self._as_json:
            tell(escape_controls(_plain(passed)).decode())
            return
        notice(*map(shown_text, line_of(passed)))

    def end(self) -> None:
        """Say what was held back, and the sum."""
        if self._as_json and self._held:
            for passed in self.passed:
                self._write(passed)
        elif not self._as_json:
            troubles = dict.fromkeys(one.trouble for one in self.passed if self._held)
            notice(*map(shown_text, filter(None, troubles)))
            notice(*summary_lines(summarise(self.passed)))


def _plain(passed: Passed) -> bytes:
    found: dict[str, Any] = {"cost_usd": None, **msgspec.to_builtins(passed)}
    found.pop("anchors", None)
    if passed.source:
        found |= dict.fromkeys(("status", "bytes", "first_ms", "total_ms"))
    if passed.loss is not None:
        found["loss"] |= {"words": passed.loss.words, "advice": passed.loss.advice}
    return Gate().json_text(msgspec.json.encode(found))


def chosen(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Tell where each API's requests go: as said, as the environment has it, or to the vendor."""
    found = addresses.default_addresses(environment)
    for text in given:
        name, equals, url = text.partition("=")
        if not equals or "/" in name:
            name, url = "", text
        if name and name not in UPSTREAMS:
            raise InvalidInput(f"there is no API {name!r}; there are {', '.join(UPSTREAMS)}")
        if not _is_address(url):
            raise InvalidInput(f"an upstream is an http or https address; not {url!r}")
        for one in [name] if name else [*found]:
            # A server without a path has the API where its vendor has it.
            usual = UPSTREAMS[one][2] if urlsplit(url).path in ("", "/") else ""
            found[one] = url.rstrip("/") + usual
    return found


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(known) and url.isprintable() and not set(url) & set(" ?#")


async def _child(program: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run the program with its vendors led through here; return its exit code."""
    with led_codex(program, variables["OPENAI_BASE_URL"]) as (words, more):
        env = {**os.environ, **variables, **more}
        loop = asyncio.get_running_loop()
        # The terminal sends an interrupt to the program, too. The program decides about it.
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        # The handlers come before the program, which can already work when its start returns.
        early: list[int] = []
        forward: Callable[[int], None] = early.append

        def forward_signal(number: int) -> None:
            with suppress(ProcessLookupError):
                forward(number)

        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, forward_signal, number)
        try:
            child = await asyncio.create_subprocess_exec(*words, env=env)
        except OSError as error:
            raise InvalidInput(f"{program[0]}: {error.strerror}") from error
        forward = child.send_signal
        for received in early:
            forward_signal(received)
        code = await child.wait()
    return code if code >= 0 else 128 - code
