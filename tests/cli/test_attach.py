"""`@file` in a message: what is attached, what stays text, and what is refused."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from agent.host.helpers import hosted, messages
from cli.test_pdf import document
from context.messages.test_attach import PNG
from sightline.agent.host import Host
from sightline.cli.attach import MAX_FILES, MAX_IMAGE, MAX_TEXT, Attached, attach
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import File
from sightline.errors import InvalidInput
from support.person import environment
from support.shell import PROGRAM
from support.vendors.answers import says
from support.vendors.server import Vendor

KEY = "sk-ant-" + "canary0123456789" * 2


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project to be in, with the ledger beside it."""
    root = tmp_path / "project"
    (root / "docs").mkdir(parents=True)
    (root / "notes.txt").write_text("buy ducks\n")
    (root / "docs" / "two words.md").write_text("# Ducks")
    (root / "shot.png").write_bytes(PNG)
    monkeypatch.chdir(root)
    return root


@pytest_asyncio.fixture
async def host(here: Path) -> AsyncIterator[Host]:
    async with hosted(here.parent, profile=profile_for("anthropic")) as (opened, _):
        yield opened


async def test_a_text_stands_behind_what_was_said(host: Host) -> None:
    said = 'What do @notes.txt, and @"docs/two words.md" say?'
    found = await attach(said, host)
    assert found.names == ("notes.txt", "docs/two words.md")
    whole = found.behind(said)
    assert whole.startswith(f"{said}\n\nThe file notes.txt, as it was")
    assert "```\nbuy ducks\n```" in whole
    assert whole.endswith("```\n# Ducks\n```")


async def test_of_a_pdf_its_text_stands_behind_what_was_said(host: Host, here: Path) -> None:
    (here / "paper.pdf").write_bytes(document("Ducks swim."))
    found = await attach("Summarise @paper.pdf", host)
    assert found.files == ()
    assert "The file paper.pdf" in found.texts[0]
    assert "[page 1]\nDucks swim." in found.texts[0]
    (here / "paper.pdf").write_bytes(b"%PDF-1.4 nonsense")
    with pytest.raises(InvalidInput, match=r"cannot attach paper\.pdf: it is not a PDF"):
        await attach("Summarise @paper.pdf", host)


async def test_an_image_is_a_part_of_its_own_where_the_model_sees(host: Host, here: Path) -> None:
    found = await attach("@shot.png", host)
    assert found.texts == ()
    assert [(file.mime, file.name, file.width) for file in found.files] == [
        ("image/png", "shot.png", 640)
    ]
    async with hosted(here.parent, profile=profile_for("local")) as (blind, model):
        with pytest.raises(InvalidInput, match=r"shot\.png is an image, and .* takes none"):
            await attach("@shot.png", blind)
        assert model.requests == []


@pytest.mark.parametrize(
    "text",
    [
        "mail ada@notes.txt", "@ nothing", "@nobody", "@docs", "@types/node", "@property",
        "`@notes.txt`", "@...", "@./", "a@/etc/hosts",
    ],
)  # fmt: skip
async def test_what_is_no_file_stays_text(host: Host, text: str) -> None:
    assert await attach(text, host) == Attached()


async def test_a_file_is_attached_however_its_path_is_written(host: Host, here: Path) -> None:
    for spelled in ("notes.txt", "./notes.txt", str(here / "notes.txt")):
        assert (await attach(f"@{spelled}?", host)).names == ("notes.txt",)
    assert (await attach("@notes.txt @./notes.txt", host)).names == ("notes.txt",)


Make = Callable[[Path], object]


