"""Which model: from what a user wrote to one that can be asked.

    endpoint:model     openai-chat:gpt-6.1-sol, ollama:qwen3.5:7b, work:our-model
    endpoint           the model that it is known for, or that the settings name
    model              at the vendor whose models have such names
    local              the embedded model; local:FILE.gguf, other weights for it
    nothing            the first vendor with a key, else the embedded model

No client is imported here, and nobody is asked over a network: whether a key is good is found
out by the first request. Of servers on this machine `usable` tries whether they listen.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from sightline._distribution import install
from sightline.agent.models.access import Access, location_of
from sightline.agent.models.base import Model
from sightline.agent.models.connected import ConnectedModel, VendorConnection
from sightline.agent.models.keys import SERVICE, Key, find_key
from sightline.agent.models.local import weights_of, why_not
from sightline.agent.models.vendors import VENDORS, Vendor, is_installed
from sightline.config import EndpointSettings, Settings
from sightline.context.dialects.profile import Layer, Profile
from sightline.context.dialects.profiles import price_layer, profile_for
from sightline.errors import InvalidInput, MissingExtra, Unauthorized, Unreachable

# API → what makes a connection to it, imported when the first request is sent.
CONNECTIONS: Final = {
    "openai": "sightline.agent.models.posting:OpenAI",
    "anthropic": "sightline.agent.models.posting:Anthropic",
    "gemini": "sightline.agent.models.posting:Gemini",
    "bedrock": "sightline.agent.models.bedrock:Bedrock",
    "ollama": "sightline.agent.models.posting:Ollama",
    "local": "sightline.agent.models.local:Local",
}
ALIASES: Final = {"openai": "openai-responses", "google": "gemini", "aws": "bedrock"}
# Whose models are called so.
FAMILIES: Final = {
    "claude-*": "anthropic", "gpt-*": "openai-responses", "o[1-9]*": "openai-responses",
    "gemini-*": "gemini", "grok-*": "xai", "deepseek-*": "deepseek", "mistral-*": "mistral",
    "qwen3.8-*": "dashscope", "smollm2-*": "local", "*.gguf": "local",
}  # fmt: skip
BEDROCK_KEY: Final = "AWS_BEARER_TOKEN_BEDROCK"
AWS_VARIABLES: Final = (
    "AWS_ACCESS_KEY_ID", "AWS_PROFILE", BEDROCK_KEY,
    "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip
HOME: Final = frozenset({"127.0.0.1", "::1", "localhost"})
PROBE_S: Final = 0.5
# One needs none; the other signs with what AWS's own tools find.
KEYLESS: Final = frozenset({"local", "bedrock"})
REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")


class Choice(msgspec.Struct, frozen=True):
    """A model that could be used, and why it can or cannot be."""

    reference: str
    endpoint: str
    model: str
    usable: bool
    why: str


class Reach(msgspec.Struct, frozen=True):
    """Where an endpoint is, and which variable has its key; empty where there is none."""

    base_url: str
    key_variable: str


def open_model(
    reference: str, settings: Settings, env: Mapping[str, str], *, key: str | Key | None = None
) -> Model:
    """Open a model; without a reference, that of the settings, or what is usable.

    `key` wins over every other place that a key may be in. Raises `Unauthorized` with what
    to set, `MissingExtra` with what to install, `InvalidInput` for what names no model.
    """
    service = _resolve(reference or _unsaid(settings, env), settings)

    def connect(access: Access) -> VendorConnection:
        module, _, name = CONNECTIONS[service.vendor.api].partition(":")
        connection: VendorConnection = getattr(import_module(module), name)(access)
        return connection

    return ConnectedModel(_ready(service, settings, env, key), connect)


def open_with_key(
    settings: Settings, env: Mapping[str, str], key: Key
) -> tuple[Model, dict[str, str]]:
    """Open the settings' model with a key that a user gave for it.

    Gives as well a copy of the environment in which the endpoint's variable has that key, for
    its other models to be opened with. Raises `InvalidInput` if the settings name no model, or
    one that takes no key, and what `open_model` raises.
    """
    if not settings.model:
        raise InvalidInput("a key is for one endpoint: name it, too, with --model")
    service = _resolve(settings.model, settings)
    if service.vendor.api in KEYLESS:
        raise InvalidInput(f"{service.endpoint} takes no key")
    overlay = {service.variables[0]: key.reveal()} if service.variables else {}
    return open_model(settings.model, settings, env, key=key), {**env, **overlay}


def examine(settings: Settings, env: Mapping[str, str]) -> str:
    """Return the label of the model that is used when nobody says which, if it can be asked.

    Raises what `open_model` raises for it, and what the first request would find out without
    leaving this machine: `Unauthorized` where AWS has no credentials, `Unreachable` where
    nobody listens.
    """
    service = _resolve(_unsaid(settings, env), settings)
    _ready(service, settings, env, None)
    if obstacle := _obstacle(service, env):
        kind = Unauthorized if service.vendor.api == "bedrock" else Unreachable
        raise kind(f"{service.label}: {obstacle}")
    return service.label


def chosen(settings: Settings, env: Mapping[str, str]) -> str:
    """Return the label of the model that is used when nobody says which, usable or not.

    Raises `InvalidInput` if the settings name none that is known, `Unauthorized` if they
    leave it open and there is none.
    """
    return _resolve(_unsaid(settings, env), settings).label


def usable(settings: Settings, env: Mapping[str, str]) -> list[Choice]:
    """List every endpoint with the model it would use, in the order in which they are chosen.

    At the endpoint of the settings' model it is that one.
    """
    wanted = _wanted(settings)
    found = []
    for name in [*(n for n in settings.endpoints if n not in VENDORS), *VENDORS]:
        service = _resolve(name, settings, strict=False)
        if wanted is not None and wanted.endpoint == name:
            service = wanted
        obstacle = _obstacle(service, env)
        why = obstacle or _evidence(service, env)
        found.append(Choice(service.label, name, service.model, not obstacle, why))
    return found


def label_of(reference: str, settings: Settings) -> str:
    """Return what a model is called in full, `endpoint:model`; nothing is opened."""
    service = _resolve(reference, settings)
    return f"{service.endpoint}:{service.model}"


def reach_of(label: str, settings: Settings, env: Mapping[str, str]) -> Reach | None:
    """Tell how a model is reached by its full name; None if its endpoint is not known.

    Unlike a reference, a label is not guessed at.
    """
    if label.partition(":")[0] not in (*settings.endpoints, *VENDORS):
        return None
    service = _resolve(label, settings, strict=False)
    variables = service.variables
    if service.vendor.keyless and not service.given.api_key_env:
        variables = ()
    return Reach(_base(service, env), next(iter(variables), ""))


def profile_of(reference: str, settings: Settings) -> Profile:
    """Return a model's profile, with the settings' overrides; nothing is opened."""
    return _profile(_resolve(reference, settings), settings)


def default_reference(settings: Settings, env: Mapping[str, str]) -> str:
    """Choose for a user who did not: the first vendor with a key, else the embedded model.

    Raises `Unauthorized` saying what to do if there is none, and `MissingExtra` if there is a key
    and not its package: whoever has one does not mean the embedded model. A server at home is
    never chosen by itself, for which of its models to use is not ours to guess; nor is Bedrock
    because there are credentials for all of AWS.
    """
    keyed = ""
    for name, vendor in VENDORS.items():
        if keyed and vendor.api == "local":
            raise MissingExtra(f"{keyed}; --model local is the embedded model")
        willing = name == "local" or not vendor.keyless
        if name == "bedrock":
            willing = bool(env.get(BEDROCK_KEY))
        service = _resolve(name, settings)
        if willing and not _obstacle(service, env):
            return f"{name}:{service.model}"
        if willing and not is_installed(vendor.api) and (source := _key_source(service, env)):
            keyed = keyed or f"{source} is there, its package is not: {install(vendor.api)}"
    raise Unauthorized(
        "there is no model to ask: set a vendor's key (ANTHROPIC_API_KEY, OPENAI_API_KEY, "
        f"GEMINI_API_KEY, …); {why_not(_resolve('local', settings).model)}"
    )


class _Service(msgspec.Struct, frozen=True):
    """An endpoint and a model, with what the settings say about it."""

    endpoint: str
    model: str
    vendor: Vendor
    row: str
    given: EndpointSettings

    @property
    def label(self) -> str:
        return f"{self.endpoint}:{self.model}" if self.model else self.endpoint

    @property
    def variables(self) -> tuple[str, ...]:
        """Where its key may be: the user's choice first, and alone for an endpoint of theirs."""
        chosen = (self.given.api_key_env,) if self.given.api_key_env else ()
        return chosen or (self.vendor.keys if self.endpoint in VENDORS else ())


