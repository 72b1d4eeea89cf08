"""From what a user wrote to a model; and what is said when there is none."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sightline._distribution import NAME, install
from sightline.agent.models.access import address
from sightline.agent.models.choose import (
    chosen,
    default_reference,
    examine,
    open_model,
    profile_of,
    usable,
)
from sightline.agent.models.vendors import EXTRAS, VENDORS, OptionalPackage, is_installed
from sightline.config import EndpointSettings, Settings
from sightline.errors import (
    InvalidInput,
    MissingExtra,
    SightlineError,
    Unauthorized,
    Unreachable,
)
from support.vendors.answers import says
from support.vendors.asking import asked, end_of
from support.vendors.server import KEY, Vendor

KEYS = {name: f"canary-{name}" for vendor in VENDORS.values() for name in vendor.keys}
NOTHING = Settings()


@pytest.mark.parametrize(
    ("reference", "label"),
    [
        ("openai-chat:gpt-5.5", "openai-chat:gpt-5.5"),
        ("openai-chat", "openai-chat:gpt-6.1-sol"),
        ("openai", "openai-responses:gpt-6.1-sol"),
        ("openai:gpt-6-luna", "openai-responses:gpt-6-luna"),
        ("claude-opus-5-5", "anthropic:claude-opus-5-5"),
        ("gpt-6-luna", "openai-responses:gpt-6-luna"),
        ("gemini-3.8-flash", "gemini:gemini-3.8-flash"),
        ("ollama:qwen3.5:7b", "ollama:qwen3.5:7b"),
        ("bedrock:us.anthropic.claude-x-v1:0", "bedrock:us.anthropic.claude-x-v1:0"),
        ("local", "local:smollm2-135m-instruct"),
        ("smollm2-135m-instruct", "local:smollm2-135m-instruct"),
    ],
)
async def test_a_reference_names_a_model(reference: str, label: str) -> None:
    model = open_model(reference, NOTHING, KEYS)
    assert model.label == label
    await model.close()


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("antropic:claude", "did you mean 'anthropic'"),
        ("our-model", "write ENDPOINT:MODEL"),
        ("work", "which model of 'work'"),
    ],
)
def test_what_names_no_model_is_told(reference: str, complaint: str) -> None:
    work = Settings(endpoints={"work": EndpointSettings(base_url="http://127.0.0.1:1")})
    with pytest.raises(InvalidInput, match=complaint):
        open_model(reference, work, KEYS)


def test_without_a_key_it_says_what_to_set() -> None:
    with pytest.raises(Unauthorized, match=r"no key\. Set OPENAI_API_KEY, or keep it in the keyr"):
        open_model("openai-chat", NOTHING, {})


def test_a_profile_that_is_wrong_is_told_before_a_key_that_is_missing() -> None:
    settings = Settings(profiles={"anthropic:*": {"nope": 1}})
    with pytest.raises(InvalidInput, match=r"profiles\.anthropic:\*: there is no 'nope'"):
        open_model("anthropic", settings, {})


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.agent.models.vendors.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=re.escape(install("anthropic"))):
        open_model("anthropic", NOTHING, KEYS)


async def test_the_settings_name_the_model_and_a_reference_overrides_them() -> None:
    chosen = Settings(model="gemini:gemini-3.8-flash")
    assert open_model("", chosen, KEYS).label == "gemini:gemini-3.8-flash"
    assert open_model("anthropic", chosen, KEYS).label.startswith("anthropic:")


def test_nobody_chose_so_the_first_vendor_with_a_key_is_taken() -> None:
    assert default_reference(NOTHING, KEYS) == "anthropic:claude-sonnet-5-5"
    some = {"GROQ_API_KEY": "x", "GEMINI_API_KEY": "y"}
    assert default_reference(NOTHING, some) == "gemini:gemini-3.8-flash"


KEY_AND_PACKAGE = [
    (vendor.keys[0], vendor.api)
    for vendor in VENDORS.values()
    if vendor.keys and not vendor.keyless
] + [("AWS_BEARER_TOKEN_BEDROCK", "bedrock")]


@pytest.mark.parametrize(("variable", "sdk"), dict.fromkeys(KEY_AND_PACKAGE))
def test_a_key_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, variable: str, sdk: str
) -> None:
    monkeypatch.setattr("sightline.agent.models.vendors.find_spec", lambda _: None)
    with pytest.raises(MissingExtra) as caught:
        open_model("", NOTHING, {variable: "x", "HOME": "/nonexistent"})
    assert variable in str(caught.value)
    assert install(sdk) in str(caught.value)


def test_with_no_key_it_is_the_embedded_model() -> None:
    assert default_reference(NOTHING, {"HOME": "/nonexistent"}) == "local:smollm2-135m-instruct"


def test_credentials_for_all_of_aws_do_not_choose_bedrock() -> None:
    account = {"AWS_ACCESS_KEY_ID": "x", "AWS_PROFILE": "work"}
    assert default_reference(NOTHING, account).startswith("local:")
    assert default_reference(NOTHING, {"AWS_BEARER_TOKEN_BEDROCK": "x"}).startswith("bedrock:")


def test_with_nothing_at_all_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.agent.models.local.find_spec", lambda _: None)
    with pytest.raises(Unauthorized, match=rf"ANTHROPIC_API_KEY.*{re.escape(install('local'))}"):
        open_model("", NOTHING, {})


@pytest.mark.parametrize(
    "reference", ["claude-sonnet-5-5", "openai", "nope", "local:nosuch.gguf", "work", "work:m"]
)
def test_what_keeps_a_model_from_being_opened_is_what_an_examination_finds(reference: str) -> None:
    work = EndpointSettings(base_url="https://h", api_key_env="WORK_KEY")
    settings = Settings(model=reference, endpoints={"work": work})
    with pytest.raises(SightlineError) as opening:
        open_model("", settings, {})
    with pytest.raises(type(opening.value), match=re.escape(str(opening.value))):
        examine(settings, {})


def test_an_examination_finds_what_the_first_request_would_without_leaving_home() -> None:
    with socket.socket() as taken:  # bound and not listening: whoever calls is refused
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        endpoints = {"fake": EndpointSettings(base_url=f"http://{place}/v1")}
        with pytest.raises(Unreachable, match=f"fake:m: nobody listens at {place}"):
            examine(Settings(model="fake:m", endpoints=endpoints), {})
        taken.listen()
        assert examine(Settings(model="fake:m", endpoints=endpoints), {}) == "fake:m"
    with pytest.raises(Unauthorized, match="no credentials"):
        examine(Settings(model="bedrock"), {"HOME": "/nonexistent"})


def test_a_name_without_its_endpoint_is_chosen_at_that_endpoint() -> None:
    settings = Settings(model="claude-opus-5-5")
    assert chosen(settings, {}) == "anthropic:claude-opus-5-5"
    [anthropic] = [choice for choice in usable(settings, KEYS) if choice.endpoint == "anthropic"]
    assert (anthropic.reference, anthropic.usable) == ("anthropic:claude-opus-5-5", True)


def test_every_extra_of_the_package_is_known_with_all_that_it_brings() -> None:
    root = Path(__file__).parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    declared = project["optional-dependencies"]
    assert project["name"] == NAME
    assert declared.pop("all") == [f"{NAME}[{','.join(declared)}]"]
    assert set(EXTRAS) == set(declared)
    assert {name: len(extra.modules) for name, extra in EXTRAS.items()} == {
        name: len(packages) for name, packages in declared.items()
    }


def test_an_extra_that_is_half_there_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_installed("chat")
    half = OptionalPackage(("prompt_toolkit", "no_such_module"), "")
    monkeypatch.setitem(EXTRAS, "chat", half)
    assert not is_installed("chat")


def test_profiles_are_overridden_by_globs_over_endpoint_and_model() -> None:
    settings = Settings(
        profiles={
            "openai-chat:gpt-*": {"window_tokens": 5000},
            "*:gpt-5.5": {"max_output_tokens": 77},
            "gemini:*": {"window_tokens": 1},
        }
    )
    profile = profile_of("openai-chat:gpt-5.5", settings)
    assert (profile.window_tokens, profile.max_output_tokens) == (5000, 77)
    assert profile.source_of("window_tokens") == "profiles.openai-chat:gpt-*"


def test_prices_of_the_settings_replace_the_shipped_prices() -> None:
    settings = Settings(prices={"gpt-5.4*": "1/2/0.5", "mine": "0/0"})
    prices = profile_of("openai-responses:gpt-5.4-mini", settings).prices
    assert (prices.input, prices.output, prices.cache_read, prices.cache_write) == (1, 2, 0.5, None)
    assert prices.long_tokens == 0
    assert profile_of("openai-chat:mine", settings).prices.input == 0
    assert profile_of("openai-chat:gpt-5.6", settings).prices.input not in (None, 1)


async def test_an_endpoint_of_the_users_own_is_reached_as_they_say() -> None:
    with Vendor(says("Hello.")) as vendor:
        settings = Settings(
            endpoints={
                "work": EndpointSettings(
                    base_url=f"{vendor.url}/gate/v1", api_key_env="WORK_KEY", dialect="groq"
                ),
            }
        )
        model = open_model("work:our-model", settings, {"WORK_KEY": KEY})
        assert model.label == "work:our-model"
        assert end_of(await asked(model, "hi")).message.text == "Hello."
        await model.close()
        [seen] = vendor.requests
    assert seen.path == "/gate/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    with pytest.raises(Unauthorized, match="Set WORK_KEY"):
        open_model("work:our-model", settings, {})


async def test_a_server_at_home_needs_no_key() -> None:
    with Vendor(says("Hello.")) as vendor:
        home = Settings(endpoints={"vllm": EndpointSettings(base_url=vendor.url)})
        model = open_model("vllm:m", home, {})
        assert end_of(await asked(model, "hi")).message.text == "Hello."
        await model.close()
        assert vendor.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://h", "/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/v1/", "/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/a/v3", "/openai/v1/chat/completions", "https://h/a/v3/chat/completions"),
        ("https://h", "/chat/completions", "https://h/chat/completions"),
    ],
)
def test_a_base_has_the_version_in_it_or_no_path_at_all(base: str, path: str, url: str) -> None:
    assert address(base, path) == url


@pytest.mark.parametrize("host", ["127.0.0.1:{}", "http://0.0.0.0:{}", "http://127.0.0.1:{}/"])
def test_ollamas_own_ways_of_writing_an_address(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        listed = usable(NOTHING, {"OLLAMA_HOST": host.format(port)})
    [ollama] = [choice for choice in listed if choice.endpoint == "ollama"]
    assert (ollama.usable, ollama.why) == (True, f"no key needed at 127.0.0.1:{port}")


def test_ollamas_port_may_be_left_out() -> None:
    [ollama] = [
        c for c in usable(NOTHING, {"OLLAMA_HOST": "box.example"}) if c.endpoint == "ollama"
    ]
    assert ollama.why == "no key needed at box.example:11434"


def test_the_list_says_of_every_endpoint_why_or_why_not() -> None:
    settings = Settings(
        endpoints={
            "work": EndpointSettings(base_url="https://h", api_key_env="WORK_KEY", model="m")
        }
    )
    env = {"GEMINI_API_KEY": KEY, "HOME": "/nonexistent"}
    listed = {choice.endpoint: choice for choice in usable(settings, env)}
    assert list(listed) == ["work", *VENDORS]
    assert (listed["gemini"].usable, listed["gemini"].why) == (True, "key from GEMINI_API_KEY")
    assert (listed["work"].usable, listed["work"].why) == (False, "no key: set WORK_KEY")
    assert listed["work"].reference == "work:m"
    assert not listed["bedrock"].usable
    assert listed["local"].usable
    assert listed["vllm"].why == "nobody listens at 127.0.0.1:8000"
    assert KEY not in str(listed)


def test_aws_credentials_are_seen_in_their_file(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text("[default]\n")
    [aws] = [c for c in usable(NOTHING, {"HOME": str(tmp_path)}) if c.endpoint == "bedrock"]
    assert aws.usable


def test_choosing_imports_no_sdk() -> None:
    code = (
        "import sys, sightline.cli.main, sightline.cli.models, sightline.cli.doctor\n"
        "from sightline.config import Settings\n"
        "from sightline.agent.models.choose import open_model, usable\n"
        "usable(Settings(), {})\n"
        "open_model('openai-chat', Settings(), {'OPENAI_API_KEY': 'x'})\n"
        "heavy = {'openai', 'anthropic', 'google.genai', 'boto3', 'httpx2', 'xllamacpp'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
