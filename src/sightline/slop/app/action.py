"""An action: what callers see of it, and the function that does it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from sightline.errors import InvalidDescriptor, InvalidInput, InvalidTree
from sightline.slop.app.parameters import Handler, Parameters, schema_of, underlying
from sightline.slop.app.pattern import Pattern
from sightline.slop.protocol.rules import field_violations

When = Callable[[dict[str, Any]], bool]

OPTIONS: Final = frozenset(
    {
        "label", "description", "dangerous", "idempotent", "estimate", "params", "returns",
        "guard", "authorize", "when", "refreshes",
    }
)  # fmt: skip


class Action(msgspec.Struct, frozen=True):
    """One action of an app, ready to be offered and to be called."""

    name: str
    handler: Handler
    parameters: Parameters
    # What a node shows of it, as the protocol writes it.
    affordance: dict[str, Any]
    pattern: Pattern | None = None
    guard: Handler | None = None
    authorize: Handler | None = None
    when: When | None = None
    # The registrations to look at again after it ran; None is all of them.
    refreshes: tuple[str, ...] | None = None

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function: those run in the event loop."""
        return inspect.iscoroutinefunction(underlying(self.handler))

    @classmethod
    def of(
        cls,
        name: str,
        handler: Handler,
        where: str,
        pattern: Pattern | None = None,
        **options: Any,
    ) -> Action:
        """Make an action from its handler. Raises InvalidDescriptor, naming path and key."""
        key = f"actions.{name}"
        if not callable(handler):
            raise InvalidDescriptor(where, key, f"must have a handler to call, not {handler!r}")
        given, returns = options.get("params"), options.get("returns")
        if given is not None and not isinstance(given, Mapping):
            raise InvalidDescriptor(where, f"{key}.params", "must be a JSON Schema, an object")
        try:
            parameters = _parameters(handler, given, () if pattern is None else pattern.names)
            if returns is not None:
                returns = schema_of(returns)
        except InvalidInput as error:
            raise InvalidDescriptor(where, key, str(error)) from None
        affordance: dict[str, Any] = {"action": name}
        shown = {**options, "params": parameters.schema, "returns": returns}
        for option in _SHOWN:
            if shown.get(option) is not None and shown[option] is not False:
                affordance[option] = shown[option]
        broken = list(field_violations("affordances", [affordance], where))
        if broken:
            raise InvalidTree(broken)
        refreshes = options.get("refreshes")
        return cls(
            name,
            handler,
            parameters,
            affordance,
            pattern,
            options.get("guard"),
            options.get("authorize"),
            options.get("when"),
            None if refreshes is None else tuple(refreshes),
        )

    @classmethod
    def inline(cls, name: str, given: object, where: str) -> Action:
        """Make an action from what a descriptor says: a function, or a mapping with `handler`."""
        if callable(given):
            return cls.of(name, given, where)
        if not isinstance(given, Mapping) or "handler" not in given:
            reason = "must be a function, or a mapping with a 'handler'"
            raise InvalidDescriptor(where, f"actions.{name}", reason)
        options = {str(key): value for key, value in given.items() if key != "handler"}
        unknown = sorted(options.keys() - OPTIONS)
        if unknown:
            reason = f"is not one of handler {' '.join(sorted(OPTIONS))}"
            raise InvalidDescriptor(where, f"actions.{name}.{unknown[0]}", reason)
        return cls.of(name, given["handler"], where, **options)


_SHOWN: Final = (
    "label", "description", "params", "dangerous", "idempotent", "estimate", "returns",
)  # fmt: skip
# Inline handlers are made anew on each refresh, often from one piece of code.
_known: dict[object, Parameters] = {}
_KNOWN_SIGNATURES: Final = 1024


def _parameters(
    handler: Handler, given: Mapping[str, Any] | None, placeholders: tuple[str, ...]
) -> Parameters:
    key = _signature_key(handler) if given is None else None
    if key is None:
        return Parameters.of(handler, given, placeholders)
    key = (key, placeholders)
    found = _known.get(key)
    if found is None:
        if len(_known) >= _KNOWN_SIGNATURES:
            _known.clear()
        found = _known[key] = Parameters.of(handler, None, placeholders)
    return found


def _signature_key(handler: Handler) -> tuple[object, ...] | None:
    """What two handlers with one signature have in common, or None if that is not sure."""
    bound: tuple[int, ...] = ()
    function = underlying(handler)
    code = getattr(function, "__code__", None)
    if code is None or getattr(function, "__defaults__", None):
        return None
    if getattr(function, "__kwdefaults__", None) or getattr(function, "__wrapped__", None):
        return None
    if function is not handler:
        arguments = getattr(handler, "args", None)
        keywords = getattr(handler, "keywords", None)
        if arguments is None or keywords or getattr(handler, "func", None) is not function:
            return None
        bound = (len(arguments),)
    return (code, inspect.ismethod(handler), bound)
