"""`/undo`, `/rewind` and `/redo` with the files that turns changed, in a real repository."""

from __future__ import annotations

import subprocess
from io import StringIO
from pathlib import Path

import pytest

from agent.host.helpers import hosted, invoke, turn
from sightline.agent.host import Host
from sightline.cli.commands.console import PlainConsole
from sightline.cli.commands.registry import run
from sightline.config import AppSettings
from sightline.context.messages.parts import ToolCall
from sightline.errors import NotFound


class Person(PlainConsole):
    """Somebody who answers questions in this order."""

    def __init__(self, out: StringIO, answers: list[bool]) -> None:
        super().__init__(out)
        self._answers = answers

    async def ask(self, question: str) -> bool:
        self.write(question)
        return self._answers.pop(0)


async def does(host: Host, line: str, *answers: bool) -> str:
    out, left = StringIO(), list(answers)
    await run(line, host, Person(out, left))
    assert left == []
    return out.getvalue()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("one\n")
    monkeypatch.chdir(project)
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "first")
    return project


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def edit(call_id: str, old: str, new: str) -> ToolCall:
    return invoke(call_id, "/", "edit", app="workspace", path="a.py", old=old, new=new)


async def test_files_go_back_with_the_words_or_stay_as_the_user_chooses(
    tmp_path: Path, project: Path
) -> None:
    new = invoke("c2", "/", "create", app="workspace", path="lib/b.py", content="b\n")
    command = invoke("c3", "/", "run", app="workspace", command="true")
    script = [[edit("c1", "one", "two"), new], "1.", [edit("c4", "two", "three"), command], "2."]
    async with hosted(tmp_path, script, apps=AppSettings(discover=False)) as (host, _):
        for _ in range(2):
            await turn(host, answer=lambda _: True)
        a, b = project / "a.py", project / "lib" / "b.py"
        shown = await does(host, "/undo", True)
        assert "Commands ran, too; what they changed is not taken back." in shown
        assert "Files: a.py\nBring these files back, too?" in shown
        assert "Took back group 2" in shown
        assert a.read_text() == "two\n"
        await does(host, "/redo", True)
        assert a.read_text() == "three\n"
        shown = await does(host, "/rewind 2", True)
        assert "Files back as before: a.py, lib/b.py" in shown
        assert git("status", "--short") == ""
        await does(host, "/redo", True)
        assert (a.read_text(), b.read_text()) == ("two\n", "b\n")
        shown = await does(host, "/undo", False)
        assert "The files stay as they are." in shown
        assert a.read_text() == "two\n"
        assert "Files" not in await does(host, "/redo")  # they are as that turn left them


@pytest.mark.usefixtures("project")
async def test_how_far_back_a_turn_is_can_be_seen_before_going_there(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["1.", "2."], apps=AppSettings(discover=False)) as (host, _):
        with pytest.raises(NotFound, match="nothing to undo"):
            await does(host, "/rewind")
        for words in ("first", "second"):
            await turn(host, words)
        assert (await does(host, "/rewind")).splitlines() == [
            "N  takes back this and what follows", "2  first", "1  second",
        ]  # fmt: skip
        await does(host, "/undo")
        assert (await does(host, "/rewind")).splitlines()[1:] == ["1  first"]


async def test_what_somebody_else_changed_is_never_overwritten_unasked(
    tmp_path: Path, project: Path
) -> None:
    new = invoke("c2", "/", "create", app="workspace", path="b.py", content="b\n")
    script = [[edit("c1", "one", "two"), new], "1."]
    async with hosted(tmp_path, script, apps=AppSettings(discover=False)) as (host, _):
        await turn(host, answer=lambda _: True)
        a, b = project / "a.py", project / "b.py"
        a.write_text("mine\n")
        shown = await does(host, "/undo", True, False)
        assert "Somebody else changed since: a.py\nOverwrite what they did?" in shown
        assert a.read_text() == "mine\n"
        assert not b.exists()
        await does(host, "/redo", True, True)
        assert (a.read_text(), b.read_text()) == ("two\n", "b\n")
