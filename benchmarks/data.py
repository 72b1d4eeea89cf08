"""The trees that are raced: an office app's mail and calendar, from a seeded generator.

Items have four to seven properties, one in twenty has text beyond ASCII, one in
eight meta, and all items of a kind offer the same few actions, as apps do.
"""

from __future__ import annotations

import json
import random
from itertools import count, islice
from typing import Any

__all__ = ["WORDS", "Tree", "as_json", "flat_list", "mail_tree"]

Tree = dict[str, Any]

# What people, models and tools say, in no order. They are ours, so that counts are the same with
# whatever interpreter they are taken, and weigh 1.7 tokens each, as the words of Python's own
# `random.py` do.
_SAID = """
the a of to and in is it that for on with as at by from this be are was not or if then when which
we you I they one two three next last first new old same other every some all none more less
please thanks could would should must may will can cannot does did has had yes no maybe because
mail thread inbox draft reply archive folder sender subject attachment unread label search filter
meeting calendar invite Tuesday 14:30 reschedule room agenda minutes owner deadline budget invoice
launch plan review contract offer release customer team holiday report summary question answer
def return self, None: True False import class raise except async await yield lambda for: in:
print(result) len(items) value[0] {"path": "/inbox", "count": 3} == != <= += -> # TODO: ...
/inbox/messages/42 src/app/main.py tests/test_app.py config.toml README.md https://example.org/a?b=c
error: warning: line 118, in handler FAILED passed 0.42s exit 1 commit 9f3c2e1 branch merge rebase
"quoted text" (in parentheses), [brackets]; semicolons: dashes - and so on. e.g. etc. don't it's
naïve café résumé Zürich 数据 テスト Привет 12,500 3.14 2026-11-15 50% $1,200 #4512 v3.2 @dora :-)
state.get("unread", app.serve(port=8080) --max-nodes=200 x**2/(n-1) items[-1].id
lambda_=0.75 {"ok":true} ["a","b"] <item/>
understanding configuration implementation documentation responsibility internationalization
"""
WORDS = tuple(_SAID.split())

_SUBJECTS = [
    "Minutes of Tuesday", "Re: offer 2231", "Your invoice", "Lunch?", "Draft of the contract",
    "Build 4512 failed", "Welcome to the team", "Question about the budget", "Holiday plans",
    'He said "ship it"', "Release notes 3.2", "Fwd: photos from the summer party",
]  # fmt: skip
_FOREIGN = [
    "Réunion de mardi",
    "Grüße aus Köln",
    "会議の議事録",
    "Отчёт за май",
    "Tak for sidst 🎉",
]
_PEOPLE = ["ana", "bjorn", "chen", "dora", "emre", "fatou", "goran", "hana", "ines", "jonas"]
_FOLDERS = [
    "inbox",
    "archive",
    "sent",
    "drafts",
    "travel",
    "bills",
    "team",
    "lists",
    "later",
    "spam",
]
_ROOMS = ["Room 1", "Room 2", "Library", "online"]
_TAGS = ["work", "home", "urgent", "money", "family"]

_MESSAGE_ACTIONS: list[Tree] = [
    {"action": "open", "idempotent": True},
    {
        "action": "reply",
        "label": "Reply",
        "params": {
            "type": "object",
            "properties": {"body": {"type": "string"}, "all": {"type": "boolean"}},
            "required": ["body"],
        },
    },
    {"action": "delete", "dangerous": True},
]
_EVENT_ACTIONS: list[Tree] = [
    {"action": "accept"},
    {
        "action": "move",
        "params": {"type": "object", "properties": {"start": {"type": "string"}}},
    },
]
_FOLDER_ACTIONS: list[Tree] = [
    {
        "action": "search",
        "params": {"type": "object", "properties": {"query": {"type": "string"}}},
        "estimate": "fast",
    }
]


def as_json(tree: Tree) -> bytes:
    """Write a tree as a provider would send it."""
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode()


def mail_tree(nodes: int, seed: int = 1) -> Tree:
    """An office of exactly this many nodes: accounts, folders, threads, messages, attachments."""
    rng = random.Random(seed)
    threads = 250 if nodes > 20_000 else 25
    left = nodes - 1
    root = _node("office", "root", properties={"label": "Office", "user": "ana"})
    for account in range(1, nodes):
        if left <= 0:
            break
        left -= 1
        holder = _node(
            f"account-{account}", "view", {"label": f"Account {account}", "online": True}
        )
        root["children"].append(holder)
        for name in _FOLDERS:
            if left <= 0:
                break
            left -= 1
            items = list(islice(_threads(rng, name), threads))
            folder = _node(
                name,
                "collection",
                {"label": name.title(), "count": len(items), "unread": rng.randrange(40)},
                meta={"summary": f"{len(items)} threads", "salience": rng.choice([0.3, 0.6, 0.9])},
                affordances=_FOLDER_ACTIONS,
            )
            holder["children"].append(folder)
            left = _fill(folder, items, left)
    return root


