"""Endpoints and models, and what is peculiar to each. Data; every layer names its source.

The sources are short names of where a fact was read:

    openai-sdk 3.49, anthropic-sdk 2.8, google-genai 3.1, botocore 1.44
        request and response types of the vendor's Python package
    codex#35300
        OpenAI's migration guide for GPT-5.6, as quoted in an issue with a replay
    claude-docs, aws-docs, gemini-docs, dashscope-docs, openrouter-docs, …
        the vendor's public documentation, as of November 2026
    template
        the chat template that the model's weights are published with
    gguf
        the metadata in the file of the weights

No vendor was called to check them. What turns out different is an override away.

Of models there are windows, output limits, prices and cache minima, as of November 2026.
Windows and prices come from `prices`, which is generated; output limits, cache minima and
whatever is known better are set here, and win. Prices are dollars per million tokens. A
model that is in neither has the defaults of `Profile` and no price.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from sightline.context.dialects import prices
from sightline.context.dialects.profile import Layer


class Endpoint(msgspec.Struct, frozen=True):
    """One API: layers for all of it, a model it is known for, and layers that beat the model's."""

    default_model: str
    layers: tuple[Layer, ...]
    model_layers: tuple[Layer, ...] = ()


def _of_five(name: str) -> tuple[str, ...]:
    """Match a model of version 5 with the version or the date that an id may end in, not 5.x."""
    return (f"*claude-{name}-5", f"*claude-{name}-5-v*", f"*claude-{name}-5-20*")


CLAUDE_BOUND: Final = (
    "*claude-fable-5-[1-9]", "*claude-fable-5-[1-9][!0-9]*",
    "*claude-mythos-5-[1-9]", "*claude-mythos-5-[1-9][!0-9]*",
    "*claude-opus-5-5*", "*claude-sonnet-5-5*", "*claude-haiku-5-5*",
)  # fmt: skip
CLAUDE_INLINE_SYSTEM: Final = (
    *CLAUDE_BOUND, *_of_five("fable"), *_of_five("mythos"), *_of_five("opus"), "*claude-opus-4-8*",
)  # fmt: skip
GPT_BREAKPOINTS: Final = ("gpt-5.6*", "gpt-5.[789]*", "gpt-[6-9]*")
# Their templates raise unless user and assistant alternate.
ALTERNATING: Final = ("*mistral*", "*mixtral*", "*gemma*")
# Their templates forget reasoning that stands before the last user message.
FORGETFUL: Final = ("*qwen3*", "*gemma*")
_DEEPSEEK_V4, _KIMI = "*deepseek-v4*", "*kimi*"

CHAT: Final = "openai_chat"


def _chat(source: str, path: str = "/v1/chat/completions", **values: object) -> Layer:
    return Layer(source, {"dialect": CHAT, "path": path, **values})


def _fields(source: str, *models: str, **values: object) -> Layer:
    """`cache__style="automatic"` sets `cache.style`."""
    spelled = {key.replace("__", "."): value for key, value in values.items()}
    return Layer(source, spelled, models or ("*",))


_AUTOMATIC: Final = {"cache.style": "automatic"}
_OPENAI_CACHE: Final = (
    Layer(
        "openai-docs",
        {"cache.style": "automatic", "cache.min_tokens": 1024,
         "cache.routing_field": "prompt_cache_key"},
    ),
    Layer(
        "codex#35300, openai-sdk 3.49",
        {"cache.style": "breakpoint", "cache.max_marks": 4, "cache.ttl": "30m",
         "messages.content": "parts"},
        GPT_BREAKPOINTS,
    ),
)  # fmt: skip
# Whoever serves these, they refuse a call whose message comes back without its reasoning.
_REASONING_DEMANDED: Final = {
    "reasoning.replay": "always", "reasoning.field": "reasoning_content",
    "reasoning.required": True,
}  # fmt: skip
_REASONING_MODELS: Final = ("o1*", "o3*", "o4*", "gpt-5*", "gpt-[6-9]*")

# What a machine at home can hold of an unknown model; its real window is an override away.
_LOCAL_WINDOW: Final = _fields("a guess", window_tokens=32_768, max_output_tokens=8_192)
_TEMPLATES: Final = (
    _LOCAL_WINDOW,
    # Appended to the user's text the tail is legal under every template.
    _fields("template", tail__plain="into_user"),
    _fields("template", *ALTERNATING, tail__after_tools="into_user"),
    _fields("template", *FORGETFUL, tail__after_tools="into_user"),
)

