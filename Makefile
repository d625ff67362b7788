# Everything a clone needs: `make demo` and `make test` prepare what they use by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
STAMP := $(VENV)/.installed
DOCS := $(VENV)/.docs
# Editable: the engine is compiled on first use, and nothing is needed to compile it before.
INSTALL := SENSORMEND_COMPILE=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check

# The products in here are small: a second BLAS thread gains nothing and loses much when the machine is busy.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

PRECOMPILE := python -c 'from sensormend.model.precompile import precompile; precompile()'

.PHONY: demo test test-all test-bounds coverage ready compile lint docs tutorial bench soak clean

demo: $(DEMO)
	$(BIN)/sensormend demo $(ARGS)

# Without what starts a server, a browser or many processes. Two processes, of which one that is done takes over half of
# what the other has left, so that both end together; tests of one file mostly stay together, with what they share.
SMALL := not server and not browser and not processes
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist worksteal
test: ready
	$(PYTEST) -m '$(SMALL)' $(ARGS)

# Everything: for Mosquitto, PostgreSQL, Chromium and a C compiler see .ci/run.
test-all: ready
	$(PYTEST) $(ARGS)

# The engine with its indices checked, which compiled code does not do by itself. It is compiled once more, into a cache
# of its own: numba would take what is cached for the same.
test-bounds: export NUMBA_BOUNDSCHECK := 1
test-bounds: export NUMBA_CACHE_DIR := $(CURDIR)/$(VENV)/bounds
test-bounds: compile
	$(PYTEST) tests/model --ignore tests/model/test_compiling.py $(ARGS)

# Everything, and which lines it reaches; it fails below the floor in pyproject.toml, where one is set.
coverage: compile
	$(PYTEST) --cov --cov-report term $(ARGS)

# Side by side: in a new clone either takes a core for a minute.
ready: $(STAMP) $(DOCS)
	@$(MAKE) --no-print-directory --jobs 2 lint compile

# Before two processes would each compile the engine.
compile: $(STAMP)
	$(BIN)/$(PRECOMPILE)

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# The site of docs/, in site/; a broken link or anchor fails it. The tests build it too, the demo needs none of it.
docs: $(DOCS)
	$(BIN)/zensical build --strict $(ARGS)

# What the tutorial and its notebook print, and their pictures.
tutorial: $(STAMP)
	$(INSTALL) nbclient ipykernel
	$(BIN)/python benchmarks/build_tutorial.py

bench: $(STAMP)
	$(BIN)/python benchmarks/speed.py $(ARGS)

# An hour, by hand: memory, files, descriptors and delay of a service to which everything happens stay flat.
soak: $(STAMP)
	$(BIN)/python benchmarks/soak.py $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* .cache build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 16))' 2>/dev/null || { \
	  echo "sensormend needs Python 3.11 to 3.15; say which one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "Python's venv module is missing here; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  rm -rf $(VENV); exit 1; }

$(DEMO): pyproject.toml | $(BIN)/python
	@echo "Installing sensormend, its dashboard and matplotlib into $(VENV), once: about 40 packages, 650 MB."
	@$(INSTALL) numba numpy
	@# The engine is compiled while the rest is fetched: it needs no more.
	@PYTHONPATH=src $(BIN)/$(PRECOMPILE) & $(INSTALL) --editable '.[plot,web]' && wait
	@touch $@

$(STAMP): pyproject.toml | $(BIN)/python
	@echo "Installing sensormend, all that it can use and what tests it into $(VENV), once: about 140 packages, 1.3 GB."
	@# Earlier versions of pip know no dependency groups.
	@$(INSTALL) 'pip>=25.1'
	@$(INSTALL) --editable '.[all]' --group dev
	@touch $@

$(DOCS): $(STAMP)
	@echo "Installing what builds the documentation into $(VENV)."
	@$(INSTALL) --group docs
	@touch $@
