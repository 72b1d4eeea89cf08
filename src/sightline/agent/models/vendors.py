"""Who serves models, and how each is reached. Data; profiles are in `dialects.endpoints`."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

# Whose API it is that an endpoint speaks: one connection for each.
Api: TypeAlias = Literal["openai", "anthropic", "gemini", "bedrock", "ollama", "local"]


class Vendor(msgspec.Struct, frozen=True):
    """One endpoint. `keys` are the variables that may hold its key; the first one is shown.

    `base_env` names the variable that its vendor's tools, or its server, read the address from.
    `keyless` servers work without a key.
    """

    api: Api
    base_url: str = ""
    keys: tuple[str, ...] = ()
    base_env: str = ""
    keyless: bool = False


def _compatible(base_url: str, key: str, *more: str) -> Vendor:
    return Vendor("openai", base_url, (key, *more))


# In the order in which they are chosen when nobody says which.
VENDORS: Final[dict[str, Vendor]] = {
    "anthropic": Vendor(
        "anthropic", "https://api.anthropic.com", ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"
    ),
    "openai-responses": Vendor(
        "openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",), "OPENAI_BASE_URL"
    ),
    "openai-chat": Vendor(
        "openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",), "OPENAI_BASE_URL"
    ),
    "gemini": Vendor(
        "gemini",
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "GOOGLE_GEMINI_BASE_URL",
    ),
    "bedrock": Vendor("bedrock", base_env="AWS_ENDPOINT_URL_BEDROCK_RUNTIME"),
    "openrouter": _compatible("https://openrouter.ai", "OPENROUTER_API_KEY"),
    "deepseek": _compatible("https://api.deepseek.com", "DEEPSEEK_API_KEY"),
    "groq": _compatible("https://api.groq.com", "GROQ_API_KEY"),
    "together": _compatible("https://api.together.xyz", "TOGETHER_API_KEY"),
    "fireworks": _compatible("https://api.fireworks.ai", "FIREWORKS_API_KEY"),
    "mistral": _compatible("https://api.mistral.ai", "MISTRAL_API_KEY"),
    "dashscope": _compatible("https://dashscope-intl.aliyuncs.com", "DASHSCOPE_API_KEY"),
    "xai": _compatible("https://api.x.ai", "XAI_API_KEY"),
    "ollama": Vendor("ollama", "http://127.0.0.1:11434", ("OLLAMA_API_KEY",), "OLLAMA_HOST", True),
    "llama.cpp": Vendor("openai", "http://127.0.0.1:8080", ("LLAMA_API_KEY",), "", True),
    "vllm": Vendor("openai", "http://127.0.0.1:8000", ("VLLM_API_KEY",), "", True),
    "local": Vendor("local", keyless=True),
}