ENDPOINTS: Final[dict[str, Endpoint]] = {
    "openai-chat": Endpoint(
        "gpt-6.1-sol",
        (
            _chat("openai-sdk 3.49"),
            *_OPENAI_CACHE,
            _fields("openai-docs", cache__ttls=("30m",),
                    messages__output_field="max_completion_tokens"),
            _fields("openai-docs", *_REASONING_MODELS, messages__system_role="developer"),
        ),
    ),
    "openai-responses": Endpoint(
        "gpt-6.1-sol",
        (
            Layer(
                "openai-sdk 3.49",
                {"dialect": "openai_responses", "path": "/v1/responses",
                 "messages.content": "parts", "messages.system_role": "developer",
                 "reasoning.replay": "always", "cache.diagnostics": True},
            ),
            *_OPENAI_CACHE,
            _fields("openai-docs", cache__ttls=("30m", "12h")),
        ),
    ),
    "anthropic": Endpoint(
        "claude-sonnet-5-5",
        (
            Layer(
                "claude-docs, anthropic-sdk 2.8",
                {"dialect": "anthropic", "path": "/v1/messages",
                 "cache.style": "cache_control", "cache.max_marks": 4, "cache.min_tokens": 1024,
                 "cache.lookback_blocks": 20, "cache.ttls": ("5m", "1h"),
                 "cache.diagnostics": True,
                 "messages.inline_system": False,
                 "reasoning.replay": "always",
                 "tools.max_name": 128, "tools.first": "A-Za-z0-9_-", "tools.ids": "safe"},
            ),
            _fields("claude-docs", *CLAUDE_INLINE_SYSTEM, messages__inline_system=True),
            _fields("claude-docs", *CLAUDE_BOUND, reasoning__bound=True),
        ),
    ),
    "gemini": Endpoint(
        "gemini-3.8-flash",
        (
            Layer(
                "gemini-docs, google-genai 3.1",
                {"dialect": "gemini",
                 "path": "/v1beta/models/{model}:streamGenerateContent?alt=sse",
                 "whole_path": "/v1beta/models/{model}:generateContent",
                 "cache.style": "automatic", "cache.min_tokens": 4096,
                 "messages.inline_system": False,
                 "reasoning.replay": "always",
                 "tools.rest": "A-Za-z0-9_.:-", "tools.max_name": 128, "tools.ids": "opaque"},
            ),
            _fields("gemini-docs", "gemini-2.5*", cache__min_tokens=2048),
            # Published for 2.5 and 3; newer ones are taken to cost the same.
            _fields("gemini-docs", prices__cache_storage=4.5),
            _fields("gemini-docs", "*flash*", prices__cache_storage=1.0),
        ),
    ),
    "bedrock": Endpoint(
        "us.anthropic.claude-sonnet-5-5",
        (
            Layer(
                "aws-docs, botocore 1.44",
                {"dialect": "bedrock", "path": "/model/{model}/converse-stream",
                 "whole_path": "/model/{model}/converse",
                 "messages.inline_system": False,
                 "tools.first": "A-Za-z0-9_-", "tools.ids": "dotted"},
            ),
            Layer(
                "aws-docs",
                {"cache.style": "cache_point", "cache.max_marks": 4, "cache.min_tokens": 1024,
                 "cache.lookback_blocks": 20, "cache.ttls": ("5m", "1h"),
                 "reasoning.replay": "always"},
                ("*claude*", "*nova*"),
            ),
            _fields("aws-docs", *CLAUDE_BOUND, reasoning__bound=True),
            # They accept nothing beside a tool result, and turns of one role are merged.
            _fields("aws-docs", "*llama*", "*mistral*",
                    tail__after_tools="filler", tail__filler="."),
        ),
        # Bedrock's minima are not those of Anthropic's own API.
        (
            _fields("aws-docs", "*claude*", cache__min_tokens=1024),
            _fields("aws-docs", *_of_five("opus"), cache__min_tokens=512),
            _fields("aws-docs", "*claude-haiku-4-5*", "*claude-opus-4-[567]*",
                    cache__min_tokens=4096),
        ),
    ),
    "ollama": Endpoint(
        "qwen3.5",
        (
            Layer(
                "ollama-sdk 0.6",
                {"dialect": "ollama", "path": "/api/chat", "cache.style": "automatic",
                 "reasoning.replay": "always", "reasoning.field": "thinking",
                 "messages.documents": False, "tools.ids": "none"},
            ),
            *_TEMPLATES,
        ),
    ),
    "vllm": Endpoint(
        "Qwen/Qwen3.5-32B",
        (
            _chat("vllm-docs", **_AUTOMATIC),
            _fields("vllm-docs", cache__min_tokens=16, messages__documents=False,
                    reasoning__replay="always", reasoning__field="reasoning_content",
                    messages__single_system=True),
            *_TEMPLATES,
        ),
    ),
    "llama.cpp": Endpoint(
        "local",
        (
            _chat("llama.cpp-docs", **_AUTOMATIC),
            _fields("llama.cpp-docs", reasoning__replay="always",
                    reasoning__field="reasoning_content", messages__documents=False,
                    messages__single_system=True),
            *_TEMPLATES,
        ),
    ),
    # In this process: `models.local`. Greedy, for a tiny model invents enough by itself.
    "local": Endpoint(
        "smollm2-135m-instruct",
        (
            _chat("llama.cpp-docs", **_AUTOMATIC),
            _fields("llama.cpp-docs", messages__single_system=True, messages__images=False,
                    messages__documents=False,
                    extra={"temperature": 0, "return_progress": True}),
            _fields("template", tail__plain="into_user", tail__after_tools="into_user",
                    tools__calls=False),
            _fields("gguf", window_tokens=8_192),
            _fields("nobody charges for it", prices__input=0.0, prices__output=0.0,
                    prices__cache_read=0.0),
            _fields("a guess", max_output_tokens=512),
        ),
    ),
    "openrouter": Endpoint(
        "anthropic/claude-sonnet-5-5",
        (
            _chat("openrouter-docs", "/api/v1/chat/completions", **_AUTOMATIC),
            _fields("openrouter-docs", cache__routing_field="session_id",
                    reasoning__replay="always", reasoning__field="reasoning"),
            # Converted by OpenRouter to what the backend has; Gemini uses the last mark only.
            _fields("openrouter-docs", "*claude*", "*gemini*", "*qwen*", *GPT_BREAKPOINTS,
                    cache__style="cache_control", cache__max_marks=4, cache__min_tokens=1024,
                    messages__content="parts"),
            _fields("claude-docs, dashscope-docs", "*claude*", "*qwen*", cache__lookback_blocks=20),
            _fields("openrouter-docs", "*gemini*", cache__max_marks=1),
            _fields("gemini-docs", "*gemini*", cache__min_tokens=4096),
            _fields("gemini-docs", "*gemini-2.5*", cache__min_tokens=2048),
            # As at DashScope: behind a tail of its own the reasoning sent back would be dropped.
            _fields("template", *FORGETFUL,
                    tail__plain="into_user", tail__after_tools="into_user"),
        ),
    ),
    "deepseek": Endpoint(
        "deepseek-v4-pro",
        (
            _chat("deepseek-docs", "/chat/completions", **_AUTOMATIC),
            Layer("deepseek-docs", _REASONING_DEMANDED, ("*v4*",)),
        ),
    ),
    "groq": Endpoint(
        "openai/gpt-oss-120b",
        (
            _chat("groq-docs", "/openai/v1/chat/completions", **_AUTOMATIC),
            _fields("groq-sdk 1.7", tools__max_tools=128, messages__documents=False,
                    messages__output_field="max_completion_tokens"),
            # Groq's own name for it; any other is refused.
            _fields("moonshot-docs, groq-sdk 1.7", _KIMI, reasoning__replay="always",
                    reasoning__field="reasoning", reasoning__required=True),
        ),
    ),
    "together": Endpoint(
        "glm-5.3",
        (
            _chat("together-docs", **_AUTOMATIC),
            Layer("moonshot-docs", _REASONING_DEMANDED, (_KIMI,)),
            Layer("deepseek-docs", _REASONING_DEMANDED, (_DEEPSEEK_V4,)),
        ),
    ),
    "fireworks": Endpoint(
        "kimi-k3",
        (
            _chat("fireworks-docs", "/inference/v1/chat/completions", **_AUTOMATIC),
            _fields("fireworks-docs", cache__routing_field="prompt_cache_key"),
            Layer("moonshot-docs", _REASONING_DEMANDED, (_KIMI,)),
            Layer("deepseek-docs", _REASONING_DEMANDED, (_DEEPSEEK_V4,)),
        ),
    ),
    "mistral": Endpoint(
        "mistral-large-latest",
        (
            _chat("mistral-docs", **_AUTOMATIC),
            _fields("mistral-sdk 3.7", cache__routing_field="prompt_cache_key",
                    messages__usage_option=False, tools__ids="nine",
                    tail__after_tools="filler", tail__filler="OK"),
        ),
    ),
    "dashscope": Endpoint(
        "qwen3.8-max",
        (
            _chat("dashscope-docs", "/compatible-mode/v1/chat/completions"),
            _fields("dashscope-docs", cache__style="cache_control", cache__max_marks=4,
                    cache__min_tokens=1024, cache__lookback_blocks=20, messages__content="parts",
                    reasoning__replay="always", reasoning__field="reasoning_content"),
            # The tail as a message of its own would make the template drop the reasoning. In
            # one place always: a tail that moves would change the prefix.
            _fields("template", "*qwen3*", tail__plain="into_user", tail__after_tools="into_user"),
        ),
    ),
    "xai": Endpoint(
        "grok-4.7",
        (
            _chat("xai-docs", **_AUTOMATIC),
            _fields("xai-docs", cache__routing_header="x-grok-conv-id",
                    reasoning__replay="always", reasoning__field="reasoning_content"),
        ),
    ),
}  # fmt: skip


