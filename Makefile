PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test bench docs format clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP) ## Create the virtual environment and install everything into it

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -e '.[dev]' -c constraints.txt
	touch $@

demo: venv ## Run the demonstration
	$(BIN)/python examples/demo.py

test: venv ## Run every check: style, types, layers, tests, documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2
	$(BIN)/mkdocs build --strict --quiet

bench: venv ## Run the benchmarks
	$(BIN)/python -m benchmarks.run

docs: venv ## Build the documentation into site/
	$(BIN)/mkdocs build --strict

format: venv ## Format the code and apply the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove everything that the other targets create
	rm -rf $(VENV) site dist build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
