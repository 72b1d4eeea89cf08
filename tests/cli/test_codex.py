"""Codex behind the gateway: which address it had, and how a file gives it another one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sightline.cli.codex import SIGNED_IN, VENDOR, codex_way, led_codex
from sightline.errors import InvalidInput
from support.arguments import fake_codex
from support.shell import PROGRAM

HERE = "http://127.0.0.1:1/secret/openai/v1"
OWN = """
model_provider = "own"
[model_providers.own]
base_url = "http://own.example/api"
"""
TOKENS = {"OPENAI_API_KEY": None, "tokens": {"access_token": "t"}}
PLAIN = {"features": {"enable_request_compression": False}}
AT_OPENAI = {"openai_base_url": HERE, **PLAIN}
AT_OWN = {"model_providers": {"own": {"base_url": HERE}}, **PLAIN}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def led(program: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the command of Codex, without its profile, and the profile's settings."""
    with led_codex(program, HERE) as (words, variables):
        assert variables == {}
        assert HERE not in " ".join(words)
        at = words.index("-p")
        [profile] = Path(os.environ["CODEX_HOME"]).glob(f"{words[at + 1]}.config.toml")
        assert profile.stat().st_mode & 0o777 == 0o600
        settings = tomllib.loads(profile.read_text())
    assert not profile.exists()
    return words[:at] + words[at + 2 :], settings


@pytest.mark.parametrize(
    ("config", "login", "words", "goes", "settings"),
    [
        ("", {}, [], VENDOR, AT_OPENAI),
        (
            "not [ toml",
            {"OPENAI_API_KEY": "k", **TOKENS, "auth_mode": "apikey"},
            [],
            VENDOR,
            AT_OPENAI,
        ),
        ("", [1], [], VENDOR, AT_OPENAI),
        ("", TOKENS, [], SIGNED_IN, AT_OPENAI),
        ("", {**TOKENS, "auth_mode": "chatgpt"}, [], SIGNED_IN, AT_OPENAI),
        ('openai_base_url = "http://a/v1"', TOKENS, [], "http://a/v1", AT_OPENAI),
        (OWN, {}, [], "http://own.example/api", AT_OWN),
        (OWN, {}, ["-c", "model_provider=openai"], VENDOR, AT_OPENAI),
        (OWN, {}, ["--config=model_provider=openai"], VENDOR, AT_OPENAI),
        ("", {}, ["-p", "work"], "http://work.example/api", AT_OWN),
    ],
)
def test_codex_way_returns_the_address_of_the_configuration(
    home: Path, config: str, login: object, words: list[str], goes: str, settings: dict[str, Any]
) -> None:
    (home / "config.toml").write_text(config)
    (home / "work.config.toml").write_text(OWN.replace("own.example", "work.example"))
    (home / "auth.json").write_text(json.dumps(login))
    program = ["/bin/codex", "exec", *words, "what is it?"]
    assert codex_way(program) == {"OPENAI_BASE_URL": goes}
    found, written = led(program)
    kept = [] if words[:1] == ["-p"] else words
    assert found == ["/bin/codex", "exec", *kept, "what is it?"]
    if words[:1] == ["-p"]:  # its settings come before ours
        assert written["model_provider"] == "own"
        del written["model_provider"]
    assert written == settings


@pytest.mark.parametrize(
    "argument",
    [
        ["-c", 'model_providers.own.base_url="http://b"'],
        ["-c", "model_providers.own.base_url=http://b"],
        ["-cmodel_providers.own.base_url=http://b"],
        ["-c=model_providers.own.base_url=http://b"],
        ["--config", 'model_providers.own.base_url="http://b"'],
        ["--config=model_providers.own.base_url=http://b"],
        ["-c", 'model_providers.own={base_url="http://b"}'],
        ["-c", 'model_providers={own={base_url="http://b"}}'],
    ],
)
def test_an_argument_that_names_the_address_moves_to_the_profile(
    home: Path, argument: list[str]
) -> None:
    (home / "config.toml").write_text(OWN)
    program = ["codex", *argument, "exec", "-c", "model=m", "hm?", "--", *argument]
    assert codex_way(program) == {"OPENAI_BASE_URL": "http://b"}
    assert led(program) == (["codex", "exec", "-c", "model=m", "hm?", "--", *argument], AT_OWN)


