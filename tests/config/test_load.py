"""Settings: who decides, what a file may say, and what a stranger's directory may not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from sightline.config import Loaded, PolicyRule, Settings, WindowSettings, load, user_file
from sightline.config.load import ENVIRONMENT, LEAVES, TABLES, spell
from sightline.errors import InvalidInput

USER = """
model = "work:gpt-6.1"
mode = "auto"
policy = [{app = "mail", action = "send", decision = "deny"}, {decision = "ask"}]
[window]
size = 7
[apps]
connect = ["unix:/tmp/a.sock"]
[endpoints.work]
base_url = "https://models.example/v1"
api_key_env = "WORK_KEY"
[profiles."work:gpt-*"]
window_tokens = 64000
"cache.min_tokens" = 10
"""


@pytest.fixture
def at(tmp_path: Path) -> Path:
    (tmp_path / "user.toml").write_text(USER)
    return tmp_path


def read(
    at: Path, *, env: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> Loaded:
    return load(at / "user.toml", env or {}, flags or {}, project=at / "project.toml")


def write(at: Path, name: str, text: str) -> None:
    (at / name).write_text(text)


def test_with_nothing_said_everything_is_the_default(tmp_path: Path) -> None:
    write(tmp_path, "user.toml", "")
    loaded = read(tmp_path)
    assert loaded.settings == Settings()
    assert set(loaded.sources.values()) == {"default"}
    assert set(loaded.sources) == {spell(leaf) for leaf in LEAVES} | set(TABLES)


def test_the_users_file_is_read_whole(at: Path) -> None:
    settings = read(at).settings
    assert settings.model == "work:gpt-6.1"
    assert settings.policy == (
        PolicyRule(app="mail", action="send", decision="deny"),
        PolicyRule(decision="ask"),
    )
    assert settings.window.size == 7
    assert settings.window.slack == 0
    assert settings.apps.connect == ("unix:/tmp/a.sock",)
    assert settings.endpoints["work"].api_key_env == "WORK_KEY"
    assert settings.profiles["work:gpt-*"] == {"window_tokens": 64000, "cache.min_tokens": 10}


def test_the_nearest_source_decides_and_is_named(at: Path) -> None:
    write(at, "project.toml", "[window]\nsize = 8\nslack = 3\n")
    env = {"SIGHTLINE_WINDOW": "9", "SIGHTLINE_MODEL": "local"}
    user, project = str(at / "user.toml"), str(at / "project.toml")

    loaded = read(at, env=env, flags={"window.size": "10", "model": None})
    assert loaded.settings.window.size == 10
    assert loaded.settings.window.slack == 3
    assert loaded.settings.model == "local"
    assert loaded.sources["window.size"] == "flag"
    assert loaded.sources["window.slack"] == project
    assert loaded.sources["model"] == "environment SIGHTLINE_MODEL"
    assert loaded.sources["mode"] == user
    assert loaded.sources["endpoints.work"] == user
    assert loaded.sources['profiles."work:gpt-*"'] == user
    assert loaded.sources["isolate"] == "default"

    assert read(at, env=env).settings.window.size == 9
    assert read(at).settings.window.size == 8
    (at / "project.toml").unlink()
    assert read(at).settings.window.size == 7


@pytest.mark.parametrize(
    ("file", "env", "flags", "expected"),
    [
        ("", {}, {}, (50, 25)),
        ("[window]\nsize = 3\n", {}, {}, (3, 0)),
        ("[window]\nsize = 50\n", {}, {}, (50, 0)),
        ("[window]\nsize = 0\n", {}, {}, (0, 0)),
        ("[window]\nslack = 4\n", {}, {}, (50, 4)),
        ("[window]\nsize = 3\nslack = 4\n", {}, {}, (3, 4)),
        ("", {"SIGHTLINE_WINDOW": "3"}, {}, (3, 0)),
        ("[window]\nslack = 4\n", {"SIGHTLINE_WINDOW": "3"}, {}, (3, 4)),
        ("", {}, {"window.size": "3"}, (3, 0)),
    ],
)
def test_a_window_has_the_size_it_was_given_and_only_the_slack_it_was_given(
    tmp_path: Path,
    file: str,
    env: dict[str, str],
    flags: dict[str, str],
    expected: tuple[int, int],
) -> None:
    (tmp_path / "own.toml").write_text(file)
    loaded = load(tmp_path / "own.toml", env, flags, project=None)
    window = loaded.settings.window
    assert (window.size, window.slack) == expected
    if "slack" not in file:
        assert loaded.sources["window.slack"] == loaded.sources["window.size"]
    assert Settings(window=WindowSettings(size=3)).window.slack == 0


def test_every_variable_of_the_environment_sets_its_key(at: Path) -> None:
    values = {
        "SIGHTLINE_MODEL": "local", "SIGHTLINE_MODE": "plan", "SIGHTLINE_STRATEGY": "classic",
        "SIGHTLINE_WINDOW": "3", "SIGHTLINE_TAIL": "yaml", "SIGHTLINE_TOOLS": "dynamic",
        "SIGHTLINE_LEDGER": "x.db",
    }  # fmt: skip
    loaded = read(at, env=values)
    assert set(values) == set(ENVIRONMENT)
    for name, key in ENVIRONMENT.items():
        assert loaded.sources[spell(key)] == f"environment {name}"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('modell = "x"', "there is no 'modell'; did you mean 'model'?"),
        ("[window]\nsise = 3", "there is no 'window.sise'; did you mean 'window.size'?"),
        ("size = 3", "there is no 'size'; did you mean 'window.size'?"),
        ("windw = 3", "there is no 'windw'; did you mean 'window.size'?"),
        ("[windw]\nsize = 3", "there is no 'windw'; did you mean 'window'?"),
        ("window = 3", "window is a table, not 3"),
        ('[window]\nsize = "3"', "window.size: Expected `int`, got `str`"),
        ("[window]\nsize = -1", "window.size: Expected `int` >= 0"),
        ("[window]\nsize = 99999999999", "window.size: Expected `int` <= 2147483647"),
        ("[tail]\nmax_share = nan", "tail.max_share: Expected `float` >= 0.0"),
        ("strategy_config.x = inf", "strategy_config.x: inf is not a number to work with"),
        ('mode = "yolo"', "mode: 'yolo' is not one of ask, auto, plan"),
        ('policy = [{decison = "ask"}]', "policy, rule 1: there is no 'decison'; did you mean"),
        ("policy = [{}]", "policy: [0]: Object missing required field `decision`"),
        ('hooks = [{event = "x"}]', "hooks, hook 1, event: 'x' is not one of before_ask, before_c"),
        ('hooks = [{evnt = "x"}]', "hooks, hook 1: there is no 'evnt'; did you mean 'event'?"),
        ('hooks = [{event = "before_ask", command = "bin/x -y"}]', "hook 1: 'bin/x' would be a pr"),
        ('[endpoints.x]\napi_key = "k"', "endpoints.x: there is no 'api_key'; did you mean 'api_k"),
        ('[endpoints.x]\nmodel = "m"', "endpoints.x: has no base_url, and 'x' is not built in"),
        ('[endpoints.x]\nbase_url = "file:///etc"', "endpoints.x.base_url: 'file:///etc' is no"),
        ('[endpoints.groq]\ndialect = "grok"', "endpoints.groq.dialect: there is no 'grok'; did"),
        ('[prices]\nmine = "cheap"', "'cheap' is not a price. Write dollars per million tokens"),
        ('[prices]\nmine = "1"', "'1' is not a price"),
        ('[prices]\nmine = "1/-2"', "'1/-2' is not a price"),
        ('[profiles."a:b"]\nwindow_tokns = 1', "there is no 'window_tokns'; did you mean"),
        ("[strategy_config]\nx = [1]", "strategy_config.x: Expected"),
        ("model = ", "not TOML: Invalid value"),
    ],
)
def test_a_mistake_is_named_with_its_file_its_key_and_what_was_meant(
    at: Path, line: str, complaint: str
) -> None:
    write(at, "user.toml", line)
    with pytest.raises(InvalidInput) as caught:
        read(at)
    assert str(caught.value).startswith(f"{at / 'user.toml'}: ")
    assert complaint in str(caught.value)


def test_a_key_of_a_flag_is_checked_like_any_other(at: Path) -> None:
    with pytest.raises(InvalidInput, match=r"flag: there is no 'window\.sise'; did you mean"):
        read(at, flags={"window.sise": 3})
    assert read(at, flags={"strategy_config.window": 3}).settings.strategy_config == {"window": 3}


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        load(tmp_path / "none.toml", {}, {}, project=None)
    with pytest.raises(InvalidInput, match="No such file"):
        load(None, {"SIGHTLINE_CONFIG": str(tmp_path / "none.toml")}, {}, project=None)


def test_the_users_file_may_be_a_link_and_is_where_the_environment_says(at: Path) -> None:
    link = at / "link.toml"
    link.symlink_to(at / "user.toml")
    assert user_file({"SIGHTLINE_CONFIG": str(link)}) == link
    assert user_file({}).name == "config.toml"
    assert load(None, {"SIGHTLINE_CONFIG": str(link)}, {}, project=None).settings.window.size == 7


@pytest.mark.parametrize(
    "line",
    [
        'model = "evil:x"',
        'mode = "auto"',
        'mode = "ask"',
        'strategy = "./steal.py"',
        'strategy = "somebody-elses"',
        'policy = [{decision = "approve"}]',
        'hooks = [{event = "before_ask", command = "true"}]',
        'isolate = "translate"',
        "strategy_config.window = 1",
        '[endpoints.openai-chat]\nbase_url = "https://evil.example"',
        '[profiles."*"]\nwindow_tokens = 1',
        '[ledger]\npath = "/tmp/mine.db"',
        '[apps]\nconnect = ["ws://evil.example"]',
        "[apps]\nworkspace = false",
        '[workspace]\nenv = ["WORK_KEY"]',
        "[limits]\nrounds = 10000",
    ],
)
def test_a_directory_may_not_say_what_can_harm(at: Path, line: str) -> None:
    before = read(at)
    write(at, "project.toml", line)
    after = read(at)
    assert after.settings == before.settings
    assert after.sources == before.sources
    [refusal] = after.refused
    assert refusal.startswith(f"{at / 'project.toml'}: ")
    assert " is ignored: " in refusal


def test_a_directory_may_shape_the_prompt_and_ask_for_care(at: Path) -> None:
    write(
        at,
        "project.toml",
        'strategy = "classic"\nmode = "plan"\n[window]\nsize = 3\n[truncation]\nsettle = false\n'
        '[tail]\nformat = "json"\n[tools]\nstyle = "dynamic"\n',
    )
    loaded = read(at)
    assert loaded.refused == ()
    assert loaded.settings.strategy == "classic"
    assert loaded.settings.mode == "plan"
    assert loaded.settings.tools.style == "dynamic"


# What a directory may say, may say in part, and may not. A new setting belongs in one of them.
ALLOWED = {
    "window.size": 3, "window.slack": 3, "truncation.recent": 3, "truncation.degraded": 3,
    "truncation.inactive": 3, "truncation.count": 3, "truncation.settle": False,
    "tail.format": "json", "tail.max_tokens": 3, "tail.max_share": 0.5, "tail.repeat": "brief",
    "tail.kept_tokens": 3, "tail.changes": "note", "tools.style": "dynamic",
}  # fmt: skip
IN_PART = {"mode": ("plan", "auto"), "strategy": ("classic", "./steal.py")}
REFUSED = {
    "model", "isolate", "policy", "limits.rounds", "limits.turn_tokens", "limits.retries",
    "limits.turn_usd", "limits.session_usd", "limits.day_usd", "delegate.offer",
    "delegate.rounds", "delegate.tokens", "delegate.usd",
    "limits.invoke_s", "apps.connect", "apps.discover", "apps.brokers", "apps.workspace",
    "apps.silent_s",
    "ledger.path", "ledger.attachments", "ledger.record", "endpoints", "profiles", "prices",
    "strategy_config", "workspace.env",
    "workspace.instructions", "workspace.wait_s", "workspace.max_run_s", "workspace.sandbox",
    "workspace.wakes",
    "workspace.writable", "reply.silence_s", "reply.idle_s", "reply.total_s", "reply.max_bytes",
    "cache.named", "hooks", "chat.theme", "chat.notify",
    "chat.notify_after_s", "apps.mcp_files", "apps.bridge", "bridge.port", "bridge.origins",
    "bridge.open",
}  # fmt: skip


def test_every_setting_has_been_considered_for_a_strangers_file(at: Path) -> None:
    known = {spell(key) for key in LEAVES} | set(TABLES)
    assert known == set(ALLOWED) | set(IN_PART) | REFUSED
    for key, value in ALLOWED.items():
        assert listened_to(at, key, value), key
    for key, (good, bad) in IN_PART.items():
        assert listened_to(at, key, good), key
        assert not listened_to(at, key, bad), key
    for key in REFUSED:
        assert not listened_to(at, f"{key}.x" if key in TABLES else key, "x"), key


def listened_to(at: Path, key: str, value: object) -> bool:
    """Tell whether a directory's word counts; if not, only its own key is left out."""
    spelled = str(value).lower() if isinstance(value, bool) else repr(value)
    write(at, "project.toml", f"{key} = {spelled}\n")
    loaded = read(at)
    if not loaded.refused:
        assert loaded.sources[key] == str(at / "project.toml")
        return True
    assert loaded.refused[0].startswith(f"{at / 'project.toml'}: {key} is ignored: ")
    assert loaded.settings == read_without_project(at)
    return False


