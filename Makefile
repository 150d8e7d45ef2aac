# One command each; CI runs the same ones.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Test modules run side by side, one after the other within a worker: most of their time they wait for processes.
TEST_WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help install tools run test check bench bench-peers format lock generate

help:            ## say what each command does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP)  ## set up everything in .venv

$(STAMP): requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "corndog needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 1; }
	@echo "setting up $(VENV): about a minute, once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

run: install     ## run the server with its own PostgreSQL and Valkey on this machine
	@exec $(BIN)/corndog dev $(ARGS)

tools:
	@for tool in bash curl jq; do command -v $$tool >/dev/null || \
		{ echo "$$tool is needed to run what README shows; install it with your system's packages"; exit 1; }; done

test: install tools  ## run all tests (real PostgreSQL, real Valkey, real HTTP)
	$(BIN)/python -m pytest --numprocesses $(TEST_WORKERS) --dist loadscope $(ARGS)

check: install   ## formatting, lint, types, import contracts, generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/corndog openapi --check openapi.json

bench: install   ## measure speed, as ratios (ARGS='--only NAME', '--scale 0.1')
	$(BIN)/corndog bench $(ARGS)

bench-peers: install  ## compare with other task systems (ARGS='--only pgqueuer --tasks 5000 --json')
	@exec $(BIN)/python -m benchmarks.peers $(ARGS)

format: install  ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: install  ## write the generated files anew
	$(BIN)/corndog openapi --output openapi.json

lock: install    ## pin all dependencies anew (no index addresses are recorded)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url \
		--extra test --output-file requirements-dev.txt pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url \
		--output-file requirements.txt pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url \
		--output-file benchmarks/peers/requirements-peers.txt benchmarks/peers/requirements-peers.in