def flat_list(nodes: int, seed: int = 1) -> Tree:
    """A folder that holds all its messages in one list, as a long mailbox does."""
    rng = random.Random(seed)
    root = _node("inbox", "collection", {"label": "Inbox", "count": nodes})
    root["children"] = [_message(rng, f"msg-{i}") for i in range(nodes)]
    return root


def _fill(folder: Tree, threads: list[Tree], left: int) -> int:
    """Put threads into a folder while there are nodes left; a last one may be cut short."""
    for thread in threads:
        if left <= 0:
            break
        left -= 1
        messages, thread["children"] = thread["children"], []
        folder["children"].append(thread)
        for message in messages:
            size = 1 + len(message.get("children", ()))
            if left < size:
                message.pop("children", None)
                size = 1
            if left < size:
                break
            left -= size
            thread["children"].append(message)
    return left


def _threads(rng: random.Random, folder: str) -> Any:
    for number in count():
        if folder in ("travel", "later"):
            yield _day(rng, f"day-{number}")
        else:
            messages = [_message(rng, f"msg-{number}-{i}") for i in range(rng.randrange(3, 16))]
            title = _subject(rng)
            properties = {"title": title, "messages": len(messages), "muted": rng.random() < 0.1}
            thread = _node(f"thread-{number}", "group", properties)
            if number % 8 == 0:
                thread["meta"] = {"salience": round(rng.random(), 2), "pinned": number % 400 == 0}
            thread["children"] = messages
            yield thread


def _day(rng: random.Random, node_id: str) -> Tree:
    day = _node(node_id, "group", {"label": f"2026-{rng.randrange(1, 13):02}-{node_id[4:]}"})
    day["children"] = [_event(rng, f"event-{i}") for i in range(rng.randrange(2, 12))]
    return day


def _event(rng: random.Random, node_id: str) -> Tree:
    event = {
        "id": node_id,
        "type": "item",
        "properties": {
            "title": _subject(rng),
            "start": f"{rng.randrange(7, 20):02}:{rng.choice((0, 15, 30, 45)):02}",
            "minutes": rng.choice((15, 30, 60, 90)),
            "room": rng.choice(_ROOMS),
            "guests": rng.sample(_PEOPLE, rng.randrange(1, 4)),
        },
        "affordances": _EVENT_ACTIONS,
    }
    if rng.random() < 0.125:
        event["meta"] = {"salience": round(rng.random(), 2), "urgency": "medium"}
    return event


def _message(rng: random.Random, node_id: str) -> Tree:
    properties: Tree = {
        "title": _subject(rng),
        "from": f"{rng.choice(_PEOPLE)}@example.org",
        "received": f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}T09:30:00Z",
        "unread": rng.random() < 0.2,
    }
    if rng.random() < 0.7:
        properties["size_kb"] = rng.randrange(1, 90_000) / 100
    if rng.random() < 0.4:
        properties["tags"] = rng.sample(_TAGS, rng.randrange(1, 3))
    if rng.random() < 0.3:
        properties["starred"] = True
    message = {
        "id": node_id,
        "type": "item",
        "properties": properties,
        "affordances": _MESSAGE_ACTIONS,
    }
    if rng.random() < 0.125:
        message["meta"] = {"summary": "needs an answer", "salience": round(rng.random(), 2)}
    if rng.random() < 0.05:
        message["children"] = [_attachment(rng)]
    return message


def _attachment(rng: random.Random) -> Tree:
    size = rng.randrange(10_000, 9_000_000)
    return {
        "id": "attachment",
        "type": "media",
        "properties": {"label": "plan.pdf", "mime": "application/pdf", "bytes": size, "pages": 3},
        "content_ref": {
            "type": "binary",
            "mime": "application/pdf",
            "uri": "slop://content/plan",
            "summary": "a PDF of three pages",
            "size": size,
        },
    }


def _subject(rng: random.Random) -> str:
    return rng.choice(_FOREIGN if rng.random() < 0.05 else _SUBJECTS)


def _node(node_id: str, kind: str, properties: Tree, **fields: Any) -> Tree:
    return {"id": node_id, "type": kind, "properties": properties, **fields, "children": []}
