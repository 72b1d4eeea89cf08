"""A key is found where it should be, and seen nowhere."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from sightline.agent.models.keys import Key, find_key, know_secrets, scrub
from sightline.context.messages.redact import redact

CANARY = "canary-7f3a9c51e2d84b06"


class Memory(KeyringBackend):
    """A keyring in memory."""

    priority = 1.0
    kept: dict[tuple[str, str], str]

    def __init__(self, **kept: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept = {("sightline", name): value for name, value in kept.items()}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


class Locked(Memory):
    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("locked")


def found(**places: str) -> tuple[str, str] | None:
    env = {"A_KEY": places["env"]} if "env" in places else {}
    key = find_key(["A_KEY", "B_KEY"], env, places.get("flag"))
    return None if key is None else (key.reveal(), key.source)


def test_the_flag_wins_over_the_environment_and_that_over_the_keyring() -> None:
    keyring.set_keyring(Memory(A_KEY="kept"))
    assert found(flag="given", env="set") == ("given", "the command line")
    assert found(env="set") == ("set", "A_KEY")
    assert found() == ("kept", "the keyring (A_KEY)")


def test_the_first_variable_that_is_set_decides() -> None:
    key = find_key(["A_KEY", "B_KEY"], {"A_KEY": "  ", "B_KEY": " b\n"})
    assert key is not None
    assert (key.reveal(), key.source) == ("b", "B_KEY")


def test_no_key_anywhere_is_none_and_a_locked_keyring_is_an_empty_one() -> None:
    assert found() is None
    keyring.set_keyring(Locked())
    assert found() is None


def test_without_the_package_there_is_no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring.set_keyring(Memory(A_KEY="kept"))
    monkeypatch.setattr("sightline.agent.models.keys.find_spec", lambda _: None)
    assert found() is None


def test_a_key_is_not_seen_however_it_is_looked_at() -> None:
    key = Key(CANARY, "A_KEY")
    assert CANARY not in repr(key) + str(key) + f"{key}" + f"{[key]!r}"
    for write in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="not written anywhere"):
            write(key)


def test_what_comes_back_has_no_key_in_it() -> None:
    key = Key(CANARY, "A_KEY")
    assert scrub(f"bad key {CANARY}!", key) == "bad key [key]!"
    # One that is not ours is known by its shape.
    other = "sk-ant-" + "a1B2" * 8
    assert other not in scrub(f"bad key {other}", None)


def test_a_key_that_is_known_is_redacted_whatever_it_looks_like(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    path.touch()
    env = {
        "ODD": "plain words of a key", "DB_PWD": "tiger-lily-9", "MAX_TOKENS": "200000",
        "GOOGLE_APPLICATION_CREDENTIALS": str(path), "HARMLESS": "nothing to hide",
    }  # fmt: skip
    know_secrets(env, ["ODD"])
    shown = redact(" | ".join(env.values()))
    mark = "[redacted:known-key]"
    assert shown == f"{mark} | {mark} | 200000 | {path} | nothing to hide"
    assert redact(shown) == shown
