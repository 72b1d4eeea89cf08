"""Who serves models, how each is reached, and which optional packages are here.

Data, and nothing is imported; profiles are in `dialects.endpoints`.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, Literal, NamedTuple, TypeAlias

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


class OptionalPackage(NamedTuple):
    """The modules that an extra brings, and what is missing without one of them."""

    modules: tuple[str, ...]
    without: str


# Those of the vendors are named as in `Api`.
EXTRAS: Final = {
    "watch": OptionalPackage(
        ("watchfiles",), "apps are looked for every two seconds instead of at once"
    ),
    "tokens": OptionalPackage(("toktok",), "tokens are estimated, not counted"),
    "chat": OptionalPackage(("prompt_toolkit", "rich"), "the chat has no screen, only pipes"),
    "inspector": OptionalPackage(("starlette", "uvicorn"), "no inspector, only its exports"),
    "anthropic": OptionalPackage(("httpx2",), "no Anthropic models"),
    "openai": OptionalPackage(("httpx2",), "no OpenAI or compatible models"),
    "gemini": OptionalPackage(("httpx2",), "no Gemini models"),
    "bedrock": OptionalPackage(("boto3", "urllib3"), "no models on Bedrock"),
    "ollama": OptionalPackage(("httpx2",), "no Ollama"),
    "pdf": OptionalPackage(("pypdf",), "PDFs cannot be attached"),
    "keyring": OptionalPackage(("keyring",), "keys come from the environment only"),
    "gateway": OptionalPackage(("uvicorn", "httpx2"), "no gateway"),
    "mcp": OptionalPackage(("mcp",), "no MCP server"),
    "local": OptionalPackage(("xllamacpp",), "no embedded model"),
    "otel": OptionalPackage(
        ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
        "spans and metrics are sent nowhere",
    ),
    "postgres": OptionalPackage(("psycopg",), "no ledger in PostgreSQL"),
    "nats": OptionalPackage(("nats",), "no apps on a broker"),
    "attachments": OptionalPackage(("obstore",), "attachments are in the ledger itself"),
    "openai-agents": OptionalPackage(("agents",), "no adapter for the OpenAI Agents SDK"),
    "pydantic-ai": OptionalPackage(("pydantic_ai",), "no adapter for Pydantic AI"),
    "langchain": OptionalPackage(("langchain", "langgraph"), "no adapter for LangChain"),
}


def is_installed(extra: str) -> bool:
    """Tell whether what an extra brings is here."""
    try:
        return all(find_spec(module) is not None for module in EXTRAS[extra].modules)
    except ModuleNotFoundError:  # the package that a dotted name begins with
        return False
