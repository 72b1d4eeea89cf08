"""What a handler takes: a JSON Schema for the caller, Python values for the handler.

The schema comes from the signature (type hints, defaults, `Annotated[str, "what it
is"]`, Literal, Enum, dataclasses, unions, lists, dicts, pydantic models) or is given.
Either way every call is checked against it, and each value becomes what the
handler's hint says before the handler sees it.

Three kinds of parameter are not the caller's and stay out of the schema:
placeholders of the action's path (`list/{id}` gives `id`), `session`, and whatever
is annotated with `Call`; of a hook also `call` without an annotation.

What a handler returns, and whatever else an app hands over, becomes JSON by `as_json`.

A given schema may be short: `{"query": "string", "limit": {"type": "integer"}}`
stands for an object with these members, all required.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from sightline.errors import ActionError, InvalidInput
from sightline.slop.app.validate import Validator
from sightline.slop.protocol.limits import Limits
from sightline.slop.protocol.rules import value_violations
from sightline.slop.protocol.tree import Node

Handler = Callable[..., Any]
# The names of parameters, their hints, and what stands for a default.
_Fields = list[tuple[str, Any, Any]]
# How long it may be is for the message that carries it to say.
_ANY_LENGTH: Final = Limits(string_bytes=1 << 62, value_levels=512)


@dataclass(frozen=True, slots=True)
class Call:
    """One invoke: its node, action and params, and the session that asked.

    A handler's parameter that is annotated with this class gets it, and so does a hook's `call`.
    """

    path: str
    action: str
    params: Mapping[str, Any]
    node: Node
    session: Hashable = None
    placeholders: Mapping[str, str] = field(default_factory=dict)


class Parameters(msgspec.Struct, frozen=True):
    """How to call one handler."""

    schema: dict[str, Any] | None
    path_names: frozenset[str]
    takes_session: bool
    call_name: str | None
    is_open: bool
    _validator: Validator | None
    _struct: type[msgspec.Struct] | None

    @classmethod
    def of(
        cls,
        handler: Handler,
        given: Mapping[str, Any] | None = None,
        placeholders: Collection[str] = (),
        *,
        is_hook: bool = False,
    ) -> Parameters:
        """Read the signature of a handler or a hook. Raises InvalidInput, naming the parameter."""
        fields: _Fields = []
        defaults: dict[str, Any] = {}
        path_names: set[str] = set()
        takes_session = is_open = False
        call_name = None
        for name, parameter, hint in _signature(handler):
            if parameter.kind is parameter.VAR_KEYWORD:
                is_open = True
            elif parameter.kind is parameter.VAR_POSITIONAL:
                continue
            elif parameter.kind is parameter.POSITIONAL_ONLY:
                raise InvalidInput(f"parameter {name!r} must be one that can be given by name")
            elif hint is Call or (is_hook and name == "call" and hint is Any):
                call_name = name
            elif name in placeholders:
                path_names.add(name)
            elif name == "session":
                takes_session = True
            else:
                is_required = parameter.default is parameter.empty
                fields.append((name, hint, msgspec.NODEFAULT if is_required else UNSET))
                if not is_required:
                    defaults[name] = parameter.default
        struct = _struct_of(fields, defaults)
        if given is None:
            schema = None if is_open and not fields else _derived(struct, fields, defaults)
        else:
            schema = _full(given)
        return cls(
            schema if schema is None or schema.get("properties") or given is not None else None,
            frozenset(path_names),
            takes_session,
            call_name,
            is_open,
            None if schema is None else Validator(schema),
            struct,
        )

    def check(self, params: Mapping[str, Any]) -> None:
        """Raise ActionError `invalid_params` unless a caller may give these."""
        if self._validator is not None:
            self._validator.check(params)
        known = () if self._struct is None else self._struct.__struct_fields__
        unknown = [name for name in params if name not in known]
        if unknown and not self.is_open:
            raise ActionError("invalid_params", f"/{unknown[0]}: there is no such parameter")

    def arguments(
        self, params: Mapping[str, Any], placeholders: Mapping[str, str], call: Call
    ) -> dict[str, Any]:
        """Return what the handler is called with. Raises ActionError `invalid_params`."""
        named: dict[str, Any] = {}
        known: tuple[str, ...] = ()
        if self._struct is not None:
            known = self._struct.__struct_fields__
            wanted = {name: params[name] for name in known if name in params}
            converted = _convert(wanted, self._struct)
            for name in known:
                value = getattr(converted, name)
                if value is not UNSET:
                    named[name] = value
        if self.is_open:
            named.update((name, value) for name, value in params.items() if name not in known)
        named.update((name, placeholders[name]) for name in self.path_names)
        if self.takes_session:
            named["session"] = call.session
        if self.call_name is not None:
            named[self.call_name] = call
        return named


def underlying(handler: Handler) -> Any:
    """The function behind partials and callable objects."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler if inspect.isroutine(handler) else type(handler).__call__


def as_json(value: object) -> Any:
    """Make JSON of plain values, dataclasses, enums and models. Raises InvalidInput for others."""
    try:
        plain = msgspec.to_builtins(value, enc_hook=_dumped, str_keys=True)
    except (TypeError, RecursionError) as error:
        raise InvalidInput(f"not JSON: {error}") from error
    broken = next(value_violations(plain, "", _ANY_LENGTH), None)
    if broken is not None:
        raise InvalidInput(f"not JSON: {broken}")
    return plain