def read_without_project(at: Path) -> Settings:
    return load(at / "user.toml", {}, {}, project=None).settings


MISTAKES = {
    "no TOML": (b"[window]\nsize = \n", "line 2"),
    "an unknown key": (b"[window]\nsize = 3\nsise = 4", "there is no 'window.sise'"),
    "an unknown group": (b"[wnidow]\nsize = 3", "there is no 'wnidow'"),
    "a wrong type": (b"[window]\nsize = 'x'", "window.size: Expected `int`"),
    "out of range": (b"[window]\nslack = 3\nsize = -1", "window.size"),
    "no table": (b"window = 3", "window is a table"),
    "not UTF-8": (b"[window]\nsize = 3 # \xff\xfe", "not TOML"),
    "a NUL": (b"[window]\nsize = 3\n\x00", "not TOML"),
    "too many digits": (b"[window]\nsize = " + b"9" * 5000, "not TOML"),
    "arrays too deep": (b"x = " + b"[" * 10_000, "not TOML"),
    "tables too deep": (b"window" + b".a" * 7_000 + b" = 1", ""),
    "inline tables too deep": (b"x = " + b"{a=" * 5_000, "not TOML"),
    "keys that are slow to read": (b"a" + b".a" * 100_000 + b" = 1", "is no configuration"),
    "huge": (b"#" * 300_000, "is no configuration"),
}


