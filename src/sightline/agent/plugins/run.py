"""Find a strategy, load it, and run its hooks so that a bad one costs a warning and nothing else.

Every hook runs in a thread of its own with a fresh context, and has a time limit.
A hook that raises, returns something unusable or runs out of time is reported and
its context is thrown away, state included; for `on_context_build` the built-in
strategy then lays out the same turn. A thread cannot be stopped: one that ran out
of time is left behind as a daemon, holding nothing that anybody reads.

Async hooks run in an event loop of their thread. Their calls to the model are
handed to the host's loop, where its connections live.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from sightline.config import Settings
from sightline.context.messages.parts import Message
from sightline.context.slots.prompt import Notice, Prompt
from sightline.context.slots.settings import resolve
from sightline.context.slots.strategies import BUILT_IN, DEFAULT
from sightline.context.slots.strategy import Context, Llm, Strategy, Turn, copy_of_state
from sightline.errors import InvalidStrategy, StrategyFailed

T = TypeVar("T")
ENTRY_POINTS: Final = "sightline.strategies"


class HookLimits(msgspec.Struct, frozen=True):
    """How many seconds each hook of a strategy may take."""

    on_init: float = 10.0
    on_context_build: float = 20.0
    on_turn_end: float = 20.0
    on_error: float = 2.0


class Left(msgspec.Struct, frozen=True):
    """The state that a hook left, or the one before it and what went wrong."""

    state: dict[str, Any]
    failure: StrategyFailed | None = None


class Built(msgspec.Struct, frozen=True):
    """The prompt of a turn, the state to store with it, and what went wrong on the way."""

    prompt: Prompt
    state: dict[str, Any]
    failure: StrategyFailed | None = None


class StrategyRunner:
    """Runs one strategy for one session.

    `settings` are checked against the strategy's schema here, once; raises
    `InvalidStrategy`.
    """

    def __init__(
        self,
        strategy: Strategy,
        settings: Mapping[str, object] | None = None,
        *,
        limits: HookLimits | None = None,
    ) -> None:
        self.strategy = strategy
        self.config = resolve(strategy.schema, settings or {})
        self._limits = limits or HookLimits()

    async def build(self, turn: Turn, state: Mapping[str, Any]) -> Built:
        """Lay out a turn; by the built-in strategy, with a warning, if this one fails.

        Raise `DoesNotFit` only if the built-in layout does not fit either.
        """
        try:
            prompt, left = await self._run("on_context_build", turn, state, _prompt_of)
        except StrategyFailed as failure:
            await self._report(turn, state, failure)
            return Built(self._fall_back(turn, failure), copy_of_state(state), failure)
        return Built(prompt, left)

    async def start(self, turn: Turn, state: Mapping[str, Any]) -> Left:
        """Run `on_init`, if there is one."""
        return await self._run_optional("on_init", turn, state)

    async def finish(self, turn: Turn, state: Mapping[str, Any]) -> Left:
        """Run `on_turn_end`, if there is one."""
        return await self._run_optional("on_turn_end", turn, state)

    async def _run_optional(self, hook: str, turn: Turn, state: Mapping[str, Any]) -> Left:
        if hook not in self.strategy.hooks:
            return Left(copy_of_state(state))
        try:
            _, left = await self._run(hook, turn, state, lambda _ctx, _turn, _result: None)
        except StrategyFailed as failure:
            await self._report(turn, state, failure)
            return Left(copy_of_state(state), failure)
        return Left(left)

    async def _run(
        self,
        hook: str,
        turn: Turn,
        state: Mapping[str, Any],
        finish: Callable[[Context, Turn, object], T],
    ) -> tuple[T, dict[str, Any]]:
        """Run one hook and everything that can fail because of it."""
        bridged = replace(turn, llm=BridgedLlm(turn.llm, asyncio.get_running_loop()))
        ctx = bridged.context(self.config, state)
        limit = getattr(self._limits, hook)
        try:
            result = await call_in_thread(self.strategy.hooks[hook], limit, ctx)
            return finish(ctx, turn, result), copy_of_state(ctx.state)
        except OutOfTimeError as error:
            raise StrategyFailed(self.strategy.name, hook, str(error)) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise StrategyFailed(self.strategy.name, hook, reason) from error

    async def _report(self, turn: Turn, state: Mapping[str, Any], failure: StrategyFailed) -> None:
        """Tell the strategy that it failed; how it takes that changes nothing."""
        on_error = self.strategy.hooks.get("on_error")
        if on_error is not None:
            ctx = turn.context(self.config, state)
            with suppress(Exception):
                await call_in_thread(on_error, self._limits.on_error, ctx, failure)

    def _fall_back(self, turn: Turn, failure: StrategyFailed) -> Prompt:
        ctx = turn.context(resolve(DEFAULT.schema, {}), {})
        prompt = _prompt_of(ctx, turn, DEFAULT.hooks["on_context_build"](ctx))
        message = f"{failure}; the strategy {DEFAULT.name!r} took over"
        notice, receipt = Notice("strategy_failed", "", message), prompt.receipt
        return replace(prompt, receipt=replace(receipt, warnings=(notice, *receipt.warnings)))


class BridgedLlm(msgspec.Struct, frozen=True):
    """A model whose calls run in the host's event loop, whoever asks."""

    llm: Llm
    loop: asyncio.AbstractEventLoop

    async def call(self, prompt: str, *, max_tokens: int = 1024) -> str:
        return await self._hand_over(self.llm.call(prompt, max_tokens=max_tokens))

    async def run(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> Message:
        return await self._hand_over(self.llm.run(messages, max_tokens=max_tokens))

    async def _hand_over(self, call: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self.loop))


