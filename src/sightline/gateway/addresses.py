"""Addresses of vendors: their variables, their defaults, and the paths that programs request there.

Pure: the environment is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_VERTEX: Final = "https://{CLOUD_ML_REGION}-aiplatform.googleapis.com/v1"
_FOUNDRY: Final = "https://{ANTHROPIC_FOUNDRY_RESOURCE}.services.ai.azure.com/anthropic"
_BEDROCK: Final = "https://bedrock-runtime.{AWS_REGION}.amazonaws.com"
# upstream → (default address, the variable that leads a program there, its usual end). Claude Code
# uses an upstream whose default has a variable only if `CLAUDE_CODE_USE_…` is set.
UPSTREAMS: Final = {
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_BASE_URL", ""),
    "openai": ("https://api.openai.com/v1", "OPENAI_BASE_URL", "/v1"),
    "gemini": ("https://generativelanguage.googleapis.com", "GOOGLE_GEMINI_BASE_URL", ""),
    "vertex": (_VERTEX, "ANTHROPIC_VERTEX_BASE_URL", "/v1"),
    "foundry": (_FOUNDRY, "ANTHROPIC_FOUNDRY_BASE_URL", ""),
    "bedrock": (_BEDROCK, "ANTHROPIC_BEDROCK_BASE_URL", ""),
}
SIGNED: Final = (
    "Claude Code signs its requests to Bedrock with AWS keys. A signature is valid for one host, "
    "so they do not pass through the gateway. Set AWS_BEARER_TOKEN_BEDROCK to a Bedrock API key."
)
# Claude Code's own defaults.
_UNSET: Final = {"CLOUD_ML_REGION": "us-east5", "ANTHROPIC_FOUNDRY_RESOURCE": ""}
_HOSTS: Final = {"global": "aiplatform.", "us": "aiplatform.us.rep.", "eu": "aiplatform.eu.rep."}
_AWAY: Final = r"\w+_(BASE_URL|API_BASE|ENDPOINT\w*)|OLLAMA_HOST|(CLAUDE_CODE|GOOGLE_GENAI)_USE_\w+"


def default_addresses(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the address of each upstream that the programs of an environment use.

    Requests to Bedrock that are signed with AWS keys have none.
    """
    values = _UNSET | {name: text for name, text in environment.items() if text}
    values.setdefault("AWS_REGION", values.get("AWS_DEFAULT_REGION", "us-east-1"))
    signed = "bedrock" if is_signed(environment) else ""
    return {
        name: values.get(variable, "").rstrip("/") or url.format_map(values)
        for name, (url, variable, _) in UPSTREAMS.items()
        if "{" not in url or (_is_on(environment, f"USE_{name}") and name != signed)
    }


def is_signed(environment: Mapping[str, str]) -> bool:
    """Return True if Claude Code signs requests to Bedrock with AWS keys."""
    passes = environment.get("AWS_BEARER_TOKEN_BEDROCK") or _is_on(environment, "SKIP_BEDROCK_AUTH")
    return _is_on(environment, "USE_BEDROCK") and not passes


def _is_on(variables: Mapping[str, str], switch: str) -> bool:
    """Return True if a switch of Claude Code has a value that it reads as true."""
    return variables.get(f"CLAUDE_CODE_{switch.upper()}", "").lower() in ("1", "true", "yes", "on")


def gateway_variables(base: str, addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that lead a program to its vendors through a gateway.

    An address ends as the vendor's address that it replaces.
    """
    # Claude Code rejects a resource and an address together.
    found = {"ANTHROPIC_FOUNDRY_RESOURCE": ""} if "foundry" in addresses else {}
    for name, url in addresses.items():
        _, variable, end = UPSTREAMS[name]
        found[variable] = f"{base}/{name}{end if url.endswith(end) else ''}"
    return found


def repaired_address(upstream: str, base: str, path: str) -> tuple[str, str]:
    """Return the vendor's address and path for a path that a program requests.

    A program whose vendor has a different address may request a path that the vendor does not have,
    or send requests for several hosts to one.
    """
    if upstream == "anthropic" and path.split("/")[1] == "messages" and not base.endswith("/v1"):
        path = f"/v1{path}"  # opencode and the AI SDK expect `/v1` in the variable.
    if upstream == "bedrock" and path.startswith("/inference-profiles"):
        base = base.replace("://bedrock-runtime.", "://bedrock.", 1)
    if upstream == "vertex" and base.endswith("-aiplatform.googleapis.com"):
        # Claude Code has a region for each model.
        for region in re.findall(r"/locations/([a-z0-9-]+)/", path):
            base = f"https://{_HOSTS.get(region, f'{region}-aiplatform.')}googleapis.com"
    return base, path


def bypass_words(program: str, names: Iterable[str]) -> str:
    """Report that a program sent no request, with the variables that may have led it elsewhere."""
    found = ", ".join(sorted(name for name in names if re.fullmatch(_AWAY, name))) or "none"
    return f"{program} sent no request through the gateway. Variables that can bypass it: {found}"
