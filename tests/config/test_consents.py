"""The file of lasting consent: the user's own, written whole, and worth nothing if it is not."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from platformdirs import user_state_path

from sightline.config.consents import (
    TEXT_CHARS,
    StoredConsent,
    differences,
    get_consent,
    parts_of,
    store_consent,
)
from sightline.errors import InvalidInput

KEY = "sk-ant-api03-" + "Ab1" * 30
WRITER = """
import sys
from sightline.config.consents import parts_of, store_consent
for number in range(20):
    store_consent(f"{sys.argv[1]}-{number}", agreed=True, parts=parts_of({"a": "b"}))
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return user_state_path("sightline") / "consent.json"


def agree(text: str = "Write tests.") -> StoredConsent:
    store_consent("mine", agreed=True, parts=parts_of({"AGENTS.md": text}))
    return get_consent("mine")


def test_get_consent_returns_no_answer_when_nothing_is_stored() -> None:
    assert get_consent("mine") == StoredConsent(None)


def test_store_consent_writes_a_file_for_the_user_alone(file: Path) -> None:
    assert agree().agreed
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["consent.json"]


def test_store_consent_keeps_all_answers_when_two_processes_write() -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name]) for name in ("a", "b")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert all(get_consent(f"{name}-{number}").agreed for name in "ab" for number in range(20))


@pytest.mark.parametrize("data", ["", "{", "[]", '{"mine": 1}', "\0", "[" * 100_000])
def test_get_consent_raises_when_the_file_is_damaged(file: Path, data: str) -> None:
    agree()
    file.write_text(data)
    with pytest.raises(InvalidInput, match=re.escape(f"{file}: ")):
        get_consent("mine")
    # Agreeing again does not help, so the error says what does.
    with pytest.raises(InvalidInput, match="delete it to be asked again"):
        agree()
    assert file.read_text() == data


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o640, 0o604])
def test_get_consent_raises_when_other_users_can_write_or_read_the_file(
    file: Path, mode: int
) -> None:
    agree()
    file.chmod(mode)
    with pytest.raises(InvalidInput, match="another user can write or read it"):
        get_consent("mine")
    with pytest.raises(InvalidInput, match="another user can write or read it"):
        agree()


def test_get_consent_raises_when_other_users_can_write_the_directory(file: Path) -> None:
    agree()
    file.parent.chmod(0o770)
    with pytest.raises(InvalidInput, match="others can write to the directory"):
        get_consent("mine")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_get_consent_raises_when_the_file_belongs_to_another_user(file: Path) -> None:
    agree()
    os.chown(file, 65_534, 65_534)
    with pytest.raises(InvalidInput, match="another user can write or read it"):
        get_consent("mine")


def test_get_consent_raises_when_the_file_is_a_link(file: Path, tmp_path: Path) -> None:
    agree()
    file.rename(tmp_path / "elsewhere.json")
    file.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(InvalidInput, match=re.escape(f"{file}: ")):
        get_consent("mine")


def test_differences_shows_the_changed_lines_and_no_key() -> None:
    before = agree(f"Write tests.\nThe key is {KEY}\n")
    assert KEY not in str(before)
    found = differences(before, parts_of({"AGENTS.md": f"Never write.\nThe key is {KEY}\n"}))
    assert "-Write tests.\n+Never write." in found["AGENTS.md"]


@pytest.mark.parametrize(
    ("before", "now"),
    [(KEY, KEY.replace("Ab1", "Xy2")), ("x" * TEXT_CHARS + "a", "x" * TEXT_CHARS + "b")],
)
def test_differences_names_the_part_when_the_change_is_not_shown(before: str, now: str) -> None:
    found = differences(agree(before), parts_of({"AGENTS.md": now}))
    assert found == {"AGENTS.md": "AGENTS.md: it changed where it is not shown"}


def test_differences_is_empty_when_no_part_changed() -> None:
    assert differences(agree("a"), parts_of({"AGENTS.md": "a"})) == {}
