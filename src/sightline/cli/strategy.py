"""`sightline strategy`: what there is, and what a strategy does with a recorded session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from sightline.agent.plugins.run import StrategyRunner, available, load_strategy
from sightline.cli.io import max_bytes_option, read_as, read_json
from sightline.cli.options import examples
from sightline.cli.out import say, write_json_lines
from sightline.context.messages.given import message_given
from sightline.context.messages.parts import File, Input, Message, Part
from sightline.context.slots.slots import Budget
from sightline.context.slots.strategy import Layers, Turn
from sightline.context.tokens.tokens import counter_for, default_counter
from sightline.errors import InvalidInput, InvalidJson
from sightline.slop.protocol.jsontext import text_from_bytes

PARTS: Mapping[str, type[msgspec.Struct]] = {
    kind.__struct_config__.tag: kind for kind in get_args(Part)
}


@click.group()
def strategy() -> None:
    """List strategies, or check one on a recorded session."""


@examples("sightline strategy list", "sightline strategy list --json")
@strategy.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One object per line.")
def list_(as_json: bool) -> None:
    """List the strategies that can be named: built in, and from installed packages."""
    for name, origin, problem in available():
        if as_json:
            row = {"name": name, "origin": origin, "usable": not problem, "problem": problem}
            write_json_lines([row])
        else:
            say(f"{name:<16} {origin}" + (f"  unusable: {problem}" if problem else ""))


@examples(
    "sightline strategy check classic --session talk.jsonl",
    "sightline ledger export 1 --db work.db | sightline strategy check minimal --session -",
)
@strategy.command()
@click.argument("file")
@click.option(
    "--session",
    required=True,
    help="An exported session (JSONL), or a JSON list of messages; - is stdin.",
)
@click.option("--turn", type=int, default=-1, help="Which user message is the input; -1 is last.")
@click.option("--budget", type=int, default=8000, show_default=True, help="Tokens of the prompt.")
@click.option("--model", help="Count for this model; also an encoding, or chars/4.")
@click.option("--system", default="", help="The system prompt.")
@click.option("--config", default="{}", help="The strategy's settings, as a JSON object.")
@click.option("--json", "as_json", is_flag=True, help="The receipt as JSON.")
@max_bytes_option
def check(
    file: str,
    session: str,
    turn: int,
    budget: int,
    model: str | None,
    system: str,
    config: str,
    as_json: bool,
    max_bytes: int,
) -> None:
    """Run a strategy on one turn of a recorded session and print its receipt.

    FILE is a .py file, or the name of a strategy. The strategy sees the session up to
    the chosen user message. Exits with 1 when it fails, 2 when it cannot be loaded.
    """
    settings = read_json(config)
    if not isinstance(settings, dict):
        raise InvalidInput("--config: not a JSON object")
    runner = StrategyRunner(load_strategy(Path(file) if os.path.isfile(file) else file), settings)
    user_input, history = _turn_of(read_as(read_session, session, max_bytes), turn)
    counter = default_counter() if model is None else counter_for(model)
    given = Turn(user_input, history, Budget(budget), counter, Layers(system=system), clock=_Now())
    built = asyncio.run(runner.build(given, {}))
    if built.failure is not None:
        raise built.failure
    receipt = built.prompt.receipt
    if as_json:
        write_json_lines([receipt.encode()])
    else:
        say(receipt.table())


class _Now:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


def _turn_of(messages: list[Message], turn: int) -> tuple[Input, list[Message]]:
    """Split a session at one of its user messages."""
    indexes = [index for index, message in enumerate(messages) if message.role == "user"]
    if not indexes:
        raise InvalidInput("the session has no message of a user")
    number = turn - 1 if turn > 0 else turn + len(indexes)
    if turn == 0 or not 0 <= number < len(indexes):
        raise InvalidInput(f"--turn {turn}: the session has turns 1 to {len(indexes)}")
    index = indexes[number]
    files = tuple(part for part in messages[index].parts if isinstance(part, File))
    return Input(messages[index].text, files), messages[:index]


def read_session(data: bytes) -> list[Message]:
    """Read a recorded session: the ledger's export, or a JSON list of messages.

    The export is one JSON object per line, each with a `kind`; what is neither session
    nor message, rows that were dropped, and keys from a later version are passed over.
    """
    text = text_from_bytes(data)
    if text.lstrip().startswith("["):
        listed = read_json(text)
        return [message_given(item) for item in listed]
    messages = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = read_json(line)
        except InvalidJson as error:
            raise InvalidJson(error.reason, number, error.column) from error
        if not isinstance(row, dict) or "kind" not in row:
            raise InvalidInput(f"line {number}: not a row of an exported session")
        if row["kind"] == "message" and row.get("status") != "dropped":
            try:
                messages.append(_exported_message(row))
            except InvalidInput as error:
                raise InvalidInput(f"line {number}: {error}") from error
    return messages


def _exported_message(row: Mapping[str, Any]) -> Message:
    parts = row.get("parts")
    if not isinstance(parts, Sequence):
        raise InvalidInput("a message without parts")
    return message_given({"role": row.get("role"), "parts": [_known_keys(part) for part in parts]})


def _known_keys(part: object) -> object:
    if not isinstance(part, dict) or part.get("kind") not in PARTS:
        return part
    known = (*PARTS[part["kind"]].__struct_fields__, "kind")
    return {key: value for key, value in part.items() if key in known}