def _prompt_of(ctx: Context, turn: Turn, result: object) -> Prompt:
    """Turn what `on_context_build` returned into a prompt that keeps every promise.

    A prompt that did not come from this turn's slots, or a plain list of messages, is
    put through slots of its own: within the budget, and with the input.
    """
    if result is None:
        return ctx.slots.render()
    if isinstance(result, Prompt) and ctx.slots.rendered(result):
        return result
    if isinstance(result, Prompt):
        result = list(result.messages)
    elif isinstance(result, Mapping):
        result = result.get("messages")
    if not isinstance(result, list | tuple) or not all(isinstance(m, Message) for m in result):
        raise TypeError("on_context_build returned neither a prompt, a list of messages nor None")
    slots = turn.empty_slots()
    slots.add("messages", result)
    return slots.render()


class OutOfTimeError(Exception):
    """A hook took longer than it may."""


async def call_in_thread(hook: Callable[..., Any], limit_s: float, *args: object) -> Any:
    """Call a plain or async function in a thread; raise `OutOfTimeError` after the limit."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[Any, Exception | None]] = loop.create_future()

    def settle(result: object, error: Exception | None) -> None:
        if not outcome.done():
            outcome.set_result((result, error))

    def work() -> None:
        result, failed = None, None
        try:
            result = hook(*args)
            if inspect.isawaitable(result):
                result = asyncio.run(_awaited(result))
        except Exception as error:  # noqa: BLE001 - carried over to the caller's thread
            failed = error
        except BaseException as error:  # noqa: BLE001 - sys.exit() in a hook ends the hook only
            failed = RuntimeError(f"{type(error).__name__} raised")
        with suppress(RuntimeError):  # the host's loop is gone, and with it whoever asked
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=work, name="strategy-hook", daemon=True).start()
    try:
        async with asyncio.timeout(limit_s):
            result, failed = await outcome
    except TimeoutError:
        raise OutOfTimeError(f"took over {limit_s} s") from None
    if failed is not None:
        raise failed
    return result


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


# Which strategies can be chosen, and how one is loaded.


def load_strategy(spec: str | Path | object) -> Strategy:
    """Load a strategy by name, from a `.py` file, or from a class or object.

    A name is looked up among the built-in ones, then among the entry points of
    installed packages. Raise `InvalidStrategy` when there is none, when its code does
    not load, or when it has no `on_context_build`.
    """
    if isinstance(spec, Path) or (isinstance(spec, str) and spec.endswith(".py")):
        path = Path(spec)
        return Strategy.of(_module_from(path), name=path.stem, origin=str(path))
    if not isinstance(spec, str):
        return Strategy.of(spec)
    if spec in BUILT_IN:
        return BUILT_IN[spec]
    for entry in entry_points(group=ENTRY_POINTS, name=spec):
        return _from_entry_point(entry)
    known = ", ".join([*BUILT_IN, *sorted(entry_points(group=ENTRY_POINTS).names)])
    raise InvalidStrategy(f"there is no strategy {spec!r}; there are {known}, and .py files")


def available() -> Iterator[tuple[str, str, str]]:
    """Yield name, origin and, if it cannot be loaded, the reason, for everything installed."""
    for strategy in BUILT_IN.values():
        yield strategy.name, strategy.origin, ""
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            _from_entry_point(entry)
        except InvalidStrategy as error:
            yield entry.name, entry.value, str(error)
        else:
            yield entry.name, entry.value, ""


def _from_entry_point(entry: EntryPoint) -> Strategy:
    try:
        loaded = entry.load()
    except Exception as error:
        raise InvalidStrategy(f"entry point {entry.name!r} ({entry.value}): {error}") from error
    return Strategy.of(loaded, name=entry.name, origin=entry.value)


def _module_from(path: Path) -> ModuleType:
    """Run a file as a module of its own; what it raises is its fault, and said so."""
    if not os.path.isfile(path):
        raise InvalidStrategy(f"{path}: no such file")
    name = f"sightline_strategy_{sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidStrategy(f"{path}: not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses in the file look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InvalidStrategy(f"{path}: {type(error).__name__}: {error}") from error
    return module


def choices(settings: Settings) -> dict[str, str]:
    """Return what can be chosen, by label: built in, installed, configured. Nothing is loaded."""
    named = {name: name for name in (*BUILT_IN, *sorted(entry_points(group=ENTRY_POINTS).names))}
    return named | {label_of(settings.strategy): settings.strategy}


def label_of(strategy: str) -> str:
    """Name a strategy without saying where its file is."""
    return Path(strategy).name if strategy.endswith(".py") else strategy


def runner_of(settings: Settings, strategy: str | None = None) -> StrategyRunner:
    """Load the configured strategy with its settings, or another one with its defaults.

    Raises `InvalidStrategy`.
    """
    wanted = settings.strategy if strategy is None else strategy
    loaded = load_strategy(wanted)
    config: dict[str, object] = (
        dict(settings.strategy_config) if wanted == settings.strategy else {}
    )
    if "state_share" in loaded.schema.__struct_fields__:
        config.setdefault("state_share", settings.tail.max_share)
    return StrategyRunner(loaded, config)
