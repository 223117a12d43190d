# Needs make and Python 3.11 or newer. Everything is installed into VENV, once.

PYTHON ?= python3
VENV ?= .venv
# Clients that `make demo` trains in parallel.
JOBS ?= 2
bin := $(VENV)/bin
code := furlkit tests examples/one_page.py examples/flower

.DEFAULT_GOAL := help
.PHONY: help demo methods test test-slow test-gpu test-browser test-slurm test-flower
.PHONY: golden lint bench clean
# Two installations into one environment at the same time would conflict.
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s  %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.demo ## train five clients on digits; scores and plots in exp/demo
	@$(MAKE) --no-print-directory -s -j$(JOBS) -f examples/demo/Makefile \
		OUT=exp/demo FURLKIT=$(bin)/furlkit

methods: $(VENV)/.test ## write the table of furlkit/METHODS.md from the catalogue
	$(bin)/python -m furlkit.catalogue.table

test: lint ## run ruff, mypy and the tests; takes some minutes
	$(bin)/python -m pytest -n 2

test-slow: $(VENV)/.test ## run the slow tests
	$(bin)/python -m pytest -m slow

test-gpu: $(VENV)/.test ## run the tests that need a CUDA GPU
	$(bin)/python -m pytest -m slow tests/gpu -rs

test-browser: $(VENV)/.test ## open the page of report in headless Chromium
	$(bin)/python -m pytest -m slow tests/browser -rs

test-slurm: $(VENV)/.test ## run jobs on a Slurm cluster in a temporary folder; root only
	@command -v slurmctld slurmd munged > /dev/null || test "$$(id -u)" -ne 0 || \
		apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge
	FURLKIT_TEST_SLURM=yes $(bin)/python -m pytest -m slow tests/slurm -rs --durations=0

test-flower: $(VENV)/.flower ## run rounds through a SuperLink and SuperNodes of Flower
	$(bin)/python -m pytest -m "" tests/examples/test_flower.py -rs --durations=0

golden: $(VENV)/.test ## compare output, exit codes and bytes with REV, by default HEAD
	$(bin)/python -m tests.golden $(or $(REV),HEAD)

lint: $(VENV)/.test ## run ruff and mypy
	$(bin)/ruff check $(code)
	$(bin)/ruff format --check $(code)
	$(bin)/mypy

bench: $(VENV)/.bench ## measure the overhead of furlkit, as ratios within one run
	$(bin)/python -m tests.bench

clean: ## remove caches, build files and the output of demo and examples, not .venv
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache exp/demo
	rm -rf examples/*/exp
	find $(code) -name __pycache__ -prune -exec rm -rf {} +
	@rmdir exp 2> /dev/null || true

# One environment, with a stamp file for each set of extras; pyproject.toml outdates it.
extras.demo := plot
extras.test := test,lint
extras.bench := bench
extras.flower := test,flower

$(VENV)/.demo $(VENV)/.test $(VENV)/.bench $(VENV)/.flower: $(VENV)/.%: pyproject.toml
	test -x $(bin)/pip || $(PYTHON) -m venv $(VENV)
	$(bin)/python -m pip install --quiet -e '.[$(extras.$*)]'
	touch $@