def _unsaid(settings: Settings, env: Mapping[str, str]) -> str:
    """Name the model for a user who did not: that of the settings, or what is usable."""
    return settings.model or default_reference(settings, env)


def _wanted(settings: Settings) -> _Service | None:
    """Resolve what the settings name; None if that is nothing, or nothing that is known."""
    try:
        return _resolve(settings.model, settings) if settings.model else None
    except InvalidInput:
        return None


def _resolve(reference: str, settings: Settings, *, strict: bool = True) -> _Service:
    known = {**dict.fromkeys(VENDORS, True), **dict.fromkeys(settings.endpoints, True)}
    head, _, model = reference.partition(":")
    name = head if head in settings.endpoints else ALIASES.get(head, head)
    if name not in known:
        name, model = _home_of(reference, list(known)), reference
    given = settings.endpoints.get(name, EndpointSettings())
    row = given.dialect or (name if name in VENDORS else "openai-chat")
    model = model or given.model
    if name in VENDORS:
        model = model or profile_for(row).model
    elif not model and strict:
        raise InvalidInput(f"which model of {name!r}? write {name}:MODEL, or set its model")
    vendor = VENDORS[row]
    if name not in VENDORS:
        # What a user wrote down needs a key only if they said where it is.
        keyless = not given.api_key_env
        vendor = Vendor(vendor.api, given.base_url, (), "", keyless)
    return _Service(name, model, vendor, row, given)


