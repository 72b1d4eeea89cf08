"""A ledger as the store of Pydantic AI's conversations.

A conversation is the ledger's session of that name. Its messages are there as what they say, each
with the framework's own form; the last one of every save carries the framework's record too, and
one transaction stores both, or neither if another save came first. A branch that was left stays,
a fork has a copy of what it shares, and what is deleted is gone for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter
from pydantic_ai import conversation_store as store
from pydantic_ai import messages as pa

from sightline.adapters.forms import form_of, outline, with_form
from sightline.context.dialects.stored import UNKNOWN
from sightline.context.ledger import Ledger, Session
from sightline.context.ledger.codec import to_columns
from sightline.context.messages import parts
from sightline.context.messages.gate import guarded
from sightline.context.messages.given import arguments_given
from sightline.context.messages.window import Window
from sightline.errors import NotFound, SessionChanged

NAME: Final = "pydantic_ai"
_records: Final = TypeAdapter(store.ConversationRecord)


class LedgerStore(store.ConversationStore):
    """Keeps conversations in a ledger; any number of processes may save at once."""

    def __init__(self, ledger: Ledger) -> None:
        self._log = _Log(ledger)

    async def read_record(self, conversation_id: str) -> store.ConversationRecord | None:
        """Read a conversation's record; None if there is none."""
        stored = await asyncio.to_thread(self._log.find, conversation_id)
        return None if stored is None else stored.record

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[store.ConversationRecord]:
        """Read the records of all conversations, the newest first."""
        every = await asyncio.to_thread(lambda: [stored.record for stored in self._log.all()])
        found = [record for record in every if record and scope in (None, record.scope)]
        return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: store.ConversationRecord,
        *,
        new_entries: Sequence[store.ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record with its new entries, or raise `ConversationConflict`."""
        await asyncio.to_thread(self._log.write, record, new_entries, expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation with all that was said in it, or raise `ConversationConflict`."""
        await asyncio.to_thread(self._log.delete, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> store.ConversationEntry:
        """Read one entry. Raises `LookupError` if there is none."""
        return (await asyncio.to_thread(self._log.history, entry_id))[-1]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[store.ConversationEntry]:
        """Read the entries up to one, in order, or only the last of them."""
        history = await asyncio.to_thread(self._log.history, head_id)
        return history if limit is None else history[max(len(history) - limit, 0) :]


class _Stored(NamedTuple):
    """A session of the ledger, as the framework knows it: its record, and where its entries are."""

    session: Session
    record: store.ConversationRecord | None
    entries: dict[str, parts.Message]

    def expect(self, revision: str | None) -> None:
        """Raise `ConversationConflict` unless the record is the one that the caller knows."""
        if (None if self.record is None else self.record.revision) != revision:
            raise store.ConversationConflict(self.session.name)


class _Log:
    """The conversations of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._homes: dict[str, int] = {}  # of the tips of conversations: their session

    def find(self, name: str) -> _Stored | None:
        session = self._ledger.sessions.find(name)
        return None if session is None else self._read(session)

    def all(self) -> Iterator[_Stored]:
        return map(self._read, self._ledger.sessions.recent())

    def write(
        self,
        record: store.ConversationRecord,
        new_entries: Sequence[store.ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        """Append entries and a record, if the conversation is still as the caller knows it."""
        name = record.conversation_id
        stored = self.find(name)
        if stored is None and expected_revision is None:
            stored = self._read(self._ledger.sessions.named(name))
        if stored is None:
            raise store.ConversationConflict(name)
        stored.expect(expected_revision)
        entries = [*new_entries]
        if record.head_id not in {None, *stored.entries, *(entry.id for entry in entries)}:
            try:
                entries = [*self.history(record.head_id), *entries]  # a fork
            except LookupError as error:
                raise store.ConversationConflict(name) from error
        kept = _records.dump_python(record, mode="json")
        messages = [m for entry in entries[:-1] for m in _written(entry)]
        messages += _written(entries[-1] if entries else None, record=kept)
        with _conflicts(name):
            self._ledger.append(stored.session.id, messages, head=stored.session.head)

    def delete(self, name: str, expected_revision: str) -> None:
        """Delete a conversation, if it is still as the caller knows it."""
        stored = self.find(name)
        if stored is None:
            raise store.ConversationConflict(name)
        stored.expect(expected_revision)
        with _conflicts(name):
            id_, head = stored.session.id, stored.session.head
            self._ledger.sessions.delete(id_, confirm=name, head=head)

    def history(self, head_id: str | None) -> list[store.ConversationEntry]:
        """Follow an entry to the first one; what was taken out by hand is passed over."""
        if head_id is None:
            return []
        entries = self._home(head_id).entries
        order = {name: at for at, name in enumerate(entries)}
        names, at = [*entries], order[head_id]
        history: list[store.ConversationEntry] = []
        while at >= 0:
            history.append(_entry(entries[names[at]]))
            parent = history[-1].parent_id
            at = -1 if parent is None else order.get(parent, at - 1)
        return history[::-1]

    def _home(self, entry_id: str) -> _Stored:
        """Find the session of an entry: the one whose tip it was, or else any."""
        known = self._homes.get(entry_id)
        with suppress(NotFound):
            if known is not None:
                stored = self._read(self._ledger.sessions.get(known))
                if entry_id in stored.entries:
                    return stored
        found = next((stored for stored in self.all() if entry_id in stored.entries), None)
        if found is None:
            raise KeyError(entry_id)
        return found

    def _read(self, session: Session) -> _Stored:
        record, entries = None, {}
        for stored in self._ledger.window(session.id, Window(0)):
            form = outline(stored.message, NAME) or {}
            if "message" in form:
                entries[form["id"]] = stored.message
            if "record" in form:
                record = stored.message
        if record is None:
            return _Stored(session, None, entries)
        read = _records.validate_python(form_of(record, NAME)["record"])
        tips = [tip for tip in (read.head_id, *read.branches) if tip is not None]
        self._homes.update(dict.fromkeys(tips, session.id))
        return _Stored(session, read, entries)


@contextmanager
def _conflicts(name: str) -> Iterator[None]:
    try:
        yield
    except (SessionChanged, NotFound) as error:
        raise store.ConversationConflict(name) from error


def _entry(stored: parts.Message) -> store.ConversationEntry:
    form = form_of(stored, NAME)
    [message] = pa.ModelMessagesTypeAdapter.validate_python([form["message"]])
    return store.ConversationEntry(id=form["id"], parent_id=form["parent_id"], message=message)


def _written(entry: store.ConversationEntry | None, **form: Any) -> list[parts.Message]:
    """Write an entry as messages of a ledger; the longest has the framework's form."""
    spoken: list[tuple[parts.Role, parts.Part]] = []
    if entry is not None:
        [message] = pa.ModelMessagesTypeAdapter.dump_python([entry.message], mode="json")
        form |= {"id": entry.id, "parent_id": entry.parent_id, "message": message}
        spoken = list(_parts(entry.message))
    runs = groupby(spoken, key=_role)
    clean = [guarded(parts.Message(role, [part for _, part in run])) for role, run in runs]
    stored = [message for message in clean if message.parts] or [parts.Message("assistant")]
    longest = max(range(len(stored)), key=lambda at: len(to_columns(stored[at])[0]))
    stored[longest] = with_form(stored[longest], form, NAME)
    return stored


def _role(part: tuple[parts.Role, parts.Part]) -> parts.Role:
    return part[0]


def _parts(message: pa.ModelMessage) -> Iterator[tuple[parts.Role, parts.Part]]:
    """Read what a message of the framework says, and who says it."""
    for part in message.parts:
        match part:
            case pa.SystemPromptPart():
                yield "system", parts.Text(part.content)
            case pa.UserPromptPart():
                content = [part.content] if isinstance(part.content, str) else part.content
                for given in content:
                    for item in _content(given):
                        yield "user", item
            case pa.RetryFeedbackPart():
                yield "user", parts.Text(part.model_response())
            case pa.ToolReturnPart():
                text, failed = part.model_response_str(), part.outcome != "success"
                yield "tool", parts.ToolResult(part.tool_call_id, text, part.tool_name, failed)
            case pa.TextPart():
                yield "assistant", parts.Text(part.content)
            case pa.ThinkingPart():
                yield "assistant", parts.Reasoning(part.content)
            case pa.ToolCallPart():
                arguments = arguments_given(part.args)
                yield "assistant", parts.ToolCall(part.tool_call_id, part.tool_name, arguments)


def _content(given: Any) -> Iterator[parts.Part]:
    match given:
        case str():
            yield parts.Text(given)
        case pa.TextContent():
            yield parts.Text(given.content)
        case pa.FileUrl():
            yield parts.File(given.url, "image/*" if isinstance(given, pa.ImageUrl) else UNKNOWN)
        case pa.BinaryContent():
            # Its bytes are in the form.
            yield parts.File(f"{NAME}:{given.identifier}", given.media_type, size=len(given.data))
