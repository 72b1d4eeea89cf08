"""What a newcomer types first works, or says what to type instead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from click.testing import CliRunner

import sightline
from sightline import App, Budget, Host, Hub, Ledger, Message, Messages, Node, NodeDescriptor, Slots
from sightline._distribution import __version__
from sightline.cli.main import cli
from sightline.config import Settings, TailSettings
from sightline.context import Options, Prompt, Text
from sightline.errors import InvalidInput
from sightline.slop.app import descriptor


def test_the_package_knows_its_version() -> None:
    assert sightline.__version__ == __version__


def test_a_message_of_a_text_or_a_list_is_a_message() -> None:
    assert Message("user", "hello") == Message.of("user", "hello")
    assert Message("user", [Text("hello")]) == Message("user", (Text("hello"),))
    wrong: Any = 5
    with pytest.raises(InvalidInput, match="not 5"):
        Message("user", wrong)


def test_a_ledger_in_memory_is_whole_and_leaves_nothing() -> None:
    with Ledger(":memory:") as ledger:
        session = ledger.sessions.create("a")
        ledger.append(session.id, [{"role": "user", "content": "hello"}])
        assert [row.id for row in ledger.sessions.list()] == [session.id]
        assert "hello" in ledger.query("SELECT content FROM messages", session_id=session.id).text()
        assert Messages(ledger.window(session.id))[0].text == "hello"
        directory = ledger.path.parent
        assert directory.is_dir()
    assert not directory.exists()
    assert not Path(":memory:").exists()


@pytest.mark.parametrize("given", [str, Path])
def test_the_url_of_another_database_is_no_ledger(given: type[Any]) -> None:
    with pytest.raises(InvalidInput, match="no engine for mysql:"):
        Ledger(given("mysql://me@here/work"))
    done = CliRunner().invoke(cli, ["ledger", "verify", "--db", "mysql://me@here/work"])
    assert isinstance(done.exception, InvalidInput)
    assert done.exception.exit_code == 2


def test_a_strategy_is_optional_and_a_slip_of_the_pen_is_seen() -> None:
    with Ledger(":memory:") as ledger:
        session = ledger.sessions.create("a")
        with pytest.raises(InvalidInput, match="did you mean 'openai_chat'"):
            ledger.append(session.id, [Message("user", "a")], strategy="openai-chat")
        [entry] = ledger.append(session.id, [Message("user", "a")], strategy="my-own")
        assert entry.parsing_strategy == "my-own"
        [entry] = ledger.append(session.id, [Message("user", "a")])
        assert entry.parsing_strategy == "openai"


@pytest.mark.parametrize(
    ("make", "slip", "meant"),
    [
        (Ledger, "mdoe", "mode"),
        (Hub, "discovry", "discovery"),
        (App, "descripton", "description"),
        (Slots, "couter", "counter"),
        (Slots(10).add, "max_ration", "max_ratio"),
        (Host.open, "ledgr", "ledger"),
        (Settings, "stratgy", "strategy"),
        (TailSettings, "maxtokens", "max_tokens"),
        (Options, "max_output_token", "max_output_tokens"),
        (Budget, "max_input_token", "max_input_tokens"),
        (partial(Message, "user"), "prts", "parts"),
        (partial(Prompt, (), 0), "reciept", "receipt"),
        (partial(Node, "a", "item"), "child_lst", "child_list"),
    ],
)
def test_an_unknown_keyword_is_answered_with_the_one_that_was_meant(
    make: Callable[..., Any], slip: str, meant: str
) -> None:
    with pytest.raises(TypeError, match=f"nexpected keyword .* did you mean '{meant}'"):
        make(**{slip: None})


@pytest.mark.parametrize(
    ("slip", "meant"), [("propertis", "properties"), ("prop", "props"), ("childern", "children")]
)
def test_a_slip_of_the_pen_in_a_node_is_seen_and_other_fields_are_kept(
    slip: str, meant: str
) -> None:
    given: dict[str, Any] = {slip: {}}
    with pytest.raises(InvalidInput, match=f"{slip}.* did you mean '{meant}'"):
        Node.of("a", "item", **given)
    assert Node.of("a", "item", colour="red").unknown == {"colour": "red"}


def test_the_typed_descriptor_has_every_key_of_a_descriptor() -> None:
    keys = {key for key in descriptor._KEYS if key.islower()} - {"properties"}
    assert set(get_type_hints(NodeDescriptor, vars(descriptor))) == keys


def test_an_app_is_told_from_any_thread_that_its_state_changed() -> None:
    app, count = App("todos"), [0]

    @app.node("list")
    def todos() -> NodeDescriptor:
        return {"type": "collection", "props": {"count": count[0]}}

    assert app.tree().at("/list").properties == {"count": 0}
    count[0] = 1
    told_from = threading.Thread(target=app.changed)
    told_from.start()
    told_from.join()
    assert app.tree().at("/list").properties == {"count": 1}
    app.changed("list")
