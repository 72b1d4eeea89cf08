"""`sightline slots`: a filter from declared slots to messages and a receipt."""

from __future__ import annotations

from typing import Any, Final

import click
import msgspec

from sightline.cli.io import max_bytes_option, read_as, read_json, source_argument
from sightline.cli.options import examples
from sightline.cli.out import write_json, write_text
from sightline.context.messages.given import input_given
from sightline.context.messages.parts import Message, Text, ToolResult
from sightline.context.slots.options import SlotOptions
from sightline.context.slots.slots import Budget, Content, Slots
from sightline.errors import InvalidInput, InvalidSlot

REQUEST_KEYS: Final = {"budget", "counter", "slots", "tools"}
SLOT_KEYS: Final = {"name", "content", "options"}


@examples("sightline slots request.json", "sightline slots request.json --format table")
@click.command()
@source_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "table"]),
    default="json",
    help="Messages and receipt as JSON, or the receipt as a table.",
)
@max_bytes_option
def slots(source: str, form: str, max_bytes: int) -> None:
    """Assemble a prompt from slots within a budget.

    Reads {"budget": N, "counter"?: NAME, "slots": [{"name", "content", "options"?}]} and
    writes {"messages": […], "receipt": {…}}. A counter is an encoding (o200k_base), a
    model id, or chars/4. Content is a string, null, a message or a list of messages.

    Exits with 6 when what must stay does not fit, 2 when an option is out of range.
    """
    prompt = read_as(lambda data: read_slots(read_json(data)), source, max_bytes).render()
    if form == "table":
        write_text([prompt.receipt.table()])
        return
    answer = {
        "messages": [message_to_json(message) for message in prompt.messages],
        "receipt": msgspec.Raw(prompt.receipt.encode()),
    }
    write_json(answer)


def message_to_json(message: Message) -> dict[str, Any]:
    """Write role and content, and the parts where they are more than one text."""
    contents = [
        part.text if isinstance(part, Text) else part.content
        for part in message.parts
        if isinstance(part, Text | ToolResult)
    ]
    data: dict[str, Any] = {"role": message.role, "content": "\n\n".join(contents)}
    if len(message.parts) != 1 or not isinstance(message.parts[0], Text):
        data["parts"] = msgspec.to_builtins(message.parts)
    return data


def read_slots(request: object) -> Slots:
    """Build the slots that a request declares; raise `InvalidInput` naming what is wrong."""
    if not isinstance(request, dict):
        raise InvalidInput("the request is not an object with budget and slots")
    _check_keys("the request", request, REQUEST_KEYS, {"budget", "slots"})
    counter = request.get("counter")
    if counter is not None and not isinstance(counter, str):
        raise InvalidInput(f"counter: {counter!r} is not a name")
    tools = request.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise InvalidInput("tools: not a list of objects")
    if not isinstance(request["slots"], list):
        raise InvalidInput("slots: not a list")
    pending = Slots(_budget(request["budget"]), counter, tools=tools)
    for number, slot in enumerate(request["slots"]):
        _add(pending, number, slot)
    return pending


def _add(pending: Slots, number: int, slot: object) -> None:
    if not isinstance(slot, dict):
        raise InvalidInput(f"slots[{number}]: not an object")
    _check_keys(f"slots[{number}]", slot, SLOT_KEYS, {"name"})
    name = slot["name"]
    if not isinstance(name, str):
        raise InvalidInput(f"slots[{number}]: the name {name!r} is not a string")
    given = slot.get("options") or {}
    if not isinstance(given, dict):
        raise InvalidSlot(name, "options", "not an object")
    pending.add_slot(name, _content(name, slot.get("content")), SlotOptions.from_json(name, given))


def _content(name: str, value: object) -> Content:
    if value is None or isinstance(value, str | list):
        return value
    if not isinstance(value, dict):
        raise InvalidSlot(name, "content", f"{value!r:.60} is not a message")
    try:
        return input_given(value) if "text" in value else value
    except InvalidInput as error:
        raise InvalidSlot(name, "content", str(error)) from error


def _budget(value: Any) -> Budget:
    if not isinstance(value, dict):
        return Budget(value)
    try:
        return msgspec.convert(value, Budget)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"budget: {error}") from error


def _check_keys(where: str, given: dict[str, Any], known: set[str], needed: set[str]) -> None:
    for key in sorted(needed - given.keys()):
        raise InvalidInput(f"{where}: {key} is missing")
    for key in sorted(given.keys() - known):
        raise InvalidInput(f"{where}: there is no {key!r}; there are {', '.join(sorted(known))}")
