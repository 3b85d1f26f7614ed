# make demo | test | lint | clean. Needs Python >= 3.11 and make; everything else goes into .venv.
PYTHON ?= python3
ARGS ?=
# How often a failed test is tried again. CI gives 1: real sound on two busy cores garbles a word now and then. By hand
# none, so that a fault that shows now and then is seen.
RERUNS ?=
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
LOGS := .cache/logs
SERVERS := $(wildcard tests/kit/servers/install.py)

.PHONY: help demo test test-all lint mutate reference clean distclean
.PHONY: .servers .test-demo .test-agents .test-rest .test-programs .test-rooms .test-patient .test-pages
.DELETE_ON_ERROR:

help:
	@echo "make demo         an agent answers a call, here, without keys or servers (ARGS=... go to: vivavoce demo)"
	@echo "make test         all tests with coverage; installs their further programs by pip and Go modules"
	@echo "make test-all     make test, every test of a room on both servers, and more draws of the laws"
	@echo "make lint         ruff, mypy, import contracts"
	@echo "make reference    write docs/options.md and docs/events.md, from the docstrings in the source"
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
	@PYTHONPATH=.paths:tests $(BIN)/python tests/docs/events_reference.py

# Further programs of the tests.
.servers: .venv/.dev
	@$(if $(SERVERS),$(BIN)/python $(SERVERS) || [ "$${VIVAVOCE_TEST_ALL:-}" != 1 ])

# Reports are printed for a failing run too.
test: .venv/.dev .servers
	@rm -f .coverage .coverage.* $(FAILED)
	@mkdir -p $(LOGS)
	@failed=; \
	$(MAKE) --no-print-directory .test-demo || failed="$$failed demo"; \
	$(MAKE) --no-print-directory --jobs=4 .test-agents .test-rest .test-programs .test-rooms .test-patient .test-pages || failed="$$failed make"; \
	if [ -e $(FAILED) ]; then failed="$$failed $$(tr '\n' ' ' <$(FAILED))"; fi; \
	$(BIN)/coverage combine --quiet || failed="$$failed coverage-data"; \
	$(BIN)/coverage report --fail-under=90 || failed="$$failed coverage"; \
	$(BIN)/coverage report --include='agents/turn/*' --fail-under=100 || failed="$$failed coverage-of-agents/turn"; \
	if [ -n "$$failed" ]; then echo "make test: failed:$$failed" >&2; exit 1; fi

# First and alone: some compare the report with the caller's recording to a few hundredths of a second; a peer's agent
# answers slowly on a busy machine; and many calls and soak keep a core busy, which would disturb calls beside it.
DEMO := $(addprefix tests/e2e/,test_demo.py test_demo_telemetry.py test_report_page.py test_livekit_agents.py \
	test_many_calls.py)

.test-demo:
	@$(CALLS) $(DEMO) tests/soak

test-all: export VIVAVOCE_TEST_TWINS := 1
test-all: export VIVAVOCE_SOAK_SECONDS := 60
test-all: export VIVAVOCE_LAWS := 300
test-all: test

# Side by side. Calls are judged by the clock and mostly wait for sound: they have priority and run as for a user, without
# coverage, in two lanes. Tests with generous limits follow with coverage, browsers last. Tests that compute run in the
# idle class of the scheduler, in the remaining time; a real-time test there would starve. The second of their lanes begins
# when most calls are over: beside calls they keep one core busy, not both.
IDLE := $(if $(shell chrt --idle 0 echo can 2>/dev/null),chrt --idle 0,nice -n 19)
# -P: the script's folder is no place for imports.
PYTEST := tests/kit/run_pytest.py -p no:cacheprovider --durations=15 $(if $(RERUNS),--reruns $(RERUNS) --rerun-show-tracebacks)
CALLS := $(BIN)/python -P $(PYTEST)
COVERED := $(BIN)/python -P -m coverage run $(PYTEST)
UNITS := VIVAVOCE_TRACED_SCENARIOS=1 $(IDLE) $(COVERED) --timeout=120
E2E := tests/e2e
# Commands in processes of their own. This lane and the next take about as long as each other: 11 minutes.
# Tests of units that fork job processes: they starve in the idle class, and coverage would add to the processes' memory.
FORKED := $(addprefix tests/agents/worker/,executors/test_parcel.py executors/test_process_executor.py \
	test_job_processes_from_outside.py)
PROGRAMS := $(FORKED) $(wildcard $(addprefix $(E2E)/,test_call*.py test_connect.py test_demo_caller.py test_demo_life.py \
	test_dev_call.py test_dev_life.py test_examples_of_agents.py test_fallback_in_rooms.py test_job_server_access.py \
	test_job_types.py test_table_booking_example.py))
PAGES := $(wildcard $(addprefix $(E2E)/,room/test_livekit_client.py test_page*.py))
PATIENT := $(addprefix $(E2E)/,room/test_server_api.py test_dev.py test_examples.py test_healing.py \
	test_livekit_microphone.py test_mcp_servers.py test_telemetry.py test_tools_and_mcp_example.py test_worker.py)
# Deaths of processes: as patient, in the lane of the browsers, so that both ends of the run take as long.
DEATHS := $(addprefix $(E2E)/,test_crash_safety.py test_job_processes.py test_start.py)
FAILED := $(LOGS)/failed

# A lane: its name and its commands. Later lanes run even if it fails; its log is shown whole.
define lane
@echo "Beside the other tests: $(1); so far in $(LOGS)/$(1).log"
@$(2) >$(LOGS)/$(1).log 2>&1 || echo "$(1) (exit $$?)" >>$(FAILED)
@cat $(LOGS)/$(1).log
endef

.test-agents:
	$(call lane,agents,$(UNITS) tests/agents $(addprefix --ignore=,$(FORKED)))

.test-rest: .test-programs .test-rooms
	@$(UNITS) tests $(addprefix --ignore=,tests/agents $(E2E) tests/soak) || echo "rest (exit $$?)" >>$(FAILED)

.test-programs:
	$(call lane,programs,$(CALLS) $(PROGRAMS))

# All tests that no other lane names: rooms, transports, scenarios in rooms, the console.
.test-rooms:
	$(call lane,rooms,$(CALLS) $(E2E) $(addprefix --ignore=,$(DEMO) $(PROGRAMS) $(PATIENT) $(DEATHS) $(PAGES)))

.test-patient: .test-rooms
	$(call lane,patient,$(COVERED) $(PATIENT))

.test-pages: .test-programs .test-rooms
	$(call lane,pages,$(COVERED) $(PAGES) $(DEATHS))

# By hand, on a quiet machine: nothing else needs its packages, so dev does not contain them.
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
