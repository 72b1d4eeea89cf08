"""The ledger as LangGraph's checkpointer: a thread is the session of its name.

The messages of a thread are messages of its session, each stored once, in the order in which
they were said; every checkpoint shows its own, so that going back in time and forking are as
in any checkpointer. The other channels of a checkpoint are one value that is kept as it is,
and so is everything of a graph inside the graph. Both are stored in one transaction.

What passes into the ledger passes its gate: messages come back without keys in them, wherever
in a checkpoint they are. The values of other channels are not searched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Final, TypeAlias

from langchain_core import messages as lc
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint import base
from langgraph.checkpoint.serde.base import SerializerProtocol

from sightline.adapters.forms import form_of, is_keepable, with_form
from sightline.context.ledger import Ledger, threads
from sightline.context.messages import parts
from sightline.errors import InvalidInput

_FRAMEWORK: Final = "langchain"
_MESSAGES: Final = "messages"
_ROLES: Final[dict[str, parts.Role]] = {
    "ai": "assistant", "AIMessageChunk": "assistant", "assistant": "assistant",
    "system": "system", "tool": "tool",
}  # fmt: skip
# The classes that `messages_from_dict` makes of what `message_to_dict` wrote of them.
_PLAIN: Final = (
    lc.AIMessage, lc.AIMessageChunk, lc.ChatMessage, lc.HumanMessage, lc.SystemMessage,
    lc.ToolMessage,
)  # fmt: skip
_KNOWN_BYTES: Final = 16 * 1024 * 1024
_Aside: TypeAlias = dict[str, lc.BaseMessage]


def _in_thread(method: Callable[..., Any]) -> Any:
    """Make the asynchronous form of a method: the same, in a thread."""

    async def run(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(method, *args, **kwargs)

    return run


class LedgerSaver(base.BaseCheckpointSaver[int]):
    """Keeps the threads of a graph in a ledger, which other programs may use at the same time."""

    def __init__(self, ledger: Ledger, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._ledger = ledger
        self._known: dict[bytes, threads.CleanMessage] = {}
        self._room = _KNOWN_BYTES

    def put(
        self,
        config: RunnableConfig,
        checkpoint: base.Checkpoint,
        metadata: base.CheckpointMetadata,
        new_versions: base.ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, and what was said since the one before it."""
        parent = _key(config)
        values = dict(checkpoint["channel_values"])
        messages, aside = None, _Aside()
        if not parent.namespace and _is_messages(values.get(_MESSAGES)):
            messages = [self._clean(message, aside) for message in values.pop(_MESSAGES)]
        rest = {**checkpoint, "channel_values": self._passed(values)}
        body = [rest, base.get_serializable_checkpoint_metadata(config, metadata), aside]
        key = parent._replace(id=checkpoint["id"])
        kept = threads.Checkpoint(key, parent.id or None, *self.serde.dumps_typed(body))
        self._ledger.threads.put(kept, messages)
        return _config(key)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote since a checkpoint."""
        rows = [
            threads.CheckpointWrite(
                task_id, base.WRITES_IDX_MAP.get(channel, index), task_path, channel,
                *self.serde.dumps_typed(self._passed(value)),
            )
            for index, (channel, value) in enumerate(writes)
        ]  # fmt: skip
        self._ledger.threads.put_writes(_key(config), rows)

    def get_tuple(self, config: RunnableConfig) -> base.CheckpointTuple | None:
        """Read a checkpoint, by its id or the latest, with what was written since."""
        key = _key(config)
        found = self._ledger.threads.get(key.thread, key.namespace, key.id or None)
        if found is None:
            return None
        kept, messages, writes = found
        checkpoint, metadata, aside = self.serde.loads_typed((kept.kind, kept.body))
        if messages is not None:
            checkpoint["channel_values"][_MESSAGES] = [_revived(one, aside) for one in messages]
        parent = None if kept.parent is None else _config(kept.key._replace(id=kept.parent))
        pending = [
            (write.task, write.channel, self.serde.loads_typed((write.kind, write.body)))
            for write in writes
        ]
        return base.CheckpointTuple(_config(kept.key), checkpoint, metadata, parent, pending)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the framework's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[base.CheckpointTuple]:
        """Read checkpoints, the newest first."""
        key = None if config is None else _key(config)
        anywhere = key is None or "checkpoint_ns" not in (config or {})["configurable"]
        keys = self._ledger.threads.keys(
            None if key is None else key.thread,
            None if key is None or anywhere else key.namespace,
            before=None if before is None else _key(before).id or None,
        )
        found = (self.get_tuple(_config(one)) for one in keys if not key or key.id in ("", one.id))
        wanted = (filter or {}).items()
        yield from islice((tup for tup in found if tup and wanted <= tup.metadata.items()), limit)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread for good: its checkpoints, and the session with all that was said."""
        self._ledger.threads.delete_thread(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of runs; what was said stays in their sessions."""
        found = (tup for tup in self.list(None) if tup.metadata.get("run_id") in run_ids)
        self._ledger.threads.delete([_key(tup.config) for tup in found])

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread, and what was said, to another thread."""
        self._ledger.threads.copy_thread(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the checkpoints of threads, all or all but the latest; what was said stays."""
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInput(f"a strategy is keep_latest or delete; not {strategy!r}")
        for thread in map(str, thread_ids):
            keys = self._ledger.threads.keys(thread)
            kept: set[threads.CheckpointKey] = set()
            if strategy == "keep_latest":
                for namespace in {key.namespace for key in keys}:
                    kept |= self._needed(threads.CheckpointKey(thread, namespace, ""))
            self._ledger.threads.delete([key for key in keys if key not in kept])

    def _needed(self, latest: threads.CheckpointKey) -> set[threads.CheckpointKey]:
        """Name the latest checkpoint, and those before it that its delta channels begin in."""
        kept, found = set(), self.get_tuple(_config(latest))
        missing = set(found.metadata.get("counters_since_delta_snapshot", ())) if found else set()
        while found is not None:
            kept.add(_key(found.config))
            missing -= set(found.checkpoint["channel_values"])
            before = found.parent_config if missing else None
            found = None if before is None else self.get_tuple(before)
        return kept

    aput, aput_writes = _in_thread(put), _in_thread(put_writes)
    aget_tuple, aprune = _in_thread(get_tuple), _in_thread(prune)
    adelete_thread, adelete_for_runs = _in_thread(delete_thread), _in_thread(delete_for_runs)
    acopy_thread = _in_thread(copy_thread)

    async def alist(self, *args: Any, **kwargs: Any) -> AsyncIterator[base.CheckpointTuple]:
        """Do as `list` does, each in a thread."""
        found = self.list(*args, **kwargs)
        while (tup := await asyncio.to_thread(next, found, None)) is not None:
            yield tup

    def _clean(self, message: lc.BaseMessage, aside: _Aside) -> threads.CleanMessage:
        """Write a message for the ledger; one that JSON does not hold as it is goes aside, too."""
        data = self.serde.dumps_typed(message)[1]
        known = self._known.get(digest := sha256(data).digest())
        if known is not None:
            return known
        form: dict[str, Any] = lc.message_to_dict(message)
        if not (is_whole := type(message) in _PLAIN and is_keepable(form)):
            key = digest.hex()
            aside[key], form = message, {"aside": key}
        name = message.role if isinstance(message, lc.ChatMessage) else message.type
        plain = parts.Message(_ROLES.get(name, "user"), tuple(_parts(message)))
        clean = self._ledger.threads.passed(with_form(plain, form, _FRAMEWORK))
        if kept := form_of(clean.message, _FRAMEWORK):
            # Written anew as it came through the gate, so that it has the same digest next time.
            clean = self._ledger.threads.passed(with_form(clean.message, kept, _FRAMEWORK))
        if is_whole:
            self._room -= len(data)
            if self._room < 0:
                self._known, self._room = {}, _KNOWN_BYTES
            self._known[digest] = clean
        return clean

    def _passed(self, value: Any) -> Any:
        """Return a value whose messages passed the ledger's gate; itself if nothing changed."""
        if isinstance(value, lc.BaseMessage):
            clean = self._clean(value, aside := _Aside()).message
            is_same = form_of(clean, _FRAMEWORK) == lc.message_to_dict(value)
            return value if is_same else _revived(clean, aside)
        if type(value) is dict:
            return {key: self._passed(item) for key, item in value.items()}
        return type(value)(map(self._passed, value)) if type(value) in (list, tuple) else value


def _config(key: threads.CheckpointKey) -> RunnableConfig:
    names = {"thread_id": key.thread, "checkpoint_ns": key.namespace}
    return {"configurable": names | ({"checkpoint_id": key.id} if key.id else {})}


def _key(config: RunnableConfig) -> threads.CheckpointKey:
    """Read which checkpoint is meant; the id is empty for the latest."""
    names = config["configurable"]
    number = names.get("checkpoint_id") or ""
    return threads.CheckpointKey(str(names["thread_id"]), names.get("checkpoint_ns", ""), number)


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, lc.BaseMessage) for item in value)


