"""`/state`, `/tail`, `/why`, `/cache`, `/stats`, `/cost`: what a model sees, why, and the price."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

import click

from sightline._amounts import dollars, percent
from sightline.cli.commands.command import CommandCall, Section
from sightline.cli.commands.console import columns
from sightline.cli.commands.offers import AppPath, find_path, offering
from sightline.context.dialects.drift import CAUSES, Drift, cause_of
from sightline.context.ledger import Ledger, StoredUsage, Totals
from sightline.context.projection.select import WHY_CUT, Omission, Selection
from sightline.context.slots.prompt import RULES, Receipt, SlotLine
from sightline.slop.protocol.path import format_path, parse_path

COMMANDS: Final = Section("Insight")
_NOTHING: Final = Totals(0, 0, 0, 0, 0, 0)
_HANDED_ON: Final = "tasks handed on"
_HEADS: Final = ("requests", "prompt", "from cache", "answers", "cost")


@COMMANDS.command("state")
async def _state(call: CommandCall) -> None:
    """Show the ### STATE that the model left."""
    state = await call.ledger(lambda ledger: ledger.states.current(call.host.session.id))
    await call.console.page(state or "The model has left no state yet.")


@COMMANDS.command("tail")
async def _tail(call: CommandCall) -> None:
    """Show what stands behind the boundary, as it would be sent now."""
    preview = await call.host.preview()
    texts = [message.text for message in preview.prompt.tail]
    await call.console.page("\n\n".join(texts) or "There is no tail.")


@COMMANDS.command("why", example="/why history")
@click.argument(
    "wanted", metavar="SLOT|PLACE",
    shell_complete=offering(lambda here, word, _: (*here.slots(), *here.nodes(word))),
)  # fmt: skip
async def _why(call: CommandCall, wanted: str) -> None:
    """Say why a slot is cut, or whether and why a node is not shown."""
    preview = await call.host.preview()
    receipt = preview.prompt.receipt
    if any(line.name == wanted for line in receipt.slots):
        lines = [*_why_slot(receipt, receipt.slot(wanted)), *_blame(preview.drift, wanted)]
    else:
        found = find_path(call.host.world, wanted)
        lines = [_why_node(preview.selection, found)]
    call.console.write("\n".join(lines))


def _why_slot(receipt: Receipt, line: SlotLine) -> Iterator[str]:
    yield (
        f"{line.name}: {line.kept:,} of {line.offered:,} tokens are in the prompt, "
        f"{line.cut:,} are cut; it may have {line.maximum:,} of {receipt.budget:,}"
    )
    for rule, count in Counter(message.rule for message in line.messages).items():
        yield f"  {count} {'message' if count == 1 else 'messages'}: {RULES[rule]}"
    positions = {
        "frozen": "the same bytes in every request",
        "append": "before the boundary: it only grows",
        "volatile": "behind the boundary: written anew for every request",
    }
    yield f"  {positions[line.stability]}"


def _blame(drift: Drift | None, slot: str) -> list[str]:
    if drift is None or drift.expected or drift.slot != slot:
        return []
    return [f"  the next request departs from the last one here: {_why_departs(drift)}"]


def _why_departs(drift: Drift) -> str:
    """Say in words why a request does not begin like the last one, then in bytes."""
    cause, _ = cause_of(drift, "", "")
    return f"{CAUSES[cause][0]}; {drift}" if cause else str(drift)


def _why_node(selection: Selection, found: AppPath) -> str:
    name = f"{found.app.id}{found.path}"
    cut = _cut_over(selection, found.app.id, found.path)
    if cut is None:
        return f"{name} is shown whole"
    if cut.path == found.path and cut.reason == "stub":
        return f"{name} is shown without the {cut.nodes} nodes below it: {WHY_CUT[cut.reason]}"
    return f"{name} is not shown: {WHY_CUT[cut.reason]} (cut at {cut.app_id}{cut.path})"