LISTED: Final = "vendor price list, 2026-11"
M, K128 = 1_000_000, 128_000


def _named(models: tuple[str, ...]) -> tuple[str, ...]:
    """Match models by a part of their name."""
    return tuple(f"*{model}*" for model in models)


def _limits(source: str, window: int, output: int, *models: str) -> Layer:
    return _fields(source, *_named(models), window_tokens=window, max_output_tokens=output)


def _minimum(tokens: int, *models: str) -> Layer:
    return _fields("claude-docs", *_named(models), cache__min_tokens=tokens)


def _prices(model: str, source: str, *published: float) -> Layer:
    """Input, output, and, where caching is offered, to read, to write, to write for longer."""
    return Layer(source, dict(zip(prices.FIELDS[1:], published)), (f"*{model}*",))  # noqa: B905 - as far as it is published


def listed_layers(model: str) -> Iterator[Layer]:
    """Yield the layers that the shipped list has for a model."""
    listed = prices.listed_values(model)
    if listed is None:
        return
    source = prices.price_list().source
    # A price that the list lacks replaces the price of an earlier layer. A window does not.
    unknown = {"window_tokens"} if listed["window_tokens"] is None else set()
    yield Layer(source, {name: listed[name] for name in listed if name not in unknown})
    if "gpt-" in model and listed["prices.cache_write"]:
        # Not in the list: OpenAI's storage for twelve hours costs twice the input.
        yield _fields(LISTED, prices__cache_write_long=2 * listed["prices.input"])


