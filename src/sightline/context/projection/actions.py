"""What a model is told about actions, beyond the name and types of the canonical text.

    plan(title: string, priority?: low|high = low, due?: date)

In a node's line a parameter that may be left out has a `?`, a closed set of values stands
for its type, a format for `string`, and a short default behind it. Below an app's tree, where
there is room, a line for each action says what it does, in the app's own words. Everything
else, the JSON Schema in full, is one query of the node away.

All of it is the app's: names and values are spelled so that none can pass for the line's own
punctuation, a description stays one line.

The canonical text has a fixed grammar and no place for a flag on an action; JSON and
YAML bodies show the app's own field. So the text form says once for each app which are
dangerous, below its tree, in a line that begins as no line of a tree does:

    dangerous actions (the user must approve): cancel, delete (on some nodes)

What an app does not declare is not in it: whether an action runs unasked is decided by
the host's policy, never by this line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from sightline.context.projection.escape import escape_line, mark_json, mark_word, reveal
from sightline.slop.protocol.jsontext import read, text_of
from sightline.slop.protocol.text import shown_action
from sightline.slop.protocol.tree import Affordance, Node, affordances_of, fold

ABOUT: Final = "what actions do, in the app's words:"
DETAILS: Final = "Its actions, as the app declares them:"
_WORD: Final = re.compile(r"(?!(?:true|false|null)\b)[^\W\d][\w.+-]*")
_CHOICES: Final = 8
_CHOICE_CHARS: Final = 80
_DEFAULT_CHARS: Final = 24
_ABOUT_CHARS: Final = 120
# Alternatives of alternatives are looked into so deep.
_DEPTH: Final = 3


# Items of one collection tend to have the same actions, byte for byte.
@lru_cache(maxsize=1024)
def write_actions(text: bytes) -> str:
    """Write the actions of a node as its line in a block has them."""
    affordances = affordances_of(Raw(text))
    if not affordances:
        return ""
    return f"  actions: {{{', '.join(map(_action, affordances))}}}"


def about_lines(root: Node) -> list[str]:
    """Say what the actions of a tree do, each once, in order of appearance; empty if none says."""
    fold(root, _descriptions)
    found = _descriptions((root,))
    if not found:
        return []
    return [ABOUT, *(f"- {_shown(action)}: {_brief(words)}" for action, words in found.items())]


def action_details(node: Node) -> str:
    """Write everything that an app declares of a node's actions, a line of JSON for each.

    Actions of which it says nothing but the name are not in it; empty where there are no others.
    """
    text = node.affordances_json
    declared = [] if isinstance(text, UnsetType) else read(text) or []
    written = [text_of(item) for item in declared if len(item) > 1]
    lines = [reveal(mark_json(bytes(item).decode(), lines=True, names=True)) for item in written]
    return "\n".join((DETAILS, *lines)) if lines else ""


def _action(affordance: Affordance) -> str:
    name = shown_action(affordance.action)
    schema = affordance.params or {}
    params = schema.get("properties")
    if not isinstance(params, dict) or not params:
        return name
    required = schema.get("required")
    names = required if isinstance(required, list) else None
    return f"{name}({', '.join(_param(param, params[param], names) for param in params)})"


def _param(name: str, schema: object, required: list[object] | None) -> str:
    """Write one parameter. A schema that names none that is required leaves it to the default."""
    if not isinstance(schema, dict):
        return f"{shown_action(name)}: any"
    kinds = list(dict.fromkeys(_kinds(schema)))
    is_nullable = "null" in kinds
    is_optional = name not in required if required is not None else is_nullable
    default = schema.get("default")
    if is_optional or default is not None:
        kinds = [kind for kind in kinds if kind != "null"]
        name = f"{shown_action(name)}?"
    else:
        name = shown_action(name)
    value = "" if default is None or default == "" else _value(default)
    behind = f" = {value}" if value and len(value) <= _DEFAULT_CHARS else ""
    return f"{name}: {'|'.join(kinds) or 'any'}{behind}"


def _kinds(schema: Mapping[str, Any], depth: int = 0) -> Iterable[str]:
    """The kinds of values that a schema lets through, as far as a few words can say."""
    if "const" in schema:
        return [_value(schema["const"]) or "any"]
    if isinstance(schema.get("enum"), list):
        return _choices(schema["enum"])
    for name in ("anyOf", "oneOf"):
        parts = schema.get(name)
        if isinstance(parts, list) and depth < _DEPTH:
            found = (_kinds(part, depth + 1) for part in parts if isinstance(part, dict))
            return [kind for kinds in found for kind in kinds][: _CHOICES + 1]
    kind = schema.get("type")
    named = [one for one in (kind if isinstance(kind, list) else [kind]) if isinstance(one, str)]
    return [_kind(one, schema) for one in named]


def _kind(kind: str, schema: Mapping[str, Any]) -> str:
    form, items = schema.get("format"), schema.get("items")
    if kind == "string" and isinstance(form, str) and _WORD.fullmatch(form):
        kind = form
    elif kind == "array" and isinstance(items, dict) and isinstance(items.get("type"), str):
        return f"{shown_action(items['type'])}[]"
    return shown_action(kind)


def _choices(values: list[object]) -> list[str]:
    """As many of the values as are soon read; the last word says that there are more."""
    shown: list[str] = []
    for value in values:
        spelled = _value(value)
        is_long = sum(map(len, shown)) + len(spelled) > _CHOICE_CHARS
        if not spelled or is_long or len(shown) == _CHOICES:
            return [*shown, "…"]
        shown.append(spelled)
    return shown


def _value(value: object) -> str:
    """Spell a scalar, a word as it is; empty for anything larger."""
    if isinstance(value, str) and _WORD.fullmatch(value):
        return shown_action(value)
    if isinstance(value, (dict, list)):
        return ""
    return shown_action(msgspec.json.encode(value).decode())


def _descriptions(nodes: tuple[Node, ...]) -> dict[str, str]:
    """What each action of these nodes and of all below them does, by the first that says it."""
    found: dict[str, str] = {}
    for node in nodes:
        if node.affordances_json:
            for action, words in _described(bytes(node.affordances_json)):
                found.setdefault(action, words)
        for run in node.runs() if node.child_list else ():
            for action, words in run.known[_descriptions].items():
                found.setdefault(action, words)
    return found


@lru_cache(maxsize=1024)
def _described(text: bytes) -> tuple[tuple[str, str], ...]:
    return tuple(
        (item.action, item.description)
        for item in affordances_of(Raw(text))
        if item.description and item.description.strip()
    )


def _shown(action: str) -> str:
    """Spell an action as its node's line does."""
    return reveal(shown_action(mark_word(action)))


