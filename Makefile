# make demo | test | lint | clean. Needs Python >= 3.11 and make; everything else goes into .venv.
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
# The exact versions of everything that is installed here, the build's own requirements too (make lock writes the file).
VERSIONS := .ci/constraints.txt
PIP := PIP_CONSTRAINT=$(VERSIONS) PIP_BUILD_CONSTRAINT=$(VERSIONS) $(BIN)/python -m pip --disable-pip-version-check install --quiet
# pip takes 90 s and 80 s of CPU for the packages of the tests, uv a seventh of both; for those of the demo it is alike.
# uv reads no settings of pip, such as another index, and its own list of certificates lacks a company's.
UV := $(BIN)/uv pip install --system-certs --quiet --python $(BIN)/python --constraint $(VERSIONS) --build-constraint $(VERSIONS)
# Where there is no uv for this machine, or it cannot reach what pip reaches, pip installs.
INSTALL = { $(PIP) uv 2>/dev/null && $(UV) $(1); } || { echo "uv cannot install here: pip does, which takes longer ..." >&2; $(PIP) $(1); }
# The tests' own programs (tests/kit/suite). -P: this folder is no place for imports.
SUITE := PYTHONPATH=tests $(BIN)/python -P -m kit.suite

.PHONY: help dev demo test test-all test-newest times lint lock mutate reference clean distclean
.DELETE_ON_ERROR:

help:
	@echo "make demo         an agent answers a call, here, without keys or servers (ARGS=... go to: vivavoce demo)"
	@echo "make dev          install into .venv what the tests and linters need (one to two minutes, once)"
	@echo "make test         the tests that are quick and certain (ARGS='--lane rooms' runs one lane of them)"
	@echo "make test-all     every test: also real sound under load, browsers' faults, soak, and more draws of the laws"
	@echo "make times        where the time of the last runs went, side by side"
	@echo "make test-newest  the wires and units with the newest versions of all dependencies, and with the oldest allowed ones"
	@echo "make lock         write .ci/constraints.txt, the exact versions that are installed"
	@echo "make lint         ruff, mypy, import contracts"
	@echo "make reference    write docs/options.md, docs/events.md and docs/providers.md, from the source"
	@echo "make mutate       mutation testing of agents/turn for an hour (ARGS='--minutes 20' for less)"
	@echo "make clean        remove caches, reports and builds; make distclean also .venv and the records of test runs"

# What every command below needs, pytest and the linters too.
dev: .venv/.dev

demo: .venv/.demo
	@$(BIN)/vivavoce demo $(ARGS)

# Both install the tests' further programs first, into the user's cache.
test: .venv/.dev
	@$(SUITE).run test $(ARGS)

test-all: .venv/.dev
	@$(SUITE).run test-all $(ARGS)

times: .venv/.dev
	@$(SUITE).times $(ARGS)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=.paths $(BIN)/lint-imports

reference: .venv/.dev
	@PYTHONPATH=.paths $(BIN)/python tests/docs/options_reference.py
	@PYTHONPATH=.paths:tests $(BIN)/python tests/docs/events_reference.py
	@PYTHONPATH=.paths:tests $(BIN)/python tests/docs/providers_reference.py

# Without .venv/.dev: where a new bound of pyproject.toml contradicts the file, that cannot be installed.
lock: | $(BIN)/python
	@$(PIP) uv
	@$(SUITE).lock

# By hand, before an issue is resolved.
test-newest: | $(BIN)/python
	@$(PIP) uv
	@$(SUITE).versions $(ARGS)

# By hand, on a quiet machine: nothing else needs its packages, so dev does not contain them.
mutate: .venv/.dev
	@$(PIP) --editable '.[mutate]'
	@$(BIN)/python tests/mutation/mutate.py $(ARGS)

# Changed versions or a new plugin folder make a stamp stale; the next call installs again.
.venv/.demo: pyproject.toml setup.py plugins $(VERSIONS) | $(BIN)/python
	@echo "Installing vivavoce[demo] into .venv (half a minute, once) ..."
	@$(call INSTALL,--editable '.[demo]')
	@touch $@

.venv/.dev: pyproject.toml setup.py plugins $(VERSIONS) | $(BIN)/python
	@echo "Installing vivavoce[dev] into .venv (one to two minutes, once) ..."
	@$(call INSTALL,--editable '.[dev]')
	@$(call INSTALL,--no-deps silero-vad)    # its model file, for onnxruntime; the package itself would bring torch
	@touch $@ .venv/.demo

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "Need Python 3.11 or newer, found no $(PYTHON); install it, or say: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Need Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) --version 2>&1); say: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Making .venv with $$($(PYTHON) --version) ..."
	@rm -rf .venv
	@if $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv .venv; \
	elif $(PYTHON) -m pip --version >/dev/null 2>&1; then $(PYTHON) -m venv --without-pip .venv && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; \
	else echo "This Python comes without ensurepip and without pip; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; fi

clean:
	rm -rf build dist htmlcov *.egg-info .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find agents pipelines plugins tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .cache