# Later rows win, so a family comes before its special members.
FAMILIES: Final = (_limits("claude-docs", 200_000, 64_000, "claude"),)
MODELS: Final[tuple[Layer, ...]] = (
    _limits("anthropic-sdk 2.8", M, K128, "claude-mythos-5"),
    _limits("claude-docs", M, K128, "claude-fable-5", "claude-opus-5", "claude-sonnet-5",
            "claude-haiku-5-5", "claude-opus-4-8"),
    _minimum(4096, "claude-opus-4-5", "claude-opus-4-6", "claude-haiku-4-5"),
    _minimum(2048, "claude-opus-4-7"),
    _minimum(1024, "claude-opus-4-8", "claude-sonnet-5", "claude-sonnet-4"),
    _minimum(512, "claude-opus-5", "claude-fable-5", "claude-mythos-5", "claude-sonnet-5-5",
             "claude-haiku-5-5"),
    _limits("openai-docs", 1_050_000, K128, "gpt-5.4", "gpt-5.5"),
    _limits("openai-docs", 400_000, K128, "gpt-5.4-mini", "gpt-5.4-nano"),
    # What is published as the window is shared with the answer; this is the prompt's part.
    _limits(LISTED, 922_000, K128, "gpt-5.6", "gpt-6-", "gpt-6.1"),
    # The list gives the window as its output limit too, which looks wrong: the family's.
    _limits(LISTED, 1_048_576, 65_536, "gemini-4-argon", "gemini-3.8-flash"),
    _limits("dashscope-docs", 991_808, 131_072, "qwen3.8-max", "qwen3.8-flash"),
    _prices("qwen3.8-max", "dashscope-docs", 2, 6, 0.2, 2.5, 4),
    _prices("qwen3.8-flash", "dashscope-docs", 0.15, 0.47, 0.015, 0.1875, 0.3),
    _limits(LISTED, M, 393_216, "deepseek-v4-pro", "deepseek-v4-flash"),
    _limits(LISTED, 500_000, 500_000, "grok-4.7"),
    _limits(LISTED, 1_048_576, 1_048_576, "kimi-k3"),
    _limits(LISTED, M, K128, "glm-5.3"),
    _limits(LISTED, 131_072, 65_536, "gpt-oss-120b"),
    _prices("gpt-oss-120b", LISTED, 0.15, 0.6),
)  # fmt: skip
