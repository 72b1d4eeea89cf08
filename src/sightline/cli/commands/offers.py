"""What a person types for an argument: nodes of apps are found, and what there is is offered.

A node is `desk`, `desk/inbox/msg-104`, or `/inbox`: the app's id comes first and the path follows
it. With one app there is no doubt which one is meant, and the path alone is enough. Offers are
asked for while somebody types: answers come from memory or with one small query, and only what
the line needs is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import click
from click.shell_completion import CompletionItem

from sightline.agent.host import Host
from sightline.agent.models.choose import Choice, usable
from sightline.cli.clean import clean_line
from sightline.cli.commands.command import Completer
from sightline.context.ledger.paths import expanded
from sightline.errors import InvalidInput, SightlineError
from sightline.slop.protocol.path import join
from sightline.slop.protocol.scope import actions_in_scope
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

Offer: TypeAlias = tuple[str, str]  # a word, and what it is
MOST: Final = 50


class AppPath(NamedTuple):
    """A node of an app's tree; `tree` is the whole tree, `path` where the node is."""

    app: AppState
    path: str
    tree: Node

    @property
    def node(self) -> Node:
        return self.tree.at(self.path)


def find_app(world: World, app_id: str) -> AppState:
    """Find a connected app by its id. Raises InvalidInput, naming those that there are."""
    app = world.app(app_id)
    if app is None:
        raise InvalidInput(f"there is no app {app_id[:80]!r}; {_those_of(world)}")
    return app


def find_path(world: World, text: str) -> AppPath:
    """Find a node. Raises InvalidInput for an unknown app, InvalidPath for an unknown node."""
    app, path = _split(world, text)
    if app.tree is None:
        raise InvalidInput(f"{app.id} has shown no state yet ({app.status})")
    found = AppPath(app, path, app.tree)
    _ = found.node
    return found


def _split(world: World, text: str) -> tuple[AppState, str]:
    matching = [app for app in world.apps if text == app.id or text.startswith(f"{app.id}/")]
    if matching:
        app = max(matching, key=lambda app: len(app.id))
        return app, text[len(app.id) :] or "/"
    if text.startswith("/") and len(world.apps) == 1:
        return world.apps[0], text
    if text.startswith("/"):
        raise InvalidInput(f"say in which app: APP{text[:80]}; {_those_of(world)}")
    return find_app(world, text.partition("/")[0]), "/"


def _those_of(world: World) -> str:
    names = ", ".join(app.id for app in world.apps)
    return f"there are {names}" if names else "no app is connected"


class Sources:
    """What there is to complete with, asked of a host. All of it may be called from a thread."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def apps(self) -> Iterator[Offer]:
        return ((app.id, app.name) for app in self._host.world.apps)

    @property
    def world(self) -> World:
        return self._host.world

    def available(self) -> Iterator[Offer]:
        return ((app.id, app.name) for app in self._host.world.available)

    def groups(self) -> Iterator[Offer]:
        recent = self._host.ledger.groups.recent(self._host.session.id, MOST)
        return ((str(group.id), group.prompt) for group in reversed(recent))

    def written(self) -> Iterator[Offer]:
        """Messages that somebody wrote down, by name."""
        return ((one.name, one.about) for found in self._host.guidance for one in found.commands)

    def sessions(self) -> Iterator[Offer]:
        return ((str(one.id), one.name) for one in self._host.ledger.sessions.recent(limit=MOST))

    def memos(self) -> Iterator[Offer]:
        shelf = self._host.memos
        return ((shelf.reference(memo), memo.content) for memo in shelf.recent(MOST))

    def models(self) -> Iterator[Offer]:
        return ((choice.reference, choice.why) for choice in self._choices if choice.usable)

    @cached_property
    def _choices(self) -> list[Choice]:
        return usable(self._host.settings, self._host.env)

    def slots(self) -> Iterator[Offer]:
        last = self._host.last
        lines = () if last is None else last.prompt.receipt.slots
        return ((line.name, f"{line.kept:,} tokens") for line in lines)

    def nodes(self, word: str) -> Iterator[Offer]:
        """Offer apps, then what is below the node that the word names so far."""
        world = self._host.world
        if "/" not in word:
            yield from self.apps()
            return
        if word.startswith("/") and len(world.apps) != 1:
            return
        found = _known_path(self._host, word.rpartition("/")[0] or "/")
        if found is not None:
            head = "" if word.startswith("/") else found.app.id
            for child in found.node.children:
                yield head + join(found.path, child.id), _label(child)

    def actions(self, path: str) -> Iterator[Offer]:
        found = _known_path(self._host, path)
        if found is not None:
            for scoped in actions_in_scope(found.tree, found.path):
                about = scoped.affordance.label or scoped.affordance.description or ""
                yield scoped.affordance.action, about

    def files(self, word: str) -> Iterator[Offer]:
        """Offer what is in the directory that the word names so far; hidden files if asked for."""
        head, _, name = word.rpartition("/")
        try:
            folder = expanded(f"{head}/" if head or word.startswith("/") else ".")
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (OSError, ValueError, InvalidInput):  # also for a name with a NUL
            return
        prefix = f"{head}/" if "/" in word else ""
        for entry in entries:
            if entry.name.startswith(".") and not name.startswith("."):
                continue
            yield f"{prefix}{entry.name}{'/' if _is_folder(entry) else ''}", ""


def offering(
    source: Callable[[Sources, str, Mapping[str, Any]], Iterable[Offer]],
) -> Completer:
    """Complete an argument from a source: of the word so far, and of the arguments before it."""

    def complete(context: click.Context, _: click.Parameter, word: str) -> list[CompletionItem]:
        return fitting(word, source(context.obj, word, context.params))

    return complete


def fitting(word: str, offers: Iterable[Offer]) -> list[CompletionItem]:
    """Keep what begins with a word, and is not all of it."""
    found = (
        CompletionItem(text, help=clean_line(about))
        for text, about in offers
        # What a terminal would not show as it is, it shall not put into a line either.
        if text.startswith(word) and text != word and clean_line(text) == text
    )
    return list(islice(found, MOST))


def _known_path(host: Host, text: str) -> AppPath | None:
    try:
        return find_path(host.world, text) if text else None
    except SightlineError:
        return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _label(node: Node) -> str:
    label = node.properties.get("label") or node.properties.get("title")
    return label if isinstance(label, str) else node.type
