"""A Textual program that a model can see and use while you do.

    python examples/todo.py
    sightline watch todo              # in another terminal
    sightline invoke todo /list add --params '{"title": "Buy milk"}'

The program's own list is the state: `on_change` redraws the screen and tells the app.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

from textual.app import App as Screen
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Footer, Header, Input, OptionList

from sightline import App


@dataclass
class Todo:
    """One thing to do."""

    id: str
    title: str
    done: bool = False


class TodoScreen(Screen[None]):
    """The list on the screen, and the same list for models."""

    TITLE = "Todo"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("ctrl+t", "done", "Done or not"),
        ("ctrl+q", "quit", "Quit"),
    ]

    def __init__(self, **serving: Any) -> None:
        super().__init__()
        self.todos: list[Todo] = []
        self.shown_app = App("todo", "Todo", description="a list in a terminal")
        self._numbers = count(1)
        self._serving = serving
        self._over = asyncio.Event()
        self.addresses: tuple[str, ...] = ()
        self.shown_app.node("list")(self.describe)
        self.shown_app.action("list", "add")(self.add)
        self.shown_app.action("list/{own}", "toggle")(self.toggle)
        self.shown_app.action("list/{own}", "remove", when=lambda props: props["done"])(self.remove)

    def describe(self) -> dict[str, Any]:
        """What models see."""
        left = sum(not todo.done for todo in self.todos)
        items = [
            {"id": todo.id, "props": {"title": todo.title, "done": todo.done}}
            for todo in self.todos
        ]
        return {"type": "collection", "summary": f"{left} to do", "items": items}

    # Actions are coroutines, so they run in Textual's own event loop and may touch the screen.
    async def add(self, title: str) -> str:
        """Add one; returns its id."""
        todo = Todo(f"t{next(self._numbers)}", title)
        self.todos.append(todo)
        self.on_change()
        return todo.id

    async def toggle(self, own: str) -> None:
        """Do it, or undo it."""
        todo = next(todo for todo in self.todos if todo.id == own)
        todo.done = not todo.done
        self.on_change()

    async def remove(self, own: str) -> None:
        """Forget one that is done."""
        self.todos = [todo for todo in self.todos if todo.id != own]
        self.on_change()

    def on_change(self) -> None:
        """Draw the list, and tell whoever watches."""
        shown = self.query_one(OptionList)
        shown.clear_options()
        shown.add_options([f"{'✔' if todo.done else '·'} {todo.title}" for todo in self.todos])
        self.shown_app.refresh("list")

    def compose(self) -> ComposeResult:
        """What is on the screen."""
        yield Header()
        yield Input(placeholder="What is to be done?")
        yield OptionList()
        yield Footer()

    async def on_mount(self) -> None:
        """Be visible as soon as there is something to see."""
        ready = asyncio.Event()
        self._air = asyncio.create_task(self._serve(ready))
        await ready.wait()

    async def on_unmount(self) -> None:
        """Take the note away that says where we are."""
        self._over.set()
        await self._air

    async def _serve(self, ready: asyncio.Event) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(ready.set)
            async with self.shown_app.serving(**self._serving) as self.addresses:
                ready.set()
                await self._over.wait()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """The person at the keyboard adds one."""
        if event.value.strip():
            await self.add(event.value.strip())
            event.input.clear()

    async def action_done(self) -> None:
        """The person at the keyboard does the one that is marked, or the last."""
        at = self.query_one(OptionList).highlighted
        if self.todos:
            await self.toggle(self.todos[-1 if at is None else at].id)


if __name__ == "__main__":
    TodoScreen().run()
