# All targets run on a fresh machine with Python >= 3.10: they create the virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two workers: the default must not crowd a machine with two cores.
WORKERS ?= 2

# Directory of the libraries that the benchmarks compare with.
export PEERS_HOME ?= $(HOME)/.cache/phonograd-peers

.PHONY: help demo smoke test test-reference test-processors test-versions lint format bench peers oracle sweep surface world fuzz reliability prebuilt stubs package release-check test-arm test-emulated test-tutorials docs pictures clean

help:
	@echo "make demo            train a network on handwritten digits, profile it, show a report (under 60 s)"
	@echo "make smoke           run one test of each layer and public package (under 20 s), after each edit"
	@echo "make test            lint, then run every test that is not slow"
	@echo "make test-reference  run the same tests without llvmlite: NumPy evaluates everything"
	@echo "make test-processors run the numeric tests as on each processor that this one can imitate"
	@echo "make test-versions   run the core of the tests on each Python that this machine can get, with old and new libraries"
	@echo "make test-emulated   run kernels on an emulated processor with AVX-512, VNNI and AMX, under Bochs"
	@echo "make test-arm        run the smoke and kernel tests as an aarch64 process, under QEMU"
	@echo "make test-tutorials  run all cells of all tutorials, those that train for long as well"
	@echo "make lint            run ruff (lint and format) and mypy --strict"
	@echo "make stubs           write the type stubs (.pyi) again, after a change to a declaration"
	@echo "make format          rewrite the code in the project's format"
	@echo "make fuzz            run the slow random tests"
	@echo "make reliability     run all random searches and write the figures of docs/reliability.md"
	@echo "make prebuilt        compile the kernels that come with the package, after a change to the text of kernels"
	@echo "make bench           run the benchmarks and write the figures of README.md and docs/performance.md"
	@echo "make peers           install the libraries for comparison (MXNet 1.9.1, PyTorch, JAX) in $(PEERS_HOME)"
	@echo "make oracle          record reference values from real MXNet; needs MXNET_PYTHON=/path/to/python"
	@echo "make sweep           record calls and shape inference of real MXNet; needs MXNET_PYTHON=/path/to/python"
	@echo "make surface         record the names and signatures of real MXNet; needs MXNET_PYTHON=/path/to/python"
	@echo "make world           run GluonCV, GluonNLP, GluonTS and others with this library as mxnet; writes docs/compatibility.md"
	@echo "make package         build the wheel and the sdist, and try them in clean environments"
	@echo "make release-check   the same with every supported Python of this machine"
	@echo "make docs            build the site in build/site, and check its links"
	@echo "make pictures        draw the pictures of README.md again"
	@echo "make clean           remove all generated files, including the virtual environment"

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
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

# llvmlite.py in that directory hides the installed package
test-reference: $(READY)
	PYTHONPATH=tests/without_llvmlite PHONOGRAD_EXECUTOR=reference $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

# each processor has its own pytest run; a run is skipped, with a reason, if this processor lacks features
test-processors: $(READY)
	$(BIN)/python -m tests.project.processors -n $(WORKERS)

# a small Linux on an emulated Sapphire Rapids, in ~/.cache/phonograd-emulated; builds Bochs; ARGUMENTS='"level x86-64-v4"'
test-emulated: $(READY)
	$(BIN)/python -m tests.project.emulated $(ARGUMENTS)

# an aarch64 Python under QEMU, of Debian's packages, in ~/.cache/phonograd-arm; ARGUMENTS='tests/smoke -x' and the like
test-arm:
	$(PYTHON) -m tests.project.arm $(ARGUMENTS)

# "make test" leaves out the tutorials that train for more than a second or two
test-tutorials: $(READY)
	$(BIN)/python -m pytest -q tests/project/test_tutorials.py

# each interpreter has environments of its own; ARGUMENTS='--only 3.14t --write' and the like
test-versions:
	$(PYTHON) -m tests.project.versions $(ARGUMENTS)

# the site has an environment of its own
DOCS := .venv-docs
$(DOCS)/.ready: pyproject.toml
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

docs: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict --quiet
	$(DOCS)/bin/python scripts/documentation/check.py build/site
	@echo "open build/site/index.html"

# the committed pictures of README.md and of the site's first page
pictures: $(READY)
	$(BIN)/python scripts/make_pictures.py

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

stubs: $(READY)
	$(BIN)/python scripts/make_stubs.py

# INTERPRETERS='/usr/bin/python3.10 /usr/bin/python3.14' tries the packages with several versions
package: $(READY)
	rm -rf dist
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m scripts.check_package $(INTERPRETERS)

# every supported Python that this machine has; ARGUMENTS=--write puts the tables into docs/releases.md
release-check:
	$(MAKE) package INTERPRETERS='--all $(ARGUMENTS)'

# the second search needs the package atheris, and says so if it is missing
fuzz: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) -m slow
	$(BIN)/python -m tests.fuzz.guided

# seconds for each search
SECONDS_EACH ?= 1800
reliability: $(READY)
	$(BIN)/python -m tests.fuzz.figures --seconds $(SECONDS_EACH)

# kernels that come with the package, so that a new computer need not compile them
prebuilt: $(READY)
	$(BIN)/python -m scripts.prebuild

bench: $(READY)
	$(BIN)/python -m benchmarks.first
	$(BIN)/python -m benchmarks.cold --write
	$(BIN)/python -m benchmarks.novel --write
	$(BIN)/python -m benchmarks.memory --write
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.joins
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.loader
	$(BIN)/python -m benchmarks --write

# MXNet 1.9.1 needs Python 3.11 or older, and an old NumPy
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

# calls of all operators with values of every type, and shape inference with unknown extents
sweep:
	@test -n '$(MXNET_PYTHON)' || { echo "make sweep needs MXNET_PYTHON, as make oracle"; exit 2; }
	$(MXNET_PYTHON) tests/sweep/record.py
	$(MXNET_PYTHON) tests/sweep/record_inference.py

# the second step writes the table of names that MXNet's modules import from elsewhere
surface: $(READY)
	@test -n '$(MXNET_PYTHON)' || { echo "make surface needs MXNET_PYTHON, as make oracle"; exit 2; }
	$(MXNET_PYTHON) tests/surface/record.py
	$(BIN)/python -m tests.surface.write

# environments are kept in ~/.cache/phonograd-world; ARGUMENTS='--only gluoncv --write' and the like
world: $(READY)
	$(BIN)/python -m tests.world $(ARGUMENTS)

clean:
	rm -rf $(VENV) $(DOCS) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov phonograd-demo.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
