# make demo | test | lint | clean. Needs Python >= 3.11 and make; everything else goes into .venv.
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
LOGS := .cache/logs
SERVERS := $(wildcard tests/servers/install.py)

.PHONY: help demo test lint mutate reference clean distclean .test-demo .test-units .test-calls
.DELETE_ON_ERROR:

help:
	@echo "make demo         an agent answers a call, here, without keys or servers (ARGS=... go to: vivavoce demo)"
	@echo "make test         all tests with coverage; sets up what pip and Go modules can bring"
	@echo "make lint         ruff, mypy, import contracts"
	@echo "make reference    write docs/options.md, from what stands below each option in the source"
	@echo "make mutate       mutation testing of agents/turn for an hour (ARGS='--minutes 20' for less)"
	@echo "make clean        remove caches, reports and builds; make distclean also .venv and downloaded test servers"

demo: .venv/.demo
	@$(BIN)/vivavoce demo $(ARGS)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=.paths $(BIN)/lint-imports

reference: .venv/.dev
	@PYTHONPATH=.paths $(BIN)/python tests/docs/options_reference.py

# Reports are printed for a failing run too.
test: .venv/.dev
	@$(if $(SERVERS),$(BIN)/python $(SERVERS) || [ "$${VIVAVOCE_TEST_ALL:-}" != 1 ])
	@rm -f .coverage .coverage.*
	@failed=; \
	$(MAKE) --no-print-directory .test-demo || failed="$$failed demo"; \
	$(MAKE) --no-print-directory --keep-going --jobs=2 .test-calls .test-units || failed="$$failed tests"; \
	$(BIN)/coverage combine --quiet || failed="$$failed coverage-data"; \
	$(BIN)/coverage report --fail-under=90 || failed="$$failed coverage"; \
	$(BIN)/coverage report --include='agents/turn/*' --fail-under=100 || failed="$$failed coverage-of-agents/turn"; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed" >&2; exit 1; fi

# First and alone: whether what the caller felt is what the report says is judged to a few hundredths of a second.
DEMO := $(addprefix tests/e2e/,test_demo.py test_demo_telemetry.py test_report_page.py)

.test-demo:
	@$(CALLS) $(DEMO)

# Side by side. Calls are judged by the clock and mostly wait for sound: they have the machine when they want it, and
# run as they do for a user, without coverage; those with generous limits run with it. What computes runs in the idle
# class of the scheduler, in what they leave; a real-time test there would starve.
IDLE := $(if $(shell chrt --idle 0 echo can 2>/dev/null),chrt --idle 0,nice -n 19)
CALLS := $(BIN)/pytest -p no:cacheprovider --durations=15
COVERED := $(BIN)/coverage run $(CALLS)
GENEROUS := $(addprefix tests/e2e/,room/test_livekit_client.py room/test_server_api.py test_dev.py test_examples.py \
	test_livekit_microphone.py test_mcp_servers.py test_page.py test_page_codec.py test_page_problems.py test_telemetry.py \
	test_tools_and_mcp_example.py test_worker.py)

.test-units:
	@VIVAVOCE_TRACED_SCENARIOS=1 $(IDLE) $(COVERED) --timeout=120 tests --ignore=tests/e2e --ignore=tests/soak

.test-calls:
	@echo "Calls are held beside the other tests; so far: $(LOGS)/calls.log"
	@mkdir -p $(LOGS); failed=0; { $(CALLS) tests/soak || failed=1; \
	$(CALLS) tests/e2e $(addprefix --ignore=,$(DEMO) $(GENEROUS)) || failed=1; \
	$(COVERED) $(GENEROUS) || failed=1; } >$(LOGS)/calls.log 2>&1; \
	cat $(LOGS)/calls.log; exit $$failed

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