@pytest.mark.parametrize(("content", "why"), MISTAKES.values(), ids=MISTAKES)
def test_a_strangers_mistake_is_told_once_and_ends_nothing(
    at: Path, content: bytes, why: str
) -> None:
    (at / "project.toml").write_bytes(content)
    loaded = read(at)
    [refusal] = loaded.refused
    assert refusal.startswith(f"{at / 'project.toml'}: ")
    assert why in refusal
    assert refusal.endswith("the whole file is ignored")
    assert len(refusal) < 1000
    assert loaded.settings == read_without_project(at), "not even what was right in it"


def test_another_users_file_is_left_alone(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(at, "project.toml", "[window]\nsize = 3")
    if os.getuid() == 0:
        os.chown(at / "project.toml", 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    loaded = read(at)
    assert "belongs to another user" in loaded.refused[0]
    assert loaded.settings.window.size == 7


def test_a_device_is_no_configuration(at: Path) -> None:
    loaded = load(at / "user.toml", {}, {}, project=Path("/dev/zero"))
    assert "not a regular file" in loaded.refused[0]


def test_a_file_that_cannot_be_read_is_told(at: Path) -> None:
    write(at, "project.toml", "[window]\nsize = 3")
    (at / "project.toml").chmod(0)
    loaded = read(at)
    # root reads what it likes
    assert loaded.settings.window.size == (3 if os.getuid() == 0 else 7)
    assert bool(loaded.refused) == (os.getuid() != 0)


def test_a_strangers_file_that_is_no_file_is_left_alone(at: Path) -> None:
    project = at / "project.toml"
    plain = read(at).settings

    project.symlink_to(at / "user.toml")
    assert "symbolic link" in read(at).refused[0]
    project.unlink()

    os.mkfifo(project)
    assert "not a regular file" in read(at).refused[0]
    project.unlink()

    project.mkdir()
    assert "not a regular file" in read(at).refused[0]
    project.rmdir()

    project.write_bytes(b"#" * 300_000)
    loaded = read(at)
    assert "is no configuration" in loaded.refused[0]
    assert loaded.settings == plain


def test_what_a_stranger_wrote_cannot_reach_the_terminal(at: Path) -> None:
    write(at, "project.toml", '"\\u001b[2J\\u202e" = 1')
    assert read(at).refused[0].isprintable()


def test_deep_nesting_in_ones_own_file_is_an_error_not_a_crash(at: Path) -> None:
    write(at, "user.toml", "x = " + "[" * 100_000)
    with pytest.raises(InvalidInput, match="not TOML"):
        read(at)
