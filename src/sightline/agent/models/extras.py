"""The optional packages: which are here, and what is missing without them. Nothing is imported."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, NamedTuple


class OptionalPackage(NamedTuple):
    """The modules that an extra brings, and what is missing without one of them."""

    modules: tuple[str, ...]
    without: str


# Those of the vendors are named as in `vendors.Api`.
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