def _revived(message: parts.Message, aside: _Aside) -> lc.BaseMessage:
    form = form_of(message, _FRAMEWORK) or {}
    if "aside" in form:
        return aside[form["aside"]]
    if form:
        return lc.messages_from_dict([form])[0]
    # Its form had a context block in it, and was not kept.
    kind = {"user": "human", "assistant": "ai"}.get(message.role, message.role)
    return lc.messages_from_dict([{"type": kind, "data": {"content": message.text}}])[0]


def _parts(message: lc.BaseMessage) -> Iterator[parts.Part]:
    if isinstance(message, lc.ToolMessage):
        error = message.status == "error"
        yield parts.ToolResult(message.tool_call_id, str(message.text), message.name or "", error)
        return
    for block in message.content_blocks:
        mime = str(block.get("mime_type") or "application/octet-stream")
        match block:
            case {"type": "text", "text": str(text)}:
                yield parts.Text(text)
            case {"type": "reasoning", "reasoning": str(text)}:
                yield parts.Reasoning(text)
            case {"type": "tool_call", "name": str(name), "args": dict(args), "id": number}:
                yield parts.ToolCall(str(number or ""), name, args)
            case {"type": "image" | "file" | "audio" | "video", "url": str(uri)}:
                yield parts.File(uri, mime)
            case {"type": "image" | "file" | "audio" | "video", "base64": str(data)}:
                yield parts.File(f"data:{mime};base64,{data}", mime)
