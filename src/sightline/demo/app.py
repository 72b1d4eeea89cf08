"""The demo as a live app: a mailbox, a calendar and a draft, and everything one does with them.

It starts as `state.json` shows it. The state is plain Python objects; the node
functions below say how they look, the actions change them, and the engine does the
rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from sightline.errors import ActionError
from sightline.slop.app.app import App

WINDOW: Final = 4
_OLDER: Final = 34


@dataclass
class Mail:
    """A message in the inbox. Some can be answered, some are only for reading."""

    id: str
    title: str
    sender: str
    at: str
    unread: bool = False
    answerable: bool = False
    meta: dict[str, Any] = field(default_factory=dict)
    attachment: dict[str, Any] | None = None


@dataclass
class CalendarEvent:
    """An appointment in the demo's calendar."""

    id: str
    title: str
    start: str
    minutes: int
    room: str | None = None
    movable: bool = False
    meta: dict[str, Any] = field(default_factory=dict)


def _messages() -> list[Mail]:
    urgent = {"salience": 1, "urgency": "high"}
    invoice = {
        "mime": "application/pdf",
        "summary": "Invoice over 1,240 NOK, due 10 April",
        "size": 48213,
    }
    recent = [
        Mail("msg-104", "Launch moved to Thursday", "Priya Raman", "09:12", True, True, urgent),
        Mail("msg-103", "Lunch at 12:30?", "Jonas Berg", "08:47", True, True),
        Mail("msg-102", "Invoice 2210", "Nordlys AS", "Thu", attachment=invoice),
        Mail("msg-101", "Minutes of the review", "Priya Raman", "Wed", meta={"salience": 0.3}),
    ]
    older = [
        Mail(f"msg-{100 - n}", f"Weekly digest {_OLDER - n}", "Harbour News", "March")
        for n in range(_OLDER)
    ]
    return [*recent, *older]