def _brief(words: str) -> str:
    """The first line of a description, cut at a word where it is long."""
    line = words.strip().split("\n", 1)[0].rstrip()
    if len(line) > _ABOUT_CHARS:
        line = f"{line[:_ABOUT_CHARS].rsplit(' ', 1)[0]}…"
    return escape_line(line)


_LEAD: Final = "dangerous actions (the user must approve): "
_MIXED: Final = " (on some nodes)"


def danger_line(root: Node) -> str:
    """Name the dangerous actions of a tree in their order of appearance; empty if it has none.

    The line of a part of a tree is never longer than that of the whole.
    """
    fold(root, _dangers)
    names = [
        _shown(action) + (_MIXED if False in found else "")
        for action, found in _dangers((root,)).items()
        if True in found
    ]
    return _LEAD + ", ".join(names) if names else ""


def _dangers(nodes: tuple[Node, ...]) -> dict[str, frozenset[bool]]:
    """Whether each action of these nodes and of all below them is dangerous, or only sometimes."""
    found: dict[str, frozenset[bool]] = {}
    for node in nodes:
        if node.affordances_json:
            _add(found, _own_dangers(bytes(node.affordances_json)))
        for run in node.runs() if node.child_list else ():
            _add(found, run.known[_dangers].items())
    return found


def _add(found: dict[str, frozenset[bool]], more: Iterable[tuple[str, frozenset[bool]]]) -> None:
    for action, dangers in more:
        known = found.get(action)
        if known is None:
            found[action] = dangers
        elif not dangers <= known:
            found[action] = known | dangers


# Items of one collection tend to have the same actions, byte for byte.
@lru_cache(maxsize=1024)
def _own_dangers(text: bytes) -> tuple[tuple[str, frozenset[bool]], ...]:
    return tuple(
        (item.action, frozenset((bool(item.dangerous),))) for item in affordances_of(Raw(text))
    )