@pytest.mark.usefixtures("home")
def test_other_settings_of_a_moved_argument_stay_in_the_profile() -> None:
    table = 'model_providers.own={name="Own", base_url="http://b", query_params={a="\\u007f b"}}'
    words, settings = led(["codex", "-c", "model_provider=own", "-c", table, "hm?"])
    assert words == ["codex", "-c", "model_provider=own", "hm?"]
    own = {"name": "Own", "base_url": HERE, "query_params": {"a": "\x7f b"}}
    assert settings == {"model_providers": {"own": own}, **PLAIN}


@pytest.mark.parametrize("option", [["-p", "work"], ["-pwork"], ["--profile=work"]])
def test_a_profile_of_the_user_is_copied_before_ours(home: Path, option: list[str]) -> None:
    text = '# mine\nmodel = "m"\nopenai_base_url = "http://b"\n[features]\nx = true\n[empty]\n'
    (home / "work.config.toml").write_text(text)
    words, settings = led(["codex", "exec", *option, "hm?"])
    assert words == ["codex", "exec", "hm?"]
    features = {"x": True, "enable_request_compression": False}
    assert settings == {"model": "m", "openai_base_url": HERE, "features": features}
    assert (home / "work.config.toml").read_text() == text


@pytest.mark.parametrize(
    "program",
    [
        ["claude", "-c"], ["codex", "login"], ["codex", "-C", "app-server", "mcp", "add", "x"],
        ["codex", "logout"], ["codex", "--search", "features", "list"], [],
    ],
)  # fmt: skip
def test_a_command_without_requests_is_unchanged(home: Path, program: list[str]) -> None:
    (home / "config.toml").write_text(OWN)
    with led_codex(program, HERE) as (words, variables):
        assert (words, variables) == (program, {})
    assert [entry.name for entry in home.iterdir()] == ["config.toml"]
    assert program[:1] == ["codex"] or codex_way(program) == {}