@pytest.mark.parametrize(
    ("text", "make", "why"),
    [
        ("@./gone.txt", None, "./gone.txt: there is no such file"),
        ("@docs/gone.md.", None, "docs/gone.md: there is no such file"),
        ("@/etc/hosts", None, "/etc/hosts: it is not in this directory"),
        ("@../work.db", None, "cannot leave"),
        ("@link", lambda here: (here / "link").symlink_to("notes.txt"), "symbolic link"),
        ("@pipe", lambda here: os.mkfifo(here / "pipe"), "not a regular file"),
        ("@.git/config", lambda here: (here / ".git").mkdir(), "is not of the workspace"),
        ("@app.bin", lambda here: (here / "app.bin").write_bytes(b"\x7fELF\0"), "neither text nor"),
        ("@old.txt", lambda here: (here / "old.txt").write_bytes(b"caf\xe9"), "not UTF-8"),
        ("@big.txt", lambda here: (here / "big.txt").write_text("x" * (MAX_TEXT + 1)),
         "262,145 bytes, and 262,144 are taken"),
        ("@big.png", lambda here: (here / "big.png").write_bytes(PNG + bytes(MAX_IMAGE)),
         "and 4,194,304 are taken"),
    ],
)  # fmt: skip
async def test_what_cannot_be_attached_is_one_line(
    host: Host, here: Path, text: str, make: Make | None, why: str
) -> None:
    if make is not None:
        make(here)
    with pytest.raises(InvalidInput) as caught:
        await attach(f"look at {text}", host)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_there_is_a_limit_to_how_many(host: Host, here: Path) -> None:
    for number in range(MAX_FILES + 1):
        (here / f"f{number}").write_text("x")
    names = [f"@f{number}" for number in range(MAX_FILES + 1)]
    assert len((await attach(" ".join(names[:-1]), host)).names) == MAX_FILES
    with pytest.raises(InvalidInput, match="10 files at most"):
        await attach(" ".join(names), host)


async def test_a_file_that_changes_later_changes_no_history(here: Path) -> None:
    async def says_it(host: Host, text: str) -> None:
        found = await attach(text, host)
        async for _ in host.ask(found.behind(text), found.files):
            pass

    model_says = ["Ducks.", "Still ducks."]
    async with hosted(here.parent, model_says, profile=profile_for("anthropic")) as (host, model):
        await says_it(host, "What is in @notes.txt and @shot.png?")
        (here / "notes.txt").write_text("buy geese\n")
        (here / "shot.png").unlink()
        await says_it(host, "And now?")
    first, second = (request.body["messages"] for request in model.requests)
    kept = [_without_marks(block) for block in first[0]["content"][:2]]
    assert [_without_marks(block) for block in second[0]["content"][:2]] == kept
    assert "buy ducks" in kept[0]["text"]
    assert kept[1]["type"] == "image"
    assert b"geese" not in model.requests[1].data


def _without_marks(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}


async def test_keys_in_a_file_are_neither_stored_nor_sent(here: Path) -> None:
    (here / ".env").write_text(f"ANTHROPIC_API_KEY={KEY}\n")
    async with hosted(here.parent, ["I see."], profile=profile_for("anthropic")) as (host, model):
        found = await attach("@.env", host)
        async for _ in host.ask(found.behind("@.env"), found.files):
            pass
    assert KEY.encode() not in model.requests[0].data
    assert "[redacted:" in messages(here.parent)[0].text


async def test_an_image_is_stored_once_and_byte_for_byte(here: Path) -> None:
    # Base64 that has the shape of a key: it is a picture all the same.
    shaped = File("data:image/png;base64,/ABSK" + "A" * 80, "image/png", "shot.png")
    async with hosted(here.parent, ["I see."], profile=profile_for("anthropic")) as (host, _):
        async for _ in host.ask("look", [shaped]):
            pass
    [stored] = [part for part in messages(here.parent)[0].parts if isinstance(part, File)]
    assert stored.uri == shaped.uri
    with Ledger(here.parent / "work.db", mode="read") as ledger:
        found = ledger.query("SELECT content FROM messages WHERE role = 'user'", session_id=1)
    assert found.rows == (("look\n\nshot.png <data:image/png;base64,…>",),)


def test_ask_attaches_what_was_typed_and_not_what_was_piped_in(here: Path) -> None:
    (here / "other.txt").write_text("not for you")
    with Vendor(says("Ducks.")) as vendor:
        done = subprocess.run(
            [PROGRAM, "ask", "What does @notes.txt say?"], input=b"see @other.txt", cwd=here,
            capture_output=True, timeout=60, check=False, env=environment(here, vendor),
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"Ducks.\n"), done.stderr
    assert done.stderr == b"attached notes.txt\n"
    sent = msgspec.json.decode(vendor.requests[0].body)
    said = str(sent["messages"])
    assert "buy ducks" in said
    assert "not for you" not in said
