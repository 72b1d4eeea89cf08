"""Write `docs/reference.md` from the code.

    python -m proof.reference > docs/reference.md

A test compares the page with what this writes, so that the two cannot part.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import ForwardRef, Union, get_args, get_origin

import click
import msgspec

from sightline.cli.main import cli

_WIDTH = 90
_HEAD = """\
# Reference

Written from the code by `python -m proof.reference`; a test compares the two. What the names are
for is in the [guides](README.md); what they promise is in their docstrings, of which this shows
the first lines. A name that two modules have stands in the first of them.
"""
# Where public names are imported from: these modules and no others.
FACADES = (
    "sightline", "sightline.slop", "sightline.context", "sightline.agent", "sightline.config",
    "sightline.demo", "sightline.errors", "sightline.events", "sightline.testing",
    "sightline.adapters.openai_agents", "sightline.adapters.pydantic_ai",
    "sightline.adapters.langchain",
)  # fmt: skip


def page() -> str:
    """The whole page."""
    pieces = [_HEAD, *_names(), "\n## Command line\n", *_commands()]
    return "\n".join(pieces).rstrip() + "\n"


def _names() -> Iterator[str]:
    """Every façade with its names; of those that an earlier one has, the names alone."""
    shown: list[object] = []
    for path in FACADES:
        facade = importlib.import_module(path)
        values = {name: getattr(facade, name) for name in facade.__all__}
        known = [name for name, value in values.items() if any(value is one for one in shown)]
        yield f"## `{path}`\n\n{_first_line(facade)}\n"
        if known:
            yield f"Also here, and shown above: {', '.join(f'`{name}`' for name in known)}.\n"
        for name, value in values.items():
            if name not in known:
                yield _name(name, value)
        shown += values.values()


def _name(name: str, value: object) -> str:
    if get_origin(value) is not None:  # a name for types
        return f"### `{name}`\n\n`{_alias(value)}`\n"
    lines = [f"### `{name}`", "", f"`{name}{_signature(value)}`", "", _first_line(value), ""]
    if inspect.isclass(value) and not issubclass(value, BaseException):
        members = list(_members(value))
        if members:
            lines += ["| member | |", "| --- | --- |", *members, ""]
    return "\n".join(lines)


def _alias(value: object) -> str:
    kinds = [kind.__name__ if isinstance(kind, type) else repr(kind) for kind in get_args(value)]
    return " | ".join(kinds)


def _members(kind: type) -> Iterator[str]:
    """The public methods and properties that the project gave a class, inherited ones too."""
    for name, member in inspect.getmembers(kind):
        home = getattr(inspect.unwrap(getattr(member, "fget", None) or member), "__module__", "")
        documented = inspect.getdoc(member)
        if name.startswith("_") or not documented or not str(home).startswith("sightline"):
            continue
        if isinstance(member, property):
            yield f"| `{name}` | {_first_line(member)} |"
        elif callable(member):
            signature = _signature(member).replace("|", "\\|")
            yield f"| `{name}{signature}` | {_first_line(member)} |"


def _signature(value: object) -> str:
    if not callable(value):
        return ""
    try:
        signature = inspect.signature(value)
    except ValueError:
        return ""
    plain = [
        parameter.replace(
            default=_default(parameter.default), annotation=_said(parameter.annotation)
        )
        for parameter in signature.parameters.values()
        if parameter.name not in {"self", "cls"}
    ]
    made = signature.replace(parameters=plain, return_annotation=_said(signature.return_annotation))
    return str(made)


class _Text:
    """A text that stands in a signature as it is, without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(value: object) -> object:
    if value is inspect.Parameter.empty:
        return value
    # An object has an address, which differs from run to run; a value's fields stand elsewhere.
    hidden = repr(value).startswith("<") or isinstance(value, msgspec.Struct)
    return _Text("…") if hidden else value


def _said(annotation: object) -> object:
    if annotation is inspect.Parameter.empty:
        return annotation
    if isinstance(annotation, ForwardRef):  # as Python 3.14 has the fields of a named tuple
        return _Text(annotation.__forward_arg__)
    if isinstance(annotation, str):
        return _Text(re.sub(r"\b[a-z_]+\.(?=[A-Z])", "", annotation))  # a module by its alias
    if get_origin(annotation) in {Union, UnionType}:  # which interpreters spell in two ways
        return _Text(" | ".join(repr(_said(kind)) for kind in get_args(annotation)))
    if annotation is NoneType:
        return _Text("None")
    # A class is known by its own name: where it is defined may change.
    return _Text(re.sub(r"\b(?:[a-z]\w*\.)+(?=[A-Z])", "", inspect.formatannotation(annotation)))


def _first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0].replace("|", "\\|")


def _commands(
    command: click.Command = cli, name: str = "sightline", parent: click.Context | None = None
) -> Iterator[str]:
    own = {**command.context_settings, "max_content_width": _WIDTH}
    context = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH, **own)
    yield f"### `{context.command_path}`\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None:
                yield from _commands(found, child, context)


if __name__ == "__main__":
    sys.stdout.write(page())
