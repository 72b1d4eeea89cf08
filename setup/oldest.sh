#!/bin/sh
# Run the adapters' tests with the oldest frameworks that pyproject.toml allows; the newest are in the lock.
#
#   sh setup/oldest.sh VENV PYTHON
#
# VENV is made anew. What the frameworks need is the newest that they take, as for whoever installs them.
set -eu
venv=${1:?usage: oldest.sh VENV PYTHON}
python=${2:?usage: oldest.sh VENV PYTHON}
uv() { VIRTUAL_ENV=$venv "$venv/bin/uv" "$@"; }

rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes -r requirements-uv.lock
"$venv/bin/python" - "$venv" <<'END'
import pathlib, re, sys, tomllib

project = tomllib.loads(pathlib.Path("pyproject.toml").read_text("utf-8"))
extras = project["project"]["optional-dependencies"]
frameworks = [it for name in ("openai-agents", "pydantic-ai", "langchain") for it in extras[name]]
tools = r"pytest(?!-cov)|hypothesis|openai\b(?!-)|pydantic-ai-slim|langchain-openai"
tests = [it for it in project["dependency-groups"]["dev"] if isinstance(it, str) and re.match(tools, it)]
for name, lines in (("frameworks", frameworks), ("tests", tests)):
    pathlib.Path(sys.argv[1], f"{name}.txt").write_text("\n".join(lines), "utf-8")
END
uv pip install --quiet --resolution lowest-direct -r "$venv/frameworks.txt"
uv pip install --quiet -e . -r "$venv/tests.txt"
uv pip list 2>/dev/null | grep -E '^(openai-agents|pydantic-ai-slim|langchain|langgraph|openai) '
for framework in openai_agents pydantic_ai langchain; do
    tests=tests/adapters/test_$framework.py
    [ ! -e "$tests" ] || "$venv/bin/python" -m pytest -n 0 "$tests"
done