def _full(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a given schema in full, if it is the short kind."""
    if given.get("type") == "object" or not given:
        return dict(given) or {"type": "object"}
    members = {
        name: {"type": member} if isinstance(member, str) else member
        for name, member in given.items()
    }
    return {"type": "object", "properties": members, "required": list(members)}


def schema_of(wanted: Any) -> dict[str, Any]:
    """Return a given schema in full, or that of a Python type, with references written out."""
    if isinstance(wanted, Mapping):
        return _full(wanted)
    try:
        return _inlined(msgspec.json.schema(_described(wanted), schema_hook=_foreign_schema))
    except TypeError as error:
        raise InvalidInput(f"{wanted!r} has no JSON Schema: {error}") from None


def _signature(handler: Handler) -> list[tuple[str, inspect.Parameter, Any]]:
    function = underlying(handler)
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise InvalidInput(f"the hints of {function!r} cannot be read: {error}") from None
    signature = inspect.signature(handler)
    return [
        (name, parameter, hints.get(name, Any)) for name, parameter in signature.parameters.items()
    ]


def _struct_of(fields: _Fields, defaults: Mapping[str, Any]) -> type[msgspec.Struct] | None:
    if not fields:
        return None
    typed: _Fields = []
    for name, hint, default in fields:
        wanted = _described(hint)
        if default is UNSET:
            wanted = wanted | None if defaults[name] is None else wanted
            wanted = wanted | UnsetType if wanted is not Any else Any
        typed.append((name, wanted, default))
    try:
        struct = msgspec.defstruct("Params", typed, kw_only=True)
        # What msgspec cannot read, it says only when it is used.
        msgspec.json.schema(struct, schema_hook=_foreign_schema)
    except TypeError as error:
        names = ", ".join(repr(name) for name, _, _ in fields)
        reason = f"no JSON Schema for the hints of {names}: {error}; give `params`"
        raise InvalidInput(reason) from None
    return struct


def _derived(
    struct: type[msgspec.Struct] | None, fields: _Fields, defaults: Mapping[str, Any]
) -> dict[str, Any]:
    if struct is None:
        return {"type": "object"}
    schema = schema_of(struct)
    properties: dict[str, dict[str, Any]] = schema["properties"]
    for name, hint, _ in fields:
        choices = _choices(hint)
        if choices and set(properties[name].get("enum", ())) == set(choices):
            properties[name]["enum"] = choices
    for name, default in defaults.items():
        if default is not None:
            try:
                properties[name]["default"] = msgspec.to_builtins(default, enc_hook=_dumped)
            except TypeError as error:
                raise InvalidInput(f"the default of {name!r}: {error}; give `params`") from None
    if not schema["required"]:
        del schema["required"]
    return schema


def _choices(hint: Any) -> list[Any]:
    """The choices in the order in which the app wrote them."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [member.value for member in hint]
    return []


def _described(hint: Any) -> Any:
    """Let a plain string in `Annotated` be the description."""
    if get_origin(hint) is not Annotated:
        return hint
    inner, *notes = get_args(hint)
    known = [msgspec.Meta(description=note) if isinstance(note, str) else note for note in notes]
    kept = [note for note in known if isinstance(note, msgspec.Meta)]
    for note in kept:
        inner = Annotated[inner, note]
    return inner


def _foreign_schema(kind: type) -> dict[str, Any]:
    """The schema of a pydantic model, recognised by what it can do."""
    make = getattr(kind, "model_json_schema", None)
    if make is None:
        raise NotImplementedError
    schema: dict[str, Any] = make()
    return schema


def _dumped(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a {type(value).__name__} is not a JSON value")
    return dump(mode="json")


def _make_foreign(kind: type, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise NotImplementedError
    return validate(value)


def _convert(wanted: Mapping[str, Any], struct: type[msgspec.Struct]) -> Any:
    try:
        return msgspec.convert(wanted, struct, dec_hook=_make_foreign)
    except (msgspec.ValidationError, ValueError):
        pass
    try:
        # JSON Schema, validation §6.1.1: a number without a fraction is an integer, 3.0 too.
        return msgspec.convert(_whole(wanted), struct, dec_hook=_make_foreign)
    except (msgspec.ValidationError, ValueError) as error:
        raise ActionError("invalid_params", str(error).partition("\n")[0]) from None


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _whole(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole(member) for member in value]
    return value


_NOISE: Final = frozenset({"title", "$defs"})


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Write references out, so that a reader needs no look-ups; recursive ones stay."""
    definitions: dict[str, Any] = {}
    kept: dict[str, Any] = {}

    def visit(value: Any, above: tuple[str, ...], *, names: bool = False) -> Any:
        if isinstance(value, list):
            return [visit(item, above) for item in value]
        if not isinstance(value, dict):
            return value
        if names:  # the keys are the app's own names here, not the schema's words
            return {key: visit(item, above) for key, item in value.items()}
        definitions.update(value.get("$defs", {}))
        reference = value.get("$ref")
        if isinstance(reference, str):
            name = reference.removeprefix("#/$defs/")
            beside = {key: item for key, item in value.items() if key not in {"$ref", "$defs"}}
            if name in above:
                kept.setdefault(name, None)
                return {"$ref": reference, **visit(beside, above)}
            return {**visit(definitions[name], (*above, name)), **visit(beside, above)}
        shown = {
            key: visit(item, above, names=key == "properties")
            for key, item in value.items()
            if key not in _NOISE and not (key == "default" and item is None)
        }
        if all(isinstance(choice, str) for choice in shown.get("enum", [None])):
            return {"type": "string", **shown}
        return shown

    result: dict[str, Any] = visit(schema, ())
    for name in list(kept):
        kept[name] = visit(definitions[name], (name,))
    if kept:
        result["$defs"] = kept
    return result
