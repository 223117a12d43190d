# Needs Python 3.11 or newer, and make. Everything is installed into VENV, once.

PYTHON ?= python3
VENV ?= .venv
# Clients that `make demo` trains side by side.
JOBS ?= 2
bin := $(VENV)/bin
code := furlkit tests

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow lint bench clean
# Two installations into one environment would step on each other.
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s  %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.demo ## five clients learn digits together; scores and pictures in exp/demo
	@$(MAKE) --no-print-directory -s -j$(JOBS) -f examples/demo/Makefile \
		OUT=exp/demo FURLKIT=$(bin)/furlkit

test: lint ## ruff, mypy and the tests, some minutes
	$(bin)/python -m pytest

test-slow: $(VENV)/.test ## the tests that take long
	$(bin)/python -m pytest -m slow

lint: $(VENV)/.test ## ruff and mypy
	$(bin)/ruff check $(code)
	$(bin)/ruff format --check $(code)
	$(bin)/mypy

bench: $(VENV)/.bench ## what furlkit costs, as ratios measured in one run
	$(bin)/python -m tests.bench

clean: ## remove caches, build products and what demo and examples made; .venv stays
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache exp/demo
	rm -rf examples/*/exp
	find $(code) -name __pycache__ -prune -exec rm -rf {} +
	@rmdir exp 2> /dev/null || true

# One environment; a stamp in it for each set of extras, renewed when pyproject changes.
extras.demo := plot
extras.test := test,lint
extras.bench := bench

$(VENV)/.demo $(VENV)/.test $(VENV)/.bench: $(VENV)/.%: pyproject.toml
	test -x $(bin)/pip || $(PYTHON) -m venv $(VENV)
	$(bin)/python -m pip install --quiet -e '.[$(extras.$*)]'
	touch $@
