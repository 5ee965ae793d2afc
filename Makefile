# Everything a fresh machine with Python >= 3.10 needs: each target makes its own virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two workers: the machines this must not crowd have two cores.
WORKERS ?= 2

# Where the libraries that phonograd is compared with are installed.
export PEERS_HOME ?= $(HOME)/.cache/phonograd-peers

.PHONY: help demo smoke test test-reference test-processors lint format bench peers oracle fuzz clean

help:
	@echo "make demo            train a network on handwritten digits, profile it, show a report (under 60 s)"
	@echo "make smoke           one test of each layer and public package (under 20 s), for the loop of edit and try"
	@echo "make test            lint, then every test that is not slow"
	@echo "make test-reference  the same tests without llvmlite: NumPy evaluates everything"
	@echo "make test-processors the numeric tests, computed as on each processor that this one can imitate"
	@echo "make lint            ruff (lint and format) and mypy --strict"
	@echo "make format          rewrite the code in the house format"
	@echo "make fuzz            the slow tests"
	@echo "make bench           the benchmarks, and the figures of README.md and docs/performance.md"
	@echo "make peers           install what they compare with: MXNet 1.9.1, PyTorch and JAX, in $(PEERS_HOME)"
	@echo "make oracle          record the values of real MXNet again; needs MXNET_PYTHON=/path/to/python"
	@echo "make clean           remove what was made here, the virtual environment included"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "phonograd needs Python >= 3.10, this is " + sys.version)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/python -m phonograd.cli.demo --show

smoke: $(READY)
	$(BIN)/python -m pytest -q tests/smoke

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

# llvmlite.py in that directory hides the installed one
test-reference: $(READY)
	PYTHONPATH=tests/without_llvmlite PHONOGRAD_EXECUTOR=reference $(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

# each run is a pytest of its own, and says why it is left out where this processor lacks features
test-processors: $(READY)
	$(BIN)/python -m tests.project.processors -n $(WORKERS)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

fuzz: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) -m slow

bench: $(READY)
	$(BIN)/python -m benchmarks.first
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.loader
	$(BIN)/python -m benchmarks --write

# MXNet 1.9.1 needs Python 3.11 or older, and NumPy as it was then
peers: $(PEERS_HOME)/mxnet/.ready $(PEERS_HOME)/torch/.ready

$(PEERS_HOME)/mxnet/.ready:
	python3.11 -m venv $(@D)
	$(@D)/bin/pip install --quiet numpy==1.23.5 scipy==1.10.1 mxnet==1.9.1
	@touch $@

$(PEERS_HOME)/torch/.ready:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet torch jax
	@touch $@

oracle:
	@test -n '$(MXNET_PYTHON)' || { \
	  echo "make oracle needs a Python that has MXNet 1.9.1:"; \
	  echo "  python3.11 -m venv mxnet-venv && mxnet-venv/bin/pip install numpy==1.23.5 mxnet==1.9.1"; \
	  echo "  make oracle MXNET_PYTHON=mxnet-venv/bin/python"; exit 2; }
	$(MXNET_PYTHON) tests/oracle/record.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov phonograd-demo.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
