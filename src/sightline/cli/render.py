"""`sightline render`: a filter from a prompt to a vendor's request JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

import click
import msgspec

from sightline.cli.io import max_bytes_option, naming, read_as, read_json
from sightline.cli.options import examples
from sightline.cli.out import write_json
from sightline.context.dialects import Options, Request, encode, profile_for
from sightline.context.dialects.drift import drift
from sightline.context.dialects.request import Thinking
from sightline.context.messages.given import message_given
from sightline.context.messages.parts import Message
from sightline.context.slots.prompt import Prompt, Receipt, digest_of
from sightline.errors import InvalidInput

PROMPT_KEYS: Final = {"messages", "boundary", "tail", "tools", "receipt", "resolve"}


@examples(
    "sightline render --dialect anthropic prompt.json",
    "sightline render --dialect openai-chat --model gpt-6.1-sol --conversation c7 prompt.json",
    "sightline render --dialect mistral --format full prompt.json",
    "sightline render --dialect gemini --against prompt.json next.json",
    "sightline slots slots.json | "
    "sightline render --dialect bedrock --tools tools.json --tail tail.txt",
)
@click.command()
@click.argument("file", default="-")
@click.option("--dialect", "name", required=True, help="Its endpoint: openai-chat, vllm, …")
@click.option("--model", default="", help="A model id; by default one the endpoint is known for.")
@click.option("--tools", metavar="FILE", help='Tool definitions: a list, or {"tools": […]}.')
@click.option("--tail", metavar="FILE", help="Text to put behind the prompt, as its volatile tail.")
@click.option("--profile", metavar="FILE", help='Overrides: {"cache.min_tokens": 2048, …}.')
@click.option("--conversation", default="", help="An id that keeps its requests on one cache.")
@click.option(
    "--thinking",
    type=click.Choice(get_args(Thinking)),
    default="auto",
    help="What becomes of reasoning that is bound to its prefix.",
)
@click.option(
    "--cache-ttl", default="", help="How long the cache is to last, where one can choose."
)
@click.option("--max-output-tokens", type=click.IntRange(min=1), help="How much it may answer.")
@click.option("--prepend", is_flag=True, help="Put the tail before the history: a regression.")
@click.option("--no-stream", is_flag=True, help="Ask for the answer in one piece.")
@click.option("--against", metavar="FILE", help="A previous prompt: say what the two share.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["body", "full"]),
    default="body",
    help="The request's body alone, or with path, headers, boundary and notes.",
)
@max_bytes_option
def render(
    file: str,
    name: str,
    model: str,
    tools: str | None,
    tail: str | None,
    profile: str | None,
    no_stream: bool,
    against: str | None,
    form: str,
    max_bytes: int,
    **options: Any,
) -> None:
    """Write a prompt as the request JSON of a vendor.

    Reads {"messages": […], "boundary"?: N, "tail"?: TEXT, "tools"?: […], "receipt"?: {…}}
    and writes the body to send. Messages are {"role", "content"} or {"role", "parts"}, as
    `sightline slots` writes them. Those from the boundary on are the volatile tail; the
    boundary is the receipt's, or the end. A tail given as text, or as a list of texts,
    comes behind them.

    With --against the answer is what this request shares with a previous one, where they
    first differ, which slot did it, and what that costs.
    """

    def read(source: str) -> Any:
        return read_as(lambda data: read_json(_text(data)), source, max_bytes)

    overrides = {} if profile is None else _object(profile, read(profile))
    chosen = profile_for(name, model, overrides)
    chosen_options = Options(stream=not no_stream, **options)
    more_tools = None if tools is None else _definitions(tools, read(tools))
    more_tail = None if tail is None else read_as(_text, tail, max_bytes)

    def encoded(source: str) -> Request:
        given = read(source)
        with naming(source):
            return encode(prompt_from_json(given, more_tools, more_tail), chosen, chosen_options)

    request = encoded(file)
    if against is not None:
        prices = chosen.prices
        found = drift(
            encoded(against).wire,
            request.wire,
            input_price=prices.input,
            read_price=prices.cache_read,
        )
        write_json({**msgspec.to_builtins(found), "expected": found.expected})
    elif form == "body":
        write_json(request.data)
    else:
        write_json(_full(request))


def _full(request: Request) -> dict[str, Any]:
    return {
        "endpoint": request.profile.endpoint,
        "model": request.profile.model,
        "path": request.path,
        "headers": request.headers,
        "body": request.body,
        "boundary": request.wire.boundary,
        "bytes": len(request.wire.data),
        "marks": request.marks,
        "thinking": request.thinking,
        "names": request.names,
        "notes": request.notes,
    }


def prompt_from_json(
    given: object, tools: list[dict[str, Any]] | None = None, tail: str | None = None
) -> Prompt:
    """Read a prompt; raise `InvalidInput` naming what is wrong with it."""
    if not isinstance(given, Mapping):
        raise InvalidInput("a prompt is an object with messages")
    for key in sorted(given.keys() - PROMPT_KEYS):
        have = ", ".join(sorted(PROMPT_KEYS - {"resolve"}))
        raise InvalidInput(f"a prompt has no {key!r}; it has {have}")
    listed = given.get("messages")
    if not isinstance(listed, list):
        raise InvalidInput("messages: not a list")
    messages = [_message(number, item) for number, item in enumerate(listed)]
    if tools is None:
        tools = _definitions("tools", given.get("tools", []))
    receipt = _receipt(given.get("receipt"))
    boundary = given.get("boundary", len(messages) if receipt is None else receipt.boundary)
    if isinstance(boundary, bool) or not isinstance(boundary, int):
        raise InvalidInput(f"boundary: {boundary!r} is not a number of messages")
    if not 0 <= boundary <= len(messages):
        raise InvalidInput(f"boundary: {boundary}, and there are {len(messages)} messages")
    messages += [Message.of("user", text) for text in _tail(given.get("tail")) if text]
    messages += [Message.of("user", tail)] if tail else []
    account = receipt or _no_receipt(tools, messages[:boundary])
    return Prompt(tuple(messages), boundary, account, tuple(tools))


def _message(number: int, item: object) -> Message:
    try:
        return message_given(item)
    except InvalidInput as error:
        raise InvalidInput(f"messages[{number}]: {error}") from error


def _tail(given: object) -> list[str]:
    texts: list[Any] = given if isinstance(given, list) else [] if given is None else [given]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInput("tail: neither text nor a list of texts")
    return texts


def _receipt(given: object) -> Receipt | None:
    if given is None:
        return None
    try:
        return msgspec.convert(given, Receipt)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"receipt: {error}") from error


def _no_receipt(tools: list[dict[str, Any]], prefix: list[Message]) -> Receipt:
    """The account of a prompt that nobody weighed."""
    digest = digest_of(tools, prefix)
    return Receipt(0, "", "estimated", 0, 0, 0, 0, len(prefix), digest, ())


def _definitions(where: str, given: object) -> list[dict[str, Any]]:
    listed = given.get("tools") if isinstance(given, Mapping) else given
    if not isinstance(listed, list) or not all(isinstance(tool, dict) for tool in listed):
        raise InvalidInput(f"{where}: not a list of tool definitions")
    return listed


def _object(where: str, given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidInput(f"{where}: not an object")
    return given


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"byte {error.start}: not UTF-8") from error