def _cut_over(selection: Selection, app_id: str, path: str) -> Omission | None:
    """Find what keeps a node out: a cut at the nearest node around it that is shown."""
    app = selection.world.app(app_id)
    ids = parse_path(path)
    shown = 0
    if app is not None and app.tree is not None:
        node = app.tree
        for node_id in ids:
            if (child := node.child(node_id)) is None:
                break
            node, shown = child, shown + 1
    nearest = format_path(ids[:shown])
    cuts = [cut for cut in selection.cuts if cut.app_id == app_id and cut.path in (nearest, "/")]
    if shown == len(ids):
        return next((cut for cut in cuts if cut.path == path and cut.reason == "stub"), None)
    return next((cut for cut in cuts if cut.path == nearest), cuts[0] if cuts else None)


@COMMANDS.command("cache")
async def _cache(call: CommandCall) -> None:
    """Say how much of the next request is the last one again."""
    preview = await call.host.preview()
    if preview.drift is None:
        call.console.write("Nothing was sent yet: there is no request to share a beginning with.")
    else:
        call.console.write(f"next request: {_why_departs(preview.drift)}")
    totals = await call.ledger(lambda ledger: ledger.accounts.totals(call.host.session.id))
    if totals.requests:
        call.console.write(
            f"this session: {totals.cached_tokens:,} of {totals.prompt_tokens:,} prompt tokens "
            f"came from a cache, {percent(totals.cached_tokens, totals.prompt_tokens)}"
        )


@COMMANDS.command("stats")
async def _stats(call: CommandCall) -> None:
    """Show tokens and cost by model, for this session and for all."""
    session_id = call.host.session.id
    session, tasks, requests, ledger = await call.ledger(
        lambda ledger: (
            *spent_in(ledger, session_id),
            ledger.accounts.requests(session_id),
            ledger.accounts.totals(),
        )
    )
    by_model: defaultdict[str, Totals] = defaultdict(lambda: _NOTHING)
    for usage in requests:
        by_model[usage.model] += _totals_of(usage)
    rows: list[tuple[str, ...]] = [("", *_HEADS)]
    rows += [(model, *_figures(totals)) for model, totals in by_model.items()]
    if tasks.requests:
        rows.append((_HANDED_ON, *_figures(tasks)))
    rows.append(("this session", *_figures(session + tasks)))
    rows.append(("all sessions", *_figures(ledger)))
    call.console.write("\n".join(columns(rows, right=range(1, 6))))


@COMMANDS.command("cost")
async def _cost(call: CommandCall) -> None:
    """Show what each turn of this session cost, by model."""
    session_id = call.host.session.id
    spent, session, tasks = await call.ledger(
        lambda ledger: (
            ledger.accounts.by_turn_and_model(session_id),
            *spent_in(ledger, session_id),
        )
    )
    turns = {
        group: str(number) for number, group in enumerate(dict.fromkeys(g for g, *_ in spent), 1)
    }
    rows: list[tuple[str, ...]] = [("turn", "", *_HEADS)]
    shown: set[int | None] = set()
    for group, model, totals in spent:
        turn = "" if group in shown else "beside" if group is None else turns[group]
        shown.add(group)
        rows.append((turn, model, *_figures(totals)))
    if tasks.requests:
        rows.append(("", _HANDED_ON, *_figures(tasks)))
    rows.append(("", "this session", *_figures(session + tasks)))
    call.console.write("\n".join(columns(rows, right=(0, *range(2, 7)))))


def spent_in(ledger: Ledger, session_id: int) -> tuple[Totals, Totals]:
    """Sum up a session, and the tasks that it handed on."""
    first, *others = ledger.sessions.family(session_id)
    tasks = (ledger.accounts.totals(one.id) for one in others)
    return ledger.accounts.totals(first.id), sum(tasks, _NOTHING)


def _totals_of(one: StoredUsage) -> Totals:
    tokens = one.prompt_tokens, one.completion_tokens, one.cached_tokens
    return Totals(1, *tokens, one.cost_nanousd or 0, int(one.cost_nanousd is None))


def _figures(totals: Totals) -> tuple[str, ...]:
    return (
        f"{totals.requests:,}",
        f"{totals.prompt_tokens:,}",
        f"{totals.cached_tokens:,}",
        f"{totals.completion_tokens:,}",
        dollars(totals.cost_usd, totals.unpriced),
    )
