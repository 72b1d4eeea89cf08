"""Law 9 and its kin: whatever is done to a ledger, it verifies, and nobody else notices."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from context.ledger.helpers import contents, turn
from laws.messages import messages
from sightline.context.ledger import Ledger
from sightline.context.ledger.codec import from_columns, to_columns
from sightline.context.messages.parts import Draft, Message
from sightline.context.messages.window import TokenWindow, Window
from sightline.errors import InvalidInput

OPERATIONS = ["append", "append", "append", "undo", "redo", "drop", "restore", "remove", "clone"]
operations = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 5), st.integers(0, 50)), max_size=14
)


class Model:
    """What a session should show: (number, status) of each group, and the undone ones."""

    def __init__(self, groups: list[tuple[int, int, str]]) -> None:
        self.groups = groups  # group id, question, status
        self.undone: list[tuple[int, int, str]] = []

    def live(self) -> list[int]:
        return [number for _, number, status in self.groups if status == "live"]


def perform(ledger: Ledger, models: dict[int, Model], step: tuple[str, int, int], n: int) -> int:
    """Do one operation to the ledger and to the model; the session that was touched."""
    name, which, place = step
    session_id = list(models)[which % len(models)]
    model = models[session_id]
    if name == "append":
        ledger.append(session_id, turn(n, state=str(n), tokens=place), strategy="s")
        new = ledger.groups.recent(session_id, 1)[0].id
        model.groups.append((new, n, "live"))
        model.undone.clear()
    elif name == "clone":
        clone = ledger.sessions.clone(session_id)
        ids = [group.id for group in ledger.groups.recent(clone.id)]
        copies = [(i, number, s) for i, (_, number, s) in zip(ids, model.groups, strict=True)]
        models[clone.id] = Model(copies)
        return clone.id
    elif name == "undo":
        last = max((g for g in model.groups if g[2] == "live"), default=None, key=lambda g: g[0])
        try:
            assert ledger.groups.undo(session_id) == (last and last[0])
        except InvalidInput:
            assert last is None
        if last:
            model.groups.remove(last)
            model.undone.append(last)
    elif name == "redo":
        try:
            back = ledger.groups.redo(session_id)
        except InvalidInput:
            assert not model.undone
        else:
            assert back == model.undone[-1][0]
            model.groups = sorted([*model.groups, model.undone.pop()])
    elif model.groups:
        index = place % len(model.groups)
        group_id, number, status = model.groups[index]
        allowed = {"drop": status == "live", "restore": status == "dropped", "remove": True}[name]
        try:
            getattr(ledger.groups, name)(session_id, group_id)
        except InvalidInput:
            assert not allowed
        else:
            assert allowed
            after = {"drop": "dropped", "restore": "live"}.get(name)
            model.groups[index : index + 1] = [(group_id, number, after)] if after else []
    return session_id


@given(operations)
@settings(max_examples=60, deadline=None)
def test_any_sequence_of_operations_verifies_and_touches_one_session_only(
    steps: list[tuple[str, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as place, Ledger(Path(place) / "l.db") as ledger:
        models = {ledger.sessions.create(name).id: Model([]) for name in ("one", "two")}
        for n, step in enumerate(steps):
            before = {id_: contents(ledger.path, session_id=id_) for id_ in models}
            touched = perform(ledger, models, step, n)
            for id_, content in before.items():
                if id_ != touched:
                    assert contents(ledger.path, session_id=id_) == content
            for id_, model in models.items():
                shown = [e.message.text for e in ledger.window(id_) if e.role == "user"]
                assert shown == [f"question {number}" for number in model.live()]
                last = model.live()[-1:]
                state = ledger.states.current(id_)
                assert state == (f"### STATE\nGoal: {last[0]}" if last else None)
        assert ledger.verify().findings == ()


@given(messages)
@settings(deadline=None)
def test_a_message_comes_back_from_its_columns_as_it_was(message: Message) -> None:
    content, parts = to_columns(message)
    assert from_columns(message.role, content, parts, lambda _: b"") == message


@given(st.lists(messages, min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_what_is_exported_and_imported_is_stored_as_it_was(drafts: list[Message]) -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        Ledger(Path(place) / "l.db", redact=False) as ledger,
    ):
        session = ledger.sessions.create("s")
        ledger.append(session.id, drafts, strategy="s")
        arrived = ledger.import_(ledger.export(session.id))
        with Ledger(ledger.path, mode="read") as fresh:
            for id_ in (session.id, arrived.id):
                assert [entry.message for entry in fresh.window(id_)] == drafts
                assert fresh.window(id_) == ledger.window(id_)
        assert ledger.verify().ok


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=40),
    st.integers(1, 300),
    st.sampled_from([0, 0.1, 0.2, 1.0]),
    st.integers(0, 7),
    st.integers(0, 5),
)
@settings(max_examples=30, deadline=None)
def test_a_stored_window_is_the_end_of_the_conversation_and_within_its_bounds(
    weights: list[int], budget: int, step: float, size: int, slack: int
) -> None:
    with tempfile.TemporaryDirectory() as place, Ledger(Path(place) / "l.db") as ledger:
        session = ledger.sessions.create("s")
        drafts = [Draft(Message.of("user", str(n)), weight) for n, weight in enumerate(weights)]
        ledger.append(session.id, drafts, strategy="s")
        everything = ledger.window(session.id, Window(0))

        by_count = ledger.window(session.id, Window(size, slack))
        assert by_count == everything[len(everything) - len(by_count) :]
        most = size + slack if size else len(weights)
        assert min(size, len(weights)) <= len(by_count) <= most

        by_weight = ledger.window(session.id, TokenWindow(budget, step))
        assert by_weight == everything[len(everything) - len(by_weight) :]
        assert len(by_weight) == 1 or sum(e.tokens for e in by_weight) <= budget
