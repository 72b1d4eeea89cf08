"""An adapter costs nothing until it is used, and says what it needs."""

from __future__ import annotations

import ast
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import sightline.adapters
from sightline._distribution import install

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
# What an adapter may weigh in lines of code: its tail and tools 120, its store 200 more.
WEIGHTS = {
    ("openai_agents.py",): 320,
    ("pydantic_ai.py", "pydantic_live.py"): 120,
    ("pydantic_store.py",): 200,
    ("langchain/middleware.py",): 120,
    ("langchain/saver.py",): 200,
}
_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
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
sys.modules |= dict.fromkeys({FRAMEWORKS})
try:
    {USED[adapter]}
except MissingExtra as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    found, message = done.stdout.splitlines()
    assert found == "[]"
    assert message.endswith(install(EXTRAS[adapter]))


def code_lines(path: Path) -> int:
    """The lines of a module that have code on them: no comments, docstrings and blank lines."""
    with path.open("rb") as source:
        tokens = [
            token for token in tokenize.tokenize(source.readline) if token.type not in _LAYOUT
        ]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


@pytest.mark.parametrize("modules", WEIGHTS, ids=" ".join)
def test_an_adapter_is_thin(modules: tuple[str, ...]) -> None:
    folder = Path(sightline.adapters.__file__).parent
    assert sum(code_lines(folder / module) for module in modules) <= WEIGHTS[modules]
