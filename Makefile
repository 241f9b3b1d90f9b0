# Every target sets up .venv itself; nothing is installed anywhere else.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ON_BOTH := tests/control tests/unit/control
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1  # that the theme has a successor; see docs/explanation/dependencies.md

.PHONY: help test test-portable test-providers record-providers check format demo docs recording schemas bench clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "city needs Python 3.11 or newer"; exit 1; }
	@echo "Setting up $(VENV) with $(PYTHON) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip  # older ones write slow start scripts
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

test: $(READY)  ## Run all tests; those of runtimes and the controller on both adapters
	$(BIN)/python -m pytest -n auto --dist worksteal
	$(BIN)/python -m pytest -n auto --dist worksteal --portable $(ON_BOTH)

test-portable: $(READY)  ## Run the tests of everything that runs sessions on the portable adapter
	$(BIN)/python -m pytest -n auto --dist worksteal --portable tests/portable tests/runtimes tests/control tests/store \
		tests/faults tests/unit/control

test-providers: $(READY)  ## Test against the providers' real CLIs (npm installs them into .venv)
	PROVIDER_CLIS=$(CURDIR)/$(VENV)/providers $(BIN)/python -m pytest tests/providers -v -rs

record-providers: $(READY)  ## The same, and keep what they did in docs/reference/providers.md
	PROVIDER_RECORD=1 PROVIDER_CLIS=$(CURDIR)/$(VENV)/providers $(BIN)/python -m pytest tests/providers -v -rs
	$(BIN)/python docs/generate.py

check: $(READY)  ## Format, lint, types, import layers, generated files, docs (no tests)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check
	$(BIN)/mkdocs build --strict --quiet --site-dir .venv/site

format: $(READY)  ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: $(READY)  ## Run the example city (under a minute)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh

schemas: $(READY)  ## Regenerate settings records, schemas and reference pages
	$(BIN)/python docs/generate.py

recording: $(READY)  ## Record the animation of README again (needs tmux)
	$(BIN)/python docs/record.py

docs: $(READY)  ## Build the documentation into site/
	$(BIN)/mkdocs build --strict

bench: $(READY)  ## Measure start-up, directories, store, sessions and packs against a baseline
	$(BIN)/python -m compileall -q gascity migrate/gascity_migrate
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/workdirs.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/sessions.py
	$(BIN)/python benchmarks/packs.py

clean:  ## Remove everything the Makefile set up
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