def test_the_file_of_a_process_that_died_is_deleted(home: Path, tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, own = (f"sightline-{pid:08x}.config.toml" for pid in (ended.pid, os.getpid()))
    alive, users = f"sightline-{os.getppid():08x}.config.toml", "sightline-work.config.toml"
    for name in (dead, own, alive, users, "sightline-ffffffff.config.toml"):
        (home / name).write_text("")
    overlay = tmp_path / "state" / "sightline" / f"codex-{ended.pid:08x}"
    overlay.mkdir(parents=True)
    (overlay / "auth.json").symlink_to(home / users)
    for link in (home / "sightline-fffffffe.config.toml", overlay.with_name("codex-fffffffe")):
        link.symlink_to(tmp_path)  # A link to a directory does not end the search.
    with led_codex(["codex"], HERE):
        assert {entry.name for entry in home.iterdir()} == {own, alive, users}
    assert {entry.name for entry in home.iterdir()} == {alive, users}
    assert list(overlay.parent.glob("codex-*")) == []
    assert tmp_path.is_dir()


def through_gateway(*words: str, **variables: str) -> tuple[dict[str, Any], str]:
    """Run a program named codex through the gateway. Return its report and our stderr."""
    done = subprocess.run(
        [PROGRAM, "gateway", "--record", "off", "--", *words], env={**os.environ, **variables},
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    secret = report["address"].split("/")[3]
    assert len(secret) >= 24
    assert len(report["lines"]) == 3
    assert secret in str(report["config"])
    assert [line for line in report["lines"] if secret in line] == []
    assert b"Traceback" not in done.stderr
    return report, done.stderr.decode()


def test_settings_that_codex_stored_go_to_the_file_of_the_user(home: Path, tmp_path: Path) -> None:
    before = '# mine\nmodel = "m" # old\n\n[tui]\n# its theme\ntheme = "t"\n\n[[hooks.x]]\na = 1\n'
    (home / "config.toml").write_text(before)
    (home / "config.toml").chmod(0o640)
    stored = '[tui]\nseen = true\n[projects."/a b/c.d"]\ntrust_level = "trusted"\n'
    report, _ = through_gateway(fake_codex(tmp_path), "exec", STORES=stored)
    assert report["file"].startswith("sightline-")
    assert report["mode"] == 0o600
    after = (home / "config.toml").read_text()
    assert after == (
        '# mine\nmodel = "m" # old\n\n[tui]\nseen = true\n# its theme\ntheme = "t"\n\n'
        '[[hooks.x]]\na = 1\n\n[projects."/a b/c.d"]\ntrust_level = "trusted"\n'
    )
    assert (home / "config.toml").stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in home.iterdir()] == ["config.toml"]


def test_settings_that_codex_stored_with_a_profile_go_to_that_profile(
    home: Path, tmp_path: Path
) -> None:
    (home / "work.config.toml").write_text("a = 1")
    stored = "[tui]\nseen = true\n"
    report, _ = through_gateway(fake_codex(tmp_path), "-p", "work", "exec", STORES=stored)
    assert report["config"]["a"] == 1
    assert (home / "work.config.toml").read_text() == "a = 1\n\n[tui]\nseen = true\n"
    assert [entry.name for entry in home.iterdir()] == ["work.config.toml"]


def test_a_setting_that_codex_changed_replaces_its_line() -> None:
    from sightline.cli.codex import _with_value

    text = 'model = "m" # old\n[a]\nmodel = 1\n'
    assert _with_value(text, (("model",), "n")) == 'model = "n"\n[a]\nmodel = 1\n'
    assert _with_value(text, (("a", "model"), 2)) == 'model = "m" # old\n[a]\nmodel = 2\n'


def test_a_stored_setting_that_does_not_fit_is_reported(home: Path, tmp_path: Path) -> None:
    before = 'tui = { theme = "t" } # inline\n'
    (home / "config.toml").write_text(before)
    _, said = through_gateway(fake_codex(tmp_path), "exec", STORES="[tui]\nseen = true\n")
    assert (home / "config.toml").read_text() == before
    assert "config.toml lacks tui.seen = true, which Codex stored" in said


def test_a_command_that_rejects_a_profile_gets_a_directory_of_links(
    home: Path, tmp_path: Path
) -> None:
    (home / "config.toml").write_text('model = "m"\n[features]\nx = true\n')
    (home / "auth.json").write_text("{}")
    (home / "sessions").mkdir()
    report, _ = through_gateway(
        fake_codex(tmp_path), "app-server", STORES="[tui]\nseen = true\n", CREATES="queue"
    )
    assert report["arguments"] == ["app-server"]
    assert Path(report["home"]).parent == tmp_path / "state" / "sightline"
    assert (report["home_mode"], report["mode"]) == (0o700, 0o600)
    assert report["entries"] == ["auth.json", "config.toml", "sessions"]
    assert report["config"]["model"] == "m"
    assert report["config"]["features"] == {"x": True, "enable_request_compression": False}
    names = sorted(entry.name for entry in home.iterdir())
    assert names == ["auth.json", "config.toml", "queue", "sessions"]
    assert tomllib.loads((home / "config.toml").read_text())["tui"] == {"seen": True}
    assert not Path(report["home"]).exists()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
@pytest.mark.parametrize("words", [["exec"], ["exec", "-p", "work"]])
def test_a_home_that_cannot_be_written_gets_a_directory_of_links(
    home: Path, tmp_path: Path, words: list[str]
) -> None:
    (home / "config.toml").write_text('model = "m"\n')
    (home / "work.config.toml").write_text('model = "w"\n')
    state = tmp_path / "state"
    inside = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(home), str(home), "--"]
    ours = [PROGRAM, "gateway", "--record", "off", "--", fake_codex(tmp_path), *words]
    done = subprocess.run([*inside, *ours], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert Path(report["home"]).parent == state / "sightline"
    assert report["config"]["openai_base_url"] == report["address"]
    assert report["config"]["model"] == ("w" if "-p" in words else "m")
    assert report["file"] == ("work.config.toml" if "-p" in words else "config.toml")
    assert report["address"].split("/")[3] not in "".join(report["lines"])
    assert list((state / "sightline").iterdir()) == []


def test_no_address_is_given_where_no_file_can_be_written(home: Path) -> None:
    home.rmdir()
    with (
        pytest.raises(InvalidInput, match="Codex cannot be given its address: "),
        led_codex(["codex"], HERE),
    ):
        pass
