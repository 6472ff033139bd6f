PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test bench bench-full docs format clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

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

$(BENCH_STAMP): $(STAMP)
	$(PIP) install --quiet -e '.[bench]' -c constraints.txt
	touch $@

bench: $(BENCH_STAMP) ## Run the benchmarks; they write docs/benchmarks.md
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.adbench --no-compile --write

bench-full: $(BENCH_STAMP) ## Run the benchmarks at all sizes and with torch.compile (long)
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.speed --full
	$(BIN)/python -m benchmarks.adbench --write

docs: venv ## Build the documentation into site/
	$(BIN)/mkdocs build --strict

format: venv ## Format the code and apply the safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove everything that the other targets create
	rm -rf $(VENV) site dist build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
