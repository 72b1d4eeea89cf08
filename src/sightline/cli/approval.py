"""What a person is asked: before an action, behind a plan, about a repository's instructions.

    what is not on a card is counted on it, and `v` shows it
    every character can be seen, and one that a reader would take for another is a number

One card and one dialogue, wherever it is asked. A card is made of values alone. Text of apps and
models stands behind a label of ours or a bar, so that no line of it can pass for one of the card's
own, and is written by `cli.clean.visible`. Where letters run from right to left, which a terminal
may show in another order, a line says so.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from sightline._lazy import lazy_pattern
from sightline.cli.clean import BAR, BREAK, clean, visible
from sightline.cli.commands.console import Console, Line, PlainConsole, line_of, pieces_of, text_of
from sightline.cli.diff import diff_lines
from sightline.cli.out import Writable
from sightline.context.messages.redact import redact
from sightline.errors import ActionError, SightlineError
from sightline.events import ApprovalAsked
from sightline.slop.app.validate import Validator
from sightline.slop.protocol.jsontext import text_of as text_of_json

if TYPE_CHECKING:
    from sightline.agent.host import Host
    from sightline.slop.hub.hub import Hub


# Print a question and read the line that answers it; empty at the end of the input.
Ask: TypeAlias = Callable[[str], Awaitable[str]]

_MORE: Final = "[v] shows all"
_DANGEROUS: Final = "the app calls it dangerous"  # the policy's reason, too
_OURS: Final = "our own"  # as an `Origin` writes it
_CHARS: Final = 600
_LINES: Final = 12
_DIFF_LINES: Final = 40
_CONTENT_BYTES: Final = 256 * 1024
_LEFTWARD: Final = lazy_pattern(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_NAME: Final = lazy_pattern(r"[\w.-]{1,40}", re.ASCII)
_YES_NO: Final = {"y": "yes", "yes": "yes", "n": "no", "no": "no"}
_YES_NO_VIEW: Final = {**_YES_NO, "v": "view", "view": "view"}
_QUESTION: Final = "do it? [y]es [n]o [a]lways [v]iew all:"
_WRITER_QUESTION: Final = "do it? [y]es [n]o [a]lways [e]dit [v]iew all:"
_ANSWERS: Final = {**_YES_NO_VIEW, "a": "always", "always": "always"}
_NETWORK: Final = " [o]nce with network"
_FORM_QUESTION: Final = "answer it? [y]es [n]o [v]iew all:"
_OPEN_QUESTION: Final = "will you open it? [y]es [n]o [v]iew all:"
_TRUTH: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_WHY: Final = "why not? The model is told; Enter for no reason:"
_PLAN_QUESTION: Final = "carry out this plan? [y]es [n]o:"
_PLAN_WRITER_QUESTION: Final = "carry out this plan? [y]es [n]o [e]dit:"
_INSTEAD: Final = "what should be different? The model is told; Enter for nothing:"
_FOLLOW_QUESTION: Final = "follow them, now and later? [y]es [n]o [v]iew all:"


class Consent(NamedTuple):
    """What was answered; `rule` is the number of the rule that is remembered, or 0.

    `reason` is why not. With `params` the answer is to do it with them, or to ask again.
    """

    approved: bool
    rule: int = 0
    reason: str = ""
    params: dict[str, Any] | None = None


class Asker(Console, Protocol):
    """Somebody who can be asked before an action: at a terminal, or line by line."""

    async def choose(self, question: str, answers: Mapping[str, str]) -> str:
        """Ask until one of the answers is typed, and give what it means; empty to turn away."""

    async def enter(self, question: str, begun: str = "") -> str:
        """Ask for a line, which has `begun` already; empty to turn away."""


class LineAsker(PlainConsole):
    """Somebody who reads what is printed and answers in lines; an empty one turns away."""

    def __init__(self, out: Writable, ask: Ask, *, width: int) -> None:
        super().__init__(out, width=width)
        self._typed = ask

    async def ask(self, question: str) -> bool:
        return (await self._typed(f"{clean(question)} [y/n] ")).strip().lower() in ("y", "yes")

    async def choose(self, question: str, answers: Mapping[str, str]) -> str:
        while typed := (await self._typed(f"{question} ")).strip().lower():
            if typed in answers:
                return answers[typed]
        return ""

    async def enter(self, question: str, begun: str = "") -> str:
        """Ask for a line."""
        return await self._typed(f"{question} ") or begun


async def consent_to(
    event: ApprovalAsked, asker: Asker, hub: Hub | None = None, *, writes: bool = False
) -> Consent:
    """Ask for a yes to what the card shows, which is drawn already.

    Who wants to see all of it sees the node's content too, if there is a hub to have it from.
    Who `writes` is asked for a reason behind a no, and can change the parameters.
    """
    if event.is_question:
        return await answer_to(event, asker)
    question = _WRITER_QUESTION if writes else _QUESTION
    answers = {**_ANSWERS, "e": "edit"} if writes else _ANSWERS
    if event.no_network:
        question = f"{question[:-1]}{_NETWORK}:"
        answers = {**answers, "o": "network", "once": "network"}
    while True:
        match await asker.choose(question, answers):
            case "yes":
                return Consent(True)
            case "network":
                return Consent(True, params={**event.params, "network": True})
            case "no" if writes:
                return Consent(False, reason=(await asker.enter(_WHY)).strip())
            case "edit" if writes:
                if (params := await _edited(event, asker)) is not None:
                    return Consent(False, params=params)
            case "always":
                if rule := await _rule(event, asker):
                    return Consent(True, rule)
            case "view":
                whole = approval_card(event, asker.width, whole=True)
                whole += [] if hub is None else await _content(event, hub, asker.width)
                await asker.page("\n".join(map(text_of, whole)))
            case _:
                return Consent(False)


async def answer_to(event: ApprovalAsked, asker: Asker) -> Consent:
    """Ask whether a server is to be answered, and then for each part of its form, in a line.

    An empty line is what the form has already, or nothing; where something is needed it is a no.
    """
    question = _OPEN_QUESTION if event.url else _FORM_QUESTION
    while (chosen := await asker.choose(question, _YES_NO_VIEW)) == "view":
        whole = question_card(event, asker.width, whole=True)
        await asker.page("\n".join(map(text_of, whole)))
    if chosen != "yes" or event.form is None:
        return Consent(chosen == "yes")
    content: dict[str, Any] = {}
    for name, field in _fields(event.form):
        while (typed := (await asker.enter(f"{visible(name)}:")).strip()) or "default" in field:
            try:
                content[name] = _value_of(typed, field) if typed else field["default"]
                Validator(field).check(content[name])
            except (ActionError, ValueError):
                content.pop(name, None)
                asker.draw([line_of("  it takes something else", "error")])
                continue
            break
    try:
        Validator(event.form).check(content)
    except ActionError as error:
        asker.draw([line_of(f"  not answered: {visible(error.message)}", "error")])
        return Consent(False)
    return Consent(True, params=content)


def _fields(form: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    found = form.get("properties")
    properties = found if isinstance(found, Mapping) else {}
    return [(name, field) for name, field in properties.items() if isinstance(field, Mapping)]


def _value_of(typed: str, field: Mapping[str, Any]) -> Any:
    """Read what was typed as a form wants it. Raises ValueError."""
    match field.get("type"):
        case "boolean":
            return _TRUTH.get(typed.lower(), typed)
        case "integer":
            return int(typed)
        case "number":
            return float(typed)
        case "array":
            return [part.strip() for part in typed.split(",")]
        case _:
            return typed


def question_card(event: ApprovalAsked, width: int, *, whole: bool = False) -> list[Line]:
    """Write what a server asks its user: who, from where, in its words, and for what."""
    lines = [*_text("?", f"{event.app} asks you", width, whole, style="bold", indent="")]
    name = f"{event.name}, " if event.name else ""
    lines += _text("app:", f"{name}from {event.origin}", width, whole)
    lines += _text("it says:", event.summary, width, whole)
    if event.url:
        lines += _text("to be opened:", event.url, width, whole=True)
    required = (event.form or {}).get("required")
    for name, field in _fields(event.form or {}):
        needed = isinstance(required, list) and name in required
        about = f"{name}{', needed' if needed else ''}: {_json(dict(field))}"
        lines += _text("it wants:", about, width, whole, style="dim")
    lines += _text("asked because:", event.reason, width, whole, style="dim")
    return lines + _leftward(lines, width)


async def _content(event: ApprovalAsked, hub: Hub, width: int) -> list[Line]:
    """Write the content of the node that the action is on, as it is now."""
    from sightline.slop.hub.content import ContentAccess, path_in_app, read_text

    app = hub.world.app(event.app)
    try:
        node = None if app is None or app.tree is None else app.tree.at(event.path)
        if node is None or node.content_ref is None:
            return []
        if (served_by := path_in_app(node.content_ref)) is not None:
            reads = [one.dangerous for one in node.affordances if one.action == "read_content"]
            if served_by != event.path or not reads or any(reads):
                return list(_text("its content:", "the app lets nobody just read it", width, True))
        client = await hub.client(event.app)
        access = ContentAccess(max_bytes=_CONTENT_BYTES)
        text = redact(await read_text(client, node.content_ref, access))
    except SightlineError as error:
        text = f"not to be had: {error}"
    return list(_text("its content:", text, width, whole=True))


async def _edited(event: ApprovalAsked, asker: Asker) -> dict[str, Any] | None:
    """Have the parameters changed; None if they stay as they are."""
    line = msgspec.json.encode(event.params)
    try:
        edited = await asker.edit(msgspec.json.format(line, indent=2).decode(), ".json")
    except SightlineError:  # there is no editor, or it cannot be started
        edited = await asker.enter("parameters:", line.decode())
    try:
        params = msgspec.json.decode(edited, type=dict[str, Any]) if edited else None
    except msgspec.MsgspecError as error:
        asker.draw([line_of(f"  parameters are a JSON object: {error}", "error")])
        return None
    if params is None or params == event.params:
        asker.draw([line_of("  nothing was changed", "dim")])
        return None
    return params


async def _rule(event: ApprovalAsked, asker: Asker) -> int:
    """Print the rules that could be remembered, and ask for one of them; 0 for none."""
    if not event.rules:
        asker.draw([(("warn", "  no rule can stand for this; it has to be asked each time"),)])
        return 0
    lines: list[Line] = [(("ask", "  from now on and until the session is closed, unasked:"),)]
    for number, rule in enumerate(event.rules, 1):
        lines += _text(f"{number}", rule, asker.width, whole=True)
    asker.draw(lines)
    count = len(event.rules)
    chosen = {str(number): str(number) for number in range(1, count + 1)}
    numbers = "[1]" if count == 1 else f"[1-{count}]"
    question = f"which rule? {numbers}, [n]one; /rules lists and removes them:"
    return int(await asker.choose(question, {**chosen, "n": "0", "no": "0", "none": "0"}) or 0)


def approval_card(event: ApprovalAsked, width: int, *, whole: bool = False) -> list[Line]:
    """Write everything that a person decides by: who, from where, what, with what, what changed.

    Unless it is wanted `whole`, what is long is cut, and what is missing is counted.
    """
    if event.is_question:
        return question_card(event, width, whole=whole)
    head = f" on {event.app}{'' if event.path == '/' else event.path}" if event.app else ""
    lines = [*_text("?", f"{event.action}{head}", width, whole, style="bold", indent="")]
    if event.delegate:
        lines += _text("for the task of", event.delegate, width, whole)
    if event.dangerous:
        lines.append((("error", f"  {_DANGEROUS}"),))
    if event.differences:
        lines.append((("error", "  it has changed since you were asked:"),))
        lines += _list(event.differences, width, whole, "error")
    origin = event.origin or "nobody knows where: it is not connected"
    origin = origin if origin == _OURS else f"from {origin}"
    name = f"{event.name}, " if event.name else ""
    if event.app:
        lines += _text("app:", f"{name}{origin}", width, whole)
        lines += _node(event, width, whole)
    if event.about:
        lines += _text("the app says of the action:", event.about, width, whole, style="dim")
    if whole or not event.diff:
        lines += _parameters(event.params, width, whole)
    lines += diff_lines(event.diff, width, None if whole else _DIFF_LINES, f", {_MORE}")
    if event.reason and not (event.dangerous and event.reason == _DANGEROUS):
        lines += _text("asked because:", event.reason, width, whole, style="dim")
    if event.changes:
        lines.append((("warn", "  changed since the model looked:"),))
        lines += _list(event.changes, width, whole, "warn")
    return lines + _leftward(lines, width)


def _leftward(lines: list[Line], width: int) -> list[Line]:
    if not any(_LEFTWARD.search(text_of(line)) for line in lines):
        return []
    moved = "some letters run from right to left: what stands beside them may look moved"
    return list(_text("!", moved, width, whole=True, style="warn"))


def _node(event: ApprovalAsked, width: int, whole: bool) -> Iterator[Line]:
    if not event.type:
        yield (("warn", "  node: the app does not show it"),)
        return
    label = f'"{event.label}", ' if event.label else ""
    summary = f": {event.summary}" if event.summary else ""
    yield from _text("node:", f"{label}{event.type}{summary}", width, whole)
    shown = dict(event.properties or {})
    if not whole and shown.get("label") == event.label:
        shown.pop("label", None)  # it stands on the line above
    if shown:
        yield from _text("it shows:", _json(shown), width, whole, style="dim")
    if event.context:
        yield from _text("in the context of:", _json(event.context), width, whole, style="dim")


def _parameters(params: Mapping[str, Any], width: int, whole: bool) -> Iterator[Line]:
    if not params:
        yield (("dim", "  without parameters"),)
    for index, (name, value) in enumerate(params.items()):
        if index == _LINES and not whole:
            more = len(params) - index
            yield (("warn", f"  … {more:,} more parameters, {_MORE}"),)
            return
        text = f'"{value}"' if isinstance(value, str) else _json(value)
        if _NAME.fullmatch(name):
            yield from _text(f"{name}:", text, width, whole)
        else:
            yield from _text("parameter", f"{name}: {text}", width, whole)


def _list(texts: tuple[str, ...], width: int, whole: bool, style: str) -> Iterator[Line]:
    shown = texts if whole else texts[:_LINES]
    for text in shown:
        yield from _text("  ·", text, width, whole, style=style)
    if more := len(texts) - len(shown):
        yield ((style, f"    … {more:,} more, {_MORE}"),)


def _text(
    label: str, text: str, width: int, whole: bool, *, style: str = "", indent: str = "  "
) -> Iterator[Line]:
    """Write a text behind a label of ours; what does not fit on its line goes behind a bar."""
    kept = text if whole else "\n".join(text[:_CHARS].split("\n")[:_LINES])
    room = max(10, width - len(BAR))
    first = f"{indent}{label} "
    left = max(10, width - len(first))
    for line in visible(kept).replace(BREAK, f"{BREAK}\n").removesuffix("\n").split("\n"):
        for piece in pieces_of(line, left, room):
            yield (("ask" if first.startswith("?") else "dim", first), (style, piece))
            first, left = BAR, room
    if more := len(text) - len(kept):
        yield (("warn", f"{BAR}… {more:,} more characters, {_MORE}"),)


def _json(value: Any) -> str:
    return bytes(text_of_json(value)).decode()


async def answer_plan(host: Host, asker: Asker, *, writes: bool = False) -> str | None:
    """Ask about the plan that waits; give what to say to the model next, None for nothing.

    Who `writes` can change the plan, or say behind a no what should be different.
    """
    question = _PLAN_WRITER_QUESTION if writes else _PLAN_QUESTION
    answers = {**_YES_NO, "e": "edit"} if writes else _YES_NO
    while host.mode == "plan" and host.plan:
        match await asker.choose(question, answers):
            case "yes":
                return _accepted(host, asker)
            case "edit" if writes:
                if edited := await _edited_plan(host.plan, asker):
                    return _accepted(host, asker, edited)
            case "no" if writes and (words := (await asker.enter(_INSTEAD)).strip()):
                return words
            case _:
                asker.draw([line_of("◦ not carried out; /plan accept does it after all", "dim")])
                break
    return None


def _accepted(host: Host, asker: Asker, changed: str = "") -> str:
    words = host.accept_plan(changed)
    asker.draw([line_of(f"◦ mode {host.mode}", "dim")])
    return words


async def _edited_plan(plan: str, asker: Asker) -> str:
    try:
        return (await asker.edit(plan) or "").strip()
    except SightlineError as error:  # there is no editor, or it cannot be started
        asker.draw([line_of(f"✗ {error}", "error")])
        return ""


async def ask_to_follow(host: Host, asker: Asker) -> None:
    """Ask about instructions that are new or have changed, showing what changed.

    A user who turns the question away is asked about other content, or at the next start.
    """
    await asyncio.to_thread(host.refresh_guidance)
    offered, changed = host.offered_guidance, host.guidance_changes
    if offered is None or host.follows is not None or offered == host.postponed_guidance:
        return
    event = "has changed instructions" if changed else "has instructions"
    asker.draw([
        line_of(f"? {visible(str(offered.root))} {event} for the model:", "ask"),
        line_of(f"  {visible(host.unfollowed)}"),
        *diff_lines("\n".join(changed.values()), asker.width, _DIFF_LINES, f", {_MORE}"),
    ])  # fmt: skip
    while (answer := await asker.choose(_FOLLOW_QUESTION, _YES_NO_VIEW)) == "view":
        whole = [f"{one.path}\n\n{one.whole}" for one in offered.files]
        await asker.page("\n\n".join((*changed.values(), *whole)))
    host.postponed_guidance = offered
    try:
        if answer:
            await asyncio.to_thread(host.follow, answer == "yes", offered)
    except SightlineError as error:  # the consent cannot be stored
        asker.draw([line_of(f"✗ {error}", "error")])


def unasked(host: Host) -> str:
    """Name the instructions that need the user's consent first, empty if there are none."""
    ways = "`sightline chat` asks you, `sightline ask '/instructions on'` agrees"
    return f"{host.unfollowed}. {ways}" if host.unfollowed else ""
