"""An adapter costs nothing until it is used, and says what it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRAS = {
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai",
    "langchain": "langchain",
}
USED = {
    "openai_agents": "it.LedgerSession(None, '')",
    "pydantic_ai": "it.LedgerStore",
    "langchain": "it.LedgerSaver",
}
FRAMEWORKS = ["agents", "langchain_core", "langgraph", "pydantic_ai"]


@pytest.mark.parametrize("adapter", EXTRAS)
def test_importing_an_adapter_imports_no_framework_and_using_it_says_what_to_install(
    adapter: str,
) -> None:
    code = f"""
import sys
import sightline.adapters.{adapter} as it
from sightline.errors import MissingExtra
print([name for name in {FRAMEWORKS} if name in sys.modules])
sys.path.clear()
try:
    {USED[adapter]}
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    found, message = done.stdout.splitlines()
    assert found == "[]"
    assert message.endswith(f"pip install 'sightline[{EXTRAS[adapter]}]'")
