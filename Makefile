# make demo | test | lint | clean. Needs Python >= 3.11 and make; everything else goes into .venv.
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
E2E_LOG := .cache/end-to-end.log
SERVERS := $(wildcard tests/servers/install.py)

.PHONY: help demo test lint mutate clean distclean .test-units .test-end-to-end
.DELETE_ON_ERROR:

help:
	@echo "make demo         an agent answers a call, here, without keys or servers (ARGS=... go to: vivavoce demo)"
	@echo "make test         all tests with coverage; sets up what pip and Go modules can bring"
	@echo "make lint         ruff, mypy, import contracts"
	@echo "make mutate       mutation testing of agents/turn for an hour (ARGS='--minutes 20' for less)"
	@echo "make clean        remove caches, reports and builds; make distclean also .venv and downloaded test servers"

demo: .venv/.demo
	@$(BIN)/vivavoce demo $(ARGS)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=.paths $(BIN)/lint-imports

# Reports are printed for a failing run too.
test: .venv/.dev
	@$(if $(SERVERS),$(BIN)/python $(SERVERS) || [ "$${VIVAVOCE_TEST_ALL:-}" != 1 ])
	@rm -f .coverage .coverage.*
	@failed=; \
	$(MAKE) --no-print-directory --keep-going --jobs=2 .test-units .test-end-to-end || failed="$$failed tests"; \
	$(BIN)/coverage combine --quiet || failed="$$failed coverage-data"; \
	$(BIN)/coverage report --fail-under=90 || failed="$$failed coverage"; \
	$(BIN)/coverage report --include='agents/turn/*' --fail-under=100 || failed="$$failed coverage-of-agents/turn"; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed" >&2; exit 1; fi

# Side by side: calls in real rooms mostly wait for sound, everything else computes, and gives way to them.
.test-units:
	@VIVAVOCE_TRACED_SCENARIOS=1 nice -n 15 $(BIN)/coverage run $(BIN)/pytest --ignore=tests/e2e

.test-end-to-end:
	@echo "End-to-end tests run beside the others; so far: $(E2E_LOG)"
	@mkdir -p $(dir $(E2E_LOG)); $(BIN)/coverage run $(BIN)/pytest -p no:cacheprovider tests/e2e >$(E2E_LOG) 2>&1; \
	status=$$?; cat $(E2E_LOG); exit $$status

# By hand, on a quiet machine: nothing else needs its packages, so that dev does not bring them.
mutate: .venv/.dev
	@$(PIP) --editable '.[mutate]'
	@$(BIN)/python tests/mutation/mutate.py $(ARGS)

# Changed dependencies or a new plugin folder make a stamp stale; the next call installs again.
.venv/.demo: pyproject.toml setup.py plugins | $(BIN)/python
	@echo "Installing vivavoce[demo] into .venv (about a minute, once) ..."
	@$(PIP) --editable '.[demo]'
	@touch $@

.venv/.dev: pyproject.toml setup.py plugins | $(BIN)/python
	@echo "Installing vivavoce[dev] into .venv (about a minute, once) ..."
	@$(PIP) --editable '.[dev]'
	@$(PIP) --no-deps 'silero-vad>=6'    # its model file, for onnxruntime; the package itself would bring torch
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