def _home_of(model: str, known: list[str]) -> str:
    for pattern, endpoint in FAMILIES.items():
        if fnmatchcase(model.lower(), pattern):
            return endpoint
    close = get_close_matches(model.partition(":")[0], known, n=1)
    instead = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
    raise InvalidInput(f"no endpoint is known to have {model!r}; write ENDPOINT:MODEL; {instead}")


def _ready(
    service: _Service, settings: Settings, env: Mapping[str, str], key: str | Key | None
) -> Access:
    """Give all that a connection takes, or raise what is missing; before that, what is wrong."""
    profile = _profile(service, settings)
    if service.vendor.api == "local":
        weights_of(service.model)
    elif not is_installed(service.vendor.api):
        raise MissingExtra(f"{service.endpoint} needs a package: {install(service.vendor.api)}")
    found = find_key(service.variables, env, key)
    remedy = _remedy(service, found)
    if found is None and not service.vendor.keyless and service.variables:
        raise Unauthorized(f"{service.endpoint}: no key. {remedy}")
    return Access(
        label=service.label,
        profile=profile,
        base_url=_base(service, env),
        key=found,
        remedy=remedy,
        limits=settings.reply,
        region=next((env[name] for name in REGIONS if env.get(name)), ""),
    )


def _profile(service: _Service, settings: Settings) -> Profile:
    label = service.label.lower()
    layers = [
        Layer(f"profiles.{pattern}", values)
        for pattern, values in settings.profiles.items()
        if fnmatchcase(label, pattern.lower())
    ]
    return profile_for(service.row, service.model, [*layers, *price_layers(settings)])


def price_layers(settings: Settings) -> list[Layer]:
    """Return the prices that the user wrote, which replace those of the shipped list."""
    return [
        price_layer(model, prices, f'prices."{model}"') for model, prices in settings.prices.items()
    ]


def _remedy(service: _Service, key: Key | None) -> str:
    if key is not None:
        return f"Check the key from {key.source}."
    if service.vendor.api == "bedrock":
        return "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and AWS_REGION."
    if not service.variables:
        return f"Name its key's variable: endpoints.{service.endpoint}.api_key_env."
    name = service.variables[0]
    return f"Set {name}, or keep it in the keyring: keyring set {SERVICE} {name}"


def _ollama_url(base: str) -> str:
    """Read an address as Ollama writes its own: perhaps without scheme, or `0.0.0.0`."""
    full = base if "://" in base else f"http://{base}"
    host = full.partition("://")[2].partition("/")[0]
    if ":" not in host:
        full = full.replace(host, f"{host}:11434", 1)
    return full.replace("://0.0.0.0", "://127.0.0.1", 1)


def _key_source(service: _Service, env: Mapping[str, str]) -> str:
    """Say where the key of a vendor is; empty if there is none."""
    if service.vendor.api == "bedrock":
        return BEDROCK_KEY if env.get(BEDROCK_KEY) else ""
    key = find_key(service.variables, env)
    return "" if key is None else key.source


def _obstacle(service: _Service, env: Mapping[str, str]) -> str:
    """Say what stands in the way; nothing if nothing does."""
    if service.vendor.api == "local":
        return why_not(service.model)
    if not is_installed(service.vendor.api):
        return install(service.vendor.api)
    if service.vendor.api == "bedrock":
        found = any(env.get(name) for name in AWS_VARIABLES) or _aws_files(env)
        return "" if found else f"no credentials. {_remedy(service, None)}"
    if not service.vendor.keyless and not find_key(service.variables, env):
        return f"no key: set {service.variables[0]}"
    if not service.model:
        return f"no model: set endpoints.{service.endpoint}.model"
    base = _base(service, env)
    return "" if _may_answer(base) else f"nobody listens at {location_of(base)}"


def _evidence(service: _Service, env: Mapping[str, str]) -> str:
    if service.vendor.api == "local":
        return "runtime and weights are installed"
    if service.vendor.api == "bedrock":
        return "AWS credentials are configured"
    key = find_key(service.variables, env)
    if key is not None:
        return f"key from {key.source}"
    return f"no key needed at {location_of(_base(service, env))}"


def _base(service: _Service, env: Mapping[str, str]) -> str:
    vendor = service.vendor
    base = service.given.base_url or env.get(vendor.base_env, "") or vendor.base_url
    return _ollama_url(base) if vendor.api == "ollama" else base


def _may_answer(base: str) -> bool:
    """Tell whether something listens; of other machines it is assumed."""
    url = urlsplit(base)
    if url.hostname not in HOME:
        return True
    default = 443 if url.scheme == "https" else 80
    try:
        socket.create_connection((url.hostname, url.port or default), PROBE_S).close()
    except OSError:
        return False
    return True


def _aws_files(env: Mapping[str, str]) -> bool:
    home = Path(env.get("HOME", "~")).expanduser() / ".aws"
    chosen = env.get("AWS_SHARED_CREDENTIALS_FILE"), env.get("AWS_CONFIG_FILE")
    files = [Path(path) for path in chosen if path] or [home / "credentials", home / "config"]
    return any(map(os.path.isfile, files))