class Desk:
    """The demo's state: one person's messages, events and drafts."""

    def __init__(self) -> None:
        self.open_view = "inbox"
        self.messages = _messages()
        self.archive: list[Mail] = []
        self.sent: list[dict[str, str]] = []
        self.events = [
            CalendarEvent(
                "evt-7", "Launch rehearsal", "13:00", 45, "Fjord", True, {"salience": 0.8}
            ),
            CalendarEvent("evt-8", "Dentist", "16:30", 30),
        ]
        self.drafts = [{"id": "draft-1", "title": "Offer to Nordlys"}]

    def inbox(self) -> dict[str, Any]:
        """The newest messages, of all."""
        unread = sum(message.unread for message in self.messages)
        shown = [self.message(message) for message in self.messages[:WINDOW]]
        return {
            "type": "view",
            "props": {"label": "Inbox", "unread": unread},
            "summary": f"{len(self.messages)} messages, {unread} unread",
            "meta": self._attention("inbox"),
            "window": {"items": shown, "total": len(self.messages), "offset": 0},
        }

    def message(self, message: Mail) -> dict[str, Any]:
        """One message, with what can be done with it."""
        actions: dict[str, Any] = {}
        if message.answerable:
            actions["reply"] = partial(self.reply, message)
        actions["archive"] = {"handler": partial(self.put_away, message), "idempotent": True}
        if message.answerable:
            actions["delete"] = {
                "handler": partial(self.delete, message),
                "description": "Delete for good",
                "dangerous": True,
            }
        shown: dict[str, Any] = {
            "id": message.id,
            "props": {
                "title": message.title,
                "from": message.sender,
                "at": message.at,
                "unread": message.unread,
            },
            "meta": message.meta,
            "actions": actions,
        }
        if message.attachment is not None:
            shown["content_ref"] = message.attachment
        return shown

    def calendar(self) -> dict[str, Any]:
        """Today's events."""
        first = min((event.start for event in self.events), default=None)
        until = "" if first is None else f", next at {first}"
        return {
            "type": "view",
            "props": {"label": "Calendar"},
            "summary": f"{len(self.events)} events today{until}",
            "meta": self._attention("calendar"),
            "items": [self.event(event) for event in self.events],
        }

    def event(self, event: CalendarEvent) -> dict[str, Any]:
        """One event, with what can be done with it."""
        actions: dict[str, Any] = {"move": partial(self.move, event)} if event.movable else {}
        actions["cancel"] = {"handler": partial(self.cancel, event), "dangerous": True}
        room = {} if event.room is None else {"room": event.room}
        return {
            "id": event.id,
            "props": {
                "title": event.title,
                "start": event.start,
                "minutes": event.minutes,
                **room,
            },
            "meta": event.meta,
            "actions": actions,
        }

    def draft_view(self) -> dict[str, Any]:
        """The drafts: a stub until somebody opens them."""
        titles = ", ".join(draft["title"] for draft in self.drafts)
        many = "1 draft" if len(self.drafts) == 1 else f"{len(self.drafts)} drafts"
        shown: dict[str, Any] = {
            "type": "view",
            "props": {"label": "Drafts"},
            "summary": f"{many}: {titles}" if titles else "no drafts",
        }
        # SLOP, scaling: an inactive view is a stub with a summary.
        if self.open_view == "drafts":
            return {**shown, "meta": self._attention("drafts"), "items": self.draft_items()}
        return {**shown, "meta": {"salience": 0.2, "total_children": len(self.drafts)}}

    def draft_items(self) -> list[dict[str, Any]]:
        """The drafts themselves."""
        return [
            {"id": draft["id"], "type": "document", "props": {"title": draft["title"]}}
            for draft in self.drafts
        ]

    def reply(self, message: Mail, body: str) -> dict[str, str]:
        """Answer a message, which is then read."""
        message.unread = False
        return self.compose(message.sender, f"Re: {message.title}", body)

    def put_away(self, message: Mail) -> None:
        """Move a message to the archive."""
        self.messages.remove(message)
        self.archive.append(message)

    def delete(self, message: Mail) -> None:
        """Remove a message for good."""
        self.messages.remove(message)

    def compose(self, to: str, subject: str, body: str) -> dict[str, str]:
        """Send a message."""
        self.sent.append({"to": to, "subject": subject, "body": body})
        return {"sent_to": to, "subject": subject}

    def add_event(self, title: str, start: str, minutes: int = 30) -> dict[str, str]:
        """Make an appointment."""
        if any(event.start == start for event in self.events):
            raise ActionError("conflict", f"there is something at {start} already")
        number = 1 + max((int(event.id.removeprefix("evt-")) for event in self.events), default=8)
        added = CalendarEvent(f"evt-{number}", title, start, minutes, movable=True)
        self.events = sorted([*self.events, added], key=lambda event: event.start)
        return {"id": added.id}

    def move(self, event: CalendarEvent, start: str) -> None:
        """Give an event another time."""
        event.start = start
        self.events.sort(key=lambda event: event.start)

    def cancel(self, event: CalendarEvent) -> None:
        """Call an event off."""
        self.events.remove(event)

    def search(self, query: str) -> list[dict[str, str]]:
        """Find messages and events that have all the words."""
        words = query.casefold().split()
        entries = [(f"/inbox/{item.id}", f"{item.title} {item.sender}") for item in self.messages]
        entries += [(f"/calendar/{item.id}", item.title) for item in self.events]
        return [
            {"path": path, "text": text}
            for path, text in entries
            if all(word in text.casefold() for word in words)
        ]

    def navigate(self, to: Literal["inbox", "calendar", "drafts"]) -> None:
        """Open another view."""
        self.open_view = to

    def _attention(self, view: str) -> dict[str, Any]:
        return {"focus": True, "salience": 0.9} if self.open_view == view else {}


_ADD_EVENT: Final = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "start": {"type": "string"},
        "minutes": {"type": "integer"},
    },
    "required": ["title", "start"],
}


def demo_app(desk: Desk | None = None, make: Callable[..., App] = App) -> App:
    """Make the demo app, on a desk of its own unless one is given."""
    desk = desk or Desk()
    app = make("desk", "Desk")
    # SLOP, scaling: the root offers search and navigation.
    app.action(
        "/", "search", description="Find messages and events by words", idempotent=True
    )(desk.search)  # fmt: skip
    app.action("/", "navigate", description="Open another view")(desk.navigate)
    account = {"user": "Mara Lindqvist", "email": "mara@fjord.example", "today": "2026-03-27"}
    app.register("account", {"type": "context", "props": account})
    app.node("inbox")(desk.inbox)
    app.action("inbox", "compose", description="Write a new message")(desk.compose)

    @app.children("inbox")
    def more_messages(offset: int, count: int) -> list[dict[str, Any]]:
        return [desk.message(message) for message in desk.messages[offset : offset + count]]

    app.node("calendar")(desk.calendar)
    app.action("calendar", "add_event", params=_ADD_EVENT)(desk.add_event)
    app.node("drafts")(desk.draft_view)
    app.children("drafts")(desk.draft_items)
    return app
