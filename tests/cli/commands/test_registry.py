"""One registry: everything the specification names is in it, and everything is made from it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import click
import pytest

from sightline.agent.host import Host
from sightline.cli.commands.command import CommandCall, Leave, Section, rest
from sightline.cli.commands.console import PlainConsole
from sightline.cli.commands.registry import COMMANDS, find, is_command, message_of, run, to_markdown
from sightline.errors import InvalidInput

ROOT = Path(__file__).parent.parent.parent.parent
# For what fails, or needs nothing, before there is a host.
NOBODY = cast(Host, SimpleNamespace(guidance=()))

# The commands of the seed's reference and of the issue, as they are called.
WANTED = """
/context · /context show · /context window 3 · /context rebuild · /context drop 1
/context restore 1 · /undo · /redo · /message list · /message list 5 · /message show 1
/message remove 1 · /messages · /messages 5 · /messages show 1 · /session list · /session new
/session switch 1 · /session clone · /session rename other · /session scratchpad
/session delete 1 · /memo list · /memo show 1 · /memo save a,b text · /memo edit 1 · /memo delete 1
/memo search words · /apps · /connect desk · /disconnect desk · /tree · /tree desk/inbox
/focus desk/inbox · /unfocus desk/inbox · /invoke desk/inbox open {} · /model · /model local
/mode ask · /mode auto · /mode plan · /state · /tail · /why history · /why desk/inbox · /diff
/search words · /session list --all · /instructions on · /plan · /plan words · /plan accept
/result 13 · /cache · /stats · /pin desk · /compact · /export · /editor · /help · /quit
"""


@pytest.mark.parametrize("line", [line.strip() for line in WANTED.replace("\n", "·").split("·")
                                  if line.strip()])  # fmt: skip
def test_every_command_that_is_specified_is_there(line: str) -> None:
    command, given = find(line)
    command.read(given)


def test_the_document_is_what_the_registry_says() -> None:
    document = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert document.endswith(to_markdown())


async def test_help_lists_every_command() -> None:
    out = StringIO()
    await run("/help", NOBODY, PlainConsole(out, width=500))
    for command in COMMANDS.values():
        assert command.usage in out.getvalue()
        assert command.title in out.getvalue()


@pytest.mark.parametrize("wanted", ["context", "/context", "CONTEXT", '"context"'])
async def test_help_for_one_command_shows_its_family_and_examples(wanted: str) -> None:
    out = StringIO()
    await run(f"/help {wanted}", NOBODY, PlainConsole(out))
    assert "/context drop GID" in out.getvalue()
    assert "/context drop 12" in out.getvalue()
    assert "/undo" not in out.getvalue()


@pytest.mark.parametrize("width", [40, 80])
async def test_help_keeps_to_the_width(width: int) -> None:
    out = StringIO()
    await run("/help", NOBODY, PlainConsole(out, width=width))
    table = [line for line in out.getvalue().splitlines() if line.startswith("/")]
    assert max(map(len, table[:-1])) <= width


def test_every_command_says_what_it_does_and_its_example_can_be_read() -> None:
    for command in COMMANDS.values():
        assert command.title.endswith(".")
        if command.example:
            found, given = find(command.example)
            assert found is command
            command.read(given)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("/contxt", "there is no command /contxt; did you mean /context?"),
        ("/zzzzzz", "there is no command /zzzzzz; /help lists them"),
        ("/", "there is no command /; /help lists them"),
        (
            "/context foo",
            "/context what? usage: /context; /context show; /context window N [SLACK]; "
            "/context rebuild; /context drop GID; /context restore GID",
        ),
        ("/rules all", "/rules what? usage: /rules; /rules remove NUMBER"),
        ("/context drop", "Missing argument 'GID'; usage: /context drop GID"),
        (
            "/context drop twelve",
            "Invalid value for 'GID': 'twelve' is not a valid number; usage: /context drop GID",
        ),
        (
            "/context drop 1 2",
            "Got unexpected extra argument (2); usage: /context drop GID",
        ),
        (
            "/context drop -1",
            "Invalid value for 'GID': -1 is not in the range 0<=x<=999999999999999; "
            "usage: /context drop GID",
        ),
        (
            "/mode fast",
            "Invalid value for '[ask|auto|plan]': 'fast' is not one of 'ask', 'auto', 'plan'; "
            "usage: /mode [ask|auto|plan]",
        ),
        (
            "/memo save tag",
            "Missing argument 'TEXT…'; usage: /memo save [--user] TAGS TEXT…",
        ),
        ("/undo 3", "Got unexpected extra argument (3); usage: /undo"),
    ],
)
async def test_what_is_wrong_is_one_line_with_the_usage(line: str, complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        await run(line, NOBODY, PlainConsole(StringIO()))
    assert str(caught.value) == complaint


async def test_a_family_without_a_command_of_its_own_shows_what_there_is() -> None:
    with pytest.raises(InvalidInput, match=r"^/memo what\? usage: /memo list \[N\]; /memo search"):
        await run("/memo", NOBODY, PlainConsole(StringIO()))


async def test_what_needs_a_terminal_says_so_without_one() -> None:
    with pytest.raises(InvalidInput, match="/editor needs a terminal"):
        await run("/editor", NOBODY, PlainConsole(StringIO()))


@pytest.mark.parametrize("line", ["/quit", "/exit", "/QUIT"])
async def test_leaving_is_told_to_whoever_runs_commands(line: str) -> None:
    with pytest.raises(Leave):
        await run(line, NOBODY, PlainConsole(StringIO()))


def test_two_slashes_say_one_to_the_model() -> None:
    assert is_command("/help")
    assert not is_command("//etc/passwd?")
    assert message_of("//etc/passwd?") == "/etc/passwd?"
    assert message_of("hello") == "hello"


TABLE = Section("a table")


@TABLE.command("x")
@click.option("--f", is_flag=True)
@click.argument("a")
@rest("b", required=False)
async def _x(call: CommandCall, **_: str) -> None: ...


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("a", {"f": False, "a": "a", "b": ""}),
        ("a  b  c ", {"f": False, "a": "a", "b": "b  c"}),
        ('"a b" c "d"', {"f": False, "a": "a b", "b": 'c "d"'}),
        ('a "b  c" ', {"f": False, "a": "a", "b": "b  c"}),
        ('a "b" c"', {"f": False, "a": "a", "b": '"b" c"'}),
        ('""', {"f": False, "a": "", "b": ""}),
        ("--f a --f", {"f": True, "a": "a", "b": "--f"}),
        ("-- -- --", {"f": False, "a": "--", "b": "-- --"}),
        ("-x it's", {"f": False, "a": "-x", "b": "it's"}),
    ],
)
def test_words_quotes_and_the_rest(text: str, arguments: dict[str, str]) -> None:
    [command] = TABLE
    assert command.read(text).params == arguments
